//! Building a block from transactions that wait.

use std::sync::Arc;
use std::time::Instant;

use alloy_consensus::Header;
use alloy_consensus::constants::{EMPTY_OMMER_ROOT_HASH, EMPTY_WITHDRAWALS};
use alloy_consensus::proofs::{calculate_transaction_root, calculate_withdrawals_root};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B64, B256, Bytes, U256};
use tally_evm::block::{next_base_fee, next_excess_blob_gas};
use tally_evm::{Block, Body, Executor, Fork, Recovered, Refusal};

use super::Chain;
use crate::branch::{Branch, Candidate};
use crate::error::ImportError;

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
    /// Why it was refused.
    pub reason: Refusal,
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
    /// Builds a block on `parent` from transactions in order, as many as fit. After a transaction that is refused, those of the
    /// same sender are left out without a word: their turn comes when its nonce is used.
    ///
    /// # Errors
    /// What failed here; transactions that cannot be applied are in [`Built::skipped`].
    pub fn build(
        &self,
        parent: &Branch,
        attributes: Attributes,
        transactions: impl IntoIterator<Item = Recovered>,
    ) -> Result<Built, ImportError> {
        let before = &parent.sealed.header;
        let number = before.number.saturating_add(1);
        let merged = self.sealed().is_some() || self.is_merged(parent);
        let rules = self.schedule().rules(number, attributes.timestamp, merged);
        let cancun = rules.has(Fork::Cancun);
        let beacon = self.sealed().is_none();
        let mut header = Header {
            parent_hash: parent.hash(),
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            beneficiary: attributes.beneficiary,
            difficulty: if self.sealed().is_some() { U256::ONE } else { U256::ZERO },
            number,
            gas_limit: attributes.gas_limit,
            timestamp: attributes.timestamp,
            extra_data: attributes.extra_data,
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
        };

        let env = self.environment(&header);
        let snapshot = self.head().snapshot.clone();
        let hashes = |number| self.hash_of_ancestor(parent, &snapshot, number);
        let classify = |error| self.classify(number, B256::ZERO, error);
        let mut executor = Executor::new(self.schedule(), &env, &parent.view, &hashes, Some(self.codes()));
        let transactions = transactions.into_iter();
        executor.reserve(transactions.size_hint().0);
        executor.begin().map_err(classify)?;
        let mut included = Vec::new();
        let mut skipped: Vec<Skipped> = Vec::new();
        let mut held_back = alloy_primitives::map::AddressMap::<()>::default();
        let mut value = U256::ZERO;
        for transaction in transactions {
            if attributes.until.is_some_and(|until| Instant::now() >= until) {
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
                    return Err(ImportError::Chain(crate::error::ChainError::Unreadable(source)));
                }
                Err(reason) => {
                    held_back.insert(transaction.sender(), ());
                    skipped.push(Skipped { hash: transaction.hash(), sender: transaction.sender(), reason });
                }
            }
        }
        let executed = executor.finish(&[], &attributes.withdrawals).map_err(classify)?;

        header.gas_used = executed.gas_used;
        header.logs_bloom = executed.bloom;
        header.receipts_root = executed.receipts_root();
        header.transactions_root = calculate_transaction_root(
            &included.iter().map(|transaction| transaction.transaction().as_ref()).collect::<Vec<_>>(),
        );
        header.blob_gas_used = cancun.then_some(executed.blob_gas_used);
        header.requests_hash = (rules.has(Fork::Prague) && beacon).then(|| executed.requests.requests_hash());
        let withdrawals = rules.has(Fork::Shanghai).then_some(attributes.withdrawals);
        let block =
            Block { header, body: Body { transactions: Vec::new(), ommers: Vec::new(), withdrawals } };
        let mut candidate = self.candidate(parent, block, B256::ZERO, 0, included, &executed)?;
        let state_root = candidate.layer.root();
        self.name(&mut candidate, parent, |header| header.state_root = state_root)?;
        Ok(Built { candidate, skipped, value })
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
