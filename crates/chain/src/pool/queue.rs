//! One sender's transactions, by nonce.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_consensus::Transaction as _;
use alloy_primitives::{B256, U256};

use super::Pooled;

/// A sender's transactions. Those from the account's nonce on without a gap are pending; the others wait.
#[derive(Debug)]
pub(super) struct Queue {
    state_nonce: u64,
    next_nonce: u64,
    nonces: BTreeMap<u64, Arc<Pooled>>,
    /// What all of them cost at most, in wei.
    cost: U256,
    /// The account cannot pay for the first one.
    unfunded: bool,
}

impl Queue {
    pub(super) fn new(state_nonce: u64) -> Self {
        Self {
            state_nonce,
            next_nonce: state_nonce,
            nonces: BTreeMap::new(),
            cost: U256::ZERO,
            unfunded: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.nonces.len()
    }

    pub(super) fn state_nonce(&self) -> u64 {
        self.state_nonce
    }

    /// The first nonce that is missing.
    pub(super) fn next_nonce(&self) -> u64 {
        self.next_nonce
    }

    pub(super) fn at(&self, nonce: u64) -> Option<&Arc<Pooled>> {
        self.nonces.get(&nonce)
    }

    pub(super) fn last(&self) -> Option<&Arc<Pooled>> {
        self.nonces.values().next_back()
    }

    pub(super) fn cost(&self) -> U256 {
        self.cost
    }

    /// The account has this at the head.
    pub(super) fn fund(&mut self, balance: U256) {
        self.unfunded = self.nonces.values().next().is_some_and(|first| first.cost() > balance);
    }

    /// Those that no block can take as things are.
    pub(super) fn dormant(&self) -> impl DoubleEndedIterator<Item = &Arc<Pooled>> {
        let from = if self.unfunded { 0 } else { self.next_nonce };
        self.nonces.range(from..).map(|(_, pooled)| pooled)
    }

    pub(super) fn insert(&mut self, pooled: Arc<Pooled>) {
        self.cost = self.cost.saturating_add(pooled.cost());
        self.nonces.insert(pooled.transaction().nonce(), pooled);
        self.close();
    }

    pub(super) fn remove(&mut self, nonce: u64) {
        if let Some(removed) = self.nonces.remove(&nonce) {
            // Costs that were cut off at the largest number are of nobody who has any funds to count.
            self.cost = self.cost.saturating_sub(removed.cost());
        }
        self.next_nonce = self.next_nonce.min(nonce.max(self.state_nonce));
    }

    /// The account's nonce at the head is now this.
    pub(super) fn advance(&mut self, state_nonce: u64) {
        if state_nonce != self.state_nonce {
            self.state_nonce = state_nonce;
            self.next_nonce = state_nonce;
            self.close();
        }
    }

    fn close(&mut self) {
        while self.nonces.contains_key(&self.next_nonce) {
            self.next_nonce += 1;
        }
    }

    pub(super) fn below(&self, nonce: u64) -> Vec<B256> {
        self.nonces.range(..nonce).map(|(_, pooled)| pooled.hash()).collect()
    }

    /// Those that a block could take, from this nonce on.
    pub(super) fn pending_from(&self, nonce: u64) -> impl Iterator<Item = &Arc<Pooled>> {
        let first = nonce.max(self.state_nonce).min(self.next_nonce);
        self.nonces.range(first..self.next_nonce).map(|(_, pooled)| pooled)
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = &Arc<Pooled>> {
        self.nonces.range(self.state_nonce..self.next_nonce).map(|(_, pooled)| pooled)
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Arc<Pooled>> {
        self.nonces.range(self.next_nonce..).map(|(_, pooled)| pooled)
    }

    pub(super) fn gapped(&self) -> usize {
        self.waiting().count()
    }

    pub(super) fn split(&self) -> (Vec<Arc<Pooled>>, Vec<Arc<Pooled>>) {
        (self.pending().cloned().collect(), self.waiting().cloned().collect())
    }
}
