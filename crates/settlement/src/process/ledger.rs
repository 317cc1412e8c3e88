//! A participant's balances, recovered from its last snapshot and what came after.

use super::layout::{Bindings, Layout};
use super::shard::{Opened, ShardError};
use super::snapshot;
use crate::runtime::executor::Stage;
use crate::runtime::feed::{Cursor, Feeds};
use crate::runtime::shell::UpdaterShell;
use crate::runtime::topic::Reader;
use crate::runtime::under_way::UnderWay;
use crate::stage::Updater;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use tally_ledger::{Network, ParticipantId, Timestamp};
use tally_log::TopicId;

/// The partitions that a ledger is read from.
pub(super) struct LedgerTopics {
    pub(super) proposals: Vec<TopicId>,
    pub(super) sequence: TopicId,
    pub(super) snapshots: TopicId,
}

impl LedgerTopics {
    pub(super) fn bind(
        bindings: &mut Bindings,
        layout: &Layout,
        participant: ParticipantId,
        writes_snapshots: bool,
    ) -> Self {
        let proposals =
            (0..layout.schedulers).map(|s| bindings.reads(layout.proposals(participant, s))).collect();
        let sequence = bindings.reads(layout.sequence());
        let partition = layout.snapshots(participant);
        let snapshots = if writes_snapshots { bindings.writes(partition) } else { bindings.reads(partition) };
        Self { proposals, sequence, snapshots }
    }
}

/// An updater that goes on from its last snapshot.
pub(super) struct Ledger {
    pub(super) shell: UpdaterShell,
    pub(super) proposals: Vec<Cursor>,
    pub(super) sequence: Cursor,
    /// Where the last complete snapshot lies.
    pub(super) snapshot: Option<snapshot::Extent>,
}

impl Ledger {
    pub(super) fn recover(
        opened: &Opened,
        topics: &LedgerTopics,
        network: &Arc<Network>,
        participant: ParticipantId,
    ) -> Result<Self, ShardError> {
        let found = snapshot::load(opened, topics.snapshots, network, participant)?;
        let position = found.position;
        let mut updater = Updater::new(found.partition.accounts, found.partition.aliases, position.applied);
        updater.recover(position.progress);
        let sequence = Cursor::new(position.sequence);
        let from = |at: usize| position.proposals.get(at).copied().unwrap_or(0);
        let (asked, proposals) = opened.follow(&topics.proposals, from, None);
        let of_sequence = [(topics.sequence, opened.partition(topics.sequence), sequence.clone())];
        let shell = UpdaterShell {
            bic: network.participants[participant.index()].bic.clone(),
            applied: Arc::new(AtomicU64::new(updater.applied())),
            state: Arc::new(Mutex::new(updater)),
            proposals: asked,
            sequence: Reader::shared(Feeds::new(Arc::clone(&opened.log), of_sequence, None)),
            held: None,
            under_way: UnderWay::default(),
        };
        Ok(Self { shell, proposals, sequence, snapshot: found.extent })
    }

    /// Goes on at least to the record `sequence` of the sequence and to those of each scheduler's `proposals`.
    pub(super) fn advance(
        &mut self,
        opened: &Opened,
        sequence: u64,
        proposals: &[u64],
    ) -> Result<(), ShardError> {
        opened.until(|| {
            while self.sequence.next() < sequence || self.shell.held.is_some() {
                if !self.shell.poll(Timestamp(0))? {
                    return Ok(false);
                }
            }
            self.shell.drain()?;
            let there = |(cursor, wanted): (&Cursor, &u64)| cursor.next() >= *wanted;
            Ok(self.proposals.iter().zip(proposals).all(there))
        })
    }

    /// Where it stands.
    pub(super) fn position(&self) -> snapshot::Position {
        let state = self.shell.state.lock().expect("no step panics and goes on");
        // A decision that is held is not applied.
        let held = u64::from(self.shell.held.is_some());
        let cursors = (0u16..).zip(&self.proposals);
        snapshot::Position {
            sequence: self.sequence.next() - held,
            applied: state.applied(),
            proposals: cursors.map(|(feed, cursor)| self.shell.under_way.low(feed, cursor.next())).collect(),
            progress: state.progress(),
        }
    }
}
