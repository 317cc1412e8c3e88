//! What this machine can do at best, measured in this run.
//!
//! A figure of a benchmark means little without the limit it works against: a scheduler that verifies 100,000
//! signatures per second is good or bad only beside what the processor can verify when it does nothing else. Each
//! limit is the median of several short repetitions, so that one interruption does not count.
//!
//! | name | what is measured |
//! | --- | --- |
//! | `blake3-64`, `blake3-200` | BLAKE3 of 64 and 200 bytes, one at a time |
//! | `blake3-64-many` | the same of 64 bytes by [`tally_crypto::hash_many`] |
//! | `sha256-64`, `sha256-200` | SHA-256 of 64 and 200 bytes |
//! | `ed25519-sign`, `ed25519-verify` | one signature over 32 bytes at a time |
//! | `ed25519-verify-batch-1024` | batches of 1024 signatures, each by another key |
//! | `ed25519-verify-batch-1024-few-keys` | batches of 1024 signatures by 8 keys |
//! | `ed25519-verify-batch-4096` | batches of 4096 signatures, each by another key |
//! | `memcpy` | bytes copied; each is read once and written once |
//! | `update-dependent` | updates of random rows, each row's place known only from the one before: latency of memory |
//! | `update-independent` | updates of random rows in a plain loop: what the processor overlaps by itself |
//! | `update-prefetched` | the same, with each group of 32 rows fetched ahead |
//! | `write-256k`, `write-4m` | bytes written sequentially and made durable by fdatasync after each block |
//! | `fdatasync-4k` | time to append 4 KiB and make them durable |
//! | `pay-signatures` | payments of the flows ledger of which everything is signed and verified |
//! | `pay-writes` | payments of which the three nodes write to their databases what they write for them |
//! | `pay-signatures-and-writes` | both at once: more payments the nodes cannot make here |
//! | `pay-cluster-signatures-and-writes` | the same with a clustered notary of four members |
//!
//! A name alone is one core; with `-all` it is every core at once. The rows of the `update` limits are 64 bytes in a
//! table of [`Options::memory_bytes`], divided among the cores. Files grow while they are written; with `-overwrite`
//! they do not, which spares the file system a journal entry.

mod disk;
mod hash;
mod memory;
mod meter;
mod pay;
mod prefetch;
mod sign;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use meter::{Meter, Rates};
pub use pay::{PAY, PAY_CLUSTER};

use crate::result::{Better, Record, ResultError, ResultWriter};
use crate::statistics::median;

/// The experiment that limits are recorded under.
pub const EXPERIMENT: &str = "limits";
/// What the name of a limit of all cores ends with.
pub const ALL_CORES: &str = "-all";

/// Below this share of processor time a limit was measured on a busy machine.
pub const BUSY: f64 = 0.95;

/// A part of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// Hashing.
    Hash,
    /// Signing and verifying.
    Sign,
    /// Copying and updating memory.
    Memory,
    /// Durable writes.
    Disk,
    /// A payment of the flows ledger.
    Pay,
}

impl Area {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Hash, Self::Sign, Self::Memory, Self::Disk, Self::Pay];

    /// How many limits it has, all cores counted apart.
    fn count(self) -> usize {
        match self {
            Self::Hash => 2 * hash::COUNT,
            Self::Sign => 2 * sign::COUNT,
            Self::Memory => 2 * memory::COUNT,
            Self::Disk => disk::COUNT,
            Self::Pay => 2 * pay::COUNT,
        }
    }
}

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Time for all measurements; preparing them (keys, filling memory) comes on top.
    pub total: Duration,
    /// How often each limit is measured.
    pub repetitions: usize,
    /// How many cores `-all` means.
    pub cores: usize,
    /// Memory that is copied and updated, in bytes; more than the cache, or the cache is measured.
    pub memory_bytes: usize,
    /// The directory in which files are written; its disk is the one measured.
    pub directory: PathBuf,
    /// What to measure.
    pub areas: Vec<Area>,
}

impl Default for Options {
    /// Everything in about 12 seconds, on all cores, with 512 MiB, in the working directory.
    fn default() -> Self {
        Self {
            total: Duration::from_secs(12),
            repetitions: 5,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: 512 * 1024 * 1024,
            directory: PathBuf::from("."),
            areas: Area::ALL.to_vec(),
        }
    }
}

/// One limit of this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Its name, as in the table of this module.
    pub name: String,
    /// The median of the samples.
    pub value: f64,
    /// The unit of value and samples.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
    /// How many cores worked at once.
    pub cores: usize,
    /// One value for each repetition.
    pub samples: Vec<f64>,
    /// The share of their time that the workers had a processor, where the work is the processor's; below
    /// [`BUSY`] something else was running and the machine can do more than `value`.
    pub processor_share: Option<f64>,
}

/// Why a limit could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The options leave nothing to do.
    #[error("{0}")]
    Options(&'static str),
    /// The memory to be measured is not there.
    #[error("cannot reserve {bytes} bytes; give a smaller size, above that of the cache")]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// Why it was refused.
        #[source]
        source: std::collections::TryReserveError,
    },
    /// The file that is measured could not be made, written or synchronised.
    #[error("cannot measure durable writes in {}", directory.display())]
    Disk {
        /// Where.
        directory: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Payments could not be made or written.
    #[error("cannot measure what a payment needs")]
    Pay(#[from] crate::flows::FlowsError),
}

/// Measures the limits of this machine.
///
/// # Errors
/// [`LimitError`].
pub fn run(options: &Options) -> Result<Vec<Limit>, LimitError> {
    run_each(options, |_| {})
}

/// As [`run`], and shows each limit as soon as it is known.
///
/// # Errors
/// [`LimitError`].
pub fn run_each(options: &Options, mut each: impl FnMut(&Limit)) -> Result<Vec<Limit>, LimitError> {
    let measurements: usize = options.areas.iter().map(|area| area.count()).sum();
    let turns = u32::try_from(measurements * options.repetitions).unwrap_or(u32::MAX);
    if turns == 0 || options.cores == 0 {
        return Err(LimitError::Options(
            "nothing to measure: give an area, a repetition and a core at least",
        ));
    }
    let meter = Meter { repetition: options.total / turns, repetitions: options.repetitions };
    let mut found = Vec::with_capacity(measurements);
    let mut add = |limit: Limit| {
        each(&limit);
        found.push(limit);
    };
    for area in &options.areas {
        match area {
            Area::Hash => hash::measure(&meter, options.cores, &mut add),
            Area::Sign => sign::measure(&meter, options.cores, &mut add),
            Area::Memory => memory::measure(&meter, options.cores, options.memory_bytes, &mut add)?,
            Area::Disk => disk::measure(&meter, &options.directory, &mut add)
                .map_err(|source| LimitError::Disk { directory: options.directory.clone(), source })?,
            Area::Pay => pay::measure(&meter, options.cores, &options.directory, &mut add)?,
        }
    }
    Ok(found)
}

/// The limit of this name.
#[must_use]
pub fn find<'l>(limits: &'l [Limit], name: &str) -> Option<&'l Limit> {
    limits.iter().find(|limit| limit.name == name)
}

/// Appends one record for each limit.
///
/// # Errors
/// [`ResultError`] when a record cannot be written.
pub fn write(limits: &[Limit], options: &Options, writer: &mut ResultWriter) -> Result<(), ResultError> {
    limits.iter().try_for_each(|limit| writer.append(&limit.record(options)))
}

impl Limit {
    fn new(name: impl Into<String>, unit: &'static str, better: Better, samples: Vec<f64>) -> Self {
        // A meter repeats at least once, and so there is a median.
        let value = median(&samples).unwrap_or_default();
        Self { name: name.into(), value, unit, better, cores: 1, samples, processor_share: None }
    }

    fn rate(name: impl Into<String>, unit: &'static str, cores: usize, rates: Rates) -> Self {
        let processor_share = median(&rates.processor_share);
        Self { cores, processor_share, ..Self::new(name, unit, Better::Higher, rates.samples) }
    }

    /// A rate on one core under `name`, and on all cores under `name-all`.
    fn rates<W: FnMut() -> u64 + Send>(
        meter: &Meter,
        name: &str,
        unit: &'static str,
        cores: usize,
        mut workers: impl FnMut(usize) -> Vec<W>,
        add: &mut impl FnMut(Self),
    ) {
        add(Self::rate(name, unit, 1, meter.rates(workers(1))));
        add(Self::rate(format!("{name}{ALL_CORES}"), unit, cores, meter.rates(workers(cores))));
    }

    /// The value for each second of processor time rather than of the clock: what it would be on an idle machine, as
    /// far as only processor time was missing.
    #[must_use]
    pub fn idle(&self) -> f64 {
        self.value / self.processor_share.filter(|share| (0.05..1.0).contains(share)).unwrap_or(1.0)
    }

    /// The limit as a record of the experiment `limits`.
    #[must_use]
    pub fn record(&self, options: &Options) -> Record {
        let record = Record::new(EXPERIMENT, &self.name)
            .setting("cores", self.cores)
            .setting("memory_bytes", options.memory_bytes)
            .sampled("value", self.samples.clone(), self.unit, self.better);
        match self.processor_share {
            Some(share) => record.metric("processor_share", share, "share", Better::Higher),
            None => record,
        }
    }
}

#[cfg(test)]
mod tests;
