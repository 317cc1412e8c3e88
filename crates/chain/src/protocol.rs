//! What nodes of a chain send each other, beside the messages of consensus: the kinds, their limits, their encoding.
//!
//! Every message is an RLP list. A message that cannot be read costs its sender score and changes nothing.

use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable, Encodable, RlpDecodable, RlpEncodable};
use tally_peers::{Kinds, Lane};

/// The version of these messages; nodes of different versions do not connect.
pub const VERSION: u32 = 1;

/// Messages of consensus keep the codes that their protocols give them: IBFT 2.0 and QBFT.
pub const CONSENSUS: [u8; 8] = [0x00, 0x01, 0x02, 0x03, 0x12, 0x13, 0x14, 0x15];
/// [`Head`]: the newest block of the sender, on connection and after each block.
pub const HEAD: u8 = 0x20;
/// [`Transactions`] in full.
pub const TRANSACTIONS: u8 = 0x21;
/// [`Hashes`] of transactions that the sender has.
pub const HASHES: u8 = 0x22;
/// A new block that the sender, a validator, has proposed, as the RLP that other clients write to files: to peers that
/// do not take part in consensus, in the place of [`HEAD`].
pub const BLOCK: u8 = 0x23;
/// Request: [`Hashes`]; response: [`Transactions`], those of them that the peer has.
pub const GET_TRANSACTIONS: u8 = 0x30;
/// Request: [`Range`]; response: [`Blocks`], from the first on, as many as fit.
pub const GET_BLOCKS: u8 = 0x31;
/// Request: [`Range`]; response: [`Headers`], from the first on, as many as fit.
pub const GET_HEADERS: u8 = 0x32;
/// Request: which part of the state at which block; response: that part with its proof.
pub const GET_STATE: u8 = 0x33;
/// Request: [`Hashes`]; response: [`Items`], the codes with these hashes in their order, as many as fit.
pub const GET_CODES: u8 = 0x34;

/// The longest message of consensus in bytes: a block of 30 MB and what justifies it.
pub const CONSENSUS_BYTES: u32 = 48 << 20;
/// The longest answer to a request in bytes. A single block that is longer is sent alone.
pub const RESPONSE_BYTES: u32 = 40 << 20;
/// What an answer aims at, so that several can be under way.
pub const RESPONSE_TARGET_BYTES: usize = 2 << 20;
/// The longest list of transactions in bytes.
pub const TRANSACTIONS_BYTES: u32 = 4 << 20;
/// The most hashes in a message.
pub const HASHES_COUNT: usize = 4_096;
/// The most blocks or headers in a request.
pub const RANGE_COUNT: u64 = 1_024;

/// The kinds with their limits.
pub fn kinds() -> Kinds {
    let hashes = u32::try_from(HASHES_COUNT * 33 + 16).unwrap_or(u32::MAX);
    CONSENSUS
        .into_iter()
        .fold(Kinds::new(), |kinds, code| kinds.message(code, "consensus", Lane::Urgent, CONSENSUS_BYTES))
        .message(HEAD, "head", Lane::Urgent, 64)
        .message(TRANSACTIONS, "transactions", Lane::Bulk, TRANSACTIONS_BYTES)
        .message(HASHES, "hashes", Lane::Bulk, hashes)
        .message(BLOCK, "block", Lane::Urgent, RESPONSE_BYTES)
        .request(GET_TRANSACTIONS, "get transactions", Lane::Bulk, hashes, TRANSACTIONS_BYTES)
        .request(GET_BLOCKS, "get blocks", Lane::Bulk, 32, RESPONSE_BYTES)
        .request(GET_HEADERS, "get headers", Lane::Bulk, 32, RESPONSE_BYTES)
        .request(GET_STATE, "get state", Lane::Bulk, 256, RESPONSE_BYTES)
        .request(GET_CODES, "get codes", Lane::Bulk, hashes, RESPONSE_BYTES)
}

/// The newest block of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Head {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
}

/// Signed transactions as they are submitted (EIP-2718), each in a byte string.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Transactions {
    /// One after the other.
    pub transactions: Vec<Bytes>,
}

/// Hashes, at most [`HASHES_COUNT`].
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Hashes {
    /// One after the other.
    pub hashes: Vec<B256>,
}

/// Blocks in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Range {
    /// The number of the first.
    pub first: u64,
    /// How many at most, up to [`RANGE_COUNT`].
    pub count: u64,
}

/// Blocks, each as the RLP that other clients write to files.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Blocks {
    /// In the order of their numbers, without a gap.
    pub blocks: Vec<Bytes>,
}

/// Headers, each as its RLP.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Headers {
    /// In the order of their numbers, without a gap.
    pub headers: Vec<Bytes>,
}

/// Byte strings in the order of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Items {
    /// One after the other.
    pub items: Vec<Bytes>,
}

/// A message that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message {what} cannot be read: {reason}")]
pub struct Malformed {
    /// Which message.
    pub what: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// The bytes of a message.
pub fn encode(message: &impl Encodable) -> bytes::Bytes {
    let mut out = Vec::with_capacity(message.length());
    message.encode(&mut out);
    out.into()
}

/// Reads a message that takes up all of `bytes`.
///
/// # Errors
/// What is wrong with it.
pub fn decode<T: Decodable>(what: &'static str, mut bytes: &[u8]) -> Result<T, Malformed> {
    let message = T::decode(&mut bytes).map_err(|error| Malformed { what, reason: error.to_string() })?;
    if bytes.is_empty() {
        Ok(message)
    } else {
        Err(Malformed { what, reason: format!("{} bytes follow it", bytes.len()) })
    }
}
