//! What a database of schema 1 holds (`fixtures/schema_1.sql`), seen through today's store.

use super::vault::{Coin, recorded};
use super::*;
use crate::{FlowStatus, Mark, Outbound, SavedArrival, StateQuery, Status};
use tally_contracts::AttachmentId;

/// The rows of a database of schema 1, as SQL in which `X'00'` is a string of bytes.
pub const SCHEMA_1: &str = include_str!("../../fixtures/schema_1.sql");

/// Checks that a store that was brought from schema 1 to the latest holds what [`SCHEMA_1`] says, and takes more.
///
/// # Panics
/// If it does not.
pub fn check_migrated(store: &dyn Store) {
    let unfinished = store.unfinished_flows(None, 10).expect("flows");
    assert_eq!(unfinished.iter().map(|saved| saved.flow.flow[0]).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(unfinished[0].steps, [(0, vec![1, 2])]);
    assert_eq!(unfinished[0].arrivals, [SavedArrival { session: [5; 16], number: 3, message: vec![9] }]);
    assert_eq!(unfinished[1].mark, Mark::Held { reason: "by hand".to_owned() });
    assert_eq!(store.dependency([1; 16], transaction(8)).expect("it reads"), Some(vec![8]));
    assert_eq!(store.locks().expect("locks"), [(state_ref(2, 0), [1; 16])]);
    let ended = store.flow([2; 16]).expect("it reads").expect("it is kept").status;
    assert_eq!(ended, FlowStatus::Ended { outcome: vec![4], at: at(1_700_000_000_900) });
    assert_eq!(store.outbound(&name("B"), 0, 100).expect("messages"), [(2, vec![2])]);
    let queues = store.queues().expect("queues");
    assert_eq!(queues.outbound, [(name("B"), Outbound { sent: 2, acknowledged: 1 })].into());
    assert_eq!(queues.inbound, [((name("B"), [3; 16]), 6)].into());
    assert_eq!(store.transaction(transaction(3)).expect("it reads"), Some(vec![3; 9]));
    assert_eq!(store.attachment(AttachmentId::of(b"file")).expect("it reads"), Some(b"file".to_vec()));
    let consumption = store.consumed(&[state_ref(1, 0)]).expect("it reads").remove(0).expect("it is there");
    assert_eq!((consumption.by, consumption.requester), (transaction(2), name("B")));

    let ask = |query: StateQuery| {
        let states = store.states(&query).expect("a page").states;
        states
            .iter()
            .map(|state| (state.reference.transaction.as_bytes()[0], state.reference.index))
            .collect::<Vec<_>>()
    };
    // What schema 2 added answers for what was there before: classes, quantities, times.
    assert_eq!(
        ask(StateQuery { status: Status::All, ..StateQuery::default() }),
        [(1, 0), (1, 1), (2, 0), (3, 0)]
    );
    let kind =
        |kind: &str| StateQuery { kind: Some(kind.to_owned()), status: Status::All, ..StateQuery::default() };
    assert_eq!(ask(kind("cash")), [(1, 0), (1, 1), (2, 0)]);
    assert_eq!(ask(kind("iou")), [(3, 0)]);
    let sorted = StateQuery { sort: crate::Sort::Quantity, ..StateQuery::default() };
    assert_eq!(ask(sorted), [(1, 1), (2, 0)]);
    let from = StateQuery { recorded_from: Some(at(1_700_000_000_200)), ..StateQuery::default() };
    assert_eq!(ask(from), [(2, 0), (3, 0)]);
    assert_eq!(ask(StateQuery { participant: Some(key(2)), ..StateQuery::default() }), [(3, 0)]);

    let usd = "USD@O=Bank, L=London, C=GB";
    store.apply(&[recorded(4, 0, &[Coin::new(1, usd, 7)], &[state_ref(2, 0)])]).expect("it takes more");
    let coins = store.coins(usd, &key(1), None, 10).expect("coins");
    assert_eq!(coins.iter().map(|coin| coin.quantity).collect::<Vec<_>>(), [30, 7]);
}
