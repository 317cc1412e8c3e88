//! What has not arrived, and what is not known yet.

use super::{changes, prepare};
use crate::Result;
use crate::batch::Batch;
use crate::session::signed;
use crate::write::{FIRST_PAUSE_MS, LONGEST_PAUSE_MS};
use rusqlite::{Connection, params};

pub(super) fn write(connection: &Connection, batch: &Batch<'_>) -> Result<()> {
    let (first_pause, longest) = (signed("a pause", FIRST_PAUSE_MS)?, signed("a pause", LONGEST_PAUSE_MS)?);
    for (party, transaction, attempt) in &batch.undelivered {
        let (party, id) = (party.as_str().as_bytes(), transaction.as_bytes());
        let Some(attempt) = attempt else {
            let sql = "DELETE FROM undelivered WHERE party = ?1 AND transaction_id = ?2";
            changes(&mut prepare(connection, sql)?, params![party, id])?;
            continue;
        };
        let sql = "INSERT INTO undelivered (party, transaction_id, first_tried, last_tried, due, reason) \
                   VALUES (?1, ?2, ?3, ?3, ?3 + ?5, ?4) ON CONFLICT (party, transaction_id) DO UPDATE SET \
                   last_tried = excluded.last_tried, reason = excluded.reason, \
                   due = excluded.last_tried + min(max(excluded.last_tried - first_tried, ?5), ?6)";
        let at = signed("a time", attempt.at.as_millis())?;
        let values = params![party, id, at, attempt.reason.as_bytes(), first_pause, longest];
        changes(&mut prepare(connection, sql)?, values)?;
    }
    for (transaction, row) in &batch.unresolved {
        let id = transaction.as_bytes();
        let Some(row) = row else {
            let sql = "DELETE FROM unresolved WHERE transaction_id = ?1";
            changes(&mut prepare(connection, sql)?, params![id])?;
            continue;
        };
        let sql = "INSERT INTO unresolved (transaction_id, bytes, told, first_tried, last_tried, due, reason) \
                   VALUES (?1, ?2, ?3, ?4, ?4, ?4 + ?6, ?5) ON CONFLICT (transaction_id) DO UPDATE SET \
                   bytes = excluded.bytes, told = excluded.told, \
                   last_tried = excluded.last_tried, reason = excluded.reason, \
                   due = excluded.last_tried + min(max(excluded.last_tried - first_tried, ?6), ?7)";
        let at = signed("a time", row.at.as_millis())?;
        let values = params![id, row.bytes, row.told, at, row.reason.as_bytes(), first_pause, longest];
        changes(&mut prepare(connection, sql)?, values)?;
    }
    Ok(())
}
