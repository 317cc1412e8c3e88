//! Writing a batch: table by table, row by row, with prepared statements.

mod delivery;
mod flows;
mod intern;
mod queues;
mod vault;

use super::connection::error;
use crate::batch::Batch;
use crate::{Result, StoreError};
use intern::Interned;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params};

/// The connection that writes, and what it remembers of what it wrote.
pub(super) struct Writer {
    connection: Connection,
    interned: Interned,
    /// When the last transaction was recorded.
    recorded: i64,
}

impl Writer {
    pub(super) fn new(connection: Connection) -> Result<Self> {
        let recorded = connection
            .query_row("SELECT recorded FROM ledger ORDER BY number DESC LIMIT 1", [], |row| row.get(0))
            .optional()
            .map_err(error)?;
        Ok(Self { connection, interned: Interned::default(), recorded: recorded.unwrap_or(0) })
    }

    /// Whether no transaction is open, so that the connection can be used again.
    pub(super) fn is_clean(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// Writes the batch and makes it durable, or leaves the database as it was.
    pub(super) fn apply(&mut self, batch: &Batch<'_>) -> Result<()> {
        self.interned.limit();
        let mut result = self.execute("BEGIN IMMEDIATE");
        if result.is_ok() {
            result = self.write(batch).and_then(|()| self.execute("COMMIT"));
        }
        if result.is_err() {
            // What it remembers may have been rolled back.
            self.interned.clear();
            if !self.is_clean() {
                // A failure shows in `is_clean`.
                let _ = self.execute("ROLLBACK");
            }
        }
        result
    }

    fn execute(&self, sql: &str) -> Result<()> {
        self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map_err(error)?;
        Ok(())
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        let Self { connection, interned, recorded } = self;
        flows::write(connection, batch)?;
        queues::write(connection, interned, batch)?;
        delivery::write(connection, batch)?;
        *recorded = vault::write(connection, interned, batch, *recorded)?;
        vault::notarise(connection, interned, &batch.spent)
    }

    #[cfg(test)]
    pub(super) fn limit_pages(&mut self, pages: u32) {
        self.connection.pragma_update(None, "max_page_count", pages).unwrap();
    }
}

fn prepare<'a>(connection: &'a Connection, sql: &str) -> Result<CachedStatement<'a>> {
    connection.prepare_cached(sql).map_err(error)
}

/// Runs a statement; whether it changed a row.
fn changes(statement: &mut CachedStatement<'_>, params: impl Params) -> Result<bool> {
    Ok(statement.execute(params).map_err(error)? > 0)
}

/// Fails unless the table has exactly what was to be written.
fn same(same: bool, table: &'static str, key: impl FnOnce() -> String) -> Result<()> {
    if same { Ok(()) } else { Err(StoreError::Conflict { table, key: key() }) }
}
