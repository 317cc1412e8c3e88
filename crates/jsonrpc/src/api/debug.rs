//! Blocks and transactions as they were encoded, and traces: `debug_…`.

use alloy_consensus::{ReceiptEnvelope, ReceiptWithBloom, TxReceipt as _};
use alloy_eips::Encodable2718 as _;
use alloy_primitives::{B256, Bloom};
use alloy_rpc_types_eth::TransactionRequest;
use alloy_rpc_types_trace::geth::{GethDebugTracingCallOptions, GethDebugTracingOptions};
use tally_chain::BlockId;
use tally_chain::blocks::FullBlock;
use tally_evm::call::{Limits, Place};
use tally_evm::trace::{Interrupted, Output, TraceError, Wanted, trace_block, trace_call};

use super::execute::request;
use super::{Answer, Api, Found, Methods, call_error, chain_error, internal, read_error};
use crate::error::{INVALID_PARAMS, RpcError, TIMED_OUT};
use crate::params::{BlockChoice, BlockName, Params};
use crate::server::CallContext;
use crate::write;

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
    // A trace waits for whoever reads it, as well as for the processor.
    methods.add_waiting("debug_traceTransaction", trace_transaction);
    methods.add_waiting("debug_traceBlockByNumber", |api, params, out, context| {
        let [block, options] = params.take::<2>()?;
        let (name, options) = (block.required::<BlockName>()?, options.deserialize()?.unwrap_or_default());
        trace_whole(api, BlockChoice::Name(name), &options, out, context)
    });
    methods.add_waiting("debug_traceBlockByHash", |api, params, out, context| {
        let [block, options] = params.take::<2>()?;
        let (hash, options) = (block.required::<B256>()?, options.deserialize()?.unwrap_or_default());
        trace_whole(api, BlockChoice::Hash(hash), &options, out, context)
    });
    methods.add_waiting("debug_traceCall", |api, params, out, context| {
        let [transaction, block, options] = params.take::<3>()?;
        let transaction: TransactionRequest = request(transaction)?;
        let choice = block.optional::<BlockChoice>()?.unwrap_or_default();
        let options: GethDebugTracingCallOptions = options.deserialize()?.unwrap_or_default();
        context.costly()?;
        let _tracing = context.trace()?;
        let found = api.find(choice)?;
        let (state, environment) = (options.state_overrides.as_ref(), options.block_overrides.as_ref());
        let mut answer = TraceAnswer::new(api, out, context);
        let traced = api.execute(&found, context, |place| {
            trace_call(place, &transaction, state, environment, &options.tracing_options, &mut answer)
        })?;
        traced.map_err(|error| answer.error(error))
    });
}

/// The answer that a trace is written into.
struct TraceAnswer<'a> {
    out: &'a mut Vec<u8>,
    /// Where the result begins in `out`, while it does not leave.
    start: usize,
    context: &'a CallContext<'a>,
    /// Bytes that the tracer holds beside the text.
    beside: usize,
    steps: u64,
    most_steps: u64,
    /// Why the trace was interrupted.
    reason: Option<RpcError>,
}

impl<'a> TraceAnswer<'a> {
    fn new(api: &Api, out: &'a mut Vec<u8>, context: &'a CallContext<'a>) -> Self {
        let start = out.len();
        let most_steps = api.settings.trace_steps;
        Self { out, start, context, beside: 0, steps: 0, most_steps, reason: None }
    }

    fn noted(&mut self, result: Result<(), RpcError>) -> Result<(), Interrupted> {
        result.map_err(|error| {
            self.reason.get_or_insert(error);
            Interrupted
        })
    }

    fn error(&mut self, error: TraceError) -> RpcError {
        match error {
            TraceError::Interrupted(Interrupted) => {
                self.reason.take().unwrap_or_else(|| RpcError::new(TIMED_OUT, "request timed out"))
            }
            TraceError::Call(error) => call_error(error),
            TraceError::Tracer(reason) => RpcError::new(INVALID_PARAMS, reason),
            other => internal(&other),
        }
    }

    /// Bytes of the result that are in memory.
    fn written(&self) -> usize {
        if self.context.is_leaving() { self.out.len() } else { self.out.len() - self.start }
    }
}

impl Output for TraceAnswer<'_> {
    fn text(&mut self) -> &mut Vec<u8> {
        self.out
    }

    fn pass_on(&mut self) -> Result<(), Interrupted> {
        let result = self.context.pass_on(self.out, self.start);
        let result = result.and_then(|()| self.context.check_held(self.written(), self.beside));
        self.noted(result)
    }

    fn grown(&mut self) -> Result<(), Interrupted> {
        let size = self.context.check_held(self.written(), self.beside);
        let result = size.and_then(|()| self.context.check());
        self.noted(result)
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Interrupted> {
        self.beside = bytes;
        let result = self.context.check_held(self.written(), bytes);
        self.noted(result)
    }

    fn stepped(&mut self, instructions: u64) -> Result<(), Interrupted> {
        self.steps = self.steps.saturating_add(instructions);
        let most = self.most_steps;
        let result = if self.steps > most {
            Err(RpcError::limit(format!("limit exceeded: a trace has at most {most} instructions")))
        } else {
            self.context.check()
        };
        self.noted(result)
    }
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

/// Traces the transactions of a block, or one of them.
fn trace(
    api: &Api,
    found: &Found,
    wanted: Wanted,
    options: &GethDebugTracingOptions,
    out: &mut Vec<u8>,
    context: &CallContext<'_>,
) -> Answer {
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
    let mut answer = TraceAnswer::new(api, out, context);
    trace_block(&place, found.header.hash, &block.transactions, wanted, options, &mut answer)
        .map_err(|error| answer.error(error))
}

fn trace_whole(
    api: &Api,
    choice: BlockChoice,
    options: &GethDebugTracingOptions,
    out: &mut Vec<u8>,
    context: &CallContext<'_>,
) -> Answer {
    context.costly()?;
    let _tracing = context.trace()?;
    let found = api.look_up(choice)?.ok_or_else(|| not_found(choice))?;
    trace(api, &found, Wanted::All, options, out, context)
}

fn trace_transaction(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [hash, options] = params.take::<2>()?;
    let (hash, options) = (hash.required::<B256>()?, options.deserialize()?.unwrap_or_default());
    context.costly()?;
    let _tracing = context.trace()?;
    let reader = api.chain().reader();
    let missing = || RpcError::server("transaction not found");
    let place = reader.place(hash).map_err(read_error)?.ok_or_else(missing)?;
    let header = reader.header(BlockId::Number(place.block)).map_err(read_error)?.ok_or_else(missing)?;
    let found = Found { reader, header };
    let index = usize::try_from(place.index).map_err(|_| missing())?;
    let start = out.len();
    trace(api, &found, Wanted::One(index), &options, out, context)?;
    // A block has a transaction for each place that is told of it.
    if out.len() == start && !context.is_leaving() { Err(missing()) } else { Ok(()) }
}
