//! Strict reading and writing of RLP: canonical lengths, nothing left over, errors that name the field.

use alloy_primitives::{Address, B256};
use alloy_rlp::{EMPTY_LIST_CODE, EMPTY_STRING_CODE, Encodable, Header};
use thiserror::Error;

use crate::seal::{Seal, SealError};

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct DecodeError {
    /// The field, such as `commit.digest`.
    pub field: &'static str,
    /// What was wrong with it.
    #[source]
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// Not canonical RLP, or cut off.
    #[error("not canonical RLP ({0})")]
    Rlp(alloy_rlp::Error),
    /// A list where bytes are expected, or the other way round.
    #[error("{0} was expected")]
    Kind(&'static str),
    /// Another length than the one that the field has.
    #[error("{found} bytes where {expected} are expected")]
    Length {
        /// Bytes that the field has.
        expected: usize,
        /// Bytes that were there.
        found: usize,
    },
    /// Something stands behind the last field.
    #[error("{0} bytes too many")]
    Trailing(usize),
    /// A list with more items than it may have.
    #[error("{found} items where at most {limit} are allowed")]
    TooMany {
        /// Items allowed.
        limit: usize,
        /// Items that were there, or one above the limit.
        found: usize,
    },
    /// A value that the field cannot have.
    #[error("{0}")]
    Value(&'static str),
    /// Not a signature.
    #[error(transparent)]
    Seal(SealError),
}

/// Most items in a list of signatures or addresses: far above any network, far below what hurts.
pub(crate) const MAX_ITEMS: usize = 4_096;

/// Reads items one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

pub(crate) type Result<T> = std::result::Result<T, DecodeError>;

pub(crate) fn error(field: &'static str, problem: Problem) -> DecodeError {
    DecodeError { field, problem }
}

pub(crate) fn value(field: &'static str, what: &'static str) -> DecodeError {
    error(field, Problem::Value(what))
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What is not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The list that `bytes` are, all of them.
    pub(crate) fn whole(bytes: &'a [u8], field: &'static str) -> Result<Self> {
        let mut reader = Self::new(bytes);
        let list = reader.list(field)?;
        reader.end(field)?;
        Ok(list)
    }

    pub(crate) fn end(self, field: &'static str) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(error(field, Problem::Trailing(self.rest.len()))) }
    }

    fn item(&mut self, field: &'static str) -> Result<(bool, &'a [u8])> {
        let header = Header::decode(&mut self.rest).map_err(|problem| error(field, Problem::Rlp(problem)))?;
        // `Header::decode` has checked that so many bytes are there.
        let (payload, rest) = self.rest.split_at(header.payload_length);
        self.rest = rest;
        Ok((header.list, payload))
    }

    /// The next item with its own header, untouched.
    pub(crate) fn raw(&mut self, field: &'static str) -> Result<&'a [u8]> {
        self.both(field).map(|(_, raw, _)| raw)
    }

    /// The next item: whether it is a list, all of it, and what is behind its own header.
    pub(crate) fn both(&mut self, field: &'static str) -> Result<(bool, &'a [u8], &'a [u8])> {
        let before = self.rest;
        let (is_list, content) = self.item(field)?;
        Ok((is_list, &before[..before.len() - self.rest.len()], content))
    }

    pub(crate) fn list(&mut self, field: &'static str) -> Result<Self> {
        match self.item(field)? {
            (true, rest) => Ok(Self { rest }),
            (false, _) => Err(error(field, Problem::Kind("a list"))),
        }
    }

    pub(crate) fn bytes(&mut self, field: &'static str) -> Result<&'a [u8]> {
        match self.item(field)? {
            (false, bytes) => Ok(bytes),
            (true, _) => Err(error(field, Problem::Kind("a string of bytes"))),
        }
    }

    pub(crate) fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        let bytes = self.bytes(field)?;
        bytes.try_into().map_err(|_| error(field, Problem::Length { expected: N, found: bytes.len() }))
    }

    pub(crate) fn hash(&mut self, field: &'static str) -> Result<B256> {
        self.fixed(field).map(B256::new)
    }

    pub(crate) fn address(&mut self, field: &'static str) -> Result<Address> {
        self.fixed(field).map(Address::new)
    }

    pub(crate) fn seal(&mut self, field: &'static str) -> Result<Seal> {
        Seal::from_slice(self.bytes(field)?).map_err(|problem| error(field, Problem::Seal(problem)))
    }

    /// A number without leading zeros.
    pub(crate) fn scalar(&mut self, field: &'static str) -> Result<u64> {
        let bytes = self.bytes(field)?;
        if bytes.first() == Some(&0) {
            return Err(value(field, "a number with a leading zero"));
        }
        if bytes.len() > 8 {
            return Err(value(field, "a number above 64 bits"));
        }
        Ok(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    pub(crate) fn scalar_u32(&mut self, field: &'static str) -> Result<u32> {
        u32::try_from(self.scalar(field)?).map_err(|_| value(field, "a number above 32 bits"))
    }

    /// Whether the next item is the empty list; it is then taken.
    pub(crate) fn take_empty_list(&mut self) -> bool {
        self.take(EMPTY_LIST_CODE)
    }

    /// Whether the next item is the empty string; it is then taken.
    pub(crate) fn take_null(&mut self) -> bool {
        self.take(EMPTY_STRING_CODE)
    }

    fn take(&mut self, code: u8) -> bool {
        match self.rest.split_first() {
            Some((&first, rest)) if first == code => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// The items of a list, each read by `read`, at most [`MAX_ITEMS`].
    pub(crate) fn items<T>(
        &mut self,
        field: &'static str,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut list = self.list(field)?;
        let mut items = Vec::new();
        while !list.is_empty() {
            if items.len() == MAX_ITEMS {
                return Err(error(field, Problem::TooMany { limit: MAX_ITEMS, found: MAX_ITEMS + 1 }));
            }
            items.push(read(&mut list)?);
        }
        Ok(items)
    }
}

/// Writes a list whose items `write` appends.
pub(crate) fn list(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut payload = Vec::new();
    write(&mut payload);
    Header { list: true, payload_length: payload.len() }.encode(out);
    out.extend_from_slice(&payload);
}

pub(crate) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    bytes.encode(out);
}

pub(crate) fn scalar(out: &mut Vec<u8>, number: u64) {
    number.encode(out);
}

pub(crate) fn null(out: &mut Vec<u8>) {
    out.push(EMPTY_STRING_CODE);
}

pub(crate) fn empty_list(out: &mut Vec<u8>) {
    out.push(EMPTY_LIST_CODE);
}
