//! Flows and what they hold.

use super::{Requests, column};
use crate::Result;
use crate::batch::Batch;
use crate::session::signed;
use crate::write::Mark;

// The CTE of an insertion sees the table as it was: rows that are there already and differ are refused.
const BEGIN: &str = "WITH u AS (SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[], \
     $5::bytea[], $6::bytea[], $7::bigint[], $8::bigint[], $9::bytea[]) WITH ORDINALITY \
     AS u(id, name, version, arguments, origin, seed, started, ended, outcome, place)), \
     made AS (INSERT INTO flow (id, name, version, arguments, origin, seed, started, mark, ended, outcome) \
     SELECT id, name, version, arguments, origin, seed, started, 0, ended, outcome FROM u ORDER BY place \
     ON CONFLICT (id) DO NOTHING) \
     SELECT refuse('TY002', 'flow ' || encode(u.id, 'hex')) FROM u JOIN flow f ON f.id = u.id \
     WHERE f.name <> u.name OR f.arguments <> u.arguments OR f.seed <> u.seed \
     OR (u.outcome IS NOT NULL AND f.outcome IS DISTINCT FROM u.outcome)";

const RELEASE: &str = "DELETE FROM part p USING unnest($1::bytea[]) AS u(id), flow f \
     WHERE f.id = u.id AND p.flow = f.number";
const END: &str = "UPDATE flow f SET outcome = u.outcome, ended = u.ended, mark = 0, reason = NULL \
     FROM unnest($1::bytea[], $2::bytea[], $3::bigint[]) AS u(id, outcome, ended) \
     WHERE f.id = u.id AND f.ended IS NULL";
const CHECK_END: &str = "SELECT refuse(CASE WHEN f.id IS NULL THEN 'TY003' ELSE 'TY002' END, \
     'flow ' || encode(u.id, 'hex')) \
     FROM unnest($1::bytea[], $2::bytea[]) AS u(id, outcome) LEFT JOIN flow f ON f.id = u.id \
     WHERE f.outcome IS DISTINCT FROM u.outcome";

const MARK: &str = "UPDATE flow f SET mark = u.mark, reason = u.reason \
     FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) AS u(id, mark, reason) \
     WHERE f.id = u.id AND f.ended IS NULL";

const HOLD: &str = "WITH u AS (SELECT f.number, u.* FROM \
     unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bytea[]) AS u(id, kind, key, bytes) \
     JOIN flow f ON f.id = u.id AND f.ended IS NULL), \
     made AS (INSERT INTO part (flow, kind, key, bytes) SELECT number, kind, key, bytes FROM u \
     ON CONFLICT DO NOTHING) \
     SELECT refuse('TY002', 'part ' || encode(u.id, 'hex') || ' ' || u.kind || ' ' || encode(u.key, 'hex')) \
     FROM u JOIN part p ON p.flow = u.number AND p.kind = u.kind AND p.key = u.key \
     WHERE u.kind <> 3 AND p.bytes <> u.bytes";
const REMOVE: &str = "DELETE FROM part p USING unnest($1::bytea[], $2::bigint[], $3::bytea[]) AS u(id, kind, key), \
     flow f WHERE f.id = u.id AND p.flow = f.number AND p.kind = u.kind AND p.key = u.key";

pub(super) fn write<'a>(requests: &mut Requests<'a>, batch: &'a Batch<'a>) -> Result<()> {
    if !batch.begun.is_empty() {
        let flows = || batch.begun.iter().map(|(flow, _)| *flow);
        let times = flows().map(|flow| signed("a time", flow.at.as_millis())).collect::<Result<Vec<_>>>()?;
        let endings = || batch.begun.iter().map(|(_, ending)| *ending);
        let ends = endings()
            .map(|ending| ending.map(|ending| signed("a time", ending.at.as_millis())).transpose())
            .collect::<Result<Vec<_>>>()?;
        let values = vec![
            column(flows().map(|flow| &flow.flow[..])),
            column(flows().map(|flow| flow.name.as_bytes())),
            column(flows().map(|flow| i64::from(flow.version))),
            column(flows().map(|flow| flow.arguments.as_slice())),
            column(flows().map(|flow| flow.origin.as_slice())),
            column(flows().map(|flow| &flow.seed[..])),
            column(times),
            column(ends),
            column(endings().map(|ending| ending.map(|ending| ending.outcome))),
        ];
        requests.push(BEGIN, values);
    }
    if !batch.ended.is_empty() {
        let flows = || column(batch.ended.iter().map(|(flow, _)| &flow[..]));
        let outcomes = || column(batch.ended.iter().map(|(_, ending)| ending.outcome));
        let times = batch.ended.iter().map(|(_, ending)| signed("a time", ending.at.as_millis()));
        let times = column(times.collect::<Result<Vec<_>>>()?);
        requests.push(RELEASE, vec![flows()]);
        requests.push(END, vec![flows(), outcomes(), times]);
        requests.push(CHECK_END, vec![flows(), outcomes()]);
    }
    if !batch.marked.is_empty() {
        let marks = || {
            batch.marked.iter().map(|(_, mark)| match mark {
                Mark::Running => (0_i64, None),
                Mark::Paused => (1, None),
                Mark::Held { reason } => (2, Some(reason.as_bytes())),
            })
        };
        let flows = column(batch.marked.iter().map(|(flow, _)| &flow[..]));
        requests
            .push(MARK, vec![flows, column(marks().map(|mark| mark.0)), column(marks().map(|mark| mark.1))]);
    }
    if !batch.parts.is_empty() {
        let parts = || batch.parts.iter();
        let values = vec![
            column(parts().map(|part| &part.flow[..])),
            column(parts().map(|part| part.key.kind.number())),
            column(parts().map(|part| part.key.as_bytes())),
            column(parts().map(|part| part.bytes)),
        ];
        requests.push(HOLD, values);
    }
    if !batch.removed.is_empty() {
        let removed = || batch.removed.iter();
        let values = vec![
            column(removed().map(|(flow, _)| &flow[..])),
            column(removed().map(|(_, key)| key.kind.number())),
            column(removed().map(|(_, key)| key.as_bytes())),
        ];
        requests.push(REMOVE, values);
    }
    Ok(())
}
