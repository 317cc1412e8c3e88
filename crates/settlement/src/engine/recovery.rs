//! From a directory to a running network.

use super::{
    CLOCK_TOLERANCE_MS, ClerkStage, Clock, Collector, CollectorStage, Desk, Engine, EngineError,
    EngineOptions, Shared, saver,
};
use crate::annex;
use crate::clerk::Clerk;
use crate::engine::earlier::Names;
use crate::journal::{self, Entry, JournalError, MAX_SCHEDULERS, SEQUENCE};
use crate::message::{AcceptedBatch, SequenceBatch, Source};
use crate::outcomes::Kept;
use crate::recent::may_be_remembered;
use crate::replay::{Replay, ReplayError};
use crate::runtime::executor::{Executor, Signal, Stage};
use crate::runtime::shell::{
    ApproverShell, AssemblerShell, Known, SchedulerShell, SequencerShell, UpdaterShell,
};
use crate::runtime::topic::Topic;
use crate::runtime::under_way::UnderWay;
use crate::snapshot;
use crate::stage::scheduler::misplaced;
use crate::stage::updater::UpdaterProgress;
use crate::stage::{Approver, Assembler, Scheduler, Sequencer, Updater};
use crate::statement::Ends;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tally_crypto::log::SignedTreeHead;
use tally_ledger::transaction::concerned;
use tally_ledger::{Kind, Network, Timestamp, balance};
use tally_log::{FileLog, Log, OpenReport, Ticket, Visibility};

/// What recovery found and did.
#[derive(Debug, Clone)]
pub struct RecoveryReport {
    /// What opening the journal found.
    pub journal: OpenReport,
    /// The snapshot it began with.
    pub snapshot: Option<PathBuf>,
    /// Records of the journal that were replayed.
    pub records: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Accepted before and decided only now.
    pub undecided: u64,
    /// How long it took.
    pub took: Duration,
}

/// A recovered network whose stages nobody runs yet: [`Engine`] gives them threads, a simulation
/// runs them one at a time.
pub struct Assembly {
    /// The stages; those later in the list go first.
    pub stages: Vec<Box<dyn Stage>>,
    /// The clients' side.
    pub desk: Desk,
    /// What recovery found and did.
    pub report: RecoveryReport,
}

pub(super) fn open(options: EngineOptions) -> Result<Engine, EngineError> {
    let path = options.directory.join("journal");
    check(&options)?;
    let opened = FileLog::open(&path, options.journal.clone());
    let (log, journal) = opened.map_err(|source| EngineError::Log { path: path.clone(), source })?;
    let log = Arc::new(log);
    let clock = Clock::start();
    let Assembly { stages, desk, report } = assemble(&options, &log, journal, clock.now())?;
    let on_durable = Arc::clone(&desk.shared.signal);
    log.on_durable(Box::new(move |_| on_durable.notify()));
    let flusher =
        FileLog::spawn_flusher(&log, options.linger).map_err(|source| EngineError::Log { path, source })?;
    let thread =
        |source| EngineError::Io { action: "starting a thread for", path: options.directory.clone(), source };
    let executor =
        Executor::start(stages, options.workers, &desk.shared.signal, move || clock.now()).map_err(thread)?;
    let saver = match options.snapshot_every {
        Some(every) => Some(saver::Saver::start(Arc::clone(&desk.shared), every).map_err(thread)?),
        None => None,
    };
    Ok(Engine { desk, executor, flusher: Some(flusher), saver, report, clock })
}

/// Recovers a network from an opened journal and the snapshots in its directory, at the time `now`.
///
/// # Errors
/// When the options do not fit, or the journal cannot be replayed.
pub fn assemble(
    options: &EngineOptions,
    log: &Arc<FileLog>,
    journal: OpenReport,
    now: Timestamp,
) -> Result<Assembly, EngineError> {
    let began = Instant::now();
    check(options)?;
    let network = Arc::new(options.network.clone());
    let snapshots = options.directory.join("snapshots");
    std::fs::create_dir_all(&snapshots).map_err(|source| EngineError::Io {
        action: "creating",
        path: snapshots.clone(),
        source,
    })?;
    if journal::schedulers(&**log) > options.schedulers {
        let text = "its journal was written with more schedulers";
        return Err(EngineError::Options(text.into()));
    }
    let newest = snapshot::list(&snapshots)?.pop();
    let (mut replay, from) = match &newest {
        Some(path) => snapshot::load(path, &network)?,
        None => (Replay::new(Arc::clone(&network)), Ticket(0)),
    };
    let mut recovery = Recovery::new(options, &network, log, now)?;
    recovery.run(log, from, &mut replay)?;
    if recovery.misplaced {
        let text = "its journal was written with another number of schedulers, and references that they remember have not expired";
        return Err(EngineError::Options(text.into()));
    }
    // Headers of transactions have four bytes of the network's id; what the operator signs has all
    // of them.
    if let Some(head) = last_head(log)
        && head.verify(&network.id.0, &network.participants[0].key).is_err()
    {
        return Err(ReplayError::ForeignHead { size: head.head.size }.into());
    }
    ends_as(&replay, log)?;
    let ahead_ms = replay.clock.0.saturating_sub(now.0);
    if ahead_ms > CLOCK_TOLERANCE_MS {
        return Err(EngineError::Clock { ahead_ms });
    }
    let mut report = RecoveryReport {
        journal,
        snapshot: newest,
        records: recovery.records,
        transactions: recovery.transactions,
        undecided: replay.undecided.values().map(|u| u.left() as u64).sum(),
        took: Duration::ZERO,
    };
    let kept = annex::last(&**log, journal::ANNEX).map_err(JournalError::from)?;
    let (stages, desk) = join(options, network, Arc::clone(log), snapshots, kept, replay, recovery);
    report.took = began.elapsed();
    Ok(Assembly { stages, desk, report })
}

fn check(options: &EngineOptions) -> Result<(), EngineError> {
    let refuse = |text: String| Err(EngineError::Options(text));
    let network = &options.network;
    if options.keys.len() != network.participants.len() || options.keys.is_empty() {
        let (keys, participants) = (options.keys.len(), network.participants.len());
        return refuse(format!("there are {keys} keys for {participants} participants"));
    }
    for (key, participant) in options.keys.iter().zip(&network.participants) {
        if key.public_key() != participant.key {
            return refuse(format!("the key of {} is not the one configured", participant.bic));
        }
    }
    if !(1..MAX_SCHEDULERS).contains(&options.schedulers) || options.workers == 0 {
        return refuse("it needs at least one scheduler and one worker, and fewer than 64 schedulers".into());
    }
    Ok(())
}

/// What recovery collects for the stages while it replays.
struct Recovery {
    schedulers: Vec<Scheduler>,
    followed: Vec<Followed>,
    decided: Vec<(u64, SequenceBatch)>,
    /// The time of this process when it began.
    began: Timestamp,
    records: u64,
    transactions: u64,
    /// A reference is remembered by a scheduler to which it does not fall any more.
    misplaced: bool,
}

struct Followed {
    source: Source,
    ticket: Ticket,
    expires: Timestamp,
    len: u32,
}

impl Recovery {
    fn new(
        options: &EngineOptions,
        network: &Arc<Network>,
        log: &FileLog,
        now: Timestamp,
    ) -> Result<Self, EngineError> {
        let secret = tally_crypto::SigningKey::generate().map_err(EngineError::Random)?.public_key();
        let (key, _) = secret.as_bytes().as_chunks::<8>();
        let key = [u64::from_le_bytes(key[0]), u64::from_le_bytes(key[1])];
        let schedulers = (0..options.schedulers as u64)
            .map(|instance| {
                let first = log.first(journal::accepted(instance)).0;
                Scheduler::new(Arc::clone(network), instance, first, options.remember, key)
            })
            .collect();
        Ok(Self {
            schedulers,
            followed: Vec::new(),
            decided: Vec::new(),
            began: now,
            records: 0,
            transactions: 0,
            misplaced: false,
        })
    }

    fn run(&mut self, log: &FileLog, from: Ticket, replay: &mut Replay) -> Result<(), EngineError> {
        let each = |replay: &Replay, ticket: Ticket, entry: &Entry| {
            self.records += 1;
            match entry {
                Entry::Accepted(source, accepted) => {
                    belongs(replay.network(), *source, accepted)?;
                    let len = u32::try_from(accepted.batch.len()).expect("batches are bounded");
                    self.transactions += u64::from(len);
                    let (source, expires) = (*source, accepted.expires());
                    // Not by the longest validity, which may have been another when it was accepted.
                    if may_be_remembered(expires, self.began) {
                        let schedulers = self.schedulers.len();
                        self.misplaced |=
                            misplaced(accepted, source.scheduler, schedulers, self.began).next().is_some();
                        self.schedulers[source.scheduler as usize].restore(source, accepted);
                    }
                    self.followed.push(Followed { source, ticket, expires, len });
                }
                Entry::Sequenced(position, batch) => {
                    if let Some(scheduler) = self.schedulers.get_mut(batch.source.scheduler as usize) {
                        scheduler.learn(batch);
                    }
                    self.decided.push((position.0, batch.clone()));
                }
            }
            Ok(())
        };
        Ok(journal::replay(log, from, replay, each, |_, _, _, _, _| Ok(()))?)
    }
}

/// The tree head that the last record of the sequence states, in a replay or before it.
fn last_head(log: &FileLog) -> Option<SignedTreeHead> {
    let last = log.next(SEQUENCE).0.checked_sub(1)?;
    let batch: SequenceBatch = journal::record(log, SEQUENCE, last, Visibility::Durable).ok()??;
    Some(batch.tree_head())
}

/// That the journal reaches to where the snapshot was taken, and is of the same history. What a journal has forgotten would be
/// made again.
fn ends_as(replay: &Replay, log: &FileLog) -> Result<(), ReplayError> {
    let behind = |what, saved: u64, journal: u64| {
        if saved > journal { Err(ReplayError::JournalBehind { what, saved, journal }) } else { Ok(()) }
    };
    behind("the sequence", replay.tree.len(), log.next(SEQUENCE).0)?;
    for (scheduler, accepted) in (0u64..).zip(&replay.accepted) {
        behind("accepted batches", *accepted, log.next(journal::accepted(scheduler)).0)?;
    }
    behind("decisions", replay.snapshot_until, replay.next)?;
    let Some(head) = last_head(log).map(|signed| signed.head) else { return Ok(()) };
    if (head.size, head.root) != (replay.tree.len(), replay.tree.root()) {
        return Err(ReplayError::OtherHistory { size: head.size });
    }
    Ok(())
}

/// That accepted transactions are this network's: the stages take that for granted.
fn belongs(network: &Network, source: Source, accepted: &AcceptedBatch) -> Result<(), ReplayError> {
    let batch = &accepted.batch;
    let mut participants = Vec::new();
    for ((index, header), place) in (0u32..).zip(&batch.headers).zip(batch.places()) {
        let of_form = Kind::from_number(header.kind)
            .is_some_and(|kind| balance::check(network, kind, &batch.legs[place.legs.clone()]).is_ok());
        let order = (header.kind == Kind::Account.number()).then(|| &batch.orders[place.order]);
        concerned(&batch.legs[place.legs], order, &mut participants);
        let known = participants.iter().all(|one| one.index() < network.participants.len())
            && usize::from(header.participants) == participants.len();
        if header.network != network.id.tag() || !of_form || !known {
            return Err(ReplayError::Foreign { source_batch: source, index });
        }
    }
    Ok(())
}

/// Joins the stages by topics.
fn join(
    options: &EngineOptions,
    network: Arc<Network>,
    log: Arc<FileLog>,
    snapshots: PathBuf,
    kept: Timestamp,
    replay: Replay,
    mut recovery: Recovery,
) -> (Vec<Box<dyn Stage>>, Desk) {
    let signal = Arc::new(Signal::default());
    let participants = network.participants.len();
    let capacity = options.topic_capacity;
    let by_participant = |name: &str| -> Vec<_> {
        let topic =
            |p: usize| Topic::memory(&format!("{name} {}", network.participants[p].bic), capacity, &signal);
        (0..participants).map(topic).collect()
    };
    let dynamic: Arc<dyn Log> = Arc::clone(&log) as Arc<dyn Log>;
    let proposals = by_participant("proposals");
    let answers: Vec<_> = (0..participants)
        .map(|p| Topic::memory(&format!("answers {}", network.participants[p].bic), capacity, &signal))
        .collect();
    let participations = Topic::memory("participations", capacity * options.schedulers, &signal);
    let approvals = Topic::memory("approvals", capacity * participants, &signal);
    let decisions = Topic::memory("decisions", capacity, &signal);
    let intake = Topic::memory("intake", capacity, &signal);
    let withdrawals = Topic::memory("withdrawals", capacity, &signal);
    let sequence = Topic::logged("sequence", capacity, Arc::clone(&dynamic), SEQUENCE, &signal);

    let applied: Vec<_> = (0..participants).map(|_| Arc::new(AtomicU64::new(replay.next))).collect();
    let mut clerk =
        Clerk::new(options.schedulers, applied.clone(), replay.next, replay.tree.clone(), replay.clock);
    for followed in &recovery.followed {
        clerk.follow(followed.source, followed.ticket, followed.expires, followed.len);
    }
    for (position, batch) in &recovery.decided {
        clerk.restore(*position, batch);
    }
    for (at, scheduler) in (0..options.schedulers).zip(0u64..) {
        let end = Ticket(log.durable().0 + 1);
        clerk.go_on(at, log.next(journal::accepted(scheduler)).0, end);
    }
    let clerk = Arc::new(Mutex::new(clerk));

    // Stages later in the list go first: what is begun is ended before more is begun.
    let mut stages: Vec<Box<dyn Stage>> = Vec::new();
    let collectors: Vec<_> = (0..options.schedulers)
        .map(|s| Collector {
            waiting: Mutex::new(VecDeque::new()),
            submissions: Topic::memory(&format!("submissions {s}"), capacity, &signal),
        })
        .collect();
    let mut schedulers = Vec::new();
    for (instance, mut scheduler) in (0u64..).zip(std::mem::take(&mut recovery.schedulers)) {
        let topic = journal::accepted(instance);
        scheduler.go_on(log.next(topic).0, replay.clock);
        let state = Arc::new(Mutex::new(scheduler));
        schedulers.push(Arc::clone(&state));
        stages.push(Box::new(SchedulerShell {
            instance,
            state,
            submissions: collectors[instance as usize].submissions.reader(Visibility::Appended),
            sequence: sequence.reader(Visibility::Appended),
            intake: vec![intake.clone()],
            accepted: Topic::logged(
                &format!("accepted {instance}"),
                capacity,
                Arc::clone(&dynamic),
                topic,
                &signal,
            ),
            participations: vec![participations.clone()],
            proposals: proposals.clone(),
            waiting: None,
        }));
    }
    let mut updaters = Vec::new();
    let mut late: Vec<Box<dyn Stage>> = Vec::new();
    for (at, partition) in replay.partitions.into_iter().enumerate() {
        let bic = network.participants[at].bic.clone();
        let names = partition.aliases.iter().map(|(alias, _)| alias);
        let state =
            Approver::new(Arc::clone(&network), options.keys[at].clone(), partition.accounts.clone(), names);
        stages.push(Box::new(ApproverShell {
            bic: bic.clone(),
            state,
            proposals: proposals[at].reader(Visibility::Appended),
            sequence: sequence.reader(Visibility::Appended),
            approvals: vec![approvals.clone()],
            answers: Some(answers[at].clone()),
            consents: None,
            undecided: None,
            under_way: UnderWay::default(),
            held: None,
            known: Known::default(),
        }));
        let mut updater = Updater::new(partition.accounts, partition.aliases, replay.next);
        // What is not decided is proposed again, and of that alone what is not.
        updater.recover(UpdaterProgress {
            seen: (0..options.schedulers as u64).map(|s| (s, log.next(journal::accepted(s)).0)).collect(),
            open: replay.undecided.keys().map(|source| (*source, Vec::new())).collect(),
        });
        let updater = Arc::new(Mutex::new(updater));
        updaters.push(Arc::clone(&updater));
        late.push(Box::new(UpdaterShell {
            bic,
            state: updater,
            proposals: proposals[at].reader(Visibility::Appended),
            answers: answers[at].reader(Visibility::Appended),
            sequence: sequence.reader(Visibility::Durable),
            own: None,
            consents: None,
            witness: None,
            applied: Arc::clone(&applied[at]),
            held: None,
            under_way: UnderWay::default(),
        }));
    }

    // Every batch that recovery did not see undecided is decided.
    let below = (0..options.schedulers as u64).map(|s| (s, log.next(journal::accepted(s)).0));
    let mut assembler = Assembler::new(Arc::clone(&network), below);
    // What was accepted and not decided is asked again.
    let mut again = Vec::new();
    for (source, undecided) in &replay.undecided {
        let mut scheduler = schedulers[source.scheduler as usize].lock().expect(super::LOCK);
        let wanted = |index| !undecided.is_decided(index);
        let asked = scheduler.propose_again(*source, &undecided.accepted.batch, wanted);
        if let Some(participation) = asked.participation {
            assembler.reopen(Arc::new(participation), |index| undecided.is_decided(index));
        }
        again.extend(asked.proposals);
    }
    stages.push(Box::new(AssemblerShell {
        state: assembler,
        participations: participations.reader(Visibility::Appended),
        approvals: approvals.reader(Visibility::Appended),
        answering: Vec::new(),
        held: Vec::new(),
        withdrawals: withdrawals.reader(Visibility::Appended),
        consents: Vec::new(),
        decisions: decisions.clone(),
        on_not_counted: Box::new(|why, _, _, _| tracing::error!(%why, "answers that count for nothing")),
        looked: Timestamp(0),
        recovered: Vec::new(),
        shown_again: VecDeque::new(),
        under_way: UnderWay::default(),
    }));
    stages.push(Box::new(SequencerShell {
        state: Sequencer::new(
            network.id,
            options.keys[0].clone(),
            replay.next,
            replay.tree.clone(),
            replay.clock,
        ),
        decisions: decisions.reader(Visibility::Appended),
        sequence: sequence.clone(),
        waiting: VecDeque::new(),
    }));
    stages.append(&mut late);
    stages.push(Box::new(ClerkStage {
        clerk: Arc::clone(&clerk),
        intake: intake.reader(Visibility::Appended),
        sequence: sequence.reader(Visibility::Durable),
        held: None,
    }));

    for batch in again {
        proposals[batch.participant.index()].send(Arc::new(batch));
    }

    let started_head = last_head(&log);
    let shared = Arc::new(Shared {
        names: Names::of_journal(network.id),
        network,
        keys: options.keys.clone(),
        log,
        signal,
        schedulers,
        updaters,
        clerk,
        collectors,
        intake,
        sequence,
        withdrawals,
        kept: Mutex::new(kept),
        origins: AtomicU64::new(0),
        snapshots,
        started_head: Mutex::new(started_head),
        search: Mutex::new(()),
        concluded: Kept::default(),
        ends: Ends::default(),
    });
    for scheduler in 0..options.schedulers {
        stages.insert(0, Box::new(CollectorStage { shared: Arc::clone(&shared), scheduler }));
    }
    (stages, Desk { shared })
}
