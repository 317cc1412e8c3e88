//! Messages to peers, and how far the queues have come.

use super::{changes, intern::Interned, prepare, same};
use crate::Result;
use crate::batch::{Batch, NUMBER_BITS};
use crate::session::signed;
use crate::sqlite::connection::error;
use rusqlite::{Connection, params};

pub(super) fn write(connection: &Connection, interned: &mut Interned, batch: &Batch<'_>) -> Result<()> {
    past(connection, interned, batch)?;
    let sql = "INSERT INTO outbound (key, message) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    let mut insert = prepare(connection, sql)?;
    for message in &batch.messages {
        let peer = interned.peer(connection, message.peer)?;
        let key = peer << NUMBER_BITS | signed("a number", message.number)?;
        if !changes(&mut insert, params![key, message.message])? {
            let is_same: bool = prepare(connection, "SELECT message = ?2 FROM outbound WHERE key = ?1")?
                .query_row(params![key, message.message], |row| row.get(0))
                .map_err(error)?;
            same(is_same, "outbound", || message.to_string())?;
        }
    }
    for (peer, up_to) in &batch.acknowledged {
        let peer = interned.peer(connection, peer)?;
        let up_to = signed("a number", *up_to)?.min((1 << NUMBER_BITS) - 1);
        let sql = "INSERT INTO acknowledged (peer, up_to) VALUES (?1, ?2) \
                   ON CONFLICT (peer) DO UPDATE SET up_to = max(up_to, excluded.up_to)";
        changes(&mut prepare(connection, sql)?, params![peer, up_to])?;
        let sql = "DELETE FROM outbound WHERE key >= ?1 AND key <= ?2";
        let first = peer << NUMBER_BITS;
        changes(&mut prepare(connection, sql)?, params![first, first | up_to])?;
    }
    for (peer, queue, up_to) in &batch.received {
        let peer = interned.peer(connection, peer)?;
        let sql = "INSERT INTO received (peer, queue, up_to) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (peer, queue) DO UPDATE SET up_to = max(up_to, excluded.up_to)";
        changes(&mut prepare(connection, sql)?, params![peer, queue, signed("a number", *up_to)?])?;
    }
    if batch.recovered {
        changes(&mut prepare(connection, "DELETE FROM restored")?, [])?;
    }
    Ok(())
}

/// Where this database and those of peers stand, and the queues that begin anew.
fn past(connection: &Connection, interned: &mut Interned, batch: &Batch<'_>) -> Result<()> {
    if let Some(own) = &batch.renewed {
        changes(&mut prepare(connection, "UPDATE store SET queue = ?1")?, params![own])?;
        for sql in [
            "DELETE FROM outbound",
            "DELETE FROM acknowledged",
            "DELETE FROM received",
            "DELETE FROM queue_name",
            "DELETE FROM acquaintance",
        ] {
            changes(&mut prepare(connection, sql)?, [])?;
        }
    }
    if let Some((standing, recovery)) = batch.standing {
        let sql = "UPDATE store SET standing = ?1, recovery = ?2";
        changes(&mut prepare(connection, sql)?, params![standing, recovery.map(str::as_bytes)])?;
    }
    for (peer, standing, only) in &batch.acquainted {
        let peer = interned.peer(connection, peer)?;
        let sql = "INSERT INTO acquaintance (peer, standing) VALUES (?1, ?2) \
                   ON CONFLICT (peer) DO UPDATE SET standing = excluded.standing";
        changes(&mut prepare(connection, sql)?, params![peer, standing])?;
        if let Some(queue) = only {
            let sql = "DELETE FROM received WHERE peer = ?1 AND queue <> ?2";
            changes(&mut prepare(connection, sql)?, params![peer, queue])?;
        }
    }
    for (peer, queue) in &batch.anew {
        let peer = interned.peer(connection, peer)?;
        let first = peer << NUMBER_BITS;
        let sql = "DELETE FROM outbound WHERE key >= ?1 AND key <= ?2";
        changes(&mut prepare(connection, sql)?, params![first, first | ((1 << NUMBER_BITS) - 1)])?;
        changes(&mut prepare(connection, "DELETE FROM acknowledged WHERE peer = ?1")?, params![peer])?;
        let sql = "INSERT INTO queue_name (peer, name) VALUES (?1, ?2) \
                   ON CONFLICT (peer) DO UPDATE SET name = excluded.name";
        changes(&mut prepare(connection, sql)?, params![peer, queue])?;
    }
    Ok(())
}
