//! A store in memory, as naive as it can be: what it is compared with, and what makes a seed quick.

mod tables;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tally_contracts::{AttachmentId, Name, PublicKey, StateRef, Timestamp, TransactionId};
use tally_store::{
    Coin, CoinCursor, Consent, Consumption, FlowKey, FlowPage, FlowQuery, FlowRow, FlowStatus, Outbound,
    Outstanding, Past, QueueKey, Queues, Result, SavedArrival, SavedFlow, StatePage, StateQuery, Store,
    Undelivered, UndeliveredQuery, UnresolvedRow, Usage, VaultState, Write,
};

use tables::{Flow, INDEX_BITS, Tables, cursor, missing, page_size, parsed, place_of};

/// A store in memory. It outlives the node that uses it, as a disk does.
pub struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    tables: Tables,
    /// What the tables were made from, so that a batch that is refused half way leaves nothing.
    begun: Tables,
    applied: Vec<Vec<Write>>,
    usage: Usage,
}

impl Memory {
    /// An empty store whose outbound queues have this name.
    #[must_use]
    pub fn new(queue: QueueKey) -> Self {
        let tables = Tables { queue, ..Tables::default() };
        let usage = Usage::default();
        Self { inner: Mutex::new(Inner { begun: tables.clone(), tables, applied: Vec::new(), usage }) }
    }

    /// Another store that holds the same.
    #[must_use]
    pub fn copy(&self) -> Self {
        let tables = self.inner().tables.clone();
        let usage = Usage::default();
        Self { inner: Mutex::new(Inner { begun: tables.clone(), tables, applied: Vec::new(), usage }) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, read: impl FnOnce(&Tables) -> Result<T>) -> Result<T> {
        let began = Instant::now();
        let mut inner = self.inner();
        let result = read(&inner.tables);
        inner.usage.reads += 1;
        inner.usage.read_ns += nanoseconds(began);
        result
    }
}

fn nanoseconds(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
}

impl Store for Memory {
    fn apply(&self, writes: &[Write]) -> Result<()> {
        let began = Instant::now();
        let mut inner = self.inner();
        let result = inner.tables.apply(writes);
        if result.is_ok() {
            inner.applied.push(writes.to_vec());
            inner.usage.batches += 1;
            inner.usage.writes += writes.len() as u64;
        } else {
            let mut tables = inner.begun.clone();
            for batch in &inner.applied {
                tables.apply(batch)?;
            }
            inner.tables = tables;
            inner.usage.failed_batches += 1;
        }
        inner.usage.apply_ns += nanoseconds(began);
        result
    }

    fn unfinished_flows(&self, after: Option<FlowKey>, limit: usize) -> Result<Vec<SavedFlow>> {
        self.read(|tables| {
            let after = match after {
                Some(flow) => tables.flows.get(&flow).ok_or_else(|| missing(&flow))?.number,
                None => 0,
            };
            let later = tables.order[after..].iter().map(|flow| &tables.flows[flow]);
            let saved = later.filter_map(|flow| {
                let FlowStatus::Unfinished(mark) = &flow.row.status else { return None };
                let arrivals = flow.arrivals.iter().map(|((session, number), message)| SavedArrival {
                    session: *session,
                    number: *number,
                    message: message.clone(),
                });
                Some(SavedFlow {
                    flow: flow.row.flow.clone(),
                    mark: mark.clone(),
                    steps: flow.steps.iter().map(|(unit, entries)| (*unit, entries.clone())).collect(),
                    arrivals: arrivals.collect(),
                })
            });
            Ok(saved.take(limit).collect())
        })
    }

    fn flow(&self, flow: FlowKey) -> Result<Option<FlowRow>> {
        self.read(|tables| Ok(tables.flows.get(&flow).map(|flow| flow.row.clone())))
    }

    fn flows(&self, query: &FlowQuery) -> Result<FlowPage> {
        let unpaged = FlowQuery { cursor: None, page_size: 0, ..query.clone() };
        self.read(|tables| {
            let before = match &query.cursor {
                Some(text) => parsed(place_of(&unpaged, text)?.first())?,
                None => usize::MAX,
            };
            let mut found: Vec<&Flow> = tables
                .order
                .iter()
                .rev()
                .map(|flow| &tables.flows[flow])
                .filter(|flow| flow.number < before)
                .filter(|flow| query.name.as_ref().is_none_or(|name| flow.row.flow.name == *name))
                .filter(|flow| query.ended.is_none_or(|ended| flow.has_ended() == ended))
                .collect();
            let size = page_size(query.page_size);
            let more = found.len() > size;
            found.truncate(size);
            let next = found.last().filter(|_| more).map(|flow| cursor(&unpaged, &flow.number.to_string()));
            Ok(FlowPage { flows: found.into_iter().map(|flow| flow.row.clone()).collect(), next })
        })
    }

    fn outbound(&self, peer: &Name, after: u64, limit_bytes: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        self.read(|tables| {
            let mut bytes = 0_usize;
            let mut found = Vec::new();
            for (number, message) in tables.outbound.get(peer).into_iter().flatten() {
                if *number <= after {
                    continue;
                }
                bytes = bytes.saturating_add(message.len());
                if !found.is_empty() && bytes > limit_bytes {
                    break;
                }
                found.push((*number, message.clone()));
            }
            Ok(found)
        })
    }

    fn queues(&self) -> Result<Queues> {
        self.read(|tables| {
            let mut queues = Queues { own: tables.queue, ..Queues::default() };
            for (peer, up_to) in &tables.acknowledged {
                queues.outbound.insert(peer.clone(), Outbound { sent: *up_to, acknowledged: *up_to });
            }
            for (peer, messages) in &tables.outbound {
                let Some((last, _)) = messages.last_key_value() else { continue };
                let queue = queues.outbound.entry(peer.clone()).or_default();
                queue.sent = queue.sent.max(*last);
            }
            queues.inbound.clone_from(&tables.received);
            Ok(queues)
        })
    }

    fn transaction(&self, id: TransactionId) -> Result<Option<Vec<u8>>> {
        self.read(|tables| Ok(tables.numbers.get(&id).map(|number| tables.ledger[number - 1].1.clone())))
    }

    fn transactions(&self, ids: &[TransactionId]) -> Result<Vec<Option<Vec<u8>>>> {
        self.read(|tables| {
            let find = |id| tables.numbers.get(id).map(|number| tables.ledger[number - 1].1.clone());
            Ok(ids.iter().map(find).collect())
        })
    }

    fn dependency(&self, flow: FlowKey, id: TransactionId) -> Result<Option<Vec<u8>>> {
        self.read(|tables| Ok(tables.flows.get(&flow).and_then(|flow| flow.dependencies.get(&id)).cloned()))
    }

    fn dependencies(
        &self,
        flow: FlowKey,
        after: Option<TransactionId>,
        limit: usize,
    ) -> Result<Vec<(TransactionId, Vec<u8>)>> {
        self.read(|tables| {
            let all = tables.flows.get(&flow).map(|flow| &flow.dependencies).into_iter().flatten();
            let later = all.filter(|(id, _)| after.is_none_or(|after| **id > after));
            Ok(later.take(limit).map(|(id, bytes)| (*id, bytes.clone())).collect())
        })
    }

    fn states(&self, query: &StateQuery) -> Result<StatePage> {
        self.read(|tables| tables.page(query))
    }

    fn vault(&self, references: &[StateRef]) -> Result<Vec<Option<VaultState>>> {
        self.read(|tables| Ok(references.iter().map(|reference| tables.state(reference).cloned()).collect()))
    }

    fn coins(
        &self,
        asset: &str,
        owner: &PublicKey,
        after: Option<CoinCursor>,
        limit: usize,
    ) -> Result<Vec<Coin>> {
        self.read(|tables| {
            let coins = tables.states.iter().filter_map(|((number, index), state)| {
                let summary = &state.summary;
                let place = i64::try_from(*number).ok()? << INDEX_BITS | i64::from(*index);
                let is_one = state.consumed.is_none()
                    && state.aside.is_none()
                    && summary.asset.as_deref() == Some(asset)
                    && summary.owner == Some(*owner)
                    && after.is_none_or(|after| place > after.place());
                is_one.then_some(Coin {
                    cursor: CoinCursor::new(place),
                    reference: state.reference,
                    quantity: summary.quantity?,
                    state: state.state.clone(),
                })
            });
            Ok(coins.take(limit).collect())
        })
    }

    fn locks(&self) -> Result<Vec<(StateRef, FlowKey)>> {
        self.read(|tables| {
            let flows = tables.order.iter().map(|flow| (flow, &tables.flows[flow].locks));
            Ok(flows.flat_map(|(flow, locks)| locks.iter().map(|state| (*state, *flow))).collect())
        })
    }

    fn attachment(&self, id: AttachmentId) -> Result<Option<Vec<u8>>> {
        self.read(|tables| Ok(tables.attachments.get(&id).cloned()))
    }

    fn consumed(&self, states: &[StateRef]) -> Result<Vec<Option<Consumption>>> {
        self.read(|tables| Ok(states.iter().map(|state| tables.spent.get(state).cloned()).collect()))
    }

    fn consents(&self, since: Timestamp) -> Result<Vec<Consent>> {
        self.read(|tables| {
            let mut found: Vec<_> =
                tables.consents.values().filter(|consent| consent.at >= since).cloned().collect();
            found.sort_by_key(|consent| (consent.at, consent.flow));
            Ok(found)
        })
    }

    fn undelivered(&self, query: &UndeliveredQuery) -> Result<Vec<Undelivered>> {
        self.read(|tables| {
            let wanted = tables.undelivered.values().filter(|row| {
                query.transaction.is_none_or(|id| row.transaction == id)
                    && query.due_by.is_none_or(|by| row.due <= by)
                    && query
                        .after
                        .as_ref()
                        .is_none_or(|(party, id)| (&row.party, &row.transaction) > (party, id))
            });
            Ok(wanted.take(query.limit).cloned().collect())
        })
    }

    fn unresolved(
        &self,
        transaction: Option<TransactionId>,
        due_by: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<UnresolvedRow>> {
        self.read(|tables| {
            let wanted = tables.unresolved.iter().filter(|(id, row)| {
                transaction.is_none_or(|wanted| **id == wanted) && due_by.is_none_or(|by| row.due <= by)
            });
            Ok(wanted.take(limit).map(|(_, row)| row.clone()).collect())
        })
    }

    fn outstanding(&self) -> Result<Outstanding> {
        self.read(|tables| {
            let (undelivered, unresolved) = (tables.undelivered.len(), tables.unresolved.len());
            Ok(Outstanding { undelivered: undelivered as u64, unresolved: unresolved as u64 })
        })
    }

    fn past(&self) -> Result<Past> {
        self.read(|tables| Ok(tables.past.clone()))
    }

    fn ledger(&self, after: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        self.read(|tables| {
            let numbered = (1..).zip(&tables.ledger).map(|(number, (_, bytes))| (number, bytes.clone()));
            Ok(numbered.filter(|(number, _)| *number > after).take(limit).collect())
        })
    }

    fn usage(&self) -> Usage {
        let mut usage = self.inner().usage;
        usage.readers = 1;
        usage
    }
}
