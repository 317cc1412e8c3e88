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

pub(super) struct Writer {
    name: String,
    producer: BaseProducer<Context>,
    max_pending_bytes: usize,
    max_record_bytes: usize,
    sync_timeout: Duration,
    /// Held by the one who commits.
    committer: Mutex<()>,
    state: Mutex<State>,
    durable: AtomicU64,
}

struct State {
    topics: BTreeMap<u16, Topic>,
    appended: u64,
    /// Payloads appended and not known to be committed.
    pending_bytes: usize,
    /// A transaction takes records.
    open: bool,
    /// The commit under way. Until it is known to have happened no record can be sent.
    commit: Option<Commit>,
    /// Records appended during a commit, in order.
    waiting: VecDeque<Waiting>,
    /// Payloads sent in the open transaction.
    sent_bytes: usize,
    stalled: Option<String>,
    over: Option<Over>,
}

struct Topic {
    partition: Partition,
    next: u64,
    sent: u64,
    committed: u64,
    records: u64,
    bytes: u64,
}

struct Commit {
    ticket: u64,
    bytes: usize,
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
        let producer: BaseProducer<Context> = options
            .producer(name)
            .create_with_context(Context::default())
            .map_err(super::refused("make a producer"))?;
        let deadline = Instant::now() + options.request_timeout();
        loop {
            match producer.init_transactions(options.request_timeout()) {
                Ok(()) => break,
                // Two that open at once may meet in the cluster; the later one goes on.
                Err(KafkaError::Transaction(error)) if error.is_retriable() && Instant::now() < deadline => {}
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
            open: false,
            commit: None,
            waiting: VecDeque::new(),
            sent_bytes: 0,
            stalled: None,
            over: None,
        };
        Ok(Self {
            name: name.to_owned(),
            producer,
            max_pending_bytes: options.max_pending_bytes,
            max_record_bytes: options.max_record_bytes,
            sync_timeout: options.sync_timeout(),
            committer: Mutex::new(()),
            state: Mutex::new(state),
            durable: AtomicU64::new(0),
        })
    }

    /// Lets `topic` be appended to, whose next record is number `next`.
    pub(super) fn start(&self, topic: TopicId, partition: Partition, next: u64) {
        let entry = Topic { partition, next, sent: next, committed: next, records: 0, bytes: 0 };
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
        if state.commit.is_some() || !state.waiting.is_empty() {
            state.waiting.push_back(Waiting { topic: topic.0, offset: next, payload: parts.concat() });
        } else {
            let joined;
            let payload = match parts {
                [one] => *one,
                _ => {
                    joined = parts.concat();
                    &joined
                }
            };
            self.send(&mut state, topic.0, next, payload)?;
        }
        state.appended += 1;
        state.pending_bytes += bytes;
        let ticket = Ticket(state.appended);
        let entry = state.topics.get_mut(&topic.0).expect("it was found above");
        entry.next += 1;
        entry.records += 1;
        entry.bytes += bytes as u64;
        Ok(Appended { offset: Offset(next), ticket })
    }

    /// Hands a record to the client, which has it on its way at once.
    fn send(&self, state: &mut State, topic: u16, offset: u64, payload: &[u8]) -> Result<(), LogError> {
        if !state.open {
            self.producer.begin_transaction().map_err(|error| self.refuse(state, &error))?;
            state.open = true;
        }
        let entry = state.topics.get(&topic).expect("only known topics have records");
        let key = frame::key(offset);
        let record = BaseRecord::to(&entry.partition.topic)
            .partition(entry.partition.number.into())
            .key(&key[..])
            .payload(payload);
        if let Err((error, _)) = self.producer.send(record) {
            return Err(match error.rdkafka_error_code() {
                Some(Code::QueueFull) => LogError::Backpressure {
                    pending_bytes: state.pending_bytes,
                    max_pending_bytes: self.max_pending_bytes,
                },
                _ => self.refuse(state, &error),
            });
        }
        state.sent_bytes += payload.len();
        state.topics.get_mut(&topic).expect("it was found above").sent = offset + 1;
        Ok(())
    }

    /// A record was refused by the client: then nothing of the transaction can be committed.
    fn refuse(&self, state: &mut State, error: &KafkaError) -> LogError {
        self.producer.poll(Duration::ZERO);
        let over = match self.producer.client().fatal_error() {
            Some((code, _)) if fences(code) => Over::Fenced,
            Some((_, text)) => Over::Failed(text),
            None => Over::Failed(self.producer.context().explain(error)),
        };
        state.over.get_or_insert(over);
        self.check(state).expect_err("it is over")
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
        let _committer = self.committer.lock().expect(LOCK);
        let deadline = Instant::now() + self.sync_timeout;
        loop {
            let durable = self.durable();
            if durable.0 >= wanted {
                // Nothing to do says nothing about being fenced, and need not.
                return Ok(durable);
            }
            self.begin_commit()?;
            self.finish_commit(deadline)?;
        }
    }

    /// From here on records wait, until the commit is known to have happened.
    fn begin_commit(&self) -> Result<(), LogError> {
        let mut state = self.state();
        self.check(&state)?;
        if state.commit.is_none() {
            self.send_waiting(&mut state)?;
            let ticket = state.appended - state.waiting.len() as u64;
            let bytes = std::mem::take(&mut state.sent_bytes);
            state.commit = Some(Commit { ticket, bytes });
        }
        Ok(())
    }

    fn finish_commit(&self, deadline: Instant) -> Result<(), LogError> {
        loop {
            self.producer.poll(Duration::ZERO);
            let left = deadline.saturating_duration_since(Instant::now());
            match native::commit(self.producer.client(), left.min(STEP)) {
                Ok(()) => return self.committed(),
                Err(error) if error.fatal || error.abort || !is_transient(&error) => {
                    return Err(self.failed(&error));
                }
                Err(error) if left <= STEP => {
                    let reason = self.producer.context().explain(error.text);
                    self.state().stalled = Some(reason.clone());
                    return Err(LogError::Stalled { reason });
                }
                Err(_) => {}
            }
        }
    }

    fn committed(&self) -> Result<(), LogError> {
        let mut state = self.state();
        let commit = state.commit.take().expect("only the committer ends a commit");
        state.open = false;
        state.stalled = None;
        state.pending_bytes -= commit.bytes;
        for topic in state.topics.values_mut() {
            topic.committed = topic.sent;
        }
        self.durable.store(commit.ticket, Ordering::Release);
        self.send_waiting(&mut state)
    }

    fn send_waiting(&self, state: &mut State) -> Result<(), LogError> {
        while let Some(record) = state.waiting.pop_front() {
            match self.send(state, record.topic, record.offset, &record.payload) {
                Ok(()) => {}
                Err(LogError::Backpressure { .. }) => {
                    state.waiting.push_front(record);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
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
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if state.open && state.over.is_none() {
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
