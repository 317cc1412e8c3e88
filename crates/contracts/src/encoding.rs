//! The canonical encoding: Borsh, one form for each value.

use borsh::io::{Error, ErrorKind, Read};
use borsh::{BorshDeserialize, BorshSerialize};

/// Bytes that are not the encoding of what they should be.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Longer than the limit; nothing of it was read.
    #[error("{what} of {got} bytes is longer than the limit of {limit}")]
    TooLong {
        /// What the bytes should be.
        what: &'static str,
        /// The limit, in bytes.
        limit: usize,
        /// The length found, in bytes.
        got: usize,
    },
    /// Not a canonical encoding: cut short, followed by more bytes, or with a value out of range.
    #[error("the bytes are not the encoding of {what}")]
    Malformed {
        /// What the bytes should be.
        what: &'static str,
        /// The first fault.
        #[source]
        source: Error,
    },
    /// The data belongs to another contract.
    #[error("{what} belongs to contract {found}, not to {expected}")]
    Contract {
        /// What was to be read.
        what: &'static str,
        /// The contract asked for.
        expected: crate::ContractName,
        /// The contract found.
        found: crate::ContractName,
    },
}

/// Decodes a whole value of at most `limit` bytes.
///
/// # Errors
/// [`DecodeError`] when the bytes are too many, too few, or not canonical.
pub fn decode<T: BorshDeserialize>(what: &'static str, bytes: &[u8], limit: usize) -> Result<T, DecodeError> {
    if bytes.len() > limit {
        return Err(DecodeError::TooLong { what, limit, got: bytes.len() });
    }
    borsh::from_slice(bytes).map_err(|source| DecodeError::Malformed { what, source })
}

/// The encoding of `value`.
///
/// # Panics
/// When a collection of `value` has more than 2^32 elements, or `value` has an encoding of its
/// own that fails.
pub fn encode<T: BorshSerialize + ?Sized>(value: &T) -> Vec<u8> {
    borsh::to_vec(value).expect("writing to memory fails only beyond 2^32 elements")
}

/// A decoder's refusal, with its cause.
pub(crate) fn invalid(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::InvalidData, cause)
}

/// Reads a byte string that is preceded by its length, which is checked before memory is set aside.
pub(crate) fn read_limited<R: Read>(
    what: &'static str,
    limit: usize,
    reader: &mut R,
) -> Result<Vec<u8>, Error> {
    let length = u32::deserialize_reader(reader)?;
    let got = usize::try_from(length).map_err(invalid)?;
    if got > limit {
        return Err(invalid(DecodeError::TooLong { what, limit, got }));
    }
    let mut bytes = vec![0; got];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}
