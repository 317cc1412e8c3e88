use super::vault::{Coin, recorded};
use super::*;
use crate::{Consumption, StoreError};
use tally_contracts::AttachmentId;

pub(super) const TESTS: &[Test] = &[
    finds_transactions,
    finds_attachments,
    is_read_in_order,
    consumed_by_what_is_not_there,
    notary_remembers,
    notary_refuses_a_second_consumer,
    reads_beside_writes,
    counts,
];

fn finds_transactions(subject: &Subject<'_>) {
    let ids: Vec<u8> = (1..=40).collect();
    for ids in ids.chunks(7) {
        subject.apply(&ids.iter().map(|id| recorded(*id, u64::from(*id), &[], &[])).collect::<Vec<_>>());
    }
    subject.reopen();
    let store = subject.store();
    assert_eq!(store.transaction(transaction(3)).expect("it reads"), Some(vec![3; 103]));
    assert_eq!(store.transaction(transaction(99)).expect("it reads"), None);
    let asked: Vec<u8> = (1..=50).rev().chain([5, 5]).collect();
    let found =
        store.transactions(&asked.iter().map(|id| transaction(*id)).collect::<Vec<_>>()).expect("they read");
    let expected: Vec<_> =
        asked.iter().map(|id| (*id <= 40).then(|| vec![*id; 100 + usize::from(*id)])).collect();
    assert_eq!(found, expected);
    assert!(store.transactions(&[]).expect("nothing").is_empty());
    // The same transaction with more signatures: the first form stays.
    let Write::Transaction(mut again) = recorded(3, 3, &[], &[]) else { unreachable!("it is one") };
    again.bytes.push(1);
    subject.apply(&[Write::Transaction(again)]);
    assert_eq!(store.transaction(transaction(3)).expect("it reads"), Some(vec![3; 103]));
}

fn finds_attachments(subject: &Subject<'_>) {
    let (small, large) = (AttachmentId::of(b"small"), AttachmentId::of(b"large"));
    subject.apply(&[
        Write::Attachment { id: small, bytes: Vec::new() },
        Write::Attachment { id: large, bytes: vec![7; 3 << 20] },
    ]);
    subject.reopen();
    assert_eq!(subject.store().attachment(small).expect("it reads"), Some(Vec::new()));
    assert_eq!(subject.store().attachment(large).expect("it reads"), Some(vec![7; 3 << 20]));
    assert_eq!(subject.store().attachment(AttachmentId::of(b"none")).expect("it reads"), None);
}

fn consumed(state: u8, index: u32, by: u8, requester: &str) -> Write {
    Write::Consumed {
        state: state_ref(state, index),
        by: transaction(by),
        requester: name(requester),
        at: at(by.into()),
    }
}

fn notary_remembers(subject: &Subject<'_>) {
    let states: Vec<u8> = (1..=40).collect();
    subject.apply(&states.iter().map(|state| consumed(*state, 3, 100, "A")).collect::<Vec<_>>());
    subject.apply(&[consumed(41, u32::MAX, 101, "B")]);
    subject.reopen();
    let asked: Vec<StateRef> =
        (30..=45).map(|state| state_ref(state, 3)).chain([state_ref(41, u32::MAX)]).collect();
    let found = subject.store().consumed(&asked).expect("they read");
    let by = |by, requester| {
        Some(Consumption { by: transaction(by), requester: name(requester), at: at(by.into()) })
    };
    let expected: Vec<_> =
        (30..=45).map(|state| if state <= 40 { by(100, "A") } else { None }).chain([by(101, "B")]).collect();
    assert_eq!(found, expected);
}

fn notary_refuses_a_second_consumer(subject: &Subject<'_>) {
    subject.apply(&[consumed(1, 0, 50, "A")]);
    // In a batch after, and within one.
    for writes in [
        vec![consumed(2, 0, 51, "A"), consumed(1, 0, 51, "B")],
        vec![consumed(3, 0, 52, "A"), consumed(3, 1, 52, "A"), consumed(3, 0, 53, "A")],
    ] {
        match subject.store().apply(&writes) {
            Err(StoreError::Twice { state, by, again }) => {
                assert_eq!(state.index, 0);
                assert!(by != again && [by, again].iter().all(|id| id.as_bytes()[0] >= 50));
                assert!([state_ref(1, 0), state_ref(3, 0)].contains(&state));
            }
            other => panic!("{other:?}"),
        }
    }
    let asked = [state_ref(1, 0), state_ref(2, 0), state_ref(3, 0), state_ref(3, 1)];
    let found = subject.store().consumed(&asked).expect("they read");
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false, false]);
    assert_eq!(found[0].as_ref().map(|consumption| consumption.by), Some(transaction(50)));
}

/// Readers of several threads see batches whole, and every batch that was applied before they began.
fn reads_beside_writes(subject: &Subject<'_>) {
    use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
    let (store, applied) = (subject.store(), AtomicU8::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in 1..=100 {
                let coins = [Coin::new(1, "USD", u64::from(id)), Coin::new(2, "USD", u64::from(id))];
                store.apply(&[recorded(id, u64::from(id), &coins, &[])]).expect("it applies");
                applied.store(id, SeqCst);
            }
        });
        for owner in [1, 1, 2] {
            scope.spawn({
                let (store, applied) = (&store, &applied);
                move || {
                    while applied.load(SeqCst) < 100 {
                        let before = usize::from(applied.load(SeqCst));
                        let coins = store.coins("USD", &key(owner), None, 1000).expect("coins");
                        assert!(coins.len() >= before, "{} coins after {before} batches", coins.len());
                        let quantities: Vec<u64> = coins.iter().map(|coin| coin.quantity).collect();
                        assert_eq!(quantities, (1..=coins.len() as u64).collect::<Vec<_>>());
                    }
                }
            });
        }
    });
}

fn counts(subject: &Subject<'_>) {
    let before = subject.store().usage();
    subject.store().apply(&[Write::FlowStarted(flow(1)), Write::FlowStarted(flow(2))]).expect("it applies");
    let _ = subject.store().apply(&[Write::FlowEnded { flow: [9; 16], outcome: Vec::new(), at: at(1) }]);
    let _ = subject.store().flow([1; 16]).expect("it reads");
    let usage = subject.store().usage();
    assert_eq!((usage.batches, usage.writes), (before.batches + 1, before.writes + 2));
    assert_eq!((usage.failed_batches, usage.reads), (before.failed_batches + 1, before.reads + 1));
    assert!(usage.apply_ns > before.apply_ns && usage.read_ns > before.read_ns && usage.readers > 0);
    assert_eq!(usage.readers_busy, 0);
}

fn is_read_in_order(subject: &Subject<'_>) {
    subject.apply(&(1..=30).map(|id| recorded(id, 0, &[], &[])).collect::<Vec<_>>());
    let store = subject.store();
    let (mut after, mut found) = (0, Vec::new());
    loop {
        let page = store.ledger(after, 7).expect("a page");
        let Some((last, _)) = page.last() else { break };
        after = *last;
        assert!(page.len() <= 7);
        found.extend(page.into_iter().map(|(_, bytes)| bytes[0]));
    }
    assert_eq!(found, (1..=30).collect::<Vec<_>>());
}

/// A state whose consumer is known by its id alone is consumed, and the consumer may be recorded later.
fn consumed_by_what_is_not_there(subject: &Subject<'_>) {
    use crate::{StateQuery, Status};
    let coins = [Coin::new(1, "USD", 5), Coin::new(1, "USD", 6)];
    subject.apply(&[recorded(1, 0, &coins, &[])]);
    let elsewhere = |state| Write::ConsumedElsewhere { state, by: transaction(9), at: at(77) };
    subject.apply(&[elsewhere(state_ref(1, 0)), elsewhere(state_ref(2, 0))]);
    let store = subject.store();
    let coins = store.coins("USD", &key(1), None, 10).expect("coins");
    assert_eq!(coins.iter().map(|coin| coin.quantity).collect::<Vec<_>>(), [6]);
    let found = |status| {
        let states = store.states(&StateQuery { status, ..StateQuery::default() }).expect("a page").states;
        states.into_iter().map(|state| (state.reference.index, state.consumed)).collect::<Vec<_>>()
    };
    assert_eq!(found(Status::Unconsumed), [(1, None)]);
    assert_eq!(found(Status::Consumed), [(0, Some((transaction(9), at(77))))]);
    subject.apply(&[recorded(9, 100, &[], &[state_ref(1, 0)]), elsewhere(state_ref(1, 0))]);
    assert_eq!(found(Status::Consumed), [(0, Some((transaction(9), at(100))))]);
}
