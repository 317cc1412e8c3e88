//! One shard of a stage, run by a process of its own.

use super::files::FileCluster;
use super::kept::{Kept, Traffic};
use super::meter::{Worked, nanoseconds};
use super::{ClusterError, Shape};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tally_log::cluster::{Cluster, Members};
use tally_log::kafka::{Compression, KafkaCluster, KafkaOptions};
use tally_settlement::engine::wall_clock;
use tally_settlement::process::shard::{Counts, Watch};
use tally_settlement::process::{
    Role, Shard, ShardError, Standby, Stop, approve, assemble, schedule, sequence, update,
};

/// Where a stage's topics lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// On a Kafka cluster.
    Kafka {
        /// Where it is.
        brokers: Vec<String>,
        /// Whether record batches are compressed with lz4.
        lz4: bool,
    },
    /// In the journal of one process at a time.
    Files {
        /// The journal's directory.
        directory: PathBuf,
    },
}

/// What a stage's process is told on its command line, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Where its topics are.
    pub place: Place,
    /// The network.
    pub shape: Shape,
    /// The stage's name.
    pub role: String,
    /// Its number; for approvers and updaters the participant's.
    pub shard: u16,
    /// Whether it waits, once it is ready, until it is told to go.
    pub paused: bool,
    /// It stands by and becomes the sequencer after a silence of so many milliseconds. None: the shard is its own from the
    /// beginning.
    pub stands_by_ms: Option<u64>,
}

/// What a process that stood by did when the sequencer fell silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOver {
    /// When the sequencer before it was last heard of, in microseconds since 1970.
    pub heard_us: u64,
    /// When it was decided to take over, in microseconds since 1970.
    pub decided_us: u64,
    /// How long the log took to open, in nanoseconds: the writer before is fenced then.
    pub fence_ns: u64,
    /// How long it took beyond that to recover what the one before had recorded, in nanoseconds.
    pub recovery_ns: u64,
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
    /// What it worked since it was told to go, or since it took over.
    pub worked: Worked,
    /// How it took over, if it stood by and did.
    pub taken_over: Option<TakenOver>,
    /// More, where that was asked for.
    pub detail: Option<Detail>,
}

/// What it takes longer to find out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// Processor time in nanoseconds of the threads of each name.
    pub threads: BTreeMap<String, u64>,
    /// Records that are there and were not read.
    pub behind: u64,
    /// Bytes appended that are not visible.
    pub pending: u64,
}

impl Detail {
    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.behind == 0 && self.pending == 0
    }

    fn of(cluster: &Kept) -> Self {
        let threads = tally_ops::process::threads().unwrap_or_default().into_iter();
        Self {
            threads: threads.map(|thread| (thread.name, nanoseconds(thread.cpu))).collect(),
            behind: cluster.behind(),
            pending: cluster.pending_bytes(),
        }
    }
}

impl Counters {
    fn of(counts: Option<&Counts>, cluster: &Kept) -> Self {
        let count = |of: fn(&Counts) -> &std::sync::atomic::AtomicU64| {
            counts.map_or(0, |counts| of(counts).load(Ordering::Relaxed))
        };
        Self {
            commits: count(|counts| &counts.commits),
            commit_ns: count(|counts| &counts.commit_ns),
            steps: count(|counts| &counts.steps),
            active: counts.is_some(),
            traffic: cluster.traffic(),
            worked: cluster.meter().worked(),
            taken_over: None,
            detail: None,
        }
    }

    /// What was done since.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |topic: &String| earlier.traffic.get(topic).copied().unwrap_or_default();
        let traffic = self.traffic.iter().map(|(topic, now)| (topic.clone(), now.since(before(topic))));
        Self {
            commits: self.commits - earlier.commits,
            commit_ns: self.commit_ns - earlier.commit_ns,
            steps: self.steps - earlier.steps,
            traffic: traffic.collect(),
            ..self.clone()
        }
    }

    /// Processor time in nanoseconds of the threads of Kafka's client since, where both have details.
    #[must_use]
    pub fn client_ns_since(&self, earlier: &Self) -> u64 {
        let of = |counters: &Self| -> u64 {
            let threads = counters.detail.iter().flat_map(|detail| &detail.threads);
            threads.filter(|(name, _)| name.starts_with(CLIENT_THREADS)).map(|(_, ns)| ns).sum()
        };
        of(self).saturating_sub(of(earlier))
    }
}

/// What librdkafka's threads are called.
const CLIENT_THREADS: &str = "rdk:";

/// Tells a paused process to go.
pub(super) const GO: &str = "go";
/// Asks for [`Detail`].
pub(super) const DETAIL: &str = "detail";

/// The most references that a scheduler remembers.
const REMEMBER: usize = 1 << 26;

impl Member {
    fn cluster(&self) -> Result<Kept, ClusterError> {
        Ok(match &self.place {
            Place::Kafka { brokers, lz4 } => Kept::new(KafkaCluster::new(KafkaOptions {
                brokers: brokers.clone(),
                compression: if *lz4 { Compression::Lz4 } else { Compression::None },
                ..KafkaOptions::default()
            })?),
            Place::Files { directory } => Kept::new(FileCluster::open(directory, &self.shape)?),
        })
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
            Some(Role::Sequencer) => {
                sequence::open(cluster, &layout, network.id, keys[0].clone(), now, stop)?
            }
            Some(Role::Updater) => {
                let every_ms = self.shape.snapshots_ms;
                update::open(cluster, &layout, &network, shard, (key()?, every_ms), now, stop)?.0
            }
            Some(Role::Gateway) | None => {
                return Err(ClusterError::process(&self.role, "no stage has this name"));
            }
        })
    }

    /// Runs the shard until standard input ends. It says `ready` once the shard is open, or once it stands by, and its
    /// [`Counters`] as a line of JSON for each line that it is told.
    ///
    /// # Errors
    /// When the shard cannot be opened or cannot go on.
    pub fn serve(&self) -> Result<(), ClusterError> {
        let cluster = Arc::new(self.cluster()?);
        let stop = Stop::default();
        if let Some(after) = self.stands_by_ms {
            return self.stand_by(&cluster, Duration::from_millis(after), &stop);
        }
        let shard = self.open(&*cluster, &stop)?;
        let watch = shard.watch();
        cluster.begin();
        say("ready").map_err(|error| self.failed(error))?;
        let (go, told) = std::sync::mpsc::channel();
        let (answer, paused) = (Arc::clone(&cluster), self.paused);
        self.answer(&stop, move |line| {
            if line == GO && paused {
                answer.begin();
                // Nobody waits for it any more once the shard runs.
                let _ = go.send(());
            }
            let detail = (line == DETAIL).then(|| Detail::of(&answer));
            Counters { detail, ..Counters::of(Some(watch.counts()), &answer) }
        })?;
        if self.paused {
            // An end of the input stops the shard, and there is nothing to wait for then.
            let _ = told.recv();
        }
        Ok(shard.run(wall_clock, &stop)?)
    }

    /// Runs the sequencer whenever the one before falls silent, as the program's own standby does.
    fn stand_by(&self, cluster: &Arc<Kept>, after: Duration, stop: &Stop) -> Result<(), ClusterError> {
        let mut standby = Standby::new(Arc::clone(cluster) as Arc<dyn Cluster>, self.shape.layout(), after)?;
        say("ready").map_err(|error| self.failed(error))?;
        let active: Arc<Mutex<Option<(Watch, TakenOver)>>> = Arc::default();
        let (shown, answer) = (Arc::clone(&active), Arc::clone(cluster));
        self.answer(stop, move |_| {
            let shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            let counters = Counters::of(shown.as_ref().map(|(watch, _)| watch.counts()), &answer);
            Counters { taken_over: shown.as_ref().map(|(_, how)| *how), ..counters }
        })?;
        let show = |now| *active.lock().unwrap_or_else(PoisonError::into_inner) = now;
        let mut running: Option<(Stop, JoinHandle<Result<(), ShardError>>)> = None;
        while !stop.is_set() {
            let decided = standby.poll(LOOK)?.is_some();
            if let Some((_, thread)) = running.take_if(|(_, thread)| thread.is_finished()) {
                show(None);
                end(thread)?;
                standby.stand_by()?;
            }
            if !decided {
                continue;
            }
            cluster.begin();
            let (began, decided_us, silent) = (Instant::now(), unix_us(), standby.heard_at().elapsed());
            let its = Stop::default();
            let shard = match self.open(&**cluster, &its) {
                // Two took over at once and the other came later, or the cluster was away.
                Err(ClusterError::Shard(error)) if error.is_fenced() || error.is_transient() => {
                    standby.stand_by()?;
                    continue;
                }
                opened => opened?,
            };
            let fence = cluster.meter().opening();
            let how = TakenOver {
                heard_us: decided_us.saturating_sub(nanoseconds(silent) / 1000),
                decided_us,
                fence_ns: nanoseconds(fence),
                recovery_ns: nanoseconds(began.elapsed().saturating_sub(fence)),
            };
            // What was read to recover is no work.
            cluster.begin();
            show(Some((shard.watch(), how)));
            let told = its.clone();
            let thread = std::thread::Builder::new().name("shard".to_owned());
            let thread = thread.spawn(move || shard.run(wall_clock, &told));
            running = Some((its, thread.map_err(|error| self.failed(error))?));
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
        counters: impl Fn(&str) -> Counters + Send + 'static,
    ) -> Result<(), ClusterError> {
        let stop = stop.clone();
        let body = move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                let text = serde_json::to_string(&counters(line.trim())).map_err(std::io::Error::other);
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

/// How often a process that stands by looks up, as the program's own does.
const LOOK: Duration = Duration::from_millis(50);

/// The time of this machine in microseconds since 1970.
pub(super) fn unix_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
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
