//! Transactions and their receipts: `eth_getTransaction…`.

use alloy_primitives::B256;
use tally_chain::BlockId;
use tally_chain::blocks::Place;

use super::blocks::{blob_gas_price, null, placed};
use super::{Answer, Api, Methods, read_error};
use crate::params::{BlockChoice, Params};
use crate::server::CallContext;
use crate::write::{self, Outcome};

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("eth_getTransactionByHash", by_hash);
    methods.add("eth_getTransactionReceipt", receipt);
    methods.add("eth_getTransactionByBlockHashAndIndex", |api, params, out, _| {
        let [block, index] = params.take::<2>()?;
        by_index(api, BlockChoice::Hash(block.required()?), index.required()?, out, false)
    });
    methods.add("eth_getTransactionByBlockNumberAndIndex", |api, params, out, _| {
        let [block, index] = params.take::<2>()?;
        by_index(api, BlockChoice::Name(block.required()?), index.required()?, out, false)
    });
    methods.add("eth_getRawTransactionByHash", |api, params, out, _| {
        let [hash] = params.take::<1>()?;
        raw(api, hash.required()?, out)
    });
    methods.add("eth_getRawTransactionByBlockHashAndIndex", |api, params, out, _| {
        let [block, index] = params.take::<2>()?;
        by_index(api, BlockChoice::Hash(block.required()?), index.required()?, out, true)
    });
    methods.add("eth_getRawTransactionByBlockNumberAndIndex", |api, params, out, _| {
        let [block, index] = params.take::<2>()?;
        by_index(api, BlockChoice::Name(block.required()?), index.required()?, out, true)
    });
}

fn by_hash(api: &Api, params: Params<'_>, out: &mut Vec<u8>, _: &CallContext<'_>) -> Answer {
    let [hash] = params.take::<1>()?;
    let hash = hash.required::<B256>()?;
    let reader = api.chain().reader();
    if let Some(place) = reader.place(hash).map_err(read_error)?
        && let Some(header) = reader.header(BlockId::Number(place.block)).map_err(read_error)?
        && let Some(signed) = reader.transaction(place).map_err(read_error)?
    {
        let placed = placed(&header, u64::from(place.index));
        write::transaction(out, signed.transaction(), signed.sender(), Some(&placed));
        return Ok(());
    }
    let waiting = api.node.pool().get(&hash).cloned();
    match waiting {
        Some(pooled) => {
            let signed = pooled.transaction();
            write::transaction(out, signed.transaction(), signed.sender(), None);
            Ok(())
        }
        None => null(out),
    }
}

fn receipt(api: &Api, params: Params<'_>, out: &mut Vec<u8>, _: &CallContext<'_>) -> Answer {
    let [hash] = params.take::<1>()?;
    let hash = hash.required::<B256>()?;
    let reader = api.chain().reader();
    let Some(place) = reader.place(hash).map_err(read_error)? else { return null(out) };
    let header = reader.header(BlockId::Number(place.block)).map_err(read_error)?;
    let signed = reader.transaction(place).map_err(read_error)?;
    let receipt = reader.receipt(place).map_err(read_error)?;
    let (Some(header), Some(signed), Some(receipt)) = (header, signed, receipt) else { return null(out) };
    let outcome = Outcome {
        status: &receipt.outcome,
        cumulative_gas_used: receipt.cumulative_gas_used,
        gas_used: receipt.gas_used,
        first_log: receipt.first_log,
        logs: &receipt.logs,
        blob_gas_price: blob_gas_price(api, &header.header),
    };
    let placed = placed(&header, u64::from(place.index));
    write::receipt(out, signed.transaction(), signed.sender(), &placed, &outcome);
    Ok(())
}

fn by_index(api: &Api, choice: BlockChoice, index: u64, out: &mut Vec<u8>, raw: bool) -> Answer {
    let (Some(found), Ok(index)) = (api.look_up(choice)?, u32::try_from(index)) else { return null(out) };
    let place = Place { block: found.number(), index };
    let Some(signed) = found.reader.transaction(place).map_err(read_error)? else { return null(out) };
    if raw {
        write::data(out, &tally_evm::transaction::encode(signed.transaction()));
    } else {
        let placed = placed(&found.header, u64::from(index));
        write::transaction(out, signed.transaction(), signed.sender(), Some(&placed));
    }
    Ok(())
}

/// A transaction as it was signed, of the chain or of the pool; empty when there is none.
pub(super) fn raw(api: &Api, hash: B256, out: &mut Vec<u8>) -> Answer {
    let reader = api.chain().reader();
    let signed = match reader.place(hash).map_err(read_error)? {
        Some(place) => reader.transaction(place).map_err(read_error)?,
        None => api.node.pool().get(&hash).map(|pooled| pooled.transaction().clone()),
    };
    match signed {
        Some(signed) => write::data(out, &tally_evm::transaction::encode(signed.transaction())),
        None => write::data(out, &[]),
    }
    Ok(())
}
