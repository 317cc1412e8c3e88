//! Drawing transactions for a block, some at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use alloy_consensus::Transaction as _;
use alloy_primitives::Address;
use alloy_primitives::map::AddressMap;

use super::{Pool, Pooled};

/// How far a block has drawn from the pool: what it was given is not given to it again.
#[derive(Debug)]
pub struct Draw {
    base_fee: u128,
    /// For each sender the nonce after the last that was given.
    next: AddressMap<u64>,
}

impl Draw {
    /// Nothing drawn yet, for a block with this base fee, in wei.
    pub fn new(base_fee: u128) -> Self {
        Self { base_fee, next: AddressMap::default() }
    }
}

impl Pool {
    /// The next transactions for a block, best first, at most so many; none when there are no more. How much gas they may use
    /// says nothing of how much they will: the caller executes them in this order until the block is full, and leaves out
    /// the rest of a sender once one of its transactions fails to apply.
    pub fn draw(&self, draw: &mut Draw, most: usize) -> Vec<Arc<Pooled>> {
        struct Next<'a, I> {
            sender: &'a Address,
            first: &'a Arc<Pooled>,
            rest: I,
        }
        let base_fee = draw.base_fee;
        let mut heads = Vec::with_capacity(self.senders.len());
        let mut heap = BinaryHeap::with_capacity(self.senders.len());
        let key = |pooled: &Pooled, at: usize| {
            pooled.price().effective_tip(base_fee).map(|tip| (tip, Reverse(pooled.arrival), at))
        };
        for (sender, queue) in &self.senders {
            let mut rest = queue.pending_from(draw.next.get(sender).copied().unwrap_or(0));
            if let Some(first) = rest.next()
                && let Some(place) = key(first, heads.len())
            {
                heap.push(place);
                heads.push(Next { sender, first, rest });
            }
        }
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((_, _, at)) = heap.pop()
        {
            let Some(next) = heads.get_mut(at) else { continue };
            draw.next.insert(*next.sender, next.first.transaction.nonce().saturating_add(1));
            taken.push(Arc::clone(next.first));
            if let Some(following) = next.rest.next() {
                next.first = following;
                if let Some(place) = key(following, at) {
                    heap.push(place);
                }
            }
        }
        taken
    }
}
