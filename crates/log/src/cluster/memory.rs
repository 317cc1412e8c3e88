//! A cluster in memory: the rules of a shared log without servers, for tests and simulations.

mod faults;

use super::{Binding, Cluster, Foreign, Members, Partition, SharedLog};
use crate::{Appended, Health, Log, LogError, MAX_RECORD_BYTES, Offset, Record, Ticket, TopicId, Visibility};
use bytes::Bytes;
use faults::{Faults, Late};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Topics that processes of a test share. For simulations it can be late and fail: see [`MemoryCluster::lag`].
#[derive(Clone, Default)]
pub struct MemoryCluster(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    partitions: HashMap<Partition, Queue>,
    /// By writer's name, how often it was opened.
    writers: HashMap<String, u64>,
    groups: HashMap<String, Group>,
    members: u64,
    /// How many syncs there were.
    events: u64,
    faults: Faults,
}

#[derive(Default)]
struct Queue {
    first: u64,
    records: Vec<Bytes>,
}

#[derive(Default)]
struct Group {
    generation: u64,
    members: BTreeSet<u64>,
}

const LOCK: &str = "no holder of the cluster's lock panics";

impl MemoryCluster {
    /// A cluster with these topics and as many partitions of each.
    pub fn new(topics: impl IntoIterator<Item = (String, u16)>) -> Self {
        let cluster = Self::default();
        let mut state = cluster.state();
        for (topic, partitions) in topics {
            for number in 0..partitions {
                state.partitions.insert(Partition::new(topic.clone(), number), Queue::default());
            }
        }
        drop(state);
        cluster
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect(LOCK)
    }

    fn bind(&self, bindings: &[Binding]) -> Result<BTreeMap<u16, Bound>, LogError> {
        let state = self.state();
        let mut bound = BTreeMap::new();
        for binding in bindings {
            let Some(queue) = state.partitions.get(&binding.partition) else {
                let what = format!("it has no partition {}", binding.partition.number);
                return Err(LogError::Topic { topic: binding.partition.topic.clone(), what });
            };
            let next = queue.next();
            let partition = binding.partition.clone();
            let Binding { id, writes, .. } = binding;
            bound.insert(id.0, Bound { partition, writes: *writes, next, visible: None, late: None });
        }
        Ok(bound)
    }

    /// What a process knows that opens a log with these partitions.
    fn own(&self, bindings: &[Binding]) -> Result<Own, LogError> {
        let mut bound = self.bind(bindings)?;
        let mut state = self.state();
        for bound in bound.values_mut().filter(|bound| !bound.writes) {
            bound.late = state.faults.late();
        }
        let read = BTreeMap::new();
        Ok(Own { bound, pending: Vec::new(), appended: 0, durable: 0, seen_events: 0, read, failed: false })
    }
}

impl Queue {
    fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }
}

struct Bound {
    partition: Partition,
    writes: bool,
    /// The offset of the next record appended here.
    next: u64,
    /// In a simulation, how far this log may see yet.
    visible: Option<u64>,
    /// In a simulation, how what others append comes.
    late: Option<Late>,
}

impl Bound {
    /// The offset after the last that this log knows of: what it appended itself counts before it is synced.
    fn end(&self, queue: &Queue) -> Offset {
        Offset(if self.writes { self.next } else { queue.next() })
    }
}

/// One process's log in a [`MemoryCluster`].
pub struct MemorySharedLog {
    cluster: MemoryCluster,
    /// Its name, and the number of its opening.
    writer: Option<(String, u64)>,
    own: Mutex<Own>,
}

struct Own {
    bound: BTreeMap<u16, Bound>,
    pending: Vec<(u16, Bytes)>,
    appended: u64,
    durable: u64,
    seen_events: u64,
    /// By topic, the offset after the last record read.
    read: BTreeMap<u16, u64>,
    /// In a simulation, whether the answer to a sync was lost.
    failed: bool,
}

impl MemorySharedLog {
    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().expect(LOCK)
    }

    /// Lets this log see at most the records below `next` of a partition, as if the others had not arrived.
    pub fn delay(&self, topic: TopicId, next: Option<Offset>) {
        if let Some(bound) = self.own().bound.get_mut(&topic.0) {
            bound.visible = next.map(|next| next.0);
        }
    }

    fn is_fenced(&self, state: &State) -> Result<(), LogError> {
        match &self.writer {
            None => Err(LogError::ReadOnly),
            Some((name, opening)) if state.writers.get(name) == Some(opening) => Ok(()),
            Some((name, _)) => Err(LogError::Fenced { writer: name.clone() }),
        }
    }
}

fn unknown(topic: TopicId) -> LogError {
    LogError::Topic { topic: topic.to_string(), what: "this log was not opened with it".into() }
}

impl Log for MemorySharedLog {
    fn append(&self, topic: TopicId, parts: &[&[u8]]) -> Result<Appended, LogError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > MAX_RECORD_BYTES {
            return Err(LogError::TooLarge { bytes, max_bytes: MAX_RECORD_BYTES });
        }
        self.is_fenced(&self.cluster.state())?;
        let mut own = self.own();
        own.is_well()?;
        let bound = own.bound.get_mut(&topic.0).filter(|bound| bound.writes).ok_or_else(|| unknown(topic))?;
        let offset = Offset(bound.next);
        bound.next += 1;
        own.appended += 1;
        own.pending.push((topic.0, parts.concat().into()));
        Ok(Appended { offset, ticket: Ticket(own.appended) })
    }

    fn durable(&self) -> Ticket {
        Ticket(self.own().durable)
    }

    fn sync(&self) -> Result<Ticket, LogError> {
        let mut state = self.cluster.state();
        let mut own = self.own();
        own.is_well()?;
        if own.pending.is_empty() {
            return Ok(Ticket(own.durable));
        }
        if state.faults.stalled {
            return Err(LogError::Stalled { reason: "the simulation says so".into() });
        }
        self.is_fenced(&state)?;
        let lost = self.writer.as_ref().and_then(|(name, _)| state.faults.lost.remove(name));
        own.failed = lost.is_some();
        if lost == Some(false) {
            return own.is_well().map(|()| Ticket(own.durable));
        }
        for (topic, record) in std::mem::take(&mut own.pending) {
            let partition = &own.bound[&topic].partition;
            state.partitions.get_mut(partition).expect("bound partitions exist").records.push(record);
        }
        own.durable = own.appended;
        state.events += 1;
        self.cluster.0.arrived.notify_all();
        own.is_well().map(|()| Ticket(own.durable))
    }

    fn read(
        &self,
        topic: TopicId,
        from: Offset,
        max_bytes: usize,
        _visibility: Visibility,
        out: &mut Vec<Record>,
    ) -> Result<Offset, LogError> {
        let state = self.cluster.state();
        let mut own = self.own();
        own.seen_events = state.events;
        let bound = own.bound.get_mut(&topic.0).ok_or_else(|| unknown(topic))?;
        let queue = &state.partitions[&bound.partition];
        let (first, next) = (Offset(queue.first), bound.end(queue));
        if from < first || from > next {
            return Err(LogError::OutOfRange { topic, asked: from, first, next });
        }
        let come = bound.late.as_mut().map_or(u64::MAX, |late| late.come(from.0, queue.next()));
        let end = bound.visible.unwrap_or(u64::MAX).min(come).min(queue.next());
        let (mut at, mut bytes) = (from.0, 0);
        while at < end {
            let index = usize::try_from(at - queue.first).expect("a queue fits in memory");
            let payload = queue.records[index].clone();
            bytes += payload.len();
            if at > from.0 && bytes > max_bytes {
                // There is more, so nobody waits.
                own.seen_events = state.events.wrapping_sub(1);
                break;
            }
            out.push(Record { offset: Offset(at), payload });
            at += 1;
        }
        own.read.insert(topic.0, at);
        Ok(Offset(at))
    }

    fn first(&self, topic: TopicId) -> Offset {
        let state = self.cluster.state();
        let own = self.own();
        Offset(own.bound.get(&topic.0).map_or(0, |bound| state.partitions[&bound.partition].first))
    }

    fn next(&self, topic: TopicId) -> Offset {
        let state = self.cluster.state();
        let own = self.own();
        own.bound.get(&topic.0).map_or(Offset(0), |bound| bound.end(&state.partitions[&bound.partition]))
    }

    fn release(&self, topic: TopicId, before: Offset) -> Result<(), LogError> {
        let mut state = self.cluster.state();
        let own = self.own();
        let bound = own.bound.get(&topic.0).ok_or_else(|| unknown(topic))?;
        let queue = state.partitions.get_mut(&bound.partition).expect("bound partitions exist");
        let (first, next) = (Offset(queue.first), bound.end(queue));
        if before > next {
            return Err(LogError::OutOfRange { topic, asked: before, first, next });
        }
        let before = before.0.min(queue.next());
        if before > first.0 {
            let gone = usize::try_from(before - first.0).expect("a queue fits in memory");
            queue.records.drain(..gone);
            queue.first = before;
        }
        Ok(())
    }

    fn health(&self) -> Health {
        match self.is_fenced(&self.cluster.state()) {
            Err(fenced @ LogError::Fenced { .. }) => Health::Failed { reason: fenced.to_string() },
            _ => Health::Ok,
        }
    }
}

impl SharedLog for MemorySharedLog {
    fn wait(&self, limit: Duration) {
        let state = self.cluster.state();
        // What is late comes by being asked for.
        if state.faults.lag.is_some() {
            return;
        }
        let seen = self.own().seen_events;
        let arrived = &self.cluster.0.arrived;
        drop(arrived.wait_timeout_while(state, limit, |state| state.events == seen).expect(LOCK));
    }

    fn pending_bytes(&self) -> usize {
        self.own().pending.iter().map(|(_, payload)| payload.len()).sum()
    }

    fn behind(&self) -> Vec<(Partition, u64)> {
        let state = self.cluster.state();
        let own = self.own();
        let others = own.bound.iter().filter(|(_, bound)| !bound.writes);
        others
            .map(|(id, bound)| {
                let read = own.read.get(id).copied().unwrap_or(0);
                let next = state.partitions[&bound.partition].next();
                (bound.partition.clone(), next.saturating_sub(read))
            })
            .collect()
    }

    fn foreign(&self) -> Vec<Foreign> {
        Vec::new()
    }
}

impl MemoryCluster {
    /// [`Cluster::open`] with the concrete type, for what only a simulation does.
    ///
    /// # Errors
    /// When a partition is not there.
    pub fn open_memory(&self, writer: &str, bindings: &[Binding]) -> Result<Arc<MemorySharedLog>, LogError> {
        let opening = {
            let mut state = self.state();
            let opening = state.writers.entry(writer.to_owned()).or_default();
            *opening += 1;
            let opening = *opening;
            state.faults.lost.remove(writer);
            opening
        };
        // What the fenced writer synced until now is what this one finds: no sync of it can succeed any more.
        let own = self.own(bindings)?;
        let writer = Some((writer.to_owned(), opening));
        Ok(Arc::new(MemorySharedLog { cluster: self.clone(), writer, own: Mutex::new(own) }))
    }
}

impl Cluster for MemoryCluster {
    fn open(&self, writer: &str, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        Ok(self.open_memory(writer, bindings)?)
    }

    fn reader(&self, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        if bindings.iter().any(|binding| binding.writes) {
            return Err(LogError::ReadOnly);
        }
        let own = self.own(bindings)?;
        Ok(Arc::new(MemorySharedLog { cluster: self.clone(), writer: None, own: Mutex::new(own) }))
    }

    fn join(&self, group: &str, topics: &[String]) -> Result<Box<dyn Members>, LogError> {
        let mut state = self.state();
        state.members += 1;
        let id = state.members;
        let entry = state.groups.entry(group.to_owned()).or_default();
        entry.members.insert(id);
        entry.generation += 1;
        drop(state);
        self.0.arrived.notify_all();
        let (group, topics) = (group.to_owned(), topics.to_vec());
        Ok(Box::new(MemoryMember { cluster: self.clone(), group, topics, id, seen: 0 }))
    }
}

impl Own {
    fn is_well(&self) -> Result<(), LogError> {
        if self.failed {
            return Err(LogError::Failed { reason: "the answer to a sync was lost".into() });
        }
        Ok(())
    }
}

struct MemoryMember {
    cluster: MemoryCluster,
    group: String,
    topics: Vec<String>,
    id: u64,
    seen: u64,
}

impl Members for MemoryMember {
    fn poll(&mut self, limit: Duration) -> Result<Option<Vec<Partition>>, LogError> {
        let state = self.cluster.state();
        let changed = |state: &mut State| state.groups[&self.group].generation == self.seen;
        let (state, _) = self.cluster.0.arrived.wait_timeout_while(state, limit, changed).expect(LOCK);
        let group = &state.groups[&self.group];
        if group.generation == self.seen {
            return Ok(None);
        }
        self.seen = group.generation;
        let place = group.members.iter().position(|id| *id == self.id).unwrap_or(0);
        let mut partitions: Vec<_> = state
            .partitions
            .keys()
            .filter(|partition| self.topics.contains(&partition.topic))
            .cloned()
            .collect();
        partitions.sort();
        let mine = |(at, _): &(usize, Partition)| at % group.members.len() == place;
        Ok(Some(partitions.into_iter().enumerate().filter(mine).map(|(_, partition)| partition).collect()))
    }
}

impl Drop for MemoryMember {
    fn drop(&mut self) {
        let mut state = self.cluster.state();
        if let Some(group) = state.groups.get_mut(&self.group) {
            group.members.remove(&self.id);
            group.generation += 1;
        }
        drop(state);
        self.cluster.0.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests;
