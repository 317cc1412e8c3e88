//! A shard: one stage with its partitions, run turn by turn.
//!
//! In a turn the stage takes what has come, appends what follows from it, and records how far it has come; then all of
//! it becomes visible at once. A turn that does not get there has not happened: whoever opens the shard next
//! begins where the last complete turn ended.

use super::layout::{Layout, Role};
use super::state::State;
use crate::message::Message;
use crate::runtime::executor::{Stage, StageError};
use crate::runtime::feed::{Aside, Cursor, Feeds, RecordFault, SetAside, Unreadable, UnreadableRecords};
use crate::runtime::topic::Reader;
use crate::stage::Approver;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tally_ledger::Timestamp;
use tally_ledger::wire::{DecodeError, write, write_count};
use tally_log::cluster::{Foreign, Partition, SharedLog};
use tally_log::{Health, LogError, Offset, TopicId, Visibility};
use tally_proof::evidence::TwoHeads;

/// A shard that cannot be opened, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// The log refused.
    #[error("{shard}: the log refused")]
    Log {
        /// Which.
        shard: String,
        /// Why.
        #[source]
        source: LogError,
    },
    /// The stage could not go on.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// A record cannot be read.
    #[error("{shard} cannot read what it needs")]
    Unreadable {
        /// Which.
        shard: String,
        /// What.
        #[source]
        source: Unreadable,
    },
    /// A record that it wrote itself has another form: it was written by a newer program.
    #[error(
        "{shard}: record {position} of {partition} has another form; use the program that wrote it, or a newer one"
    )]
    Own {
        /// Which.
        shard: String,
        /// Where.
        partition: Partition,
        /// Which record.
        position: u64,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// The topics do not hold what the shard needs to go on.
    #[error("{shard}: {what}")]
    History {
        /// Which.
        shard: String,
        /// What is missing or contradicts itself.
        what: String,
    },
    /// The operator signed two heads of its log that do not fit: neither history is told to anybody.
    #[error(
        "{shard}: the operator signed two different heads of {} records, one of which {witness} cosigned: it shows two \
         histories",
        .heads.first.head.size
    )]
    TwoHistories {
        /// Which.
        shard: String,
        /// BIC of the institution that cosigned the other head.
        witness: String,
        /// Both heads.
        heads: Box<TwoHeads>,
    },
    /// This machine's clock is wrong now, or was when the shard wrote its last record.
    #[error(
        "{shard} wrote its last record {ahead_ms} ms after this machine's clock: set the clock right; \
         if it was wrong then, wait until it has caught up"
    )]
    Clock {
        /// Which.
        shard: String,
        /// By how much the record is ahead.
        ahead_ms: u64,
    },
    /// It was told to stop while it was being opened.
    #[error("{shard} was stopped before it was ready")]
    Stopped {
        /// Which.
        shard: String,
    },
}

impl ShardError {
    /// Whether another process runs the shard now.
    pub fn is_fenced(&self) -> bool {
        matches!(self.log_error(), Some(LogError::Fenced { .. }))
    }

    /// Whether the same may succeed once the cluster can be reached again.
    pub fn is_transient(&self) -> bool {
        use LogError::{Backpressure, Cluster, Full, Stalled};
        matches!(self.log_error(), Some(Backpressure { .. } | Cluster { .. } | Full { .. } | Stalled { .. }))
    }

    /// What the log said, if that is the cause.
    fn log_error(&self) -> Option<&LogError> {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<LogError>() {
                return Some(error);
            }
            cause = error.source();
        }
        None
    }
}

/// Tells a shard to stop.
#[derive(Clone, Default, Debug)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Tells it.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
    /// Whether it was told.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// What a shard has done since it was opened.
#[derive(Default, Debug)]
pub struct Counts {
    /// Turns that became visible.
    pub commits: AtomicU64,
    /// Time that making them visible took, in nanoseconds.
    pub commit_ns: AtomicU64,
    /// Batches taken.
    pub steps: AtomicU64,
    /// Records set aside.
    pub dead_letters: AtomicU64,
}

/// What others see of a shard that runs.
#[derive(Clone)]
pub struct Watch {
    log: Arc<dyn SharedLog>,
    counts: Arc<Counts>,
}

impl Watch {
    /// What it has done.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether its log can make progress.
    pub fn health(&self) -> Health {
        self.log.health()
    }

    /// By partition, how many records are known to be there that it has not read.
    pub fn lag(&self) -> Vec<(String, u64)> {
        let behind = self.log.behind().into_iter();
        behind.map(|(partition, records)| (partition.to_string(), records)).collect()
    }
}

/// A stage that knows how to record how far it has come.
pub(super) trait Resumable: Send {
    /// The stage.
    fn stage(&mut self) -> &mut dyn Stage;
    /// What to record with what was appended; none where nothing need be.
    fn state(&mut self) -> Option<State>;
    /// Appends what is due from time to time, or because the shard `stops`; whether there was anything.
    fn save(&mut self, _log: &dyn SharedLog, _now: Timestamp, _stops: bool) -> Result<bool, LogError> {
        Ok(false)
    }
    /// The approver, where it is one.
    fn approver(&self) -> Option<&Approver> {
        None
    }
}

/// One stage with its partitions.
pub struct Shard {
    name: String,
    log: Arc<dyn SharedLog>,
    resumable: Box<dyn Resumable>,
    state: Option<TopicId>,
    dead_letters: TopicId,
    aside: Aside,
    /// Whether something waits to become visible.
    unsynced: bool,
    counts: Arc<Counts>,
}

/// The most batches of a turn.
const MAX_STEPS: usize = 256;
/// What a turn appends, at most and a batch more.
const MAX_TURN_BYTES: usize = 8 << 20;
/// How long an idle shard sleeps at most.
const IDLE: Duration = Duration::from_millis(20);
/// Records of how far it has come that a shard leaves before it lets go of the older ones.
const KEPT_STATES: u64 = 1 << 12;
/// How far a shard's record may be ahead of this machine's clock when it is opened.
const CLOCK_TOLERANCE_MS: u64 = 60_000;

impl Shard {
    pub(super) fn new(
        opened: Opened,
        resumable: Box<dyn Resumable>,
        state: Option<TopicId>,
        dead_letters: TopicId,
    ) -> Self {
        let Opened { name, log, aside, .. } = opened;
        let counts = Arc::default();
        Self { name, log, resumable, state, dead_letters, aside, unsynced: false, counts }
    }

    /// Its name in messages and metrics.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets others see what it does while it runs.
    pub fn watch(&self) -> Watch {
        Watch { log: Arc::clone(&self.log), counts: Arc::clone(&self.counts) }
    }

    /// The approver, where the shard is one: what is available, and how much is under way.
    pub fn approver(&self) -> Option<&Approver> {
        self.resumable.approver()
    }

    fn failed(&self) -> impl Fn(LogError) -> ShardError + use<> {
        let shard = self.name.clone();
        move |source| ShardError::Log { shard: shard.clone(), source }
    }

    /// Takes a turn, if there is anything to do; whether there was.
    ///
    /// # Errors
    /// When the shard cannot go on. It has to be opened again, here or elsewhere.
    pub fn turn(&mut self, now: Timestamp) -> Result<bool, ShardError> {
        if self.unsynced {
            return self.sync();
        }
        let mut steps = 0;
        while steps < MAX_STEPS
            && self.log.pending_bytes() < MAX_TURN_BYTES
            && self.resumable.stage().poll(now)?
        {
            steps += 1;
        }
        self.counts.steps.fetch_add(steps as u64, Ordering::Relaxed);
        let aside = self.set_aside()?;
        let appended = self.log.pending_bytes() > 0;
        if appended {
            self.record()?;
        }
        let saved = self.resumable.save(&*self.log, now, false).map_err(self.failed())?;
        if appended || saved || aside {
            self.sync()?;
        }
        Ok(steps > 0 || aside)
    }

    fn record(&mut self) -> Result<(), ShardError> {
        let Some((topic, state)) = self.state.zip(self.resumable.state()) else { return Ok(()) };
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        let appended = self.log.append(topic, &[&bytes]).map_err(self.failed())?;
        // Only the last one is ever read.
        if appended.offset.0 % KEPT_STATES == KEPT_STATES - 1 {
            let released = self.log.release(topic, Offset(appended.offset.0 - 1));
            if let Err(error) = released {
                tracing::warn!(shard = self.name, %error, "older records of the shard's state stay");
            }
        }
        Ok(())
    }

    /// Makes the turn visible. While the cluster cannot, the shard takes no other turn.
    fn sync(&mut self) -> Result<bool, ShardError> {
        self.unsynced = true;
        let began = std::time::Instant::now();
        match self.log.sync() {
            Ok(_) => {
                self.unsynced = false;
                self.counts.commits.fetch_add(1, Ordering::Relaxed);
                let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.counts.commit_ns.fetch_add(took, Ordering::Relaxed);
                Ok(true)
            }
            Err(LogError::Stalled { .. } | LogError::Backpressure { .. }) => Ok(false),
            Err(source) => Err(self.failed()(source)),
        }
    }

    /// Appends what cannot be read, and harms nobody by being passed over, to the dead letters.
    fn set_aside(&mut self) -> Result<bool, ShardError> {
        let mut all = std::mem::take(&mut *self.aside.lock().expect("no holder of the lock panics"));
        let foreign = self.log.foreign().into_iter().map(|foreign| {
            let reason = format!("foreign: {}", foreign.what);
            let Foreign { partition, position, payload, .. } = foreign;
            SetAside::new(partition, position, RecordFault::Foreign, reason, &payload)
        });
        all.extend(foreign);
        for letter in &all {
            let SetAside { partition, position, fault, reason, bytes, kept } = letter;
            let fault = fault.name();
            tracing::error!(shard = self.name, %partition, position, fault, reason, "a record was set aside");
            let text = serde_json::json!({
                "topic": partition.topic, "partition": partition.number, "offset": position, "fault": fault,
                "reason": reason, "bytes": bytes,
            })
            .to_string();
            let mut head = Vec::new();
            write_count(&mut head, text.len());
            let parts: [&[u8]; 3] = [&head, text.as_bytes(), kept];
            self.log.append(self.dead_letters, &parts).map_err(self.failed())?;
            self.counts.dead_letters.fetch_add(1, Ordering::Relaxed);
        }
        Ok(!all.is_empty())
    }

    /// Takes turns until it is told to stop. What was taken is visible then.
    ///
    /// # Errors
    /// When the shard cannot go on.
    pub fn run(mut self, clock: impl Fn() -> Timestamp, stop: &Stop) -> Result<(), ShardError> {
        while !stop.is_set() {
            if !self.turn(clock())? {
                self.log.wait(IDLE);
            }
        }
        self.finish(clock())
    }

    /// Saves what makes the next start quick, if everything taken is visible.
    fn finish(mut self, now: Timestamp) -> Result<(), ShardError> {
        if !self.unsynced && self.resumable.save(&*self.log, now, true).map_err(self.failed())? {
            self.sync()?;
        }
        Ok(())
    }
}

/// A shard's log with what is needed to recover from it.
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) log: Arc<dyn SharedLog>,
    pub(super) aside: Aside,
    pub(super) stop: Stop,
    bindings: super::layout::Bindings,
}

impl Opened {
    pub(super) fn open(
        cluster: &dyn tally_log::cluster::Cluster,
        layout: &Layout,
        (role, shard): (Role, u16),
        bindings: super::layout::Bindings,
        stop: &Stop,
    ) -> Result<Self, ShardError> {
        let name = layout.writer(role, shard);
        let log = cluster.open(&name, &bindings.0);
        let log = log.map_err(|source| ShardError::Log { shard: name.clone(), source })?;
        Ok(Self { name, log, aside: Aside::default(), stop: stop.clone(), bindings })
    }

    /// A log of one who only reads.
    pub(super) fn reader(
        cluster: &dyn tally_log::cluster::Cluster,
        name: String,
        bindings: super::layout::Bindings,
        stop: &Stop,
    ) -> Result<Self, ShardError> {
        let log = cluster.reader(&bindings.0);
        let log = log.map_err(|source| ShardError::Log { shard: name.clone(), source })?;
        Ok(Self { name, log, aside: Aside::default(), stop: stop.clone(), bindings })
    }

    pub(super) fn partition(&self, id: TopicId) -> Partition {
        self.bindings.partition(id)
    }

    /// A reader of those partitions in turn, each from the position that `from` says by its place in the list; and how far it
    /// has come in each.
    pub(super) fn follow<T: Message>(
        &self,
        topics: &[TopicId],
        from: impl Fn(usize) -> u64,
        unreadable: UnreadableRecords,
    ) -> (Reader<T>, Vec<Cursor>) {
        let cursors: Vec<_> = (0..topics.len()).map(|at| Cursor::new(from(at))).collect();
        let partitions = topics.iter().zip(&cursors);
        let partitions = partitions.map(|(id, cursor)| (*id, self.partition(*id), cursor.clone()));
        (Reader::shared(Feeds::new(Arc::clone(&self.log), partitions, unreadable)), cursors)
    }

    pub(super) fn failed(&self, source: LogError) -> ShardError {
        ShardError::Log { shard: self.name.clone(), source }
    }

    pub(super) fn history(&self, what: impl Into<String>) -> ShardError {
        ShardError::History { shard: self.name.clone(), what: what.into() }
    }

    /// What the shard recorded last.
    pub(super) fn state(&self, topic: TopicId, now: Timestamp) -> Result<State, ShardError> {
        let next = self.log.next(topic).0;
        let mut state = State::default();
        if let Some(last) = next.checked_sub(1) {
            self.read(topic, last..next, |_, found: State| {
                state = found;
                Ok(())
            })?;
        }
        let ahead_ms = state.clock.0.saturating_sub(now.0);
        if ahead_ms > CLOCK_TOLERANCE_MS {
            return Err(ShardError::Clock { shard: self.name.clone(), ahead_ms });
        }
        Ok(state)
    }

    /// Waits until `ready` says so, looking again whenever something may have come.
    pub(super) fn until(
        &self,
        mut ready: impl FnMut() -> Result<bool, ShardError>,
    ) -> Result<(), ShardError> {
        while !ready()? {
            if self.stop.is_set() {
                return Err(ShardError::Stopped { shard: self.name.clone() });
            }
            self.log.wait(IDLE);
        }
        Ok(())
    }

    /// Reads the raw records of a partition that are known to be there.
    pub(super) fn read_bytes(
        &self,
        topic: TopicId,
        range: std::ops::Range<u64>,
        mut each: impl FnMut(u64, bytes::Bytes) -> Result<(), ShardError>,
    ) -> Result<(), ShardError> {
        const READ_BYTES: usize = 4 << 20;
        if range.is_empty() {
            // To read would go there and begin to fetch what comes after.
            return Ok(());
        }
        let mut at = range.start;
        self.until(|| {
            let mut records = Vec::new();
            let read = self.log.read(topic, Offset(at), READ_BYTES, Visibility::Durable, &mut records);
            let next = read.map_err(|source| self.failed(source))?.0;
            for record in records.into_iter().take_while(|record| record.offset.0 < range.end) {
                each(record.offset.0, record.payload)?;
            }
            at = next;
            Ok(at >= range.end)
        })
    }

    /// Reads the records of a partition that are known to be there.
    pub(super) fn read<T: Message>(
        &self,
        topic: TopicId,
        range: std::ops::Range<u64>,
        mut each: impl FnMut(u64, T) -> Result<(), ShardError>,
    ) -> Result<(), ShardError> {
        self.read_bytes(topic, range, |position, payload| {
            let value = T::decode(&payload).map_err(|source| ShardError::Own {
                shard: self.name.clone(),
                partition: self.partition(topic),
                position,
                source,
            })?;
            each(position, value)
        })
    }
}

/// Appends a list of numbers.
pub(super) fn write_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    write_count(out, numbers.len());
    for number in numbers {
        write(out, number);
    }
}
