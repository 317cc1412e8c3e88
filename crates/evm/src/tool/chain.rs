//! A chain in memory: every block keeps its whole state.

use std::collections::HashMap;

use alloy_consensus::Header;
use alloy_primitives::{B256, U256};

use super::Memory;
use crate::block::{
    Ancestor, Block, BlockError, Sealing, validate_body, validate_execution, validate_header,
    validate_ommers, validate_state_root,
};
use crate::execute::{Contents, Env, IntermediateRoot, execute};
use crate::schedule::{Fork, Schedule};
use crate::transaction::recover_all;

/// A block and the state after it.
pub(crate) struct Imported {
    pub(crate) header: Header,
    /// Kept for the traces of tests.
    #[cfg(test)]
    pub(crate) transactions: Vec<crate::transaction::Transaction>,
    ommers: Vec<B256>,
    total_difficulty: U256,
    pub(crate) state: Memory,
}

/// Blocks with their states, side chains included, in memory.
pub(crate) struct Chain {
    pub(crate) schedule: Schedule,
    pub(crate) blocks: HashMap<B256, Imported>,
    /// The block that counts as the newest.
    pub(crate) head: B256,
}

impl Chain {
    /// A chain of its genesis block, over the state that this one has the root of.
    pub(crate) fn new(schedule: Schedule, genesis: &Block, state: Memory) -> Result<Self, BlockError> {
        let header = genesis.header.clone();
        let root = state.root();
        validate_state_root(&header, root)?;
        let head = header.hash_slow();
        let total_difficulty = header.difficulty;
        let block = Imported {
            header,
            #[cfg(test)]
            transactions: Vec::new(),
            ommers: Vec::new(),
            total_difficulty,
            state,
        };
        Ok(Self { schedule, blocks: HashMap::from([(head, block)]), head })
    }

    /// Adds an encoded block, after all checks.
    pub(crate) fn import(&mut self, bytes: &[u8]) -> Result<(), BlockError> {
        let block = Block::decode(bytes)?;
        let (state, total_difficulty) = self.check(&block, bytes.len())?;
        let header = &block.header;
        let head = &self.blocks[&self.head];
        let ahead = if header.difficulty.is_zero() {
            header.number > head.header.number
        } else {
            total_difficulty > head.total_difficulty
        };
        let hash = header.hash_slow();
        let ommers = block.body.ommers.iter().map(Header::hash_slow).collect();
        self.blocks.insert(
            hash,
            Imported {
                header: block.header,
                #[cfg(test)]
                transactions: block.body.transactions,
                ommers,
                total_difficulty,
                state,
            },
        );
        if ahead {
            self.head = hash;
        }
        Ok(())
    }

    /// What else is wrong with a block whose header tells of other transactions than those in the body.
    pub(crate) fn refusal_of_body(&self, bytes: &[u8]) -> Option<BlockError> {
        let mut block = Block::decode(bytes).ok()?;
        block.header.transactions_root = block.body.transactions_root();
        block.header.blob_gas_used = block.header.blob_gas_used.map(|_| block.body.blob_gas_used());
        self.check(&block, bytes.len()).err()
    }

    /// The state after a block, and the total difficulty up to it.
    fn check(&self, block: &Block, size: usize) -> Result<(Memory, U256), BlockError> {
        let header = &block.header;
        let parent_hash = header.parent_hash;
        let parent = self
            .blocks
            .get(&parent_hash)
            .ok_or(BlockError::Parent { expected: self.head, found: parent_hash })?;
        let sealing = Sealing::Ethereum { parent_total_difficulty: Some(parent.total_difficulty) };
        validate_header(&self.schedule, header, &parent.header, parent_hash, &sealing)?;
        validate_body(&self.schedule, block, size)?;
        if !block.body.ommers.is_empty() {
            validate_ommers(&self.schedule, &block.body.ommers, &self.ancestors(parent_hash))?;
        }
        let transactions = recover_all(block.body.transactions.clone(), 1)
            .into_iter()
            .enumerate()
            .map(|(index, recovered)| recovered.map_err(|source| BlockError::Transaction { index, source }))
            .collect::<Result<Vec<_>, _>>()?;
        let rules = self.schedule.rules_of(header);
        let mut intermediate = |changes: &tally_state::Changes| {
            let mut state = parent.state.clone();
            state.apply(changes);
            Ok(state.root())
        };
        let contents = Contents {
            transactions: &transactions,
            ommers: &block.body.ommers,
            withdrawals: block.body.withdrawals.as_deref().unwrap_or_default(),
        };
        let env = Env::of(header);
        let hashes = |number| self.hash_of(parent_hash, number);
        let root: Option<&mut IntermediateRoot<'_>> =
            if rules.has(Fork::Byzantium) { None } else { Some(&mut intermediate) };
        let executed = execute(&self.schedule, &env, contents, &parent.state, &hashes, None, root)?;
        validate_execution(header, &executed)?;
        let mut state = parent.state.clone();
        state.apply(&executed.changes);
        validate_state_root(header, state.root())?;

        let total_difficulty = parent.total_difficulty.saturating_add(header.difficulty);
        Ok((state, total_difficulty))
    }

    fn ancestors(&self, mut hash: B256) -> Vec<Ancestor> {
        let mut ancestors = Vec::new();
        while ancestors.len() < 7
            && let Some(block) = self.blocks.get(&hash)
        {
            ancestors.push(Ancestor { hash, header: block.header.clone(), ommers: block.ommers.clone() });
            hash = block.header.parent_hash;
        }
        ancestors
    }

    /// The hash of the block with this number before a child of `hash`.
    pub(crate) fn hash_of(&self, mut hash: B256, number: u64) -> B256 {
        while let Some(block) = self.blocks.get(&hash) {
            if block.header.number == number {
                return hash;
            }
            hash = block.header.parent_hash;
        }
        B256::ZERO
    }
}
