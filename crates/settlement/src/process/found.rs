//! Founding a network on a cluster: its journal so far, in files, becomes the beginning of the topics.

use super::assemble::encode_finished;
use super::layout::{Bindings, Layout, Role};
use super::sequence::encode_more;
use super::shard::{Opened, ShardError, Stop};
use super::snapshot::{self, Position};
use super::state::State;
use crate::journal::{self, Entry, JournalError};
use crate::message::Message;
use crate::recent::{forgotten_after, may_be_remembered};
use crate::replay::{Replay, ReplayError};
use crate::stage::Updater;
use crate::stage::assembler::Finished;
use crate::stage::scheduler::misplaced;
use crate::stage::updater::UpdaterProgress;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use tally_ledger::{Network, Timestamp};
use tally_log::cluster::Cluster;
use tally_log::{FileLog, Log, LogError, Offset, Ticket, TopicId, Visibility};

/// A journal that cannot become the beginning of a network's topics.
#[derive(Debug, thiserror::Error)]
pub enum FoundError {
    /// It cannot be replayed.
    #[error("the journal cannot be replayed")]
    Journal(#[from] JournalError),
    /// It cannot be read.
    #[error("the journal cannot be read")]
    Log(#[from] LogError),
    /// The cluster refused, or does not hold what was put there.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// Its beginning is not there any more.
    #[error("the journal's beginning was released: the topics would not hold the whole ledger")]
    Released,
    /// Something is under way.
    #[error(
        "{0} transactions are accepted and not decided: run the network and stop it, then found it again"
    )]
    Undecided(u64),
    /// Batches of more schedulers than are planned.
    #[error(
        "the journal has {found} schedulers and the layout {planned}: plan at least {found} (`--schedulers`)"
    )]
    Schedulers {
        /// In the journal.
        found: usize,
        /// In the layout.
        planned: u16,
    },
    /// A reference is remembered by one scheduler and would fall to another, which does not know it.
    #[error(
        "{references} references, of which the journal remembers that they were used, would fall to another of {planned} \
         schedulers: plan as many schedulers as wrote the journal (`--schedulers`), or wait {} s until the last of them has \
         expired",
        wait_ms.div_ceil(1000)
    )]
    References {
        /// How many.
        references: u64,
        /// Schedulers in the layout.
        planned: u16,
        /// Until nothing is remembered of them, in milliseconds.
        wait_ms: u64,
    },
    /// The topics are those of another founding that did not end.
    #[error(
        "topic partition {partition} has {records} records of a founding that did not end: delete the network's topics"
    )]
    Unfinished {
        /// Which.
        partition: String,
        /// How many.
        records: u64,
    },
}

/// What a founding put into the topics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Founded {
    /// Transactions accepted before.
    pub accepted: u64,
    /// Decisions sequenced before.
    pub sequenced: u64,
}

/// Whether the network's topics have a beginning already.
///
/// # Errors
/// When the cluster cannot be reached.
pub fn is_founded(cluster: &dyn Cluster, layout: &Layout) -> Result<bool, LogError> {
    let mut bindings = Bindings::default();
    let state = bindings.reads(layout.state(Role::Sequencer, 0));
    Ok(cluster.reader(&bindings.0)?.next(state).0 > 0)
}

/// What a journal at rest comes to, which fits a layout.
pub struct Prepared {
    replay: Replay,
    accepted: Vec<(u64, u64)>,
    transactions: u64,
}

struct Founding<'a> {
    cluster: &'a dyn Cluster,
    layout: &'a Layout,
    log: &'a FileLog,
    network: &'a Arc<Network>,
    replay: Replay,
    /// By scheduler, how many batches it accepted, and the first of which a reference may be remembered.
    accepted: Vec<(u64, u64)>,
}

/// Makes `journal` the beginning of the topics, which must be empty. Once this returns, the network goes on there; its
/// files are history.
///
/// # Errors
/// When the journal is not at rest, or the cluster refuses. Then the topics have no beginning yet.
pub fn found(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Arc<Network>,
    log: &FileLog,
    now: Timestamp,
) -> Result<Founded, FoundError> {
    prepare(layout, network, log, now)?.found(cluster, layout, network, log)
}

/// Reads `journal`, and whether it can be the beginning of topics with that layout. Nothing is needed of a cluster, and nothing
/// is changed.
///
/// # Errors
/// When the journal is not at rest, or the layout does not fit it.
pub fn prepare(
    layout: &Layout,
    network: &Arc<Network>,
    log: &FileLog,
    now: Timestamp,
) -> Result<Prepared, FoundError> {
    let mut replay = Replay::new(Arc::clone(network));
    let mut remembered: Vec<VecDeque<(u64, Timestamp)>> = Vec::new();
    let mut transactions = 0;
    let found = journal::schedulers(log);
    let planned = layout.schedulers;
    if found > usize::from(planned) {
        // Their batches would have no topic.
        return Err(FoundError::Schedulers { found, planned });
    }
    let (mut references, mut last) = (0, Timestamp(0));
    let topics = (0..found as u64).map(journal::accepted).chain([journal::SEQUENCE]);
    if topics.into_iter().any(|topic| log.first(topic).0 > 0) {
        return Err(FoundError::Released);
    }
    let each = |_: &Replay, _: Ticket, entry: &Entry| -> Result<(), ReplayError> {
        if let Entry::Accepted(source, accepted) = entry {
            transactions += accepted.batch.len() as u64;
            let scheduler = usize::try_from(source.scheduler).expect("schedulers are few");
            if remembered.len() <= scheduler {
                remembered.resize_with(scheduler + 1, VecDeque::new);
            }
            for expiry in misplaced(accepted, source.scheduler, usize::from(planned), now) {
                references += 1;
                last = last.max(expiry);
            }
            if may_be_remembered(accepted.expires(), now) {
                remembered[scheduler].push_back((source.number, accepted.expires()));
            }
        }
        Ok(())
    };
    journal::replay(log, Ticket(0), &mut replay, each, |_, _, _, _, _| Ok(()))?;
    let undecided: u64 = replay.undecided.values().map(|batch| batch.left() as u64).sum();
    if undecided > 0 {
        return Err(FoundError::Undecided(undecided));
    }
    if references > 0 {
        let wait_ms = forgotten_after(last).0.saturating_sub(now.0);
        return Err(FoundError::References { references, planned, wait_ms });
    }
    let accepted = (0..u64::from(layout.schedulers))
        .map(|scheduler| {
            let next = log.next(journal::accepted(scheduler)).0;
            let low =
                remembered.get(usize::try_from(scheduler).unwrap_or(usize::MAX)).and_then(VecDeque::front);
            (next, low.map_or(next, |(number, _)| *number))
        })
        .collect();
    Ok(Prepared { replay, accepted, transactions })
}

impl Prepared {
    /// Makes the journal the beginning of the topics, see [`found`].
    ///
    /// # Errors
    /// When the cluster refuses, or the topics are not empty.
    pub fn found(
        self,
        cluster: &dyn Cluster,
        layout: &Layout,
        network: &Arc<Network>,
        log: &FileLog,
    ) -> Result<Founded, FoundError> {
        let Self { replay, accepted, transactions } = self;
        let founding = Founding { cluster, layout, log, network, replay, accepted };
        founding.updaters()?;
        founding.approvers()?;
        founding.assemblers()?;
        founding.annex()?;
        founding.schedulers()?;
        // Last: where this is, the founding has ended.
        founding.sequencer()?;
        Ok(Founded { accepted: transactions, sequenced: founding.replay.next })
    }
}

impl Founding<'_> {
    fn open(&self, role: Role, shard: u16, bindings: Bindings) -> Result<Opened, FoundError> {
        Ok(Opened::open(self.cluster, self.layout, (role, shard), bindings, &Stop::default())?)
    }

    /// That a partition is empty.
    fn empty(opened: &Opened, topic: TopicId) -> Result<(), FoundError> {
        match opened.log.next(topic).0 {
            0 => Ok(()),
            records => {
                Err(FoundError::Unfinished { partition: opened.partition(topic).to_string(), records })
            }
        }
    }

    fn record(opened: &Opened, topic: TopicId, state: &State) -> Result<(), FoundError> {
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        opened.log.append(topic, &[&bytes]).map_err(|source| opened.failed(source))?;
        opened.log.sync().map_err(|source| opened.failed(source))?;
        Ok(())
    }

    /// Copies a topic of the journal, record by record.
    fn copy(&self, from: TopicId, opened: &Opened, to: TopicId) -> Result<(), FoundError> {
        const PIECE_BYTES: usize = 4 << 20;
        let end = self.log.next(from).0;
        let mut at = 0;
        while at < end {
            let mut records = Vec::new();
            at = self.log.read(from, Offset(at), PIECE_BYTES, Visibility::Durable, &mut records)?.0;
            for record in records {
                opened.log.append(to, &[&record.payload]).map_err(|source| opened.failed(source))?;
                if opened.log.pending_bytes() >= PIECE_BYTES {
                    opened.log.sync().map_err(|source| opened.failed(source))?;
                }
            }
        }
        opened.log.sync().map_err(|source| opened.failed(source))?;
        Ok(())
    }

    /// The record of the sequence that comes next.
    fn sequence(&self) -> u64 {
        self.log.next(journal::SEQUENCE).0
    }

    fn updaters(&self) -> Result<(), FoundError> {
        for participant in self.layout.everybody() {
            let mut bindings = Bindings::default();
            let snapshots = bindings.writes(self.layout.snapshots(participant));
            let opened = self.open(Role::Updater, participant.0, bindings)?;
            Self::empty(&opened, snapshots)?;
            let partition = &self.replay.partitions[participant.index()];
            let state = Updater::new(partition.accounts.clone(), partition.aliases.clone(), self.replay.next);
            let position = Position {
                sequence: self.sequence(),
                applied: self.replay.next,
                proposals: vec![0; usize::from(self.layout.schedulers)],
                answers: vec![0; usize::from(self.layout.assemblers)],
                consents: vec![0; usize::from(self.layout.assemblers)],
                tree: self.replay.tree.clone(),
                progress: UpdaterProgress {
                    seen: (0u64..).zip(&self.accepted).map(|(s, (next, _))| (s, *next)).collect(),
                    open: Vec::new(),
                },
            };
            let state = Arc::new(Mutex::new(state));
            let whole =
                snapshot::save(&*opened.log, snapshots, self.network.id, &state, &position, &mut None);
            if !whole.map_err(|source| opened.failed(source))? {
                return Err(opened.history("the cluster has no room for the first snapshot").into());
            }
            opened.log.sync().map_err(|source| opened.failed(source))?;
        }
        Ok(())
    }

    fn approvers(&self) -> Result<(), FoundError> {
        for participant in self.layout.everybody() {
            let mut bindings = Bindings::default();
            let topic = bindings.writes(self.layout.state(Role::Approver, participant.0));
            let opened = self.open(Role::Approver, participant.0, bindings)?;
            Self::empty(&opened, topic)?;
            let mut next = vec![0; usize::from(self.layout.schedulers)];
            next.push(self.sequence());
            Self::record(&opened, topic, &State { clock: self.replay.clock, next, ..State::default() })?;
        }
        Ok(())
    }

    fn assemblers(&self) -> Result<(), FoundError> {
        let assemblers = u64::from(self.layout.assemblers);
        for assembler in 0..self.layout.assemblers {
            let mut bindings = Bindings::default();
            let topic = bindings.writes(self.layout.state(Role::Assembler, assembler));
            let opened = self.open(Role::Assembler, assembler, bindings)?;
            Self::empty(&opened, topic)?;
            // Of the batches 0, 1, ... those that fall to it.
            let below = |next: u64| (next + assemblers - 1 - u64::from(assembler)) / assemblers;
            let finished: HashMap<u64, Finished> = (0u64..)
                .zip(&self.accepted)
                .map(|(s, (next, _))| (s, Finished { below: below(*next), above: BTreeSet::new() }))
                .collect();
            let more = encode_finished(&finished);
            let feeds = usize::from(self.layout.schedulers) + self.network.participants.len();
            let state =
                State { clock: self.replay.clock, next: vec![0; feeds], low: vec![0; feeds + 1], more };
            Self::record(&opened, topic, &state)?;
        }
        Ok(())
    }

    fn annex(&self) -> Result<(), FoundError> {
        let mut bindings = Bindings::default();
        let topic = bindings.writes(self.layout.annex(0));
        let opened = self.open(Role::Gateway, 0, bindings)?;
        Self::empty(&opened, topic)?;
        self.copy(journal::ANNEX, &opened, topic)
    }

    fn schedulers(&self) -> Result<(), FoundError> {
        for (scheduler, (next, low)) in (0u16..).zip(&self.accepted) {
            let mut bindings = Bindings::default();
            let accepted = bindings.writes(self.layout.accepted(scheduler));
            let topic = bindings.writes(self.layout.state(Role::Scheduler, scheduler));
            let opened = self.open(Role::Scheduler, scheduler, bindings)?;
            Self::empty(&opened, accepted)?;
            Self::empty(&opened, topic)?;
            if *next > 0 {
                self.copy(journal::accepted(u64::from(scheduler)), &opened, accepted)?;
            }
            let clock = self.replay.clock;
            let mut positions = vec![0; usize::from(self.layout.gateways)];
            positions.push(self.sequence());
            let state = State { clock, next: positions, low: vec![*low, 0], ..State::default() };
            Self::record(&opened, topic, &state)?;
        }
        Ok(())
    }

    fn sequencer(&self) -> Result<(), FoundError> {
        let mut bindings = Bindings::default();
        let sequence = bindings.writes(self.layout.sequence());
        let topic = bindings.writes(self.layout.state(Role::Sequencer, 0));
        let opened = self.open(Role::Sequencer, 0, bindings)?;
        Self::empty(&opened, sequence)?;
        self.copy(journal::SEQUENCE, &opened, sequence)?;
        let more = encode_more(self.replay.next, &self.replay.tree);
        let clock = self.replay.clock;
        Self::record(&opened, topic, &State { clock, more, ..State::default() })
    }
}
