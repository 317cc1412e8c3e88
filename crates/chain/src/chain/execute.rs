//! Executing blocks over the state after their parents.

use std::sync::Arc;

use alloy_primitives::{Address, B256};
use tally_evm::block::{
    Ancestor, Sealing, validate_body, validate_execution, validate_header, validate_ommers,
    validate_state_root,
};
use tally_evm::execute::Contents;
use tally_evm::{Block, BlockError, Env, Executed, Recovered, execute, recover_all};
use tally_state::{Changes, Snapshot, View};

use super::Chain;
use crate::blocks::{Blocks, FullBlock, ReadError, receipts};
use crate::branch::{Branch, Candidate};
use crate::error::{ChainError, ImportError};
use crate::sealed::{Seals, Validators, ValidatorsError};

/// How many ancestors the rules for ommers look at.
const OMMER_REACH: u64 = 7;

/// A block whose body is that of its header, and whose senders are known.
#[derive(Debug)]
pub struct Prepared {
    /// Its transactions are beside it.
    block: Block,
    hash: B256,
    size: u64,
    transactions: Vec<Recovered>,
}

impl Prepared {
    /// The block's hash.
    pub fn hash(&self) -> B256 {
        self.hash
    }

    /// How many transactions it has.
    pub fn transactions(&self) -> u64 {
        self.transactions.len() as u64
    }

    /// The block's header.
    pub fn header(&self) -> &alloy_consensus::Header {
        &self.block.header
    }

    /// Its transactions with who sent them.
    pub(super) fn senders(&self) -> &[Recovered] {
        &self.transactions
    }

    /// The block without its transactions, its size in bytes, and they.
    pub(super) fn into_parts(self) -> (Block, u64, Vec<Recovered>) {
        (self.block, self.size, self.transactions)
    }
}

impl Chain {
    /// The hash of a header on this chain.
    ///
    /// # Errors
    /// Extra data that cannot be read, where validators seal.
    pub fn hash(&self, header: &alloy_consensus::Header) -> Result<B256, ValidatorsError> {
        match self.sealed() {
            Some(sealed) => sealed.hash(header),
            None => Ok(header.hash_slow()),
        }
    }

    /// Checks what can be checked of a block without its parent: that its body is the one that its header stands for, and
    /// who sent its transactions. Any number of blocks can be prepared at the same time.
    ///
    /// `known` gives transactions whose senders were recovered before; `threads` recover the others.
    ///
    /// # Errors
    /// The first rule that the block breaks.
    pub fn prepare(
        &self,
        block: Block,
        size: u64,
        known: &dyn Fn(&B256) -> Option<Recovered>,
        threads: usize,
    ) -> Result<Prepared, ImportError> {
        let number = block.header.number;
        let hash = self
            .hash(&block.header)
            .map_err(|error| invalid(number, block.header.hash_slow(), BlockError::Seal(Box::new(error))))?;
        let classify = |error| self.classify(number, hash, error);
        validate_body(self.schedule(), &block, usize::try_from(size).unwrap_or(usize::MAX))
            .map_err(classify)?;
        let (block, transactions) = recover(block, known, threads).map_err(classify)?;
        Ok(Prepared { block, hash, size, transactions })
    }

    /// Executes a block on its parent and checks all that its header claims. Nothing is written.
    ///
    /// # Errors
    /// The first rule that the block breaks, or what failed here.
    pub fn execute(
        &self,
        parent: &Branch,
        prepared: Prepared,
        seals: Seals,
    ) -> Result<Candidate, ImportError> {
        let Prepared { block, hash, size, transactions } = prepared;
        let number = block.header.number;
        self.validate(parent, &block, seals).map_err(|error| self.classify(number, hash, error))?;
        self.run(parent, block, hash, size, transactions)
    }

    /// Header against parent, ommers against ancestors.
    fn validate(&self, parent: &Branch, block: &Block, seals: Seals) -> Result<(), BlockError> {
        let check = |header: &alloy_consensus::Header, before: &alloy_consensus::Header| {
            let (Some(sealed), Some(validators)) = (self.sealed(), &parent.validators) else { return Ok(()) };
            sealed.check(validators, before, header, seals).map_err(Into::into)
        };
        let sealing = match self.sealed() {
            Some(_) => Sealing::Validators(&check),
            None => Sealing::Ethereum { parent_total_difficulty: Some(parent.total_difficulty()) },
        };
        validate_header(self.schedule(), &block.header, &parent.sealed.header, parent.hash(), &sealing)?;
        if !block.body.ommers.is_empty() {
            let ancestors = self.ancestors(parent).map_err(|error| BlockError::State(Box::new(error)))?;
            validate_ommers(self.schedule(), &block.body.ommers, &ancestors)?;
        }
        Ok(())
    }

    fn run(
        &self,
        parent: &Branch,
        block: Block,
        hash: B256,
        size: u64,
        transactions: Vec<Recovered>,
    ) -> Result<Candidate, ImportError> {
        let number = block.header.number;
        let invalid = |error| self.classify(number, hash, error);
        let env = self.environment(&block.header);
        let snapshot = self.head().snapshot.clone();
        let hashes = |number| self.hash_of_ancestor(parent, &snapshot, number);
        let contents = Contents {
            transactions: &transactions,
            ommers: &block.body.ommers,
            withdrawals: block.body.withdrawals.as_deref().unwrap_or(&[]),
        };
        let mut root = |changes: &Changes| Ok(parent.view.apply(changes)?.root());
        let executed = execute(
            self.schedule(),
            &env,
            contents,
            &parent.view,
            &hashes,
            Some(self.codes()),
            Some(&mut root),
        )
        .map_err(invalid)?;
        validate_execution(&block.header, &executed).map_err(invalid)?;
        let candidate = self.candidate(parent, block, hash, size, transactions, &executed)?;
        let header = &candidate.block.sealed.header;
        validate_state_root(header, candidate.layer.root()).map_err(invalid)?;
        Ok(candidate)
    }

    /// Joins what was executed with its block.
    pub(super) fn candidate(
        &self,
        parent: &Branch,
        block: Block,
        hash: B256,
        size: u64,
        transactions: Vec<Recovered>,
        executed: &Executed,
    ) -> Result<Candidate, ImportError> {
        let layer = Arc::new(parent.view.apply(&executed.changes)?);
        let total_difficulty = parent.total_difficulty().saturating_add(block.header.difficulty);
        let full = Arc::new(Blocks::assemble(
            block,
            hash,
            total_difficulty,
            size,
            transactions,
            receipts(&executed.receipts),
        ));
        let view = parent.view.on(&[Arc::clone(&layer)])?;
        let validators = self
            .validators_after(parent.validators.as_ref(), &full.sealed.header, &view)
            .map_err(|error| self.classify_validators(full.sealed.header.number, hash, error))?;
        let branch = Branch {
            sealed: Arc::new(full.sealed.clone()),
            view,
            validators,
            recent: parent.recent.with(Arc::clone(&full)),
        };
        Ok(Candidate { block: full, layer, branch })
    }

    pub(super) fn validators_after(
        &self,
        before: Option<&Validators>,
        header: &alloy_consensus::Header,
        view: &View,
    ) -> Result<Option<Validators>, ValidatorsError> {
        let (Some(sealed), Some(before)) = (self.sealed(), before) else { return Ok(None) };
        let contract = |address| self.call_validators(view, header, address);
        sealed.after(before, header, contract).map(Some)
    }

    /// A block after which no validators can be told is invalid: no block could follow it. Who sent the transaction that
    /// made the contract fail is at fault, or who proposed the block, and never this node's store.
    fn classify_validators(&self, number: u64, hash: B256, error: ValidatorsError) -> ImportError {
        match error {
            ValidatorsError::State(source) => ImportError::Chain(ChainError::Unreadable(source)),
            error => invalid(number, hash, BlockError::Validators(Box::new(error))),
        }
    }

    /// What the block's header tells the code that runs in it.
    pub fn environment(&self, header: &alloy_consensus::Header) -> Env {
        match self.sealed() {
            Some(sealed) => sealed.environment(header),
            None => Env::of(header),
        }
    }

    pub(super) fn hash_of_ancestor(&self, parent: &Branch, snapshot: &Snapshot, number: u64) -> B256 {
        match parent.recent.get(number) {
            Some(block) => block.sealed.hash,
            None => self.shared.blocks.hash(snapshot, number).ok().flatten().unwrap_or_default(),
        }
    }

    /// The block of a branch with this number, from the branch or the tables.
    fn ancestor(
        &self,
        parent: &Branch,
        snapshot: &Snapshot,
        number: u64,
    ) -> Result<Option<Arc<FullBlock>>, ReadError> {
        match parent.recent.get(number) {
            Some(block) => Ok(Some(Arc::clone(block))),
            None => self.shared.blocks.block(snapshot, number),
        }
    }

    fn ancestors(&self, parent: &Branch) -> Result<Vec<Ancestor>, ReadError> {
        let snapshot = self.head().snapshot.clone();
        let mut ancestors = Vec::new();
        for back in 0..OMMER_REACH {
            let Some(number) = parent.number().checked_sub(back) else { break };
            let Some(block) = self.ancestor(parent, &snapshot, number)? else { break };
            ancestors.push(Ancestor {
                hash: block.sealed.hash,
                header: block.sealed.header.clone(),
                ommers: block.ommers.iter().map(alloy_consensus::Header::hash_slow).collect(),
            });
        }
        Ok(ancestors)
    }

    pub(super) fn classify(&self, number: u64, hash: B256, error: BlockError) -> ImportError {
        match error {
            BlockError::State(source) => ImportError::Chain(ChainError::Unreadable(source)),
            error => invalid(number, hash, error),
        }
    }

    /// Asks the contract of a chain for its validators, over the state after `header`.
    pub(super) fn call_validators(
        &self,
        view: &View,
        header: &alloy_consensus::Header,
        contract: Address,
    ) -> Result<Vec<Address>, ValidatorsError> {
        crate::validator_contract::call(self, view, header, contract)
    }
}

fn invalid(number: u64, hash: B256, source: BlockError) -> ImportError {
    ImportError::Invalid { number, hash, source: Box::new(source) }
}

/// Finds who sent the transactions of a block; the block keeps none.
fn recover(
    mut block: Block,
    known: &dyn Fn(&B256) -> Option<Recovered>,
    threads: usize,
) -> Result<(Block, Vec<Recovered>), BlockError> {
    let transactions = std::mem::take(&mut block.body.transactions);
    let mut found: Vec<Option<Recovered>> = Vec::with_capacity(transactions.len());
    let mut unknown = Vec::new();
    for transaction in transactions {
        let known = known(transaction.tx_hash());
        if known.is_none() {
            unknown.push(transaction);
        }
        found.push(known);
    }
    let mut recovered = recover_all(unknown, threads).into_iter();
    let all = found
        .into_iter()
        .enumerate()
        .map(|(index, known)| match known {
            Some(known) => Ok(known),
            None => recovered
                .next()
                .expect("one for each unknown transaction")
                .map_err(|source| BlockError::Transaction { index, source }),
        })
        .collect::<Result<_, _>>()?;
    Ok((block, all))
}
