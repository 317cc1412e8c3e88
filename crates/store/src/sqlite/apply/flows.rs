//! Flows and what they hold.

use super::{changes, prepare, same};
use crate::batch::{Batch, Ending, Part};
use crate::row::hex;
use crate::session::signed;
use crate::sqlite::connection::error;
use crate::write::{FlowKey, Mark, NewFlow};
use crate::{Result, StoreError};
use rusqlite::{Connection, OptionalExtension as _, params};

pub(super) fn write(connection: &Connection, batch: &Batch<'_>) -> Result<()> {
    for (flow, ending) in &batch.begun {
        begin(connection, flow, *ending)?;
    }
    for (flow, ending) in &batch.ended {
        end(connection, flow, *ending)?;
    }
    for (flow, mark) in &batch.marked {
        let (number, reason) = match mark {
            Mark::Running => (0, None),
            Mark::Paused => (1, None),
            Mark::Held { reason } => (2, Some(reason.as_bytes())),
        };
        let sql = "UPDATE flow SET mark = ?1, reason = ?2 WHERE id = ?3 AND outcome IS NULL";
        changes(&mut prepare(connection, sql)?, params![number, reason, flow])?;
    }
    for parts in batch.parts.chunk_by(|a, b| a.flow == b.flow) {
        let Some(flow) = parts.first().map(|part| part.flow) else { continue };
        if let Some(number) = unfinished(connection, &flow)? {
            hold(connection, number, parts)?;
        }
    }
    for (flow, key) in &batch.removed {
        if let Some(number) = unfinished(connection, flow)? {
            let sql = "DELETE FROM part WHERE flow = ?1 AND kind = ?2 AND key = ?3";
            changes(&mut prepare(connection, sql)?, params![number, key.kind.number(), key.as_bytes()])?;
        }
    }
    Ok(())
}

fn begin(connection: &Connection, flow: &NewFlow, ending: Option<Ending<'_>>) -> Result<()> {
    let (outcome, ended) = match ending {
        Some(ending) => (Some(ending.outcome), Some(signed("a time", ending.at.as_millis())?)),
        None => (None, None),
    };
    let sql = "INSERT INTO flow (id, name, version, arguments, origin, seed, started, mark, ended, outcome) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9) ON CONFLICT (id) DO NOTHING";
    let (name, started) = (flow.name.as_bytes(), signed("a time", flow.at.as_millis())?);
    let inserted = changes(
        &mut prepare(connection, sql)?,
        params![
            flow.flow,
            name,
            flow.version,
            flow.arguments,
            flow.origin,
            flow.seed,
            started,
            ended,
            outcome
        ],
    )?;
    if inserted {
        return Ok(());
    }
    // The batch is applied again, and the flow may have ended since.
    let sql = "SELECT name = ?2 AND arguments = ?3 AND seed = ?4 AND (?5 IS NULL OR outcome = ?5) \
               FROM flow WHERE id = ?1";
    let is_same: Option<bool> = prepare(connection, sql)?
        .query_row(params![flow.flow, name, flow.arguments, flow.seed, outcome], |row| row.get(0))
        .map_err(error)?;
    same(is_same == Some(true), "flow", || hex(&flow.flow))
}

fn end(connection: &Connection, flow: &FlowKey, ending: Ending<'_>) -> Result<()> {
    let Some(number) = unfinished(connection, flow)? else {
        let sql = "SELECT outcome = ?2 FROM flow WHERE id = ?1";
        let is_same: Option<bool> = prepare(connection, sql)?
            .query_row(params![flow, ending.outcome], |row| row.get(0))
            .optional()
            .map_err(error)?;
        return match is_same {
            Some(is_same) => same(is_same, "flow", || hex(flow)),
            None => Err(StoreError::Missing { table: "flow", key: hex(flow) }),
        };
    };
    let sql = "UPDATE flow SET outcome = ?1, ended = ?2, mark = 0, reason = NULL WHERE number = ?3";
    let at = signed("a time", ending.at.as_millis())?;
    changes(&mut prepare(connection, sql)?, params![ending.outcome, at, number])?;
    changes(&mut prepare(connection, "DELETE FROM part WHERE flow = ?1")?, params![number])?;
    Ok(())
}

/// The number of a flow that has not ended.
fn unfinished(connection: &Connection, flow: &FlowKey) -> Result<Option<i64>> {
    prepare(connection, "SELECT number FROM flow WHERE id = ?1 AND outcome IS NULL")?
        .query_row(params![flow], |row| row.get(0))
        .optional()
        .map_err(error)
}

fn hold(connection: &Connection, flow: i64, parts: &[Part<'_>]) -> Result<()> {
    let sql = "INSERT INTO part (flow, kind, key, bytes) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    let mut insert = prepare(connection, sql)?;
    for part in parts {
        let kind = part.key.kind;
        if !changes(&mut insert, params![flow, kind.number(), part.key.as_bytes(), part.bytes])?
            && kind.is_fixed()
        {
            let sql = "SELECT bytes = ?4 FROM part WHERE flow = ?1 AND kind = ?2 AND key = ?3";
            let is_same: bool = prepare(connection, sql)?
                .query_row(params![flow, kind.number(), part.key.as_bytes(), part.bytes], |row| row.get(0))
                .map_err(error)?;
            same(is_same, "part", || part.to_string())?;
        }
    }
    Ok(())
}
