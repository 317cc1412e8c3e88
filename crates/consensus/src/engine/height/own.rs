//! What this node has signed in the current round.

use alloy_primitives::B256;

use crate::engine::record::{Prepared, Record};
use crate::message::{Packet, RoundChange, View};

/// Messages of this node in its current round: at most one of each kind.
#[derive(Debug, Default)]
pub(super) struct Own {
    view: Option<View>,
    /// Whether the host was asked for a block.
    pub(super) building: bool,
    /// The round changes that let this node propose.
    pub(super) evidence: Vec<RoundChange>,
    proposed: Option<B256>,
    prepare: Option<B256>,
    commit: Option<B256>,
    proposal_packet: Option<Packet>,
    change_packet: Option<Packet>,
    prepare_packet: Option<Packet>,
    commit_packet: Option<Packet>,
    unsent: Vec<Packet>,
}

impl Own {
    /// Nothing is signed yet in `view`, unless it is the round that was begun last.
    pub(super) fn begin(&mut self, view: View) {
        if self.view == Some(view) {
            return;
        }
        let unsent = std::mem::take(&mut self.unsent);
        *self = Self { view: Some(view), unsent, ..Self::default() };
    }

    /// What a record says was signed.
    pub(super) fn adopt(
        &mut self,
        view: View,
        proposed: Option<B256>,
        prepare: Option<B256>,
        commit: Option<B256>,
    ) {
        *self = Self { view: Some(view), proposed, prepare, commit, ..Self::default() };
    }

    pub(super) fn has_proposed(&self) -> bool {
        self.proposed.is_some()
    }

    pub(super) fn prepare_digest(&self) -> Option<B256> {
        self.prepare
    }

    pub(super) fn commit_digest(&self) -> Option<B256> {
        self.commit
    }

    pub(super) fn proposal(&mut self, digest: B256, packet: Packet) {
        self.proposed = Some(digest);
        self.unsent.push(packet.clone());
        self.proposal_packet = Some(packet);
    }

    pub(super) fn round_change(&mut self, packet: Packet) {
        self.unsent.push(packet.clone());
        self.change_packet = Some(packet);
    }

    pub(super) fn prepare(&mut self, digest: B256, packet: Packet) {
        self.prepare = Some(digest);
        self.unsent.push(packet.clone());
        self.prepare_packet = Some(packet);
    }

    pub(super) fn commit(&mut self, digest: B256, packet: Packet) {
        self.commit = Some(digest);
        self.unsent.push(packet.clone());
        self.commit_packet = Some(packet);
    }

    pub(super) fn proposal_packet(&self) -> Option<&Packet> {
        self.proposal_packet.as_ref()
    }

    /// All but the proposal.
    pub(super) fn votes(&self) -> impl Iterator<Item = &Packet> {
        [&self.change_packet, &self.prepare_packet, &self.commit_packet].into_iter().flatten()
    }

    pub(super) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.proposal_packet.iter().chain(self.votes())
    }

    pub(super) fn take_unsent(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.unsent)
    }

    pub(super) fn record(&self, view: View, prepared: Option<Prepared>) -> Record {
        Record { view, proposed: self.proposed, prepare: self.prepare, commit: self.commit, prepared }
    }
}
