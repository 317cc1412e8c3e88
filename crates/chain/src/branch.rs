//! A block with everything that the next one is built on.

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use tally_evm::execute::Codes;
use tally_state::{Layer, View};

use crate::blocks::{FullBlock, SealedHeader};
use crate::sealed::Validators;

/// The state after a block, with the hashes of its ancestors and the validators of the next one. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Branch {
    /// The block's header.
    pub sealed: Arc<SealedHeader>,
    /// The state after the block.
    pub view: View,
    /// The validators of the next block, where validators seal.
    pub validators: Option<Validators>,
    /// The block and its ancestors, as far as the tables do not have them.
    pub(crate) recent: Recent,
}

impl Branch {
    /// The block's number.
    pub fn number(&self) -> u64 {
        self.sealed.header.number
    }

    /// The block's hash.
    pub fn hash(&self) -> B256 {
        self.sealed.hash
    }

    /// Difficulties up to and including the block.
    pub fn total_difficulty(&self) -> U256 {
        self.sealed.total_difficulty
    }
}

/// Blocks that the tables do not have, newest first, as a list that shares its tail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent(Option<Arc<Link>>);

#[derive(Debug)]
struct Link {
    block: Arc<FullBlock>,
    before: Recent,
}

impl Recent {
    pub(crate) fn with(&self, block: Arc<FullBlock>) -> Self {
        Self(Some(Arc::new(Link { block, before: self.clone() })))
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Arc<FullBlock>> {
        let mut link = self.0.as_deref()?;
        while link.block.number() > number {
            link = link.before.0.as_deref()?;
        }
        (link.block.number() == number).then_some(&link.block)
    }
}

impl Drop for Link {
    /// A long list is let go of link by link: the default would recurse.
    fn drop(&mut self) {
        let mut next = self.before.0.take();
        while let Some(link) = next {
            next = match Arc::try_unwrap(link) {
                Ok(mut link) => link.before.0.take(),
                Err(_) => None,
            };
        }
    }
}

/// A block that was executed and found right, and is not part of the chain yet.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The block with its receipts.
    pub block: Arc<FullBlock>,
    /// What it does to the state.
    pub layer: Arc<Layer>,
    /// What a block after it is built on.
    pub branch: Branch,
}

/// Codes of contracts that were analysed, shared by everything that runs code.
pub(crate) fn codes() -> Codes {
    const LIMIT_BYTES: usize = 8 << 20;
    Codes::new(LIMIT_BYTES)
}
