//! What the key of a record says: that it is ours, in which form, and which it is of its partition.
//!
//! A partition's own positions have gaps, since every commit takes one. So each record carries its dense offset.

use bytes::Bytes;

/// The form that this program writes, and the newest that it reads.
pub(super) const VERSION: u8 = 1;
const MAGIC: [u8; 3] = *b"TLY";
/// Magic, version and the offset in big-endian order.
pub(super) const BYTES: usize = 12;

/// What a key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Record number `0` of its partition.
    Ours(u64),
    /// A record of a later program.
    Newer(u8),
    /// Nobody of this network wrote it, for this reason.
    Foreign(&'static str),
}

pub(super) fn key(offset: u64) -> [u8; BYTES] {
    let mut key = [0; BYTES];
    key[..3].copy_from_slice(&MAGIC);
    key[3] = VERSION;
    key[4..].copy_from_slice(&offset.to_be_bytes());
    key
}

pub(super) fn parse(key: Option<&[u8]>) -> Frame {
    let Some(key) = key else { return Frame::Foreign("it has no key") };
    let Some((version, rest)) = key.strip_prefix(&MAGIC).and_then(<[u8]>::split_first) else {
        return Frame::Foreign("its key is not of this network");
    };
    match (*version, <[u8; 8]>::try_from(rest)) {
        (VERSION, Ok(offset)) => Frame::Ours(u64::from_be_bytes(offset)),
        (VERSION, Err(_)) => Frame::Foreign("its key has another length"),
        (0, _) => Frame::Foreign("its key has version 0"),
        (newer, _) => Frame::Newer(newer),
    }
}

/// How much of a foreign record is kept.
const KEPT_BYTES: usize = 4096;

pub(super) fn beginning(payload: Option<&[u8]>) -> Bytes {
    let payload = payload.unwrap_or_default();
    Bytes::copy_from_slice(&payload[..payload.len().min(KEPT_BYTES)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_what_it_was_made_of() {
        for offset in [0, 1, 255, 1 << 40, u64::MAX] {
            assert_eq!(parse(Some(&key(offset))), Frame::Ours(offset));
        }
        assert_eq!(key(258), *b"TLY\x01\0\0\0\0\0\0\x01\x02");
    }

    #[test]
    fn other_keys_are_told_apart() {
        let mut newer = key(7);
        newer[3] = 2;
        assert_eq!(parse(Some(&newer)), Frame::Newer(2));
        assert_eq!(parse(Some(&newer[..4])), Frame::Newer(2));
        newer[3] = 0;
        for foreign in
            [None, Some(&b""[..]), Some(b"TLY"), Some(b"tly\x01"), Some(&key(7)[..11]), Some(&newer)]
        {
            assert!(matches!(parse(foreign), Frame::Foreign(_)), "{foreign:?}");
        }
    }
}
