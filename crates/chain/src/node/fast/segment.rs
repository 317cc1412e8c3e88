//! Parts of a trie's keys that are taken side by side.

use alloy_primitives::{B256, U256};

/// The highest key there can be.
pub(super) const LAST: B256 = B256::repeat_byte(0xff);
/// Into how many parts a trie is cut that does not fit into one answer.
const PARTS: u8 = 16;

/// How far one part has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Its number among the parts of its trie.
    pub(super) id: u8,
    /// The first key that is missing.
    pub(super) next: B256,
    /// The last key of the part.
    pub(super) end: B256,
    pub(super) is_done: bool,
}

/// The key after this one, if there is any.
pub(super) fn after(key: B256) -> Option<B256> {
    U256::from_be_bytes(key.0).checked_add(U256::ONE).map(B256::from)
}

impl Segment {
    /// All keys from `first` on, in parts of one size.
    pub(super) fn split(first: B256) -> Vec<Self> {
        let from = U256::from_be_bytes(first.0);
        let size = (U256::MAX - from) / U256::from(PARTS);
        (0..PARTS)
            .map(|id| {
                let start = from + size * U256::from(id);
                let end = if id + 1 == PARTS { U256::MAX } else { start + size };
                let next = if id == 0 { Some(start) } else { start.checked_add(U256::ONE) };
                // Few keys may be left for many parts.
                let is_done = next.is_none_or(|next| next > end);
                Self { id, next: next.unwrap_or(end).into(), end: end.into(), is_done }
            })
            .collect()
    }

    /// What is left once all keys up to `last` are there; all of them, where there are no `more`.
    pub(super) fn until(self, last: Option<B256>, more: bool) -> Self {
        match last.filter(|last| more && *last < self.end).and_then(after) {
            Some(next) => Self { next, ..self },
            None => Self { is_done: true, ..self },
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.is_done)];
        out.extend_from_slice(self.next.as_slice());
        out.extend_from_slice(self.end.as_slice());
        out
    }

    pub(super) fn decode(id: u8, bytes: &[u8]) -> Option<Self> {
        let (&is_done, keys) = bytes.split_first()?;
        let (next, end) = keys.split_at_checked(32)?;
        let (next, end) = (B256::try_from(next).ok()?, B256::try_from(end).ok()?);
        (is_done <= 1).then_some(Self { id, next, end, is_done: is_done == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_every_key_once() {
        let nearly = B256::from(U256::MAX - U256::from(5));
        for first in [B256::ZERO, B256::repeat_byte(0x7f), nearly, LAST] {
            let parts = Segment::split(first);
            let mut next = Some(first);
            for part in parts.iter().filter(|part| !part.is_done) {
                assert_eq!(Some(part.next), next);
                assert!(part.next <= part.end);
                next = after(part.end);
            }
            assert_eq!(next, None, "{first}");
        }
    }

    #[test]
    fn a_part_ends_with_its_last_key_or_when_there_are_no_more() {
        let [part, ..] = Segment::split(B256::ZERO)[..] else { panic!("no parts") };
        let middle = B256::with_last_byte(9);
        let further = part.until(Some(middle), true);
        assert_eq!((further.next, further.is_done), (B256::with_last_byte(10), false));
        assert!(part.until(Some(middle), false).is_done);
        assert!(part.until(Some(part.end), true).is_done);
        assert!(part.until(Some(LAST), true).is_done);
        assert!(part.until(None, false).is_done);
        for part in [part, further, part.until(None, false)] {
            assert_eq!(Segment::decode(part.id, &part.encode()), Some(part));
        }
        assert_eq!(Segment::decode(0, &[0; 64]), None);
        assert_eq!(Segment::decode(0, &[2; 65]), None);
    }
}
