//! Transactions, the vault, attachments, and a notary's memory.

use super::{changes, intern::Interned, prepare};
use crate::batch::{Batch, INDEX_BITS, Spent};
use crate::row::{self, bounded, state_ref_bytes};
use crate::session::signed;
use crate::sqlite::connection::error;
use crate::write::{Consent, Produced, Recorded};
use crate::{Aside, Result, StoreError};
use rusqlite::{Connection, OptionalExtension as _, params};
use tally_contracts::{StateRef, TransactionId};

/// Records transactions and attachments. `recorded` is when the last one before was recorded, and
/// what is returned when the last one of these was.
pub(super) fn write(
    connection: &Connection,
    interned: &mut Interned,
    batch: &Batch<'_>,
    mut recorded: i64,
) -> Result<i64> {
    for transaction in &batch.transactions {
        recorded = recorded.max(signed("a time", transaction.at.as_millis())?);
        record(connection, interned, transaction, recorded)?;
    }
    for (state, by, at) in &batch.elsewhere {
        consume_elsewhere(connection, state, by, signed("a time", at.as_millis())?)?;
    }
    let sql = "INSERT INTO attachment (id, bytes) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING";
    for (id, bytes) in &batch.attachments {
        changes(&mut prepare(connection, sql)?, params![id.as_bytes(), bytes])?;
    }
    for (state, by) in &batch.lost {
        set_aside(connection, state, by)?;
    }
    let sql = "INSERT INTO consent (flow, rule, quantity, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    for Consent { flow, rule, quantity, at } in batch.consents.iter().copied() {
        let (quantity, at) = (row::ordered(*quantity), signed("a time", at.as_millis())?);
        changes(&mut prepare(connection, sql)?, params![flow, rule.as_bytes(), quantity, at])?;
    }
    Ok(recorded)
}

fn number(connection: &Connection, id: &TransactionId) -> Result<Option<i64>> {
    prepare(connection, "SELECT number FROM ledger WHERE id = ?1")?
        .query_row(params![id.as_bytes()], |row| row.get(0))
        .optional()
        .map_err(error)
}

fn record(
    connection: &Connection,
    interned: &mut Interned,
    transaction: &Recorded,
    recorded: i64,
) -> Result<()> {
    let sql = "INSERT INTO ledger (id, recorded, bytes) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING";
    let inserted = changes(
        &mut prepare(connection, sql)?,
        params![transaction.id.as_bytes(), recorded, transaction.bytes],
    )?;
    let own = if inserted {
        connection.last_insert_rowid()
    } else {
        number(connection, &transaction.id)?
            .ok_or_else(|| StoreError::row("ledger", transaction.id, "it is there and is not found"))?
    };
    for state in &transaction.produced {
        produce(connection, interned, own, state)?;
    }
    for state in &transaction.consumed {
        consume(connection, own, &transaction.id, state)?;
    }
    Ok(())
}

fn produce(
    connection: &Connection,
    interned: &mut Interned,
    transaction: i64,
    produced: &Produced,
) -> Result<()> {
    let index = bounded("the index of a state", u64::from(produced.index), INDEX_BITS)?;
    let key = transaction << INDEX_BITS | index;
    let Produced { state, summary, .. } = produced;
    let class = interned.class(connection, &state.contract, &summary.kind, &state.notary.name)?;
    let owner = summary.owner.as_ref().map(|owner| interned.key(connection, owner)).transpose()?;
    let asset = summary.asset.as_ref().map(|asset| interned.asset(connection, asset)).transpose()?;
    let sql = "INSERT INTO state (key, class, owner, asset, quantity, linear, participants, state, details, aside) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (key) DO NOTHING";
    let inserted = changes(
        &mut prepare(connection, sql)?,
        params![
            key,
            class,
            owner,
            asset,
            summary.quantity.map(row::ordered),
            summary.linear_id.as_ref().map(|id| id.as_bytes()),
            tally_contracts::encode(&summary.participants),
            tally_contracts::encode(state),
            row::details(&summary.details),
            Aside::of(state).map(|aside| row::aside(&aside)),
        ],
    )?;
    if !inserted {
        return Ok(());
    }
    let mut post =
        prepare(connection, "INSERT INTO posting (term, key) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
    if let Some(owner) = owner {
        changes(&mut post, params![owner, key])?;
    }
    for participant in summary.participants.iter().filter(|key| summary.owner != Some(**key)) {
        changes(&mut post, params![interned.key(connection, participant)?, key])?;
    }
    let sql = "INSERT INTO class_posting (class, key) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    changes(&mut prepare(connection, sql)?, params![class, key])?;
    Ok(())
}

fn set_aside(connection: &Connection, state: &StateRef, by: &TransactionId) -> Result<()> {
    let Some(producer) = number(connection, &state.transaction)? else { return Ok(()) };
    let Ok(index) = bounded("the index of a state", u64::from(state.index), INDEX_BITS) else {
        return Ok(());
    };
    let lost = Aside::Lost { by: *by };
    let sql = "UPDATE state SET aside = ?1, lost = ?2 WHERE key = ?3 AND consumer IS NULL AND lost IS NULL";
    changes(
        &mut prepare(connection, sql)?,
        params![row::aside(&lost), by.as_bytes(), producer << INDEX_BITS | index],
    )?;
    Ok(())
}

fn consume(connection: &Connection, by: i64, id: &TransactionId, state: &StateRef) -> Result<()> {
    let Some(producer) = number(connection, &state.transaction)? else { return Ok(()) };
    let Ok(index) = bounded("the index of a state", u64::from(state.index), INDEX_BITS) else {
        return Ok(());
    };
    let key = producer << INDEX_BITS | index;
    let sql = "UPDATE state SET consumer = ?1 WHERE key = ?2 AND (consumer IS NULL OR consumer < 0)";
    if changes(&mut prepare(connection, sql)?, params![by, key])? {
        return Ok(());
    }
    let sql = "SELECT l.id FROM state s JOIN ledger l ON l.number = s.consumer WHERE s.key = ?1";
    let first: Option<[u8; 32]> =
        prepare(connection, sql)?.query_row(params![key], |row| row.get(0)).optional().map_err(error)?;
    twice(*state, first, id)
}

/// The consumer that is none of the ledger's numbers.
const ELSEWHERE: i64 = -1;

/// Remembers that a transaction which is not recorded consumed a state.
fn consume_elsewhere(connection: &Connection, state: &StateRef, by: &TransactionId, at: i64) -> Result<()> {
    let Some(producer) = number(connection, &state.transaction)? else { return Ok(()) };
    let Ok(index) = bounded("the index of a state", u64::from(state.index), INDEX_BITS) else {
        return Ok(());
    };
    let key = producer << INDEX_BITS | index;
    let sql = "UPDATE state SET consumer = ?1 WHERE key = ?2 AND consumer IS NULL";
    if changes(&mut prepare(connection, sql)?, params![ELSEWHERE, key])? {
        let sql =
            "INSERT INTO consumed_elsewhere (key, consumer, at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        changes(&mut prepare(connection, sql)?, params![key, by.as_bytes(), at])?;
    }
    Ok(())
}

fn twice(state: StateRef, first: Option<[u8; 32]>, again: &TransactionId) -> Result<()> {
    match first.map(TransactionId::from_bytes) {
        Some(by) if by != *again => Err(StoreError::Twice { state, by, again: *again }),
        _ => Ok(()),
    }
}

/// Remembers what a notary has found unconsumed.
pub(super) fn notarise(connection: &Connection, interned: &mut Interned, spent: &[Spent<'_>]) -> Result<()> {
    let sql =
        "INSERT INTO spent (state, consumer, requester, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    let mut insert = prepare(connection, sql)?;
    for Spent { state, by, requester, at } in spent {
        let requester = interned.peer(connection, requester)?;
        let (key, at) = (state_ref_bytes(state), signed("a time", at.as_millis())?);
        if !changes(&mut insert, params![key, by.as_bytes(), requester, at])? {
            let first = prepare(connection, "SELECT consumer FROM spent WHERE state = ?1")?
                .query_row(params![key], |row| row.get(0))
                .optional()
                .map_err(error)?;
            twice(*state, first, by)?;
        }
    }
    Ok(())
}
