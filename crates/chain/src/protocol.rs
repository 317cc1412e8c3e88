//! What nodes of a chain send each other, beside the messages of consensus: the kinds, their limits, their encoding.
//!
//! Every message is an RLP list. A message that cannot be read costs its sender score and changes nothing.

use alloy_primitives::{B256, Bytes, U256};
use alloy_rlp::{Decodable, Encodable, RlpDecodable, RlpEncodable};
use tally_peers::{Kinds, Lane};

use crate::blocks::Receipt;

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
/// [`Standing`]: the sender's clock and forks, on connection and twice a minute; to peers that speak version 2 or newer.
pub const STANDING: u8 = 0x24;
/// Request: [`Hashes`]; response: [`Transactions`], those of them that the peer has.
pub const GET_TRANSACTIONS: u8 = 0x30;
/// Request: [`Range`]; response: [`Blocks`], from the first on, as many as fit.
pub const GET_BLOCKS: u8 = 0x31;
/// Request: [`Range`]; response: [`Headers`], from the first on, as many as fit.
pub const GET_HEADERS: u8 = 0x32;
/// Request: [`GetAccounts`]; response: [`Accounts`], empty when the peer does not have that state.
pub const GET_STATE: u8 = 0x33;
/// Request: [`Hashes`]; response: [`Items`], the codes with these hashes in their order, as many as fit.
pub const GET_CODES: u8 = 0x34;
/// Request: [`GetSlots`]; response: [`Slots`], empty when the peer does not have that state.
pub const GET_STORAGE: u8 = 0x35;
/// Request: [`Range`]; response: [`History`], from the first on, as many as fit.
pub const GET_HISTORY: u8 = 0x36;

/// The longest message of consensus in bytes: a block of 30 MB and what justifies it.
pub const CONSENSUS_BYTES: u32 = 48 << 20;
/// The longest answer to a request in bytes. A single block that is longer is sent alone.
pub const RESPONSE_BYTES: u32 = 40 << 20;
/// What an answer aims at, so that several can be under way.
pub const RESPONSE_TARGET_BYTES: usize = 2 << 20;
/// The longest list of transactions in bytes.
pub const TRANSACTIONS_BYTES: u32 = 4 << 20;
/// What an answer with a part of a state aims at: it is checked whole, and many are under way.
pub const STATE_TARGET_BYTES: usize = 512 << 10;
/// The longest answer with a part of a state in bytes. A code is longer than that on no chain that is known.
pub const STATE_BYTES: u32 = 4 << 20;
/// The most accounts whose storage is asked for at once.
pub const STORAGE_COUNT: usize = 256;
/// The most hashes in a message.
pub const HASHES_COUNT: usize = 4_096;
/// The most blocks or headers in a request.
pub const RANGE_COUNT: u64 = 1_024;

/// The kinds with their limits.
pub fn kinds() -> Kinds {
    let hashes = u32::try_from(HASHES_COUNT * 33 + 16).unwrap_or(u32::MAX);
    let storage = u32::try_from(STORAGE_COUNT * 33 + 256).unwrap_or(u32::MAX);
    CONSENSUS
        .into_iter()
        .fold(Kinds::new(), |kinds, code| kinds.message(code, "consensus", Lane::Urgent, CONSENSUS_BYTES))
        .message(HEAD, "head", Lane::Urgent, 64)
        .message(TRANSACTIONS, "transactions", Lane::Bulk, TRANSACTIONS_BYTES)
        .message(HASHES, "hashes", Lane::Bulk, hashes)
        .message(BLOCK, "block", Lane::Urgent, RESPONSE_BYTES)
        .message(STANDING, "standing", Lane::Urgent, 64)
        .request(GET_TRANSACTIONS, "get transactions", Lane::Bulk, hashes, TRANSACTIONS_BYTES)
        .request(GET_BLOCKS, "get blocks", Lane::Bulk, 32, RESPONSE_BYTES)
        .request(GET_HEADERS, "get headers", Lane::Bulk, 32, RESPONSE_BYTES)
        .request(GET_STATE, "get state", Lane::Bulk, 256, STATE_BYTES)
        .request(GET_CODES, "get codes", Lane::Bulk, hashes, STATE_BYTES)
        .request(GET_STORAGE, "get storage", Lane::Bulk, storage, STATE_BYTES)
        .request(GET_HISTORY, "get history", Lane::Bulk, 32, RESPONSE_BYTES)
}

/// The newest block of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Head {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
}

/// What nodes of one chain must agree on beside its blocks, and do not notice in them until it is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Standing {
    /// The sender's clock, in milliseconds since 1970.
    pub clock_ms: u64,
    /// The checksum of its genesis block and of the forks up to its newest block (EIP-2124).
    pub fork_hash: u32,
    /// The block or time of its next fork; 0 when it knows of none.
    pub fork_next: u64,
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

/// Which accounts of which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct GetAccounts {
    /// The block after which the state is.
    pub number: u64,
    /// The state's root, as in that block's header.
    pub root: B256,
    /// The hash of an address where the range begins.
    pub start: B256,
    /// The range ends with the first account at or behind this.
    pub end: B256,
}

/// Accounts in order of the hashes of their addresses, all there are from the start of the range to the last of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Accounts {
    /// The accounts.
    pub accounts: Vec<Account>,
    /// The nodes on the way to the start and to the last of them; none where these are all that the state has.
    pub proof: Vec<Bytes>,
}

/// An account of a state.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Account {
    /// The hash of its address.
    pub key: B256,
    /// As [`tally_state::StoredAccount::encode`] has it.
    pub account: Bytes,
}

/// Which storages of which state.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct GetSlots {
    /// The block after which the state is.
    pub number: u64,
    /// The state's root, as in that block's header.
    pub root: B256,
    /// Hashes of addresses of accounts with storage, at most [`STORAGE_COUNT`].
    pub accounts: Vec<B256>,
    /// The hash of a slot where the range of the first account begins; that of the others begins at zero.
    pub start: B256,
    /// The range of the first account ends with the first slot at or behind this; the others have no end.
    pub end: B256,
}

/// Storages, for the first of the accounts that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Slots {
    /// In the order of the request. All but the last go to their end.
    pub storages: Vec<Storage>,
}

/// Slots of one account in order of their hashes, all there are from the start of the range to the last of them.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Storage {
    /// The slots.
    pub slots: Vec<Slot>,
    /// The nodes on the way to the start and to the last of them; none where these are all that the account has.
    pub proof: Vec<Bytes>,
}

/// A slot and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Slot {
    /// The hash of the slot.
    pub key: B256,
    /// Its value.
    pub value: U256,
}

/// Blocks with what came of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct History {
    /// In the order of their numbers, without a gap.
    pub blocks: Vec<Past>,
}

/// A block with what came of it.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Past {
    /// The block as the RLP that other clients write to files.
    pub block: Bytes,
    /// One for each transaction.
    pub receipts: Vec<Receipt>,
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
