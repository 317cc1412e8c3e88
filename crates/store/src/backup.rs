//! A copy of a whole database in one file, taken while a node runs, and a database made from it.
//!
//! The file says nothing of SQLite or PostgreSQL: it holds rows, by table, so that a backup of one is restored into the
//! other. It is taken from one snapshot of the database, to which every batch belongs completely or not at all. It holds
//! what the database holds: transactions, flows and messages in the clear, and no keys.
//!
//! [`restore`] fills an empty place and no other, and leaves it empty when it fails. It marks the database as restored
//! ([`Queues::restored`](crate::Queues::restored)): whatever happened after the backup, at this node and with its peers,
//! is missing.

mod form;
#[cfg(test)]
mod tests;

use crate::session::{Columns, Session, all};
use crate::{Database, Result, StoreError};
pub(crate) use form::{Cell, Head};
use form::{Reader, Record, Writer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tally_contracts::{Name, Timestamp};
use tally_crypto::Hash;

/// What a backup says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The node whose database it holds.
    pub node: Name,
    /// The database's schema.
    pub schema: u32,
    /// When it was taken.
    pub taken: Timestamp,
    /// How many rows it holds.
    pub rows: u64,
    /// The file's length.
    pub bytes: u64,
    /// The checksum over everything in it.
    pub checksum: Hash,
}

/// Why no backup was taken, or none restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The file of the backup cannot be read or written.
    #[error("cannot {action} the backup {}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// There is a file of this name already.
    #[error("{} is there already; a backup replaces no file", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is no backup of a node.
    #[error("{} is no backup of a node", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The backup has a form that this program does not know.
    #[error("the backup has form {found}, this program knows form {known}; use the program that took it")]
    Form {
        /// The file's.
        found: u32,
        /// This program's.
        known: u32,
    },
    /// The backup is not as it was written.
    #[error("the backup is damaged: {reason}; use another one")]
    Damaged {
        /// What is wrong with it.
        reason: String,
    },
    /// It is a backup of another node's database.
    #[error("this is a backup of {of}, and the node here is {node}")]
    OtherNode {
        /// Whose it is.
        of: Name,
        /// Whom it was to be restored for.
        node: Name,
    },
    /// The place to restore into holds a database.
    #[error("{what} is not empty; move away what is there, a backup is restored into an empty place")]
    NotEmpty {
        /// The file, or the schema of the server.
        what: String,
    },
    /// A table of the database has a column that a backup has no form for.
    #[error("table {table} has a column {column} of type {of}, which a backup cannot hold")]
    Column {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        of: String,
    },
    /// The database refuses or fails.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Copies a node's database into a new file, which only its owner may read. The node may run meanwhile.
///
/// # Errors
/// See [`BackupError`]. There is no file then.
pub fn back_up(
    database: &Database,
    node: &Name,
    taken: Timestamp,
    file: &Path,
) -> Result<Backup, BackupError> {
    match database {
        Database::Sqlite(options) => crate::sqlite::back_up(options, node, taken, file),
        Database::Postgres(options) => crate::postgres::back_up(options, node, taken, file),
    }
}

/// Reads a backup to its end and verifies it.
///
/// # Errors
/// [`BackupError::Damaged`] and others.
pub fn verify(file: &Path) -> Result<Backup, BackupError> {
    let mut reader = Reader::open(file)?;
    while reader.next()?.is_some() {}
    reader.finish()
}

/// Makes a database from a backup of this node, in an empty place, with the mark that it was restored `at` this time.
///
/// # Errors
/// See [`BackupError`]: among others a damaged backup, one of another node or of a newer schema
/// ([`StoreError::Newer`]), a place that is not empty, a node that runs on it ([`StoreError::InUse`]). The place is empty
/// then.
pub fn restore(database: &Database, node: &Name, at: Timestamp, file: &Path) -> Result<Backup, BackupError> {
    let reader = Reader::open(file)?;
    if reader.head().node != node.as_str() {
        return Err(BackupError::OtherNode { of: reader.node()?, node: node.clone() });
    }
    match database {
        Database::Sqlite(options) => crate::sqlite::restore(options, at, reader),
        Database::Postgres(options) => crate::postgres::restore(options, at, reader),
    }
}

/// The tables of a database and their columns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalog(BTreeMap<String, Vec<Column>>);

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// What a column holds; both databases have these two and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Bytes,
}

impl Catalog {
    /// Reads it: each row has a table, a column and the column's type, in order.
    pub(crate) fn read(session: &mut dyn Session, sql: &str) -> Result<Self, BackupError> {
        let rows = all(session, sql, &[], |columns| {
            let row = crate::row::Row::new("schema", columns);
            Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned(), row.text(2)?.to_owned()))
        })?;
        let mut catalog = Self::default();
        for (table, column, of) in rows {
            let kind = match of.as_str() {
                "INTEGER" | "bigint" | "integer" => Kind::Integer,
                "BLOB" | "bytea" => Kind::Bytes,
                _ => return Err(BackupError::Column { table, column, of }),
            };
            catalog.0.entry(table).or_default().push(Column { name: column, kind });
        }
        Ok(catalog)
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = (&str, &[Column])> {
        self.0.iter().map(|(table, columns)| (table.as_str(), columns.as_slice()))
    }

    /// The table of this name, if it has exactly these columns.
    fn find(&self, table: &str, columns: &[String]) -> Option<(&str, &[Column])> {
        let (name, known) = self.0.get_key_value(table)?;
        let same = known.len() == columns.len() && known.iter().zip(columns).all(|(a, b)| a.name == *b);
        same.then_some((name.as_str(), known.as_slice()))
    }
}

/// Writes every row that the session sees. The session's reads are all of one snapshot.
pub(crate) fn write(
    session: &mut dyn Session,
    catalog: &Catalog,
    head: &Head,
    file: &Path,
) -> Result<Backup, BackupError> {
    let mut writer = Writer::create(file, head)?;
    for (table, columns) in catalog.tables() {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let sql = format!("SELECT {} FROM {table}", names.join(", "));
        writer.push(&Record::Table { name: table.to_owned(), columns: names })?;
        let mut failed = None;
        let read = session.rows(&sql, &[], &mut |row| {
            let cells = cells(table, columns, row)?;
            writer.push(&Record::Row(cells)).map_err(|error| {
                failed = Some(error);
                // Ends the reading; what counts is the error that was kept.
                StoreError::Query { reason: "the backup cannot be written" }
            })
        });
        match failed {
            Some(error) => return Err(error),
            None => read?,
        }
    }
    writer.finish(head)
}

fn cells(table: &str, columns: &[Column], row: &dyn Columns) -> Result<Vec<Cell>> {
    let mistyped = |column: &Column, reason: crate::session::Mistyped| {
        StoreError::row("backup", format!("{table}.{}", column.name), reason)
    };
    columns
        .iter()
        .enumerate()
        .map(|(place, column)| {
            let cell = match column.kind {
                Kind::Integer => row.integer(place).map(|value| value.map(Cell::Integer)),
                Kind::Bytes => row.bytes(place).map(|value| value.map(|bytes| Cell::Bytes(bytes.to_vec()))),
            };
            cell.map(|cell| cell.unwrap_or(Cell::Null)).map_err(|reason| mistyped(column, reason))
        })
        .collect()
}

/// A database that rows are put into.
pub(crate) trait Target {
    /// The rows that follow are of this table.
    fn table(&mut self, name: &str, columns: &[Column]) -> Result<()>;
    /// A row of the table.
    fn row(&mut self, cells: Vec<Cell>) -> Result<()>;
}

/// Puts all rows of a backup into a database that has its tables, and verifies the backup to its end.
pub(crate) fn fill(
    target: &mut dyn Target,
    catalog: &Catalog,
    mut reader: Reader,
) -> Result<Backup, BackupError> {
    let damaged = |reason: String| BackupError::Damaged { reason };
    let mut kinds: Vec<Kind> = Vec::new();
    while let Some(record) = reader.next()? {
        match record {
            Record::Table { name, columns } => {
                // Names of the file reach the database only when the database has them itself.
                let (name, columns) = catalog
                    .find(&name, &columns)
                    .ok_or_else(|| damaged("it has a table that its schema does not have".to_owned()))?;
                kinds = columns.iter().map(|column| column.kind).collect();
                target.table(name, columns)?;
            }
            Record::Row(cells) => {
                let fits = cells.len() == kinds.len()
                    && cells.iter().zip(&kinds).all(|(cell, kind)| cell.is_of(*kind));
                if !fits || kinds.is_empty() {
                    return Err(damaged("a row does not fit its table".to_owned()));
                }
                target.row(cells)?;
            }
        }
    }
    reader.finish()
}

/// A backup under way to being restored.
pub(crate) type Source = Reader;
