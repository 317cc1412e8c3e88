//! How much of the operator's log so many witnesses have cosigned: an outcome is told when it is part of that.
//!
//! A cosignature counts once its head was compared with the sequence as this gateway reads it, whichever of the two comes
//! first. What a witness cosigned of records that are not read yet waits; a witness that is too far ahead is not read on
//! until the sequence has caught up.

use crate::message::{CosignatureBatch, CosignedHead, SequenceBatch};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tally_crypto::log::SignedTreeHead;
use tally_ledger::{Network, ParticipantId};
use tally_proof::evidence::TwoHeads;

/// Heads of the sequence as this gateway read it that are compared with what witnesses cosign; also how many heads of a
/// witness wait for theirs, at most and a record's more.
const COMPARED: usize = 1 << 14;

/// The witnesses of a network, and how far each has come.
pub(super) struct Witnesses {
    network: Arc<Network>,
    /// How many have to cosign a head.
    required: usize,
    /// By participant.
    witnesses: Vec<Witness>,
    /// Heads of the sequence as it was read here.
    heads: VecDeque<SignedTreeHead>,
}

#[derive(Default)]
struct Witness {
    /// The largest head that it cosigned and that is the one read here.
    size: u64,
    /// By size, what it cosigned of records that were not read yet.
    ahead: BTreeMap<u64, CosignedHead>,
    /// A record of heads that are further ahead than is kept.
    far: Option<Arc<CosignatureBatch>>,
}

/// A witness's word that does not count.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum WitnessFault {
    /// It names another participant than the one in whose topic it lies, or one that is no witness.
    #[error("participant {0:?} is no witness, or writes in another's name")]
    NotAWitness(ParticipantId),
    /// The cosignature is not the participant's.
    #[error("participant {0:?} did not cosign the head of {1} records that it states")]
    WrongSignature(ParticipantId, u64),
    /// It states another head than the one shown here, and the operator did not sign it.
    #[error("participant {0:?} cosigned a head of {1} records that the operator did not sign")]
    NotTheOperators(ParticipantId, u64),
    /// It states a head of more records than the log has.
    #[error("participant {0:?} cosigned a head of {1} records, and the log has fewer")]
    NotInTheLog(ParticipantId, u64),
    /// The witness was shown another history.
    #[error(
        "participant {participant:?} cosigned a head of {} records that is not the one shown here: the operator shows two \
         histories",
        .heads.first.head.size
    )]
    TwoHistories {
        /// Which witness.
        participant: ParticipantId,
        /// The head that is shown here and the one that the witness was shown, as the operator signed them.
        heads: Box<TwoHeads>,
    },
}

impl Witnesses {
    pub(super) fn new(network: &Arc<Network>, required: u8) -> Self {
        let witnesses = network.participants.iter().map(|_| Witness::default()).collect();
        Self { network: Arc::clone(network), required: required.into(), witnesses, heads: VecDeque::new() }
    }

    /// Learns of a record of the sequence; what of the cosignatures that waited for it does not count.
    pub(super) fn read(&mut self, batch: &SequenceBatch) -> Vec<WitnessFault> {
        if self.heads.len() >= COMPARED {
            self.heads.pop_front();
        }
        self.heads.push_back(batch.tree_head());
        let mut faults = Vec::new();
        for at in 0..self.witnesses.len() {
            let of = ParticipantId(u16::try_from(at).unwrap_or(u16::MAX));
            let within = self.newest().saturating_add(COMPARED as u64);
            let near =
                |far: &mut Arc<CosignatureBatch>| far.heads.last().is_none_or(|last| last.size <= within);
            if let Some(far) = self.witnesses[at].far.take_if(near) {
                self.witnesses[at].ahead.extend(far.heads.iter().map(|head| (head.size, *head)));
            }
            self.compare(of, &mut faults);
        }
        faults
    }

    /// Learns what a witness cosigned; what of it does not count.
    pub(super) fn hear(&mut self, of: ParticipantId, batch: &Arc<CosignatureBatch>) -> Vec<WitnessFault> {
        // The operator is no witness of itself.
        if batch.participant != of || of.index() == 0 || of.index() >= self.witnesses.len() {
            return vec![WitnessFault::NotAWitness(of)];
        }
        let Some(last) = batch.heads.last() else { return Vec::new() };
        // It promises by each head that it has checked those before it.
        if !self.is_cosigned(of, last) {
            return vec![WitnessFault::WrongSignature(of, last.size)];
        }
        let within = self.newest().saturating_add(COMPARED as u64);
        let witness = &mut self.witnesses[of.index()];
        if last.size > within {
            witness.far = Some(Arc::clone(batch));
            return Vec::new();
        }
        witness.ahead.extend(batch.heads.iter().map(|head| (head.size, *head)));
        let mut faults = Vec::new();
        self.compare(of, &mut faults);
        faults
    }

    /// Whether nothing more of a witness is to be read for the time being.
    pub(super) fn waits(&self, of: usize) -> bool {
        self.witnesses.get(of).is_some_and(|witness| witness.far.is_some() || witness.ahead.len() >= COMPARED)
    }

    /// Whether a witness has cosigned so much more than was read here that the log should be asked for its end.
    pub(super) fn is_any_far_ahead(&self) -> bool {
        self.witnesses.iter().any(|witness| witness.far.is_some())
    }

    /// Gives up what witnesses cosigned of more records than the `end` of the log.
    pub(super) fn give_up_beyond(&mut self, end: u64) -> Vec<WitnessFault> {
        let mut faults = Vec::new();
        for (at, witness) in (0u16..).zip(&mut self.witnesses) {
            let last = |far: &Arc<CosignatureBatch>| far.heads.last().map_or(0, |last| last.size);
            if let Some(far) = witness.far.take_if(|far| last(far) > end) {
                faults.push(WitnessFault::NotInTheLog(ParticipantId(at), last(&far)));
            }
        }
        faults
    }

    /// The size of the log, in records, that as many have cosigned as have to.
    pub(super) fn size(&self) -> u64 {
        let Some(at) = self.required.checked_sub(1) else { return u64::MAX };
        let mut sizes: Vec<u64> = self.witnesses.iter().map(|witness| witness.size).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        sizes.get(at).copied().unwrap_or(0)
    }

    fn newest(&self) -> u64 {
        self.heads.back().map_or(0, |newest| newest.head.size)
    }

    fn is_cosigned(&self, of: ParticipantId, head: &CosignedHead) -> bool {
        let witness = self.network.participants.get(of.index());
        witness.is_some_and(|witness| head.verify(&self.network.id, &witness.key))
    }

    /// Compares what a witness cosigned with what was read.
    fn compare(&mut self, of: ParticipantId, faults: &mut Vec<WitnessFault>) {
        let newest = self.newest();
        let witness = &mut self.witnesses[of.index()];
        let later = newest.checked_add(1).map_or_else(BTreeMap::new, |later| witness.ahead.split_off(&later));
        let compared = std::mem::replace(&mut witness.ahead, later);
        let mut same = None;
        for cosigned in compared.into_values() {
            // Those before the oldest that is at hand were compared, or cannot be any more: later ones count.
            let Some(read) = self.head(cosigned.size) else { continue };
            if read.head.root == cosigned.root {
                same = Some(cosigned);
                continue;
            }
            let shown = cosigned.head();
            let operator = self.network.participants.first().map(|operator| operator.key);
            if operator.is_some_and(|key| shown.verify(&self.network.id.0, &key).is_ok()) {
                let heads = Box::new(TwoHeads { first: *read, second: shown, leaf: None });
                faults.push(WitnessFault::TwoHistories { participant: of, heads });
            } else {
                // The witness made it up: that is its own lie, and stops nobody else.
                faults.push(WitnessFault::NotTheOperators(of, cosigned.size));
            }
        }
        let Some(same) = same.filter(|same| same.size > self.witnesses[of.index()].size) else { return };
        if self.is_cosigned(of, &same) {
            self.witnesses[of.index()].size = same.size;
        } else {
            faults.push(WitnessFault::WrongSignature(of, same.size));
        }
    }

    /// The head of that size as it was read here.
    fn head(&self, size: u64) -> Option<&SignedTreeHead> {
        let first = self.heads.front()?.head.size;
        let at = usize::try_from(size.checked_sub(first)?).ok()?;
        self.heads.get(at).filter(|head| head.head.size == size)
    }
}

#[cfg(test)]
mod tests;
