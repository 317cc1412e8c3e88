//! Opening a file, its schema, and what its errors mean.

use crate::migration::Step;
use crate::{Result, SqliteOptions, StoreError, migration};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

/// "TALY": which program the file belongs to (SQLite file format, section 1.3.12).
const APPLICATION: i32 = 0x5441_4c59;

/// How long a statement waits for a reader to let the log start anew.
const BUSY: std::time::Duration = std::time::Duration::from_secs(5);

/// How many prepared statements a connection keeps; vault queries have many forms.
const STATEMENTS: usize = 128;

/// Pages of the log after which its content goes to the file: 16 MiB. Not often, because then pages that
/// change in every batch are written to the file once for many batches; not rarely, because writing waits for it.
const LOG_PAGES: u32 = 4096;

fn connect(options: &SqliteOptions, cache_kib: u32) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&options.path, flags).map_err(error)?;
    connection.busy_timeout(BUSY).map_err(error)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection
        .execute_batch(&format!("PRAGMA cache_size = -{cache_kib}; PRAGMA temp_store = MEMORY;"))
        .map_err(error)?;
    Ok(connection)
}

/// The connection that writes, with the file at the schema of the last of these steps.
pub(super) fn writer(options: &SqliteOptions, steps: &'static [Step]) -> Result<Connection> {
    let cache_kib = options.cache_mib.max(1).saturating_mul(1024);
    let what = || options.path.display().to_string();
    // The first look into the file: its beginning is not that of a database.
    let look = |error| match error {
        StoreError::Corrupt(_) => StoreError::Foreign { what: what() },
        other => other,
    };
    let mut connection = connect(options, cache_kib).map_err(look)?;
    let application: i32 = pragma(&connection, "application_id").map_err(look)?;
    let found: i64 = pragma(&connection, "user_version")?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(error)?;
    if application != APPLICATION && (application != 0 || found != 0 || tables != 0) {
        return Err(StoreError::Foreign { what: what() });
    }
    let mode: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(error)?;
    if mode != "wal" {
        let reason = format!("{} is on a file system that has no shared memory for a log", what());
        return Err(StoreError::Configuration { reason });
    }
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = {LOG_PAGES}; PRAGMA foreign_keys = OFF;"
        ))
        .map_err(error)?;
    for step in migration::missing(steps, found)? {
        let failed = |source: rusqlite::Error| match error(source) {
            transient if transient.is_transient() => transient,
            other => StoreError::Migration { to: step.schema, source: Box::new(other) },
        };
        let transaction = connection.transaction().map_err(failed)?;
        let version =
            format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {};", step.schema);
        transaction.execute_batch(step.sql).map_err(failed)?;
        transaction.execute_batch(&version).map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
    Ok(connection)
}

/// A connection that reads.
pub(super) fn reader(options: &SqliteOptions) -> Result<Connection> {
    let connection = connect(options, options.cache_mib.max(1).saturating_mul(1024 / 8))?;
    connection.execute_batch("PRAGMA query_only = ON").map_err(error)?;
    Ok(connection)
}

/// Reads the beginning of every table with a connection of its own, which has no page in memory.
pub(super) fn glance(options: &SqliteOptions) -> Result<()> {
    let connection = connect(options, 256)?;
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .map_err(error)?;
    let names: Vec<String> =
        tables.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(error)?;
    for name in names {
        let sql = format!("SELECT 1 FROM \"{name}\" LIMIT 1");
        connection.query_row(&sql, [], |_| Ok(())).optional().map_err(error)?;
    }
    Ok(())
}

/// The schema that the connection sees.
pub(super) fn schema(connection: &Connection, options: &SqliteOptions) -> Result<i64> {
    let application: i32 = pragma(connection, "application_id")?;
    let found: i64 = pragma(connection, "user_version")?;
    if application != APPLICATION || found == 0 {
        return Err(StoreError::Foreign { what: options.path.display().to_string() });
    }
    Ok(found)
}

fn pragma<T: rusqlite::types::FromSql>(connection: &Connection, name: &str) -> Result<T> {
    connection.pragma_query_value(None, name, |row| row.get(0)).map_err(error)
}

/// What an error of SQLite means for a caller (SQLite result codes).
pub(super) fn error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => StoreError::Full(error.into()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            StoreError::Busy(error.into())
        }
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::OutOfMemory,
        ) => StoreError::Unreachable(error.into()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(error.into()),
        _ => StoreError::Database(error.into()),
    }
}
