//! What was accepted and decided earlier, as the topics have it.

use crate::annex;
use crate::clerk::{self, Finality};
use crate::engine::EngineError;
use crate::engine::answer::Expected;
use crate::engine::earlier::{self, Earlier, Names};
use crate::journal::JournalError;
use crate::journal::record;
use crate::message::{AcceptedBatch, SequenceBatch, Source};
use crate::outcomes::{self, Kept, Outcomes, Place};
use crate::process::layout::{Bindings, Layout, Role};
use crate::process::shard::{Opened, ShardError, Stop};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_ledger::{NetworkId, Timestamp, Transaction, TransactionId};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{Appended, Health, Log, LogError, Offset, Record, Ticket, TopicId, Visibility};

/// Reads the topics of accepted transactions and the sequence here and there.
pub(super) struct Archive {
    log: Patient,
    names: Names,
    name: String,
    /// What was looked up last: whoever sends a batch again asks for all of it.
    accepted: VecDeque<(Source, Arc<AcceptedBatch>)>,
    decided: VecDeque<SequenceBatch>,
    /// Where what had expired was accepted: to find its decision can take as long again, and the next request goes on here.
    expired: VecDeque<(TransactionId, Source, u32)>,
    concluded: Kept,
}

/// Batches of each kind that are kept.
const KEPT: usize = 16;
/// Places that are.
const KEPT_PLACES: usize = 1 << 10;
/// How long a record is waited for that others have spoken of.
pub(super) const ARRIVES: Duration = Duration::from_secs(2);

impl Archive {
    pub(super) fn open(
        cluster: &dyn Cluster,
        layout: &Layout,
        network: NetworkId,
        gateway: u16,
        stop: &Stop,
    ) -> Result<Self, ShardError> {
        let mut bindings = Bindings::default();
        let names = names(&mut bindings, layout, network);
        let name = format!("{} archive", layout.writer(Role::Gateway, gateway));
        let opened = Opened::reader(cluster, name, bindings, stop)?;
        Ok(Self {
            log: Patient(opened.log),
            names,
            name: opened.name,
            accepted: VecDeque::new(),
            decided: VecDeque::new(),
            expired: VecDeque::new(),
            concluded: Kept::default(),
        })
    }

    /// The record of the sequence before position `next`.
    pub(super) fn last(&mut self, next: u64) -> Result<Option<SequenceBatch>, ShardError> {
        let Some(last) = next.checked_sub(1) else { return Ok(None) };
        record(&self.log, self.names.sequence, last, Visibility::Durable)
            .map_err(|source| ShardError::Log { shard: self.name.clone(), source })
    }

    /// The record of the sequence with which the log has `size` records, if it has as many.
    pub(super) fn reached(&mut self, size: u64) -> Result<Option<SequenceBatch>, ShardError> {
        match self.last(size) {
            Err(ShardError::Log { source: LogError::OutOfRange { .. }, .. }) => Ok(None),
            found => found,
        }
    }

    /// The outcomes from `place` on that are in one record of the sequence.
    pub(super) fn outcomes(&mut self, place: &mut Place) -> Result<Option<Outcomes>, EngineError> {
        let Self { log, names, accepted, concluded, .. } = self;
        concluded.read(log, names, place, |source| read_accepted(log, names, accepted, source))
    }

    /// An accepted batch.
    pub(super) fn accepted(&mut self, source: Source) -> Result<Option<Arc<AcceptedBatch>>, LogError> {
        read_accepted(&self.log, &self.names, &mut self.accepted, source)
    }

    /// The outcome of an accepted transaction, if it is sequenced; the sequence is read from when it was accepted.
    pub(super) fn outcome(
        &mut self,
        source: Source,
        index: u32,
        deadline: Instant,
    ) -> Result<Option<Finality>, LogError> {
        let known = self.decided.iter().filter(|batch| batch.source == source);
        if let Some(finality) = known.into_iter().find_map(|batch| clerk::find(batch, index)) {
            return Ok(Some(finality));
        }
        let Some(accepted) = self.accepted(source)? else { return Ok(None) };
        let place = (source, index);
        let found = earlier::decision(&self.log, &self.names, place, accepted.accepted_at, deadline)?;
        Ok(found.and_then(|batch| {
            let finality = clerk::find(&batch, index);
            keep(&mut self.decided, batch, KEPT);
            finality
        }))
    }

    /// The transaction at that place of the global order.
    pub(super) fn transaction(&mut self, sequence: u64) -> Result<Option<Transaction>, LogError> {
        let Self { log, names, accepted, .. } = self;
        outcomes::transaction(log, names, sequence, |source| read_accepted(log, names, accepted, source))
    }

    /// Where a transaction was accepted before it expired.
    pub(super) fn find(
        &mut self,
        expired: &Expected,
        longest_validity_ms: u64,
        deadline: Instant,
    ) -> Result<Earlier, JournalError> {
        // What has expired is accepted no more, so that its last place stays the last.
        if let Some((_, source, index)) = self.expired.iter().find(|(id, ..)| *id == expired.id) {
            return Ok(Earlier::Accepted(*source, *index));
        }
        if Instant::now() >= deadline {
            return Ok(Earlier::Unknown);
        }
        let found = earlier::find(&self.log, &self.names, expired, longest_validity_ms, deadline)?;
        if let Earlier::Accepted(source, index) = found {
            keep(&mut self.expired, (expired.id, source, index), KEPT_PLACES);
        }
        Ok(found)
    }
}

fn read_accepted(
    log: &Patient,
    names: &Names,
    kept: &mut VecDeque<(Source, Arc<AcceptedBatch>)>,
    source: Source,
) -> Result<Option<Arc<AcceptedBatch>>, LogError> {
    if let Some((_, batch)) = kept.iter().find(|(of, _)| *of == source) {
        return Ok(Some(Arc::clone(batch)));
    }
    let topic = usize::try_from(source.scheduler).ok().and_then(|at| names.accepted.get(at));
    let Some(topic) = topic else { return Ok(None) };
    let found = arrived(log, *topic, source.number)?;
    Ok(found.map(|batch| {
        let batch = Arc::new(batch);
        keep(kept, (source, Arc::clone(&batch)), KEPT);
        batch
    }))
}

/// What was accepted and the sequence, to be read in one go while the archive answers others.
pub(super) fn ledger(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: NetworkId,
) -> Result<(Patient, Names), LogError> {
    let mut bindings = Bindings::default();
    let names = names(&mut bindings, layout, network);
    Ok((Patient(cluster.reader(&bindings.0)?), names))
}

fn names(bindings: &mut Bindings, layout: &Layout, network: NetworkId) -> Names {
    let sequence = bindings.reads(layout.sequence());
    let accepted = (0..layout.schedulers).map(|s| bindings.reads(layout.accepted(s))).collect();
    Names { network, sequence, accepted }
}

/// Shows the texts that any gateway kept between those times.
pub(super) fn annex(
    cluster: &dyn Cluster,
    layout: &Layout,
    between: (Timestamp, Timestamp),
    show: &mut dyn FnMut(Vec<u8>),
) -> Result<(), LogError> {
    let mut bindings = Bindings::default();
    let topics: Vec<_> = (0..layout.gateways).map(|gateway| bindings.reads(layout.annex(gateway))).collect();
    let log = Patient(cluster.reader(&bindings.0)?);
    topics.into_iter().try_for_each(|topic| annex::read(&log, topic, between, show))
}

/// A record that is there, or about to be: the partitions of one commit need not become visible in one moment.
fn arrived(log: &Patient, topic: TopicId, number: u64) -> Result<Option<AcceptedBatch>, LogError> {
    let began = Instant::now();
    loop {
        match record(log, topic, number, Visibility::Durable) {
            Ok(None) => {}
            Err(LogError::OutOfRange { asked, next, .. }) if asked >= next => {}
            found => return found,
        }
        if began.elapsed() > ARRIVES {
            return Ok(None);
        }
        log.0.wait(Duration::from_millis(20));
    }
}

fn keep<T>(kept: &mut VecDeque<T>, new: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(new);
}

/// A shared log whose reads wait for what is there and has not arrived.
pub(super) struct Patient(pub(super) Arc<dyn SharedLog>);

/// How long the cluster may give nothing of what it has.
const PATIENCE: Duration = Duration::from_secs(30);

impl Log for Patient {
    fn read(
        &self,
        topic: TopicId,
        from: Offset,
        max_bytes: usize,
        visibility: Visibility,
        out: &mut Vec<Record>,
    ) -> Result<Offset, LogError> {
        let began = Instant::now();
        loop {
            let next = self.0.read(topic, from, max_bytes, visibility, out)?;
            if next > from || self.0.next(topic) <= from {
                return Ok(next);
            }
            if began.elapsed() > PATIENCE {
                let reason = "it gives no record of what it says that it has".into();
                return Err(LogError::Cluster { operation: "read", reason });
            }
            self.0.wait(Duration::from_millis(100));
        }
    }
    fn first(&self, topic: TopicId) -> Offset {
        self.0.first(topic)
    }
    fn next(&self, topic: TopicId) -> Offset {
        self.0.next(topic)
    }
    fn append(&self, topic: TopicId, parts: &[&[u8]]) -> Result<Appended, LogError> {
        self.0.append(topic, parts)
    }
    fn durable(&self) -> Ticket {
        self.0.durable()
    }
    fn sync(&self) -> Result<Ticket, LogError> {
        self.0.sync()
    }
    fn release(&self, topic: TopicId, before: Offset) -> Result<(), LogError> {
        self.0.release(topic, before)
    }
    fn health(&self) -> Health {
        self.0.health()
    }
}
