//! How fast a journal is read back: by a network that starts without a snapshot, and by an audit.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tally_crypto::SigningKey;
use tally_ledger::Network;
use tally_ops::process::{self, Usage};
use tally_settlement::audit::{AuditError, AuditOptions, audit};
use tally_settlement::engine::{Engine, EngineError, EngineOptions};

use crate::limits::Limit;
use crate::result::{Better, Record};
use crate::stages::Stage;
use crate::statistics::median;
use crate::work::Work;
use crate::workload::{Mix, Workload, WorkloadError};

/// The experiment that readings are recorded under.
pub const EXPERIMENT: &str = "recovery";

/// Transactions of the journal that are to be read back in a second.
pub const BAR: f64 = 1e6;

/// Who reads the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A network that starts: replays every transaction, remembers the references that have not expired.
    Recovery,
    /// An audit: also checks every transaction, every reference, every hash and signature of the sequence, every floor.
    Audit,
    /// An audit that verifies the payers' signatures too.
    FullAudit,
}

impl Reader {
    /// Its name in tables and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recovery => "recovery",
            Self::Audit => "audit",
            Self::FullAudit => "audit, payers' signatures too",
        }
    }

    /// What it needs at least for one payment on one core.
    #[must_use]
    pub fn work(self, mix: Mix, signed: bool) -> Work {
        let share = mix.legs() / 2.0 - 1.0;
        let of = |legs: u8| {
            let between = legs > 2;
            let generator = Stage::Generator.work(legs, signed);
            // The reference, and the customers' accounts; settlement accounts stay in the cache.
            let replay = Work { updates: 3.0, bytes: generator.bytes, ..Work::default() };
            let checks = Work {
                hashes: Stage::Scheduler.work(legs, signed).hashes
                    + Stage::Sequencer.work(legs, signed).hashes,
                verified: if self == Self::FullAudit && signed { 1.0 } else { 0.0 },
                ..Work::default()
            };
            let work = if self == Self::Recovery { replay } else { replay + checks };
            work * if between { share } else { 1.0 - share }
        };
        of(2) + of(4)
    }
}

/// What reading a journal took.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Who read it.
    pub reader: Reader,
    /// Transactions of the journal.
    pub transactions: u64,
    /// Bytes of the journal's files.
    pub bytes: u64,
    /// Transactions per second, opening the files included; once for each repetition.
    pub rates: Vec<f64>,
    /// Processor time of the process for each transaction in nanoseconds, once for each repetition.
    pub cpu_ns: Vec<f64>,
    /// The most resident memory of the process so far, in bytes.
    pub peak_resident_bytes: u64,
}

/// A journal that could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The network could not start.
    #[error("the network does not start from its journal")]
    Engine(#[from] EngineError),
    /// The audit found something, or could not read.
    #[error("the audit of the network under test found something")]
    Audit(#[from] AuditError),
    /// The network recovered less than it had acknowledged, or the audit counts otherwise.
    #[error("{reader} found {found} transactions in a journal of {expected}")]
    Lost {
        /// Who counted.
        reader: &'static str,
        /// What it found.
        found: u64,
        /// What there is.
        expected: u64,
    },
    /// A file could not be removed or looked at, or the process's use not read.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The system does not say what the process uses.
    #[error(transparent)]
    Process(#[from] process::ProcessError),
    /// The journal could not be written in the first place.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

impl Measured {
    /// The median rate.
    #[must_use]
    pub fn rate(&self) -> f64 {
        median(&self.rates).unwrap_or_default()
    }

    /// The median of the processor time for each transaction, in nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self) -> f64 {
        median(&self.cpu_ns).unwrap_or_default()
    }

    /// The record of it.
    #[must_use]
    pub fn record(&self, workload: &Workload, limits: &[Limit]) -> Record {
        let mut record = Record::new(EXPERIMENT, self.reader.name())
            .setting("mix", format!("{:?}", workload.mix))
            .setting("signed", workload.is_signed())
            .setting("accounts_per_bank", workload.accounts)
            .sampled("rate_tps", self.rates.clone(), "tx/s", Better::Higher)
            .sampled("cpu_ns_per_transaction", self.cpu_ns.clone(), "ns", Better::Lower)
            .metric("transactions", self.transactions as f64, "tx", Better::Higher)
            .metric("journal", self.bytes as f64, "B", Better::Lower);
        if let Some(ceiling) = self.reader.work(workload.mix, workload.is_signed()).ceiling(limits) {
            record = record.against(&ceiling, 1e9 / self.nanoseconds());
        }
        record.rss_bytes = self.peak_resident_bytes;
        record
    }
}

/// Reads the journal of a stopped network in `directory` `repetitions` times in each way.
///
/// # Errors
/// When it cannot be read back, or something is missing in it.
pub fn measure(
    directory: &Path,
    network: &Network,
    keys: &[SigningKey],
    repetitions: usize,
    signatures: bool,
) -> Result<Vec<Measured>, RecoveryError> {
    let bytes = journal_bytes(directory)?;
    let mut readers = vec![Reader::Recovery, Reader::Audit];
    if signatures {
        readers.push(Reader::FullAudit);
    }
    let mut transactions = None;
    let mut all = Vec::new();
    for reader in readers {
        let (mut rates, mut cpu_ns) = (Vec::new(), Vec::new());
        for _ in 0..repetitions {
            let before = process::usage()?;
            let (found, took) = match reader {
                Reader::Recovery => recover(directory, network, keys)?,
                Reader::Audit | Reader::FullAudit => check(directory, network, reader)?,
            };
            let cpu = cpu_since(&before)?;
            let expected = *transactions.get_or_insert(found);
            if found != expected {
                return Err(RecoveryError::Lost { reader: reader.name(), found, expected });
            }
            rates.push(found as f64 / took.as_secs_f64());
            cpu_ns.push(cpu.as_secs_f64() * 1e9 / found.max(1) as f64);
        }
        let peak_resident_bytes = process::usage()?.peak_resident_bytes;
        let transactions = transactions.unwrap_or_default();
        all.push(Measured { reader, transactions, bytes, rates, cpu_ns, peak_resident_bytes });
    }
    Ok(all)
}

fn recover(
    directory: &Path,
    network: &Network,
    keys: &[SigningKey],
) -> Result<(u64, Duration), RecoveryError> {
    remove_snapshots(directory)?;
    let mut options = EngineOptions::new(directory.to_owned(), network.clone(), keys.to_vec());
    options.snapshot_every = None;
    let began = Instant::now();
    let engine = Engine::open(options)?;
    let took = began.elapsed();
    let report = engine.recovery();
    let found = (report.transactions, took);
    engine.stop(Duration::from_secs(30))?;
    Ok(found)
}

fn check(directory: &Path, network: &Network, reader: Reader) -> Result<(u64, Duration), RecoveryError> {
    let options = AuditOptions { signatures: reader == Reader::FullAudit };
    let began = Instant::now();
    let report = audit(directory, &Arc::new(network.clone()), options)?;
    Ok((report.accepted, began.elapsed()))
}

fn cpu_since(before: &Usage) -> Result<Duration, RecoveryError> {
    let (user, system) = process::usage()?.cpu_since(before);
    Ok(user + system)
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RecoveryError {
    let path = path.display().to_string();
    move |source| RecoveryError::Io { action, path, source }
}

/// Without a snapshot all of the journal is replayed.
fn remove_snapshots(directory: &Path) -> Result<(), RecoveryError> {
    let path = directory.join("snapshots");
    match std::fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", &path)(error)),
        _ => Ok(()),
    }
}

fn journal_bytes(directory: &Path) -> Result<u64, RecoveryError> {
    let path = directory.join("journal");
    let mut bytes = 0;
    for entry in std::fs::read_dir(&path).map_err(io("list", &path))? {
        let entry = entry.map_err(io("list", &path))?;
        bytes += entry.metadata().map_err(io("look at", &entry.path()))?.len();
    }
    Ok(bytes)
}
