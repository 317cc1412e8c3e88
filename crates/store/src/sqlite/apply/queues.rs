//! Messages to peers, and how far the queues have come.

use super::{changes, intern::Interned, prepare, same};
use crate::Result;
use crate::batch::{Batch, NUMBER_BITS};
use crate::session::signed;
use crate::sqlite::connection::error;
use rusqlite::{Connection, params};

pub(super) fn write(connection: &Connection, interned: &mut Interned, batch: &Batch<'_>) -> Result<()> {
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
