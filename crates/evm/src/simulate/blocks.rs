//! Made-up blocks: their order, their headers and their execution.

use std::cmp::Ordering;

use alloy_consensus::constants::{EMPTY_ROOT_HASH, EMPTY_WITHDRAWALS};
use alloy_consensus::proofs::calculate_receipt_root;
use alloy_consensus::{Eip658Value, Header, Receipt, ReceiptEnvelope, ReceiptWithBloom};
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_primitives::{B256, Bloom, Log, U256};
use alloy_rlp::Encodable;
use alloy_rpc_types_eth::simulate::SimBlock;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use alloy_trie::root::ordered_trie_root_encoded;
use revm::context::{BlockEnv, CfgEnv, TxEnv};
use revm::context_interface::result::ExecutionResult;
use revm::{DatabaseCommit, ExecuteEvm, InspectEvm};
use tally_state::Read;

use super::transfers::Transfers;
use super::{MAX_BLOCKS, Simulated, SimulatedCall, SimulatedTransaction, kind};
use crate::block::{BlockError, EMPTY_BLOCK_ACCESS_LIST_HASH, next_base_fee, next_excess_blob_gas};
use crate::call::{
    CallError, Called, Precompiled, apply_blob_price, apply_state, call_configuration, call_machine,
    environment, error_of, is_free, refused,
};
use crate::execute::{Cache, Env, IntermediateRoot, ReadError, Refusal, begin, requests};
use crate::schedule::{Fork, Rules, Schedule};
use crate::transaction::TransactionError;

/// Seconds between blocks whose time is not given.
const BLOCK_SECONDS: u64 = 12;

/// A block of the request, with its number and time.
pub(super) struct Planned<'a> {
    number: u64,
    timestamp: u64,
    request: Option<&'a SimBlock<TransactionRequest>>,
}

/// Gives each block its number and time, and adds those in between.
pub(super) fn in_order<'a>(
    base: &Header,
    requests: &'a [SimBlock<TransactionRequest>],
) -> Result<Vec<Planned<'a>>, CallError> {
    let block_error = |code, message| CallError::Block { code, message };
    let too_many = || block_error(-38026, "too many blocks".to_owned());
    let mut planned = Vec::new();
    let (mut last_number, mut last_time) = (base.number, base.timestamp);
    for request in requests {
        let overrides = request.block_overrides.as_ref();
        let number = overrides
            .and_then(|overrides| overrides.number)
            .unwrap_or_else(|| U256::from(last_number) + U256::ONE);
        if number <= U256::from(last_number) {
            return Err(block_error(
                -38020,
                format!("block numbers must be in order: {number} <= {last_number}"),
            ));
        }
        if number - U256::from(base.number) > U256::from(MAX_BLOCKS) {
            return Err(too_many());
        }
        let number = u64::try_from(number).map_err(|_| too_many())?;
        for between in last_number + 1..number {
            last_time = last_time.saturating_add(BLOCK_SECONDS);
            planned.push(Planned { number: between, timestamp: last_time, request: None });
        }
        let timestamp = match overrides.and_then(|overrides| overrides.time) {
            None => last_time.saturating_add(BLOCK_SECONDS),
            Some(time) if time <= last_time => {
                return Err(block_error(
                    -38021,
                    format!("block timestamps must be in order: {time} <= {last_time}"),
                ));
            }
            Some(time) => time,
        };
        (last_number, last_time) = (number, timestamp);
        planned.push(Planned { number, timestamp, request: Some(request) });
    }
    Ok(planned)
}

/// The blocks so far, in the state that they left.
pub(super) struct Simulation<'a, R> {
    pub(super) schedule: &'a Schedule,
    pub(super) cache: Cache<'a, &'a R>,
    pub(super) validation: bool,
    pub(super) transfers: bool,
    /// What all calls together may still use.
    pub(super) gas: u64,
}

/// What the calls of one block share.
struct Surroundings {
    rules: Rules,
    env: Env,
    block: BlockEnv,
    precompiled: Precompiled,
}

/// What a block has added up.
#[derive(Default)]
struct Sums {
    gas: u64,
    blobs: u64,
    bloom: Bloom,
    receipts: Vec<ReceiptEnvelope>,
    transactions: Vec<SimulatedTransaction>,
    calls: Vec<SimulatedCall>,
}

impl<R: Read> Simulation<'_, R> {
    pub(super) fn block(
        &mut self,
        planned: &Planned<'_>,
        parent: &Header,
        parent_hash: B256,
        root: &mut IntermediateRoot<'_>,
    ) -> Result<Simulated, CallError> {
        let none = BlockOverrides::default();
        let overrides = planned.request.and_then(|request| request.block_overrides.as_ref()).unwrap_or(&none);
        let mut header = self.header(planned, overrides, parent, parent_hash)?;
        let around = self.surroundings(planned, overrides, &header)?;
        let configuration = call_configuration(&around.rules, true);
        let mut machine = call_machine(
            &around.rules,
            configuration.clone(),
            around.block.clone(),
            &mut self.cache,
            around.precompiled.clone(),
            (),
        );
        begin(&mut machine, &around.rules, &around.env).map_err(block_failure)?;

        let mut sums = Sums::default();
        for request in planned.request.iter().flat_map(|request| &request.calls) {
            self.call(request, &around, &mut sums, root)?;
        }

        let Surroundings { rules, block, precompiled, .. } = around;
        let mut machine = call_machine(&rules, configuration, block, &mut self.cache, precompiled, ());
        let requests =
            requests(&mut machine, &rules, self.schedule, &sums.receipts).map_err(block_failure)?;
        header.gas_used = sums.gas;
        header.blob_gas_used = rules.has(Fork::Cancun).then_some(sums.blobs * DATA_GAS_PER_BLOB);
        header.requests_hash = rules.has(Fork::Prague).then(|| requests.requests_hash());
        header.logs_bloom = sums.bloom;
        header.receipts_root = calculate_receipt_root(&sums.receipts);
        let encoded: Vec<_> = sums.transactions.iter().map(|transaction| &transaction.encoded).collect();
        header.transactions_root =
            if encoded.is_empty() { EMPTY_ROOT_HASH } else { ordered_trie_root_encoded(&encoded) };
        header.state_root = root(&self.cache.changes()).map_err(CallError::State)?;
        let hash = header.hash_slow();
        self.cache.set_block_hashes([(header.number, hash)]);
        Ok(Simulated {
            size: size(&header, &sums.transactions),
            header,
            hash,
            transactions: sums.transactions,
            calls: sums.calls,
        })
    }

    /// Makes the block's overrides.
    fn surroundings(
        &mut self,
        planned: &Planned<'_>,
        overrides: &BlockOverrides,
        header: &Header,
    ) -> Result<Surroundings, CallError> {
        let rules = self.schedule.rules_of(header);
        let env = Env::of(header);
        let mut block = env.block(&rules);
        apply_blob_price(overrides, &mut block)?;
        let hashes = overrides.block_hash.iter().flatten();
        self.cache.set_block_hashes(hashes.map(|(number, hash)| (*number, *hash)));
        let mut precompiled = Precompiled::new(rules.spec);
        if let Some(state) = planned.request.and_then(|request| request.state_overrides.as_ref()) {
            apply_state(state, &mut self.cache, &mut precompiled)?;
        }
        Ok(Surroundings { rules, env, block, precompiled })
    }

    fn header(
        &self,
        planned: &Planned<'_>,
        overrides: &BlockOverrides,
        parent: &Header,
        parent_hash: B256,
    ) -> Result<Header, CallError> {
        let (number, timestamp) = (planned.number, planned.timestamp);
        let merged = parent.difficulty.is_zero() || self.schedule.is_active(Fork::Paris, number, timestamp);
        let difficulty = if merged && !self.schedule.sealed { U256::ZERO } else { parent.difficulty };
        let rules = self.schedule.rules(number, timestamp, difficulty.is_zero());
        let base_fee = match overrides.base_fee {
            Some(base_fee) => Some(u64::try_from(base_fee).map_err(|_| {
                CallError::Override("block override `baseFeePerGas` is above 64 bits".into())
            })?),
            None if self.validation => next_base_fee(self.schedule, parent, timestamp),
            // Calls without fees would be below any base fee.
            None => Some(0),
        };
        let beacon_root = overrides.beacon_root.unwrap_or_default();
        let amsterdam = rules.has(Fork::Amsterdam);
        Ok(Header {
            parent_hash,
            beneficiary: overrides.coinbase.unwrap_or(parent.beneficiary),
            difficulty: overrides.difficulty.unwrap_or(difficulty),
            number,
            gas_limit: overrides.gas_limit.unwrap_or(parent.gas_limit),
            timestamp,
            mix_hash: overrides.random.unwrap_or_default(),
            base_fee_per_gas: if rules.has(Fork::London) { base_fee } else { None },
            withdrawals_root: rules.has(Fork::Shanghai).then_some(EMPTY_WITHDRAWALS),
            excess_blob_gas: rules.blobs.map(|blobs| next_excess_blob_gas(&blobs, parent)),
            parent_beacon_block_root: rules.has(Fork::Cancun).then_some(beacon_root),
            block_access_list_hash: amsterdam.then_some(EMPTY_BLOCK_ACCESS_LIST_HASH),
            slot_number: amsterdam.then_some(0),
            ..Header::default()
        })
    }

    fn call(
        &mut self,
        request: &TransactionRequest,
        around: &Surroundings,
        sums: &mut Sums,
        root: &mut IntermediateRoot<'_>,
    ) -> Result<(), CallError> {
        let state = |error: ReadError| CallError::State(error.0);
        let (rules, limit) = (&around.rules, around.env.gas_limit);
        let sender = request.from.unwrap_or_default();
        let account = self.cache.account(sender).map_err(state)?.unwrap_or_default();
        let nonce = request.nonce.unwrap_or(account.nonce);
        let gas = request.gas.unwrap_or(limit.saturating_sub(sums.gas));
        if sums.gas.checked_add(gas).is_none_or(|gas| gas > limit) {
            return Err(CallError::BlockGas { used: sums.gas, limit });
        }
        let transaction = environment(request, rules.chain_id, gas.min(self.gas), nonce)?;
        if self.validation {
            let refusal = match nonce.cmp(&account.nonce) {
                Ordering::Less => Some(Refusal::NonceTooLow { expected: account.nonce, found: nonce }),
                Ordering::Greater => Some(Refusal::NonceTooHigh { expected: account.nonce, found: nonce }),
                Ordering::Equal => (nonce == u64::MAX).then_some(TransactionError::NonceMax.into()),
            };
            if let Some(refusal) = refusal {
                return Err(refused(refusal, &transaction, &around.env));
            }
        }
        let listed = SimulatedTransaction::new(request, &transaction, rules);

        let mut executed = transaction.clone();
        // Without validation the nonce after the largest is zero.
        let overflow = nonce == u64::MAX && !self.validation;
        if overflow {
            executed.nonce = 0;
        }
        let mut configuration = call_configuration(rules, is_free(&transaction) && !self.validation);
        configuration.disable_nonce_check = !self.validation;
        let (result, transfers) = self.run(around, configuration, executed)?;
        if overflow && account.nonce == u64::MAX {
            self.cache.reset_nonce(sender).map_err(state)?;
        }

        let called = Called::of(result.clone());
        self.gas = self.gas.saturating_sub(called.gas_used);
        sums.gas = sums.gas.saturating_add(called.gas_used);
        sums.blobs += transaction.blob_hashes.len() as u64;
        let status = if rules.has(Fork::Byzantium) {
            Eip658Value::Eip658(called.failure.is_none())
        } else {
            Eip658Value::PostState(root(&self.cache.changes()).map_err(CallError::State)?)
        };
        let logs = result.into_logs();
        let logs_bloom = logs.iter().collect::<Bloom>();
        sums.bloom |= logs_bloom;
        sums.calls.push(SimulatedCall { called, logs: transfers.unwrap_or_else(|| logs.clone()) });
        let receipt = Receipt { status, cumulative_gas_used: sums.gas, logs };
        let receipt = ReceiptWithBloom { receipt, logs_bloom };
        sums.receipts.push(ReceiptEnvelope::from_typed(kind(request, rules), receipt));
        sums.transactions.push(listed);
        Ok(())
    }

    /// Executes a call and keeps what it changed; with it come its logs and transfers, when those are
    /// wanted.
    fn run(
        &mut self,
        around: &Surroundings,
        configuration: CfgEnv,
        transaction: TxEnv,
    ) -> Result<(ExecutionResult, Option<Vec<Log>>), CallError> {
        let (block, precompiled) = (around.block.clone(), around.precompiled.clone());
        let (rules, cache) = (&around.rules, &mut self.cache);
        let (result, logs) = if self.transfers {
            let inspector = Transfers::default();
            let mut machine = call_machine(rules, configuration, block, cache, precompiled, inspector);
            let result = machine.inspect_tx(transaction.clone());
            (result, Some(machine.inspector.into_logs()))
        } else {
            let mut machine = call_machine(rules, configuration, block, cache, precompiled, ());
            (machine.transact(transaction.clone()), None)
        };
        let done = result.map_err(|error| error_of(error, &transaction, &around.env))?;
        self.cache.commit(done.state);
        Ok((done.result, logs))
    }
}

fn block_failure(error: BlockError) -> CallError {
    match error {
        BlockError::State(source) => CallError::State(source),
        other => CallError::Block { code: -32000, message: other.to_string() },
    }
}

/// Bytes of the block's encoding: header, transactions, no ommers, and an empty list of withdrawals
/// since Shanghai.
fn size(header: &Header, transactions: &[SimulatedTransaction]) -> usize {
    let item = |list, payload_length| alloy_rlp::Header { list, payload_length }.length_with_payload();
    let transactions: usize = transactions
        .iter()
        .map(|transaction| {
            // Typed ones stand as strings in the list.
            let typed = transaction.encoded.first().is_some_and(|byte| *byte < 0xc0);
            if typed { item(false, transaction.encoded.len()) } else { transaction.encoded.len() }
        })
        .sum();
    let withdrawals = usize::from(header.withdrawals_root.is_some());
    item(true, header.length() + item(true, transactions) + 1 + withdrawals)
}
