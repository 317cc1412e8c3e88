//! One shard of a stage, run by a process of its own.

use super::kept::{Kept, Traffic};
use super::{ClusterError, Shape};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::sync::atomic::Ordering;
use tally_log::cluster::Cluster;
use tally_log::kafka::{Compression, KafkaCluster, KafkaOptions};
use tally_settlement::engine::wall_clock;
use tally_settlement::process::shard::Counts;
use tally_settlement::process::{Role, Shard, Stop, approve, assemble, schedule, sequence, update};

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
    /// What went through each topic.
    pub traffic: Traffic,
}

impl Counters {
    fn of(counts: &Counts, cluster: &Kept) -> Self {
        Self {
            commits: counts.commits.load(Ordering::Relaxed),
            commit_ns: counts.commit_ns.load(Ordering::Relaxed),
            steps: counts.steps.load(Ordering::Relaxed),
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
            ..KafkaOptions::default()
        }
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

    /// Runs the shard until standard input ends. It says `ready` once the shard is open, and its [`Counters`] as a line of
    /// JSON for each line that it is told.
    ///
    /// # Errors
    /// When the shard cannot be opened or cannot go on.
    pub fn serve(&self) -> Result<(), ClusterError> {
        let cluster = std::sync::Arc::new(Kept::new(KafkaCluster::new(self.options())?));
        let stop = Stop::default();
        let shard = self.open(&*cluster, &stop)?;
        let watch = shard.watch();
        say("ready").map_err(|error| ClusterError::process(&self.role, error))?;
        let told = {
            let stop = stop.clone();
            move || {
                for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
                    let text = serde_json::to_string(&Counters::of(watch.counts(), &cluster));
                    if text.map_err(std::io::Error::other).and_then(|text| say(&text)).is_err() {
                        break;
                    }
                }
                stop.set();
            }
        };
        std::thread::Builder::new()
            .name("told".to_owned())
            .spawn(told)
            .map_err(|error| ClusterError::process(&self.role, error))?;
        Ok(shard.run(wall_clock, &stop)?)
    }
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
