//! Blocks that were read or added lately, decoded.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::map::HashMap;

use crate::blocks::FullBlock;

/// Blocks by number up to a bound of bytes; the one that was used least lately goes first.
#[derive(Debug)]
pub(crate) struct RecentBlocks {
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    blocks: HashMap<u64, (Arc<FullBlock>, bool)>,
    /// The clock of second chances: a block that was used since it came round goes round again.
    order: VecDeque<u64>,
    bytes: usize,
}

impl RecentBlocks {
    /// Keeps up to `limit` bytes, and always the block that was added last.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, kept: Mutex::default() }
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<FullBlock>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (block, used) = kept.blocks.get_mut(&number)?;
        *used = true;
        Some(Arc::clone(block))
    }

    pub(crate) fn put(&self, block: Arc<FullBlock>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        let number = block.number();
        kept.bytes += block.memory_bytes();
        match kept.blocks.insert(number, (block, false)) {
            Some((old, _)) => kept.bytes -= old.memory_bytes(),
            None => kept.order.push_back(number),
        }
        while kept.bytes > self.limit && kept.order.len() > 1 {
            let Some(oldest) = kept.order.pop_front() else { break };
            match kept.blocks.get_mut(&oldest) {
                Some((_, used)) if *used || oldest == number => {
                    *used = false;
                    kept.order.push_back(oldest);
                }
                Some(_) => {
                    if let Some((gone, _)) = kept.blocks.remove(&oldest) {
                        kept.bytes -= gone.memory_bytes();
                    }
                }
                None => {}
            }
        }
    }

    /// A block is no longer of the chain.
    pub(crate) fn remove(&self, number: u64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((gone, _)) = kept.blocks.remove(&number) {
            kept.bytes -= gone.memory_bytes();
            kept.order.retain(|kept| *kept != number);
        }
    }
}
