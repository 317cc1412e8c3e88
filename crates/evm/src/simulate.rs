//! Simulated blocks on top of a real one: `eth_simulateV1`.

mod blocks;
#[cfg(test)]
mod tests;
mod transaction;
mod transfers;

use alloy_consensus::{Header, TxType};
use alloy_primitives::{Address, B256, Log};
use alloy_rpc_types_eth::TransactionRequest;
use alloy_rpc_types_eth::simulate::SimulatePayload;
use tally_state::Read;

use crate::call::{CallError, Called, Place};
use crate::execute::{Cache, IntermediateRoot};
use crate::schedule::{Fork, Rules};

pub use transaction::SimulatedTransaction;

/// The most blocks of a simulation, those between numbers that a request leaves out included.
pub const MAX_BLOCKS: u64 = 256;

/// A block that was made up.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Complete, with its state root.
    pub header: Header,
    /// Of the header.
    pub hash: B256,
    /// Bytes of the block's encoding.
    pub size: usize,
    /// Unsigned: their signatures are zero.
    pub transactions: Vec<SimulatedTransaction>,
    /// What came of each transaction.
    pub calls: Vec<SimulatedCall>,
}

/// What came of a call in a made-up block.
#[derive(Clone, Debug)]
pub struct SimulatedCall {
    /// Result, gas and failure.
    pub called: Called,
    /// What it logged, in order; transfers of ether among them when they were asked for.
    pub logs: Vec<Log>,
}

impl SimulatedCall {
    /// What `eth_simulateV1` gives as `returnData`: nothing when the call failed.
    pub fn return_data(&self) -> &[u8] {
        if self.called.failure.is_some() { &[] } else { &self.called.output }
    }
}

/// Executes made-up blocks on top of `base`, whose hash is `base_hash`.
///
/// `place` has the state after `base`; its environment is not used. `root` gives the root of that state
/// with the changes it is given.
///
/// # Errors
/// Blocks that do not follow each other, overrides that cannot be made, and the first call that cannot
/// be made.
pub fn simulate<R: Read>(
    place: &Place<'_, R>,
    base: &Header,
    base_hash: B256,
    payload: &SimulatePayload<TransactionRequest>,
    root: &mut IntermediateRoot<'_>,
) -> Result<Vec<Simulated>, CallError> {
    let blocks = blocks::in_order(base, &payload.block_state_calls)?;
    let mut cache = Cache::new(&place.state, place.hashes, place.codes).with_stop(place.limits.stop);
    cache.set_block_hashes([(base.number, base_hash)]);
    let gas = if place.limits.gas == 0 { u64::MAX / 2 } else { place.limits.gas };
    let mut simulation = blocks::Simulation {
        schedule: place.schedule,
        cache,
        validation: payload.validation,
        transfers: payload.trace_transfers,
        gas,
    };
    let mut simulated: Vec<Simulated> = Vec::with_capacity(blocks.len());
    for block in &blocks {
        let (parent, parent_hash) =
            simulated.last().map_or((base, base_hash), |block| (&block.header, block.hash));
        let next = simulation.block(block, parent, parent_hash, root)?;
        simulated.push(next);
    }
    Ok(simulated)
}

/// The type that a transaction gets in a made-up block: before London there is none with a fee market.
fn kind(request: &TransactionRequest, rules: &Rules) -> TxType {
    if request.gas_price.is_some() || !rules.has(Fork::London) {
        TxType::Legacy
    } else if request.authorization_list.is_some() {
        TxType::Eip7702
    } else if request.blob_versioned_hashes.is_some() {
        TxType::Eip4844
    } else {
        TxType::Eip1559
    }
}

/// Where transfers of ether seem to be logged.
const TRANSFER_ADDRESS: Address = Address::repeat_byte(0xee);
