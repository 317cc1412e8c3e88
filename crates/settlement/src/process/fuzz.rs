//! What shards record for themselves, read and written again: for those who damage it.

use super::assemble::{decode_finished, encode_finished};
use super::snapshot::Piece;
use super::state::State;
use crate::message::Message;

fn again<M: Message>(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    M::decode(bytes).ok()?.encode(&mut out);
    Some(out)
}

/// How far a shard has come.
pub fn state(bytes: &[u8]) -> Option<Vec<u8>> {
    again::<State>(bytes)
}

/// What a stage adds to how far its shard has come.
pub fn more(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(State::decode(bytes).ok()?.more)
}

/// What an assembler adds.
pub fn finished(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(encode_finished(&decode_finished(bytes).ok()?))
}

/// A piece of a snapshot.
pub fn piece(bytes: &[u8]) -> Option<Vec<u8>> {
    again::<Piece>(bytes)
}
