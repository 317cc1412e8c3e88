//! The machine for calls: checks that only concern blocks are off, and it can be stopped.

use alloy_primitives::TxKind;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use revm::bytecode::opcode::JUMPDEST;
use revm::context::{BlockEnv, CfgEnv, TxEnv};
use revm::context_interface::context::ContextError;
use revm::context_interface::result::EVMError;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::{Instruction, InstructionContext, InstructionExecResult, InstructionResult};
use tally_state::Read;

use super::error::describe;
use super::{CallError, Place, Precompiled, apply_blob_price, apply_block, apply_state, environment};
use crate::execute::{Assembled, Cache, Env, MachineContext, ReadError, Refusal, assemble};
use crate::schedule::Rules;

/// What ends a call that was stopped.
pub(crate) const STOPPED: &str = "stopped by the host";

/// A machine that borrows its cache: what one call has read is there for the next.
pub(crate) type CallMachine<'m, 'a, R, I = ()> = Assembled<&'m mut Cache<'a, R>, Precompiled, I>;

/// A machine over a cache that looks for the flag at each target of a jump: code that runs for long
/// jumps.
pub(crate) fn call_machine<'m, 'a, R: Read, I>(
    rules: &Rules,
    configuration: CfgEnv,
    block: BlockEnv,
    cache: &'m mut Cache<'a, R>,
    precompiled: Precompiled,
    inspector: I,
) -> CallMachine<'m, 'a, R, I> {
    const JUMPDEST_GAS: u16 = 1;
    let mut machine = assemble(rules, configuration, block, cache, precompiled, inspector);
    machine.instruction.insert_instruction(JUMPDEST, Instruction::new(jump_target), JUMPDEST_GAS);
    machine
}

fn jump_target<'m, 'a, R: Read>(
    context: InstructionContext<'_, MachineContext<&'m mut Cache<'a, R>>, EthInterpreter>,
) -> InstructionExecResult {
    if context.host.journaled_state.database().is_stopped() {
        context.host.error = Err(ContextError::Custom(STOPPED.into()));
        return Err(InstructionResult::FatalExternalError);
    }
    Ok(())
}

/// The configuration for calls. `free` calls pay no base fee.
pub(crate) fn call_configuration(rules: &Rules, free: bool) -> CfgEnv {
    let mut configuration = rules.configuration();
    configuration.tx_gas_limit_cap = Some(u64::MAX);
    configuration.disable_nonce_check = true;
    configuration.disable_block_gas_limit = true;
    configuration.disable_eip3607 = true;
    configuration.disable_base_fee = free;
    configuration
}

/// What went wrong with a call, in the words that clients are used to.
pub(crate) fn error_of(error: EVMError<ReadError>, transaction: &TxEnv, env: &Env) -> CallError {
    let refusal = match error {
        EVMError::Database(error) => return CallError::State(error.0),
        EVMError::Custom(reason) if reason == STOPPED => return CallError::Stopped,
        other => Refusal::from(other),
    };
    refused(refusal, transaction, env)
}

/// As [`error_of`], of a refusal that was found elsewhere.
pub(crate) fn refused(refusal: Refusal, transaction: &TxEnv, env: &Env) -> CallError {
    let fee = transaction.gas_price;
    let message = describe(&refusal, transaction.caller, fee, transaction.gas_priority_fee, env.base_fee);
    CallError::Refused { refusal, message, gas: transaction.gas_limit }
}

/// Whether a transaction offers no fee at all.
pub(crate) fn is_free(transaction: &TxEnv) -> bool {
    transaction.gas_price == 0 && transaction.gas_priority_fee.unwrap_or(0) == 0
}

/// What calls in one place share: the overridden block, and the state with what was read of it.
pub(crate) struct CallParts<'a, R> {
    pub(crate) rules: Rules,
    pub(crate) env: Env,
    pub(crate) cache: Cache<'a, &'a R>,
    pub(crate) precompiled: Precompiled,
    /// The most gas of a call.
    pub(crate) gas: u64,
    block: BlockEnv,
}

impl<'a, R: Read> CallParts<'a, R> {
    pub(crate) fn new(
        place: &'a Place<'a, R>,
        state_overrides: Option<&StateOverride>,
        block_overrides: Option<&BlockOverrides>,
    ) -> Result<Self, CallError> {
        let mut env = place.env.clone();
        if let Some(overrides) = block_overrides {
            apply_block(overrides, &mut env)?;
        }
        let rules = place.schedule.rules(env.number, env.timestamp, env.difficulty.is_zero());
        let mut block = env.block(&rules);
        let mut cache = Cache::new(&place.state, place.hashes, place.codes).with_stop(place.limits.stop);
        if let Some(overrides) = block_overrides {
            apply_blob_price(overrides, &mut block)?;
            cache.set_block_hashes(
                overrides.block_hash.iter().flatten().map(|(number, hash)| (*number, *hash)),
            );
        }
        let mut precompiled = Precompiled::new(rules.spec);
        if let Some(overrides) = state_overrides {
            apply_state(overrides, &mut cache, &mut precompiled)?;
        }
        let gas = if place.limits.gas == 0 { u64::MAX / 2 } else { place.limits.gas };
        Ok(Self { rules, env, cache, precompiled, gas, block })
    }

    /// The request as a transaction with as much gas as it may use.
    pub(crate) fn transaction(&self, request: &TransactionRequest) -> Result<TxEnv, CallError> {
        let gas = request.gas.unwrap_or(self.gas).min(self.gas);
        environment(request, self.rules.chain_id, gas, request.nonce.unwrap_or(0))
    }

    /// A machine for calls with the fees of `transaction`.
    pub(crate) fn machine<I>(&mut self, transaction: &TxEnv, inspector: I) -> CallMachine<'_, 'a, &'a R, I> {
        let free = is_free(transaction);
        let block = self.block(transaction);
        let configuration = call_configuration(&self.rules, free);
        let precompiled = self.precompiled.clone();
        call_machine(&self.rules, configuration, block, &mut self.cache, precompiled, inspector)
    }

    /// The block as a call with the fees of `transaction` sees it.
    pub(crate) fn block(&self, transaction: &TxEnv) -> BlockEnv {
        let mut block = self.block.clone();
        if is_free(transaction) {
            // Code must not see a base fee above the price that it is called with.
            block.basefee = 0;
        }
        if transaction.tx_type == 3
            && transaction.max_fee_per_blob_gas == 0
            && let Some(blobs) = &mut block.blob_excess_gas_and_price
        {
            blobs.blob_gasprice = 0;
        }
        block
    }

    /// Whether a call only moves money: no data, and no code at its target.
    pub(crate) fn is_plain_transfer(&mut self, transaction: &TxEnv) -> Result<bool, CallError> {
        let TxKind::Call(target) = transaction.kind else { return Ok(false) };
        if !transaction.data.is_empty() || transaction.tx_type == 4 || self.precompiled.is_precompile(&target)
        {
            return Ok(false);
        }
        let account = self.cache.account(target).map_err(|error| CallError::State(error.0))?;
        Ok(account.is_none_or(|account| !account.has_code()))
    }
}
