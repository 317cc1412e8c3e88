//! A whole network in one process: every stage, joined by topics, over one journal.

pub(crate) mod answer;
mod desk;
pub(crate) mod earlier;
pub(crate) mod past;
mod recovery;
mod saver;
mod volume;

pub use answer::{Answer, FirstUse, Outcome, Pending};
pub use desk::{AccountView, Desk, Total};
pub use recovery::{Assembly, RecoveryReport, assemble};
pub use volume::VolumePort;

use crate::clerk::{Clerk, Waiter};
use crate::journal::JournalError;
use crate::message::{IntakeBatch, SequenceBatch, Submission, Withdrawal};
use crate::outcomes::Kept;
use crate::replay::ReplayError;
use crate::runtime::executor::{Executor, Signal, Stage, StageError};
use crate::runtime::shell::SharedState;
use crate::runtime::topic::{Reader, Topic, TopicError};
use crate::snapshot::SnapshotError;
pub use crate::stage::scheduler::route;
use crate::stage::{Scheduler, Updater};
use crate::statement::Ends;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tally_crypto::SigningKey;
use tally_crypto::log::SignedTreeHead;
use tally_ledger::{Network, Timestamp, Transaction, TransactionBatch, Uetr};
use tally_log::{FileLog, Flusher, Health, Log, LogError, Options};

/// How a network is run.
pub struct EngineOptions {
    /// Holds `journal/` and `snapshots/`.
    pub directory: PathBuf,
    /// Who takes part.
    pub network: Network,
    /// The institutions' keys by participant. The first one's also signs the tree heads.
    pub keys: Vec<SigningKey>,
    /// How many schedulers share the transactions; for the life of the network.
    pub schedulers: usize,
    /// How many threads run the stages.
    pub workers: usize,
    /// How many references each scheduler remembers at most, until they expire.
    pub remember: usize,
    /// How long records gather before they are written.
    pub linger: Duration,
    /// How often the balances are saved; none: only when stopped.
    pub snapshot_every: Option<Duration>,
    /// Batches that a topic holds before its writer waits.
    pub topic_capacity: usize,
    /// How the journal is kept.
    pub journal: Options,
}

impl EngineOptions {
    /// What a network in use has: as many workers as cores, two schedulers, snapshots every minute.
    pub fn new(directory: PathBuf, network: Network, keys: Vec<SigningKey>) -> Self {
        Self {
            directory,
            network,
            keys,
            schedulers: 2,
            workers: std::thread::available_parallelism().map_or(2, usize::from),
            remember: 1 << 26,
            linger: Duration::from_micros(500),
            snapshot_every: Some(Duration::from_secs(60)),
            topic_capacity: 16,
            journal: Options::default(),
        }
    }
}

/// A network that cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The options do not fit the network.
    #[error("the network cannot be run so: {0}")]
    Options(String),
    /// A file could not be made or read.
    #[error("{action} {path} failed")]
    Io {
        /// What was being done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The journal could not be opened.
    #[error("the journal in {path} cannot be opened")]
    Log {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: LogError,
    },
    /// The journal could not be replayed.
    #[error("recovery stopped")]
    Journal(#[from] JournalError),
    /// The logs do not hold what the accounts need.
    #[error("recovery stopped")]
    Replay(#[from] ReplayError),
    /// A snapshot could not be read or written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// This machine's clock is wrong now, or was when the logs were written.
    #[error(
        "the journal's last record is of {ahead_ms} ms after this machine's clock: set the clock right; \
         if it was wrong when that record was written, wait until it has caught up"
    )]
    Clock {
        /// By how much the journal is ahead.
        ahead_ms: u64,
    },
    /// The log takes no texts beside the ledger.
    #[error("what the message says cannot be kept now; nothing of it was done")]
    NotKept(#[source] LogError),
    /// No random numbers for the process's secret.
    #[error("the operating system gave no random numbers")]
    Random(#[source] tally_crypto::sign::RandomnessError),
    /// The network has stopped.
    #[error("the network has stopped: {0}")]
    Stopped(String),
    /// Other processes may have told of more than is known here.
    #[error(
        "the cluster did not say in time whether there is anything newer; ask again, or for what is known here: consistency=local"
    )]
    Behind,
    /// More is under way than may be.
    #[error("the network is busy: {0} transactions wait to be scheduled")]
    Busy(usize),
    /// An institution has as much undecided as this gateway takes of one.
    #[error(
        "{0} transactions of the institution that pays are undecided, its whole share of this gateway: others are taken once its \
         approver has answered these, or they have expired"
    )]
    Share(usize),
}

/// Transactions that wait to be put into a batch, for one scheduler.
struct Collector {
    waiting: Mutex<VecDeque<(Transaction, Waiter)>>,
    submissions: Topic<Submission>,
}

struct Shared {
    network: Arc<Network>,
    /// The institutions' keys by participant, to approve again what is settled, for proofs.
    keys: Vec<SigningKey>,
    log: Arc<FileLog>,
    signal: Arc<Signal>,
    schedulers: Vec<SharedState<Scheduler>>,
    updaters: Vec<SharedState<Updater>>,
    clerk: SharedState<Clerk>,
    collectors: Vec<Collector>,
    intake: Topic<IntakeBatch>,
    sequence: Topic<SequenceBatch>,
    withdrawals: Topic<Withdrawal>,
    /// When texts were kept last, which never goes back.
    kept: Mutex<Timestamp>,
    origins: AtomicU64,
    snapshots: PathBuf,
    started_head: Mutex<Option<SignedTreeHead>>,
    /// Held while the journal is searched for one transaction.
    search: Mutex<()>,
    /// Names of the journal's topics.
    names: earlier::Names,
    /// What those who follow the outcomes read last.
    concluded: Kept,
    /// Where pages of statements ended.
    ends: Ends,
}

/// A running network.
pub struct Engine {
    desk: Desk,
    executor: Executor,
    flusher: Option<Flusher>,
    saver: Option<saver::Saver>,
    report: RecoveryReport,
    clock: Clock,
}

const LOCK: &str = "no step panics and goes on";
/// Transactions that may wait for one scheduler before senders are refused.
pub(crate) const MAX_WAITING: usize = 1 << 18;
/// Transactions that the collector puts into one batch.
pub(crate) const COLLECT: usize = 1 << 12;

/// How far the logs may be ahead of this machine's clock when a network starts.
const CLOCK_TOLERANCE_MS: u64 = 60_000;

/// The machine's clock as it was at the start, going on by the time that passed since: what sets the
/// machine's clock forth or back does not expire transactions, nor let them live longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Timestamp,
    since: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: wall_clock(), since: Instant::now() }
    }
    pub(crate) fn now(&self) -> Timestamp {
        self.started.plus_ms(u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

/// The time of this machine's clock.
pub fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl Engine {
    /// Recovers the network from its directory and starts its stages.
    ///
    /// # Errors
    /// When the options do not fit, or the directory cannot be recovered; it is then as it was.
    pub fn open(options: EngineOptions) -> Result<Self, EngineError> {
        recovery::open(options)
    }

    /// What recovery found.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.report
    }
    /// The time by which expiries are judged.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Hands transactions in; see [`Desk::submit`].
    ///
    /// # Errors
    /// When the network has stopped, or too much waits already: nothing was handed in.
    pub fn submit(&self, transactions: Vec<Transaction>) -> Result<Pending, EngineError> {
        self.check()?;
        self.desk.submit(transactions)
    }

    /// Whether the network can go on.
    pub fn health(&self) -> Health {
        match self.executor.failure() {
            Some(reason) => Health::Failed { reason },
            None => self.desk.shared.log.health(),
        }
    }

    fn check(&self) -> Result<(), EngineError> {
        match self.health() {
            Health::Failed { reason } => Err(EngineError::Stopped(reason)),
            _ => Ok(()),
        }
    }

    /// Waits until everything accepted is decided, durable and applied, at most so long; saves the
    /// balances and stops.
    ///
    /// # Errors
    /// When the file system refuses the snapshot. Nothing is lost: the journal has it all.
    pub fn stop(mut self, drain: Duration) -> Result<(), EngineError> {
        let deadline = Instant::now() + drain;
        while Instant::now() < deadline && self.check().is_ok() && !self.desk.is_drained() {
            let events = self.desk.shared.signal.events();
            self.desk.shared.signal.wait(events, Duration::from_millis(5));
        }
        drop(self.saver.take());
        let failed = self.executor.failure().is_some();
        self.executor.stop();
        drop(self.flusher.take());
        if !failed {
            self.desk.save()?;
        }
        Ok(())
    }
}

impl std::ops::Deref for Engine {
    type Target = Desk;
    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl Shared {
    fn clerk(&self) -> MutexGuard<'_, Clerk> {
        self.clerk.lock().expect(LOCK)
    }

    /// The scheduler that a reference falls to.
    fn route(&self, uetr: &Uetr) -> usize {
        route(uetr, self.schedulers.len())
    }

    fn is_drained(&self) -> bool {
        let collected = self.collectors.iter().all(|c| c.waiting.lock().expect(LOCK).is_empty());
        collected && self.clerk().is_drained()
    }

    fn save(&self) -> Result<PathBuf, EngineError> {
        let origin = self.clerk().recovery_point(tally_log::Ticket(self.log.durable().0 + 1));
        Ok(crate::snapshot::save(&self.snapshots, self.network.id, &origin, &self.updaters)?)
    }
}

/// Puts waiting transactions into batches.
struct CollectorStage {
    shared: Arc<Shared>,
    scheduler: usize,
}

impl Stage for CollectorStage {
    fn name(&self) -> String {
        format!("collector {}", self.scheduler)
    }

    fn poll(&mut self, _now: Timestamp) -> Result<bool, StageError> {
        let collector = &self.shared.collectors[self.scheduler];
        if !collector.submissions.has_room() {
            return Ok(false);
        }
        let mut waiting = collector.waiting.lock().expect(LOCK);
        if waiting.is_empty() {
            return Ok(false);
        }
        let count = waiting.len().min(COLLECT);
        let taken: Vec<_> = waiting.drain(..count).collect();
        drop(waiting);
        let mut batch = TransactionBatch::default();
        let mut waiters = Vec::with_capacity(count);
        for (transaction, waiter) in taken {
            if batch.push(&transaction) {
                waiters.push(waiter);
            }
        }
        let origin = self.shared.origins.fetch_add(1, Ordering::Relaxed);
        self.shared.clerk().submit(origin, waiters);
        collector.submissions.send(Arc::new(Submission { origin, batch }));
        Ok(true)
    }
}

impl ClerkStage {
    fn fault(&self, source: TopicError) -> StageError {
        StageError { stage: self.name(), source: Box::new(source) }
    }
}

/// The clerk with its topics.
struct ClerkStage {
    clerk: SharedState<Clerk>,
    intake: Reader<IntakeBatch>,
    sequence: Reader<SequenceBatch>,
    held: Option<(u64, Arc<SequenceBatch>)>,
}

impl Stage for ClerkStage {
    fn name(&self) -> String {
        "clerk".into()
    }

    fn poll(&mut self, _now: Timestamp) -> Result<bool, StageError> {
        let clerk = Arc::clone(&self.clerk);
        let mut clerk = clerk.lock().expect(LOCK);
        if self.held.is_none() {
            let polled = self.sequence.poll().map_err(|source| self.fault(source))?;
            self.held = polled.map(|polled| (polled.position, polled.value));
        }
        // What the scheduler said of a batch was said before the batch was decided.
        let mut progress = false;
        while let Some(intake) = self.intake.poll().map_err(|source| self.fault(source))? {
            clerk.intake(&intake.value);
            progress = true;
        }
        if let Some((_, batch)) = &self.held
            && clerk.is_applied(batch)
            && let Some((position, batch)) = self.held.take()
        {
            clerk.sequenced(position, &batch);
            progress = true;
        }
        Ok(progress)
    }
}
