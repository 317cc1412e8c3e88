//! Traces of transactions and calls, in the forms of geth's `debug_trace…` methods.

use alloy_primitives::B256;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use alloy_rpc_types_trace::geth::{GethDebugTracingOptions, GethTrace};
use revm::context::TxEnv;
use revm::{DatabaseCommit, InspectEvm};
use revm_inspectors::tracing::{DebugInspector, DebugInspectorError, TransactionContext};
use tally_state::Read;

use crate::block::BlockError;
use crate::call::{CallError, CallParts, Place, Precompiled, call_machine, error_of};
use crate::execute::{ReadError, Refusal, replay, transaction_env};
use crate::transaction::Recovered;

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The tracer is not known, or its options are wrong.
    #[error("{0}")]
    Tracer(String),
    /// The call cannot be made.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A transaction of the block cannot be executed again.
    #[error("transaction {index} of the block cannot be executed again")]
    Replay {
        /// Which.
        index: usize,
        /// Why.
        source: Refusal,
    },
    /// What comes before the block's transactions failed.
    #[error("the block cannot be executed again")]
    Block(#[from] BlockError),
}

impl From<DebugInspectorError<ReadError>> for TraceError {
    fn from(error: DebugInspectorError<ReadError>) -> Self {
        match error {
            DebugInspectorError::Database(error) => Self::Call(CallError::State(error.0)),
            other => Self::Tracer(other.to_string()),
        }
    }
}

/// The tracer for these options.
fn tracer(options: &GethDebugTracingOptions) -> Result<DebugInspector, TraceError> {
    DebugInspector::new(options.clone()).map_err(|error| TraceError::Tracer(error.to_string()))
}

/// Traces transactions of a mined block: those that `wanted` names by their index, all when it is
/// `None`.
///
/// `place` is the block itself over the state after its parent; `block_hash` and the transactions are
/// the block's. The results come in order of the transactions.
///
/// # Errors
/// A tracer that is not known, a stop by the host, and a block that cannot be executed as it stands.
pub fn trace_block<R: Read>(
    place: &Place<'_, R>,
    block_hash: B256,
    transactions: &[Recovered],
    wanted: Option<usize>,
    options: &GethDebugTracingOptions,
) -> Result<Vec<(B256, GethTrace)>, TraceError> {
    let mut tracer = tracer(options)?;
    let mut cache = replay(place.schedule, place.env, &place.state, place.hashes, place.codes)?
        .with_stop(place.limits.stop);
    let rules = place.schedule.rules(place.env.number, place.env.timestamp, place.env.difficulty.is_zero());
    let block = place.env.block(&rules);
    let mut traces = Vec::new();
    for (index, transaction) in transactions.iter().enumerate() {
        if wanted.is_some_and(|wanted| index > wanted) {
            break;
        }
        transaction.check_form(&rules).map_err(|error| TraceError::Replay { index, source: error.into() })?;
        let environment = transaction_env(transaction);
        let traced = wanted.is_none_or(|wanted| index == wanted);
        let failed = |error, environment: &TxEnv| match error_of(error, environment, place.env) {
            CallError::Refused { refusal, .. } => TraceError::Replay { index, source: refusal },
            other => TraceError::Call(other),
        };
        let precompiled = Precompiled::new(rules.spec);
        let configuration = rules.configuration();
        if !traced {
            let mut machine = call_machine(&rules, configuration, block.clone(), &mut cache, precompiled, ());
            let result = revm::ExecuteEvm::transact(&mut machine, environment.clone());
            let state = result.map_err(|error| failed(error, &environment))?.state;
            cache.commit(state);
            continue;
        }
        let mut machine =
            call_machine(&rules, configuration, block.clone(), &mut cache, precompiled, &mut tracer);
        let result = machine.inspect_tx(environment.clone()).map_err(|error| failed(error, &environment))?;
        let context = TransactionContext {
            block_hash: Some(block_hash),
            tx_hash: Some(transaction.hash()),
            tx_index: Some(index),
        };
        let trace = tracer.get_result(Some(context), &environment, &block, &result, &mut cache)?;
        traces.push((transaction.hash(), trace));
        cache.commit(result.state);
        tracer.fuse().map_err(|error| TraceError::Tracer(error.to_string()))?;
    }
    Ok(traces)
}

/// Traces a call, over a state and in a block that may be changed for it.
///
/// # Errors
/// A tracer that is not known, and as [`call`](crate::call::call).
pub fn trace_call<R: Read>(
    place: &Place<'_, R>,
    request: &TransactionRequest,
    state_overrides: Option<&StateOverride>,
    block_overrides: Option<&BlockOverrides>,
    options: &GethDebugTracingOptions,
) -> Result<GethTrace, TraceError> {
    let mut tracer = tracer(options)?;
    let mut parts = CallParts::new(place, state_overrides, block_overrides)?;
    let transaction = parts.transaction(request)?;
    let result = parts.machine(&transaction, &mut tracer).inspect_tx(transaction.clone());
    let result = result.map_err(|error| error_of(error, &transaction, &parts.env))?;
    let block = parts.block(&transaction);
    Ok(tracer.get_result(None, &transaction, &block, &result, &mut parts.cache)?)
}
