//! Transactions that are on their way to the disk, and those that were of use lately.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tally_contracts::{Attachment, AttachmentId, SignedTransaction, TransactionId};
use tally_flows::{AttachmentPart, FlowId};

/// Memory for transactions that the store has as well: some thousands, which is what is asked for again soon. Four times
/// as much took twice the node's memory and no less time.
const CACHE_BYTES: usize = 8 << 20;

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
    /// Parts of attachments, by [`part_key`].
    parts: HashMap<TransactionId, Arc<[u8]>>,
    attached: HashMap<AttachmentId, Attachment>,
}

impl OfFlow {
    fn is_empty(&self) -> bool {
        self.recorded.is_empty() && self.kept.is_empty() && self.parts.is_empty() && self.attached.is_empty()
    }
}

/// What the store calls a part of an attachment, among what a flow keeps: nothing else hashes to the same.
pub(crate) fn part_key(attachment: AttachmentId, number: u32) -> TransactionId {
    let mut name = [0; 36];
    name[..32].copy_from_slice(attachment.as_bytes());
    name[32..].copy_from_slice(&number.to_le_bytes());
    TransactionId::from_hash(tally_crypto::keyed(b"tallystick node attachment part\0", &name))
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

    /// A part of an attachment that this flow keeps.
    pub(crate) fn part(&self, flow: FlowId, key: &TransactionId) -> Option<Arc<[u8]>> {
        self.of_flow.get(&flow).and_then(|own| own.parts.get(key)).cloned()
    }

    /// An attachment that this flow has put together. Others see it when it is durable: what they record must not be
    /// durable before it.
    pub(crate) fn attachment(&self, flow: FlowId, id: &AttachmentId) -> Option<Attachment> {
        self.of_flow.get(&flow).and_then(|own| own.attached.get(id)).cloned()
    }

    pub(crate) fn keep_part(&mut self, flow: FlowId, part: &AttachmentPart) {
        let key = part_key(part.attachment, part.number);
        self.of_flow.entry(flow).or_default().parts.insert(key, part.bytes.clone());
    }

    pub(crate) fn attach(&mut self, flow: FlowId, attachment: Attachment) {
        self.of_flow.entry(flow).or_default().attached.insert(attachment.id(), attachment);
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
        self.withdraw(&id);
        self.cache(transaction);
    }

    /// The unit that records a transaction is not on its way any more.
    pub(crate) fn withdraw(&mut self, id: &TransactionId) {
        if let Some(slot) = self.submitted.get_mut(id) {
            slot.1 -= 1;
            if slot.1 == 0 {
                self.submitted.remove(id);
            }
        }
    }

    /// A kept transaction or part of an attachment is durable.
    pub(crate) fn kept_durably(&mut self, flow: FlowId, id: &TransactionId) {
        if let Some(own) = self.of_flow.get_mut(&flow) {
            own.kept.remove(id);
            own.parts.remove(id);
        }
    }

    /// An attachment is durable.
    pub(crate) fn attached_durably(&mut self, flow: FlowId, id: &AttachmentId) {
        if let Some(own) = self.of_flow.get_mut(&flow) {
            own.attached.remove(id);
        }
    }

    /// A flow has ended.
    pub(crate) fn end(&mut self, flow: FlowId) {
        self.of_flow.remove(&flow);
    }

    /// The flow has nothing on its way.
    pub(crate) fn tidy(&mut self, flow: FlowId) {
        if self.of_flow.get(&flow).is_some_and(OfFlow::is_empty) {
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
