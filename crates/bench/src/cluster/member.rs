//! One shard of a stage, run by a process of its own.

use super::kept::{Kept, Traffic};
use super::{ClusterError, Shape};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tally_log::cluster::Cluster;
use tally_log::kafka::{Compression, KafkaCluster, KafkaOptions};
use tally_settlement::engine::wall_clock;
use tally_settlement::process::shard::Counts;
use tally_settlement::process::{
    Role, Shard, ShardError, Stop, approve, assemble, schedule, sequence, update,
};

/// What a stage's process is told on its command line, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Where the cluster is.
    pub brokers: Vec<String>,
    /// The network.
    pub shape: Shape,
    /// The stage's name.
    pub role: String,
    /// Its number; for approvers and updaters the participant's.
    pub shard: u16,
    /// Whether record batches are compressed with lz4.
    pub lz4: bool,
    /// Whether it waits, once it is ready, for the first line that it is told.
    pub paused: bool,
    /// It runs the shard only while the shard is its own, in the group of the stage's processes: after which silence one of
    /// them is taken for dead, in milliseconds. None: the shard is its own from the beginning.
    pub session_ms: Option<u32>,
}

/// What a stage's process has done since it was ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Turns that became visible.
    pub commits: u64,
    /// Time that making them visible took, in nanoseconds.
    pub commit_ns: u64,
    /// Batches taken.
    pub steps: u64,
    /// Whether it runs the shard now.
    pub active: bool,
    /// What went through each topic.
    pub traffic: Traffic,
}

impl Counters {
    fn of(counts: &Counts, cluster: &Kept) -> Self {
        Self {
            commits: counts.commits.load(Ordering::Relaxed),
            commit_ns: counts.commit_ns.load(Ordering::Relaxed),
            steps: counts.steps.load(Ordering::Relaxed),
            active: true,
            traffic: cluster.traffic(),
        }
    }

    /// What was done since.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |topic: &String| earlier.traffic.get(topic).copied().unwrap_or_default();
        Self {
            commits: self.commits - earlier.commits,
            commit_ns: self.commit_ns - earlier.commit_ns,
            steps: self.steps - earlier.steps,
            active: self.active,
            traffic: self
                .traffic
                .iter()
                .map(|(topic, now)| (topic.clone(), now.since(before(topic))))
                .collect(),
        }
    }
}

/// The most references that a scheduler remembers.
const REMEMBER: usize = 1 << 26;

impl Member {
    /// How it reaches the cluster.
    #[must_use]
    pub fn options(&self) -> KafkaOptions {
        KafkaOptions {
            brokers: self.brokers.clone(),
            compression: if self.lz4 { Compression::Lz4 } else { Compression::None },
            session_timeout_ms: self.session_ms.unwrap_or(KafkaOptions::default().session_timeout_ms),
            ..KafkaOptions::default()
        }
    }

    fn failed(&self, what: impl std::fmt::Display) -> ClusterError {
        ClusterError::process(&self.role, what)
    }

    fn open(&self, cluster: &dyn Cluster, stop: &Stop) -> Result<Shard, ClusterError> {
        let (network, keys) = self.shape.network();
        let (layout, now, shard) = (self.shape.layout(), wall_clock(), self.shard);
        let key = || {
            let key = keys.get(usize::from(shard)).cloned();
            key.ok_or_else(|| ClusterError::process(&self.role, format!("there is no participant {shard}")))
        };
        let role = Role::ALL.into_iter().find(|role| role.name() == self.role);
        Ok(match role {
            Some(Role::Scheduler) => {
                // Stands for the secret of a process.
                let secret = [0x0123_4567_89ab_cdef, u64::from(shard)];
                schedule::open(cluster, &layout, &network, shard, (REMEMBER, secret), now, stop)?
            }
            Some(Role::Approver) => approve::open(cluster, &layout, &network, shard, key()?, now, stop)?,
            Some(Role::Assembler) => assemble::open(cluster, &layout, &network, shard, now, stop)?,
            Some(Role::Sequencer) => sequence::open(cluster, &layout, keys[0].clone(), now, stop)?,
            Some(Role::Updater) => {
                update::open(cluster, &layout, &network, shard, self.shape.snapshots_ms, now, stop)?.0
            }
            Some(Role::Gateway) | None => {
                return Err(ClusterError::process(&self.role, "no stage has this name"));
            }
        })
    }

    /// Runs the shard until standard input ends. It says `ready` once the shard is open, or once it has asked for it in its
    /// group, and its [`Counters`] as a line of JSON for each line that it is told.
    ///
    /// # Errors
    /// When the shard cannot be opened or cannot go on.
    pub fn serve(&self) -> Result<(), ClusterError> {
        let cluster = Arc::new(Kept::new(KafkaCluster::new(self.options())?));
        let stop = Stop::default();
        if self.session_ms.is_some() {
            return self.stand_by(&cluster, &stop);
        }
        let shard = self.open(&*cluster, &stop)?;
        let watch = shard.watch();
        say("ready").map_err(|error| self.failed(error))?;
        let (go, told) = std::sync::mpsc::channel();
        let answer = Arc::clone(&cluster);
        self.answer(&stop, move || {
            // Nobody waits for it any more once the shard runs.
            let _ = go.send(());
            Counters::of(watch.counts(), &answer)
        })?;
        if self.paused {
            // An end of the input stops the shard, and there is nothing to wait for then.
            let _ = told.recv();
        }
        Ok(shard.run(wall_clock, &stop)?)
    }

    /// Runs the shard whenever it falls to this process.
    fn stand_by(&self, cluster: &Arc<Kept>, stop: &Stop) -> Result<(), ClusterError> {
        let layout = self.shape.layout();
        let role = Role::ALL.into_iter().find(|role| role.name() == self.role);
        let role = role.ok_or_else(|| self.failed("no stage has this name"))?;
        let mut members = cluster.join(&layout.group(role, &[]), &layout.shards_of(role, &[]))?;
        let active = Arc::new(AtomicBool::new(false));
        say("ready").map_err(|error| self.failed(error))?;
        let (shown, answer) = (Arc::clone(&active), Arc::clone(cluster));
        self.answer(stop, move || Counters {
            active: shown.load(Ordering::Relaxed),
            traffic: answer.traffic(),
            ..Counters::default()
        })?;
        let mut running: Option<(Stop, JoinHandle<Result<(), ShardError>>)> = None;
        while !stop.is_set() {
            let Some(mine) = members.poll(Duration::from_millis(50))? else { continue };
            let wanted = mine.iter().any(|partition| layout.shard(role, partition) == Some(self.shard));
            match (wanted, running.take()) {
                (true, None) => {
                    let its = Stop::default();
                    let shard = self.open(&**cluster, &its)?;
                    active.store(true, Ordering::Relaxed);
                    let (shown, told) = (Arc::clone(&active), its.clone());
                    let body = move || {
                        let ended = shard.run(wall_clock, &told);
                        shown.store(false, Ordering::Relaxed);
                        ended
                    };
                    let thread = std::thread::Builder::new().name("shard".to_owned()).spawn(body);
                    running = Some((its, thread.map_err(|error| self.failed(error))?));
                }
                (false, Some((its, thread))) => {
                    its.set();
                    end(thread)?;
                }
                (_, unchanged) => running = unchanged,
            }
        }
        running.map_or(Ok(()), |(its, thread)| {
            its.set();
            end(thread)
        })
    }

    /// Answers each line of standard input with counters, and stops the shard at its end.
    fn answer(
        &self,
        stop: &Stop,
        counters: impl Fn() -> Counters + Send + 'static,
    ) -> Result<(), ClusterError> {
        let stop = stop.clone();
        let body = move || {
            for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
                let text = serde_json::to_string(&counters()).map_err(std::io::Error::other);
                if text.and_then(|text| say(&text)).is_err() {
                    break;
                }
            }
            stop.set();
        };
        let thread = std::thread::Builder::new().name("told".to_owned()).spawn(body);
        thread.map(drop).map_err(|error| self.failed(error))
    }
}

/// Waits for a shard's thread. That another process has the shard now is as good an end as any.
fn end(thread: JoinHandle<Result<(), ShardError>>) -> Result<(), ClusterError> {
    match thread.join().expect("a shard does not panic") {
        Err(error) if !error.is_fenced() => Err(error.into()),
        _ => Ok(()),
    }
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
