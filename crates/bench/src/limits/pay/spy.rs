//! A store that keeps what it was asked to write.

use std::sync::{Mutex, PoisonError};

use tally_contracts::{AttachmentId, Name, PublicKey, StateRef, Timestamp, TransactionId};
use tally_store::{
    Coin, CoinCursor, Consent, Consumption, FlowKey, FlowPage, FlowQuery, FlowRow, Outstanding, Past, Queues,
    Result, SavedFlow, Sqlite, StatePage, StateQuery, Store, Undelivered, UndeliveredQuery, UnresolvedRow,
    Usage, VaultState, Write,
};

/// A store beside which its batches are kept, in order.
pub(super) struct Spy {
    store: Sqlite,
    batches: Mutex<Vec<Vec<Write>>>,
}

impl Spy {
    pub(super) fn new(store: Sqlite) -> Self {
        Self { store, batches: Mutex::default() }
    }

    /// The batches since the last time.
    pub(super) fn take(&self) -> Vec<Vec<Write>> {
        std::mem::take(&mut *self.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for Spy {
    fn apply(&self, writes: &[Write]) -> Result<()> {
        self.store.apply(writes)?;
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push(writes.to_vec());
        Ok(())
    }

    fn unfinished_flows(&self, after: Option<FlowKey>, limit: usize) -> Result<Vec<SavedFlow>> {
        self.store.unfinished_flows(after, limit)
    }

    fn flow(&self, flow: FlowKey) -> Result<Option<FlowRow>> {
        self.store.flow(flow)
    }

    fn flows(&self, query: &FlowQuery) -> Result<FlowPage> {
        self.store.flows(query)
    }

    fn outbound(&self, peer: &Name, after: u64, limit_bytes: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        self.store.outbound(peer, after, limit_bytes)
    }

    fn queues(&self) -> Result<Queues> {
        self.store.queues()
    }

    fn past(&self) -> Result<Past> {
        self.store.past()
    }

    fn ledger(&self, after: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        self.store.ledger(after, limit)
    }

    fn transaction(&self, id: TransactionId) -> Result<Option<Vec<u8>>> {
        self.store.transaction(id)
    }

    fn transactions(&self, ids: &[TransactionId]) -> Result<Vec<Option<Vec<u8>>>> {
        self.store.transactions(ids)
    }

    fn dependency(&self, flow: FlowKey, id: TransactionId) -> Result<Option<Vec<u8>>> {
        self.store.dependency(flow, id)
    }

    fn dependencies(
        &self,
        flow: FlowKey,
        after: Option<TransactionId>,
        limit: usize,
    ) -> Result<Vec<(TransactionId, Vec<u8>)>> {
        self.store.dependencies(flow, after, limit)
    }

    fn states(&self, query: &StateQuery) -> Result<StatePage> {
        self.store.states(query)
    }

    fn vault(&self, references: &[StateRef]) -> Result<Vec<Option<VaultState>>> {
        self.store.vault(references)
    }

    fn coins(
        &self,
        asset: &str,
        owner: &PublicKey,
        after: Option<CoinCursor>,
        limit: usize,
    ) -> Result<Vec<Coin>> {
        self.store.coins(asset, owner, after, limit)
    }

    fn locks(&self) -> Result<Vec<(StateRef, FlowKey)>> {
        self.store.locks()
    }

    fn attachment(&self, id: AttachmentId) -> Result<Option<Vec<u8>>> {
        self.store.attachment(id)
    }

    fn consumed(&self, states: &[StateRef]) -> Result<Vec<Option<Consumption>>> {
        self.store.consumed(states)
    }

    fn consents(&self, since: Timestamp) -> Result<Vec<Consent>> {
        self.store.consents(since)
    }

    fn undelivered(&self, query: &UndeliveredQuery) -> Result<Vec<Undelivered>> {
        self.store.undelivered(query)
    }

    fn unresolved(
        &self,
        transaction: Option<TransactionId>,
        due_by: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<UnresolvedRow>> {
        self.store.unresolved(transaction, due_by, limit)
    }

    fn outstanding(&self) -> Result<Outstanding> {
        self.store.outstanding()
    }

    fn usage(&self) -> Usage {
        self.store.usage()
    }
}
