//! The appending half of a log: one transaction after another under one name.

use super::context::Context;
use super::native::{self, TransactionError};
use super::{KafkaOptions, frame, unknown};
use crate::cluster::Partition;
use crate::{Appended, Health, LogError, Offset, Ticket, TopicId};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode as Code;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

const LOCK: &str = "no holder of a writer's lock panics";
/// How long one call of the client may take before reports of failed messages are looked at.
const STEP: Duration = Duration::from_millis(250);
/// How long a client first waits to be given its name before its reason is looked at.
const FIRST_STEP: Duration = Duration::from_millis(30);
/// How much is handed to the client for one partition at once, in bytes: one request, waited for. The client sends one
/// request of an idempotent producer after the other anyway, and spins while more waits behind it.
pub(super) const BATCH_BYTES: usize = 4 << 20;

pub(super) struct Writer {
    name: String,
    producer: BaseProducer<Context>,
    max_pending_bytes: usize,
    max_record_bytes: usize,
    sync_timeout: Duration,
    /// Held by the one who commits: the commit under way, until it is known to have happened.
    committer: Mutex<Option<Commit>>,
    state: Mutex<State>,
    durable: AtomicU64,
}

struct State {
    topics: BTreeMap<u16, Topic>,
    appended: u64,
    /// Payloads appended and not known to be committed.
    pending_bytes: usize,
    /// Records for the next commit, in order.
    waiting: VecDeque<Waiting>,
    stalled: Option<String>,
    over: Option<Over>,
}

struct Topic {
    partition: Partition,
    next: u64,
    committed: u64,
    records: u64,
    bytes: u64,
}

/// A transaction that is being committed.
struct Commit {
    /// The last ticket in it.
    ticket: u64,
    bytes: usize,
    /// By topic, the number of the record after the last in it.
    ends: Vec<(u16, u64)>,
    /// Those not yet handed to the client.
    records: VecDeque<Waiting>,
}

struct Waiting {
    topic: u16,
    offset: u64,
    payload: Vec<u8>,
}

/// Why nothing is written any more.
#[derive(Clone)]
enum Over {
    Fenced,
    Failed(String),
}

impl Writer {
    /// Fences the earlier writer of this name. What the log may append to is told by [`start`](Self::start).
    pub(super) fn open(options: &KafkaOptions, name: &str) -> Result<Self, LogError> {
        let make = || -> Result<BaseProducer<Context>, LogError> {
            let made = options.producer(name).create_with_context(Context::default());
            made.map_err(super::refused("make a producer"))
        };
        let (mut producer, mut step) = (make()?, FIRST_STEP);
        let deadline = Instant::now() + options.request_timeout();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match producer.init_transactions(left.min(step)) {
                Ok(()) => break,
                // The cluster gives up what the writer before had begun, which takes it some milliseconds, or two that open
                // at once met there; the later one goes on. The client would ask again after half a second: a new one does
                // at once.
                Err(KafkaError::Transaction(error))
                    if error.code() == Code::ConcurrentTransactions && !left.is_zero() =>
                {
                    (producer, step) = (make()?, (step * 2).min(STEP));
                }
                Err(KafkaError::Transaction(error)) if error.is_retriable() && !left.is_zero() => {}
                Err(error) => {
                    producer.poll(Duration::ZERO);
                    let reason = producer.context().explain(error);
                    return Err(LogError::Cluster { operation: "open a writer", reason });
                }
            }
        }
        let state = State {
            topics: BTreeMap::new(),
            appended: 0,
            pending_bytes: 0,
            waiting: VecDeque::new(),
            stalled: None,
            over: None,
        };
        Ok(Self {
            name: name.to_owned(),
            producer,
            max_pending_bytes: options.max_pending_bytes,
            max_record_bytes: options.max_record_bytes,
            sync_timeout: options.sync_timeout(),
            committer: Mutex::new(None),
            state: Mutex::new(state),
            durable: AtomicU64::new(0),
        })
    }

    /// Lets `topic` be appended to, whose next record is number `next`.
    pub(super) fn start(&self, topic: TopicId, partition: Partition, next: u64) {
        let entry = Topic { partition, next, committed: next, records: 0, bytes: 0 };
        self.state().topics.insert(topic.0, entry);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(LOCK)
    }

    /// Payloads appended and not known to be committed.
    pub(super) fn pending_bytes(&self) -> usize {
        self.state().pending_bytes
    }

    pub(super) fn append(&self, topic: TopicId, parts: &[&[u8]]) -> Result<Appended, LogError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > self.max_record_bytes {
            return Err(LogError::TooLarge { bytes, max_bytes: self.max_record_bytes });
        }
        let mut state = self.state();
        self.check(&state)?;
        let next = state.topics.get(&topic.0).ok_or_else(|| unknown(topic))?.next;
        if state.pending_bytes > 0 && state.pending_bytes + bytes > self.max_pending_bytes {
            let pending_bytes = state.pending_bytes;
            return Err(LogError::Backpressure { pending_bytes, max_pending_bytes: self.max_pending_bytes });
        }
        state.waiting.push_back(Waiting { topic: topic.0, offset: next, payload: parts.concat() });
        state.appended += 1;
        state.pending_bytes += bytes;
        let ticket = Ticket(state.appended);
        let entry = state.topics.get_mut(&topic.0).expect("it was found above");
        entry.next += 1;
        entry.records += 1;
        entry.bytes += bytes as u64;
        Ok(Appended { offset: Offset(next), ticket })
    }

    /// Hands records to the client, which sends them at once: for no partition more than fit into one request.
    fn send(&self, commit: &mut Commit) -> Result<(), LogError> {
        let mut partitions: BTreeMap<u16, (Partition, usize)> =
            self.state().topics.iter().map(|(id, topic)| (*id, (topic.partition.clone(), 0))).collect();
        while let Some(record) = commit.records.front() {
            let (partition, bytes) =
                partitions.get_mut(&record.topic).expect("only known topics have records");
            if *bytes > 0 && *bytes + record.payload.len() > BATCH_BYTES {
                return Ok(());
            }
            *bytes += record.payload.len().max(1);
            let key = frame::key(record.offset);
            let record = BaseRecord::to(&partition.topic)
                .partition(partition.number.into())
                .key(&key[..])
                .payload(&record.payload);
            match self.producer.send(record) {
                Ok(()) => drop(commit.records.pop_front()),
                // The rest is handed over when this is on its way.
                Err((error, _)) if error.rdkafka_error_code() == Some(Code::QueueFull) => return Ok(()),
                Err((error, _)) => return Err(self.refuse(&error)),
            }
        }
        Ok(())
    }

    /// A record was refused by the client: then nothing of the transaction can be committed.
    fn refuse(&self, error: &KafkaError) -> LogError {
        self.producer.poll(Duration::ZERO);
        let over = match self.producer.client().fatal_error() {
            Some((code, _)) if fences(code) => Over::Fenced,
            Some((_, text)) => Over::Failed(text),
            None => Over::Failed(self.producer.context().explain(error)),
        };
        let mut state = self.state();
        state.over.get_or_insert(over);
        self.check(&state).expect_err("it is over")
    }

    fn check(&self, state: &State) -> Result<(), LogError> {
        match &state.over {
            None => Ok(()),
            Some(Over::Fenced) => Err(LogError::Fenced { writer: self.name.clone() }),
            Some(Over::Failed(reason)) => Err(LogError::Failed { reason: reason.clone() }),
        }
    }

    pub(super) fn durable(&self) -> Ticket {
        Ticket(self.durable.load(Ordering::Acquire))
    }

    pub(super) fn sync(&self) -> Result<Ticket, LogError> {
        let wanted = self.state().appended;
        let mut commit = self.committer.lock().expect(LOCK);
        let deadline = Instant::now() + self.sync_timeout;
        loop {
            let durable = self.durable();
            if durable.0 >= wanted {
                // Nothing to do says nothing about being fenced, and need not.
                return Ok(durable);
            }
            let begun = match commit.take() {
                Some(begun) => begun,
                None => self.begin()?,
            };
            // Should it be stalled, the next call goes on with it.
            self.finish(commit.insert(begun), deadline)?;
            *commit = None;
        }
    }

    /// Begins a transaction with everything appended.
    fn begin(&self) -> Result<Commit, LogError> {
        self.check(&self.state())?;
        self.producer.begin_transaction().map_err(|error| self.refuse(&error))?;
        let mut state = self.state();
        Ok(Commit {
            ticket: state.appended,
            bytes: state.waiting.iter().map(|record| record.payload.len()).sum(),
            ends: state.topics.iter().map(|(id, topic)| (*id, topic.next)).collect(),
            records: std::mem::take(&mut state.waiting),
        })
    }

    fn finish(&self, commit: &mut Commit, deadline: Instant) -> Result<(), LogError> {
        self.check(&self.state())?;
        loop {
            self.producer.poll(Duration::ZERO);
            let left = deadline.saturating_duration_since(Instant::now());
            if !commit.records.is_empty() {
                self.send(commit)?;
                if native::flush(self.producer.client(), left.min(STEP)) || left > STEP {
                    continue;
                }
                return Err(self.stalled("records are not taken"));
            }
            match native::commit(self.producer.client(), left.min(STEP)) {
                Ok(()) => {
                    self.committed(commit);
                    return Ok(());
                }
                Err(error) if error.fatal || error.abort || !is_transient(&error) => {
                    return Err(self.failed(&error));
                }
                Err(error) if left <= STEP => return Err(self.stalled(&error.text)),
                Err(_) => {}
            }
        }
    }

    fn stalled(&self, what: &str) -> LogError {
        let reason = self.producer.context().explain(what);
        self.state().stalled = Some(reason.clone());
        LogError::Stalled { reason }
    }

    fn committed(&self, commit: &Commit) {
        let mut state = self.state();
        state.stalled = None;
        state.pending_bytes -= commit.bytes;
        for (id, end) in &commit.ends {
            if let Some(topic) = state.topics.get_mut(id) {
                topic.committed = *end;
            }
        }
        self.durable.store(commit.ticket, Ordering::Release);
    }

    /// The transaction is lost, and with it this log.
    fn failed(&self, error: &TransactionError) -> LogError {
        self.producer.poll(Duration::ZERO);
        let fatal = self.producer.client().fatal_error();
        let fenced = fences(error.code) || fatal.as_ref().is_some_and(|(code, _)| fences(*code));
        let over = if fenced {
            Over::Fenced
        } else {
            Over::Failed(
                self.producer.context().explain(fatal.map_or_else(|| error.text.clone(), |(_, text)| text)),
            )
        };
        if error.abort && !error.fatal {
            // Readers need not wait until the cluster gives the transaction up. If it fails, the next to open does it.
            let _ = native::abort(self.producer.client(), STEP);
        }
        let mut state = self.state();
        state.over.get_or_insert(over);
        self.check(&state).expect_err("it is over")
    }

    pub(super) fn health(&self) -> Health {
        let state = self.state();
        match (&state.over, &state.stalled) {
            (Some(Over::Fenced), _) => {
                Health::Failed { reason: LogError::Fenced { writer: self.name.clone() }.to_string() }
            }
            (Some(Over::Failed(reason)), _) => Health::Failed { reason: reason.clone() },
            (None, Some(reason)) => Health::Stalled { reason: reason.clone() },
            (None, None) => Health::Ok,
        }
    }

    /// The number of the next record of a topic that is appended to, and of the first that is not committed.
    pub(super) fn next(&self, topic: TopicId) -> Option<(u64, u64)> {
        self.state().topics.get(&topic.0).map(|topic| (topic.next, topic.committed))
    }

    /// Records and bytes appended to a topic.
    pub(super) fn count(&self, topic: TopicId) -> (u64, u64) {
        self.state().topics.get(&topic.0).map_or((0, 0), |topic| (topic.records, topic.bytes))
    }
}

impl Drop for Writer {
    /// What was not synced is void. Readers need not wait until the cluster finds that out by itself.
    fn drop(&mut self) {
        let begun = self.committer.get_mut().is_ok_and(|commit| commit.is_some());
        if begun && self.check(&self.state()).is_ok() {
            let _ = native::abort(self.producer.client(), STEP);
        }
    }
}

/// Whether another writer of the same name is what ended this one.
fn fences(code: Code) -> bool {
    matches!(code, Code::InvalidProducerEpoch | Code::ProducerFenced | Code::Fenced)
}

/// Whether the same commit may be tried again.
fn is_transient(error: &TransactionError) -> bool {
    error.retriable
        || matches!(error.code, Code::OperationTimedOut | Code::RequestTimedOut | Code::InProgress)
}
