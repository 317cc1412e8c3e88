//! Headers against their parents, bodies against their headers, results against both.

use alloy_consensus::Header;
use alloy_consensus::constants::{EMPTY_OMMER_ROOT_HASH, EMPTY_WITHDRAWALS};
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_primitives::{B64, B256, U256};

use super::base_fee::may_have_base_fee;
use super::{Block, BlockError, DAO_EXTRA_DATA, next_base_fee, next_difficulty, next_excess_blob_gas};
use crate::execute::Executed;
use crate::schedule::{Fork, Schedule};

const GAS_LIMIT_BOUND_DIVISOR: u64 = 1024;
const MIN_GAS_LIMIT: u64 = 5000;
/// Clients count gas in signed 64 bits.
pub(super) const MAX_GAS_LIMIT: u64 = i64::MAX as u64;
const MAX_EXTRA_DATA: usize = 32;
/// EIP-7934: 10 MiB less a margin for the beacon block around it.
const MAX_BLOCK_SIZE: usize = (10 << 20) - (2 << 20);

/// A check of a sealed header against its parent.
pub type SealCheck<'a> =
    dyn Fn(&Header, &Header) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;

/// What makes a header one of its chain.
pub enum Sealing<'a> {
    /// Proof of work, whose proof is not checked, and after the merge the beacon chain.
    Ethereum {
        /// Total difficulty up to and including the parent; without it, the header's own difficulty
        /// tells which side of the merge it is on.
        parent_total_difficulty: Option<U256>,
    },
    /// Known validators: extra data, seals, beneficiary and nonce are for this to check.
    Validators(&'a SealCheck<'a>),
}

/// Checks a header against its parent's, whose hash is `parent_hash`.
///
/// What is not checked: whether its time has come, and everything that needs the body.
///
/// # Errors
/// The first rule that it breaks.
pub fn validate_header(
    schedule: &Schedule,
    header: &Header,
    parent: &Header,
    parent_hash: B256,
    sealing: &Sealing<'_>,
) -> Result<(), BlockError> {
    if header.parent_hash != parent_hash {
        return Err(BlockError::Parent { expected: parent_hash, found: header.parent_hash });
    }
    if parent.number.checked_add(1) != Some(header.number) {
        return Err(BlockError::Number { expected: parent.number.saturating_add(1), found: header.number });
    }
    if header.gas_used > header.gas_limit {
        return Err(BlockError::GasAboveLimit { limit: header.gas_limit, used: header.gas_used });
    }
    gas_limit(schedule, header, parent)?;
    match sealing {
        Sealing::Ethereum { parent_total_difficulty } => {
            ethereum(schedule, header, parent, *parent_total_difficulty)?;
        }
        Sealing::Validators(check) => {
            if header.timestamp < parent.timestamp {
                return Err(BlockError::Timestamp { parent: parent.timestamp, found: header.timestamp });
            }
            if header.difficulty != U256::ONE {
                return Err(BlockError::Difficulty { expected: U256::ONE, found: header.difficulty });
            }
            if header.ommers_hash != EMPTY_OMMER_ROOT_HASH {
                return Err(BlockError::AfterMerge("ommers"));
            }
            check(header, parent).map_err(BlockError::Seal)?;
        }
    }
    if !may_have_base_fee(schedule, parent, header.timestamp, header.base_fee_per_gas) {
        let expected = next_base_fee(schedule, parent, header.timestamp);
        return Err(BlockError::BaseFee { expected, found: header.base_fee_per_gas });
    }
    fork_fields(schedule, header, parent)?;
    match sealing {
        Sealing::Validators(_) => without_beacon_chain(header),
        Sealing::Ethereum { .. } => Ok(()),
    }
}

/// What only a beacon chain can say: where validators seal there is none, so these fields have one value. Any other would
/// be the proposer's choice, and a withdrawal is native currency out of nothing (Besu's GHSA-p4h2-gvh4-pv6j).
fn without_beacon_chain(header: &Header) -> Result<(), BlockError> {
    if header.withdrawals_root.is_some_and(|root| root != EMPTY_WITHDRAWALS) {
        return Err(BlockError::NoBeaconChain("withdrawals"));
    }
    // EIP-4788 makes this one readable for contracts.
    if header.parent_beacon_block_root.is_some_and(|root| root != B256::ZERO) {
        return Err(BlockError::NoBeaconChain("the root of a beacon block"));
    }
    // EIP-7843: so is this one.
    if header.slot_number.is_some_and(|slot| slot != 0) {
        return Err(BlockError::NoBeaconChain("the number of a slot"));
    }
    Ok(())
}

fn gas_limit(schedule: &Schedule, header: &Header, parent: &Header) -> Result<(), BlockError> {
    let error = BlockError::GasLimit { parent: parent.gas_limit, found: header.gas_limit };
    // EIP-1559: the target doubles into the limit at London.
    let doubles = schedule.is_active(Fork::London, header.number, header.timestamp)
        && !schedule.is_active(Fork::London, parent.number, parent.timestamp);
    let before = if doubles { parent.gas_limit.saturating_mul(2) } else { parent.gas_limit };
    if header.gas_limit.abs_diff(before) >= before / GAS_LIMIT_BOUND_DIVISOR && header.gas_limit != before {
        return Err(error);
    }
    if !(MIN_GAS_LIMIT..=MAX_GAS_LIMIT).contains(&header.gas_limit) {
        return Err(error);
    }
    Ok(())
}

fn ethereum(
    schedule: &Schedule,
    header: &Header,
    parent: &Header,
    parent_total_difficulty: Option<U256>,
) -> Result<(), BlockError> {
    if header.timestamp <= parent.timestamp {
        return Err(BlockError::Timestamp { parent: parent.timestamp, found: header.timestamp });
    }
    if header.extra_data.len() > MAX_EXTRA_DATA {
        return Err(BlockError::ExtraData(header.extra_data.len()));
    }
    let merged = match (schedule.terminal_total_difficulty, parent_total_difficulty) {
        (None, _) => false,
        (Some(terminal), Some(total)) => total >= terminal,
        (Some(_), None) => header.difficulty.is_zero(),
    };
    if !merged {
        if header.difficulty.is_zero() && schedule.terminal_total_difficulty.is_some() {
            return Err(BlockError::Merge { merged });
        }
        let expected =
            next_difficulty(schedule.fork(header.number, header.timestamp, false), parent, header.timestamp);
        if header.difficulty != expected {
            return Err(BlockError::Difficulty { expected, found: header.difficulty });
        }
        return dao_extra_data(schedule, header);
    }
    if !header.difficulty.is_zero() {
        return Err(BlockError::Merge { merged });
    }
    if header.ommers_hash != EMPTY_OMMER_ROOT_HASH {
        return Err(BlockError::AfterMerge("ommers"));
    }
    if header.nonce != B64::ZERO {
        return Err(BlockError::AfterMerge("a nonce"));
    }
    Ok(())
}

fn dao_extra_data(schedule: &Schedule, header: &Header) -> Result<(), BlockError> {
    const BLOCKS: u64 = 10;
    let Some(fork) = schedule.dao_fork_block() else { return Ok(()) };
    let within = header.number.checked_sub(fork).is_some_and(|after| after < BLOCKS);
    if within && (header.extra_data == *DAO_EXTRA_DATA) != schedule.dao_fork_support {
        return Err(BlockError::DaoExtraData);
    }
    Ok(())
}

fn fork_fields(schedule: &Schedule, header: &Header, parent: &Header) -> Result<(), BlockError> {
    let rules = schedule.rules_of(header);
    let presence = |field, found: bool, since: Fork| {
        let expected = rules.has(since);
        if found == expected { Ok(()) } else { Err(BlockError::Presence { field, expected }) }
    };
    presence("withdrawalsRoot", header.withdrawals_root.is_some(), Fork::Shanghai)?;
    presence("blobGasUsed", header.blob_gas_used.is_some(), Fork::Cancun)?;
    presence("excessBlobGas", header.excess_blob_gas.is_some(), Fork::Cancun)?;
    // Besu's validators leave the root of a beacon chain out that they do not have.
    if !(schedule.sealed && header.parent_beacon_block_root.is_none() && header.requests_hash.is_none()) {
        presence("parentBeaconBlockRoot", header.parent_beacon_block_root.is_some(), Fork::Cancun)?;
        presence("requestsHash", header.requests_hash.is_some(), Fork::Prague)?;
    }
    presence("blockAccessListHash", header.block_access_list_hash.is_some(), Fork::Amsterdam)?;
    presence("slotNumber", header.slot_number.is_some(), Fork::Amsterdam)?;
    if let (Some(blobs), Some(used), Some(excess)) =
        (rules.blobs, header.blob_gas_used, header.excess_blob_gas)
    {
        let limit = blobs.max_blob_count.saturating_mul(DATA_GAS_PER_BLOB);
        if used > limit {
            return Err(BlockError::BlobGasLimit { limit, found: used });
        }
        if !used.is_multiple_of(DATA_GAS_PER_BLOB) {
            let expected = used / DATA_GAS_PER_BLOB * DATA_GAS_PER_BLOB;
            return Err(BlockError::BlobGasUsed { expected, found: used });
        }
        let expected = next_excess_blob_gas(&blobs, parent);
        if excess != expected {
            return Err(BlockError::ExcessBlobGas { expected, found: excess });
        }
    }
    Ok(())
}

/// Checks that a block's body is the one that its header stands for.
///
/// `size` is the length of the block's encoding, in bytes.
///
/// # Errors
/// The first part that does not match.
pub fn validate_body(schedule: &Schedule, block: &Block, size: usize) -> Result<(), BlockError> {
    let (header, body) = (&block.header, &block.body);
    if schedule.rules_of(header).has(Fork::Osaka) && size > MAX_BLOCK_SIZE {
        return Err(BlockError::Size { size, limit: MAX_BLOCK_SIZE });
    }
    let same = |part, expected, found| {
        if expected == found { Ok(()) } else { Err(BlockError::Body { part, expected, found }) }
    };
    same("transactions", header.transactions_root, body.transactions_root())?;
    same("ommers", header.ommers_hash, body.ommers_hash())?;
    match (header.withdrawals_root, body.withdrawals_root()) {
        (Some(expected), Some(found)) => same("withdrawals", expected, found)?,
        (None, None) => {}
        (expected, _) => {
            return Err(BlockError::Presence { field: "withdrawals", expected: expected.is_some() });
        }
    }
    if let Some(found) = header.blob_gas_used {
        let expected = body.blob_gas_used();
        if found != expected {
            return Err(BlockError::BlobGasUsed { expected, found });
        }
    }
    Ok(())
}

/// Checks what executing a block gave against its header, all but the state root.
///
/// # Errors
/// The first field that differs.
pub fn validate_execution(header: &Header, executed: &Executed) -> Result<(), BlockError> {
    let differs =
        |field, expected: String, found: String| Err(BlockError::Outcome { field, expected, found });
    if header.gas_used != executed.gas_used {
        return differs("gasUsed", header.gas_used.to_string(), executed.gas_used.to_string());
    }
    let receipts_root = executed.receipts_root();
    if header.receipts_root != receipts_root {
        return differs("receiptsRoot", header.receipts_root.to_string(), receipts_root.to_string());
    }
    if header.logs_bloom != executed.bloom {
        return differs("logsBloom", header.logs_bloom.to_string(), executed.bloom.to_string());
    }
    if let Some(expected) = header.requests_hash {
        let found = executed.requests.requests_hash();
        if expected != found {
            return differs("requestsHash", expected.to_string(), found.to_string());
        }
    }
    Ok(())
}

/// Checks the root of the state after a block against its header.
///
/// # Errors
/// The root differs.
pub fn validate_state_root(header: &Header, root: B256) -> Result<(), BlockError> {
    if header.state_root == root {
        return Ok(());
    }
    Err(BlockError::Outcome {
        field: "stateRoot",
        expected: header.state_root.to_string(),
        found: root.to_string(),
    })
}
