//! A store in memory, as naive as it can be: what it is compared with, and what makes a seed quick.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tally_contracts::{AttachmentId, Name, PublicKey, StateRef, Timestamp, TransactionId};
use tally_store::{
    Coin, CoinCursor, Consumption, FlowKey, FlowPage, FlowQuery, FlowRow, FlowStatus, MAX_PAGE_SIZE,
    MAX_REFERENCES, Mark, NewFlow, Outbound, Produced, QueueKey, Queues, Recorded, Result, SavedArrival,
    SavedFlow, SessionKey, Sort, StatePage, StateQuery, Status, Store, StoreError, Usage, VaultState, Write,
};

/// The largest number of a message.
const LAST_NUMBER: u64 = (1 << 44) - 1;
/// Bits of an output's index in a coin's place.
const INDEX_BITS: u32 = 20;

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

#[derive(Clone, Default)]
struct Tables {
    queue: QueueKey,
    flows: BTreeMap<FlowKey, Flow>,
    /// In the order in which they began.
    order: Vec<FlowKey>,
    outbound: BTreeMap<Name, BTreeMap<u64, Vec<u8>>>,
    acknowledged: BTreeMap<Name, u64>,
    received: BTreeMap<(Name, QueueKey), u64>,
    numbers: BTreeMap<TransactionId, usize>,
    ledger: Vec<(Timestamp, Vec<u8>)>,
    states: BTreeMap<(usize, u32), VaultState>,
    attachments: BTreeMap<AttachmentId, Vec<u8>>,
    spent: BTreeMap<StateRef, Consumption>,
}

#[derive(Clone)]
struct Flow {
    number: usize,
    row: FlowRow,
    steps: BTreeMap<u64, Vec<u8>>,
    arrivals: BTreeMap<(SessionKey, u64), Vec<u8>>,
    locks: BTreeSet<StateRef>,
    dependencies: BTreeMap<TransactionId, Vec<u8>>,
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn conflict(table: &'static str, key: String) -> StoreError {
    StoreError::Conflict { table, key }
}

fn missing(flow: &FlowKey) -> StoreError {
    StoreError::Missing { table: "flow", key: text(flow) }
}

/// A cursor names its query, so that another one refuses it.
fn cursor(query: &impl serde::Serialize, place: &str) -> String {
    let query = serde_json::to_string(query).unwrap_or_default();
    let check = tally_crypto::hash(format!("{query} {place}").as_bytes()).to_string();
    format!("{place}-{}", &check[..16])
}

fn place_of<'a>(query: &impl serde::Serialize, text: &'a str) -> Result<Vec<&'a str>> {
    let refused = StoreError::Cursor { reason: "it is damaged or of another query" };
    let Some((place, _)) = text.rsplit_once('-') else { return Err(refused) };
    if cursor(query, place) != text {
        return Err(refused);
    }
    Ok(place.split('-').collect())
}

fn parsed<T: std::str::FromStr>(part: Option<&&str>) -> Result<T> {
    part.and_then(|part| part.parse().ok()).ok_or(StoreError::Cursor { reason: "it is damaged" })
}

fn page_size(asked: u32) -> usize {
    usize::try_from(if asked == 0 { 100 } else { asked.min(MAX_PAGE_SIZE) }).unwrap_or(100)
}

impl Flow {
    fn begin(number: usize, flow: &NewFlow) -> Self {
        Self {
            number,
            row: FlowRow { flow: flow.clone(), status: FlowStatus::Unfinished(Mark::Running) },
            steps: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            locks: BTreeSet::new(),
            dependencies: BTreeMap::new(),
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.row.status, FlowStatus::Ended { .. })
    }

    fn end(&mut self, outcome: &[u8], at: Timestamp) -> Result<()> {
        match &self.row.status {
            FlowStatus::Ended { outcome: before, .. } if before == outcome => Ok(()),
            FlowStatus::Ended { .. } => Err(conflict("flow", text(&self.row.flow.flow))),
            FlowStatus::Unfinished(_) => {
                self.row.status = FlowStatus::Ended { outcome: outcome.to_vec(), at };
                self.steps.clear();
                self.arrivals.clear();
                self.locks.clear();
                self.dependencies.clear();
                Ok(())
            }
        }
    }
}

/// Keeps bytes under a key that always has the same bytes.
fn keep<K: Ord + Copy + std::fmt::Debug>(
    table: &'static str,
    map: &mut BTreeMap<K, Vec<u8>>,
    key: K,
    bytes: &[u8],
) -> Result<()> {
    match map.get(&key) {
        Some(before) if before == bytes => Ok(()),
        Some(_) => Err(conflict(table, format!("{key:?}"))),
        None => {
            map.insert(key, bytes.to_vec());
            Ok(())
        }
    }
}

impl Tables {
    fn apply(&mut self, writes: &[Write]) -> Result<()> {
        // By table, as the promise is that the order within a batch does not matter.
        writes.iter().try_for_each(|write| self.begin(write))?;
        writes.iter().try_for_each(|write| self.end(write))?;
        writes.iter().try_for_each(|write| self.part(write))?;
        let acknowledged = |peer: &Name, number: u64| {
            writes.iter().any(
                |write| matches!(write, Write::Acknowledged { peer: by, up_to } if by == peer && *up_to >= number),
            )
        };
        for write in writes {
            match write {
                Write::Send { number, .. } if *number > LAST_NUMBER => {
                    let what = "the number of a message";
                    return Err(StoreError::Range { what, value: *number, limit: LAST_NUMBER });
                }
                Write::Send { peer, number, message } if !acknowledged(peer, *number) => {
                    keep("outbound", self.outbound.entry(peer.clone()).or_default(), *number, message)?;
                }
                _ => {}
            }
        }
        writes.iter().for_each(|write| self.queue(write));
        writes.iter().try_for_each(|write| self.ledger(write))
    }

    fn begin(&mut self, write: &Write) -> Result<()> {
        let (flow, ending) = match write {
            Write::FlowStarted(flow) => (flow, None),
            Write::FlowEndedAtOnce { flow, outcome, at } => (flow, Some((outcome, *at))),
            _ => return Ok(()),
        };
        let begun = match self.flows.get_mut(&flow.flow) {
            Some(begun) => {
                let before = &begun.row.flow;
                if (&before.name, &before.arguments, before.seed) != (&flow.name, &flow.arguments, flow.seed)
                {
                    return Err(conflict("flow", text(&flow.flow)));
                }
                if ending.is_some() && !begun.has_ended() {
                    return Err(conflict("flow", text(&flow.flow)));
                }
                begun
            }
            None => {
                self.order.push(flow.flow);
                self.flows.entry(flow.flow).or_insert(Flow::begin(self.order.len(), flow))
            }
        };
        ending.map_or(Ok(()), |(outcome, at)| begun.end(outcome, at))
    }

    fn end(&mut self, write: &Write) -> Result<()> {
        match write {
            Write::FlowEnded { flow, outcome, at } => {
                self.flows.get_mut(flow).ok_or_else(|| missing(flow))?.end(outcome, *at)
            }
            Write::FlowMarked { flow, mark } => {
                if let Some(flow) = self.flows.get_mut(flow).filter(|flow| !flow.has_ended()) {
                    flow.row.status = FlowStatus::Unfinished(mark.clone());
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn part(&mut self, write: &Write) -> Result<()> {
        let (Write::Steps { flow, .. }
        | Write::Arrival { flow, .. }
        | Write::Dependency { flow, .. }
        | Write::Lock { flow, .. }
        | Write::Unlock { flow, .. }) = write
        else {
            return Ok(());
        };
        let Some(flow) = self.flows.get_mut(flow).filter(|flow| !flow.has_ended()) else { return Ok(()) };
        match write {
            Write::Steps { unit, entries, .. } => keep("part", &mut flow.steps, *unit, entries)?,
            Write::Arrival { session, number, message, .. } => {
                keep("part", &mut flow.arrivals, (*session, *number), message)?;
            }
            // It may come again with more signatures; the first form stays.
            Write::Dependency { id, bytes, .. } => {
                flow.dependencies.entry(*id).or_insert_with(|| bytes.clone());
            }
            Write::Lock { states, .. } => flow.locks.extend(states),
            Write::Unlock { states, .. } => flow.locks.retain(|state| !states.contains(state)),
            _ => {}
        }
        Ok(())
    }

    fn queue(&mut self, write: &Write) {
        match write {
            Write::Acknowledged { peer, up_to } => {
                let known = self.acknowledged.entry(peer.clone()).or_default();
                *known = (*known).max((*up_to).min(LAST_NUMBER));
                if let Some(messages) = self.outbound.get_mut(peer) {
                    messages.retain(|number, _| number > up_to);
                }
            }
            Write::Received { peer, queue, up_to } => {
                let known = self.received.entry((peer.clone(), *queue)).or_default();
                *known = (*known).max(*up_to);
            }
            _ => {}
        }
    }

    fn ledger(&mut self, write: &Write) -> Result<()> {
        match write {
            Write::Transaction(recorded) => self.record(recorded),
            Write::Attachment { id, bytes } => {
                self.attachments.entry(*id).or_insert_with(|| bytes.clone());
                Ok(())
            }
            Write::Consumed { state, by, requester, at } => {
                let found = Consumption { by: *by, requester: requester.clone(), at: *at };
                let first = self.spent.entry(*state).or_insert(found).by;
                if first == *by {
                    return Ok(());
                }
                Err(StoreError::Twice { state: *state, by: first, again: *by })
            }
            _ => Ok(()),
        }
    }

    fn record(&mut self, recorded: &Recorded) -> Result<()> {
        let number = match self.numbers.get(&recorded.id) {
            Some(number) => *number,
            None => {
                let last = self.ledger.last().map_or(Timestamp::EPOCH, |(at, _)| *at);
                self.ledger.push((recorded.at.max(last), recorded.bytes.clone()));
                self.numbers.insert(recorded.id, self.ledger.len());
                self.ledger.len()
            }
        };
        let at = self.ledger[number - 1].0;
        for Produced { index, state, summary } in &recorded.produced {
            if *index >> INDEX_BITS != 0 {
                let (what, limit) = ("the index of a state", (1 << INDEX_BITS) - 1);
                return Err(StoreError::Range { what, value: u64::from(*index), limit });
            }
            self.states.entry((number, *index)).or_insert_with(|| VaultState {
                reference: StateRef { transaction: recorded.id, index: *index },
                state: state.clone(),
                summary: summary.clone(),
                recorded: at,
                consumed: None,
            });
        }
        for state in &recorded.consumed {
            let Some(producer) = self.numbers.get(&state.transaction) else { continue };
            let Some(found) = self.states.get_mut(&(*producer, state.index)) else { continue };
            let (by, _) = *found.consumed.get_or_insert((recorded.id, at));
            if by != recorded.id {
                return Err(StoreError::Twice { state: *state, by, again: recorded.id });
            }
        }
        Ok(())
    }

    fn state(&self, reference: &StateRef) -> Option<&VaultState> {
        self.states.get(&(*self.numbers.get(&reference.transaction)?, reference.index))
    }

    fn page(&self, query: &StateQuery) -> Result<StatePage> {
        let unpaged = StateQuery { cursor: None, page_size: 0, ..query.clone() };
        if query.sort == Sort::Quantity && query.status != Status::Unconsumed {
            return Err(StoreError::Query { reason: "only unconsumed states are sorted by quantity" });
        }
        if query.references.as_ref().is_some_and(|references| references.len() > MAX_REFERENCES) {
            return Err(StoreError::Query { reason: "it names too many references" });
        }
        let from = match &query.cursor {
            None => None,
            Some(text) => {
                let parts = place_of(&unpaged, text)?;
                Some((parsed(parts.first())?, (parsed(parts.get(1))?, parsed(parts.get(2))?)))
            }
        };
        let place = |key: &(usize, u32), state: &VaultState| {
            let by_quantity = query.sort == Sort::Quantity;
            (if by_quantity { state.summary.quantity.unwrap_or_default() } else { 0 }, *key)
        };
        let mut found: Vec<_> = self
            .states
            .iter()
            .filter(|(_, state)| query.matches(state))
            .map(|(key, state)| (place(key, state), state))
            .collect();
        found.sort_by_key(|(place, _)| *place);
        if query.descending {
            found.reverse();
        }
        let passed = |place: (u64, (usize, u32))| {
            from.is_none_or(|from| if query.descending { place < from } else { place > from })
        };
        found.retain(|(place, _)| passed(*place));
        let size = page_size(query.page_size);
        let more = found.len() > size;
        found.truncate(size);
        let next = found.last().filter(|_| more).map(|((quantity, (number, index)), _)| {
            cursor(&unpaged, &format!("{quantity}-{number}-{index}"))
        });
        Ok(StatePage { states: found.into_iter().map(|(_, state)| state.clone()).collect(), next })
    }
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

    fn usage(&self) -> Usage {
        let mut usage = self.inner().usage;
        usage.readers = 1;
        usage
    }
}
