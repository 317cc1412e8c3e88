//! The whole network, experiment by experiment: throughput, latency, memory, and how fast its journal is read back.
//!
//! Every experiment makes a network of its own in a directory that is removed afterwards, so that none inherits the
//! journal or the memory of another.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tally_ops::process::usage;

use crate::ceiling::Ceiling;
use crate::limits::{self, Area, Limit, LimitError, find};
use crate::published::{self, Figure};
use crate::recorder::Recorder;
use crate::recovery::{self, RecoveryError};
use crate::result::{Better, Record};
use crate::settlement::{self, Counted, Load, Measured, Moment, Run};
use crate::stages::{Stage, network_work};
use crate::statistics::median;
use crate::workload::{self, Mix, Setup, Workload, WorkloadError};

/// What all experiments have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Where networks are made; its disk is the one measured.
    pub directory: PathBuf,
    /// Customers' accounts at each of the two banks.
    pub accounts: u32,
    /// Distinct payers of signed payments.
    pub payers: u32,
    /// Payments of a batch in closed loop.
    pub batch: usize,
    /// Batches under way at each scheduler in closed loop.
    pub window: usize,
    /// How long each run is measured.
    pub duration: Duration,
    /// How long it runs before it is measured.
    pub warm_up: Duration,
    /// How often each run is repeated, each time in a new network; medians count.
    pub runs: usize,
    /// Makes the same payments again.
    pub seed: u64,
    /// Whether runs show how they are getting on.
    pub progress: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            directory: PathBuf::from("."),
            accounts: 1_000_000,
            payers: 100_000,
            batch: 4096,
            window: 4,
            duration: Duration::from_secs(6),
            warm_up: Duration::from_secs(1),
            runs: 3,
            seed: 1,
            progress: false,
        }
    }
}

/// How long an unsigned payment is valid, and its reference remembered.
const VALIDITY: Duration = Duration::from_secs(15);
/// Signed payments are made before the run, and must still be valid in it.
const SIGNED_VALIDITY: Duration = Duration::from_secs(600);

/// How long a payment of a network in use may be valid, and its reference is remembered.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How often a network in use saves its balances.
const MINUTE: Duration = Duration::from_secs(60);

/// A benchmark that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The network, or its load.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The journal could not be read back.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// A limit could not be measured.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// No directory for a network.
    #[error("cannot make a directory for a network in {}", path.display())]
    Directory {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The system does not say what the process uses.
    #[error(transparent)]
    Process(#[from] tally_ops::process::ProcessError),
}

/// What an experiment is to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// Transactions per second.
    Rate(f64),
    /// A share of what the machine allows.
    Share(f64),
}

/// One experiment, measured in one or more runs.
pub struct Outcome {
    /// Its name in results.
    pub name: String,
    /// Its name for a reader.
    pub title: String,
    /// What was run; the last of the runs.
    pub run: Run,
    /// What each run measured.
    pub runs: Vec<Measured>,
    /// The most that the machine allows, by limits measured in the same run of the program; the lowest first.
    pub ceilings: Vec<Ceiling>,
}

impl Outcome {
    /// One of which nothing is measured yet.
    #[must_use]
    pub fn begin(name: &str, title: &str, run: &Run) -> Self {
        let (name, title) = (name.to_owned(), title.to_owned());
        Self { name, title, run: run.clone(), runs: Vec::new(), ceilings: Vec::new() }
    }

    /// Whether it ran with the settings of a network in use.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.run.counted == Counted::Applied && self.run.snapshots.is_some()
    }

    /// The median over the runs of something.
    pub fn median(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(&self.runs.iter().map(of).collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Payments made a second: the median.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.median(|run| run.rate)
    }

    /// The rate as a share of the most that the machine allows.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        self.ceilings.first()?.share(self.rate())
    }

    /// Latency over all runs.
    #[must_use]
    pub fn latency(&self) -> Recorder {
        let mut all = Recorder::new();
        self.runs.iter().for_each(|run| all.merge(&run.latency));
        all
    }

    /// Payments refused in all runs: none are expected.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.runs.iter().map(|run| run.refused).sum()
    }

    /// What has been published of a whole network; nothing where signatures are verified or the load is limited.
    #[must_use]
    pub fn published(&self) -> Option<&'static Figure> {
        let comparable = matches!(self.run.load, Load::Closed(_)) && !self.run.workload.is_signed();
        comparable.then(|| published::figure("rln-network-aggregate")).flatten()
    }

    /// What it is to reach, where that was set.
    #[must_use]
    pub fn bar(&self) -> Option<Bar> {
        let workload = &self.run.workload;
        match (self.run.load, workload.is_signed(), workload.mix) {
            (Load::Open(_), ..) => None,
            (Load::Closed(_), true, _) => Some(Bar::Share(0.75)),
            (Load::Closed(_), false, Mix::Inside) if self.is_in_use() => Some(Bar::Rate(1.5e6)),
            (Load::Closed(_), false, Mix::Inside) => Some(Bar::Rate(1e6)),
            (Load::Closed(_), false, Mix::Between) => Some(Bar::Rate(5e5)),
            (Load::Closed(_), false, Mix::Mixed(_)) => None,
        }
    }

    /// A record for each run.
    #[must_use]
    pub fn records(&self, seed: u64) -> Vec<Record> {
        let record = |measured: &Measured| {
            let mut record = settlement::record(&self.name, &self.run, measured).setting("seed", seed);
            if let Some(ceiling) = self.ceilings.first() {
                record = record.against(ceiling, measured.rate);
            }
            match self.published() {
                Some(figure) => record.published(figure),
                None => record,
            }
        };
        self.runs.iter().map(record).collect()
    }
}

/// What many accounts take.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// How many there are.
    pub accounts: u64,
    /// How long it took to open them and to issue money to each.
    pub set_up: Duration,
    /// Resident memory of the process when that is done, in bytes.
    pub idle_bytes: u64,
    /// Payments made a second on them afterwards, at a fixed rate.
    pub rate: f64,
    /// Resident memory after that, in bytes.
    pub loaded_bytes: u64,
}

impl Memory {
    /// The most that ten million accounts are to take, in bytes.
    pub const BAR_BYTES: f64 = 1.5 * 1024.0 * 1024.0 * 1024.0;

    /// The record of it.
    #[must_use]
    pub fn record(&self) -> Record {
        let mut record = Record::new(settlement::EXPERIMENT, "memory")
            .setting("accounts", self.accounts)
            .metric("resident_idle", self.idle_bytes as f64, "B", Better::Lower)
            .metric("resident_loaded", self.loaded_bytes as f64, "B", Better::Lower)
            .metric("rate_tps", self.rate, "tx/s", Better::Higher)
            .metric("set_up", self.set_up.as_secs_f64(), "s", Better::Lower);
        record.rss_bytes = self.loaded_bytes;
        record
    }
}

impl Plan {
    /// Payments of this mix; signed by as many payers, or unsigned.
    #[must_use]
    pub fn workload(&self, mix: Mix, payers: u32) -> Workload {
        let validity = if payers > 0 { SIGNED_VALIDITY } else { VALIDITY };
        Workload { mix, accounts: self.accounts.max(payers), payers, validity, seed: self.seed, spread: 1 }
    }

    /// A run of closed loop.
    #[must_use]
    pub fn closed(&self, workload: Workload) -> Run {
        Run {
            workload,
            load: Load::Closed(self.window),
            duration: self.duration,
            warm_up: self.warm_up,
            batch: self.batch,
            prepared: 0,
            snapshots: None,
            counted: Counted::Sequenced,
        }
    }

    /// A run with the settings of a network in use: references are remembered for a day, balances are saved each minute, or
    /// more often where a run is shorter, so that once at least falls into it, and an outcome counts when it is applied.
    #[must_use]
    pub fn in_use(&self, run: Run) -> Run {
        let workload = Workload { validity: DAY, ..run.workload };
        let snapshots = Some(MINUTE.min(run.duration * 4 / 5));
        Run { workload, snapshots, counted: Counted::Applied, ..run }
    }

    /// A run of open loop at `rate`: batches are those of one millisecond.
    #[must_use]
    pub fn open(&self, workload: Workload, rate: u64) -> Run {
        let batch = usize::try_from(rate / 1000).unwrap_or(self.batch).clamp(1, self.batch);
        Run { load: Load::Open(rate), batch, ..self.closed(workload) }
    }

    /// A directory for one network, removed when it is dropped.
    ///
    /// # Errors
    /// [`SuiteError::Directory`].
    pub fn directory(&self) -> Result<tempfile::TempDir, SuiteError> {
        let made = std::fs::create_dir_all(&self.directory)
            .and_then(|()| tempfile::Builder::new().prefix("network-").tempdir_in(&self.directory));
        made.map_err(|source| SuiteError::Directory { path: self.directory.clone(), source })
    }

    /// Runs an experiment.
    ///
    /// # Errors
    /// [`SuiteError`].
    pub fn measure(&self, name: &str, title: &str, run: &Run) -> Result<Outcome, SuiteError> {
        let mut outcome = Outcome::begin(name, title, run);
        for _ in 0..self.runs.max(1) {
            self.add(&mut outcome)?;
        }
        Ok(outcome)
    }

    /// Runs two experiments in turn, so that what changes on the machine meanwhile concerns both.
    ///
    /// # Errors
    /// [`SuiteError`].
    pub fn measure_pair(&self, mut pair: [Outcome; 2]) -> Result<[Outcome; 2], SuiteError> {
        for round in 0..self.runs.max(1) {
            for at in [round % 2, (round + 1) % 2] {
                self.add(&mut pair[at])?;
            }
        }
        Ok(pair)
    }

    /// Runs an experiment once more.
    fn add(&self, outcome: &mut Outcome) -> Result<(), SuiteError> {
        let directory = self.directory()?;
        let (setup, measured) = self.once(directory.path(), &outcome.title, &outcome.run)?;
        outcome.runs.push(measured);
        // Not saved: the directory goes.
        drop(setup);
        Ok(())
    }

    fn once(&self, directory: &Path, title: &str, run: &Run) -> Result<(Setup, Measured), SuiteError> {
        let setup = run.workload.set_up(directory, |options| options.snapshot_every = run.snapshots)?;
        let (mut before, mut after) = (None, None);
        let mut look = |moment: Moment| {
            *match moment {
                Moment::Begin => &mut before,
                Moment::End => &mut after,
            } = last_snapshot(directory);
            Ok(())
        };
        let measured = settlement::run_with(&setup, run, self.progress.then_some(title), &mut look)?;
        if run.snapshots.is_some() && before == after {
            return Err(WorkloadError::TimedOut("a snapshot while it was measured").into());
        }
        Ok((setup, measured))
    }

    /// Signed payments in closed loop; the ceiling is what batch verification on all cores does just before and
    /// just after.
    ///
    /// # Errors
    /// [`SuiteError`].
    pub fn signed(&self, name: &str, title: &str, mix: Mix) -> Result<Outcome, SuiteError> {
        let before = verified()?;
        let mut run = self.closed(self.workload(mix, self.payers));
        // As many as could be verified in the time if nothing else were to be done.
        let time = (self.warm_up + self.duration).as_secs_f64();
        run.prepared = (before.rate * time) as usize;
        let mut outcome = self.measure(name, title, &run)?;
        let rate = before.rate.midpoint(verified()?.rate);
        outcome.ceilings = vec![Ceiling { rate, ..before }];
        Ok(outcome)
    }

    /// Runs a workload, stops the network, and reads its journal back.
    ///
    /// # Errors
    /// [`SuiteError`].
    pub fn recovery(&self, run: &Run, repetitions: usize) -> Result<Vec<recovery::Measured>, SuiteError> {
        let directory = self.directory()?;
        let (setup, _) = self.once(directory.path(), "writing a journal", run)?;
        setup.engine.stop(Duration::from_secs(60)).map_err(WorkloadError::from)?;
        let workload = &run.workload;
        let (network, keys) = workload::network(workload.is_signed(), workload.validity, workload.spread);
        Ok(recovery::measure(directory.path(), &network, &keys, repetitions, workload.is_signed())?)
    }

    /// Opens `accounts` accounts and pays between them for a while. It measures the memory of the whole process and
    /// therefore wants one of its own.
    ///
    /// # Errors
    /// [`SuiteError`].
    pub fn memory(&self, accounts: u32) -> Result<Memory, SuiteError> {
        const RATE: u64 = 100_000;
        let directory = self.directory()?;
        let each = accounts.div_ceil(2);
        let workload = Workload { accounts: each, ..self.workload(Mix::Mixed(50), 0) };
        let setup = workload.set_up(directory.path(), |options| options.snapshot_every = None)?;
        let idle_bytes = usage()?.resident_bytes;
        let run = self.open(workload, RATE);
        let measured = settlement::run(&setup, &run, self.progress.then_some("memory"))?;
        Ok(Memory {
            accounts: 2 * u64::from(each),
            set_up: setup.took,
            idle_bytes,
            rate: measured.rate,
            loaded_bytes: measured.after.resident_bytes,
        })
    }
}

/// The name of the latest snapshot of the network in that directory.
fn last_snapshot(directory: &Path) -> Option<std::ffi::OsString> {
    let files = std::fs::read_dir(directory.join("snapshots")).ok()?;
    let names = files.filter_map(|file| Some(file.ok()?.file_name()));
    names.filter(|name| name.as_encoded_bytes().ends_with(b".snapshot")).max()
}

/// The limit of signed payments.
const VERIFIED: &str = "ed25519-verify-batch-4096-all";

/// How many signatures a second this machine verifies in batches on all cores, now.
///
/// # Errors
/// [`SuiteError`].
pub fn verified() -> Result<Ceiling, SuiteError> {
    let options = limits::Options {
        total: Duration::from_millis(2000),
        areas: vec![Area::Sign],
        ..limits::Options::default()
    };
    let rate = find(&limits::run(&options)?, VERIFIED).map_or(0.0, |limit| limit.value);
    Ok(Ceiling { name: VERIFIED.to_owned(), rate })
}

/// The most that the machine allows of unsigned payments: what they need at least on all cores, and what the journal
/// can write; the lower first, and only those whose limits were measured.
#[must_use]
pub fn ceilings(mix: Mix, limits: &[Limit], cores: usize) -> Vec<Ceiling> {
    let work = network_work(mix, false);
    let share = mix.legs() / 2.0 - 1.0;
    let bytes = |legs: u8| Stage::Generator.work(legs, false).bytes;
    let record = bytes(2) * (1.0 - share) + bytes(4) * share;
    let compute = work
        .ceiling(limits)
        .map(|one| Ceiling { name: format!("{work} on {cores} cores"), rate: cores as f64 * one.rate });
    let disk = find(limits, "write-4m")
        .map(|limit| Ceiling { name: format!("write-4m, {record:.0} B each"), rate: limit.value / record });
    let mut all: Vec<_> = compute.into_iter().chain(disk).collect();
    all.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    all
}

#[cfg(test)]
mod tests;
