use super::*;
use crate::outbox::{Outbox, Outgoing};
use proptest::prelude::*;

fn kinds() -> Kinds {
    Kinds::new()
        .message(1, "vote", Lane::Urgent, 1 << 20)
        .message(2, "transactions", Lane::Bulk, 1 << 20)
        .request(3, "blocks", Lane::Bulk, 64, 1 << 20)
}

fn decode(bytes: &[u8]) -> (Vec<Piece>, Result<(), FrameFault>) {
    let mut decoder = Decoder::new(kinds());
    let mut buffer = BytesMut::from(bytes);
    let mut pieces = Vec::new();
    loop {
        match decoder.next(&mut buffer) {
            Ok(Some(decoded)) => pieces.push(decoded.piece),
            Ok(None) => return (pieces, Ok(())),
            Err(fault) => return (pieces, Err(fault)),
        }
    }
}

fn fault(bytes: &[u8]) -> FrameFault {
    decode(bytes).1.unwrap_err()
}

/// A chunk with a start.
fn start(lane: u8, form: u8, kind: u8, total: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut chunk = vec![lane | STARTS, length[1], length[2], length[3], form, kind];
    chunk.extend_from_slice(&7_u64.to_be_bytes());
    chunk.extend_from_slice(&total.to_be_bytes());
    chunk.extend_from_slice(payload);
    chunk
}

#[test]
fn a_frame_has_these_bytes() {
    let mut buffer = BytesMut::new();
    encode_chunk(&mut buffer, ChunkLane::Bulk, Some((Form::Request(7), 3, 2)), b"ab");
    Control::Ping(1).encode(&mut buffer);
    let golden = "0700000201030000000000000007000000026162\
                  00000009010000000000000001";
    assert_eq!(alloy_primitives::hex::encode(&buffer), golden);
    let (pieces, end) = decode(&buffer);
    assert_eq!(end, Ok(()));
    let frame =
        Frame { form: Form::Request(7), kind: 3, lane: Lane::Bulk, payload: Bytes::from_static(b"ab") };
    assert_eq!(pieces, [Piece::Frame(frame), Piece::Control(Control::Ping(1))]);
}

#[test]
fn limits_hold_before_the_payload_is_there() {
    let long = (1 << 20) + 1;
    let header = |chunk: Vec<u8>| chunk[..HEADER + START].to_vec();
    assert!(matches!(
        fault(&header(start(3, 0, 2, long, &[0]))),
        FrameFault::Long { name: "transactions", .. }
    ));
    assert!(matches!(fault(&header(start(3, 1, 3, 65, &[0; 65]))), FrameFault::Long { longest: 64, .. }));
    assert_eq!(fault(&[3, 1, 0, 1]), FrameFault::Chunk { found: CHUNK + 1 });
    assert_eq!(fault(&[0, 0, 0, 17]), FrameFault::Control);
}

#[test]
fn what_breaks_the_protocol_is_refused() {
    assert_eq!(fault(&[8, 0, 0, 0]), FrameFault::Header { found: 8 });
    assert_eq!(fault(&[4, 0, 0, 0]), FrameFault::Header { found: 4 });
    assert_eq!(fault(&[0, 0, 0, 1, 99]), FrameFault::Control);
    assert_eq!(fault(&[0, 0, 0, 0]), FrameFault::Control);
    assert_eq!(fault(&start(3, 0, 9, 1, &[0])), FrameFault::Kind { kind: 9 });
    assert_eq!(fault(&start(3, 1, 2, 1, &[0])), FrameFault::Form { form: 1, name: "transactions" });
    assert_eq!(fault(&start(3, 0, 3, 1, &[0])), FrameFault::Form { form: 0, name: "blocks" });
    assert_eq!(fault(&start(1, 0, 2, 1, &[0])), FrameFault::Lane { name: "transactions" });
    assert_eq!(fault(&start(3, 0, 1, 1, &[0])), FrameFault::Lane { name: "vote" });
    assert_eq!(fault(&start(1, 0, 1, 2, &[0])), FrameFault::Lane { name: "vote" }, "not whole");
    assert_eq!(fault(&[1, 0, 0, 1, 0]), FrameFault::NotStarted);
    assert_eq!(fault(&start(3, 0, 2, 1, &[0, 0])), FrameFault::Part, "more than it announces");
    assert_eq!(fault(&start(3, 0, 2, 1, &[])), FrameFault::Part, "nothing");
    let twice = [start(3, 0, 2, 2, &[0]), start(3, 0, 2, 2, &[0])].concat();
    assert_eq!(fault(&twice), FrameFault::NotFinished);
    let beyond = [start(3, 0, 2, 2, &[0]), vec![3, 0, 0, 2, 0, 0]].concat();
    assert_eq!(fault(&beyond), FrameFault::Part);
    let empty = [start(3, 0, 2, 2, &[0]), vec![3, 0, 0, 0]].concat();
    assert_eq!(fault(&empty), FrameFault::Part);
}

#[test]
fn every_control_and_goodbye_survives_the_way() {
    let goodbyes = [
        Goodbye::Stopping,
        Goodbye::Replaced,
        Goodbye::Violation,
        Goodbye::Misbehaved,
        Goodbye::NotPermitted,
        Goodbye::Removed,
        Goodbye::Slow,
        Goodbye::TooManyPeers,
        Goodbye::Other(99),
    ];
    let controls = [
        Control::Ping(u64::MAX),
        Control::Pong(2),
        Control::Credit(u32::MAX),
        Control::Unanswered(9, Unanswered::Busy),
        Control::Unanswered(9, Unanswered::Refused),
    ];
    for control in controls.into_iter().chain(goodbyes.map(Control::Goodbye)) {
        let mut buffer = BytesMut::new();
        control.encode(&mut buffer);
        assert_eq!(decode(&buffer).0, [Piece::Control(control)]);
        for length in 0..buffer.len() {
            assert_eq!(decode(&buffer[..length]), (vec![], Ok(())), "{length} bytes of {control:?}");
        }
    }
}

proptest! {
    /// Whatever is put in comes out, whole, each lane in its order, wherever the network cuts.
    #[test]
    fn what_is_sent_is_received(
        messages in proptest::collection::vec((any::<bool>(), 0..200_000_usize), 0..12),
        cut in 1..70_000_usize,
    ) {
        let mut outbox = Outbox::new(u64::MAX, u64::MAX, u32::MAX);
        for (number, (urgent, length)) in messages.iter().enumerate() {
            let payload = Bytes::from(vec![u8::try_from(number).unwrap(); *length]);
            let (lane, kind) = if *urgent { (Lane::Urgent, 1) } else { (Lane::Bulk, 2) };
            outbox.push(lane, Outgoing { form: Form::Message, kind, payload }).unwrap();
        }
        let mut sent = BytesMut::new();
        let finished = outbox.fill(&mut sent, usize::MAX);
        prop_assert_eq!(finished, messages.len() as u64);
        prop_assert_eq!(outbox.waiting(), (0, 0));
        let (mut decoder, mut buffer, mut received) = (Decoder::new(kinds()), BytesMut::new(), Vec::new());
        for part in sent.chunks(cut) {
            buffer.extend_from_slice(part);
            while let Some(decoded) = decoder.next(&mut buffer).unwrap() {
                if let Piece::Frame(frame) = decoded.piece {
                    received.push((frame.lane == Lane::Urgent, frame.payload.len()));
                }
            }
        }
        let of = |messages: &[(bool, usize)], choose: &dyn Fn(bool, usize) -> bool| -> Vec<_> {
            messages.iter().copied().filter(|(urgent, length)| choose(*urgent, *length)).collect()
        };
        for choose in [
            &(|urgent: bool, length: usize| urgent && length <= CHUNK) as &dyn Fn(bool, usize) -> bool,
            &|urgent, length| urgent && length > CHUNK,
            &|urgent, _| !urgent,
        ] {
            prop_assert_eq!(of(&messages, choose), of(&received, choose));
        }
    }

    #[test]
    fn nothing_makes_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        kind in 0..4_u8, lane in 0..8_u8, form in 0..4_u8, total in 0..20_u32,
        payload in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        crate::fuzz::frames(&bytes);
        crate::fuzz::frames(&[start(lane, form, kind, total, &payload), bytes].concat());
    }
}
