//! Running one code, outside of any block.

use std::io::Write;

use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address, keccak256};
use revm::bytecode::Bytecode;
use revm::context::{CfgEnv, TxEnv};
use revm::context_interface::cfg::GasParams;
use revm::context_interface::result::ExecutionResult;
use revm::state::AccountInfo;
use revm::{DatabaseCommit, ExecuteEvm, InspectEvm};
use serde_json::json;

use super::opcode_trace::message;
use super::{Memory, OpcodeTrace, ToolError};
use crate::execute::{Cache, Env, Refusal, machine};
use crate::genesis::Genesis;
use crate::schedule::{Rules, Schedule};

/// What to run, and in which surroundings.
#[derive(Clone, Debug)]
pub struct Run {
    /// The code, put at `receiver`; empty to run what `prestate` has there.
    pub code: Bytes,
    /// Run the code as init code of a new contract instead.
    pub create: bool,
    /// Call data.
    pub input: Bytes,
    /// Gas for the code itself: what a transaction would cost beside it is not taken from it.
    pub gas: u64,
    /// In wei.
    pub value: U256,
    /// In wei per gas, for the GASPRICE instruction; nobody pays it.
    pub price: u128,
    /// Who calls.
    pub sender: Address,
    /// Who is called.
    pub receiver: Address,
    /// A fork or test network.
    pub fork: String,
    /// Accounts, and the surrounding block.
    pub prestate: Option<Genesis>,
    /// Write a trace (EIP-3155).
    pub trace: bool,
    /// With the memory in the trace.
    pub trace_memory: bool,
}

impl Default for Run {
    /// As `evm run` of go-ethereum.
    fn default() -> Self {
        Self {
            code: Bytes::new(),
            create: false,
            input: Bytes::new(),
            gas: 10_000_000_000,
            value: U256::ZERO,
            price: 0,
            sender: address!("000000000000000000000000000073656e646572"),
            receiver: address!("0000000000000000000000007265636569766572"),
            fork: "Osaka".into(),
            prestate: None,
            trace: false,
            trace_memory: false,
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// Returned data, or the created contract's code.
    pub output: Bytes,
    /// Gas that the code used, before refunds.
    pub gas_used: u64,
    /// Gas to be refunded.
    pub refund: u64,
    /// Why it failed, as go-ethereum names it.
    pub error: Option<String>,
    /// Root of the state afterwards.
    pub state_root: B256,
}

/// Runs a code; a trace goes to `trace`, one line for each instruction and one for the result.
///
/// # Errors
/// An unknown fork, a run that cannot begin, or a trace that cannot be written.
pub fn run(run: &Run, trace: &mut dyn Write) -> Result<RunOutcome, ToolError> {
    let rules = Schedule::named(&run.fork)?.rules(1, u64::MAX, true);
    let memory = run.prestate.as_ref().map(|genesis| Memory::of(&genesis.alloc)).unwrap_or_default();
    let env = environment(run);
    let hashes = |number: u64| keccak256(number.to_string());
    let mut cache = Cache::new(&memory, &hashes, None);
    prepare(run, &mut cache).map_err(|error| ToolError::Refused(error.into()))?;
    let (transaction, intrinsic) = transaction(run, &rules);
    let configuration = configuration(&rules);
    let block = env.block(&rules);
    let refused = |error| ToolError::Refused(Refusal::from(error));
    let finished = |result: &ExecutionResult, changes: &tally_state::Changes| {
        let mut after = memory.clone();
        after.apply(changes);
        outcome(result, intrinsic, after.root())
    };
    if !run.trace {
        let mut machine = machine(&rules, configuration, block, cache, ());
        let result = machine.transact(transaction).map_err(refused)?;
        let cache = machine.ctx.journaled_state.database_mut();
        cache.commit(result.state);
        return Ok(finished(&result.result, &cache.changes()));
    }
    let inspector = OpcodeTrace::new(std::io::BufWriter::new(trace), run.trace_memory);
    let mut machine = machine(&rules, configuration, block, cache, inspector);
    let result = machine.inspect_tx(transaction).map_err(refused)?;
    let cache = machine.ctx.journaled_state.database_mut();
    cache.commit(result.state);
    let outcome = finished(&result.result, &cache.changes());
    let mut summary = json!({ "output": outcome.output, "gasUsed": format!("{:#x}", outcome.gas_used) });
    if let Some(error) = &outcome.error {
        summary["error"] = json!(error);
    }
    machine.inspector.finish(&summary).map_err(ToolError::Output)?;
    Ok(outcome)
}

fn environment(run: &Run) -> Env {
    let Some(genesis) = &run.prestate else {
        return Env { gas_limit: u64::MAX, ..Env::default() };
    };
    Env {
        number: genesis.number,
        timestamp: genesis.timestamp,
        beneficiary: genesis.coinbase,
        gas_limit: genesis.gas_limit,
        base_fee: genesis.base_fee_per_gas.unwrap_or(0),
        difficulty: genesis.difficulty,
        prev_randao: genesis.mix_hash,
        excess_blob_gas: genesis.excess_blob_gas,
        ..Env::default()
    }
}

fn prepare(run: &Run, cache: &mut Cache<'_, &Memory>) -> Result<(), crate::execute::ReadError> {
    if run.code.is_empty() || run.create {
        return Ok(());
    }
    let before = cache.account(run.receiver)?.unwrap_or_default();
    let code = Bytecode::new_raw_checked(run.code.clone())
        .map_err(|error| crate::execute::ReadError(Box::new(error)))?;
    let account = AccountInfo {
        balance: before.balance,
        nonce: before.nonce,
        code_hash: keccak256(&run.code),
        account_id: None,
        code: Some(code),
    };
    cache.replace(run.receiver, account, false, [])
}

fn transaction(run: &Run, rules: &Rules) -> (TxEnv, u64) {
    let data = if run.create { [&run.code[..], &run.input[..]].concat().into() } else { run.input.clone() };
    let intrinsic = GasParams::new_spec(rules.spec).initial_tx_gas(&data, run.create, 0, 0, 0, None);
    let needed = intrinsic.initial_total_gas();
    let transaction = TxEnv {
        caller: run.sender,
        gas_limit: run.gas.saturating_add(needed),
        gas_price: run.price,
        kind: if run.create { TxKind::Create } else { TxKind::Call(run.receiver) },
        value: run.value,
        data,
        chain_id: None,
        ..TxEnv::default()
    };
    (transaction, needed)
}

fn configuration(rules: &Rules) -> CfgEnv {
    let mut configuration = rules.configuration();
    configuration.tx_gas_limit_cap = Some(u64::MAX);
    configuration.disable_nonce_check = true;
    configuration.disable_balance_check = true;
    configuration.disable_block_gas_limit = true;
    configuration.disable_eip3607 = true;
    configuration.disable_base_fee = true;
    configuration.disable_fee_charge = true;
    configuration
}

fn outcome(result: &ExecutionResult, intrinsic: u64, state_root: B256) -> RunOutcome {
    let gas = result.gas();
    RunOutcome {
        output: result.output().cloned().unwrap_or_default(),
        gas_used: gas.total_gas_spent().saturating_sub(intrinsic),
        refund: gas.inner_refunded(),
        error: match result {
            ExecutionResult::Success { .. } => None,
            ExecutionResult::Revert { .. } => Some("execution reverted".into()),
            ExecutionResult::Halt { reason, .. } => Some(message(reason.clone().into())),
        },
        state_root,
    }
}
