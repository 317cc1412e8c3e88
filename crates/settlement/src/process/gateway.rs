//! The senders' side of a network over a cluster: submissions go to the schedulers, their words on them and the
//! sequence come back.

use super::layout::{Bindings, Layout, Role};
use super::shard::{Opened, ShardError, Stop};
use crate::annex;
use crate::message::{AnnexBatch, CosignatureBatch, IntakeBatch, SequenceBatch, Submission, Withdrawal};
use crate::runtime::executor::Signal;
use crate::runtime::feed::{Aside, Cursor, Feeds, Polled, UnreadableRecords};
use crate::runtime::shell::assembler_of;
use crate::runtime::topic::{Reader, Topic, TopicError};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tally_ledger::{ParticipantId, Timestamp, TransactionBatch, Uetr};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{Health, Log, LogError, TopicId};

/// The largest submission, in bytes of its encoding: what a scheduler makes of it fits the records of the other topics,
/// which are four times as large.
pub const MAX_SUBMISSION_BYTES: usize = 4 << 20;

/// One gateway of a network.
pub struct Gateway {
    sender: Sender,
    listener: Listener,
}

/// The half of a gateway that hands transactions in.
pub struct Sender {
    name: String,
    log: Arc<dyn SharedLog>,
    submissions: Vec<Topic<Submission>>,
    withdrawals: Vec<Topic<Withdrawal>>,
    annex: TopicId,
    /// When texts were kept last, which never goes back.
    kept: Mutex<Timestamp>,
    origins: AtomicU64,
}

/// The half of a gateway that hears what becomes of them.
pub struct Listener {
    name: String,
    log: Arc<dyn SharedLog>,
    intake: Reader<IntakeBatch>,
    sequence: Reader<SequenceBatch>,
    of_sequence: (TopicId, Cursor),
    /// By participant.
    cosignatures: Reader<CosignatureBatch>,
    /// What witnesses wrote and nobody can read.
    aside: Aside,
}

/// Where a gateway that is opened begins to number its submissions: at random.
///
/// Answers to an earlier process of the same gateway may still come, and name submissions by their origin alone. A clock
/// keeps them apart only while it goes forward.
#[must_use]
pub fn first_origin() -> u64 {
    // Keyed by the system's random source; it is no secret.
    RandomState::new().hash_one(())
}

impl Gateway {
    /// Opens gateway number `number`. It hears what is said from now on; `first` is the origin of its first submission, see
    /// [`first_origin`].
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    pub fn open(
        cluster: &dyn Cluster,
        layout: &Layout,
        number: u16,
        first: u64,
        stop: &Stop,
    ) -> Result<Self, ShardError> {
        Self::open_from(cluster, layout, number, (first, None), stop)
    }

    /// The same, but that it hears the sequence from record `sequence` on.
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    pub(super) fn open_from(
        cluster: &dyn Cluster,
        layout: &Layout,
        number: u16,
        (first, from): (u64, Option<u64>),
        stop: &Stop,
    ) -> Result<Self, ShardError> {
        let mut bindings = Bindings::default();
        let submissions: Vec<_> =
            (0..layout.schedulers).map(|s| bindings.writes(layout.transactions(number, s))).collect();
        let withdrawals: Vec<_> =
            (0..layout.assemblers).map(|a| bindings.writes(layout.withdrawals(number, a))).collect();
        let annex = bindings.writes(layout.annex(number));
        let intake: Vec<_> =
            (0..layout.schedulers).map(|s| bindings.reads(layout.intake(s, number))).collect();
        let sequence = bindings.reads(layout.sequence());
        let cosignatures: Vec<_> =
            layout.everybody().map(|participant| bindings.reads(layout.cosignatures(participant))).collect();
        let opened = Opened::open(cluster, layout, (Role::Gateway, number), bindings, stop)?;
        let from_end = |id: &TopicId| (*id, opened.partition(*id), Cursor::new(opened.log.next(*id).0));
        let intake = intake.iter().map(from_end).collect::<Vec<_>>();
        let mut of_sequence = from_end(&sequence);
        if let Some(from) = from {
            of_sequence.2 = Cursor::new(from.min(of_sequence.2.next()));
        }
        let signal = Arc::new(Signal::default());
        let log: Arc<dyn Log> = Arc::clone(&opened.log) as Arc<dyn Log>;
        let mut kept = Timestamp(0);
        if let Some(last) = opened.log.next(annex).0.checked_sub(1) {
            opened.read(annex, last..last + 1, |_, batch: AnnexBatch| {
                kept = batch.kept_at;
                Ok(())
            })?;
        }
        let sender = Sender {
            submissions: (submissions.iter())
                .map(|id| Topic::logged("transactions", 1, Arc::clone(&log), *id, &signal))
                .collect(),
            withdrawals: (withdrawals.iter())
                .map(|id| Topic::logged("withdrawals", 1, Arc::clone(&log), *id, &signal))
                .collect(),
            annex,
            kept: Mutex::new(kept),
            origins: AtomicU64::new(first),
            log: Arc::clone(&opened.log),
            name: opened.name.clone(),
        };
        // From the last that each witness appended on: what it cosigned before, it cosigned with that.
        let last = |at: usize| opened.log.next(cosignatures[at]).0.saturating_sub(1);
        let unreadable = UnreadableRecords::OfMembers(Arc::clone(&opened.aside));
        let (cosignatures, _) = opened.follow(&cosignatures, last, unreadable);
        let listener = Listener {
            cosignatures,
            aside: Arc::clone(&opened.aside),
            intake: Reader::shared(Feeds::new(Arc::clone(&opened.log), intake, UnreadableRecords::Stop)),
            of_sequence: (sequence, of_sequence.2.clone()),
            sequence: Reader::shared(Feeds::new(
                Arc::clone(&opened.log),
                [of_sequence],
                UnreadableRecords::Stop,
            )),
            log: opened.log,
            name: opened.name,
        };
        Ok(Self { sender, listener })
    }

    /// Its halves, for a thread each.
    pub fn split(self) -> (Sender, Listener) {
        (self.sender, self.listener)
    }

    /// See [`Sender::schedulers`].
    pub fn schedulers(&self) -> usize {
        self.sender.schedulers()
    }

    /// See [`Sender::route`].
    pub fn route(&self, uetr: &Uetr) -> usize {
        self.sender.route(uetr)
    }

    /// See [`Sender::submit`].
    ///
    /// # Errors
    /// When the log refuses; nothing was queued.
    pub fn submit(&self, scheduler: usize, batch: TransactionBatch) -> Result<u64, ShardError> {
        self.sender.submit(scheduler, batch)
    }

    /// See [`Sender::withdraw`].
    ///
    /// # Errors
    /// When the log refuses; nothing was queued.
    pub fn withdraw(&self, withdrawal: Withdrawal) -> Result<(), ShardError> {
        self.sender.withdraw(withdrawal)
    }

    /// See [`Sender::pending_bytes`].
    pub fn pending_bytes(&self) -> usize {
        self.sender.pending_bytes()
    }

    /// See [`Sender::flush`].
    ///
    /// # Errors
    /// When what was queued is never handed in.
    pub fn flush(&self) -> Result<bool, ShardError> {
        self.sender.flush()
    }

    /// See [`Listener::intake`].
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn intake(&mut self) -> Result<Option<Arc<IntakeBatch>>, ShardError> {
        self.listener.intake()
    }

    /// See [`Listener::sequence`].
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn sequence(&mut self) -> Result<Option<(u64, Arc<SequenceBatch>)>, ShardError> {
        self.listener.sequence()
    }

    /// See [`Listener::wait`].
    pub fn wait(&self, limit: Duration) {
        self.listener.wait(limit);
    }

    /// See [`Sender::health`].
    pub fn health(&self) -> Health {
        self.sender.health()
    }
}

impl Sender {
    /// How many schedulers share the transactions.
    pub fn schedulers(&self) -> usize {
        self.submissions.len()
    }

    /// The scheduler to which a reference falls.
    pub fn route(&self, uetr: &Uetr) -> usize {
        crate::engine::route(uetr, self.schedulers())
    }

    /// Queues transactions, all of whose references fall to that scheduler, for the next [`Self::flush`]; the origin by
    /// which the scheduler names them.
    ///
    /// # Errors
    /// When the log refuses; nothing was queued.
    pub fn submit(&self, scheduler: usize, batch: TransactionBatch) -> Result<u64, ShardError> {
        let origin = self.origins.fetch_add(1, Ordering::Relaxed);
        let sent = self.submissions[scheduler].append(Arc::new(Submission { origin, batch }));
        sent.map_err(|error| unreadable(&self.name, error))?;
        Ok(origin)
    }

    /// Queues the withdrawal of a transaction for the next [`Self::flush`].
    ///
    /// # Errors
    /// When the log refuses; nothing was queued.
    pub fn withdraw(&self, withdrawal: Withdrawal) -> Result<(), ShardError> {
        let topic = &self.withdrawals[assembler_of(withdrawal.source, self.withdrawals.len())];
        topic.append(Arc::new(withdrawal)).map_err(|error| unreadable(&self.name, error))?;
        Ok(())
    }

    /// Queues texts that are to be kept for the next [`Self::flush`].
    ///
    /// # Errors
    /// When the log refuses; some may be queued.
    pub fn keep(&self, now: Timestamp, texts: Vec<Vec<u8>>) -> Result<(), ShardError> {
        let mut last = self.kept.lock().expect("nobody panics with the time");
        *last = now.max(*last);
        annex::append(&*self.log, self.annex, *last, texts)
            .map_err(|source| ShardError::Log { shard: self.name.clone(), source })
    }

    /// Bytes that wait for [`Self::flush`].
    pub fn pending_bytes(&self) -> usize {
        self.log.pending_bytes()
    }

    /// Hands what was queued to the schedulers; whether the cluster took it. Where it did not, it is taken later.
    ///
    /// # Errors
    /// When it never will: what was queued has not been handed in.
    pub fn flush(&self) -> Result<bool, ShardError> {
        match self.log.sync() {
            Ok(_) => Ok(true),
            Err(LogError::Stalled { .. } | LogError::Backpressure { .. }) => Ok(false),
            Err(source) => Err(ShardError::Log { shard: self.name.clone(), source }),
        }
    }

    /// Whether the cluster can be reached.
    pub fn health(&self) -> Health {
        self.log.health()
    }

    /// Its log.
    pub(super) fn log(&self) -> Arc<dyn SharedLog> {
        Arc::clone(&self.log)
    }
}

impl Listener {
    /// What a scheduler said next of a submission of this gateway.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn intake(&mut self) -> Result<Option<Arc<IntakeBatch>>, ShardError> {
        let polled = self.intake.poll().map_err(|error| unreadable(&self.name, error))?;
        Ok(polled.map(|polled| polled.value))
    }

    /// The next decisions of the sequence, everybody's, with their record's position.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn sequence(&mut self) -> Result<Option<(u64, Arc<SequenceBatch>)>, ShardError> {
        let polled = self.sequence.poll().map_err(|error| unreadable(&self.name, error))?;
        Ok(polled.map(|Polled { position, value, .. }| (position, value)))
    }

    /// What a witness cosigned next: unverified, with the participant in whose topic it lies. What cannot be read there
    /// is that participant's fault, and passed over.
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    pub fn cosignatures(
        &mut self,
        waits: impl Fn(usize) -> bool,
    ) -> Result<Option<(ParticipantId, Arc<CosignatureBatch>)>, ShardError> {
        let polled = self.cosignatures.poll_unless(waits).map_err(|error| unreadable(&self.name, error))?;
        for letter in std::mem::take(&mut *self.aside.lock().expect("no holder of the lock panics")) {
            let (partition, position, reason) = (letter.partition, letter.position, letter.reason);
            tracing::error!(%partition, position, reason, "a witness wrote what nobody can read");
        }
        let whose = |feed| ParticipantId(u16::try_from(feed).expect("participants are numbered in 16 bits"));
        Ok(polled.map(|polled| (whose(polled.feed), polled.value)))
    }

    /// What asks the cluster for the end of the sequence, in records; it gets none where the cluster does not say.
    pub fn end(&self) -> impl Fn() -> Option<u64> + Send + Sync + use<> {
        let (log, sequence) = (Arc::clone(&self.log), self.of_sequence.0);
        move || Some(log.next(sequence).0).filter(|end| *end != u64::MAX)
    }

    /// Sleeps until something may have come, at most for `limit`.
    pub fn wait(&self, limit: Duration) {
        self.log.wait(limit);
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The position of the next record of the sequence that it reads.
    pub fn position(&self) -> u64 {
        self.of_sequence.1.next()
    }
}

fn unreadable(name: &str, error: TopicError) -> ShardError {
    match error {
        TopicError::Log { source, .. } => ShardError::Log { shard: name.to_owned(), source },
        TopicError::Unreadable(source) => ShardError::Unreadable { shard: name.to_owned(), source },
    }
}
