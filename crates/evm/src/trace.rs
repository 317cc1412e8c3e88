//! Traces of transactions and calls, in the forms of geth's `debug_trace…` methods, written while they are
//! made: what one holds does not grow with the gas that its code uses.

mod output;
mod steps;
#[cfg(test)]
pub(crate) mod tests;
mod tracer;

use alloy_primitives::B256;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use alloy_rpc_types_trace::geth::GethDebugTracingOptions;
use revm::context::TxEnv;
use revm::state::EvmState;
use revm::{DatabaseCommit, InspectEvm};
use revm_inspectors::tracing::{DebugInspectorError, TransactionContext};
use tally_state::Read;

use crate::block::BlockError;
use crate::call::{CallError, CallParts, Place, Precompiled, call_machine, error_of};
use crate::execute::{ReadError, Refusal, replay, transaction_env};
use crate::transaction::Recovered;

pub use output::{Interrupted, Output};
use tracer::Tracer;

/// Why there is no trace, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The tracer is not known, or its options are wrong.
    #[error("{0}")]
    Tracer(String),
    /// The output takes no more.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
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

/// Which transactions of a block are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All: an array of objects, each with the members `txHash` and `result`.
    All,
    /// That of this index.
    One(usize),
}

/// Traces transactions of a mined block, and writes JSON text to `output`.
///
/// `place` is the block itself over the state after its parent; `block_hash` and the transactions are the
/// block's. Nothing is written for an index that no transaction has.
///
/// # Errors
/// A tracer that is not known, a stop by the host, an output that takes no more, and a block that cannot be
/// executed as it stands. What was written until then is JSON, though not the whole trace; where nothing had
/// been begun, nothing was written.
pub fn trace_block<R: Read>(
    place: &Place<'_, R>,
    block_hash: B256,
    transactions: &[Recovered],
    wanted: Wanted,
    options: &GethDebugTracingOptions,
    output: &mut dyn Output,
) -> Result<(), TraceError> {
    let mut tracer = Tracer::new(options, output)?;
    if wanted == Wanted::All {
        tracer.pen.add("[");
    }
    let result = trace_transactions(place, block_hash, transactions, wanted, &mut tracer);
    if wanted == Wanted::All {
        tracer.pen.add("]");
    }
    result
}

fn trace_transactions<R: Read>(
    place: &Place<'_, R>,
    block_hash: B256,
    transactions: &[Recovered],
    wanted: Wanted,
    tracer: &mut Tracer<'_>,
) -> Result<(), TraceError> {
    let mut cache = replay(place.schedule, place.env, &place.state, place.hashes, place.codes)?
        .with_stop(place.limits.stop);
    let rules = place.schedule.rules(place.env.number, place.env.timestamp, place.env.difficulty.is_zero());
    let block = place.env.block(&rules);
    for (index, transaction) in transactions.iter().enumerate() {
        if matches!(wanted, Wanted::One(wanted) if index > wanted) {
            break;
        }
        transaction.check_form(&rules).map_err(|error| TraceError::Replay { index, source: error.into() })?;
        let environment = transaction_env(transaction);
        let failed = |error, environment: &TxEnv| match error_of(error, environment, place.env) {
            CallError::Refused { refusal, .. } => TraceError::Replay { index, source: refusal },
            other => TraceError::Call(other),
        };
        let precompiled = Precompiled::new(rules.spec);
        let configuration = rules.configuration();
        if matches!(wanted, Wanted::One(wanted) if index != wanted) {
            let mut machine = call_machine(&rules, configuration, block.clone(), &mut cache, precompiled, ());
            let result = revm::ExecuteEvm::transact(&mut machine, environment.clone());
            let state = result.map_err(|error| failed(error, &environment))?.state;
            cache.commit(state);
            continue;
        }
        let hash = transaction.hash();
        if wanted == Wanted::All {
            let comma = if index > 0 { "," } else { "" };
            tracer.pen.format(format_args!("{comma}{{\"txHash\":\"{hash}\",\"result\":"));
        }
        let traced = (|| -> Result<EvmState, TraceError> {
            tracer.begin()?;
            let mut machine =
                call_machine(&rules, configuration, block.clone(), &mut cache, precompiled, &mut *tracer);
            let result = machine.inspect_tx(environment.clone());
            let result = checked(result, tracer, |error| failed(error, &environment))?;
            let context = TransactionContext {
                block_hash: Some(block_hash),
                tx_hash: Some(hash),
                tx_index: Some(index),
            };
            tracer.end(Some(context), &environment, &block, rules.spec, &result, &mut cache)?;
            Ok(result.state)
        })();
        if traced.is_err() {
            tracer.close();
        }
        if wanted == Wanted::All {
            if !tracer.begun {
                tracer.pen.add("null");
            }
            tracer.pen.add("}");
        }
        cache.commit(traced?);
    }
    Ok(())
}

/// What came of an execution: that of an interrupted one is nobody's.
fn checked<T, E>(
    result: Result<T, E>,
    tracer: &Tracer<'_>,
    failed: impl FnOnce(E) -> TraceError,
) -> Result<T, TraceError> {
    if tracer.pen.is_interrupted() {
        return Err(Interrupted.into());
    }
    result.map_err(failed)
}

/// Traces a call, over a state and in a block that may be changed for it, and writes JSON text to `output`.
///
/// # Errors
/// A tracer that is not known, an output that takes no more, and as [`call`](crate::call::call). What was
/// written until then is JSON, or nothing.
pub fn trace_call<R: Read>(
    place: &Place<'_, R>,
    request: &TransactionRequest,
    state_overrides: Option<&StateOverride>,
    block_overrides: Option<&BlockOverrides>,
    options: &GethDebugTracingOptions,
    output: &mut dyn Output,
) -> Result<(), TraceError> {
    let mut tracer = Tracer::new(options, output)?;
    let mut parts = CallParts::new(place, state_overrides, block_overrides)?;
    let transaction = parts.transaction(request)?;
    let traced = (|| {
        tracer.begin()?;
        let result = parts.machine(&transaction, &mut tracer).inspect_tx(transaction.clone());
        let result = checked(result, &tracer, |error| error_of(error, &transaction, &parts.env).into())?;
        let block = parts.block(&transaction);
        let spec = parts.rules.spec;
        tracer.end(None, &transaction, &block, spec, &result, &mut parts.cache)
    })();
    if traced.is_err() {
        tracer.close();
    }
    traced
}
