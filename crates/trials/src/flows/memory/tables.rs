//! What is in it, and how a batch changes it.

use std::collections::{BTreeMap, BTreeSet};

use tally_contracts::{AttachmentId, Name, StateRef, Timestamp, TransactionId};
use tally_store::{
    Aside, Consent, Consumption, FIRST_PAUSE_MS, FlowKey, FlowRow, FlowStatus, LONGEST_PAUSE_MS,
    MAX_PAGE_SIZE, MAX_REFERENCES, Mark, NewFlow, Past, Produced, QueueKey, Recorded, Result, SessionKey,
    Sort, StatePage, StateQuery, Status, StoreError, Undelivered, UnresolvedRow, VaultState, Write,
};

/// The largest number of a message.
const LAST_NUMBER: u64 = (1 << 44) - 1;
/// Bits of an output's index in a coin's place.
pub(super) const INDEX_BITS: u32 = 20;

#[derive(Clone, Default)]
pub(super) struct Tables {
    pub(super) queue: QueueKey,
    pub(super) past: Past,
    pub(super) flows: BTreeMap<FlowKey, Flow>,
    /// In the order in which they began.
    pub(super) order: Vec<FlowKey>,
    pub(super) outbound: BTreeMap<Name, BTreeMap<u64, Vec<u8>>>,
    pub(super) acknowledged: BTreeMap<Name, u64>,
    pub(super) received: BTreeMap<(Name, QueueKey), u64>,
    pub(super) numbers: BTreeMap<TransactionId, usize>,
    pub(super) ledger: Vec<(Timestamp, Vec<u8>)>,
    pub(super) states: BTreeMap<(usize, u32), VaultState>,
    /// States whose consumer is known by its id alone.
    pub(super) elsewhere: BTreeSet<StateRef>,
    pub(super) attachments: BTreeMap<AttachmentId, Vec<u8>>,
    pub(super) spent: BTreeMap<StateRef, Consumption>,
    pub(super) consents: BTreeMap<FlowKey, Consent>,
    pub(super) undelivered: BTreeMap<(Name, TransactionId), Undelivered>,
    pub(super) unresolved: BTreeMap<TransactionId, UnresolvedRow>,
}

#[derive(Clone)]
pub(super) struct Flow {
    pub(super) number: usize,
    pub(super) row: FlowRow,
    pub(super) steps: BTreeMap<u64, Vec<u8>>,
    pub(super) arrivals: BTreeMap<(SessionKey, u64), Vec<u8>>,
    pub(super) locks: BTreeSet<StateRef>,
    pub(super) dependencies: BTreeMap<TransactionId, Vec<u8>>,
}

pub(super) fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn conflict(table: &'static str, key: String) -> StoreError {
    StoreError::Conflict { table, key }
}

pub(super) fn missing(flow: &FlowKey) -> StoreError {
    StoreError::Missing { table: "flow", key: text(flow) }
}

/// A cursor names its query, so that another one refuses it.
pub(super) fn cursor(query: &impl serde::Serialize, place: &str) -> String {
    let query = serde_json::to_string(query).unwrap_or_default();
    let check = tally_crypto::hash(format!("{query} {place}").as_bytes()).to_string();
    format!("{place}-{}", &check[..16])
}

pub(super) fn place_of<'a>(query: &impl serde::Serialize, text: &'a str) -> Result<Vec<&'a str>> {
    let refused = StoreError::Cursor { reason: "it is damaged or of another query" };
    let Some((place, _)) = text.rsplit_once('-') else { return Err(refused) };
    if cursor(query, place) != text {
        return Err(refused);
    }
    Ok(place.split('-').collect())
}

pub(super) fn parsed<T: std::str::FromStr>(part: Option<&&str>) -> Result<T> {
    part.and_then(|part| part.parse().ok()).ok_or(StoreError::Cursor { reason: "it is damaged" })
}

pub(super) fn page_size(asked: u32) -> usize {
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

    pub(super) fn has_ended(&self) -> bool {
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
pub(super) fn keep<K: Ord + Copy + std::fmt::Debug>(
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

/// When something is tried again that was tried first and last at these times.
fn due(first: Timestamp, last: Timestamp) -> Timestamp {
    let pause = last.as_millis().saturating_sub(first.as_millis()).clamp(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    Timestamp::from_millis(last.as_millis() + pause)
}

impl Tables {
    pub(super) fn apply(&mut self, writes: &[Write]) -> Result<()> {
        // By table, as the promise is that the order within a batch does not matter.
        writes.iter().try_for_each(|write| self.begin(write))?;
        writes.iter().try_for_each(|write| self.end(write))?;
        writes.iter().try_for_each(|write| self.part(write))?;
        writes.iter().for_each(|write| self.past(write));
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
        writes.iter().try_for_each(|write| self.ledger(write))?;
        writes.iter().for_each(|write| self.set_aside(write));
        writes.iter().for_each(|write| self.delivery(write));
        Ok(())
    }

    fn set_aside(&mut self, write: &Write) {
        let Write::Lost { state, by } = write else { return };
        let key = self.numbers.get(&state.transaction).map(|number| (*number, state.index));
        let Some(found) = key.and_then(|key| self.states.get_mut(&key)) else { return };
        if found.consumed.is_none() && !matches!(found.aside, Some(Aside::Lost { .. })) {
            found.aside = Some(Aside::Lost { by: *by });
        }
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

    /// Where databases stand, and the queues that begin anew.
    fn past(&mut self, write: &Write) {
        match write {
            Write::Standing { standing, recovery } => {
                self.past.standing = Some(standing.clone());
                self.past.recovery.clone_from(recovery);
            }
            Write::Renewed { own } => {
                self.queue = *own;
                self.outbound.clear();
                self.acknowledged.clear();
                self.received.clear();
                self.past.queues.clear();
                self.past.acquaintances.clear();
            }
            Write::Acquainted { peer, standing, only } => {
                self.past.acquaintances.insert(peer.clone(), standing.clone());
                if let Some(queue) = only {
                    self.received.retain(|(from, over), _| from != peer || over == queue);
                }
            }
            Write::QueueAnew { peer, queue } => {
                self.outbound.remove(peer);
                self.acknowledged.remove(peer);
                self.past.queues.insert(peer.clone(), *queue);
            }
            _ => {}
        }
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

    fn delivery(&mut self, write: &Write) {
        match write {
            Write::Undelivered { transaction, party, at, reason } => {
                let row =
                    self.undelivered.entry((party.clone(), *transaction)).or_insert_with(|| Undelivered {
                        party: party.clone(),
                        transaction: *transaction,
                        first_tried: *at,
                        last_tried: *at,
                        due: *at,
                        reason: String::new(),
                    });
                (row.last_tried, row.due) = (*at, due(row.first_tried, *at));
                row.reason.clone_from(reason);
            }
            Write::Delivered { transaction, party } => {
                self.undelivered.remove(&(party.clone(), *transaction));
            }
            Write::Unresolved(unresolved) => {
                let row = self.unresolved.entry(unresolved.transaction).or_insert_with(|| UnresolvedRow {
                    unresolved: unresolved.clone(),
                    first_tried: unresolved.at,
                    due: unresolved.at,
                });
                row.unresolved.clone_from(unresolved);
                row.due = due(row.first_tried, unresolved.at);
            }
            Write::Resolved(transaction) => {
                self.unresolved.remove(transaction);
            }
            _ => {}
        }
    }

    fn ledger(&mut self, write: &Write) -> Result<()> {
        match write {
            Write::Transaction(recorded) => self.record(recorded),
            Write::Consented(consent) => {
                self.consents.entry(consent.flow).or_insert_with(|| consent.clone());
                Ok(())
            }
            Write::ConsumedElsewhere { state, by, at } => {
                if let Some(number) = self.numbers.get(&state.transaction)
                    && let Some(found) = self.states.get_mut(&(*number, state.index))
                    && found.consumed.is_none()
                {
                    found.consumed = Some((*by, *at));
                    self.elsewhere.insert(*state);
                }
                Ok(())
            }
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
                aside: Aside::of(state),
            });
        }
        for state in &recorded.consumed {
            let Some(producer) = self.numbers.get(&state.transaction) else { continue };
            let Some(found) = self.states.get_mut(&(*producer, state.index)) else { continue };
            if self.elsewhere.remove(state) {
                found.consumed = None;
            }
            let (by, _) = *found.consumed.get_or_insert((recorded.id, at));
            if by != recorded.id {
                return Err(StoreError::Twice { state: *state, by, again: recorded.id });
            }
        }
        Ok(())
    }

    pub(super) fn state(&self, reference: &StateRef) -> Option<&VaultState> {
        self.states.get(&(*self.numbers.get(&reference.transaction)?, reference.index))
    }

    pub(super) fn page(&self, query: &StateQuery) -> Result<StatePage> {
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
