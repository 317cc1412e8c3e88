//! Calls that the protocol makes itself, before and after a block's transactions.

use alloy_consensus::{ReceiptEnvelope, TxReceipt};
use alloy_eips::eip2935::HISTORY_STORAGE_ADDRESS;
use alloy_eips::eip4788::BEACON_ROOTS_ADDRESS;
use alloy_eips::eip6110::DEPOSIT_REQUEST_TYPE;
use alloy_eips::eip7002::{WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, WITHDRAWAL_REQUEST_TYPE};
use alloy_eips::eip7251::{CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, CONSOLIDATION_REQUEST_TYPE};
use alloy_eips::eip7685::Requests;
use alloy_eips::eip8282::{
    BUILDER_DEPOSIT_CONTRACT_ADDRESS, BUILDER_DEPOSIT_REQUEST_TYPE, BUILDER_EXIT_CONTRACT_ADDRESS,
    BUILDER_EXIT_REQUEST_TYPE,
};
use alloy_primitives::{Address, B256, Bytes, b256};
use revm::context_interface::result::{EVMError, ExecutionResult};
use revm::handler::PrecompileProvider;
use revm::interpreter::InterpreterResult;
use revm::{DatabaseCommit, ExecuteEvm, SystemCallEvm};

use super::{Assembled, Env, MachineContext, ReadError, Storages};
use crate::block::BlockError;
use crate::schedule::{Fork, Rules, Schedule};

/// keccak-256 of `DepositEvent(bytes,bytes,bytes,bytes,bytes)`.
const DEPOSIT_EVENT: B256 = b256!("649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5");

/// Stores the parent's beacon root (EIP-4788) and hash (EIP-2935).
pub(crate) fn begin<D, P>(
    machine: &mut Assembled<D, P, ()>,
    rules: &Rules,
    env: &Env,
) -> Result<(), BlockError>
where
    D: Storages<Error = ReadError> + DatabaseCommit,
    P: PrecompileProvider<MachineContext<D>, Output = InterpreterResult>,
{
    if env.number == 0 {
        return Ok(());
    }
    if rules.has(Fork::Cancun)
        && let Some(root) = env.parent_beacon_block_root
    {
        // The contract failing, or not being there, is no fault of the block (EIP-4788).
        call(machine, BEACON_ROOTS_ADDRESS, root.into())?;
    }
    if rules.has(Fork::Prague) {
        call(machine, HISTORY_STORAGE_ADDRESS, env.parent_hash.into())?;
    }
    Ok(())
}

/// Collects what a block asks of the beacon chain (EIP-7685).
pub(crate) fn requests<D, P>(
    machine: &mut Assembled<D, P, ()>,
    rules: &Rules,
    schedule: &Schedule,
    receipts: &[ReceiptEnvelope],
) -> Result<Requests, BlockError>
where
    D: Storages<Error = ReadError> + DatabaseCommit,
    P: PrecompileProvider<MachineContext<D>, Output = InterpreterResult>,
{
    let mut requests = Requests::default();
    if !rules.has(Fork::Prague) {
        return Ok(requests);
    }
    let deposits = deposits(schedule, receipts)?;
    if !deposits.is_empty() {
        requests.push_request_with_type(DEPOSIT_REQUEST_TYPE, deposits);
    }
    let mut contracts = vec![
        (WITHDRAWAL_REQUEST_TYPE, WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS),
        (CONSOLIDATION_REQUEST_TYPE, CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS),
    ];
    if rules.has(Fork::Amsterdam) {
        contracts.push((BUILDER_DEPOSIT_REQUEST_TYPE, BUILDER_DEPOSIT_CONTRACT_ADDRESS));
        contracts.push((BUILDER_EXIT_REQUEST_TYPE, BUILDER_EXIT_CONTRACT_ADDRESS));
    }
    for (kind, contract) in contracts {
        let has_code = machine
            .ctx
            .journaled_state
            .database_mut()
            .basic(contract)?
            .is_some_and(|account| !account.is_empty_code_hash());
        if !has_code {
            // A chain of known validators has no beacon chain to ask anything of.
            if schedule.sealed {
                continue;
            }
            return Err(BlockError::NoSystemContract(contract));
        }
        match call(machine, contract, Bytes::new())? {
            ExecutionResult::Success { output, .. } => {
                let data = output.into_data();
                if !data.is_empty() {
                    requests.push_request_with_type(kind, data);
                }
            }
            ExecutionResult::Revert { .. } => {
                return Err(BlockError::SystemContract(format!("at {contract} reverted")));
            }
            ExecutionResult::Halt { reason, .. } => {
                return Err(BlockError::SystemContract(format!("at {contract} halted: {reason:?}")));
            }
        }
    }
    Ok(requests)
}

fn call<D, P>(
    machine: &mut Assembled<D, P, ()>,
    contract: Address,
    data: Bytes,
) -> Result<ExecutionResult, BlockError>
where
    D: Storages<Error = ReadError> + DatabaseCommit,
    P: PrecompileProvider<MachineContext<D>, Output = InterpreterResult>,
{
    let result = machine.system_call_one(contract, data).map_err(|error: EVMError<ReadError>| match error {
        EVMError::Database(error) => BlockError::State(error.0),
        other => BlockError::SystemContract(format!("at {contract} failed: {other}")),
    });
    let state = machine.finalize();
    let result = result?;
    machine.ctx.journaled_state.database_mut().commit(state);
    Ok(result)
}

/// Deposits in the order of their logs (EIP-6110), each field as the contract has it.
fn deposits(schedule: &Schedule, receipts: &[ReceiptEnvelope]) -> Result<Vec<u8>, BlockError> {
    let mut deposits = Vec::new();
    for log in receipts.iter().flat_map(TxReceipt::logs) {
        if log.address == schedule.deposit_contract && log.topics().first() == Some(&DEPOSIT_EVENT) {
            deposit(&log.data.data, &mut deposits).ok_or(BlockError::DepositLog)?;
        }
    }
    Ok(deposits)
}

/// The event's five byte strings have fixed lengths, so that each has one place in the data.
fn deposit(data: &[u8], out: &mut Vec<u8>) -> Option<()> {
    const LENGTH: usize = 576;
    /// Where a field's length stands, and how long it must be.
    const FIELDS: [(usize, usize); 5] = [(160, 48), (256, 32), (320, 8), (384, 96), (512, 8)];
    if data.len() != LENGTH {
        return None;
    }
    let number = |at: usize| -> Option<usize> {
        let word = data.get(at..at.checked_add(32)?)?;
        let (high, low) = word.split_at(24);
        if high.iter().any(|byte| *byte != 0) {
            return None;
        }
        usize::try_from(u64::from_be_bytes(low.try_into().ok()?)).ok()
    };
    for (index, (at, length)) in FIELDS.into_iter().enumerate() {
        if number(index * 32)? != at || number(at)? != length {
            return None;
        }
        out.extend_from_slice(data.get(at + 32..at + 32 + length)?);
    }
    Some(())
}
