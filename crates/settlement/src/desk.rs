//! Where clients hand transactions in and ask about them, whoever runs the stages: [one process](crate::engine) or
//! [many](crate::process).

use crate::clerk::Counts;
use crate::engine::{AccountView, Answer, Engine, EngineError, Pending, Total};
use crate::message::Withdrawal;
use crate::outcomes::{Outcomes, Place};
use crate::proof::Wanted;
use crate::statement::{Movements, Statement};
use std::time::Duration;
use tally_crypto::log::SignedTreeHead;
use tally_ledger::{AccountId, AccountNumber, Network, ParticipantId, Timestamp, Transaction};
use tally_log::Health;
use tally_proof::{Consistency, Proof, Receipt};

/// A number that operators may want to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure {
    /// Its name in metrics, with its unit last.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// As of now, or since the start.
    pub value: u64,
    /// Whether it counts since the start.
    pub counts: bool,
}

/// A transaction that was accepted, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// Its place.
    pub place: Withdrawal,
    /// When.
    pub accepted_at: Timestamp,
    /// As it was handed in.
    pub transaction: Transaction,
}

/// A settlement network as its clients meet it.
///
/// An outcome that was told is final, whatever is resent, replayed or restarted, and it shows in every balance asked
/// for here afterwards; of what others told, after [`catch_up`](Self::catch_up). Questions about a participant whose
/// books are not kept here have no answer.
pub trait Settlement: Send + Sync {
    /// Who takes part.
    fn network(&self) -> &Network;

    /// The time by which expiries are judged.
    fn now(&self) -> Timestamp;

    /// Whether transactions can be settled.
    fn health(&self) -> Health;

    /// Hands transactions in; what becomes of them is told by [`Self::wait`].
    ///
    /// # Errors
    /// When it has stopped, or too much waits already: nothing was handed in.
    fn submit(&self, transactions: Vec<Transaction>) -> Result<Pending, EngineError>;

    /// What has become of `pending`, waiting for it at most so long. A transaction that was handed in
    /// before, to the letter, has the outcome that it had then, also when it has expired since.
    fn wait(&self, pending: &Pending, limit: Duration) -> Vec<Answer>;

    /// What became of a transaction; none if it was never accepted.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn status(&self, wanted: Wanted) -> Result<Option<Answer>, EngineError>;

    /// As [`Self::status`], of a transaction that cannot have been handed in before `since`: the journal is read back no
    /// further than that, by any stage's clock.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn status_since(&self, wanted: Wanted, since: Timestamp) -> Result<Option<Answer>, EngineError>;

    /// The transaction that is wanted, as it was accepted last; none if there is none that may be undecided.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn accepted(&self, wanted: Wanted) -> Result<Option<Accepted>, EngineError>;

    /// Asks that an accepted transaction be refused ([`Withdrawn`](tally_ledger::Refusal::Withdrawn)) if it is not
    /// decided. Whether it was, its [status](Self::status) says, once it is final; the request itself is kept nowhere, and
    /// may have to be repeated.
    ///
    /// # Errors
    /// When it cannot be passed on.
    fn withdraw(&self, accepted: &Accepted) -> Result<(), EngineError>;

    /// Keeps texts that transactions commit to by their hashes, each of at most
    /// [`MAX_ANNEX_ITEM`](crate::message::MAX_ANNEX_ITEM) bytes: durable when what is handed in afterwards is accepted.
    ///
    /// # Errors
    /// [`EngineError::NotKept`] when they cannot be kept now.
    fn keep(&self, texts: Vec<Vec<u8>>) -> Result<(), EngineError>;

    /// Shows what was kept from the first of these times to the last, or near them, and is durable.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn kept(&self, between: (Timestamp, Timestamp), show: &mut dyn FnMut(Vec<u8>))
    -> Result<(), EngineError>;

    /// Proof of the outcome of a transaction; none while it has none.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn receipt(&self, wanted: Wanted) -> Result<Option<Receipt>, EngineError>;

    /// Proof for others of the outcome of a transaction; none while it has none. It shows the legs of those
    /// participants, as far as their books are kept here, and has the approvals that can still be had.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn proof(&self, wanted: Wanted, shown: &[ParticipantId]) -> Result<Option<Proof>, EngineError>;

    /// Proof that the Merkle log of `second` records extends that of `first` records; none while it is shorter than
    /// that, or where `first` is 0 or the larger one.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn consistency(&self, first: u64, second: u64) -> Result<Option<Consistency>, EngineError>;

    /// Waits, at most for `limit`, until everything that was told before this call, by whomever, shows in what is answered
    /// about accounts.
    ///
    /// # Errors
    /// [`EngineError::Behind`] when it cannot be known that it does.
    fn catch_up(&self, limit: Duration) -> Result<(), EngineError>;

    /// The account, if there is one.
    fn account(&self, id: AccountId) -> Option<AccountView>;

    /// The account of that IBAN or other alias at that participant.
    fn account_by_alias(&self, participant: ParticipantId, alias: &str) -> Option<AccountId>;

    /// The alias of an account, found by looking through all.
    fn alias(&self, id: AccountId) -> Option<String>;

    /// The number that the next account opened at that participant gets.
    fn next_account(&self, participant: ParticipantId) -> Option<AccountNumber>;

    /// Movements on an account, whose books are kept here; of others there are none. The ledger is read back from its end, or
    /// from where the page before ended, until there are enough.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn statement(&self, id: AccountId, wanted: &Movements) -> Result<Statement, EngineError>;

    /// The transaction at that place of the global order, if there is one.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn transaction(&self, sequence: u64) -> Result<Option<Transaction>, EngineError>;

    /// Outcomes from `place` on, one record of the sequence at most, and `place` goes on behind them; none while there are
    /// none.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn outcomes(&self, place: &mut Place) -> Result<Option<Outcomes>, EngineError>;

    /// The sums of participants' books; each participant's at one moment.
    fn totals(&self) -> Vec<Total>;

    /// How many transactions have an outcome, since the beginning of the network.
    fn sequenced(&self) -> u64;

    /// The latest signed head of the Merkle log.
    fn tree_head(&self) -> Option<SignedTreeHead>;

    /// Counts since the start.
    fn counts(&self) -> Counts;

    /// References remembered against duplicates; none where others remember them.
    fn remembered(&self) -> Option<usize>;

    /// What else operators may want to see.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}

impl Settlement for Engine {
    fn network(&self) -> &Network {
        (**self).network()
    }
    fn now(&self) -> Timestamp {
        self.now()
    }
    fn health(&self) -> Health {
        self.health()
    }
    fn submit(&self, transactions: Vec<Transaction>) -> Result<Pending, EngineError> {
        self.submit(transactions)
    }
    fn wait(&self, pending: &Pending, limit: Duration) -> Vec<Answer> {
        (**self).wait(pending, limit)
    }
    fn status(&self, wanted: Wanted) -> Result<Option<Answer>, EngineError> {
        (**self).status(wanted)
    }
    fn status_since(&self, wanted: Wanted, since: Timestamp) -> Result<Option<Answer>, EngineError> {
        (**self).status_since(wanted, since)
    }
    fn accepted(&self, wanted: Wanted) -> Result<Option<Accepted>, EngineError> {
        (**self).accepted_last(wanted)
    }
    fn withdraw(&self, accepted: &Accepted) -> Result<(), EngineError> {
        (**self).withdraw(accepted);
        Ok(())
    }
    fn keep(&self, texts: Vec<Vec<u8>>) -> Result<(), EngineError> {
        (**self).keep(self.now(), texts)
    }
    fn kept(
        &self,
        between: (Timestamp, Timestamp),
        show: &mut dyn FnMut(Vec<u8>),
    ) -> Result<(), EngineError> {
        (**self).kept(between, show)
    }
    fn receipt(&self, wanted: Wanted) -> Result<Option<Receipt>, EngineError> {
        (**self).receipt(wanted)
    }
    fn proof(&self, wanted: Wanted, shown: &[ParticipantId]) -> Result<Option<Proof>, EngineError> {
        (**self).proof(wanted, shown)
    }
    fn consistency(&self, first: u64, second: u64) -> Result<Option<Consistency>, EngineError> {
        (**self).consistency(first, second)
    }
    fn catch_up(&self, _limit: Duration) -> Result<(), EngineError> {
        // Nobody else tells anything.
        Ok(())
    }
    fn account(&self, id: AccountId) -> Option<AccountView> {
        (**self).account(id)
    }
    fn account_by_alias(&self, participant: ParticipantId, alias: &str) -> Option<AccountId> {
        (**self).account_by_alias(participant, alias)
    }
    fn alias(&self, id: AccountId) -> Option<String> {
        (**self).alias(id)
    }
    fn next_account(&self, participant: ParticipantId) -> Option<AccountNumber> {
        (**self).next_account(participant)
    }
    fn statement(&self, id: AccountId, wanted: &Movements) -> Result<Statement, EngineError> {
        (**self).statement(id, wanted)
    }
    fn transaction(&self, sequence: u64) -> Result<Option<Transaction>, EngineError> {
        (**self).transaction(sequence)
    }
    fn outcomes(&self, place: &mut Place) -> Result<Option<Outcomes>, EngineError> {
        (**self).outcomes(place)
    }
    fn totals(&self) -> Vec<Total> {
        (**self).totals()
    }
    fn sequenced(&self) -> u64 {
        (**self).sequenced()
    }
    fn tree_head(&self) -> Option<SignedTreeHead> {
        (**self).tree_head()
    }
    fn counts(&self) -> Counts {
        (**self).counts()
    }
    fn remembered(&self) -> Option<usize> {
        Some((**self).remembered().iter().sum())
    }
}
