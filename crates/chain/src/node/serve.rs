//! Answers to what peers ask for.

use alloy_primitives::{Address, Bytes};
use tally_peers::Responder;

use super::Node;
use super::post::blame;
use crate::blocks::ReadError;
use crate::chain::BlockId;
use crate::protocol::{
    self, Blocks, GET_BLOCKS, GET_HEADERS, GET_TRANSACTIONS, HASHES_COUNT, Hashes, Headers, RANGE_COUNT,
    RESPONSE_TARGET_BYTES, Range, Transactions,
};

pub(super) fn answer(node: &Node, peer: Address, kind: u8, request: &[u8], respond: Responder) {
    let answer = match kind {
        GET_BLOCKS => protocol::decode("get blocks", request).map(|range| blocks(node, range)),
        GET_HEADERS => protocol::decode("get headers", request).map(|range| headers(node, range)),
        GET_TRANSACTIONS => {
            protocol::decode("get transactions", request).map(|hashes| Ok(transactions(node, &hashes)))
        }
        _ => return,
    };
    match answer {
        Ok(Ok(bytes)) => {
            let _ = respond.send(bytes);
        }
        // The peer asks another; this node says what is wrong with it.
        Ok(Err(error)) => node.failed("answering a peer", &error),
        Err(malformed) => blame(node, peer, &malformed),
    }
}

fn numbers(range: Range) -> impl Iterator<Item = u64> {
    range.first..range.first.saturating_add(range.count.min(RANGE_COUNT))
}

/// As many as fit, and at least one.
fn fill(
    range: Range,
    mut get: impl FnMut(u64) -> Result<Option<Bytes>, ReadError>,
) -> Result<Vec<Bytes>, ReadError> {
    let mut found = Vec::new();
    let mut bytes = 0;
    for number in numbers(range) {
        let Some(item) = get(number)? else { break };
        bytes += item.len();
        if bytes > RESPONSE_TARGET_BYTES && !found.is_empty() {
            break;
        }
        found.push(item);
    }
    Ok(found)
}

fn blocks(node: &Node, range: Range) -> Result<bytes::Bytes, ReadError> {
    let reader = node.chain().reader();
    Ok(protocol::encode(&Blocks { blocks: fill(range, |number| reader.rlp(number))? }))
}

fn headers(node: &Node, range: Range) -> Result<bytes::Bytes, ReadError> {
    let reader = node.chain().reader();
    let headers = fill(range, |number| {
        let header = reader.header(BlockId::Number(number))?;
        Ok(header.map(|sealed| alloy_rlp::encode(&sealed.header).into()))
    })?;
    Ok(protocol::encode(&Headers { headers }))
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
