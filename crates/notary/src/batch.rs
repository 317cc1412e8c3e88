//! Batches, and the blocks of the round engine in which they are agreed on.

use std::collections::BTreeSet;

use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_primitives::{B256, Bytes, U256, keccak256};
use alloy_rlp::Encodable;
use borsh::{BorshDeserialize, BorshSerialize};
use tally_consensus::{Block, BuildRequest, MIX_HASH};
use tally_contracts::{DecodeError, Timestamp, decode, encode};
use tally_crypto::{Hash, hash};
use thiserror::Error;

use crate::{Outcome, Request};

/// Requests that the members carry out together, at one time.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Batch {
    /// By which time windows are judged.
    pub time: Timestamp,
    /// In the order in which they are carried out.
    pub requests: Vec<Request>,
}

/// A block that holds no batch as a member that is right would propose it.
#[derive(Debug, Error)]
pub enum BatchError {
    /// Not a header and one string of bytes.
    #[error("the block is not a header and one string")]
    Form(#[source] alloy_rlp::Error),
    /// Something stands behind the batch.
    #[error("{0} bytes stand behind the batch")]
    Trailing(usize),
    /// The header names another batch.
    #[error("the header names another batch")]
    Unbound,
    /// The bytes are no batch.
    #[error("the batch cannot be read")]
    Batch(#[from] DecodeError),
    /// Too many requests.
    #[error("{0} requests are more than a batch may have")]
    Requests(usize),
    /// One request twice.
    #[error("a request stands twice in a batch")]
    Repeated,
    /// The time is not within the second of the header, or before that of the batch before.
    #[error("the time {0} does not agree with the header, or is before that of the batch before")]
    Time(Timestamp),
    /// A field of the header says something else than what follows from the batch.
    #[error("the header says something else than what follows from the batch")]
    Header,
}

/// The bytes beside the header.
fn body(block: &Block) -> Result<&[u8], BatchError> {
    let mut bytes = block.body();
    let body = alloy_rlp::Header::decode_bytes(&mut bytes, false).map_err(BatchError::Form)?;
    if bytes.is_empty() { Ok(body) } else { Err(BatchError::Trailing(bytes.len())) }
}

/// The header that a block with this batch has to have, the extra data aside.
fn header(request: &BuildRequest, body: &[u8], outcomes: &[Outcome]) -> Header {
    Header {
        parent_hash: request.parent,
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: request.proposer,
        transactions_root: keccak256(body),
        // What comes of the batch: a member whose memory is another cannot agree.
        receipts_root: B256::from(*hash(&encode(outcomes)).as_bytes()),
        difficulty: U256::from(1),
        number: request.view.height,
        timestamp: request.timestamp_s,
        extra_data: request.extra_data.clone(),
        mix_hash: MIX_HASH,
        ..Header::default()
    }
}

/// The block that was asked for, with a batch and what comes of it.
pub(crate) fn build(request: &BuildRequest, batch: &Batch, outcomes: &[Outcome]) -> Bytes {
    let body = encode(batch);
    let mut payload = alloy_rlp::encode(header(request, &body, outcomes));
    body.as_slice().encode(&mut payload);
    let mut bytes = Vec::with_capacity(payload.len() + 9);
    alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(&mut bytes);
    bytes.extend_from_slice(&payload);
    bytes.into()
}

/// The time of a batch in a block with a header of this second: this member's, as far as it lies
/// within.
pub(crate) fn time_within(timestamp_s: u64, now_ms: u64, before: Timestamp) -> Timestamp {
    let first_ms = timestamp_s.saturating_mul(1_000);
    let time = now_ms.clamp(first_ms, first_ms.saturating_add(999));
    Timestamp::from_millis(time.max(before.as_millis()))
}

/// Reads the batch of a block whose batch before was at `before`. What it says of outcomes is for
/// [`agrees`].
pub(crate) fn read(
    block: &Block,
    before: Timestamp,
    limit_bytes: usize,
    limit_requests: usize,
) -> Result<Batch, BatchError> {
    let body = body(block)?;
    if block.header().transactions_root != keccak256(body) {
        return Err(BatchError::Unbound);
    }
    let batch: Batch = decode("a batch", body, limit_bytes)?;
    if batch.requests.len() > limit_requests {
        return Err(BatchError::Requests(batch.requests.len()));
    }
    let ids: BTreeSet<Hash> = batch.requests.iter().map(Request::id).collect();
    if ids.len() < batch.requests.len() {
        return Err(BatchError::Repeated);
    }
    if batch.time < before || batch.time.as_millis() / 1_000 != block.header().timestamp {
        return Err(BatchError::Time(batch.time));
    }
    Ok(batch)
}

/// Whether the header says nothing but what follows from the batch and its outcomes.
pub(crate) fn agrees(block: &Block, outcomes: &[Outcome]) -> Result<(), BatchError> {
    let found = block.header();
    let request = BuildRequest {
        view: tally_consensus::View { height: block.number(), round: block.round() },
        parent: block.parent(),
        timestamp_s: found.timestamp,
        proposer: block.proposer(),
        extra_data: found.extra_data.clone(),
    };
    if header(&request, body(block)?, outcomes) == *found { Ok(()) } else { Err(BatchError::Header) }
}
