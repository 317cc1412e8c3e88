//! Backups of a file, and files made from backups.

use super::connection::{self, error};
use super::{Reader, STEPS};
use crate::backup::{self, Backup, BackupError, Catalog, Cell, Column, Head, Source, Target};
use crate::{Result, SqliteOptions, StoreError, migration};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use tally_contracts::{Name, Timestamp};

const CATALOG: &str = "SELECT CAST(m.name AS BLOB), CAST(p.name AS BLOB), CAST(p.type AS BLOB) \
     FROM sqlite_schema m JOIN pragma_table_info(m.name) p \
     WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY m.name, p.cid";

/// See [`backup::back_up`]. One connection beside those of the node reads one snapshot; the log grows until it is done.
pub(crate) fn back_up(
    options: &SqliteOptions,
    node: &Name,
    taken: Timestamp,
    file: &Path,
) -> Result<Backup, BackupError> {
    // Opening would make it.
    options.path.metadata().map_err(|error| StoreError::Unreachable(error.into()))?;
    let connection = connection::reader(options)?;
    connection.execute_batch("BEGIN").map_err(error)?;
    let schema = connection::schema(&connection, options)?;
    migration::missing(STEPS, schema)?;
    let schema = u32::try_from(schema).unwrap_or_default();
    let mut session = Reader(&connection);
    let catalog = Catalog::read(&mut session, CATALOG)?;
    backup::write(&mut session, &catalog, &Head::new(node, schema, taken), file)
}

/// See [`backup::restore`]. The file gets its name once it is complete.
pub(crate) fn restore(options: &SqliteOptions, at: Timestamp, source: Source) -> Result<Backup, BackupError> {
    let _lock = super::lock(options)?;
    // A log without its file would be taken for the log of the new one.
    for name in [options.path.clone(), beside(&options.path, "-wal")] {
        if name.metadata().is_ok_and(|found| found.len() > 0) {
            return Err(BackupError::NotEmpty { what: name.display().to_string() });
        }
    }
    let draft = Draft::new(&options.path)?;
    let options_of_draft = SqliteOptions { path: draft.0.clone(), ..options.clone() };
    let schema = source.head().schema;
    let steps = migration::until(STEPS, schema)?;
    let connection = connection::writer(&options_of_draft, steps)?;
    let catalog = Catalog::read(&mut Reader(&connection), CATALOG)?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(error)?;
    for (table, _) in catalog.tables() {
        // What the schema itself puts there.
        connection.execute_batch(&format!("DELETE FROM {table}")).map_err(error)?;
    }
    let mut filling = Filling { connection: &connection, sql: String::new() };
    let restored = backup::fill(&mut filling, &catalog, source)?;
    connection.execute_batch("COMMIT").map_err(error)?;
    drop(connection);
    let connection = connection::writer(&options_of_draft, STEPS)?;
    connection
        .execute("DELETE FROM restored", [])
        .and_then(|_| {
            let mark = [restored.taken.as_millis(), at.as_millis()].map(u64::cast_signed);
            connection.execute("INSERT INTO restored (taken, at) VALUES (?1, ?2)", mark)
        })
        .map_err(error)?;
    // The last one to close the file moves the log into it and removes the log.
    connection.close().map_err(|(_, failed)| error(failed))?;
    draft.becomes(&options.path)?;
    Ok(restored)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

fn unreachable(error: std::io::Error) -> StoreError {
    StoreError::Unreachable(error.into())
}

/// A database without its name yet; removed unless it gets it.
struct Draft(PathBuf);

impl Draft {
    fn new(path: &Path) -> Result<Self> {
        let draft = Self(beside(path, ".restoring"));
        draft.remove();
        Ok(draft)
    }

    fn remove(&self) {
        for ending in ["", "-wal", "-shm"] {
            // What is not there need not be removed; what cannot be removed is in the way when it is opened.
            let _ = std::fs::remove_file(beside(&self.0, ending));
        }
    }

    fn becomes(self, path: &Path) -> Result<()> {
        File::open(&self.0).and_then(|file| file.sync_all()).map_err(unreachable)?;
        std::fs::rename(&self.0, path).map_err(unreachable)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(unreachable)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.remove();
    }
}

struct Filling<'a> {
    connection: &'a Connection,
    sql: String,
}

impl Target for Filling<'_> {
    fn table(&mut self, name: &str, columns: &[Column]) -> Result<()> {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let places: Vec<String> = (1..=columns.len()).map(|place| format!("?{place}")).collect();
        self.sql = format!("INSERT INTO {name} ({}) VALUES ({})", names.join(", "), places.join(", "));
        Ok(())
    }

    fn row(&mut self, cells: Vec<Cell>) -> Result<()> {
        let mut insert = self.connection.prepare_cached(&self.sql).map_err(error)?;
        insert.execute(params_from_iter(&cells)).map_err(error)?;
        Ok(())
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(integer) => ValueRef::Integer(*integer),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
