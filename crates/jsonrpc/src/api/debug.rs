//! Blocks and transactions as they were encoded, and traces: `debug_…`.

use alloy_consensus::{ReceiptEnvelope, ReceiptWithBloom, TxReceipt as _};
use alloy_eips::Encodable2718 as _;
use alloy_primitives::{B256, Bloom};
use alloy_rpc_types_eth::TransactionRequest;
use alloy_rpc_types_trace::geth::{GethDebugTracingCallOptions, GethDebugTracingOptions, GethTrace};
use tally_chain::BlockId;
use tally_chain::blocks::FullBlock;
use tally_evm::call::{Limits, Place};
use tally_evm::trace::{TraceError, trace_block, trace_call};

use super::execute::request;
use super::{Answer, Api, Found, Methods, call_error, chain_error, internal, read_error};
use crate::error::{INVALID_PARAMS, RpcError};
use crate::params::{BlockChoice, BlockName, Params};
use crate::server::CallContext;
use crate::write::{self, Object};

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("debug_getRawHeader", |api, params, out, _| {
        let found = known(api, params)?;
        write::data(out, &alloy_rlp::encode(&found.header.header));
        Ok(())
    });
    methods.add("debug_getRawBlock", |api, params, out, _| {
        let found = known(api, params)?;
        write::data(out, &found.block()?.encode());
        Ok(())
    });
    methods.add("debug_getRawReceipts", |api, params, out, context| {
        let found = known(api, params)?;
        if !found.header.header.logs_bloom.is_zero() {
            context.costly()?;
        }
        let block = found.block()?;
        write::array(out, raw_receipts(&block), |out, receipt| write::data(out, &receipt));
        Ok(())
    });
    methods.add("debug_getRawTransaction", |api, params, out, _| {
        let [hash] = params.take::<1>()?;
        super::transactions::raw(api, hash.required()?, out)
    });
    methods.add("debug_getRawBlockAccessList", |api, params, out, _| {
        let [block] = params.take::<1>()?;
        super::blocks::no_access_list(api, block.required()?, out)
    });
    methods.add("debug_getBadBlocks", |_, params, out, _| {
        // Blocks that are not valid are not kept.
        params.none()?;
        out.extend_from_slice(b"[]");
        Ok(())
    });
    methods.add("debug_traceTransaction", trace_transaction);
    methods.add("debug_traceBlockByNumber", |api, params, out, context| {
        let [block, options] = params.take::<2>()?;
        let (name, options) = (block.required::<BlockName>()?, options.deserialize()?.unwrap_or_default());
        trace_whole(api, BlockChoice::Name(name), &options, out, context)
    });
    methods.add("debug_traceBlockByHash", |api, params, out, context| {
        let [block, options] = params.take::<2>()?;
        let (hash, options) = (block.required::<B256>()?, options.deserialize()?.unwrap_or_default());
        trace_whole(api, BlockChoice::Hash(hash), &options, out, context)
    });
    methods.add("debug_traceCall", |api, params, out, context| {
        let [transaction, block, options] = params.take::<3>()?;
        let transaction: TransactionRequest = request(transaction)?;
        let choice = block.optional::<BlockChoice>()?.unwrap_or_default();
        let options: GethDebugTracingCallOptions = options.deserialize()?.unwrap_or_default();
        context.costly()?;
        let found = api.find(choice)?;
        let (state, environment) = (options.state_overrides.as_ref(), options.block_overrides.as_ref());
        let trace = api
            .execute(&found, context, |place| {
                trace_call(place, &transaction, state, environment, &options.tracing_options)
            })?
            .map_err(trace_error)?;
        write_trace(out, &trace, context)
    });
}

fn not_found(choice: BlockChoice) -> RpcError {
    RpcError::server(match choice {
        BlockChoice::Name(BlockName::Number(number)) => format!("block #{number} not found"),
        BlockChoice::Name(_) => "block not found".to_owned(),
        BlockChoice::Hash(hash) => format!("block {hash} not found"),
    })
}

fn known(api: &Api, params: Params<'_>) -> Result<Found, RpcError> {
    let [block] = params.take::<1>()?;
    let choice = block.required::<BlockChoice>()?;
    api.look_up(choice)?.ok_or_else(|| not_found(choice))
}

/// The receipts of a block as they are hashed into its header.
fn raw_receipts(block: &FullBlock) -> Vec<Vec<u8>> {
    block
        .transactions
        .iter()
        .zip(&block.receipts)
        .map(|(signed, kept)| {
            let receipt = alloy_consensus::Receipt {
                status: kept.outcome,
                cumulative_gas_used: kept.cumulative_gas_used,
                logs: kept.logs.clone(),
            };
            let logs_bloom: Bloom = receipt.bloom();
            ReceiptEnvelope::from_typed(signed.tx_type(), ReceiptWithBloom { receipt, logs_bloom })
                .encoded_2718()
        })
        .collect()
}

fn trace_error(error: TraceError) -> RpcError {
    match error {
        TraceError::Call(error) => call_error(error),
        TraceError::Tracer(reason) => RpcError::new(INVALID_PARAMS, reason),
        other => internal(&other),
    }
}

/// Traces the transactions of a block, or one of them.
fn trace(
    api: &Api,
    found: &Found,
    wanted: Option<usize>,
    options: &GethDebugTracingOptions,
    context: &CallContext<'_>,
) -> Result<Vec<(B256, GethTrace)>, RpcError> {
    let Some(parent) = found.number().checked_sub(1) else {
        return Err(RpcError::server("genesis is not traceable"));
    };
    let block = found.block()?;
    let env = api.chain().environment(&found.header.header);
    let hashes = found.reader.hashes();
    let place = Place {
        schedule: api.chain().schedule(),
        env: &env,
        state: found.reader.state(parent).map_err(chain_error)?,
        hashes: &*hashes,
        codes: Some(api.chain().codes()),
        limits: Limits { gas: 0, stop: Some(context.stop()) },
    };
    trace_block(&place, found.header.hash, &block.transactions, wanted, options).map_err(trace_error)
}

fn write_trace(out: &mut Vec<u8>, trace: &GethTrace, context: &CallContext<'_>) -> Answer {
    context.check()?;
    let start = out.len();
    serde_json::to_writer(&mut *out, trace).map_err(|error| internal(&error))?;
    context.check_size(out.len() - start)
}

fn trace_whole(
    api: &Api,
    choice: BlockChoice,
    options: &GethDebugTracingOptions,
    out: &mut Vec<u8>,
    context: &CallContext<'_>,
) -> Answer {
    context.costly()?;
    let found = api.look_up(choice)?.ok_or_else(|| not_found(choice))?;
    let start = out.len();
    out.push(b'[');
    for (index, (hash, result)) in trace(api, &found, None, options, context)?.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let mut object = Object::open(out);
        object.data(out, "txHash", hash);
        object.member(out, "result");
        write_trace(out, result, context)?;
        object.close(out);
        context.check_size(out.len() - start)?;
    }
    out.push(b']');
    Ok(())
}

fn trace_transaction(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [hash, options] = params.take::<2>()?;
    let (hash, options) = (hash.required::<B256>()?, options.deserialize()?.unwrap_or_default());
    context.costly()?;
    let reader = api.chain().reader();
    let missing = || RpcError::server("transaction not found");
    let place = reader.place(hash).map_err(read_error)?.ok_or_else(missing)?;
    let header = reader.header(BlockId::Number(place.block)).map_err(read_error)?.ok_or_else(missing)?;
    let found = Found { reader, header };
    let index = usize::try_from(place.index).map_err(|_| missing())?;
    let traces = trace(api, &found, Some(index), &options, context)?;
    let (_, result) = traces.first().ok_or_else(missing)?;
    write_trace(out, result, context)
}
