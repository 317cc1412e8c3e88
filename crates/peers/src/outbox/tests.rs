use super::*;

fn message(kind: u8, length: usize) -> Outgoing {
    Outgoing { form: Form::Message, kind, payload: Bytes::from(vec![0; length]) }
}

/// The lanes of the chunks in a buffer, in order.
fn lanes(mut buffer: &[u8]) -> Vec<u8> {
    let mut lanes = Vec::new();
    while let [first, high, middle, low, rest @ ..] = buffer {
        lanes.push(first & 3);
        let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        buffer = &rest[length + if first & 4 == 0 { 0 } else { 14 }..];
    }
    lanes
}

#[test]
fn a_vote_waits_for_one_chunk_only() {
    let mut outbox = Outbox::new(1 << 30, 1 << 30, u32::MAX);
    outbox.push(Lane::Bulk, message(2, 10 * CHUNK)).unwrap();
    outbox.push(Lane::Urgent, message(1, 10 * CHUNK)).unwrap();
    let mut buffer = BytesMut::new();
    outbox.fill(&mut buffer, 1);
    outbox.fill(&mut buffer, CHUNK + CHUNK / 2);
    assert_eq!(lanes(&buffer), [2, 2], "a long urgent message goes ahead of bulk");
    buffer.clear();
    outbox.push(Lane::Urgent, message(1, 100)).unwrap();
    outbox.push_control(Control::Ping(1)).unwrap();
    outbox.fill(&mut buffer, 1000);
    assert_eq!(lanes(&buffer)[..3], [0, 1, 2], "and behind control and short urgent ones");
}

#[test]
fn each_lane_is_bounded_by_itself() {
    let mut outbox = Outbox::new(1000, 1000, 0);
    assert_eq!(outbox.push(Lane::Bulk, message(2, 5000)), Ok(()), "an empty queue takes anything");
    assert_eq!(outbox.push(Lane::Bulk, message(2, 0)), Err(Full));
    for _ in 0..10 {
        outbox.push(Lane::Urgent, message(1, 36)).unwrap();
    }
    assert_eq!(outbox.push(Lane::Urgent, message(1, 0)), Err(Full), "an empty message takes room too");
    assert_eq!(outbox.waiting(), (1000, 5064));
    let mut buffer = BytesMut::new();
    assert_eq!(outbox.fill(&mut buffer, usize::MAX), 10, "there is no credit for the bulk");
    assert_eq!(outbox.waiting(), (0, 5064));
    for number in 0..MOST_CONTROLS as u64 {
        outbox.push_control(Control::Pong(number)).unwrap();
    }
    assert_eq!(outbox.push_control(Control::Pong(0)), Err(Full));
}

#[test]
fn bulk_is_sent_as_far_as_the_credit_goes() {
    let mut outbox = Outbox::new(1000, 1 << 20, 163);
    outbox.push(Lane::Bulk, message(2, 150)).unwrap();
    outbox.push(Lane::Bulk, message(2, 0)).unwrap();
    let mut buffer = BytesMut::new();
    assert_eq!(outbox.fill(&mut buffer, usize::MAX), 0);
    assert_eq!(buffer.len(), 18 + 99, "the start costs 64");
    outbox.add_credit(51 + 63);
    assert_eq!(outbox.fill(&mut buffer, usize::MAX), 1);
    outbox.add_credit(1);
    assert_eq!(outbox.fill(&mut buffer, usize::MAX), 1);
    assert_eq!((outbox.waiting(), outbox.credit), ((0, 0), 0));
}
