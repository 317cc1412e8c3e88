//! Transactions that are on their way to the disk, and those that were of use lately.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tally_contracts::{SignedTransaction, TransactionId};
use tally_flows::FlowId;

/// Memory for transactions that the store has as well.
const CACHE_BYTES: usize = 32 << 20;

/// A flow sees what it recorded or kept from then on; everybody sees what was recorded once the unit that records it
/// has been submitted, since whatever builds on it is submitted later and cannot become durable without it.
#[derive(Default)]
pub(crate) struct Recent {
    of_flow: HashMap<FlowId, OfFlow>,
    submitted: HashMap<TransactionId, (Arc<SignedTransaction>, usize)>,
    cache: HashMap<TransactionId, Arc<SignedTransaction>>,
    order: VecDeque<(TransactionId, usize)>,
    bytes: usize,
}

#[derive(Default)]
struct OfFlow {
    recorded: HashMap<TransactionId, Arc<SignedTransaction>>,
    kept: HashMap<TransactionId, Arc<SignedTransaction>>,
}

impl Recent {
    /// A verified transaction, as this flow may see it.
    pub(crate) fn verified(
        &self,
        flow: Option<FlowId>,
        id: &TransactionId,
    ) -> Option<Arc<SignedTransaction>> {
        flow.and_then(|flow| self.of_flow.get(&flow))
            .and_then(|own| own.recorded.get(id))
            .or_else(|| self.submitted.get(id).map(|(transaction, _)| transaction))
            .or_else(|| self.cache.get(id))
            .cloned()
    }

    /// A transaction that this flow keeps unverified.
    pub(crate) fn kept(&self, flow: FlowId, id: &TransactionId) -> Option<Arc<SignedTransaction>> {
        self.of_flow.get(&flow).and_then(|own| own.kept.get(id)).cloned()
    }

    pub(crate) fn record(&mut self, flow: FlowId, transaction: Arc<SignedTransaction>) {
        self.of_flow.entry(flow).or_default().recorded.insert(transaction.id(), transaction);
    }

    pub(crate) fn keep(&mut self, flow: FlowId, transaction: Arc<SignedTransaction>) {
        self.of_flow.entry(flow).or_default().kept.insert(transaction.id(), transaction);
    }

    /// The unit that records a transaction has been submitted.
    pub(crate) fn submit(&mut self, transaction: &Arc<SignedTransaction>) {
        let slot = self.submitted.entry(transaction.id()).or_insert_with(|| (transaction.clone(), 0));
        slot.1 += 1;
    }

    /// A recorded transaction is durable.
    pub(crate) fn recorded(&mut self, flow: FlowId, transaction: Arc<SignedTransaction>) {
        let id = transaction.id();
        if let Some(own) = self.of_flow.get_mut(&flow) {
            own.recorded.remove(&id);
            own.kept.remove(&id);
        }
        if let Some(slot) = self.submitted.get_mut(&id) {
            slot.1 -= 1;
            if slot.1 == 0 {
                self.submitted.remove(&id);
            }
        }
        self.cache(transaction);
    }

    /// A kept transaction is durable.
    pub(crate) fn kept_durably(&mut self, flow: FlowId, id: &TransactionId) {
        if let Some(own) = self.of_flow.get_mut(&flow) {
            own.kept.remove(id);
        }
    }

    /// A flow has ended.
    pub(crate) fn end(&mut self, flow: FlowId) {
        self.of_flow.remove(&flow);
    }

    /// The flow has nothing on its way.
    pub(crate) fn tidy(&mut self, flow: FlowId) {
        if self.of_flow.get(&flow).is_some_and(|own| own.recorded.is_empty() && own.kept.is_empty()) {
            self.of_flow.remove(&flow);
        }
    }

    /// Remembers a transaction that the store has.
    pub(crate) fn cache(&mut self, transaction: Arc<SignedTransaction>) {
        // A transaction in memory takes about twice its encoding, and some hundred bytes.
        let bytes = transaction.transaction().encode().len() * 2 + 512;
        let id = transaction.id();
        if bytes > CACHE_BYTES / 16 || self.cache.insert(id, transaction).is_some() {
            return;
        }
        self.order.push_back((id, bytes));
        self.bytes += bytes;
        while self.bytes > CACHE_BYTES {
            let Some((oldest, freed)) = self.order.pop_front() else { break };
            self.cache.remove(&oldest);
            self.bytes -= freed;
        }
    }
}
