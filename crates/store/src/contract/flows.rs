use super::*;
use crate::{FlowRow, FlowStatus, Mark, SavedArrival, StoreError};

pub(super) const TESTS: &[Test] = &[
    keeps_what_a_flow_needs,
    forgets_what_an_ended_flow_held,
    ends_a_flow_once,
    pages_unfinished_flows,
    lists_flows,
    keeps_any_text,
];

fn step(flow: u8, unit: u64) -> Write {
    Write::Steps { flow: [flow; 16], unit, entries: vec![flow, unit.to_le_bytes()[0]] }
}

fn arrival(flow: u8, session: u8, number: u64) -> Write {
    Write::Arrival { flow: [flow; 16], session: [session; 16], number, message: vec![session; 2000] }
}

fn end(flow: u8) -> Write {
    Write::FlowEnded { flow: [flow; 16], outcome: vec![flow; 5], at: at(1000 + u64::from(flow)) }
}

fn keeps_what_a_flow_needs(subject: &Subject<'_>) {
    subject.apply(&[]);
    subject.apply(&[Write::FlowStarted(flow(1)), step(1, 0), Write::FlowStarted(flow(2))]);
    subject.apply(&[step(1, 2), arrival(1, 7, 1), step(1, 1), arrival(1, 7, 0), arrival(1, 3, u64::MAX)]);
    let dependency = |id, bytes| Write::Dependency { flow: [1; 16], id: transaction(id), bytes };
    subject.apply(&[step(1, 300), dependency(9, vec![9; 3000]), dependency(8, vec![8])]);
    subject.apply(&[dependency(8, vec![8, 8])]);
    subject.apply(&[Write::FlowMarked { flow: [2; 16], mark: Mark::Held { reason: "no\0ne".to_owned() } }]);
    let check = || {
        let store = subject.store();
        let saved = store.unfinished_flows(None, 10).expect("flows");
        let arrived =
            |session, number| SavedArrival { session: [session; 16], number, message: vec![session; 2000] };
        let first = SavedFlow {
            flow: flow(1),
            mark: Mark::Running,
            steps: vec![(0, vec![1, 0]), (1, vec![1, 1]), (2, vec![1, 2]), (300, vec![1, 44])],
            arrivals: vec![arrived(3, u64::MAX), arrived(7, 0), arrived(7, 1)],
        };
        let mark = Mark::Held { reason: "no\0ne".to_owned() };
        assert_eq!(
            saved,
            [first, SavedFlow { flow: flow(2), mark, steps: Vec::new(), arrivals: Vec::new() }]
        );
        assert_eq!(store.dependency([1; 16], transaction(9)).expect("it reads"), Some(vec![9; 3000]));
        assert_eq!(store.dependency([2; 16], transaction(9)).expect("it reads"), None);
        assert_eq!(store.dependency([3; 16], transaction(9)).expect("it reads"), None);
        let all = store.dependencies([1; 16], None, 10).expect("they read");
        assert_eq!(all.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [transaction(8), transaction(9)]);
        assert_eq!(store.dependencies([1; 16], Some(transaction(8)), 1).expect("they read"), all[1..]);
    };
    check();
    subject.reopen();
    check();
    subject.apply(&[Write::FlowMarked { flow: [2; 16], mark: Mark::Paused }]);
    subject.apply(&[Write::FlowMarked { flow: [1; 16], mark: Mark::Running }]);
    let marks = subject.store().unfinished_flows(None, 10).expect("flows").into_iter().map(|flow| flow.mark);
    assert_eq!(marks.collect::<Vec<_>>(), [Mark::Running, Mark::Paused]);
}

fn forgets_what_an_ended_flow_held(subject: &Subject<'_>) {
    let lock =
        |flow: u8| Write::Lock { flow: [flow; 16], states: vec![state_ref(flow, 0), state_ref(flow, 1)] };
    let dependency = |flow: u8| Write::Dependency { flow: [flow; 16], id: transaction(1), bytes: vec![1] };
    for id in [1, 2] {
        subject.apply(&[
            Write::FlowStarted(flow(id)),
            step(id, 0),
            arrival(id, 1, 1),
            lock(id),
            dependency(id),
        ]);
    }
    subject.apply(&[step(1, 1), end(1), arrival(1, 1, 2)]);
    // Late, as a message is that arrives while the flow ends.
    subject.apply(&[arrival(1, 1, 3), lock(1), dependency(1), step(1, 9)]);
    subject.apply(&[arrival(77, 1, 3)]);
    let store = subject.store();
    let saved = store.unfinished_flows(None, 10).expect("flows");
    assert_eq!(saved.len(), 1);
    assert_eq!((saved[0].steps.len(), saved[0].arrivals.len()), (1, 1));
    assert_eq!(store.dependency([1; 16], transaction(1)).expect("it reads"), None);
    assert_eq!(store.dependency([2; 16], transaction(1)).expect("it reads"), Some(vec![1]));
    let locks: Vec<_> = [0, 1].into_iter().map(|index| (state_ref(2, index), [2; 16])).collect();
    assert_eq!(store.locks().expect("locks"), locks);
    let ended = store.flow([1; 16]).expect("it reads").expect("it is kept");
    let status = FlowStatus::Ended { outcome: vec![1; 5], at: at(1001) };
    assert_eq!(ended, FlowRow { flow: flow(1), status });
    subject.apply(&[Write::Unlock { flow: [2; 16], states: vec![state_ref(2, 0), state_ref(5, 5)] }]);
    assert_eq!(store.locks().expect("locks"), locks[1..]);
    // Began and ended in one batch, in either form.
    subject.apply(&[Write::FlowStarted(flow(3)), step(3, 0), lock(3), end(3)]);
    subject.apply(&[Write::FlowEndedAtOnce { flow: flow(4), outcome: Vec::new(), at: at(4) }]);
    assert_eq!(store.unfinished_flows(None, 10).expect("flows").len(), 1);
    let status = store.flow([4; 16]).expect("it reads").expect("it is kept").status;
    assert_eq!(status, FlowStatus::Ended { outcome: Vec::new(), at: at(4) });
    assert_eq!(store.flow([5; 16]).expect("it reads"), None);
}

fn ends_a_flow_once(subject: &Subject<'_>) {
    subject.apply(&[Write::FlowStarted(flow(1)), Write::FlowStarted(flow(2)), step(2, 0)]);
    subject.apply(&[end(1)]);
    subject.apply(&[Write::FlowMarked { flow: [1; 16], mark: Mark::Paused }]);
    let before = subject.seen();
    let other = NewFlow { seed: [9; 32], ..flow(2) };
    let refused = [
        vec![Write::FlowEnded { flow: [1; 16], outcome: vec![7], at: at(1) }],
        vec![Write::FlowStarted(other)],
        vec![Write::FlowEndedAtOnce { flow: flow(2), outcome: vec![7], at: at(1) }],
        vec![Write::Steps { flow: [2; 16], unit: 0, entries: vec![9] }],
    ];
    for mut writes in refused {
        writes.push(Write::FlowStarted(flow(8)));
        let result = subject.store().apply(&writes);
        assert!(matches!(result, Err(StoreError::Conflict { .. })), "{writes:?}: {result:?}");
        assert!(subject.seen() == before, "a refused batch left something: {writes:?}");
    }
    let result = subject.store().apply(&[Write::FlowStarted(flow(8)), end(9)]);
    assert!(matches!(result, Err(StoreError::Missing { table: "flow", .. })), "{result:?}");
    assert!(subject.seen() == before, "a refused batch left something");
}

fn pages_unfinished_flows(subject: &Subject<'_>) {
    // Ids that sort otherwise than they begin.
    let ids = [50, 10, 40, 20, 30, 60];
    for id in ids {
        subject.apply(&[Write::FlowStarted(flow(id)), step(id, 0), step(id, 1)]);
    }
    subject.apply(&[end(40)]);
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = subject.store().unfinished_flows(after, 2).expect("a page");
        assert!(page.iter().all(|flow| flow.steps.len() == 2));
        seen.extend(page.iter().map(|saved| saved.flow.flow[0]));
        match page.last() {
            Some(last) => after = Some(last.flow.flow),
            None => break,
        }
    }
    assert_eq!(seen, [50, 10, 20, 30, 60]);
    let unknown = subject.store().unfinished_flows(Some([99; 16]), 2);
    assert!(matches!(unknown, Err(StoreError::Missing { .. })), "{unknown:?}");
}

fn lists_flows(subject: &Subject<'_>) {
    let ids: Vec<u8> = (1..=30).collect();
    subject.apply(&ids.iter().map(|id| Write::FlowStarted(flow(*id))).collect::<Vec<_>>());
    subject.apply(&ids.iter().filter(|id| **id % 4 == 0).map(|id| end(*id)).collect::<Vec<_>>());
    for wanted in [None, Some("Flow1"), Some("Flow9")] {
        for ended in [None, Some(true), Some(false)] {
            for page_size in [1, 7, 30, 0] {
                let mut query = FlowQuery { name: wanted.map(str::to_owned), ended, page_size, cursor: None };
                let mut seen = Vec::new();
                loop {
                    let page = subject.store().flows(&query).expect("a page");
                    assert!(page.flows.len() <= if page_size == 0 { 100 } else { page_size as usize });
                    seen.extend(page.flows.iter().map(|row| row.flow.flow[0]));
                    match page.next {
                        Some(next) => query.cursor = Some(next),
                        None => break,
                    }
                }
                let expected: Vec<u8> = (ids.iter().rev().copied())
                    .filter(|id| wanted.is_none_or(|name| flow(*id).name == name))
                    .filter(|id| ended.is_none_or(|ended| ended == (id % 4 == 0)))
                    .collect();
                assert_eq!(seen, expected, "{query:?}");
            }
        }
    }
    let query = FlowQuery { page_size: 3, ..FlowQuery::default() };
    let cursor = subject.store().flows(&query).expect("a page").next;
    let other = FlowQuery { ended: Some(true), cursor: cursor.clone(), ..query.clone() };
    for query in [other, FlowQuery { cursor: cursor.map(|cursor| cursor + "0"), ..query }] {
        let refused = subject.store().flows(&query);
        assert!(matches!(refused, Err(StoreError::Cursor { .. })), "{refused:?}");
    }
}

fn keeps_any_text(subject: &Subject<'_>) {
    let odd = NewFlow { name: "Zahlung\0 '\"; ünïcode".to_owned(), arguments: vec![0, 255], ..flow(1) };
    subject.apply(&[Write::FlowStarted(odd.clone())]);
    assert_eq!(subject.store().flow([1; 16]).expect("it reads").expect("it is there").flow, odd);
    let query = FlowQuery { name: Some(odd.name), ..FlowQuery::default() };
    assert_eq!(subject.store().flows(&query).expect("a page").flows.len(), 1);
}
