//! Who agreed to what one participant is asked: the signatures of the others, as the operator shows them.
//!
//! A transaction of several participants is made when all of them agreed. Who applies it, or lets what it brings be spent,
//! verifies that itself: the operator's sequence says in which order, not whether.

use crate::message::{ConsentBatch, ProposalBatch, SequenceBatch, Source};
use std::collections::HashMap;
use std::sync::Arc;
use tally_crypto::Hash;
use tally_ledger::batch::Hasher;
use tally_ledger::{Network, NetworkId, ParticipantId};

/// What the other participants of one participant's transactions agreed to, of accepted batches that are not wholly decided.
pub struct Agreements {
    network: Arc<Network>,
    participant: ParticipantId,
    ids: ProposalHasher,
    open: HashMap<Source, Open>,
    /// What was shown before the proposals that it is about.
    early: HashMap<Source, Vec<Arc<ConsentBatch>>>,
}

/// An accepted batch with transactions that concern others as well.
struct Open {
    proposals: Arc<ProposalBatch>,
    ids: Vec<Hash>,
    /// Where the participants of each transaction begin in the proposals' column, and the end of the last.
    firsts: Vec<u32>,
    /// By place in that column, who agreed.
    agreed: Vec<bool>,
    /// By transaction, how many others have not agreed.
    missing: Vec<u8>,
}

impl Agreements {
    /// Nothing is proposed to `participant`, and nothing shown.
    pub fn new(network: Arc<Network>, participant: ParticipantId) -> Self {
        let ids = ProposalHasher::new(&network.id);
        Self { network, participant, ids, open: HashMap::new(), early: HashMap::new() }
    }

    /// Learns what the participant is asked. What names another participant is not its own, whatever it lies among.
    pub fn propose(&mut self, proposals: &Arc<ProposalBatch>) {
        if proposals.participant != self.participant {
            return;
        }
        let source = proposals.source;
        let early = self.early.remove(&source).unwrap_or_default();
        if self.open.contains_key(&source) || proposals.headers.iter().all(|header| header.participants < 2) {
            return;
        }
        let mut firsts = vec![0];
        let mut missing = Vec::with_capacity(proposals.len());
        for proposal in proposals.iter() {
            firsts.push(firsts[missing.len()] + u32::from(proposal.header.participants));
            let others = proposal.participants.iter().filter(|other| **other != self.participant);
            missing.push(u8::try_from(others.count()).expect("a header counts its participants in a byte"));
        }
        let ids = self.ids.ids(proposals);
        let agreed = vec![false; proposals.participants.len()];
        let proposals = Arc::clone(proposals);
        self.open.insert(source, Open { proposals, ids, firsts, agreed, missing });
        for consents in early {
            self.show(&consents);
        }
    }

    /// Learns what another participant agreed to. What that one did not sign, or does not concern it, changes nothing.
    pub fn show(&mut self, consents: &Arc<ConsentBatch>) {
        let Some(open) = self.open.get_mut(&consents.source) else {
            self.early.entry(consents.source).or_default().push(Arc::clone(consents));
            return;
        };
        let Some(other) = self.network.participants.get(consents.participant.index()) else { return };
        if consents.participant == self.participant || consents.source_len != open.proposals.source_len {
            return;
        }
        let id = |index| open.proposals.position(index).map(|item| open.ids[item]);
        if !consents.verifies(&self.network.id, &other.key, id) {
            return;
        }
        for index in &consents.indices {
            let Some(item) = open.proposals.position(*index) else { continue };
            let places = open.firsts[item] as usize..open.firsts[item + 1] as usize;
            let mut concerned = open.proposals.participants[places.clone()].iter();
            let Some(at) = concerned.position(|of| *of == consents.participant) else { continue };
            if !std::mem::replace(&mut open.agreed[places.start + at], true) {
                open.missing[item] -= 1;
            }
        }
    }

    /// The first transaction that a record of the sequence makes without all others' consent, as far as it was shown, and one
    /// of those others. The proposals of its batch have come.
    pub fn lacks(&self, batch: &SequenceBatch) -> Option<(u32, ParticipantId)> {
        let open = self.open.get(&batch.source)?;
        let made = batch.runs.iter().filter(|run| run.verdict == 0);
        let mut made = made.flat_map(|run| run.index..run.index + u32::from(run.count));
        made.find_map(|index| {
            let item = open.proposals.position(index).filter(|item| open.missing[*item] > 0)?;
            let places = open.firsts[item] as usize..open.firsts[item + 1] as usize;
            let concerned = &open.proposals.participants[places.clone()];
            let mut others = concerned.iter().zip(&open.agreed[places]);
            let (other, _) = others.find(|(other, agreed)| !**agreed && **other != self.participant)?;
            Some((index, *other))
        })
    }

    /// Forgets a batch that is wholly decided.
    pub fn forget(&mut self, source: Source) {
        self.open.remove(&source);
        self.early.remove(&source);
    }

    /// The name of a participant.
    pub fn bic(&self, participant: ParticipantId) -> &str {
        self.network.participants.get(participant.index()).map_or("?", |participant| &participant.bic)
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.early.is_empty()
    }
}

/// Recomputes the ids of transactions from what a participant is shown of them; keeps its buffers.
pub(crate) struct ProposalHasher {
    hasher: Hasher,
    leg_hashes: Vec<Hash>,
    all_hashes: Vec<Hash>,
}

impl ProposalHasher {
    pub(crate) fn new(network: &NetworkId) -> Self {
        Self { hasher: Hasher::new(network), leg_hashes: Vec::new(), all_hashes: Vec::new() }
    }

    /// The ids, in order: an approval is for what the participant was shown and nothing else.
    pub(crate) fn ids(&mut self, batch: &ProposalBatch) -> Vec<Hash> {
        let legs = batch.legs.iter().zip(&batch.salts).zip(&batch.positions);
        self.hasher.legs(
            legs.map(|((leg, salt), position)| (leg, salt.as_slice(), *position)),
            &mut self.leg_hashes,
        );
        let mut ids = Vec::new();
        if batch.hidden.is_empty() {
            self.hasher.ids(&batch.headers, &batch.participants, &self.leg_hashes, &mut ids);
            return ids;
        }
        self.all_hashes.clear();
        for proposal in batch.iter() {
            let mut hidden = proposal.hidden.iter();
            let mut shown = (proposal.first_leg..).zip(proposal.positions).peekable();
            for position in 0..proposal.header.legs {
                let hash = match shown.next_if(|(_, at)| **at == position) {
                    Some((leg, _)) => Some(&self.leg_hashes[leg]),
                    None => hidden.next(),
                };
                self.all_hashes.push(hash.copied().unwrap_or(Hash::ZERO));
            }
        }
        self.hasher.ids(&batch.headers, &batch.participants, &self.all_hashes, &mut ids);
        ids
    }
}
