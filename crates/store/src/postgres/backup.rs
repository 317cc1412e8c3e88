//! Backups of a schema, and schemas made from backups.

use super::STEPS;
use super::link::{Link, Place};
use super::schema;
use crate::backup::{self, Backup, BackupError, Catalog, Cell, Column, Head, Kind, Source, Target};
use crate::session::{Columns, Session, Value};
use crate::{PostgresOptions, Result, StoreError, migration};
use std::path::Path;
use tally_contracts::{Name, Timestamp};
use tokio_postgres::types::ToSql;

const CATALOG: &str = "SELECT convert_to(c.relname::text, 'UTF8'), convert_to(a.attname::text, 'UTF8'), \
     convert_to(format_type(a.atttypid, NULL), 'UTF8') \
     FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = current_schema() AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped \
     AND c.relname <> 'schema_version' ORDER BY c.relname, a.attnum";

/// Columns whose next number the server keeps beside the table.
const COUNTED: &str = "SELECT c.relname::text, a.attname::text \
     FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = current_schema() AND c.relkind = 'r' AND a.attidentity <> ''";

/// Rows that go to the server together: at most so many.
const ROWS: usize = 2000;
/// And no more once they have so many bytes.
const BYTES: usize = 4 << 20;

/// See [`backup::back_up`]. One connection beside those of the node reads one snapshot (`REPEATABLE READ`).
pub(crate) fn back_up(
    options: &PostgresOptions,
    node: &Name,
    taken: Timestamp,
    file: &Path,
) -> Result<Backup, BackupError> {
    let place = Place::new(options)?;
    let mut link = place.reader()?;
    link.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let state = schema::look(&mut link, &place)?;
    let found = state.version.ok_or_else(|| state.foreign(&place))?;
    migration::missing(STEPS, found)?;
    let found = u32::try_from(found).unwrap_or_default();
    let mut snapshot = Snapshot(link);
    let catalog = Catalog::read(&mut snapshot, CATALOG)?;
    backup::write(&mut snapshot, &catalog, &Head::new(node, found, taken), file)
}

/// Reads row by row, so that memory does not hold a table.
struct Snapshot(Link);

impl Session for Snapshot {
    fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Columns) -> Result<()>,
    ) -> Result<()> {
        self.0.stream(sql, values, each)
    }
}

/// See [`backup::restore`]. One transaction: the schema is there completely or not at all.
pub(crate) fn restore(
    options: &PostgresOptions,
    at: Timestamp,
    source: Source,
) -> Result<Backup, BackupError> {
    let place = Place::new(options)?;
    let mut link = place.connect()?;
    if !schema::take(&mut link, &place)? {
        return Err(StoreError::InUse { what: format!("the schema {}", options.schema) }.into());
    }
    let state = schema::look(&mut link, &place)?;
    if state.relations > 0 {
        return Err(BackupError::NotEmpty { what: format!("the schema {}", options.schema) });
    }
    let steps = migration::until(STEPS, source.head().schema)?;
    link.run("BEGIN")?;
    for step in steps {
        link.run(&schema::statements(&place, step, state.exists))?;
    }
    let catalog = Catalog::read(&mut link, CATALOG)?;
    for (table, _) in catalog.tables() {
        // What the schema itself puts there.
        link.run(&format!("DELETE FROM {table}"))?;
    }
    let mut filling = Filling::new(&mut link);
    // When this fails the connection ends without a commit.
    let restored = backup::fill(&mut filling, &catalog, source)?;
    filling.flush()?;
    for step in STEPS.get(steps.len()..).unwrap_or_default() {
        link.run(&schema::statements(&place, step, true))?;
    }
    for row in link.query(COUNTED, &[])? {
        let name = |column: usize| {
            row.try_get::<_, String>(column).map_err(|error| StoreError::Database(error.into()))
        };
        let (table, column) = (name(0)?, name(1)?);
        link.run(&format!(
            "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), coalesce(max({column}), 1), \
             max({column}) IS NOT NULL) FROM {table}"
        ))?;
    }
    let (taken, at) = (restored.taken.as_millis(), at.as_millis());
    link.run(&format!(
        "DELETE FROM restored; INSERT INTO restored (taken, at) VALUES ({taken}, {at}); COMMIT"
    ))?;
    Ok(restored)
}

/// Rows of one table on their way to the server, column by column.
struct Filling<'a> {
    link: &'a mut Link,
    sql: String,
    columns: Vec<Values>,
    rows: usize,
    bytes: usize,
}

enum Values {
    Integers(Vec<Option<i64>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

impl<'a> Filling<'a> {
    fn new(link: &'a mut Link) -> Self {
        Self { link, sql: String::new(), columns: Vec::new(), rows: 0, bytes: 0 }
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let values: Vec<&(dyn ToSql + Sync)> = self
            .columns
            .iter()
            .map(|column| -> &(dyn ToSql + Sync) {
                match column {
                    Values::Integers(values) => values,
                    Values::Bytes(values) => values,
                }
            })
            .collect();
        self.link.query(&self.sql, &values)?;
        for column in &mut self.columns {
            match column {
                Values::Integers(values) => values.clear(),
                Values::Bytes(values) => values.clear(),
            }
        }
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

impl Target for Filling<'_> {
    fn table(&mut self, name: &str, columns: &[Column]) -> Result<()> {
        self.flush()?;
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let arrays: Vec<String> = (1..)
            .zip(columns)
            .map(|(place, column)| match column.kind {
                Kind::Integer => format!("${place}::bigint[]"),
                Kind::Bytes => format!("${place}::bytea[]"),
            })
            .collect();
        let (names, arrays) = (names.join(", "), arrays.join(", "));
        self.sql = format!("INSERT INTO {name} ({names}) SELECT * FROM unnest({arrays})");
        self.columns = columns
            .iter()
            .map(|column| match column.kind {
                Kind::Integer => Values::Integers(Vec::new()),
                Kind::Bytes => Values::Bytes(Vec::new()),
            })
            .collect();
        Ok(())
    }

    fn row(&mut self, cells: Vec<Cell>) -> Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            match (column, cell) {
                (Values::Integers(values), Cell::Integer(value)) => values.push(Some(value)),
                (Values::Integers(values), _) => values.push(None),
                (Values::Bytes(values), Cell::Bytes(value)) => {
                    self.bytes += value.len();
                    values.push(Some(value));
                }
                (Values::Bytes(values), _) => values.push(None),
            }
        }
        self.rows += 1;
        if self.rows >= ROWS || self.bytes >= BYTES { self.flush() } else { Ok(()) }
    }
}
