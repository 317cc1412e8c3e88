//! What goes wrong, and whether waiting heals it.

use tally_contracts::{StateRef, TransactionId};

/// The error of a library below.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a call of a store failed. Nothing of a refused batch is in the database.
///
/// The exceptions are [`Unreachable`](Self::Unreachable) and [`Full`](Self::Full): when the
/// connection or the disk was lost during the commit, the batch is in the database completely or
/// not at all, and nobody knows which. Applying the same batch again is right in both cases.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No room on the disk, or the disk refuses. Transient.
    #[error("the disk of the database is full or fails; free some room, the same call then works")]
    Full(#[source] Cause),
    /// Another session holds what is needed. Transient.
    #[error("the database is busy with another session")]
    Busy(#[source] Cause),
    /// The server is down, starting, or the connection is lost. The next call connects again. Transient.
    #[error("the database cannot be reached; each call tries to connect again")]
    Unreachable(#[source] Cause),
    /// Another process runs on this database.
    #[error("{what} is in use by another process; a node has its store for itself")]
    InUse {
        /// The lock file, or the schema of the server.
        what: String,
    },
    /// The server has too few free connections for this node.
    #[error(
        "this node needs {needed} PostgreSQL connections and {free} are free ({in_use} in use, {reserved} reserved, \
         {limit} at most by {limited_by}); raise {limited_by} or lower the number of readers"
    )]
    Connections {
        /// How many this store opens.
        needed: u32,
        /// How many could be opened.
        free: u32,
        /// How many others hold.
        in_use: u32,
        /// How many the server keeps for superusers.
        reserved: u32,
        /// The upper limit.
        limit: u32,
        /// The setting that limits.
        limited_by: &'static str,
    },
    /// The database was written by a later version of this program.
    #[error(
        "the database has schema {found}, this program knows schemas up to {known}; run the newer program"
    )]
    Newer {
        /// Schema of the database.
        found: u32,
        /// Latest schema of this program.
        known: u32,
    },
    /// The database holds something, but not a store's tables.
    #[error("{what} is not a store of tally; name an empty place or the right one")]
    Foreign {
        /// File or schema.
        what: String,
    },
    /// A schema step failed and was undone.
    #[error("the database could not be brought to schema {to}; it is as it was")]
    Migration {
        /// The schema that was not reached.
        to: u32,
        /// Why not.
        source: Cause,
    },
    /// The options cannot be used.
    #[error("the configuration of the database is wrong: {reason}")]
    Configuration {
        /// What is wrong, and with which option.
        reason: String,
    },
    /// The database says of itself that it is damaged.
    #[error("the database is damaged; restore it from a copy")]
    Corrupt(#[source] Cause),
    /// A row does not hold what was written.
    #[error("row {key} of table {table} does not decode: {reason}")]
    Row {
        /// The table.
        table: &'static str,
        /// The row's key, in text.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A state would be consumed by two transactions.
    #[error("state {state} is consumed by {by}; {again} cannot consume it again")]
    Twice {
        /// The state.
        state: StateRef,
        /// Who consumed it first.
        by: TransactionId,
        /// Who wanted to.
        again: TransactionId,
    },
    /// The same key was written before with other content.
    #[error("table {table} has another content for {key}; what was written once does not change")]
    Conflict {
        /// The table.
        table: &'static str,
        /// The key, in text.
        key: String,
    },
    /// A write needs a row that is not there.
    #[error("table {table} has no {key}")]
    Missing {
        /// The table.
        table: &'static str,
        /// The key, in text.
        key: String,
    },
    /// A number or a text that the tables have no room for.
    #[error("{what} is {value}, at most {limit} fits")]
    Range {
        /// What is too large.
        what: &'static str,
        /// Its value, or its length.
        value: u64,
        /// The largest that fits.
        limit: u64,
    },
    /// A page's cursor was damaged, or belongs to another query.
    #[error("the cursor cannot be used: {reason}; start again without one")]
    Cursor {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A query that no page answers.
    #[error("the query cannot be answered: {reason}")]
    Query {
        /// What to change.
        reason: &'static str,
    },
    /// The database refused a statement for a reason of its own.
    #[error("the database refused a statement")]
    Database(#[source] Cause),
}

impl StoreError {
    /// Whether the same call can work later, without anybody changing the call.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Busy(_) | Self::Unreachable(_))
    }

    /// Whether the fault may be that of some writes of a batch, so that the others can be applied without them.
    pub fn is_of_writes(&self) -> bool {
        matches!(
            self,
            Self::Twice { .. }
                | Self::Conflict { .. }
                | Self::Missing { .. }
                | Self::Range { .. }
                | Self::Row { .. }
                | Self::Database(_)
        )
    }

    pub(crate) fn row(
        table: &'static str,
        key: impl std::fmt::Display,
        reason: impl std::fmt::Display,
    ) -> Self {
        Self::Row { table, key: key.to_string(), reason: reason.to_string() }
    }
}

/// What a store answers.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
