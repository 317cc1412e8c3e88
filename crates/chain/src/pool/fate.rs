//! What became of transactions that the pool has let go.

use std::collections::VecDeque;
use std::fmt;

use alloy_primitives::B256;
use alloy_primitives::map::B256Map;

/// What became of a transaction that the pool had accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in a block.
    Committed {
        /// The block's number.
        block: u64,
    },
    /// Its sender replaced it.
    Replaced {
        /// The replacement.
        by: B256,
    },
    /// The pool was full, and it paid least.
    PushedOut {
        /// What paid more.
        by: B256,
    },
    /// It waited for a nonce before it, or for funds, and the pool had to make room.
    GaveWay {
        /// For what.
        to: B256,
    },
    /// The node's operator dropped it.
    Dropped,
    /// A block holds another transaction with its nonce.
    NonceUsed {
        /// The block's number.
        block: u64,
    },
    /// The transaction before it never came, or the funds for it.
    GapNeverFilled,
    /// It could not be applied when its turn came.
    Invalid {
        /// What execution said.
        reason: String,
    },
    /// After it the contract that names the validators would name none.
    NoValidators {
        /// What the contract did.
        reason: String,
        /// When it was found, in milliseconds since 1970. It is not taken again soon.
        at_ms: u64,
    },
    /// The rules for accounts no longer permit its sender.
    NotPermitted,
}

impl fmt::Display for Fate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed { block } => write!(out, "committed in block {block}"),
            Self::Replaced { by } => write!(out, "replaced by its sender's transaction {by}"),
            Self::PushedOut { by } => write!(out, "pushed out of a full pool by {by}, which pays more"),
            Self::GaveWay { to } => {
                write!(out, "made room for {to} in a full pool, since no block could take it as things were")
            }
            Self::Dropped => write!(out, "dropped by this node's operator"),
            Self::NonceUsed { block } => {
                write!(out, "block {block} holds another transaction with its nonce")
            }
            Self::GapNeverFilled => {
                write!(out, "the transaction with the nonce before it, or the funds for it, never came")
            }
            Self::Invalid { reason } => write!(out, "could not be applied: {reason}"),
            Self::NoValidators { reason, .. } => write!(out, "no block could follow one with it: {reason}"),
            Self::NotPermitted => write!(out, "its sender is no longer permitted"),
        }
    }
}

/// The fates of the last so many transactions.
#[derive(Debug)]
pub struct Fates {
    limit: usize,
    order: VecDeque<B256>,
    fates: B256Map<Fate>,
}

impl Fates {
    /// Remembers at most `limit`.
    pub fn new(limit: usize) -> Self {
        Self { limit, order: VecDeque::new(), fates: B256Map::default() }
    }

    /// What is known of this transaction.
    pub fn get(&self, hash: &B256) -> Option<&Fate> {
        self.fates.get(hash)
    }

    /// Remembers a fate, the newest if there was one before.
    pub fn keep(&mut self, hash: B256, fate: Fate) {
        if self.fates.insert(hash, fate).is_none() {
            self.order.push_back(hash);
        }
        while self.fates.len() > self.limit {
            match self.order.pop_front() {
                Some(oldest) => {
                    self.fates.remove(&oldest);
                }
                None => break,
            }
        }
        // Forgotten ones leave their place in the order behind.
        if self.order.len() > self.limit.saturating_mul(2) {
            self.order.retain(|hash| self.fates.contains_key(hash));
        }
    }

    /// The transaction is back in the pool.
    pub fn forget(&mut self, hash: &B256) {
        self.fates.remove(hash);
    }
}
