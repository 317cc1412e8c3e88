use super::*;
use crate::{FIRST_PAUSE_MS, LONGEST_PAUSE_MS, Outstanding, UndeliveredQuery, Unresolved};

pub(super) const TESTS: &[Test] = &[keeps_who_lacks_what, keeps_what_is_not_known, later_writes_hold];

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn id(number: u8) -> TransactionId {
    TransactionId::from_bytes([number; 32])
}

fn lacks(party: &str, number: u8, ms: u64) -> Write {
    Write::Undelivered {
        transaction: id(number),
        party: name(party),
        at: at(ms),
        reason: format!("tried at {ms}"),
    }
}

fn has(party: &str, number: u8) -> Write {
    Write::Delivered { transaction: id(number), party: name(party) }
}

fn unknown(number: u8, ms: u64) -> Write {
    Write::Unresolved(Unresolved {
        transaction: id(number),
        bytes: vec![number; 3],
        told: vec![1, 2],
        at: at(ms),
        reason: format!("asked at {ms}"),
    })
}

/// Party, transaction, and when it is due.
fn listed(subject: &Subject<'_>, query: UndeliveredQuery) -> Vec<(Name, TransactionId, u64)> {
    let rows = subject.store().undelivered(&query).expect("rows");
    rows.into_iter().map(|row| (row.party, row.transaction, row.due.as_millis())).collect()
}

fn all() -> UndeliveredQuery {
    UndeliveredQuery { limit: 100, ..UndeliveredQuery::default() }
}

fn keeps_who_lacks_what(subject: &Subject<'_>) {
    assert_eq!(listed(subject, all()), []);
    subject.apply(&[lacks("B", 1, 1000), lacks("A", 2, 1000), lacks("B", 2, 5000)]);
    subject.reopen();
    let first = [(name("A"), id(2), 2000), (name("B"), id(1), 2000), (name("B"), id(2), 6000)];
    assert_eq!(listed(subject, all()), first);
    assert_eq!(listed(subject, UndeliveredQuery { due_by: Some(at(2000)), ..all() }), first[..2]);
    assert_eq!(listed(subject, UndeliveredQuery { due_by: Some(at(1999)), ..all() }), []);
    assert_eq!(listed(subject, UndeliveredQuery { limit: 1, ..all() }), first[..1]);
    let after = Some((name("B"), id(1)));
    assert_eq!(listed(subject, UndeliveredQuery { after, ..all() }), first[2..]);
    let query = UndeliveredQuery { transaction: Some(id(2)), ..all() };
    assert_eq!(listed(subject, query), [first[0].clone(), first[2].clone()]);
    // Each pause is as long as it has been tried for, within bounds.
    subject.apply(&[lacks("A", 2, 8000), lacks("B", 1, 1500)]);
    subject.apply(&[lacks("B", 2, 5000 + 10 * LONGEST_PAUSE_MS)]);
    let later = 5000 + 11 * LONGEST_PAUSE_MS;
    let second =
        [(name("A"), id(2), 15_000), (name("B"), id(1), 1500 + FIRST_PAUSE_MS), (name("B"), id(2), later)];
    assert_eq!(listed(subject, all()), second);
    let row = subject.store().undelivered(&all()).expect("rows").remove(0);
    assert_eq!((row.first_tried, row.last_tried), (at(1000), at(8000)));
    assert_eq!(row.reason, "tried at 8000");
    let counted = Outstanding { undelivered: 3, unresolved: 0 };
    assert_eq!(subject.store().outstanding().expect("counts"), counted);
    subject.apply(&[has("B", 1), has("C", 1)]);
    subject.reopen();
    assert_eq!(listed(subject, all()), [second[0].clone(), second[2].clone()]);
}

fn keeps_what_is_not_known(subject: &Subject<'_>) {
    subject.apply(&[unknown(2, 1000), unknown(1, 3000)]);
    subject.apply(&[unknown(2, 4000)]);
    subject.reopen();
    let rows = subject.store().unresolved(None, None, 10).expect("rows");
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row.unresolved.transaction, row.first_tried.as_millis(), row.due.as_millis()))
        .collect();
    assert_eq!(seen, [(id(1), 3000, 4000), (id(2), 1000, 7000)]);
    assert_eq!(Write::Unresolved(rows[1].unresolved.clone()), unknown(2, 4000));
    assert_eq!(subject.store().unresolved(None, Some(at(4000)), 10).expect("rows"), rows[..1]);
    assert_eq!(subject.store().unresolved(Some(id(2)), None, 10).expect("rows"), rows[1..]);
    assert_eq!(subject.store().unresolved(None, None, 1).expect("rows"), rows[..1]);
    subject.apply(&[Write::Resolved(id(1)), Write::Resolved(id(9))]);
    assert_eq!(subject.store().unresolved(None, None, 10).expect("rows"), rows[1..]);
    let counted = Outstanding { undelivered: 0, unresolved: 1 };
    assert_eq!(subject.store().outstanding().expect("counts"), counted);
}

fn later_writes_hold(subject: &Subject<'_>) {
    subject.apply(&[lacks("A", 1, 1), has("A", 1), has("A", 2), lacks("A", 2, 7)]);
    subject.apply(&[unknown(1, 1), Write::Resolved(id(1)), Write::Resolved(id(2)), unknown(2, 7)]);
    assert_eq!(listed(subject, all()), [(name("A"), id(2), 7 + FIRST_PAUSE_MS)]);
    let rows = subject.store().unresolved(None, None, 10).expect("rows");
    assert_eq!(rows.iter().map(|row| row.unresolved.transaction).collect::<Vec<_>>(), [id(2)]);
}
