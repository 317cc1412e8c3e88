use super::*;
use proptest::prelude::*;

fn bytes_of(frame: &Frame) -> Vec<u8> {
    let mut out = Vec::new();
    match frame {
        Frame::Hello(hello) => put_hello(&mut out, hello),
        Frame::Welcome(welcome) => put_welcome(&mut out, welcome),
        Frame::Message { number, bytes } => {
            put_message_header(&mut out, *number, bytes.len());
            out.extend_from_slice(bytes);
        }
        Frame::Acknowledged { up_to } => put_acknowledged(&mut out, *up_to),
        Frame::Ping => put_ping(&mut out),
        Frame::Closing { reason, text } => put_closing(&mut out, *reason, text),
        Frame::Standing(standing) => put_standing(&mut out, standing),
        Frame::Superseded(evidence) => put_superseded(&mut out, evidence),
    }
    out
}

fn samples() -> Vec<(Frame, &'static str)> {
    vec![
        (
            Frame::Hello(Hello {
                lowest: 1,
                highest: 1,
                queue: QueueId([0xab; 16]),
                standing: Bytes::from_static(&[1, 2]),
            }),
            "1f000000 01 74616c6c796d7367 0100 0100 abababababababababababababababab 0102",
        ),
        (
            Frame::Welcome(Welcome {
                version: 1,
                accepted: 515,
                durable: 514,
                message_limit: 65536,
                standing: Bytes::from_static(&[3]),
            }),
            "18000000 02 0100 0302000000000000 0202000000000000 00000100 03",
        ),
        (
            Frame::Message { number: 516, bytes: Bytes::from_static(b"tally") },
            "0e000000 03 0402000000000000 74616c6c79",
        ),
        (Frame::Acknowledged { up_to: 516 }, "09000000 04 0402000000000000"),
        (Frame::Ping, "01000000 05"),
        (Frame::Closing { reason: Reason::Gap, text: "gap".to_owned() }, "06000000 06 0400 676170"),
        (Frame::Standing(Bytes::from_static(&[4, 5])), "03000000 07 0405"),
        (Frame::Superseded(Bytes::from_static(&[6])), "02000000 08 06"),
    ]
}

/// The bytes on the wire, fixed for version 1 of the protocol.
#[test]
fn golden() {
    for (frame, golden) in samples() {
        let bytes = bytes_of(&frame);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden.replace(' ', ""), "{frame:?}");
        let mut buffer = BytesMut::from(&bytes[..]);
        assert_eq!(take(&mut buffer, CONTROL_LIMIT), Ok(Front::Frame(frame)));
        assert!(buffer.is_empty());
    }
}

#[test]
fn every_beginning_of_a_frame_is_partial_and_changes_nothing() {
    for (frame, _) in samples() {
        let bytes = bytes_of(&frame);
        for end in 0..bytes.len() {
            let mut buffer = BytesMut::from(&bytes[..end]);
            let whole = if end < LENGTH { LENGTH } else { bytes.len() };
            assert_eq!(take(&mut buffer, CONTROL_LIMIT), Ok(Front::Partial(whole)));
            assert_eq!(&buffer[..], &bytes[..end]);
        }
    }
}

#[test]
fn fields_of_a_wrong_size_are_refused() {
    for (frame, _) in samples() {
        let bytes = bytes_of(&frame);
        let body = &bytes[LENGTH..];
        let [shorter, longer] = match frame {
            Frame::Message { .. } | Frame::Closing { .. } => continue,
            // A standing reaches to the end.
            Frame::Hello(_) => [body[..28].to_vec(), [body, &[0; STANDING_LIMIT]].concat()],
            Frame::Welcome(_) => [body[..22].to_vec(), [body, &[0; STANDING_LIMIT]].concat()],
            Frame::Standing(_) | Frame::Superseded(_) => {
                let longer = [body, &[0; STANDING_LIMIT]].concat();
                [longer.clone(), longer]
            }
            _ => [body[..body.len() - 1].to_vec(), [body, &[0]].concat()],
        };
        for body in [shorter, longer] {
            let mut other = (body.len() as u32).to_le_bytes().to_vec();
            other.extend_from_slice(&body);
            let found = take(&mut BytesMut::from(&other[..]), CONTROL_LIMIT);
            assert!(matches!(found, Err(ProtocolError::Malformed(_))), "{frame:?}: {found:?}");
        }
    }
}

#[test]
fn a_length_above_the_limit_is_refused_before_the_bytes_come() {
    let mut out = Vec::new();
    put_message_header(&mut out, 1, 1001);
    let mut buffer = BytesMut::from(&out[..LENGTH]);
    assert_eq!(take(&mut buffer, 1001), Ok(Front::Partial(MESSAGE_OVERHEAD + 1001)));
    assert_eq!(take(&mut buffer, 1000), Err(ProtocolError::TooLarge { bytes: 1001, limit: 1000 }));
    let huge = take(&mut BytesMut::from(&[0xff; 4][..]), 1000);
    assert!(matches!(huge, Err(ProtocolError::TooLarge { .. })));
}

#[test]
fn a_hello_of_another_version_is_refused_for_its_version_whatever_follows() {
    let hello = |lowest: u16, highest: u16, rest: &[u8]| {
        let body = [&[HELLO][..], MAGIC, &lowest.to_le_bytes(), &highest.to_le_bytes(), rest].concat();
        let mut frame = (body.len() as u32).to_le_bytes().to_vec();
        frame.extend(body);
        take(&mut BytesMut::from(&frame[..]), CONTROL_LIMIT)
    };
    let refused = ProtocolError::Version { lowest: 2, highest: 3, ours: 1 };
    assert_eq!(hello(2, 3, b"as yet unknown"), Err(refused));
    assert_eq!(hello(0, 0, b""), Err(ProtocolError::Version { lowest: 0, highest: 0, ours: 1 }));
    let (queue, standing) = (QueueId([9; 16]), Bytes::from_static(&[9; 4]));
    let newer = Frame::Hello(Hello { lowest: 1, highest: 2, queue, standing });
    assert_eq!(hello(1, 2, &[9; 20]), Ok(Front::Frame(newer)));
    assert!(hello(1, 1, &[9; 16 + STANDING_LIMIT + 1]).is_err(), "a standing above the limit");
}

#[test]
fn what_a_peer_says_is_safe_to_print_and_bounded() {
    let mut out = Vec::new();
    put_closing(&mut out, Reason::Invalid, "red \u{1b}[31m\nline");
    let Ok(Front::Frame(Frame::Closing { reason, text })) =
        take(&mut BytesMut::from(&out[..]), CONTROL_LIMIT)
    else {
        panic!("a closing frame")
    };
    assert_eq!((reason, text.as_str()), (Reason::Invalid, "red  [31m line"));
    out.clear();
    put_closing(&mut out, Reason::Invalid, &"é".repeat(600));
    assert!(out.len() <= LENGTH + 3 + TEXT_LIMIT);
    assert!(matches!(take(&mut BytesMut::from(&out[..]), CONTROL_LIMIT), Ok(Front::Frame(_))));
}

#[test]
fn codes_of_reasons_are_stable() {
    for (reason, code) in Reason::ALL.iter().zip(1..) {
        assert_eq!((reason.code(), Reason::from_code(code)), (code, *reason));
    }
    assert_eq!(Reason::Gap.code(), 4);
    assert_eq!(Reason::Store.code(), 15);
    assert_eq!(Reason::from_code(0), Reason::Other);
    assert_eq!(Reason::from_code(999), Reason::Other);
}

proptest! {
    /// Whatever comes, there is an answer, and it does not depend on how the bytes are cut.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(prop_oneof![3 => 0_u8..8, 1 => any::<u8>()], 0..200)) {
        let mut whole = BytesMut::from(&bytes[..]);
        let mut frames = Vec::new();
        let end = loop {
            match take(&mut whole, 64) {
                Ok(Front::Frame(frame)) => frames.push(frame),
                Ok(Front::Partial(_)) => break None,
                Err(error) => break Some(error),
            }
        };
        let mut pieces = BytesMut::new();
        let mut again = Vec::new();
        let mut ended = None;
        'bytes: for byte in &bytes {
            pieces.extend_from_slice(&[*byte]);
            loop {
                match take(&mut pieces, 64) {
                    Ok(Front::Frame(frame)) => again.push(frame),
                    Ok(Front::Partial(_)) => break,
                    Err(error) => {
                        ended = Some(error);
                        break 'bytes;
                    }
                }
            }
        }
        prop_assert_eq!((frames, end), (again, ended));
    }
}
