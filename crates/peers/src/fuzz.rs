//! Entries for fuzzers: each takes bytes that nobody should have sent, and panics when what reads them
//! does not do as it should.

use crate::enode::Enode;
use crate::frame::{Decoder, Piece};
use crate::handshake::{LONGEST_BODY, Opening, Role};
use crate::key::NodeKey;
use crate::keystore::Keystore;
use crate::kind::{Kinds, Lane};
use crate::permissions::Lists;
use crate::static_nodes;
use bytes::BytesMut;

/// An enode URL that is read is written as something that reads as the same.
///
/// # Panics
/// When it is not: this is the purpose.
pub fn enode(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(enode) = text.parse::<Enode>() {
        assert_eq!(enode.to_string().parse(), Ok(enode), "an enode URL does not survive being written");
    }
    drop(static_nodes::parse(bytes));
}

/// Frames are cut at every place as the network may cut them, and come out the same; none is longer than
/// its kind allows.
///
/// # Panics
/// When they do not: this is the purpose.
pub fn frames(bytes: &[u8]) {
    const LONGEST: usize = 1 << 10;
    let kinds = || {
        Kinds::new()
            .message(1, "urgent", Lane::Urgent, 1 << 10)
            .message(2, "bulk", Lane::Bulk, 1 << 10)
            .request(3, "request", Lane::Bulk, 16, 1 << 10)
    };
    let drain = |decoder: &mut Decoder, buffer: &mut BytesMut, pieces: &mut Vec<Piece>| {
        loop {
            match decoder.next(buffer) {
                Ok(Some(decoded)) => {
                    if let Piece::Frame(frame) = &decoded.piece {
                        assert!(frame.payload.len() <= LONGEST, "a frame is longer than its kind allows");
                    }
                    pieces.push(decoded.piece);
                }
                Ok(None) => return Ok(()),
                Err(fault) => return Err(fault),
            }
        }
    };
    let (mut decoder, mut buffer, mut whole) = (Decoder::new(kinds()), BytesMut::from(bytes), Vec::new());
    let end = drain(&mut decoder, &mut buffer, &mut whole);
    let (mut decoder, mut buffer, mut cut) = (Decoder::new(kinds()), BytesMut::new(), Vec::new());
    let mut cut_end = Ok(());
    for byte in bytes {
        buffer.extend_from_slice(&[*byte]);
        cut_end = drain(&mut decoder, &mut buffer, &mut cut);
        if cut_end.is_err() {
            break;
        }
    }
    assert_eq!((whole, end), (cut, cut_end), "where the network cuts makes a difference");
}

/// A message of the handshake is read or refused, and nothing that is not signed is believed.
///
/// # Panics
/// When it is: this is the purpose.
pub fn handshake(bytes: &[u8]) {
    if let Some(prefix) = bytes.first_chunk() {
        let length = Opening::body_length(*prefix);
        assert!(length.is_err() || length.is_ok_and(|length| length <= LONGEST_BODY), "a body is too long");
    }
    if let Ok(Opening::Hello(proof)) = Opening::decode(bytes)
        && let Ok(key) = NodeKey::new(&[7; 32])
    {
        let believed = proof.check(Role::Initiator, &[0x5a; 32], &key.id());
        assert!(believed.is_err(), "a proof is believed that was not made for this session");
    }
}

/// A key store is read or refused, without its key being derived.
pub fn keystore(bytes: &[u8]) {
    drop(Keystore::parse(bytes));
    drop(NodeKey::parse(bytes));
}

/// A permissions file is read or refused; its entries are what its text says.
pub fn permissions(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        drop(Lists::parse(text));
    }
}
