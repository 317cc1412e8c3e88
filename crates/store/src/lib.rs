//! Everything a node must not lose, in one database, changed by one transaction for each batch.
//!
//! A [`Store`] takes batches of [`Write`]s, each applied completely or not at all and durable when
//! [`Store::apply`] returns, and answers reads beside it. There are two: [`Sqlite`], one file and
//! the default, and [`Postgres`], a schema on a server. One suite of tests (module `contract`, with the
//! feature of that name) says what both must do.
//!
//! Calls block: on an asynchronous runtime make them from a thread for blocking work.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `write`, `read`, `query` | what goes in and comes out |
//! | `batch` | a batch, sorted by table and freed of what it takes back itself |
//! | `reads`, `select` | every read, written once over `session` |
//! | [`backup`] | a copy of a database in one file, and a database made from it |
//! | `sqlite`, `postgres` | connections, schema steps, writing |

pub mod backup;
mod batch;
#[cfg(feature = "contract")]
pub mod contract;
mod cursor;
mod delivery;
mod error;
mod meter;
mod migration;
mod options;
mod pool;
mod postgres;
mod query;
mod read;
mod reads;
mod row;
mod select;
#[cfg(feature = "server")]
pub mod server;
mod session;
mod sqlite;
mod write;

pub use error::{Cause, Result, StoreError};
pub use options::{Database, Needs, PostgresOptions, SqliteOptions};
pub use postgres::Postgres;
pub use query::{MAX_PAGE_SIZE, MAX_REFERENCES, Sort, StateQuery, Status};
pub use read::{
    Aside, Coin, CoinCursor, Consumption, FlowPage, FlowQuery, FlowRow, FlowStatus, Outbound, Outstanding,
    Past, Queues, Restored, SavedArrival, SavedFlow, StatePage, Undelivered, UndeliveredQuery, UnresolvedRow,
    Usage, VaultState,
};
pub use sqlite::Sqlite;
pub use write::{
    Consent, FIRST_PAUSE_MS, FlowKey, LONGEST_PAUSE_MS, Mark, NewFlow, Produced, QueueKey, Recorded,
    SessionKey, Unresolved, Write,
};

use std::sync::Arc;
use tally_contracts::{AttachmentId, Name, PublicKey, StateRef, Timestamp, TransactionId};

/// One node's durable memory.
///
/// A read sees every batch whose [`apply`](Self::apply) returned before the read began. After a
/// transient error ([`StoreError::is_transient`]) the same call may be made again; connections that
/// were lost are made anew by the next call.
pub trait Store: Send + Sync {
    /// Applies a batch: completely or not at all, and durable when this returns. Batches of several
    /// threads are applied one after the other.
    ///
    /// Within a batch the order of writes matters only where it says so: of two marks of a flow, or
    /// of locking and unlocking a state, the later one holds.
    ///
    /// # Errors
    /// A transient error: try the same batch again; it is right also when it had been applied after
    /// all. Any other error: the batch breaks a promise, or the database is lost; nothing of the batch
    /// is in it.
    fn apply(&self, writes: &[Write]) -> Result<()>;

    /// Looks whether what is on the disk can be read, past what is in memory. Takes a few reads, so that it does not find
    /// every damage; but once some read has found any, it always tells so.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], and others as of every call.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Flows that have not ended, in the order in which they began, at most `limit`, those after
    /// `after`.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn unfinished_flows(&self, after: Option<FlowKey>, limit: usize) -> Result<Vec<SavedFlow>>;

    /// A flow, also one that has ended.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn flow(&self, flow: FlowKey) -> Result<Option<FlowRow>>;

    /// Flows, newest first, a page at a time.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a damaged cursor, and others.
    fn flows(&self, query: &FlowQuery) -> Result<FlowPage>;

    /// Messages for a peer with numbers above `after`, in order; at least one if there is one, and no
    /// more once `limit_bytes` are reached.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn outbound(&self, peer: &Name, after: u64, limit_bytes: usize) -> Result<Vec<(u64, Vec<u8>)>>;

    /// How far each queue has come.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn queues(&self) -> Result<Queues>;

    /// Which database this is among all that the node ran on, and what peers told of theirs.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn past(&self) -> Result<Past>;

    /// Verified transactions in the order in which they were recorded, those after the number `after` (from 0), at most
    /// `limit`: the number and the bytes of each.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn ledger(&self, after: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>>;

    /// A verified transaction's bytes.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn transaction(&self, id: TransactionId) -> Result<Option<Vec<u8>>>;

    /// Verified transactions' bytes, in the order of `ids`.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn transactions(&self, ids: &[TransactionId]) -> Result<Vec<Option<Vec<u8>>>>;

    /// A transaction that this flow fetched and has not verified yet.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn dependency(&self, flow: FlowKey, id: TransactionId) -> Result<Option<Vec<u8>>>;

    /// The transactions that this flow fetched and has not verified yet, by id, those after `after`.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn dependencies(
        &self,
        flow: FlowKey,
        after: Option<TransactionId>,
        limit: usize,
    ) -> Result<Vec<(TransactionId, Vec<u8>)>>;

    /// States of the vault, a page at a time.
    ///
    /// A page goes on after the last state of the page before, whatever was recorded or consumed in
    /// between: no state is shown twice, and none is left out that matched all the time.
    ///
    /// # Errors
    /// [`StoreError::Query`] and [`StoreError::Cursor`] for what cannot be answered, and others.
    fn states(&self, query: &StateQuery) -> Result<StatePage>;

    /// States of the vault, consumed ones too, in the order of `references`.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn vault(&self, references: &[StateRef]) -> Result<Vec<Option<VaultState>>>;

    /// Unconsumed states of an asset and owner that have a quantity, oldest first, those after `after`. What is
    /// set [`Aside`] is left out.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn coins(
        &self,
        asset: &str,
        owner: &PublicKey,
        after: Option<CoinCursor>,
        limit: usize,
    ) -> Result<Vec<Coin>>;

    /// Every lock of an unfinished flow.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn locks(&self) -> Result<Vec<(StateRef, FlowKey)>>;

    /// An attachment's bytes.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn attachment(&self, id: AttachmentId) -> Result<Option<Vec<u8>>>;

    /// The notary's memory of each state, in the order of `states`.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn consumed(&self, states: &[StateRef]) -> Result<Vec<Option<Consumption>>>;

    /// The consents that flows have used at this time or later, oldest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn consents(&self, since: Timestamp) -> Result<Vec<Consent>>;
    /// Who has not confirmed which final transaction, by party and transaction.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn undelivered(&self, query: &UndeliveredQuery) -> Result<Vec<Undelivered>>;

    /// Transactions of unknown fate, by id: this one, or all; those that are to be asked about again by `due_by`; at most
    /// `limit`.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn unresolved(
        &self,
        transaction: Option<TransactionId>,
        due_by: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<UnresolvedRow>>;

    /// How much of either there is.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn outstanding(&self) -> Result<Outstanding>;

    /// What was done since the store was opened.
    fn usage(&self) -> Usage;
}

/// Opens the store that the options name, bringing its schema to the latest version.
///
/// # Errors
/// See [`StoreError`]; each says what to do.
pub fn open(database: &Database) -> Result<Arc<dyn Store>> {
    Ok(match database {
        Database::Sqlite(options) => Arc::new(Sqlite::open(options)?),
        Database::Postgres(options) => Arc::new(Postgres::open(options)?),
    })
}
