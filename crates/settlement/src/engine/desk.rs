//! The desk: where clients hand transactions in and ask about accounts.

use super::answer::{Expected, Mailbox};
use super::earlier::{self, Earlier};
use super::{Answer, EngineError, LOCK, MAX_WAITING, Outcome, Pending, Shared, VolumePort};
use crate::accounts::BALANCE_RANGE;
use crate::clerk::{Counts, Finality, Notice, Waiter};
use crate::journal::{self, SEQUENCE};
use crate::message::{AcceptedBatch, SequenceBatch, Source};
use crate::receipt::Receipt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tally_crypto::PublicKey;
use tally_crypto::log::SignedTreeHead;
use tally_ledger::{
    AccountId, AccountNumber, AccountRole, AccountStatus, Amount, AssetId, Network, ParticipantId, Refusal,
    Timestamp, Transaction, TransactionBatch, Uetr,
};
use tally_log::{LogError, Visibility};

/// An account as others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountView {
    /// Which.
    pub id: AccountId,
    /// What it holds.
    pub asset: AssetId,
    /// What it holds of it: durable.
    pub balance: Amount,
    /// Whether it takes part in payments.
    pub status: AccountStatus,
    /// How far below zero it may go.
    pub floor: Amount,
    /// Whose signature debits it; none for an institution's own.
    pub owner: Option<PublicKey>,
}

/// The sums of one participant's books in one asset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Total {
    /// Whose.
    pub participant: ParticipantId,
    /// In what.
    pub asset: AssetId,
    /// Open, frozen and closed customers' accounts.
    pub accounts: u64,
    /// What is on customers' accounts.
    pub customers: i128,
    /// The institution's own funds.
    pub own: i128,
    /// What it issued.
    pub issued: i128,
    /// What others hold at it on settlement accounts.
    pub settlement: i128,
}

/// One movement on an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Place in the one global order.
    pub sequence: u64,
    /// When.
    pub timestamp: Timestamp,
    /// By which transaction.
    pub uetr: Uetr,
    /// What it got.
    pub amount: Amount,
    /// What it held afterwards.
    pub balance: Amount,
}

/// The clients' side of a network, whoever runs its stages.
#[derive(Clone)]
pub struct Desk {
    pub(super) shared: Arc<Shared>,
}

impl Desk {
    /// Who takes part.
    pub fn network(&self) -> &Network {
        &self.shared.network
    }
    /// Hands transactions in; what becomes of them is told by [`Self::wait`].
    ///
    /// # Errors
    /// When the network has stopped, or too much waits already: nothing was handed in.
    pub fn submit(&self, transactions: Vec<Transaction>) -> Result<Pending, EngineError> {
        let expected = transactions.iter().map(|transaction| Expected {
            id: transaction.id(),
            uetr: transaction.header.uetr,
            expiry: transaction.header.expiry,
        });
        let (pending, mailbox) = Pending::new(expected.collect());
        let waiting: usize = self.shared.collectors.iter().map(|c| c.waiting.lock().expect(LOCK).len()).sum();
        if waiting + transactions.len() > MAX_WAITING {
            return Err(EngineError::Busy(waiting));
        }
        for (at, transaction) in transactions.into_iter().enumerate() {
            let mailbox = Mailbox::clone(&mailbox);
            let waiter: Waiter = Box::new(move |notice| mailbox.put(at, notice));
            let mut probe = TransactionBatch::default();
            if !probe.push(&transaction) {
                waiter(Notice::Refused(Refusal::Malformed));
                continue;
            }
            let collector = &self.shared.collectors[self.shared.route(&transaction.header.uetr)];
            collector.waiting.lock().expect(LOCK).push_back((transaction, waiter));
        }
        self.shared.signal.notify();
        Ok(pending)
    }

    /// What has become of `pending`, waiting for it at most so long. A transaction that was handed in
    /// before, to the letter, has the outcome that it had then, also when it has expired since: the journal is
    /// searched for it, one search at a time, and it is pending if there is no time for that.
    pub fn wait(&self, pending: &Pending, limit: Duration) -> Vec<Answer> {
        let deadline = std::time::Instant::now() + limit;
        let notices = pending.notices(deadline);
        let expected = pending.expected.iter();
        expected
            .zip(notices)
            .map(|(expected, notice)| {
                let Expected { id, uetr, .. } = *expected;
                let outcome = match notice {
                    None => Outcome::Pending,
                    Some(Notice::Refused(Refusal::Expired)) => self.before_expiry(expected, deadline),
                    Some(Notice::Refused(refusal)) => Outcome::Refused(refusal),
                    Some(Notice::Final(_, _, finality)) => Outcome::Final(finality),
                    Some(Notice::Duplicate(source, index)) => self.first_use(&id, source, index, deadline),
                };
                Answer { id, uetr, outcome }
            })
            .collect()
    }

    /// The outcome of a transaction that is refused now because it has expired: whoever sends it again because the
    /// answer was lost must not be told that it was never made.
    fn before_expiry(&self, expired: &Expected, deadline: std::time::Instant) -> Outcome {
        let found = {
            let _one_at_a_time = self.shared.search.lock().expect(LOCK);
            let longest = self.shared.network.longest_validity_ms;
            earlier::find(&self.shared.log, expired, longest, deadline)
        };
        match found {
            Ok(Earlier::Accepted(source, index)) => self.first_use(&expired.id, source, index, deadline),
            Ok(Earlier::Never) => Outcome::Refused(Refusal::Expired),
            Ok(Earlier::Unknown) | Err(_) => Outcome::Pending,
        }
    }

    /// The outcome of a transaction whose reference was used before. Nobody is told of a first use that a
    /// crash could still take back.
    fn first_use(
        &self,
        id: &tally_ledger::TransactionId,
        source: Source,
        index: u32,
        deadline: std::time::Instant,
    ) -> Outcome {
        let finality = self.finality(source, index).or_else(|| {
            let mailbox = Mailbox::new(1);
            let notified = mailbox.clone();
            self.shared.clerk().wait(source, index, Box::new(move |notice| notified.put(0, notice)));
            // It may have become final between the look and the wait.
            self.finality(source, index).or_else(|| match mailbox.wait(deadline).first() {
                Some(Some(Notice::Final(_, _, finality))) => Some(*finality),
                _ => None,
            })
        });
        let outcome = finality.map_or(Outcome::Pending, Outcome::Final);
        let first = match self.accepted(source, Visibility::Durable) {
            Ok(Some(batch)) => batch.batch.transaction(index as usize),
            Err(LogError::OutOfRange { .. }) => return Outcome::Duplicate { first: None },
            // Not durable yet, or not to be read at present.
            Ok(None) | Err(_) => None,
        };
        match first {
            None => Outcome::Pending,
            Some(first) if first.id() == *id => outcome,
            Some(first) => {
                let (id, uetr) = (first.id(), first.header.uetr);
                Outcome::Duplicate { first: Some(Box::new(Answer { id, uetr, outcome })) }
            }
        }
    }

    fn accepted(&self, source: Source, visibility: Visibility) -> Result<Option<AcceptedBatch>, LogError> {
        journal::record(&self.shared.log, journal::accepted(source.scheduler), source.number, visibility)
    }

    fn finality(&self, source: Source, index: u32) -> Option<Finality> {
        let positions = {
            let clerk = self.shared.clerk();
            match clerk.decided_at(source) {
                Some((positions, _)) => positions.to_vec(),
                None if clerk.has_forgotten(source) => {
                    drop(clerk);
                    return self.search(source, index);
                }
                None => return None,
            }
        };
        positions.into_iter().find_map(|position| {
            let batch: SequenceBatch =
                journal::record(&self.shared.log, SEQUENCE, position, Visibility::Durable).ok()??;
            crate::clerk::find(&batch, index)
        })
    }

    /// An outcome so old that nobody remembers where it lies; found by reading the sequence from when it was accepted.
    fn search(&self, source: Source, index: u32) -> Option<Finality> {
        let accepted = self.accepted(source, Visibility::Durable).ok()??;
        earlier::decision(&self.shared.log, source, index, accepted.accepted_at).ok()?
    }

    /// What became of the transaction with that reference: from memory while it is remembered, else
    /// by reading the journal from its beginning.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn status(&self, uetr: Uetr) -> Result<Option<Answer>, EngineError> {
        let scheduler = &self.shared.schedulers[self.shared.route(&uetr)];
        let found = scheduler.lock().expect(LOCK).find(&uetr, Timestamp(0));
        if let Some((source, index)) = found
            && let Ok(Some(batch)) = self.accepted(source, Visibility::Appended)
            && let Some(first) = batch.batch.transaction(index as usize)
        {
            let outcome = self.finality(source, index).map_or(Outcome::Pending, Outcome::Final);
            return Ok(Some(Answer { id: first.id(), uetr, outcome }));
        }
        let mut answer: Option<(Answer, Source, u32)> = None;
        for entry in journal::entries(&self.shared.log, tally_log::Ticket(0)) {
            match entry?.1 {
                journal::Entry::Accepted(source, batch) => {
                    let found = (0u32..).zip(&batch.batch.headers).find(|(_, header)| header.uetr == uetr);
                    if let Some((index, _)) = found
                        && let Some(transaction) = batch.batch.transaction(index as usize)
                    {
                        answer = Some((
                            Answer { id: transaction.id(), uetr, outcome: Outcome::Pending },
                            source,
                            index,
                        ));
                    }
                }
                journal::Entry::Sequenced(_, batch) => {
                    if let Some((answer, source, index)) = &mut answer
                        && batch.source == *source
                        && let Some(finality) = crate::clerk::find(&batch, *index)
                    {
                        answer.outcome = Outcome::Final(finality);
                    }
                }
            }
        }
        Ok(answer.map(|(answer, ..)| answer))
    }

    /// Proof of the outcome of the transaction with that reference; none while it has none. Found by
    /// reading the journal.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn receipt(&self, uetr: Uetr) -> Result<Option<Receipt>, EngineError> {
        crate::receipt::find(&self.shared.log, uetr).map_err(EngineError::Journal)
    }

    /// The account, if there is one.
    pub fn account(&self, id: AccountId) -> Option<AccountView> {
        let state = self.shared.updaters.get(id.participant.index())?.lock().expect(LOCK);
        let accounts = state.accounts();
        let account = accounts.get(id.number)?;
        let owner =
            matches!(id.number.role(), AccountRole::Customer).then(|| accounts.owner(account).copied());
        Some(AccountView {
            id,
            asset: account.asset,
            balance: Amount(account.balance),
            status: account.status(),
            floor: Amount(accounts.floor(id.number, account).0.max(-BALANCE_RANGE)),
            owner: owner.flatten(),
        })
    }

    /// The account of that IBAN or other alias at that participant.
    pub fn account_by_alias(&self, participant: ParticipantId, alias: &str) -> Option<AccountId> {
        let state = self.shared.updaters.get(participant.index())?.lock().expect(LOCK);
        state.alias(alias).map(|number| AccountId { participant, number })
    }

    /// The alias of an account, found by looking through all.
    pub fn alias(&self, id: AccountId) -> Option<String> {
        let state = self.shared.updaters.get(id.participant.index())?.lock().expect(LOCK);
        state.aliases().iter().find(|(_, number)| *number == id.number).map(|(alias, _)| alias.to_owned())
    }

    /// The number that the next account opened at that participant gets.
    pub fn next_account(&self, participant: ParticipantId) -> Option<AccountNumber> {
        let state = self.shared.updaters.get(participant.index())?.lock().expect(LOCK);
        Some(AccountNumber(state.accounts().customers()))
    }

    /// The movements on an account below sequence number `before`, latest first, at most `limit`; found by
    /// reading the journal.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn statement(
        &self,
        id: AccountId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Entry>, EngineError> {
        crate::audit::statement(&self.shared.log, id, before, limit).map_err(EngineError::Journal)
    }

    /// The sums of every participant's books; each participant's at one moment.
    pub fn totals(&self) -> Vec<Total> {
        let mut totals = Vec::new();
        for updater in &self.shared.updaters {
            totals.extend(crate::audit::totals(updater.lock().expect(LOCK).accounts(), &self.shared.network));
        }
        totals
    }

    /// How many transactions have an outcome, since the beginning of the network.
    pub fn sequenced(&self) -> u64 {
        self.shared.clerk().next()
    }
    /// The latest signed head of the Merkle log that is durable.
    pub fn tree_head(&self) -> Option<SignedTreeHead> {
        let head = self.shared.clerk().head().copied();
        head.or(*self.shared.started_head.lock().expect(LOCK))
    }
    /// Counts since the start.
    pub fn counts(&self) -> Counts {
        self.shared.clerk().counts().clone()
    }
    /// References remembered, by scheduler.
    pub fn remembered(&self) -> Vec<usize> {
        self.shared.schedulers.iter().map(|s| s.lock().expect(LOCK).remembered()).collect()
    }

    /// A port for whole batches, past the collectors: for load generators and, later, streams.
    pub fn volume(&self) -> VolumePort {
        VolumePort::new(&self.shared)
    }

    /// Saves the balances now.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn save(&self) -> Result<PathBuf, EngineError> {
        self.shared.save()
    }

    /// Whether everything handed in and accepted is decided, durable and applied.
    pub fn is_drained(&self) -> bool {
        self.shared.is_drained()
    }
}
