//! `revm`, set up for one block.

use alloy_consensus::Transaction as _;
use alloy_eips::eip2930::AccessList;
use alloy_primitives::Address;
use revm::MainnetEvm;
use revm::bytecode::opcode::SSTORE;
use revm::context::either::Either;
use revm::context::{BlockEnv, CfgEnv, Context, Evm, FrameStack, TxEnv};
use revm::handler::instructions::EthInstructions;
use revm::handler::{EthFrame, EthPrecompiles};
use revm::interpreter::instructions::host::sstore_with_gas_accounting;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::{Instruction, InstructionContext, InstructionExecResult, InstructionResult};
use revm::primitives::hardfork::SpecId;

use super::{Journal, Storages};
use crate::schedule::{Fork, Rules};
use crate::transaction::{Recovered, Transaction, recover_authorization};

/// What a machine executes in.
pub(crate) type MachineContext<D> = Context<BlockEnv, TxEnv, CfgEnv, D, Journal<D>, ()>;

/// One instance for all transactions of a block.
pub(crate) type Machine<D, I = ()> = MainnetEvm<MachineContext<D>, I>;

/// A machine with precompiled contracts of a kind.
pub(crate) type Assembled<D, P, I> = Evm<
    MachineContext<D>,
    I,
    EthInstructions<EthInterpreter, MachineContext<D>>,
    P,
    EthFrame<EthInterpreter>,
>;

/// Sets `revm` up over a database.
pub(crate) fn machine<D: Storages, I>(
    rules: &Rules,
    configuration: CfgEnv,
    block: BlockEnv,
    database: D,
    inspector: I,
) -> Machine<D, I> {
    assemble(rules, configuration, block, database, EthPrecompiles::new(rules.spec), inspector)
}

/// As [`machine`], with other precompiled contracts.
pub(crate) fn assemble<D: Storages, P, I>(
    rules: &Rules,
    configuration: CfgEnv,
    block: BlockEnv,
    database: D,
    precompiles: P,
    inspector: I,
) -> Assembled<D, P, I> {
    let context = MachineContext::new(database, rules.spec).with_cfg(configuration).with_block(block);
    let mut instruction = EthInstructions::new_mainnet_with_spec(rules.spec);
    if rules.fork == Fork::Constantinople {
        instruction.insert_instruction(SSTORE, Instruction::new(net_metered_store), 0);
    }
    Evm {
        ctx: context,
        inspector,
        instruction,
        precompiles,
        frame_stack: FrameStack::<EthFrame<EthInterpreter>>::new_prealloc(8),
    }
}

/// SSTORE with the net metering of EIP-1283, which held for Constantinople alone.
fn net_metered_store<D: Storages>(
    context: InstructionContext<'_, MachineContext<D>, EthInterpreter>,
) -> InstructionExecResult {
    const NO_OP: u64 = 200;
    const SET: u64 = 20_000;
    const RESET: u64 = 5_000;
    const CLEAR_REFUND: i64 = 15_000;
    const SET_REFUND: i64 = 19_800;
    const RESET_REFUND: i64 = 4_800;
    sstore_with_gas_accounting(context, |context, _, loaded| {
        let values = &loaded.data;
        let fresh = values.is_original_eq_present();
        let (cost, mut refund) = match (values.is_new_eq_present(), fresh, values.is_original_zero()) {
            (true, ..) => (NO_OP, 0),
            (false, true, true) => (SET, 0),
            (false, true, false) => (RESET, if values.is_new_zero() { CLEAR_REFUND } else { 0 }),
            (false, false, _) => (NO_OP, 0),
        };
        if !values.is_new_eq_present() && !fresh {
            if !values.is_original_zero() {
                if values.is_present_zero() {
                    refund -= CLEAR_REFUND;
                } else if values.is_new_zero() {
                    refund += CLEAR_REFUND;
                }
            }
            if values.is_original_eq_new() {
                refund += if values.is_original_zero() { SET_REFUND } else { RESET_REFUND };
            }
        }
        if !context.interpreter.gas.record_regular_cost(cost) {
            return Err(InstructionResult::OutOfGas);
        }
        context.interpreter.gas.record_refund(refund);
        Ok(())
    })
}

/// A transaction in the form that `revm` executes.
pub(crate) fn transaction_env(transaction: &Recovered) -> TxEnv {
    environment(transaction, transaction.sender())
}

fn environment(transaction: &Transaction, caller: Address) -> TxEnv {
    let authorizations = transaction.authorization_list().unwrap_or_default();
    TxEnv {
        tx_type: transaction.tx_type() as u8,
        caller,
        gas_limit: transaction.gas_limit(),
        gas_price: transaction.max_fee_per_gas(),
        kind: transaction.kind(),
        value: transaction.value(),
        data: transaction.input().clone(),
        nonce: transaction.nonce(),
        chain_id: transaction.chain_id(),
        access_list: transaction.access_list().map_or_else(AccessList::default, Clone::clone),
        gas_priority_fee: transaction.max_priority_fee_per_gas(),
        blob_hashes: transaction.blob_versioned_hashes().map(<[_]>::to_vec).unwrap_or_default(),
        max_fee_per_blob_gas: transaction.max_fee_per_blob_gas().unwrap_or(0),
        authorization_list: authorizations
            .iter()
            .map(|authorization| Either::Right(recover_authorization(authorization)))
            .collect(),
    }
}

/// Whether `spec` clears touched empty accounts (EIP-161).
pub(crate) fn clears_empty(spec: SpecId) -> bool {
    spec.is_enabled_in(SpecId::SPURIOUS_DRAGON)
}
