//! Messages to peers, and how far the queues have come.

use super::{Interned, Requests, column};
use crate::Result;
use crate::batch::{Batch, NUMBER_BITS};
use crate::session::signed;

const SEND: &str = "WITH u AS (SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[]) \
     AS u(key, message, name)), \
     made AS (INSERT INTO outbound (key, message) SELECT key, message FROM u ON CONFLICT DO NOTHING) \
     SELECT refuse('TY002', 'outbound ' || convert_from(u.name, 'UTF8')) \
     FROM u JOIN outbound o ON o.key = u.key WHERE o.message <> u.message";

const ACKNOWLEDGE: &str = "INSERT INTO acknowledged AS a (peer, up_to) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[]) \
     ON CONFLICT (peer) DO UPDATE SET up_to = greatest(a.up_to, excluded.up_to)";
const FORGET: &str = "DELETE FROM outbound o USING unnest($1::bigint[], $2::bigint[]) AS u(first, last) \
     WHERE o.key >= u.first AND o.key <= u.last";

const RECEIVE: &str = "INSERT INTO received AS r (peer, queue, up_to) \
     SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) \
     ON CONFLICT (peer, queue) DO UPDATE SET up_to = greatest(r.up_to, excluded.up_to)";

pub(super) fn write<'a>(
    requests: &mut Requests<'a>,
    interned: &Interned,
    batch: &'a Batch<'a>,
) -> Result<()> {
    past(requests, interned, batch)?;
    if !batch.messages.is_empty() {
        let keys = batch.messages.iter().map(|message| {
            Ok(interned.peer(message.peer)? << NUMBER_BITS | signed("a number", message.number)?)
        });
        let values = vec![
            column(keys.collect::<Result<Vec<_>>>()?),
            column(batch.messages.iter().map(|message| message.message)),
            column(batch.messages.iter().map(|message| message.to_string().into_bytes())),
        ];
        requests.push(SEND, values);
    }
    if !batch.acknowledged.is_empty() {
        let queues = batch.acknowledged.iter().map(|(peer, up_to)| {
            Ok((interned.peer(peer)?, signed("a number", *up_to)?.min((1 << NUMBER_BITS) - 1)))
        });
        let queues = queues.collect::<Result<Vec<_>>>()?;
        let peers = column(queues.iter().map(|(peer, _)| *peer));
        requests.push(ACKNOWLEDGE, vec![peers, column(queues.iter().map(|(_, up_to)| *up_to))]);
        let first = column(queues.iter().map(|(peer, _)| peer << NUMBER_BITS));
        let last = column(queues.iter().map(|(peer, up_to)| peer << NUMBER_BITS | up_to));
        requests.push(FORGET, vec![first, last]);
    }
    if !batch.received.is_empty() {
        let peers = batch.received.iter().map(|(peer, ..)| interned.peer(peer));
        let numbers = batch.received.iter().map(|(.., up_to)| signed("a number", *up_to));
        let values = vec![
            column(peers.collect::<Result<Vec<_>>>()?),
            column(batch.received.iter().map(|(_, queue, _)| &queue[..])),
            column(numbers.collect::<Result<Vec<_>>>()?),
        ];
        requests.push(RECEIVE, values);
    }
    if batch.recovered {
        requests.push("DELETE FROM restored", Vec::new());
    }
    Ok(())
}

const ACQUAINT: &str = "INSERT INTO acquaintance (peer, standing) \
     SELECT * FROM unnest($1::bigint[], $2::bytea[]) \
     ON CONFLICT (peer) DO UPDATE SET standing = excluded.standing";
const FORGET_OTHERS: &str = "DELETE FROM received r USING unnest($1::bigint[], $2::bytea[]) AS u(peer, queue) \
     WHERE r.peer = u.peer AND u.queue IS NOT NULL AND r.queue <> u.queue";
const FORGET_ACKNOWLEDGED: &str = "DELETE FROM acknowledged WHERE peer = ANY($1::bigint[])";
const NAME: &str = "INSERT INTO queue_name (peer, name) SELECT * FROM unnest($1::bigint[], $2::bytea[]) \
     ON CONFLICT (peer) DO UPDATE SET name = excluded.name";

/// Where this database and those of peers stand, and the queues that begin anew.
fn past<'a>(requests: &mut Requests<'a>, interned: &Interned, batch: &'a Batch<'a>) -> Result<()> {
    if let Some(own) = &batch.renewed {
        requests.push("UPDATE store SET queue = $1", vec![Box::new(own.to_vec())]);
        for sql in [
            "DELETE FROM outbound",
            "DELETE FROM acknowledged",
            "DELETE FROM received",
            "DELETE FROM queue_name",
            "DELETE FROM acquaintance",
        ] {
            requests.push(sql, Vec::new());
        }
    }
    if let Some((standing, recovery)) = batch.standing {
        let values: Vec<Box<dyn tokio_postgres::types::ToSql + Sync + 'a>> =
            vec![Box::new(standing), Box::new(recovery.map(str::as_bytes))];
        requests.push("UPDATE store SET standing = $1, recovery = $2", values);
    }
    if !batch.acquainted.is_empty() {
        let peers = batch.acquainted.iter().map(|(peer, ..)| interned.peer(peer));
        let peers = peers.collect::<Result<Vec<_>>>()?;
        let only = column(batch.acquainted.iter().map(|(.., only)| only.as_ref().map(|queue| &queue[..])));
        let standings = column(batch.acquainted.iter().map(|(_, standing, _)| *standing));
        requests.push(ACQUAINT, vec![column(peers.clone()), standings]);
        requests.push(FORGET_OTHERS, vec![column(peers), only]);
    }
    if !batch.anew.is_empty() {
        let peers = batch.anew.iter().map(|(peer, _)| interned.peer(peer)).collect::<Result<Vec<_>>>()?;
        let first = column(peers.iter().map(|peer| peer << NUMBER_BITS));
        let last = column(peers.iter().map(|peer| peer << NUMBER_BITS | ((1 << NUMBER_BITS) - 1)));
        requests.push(FORGET, vec![first, last]);
        requests.push(FORGET_ACKNOWLEDGED, vec![column(peers.clone())]);
        let names = column(batch.anew.iter().map(|(_, queue)| &queue[..]));
        requests.push(NAME, vec![column(peers), names]);
    }
    Ok(())
}
