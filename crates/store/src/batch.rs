//! A batch, sorted by table and freed of what it takes back itself.
//!
//! A flow that ends in a batch leaves none of the parts that the same batch gave it, and of several
//! acknowledgements of a queue only the last matters. What is left can be written table by table,
//! with one statement each, in any order of the rows of a table.

mod part;
#[cfg(test)]
mod tests;

pub(crate) use part::{Kind, Part, PartKey};

use crate::row::state_ref_bytes;
use crate::write::{Consent, FlowKey, Mark, NewFlow, QueueKey, Recorded, Unresolved, Write};
use crate::{Result, StoreError};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use tally_contracts::{AttachmentId, Name, StateRef, Timestamp, TransactionId};

/// Bits of the number in the key of an outbound message; the peer is above them.
pub(crate) const NUMBER_BITS: u32 = 44;
/// Bits of the index in the key of a state; the transaction's number is above them.
pub(crate) const INDEX_BITS: u32 = 20;

/// An outcome and when it came out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ending<'a> {
    pub(crate) outcome: &'a [u8],
    pub(crate) at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Message<'a> {
    pub(crate) peer: &'a Name,
    pub(crate) number: u64,
    pub(crate) message: &'a [u8],
}

impl std::fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.peer, self.number)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spent<'a> {
    pub(crate) state: StateRef,
    pub(crate) by: TransactionId,
    pub(crate) requester: &'a Name,
    pub(crate) at: Timestamp,
}

/// What a batch leaves to write, by table. Apply in the order of the fields.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Batch<'a> {
    /// Flows that begin, with their outcome if they also end.
    pub(crate) begun: Vec<(&'a NewFlow, Option<Ending<'a>>)>,
    /// Flows that began in a batch before and end.
    pub(crate) ended: Vec<(FlowKey, Ending<'a>)>,
    pub(crate) marked: Vec<(FlowKey, &'a Mark)>,
    /// Sorted by flow.
    pub(crate) parts: Vec<Part<'a>>,
    /// Parts to remove: locks given free.
    pub(crate) removed: Vec<(FlowKey, PartKey)>,
    /// The queues' new name, if they all begin anew.
    pub(crate) renewed: Option<QueueKey>,
    pub(crate) standing: Option<(&'a [u8], Option<&'a str>)>,
    pub(crate) acquainted: Vec<(&'a Name, &'a [u8], Option<QueueKey>)>,
    pub(crate) anew: Vec<(&'a Name, QueueKey)>,
    pub(crate) messages: Vec<Message<'a>>,
    pub(crate) acknowledged: Vec<(&'a Name, u64)>,
    pub(crate) received: Vec<(&'a Name, QueueKey, u64)>,
    pub(crate) transactions: Vec<&'a Recorded>,
    pub(crate) elsewhere: Vec<(StateRef, TransactionId, Timestamp)>,
    pub(crate) attachments: Vec<(AttachmentId, &'a [u8])>,
    /// States that are set aside, each with the transaction that consumed it elsewhere. After `transactions`.
    pub(crate) lost: Vec<(StateRef, TransactionId)>,
    pub(crate) consents: Vec<&'a Consent>,
    /// Sorted by state.
    pub(crate) spent: Vec<Spent<'a>>,
    /// The mark of a restored backup goes.
    pub(crate) recovered: bool,
    /// Sorted by party and transaction; `None` where it has been delivered.
    pub(crate) undelivered: Vec<(&'a Name, TransactionId, Option<Attempt<'a>>)>,
    /// Sorted by transaction; `None` where it is known.
    pub(crate) unresolved: Vec<(TransactionId, Option<&'a Unresolved>)>,
}

/// When something was tried, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Attempt<'a> {
    pub(crate) at: Timestamp,
    pub(crate) reason: &'a str,
}

/// What becomes of a flow in this batch.
#[derive(Default)]
struct Fate<'a> {
    begun: Option<&'a NewFlow>,
    ending: Option<Ending<'a>>,
    mark: Option<&'a Mark>,
}

impl<'a> Fate<'a> {
    fn begin(&mut self, flow: &'a NewFlow) -> Result<()> {
        match self.begun {
            Some(before) if before != flow => Err(conflict(&flow.flow)),
            _ => {
                self.begun = Some(flow);
                Ok(())
            }
        }
    }

    fn end(&mut self, flow: &FlowKey, ending: Ending<'a>) -> Result<()> {
        match self.ending {
            Some(before) if before.outcome != ending.outcome => Err(conflict(flow)),
            _ => {
                self.ending = Some(ending);
                Ok(())
            }
        }
    }
}

fn conflict(flow: &FlowKey) -> StoreError {
    StoreError::Conflict { table: "flow", key: crate::row::hex(flow) }
}

impl<'a> Batch<'a> {
    pub(crate) fn new(writes: &'a [Write]) -> Result<Self> {
        let mut batch = Self::default();
        // Flows in the order of their first write, so that one seed writes one database.
        let mut order: Vec<FlowKey> = Vec::new();
        let mut fates: HashMap<FlowKey, Fate<'a>> = HashMap::new();
        let mut locks: HashMap<(FlowKey, StateRef), bool> = HashMap::new();
        let mut acknowledged: HashMap<&'a Name, u64> = HashMap::new();
        let mut received: HashMap<(&'a Name, QueueKey), u64> = HashMap::new();
        let mut undelivered: BTreeMap<(&'a Name, TransactionId), Option<Attempt<'a>>> = BTreeMap::new();
        let mut unresolved: BTreeMap<TransactionId, Option<&'a Unresolved>> = BTreeMap::new();
        let mut fate = |flow: &FlowKey, change: &mut dyn FnMut(&mut Fate<'a>) -> Result<()>| {
            change(match fates.entry(*flow) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    order.push(*flow);
                    entry.insert(Fate::default())
                }
            })
        };
        for write in writes {
            match write {
                Write::FlowStarted(flow) => fate(&flow.flow, &mut |fate| fate.begin(flow))?,
                Write::FlowEndedAtOnce { flow, outcome, at } => fate(&flow.flow, &mut |fate| {
                    fate.begin(flow)?;
                    fate.end(&flow.flow, Ending { outcome, at: *at })
                })?,
                Write::FlowEnded { flow, outcome, at } => {
                    fate(flow, &mut |fate| fate.end(flow, Ending { outcome, at: *at }))?;
                }
                Write::FlowMarked { flow, mark } => fate(flow, &mut |fate| {
                    fate.mark = Some(mark);
                    Ok(())
                })?,
                Write::Steps { flow, unit, entries } => {
                    batch.parts.push(Part { flow: *flow, key: PartKey::step(*unit), bytes: entries });
                }
                Write::Arrival { flow, session, number, message } => {
                    let key = PartKey::arrival(session, *number);
                    batch.parts.push(Part { flow: *flow, key, bytes: message });
                }
                Write::Dependency { flow, id, bytes } => {
                    batch.parts.push(Part { flow: *flow, key: PartKey::dependency(id), bytes });
                }
                Write::Lock { flow, states } => {
                    locks.extend(states.iter().map(|state| ((*flow, *state), true)));
                }
                Write::Unlock { flow, states } => {
                    locks.extend(states.iter().map(|state| ((*flow, *state), false)));
                }
                Write::Send { peer, number, message } => {
                    let limit = (1 << NUMBER_BITS) - 1;
                    if *number > limit {
                        let what = "the number of a message";
                        return Err(StoreError::Range { what, value: *number, limit });
                    }
                    batch.messages.push(Message { peer, number: *number, message });
                }
                Write::Acknowledged { peer, up_to } => raise(acknowledged.entry(peer), *up_to),
                Write::Received { peer, queue, up_to } => raise(received.entry((peer, *queue)), *up_to),
                Write::Standing { standing, recovery } => {
                    batch.standing = Some((standing, recovery.as_deref()));
                }
                Write::Renewed { own } => batch.renewed = Some(*own),
                Write::Acquainted { peer, standing, only } => {
                    let before = batch.acquainted.iter().position(|(known, ..)| *known == peer);
                    let before = before.map(|place| batch.acquainted.remove(place));
                    let only = only.or(before.and_then(|(.., only)| only));
                    batch.acquainted.push((peer, standing, only));
                }
                Write::QueueAnew { peer, queue } => {
                    batch.anew.retain(|(known, _)| *known != peer);
                    batch.anew.push((peer, *queue));
                }
                Write::ConsumedElsewhere { state, by, at } => batch.elsewhere.push((*state, *by, *at)),
                Write::Transaction(transaction) => batch.transactions.push(transaction),
                Write::Attachment { id, bytes } => batch.attachments.push((*id, bytes)),
                Write::Lost { state, by } => batch.lost.push((*state, *by)),
                Write::Consented(consent) => batch.consents.push(consent),
                Write::Consumed { state, by, requester, at } => {
                    batch.spent.push(Spent { state: *state, by: *by, requester, at: *at });
                }
                Write::Recovered => batch.recovered = true,
                Write::Undelivered { transaction, party, at, reason } => {
                    undelivered.insert((party, *transaction), Some(Attempt { at: *at, reason }));
                }
                Write::Delivered { transaction, party } => {
                    undelivered.insert((party, *transaction), None);
                }
                Write::Unresolved(row) => {
                    unresolved.insert(row.transaction, Some(row));
                }
                Write::Resolved(transaction) => {
                    unresolved.insert(*transaction, None);
                }
            }
        }
        batch
            .messages
            .retain(|message| acknowledged.get(message.peer).is_none_or(|up_to| message.number > *up_to));
        for ((flow, state), locked) in locks {
            let key = PartKey::lock(&state);
            if locked {
                batch.parts.push(Part { flow, key, bytes: &[] });
            } else {
                batch.removed.push((flow, key));
            }
        }
        let ends = |flow: &FlowKey| fates.get(flow).is_some_and(|fate| fate.ending.is_some());
        batch.parts.retain(|part| !ends(&part.flow));
        batch.removed.retain(|(flow, _)| !ends(flow));
        batch.parts.sort_by(|a, b| (a.flow, &a.key).cmp(&(b.flow, &b.key)));
        batch.removed.sort();
        for pair in batch.parts.windows(2) {
            let [a, b] = pair else { continue };
            if (a.flow, a.key) == (b.flow, b.key) && a.bytes != b.bytes && a.key.kind.is_fixed() {
                return Err(StoreError::Conflict { table: "part", key: a.to_string() });
            }
        }
        batch.messages.sort_by_key(|message| (message.peer, message.number));
        for pair in batch.messages.windows(2) {
            let [a, b] = pair else { continue };
            if (a.peer, a.number) == (b.peer, b.number) && a.message != b.message {
                return Err(StoreError::Conflict { table: "outbound", key: a.to_string() });
            }
        }
        batch.spent.sort_by_key(|spent| state_ref_bytes(&spent.state));
        for pair in batch.spent.windows(2) {
            let [a, b] = pair else { continue };
            if a.state == b.state && a.by != b.by {
                return Err(StoreError::Twice { state: a.state, by: a.by, again: b.by });
            }
        }
        batch.undelivered =
            undelivered.into_iter().map(|((party, id), attempt)| (party, id, attempt)).collect();
        batch.unresolved = unresolved.into_iter().collect();
        batch.acknowledged = acknowledged.into_iter().collect();
        batch.acknowledged.sort();
        batch.received = received.into_iter().map(|((peer, queue), up_to)| (peer, queue, up_to)).collect();
        batch.received.sort();
        for flow in order {
            let Some(Fate { begun, ending, mark }) = fates.remove(&flow) else { continue };
            match (begun, ending) {
                (Some(begun), ending) => batch.begun.push((begun, ending)),
                (None, Some(ending)) => batch.ended.push((flow, ending)),
                (None, None) => {}
            }
            if let (Some(mark), None) = (mark, ending) {
                batch.marked.push((flow, mark));
            }
        }
        Ok(batch)
    }
}

fn raise<K>(entry: Entry<'_, K, u64>, to: u64) {
    let value = entry.or_insert(to);
    *value = (*value).max(to);
}
