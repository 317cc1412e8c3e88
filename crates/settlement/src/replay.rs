//! Replay: from the log of accepted transactions and the sequence to every balance. Recovery uses it; the
//! audit does not, on purpose.

use crate::accounts::AccountTable;
use crate::aliases::Aliases;
use crate::message::{AcceptedBatch, SequenceBatch, Source};
use crate::stage::updater::apply_order;
use std::collections::BTreeMap;
use std::sync::Arc;
use tally_crypto::log::Frontier;
use tally_ledger::order::{AccountAction, AccountOrder};
use tally_ledger::transaction::{Kind, Leg};
use tally_ledger::{AccountNumber, Network, ParticipantId, Timestamp};

/// The logs contradict themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// A sequenced decision is about a transaction that no log holds.
    #[error(
        "sequence number {sequence}: decides transaction {index} of {source_batch:?}, which was not accepted before it"
    )]
    NotAccepted {
        /// Of the first decision of the batch.
        sequence: u64,
        /// The accepted batch.
        source_batch: Source,
        /// The transaction in it.
        index: u32,
    },
    /// An accepted transaction is not one that this network would accept.
    #[error(
        "transaction {index} of {source_batch:?} is not one that this network would accept; is the configuration its own?"
    )]
    Foreign {
        /// The accepted batch.
        source_batch: Source,
        /// The transaction in it.
        index: u32,
    },
    /// The last tree head is not this network's: its operator signed none such for it.
    #[error(
        "the log's head of {size} records is not signed for this network by its operator; is the configuration its own?"
    )]
    ForeignHead {
        /// How many records the head is of.
        size: u64,
    },
    /// The journal ends before what a snapshot has: it is an older one, or its end was lost.
    #[error(
        "the journal ends before the balances that were saved beside it, which have {saved} of its records of {what}; it has \
         {journal}: an old journal beside newer snapshots would make again what it does not remember; restore both of one \
         moment, the snapshots before the journal"
    )]
    JournalBehind {
        /// Which of its records.
        what: &'static str,
        /// How many the snapshot has.
        saved: u64,
        /// How many the journal has.
        journal: u64,
    },
    /// The journal is another one than that of which a snapshot was taken.
    #[error(
        "the log of {size} records that follows from the saved balances and the journal is not the one that the journal's last \
         head is of: they are not of one history"
    )]
    OtherHistory {
        /// How many records the log has.
        size: u64,
    },
    /// A transaction has two outcomes.
    #[error("sequence number {sequence}: decides transaction {index} of {source_batch:?} a second time")]
    DecidedTwice {
        /// Of the first decision of the batch.
        sequence: u64,
        /// The accepted batch.
        source_batch: Source,
        /// The transaction in it.
        index: u32,
    },
    /// The sequence has a gap or goes back.
    #[error("the sequence goes on with number {found} where {expected} is next")]
    Gap {
        /// The number that is next.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// The Merkle log does not come to the root that the record states.
    #[error("sequence number {sequence}: the Merkle log's root or size is not the one stated")]
    WrongTree {
        /// Of the first decision of the batch.
        sequence: u64,
    },
    /// A transaction that was accepted cannot be applied.
    #[error("sequence number {sequence}: {what} on account {participant}/{account}")]
    NotApplicable {
        /// Of the decision.
        sequence: u64,
        /// What is wrong.
        what: &'static str,
        /// In whose partition.
        participant: u16,
        /// On which account.
        account: u32,
    },
}

/// An accepted batch with transactions that are not decided yet.
pub struct Undecided {
    /// The batch.
    pub accepted: Arc<AcceptedBatch>,
    /// Where each transaction's legs begin; one more at the end.
    legs: Vec<u32>,
    decided: Vec<bool>,
    left: usize,
}

impl Undecided {
    fn new(accepted: Arc<AcceptedBatch>) -> Self {
        let mut next = 0u32;
        let mut legs = Vec::with_capacity(accepted.batch.len() + 1);
        legs.push(0);
        for header in &accepted.batch.headers {
            next += u32::from(header.legs);
            legs.push(next);
        }
        let left = accepted.batch.len();
        Self { decided: vec![false; left], left, legs, accepted }
    }

    /// Whether the transaction at `index` is decided.
    pub fn is_decided(&self, index: u32) -> bool {
        self.decided.get(index as usize).copied().unwrap_or(false)
    }
    /// How many are not decided.
    pub fn left(&self) -> usize {
        self.left
    }
    /// The legs of the transaction at `index`.
    pub fn legs(&self, index: u32) -> &[Leg] {
        let at = index as usize;
        &self.accepted.batch.legs[self.legs[at] as usize..self.legs[at + 1] as usize]
    }
    /// The order of the transaction at `index`, if it is one.
    pub fn order(&self, index: u32) -> Option<&AccountOrder> {
        let headers = &self.accepted.batch.headers;
        let is_order = |kind: u8| kind == Kind::Account.number();
        if !is_order(headers.get(index as usize)?.kind) {
            return None;
        }
        let before = headers[..index as usize].iter().filter(|header| is_order(header.kind)).count();
        self.accepted.batch.orders.get(before)
    }
}

/// A partition as it is being rebuilt.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Balances.
    pub accounts: AccountTable,
    /// Directory.
    pub aliases: Aliases,
    /// Up to which sequence number each page of restored accounts already is; beyond them, all apply.
    pub(crate) pages: Vec<u64>,
    /// Up to which sequence number the institution's own accounts, owners and aliases already are.
    pub(crate) institution_from: u64,
    /// How many customers' accounts a snapshot restored.
    pub(crate) restored: u32,
}

/// Customers' accounts of one snapshot page; few in tests, so that small partitions have many pages.
pub const PAGE: usize = if cfg!(test) { 4 } else { 1 << 16 };

impl Partition {
    /// An empty partition.
    pub fn new(network: &Network, participant: ParticipantId) -> Self {
        Self {
            accounts: AccountTable::new(network, participant),
            aliases: Aliases::default(),
            pages: Vec::new(),
            institution_from: 0,
            restored: 0,
        }
    }

    /// Whether the snapshot holds what `sequence` does to the account.
    #[inline]
    fn holds(&self, number: AccountNumber, sequence: u64) -> bool {
        let from = if number.is_institution() {
            self.institution_from
        } else {
            self.pages
                .get(number.0 as usize / PAGE)
                .copied()
                .filter(|_| number.0 < self.restored)
                .unwrap_or(0)
        };
        sequence < from
    }
}

/// The state that the logs come to.
pub struct Replay {
    network: Arc<Network>,
    /// By participant.
    pub partitions: Vec<Partition>,
    /// Accepted and not wholly decided.
    pub undecided: BTreeMap<Source, Undecided>,
    /// The sequence number that is next.
    pub next: u64,
    /// The Merkle log up to there.
    pub tree: Frontier,
    /// The latest time in the logs.
    pub clock: Timestamp,
    /// Per scheduler, how many batches it accepted.
    pub accepted: Vec<u64>,
    /// Below this sequence number, effects may be in the snapshot already.
    pub(crate) snapshot_until: u64,
    /// The sequence number at which `tree` was taken: earlier records are in it.
    pub(crate) tree_from: u64,
}

impl Replay {
    /// From nothing.
    pub fn new(network: Arc<Network>) -> Self {
        let partitions = (0u16..)
            .map(ParticipantId)
            .take(network.participants.len())
            .map(|participant| Partition::new(&network, participant))
            .collect();
        Self {
            network,
            partitions,
            undecided: BTreeMap::new(),
            next: 0,
            tree: Frontier::new(),
            clock: Timestamp(0),
            accepted: Vec::new(),
            snapshot_until: 0,
            tree_from: 0,
        }
    }

    /// The network whose logs these are.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Takes the next accepted batch.
    pub fn accept(&mut self, source: Source, accepted: Arc<AcceptedBatch>) {
        self.clock = self.clock.max(accepted.accepted_at);
        let scheduler = usize::try_from(source.scheduler).expect("schedulers are few");
        if self.accepted.len() <= scheduler {
            self.accepted.resize(scheduler + 1, 0);
        }
        self.accepted[scheduler] = source.number + 1;
        self.undecided.insert(source, Undecided::new(accepted));
    }

    /// Takes the next sequenced batch. `seen` is shown every decision, before it is applied, with its
    /// sequence number, its transaction's place and its verdict.
    ///
    /// # Errors
    /// When the logs contradict themselves; the state is then of no use.
    pub fn sequence(
        &mut self,
        batch: &SequenceBatch,
        mut seen: impl FnMut(&[Partition], u64, &Undecided, u32, u16) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        self.clock = self.clock.max(batch.timestamp);
        let first = batch.first;
        if first >= self.tree_from {
            if first != self.next {
                return Err(ReplayError::Gap { expected: self.next, found: first });
            }
            self.next += u64::from(batch.count);
            self.tree.append(&batch.leaf_data());
            if self.tree.len() != batch.tree_size || self.tree.root() != batch.tree_root {
                return Err(ReplayError::WrongTree { sequence: first });
            }
        }
        let Some(mut source) = self.undecided.remove(&batch.source) else {
            // The snapshot starts after this batch was decided and applied everywhere.
            if first < self.snapshot_until {
                return Ok(());
            }
            return Err(ReplayError::NotAccepted { sequence: first, source_batch: batch.source, index: 0 });
        };
        const AHEAD: u32 = 32;
        let mut sequence = first;
        for run in &batch.runs {
            for offset in 0..u32::from(run.count) {
                let index = run.index + offset;
                match source.decided.get_mut(index as usize) {
                    Some(decided) if !*decided => *decided = true,
                    found => {
                        let (sequence, source_batch) = (first, batch.source);
                        return Err(match found {
                            None => ReplayError::NotAccepted { sequence, source_batch, index },
                            Some(_) => ReplayError::DecidedTwice { sequence, source_batch, index },
                        });
                    }
                }
                source.left -= 1;
                if offset % AHEAD == 0 {
                    self.touch(&source, index, AHEAD);
                }
                seen(&self.partitions, sequence, &source, index, run.verdict)?;
                if run.verdict == 0 {
                    self.apply(sequence, &source, index)?;
                }
                sequence += 1;
            }
        }
        if source.left > 0 {
            self.undecided.insert(batch.source, source);
        }
        Ok(())
    }

    fn touch(&self, source: &Undecided, index: u32, count: u32) {
        let end =
            (index + count).min(u32::try_from(source.accepted.batch.len()).expect("batches are bounded"));
        let legs = source.legs[index as usize] as usize..source.legs[end as usize] as usize;
        let legs = &source.accepted.batch.legs[legs];
        if let Some(first) = legs.first()
            && let Some(partition) = self.partitions.get(first.participant.index())
        {
            let same = legs.iter().filter(|leg| leg.participant == first.participant);
            partition.accounts.touch(same.map(|leg| leg.account));
        }
    }

    fn apply(&mut self, sequence: u64, source: &Undecided, index: u32) -> Result<(), ReplayError> {
        let held = sequence < self.snapshot_until;
        for leg in source.legs(index) {
            let wrong = |what| ReplayError::NotApplicable {
                sequence,
                what,
                participant: leg.participant.0,
                account: leg.account.0,
            };
            let partition = self.partitions.get_mut(leg.participant.index());
            let partition = partition.ok_or_else(|| wrong("a leg of an unknown participant"))?;
            if held && partition.holds(leg.account, sequence) {
                continue;
            }
            let account = partition.accounts.get_mut(leg.account);
            let account = account.ok_or_else(|| wrong("a payment"))?;
            let balance = account.balance.checked_add(leg.amount.0);
            account.balance = balance.ok_or_else(|| wrong("a balance out of range"))?;
        }
        if let Some(order) = source.order(index) {
            self.order(sequence, order)?;
        }
        Ok(())
    }

    fn order(&mut self, sequence: u64, order: &AccountOrder) -> Result<(), ReplayError> {
        let wrong = |what| ReplayError::NotApplicable {
            sequence,
            what,
            participant: order.participant.0,
            account: order.number.0,
        };
        let partition = self.partitions.get_mut(order.participant.index());
        let partition = partition.ok_or_else(|| wrong("an order for an unknown participant"))?;
        let next = partition.accounts.customers();
        match &order.action {
            AccountAction::Open { count, .. } => {
                if order.number.0.checked_add(*count).is_some_and(|end| end <= partition.restored) {
                    return Ok(());
                }
                if order.number.0 != next {
                    return Err(wrong("an opening out of order"));
                }
            }
            _ if order.number.0 >= next => return Err(wrong("an order")),
            // A later order that the snapshot holds may be on a batch that is not replayed.
            _ if sequence < self.snapshot_until && partition.holds(order.number, sequence) => return Ok(()),
            _ => {}
        }
        apply_order(&mut partition.accounts, &mut partition.aliases, order);
        Ok(())
    }
}
