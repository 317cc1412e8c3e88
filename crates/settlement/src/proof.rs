//! Proofs: how what a journal holds becomes what others check offline ([`tally_proof`]).
//!
//! A transaction and its outcome are found by reading the journal from its beginning, since only the whole log has the
//! Merkle tree; approvals come from wherever they are kept or can be given again.

use crate::journal::{Entry, JournalError};
use crate::message::{AcceptedBatch, ApprovalBatch, ApprovalSigner, SequenceBatch, Source, sequence_leaf};
use crate::recent::Reference;
use crate::stage::scheduler;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tally_crypto::log::{LogHash, MerkleLog};
use tally_crypto::{Hash, Signature, SigningKey, merkle};
use tally_ledger::batch::{Hashed, Hasher};
use tally_ledger::{Network, NetworkId, ParticipantId, Transaction, TransactionBatch, TransactionId, Uetr};
use tally_log::Ticket;
use tally_proof::approval::About;
use tally_proof::{Approval, Consistency, Contents, Proof, Receipt};

/// Which transaction is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The last one with that end-to-end reference.
    Uetr(Uetr),
    /// The one with that id.
    Id(TransactionId),
    /// The last one with that end-to-end reference in which the institution has a part: it has a leg or the order there.
    /// One that has the institution's own [reference](Reference) comes before another's of about the same time, since others
    /// choose references too.
    Concerning(ParticipantId, Uetr),
    /// The last one whose reference is that institution's.
    Of(Reference),
}

/// A text that names no transaction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' names no transaction: a UETR (a UUID) or a transaction id (64 hexadecimal digits) is wanted")]
pub struct NotWanted(pub String);

impl FromStr for Wanted {
    type Err = NotWanted;

    fn from_str(text: &str) -> Result<Self, NotWanted> {
        let uetr = text.parse().map(Self::Uetr).ok();
        let id = || text.parse().map(Self::Id).ok();
        uetr.or_else(id).ok_or_else(|| NotWanted(text.chars().take(80).collect()))
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uetr(uetr) | Self::Concerning(_, uetr) | Self::Of(Reference { uetr, .. }) => uetr.fmt(f),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// A transaction that has an outcome, as the journal has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its place and verdict, under the latest head of the log.
    pub receipt: Receipt,
    /// The whole of it.
    pub transaction: Transaction,
    /// The batch in which it was accepted.
    pub source: Source,
    /// How many transactions that batch has.
    pub source_len: u32,
    /// Which of them it is.
    pub index: u32,
}

/// An accepted batch that has a transaction that may be the one.
struct Candidate {
    index: u32,
    ids: Vec<TransactionId>,
    batch: Arc<AcceptedBatch>,
}

/// Finds a transaction in accepted batches; keeps its buffers.
pub(crate) struct Search {
    wanted: Wanted,
    hasher: Hasher,
    hashed: Hashed,
}

impl Search {
    pub(crate) fn new(network: &NetworkId, wanted: Wanted) -> Self {
        Self { wanted, hasher: Hasher::new(network), hashed: Hashed::default() }
    }

    /// Its last position in the batch, if the batch has it: what nobody authorised can come again at once, and what
    /// comes last counts.
    pub(crate) fn index(&mut self, batch: &TransactionBatch) -> Option<u32> {
        let position = match self.wanted {
            Wanted::Uetr(uetr) => batch.headers.iter().rposition(|header| header.uetr == uetr),
            Wanted::Id(wanted) => self.ids(batch).iter().rposition(|id| *id == wanted),
            Wanted::Of(reference) => of_institution(batch, reference),
            Wanted::Concerning(participant, uetr) => of_institution(batch, Reference { participant, uetr })
                .or_else(|| with_uetr(batch, uetr).filter(|at| has_part(batch, *at, participant)).last()),
        };
        u32::try_from(position?).ok()
    }

    /// Whether the transaction at `index`, which has the reference that is wanted, is one that is meant.
    pub(crate) fn is_meant(&self, batch: &TransactionBatch, index: u32) -> bool {
        match self.wanted {
            Wanted::Concerning(participant, _) => has_part(batch, index as usize, participant),
            Wanted::Uetr(_) | Wanted::Id(_) | Wanted::Of(_) => true,
        }
    }

    /// Whether the transaction at `index` has the reference that is wanted as its institution's own.
    pub(crate) fn is_own(&self, batch: &TransactionBatch, index: u32) -> bool {
        match self.wanted {
            Wanted::Concerning(participant, uetr) => {
                of_institution(batch, Reference { participant, uetr }) == Some(index as usize)
            }
            Wanted::Uetr(_) | Wanted::Id(_) | Wanted::Of(_) => true,
        }
    }

    fn ids(&mut self, batch: &TransactionBatch) -> &[TransactionId] {
        self.hasher.hash(batch, &mut self.hashed);
        &self.hashed.ids
    }

    fn candidate(&mut self, batch: &Arc<AcceptedBatch>) -> Option<Candidate> {
        let index = self.index(&batch.batch)?;
        Some(Candidate { index, ids: self.ids(&batch.batch).to_vec(), batch: Arc::clone(batch) })
    }
}

/// Where the transactions with that reference are, whose ever it is.
fn with_uetr(batch: &TransactionBatch, uetr: Uetr) -> impl Iterator<Item = usize> + '_ {
    let headers = batch.headers.iter().enumerate();
    headers.filter(move |(_, header)| header.uetr == uetr).map(|(at, _)| at)
}

fn of_institution(batch: &TransactionBatch, wanted: Reference) -> Option<usize> {
    // Few batches have the reference at all.
    with_uetr(batch, wanted.uetr).next()?;
    let all: Vec<_> = scheduler::references(batch).collect();
    all.iter().rposition(|reference| *reference == wanted)
}

fn has_part(batch: &TransactionBatch, at: usize, participant: ParticipantId) -> bool {
    let Some(transaction) = batch.transaction(at) else { return false };
    let order = transaction.order.as_ref().map(|order| order.participant);
    transaction.legs.iter().map(|leg| leg.participant).chain(order).any(|one| one == participant)
}

/// The transaction that is wanted, with its receipt under the latest head of the log; none while it is not
/// sequenced. `entries` are the journal of `network` from its beginning.
///
/// No more than the first `until` records of the sequence are read, and the head is the last of these.
///
/// # Errors
/// When the journal cannot be read.
pub fn find(
    entries: impl Iterator<Item = Result<(Ticket, Entry), JournalError>>,
    network: &NetworkId,
    wanted: Wanted,
    until: u64,
) -> Result<Option<Found>, JournalError> {
    let mut tree = MerkleLog::new();
    let mut head = None;
    let mut search = Search::new(network, wanted);
    let mut candidates: HashMap<Source, Candidate> = HashMap::new();
    let mut found: Option<Found> = None;
    for entry in entries {
        if tree.len() >= until {
            break;
        }
        match entry?.1 {
            Entry::Accepted(source, batch) => {
                candidates.extend(search.candidate(&batch).map(|candidate| (source, candidate)));
            }
            Entry::Sequenced(_, batch) => {
                let leaf = tree.append(&batch.leaf_data());
                head = Some(batch.tree_head());
                if let Some(candidate) = candidates.get(&batch.source)
                    && let Some(decided) = decided(&batch, candidate, leaf)
                {
                    found = Some(decided);
                }
            }
        }
    }
    let (Some(mut found), Some(head)) = (found, head) else { return Ok(None) };
    let Ok(path) = tree.inclusion_proof(found.receipt.leaf, tree.len()) else { return Ok(None) };
    found.receipt.tree_path = hashes(path);
    found.receipt.head = head;
    Ok(Some(found))
}

fn hashes(path: Vec<LogHash>) -> Vec<Hash> {
    path.into_iter().map(Hash::from_bytes).collect()
}

/// The candidate under the head of its own batch, without the path there, if the batch decides it.
fn decided(batch: &SequenceBatch, candidate: &Candidate, leaf: u64) -> Option<Found> {
    let Candidate { index, ids, batch: accepted } = candidate;
    let decisions: Vec<(u32, u16)> = batch.decisions().collect();
    let position = decisions.iter().position(|(decided, _)| decided == index)?;
    let leaves: Option<Vec<Hash>> = decisions
        .iter()
        .zip(batch.first..)
        .map(|((decided, verdict), sequence)| {
            Some(sequence_leaf(ids.get(*decided as usize)?, sequence, *verdict))
        })
        .collect();
    let receipt = Receipt {
        id: *ids.get(*index as usize)?,
        sequence: batch.first + position as u64,
        verdict: decisions[position].1,
        first: batch.first,
        count: batch.count,
        scheduler: batch.source.scheduler,
        batch: batch.source.number,
        timestamp: batch.timestamp,
        decision_path: merkle::path(&leaves?, position)?,
        root: batch.root,
        leaf,
        tree_path: Vec::new(),
        head: batch.tree_head(),
        cosignatures: Vec::new(),
    };
    Some(Found {
        receipt,
        transaction: accepted.batch.transaction(*index as usize)?,
        source: batch.source,
        source_len: u32::try_from(accepted.batch.len()).ok()?,
        index: *index,
    })
}

impl Found {
    /// Whether it was made.
    pub fn is_settled(&self) -> bool {
        self.receipt.verdict == 0
    }

    /// The participants that had to answer, ascending.
    pub fn concerned(&self) -> Vec<ParticipantId> {
        self.transaction.participants()
    }

    /// The proof, which shows the legs of those participants. `approval` is asked for the answer of each participant
    /// concerned; what would not verify is not handed out, and is missing where an approval is needed.
    pub fn proof(
        &self,
        network: &Network,
        shown: &[ParticipantId],
        mut approval: impl FnMut(ParticipantId) -> Option<Approval>,
    ) -> Proof {
        let about = About {
            network: network.id,
            id: self.receipt.id,
            scheduler: self.receipt.scheduler,
            batch: self.receipt.batch,
        };
        let (mut approvals, mut missing) = (Vec::new(), Vec::new());
        for participant in self.concerned() {
            let key = network.participants.get(participant.index()).map(|participant| participant.key);
            let holds = |approval: &Approval| {
                approval.participant == participant
                    && key.is_some_and(|key| approval.verify(&about, &key).is_ok())
            };
            match approval(participant).filter(holds) {
                Some(approval) => approvals.push(approval),
                None if self.is_settled() => missing.push(participant),
                None => {}
            }
        }
        Proof {
            version: tally_proof::proof::VERSION,
            transaction: Contents::of(network.id, &self.transaction, |leg| shown.contains(&leg.participant)),
            receipt: self.receipt.clone(),
            approvals,
            missing,
        }
    }

    /// A participant's approval, given again by the holder of its key: a batch of this one answer. Only for what is
    /// settled, which everybody concerned has approved; what was shown to the participant is hashed again.
    ///
    /// Ed25519 is deterministic (RFC 8032 section 5.1.6): whoever asks twice gets the same bytes.
    pub(crate) fn approve_again(
        &self,
        network: &NetworkId,
        participant: ParticipantId,
        key: &SigningKey,
    ) -> Option<Approval> {
        if !self.is_settled() || self.transaction.id(network) != self.receipt.id {
            return None;
        }
        let mut batch = ApprovalBatch {
            source: self.source,
            source_len: self.source_len,
            participant,
            indices: vec![self.index],
            ids: vec![self.receipt.id],
            verdicts: vec![0],
            leaves: Vec::new(),
            signature: Signature::from_bytes([0; 64]),
        };
        ApprovalSigner::new(*network).sign(&mut batch, key);
        batch.approval(0)
    }

    /// Its answer in a batch of answers, if the batch has one.
    pub(crate) fn answer_in(&self, batch: &ApprovalBatch) -> Option<Approval> {
        let item = batch.indices.binary_search(&self.index).ok()?;
        (batch.source == self.source && batch.ids.get(item) == Some(&self.receipt.id))
            .then(|| batch.approval(item))?
    }
}

/// Proof that the log of `second` records extends that of `first` records, which is at least one; none while the log
/// is shorter, or where `first` is the larger one. `sequence` is the sequence from its beginning.
///
/// # Errors
/// When the sequence cannot be read.
pub fn consistency(
    sequence: impl Iterator<Item = Result<SequenceBatch, JournalError>>,
    first: u64,
    second: u64,
) -> Result<Option<Consistency>, JournalError> {
    if first == 0 || first > second {
        return Ok(None);
    }
    let mut tree = MerkleLog::new();
    let mut earlier = None;
    for batch in sequence {
        let batch = batch?;
        tree.append(&batch.leaf_data());
        if tree.len() == first {
            earlier = Some(batch.tree_head());
        }
        if tree.len() == second {
            let Some(first_head) = earlier else { return Ok(None) };
            let Ok(path) = tree.consistency_proof(first, second) else { return Ok(None) };
            return Ok(Some(Consistency {
                first: first_head,
                second: batch.tree_head(),
                path: hashes(path),
                first_cosignatures: Vec::new(),
                second_cosignatures: Vec::new(),
            }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_named_by_reference_or_id() {
        let uetr = "97ed4827-7b6f-4491-a06f-b548d5a7512d";
        assert_eq!(uetr.parse(), Ok(Wanted::Uetr(uetr.parse().unwrap())));
        let id = tally_crypto::hash(b"a transaction");
        assert_eq!(id.to_string().parse(), Ok(Wanted::Id(id)));
        assert_eq!(Wanted::Id(id).to_string(), id.to_string());
        for wrong in ["", "97ed4827", &id.to_string()[1..]] {
            assert_eq!(wrong.parse::<Wanted>(), Err(NotWanted(wrong.to_owned())));
        }
    }
}
