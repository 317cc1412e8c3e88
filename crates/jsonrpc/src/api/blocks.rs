//! Blocks: `eth_getBlockBy…`, counts, receipts of a block, ommers.

use alloy_primitives::{Address, B256};
use tally_chain::BlockId;
use tally_chain::blocks::FullBlock;
use tally_evm::Transaction;
use tally_evm::block::blob_price;

use super::{Answer, Api, Found, Methods, read_error};
use crate::error::{RESOURCE_NOT_FOUND, RpcError};
use crate::params::{BlockChoice, BlockName, Params};
use crate::server::CallContext;
use crate::write::{self, Outcome, Placed, Transactions};

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("eth_getBlockByNumber", |api, params, out, _| {
        let [block, full] = params.take::<2>()?;
        let (name, full) = (block.required::<BlockName>()?, full.required::<bool>()?);
        write_block(api, BlockChoice::Name(name), full, out)
    });
    methods.add("eth_getBlockByHash", |api, params, out, _| {
        let [block, full] = params.take::<2>()?;
        let (hash, full) = (block.required::<B256>()?, full.required::<bool>()?);
        write_block(api, BlockChoice::Hash(hash), full, out)
    });
    methods.add("eth_getBlockTransactionCountByNumber", |api, params, out, _| {
        let [block] = params.take::<1>()?;
        count(api, BlockChoice::Name(block.required()?), out)
    });
    methods.add("eth_getBlockTransactionCountByHash", |api, params, out, _| {
        let [block] = params.take::<1>()?;
        count(api, BlockChoice::Hash(block.required()?), out)
    });
    methods.add("eth_getUncleCountByBlockNumber", |api, params, out, _| {
        let [block] = params.take::<1>()?;
        ommers(api, BlockChoice::Name(block.required()?), None, out)
    });
    methods.add("eth_getUncleCountByBlockHash", |api, params, out, _| {
        let [block] = params.take::<1>()?;
        ommers(api, BlockChoice::Hash(block.required()?), None, out)
    });
    methods.add("eth_getUncleByBlockNumberAndIndex", |api, params, out, _| {
        let [block, index] = params.take::<2>()?;
        ommers(api, BlockChoice::Name(block.required()?), Some(index.required()?), out)
    });
    methods.add("eth_getUncleByBlockHashAndIndex", |api, params, out, _| {
        let [block, index] = params.take::<2>()?;
        ommers(api, BlockChoice::Hash(block.required()?), Some(index.required()?), out)
    });
    methods.add("eth_getBlockReceipts", receipts);
    methods.add("eth_getBlockAccessList", |api, params, out, _| {
        let [block] = params.take::<1>()?;
        no_access_list(api, block.required()?, out)
    });
    methods.add("eth_getHeaderByNumber", |api, params, out, _| {
        let [block] = params.take::<1>()?;
        header(api, BlockChoice::Name(block.required()?), out)
    });
    methods.add("eth_getHeaderByHash", |api, params, out, _| {
        let [block] = params.take::<1>()?;
        header(api, BlockChoice::Hash(block.required()?), out)
    });
}

pub(super) fn null(out: &mut Vec<u8>) -> Answer {
    out.extend_from_slice(b"null");
    Ok(())
}

/// Block access lists (EIP-7928) are of blocks that are newer than any fork here.
pub(super) fn no_access_list(api: &Api, choice: BlockChoice, out: &mut Vec<u8>) -> Answer {
    match api.look_up(choice)? {
        None => null(out),
        Some(_) => Err(RpcError::new(RESOURCE_NOT_FOUND, "Resource not found: the block has no access list")),
    }
}

impl Found {
    pub(super) fn block(&self) -> Result<std::sync::Arc<FullBlock>, RpcError> {
        let block = self.reader.block(BlockId::Number(self.number())).map_err(read_error)?;
        block.ok_or_else(|| RpcError::internal(format!("Internal error: block {} is missing", self.number())))
    }
}

fn header(api: &Api, choice: BlockChoice, out: &mut Vec<u8>) -> Answer {
    match api.look_up(choice)? {
        None => null(out),
        Some(found) => {
            write::header(out, found.header.hash, &found.header.header);
            Ok(())
        }
    }
}

fn write_block(api: &Api, choice: BlockChoice, full: bool, out: &mut Vec<u8>) -> Answer {
    let Some(found) = api.look_up(choice)? else { return null(out) };
    let sealed = &found.header;
    if full {
        let block = found.block()?;
        let list: Vec<(Address, &Transaction)> =
            block.transactions.iter().map(|signed| (signed.sender(), &**signed.transaction())).collect();
        let ommers: Vec<B256> = block.ommers.iter().map(alloy_consensus::Header::hash_slow).collect();
        let transactions = Transactions::Full(&list);
        let withdrawals = block.withdrawals.as_deref();
        write::block(out, sealed.hash, &sealed.header, sealed.size, transactions, &ommers, withdrawals);
        return Ok(());
    }
    let hashes = found.reader.transaction_hashes(found.number()).map_err(read_error)?;
    let has_rest = sealed.header.withdrawals_root.is_some()
        || sealed.header.ommers_hash != alloy_consensus::EMPTY_OMMER_ROOT_HASH;
    let (ommers, withdrawals) =
        if has_rest { found.reader.rest(found.number()).map_err(read_error)? } else { Default::default() };
    let ommers: Vec<B256> = ommers.iter().map(alloy_consensus::Header::hash_slow).collect();
    let transactions = Transactions::Hashes(&hashes);
    write::block(
        out,
        sealed.hash,
        &sealed.header,
        sealed.size,
        transactions,
        &ommers,
        withdrawals.as_deref(),
    );
    Ok(())
}

fn count(api: &Api, choice: BlockChoice, out: &mut Vec<u8>) -> Answer {
    let Some(found) = api.look_up(choice)? else { return null(out) };
    let hashes = found.reader.transaction_hashes(found.number()).map_err(read_error)?;
    write::quantity(out, (hashes.len() / 32) as u64);
    Ok(())
}

fn ommers(api: &Api, choice: BlockChoice, index: Option<u64>, out: &mut Vec<u8>) -> Answer {
    let Some(found) = api.look_up(choice)? else { return null(out) };
    let (ommers, _) = found.reader.rest(found.number()).map_err(read_error)?;
    let Some(index) = index else {
        write::quantity(out, ommers.len() as u64);
        return Ok(());
    };
    let Some(ommer) = usize::try_from(index).ok().and_then(|index| ommers.get(index)) else {
        return null(out);
    };
    let size = alloy_rlp::Encodable::length(ommer) as u64;
    write::block(out, ommer.hash_slow(), ommer, size, Transactions::Hashes(&[]), &[], None);
    Ok(())
}

/// Where the transactions of a block are; set `index` for one of them.
pub(super) fn placed(sealed: &tally_chain::blocks::SealedHeader, index: u64) -> Placed {
    Placed {
        hash: sealed.hash,
        number: sealed.header.number,
        timestamp: sealed.header.timestamp,
        index,
        base_fee: sealed.header.base_fee_per_gas,
    }
}

/// What a unit of blob gas costs in a block.
pub(super) fn blob_gas_price(api: &Api, header: &alloy_consensus::Header) -> Option<u128> {
    let blobs = api.chain().schedule().rules_of(header).blobs?;
    header.excess_blob_gas.map(|excess| blob_price(&blobs, excess))
}

fn receipts(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [block] = params.take::<1>()?;
    let choice = block.required::<BlockChoice>()?;
    let Some(found) = api.look_up(choice)? else { return null(out) };
    if !found.header.header.logs_bloom.is_zero() {
        context.costly()?;
    }
    let block = found.block()?;
    let blob_gas_price = blob_gas_price(api, &found.header.header);
    write::array(
        out,
        (0..).zip(block.transactions.iter().zip(&block.receipts)),
        |out, (index, (signed, receipt))| {
            let outcome = Outcome {
                status: &receipt.outcome,
                cumulative_gas_used: receipt.cumulative_gas_used,
                gas_used: receipt.gas_used,
                first_log: receipt.first_log,
                logs: &receipt.logs,
                blob_gas_price,
            };
            write::receipt(
                out,
                signed.transaction(),
                signed.sender(),
                &placed(&found.header, index),
                &outcome,
            );
        },
    );
    Ok(())
}
