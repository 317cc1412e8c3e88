//! Answers to what peers ask for.
//!
//! One thread answers whatever has to be read from the store, so that messages of consensus are not kept waiting; what it
//! does for one request is bounded by the bytes of the answer.

mod states;

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::Encodable as _;
use tally_peers::Responder;
use tally_state::{Error as StateError, Read as _};

use self::states::States;
use super::Node;
use super::post::blame;
use crate::blocks::ReadError;
use crate::chain::BlockId;
use crate::error::ChainError;
use crate::protocol::{
    self, Account, Accounts, Blocks, GET_BLOCKS, GET_CODES, GET_HEADERS, GET_HISTORY, GET_STATE, GET_STORAGE,
    GET_TRANSACTIONS, GetAccounts, GetSlots, HASHES_COUNT, Hashes, Headers, History, Items, Malformed, Past,
    RANGE_COUNT, RESPONSE_BYTES, RESPONSE_TARGET_BYTES, Range, STATE_BYTES, STATE_TARGET_BYTES,
    STORAGE_COUNT, Slot, Slots, Storage, Transactions,
};

/// Requests that wait at most; peers whose requests find no room ask another node.
pub(super) const WAITING: usize = 256;
/// How often states are let go of that nobody asks for any more.
const TIDY: Duration = Duration::from_secs(5);
/// The highest key there can be.
const LAST: B256 = B256::repeat_byte(0xff);

/// A request of a peer.
pub(super) struct Asked {
    peer: Address,
    kind: u8,
    request: bytes::Bytes,
    respond: Responder,
}

/// What the thread that answers is told.
pub(super) enum Told {
    /// A peer asks.
    Asked(Asked),
    /// The node stops.
    Stop,
}

/// Answers, or hands the request to the thread that does. Without room the peer is told that it gets no answer.
pub(super) fn answer(node: &Node, peer: Address, kind: u8, request: bytes::Bytes, respond: Responder) {
    if kind != GET_TRANSACTIONS {
        let _ = node.shared.serve.try_send(Told::Asked(Asked { peer, kind, request, respond }));
        return;
    }
    match protocol::decode("get transactions", &request) {
        Ok(hashes) => {
            let _ = respond.send(transactions(node, &hashes));
        }
        Err(malformed) => blame(node, peer, &malformed),
    }
}

pub(super) fn run(node: Node, told: Receiver<Told>) {
    let mut states = States::default();
    loop {
        match told.recv_timeout(TIDY) {
            Ok(Told::Asked(asked)) => serve(&node, &mut states, asked),
            Ok(Told::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        states.tidy();
        if node.is_stopping() {
            return;
        }
    }
}

fn serve(node: &Node, states: &mut States, asked: Asked) {
    let Asked { peer, kind, request, respond } = asked;
    match response(node, states, kind, &request) {
        Ok(Ok(bytes)) => {
            let _ = respond.send(bytes);
        }
        // The peer asks another; this node says what is wrong with it.
        Ok(Err(error)) => node.failed("answering a peer", &error),
        Err(malformed) => blame(node, peer, &malformed),
    }
}

fn response(
    node: &Node,
    states: &mut States,
    kind: u8,
    request: &[u8],
) -> Result<Result<bytes::Bytes, ChainError>, Malformed> {
    Ok(match kind {
        GET_BLOCKS => blocks(node, protocol::decode("get blocks", request)?).map_err(Into::into),
        GET_HEADERS => headers(node, protocol::decode("get headers", request)?).map_err(Into::into),
        GET_HISTORY => history(node, protocol::decode("get history", request)?).map_err(Into::into),
        GET_STATE => accounts(node, states, &protocol::decode("get state", request)?),
        GET_STORAGE => slots(node, states, &protocol::decode("get storage", request)?),
        GET_CODES => codes(node, &protocol::decode("get codes", request)?),
        // The network lets no other kind through.
        _ => Ok(bytes::Bytes::new()),
    })
}

fn numbers(range: Range) -> impl Iterator<Item = u64> {
    range.first..range.first.saturating_add(range.count.min(RANGE_COUNT))
}

/// As many as fit, and at least one.
fn fill<T>(
    range: Range,
    mut get: impl FnMut(u64) -> Result<Option<T>, ReadError>,
    length: impl Fn(&T) -> usize,
) -> Result<Vec<T>, ReadError> {
    let mut found = Vec::new();
    let mut bytes = 0;
    for number in numbers(range) {
        let Some(item) = get(number)? else { break };
        bytes += length(&item);
        if bytes > RESPONSE_TARGET_BYTES && !found.is_empty() {
            break;
        }
        found.push(item);
    }
    Ok(found)
}

fn blocks(node: &Node, range: Range) -> Result<bytes::Bytes, ReadError> {
    let reader = node.chain().reader();
    Ok(protocol::encode(&Blocks { blocks: fill(range, |number| reader.rlp(number), |rlp| rlp.len())? }))
}

fn headers(node: &Node, range: Range) -> Result<bytes::Bytes, ReadError> {
    let reader = node.chain().reader();
    let header = |number| -> Result<Option<Bytes>, ReadError> {
        let header = reader.header(BlockId::Number(number))?;
        Ok(header.map(|sealed| alloy_rlp::encode(&sealed.header).into()))
    };
    Ok(protocol::encode(&Headers { headers: fill(range, header, |rlp| rlp.len())? }))
}

/// Blocks with receipts. One that is too long for a message is not there for those who ask in this way.
fn history(node: &Node, range: Range) -> Result<bytes::Bytes, ReadError> {
    let reader = node.chain().reader();
    let past = |number| -> Result<Option<Past>, ReadError> {
        let Some(block) = reader.block(BlockId::Number(number))? else { return Ok(None) };
        let past = Past { block: block.encode().into(), receipts: block.receipts.clone() };
        Ok(Some(past).filter(|past| past.length() < RESPONSE_BYTES as usize - 16))
    };
    Ok(protocol::encode(&History { blocks: fill(range, past, |past| past.length())? }))
}

fn accounts(node: &Node, states: &mut States, asked: &GetAccounts) -> Result<bytes::Bytes, ChainError> {
    let Some(state) = states.get(node, asked.number, asked.root)? else {
        return Ok(protocol::encode(&Accounts::default()));
    };
    let range = state.account_range(asked.start, asked.end, STATE_TARGET_BYTES)?;
    let account = |(key, account): &(B256, tally_state::StoredAccount)| Account {
        key: *key,
        account: account.encode().into(),
    };
    let accounts = range.accounts.iter().map(account).collect();
    Ok(protocol::encode(&Accounts { accounts, proof: range.proof }))
}

fn slots(node: &Node, states: &mut States, asked: &GetSlots) -> Result<bytes::Bytes, ChainError> {
    let mut slots = Slots::default();
    let Some(state) = states.get(node, asked.number, asked.root)? else {
        return Ok(protocol::encode(&slots));
    };
    let mut bytes = 0;
    let first = std::iter::once((asked.start, asked.end));
    let ends = first.chain(std::iter::repeat((B256::ZERO, LAST)));
    for (account, (start, end)) in asked.accounts.iter().zip(ends).take(STORAGE_COUNT) {
        if state.account(account)?.is_none() || bytes >= STATE_TARGET_BYTES {
            break;
        }
        let range = state.storage_range(*account, start, end, STATE_TARGET_BYTES - bytes)?;
        let found: Vec<Slot> = range.slots.into_iter().map(|(key, value)| Slot { key, value }).collect();
        bytes += found.length() + range.proof.length();
        let is_whole = range.proof.is_empty();
        slots.storages.push(Storage { slots: found, proof: range.proof });
        if !is_whole {
            break;
        }
    }
    Ok(protocol::encode(&slots))
}

/// Codes that are not there are left out.
fn codes(node: &Node, hashes: &Hashes) -> Result<bytes::Bytes, ChainError> {
    let head = node.chain().head();
    let mut items = Vec::new();
    let mut bytes = 0;
    for hash in hashes.hashes.iter().take(HASHES_COUNT) {
        let code = match head.branch.view.code(*hash) {
            Ok(code) if code.len() < STATE_BYTES as usize - 16 => code,
            Ok(_) | Err(StateError::UnknownCode { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        bytes += code.len();
        if bytes > STATE_TARGET_BYTES && !items.is_empty() {
            break;
        }
        items.push(code);
    }
    Ok(protocol::encode(&Items { items }))
}

fn transactions(node: &Node, hashes: &Hashes) -> bytes::Bytes {
    let pool = node.pool();
    let found: Vec<_> =
        hashes.hashes.iter().take(HASHES_COUNT).filter_map(|hash| pool.get(hash).cloned()).collect();
    drop(pool);
    let mut transactions = Vec::new();
    let mut bytes = 0;
    for pooled in found {
        let encoded = pooled.encode();
        bytes += encoded.len();
        if bytes > RESPONSE_TARGET_BYTES {
            break;
        }
        transactions.push(encoded);
    }
    protocol::encode(&Transactions { transactions })
}
