//! Transactions, the vault, attachments, and a notary's memory.

use super::{Interned, Requests, column};
use crate::batch::{Batch, INDEX_BITS, Spent};
use crate::row::{self, bounded, state_ref_bytes};
use crate::session::signed;
use crate::{Aside, Result};
use tally_contracts::StateRef;

const RECORD: &str = "INSERT INTO ledger (id, recorded, bytes) SELECT id, recorded, bytes \
     FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) WITH ORDINALITY AS u(id, recorded, bytes, place) \
     ORDER BY place ON CONFLICT (id) DO NOTHING";

const PRODUCE: &str = "INSERT INTO state \
     (key, class, owner, asset, quantity, linear, participants, state, details, aside) \
     SELECT (l.number << 20) | u.index, u.class, u.owner, u.asset, u.quantity, u.linear, u.participants, u.state, \
     u.details, u.aside FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], \
     $6::bigint[], $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bigint[]) \
     AS u(id, index, class, owner, asset, quantity, linear, participants, state, details, aside) \
     JOIN ledger l ON l.id = u.id ON CONFLICT (key) DO NOTHING";
const POST: &str = "INSERT INTO posting (term, key) SELECT u.term, (l.number << 20) | u.index \
     FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS u(id, index, term) \
     JOIN ledger l ON l.id = u.id ON CONFLICT DO NOTHING";
const POST_CLASS: &str = "INSERT INTO class_posting (class, key) SELECT u.class, (l.number << 20) | u.index \
     FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS u(id, index, class) \
     JOIN ledger l ON l.id = u.id ON CONFLICT DO NOTHING";

// A consumer is never 0; asked for like this, no index of unconsumed states seems fit to be read as a whole.
const CONSUME: &str = "UPDATE state s SET consumer = c.number \
     FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) AS u(id, index, by) \
     JOIN ledger p ON p.id = u.id JOIN ledger c ON c.id = u.by \
     WHERE s.key = ((p.number << 20) | u.index) AND coalesce(s.consumer, 0) <= 0";
// Beside a state whose consumer is none of the ledger's numbers.
const CONSUME_ELSEWHERE: &str = "WITH gone AS (UPDATE state s SET consumer = -1 \
     FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[]) AS u(id, index, by, at) \
     JOIN ledger p ON p.id = u.id WHERE s.key = ((p.number << 20) | u.index) AND coalesce(s.consumer, 0) = 0 \
     RETURNING s.key, u.by, u.at) \
     INSERT INTO consumed_elsewhere (key, consumer, at) SELECT key, by, at FROM gone ON CONFLICT DO NOTHING";
const CHECK_CONSUMED: &str = "SELECT refuse('TY001', encode(u.id, 'hex') || ':' || u.index || ' ' \
     || encode(f.id, 'hex') || ' ' || encode(u.by, 'hex')) \
     FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) AS u(id, index, by) JOIN ledger p ON p.id = u.id \
     JOIN state s ON s.key = ((p.number << 20) | u.index) JOIN ledger f ON f.number = s.consumer WHERE f.id <> u.by";

const SET_ASIDE: &str = "UPDATE state s SET aside = u.aside, lost = u.by \
     FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[]) AS u(id, index, by, aside) \
     JOIN ledger p ON p.id = u.id \
     WHERE s.key = ((p.number << 20) | u.index) AND coalesce(s.consumer, 0) = 0 AND s.lost IS NULL";
const CONSENT: &str = "INSERT INTO consent (flow, rule, quantity, at) \
     SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[]) ON CONFLICT DO NOTHING";

const ATTACH: &str = "INSERT INTO attachment (id, bytes) SELECT * FROM unnest($1::bytea[], $2::bytea[]) \
     ON CONFLICT (id) DO NOTHING";

const SPEND: &str = "WITH u AS (SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], \
     $5::bytea[], $6::bigint[]) AS u(state, consumer, requester, at, id, index)), \
     made AS (INSERT INTO spent (state, consumer, requester, at) SELECT state, consumer, requester, at FROM u \
     ON CONFLICT DO NOTHING) \
     SELECT refuse('TY001', encode(u.id, 'hex') || ':' || u.index || ' ' || encode(s.consumer, 'hex') || ' ' \
     || encode(u.consumer, 'hex')) FROM u JOIN spent s ON s.state = u.state WHERE s.consumer <> u.consumer";

/// Records transactions and attachments. `recorded` is when the last one before was recorded, and
/// what is returned when the last one of these was.
pub(super) fn write<'a>(
    requests: &mut Requests<'a>,
    interned: &Interned,
    batch: &'a Batch<'a>,
    mut recorded: i64,
) -> Result<i64> {
    if !batch.transactions.is_empty() {
        let transactions = || batch.transactions.iter();
        let times = transactions().map(|transaction| {
            recorded = recorded.max(signed("a time", transaction.at.as_millis())?);
            Ok(recorded)
        });
        let times = times.collect::<Result<Vec<_>>>()?;
        let ids = column(transactions().map(|transaction| &transaction.id.as_bytes()[..]));
        let bytes = column(transactions().map(|transaction| transaction.bytes.as_slice()));
        requests.push(RECORD, vec![ids, column(times), bytes]);
        produce(requests, interned, batch)?;
        consume(requests, batch);
    }
    consume_elsewhere(requests, batch)?;
    if !batch.attachments.is_empty() {
        let ids = column(batch.attachments.iter().map(|(id, _)| &id.as_bytes()[..]));
        requests.push(ATTACH, vec![ids, column(batch.attachments.iter().map(|(_, bytes)| *bytes))]);
    }
    if !batch.lost.is_empty() {
        // No output that could have been recorded has a larger index.
        let lost = || batch.lost.iter().filter(|(state, _)| state.index < 1 << INDEX_BITS);
        let values = vec![
            column(lost().map(|(state, _)| &state.transaction.as_bytes()[..])),
            column(lost().map(|(state, _)| i64::from(state.index))),
            column(lost().map(|(_, by)| &by.as_bytes()[..])),
            column(lost().map(|(_, by)| row::aside(&Aside::Lost { by: *by }))),
        ];
        requests.push(SET_ASIDE, values);
    }
    if !batch.consents.is_empty() {
        let consents = || batch.consents.iter();
        let times = consents().map(|consent| signed("a time", consent.at.as_millis()));
        let values = vec![
            column(consents().map(|consent| &consent.flow[..])),
            column(consents().map(|consent| consent.rule.as_bytes())),
            column(consents().map(|consent| row::ordered(consent.quantity))),
            column(times.collect::<Result<Vec<_>>>()?),
        ];
        requests.push(CONSENT, values);
    }
    Ok(recorded)
}

fn produce<'a>(requests: &mut Requests<'a>, interned: &Interned, batch: &'a Batch<'a>) -> Result<()> {
    let states = || {
        batch.transactions.iter().flat_map(|transaction| {
            let id = &transaction.id.as_bytes()[..];
            transaction.produced.iter().map(move |produced| (id, produced))
        })
    };
    let (mut indexes, mut classes, mut owners, mut assets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut posted, mut posted_indexes, mut posted_terms) = (Vec::new(), Vec::new(), Vec::new());
    for (id, produced) in states() {
        let (state, summary) = (&produced.state, &produced.summary);
        let index = bounded("the index of a state", u64::from(produced.index), INDEX_BITS)?;
        indexes.push(index);
        classes.push(interned.class(state.contract, &summary.kind, &state.notary.name)?);
        owners.push(summary.owner.as_ref().map(|owner| interned.key(owner)).transpose()?);
        assets.push(summary.asset.as_ref().map(|asset| interned.asset(asset)).transpose()?);
        let owner = summary.owner.iter().filter(|owner| !summary.participants.contains(owner));
        for key in summary.participants.iter().chain(owner) {
            posted.push(id);
            posted_indexes.push(index);
            posted_terms.push(interned.key(key)?);
        }
    }
    if indexes.is_empty() {
        return Ok(());
    }
    let ids = || column(states().map(|(id, _)| id));
    let summaries = || states().map(|(_, produced)| &produced.summary);
    let values = vec![
        ids(),
        column(indexes.clone()),
        column(classes.clone()),
        column(owners),
        column(assets),
        column(summaries().map(|summary| summary.quantity.map(row::ordered))),
        column(summaries().map(|summary| summary.linear_id.as_ref().map(|id| &id.as_bytes()[..]))),
        column(summaries().map(|summary| tally_contracts::encode(&summary.participants))),
        column(states().map(|(_, produced)| tally_contracts::encode(&produced.state))),
        column(summaries().map(|summary| row::details(&summary.details))),
        column(states().map(|(_, produced)| Aside::of(&produced.state).map(|aside| row::aside(&aside)))),
    ];
    requests.push(PRODUCE, values);
    requests.push(POST_CLASS, vec![ids(), column(indexes), column(classes)]);
    requests.push(POST, vec![column(posted), column(posted_indexes), column(posted_terms)]);
    Ok(())
}

fn consume<'a>(requests: &mut Requests<'a>, batch: &'a Batch<'a>) {
    let consumed = || {
        batch.transactions.iter().flat_map(|transaction| {
            // No output that could have been recorded has a larger index.
            let states = transaction.consumed.iter().filter(|state| state.index < 1 << INDEX_BITS);
            states.map(move |state| (state, &transaction.id.as_bytes()[..]))
        })
    };
    if consumed().next().is_none() {
        return;
    }
    for sql in [CONSUME, CHECK_CONSUMED] {
        let values = vec![
            column(consumed().map(|(state, _)| &state.transaction.as_bytes()[..])),
            column(consumed().map(|(state, _): (&StateRef, _)| i64::from(state.index))),
            column(consumed().map(|(_, by)| by)),
        ];
        requests.push(sql, values);
    }
}

/// Remembers what transactions that are not recorded consumed.
fn consume_elsewhere<'a>(requests: &mut Requests<'a>, batch: &'a Batch<'a>) -> Result<()> {
    if batch.elsewhere.is_empty() {
        return Ok(());
    }
    let times = batch.elsewhere.iter().map(|(.., at)| signed("a time", at.as_millis()));
    let values = vec![
        column(batch.elsewhere.iter().map(|(state, ..)| &state.transaction.as_bytes()[..])),
        column(batch.elsewhere.iter().map(|(state, ..)| i64::from(state.index))),
        column(batch.elsewhere.iter().map(|(_, by, _)| &by.as_bytes()[..])),
        column(times.collect::<Result<Vec<_>>>()?),
    ];
    requests.push(CONSUME_ELSEWHERE, values);
    Ok(())
}

/// Remembers what a notary has found unconsumed.
pub(super) fn notarise<'a>(
    requests: &mut Requests<'a>,
    interned: &Interned,
    spent: &'a [Spent<'a>],
) -> Result<()> {
    if spent.is_empty() {
        return Ok(());
    }
    let requesters = spent.iter().map(|spent| interned.peer(spent.requester)).collect::<Result<Vec<_>>>()?;
    let times =
        spent.iter().map(|spent| signed("a time", spent.at.as_millis())).collect::<Result<Vec<_>>>()?;
    let values = vec![
        column(spent.iter().map(|spent| state_ref_bytes(&spent.state).to_vec())),
        column(spent.iter().map(|spent| &spent.by.as_bytes()[..])),
        column(requesters),
        column(times),
        column(spent.iter().map(|spent| &spent.state.transaction.as_bytes()[..])),
        column(spent.iter().map(|spent| i64::from(spent.state.index))),
    ];
    requests.push(SPEND, values);
    Ok(())
}
