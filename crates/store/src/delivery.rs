//! The reads about what has not arrived and what is not known yet.

use crate::read::{Outstanding, Undelivered, UndeliveredQuery, UnresolvedRow};
use crate::reads::limit;
use crate::row::Row;
use crate::session::{Session, Value, all, one, signed};
use crate::write::Unresolved;
use crate::{Result, StoreError};
use tally_contracts::{Timestamp, TransactionId};

/// A time that every row is due by.
const NEVER: i64 = i64::MAX;

fn by(due: Option<Timestamp>) -> Result<i64, StoreError> {
    due.map_or(Ok(NEVER), |due| signed("a time", due.as_millis()))
}

pub(crate) fn undelivered(session: &mut dyn Session, query: &UndeliveredQuery) -> Result<Vec<Undelivered>> {
    let (party, after) = match &query.after {
        Some((party, transaction)) => (party.as_str().as_bytes(), &transaction.as_bytes()[..]),
        None => (&[][..], &[][..]),
    };
    let mut values = vec![Value::Bytes(party), Value::Bytes(after), Value::Integer(by(query.due_by)?)];
    let mut sql = "SELECT transaction_id, party, first_tried, last_tried, due, reason FROM undelivered \
                   WHERE (party > $1 OR (party = $1 AND transaction_id > $2)) AND due <= $3"
        .to_owned();
    if let Some(transaction) = &query.transaction {
        sql.push_str(" AND transaction_id = $4");
        values.push(Value::Bytes(transaction.as_bytes()));
    }
    // SQLite numbers parameters in the order in which they appear.
    values.push(Value::Integer(limit(query.limit)));
    sql.push_str(&format!(" ORDER BY party, transaction_id LIMIT ${}", values.len()));
    all(session, &sql, &values, |columns| {
        let row = Row::new("undelivered", columns);
        Ok(Undelivered {
            transaction: row.transaction(0)?,
            party: row.name(1)?,
            first_tried: row.time(2)?,
            last_tried: row.time(3)?,
            due: row.time(4)?,
            reason: row.text(5)?.to_owned(),
        })
    })
}

pub(crate) fn unresolved(
    session: &mut dyn Session,
    transaction: Option<TransactionId>,
    due_by: Option<Timestamp>,
    at_most: usize,
) -> Result<Vec<UnresolvedRow>> {
    let mut sql = "SELECT transaction_id, bytes, told, first_tried, last_tried, due, reason FROM unresolved \
                   WHERE due <= $1"
        .to_owned();
    let mut values = vec![Value::Integer(by(due_by)?)];
    if let Some(transaction) = &transaction {
        sql.push_str(" AND transaction_id = $2");
        values.push(Value::Bytes(transaction.as_bytes()));
    }
    values.push(Value::Integer(limit(at_most)));
    sql.push_str(&format!(" ORDER BY transaction_id LIMIT ${}", values.len()));
    all(session, &sql, &values, |columns| {
        let row = Row::new("unresolved", columns);
        Ok(UnresolvedRow {
            unresolved: Unresolved {
                transaction: row.transaction(0)?,
                bytes: row.bytes(1)?.to_vec(),
                told: row.bytes(2)?.to_vec(),
                at: row.time(4)?,
                reason: row.text(6)?.to_owned(),
            },
            first_tried: row.time(3)?,
            due: row.time(5)?,
        })
    })
}

pub(crate) fn outstanding(session: &mut dyn Session) -> Result<Outstanding> {
    let sql = "SELECT (SELECT count(*) FROM undelivered), (SELECT count(*) FROM unresolved)";
    let counts = one(session, sql, &[], |columns| {
        let row = Row::new("undelivered", columns);
        Ok(Outstanding { undelivered: row.unsigned(0)?, unresolved: row.unsigned(1)? })
    })?;
    Ok(counts.unwrap_or_default())
}
