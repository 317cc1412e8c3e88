use super::*;
use crate::frame::{CHUNK, Decoder, Form, Piece};
use crate::kind::{Kinds, Lane};
use crate::outbox::{Outbox, Outgoing};
use bytes::{Bytes, BytesMut};

#[test]
fn whoever_sends_more_than_its_credit_breaks_the_protocol() {
    let mut flow = Flow::new(1000);
    assert_eq!(flow.received(1000), Ok(()));
    assert_eq!(flow.received(1), Err(FrameFault::Credit));
}

#[test]
fn credit_comes_back_when_the_host_takes_what_came() {
    let mut flow = Flow::new(1000);
    flow.received(1000).unwrap();
    flow.completed(2500);
    assert!(!flow.is_due(), "more than a window waits");
    assert_eq!(flow.grant(), None);
    flow.taken(2500);
    assert_eq!(flow.grant(), Some(1000));
    assert_eq!(flow.grant(), None);
    flow.received(100).unwrap();
    assert_eq!(flow.grant(), None, "not worth a message");
}

/// Sender and receiver together: everything arrives, whatever the lengths, and a host that takes
/// nothing bounds what waits for it.
#[test]
fn nothing_stands_still_while_the_host_takes_and_everything_when_it_does_not() {
    let window = 4 * CHUNK;
    let mut outbox = Outbox::new(0, u64::MAX, u32::try_from(window).unwrap());
    let lengths =
        [0, 1, CHUNK - 64, CHUNK, 20 * CHUNK, 3, 40 * CHUNK + 1, 5 * CHUNK, 0, 10 * CHUNK, 10 * CHUNK];
    for length in lengths {
        let payload = Bytes::from(vec![1; length]);
        outbox.push(Lane::Bulk, Outgoing { form: Form::Message, kind: 2, payload }).unwrap();
    }
    let mut flow = Flow::new(u32::try_from(window).unwrap());
    let mut decoder = Decoder::new(Kinds::new().message(2, "bulk", Lane::Bulk, 1 << 30));
    let (mut bulk, mut waiting, mut received) = (0, Vec::new(), Vec::new());
    let mut taking = false;
    while received.len() < lengths.len() {
        let mut buffer = BytesMut::new();
        outbox.fill(&mut buffer, CHUNK);
        let stands_still = buffer.is_empty();
        while let Some(decoded) = decoder.next(&mut buffer).unwrap() {
            flow.received(decoded.cost).unwrap();
            bulk += decoded.cost;
            if let Piece::Frame(frame) = decoded.piece {
                flow.completed(bulk);
                waiting.push((std::mem::take(&mut bulk), frame.payload.len()));
            }
        }
        let held: usize = waiting.iter().map(|(_, length)| *length).sum();
        assert!(held <= 2 * window + 41 * CHUNK, "{held} bytes wait");
        if stands_still {
            assert!(!taking || !waiting.is_empty(), "there is nothing to take, and nothing comes");
            taking = true;
            let (cost, length) = waiting.remove(0);
            flow.taken(cost);
            received.push(length);
        }
        if let Some(grant) = flow.grant() {
            outbox.add_credit(grant);
        }
        if outbox.waiting() == (0, 0) && buffer.is_empty() {
            received.extend(waiting.drain(..).map(|(_, length)| length));
        }
    }
    assert_eq!(received, lengths);
}
