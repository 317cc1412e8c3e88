//! What has not arrived, and what is not known yet.

use super::{Requests, column};
use crate::Result;
use crate::batch::Batch;
use crate::session::signed;
use crate::write::{FIRST_PAUSE_MS, LONGEST_PAUSE_MS};

const LACKS: &str = "INSERT INTO undelivered AS o (party, transaction_id, first_tried, last_tried, due, reason) \
     SELECT u.party, u.id, u.at, u.at, u.at + $5, u.reason \
     FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[]) AS u(party, id, at, reason) \
     ON CONFLICT (party, transaction_id) DO UPDATE SET \
     last_tried = excluded.last_tried, reason = excluded.reason, \
     due = excluded.last_tried + least(greatest(excluded.last_tried - o.first_tried, $5), $6)";
const HAS: &str = "DELETE FROM undelivered o USING unnest($1::bytea[], $2::bytea[]) AS u(party, id) \
     WHERE o.party = u.party AND o.transaction_id = u.id";
const UNKNOWN: &str = "INSERT INTO unresolved AS o \
     (transaction_id, bytes, told, first_tried, last_tried, due, reason) \
     SELECT u.id, u.bytes, u.told, u.at, u.at, u.at + $6, u.reason \
     FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bigint[], $5::bytea[]) \
     AS u(id, bytes, told, at, reason) \
     ON CONFLICT (transaction_id) DO UPDATE SET bytes = excluded.bytes, told = excluded.told, \
     last_tried = excluded.last_tried, reason = excluded.reason, \
     due = excluded.last_tried + least(greatest(excluded.last_tried - o.first_tried, $6), $7)";
const KNOWN: &str =
    "DELETE FROM unresolved o USING unnest($1::bytea[]) AS u(id) WHERE o.transaction_id = u.id";

pub(super) fn write<'a>(requests: &mut Requests<'a>, batch: &'a Batch<'a>) -> Result<()> {
    let (first_pause, longest) = (signed("a pause", FIRST_PAUSE_MS)?, signed("a pause", LONGEST_PAUSE_MS)?);
    let mut lacks = Vec::new();
    let mut has = Vec::new();
    for (party, transaction, attempt) in &batch.undelivered {
        let (party, id) = (party.as_str().as_bytes(), &transaction.as_bytes()[..]);
        match attempt {
            Some(attempt) => {
                lacks.push((party, id, signed("a time", attempt.at.as_millis())?, attempt.reason))
            }
            None => has.push((party, id)),
        }
    }
    if !lacks.is_empty() {
        let values = vec![
            column(lacks.iter().map(|(party, ..)| *party)),
            column(lacks.iter().map(|(_, id, ..)| *id)),
            column(lacks.iter().map(|(_, _, at, _)| *at)),
            column(lacks.iter().map(|(.., reason)| reason.as_bytes())),
            Box::new(first_pause),
            Box::new(longest),
        ];
        requests.push(LACKS, values);
    }
    if !has.is_empty() {
        let values = vec![column(has.iter().map(|(party, _)| *party)), column(has.iter().map(|(_, id)| *id))];
        requests.push(HAS, values);
    }
    let mut unknown = Vec::new();
    let mut known = Vec::new();
    for (transaction, row) in &batch.unresolved {
        let id = &transaction.as_bytes()[..];
        match row {
            Some(row) => unknown.push((id, *row, signed("a time", row.at.as_millis())?)),
            None => known.push(id),
        }
    }
    if !unknown.is_empty() {
        let values = vec![
            column(unknown.iter().map(|(id, ..)| *id)),
            column(unknown.iter().map(|(_, row, _)| &row.bytes[..])),
            column(unknown.iter().map(|(_, row, _)| &row.told[..])),
            column(unknown.iter().map(|(.., at)| *at)),
            column(unknown.iter().map(|(_, row, _)| row.reason.as_bytes())),
            Box::new(first_pause),
            Box::new(longest),
        ];
        requests.push(UNKNOWN, values);
    }
    if !known.is_empty() {
        requests.push(KNOWN, vec![column(known)]);
    }
    Ok(())
}
