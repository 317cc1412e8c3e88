use super::*;

fn flow(id: u8) -> NewFlow {
    NewFlow {
        flow: [id; 16],
        name: "Pay".to_owned(),
        version: 1,
        arguments: vec![id],
        origin: Vec::new(),
        seed: [id; 32],
        at: Timestamp::from_millis(5),
    }
}

fn state(id: u8) -> StateRef {
    StateRef { transaction: TransactionId::from_bytes([id; 32]), index: u32::from(id) }
}

#[test]
fn a_flow_that_ends_leaves_nothing_that_it_held() {
    let at = Timestamp::from_millis(9);
    let writes = [
        Write::FlowStarted(flow(1)),
        Write::FlowStarted(flow(2)),
        Write::Steps { flow: [1; 16], unit: 0, entries: vec![1] },
        Write::Lock { flow: [1; 16], states: vec![state(1)] },
        Write::Steps { flow: [2; 16], unit: 0, entries: vec![2] },
        Write::FlowMarked { flow: [1; 16], mark: Mark::Paused },
        Write::FlowEnded { flow: [1; 16], outcome: vec![7], at },
        Write::Arrival { flow: [1; 16], session: [0; 16], number: 0, message: vec![3] },
        Write::FlowEnded { flow: [3; 16], outcome: vec![8], at },
    ];
    let (first, second) = (flow(1), flow(2));
    let batch = Batch::new(&writes).unwrap();
    assert_eq!(batch.begun, [(&first, Some(Ending { outcome: &[7], at })), (&second, None)]);
    assert_eq!(batch.ended, [([3; 16], Ending { outcome: &[8], at })]);
    assert_eq!(batch.parts, [Part { flow: [2; 16], key: PartKey::step(0), bytes: &[2] }]);
    assert!(batch.marked.is_empty());
}

#[test]
fn the_later_of_locking_and_unlocking_holds() {
    let [a, b] = [state(1), state(2)];
    let writes = [
        Write::Unlock { flow: [1; 16], states: vec![a] },
        Write::Lock { flow: [1; 16], states: vec![a, b] },
        Write::Unlock { flow: [1; 16], states: vec![b] },
    ];
    let batch = Batch::new(&writes).unwrap();
    assert_eq!(batch.parts, [Part { flow: [1; 16], key: PartKey::lock(&a), bytes: &[] }]);
    assert_eq!(batch.removed, [([1; 16], PartKey::lock(&b))]);
}

#[test]
fn what_was_acknowledged_is_not_kept() {
    let peer: Name = "O=B, L=Paris, C=FR".parse().unwrap();
    let send = |number| Write::Send { peer: peer.clone(), number, message: vec![1] };
    let acknowledged = |up_to| Write::Acknowledged { peer: peer.clone(), up_to };
    let writes = [send(1), send(2), send(3), acknowledged(2), acknowledged(1)];
    let batch = Batch::new(&writes).unwrap();
    assert_eq!(batch.messages, [Message { peer: &peer, number: 3, message: &[1] }]);
    assert_eq!(batch.acknowledged, [(&peer, 2)]);
}

#[test]
fn refuses_what_contradicts_itself() {
    let at = Timestamp::from_millis(9);
    let other = NewFlow { arguments: vec![0], ..flow(1) };
    for writes in [
        vec![Write::FlowStarted(flow(1)), Write::FlowStarted(other)],
        vec![
            Write::FlowEnded { flow: [1; 16], outcome: vec![1], at },
            Write::FlowEnded { flow: [1; 16], outcome: vec![2], at },
        ],
    ] {
        let refused = Batch::new(&writes);
        assert!(matches!(refused, Err(StoreError::Conflict { table: "flow", .. })), "{refused:?}");
    }
    let peer: Name = "O=B, L=Paris, C=FR".parse().unwrap();
    let far = [Write::Send { peer, number: 1 << NUMBER_BITS, message: Vec::new() }];
    assert!(matches!(Batch::new(&far), Err(StoreError::Range { .. })));
}

#[test]
fn parts_of_a_flow_stand_together() {
    let step = |flow, unit| Write::Steps { flow: [flow; 16], unit, entries: Vec::new() };
    let writes = [step(2, 300), step(1, 0), step(2, 2)];
    let keys: Vec<_> =
        Batch::new(&writes).unwrap().parts.into_iter().map(|part| (part.flow[0], part.key)).collect();
    assert_eq!(keys, [(1, PartKey::step(0)), (2, PartKey::step(2)), (2, PartKey::step(300))]);
}
