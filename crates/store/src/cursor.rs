//! Where a page ended, as an opaque text that only the same query accepts again.

use crate::row::hex;
use crate::{Result, StoreError};
use serde::Serialize;

const BYTES: usize = 28;

/// The last row that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Its quantity as SQL has it, if that is what pages are sorted by.
    pub(crate) quantity: i64,
    pub(crate) key: i64,
}

/// What tells queries apart: their filters and their order, not the size of a page.
pub(crate) struct Fingerprint([u8; 8]);

impl Fingerprint {
    pub(crate) fn new(query: &impl Serialize) -> Result<Self> {
        let json = serde_json::to_vec(query)
            .map_err(|_| StoreError::Query { reason: "it has a value that JSON cannot hold" })?;
        Ok(Self(digest(&[b"tally-store query", &json])))
    }

    pub(crate) fn cursor(&self, position: Position) -> String {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&self.0);
        bytes.extend_from_slice(&position.quantity.to_be_bytes());
        bytes.extend_from_slice(&position.key.to_be_bytes());
        let check: [u8; 4] = digest(&[b"tally-store cursor", &bytes]);
        bytes.extend_from_slice(&check);
        hex(&bytes)
    }

    pub(crate) fn position(&self, cursor: &str) -> Result<Position> {
        const DAMAGED: StoreError = StoreError::Cursor { reason: "it is damaged" };
        let bytes = unhex(cursor).ok_or(DAMAGED)?;
        let (content, check) = bytes.split_at(BYTES - 4);
        if check != digest::<4>(&[b"tally-store cursor", content]) {
            return Err(DAMAGED);
        }
        let word = |at: usize| -> Result<[u8; 8]> { content[at..at + 8].try_into().map_err(|_| DAMAGED) };
        if word(0)? != self.0 {
            return Err(StoreError::Cursor {
                reason: "it belongs to a query with other filters or another order",
            });
        }
        Ok(Position { quantity: i64::from_be_bytes(word(8)?), key: i64::from_be_bytes(word(16)?) })
    }
}

fn digest<const N: usize>(pieces: &[&[u8]]) -> [u8; N] {
    let hash = tally_crypto::hash(&pieces.concat());
    let mut out = [0; N];
    out.copy_from_slice(&hash.as_bytes()[..N]);
    out
}

fn unhex(text: &str) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    if text.len() != BYTES * 2 {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16).filter(|_| !digit.is_ascii_uppercase());
        *byte = u8::try_from(digit(digits[0])? << 4 | digit(digits[1])?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_query_takes_an_undamaged_cursor() {
        let fingerprint = Fingerprint::new(&"one").unwrap();
        let position = Position { quantity: -5, key: i64::MAX };
        let cursor = fingerprint.cursor(position);
        assert_eq!(fingerprint.position(&cursor).unwrap(), position);
        let other = Fingerprint::new(&"two").unwrap();
        assert!(matches!(other.position(&cursor), Err(StoreError::Cursor { .. })));
        for index in 0..cursor.len() {
            let mut damaged = cursor.clone().into_bytes();
            damaged[index] = if damaged[index] == b'0' { b'1' } else { b'0' };
            let damaged = String::from_utf8(damaged).unwrap();
            assert!(matches!(fingerprint.position(&damaged), Err(StoreError::Cursor { .. })), "{damaged}");
        }
        for damaged in ["", "0", &cursor[1..], &cursor[2..], &cursor.to_uppercase(), &"ü".repeat(BYTES)] {
            assert!(matches!(fingerprint.position(damaged), Err(StoreError::Cursor { .. })), "{damaged}");
        }
    }
}
