//! What a broker can do at best through the same client: transactions with acks=all, and committed reads.
//!
//! | name | what is measured |
//! | --- | --- |
//! | `kafka-produce-SIZE` | payload bytes of records of that size appended and committed |
//! | `kafka-consume-SIZE` | the same bytes read back, from the beginning |
//! | `kafka-both-SIZE` | appended and committed while others read them, until all is read; each byte counts once |
//!
//! With `-records` it is records a second. As many writers and readers as cores, each with a partition of its own.

use super::ClusterError;
use crate::limits::{EXPERIMENT, Limit, find};
use crate::result::{Better, Record};
use crate::statistics::median;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tally_log::cluster::{Binding, Cluster, Partition, SharedLog};
use tally_log::kafka::KafkaCluster;
use tally_log::kafka::topics::TopicPlan;
use tally_log::{LogError, Offset, TopicId, Visibility};

/// Sizes of records: a payment's, and those of batches.
pub const SIZES: [usize; 4] = [200, 64 << 10, 256 << 10, 1 << 20];
/// Bytes of one commit.
const COMMIT_BYTES: usize = 4 << 20;
/// Bytes that are read at once, as stages do.
const READ_BYTES: usize = 1 << 20;
/// Records of the warm-up.
const WARM_UP_BYTES: usize = 256 << 10;
/// How often each is measured.
const REPETITIONS: u32 = 3;
/// Names of topics must differ in a cluster that stays.
static TOPICS: AtomicU64 = AtomicU64::new(0);

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Sizes of records.
    pub sizes: Vec<usize>,
    /// Time for one repetition of one limit.
    pub repetition: Duration,
    /// Time for warming the broker up before.
    pub warm_up: Duration,
    /// How many writers and readers.
    pub clients: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sizes: SIZES.to_vec(),
            repetition: Duration::from_secs(1),
            warm_up: Duration::from_secs(8),
            clients: std::thread::available_parallelism()
                .map_or(2, |cores| u16::try_from(cores.get()).unwrap_or(2))
                .min(8),
        }
    }
}

impl Options {
    /// The same in about so long, the warm-up beside it: each size is produced, consumed, and both at once.
    #[must_use]
    pub fn within(self, total: Duration) -> Self {
        let sizes = u32::try_from(self.sizes.len()).unwrap_or(u32::MAX).max(1);
        // What is produced is consumed in less time than it took.
        Self { repetition: total / sizes.saturating_mul(REPETITIONS * 5 / 2), ..self }
    }
}

/// Measures them all.
///
/// # Errors
/// When the cluster refuses.
pub fn run(cluster: &KafkaCluster, options: &Options) -> Result<Vec<Limit>, ClusterError> {
    let mut limits = Vec::new();
    // A broker that was just started is still being compiled.
    let topic = Topic::make(cluster, options.clients)?;
    let warm = Options { repetition: options.warm_up, ..options.clone() };
    topic.write(&warm, WARM_UP_BYTES, true)?;
    topic.delete()?;
    for size in &options.sizes {
        let (mut produce, mut consume, mut both) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..REPETITIONS {
            let topic = Topic::make(cluster, options.clients)?;
            let written = topic.write(options, *size, false)?;
            produce.push(written.rate());
            consume.push(topic.consume(&written)?.rate());
            topic.delete()?;
            let topic = Topic::make(cluster, options.clients)?;
            both.push(topic.write(options, *size, true)?.rate());
            topic.delete()?;
        }
        for (what, samples) in [("produce", produce), ("consume", consume), ("both", both)] {
            let records = samples.iter().map(|bytes| bytes / *size as f64).collect();
            limits.push(limit(&format!("kafka-{what}-{}-records", label(*size)), "1/s", options, records));
            limits.push(limit(&format!("kafka-{what}-{}", label(*size)), "B/s", options, samples));
        }
    }
    Ok(limits)
}

/// The most bytes of any size of record that a limit of this kind (`produce`, `consume` or `both`) allows.
#[must_use]
pub fn best(limits: &[Limit], kind: &str) -> Option<f64> {
    let of = |size: &usize| find(limits, &format!("kafka-{kind}-{}", label(*size))).map(|limit| limit.value);
    SIZES.iter().filter_map(of).max_by(f64::total_cmp)
}

/// The record of a limit.
#[must_use]
pub fn record(limit: &Limit, options: &Options) -> Record {
    Record::new(EXPERIMENT, &limit.name)
        .setting("clients", options.clients)
        .setting("commit_bytes", COMMIT_BYTES)
        .setting("acks", "all")
        .sampled("value", limit.samples.clone(), limit.unit, limit.better)
}

/// A size in the names of limits.
pub(crate) fn label(size: usize) -> String {
    match size {
        small if small < 1 << 10 => small.to_string(),
        middle if middle < 1 << 20 => format!("{}k", middle >> 10),
        large => format!("{}m", large >> 20),
    }
}

fn limit(name: &str, unit: &'static str, options: &Options, samples: Vec<f64>) -> Limit {
    Limit {
        name: name.to_owned(),
        value: median(&samples).unwrap_or_default(),
        unit,
        better: Better::Higher,
        cores: usize::from(options.clients),
        samples,
        processor_share: None,
    }
}

struct Topic<'a> {
    cluster: &'a KafkaCluster,
    name: String,
    partitions: u16,
}

const ID: TopicId = TopicId(0);

/// Payload bytes that were committed or read, by partition.
struct Moved {
    bytes: Vec<u64>,
    time: Duration,
}

impl Moved {
    /// Bytes a second.
    fn rate(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / self.time.as_secs_f64()
    }
}

impl<'a> Topic<'a> {
    fn make(cluster: &'a KafkaCluster, partitions: u16) -> Result<Self, ClusterError> {
        let number = TOPICS.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-limits-{}-{number}", std::process::id());
        let mut plan = TopicPlan::new(name.clone(), partitions);
        // What is deleted leaves the disk soon.
        plan.settings.insert("file.delete.delay.ms".into(), "1000".into());
        cluster.create_topics(&[plan])?;
        Ok(Self { cluster, name, partitions })
    }

    fn delete(&self) -> Result<(), ClusterError> {
        Ok(self.cluster.delete_topics(&[&self.name])?)
    }

    fn binding(&self, number: u16, writes: bool) -> Binding {
        Binding { id: ID, partition: Partition::new(self.name.clone(), number), writes }
    }

    /// Writes for the time of a repetition, with readers beside it or without.
    fn write(&self, options: &Options, size: usize, reads: bool) -> Result<Moved, ClusterError> {
        let writers = self.each(|number| {
            let name = format!("{}-{number}", self.name);
            self.cluster.open(&name, &[self.binding(number, true)])
        })?;
        let readers = match reads {
            true => self.each(|number| self.cluster.reader(&[self.binding(number, false)]))?,
            false => Vec::new(),
        };
        let written: Vec<OnceLock<u64>> = writers.iter().map(|_| OnceLock::new()).collect();
        let began = Instant::now();
        let (writing, reading) = std::thread::scope(|scope| {
            let reading: Vec<_> = readers
                .iter()
                .zip(&written)
                .map(|(log, all)| scope.spawn(move || read_all(&**log, || all.get().copied())))
                .collect();
            let writing: Vec<_> = writers
                .iter()
                .zip(&written)
                .map(|(log, all)| {
                    scope.spawn(move || {
                        let outcome = write_for(&**log, size, options.repetition);
                        // Of a writer that failed nothing is waited for.
                        let _ = all.set(*outcome.as_ref().unwrap_or(&0));
                        outcome
                    })
                })
                .collect();
            (
                writing.into_iter().map(joined).collect::<Vec<_>>(),
                reading.into_iter().map(joined).collect::<Vec<_>>(),
            )
        });
        let time = began.elapsed();
        reading.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Moved { bytes: writing.into_iter().collect::<Result<_, _>>()?, time })
    }

    /// Reads everything that was written.
    fn consume(&self, written: &Moved) -> Result<Moved, ClusterError> {
        let readers = self.each(|number| self.cluster.reader(&[self.binding(number, false)]))?;
        let began = Instant::now();
        let read: Vec<_> = std::thread::scope(|scope| {
            let reading: Vec<_> = readers
                .iter()
                .zip(&written.bytes)
                .map(|(log, all)| scope.spawn(move || read_all(&**log, || Some(*all))))
                .collect();
            reading.into_iter().map(joined).collect()
        });
        let time = began.elapsed();
        Ok(Moved { bytes: read.into_iter().collect::<Result<_, _>>()?, time })
    }

    fn each<T>(&self, open: impl Fn(u16) -> Result<T, LogError>) -> Result<Vec<T>, ClusterError> {
        Ok((0..self.partitions).map(open).collect::<Result<_, _>>()?)
    }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().expect("a client of the broker does not panic")
}

/// Appends and commits for so long; the payload bytes committed.
fn write_for(log: &dyn SharedLog, size: usize, time: Duration) -> Result<u64, LogError> {
    let payload: Vec<u8> = (0u8..=255).cycle().take(size).collect();
    let began = Instant::now();
    let mut bytes = 0;
    while began.elapsed() < time {
        let mut pending = 0;
        while pending < COMMIT_BYTES {
            log.append(ID, &[&payload])?;
            pending += size;
        }
        log.sync()?;
        bytes += pending as u64;
    }
    Ok(bytes)
}

/// Reads until it has all payload bytes, once it is known how many there are. The end of the
/// partition does not tell: a broker shows what was committed a moment after it said so.
fn read_all(log: &dyn SharedLog, all: impl Fn() -> Option<u64>) -> Result<u64, LogError> {
    let (mut at, mut bytes) = (Offset(0), 0);
    let mut records = Vec::new();
    while all().is_none_or(|all| bytes < all) {
        at = log.read(ID, at, READ_BYTES, Visibility::Durable, &mut records)?;
        bytes += records.iter().map(|record| record.payload.len() as u64).sum::<u64>();
        if records.is_empty() {
            log.wait(Duration::from_millis(5));
        }
        records.clear();
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named_by_size_and_the_best_counts() {
        assert_eq!(SIZES.map(label), ["200", "64k", "256k", "1m"]);
        let options = Options { clients: 2, ..Options::default() };
        let found = [(64 << 10, 3e8), (256 << 10, 2e8)].map(|(size, value)| {
            limit(
                &format!("kafka-produce-{}", label(size)),
                "B/s",
                &options,
                vec![value, value / 2.0, value * 2.0],
            )
        });
        assert_eq!((best(&found, "produce"), best(&found, "consume")), (Some(3e8), None));
        assert_eq!(record(&found[0], &options).check(), Ok(()));
    }

    #[test]
    fn a_time_for_all_is_shared_out() {
        let options = Options { sizes: vec![200, 1 << 20], ..Options::default() };
        assert_eq!(options.within(Duration::from_secs(14)).repetition, Duration::from_secs(1));
    }
}
