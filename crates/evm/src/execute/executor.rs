//! A block while it is executed, or built.

use alloy_consensus::{Eip658Value, Header, Receipt, ReceiptEnvelope, ReceiptWithBloom, Transaction as _};
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, Bloom, U256};
use revm::context_interface::result::ExecutionResult;
use revm::{DatabaseCommit, ExecuteEvm};
use tally_state::{Account, Changes, Read};

use super::bloom::Blooms;
use super::machine::clears_empty;
use super::rewards::rewards;
use super::{
    BlockHashes, Cache, Codes, Env, Executed, IntermediateRoot, Machine, Outcome, Refusal, machine, system,
    transaction_env,
};
use crate::block::{BlockError, DAO_ACCOUNTS, DAO_REFUND};
use crate::schedule::{Fork, Rules, Schedule};
use crate::transaction::{Recovered, Transaction};

/// The most transactions for which there is room before they come: more than all but the largest blocks have.
const MOST_RESERVED: usize = 16_384;

/// A block whose transactions are executed one after the other.
///
/// [`begin`](Self::begin), any number of [`execute`](Self::execute), then [`finish`](Self::finish). A
/// transaction that is refused leaves nothing behind, so that a block under construction can try the
/// next one.
pub struct Executor<'a, R: Read> {
    machine: Machine<Cache<'a, R>>,
    schedule: &'a Schedule,
    rules: Rules,
    env: &'a Env,
    receipts: Vec<ReceiptEnvelope>,
    bloom: Bloom,
    blooms: Blooms,
    /// What the receipts count: gas that was paid for.
    paid: u64,
    /// What the block's limit counts; since EIP-8037 that is another sum, and there are two of them.
    regular: u64,
    state_gas: u64,
    blobs: u64,
}

impl<'a, R: Read> Executor<'a, R> {
    /// A block over the state after its parent.
    pub fn new(
        schedule: &'a Schedule,
        env: &'a Env,
        state: R,
        hashes: &'a BlockHashes<'a>,
        codes: Option<&'a Codes>,
    ) -> Self {
        // The difficulty alone tells blocks of work from those after the merge.
        let rules = schedule.rules(env.number, env.timestamp, env.difficulty.is_zero());
        let cache = Cache::new(state, hashes, codes);
        Self {
            machine: machine(&rules, rules.configuration(), env.block(&rules), cache, ()),
            schedule,
            rules,
            env,
            receipts: Vec::new(),
            bloom: Bloom::ZERO,
            blooms: Blooms::default(),
            paid: 0,
            regular: 0,
            state_gas: 0,
            blobs: 0,
        }
    }

    /// Makes room for as many transactions at once, so that nothing is moved about as they come. Each touches two
    /// accounts mostly: its sender and whom it is for.
    pub fn reserve(&mut self, transactions: usize) {
        let room = transactions.min(MOST_RESERVED);
        self.receipts.reserve(room);
        self.machine.ctx.journaled_state.database_mut().reserve(room.saturating_mul(2));
    }

    /// The rules that hold for the block.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Gas that further transactions may use.
    pub fn gas_left(&self) -> u64 {
        let used = if self.rules.has(Fork::Amsterdam) { self.regular.max(self.state_gas) } else { self.paid };
        self.env.gas_limit.saturating_sub(used)
    }

    /// Blobs that further transactions may have.
    pub fn blobs_left(&self) -> u64 {
        self.rules.max_blobs_per_block().saturating_sub(self.blobs)
    }

    /// An account as it is now.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn account(&mut self, address: Address) -> Result<Option<Account>, Refusal> {
        Ok(self.machine.ctx.journaled_state.database_mut().account(address)?)
    }

    /// What the fork does before the first transaction: system calls and the DAO's refund.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn begin(&mut self) -> Result<(), BlockError> {
        if self.schedule.is_dao_fork(self.env.number) {
            let cache = self.machine.ctx.journaled_state.database_mut();
            let mut refund = U256::ZERO;
            for account in DAO_ACCOUNTS {
                refund = refund.saturating_add(cache.drain(account)?);
            }
            cache.credit(DAO_REFUND, refund, false)?;
        }
        system::begin(&mut self.machine, &self.rules, self.env)
    }

    /// Executes the next transaction. `root` as in [`execute`](super::execute).
    ///
    /// # Errors
    /// Why it was refused; nothing changed then.
    pub fn execute(
        &mut self,
        transaction: &Recovered,
        root: Option<&mut IntermediateRoot<'_>>,
    ) -> Result<Outcome, Refusal> {
        if root.is_none() && !self.rules.has(Fork::Byzantium) {
            return Err(Refusal::Other("receipts before Byzantium need the state's root".into()));
        }
        transaction.check_form(&self.rules)?;
        let blobs = self.fits(transaction)?;
        let result = self.machine.transact_one(transaction_env(transaction));
        let state = self.machine.finalize();
        let result = result?;
        self.machine.ctx.journaled_state.database_mut().commit(state);

        let gas = *result.gas();
        self.paid = self.paid.saturating_add(gas.tx_gas_used());
        self.regular = self.regular.saturating_add(gas.block_regular_gas_used());
        self.state_gas = self.state_gas.saturating_add(gas.block_state_gas_used());
        self.blobs += blobs;

        let success = result.is_success();
        let created = if success { result.created_address() } else { None };
        let (output, logs) = match result {
            ExecutionResult::Success { output, logs, .. } => (output.into_data(), logs),
            ExecutionResult::Revert { output, .. } => (output, Vec::new()),
            ExecutionResult::Halt { .. } => (Default::default(), Vec::new()),
        };
        let status = match root {
            Some(root) if !self.rules.has(Fork::Byzantium) => {
                Eip658Value::PostState(root(&self.changes()).map_err(Refusal::State)?)
            }
            _ => Eip658Value::Eip658(success),
        };
        let logs_bloom = self.blooms.of(&logs);
        self.bloom |= logs_bloom;
        let receipt = Receipt { status, cumulative_gas_used: self.paid, logs };
        self.receipts.push(ReceiptEnvelope::from_typed(
            transaction.tx_type(),
            ReceiptWithBloom { receipt, logs_bloom },
        ));
        Ok(Outcome { success, gas_used: gas.tx_gas_used(), output, created })
    }

    /// What was read and written so far.
    pub(crate) fn into_cache(self) -> Cache<'a, R> {
        self.machine.ctx.journaled_state.into_database()
    }

    /// Whether the block has room for the transaction; how many blobs it has.
    fn fits(&self, transaction: &Transaction) -> Result<u64, Refusal> {
        let limit = transaction.gas_limit();
        let (left, needed) = if self.rules.has(Fork::Amsterdam) {
            let regular = limit.min(alloy_eips::eip7825::MAX_TX_GAS_LIMIT_OSAKA);
            let left = self.env.gas_limit.saturating_sub(self.regular);
            let state_left = self.env.gas_limit.saturating_sub(self.state_gas);
            if regular > left { (left, regular) } else { (state_left, limit) }
        } else {
            (self.env.gas_limit.saturating_sub(self.paid), limit)
        };
        if needed > left {
            return Err(Refusal::BlockGas { left, needed });
        }
        let blobs = transaction.blob_gas_used().unwrap_or(0) / DATA_GAS_PER_BLOB;
        if blobs > self.blobs_left() {
            return Err(Refusal::BlobGas { left: self.blobs_left(), needed: blobs });
        }
        Ok(blobs)
    }

    /// What changed since the start of the block.
    pub fn changes(&self) -> Changes {
        self.machine.ctx.journaled_state.database().changes()
    }

    /// What the fork does after the last transaction: requests, withdrawals and rewards.
    ///
    /// # Errors
    /// A system contract failed, a deposit's log is malformed, the state cannot be read, or there are
    /// withdrawals in a block that validators seal.
    pub fn finish(mut self, ommers: &[Header], withdrawals: &[Withdrawal]) -> Result<Executed, BlockError> {
        // Every header is checked for this as well; here nothing can get round it that changes balances.
        if self.schedule.sealed && !withdrawals.is_empty() {
            return Err(BlockError::NoBeaconChain("withdrawals"));
        }
        let requests = system::requests(&mut self.machine, &self.rules, self.schedule, &self.receipts)?;
        let clear = clears_empty(self.rules.spec);
        let cache = self.machine.ctx.journaled_state.database_mut();
        if self.rules.has(Fork::Shanghai) {
            for withdrawal in withdrawals {
                cache.credit(withdrawal.address, withdrawal.amount_wei(), clear)?;
            }
        }
        for (address, wei) in rewards(&self.rules, self.schedule.sealed, self.env, ommers) {
            cache.credit(address, wei, clear)?;
        }
        let gas_used =
            if self.rules.has(Fork::Amsterdam) { self.regular.max(self.state_gas) } else { self.paid };
        Ok(Executed {
            changes: cache.changes(),
            receipts: self.receipts,
            gas_used,
            blob_gas_used: self.blobs * DATA_GAS_PER_BLOB,
            requests,
            bloom: self.bloom,
        })
    }
}
