//! The reads that are one query, or a few.

use crate::cursor::{Fingerprint, Position};
use crate::query::page_size;
use crate::read::{
    Coin, CoinCursor, Consumption, FlowPage, FlowQuery, FlowRow, FlowStatus, Outbound, Past, Queues,
    Restored, SavedArrival, SavedFlow,
};
use crate::row::{Row, hex, state_ref, state_ref_bytes};
use crate::select::{self, Space};
use crate::session::{Columns, Session, Value, all, one, signed};
use crate::write::{Consent, FlowKey, Mark, NewFlow};
use crate::{
    Result, StoreError,
    batch::{INDEX_BITS, Kind, NUMBER_BITS},
};
use std::collections::HashMap;
use std::hash::Hash;
use tally_contracts::{AttachmentId, Name, PublicKey, StateRef, Timestamp, TransactionId};

/// How many keys one statement looks up.
const LOOKUP: usize = 16;
const LOOKUP_LIST: &str = "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";

/// How many flows one page looks at.
const FLOWS_EXAMINED: i64 = 8192;

pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Looks up many keys, a fixed number at a time so that there is one statement to prepare.
/// `sql` ends with `IN`; each row gives its key and its value.
fn look_up<K: Eq + Hash, V>(
    session: &mut dyn Session,
    sql: &str,
    keys: &[Value<'_>],
    decode: impl Fn(&dyn Columns) -> Result<(K, V)>,
) -> Result<HashMap<K, V>> {
    let sql = format!("{sql} {LOOKUP_LIST}");
    let mut found = HashMap::new();
    for keys in keys.chunks(LOOKUP) {
        let mut values = [keys[0]; LOOKUP];
        values[..keys.len()].copy_from_slice(keys);
        session.rows(&sql, &values, &mut |row| {
            found.extend([decode(row)?]);
            Ok(())
        })?;
    }
    Ok(found)
}

const FLOW: &str = "SELECT number, id, name, version, arguments, origin, seed, started, mark, reason, ended, outcome FROM flow";

fn flow_row(columns: &dyn Columns) -> Result<(i64, FlowRow)> {
    let row = Row::new("flow", columns);
    let version = row.unsigned(3)?;
    let flow = NewFlow {
        flow: row.array(1)?,
        name: row.text(2)?.to_owned(),
        version: u32::try_from(version).map_err(|_| row.fault(format_args!("version {version}")))?,
        arguments: row.bytes(4)?.to_vec(),
        origin: row.bytes(5)?.to_vec(),
        seed: row.array(6)?,
        at: row.time(7)?,
    };
    let status = match row.bytes_if(11)? {
        Some(outcome) => FlowStatus::Ended { outcome: outcome.to_vec(), at: row.time(10)? },
        None => FlowStatus::Unfinished(match row.integer(8)? {
            0 => Mark::Running,
            1 => Mark::Paused,
            2 => Mark::Held { reason: row.text(9)?.to_owned() },
            other => return Err(row.fault(format_args!("mark {other}"))),
        }),
    };
    Ok((row.integer(0)?, FlowRow { flow, status }))
}

pub(crate) fn flow(session: &mut dyn Session, flow: FlowKey) -> Result<Option<FlowRow>> {
    let found = one(session, &format!("{FLOW} WHERE id = $1"), &[Value::Bytes(&flow)], flow_row)?;
    Ok(found.map(|(_, row)| row))
}

fn flow_number(session: &mut dyn Session, flow: &FlowKey) -> Result<i64> {
    one(session, "SELECT number FROM flow WHERE id = $1", &[Value::Bytes(flow)], |columns| {
        Row::new("flow", columns).integer(0)
    })?
    .ok_or_else(|| StoreError::Missing { table: "flow", key: hex(flow) })
}

pub(crate) fn unfinished_flows(
    session: &mut dyn Session,
    after: Option<FlowKey>,
    at_most: usize,
) -> Result<Vec<SavedFlow>> {
    let after = after.map_or(Ok(-1), |flow| flow_number(session, &flow))?;
    let sql = format!("{FLOW} WHERE outcome IS NULL AND number > $1 ORDER BY number LIMIT $2");
    let rows = all(session, &sql, &[Value::Integer(after), Value::Integer(limit(at_most))], flow_row)?;
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(Vec::new()) };
    let bounds = [Value::Integer(first.0), Value::Integer(last.0), Value::Integer(Kind::Arrival.number())];
    let numbers: Vec<i64> = rows.iter().map(|(number, _)| *number).collect();
    let mut flows: Vec<SavedFlow> = Vec::with_capacity(rows.len());
    for (number, FlowRow { flow, status }) in rows {
        let FlowStatus::Unfinished(mark) = status else {
            return Err(StoreError::row(
                "flow",
                number,
                "it has an outcome and is among those that have none",
            ));
        };
        flows.push(SavedFlow { flow, mark, steps: Vec::new(), arrivals: Vec::new() });
    }
    let mut at = 0;
    session.rows(
        "SELECT flow, kind, key, bytes FROM part WHERE flow >= $1 AND flow <= $2 AND kind <= $3 \
         ORDER BY flow, kind, key",
        &bounds,
        &mut |columns| {
            let row = Row::new("part", columns);
            let number = row.integer(0)?;
            while numbers.get(at).is_some_and(|flow| *flow < number) {
                at += 1;
            }
            let Some(flow) = flows.get_mut(at).filter(|_| numbers[at] == number) else {
                return Err(row.fault("its flow has ended"));
            };
            let (key, bytes) = (row.bytes(2)?, row.bytes(3)?.to_vec());
            let counted = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
            let damaged = || row.fault(format_args!("key {}", hex(key)));
            if row.integer(1)? == Kind::Step.number() {
                flow.steps.push((counted(key).ok_or_else(damaged)?, bytes));
            } else {
                let (session, number) = key.split_first_chunk().ok_or_else(damaged)?;
                let number = counted(number).ok_or_else(damaged)?;
                flow.arrivals.push(SavedArrival { session: *session, number, message: bytes });
            }
            Ok(())
        },
    )?;
    Ok(flows)
}

pub(crate) fn flows(session: &mut dyn Session, query: &FlowQuery) -> Result<FlowPage> {
    let fingerprint = Fingerprint::new(&("flows", &query.name, query.ended))?;
    let before = match &query.cursor {
        Some(cursor) => fingerprint.position(cursor)?.key,
        None => i64::MAX,
    };
    let ended = match query.ended {
        Some(true) => " AND outcome IS NOT NULL",
        Some(false) => " AND outcome IS NULL",
        None => "",
    };
    let examined = format!(
        "SELECT min(number), count(*) FROM \
         (SELECT number FROM flow WHERE number < $1{ended} ORDER BY number DESC LIMIT $2) AS examined"
    );
    let bounds = [Value::Integer(before), Value::Integer(FLOWS_EXAMINED)];
    let window = one(session, &examined, &bounds, |columns| {
        let row = Row::new("flow", columns);
        Ok((row.integer_if(0)?, row.integer(1)?))
    })?;
    let Some((Some(lowest), count)) = window else { return Ok(FlowPage::default()) };
    let size = page_size(query.page_size);
    let mut values = vec![Value::Integer(before), Value::Integer(lowest)];
    let mut sql = format!("{FLOW} WHERE number < $1 AND number >= $2{ended}");
    if let Some(name) = &query.name {
        sql.push_str(" AND name = $3");
        values.push(Value::Bytes(name.as_bytes()));
    }
    values.push(Value::Integer(limit(size + 1)));
    sql.push_str(&format!(" ORDER BY number DESC LIMIT ${}", values.len()));
    let mut rows = all(session, &sql, &values, flow_row)?;
    let cursor = |key| Some(fingerprint.cursor(Position { quantity: 0, key }));
    let next = if rows.len() > size {
        rows.truncate(size);
        rows.last().and_then(|(number, _)| cursor(*number))
    } else if count == FLOWS_EXAMINED {
        cursor(lowest)
    } else {
        None
    };
    Ok(FlowPage { flows: rows.into_iter().map(|(_, row)| row).collect(), next })
}

fn peer(session: &mut dyn Session, name: &Name) -> Result<Option<i64>> {
    let name = Value::Bytes(name.as_str().as_bytes());
    one(session, "SELECT id FROM peer WHERE name = $1", &[name], |columns| {
        let row = Row::new("peer", columns);
        let id = row.integer(0)?;
        if (0..1 << (63 - NUMBER_BITS)).contains(&id) {
            Ok(id)
        } else {
            Err(row.fault("the id is out of range"))
        }
    })
}

pub(crate) fn outbound(
    session: &mut dyn Session,
    name: &Name,
    after: u64,
    limit_bytes: usize,
) -> Result<Vec<(u64, Vec<u8>)>> {
    let Some(peer) = peer(session, name)? else { return Ok(Vec::new()) };
    let first = peer << NUMBER_BITS;
    // A number beyond the last possible one has nothing after it.
    let after = first + i64::try_from(after.min((1 << NUMBER_BITS) - 1)).unwrap_or(i64::MAX);
    let end = first + (1 << NUMBER_BITS);
    let lengths = all(
        session,
        "SELECT key, length(message) FROM outbound WHERE key > $1 AND key < $2 ORDER BY key LIMIT 1000",
        &[Value::Integer(after), Value::Integer(end)],
        |columns| {
            let row = Row::new("outbound", columns);
            Ok((row.integer(0)?, row.unsigned(1)?))
        },
    )?;
    let mut bytes = 0_u64;
    let within = lengths.iter().position(|(_, length)| {
        bytes = bytes.saturating_add(*length);
        bytes > limit_bytes as u64
    });
    let last = within.map_or(lengths.len(), |count| count.max(1));
    let Some((last, _)) = last.checked_sub(1).and_then(|index| lengths.get(index)) else {
        return Ok(Vec::new());
    };
    all(
        session,
        "SELECT key, message FROM outbound WHERE key > $1 AND key <= $2 ORDER BY key",
        &[Value::Integer(after), Value::Integer(*last)],
        |columns| {
            let row = Row::new("outbound", columns);
            Ok(((row.integer(0)? - first).unsigned_abs(), row.bytes(1)?.to_vec()))
        },
    )
}

pub(crate) fn queues(session: &mut dyn Session) -> Result<Queues> {
    let own = one(session, "SELECT queue FROM store", &[], |columns| Row::new("store", columns).array(0))?
        .ok_or_else(|| StoreError::row("store", "1", "it is missing"))?;
    let mut queues = Queues { own, ..Queues::default() };
    let sql = "SELECT p.id, p.name, a.up_to, \
               (SELECT max(o.key) FROM outbound o WHERE o.key >= p.id << 44 AND o.key < (p.id + 1) << 44) \
               FROM peer p LEFT JOIN acknowledged a ON a.peer = p.id";
    session.rows(sql, &[], &mut |columns| {
        let row = Row::new("peer", columns);
        let acknowledged = row.integer_if(2)?;
        let waiting = row.integer_if(3)?.map(|key| key & ((1 << NUMBER_BITS) - 1));
        if let Some(sent) = acknowledged.max(waiting) {
            let acknowledged = acknowledged.unwrap_or(0).unsigned_abs();
            queues.outbound.insert(row.name(1)?, Outbound { sent: sent.unsigned_abs(), acknowledged });
        }
        Ok(())
    })?;
    let sql = "SELECT r.peer, p.name, r.queue, r.up_to FROM received r JOIN peer p ON p.id = r.peer";
    session.rows(sql, &[], &mut |columns| {
        let row = Row::new("received", columns);
        queues.inbound.insert((row.name(1)?, row.array(2)?), row.unsigned(3)?);
        Ok(())
    })?;
    queues.restored = one(session, "SELECT taken, at FROM restored", &[], |columns| {
        let row = Row::new("restored", columns);
        Ok(Restored { taken: row.time(0)?, at: row.time(1)? })
    })?;
    Ok(queues)
}

pub(crate) fn past(session: &mut dyn Session) -> Result<Past> {
    let own = one(session, "SELECT queue, standing, recovery FROM store", &[], |columns| {
        let row = Row::new("store", columns);
        let recovery = row.bytes_if(2)?.map(|_| row.text(2)).transpose()?;
        Ok((row.bytes_if(1)?.map(<[u8]>::to_vec), recovery.map(str::to_owned)))
    })?;
    let (standing, recovery) = own.ok_or_else(|| StoreError::row("store", "1", "it is missing"))?;
    let mut past = Past { standing, recovery, ..Past::default() };
    let sql = "SELECT a.peer, p.name, a.standing FROM acquaintance a JOIN peer p ON p.id = a.peer";
    session.rows(sql, &[], &mut |columns| {
        let row = Row::new("acquaintance", columns);
        past.acquaintances.insert(row.name(1)?, row.bytes(2)?.to_vec());
        Ok(())
    })?;
    let sql = "SELECT q.peer, p.name, q.name FROM queue_name q JOIN peer p ON p.id = q.peer";
    session.rows(sql, &[], &mut |columns| {
        let row = Row::new("queue_name", columns);
        past.queues.insert(row.name(1)?, row.array(2)?);
        Ok(())
    })?;
    Ok(past)
}

pub(crate) fn ledger(session: &mut dyn Session, after: u64, at_most: usize) -> Result<Vec<(u64, Vec<u8>)>> {
    let sql = "SELECT number, bytes FROM ledger WHERE number > $1 ORDER BY number LIMIT $2";
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    all(session, sql, &[Value::Integer(after), Value::Integer(limit(at_most))], |columns| {
        let row = Row::new("ledger", columns);
        Ok((row.unsigned(0)?, row.bytes(1)?.to_vec()))
    })
}

fn value_by_id(table: &'static str) -> impl Fn(&dyn Columns) -> Result<(TransactionId, Vec<u8>)> {
    move |columns| {
        let row = Row::new(table, columns);
        Ok((row.transaction(0)?, row.bytes(1)?.to_vec()))
    }
}

pub(crate) fn transaction(session: &mut dyn Session, id: TransactionId) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT id, bytes FROM ledger WHERE id = $1";
    Ok(one(session, sql, &[Value::Bytes(id.as_bytes())], value_by_id("ledger"))?.map(|(_, bytes)| bytes))
}

pub(crate) fn transactions(session: &mut dyn Session, ids: &[TransactionId]) -> Result<Vec<Option<Vec<u8>>>> {
    let keys: Vec<Value<'_>> = ids.iter().map(|id| Value::Bytes(id.as_bytes())).collect();
    let found = look_up(session, "SELECT id, bytes FROM ledger WHERE id IN", &keys, value_by_id("ledger"))?;
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

pub(crate) fn dependency(
    session: &mut dyn Session,
    flow: FlowKey,
    id: TransactionId,
) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT key, bytes FROM part WHERE flow = (SELECT number FROM flow WHERE id = $1) \
               AND kind = 3 AND key = $2";
    let values = [Value::Bytes(&flow), Value::Bytes(id.as_bytes())];
    Ok(one(session, sql, &values, value_by_id("part"))?.map(|(_, bytes)| bytes))
}

pub(crate) fn dependencies(
    session: &mut dyn Session,
    flow: FlowKey,
    after: Option<TransactionId>,
    at_most: usize,
) -> Result<Vec<(TransactionId, Vec<u8>)>> {
    let sql = "SELECT key, bytes FROM part WHERE flow = (SELECT number FROM flow WHERE id = $1) \
               AND kind = 3 AND key > $2 ORDER BY key LIMIT $3";
    let after = after.as_ref().map_or(&[][..], |id| id.as_bytes());
    let values = [Value::Bytes(&flow), Value::Bytes(after), Value::Integer(limit(at_most))];
    all(session, sql, &values, value_by_id("part"))
}

pub(crate) fn attachment(session: &mut dyn Session, id: AttachmentId) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT id, bytes FROM attachment WHERE id = $1";
    one(session, sql, &[Value::Bytes(id.as_bytes())], |columns| {
        Ok(Row::new("attachment", columns).bytes(1)?.to_vec())
    })
}

pub(crate) fn locks(session: &mut dyn Session) -> Result<Vec<(StateRef, FlowKey)>> {
    let sql = "SELECT f.number, f.id, p.key FROM flow f JOIN part p ON p.flow = f.number AND p.kind = 2 \
               WHERE f.outcome IS NULL ORDER BY f.number, p.key";
    all(session, sql, &[], |columns| {
        let row = Row::new("part", columns);
        let key = row.bytes(2)?;
        let state = state_ref(key).ok_or_else(|| row.fault(format_args!("key {}", hex(key))))?;
        Ok((state, row.array(1)?))
    })
}

pub(crate) fn consumed(session: &mut dyn Session, states: &[StateRef]) -> Result<Vec<Option<Consumption>>> {
    let bytes: Vec<[u8; 36]> = states.iter().map(state_ref_bytes).collect();
    let keys: Vec<Value<'_>> = bytes.iter().map(|key| Value::Bytes(key)).collect();
    let sql = "SELECT s.state, s.consumer, p.name, s.at FROM spent s LEFT JOIN peer p ON p.id = s.requester \
               WHERE s.state IN";
    let found = look_up(session, sql, &keys, |columns| {
        let row = Row::new("spent", columns);
        let consumption = Consumption { by: row.transaction(1)?, requester: row.name(2)?, at: row.time(3)? };
        Ok((row.array::<36>(0)?, consumption))
    })?;
    Ok(bytes.iter().map(|key| found.get(key).cloned()).collect())
}

pub(crate) fn coins(
    session: &mut dyn Session,
    asset: &str,
    owner: &PublicKey,
    after: Option<CoinCursor>,
    at_most: usize,
) -> Result<Vec<Coin>> {
    let asset = select::term(session, Space::Asset, asset.as_bytes())?;
    let owner = select::term(session, Space::Key, &select::key_bytes(owner))?;
    let (Some(asset), Some(owner)) = (asset, owner) else { return Ok(Vec::new()) };
    let sql = "SELECT s.key, l.id, s.quantity, s.state FROM state s JOIN ledger l ON l.number = s.key >> 20 \
               WHERE s.asset = $1 AND s.owner = $2 AND s.consumer IS NULL AND s.aside IS NULL \
               AND s.quantity IS NOT NULL \
               AND s.key > $3 ORDER BY s.key LIMIT $4";
    let after = after.map_or(-1, |CoinCursor(key)| key);
    let values =
        [Value::Integer(asset), Value::Integer(owner), Value::Integer(after), Value::Integer(limit(at_most))];
    all(session, sql, &values, |columns| {
        let row = Row::new("state", columns);
        let key = row.integer(0)?;
        let reference = StateRef { transaction: row.transaction(1)?, index: select::index(key) };
        let quantity = crate::row::quantity(row.integer(2)?);
        Ok(Coin { cursor: CoinCursor(key), reference, quantity, state: row.borsh(3)? })
    })
}

pub(crate) fn consents(session: &mut dyn Session, since: Timestamp) -> Result<Vec<Consent>> {
    let sql = "SELECT flow, rule, quantity, at FROM consent WHERE at >= $1 ORDER BY at, flow";
    all(session, sql, &[Value::Integer(signed("a time", since.as_millis())?)], |columns| {
        let row = Row::new("consent", columns);
        Ok(Consent {
            flow: row.array(0)?,
            rule: row.text(1)?.to_owned(),
            quantity: crate::row::quantity(row.integer(2)?),
            at: row.time(3)?,
        })
    })
}

pub(crate) fn vault(
    session: &mut dyn Session,
    references: &[StateRef],
) -> Result<HashMap<StateRef, (i64, crate::VaultState)>> {
    let keys: Vec<Value<'_>> =
        references.iter().map(|state| Value::Bytes(state.transaction.as_bytes())).collect();
    let numbers = look_up(session, "SELECT id, number FROM ledger WHERE id IN", &keys, |columns| {
        let row = Row::new("ledger", columns);
        Ok((row.transaction(0)?, row.integer(1)?))
    })?;
    let keys: Vec<Value<'_>> = references
        .iter()
        .filter(|state| state.index < 1 << INDEX_BITS)
        .filter_map(|state| {
            let number = numbers.get(&state.transaction)?;
            Some(Value::Integer(number << INDEX_BITS | i64::from(state.index)))
        })
        .collect();
    let sql = format!("{}{} WHERE s.key IN", select::COLUMNS, select::TABLES);
    look_up(session, &sql, &keys, |columns| {
        let (position, state) = select::vault_state(columns)?;
        Ok((state.reference, (position.key, state)))
    })
}

pub(crate) fn vault_in_order(
    session: &mut dyn Session,
    references: &[StateRef],
) -> Result<Vec<Option<crate::VaultState>>> {
    let found = vault(session, references)?;
    Ok(references.iter().map(|reference| found.get(reference).map(|(_, state)| state.clone())).collect())
}
