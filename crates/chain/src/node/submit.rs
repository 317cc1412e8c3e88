//! Transactions from this node's own users.

use std::sync::Arc;
use std::sync::mpsc::channel;

use alloy_primitives::{Address, B256, Bytes};
use tally_evm::transaction::decode_pooled;
use tally_evm::{Recovered, Transaction, TransactionError, recover};
use tally_state::{Batch, Durability, Error as StateError, Read, StoreError};

use super::{Node, gossip, keeper, now_ms};
use crate::pool::{Fate, Pooled, Refusal};

/// Why a transaction was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// It is not well formed, not signed, or not for the fork in force.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The pool refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Blobs travel with a beacon chain, which a chain of validators has not.
    #[error("blob transactions are not carried by a chain of known validators")]
    Blobs,
    /// The rules for accounts do not permit its sender.
    #[error("sender {0} is not permitted to send transactions")]
    NotPermitted(Address),
    /// It could not be made durable.
    #[error("the transaction could not be kept: {0}")]
    Store(#[from] StoreError),
    /// The state could not be read.
    #[error("the sender's account could not be read: {0}")]
    State(#[from] StateError),
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

impl Node {
    /// Takes a signed transaction as it is submitted, and returns when it is durable and on its way to peers.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn submit(&self, encoded: &[u8]) -> Result<B256, SubmitError> {
        let pooled = decode_pooled(encoded)?;
        if matches!(pooled.transaction, Transaction::Eip4844(_)) && self.chain().sealed().is_some() {
            return Err(SubmitError::Blobs);
        }
        let hash = *pooled.transaction.tx_hash();
        if self.pool().get(&hash).is_some() {
            return Err(Refusal::Known.into());
        }
        let added = self.accept(recover(pooled.transaction)?)?;
        let encoded: Bytes = added.encode();
        let (done, durable) = channel();
        let kept = keeper::Told::Keep { hash, encoded: encoded.clone(), done };
        self.shared.keeper.send(kept).map_err(|_| SubmitError::Stopping)?;
        match durable.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                self.pool().remove(&hash, Fate::Invalid { reason: format!("could not be kept: {error}") });
                return Err(error.into());
            }
            Err(_) => return Err(SubmitError::Stopping),
        }
        let _ = self.shared.gossip.send(gossip::Told::Own { encoded });
        Ok(hash)
    }

    /// Takes a transaction out of the pool because the operator says so, and gives whether it was there. It is not taken
    /// from peers again as long as the pool remembers its fate.
    pub fn drop_from_pool(&self, hash: B256) -> bool {
        let was_there = self.pool().remove(&hash, Fate::Dropped).is_some();
        if was_there {
            let _ = self.shared.keeper.send(keeper::Told::Forget(hash));
        }
        was_there
    }

    /// Writes a few bytes to the store, durably.
    ///
    /// # Errors
    /// What the store says; blocks and transactions fare the same.
    pub fn check_store(&self) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.put(self.shared.consensus_table, b"checked", now_ms().to_be_bytes());
        self.chain().database().commit(batch, Durability::Synced)
    }

    /// Puts a transaction into the pool, over the state of the newest block.
    pub(super) fn accept(&self, transaction: Recovered) -> Result<Arc<Pooled>, SubmitError> {
        let sender = transaction.sender();
        if !self.shared.permissions.permits_account(&sender) {
            return Err(SubmitError::NotPermitted(sender));
        }
        let head = self.chain().head();
        let header = &head.sealed().header;
        let merged = self.chain().sealed().is_some() || self.chain().is_merged(&head.branch);
        let rules = self.chain().schedule().rules(header.number.saturating_add(1), header.timestamp, merged);
        transaction.check(&rules)?;
        // The head is read under the pool's lock, so that a block that is committed meanwhile takes the transaction out
        // again if it must.
        let mut pool = self.pool();
        let account = self.chain().head().branch.view.account(sender)?.unwrap_or_default();
        let first = pool.is_empty();
        let added = pool.add(transaction, &account, now_ms())?;
        drop(pool);
        let _ = self.shared.pending.send(added.transaction.transaction().hash());
        if first {
            let _ = self.shared.driver.send(super::driver::Told::Transactions);
        }
        Ok(added.transaction)
    }
}
