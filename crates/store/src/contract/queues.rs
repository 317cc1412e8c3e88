use super::*;
use crate::{Outbound, StoreError};

pub(super) const TESTS: &[Test] =
    &[keeps_messages_until_acknowledged, remembers_what_was_received, numbers_stay, remembers_pasts];

fn send(peer: &str, number: u64, bytes: usize) -> Write {
    Write::Send { peer: name(peer), number, message: vec![number.to_le_bytes()[0]; bytes] }
}

fn acknowledged(peer: &str, up_to: u64) -> Write {
    Write::Acknowledged { peer: name(peer), up_to }
}

fn numbers(subject: &Subject<'_>, peer: &str, after: u64, limit_bytes: usize) -> Vec<u64> {
    let messages = subject.store().outbound(&name(peer), after, limit_bytes).expect("messages");
    for (number, message) in &messages {
        assert!(message.iter().all(|byte| *byte == number.to_le_bytes()[0]), "{number} has other bytes");
    }
    messages.into_iter().map(|(number, _)| number).collect()
}

fn keeps_messages_until_acknowledged(subject: &Subject<'_>) {
    assert_eq!(numbers(subject, "A", 0, 1000), [0; 0]);
    subject.apply(&[send("A", 1, 100), send("B", 1, 10), send("A", 2, 100), send("A", 3, 5000)]);
    subject.apply(&[send("A", 4, 1)]);
    assert_eq!(numbers(subject, "A", 0, usize::MAX), [1, 2, 3, 4]);
    assert_eq!(numbers(subject, "A", 2, usize::MAX), [3, 4]);
    assert_eq!(numbers(subject, "A", 4, usize::MAX), [0; 0]);
    assert_eq!(numbers(subject, "A", u64::MAX, usize::MAX), [0; 0]);
    assert_eq!(numbers(subject, "A", 0, 0), [1]);
    assert_eq!(numbers(subject, "A", 0, 199), [1]);
    assert_eq!(numbers(subject, "A", 0, 200), [1, 2]);
    assert_eq!(numbers(subject, "A", 0, 5200), [1, 2, 3]);
    assert_eq!(numbers(subject, "B", 0, 1000), [1]);
    subject.apply(&[acknowledged("A", 2)]);
    subject.apply(&[acknowledged("A", 1), acknowledged("C", 0)]);
    subject.reopen();
    assert_eq!(numbers(subject, "A", 0, usize::MAX), [3, 4]);
    assert_eq!(numbers(subject, "B", 0, usize::MAX), [1]);
    let queues = subject.store().queues().expect("queues");
    let queue = |sent, acknowledged| Outbound { sent, acknowledged };
    let outbound = [(name("A"), queue(4, 2)), (name("B"), queue(1, 0)), (name("C"), queue(0, 0))];
    assert_eq!(queues.outbound, outbound.into());
    subject.apply(&[acknowledged("A", 4), send("A", 5, 1)]);
    subject.apply(&[acknowledged("A", 5)]);
    let queues = subject.store().queues().expect("queues");
    assert_eq!(queues.outbound[&name("A")], queue(5, 5));
    assert_eq!(numbers(subject, "A", 0, usize::MAX), [0; 0]);
}

fn remembers_what_was_received(subject: &Subject<'_>) {
    let received = |peer, queue, up_to| Write::Received { peer: name(peer), queue: [queue; 16], up_to };
    subject.apply(&[received("A", 1, 5), received("A", 1, 9), received("A", 2, 1)]);
    subject.apply(&[received("A", 1, 7), received("B", 1, 0)]);
    let own = subject.store().queues().expect("queues").own;
    assert_ne!(own, [0; 16]);
    subject.reopen();
    let queues = subject.store().queues().expect("queues");
    assert_eq!(queues.own, own);
    let inbound = [((name("A"), [1; 16]), 9), ((name("A"), [2; 16]), 1), ((name("B"), [1; 16]), 0)];
    assert_eq!(queues.inbound, inbound.into());
    assert!(queues.outbound.is_empty());
}

fn numbers_stay(subject: &Subject<'_>) {
    subject.apply(&[send("A", 1, 10)]);
    let last = (1 << 44) - 1;
    subject.apply(&[send("B", last, 1)]);
    assert_eq!(numbers(subject, "B", last - 1, 10), [last]);
    let changed = subject.store().apply(&[send("B", 2, 1), send("A", 1, 11)]);
    assert!(matches!(changed, Err(StoreError::Conflict { table: "outbound", .. })), "{changed:?}");
    let too_far = subject.store().apply(&[send("B", 2, 1), send("A", last + 1, 1)]);
    assert!(matches!(too_far, Err(StoreError::Range { .. })), "{too_far:?}");
    assert_eq!(numbers(subject, "B", 0, 10), [last]);
    subject.apply(&[acknowledged("B", u64::MAX >> 1)]);
    assert_eq!(numbers(subject, "A", 0, 10), [1]);
}

fn remembers_pasts(subject: &Subject<'_>) {
    let past = || subject.store().past().expect("a past");
    assert_eq!(past(), crate::Past::default());
    let acquainted = |peer, standing: &[u8], only| Write::Acquainted {
        peer: name(peer),
        standing: standing.to_vec(),
        only,
    };
    let received = |peer, queue, up_to| Write::Received { peer: name(peer), queue: [queue; 16], up_to };
    let reason = "the database is older than what a peer has seen".to_owned();
    subject.apply(&[
        Write::Standing { standing: vec![1], recovery: None },
        acquainted("A", &[7], Some([1; 16])),
        received("A", 1, 5),
        received("B", 1, 6),
        send("A", 1, 10),
        send("B", 1, 10),
    ]);
    // A begins a queue anew, and so do we with B.
    subject.apply(&[
        Write::Standing { standing: vec![2], recovery: Some(reason.clone()) },
        acquainted("A", &[8], Some([2; 16])),
        acquainted("B", &[9], None),
        Write::QueueAnew { peer: name("B"), queue: [9; 16] },
        send("B", 1, 20),
    ]);
    subject.reopen();
    let found = past();
    assert_eq!((found.standing, found.recovery), (Some(vec![2]), Some(reason)));
    let acquaintances = [(name("A"), vec![8]), (name("B"), vec![9])];
    assert_eq!(found.acquaintances, acquaintances.into());
    assert_eq!(found.queues, [(name("B"), [9; 16])].into());
    let queues = subject.store().queues().expect("queues");
    assert_eq!(queues.inbound, [((name("B"), [1; 16]), 6)].into());
    let messages = subject.store().outbound(&name("B"), 0, 1000).expect("messages");
    assert_eq!(messages, [(1, vec![1; 20])]);
    // Everything begins anew.
    subject.apply(&[Write::Renewed { own: [4; 16] }, send("A", 1, 3)]);
    let queues = subject.store().queues().expect("queues");
    assert_eq!((queues.own, queues.inbound.len()), ([4; 16], 0));
    assert_eq!(queues.outbound, [(name("A"), Outbound { sent: 1, acknowledged: 0 })].into());
    assert!(past().queues.is_empty());
    assert!(past().acquaintances.is_empty());
}
