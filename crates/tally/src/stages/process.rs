//! One process of a stage: it shares the stage's shards with the others of its group, and runs those that are its own.

use super::ClusterConfiguration;
use super::telemetry::{Telemetry, Watched};
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tally_crypto::SigningKey;
use tally_ledger::{Network, ParticipantId};
use tally_log::LogError;
use tally_log::cluster::{Cluster, Members, Partition};
use tally_ops::shutdown::Shutdown;
use tally_settlement::engine::wall_clock;
use tally_settlement::process::{
    Layout, Role, Shard, ShardError, Standby, Stop, approve, assemble, schedule, sequence, update,
};

/// How long a shard that failed rests before it is opened again; twice as long after each failure.
const FIRST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(30);
/// At most, where it can go on as soon as the cluster can be reached or the group has settled who runs it.
const SHORT_REST: Duration = Duration::from_secs(2);
/// After how long in its group a process that was given no shard is taken to stand by.
const STANDS_BY: Duration = Duration::from_secs(5);
/// How often the group is asked, and ended shards are looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Which shards are this process's.
pub(super) trait Membership: Members {
    /// A shard could not go on here, or another process turned out to run it. Whether this one gives it up until it is
    /// told otherwise.
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    fn lost(&mut self, shard: u16) -> Result<bool, LogError>;
}

/// As a group shares them out.
struct InGroup(Box<dyn Members>);

impl Members for InGroup {
    fn poll(&mut self, limit: Duration) -> Result<Option<Vec<Partition>>, LogError> {
        self.0.poll(limit)
    }
}

impl Membership for InGroup {
    fn lost(&mut self, _shard: u16) -> Result<bool, LogError> {
        // The group will say whose it is; until then this process may be right.
        Ok(false)
    }
}

impl Membership for Standby {
    fn lost(&mut self, _shard: u16) -> Result<bool, LogError> {
        self.stand_by()?;
        Ok(true)
    }
}

/// What a stage needs to know to run its shards.
pub struct Work {
    /// Which stage.
    pub role: Role,
    /// Who takes part.
    pub network: Arc<Network>,
    /// How the stages are split.
    pub layout: Layout,
    /// How they run.
    pub configuration: ClusterConfiguration,
    /// For whom it works, with their keys where the stage signs.
    pub participants: BTreeMap<ParticipantId, Option<SigningKey>>,
    /// With which the sequencer signs tree heads.
    pub operator: Option<SigningKey>,
}

/// A stage's process.
pub struct Stage {
    work: Arc<Work>,
    cluster: Arc<dyn Cluster>,
    members: Box<dyn Membership>,
    /// The shards that belong to this process, as far as the group knows.
    mine: Vec<u16>,
    running: BTreeMap<u16, Running>,
    /// Shards that failed, how often, and when they are opened again.
    resting: BTreeMap<u16, (u32, Instant)>,
    telemetry: Arc<Telemetry>,
    secret: [u64; 2],
}

struct Running {
    thread: JoinHandle<Result<(), ShardError>>,
    stop: Stop,
    since: Instant,
}

impl Stage {
    /// Joins the group of the stage.
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    pub fn join(work: Work, cluster: Arc<dyn Cluster>, telemetry: Arc<Telemetry>) -> anyhow::Result<Self> {
        let participants: Vec<_> = work.participants.keys().copied().collect();
        let topics = work.layout.shards_of(work.role, &participants);
        let members: Box<dyn Membership> = if work.role == Role::Sequencer {
            let after = Duration::from_millis(work.configuration.stages.takeover_after_ms);
            let standby = Standby::new(Arc::clone(&cluster), work.layout.clone(), after);
            Box::new(standby.context("cannot watch the active sequencer")?)
        } else {
            let joined = cluster.join(&work.layout.group(work.role, &participants), &topics);
            Box::new(InGroup(joined.context("cannot join the stage's group")?))
        };
        if work.role == Role::Sequencer {
            telemetry.joined();
        }
        // Nobody can choose references that collide where a scheduler remembers them.
        let secret =
            SigningKey::generate().context("the operating system gave no random numbers")?.public_key();
        let (key, _) = secret.as_bytes().as_chunks::<8>();
        let secret = [u64::from_le_bytes(key[0]), u64::from_le_bytes(key[1])];
        let (mine, running, resting) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Ok(Self { work: Arc::new(work), cluster, members, mine, running, resting, telemetry, secret })
    }

    /// Runs what belongs to this process until the shutdown is requested; then ends every shard after the turn it is in.
    ///
    /// # Errors
    /// When this process can never take part again.
    pub fn run(mut self, shutdown: &Shutdown) -> anyhow::Result<()> {
        let began = Instant::now();
        let result = loop {
            if shutdown.is_requested() {
                break Ok(());
            }
            // Ready only once it is known which shards have to run: an empty list is complete at once.
            let joined = match self.members.poll(LOOK) {
                Ok(Some(partitions)) => {
                    let shard = |partition| self.work.layout.shard(self.work.role, partition);
                    self.mine = partitions.iter().filter_map(shard).collect();
                    tracing::info!(stage = self.work.role.name(), shards = ?self.mine, "the group was shared out");
                    true
                }
                // There may be no shard for it: then it stands by.
                Ok(None) => began.elapsed() > STANDS_BY,
                Err(error) => break Err(anyhow!(error).context("this process left its group for good")),
            };
            self.reap();
            self.settle();
            if joined {
                self.telemetry.joined();
            }
        };
        for running in self.running.values() {
            running.stop.set();
        }
        // The group waits for nobody: whoever gets a shard fences this process. But to leave first makes it quicker.
        for (shard, running) in std::mem::take(&mut self.running) {
            self.ended(shard, running);
        }
        result
    }

    /// Starts what is mine and does not run, stops what is no longer mine.
    fn settle(&mut self) {
        for (shard, running) in &self.running {
            if !self.mine.contains(shard) {
                running.stop.set();
            }
        }
        for shard in self.mine.clone() {
            let rests = self.resting.get(&shard).is_some_and(|(_, until)| Instant::now() < *until);
            if !rests && !self.running.contains_key(&shard) {
                self.start(shard);
            }
        }
        let rests = |shard: &&u16| self.mine.contains(shard) && !self.running.contains_key(shard);
        let failed = self.resting.keys().filter(rests).count();
        self.telemetry.shards(self.mine.len(), failed);
    }

    fn start(&mut self, shard: u16) {
        let stop = Stop::default();
        let (work, cluster, telemetry) =
            (Arc::clone(&self.work), Arc::clone(&self.cluster), Arc::clone(&self.telemetry));
        let (to_stop, secret) = (stop.clone(), self.secret);
        let name = work.layout.writer(work.role, shard);
        // The clock as it was at the start and what has passed since: setting it changes nothing that runs.
        let (started, since) = (wall_clock(), Instant::now());
        let clock = move || started.plus_ms(u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
        let run = move || {
            let began = Instant::now();
            let opened = work.open(&*cluster, shard, secret, &to_stop)?;
            let watched = Watched::new(&opened, began.elapsed());
            tracing::info!(shard = opened.name(), took = ?began.elapsed(), "opened");
            telemetry.watch(shard, Some(watched));
            opened.run(clock, &to_stop)
        };
        match std::thread::Builder::new().name(name).spawn(run) {
            Ok(thread) => {
                self.running.insert(shard, Running { thread, stop, since: Instant::now() });
            }
            Err(error) => {
                tracing::error!(shard, %error, "no thread for the shard");
                self.rest(shard, LONGEST_REST);
            }
        }
    }

    /// Lets a shard rest that could not go on, for the `longest` time at most.
    fn rest(&mut self, shard: u16, longest: Duration) {
        let failures = self.resting.get(&shard).map_or(0, |(failures, _)| *failures);
        let rest = FIRST_REST.saturating_mul(1 << failures.min(16)).min(longest);
        self.resting.insert(shard, (failures + 1, Instant::now() + rest));
    }

    fn reap(&mut self) {
        let ended: Vec<u16> = self
            .running
            .iter()
            .filter(|(_, running)| running.thread.is_finished())
            .map(|(shard, _)| *shard)
            .collect();
        for shard in ended {
            if let Some(running) = self.running.remove(&shard) {
                self.ended(shard, running);
            }
        }
    }

    fn ended(&mut self, shard: u16, running: Running) {
        let since = running.since;
        let ended = running.thread.join();
        self.telemetry.watch(shard, None);
        let name = self.work.layout.writer(self.work.role, shard);
        match ended {
            Ok(Ok(()) | Err(ShardError::Stopped { .. })) => {
                self.resting.remove(&shard);
            }
            Ok(Err(error)) => {
                let fenced = error.is_fenced();
                if fenced {
                    self.telemetry.fenced.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(shard = name, "another process runs this shard now");
                } else {
                    tracing::error!(shard = name, error = %chain(&error), "the shard stopped, and is opened again");
                }
                if since.elapsed() > LONGEST_REST {
                    self.resting.remove(&shard);
                }
                let longest = if fenced || error.is_transient() { SHORT_REST } else { LONGEST_REST };
                self.rest(shard, longest);
                if self.leave(shard) && fenced {
                    // To stand by is no failure.
                    self.resting.remove(&shard);
                }
            }
            Err(_) => {
                tracing::error!(shard = name, "the shard broke an invariant of its own, and is opened again");
                self.rest(shard, LONGEST_REST);
                self.leave(shard);
            }
        }
    }

    /// Leaves a shard to others, where that is the rule; whether it is.
    fn leave(&mut self, shard: u16) -> bool {
        let lost = self.members.lost(shard).unwrap_or_else(|error| {
            tracing::error!(shard, error = %chain(&error), "cannot stand by");
            false
        });
        if lost {
            self.mine.retain(|mine| *mine != shard);
        }
        lost
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl Work {
    fn open(
        &self,
        cluster: &dyn Cluster,
        shard: u16,
        secret: [u64; 2],
        stop: &Stop,
    ) -> Result<Shard, ShardError> {
        let (layout, network, now) = (&self.layout, &self.network, wall_clock());
        let stages = &self.configuration.stages;
        let without_key = |whose: &str| ShardError::History {
            shard: layout.writer(self.role, shard),
            what: format!("this process does not have the key of {whose}"),
        };
        match self.role {
            Role::Scheduler => {
                schedule::open(cluster, layout, network, shard, (stages.remember, secret), now, stop)
            }
            Role::Approver => {
                let key = self.participants.get(&ParticipantId(shard)).cloned().flatten();
                let key = key.ok_or_else(|| without_key("the participant"))?;
                approve::open(cluster, layout, network, shard, key, now, stop)
            }
            Role::Assembler => assemble::open(cluster, layout, network, shard, now, stop),
            Role::Sequencer => {
                let key = self.operator.clone().ok_or_else(|| without_key("the operator"))?;
                sequence::open(cluster, layout, network.id, key, now, stop)
            }
            Role::Updater => {
                let key = self.participants.get(&ParticipantId(shard)).cloned().flatten();
                let key = key.ok_or_else(|| without_key("the participant"))?;
                let every_ms = stages.snapshot_every_ms;
                update::open(cluster, layout, network, shard, (key, every_ms), now, stop)
                    .map(|(shard, _)| shard)
            }
            Role::Gateway => Err(without_key("a shard: a gateway is none")),
        }
    }
}
