//! A whole network in one process: every stage, joined by topics, over one journal.

mod answer;
mod recovery;
mod saver;
mod volume;

pub use answer::{Answer, Outcome, Pending};
pub use recovery::RecoveryReport;
pub use volume::VolumePort;

use crate::accounts::BALANCE_RANGE;
use crate::clerk::{Clerk, Counts, Finality, Notice, Waiter};
use crate::journal::{self, JournalError, SEQUENCE};
use crate::message::{AcceptedBatch, IntakeBatch, Message, SequenceBatch, Source, Submission};
use crate::replay::ReplayError;
use crate::runtime::executor::{Executor, Signal, Stage, StageError};
use crate::runtime::shell::SharedState;
use crate::runtime::topic::{Reader, Topic};
use crate::snapshot::SnapshotError;
use crate::stage::{Scheduler, Updater};
use answer::Mailbox;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tally_crypto::log::SignedTreeHead;
use tally_crypto::{PublicKey, SigningKey};
use tally_ledger::{
    AccountId, AccountNumber, AccountRole, AccountStatus, Amount, AssetId, Network, ParticipantId, Refusal, Timestamp,
    Transaction, TransactionBatch, Uetr,
};
use tally_log::{FileLog, Flusher, Health, Log, LogError, Options, Visibility};

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
    /// No random numbers for the process's secret.
    #[error("the operating system gave no random numbers")]
    Random(#[source] tally_crypto::sign::RandomnessError),
    /// The network has stopped.
    #[error("the network has stopped: {0}")]
    Stopped(String),
    /// More is under way than may be.
    #[error("the network is busy: {0} transactions wait to be scheduled")]
    Busy(usize),
}

/// An account as others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountView {
    /// Which.
    pub id: AccountId,
    /// What it holds.
    pub asset: AssetId,
    /// What it holds of it: durable.
    pub balance: Amount,
    /// Whether it takes part in payments.
    pub status: AccountStatus,
    /// How far below zero it may go.
    pub floor: Amount,
    /// Whose signature debits it; none for an institution's own.
    pub owner: Option<PublicKey>,
}

/// The sums of one participant's books in one asset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Total {
    /// Whose.
    pub participant: ParticipantId,
    /// In what.
    pub asset: AssetId,
    /// Open, frozen and closed customers' accounts.
    pub accounts: u64,
    /// What is on customers' accounts.
    pub customers: i128,
    /// The institution's own funds.
    pub own: i128,
    /// What it issued.
    pub issued: i128,
    /// What others hold at it on settlement accounts.
    pub settlement: i128,
}

/// One movement on an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Place in the one global order.
    pub sequence: u64,
    /// When.
    pub timestamp: Timestamp,
    /// By which transaction.
    pub uetr: Uetr,
    /// What it got.
    pub amount: Amount,
    /// What it held afterwards.
    pub balance: Amount,
}

/// Transactions that wait to be put into a batch, for one scheduler.
struct Collector {
    waiting: Mutex<VecDeque<(Transaction, Waiter)>>,
    submissions: Topic<Submission>,
}

struct Shared {
    network: Arc<Network>,
    log: Arc<FileLog>,
    signal: Arc<Signal>,
    schedulers: Vec<SharedState<Scheduler>>,
    updaters: Vec<SharedState<Updater>>,
    clerk: SharedState<Clerk>,
    collectors: Vec<Collector>,
    intake: Topic<IntakeBatch>,
    sequence: Topic<SequenceBatch>,
    origins: AtomicU64,
    snapshots: PathBuf,
    started_head: Mutex<Option<SignedTreeHead>>,
}

/// A running network.
pub struct Engine {
    shared: Arc<Shared>,
    executor: Executor,
    flusher: Option<Flusher>,
    saver: Option<saver::Saver>,
    report: RecoveryReport,
}

const LOCK: &str = "no step panics and goes on";
/// Transactions that may wait for one scheduler before senders are refused.
const MAX_WAITING: usize = 1 << 18;
/// Transactions that the collector puts into one batch.
const COLLECT: usize = 1 << 12;

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
    /// Who takes part.
    pub fn network(&self) -> &Network {
        &self.shared.network
    }
    /// The time by which expiries are judged.
    pub fn now(&self) -> Timestamp {
        wall_clock()
    }

    /// Hands transactions in; what becomes of them is told by [`Pending::wait`].
    ///
    /// # Errors
    /// When the network has stopped, or too much waits already: nothing was handed in.
    pub fn submit(&self, transactions: Vec<Transaction>) -> Result<Pending, EngineError> {
        self.check()?;
        let (pending, mailbox) = Pending::new(transactions.iter().map(|t| (t.id(), t.header.uetr)).collect());
        let waiting: usize = self.shared.collectors.iter().map(|c| c.waiting.lock().expect(LOCK).len()).sum();
        if waiting + transactions.len() > MAX_WAITING {
            return Err(EngineError::Busy(waiting));
        }
        for (at, transaction) in transactions.into_iter().enumerate() {
            let mailbox = Mailbox::clone(&mailbox);
            let waiter: Waiter = Box::new(move |notice| mailbox.put(at, notice));
            let mut probe = TransactionBatch::default();
            if !probe.push(&transaction) {
                waiter(Notice::Refused(Refusal::Malformed));
                continue;
            }
            let collector = &self.shared.collectors[self.shared.route(&transaction.header.uetr)];
            collector.waiting.lock().expect(LOCK).push_back((transaction, waiter));
        }
        self.shared.signal.notify();
        Ok(pending)
    }

    /// What has become of `pending`, waiting for it at most so long. A transaction that was handed in
    /// before, to the letter, has the outcome that it had then.
    pub fn wait(&self, pending: &Pending, limit: Duration) -> Vec<Answer> {
        let deadline = std::time::Instant::now() + limit;
        let notices = pending.notices(deadline);
        let expected = pending.expected.iter();
        expected
            .zip(notices)
            .map(|((id, uetr), notice)| {
                let outcome = match notice {
                    None => Outcome::Pending,
                    Some(Notice::Refused(refusal)) => Outcome::Refused(refusal),
                    Some(Notice::Final(_, _, finality)) => Outcome::Final(finality),
                    Some(Notice::Duplicate(source, index)) => self.first_use(id, source, index, deadline),
                };
                Answer { id: *id, uetr: *uetr, outcome }
            })
            .collect()
    }

    /// The outcome of a transaction whose reference was used before.
    fn first_use(&self, id: &tally_ledger::TransactionId, source: Source, index: u32, deadline: std::time::Instant) -> Outcome {
        let Some(first) = self.accepted(source).and_then(|batch| batch.batch.transaction(index as usize)) else {
            return Outcome::Duplicate { first: None };
        };
        let (first_id, uetr) = (first.id(), first.header.uetr);
        let outcome = match self.finality(source, index) {
            Some(finality) => Outcome::Final(finality),
            None => {
                let (pending, mailbox) = Pending::new(vec![(first_id, uetr)]);
                self.shared.clerk().wait(source, index, Box::new(move |notice| mailbox.put(0, notice)));
                // It may have become final between the look and the wait.
                match self.finality(source, index) {
                    Some(finality) => Outcome::Final(finality),
                    None => match pending.notices(deadline).first() {
                        Some(Some(Notice::Final(_, _, finality))) => Outcome::Final(*finality),
                        _ => Outcome::Pending,
                    },
                }
            }
        };
        if first_id == *id {
            outcome
        } else {
            Outcome::Duplicate { first: Some(Box::new(Answer { id: first_id, uetr, outcome })) }
        }
    }

    fn accepted(&self, source: Source) -> Option<AcceptedBatch> {
        let mut records = Vec::new();
        let topic = journal::accepted(source.scheduler);
        let offset = tally_log::Offset(source.number);
        self.shared.log.read(topic, offset, 1, Visibility::Appended, &mut records).ok()?;
        AcceptedBatch::decode(&records.first()?.payload).ok()
    }

    fn finality(&self, source: Source, index: u32) -> Option<Finality> {
        let positions = self.shared.clerk().decided_at(source)?.0.to_vec();
        positions.into_iter().find_map(|position| {
            let mut records = Vec::new();
            let offset = tally_log::Offset(position);
            self.shared.log.read(SEQUENCE, offset, 1, Visibility::Durable, &mut records).ok()?;
            crate::clerk::find(&SequenceBatch::decode(&records.first()?.payload).ok()?, index)
        })
    }

    /// What became of the transaction with that reference: from memory while it is remembered, else
    /// by reading the journal from its beginning.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn status(&self, uetr: Uetr) -> Result<Option<Answer>, EngineError> {
        let scheduler = &self.shared.schedulers[self.shared.route(&uetr)];
        let found = scheduler.lock().expect(LOCK).find(&uetr, Timestamp(0));
        if let Some((source, index)) = found
            && let Some(first) = self.accepted(source).and_then(|batch| batch.batch.transaction(index as usize))
        {
            let outcome = self.finality(source, index).map_or(Outcome::Pending, Outcome::Final);
            return Ok(Some(Answer { id: first.id(), uetr, outcome }));
        }
        let mut answer: Option<(Answer, Source, u32)> = None;
        for entry in journal::entries(&self.shared.log, tally_log::Ticket(0)) {
            match entry?.1 {
                journal::Entry::Accepted(source, batch) => {
                    let found = (0u32..).zip(&batch.batch.headers).find(|(_, header)| header.uetr == uetr);
                    if let Some((index, _)) = found
                        && let Some(transaction) = batch.batch.transaction(index as usize)
                    {
                        answer = Some((Answer { id: transaction.id(), uetr, outcome: Outcome::Pending }, source, index));
                    }
                }
                journal::Entry::Sequenced(_, batch) => {
                    if let Some((answer, source, index)) = &mut answer
                        && batch.source == *source
                        && let Some(finality) = crate::clerk::find(&batch, *index)
                    {
                        answer.outcome = Outcome::Final(finality);
                    }
                }
            }
        }
        Ok(answer.map(|(answer, ..)| answer))
    }

    /// The account, if there is one.
    pub fn account(&self, id: AccountId) -> Option<AccountView> {
        let state = self.shared.updaters.get(id.participant.index())?.lock().expect(LOCK);
        let accounts = state.accounts();
        let account = accounts.get(id.number)?;
        let owner = matches!(id.number.role(), AccountRole::Customer).then(|| accounts.owner(account).copied());
        Some(AccountView {
            id,
            asset: account.asset,
            balance: Amount(account.balance),
            status: account.status(),
            floor: Amount(accounts.floor(id.number, account).0.max(-BALANCE_RANGE)),
            owner: owner.flatten(),
        })
    }

    /// The account of that IBAN or other alias at that participant.
    pub fn account_by_alias(&self, participant: ParticipantId, alias: &str) -> Option<AccountId> {
        let state = self.shared.updaters.get(participant.index())?.lock().expect(LOCK);
        state.alias(alias).map(|number| AccountId { participant, number })
    }

    /// The alias of an account, found by looking through all.
    pub fn alias(&self, id: AccountId) -> Option<String> {
        let state = self.shared.updaters.get(id.participant.index())?.lock().expect(LOCK);
        state.aliases().iter().find(|(_, number)| *number == id.number).map(|(alias, _)| alias.to_owned())
    }

    /// The number that the next account opened at that participant gets.
    pub fn next_account(&self, participant: ParticipantId) -> Option<AccountNumber> {
        let state = self.shared.updaters.get(participant.index())?.lock().expect(LOCK);
        Some(AccountNumber(state.accounts().customers()))
    }

    /// The movements on an account below sequence number `before`, latest first, at most `limit`; found by
    /// reading the journal.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn statement(&self, id: AccountId, before: Option<u64>, limit: usize) -> Result<Vec<Entry>, EngineError> {
        crate::audit::statement(&self.shared.log, id, before, limit).map_err(EngineError::Journal)
    }

    /// The sums of every participant's books; each participant's at one moment.
    pub fn totals(&self) -> Vec<Total> {
        let mut totals = Vec::new();
        for updater in &self.shared.updaters {
            totals.extend(crate::audit::totals(updater.lock().expect(LOCK).accounts(), &self.shared.network));
        }
        totals
    }

    /// How many transactions have an outcome, since the beginning of the network.
    pub fn sequenced(&self) -> u64 {
        self.shared.clerk().next()
    }
    /// The latest signed head of the Merkle log that is durable.
    pub fn tree_head(&self) -> Option<SignedTreeHead> {
        let head = self.shared.clerk().head().copied();
        head.or(*self.shared.started_head.lock().expect(LOCK))
    }
    /// Counts since the start.
    pub fn counts(&self) -> Counts {
        self.shared.clerk().counts().clone()
    }
    /// References remembered, by scheduler.
    pub fn remembered(&self) -> Vec<usize> {
        self.shared.schedulers.iter().map(|s| s.lock().expect(LOCK).remembered()).collect()
    }

    /// Whether the network can go on.
    pub fn health(&self) -> Health {
        match self.executor.failure() {
            Some(reason) => Health::Failed { reason },
            None => self.shared.log.health(),
        }
    }

    fn check(&self) -> Result<(), EngineError> {
        match self.health() {
            Health::Failed { reason } => Err(EngineError::Stopped(reason)),
            _ => Ok(()),
        }
    }

    /// A port for whole batches, past the collectors: for load generators and, later, streams.
    pub fn volume(&self) -> VolumePort {
        VolumePort::new(&self.shared)
    }

    /// Saves the balances now.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn save(&self) -> Result<PathBuf, EngineError> {
        self.shared.save()
    }

    /// Waits until everything accepted is decided, durable and applied, at most so long; saves the
    /// balances and stops.
    ///
    /// # Errors
    /// When the file system refuses the snapshot. Nothing is lost: the journal has it all.
    pub fn stop(mut self, drain: Duration) -> Result<(), EngineError> {
        let deadline = std::time::Instant::now() + drain;
        while std::time::Instant::now() < deadline && self.check().is_ok() && !self.shared.is_drained() {
            let events = self.shared.signal.events();
            self.shared.signal.wait(events, Duration::from_millis(5));
        }
        drop(self.saver.take());
        let failed = self.executor.failure().is_some();
        self.executor.stop();
        drop(self.flusher.take());
        if !failed {
            self.shared.save()?;
        }
        Ok(())
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

/// The scheduler that a reference falls to, of so many: references are random, so that any byte will do.
pub fn route(uetr: &Uetr, schedulers: usize) -> usize {
    usize::from(uetr.0[15]) % schedulers
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

/// The clerk with its topics.
struct ClerkStage {
    clerk: SharedState<Clerk>,
    intake: Reader<IntakeBatch>,
    sequence: Reader<SequenceBatch>,
    held: Option<(u64, Arc<SequenceBatch>)>,
    forgot: Timestamp,
}

impl Stage for ClerkStage {
    fn name(&self) -> String {
        "clerk".into()
    }

    fn poll(&mut self, now: Timestamp) -> Result<bool, StageError> {
        let mut clerk = self.clerk.lock().expect(LOCK);
        if self.held.is_none() {
            self.held = self.sequence.poll();
        }
        // What the scheduler said of a batch was said before the batch was decided.
        let mut progress = false;
        while let Some((_, intake)) = self.intake.poll() {
            clerk.intake(&intake);
            progress = true;
        }
        if let Some((_, batch)) = &self.held
            && clerk.is_applied(batch)
            && let Some((position, batch)) = self.held.take()
        {
            clerk.sequenced(now, position, &batch);
            progress = true;
        } else if now >= self.forgot.plus_ms(1000) {
            self.forgot = now;
            clerk.forget(now);
        }
        Ok(progress)
    }
}
