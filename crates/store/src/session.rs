//! What reading needs of a database, so that each read is written once.

use crate::{Result, StoreError};

/// A value bound to `$1`, `$2`, ..., which must occur in this order in the SQL.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Integer(i64),
    Bytes(&'a [u8]),
}

/// One connection's reads.
pub(crate) trait Session {
    /// Hands each row of the answer to `each`, until it fails.
    fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Columns) -> Result<()>,
    ) -> Result<()>;
}

/// One row. A column of another type is an error that names the table and the column.
pub(crate) trait Columns {
    fn integer(&self, column: usize) -> Result<Option<i64>, Mistyped>;
    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Mistyped>;
}

/// A column holds another type than the schema says.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("column {0} has another type")]
pub(crate) struct Mistyped(pub(crate) usize);

/// At most one row.
pub(crate) fn one<T>(
    session: &mut dyn Session,
    sql: &str,
    values: &[Value<'_>],
    decode: impl Fn(&dyn Columns) -> Result<T>,
) -> Result<Option<T>> {
    let mut found = None;
    session.rows(sql, values, &mut |row| {
        found = Some(decode(row)?);
        Ok(())
    })?;
    Ok(found)
}

/// All rows.
pub(crate) fn all<T>(
    session: &mut dyn Session,
    sql: &str,
    values: &[Value<'_>],
    decode: impl Fn(&dyn Columns) -> Result<T>,
) -> Result<Vec<T>> {
    let mut found = Vec::new();
    session.rows(sql, values, &mut |row| {
        found.push(decode(row)?);
        Ok(())
    })?;
    Ok(found)
}

/// A number that SQL counts in.
pub(crate) fn signed(what: &'static str, value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| StoreError::Range { what, value, limit: i64::MAX.unsigned_abs() })
}
