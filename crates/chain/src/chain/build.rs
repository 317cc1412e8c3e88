//! Building a block from transactions that wait.

use std::sync::Arc;
use std::time::Instant;

use alloy_consensus::Header;
use alloy_consensus::constants::{EMPTY_OMMER_ROOT_HASH, EMPTY_WITHDRAWALS};
use alloy_consensus::proofs::{calculate_transaction_root, calculate_withdrawals_root};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B64, B256, Bytes, U256};
use tally_evm::block::{next_base_fee, next_excess_blob_gas};
use tally_evm::{Block, BlockError, Body, Executed, Executor, Fork, Recovered, Refusal};

use tally_state::View;

use super::Chain;
use crate::branch::{Branch, Candidate};
use crate::error::{ChainError, ImportError};
use crate::sealed::ValidatorsError;

/// The least gas that a transaction takes (yellow paper, appendix G): a block with less left is full.
const LEAST_GAS: u64 = 21_000;

/// What a new block is to have in its header beside what follows from its parent and contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Seconds since 1970.
    pub timestamp: u64,
    /// The coinbase.
    pub beneficiary: Address,
    /// The extra data.
    pub extra_data: Bytes,
    /// The mix hash: the digest of Istanbul BFT, or a beacon chain's randomness.
    pub mix_hash: B256,
    /// Gas that the block may use.
    pub gas_limit: u64,
    /// Since Shanghai.
    pub withdrawals: Vec<Withdrawal>,
    /// Since Cancun, on chains with a beacon chain.
    pub parent_beacon_block_root: Option<B256>,
    /// When to take no more transactions.
    pub until: Option<Instant>,
}

/// A transaction that was not put into the block, and why.
#[derive(Debug)]
pub struct Skipped {
    /// The transaction.
    pub hash: B256,
    /// Its sender.
    pub sender: Address,
    /// Why it was left out.
    pub reason: Reason,
}

/// Why a transaction is not in a block that was built.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// It cannot be applied.
    #[error(transparent)]
    Refused(Refusal),
    /// After it no validators can be told, so that no block could follow.
    #[error("no block could follow a block with it: {0}")]
    Validators(ValidatorsError),
}

/// Transactions that were executed for a new block.
struct Attempt {
    included: Vec<Recovered>,
    skipped: Vec<Skipped>,
    value: U256,
    executed: Executed,
}

/// A block that was built.
#[derive(Debug)]
pub struct Built {
    /// The block; validators have not sealed it.
    pub candidate: Candidate,
    /// What was left out though there was room.
    pub skipped: Vec<Skipped>,
    /// What the block pays its beneficiary beside rewards, in wei.
    pub value: U256,
}

impl Chain {
    /// Builds a block on `parent` from transactions in order, as many as fit; no more are drawn once the block is full.
    /// After a transaction that is left out, those of the same sender are left out without a word: their turn comes when
    /// its nonce is used.
    ///
    /// # Errors
    /// What failed here, and [`BlockError::Validators`] where an empty block has no validators after it either;
    /// transactions that cannot be applied are in [`Built::skipped`].
    pub fn build(
        &self,
        parent: &Branch,
        attributes: Attributes,
        transactions: impl IntoIterator<Item = Recovered>,
    ) -> Result<Built, ImportError> {
        let header = self.header_of(parent, &attributes);
        let until = attributes.until;
        let mut attempt = self.attempt(parent, &header, &attributes, transactions, until)?;
        let mut skipped = std::mem::take(&mut attempt.skipped);
        loop {
            let mut included = attempt.included.clone();
            let value = attempt.value;
            let failed = match self.assemble(parent, header.clone(), &attributes, attempt) {
                Ok(candidate) => return Ok(Built { candidate, skipped, value }),
                Err(failed) => failed,
            };
            let ImportError::Invalid { source, .. } = &failed else { return Err(failed) };
            if !matches!(**source, BlockError::Validators(_)) {
                return Err(failed);
            }
            // The contract that names the validators fails after one of the transactions, which goes. Without it and those
            // that follow it of its sender the others may do as well; where the time is over, those before it do.
            let Some((at, reason)) = self.culprit(parent, &header, &included)? else { return Err(failed) };
            let culprit = included.split_off(at);
            let mut rest = culprit.into_iter();
            if let Some(culprit) = rest.next() {
                let sender = culprit.sender();
                skipped.push(Skipped { hash: culprit.hash(), sender, reason: Reason::Validators(reason) });
                if until.is_none_or(|until| Instant::now() < until) {
                    included.extend(rest.filter(|transaction| transaction.sender() != sender));
                }
            }
            attempt = self.attempt(parent, &header, &attributes, included, None)?;
            skipped.append(&mut attempt.skipped);
        }
    }

    /// What of the header is known before anything is executed.
    fn header_of(&self, parent: &Branch, attributes: &Attributes) -> Header {
        let before = &parent.sealed.header;
        let number = before.number.saturating_add(1);
        let merged = self.sealed().is_some() || self.is_merged(parent);
        let rules = self.schedule().rules(number, attributes.timestamp, merged);
        let cancun = rules.has(Fork::Cancun);
        let beacon = self.sealed().is_none();
        Header {
            parent_hash: parent.hash(),
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            beneficiary: attributes.beneficiary,
            difficulty: if self.sealed().is_some() { U256::ONE } else { U256::ZERO },
            number,
            gas_limit: attributes.gas_limit,
            timestamp: attributes.timestamp,
            extra_data: attributes.extra_data.clone(),
            mix_hash: attributes.mix_hash,
            nonce: B64::ZERO,
            base_fee_per_gas: next_base_fee(self.schedule(), before, attributes.timestamp),
            withdrawals_root: rules.has(Fork::Shanghai).then(|| {
                if attributes.withdrawals.is_empty() {
                    EMPTY_WITHDRAWALS
                } else {
                    calculate_withdrawals_root(&attributes.withdrawals)
                }
            }),
            excess_blob_gas: rules.blobs.filter(|_| cancun).map(|blobs| next_excess_blob_gas(&blobs, before)),
            parent_beacon_block_root: (cancun && beacon)
                .then(|| attributes.parent_beacon_block_root.unwrap_or_default()),
            ..Header::default()
        }
    }

    /// Executes transactions in order, until the block is full or the time is over.
    fn attempt(
        &self,
        parent: &Branch,
        header: &Header,
        attributes: &Attributes,
        transactions: impl IntoIterator<Item = Recovered>,
        until: Option<Instant>,
    ) -> Result<Attempt, ImportError> {
        let env = self.environment(header);
        let snapshot = self.head().snapshot.clone();
        let hashes = |number| self.hash_of_ancestor(parent, &snapshot, number);
        let classify = |error| self.classify(header.number, B256::ZERO, error);
        let mut executor = Executor::new(self.schedule(), &env, &parent.view, &hashes, Some(self.codes()));
        let transactions = transactions.into_iter();
        executor.reserve(transactions.size_hint().0);
        executor.begin().map_err(classify)?;
        let mut included = Vec::new();
        let mut skipped: Vec<Skipped> = Vec::new();
        let mut held_back = alloy_primitives::map::AddressMap::<()>::default();
        let mut value = U256::ZERO;
        for transaction in transactions {
            if until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            if held_back.contains_key(&transaction.sender()) {
                continue;
            }
            match executor.execute(&transaction, None) {
                Ok(outcome) => {
                    use alloy_consensus::Transaction as _;
                    let tip = transaction.effective_tip_per_gas(env.base_fee).unwrap_or(0);
                    value = value.saturating_add(U256::from(tip) * U256::from(outcome.gas_used));
                    included.push(transaction);
                }
                Err(Refusal::State(source)) => {
                    return Err(ImportError::Chain(ChainError::Unreadable(source)));
                }
                Err(reason) => {
                    held_back.insert(transaction.sender(), ());
                    let reason = Reason::Refused(reason);
                    skipped.push(Skipped { hash: transaction.hash(), sender: transaction.sender(), reason });
                }
            }
            if executor.gas_left() < LEAST_GAS {
                break;
            }
        }
        let executed = executor.finish(&[], &attributes.withdrawals).map_err(classify)?;
        Ok(Attempt { included, skipped, value, executed })
    }

    /// Joins what was executed with a header, and names the block.
    fn assemble(
        &self,
        parent: &Branch,
        mut header: Header,
        attributes: &Attributes,
        Attempt { included, executed, .. }: Attempt,
    ) -> Result<Candidate, ImportError> {
        let merged = self.sealed().is_some() || self.is_merged(parent);
        let rules = self.schedule().rules(header.number, header.timestamp, merged);
        let beacon = self.sealed().is_none();
        header.gas_used = executed.gas_used;
        header.logs_bloom = executed.bloom;
        header.receipts_root = executed.receipts_root();
        header.transactions_root = calculate_transaction_root(
            &included.iter().map(|transaction| transaction.transaction().as_ref()).collect::<Vec<_>>(),
        );
        header.blob_gas_used = rules.has(Fork::Cancun).then_some(executed.blob_gas_used);
        header.requests_hash = (rules.has(Fork::Prague) && beacon).then(|| executed.requests.requests_hash());
        let withdrawals = rules.has(Fork::Shanghai).then(|| attributes.withdrawals.clone());
        let block =
            Block { header, body: Body { transactions: Vec::new(), ommers: Vec::new(), withdrawals } };
        let mut candidate = self.candidate(parent, block, B256::ZERO, 0, included, &executed)?;
        let state_root = candidate.layer.root();
        self.name(&mut candidate, parent, |header| header.state_root = state_root)?;
        Ok(candidate)
    }

    /// The first of these transactions after which no validators can be told although they can be told before it, and why
    /// not; `None` where they cannot be told before the first either. The contract is asked at a few places of the block,
    /// then at a few between the two where its answer turned, and so on: to ask it after each transaction would cost as much
    /// as many blocks.
    fn culprit(
        &self,
        parent: &Branch,
        header: &Header,
        transactions: &[Recovered],
    ) -> Result<Option<(usize, ValidatorsError)>, ImportError> {
        const PLACES: usize = 16;
        let fails_after = |executor: &Executor<'_, &View>| -> Result<Option<ValidatorsError>, ImportError> {
            let layer = Arc::new(parent.view.apply(&executor.changes())?);
            let view = parent.view.on(&[layer])?;
            match self.validators_after(parent.validators.as_ref(), header, &view) {
                Ok(_) => Ok(None),
                Err(ValidatorsError::State(source)) => Err(ChainError::Unreadable(source).into()),
                Err(error) => Ok(Some(error)),
            }
        };
        let env = self.environment(header);
        let snapshot = self.head().snapshot.clone();
        let hashes = |number| self.hash_of_ancestor(parent, &snapshot, number);
        let (mut good, mut bad, mut reason) = (None, transactions.len(), None);
        loop {
            let mut executor =
                Executor::new(self.schedule(), &env, &parent.view, &hashes, Some(self.codes()));
            executor.begin().map_err(|error| self.classify(header.number, B256::ZERO, error))?;
            if good.is_none() {
                if fails_after(&executor)?.is_some() {
                    return Ok(None);
                }
                good = Some(0);
            }
            let from = good.unwrap_or(0);
            let step = bad.saturating_sub(from).div_ceil(PLACES).max(1);
            for (index, transaction) in transactions.iter().enumerate().take(bad) {
                match executor.execute(transaction, None) {
                    Ok(_) => {}
                    Err(Refusal::State(source)) => return Err(ChainError::Unreadable(source).into()),
                    // They were executed in this order before.
                    Err(_) => return Ok(None),
                }
                let done = index + 1;
                if done <= from || !((done - from).is_multiple_of(step) || done == bad) {
                    continue;
                }
                match fails_after(&executor)? {
                    Some(error) => {
                        (bad, reason) = (done, Some(error));
                        break;
                    }
                    None => good = Some(done),
                }
            }
            let from = good.unwrap_or(0);
            if from >= bad {
                // The whole block has validators after it: it is not for them that it was refused.
                return Ok(None);
            }
            if let Some(reason) = reason.take_if(|_| bad - from == 1) {
                return Ok(Some((from, reason)));
            }
        }
    }

    /// The same block, sealed: `header` differs in its extra data, and there in nothing that its hash or the validators of the
    /// next block depend on.
    ///
    /// # Errors
    /// Extra data that cannot be read.
    pub fn seal(
        &self,
        mut candidate: Candidate,
        parent: &Branch,
        header: Header,
    ) -> Result<Candidate, ImportError> {
        self.name(&mut candidate, parent, |before| *before = header)?;
        Ok(candidate)
    }

    /// Changes the header of a block that was executed, and names the block by its hash.
    fn name(
        &self,
        candidate: &mut Candidate,
        parent: &Branch,
        change: impl FnOnce(&mut Header),
    ) -> Result<(), ImportError> {
        // The branch lets go of the block first, so that it is changed where it is.
        candidate.branch.recent = parent.recent.clone();
        let block = Arc::make_mut(&mut candidate.block);
        change(&mut block.sealed.header);
        block.sealed.hash = self.hash(&block.sealed.header)?;
        block.sealed.size = block.encoded_length();
        candidate.branch.sealed = Arc::new(block.sealed.clone());
        candidate.branch.recent = parent.recent.with(Arc::clone(&candidate.block));
        Ok(())
    }

    /// Whether blocks after `parent` are ordered by a beacon chain.
    pub fn is_merged(&self, parent: &Branch) -> bool {
        self.schedule()
            .terminal_total_difficulty
            .is_some_and(|terminal| parent.total_difficulty() >= terminal)
    }
}
