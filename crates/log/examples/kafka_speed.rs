//! How fast records go through a Kafka broker on this machine, by the client that the stages use.
//!
//! `cargo run --release -p tally-log --features broker --example kafka_speed [-- MEBIBYTES [BROKERS]]` starts a broker of its
//! own unless it is told some.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "an example prints rounded figures")]

use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_log::cluster::{Binding, Partition};
use tally_log::kafka::broker::{Brokers, Setup};
use tally_log::kafka::topics::TopicPlan;
use tally_log::kafka::{KafkaCluster, KafkaLog, KafkaOptions};
use tally_log::{Log, LogError, Offset, TopicId, Visibility};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mebibytes: usize = arguments.next().map_or(Ok(512), |text| text.parse())?;
    let (brokers, options) = match arguments.next() {
        Some(servers) => {
            let brokers = servers.split(',').map(str::to_owned).collect();
            (None, KafkaOptions { brokers, ..KafkaOptions::default() })
        }
        None => {
            let brokers = Brokers::start(Setup { fast: true, heap_mib: 1024, ..Setup::default() })?;
            let options = brokers.options();
            (Some(brokers), options)
        }
    };
    let cluster = KafkaCluster::new(options)?;
    latency(&cluster)?;
    println!(
        "record bytes  commit MiB  produced MB/s  records/s  commit p50/p99 ms  consumed MB/s  both MB/s  broker CPU s/GB"
    );
    for (record, commit_mib) in
        [(200, 4), (64 << 10, 1), (64 << 10, 4), (64 << 10, 16), (256 << 10, 16), (1 << 20, 16)]
    {
        let total = if record < 1024 { mebibytes << 18 } else { mebibytes << 20 };
        let broker =
            || brokers.as_ref().and_then(|brokers| cpu_seconds(brokers.process(1)?)).unwrap_or(f64::NAN);
        let client = || cpu_seconds(std::process::id()).unwrap_or(f64::NAN);
        let before = (broker(), client());
        let log = open(&cluster, &format!("speed-{record}-{commit_mib}"))?;
        let produced = produce(&log, record, total, commit_mib << 20)?;
        let consumed = consume(&cluster, &log, total / record)?;
        let both = {
            let log = open(&cluster, &format!("both-{record}-{commit_mib}"))?;
            let begun = Instant::now();
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| consume(&cluster, &log, total / record));
                produce(&log, record, total, commit_mib << 20)?;
                reader.join().map_err(|_| "the reader panicked")??;
                Ok::<_, Failure>(megabytes(total, begun.elapsed()))
            })?
        };
        // Two times it went in, and two times out.
        let gigabytes = 2.0 * total as f64 / 1e9;
        let used = ((broker() - before.0) / gigabytes, (client() - before.1) / gigabytes);
        let [median, high] = produced.commits;
        println!(
            "{record:>12}  {commit_mib:>10}  {:>13.0}  {:>9.0}  {median:>8.1} / {high:>6.1}  {consumed:>13.0}  {both:>9.0}  {:>15.2}  {:>15.2}",
            megabytes(total, produced.took),
            (total / record) as f64 / produced.took.as_secs_f64(),
            used.0,
            used.1,
        );
    }
    Ok(())
}

fn megabytes(bytes: usize, took: Duration) -> f64 {
    bytes as f64 / 1e6 / took.as_secs_f64()
}

const TOPIC: TopicId = TopicId(0);

fn open(cluster: &KafkaCluster, name: &str) -> Result<Arc<KafkaLog>, Failure> {
    let name = format!("{name}-{}", std::process::id());
    cluster.create_topics(&[TopicPlan::new(&name, 1)])?;
    let binding = Binding { id: TOPIC, partition: Partition::new(&name, 0), writes: true };
    Ok(cluster.open_kafka(&name, &[binding])?)
}

struct Produced {
    took: Duration,
    /// Median and 99th percentile of a commit, in milliseconds.
    commits: [f64; 2],
}

fn percentiles(mut samples: Vec<Duration>) -> [f64; 2] {
    samples.sort();
    let at = |share: usize| {
        samples.get(samples.len() * share / 100).or(samples.last()).copied().unwrap_or_default()
    };
    [at(50).as_secs_f64() * 1e3, at(99).as_secs_f64() * 1e3]
}

/// Appends `total` bytes, and commits whenever `commit` of them or 10 ms have come together.
fn produce(log: &KafkaLog, record: usize, total: usize, commit: usize) -> Result<Produced, Failure> {
    let payload: Vec<u8> = (0..record).map(|at| (at * 31 % 251).to_le_bytes()[0]).collect();
    let (begun, mut since, mut pending, mut commits) = (Instant::now(), Instant::now(), 0, Vec::new());
    std::thread::scope(|scope| {
        // Appends go on during a commit, as they do in a stage.
        let (ask, asked) = std::sync::mpsc::sync_channel::<()>(0);
        let committer = scope.spawn(move || {
            let mut took = Vec::new();
            while asked.recv().is_ok() {
                let begun = Instant::now();
                log.sync()?;
                took.push(begun.elapsed());
            }
            Ok::<_, LogError>(took)
        });
        for _ in 0..total / record {
            loop {
                match log.append(TOPIC, &[&payload]) {
                    Ok(_) => break,
                    Err(LogError::Backpressure { .. }) => {
                        let _ = ask.try_send(());
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    Err(error) => return Err(error),
                }
            }
            pending += record;
            if (pending >= commit || since.elapsed() > Duration::from_millis(10)) && ask.try_send(()).is_ok()
            {
                (pending, since) = (0, Instant::now());
            }
        }
        drop(ask);
        match committer.join() {
            Ok(took) => commits = took?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        log.sync()?;
        Ok::<_, LogError>(())
    })?;
    Ok(Produced { took: begun.elapsed(), commits: percentiles(commits) })
}

/// Reads `records` of the log's partition as another process would; MB/s.
fn consume(cluster: &KafkaCluster, log: &KafkaLog, records: usize) -> Result<f64, Failure> {
    let partition = log.traffic()[0].0.clone();
    let reader = cluster.reader_kafka(&[Binding { id: TOPIC, partition, writes: false }])?;
    let (begun, mut at, mut bytes, mut out) = (Instant::now(), Offset(0), 0, Vec::new());
    while at.0 < records as u64 {
        at = read_or_wait(&reader, at, &mut out)?;
        bytes += out.iter().map(|record| record.payload.len()).sum::<usize>();
        out.clear();
    }
    Ok(megabytes(bytes, begun.elapsed()))
}

/// How long one small record takes: to be committed, and to be read by another process's log.
fn latency(cluster: &KafkaCluster) -> Result<(), Failure> {
    for pause_ms in [0, 5, 20, 50] {
        let begun = Instant::now();
        let log = open(cluster, &format!("latency-{pause_ms}"))?;
        let opened = begun.elapsed();
        let partition = log.traffic()[0].0.clone();
        let reader = cluster.reader_kafka(&[Binding { id: TOPIC, partition, writes: false }])?;
        let (mut at, mut out, mut commits, mut arrivals) = (Offset(0), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(pause_ms));
            let begun = Instant::now();
            log.append(TOPIC, &[&[7; 200]])?;
            log.sync()?;
            commits.push(begun.elapsed());
            let next = Offset(at.0 + 1);
            while at < next {
                at = read_or_wait(&reader, at, &mut out)?;
            }
            arrivals.push(begun.elapsed());
        }
        let mut ends = Vec::new();
        for _ in 0..50 {
            let begun = Instant::now();
            assert_eq!(reader.next(TOPIC), at);
            ends.push(begun.elapsed());
        }
        let ([commit, commit_high], [arrival, arrival_high]) = (percentiles(commits), percentiles(arrivals));
        let [end, end_high] = percentiles(ends);
        println!(
            "a record every {pause_ms} ms: committed after {commit:.1} / {commit_high:.1} ms, read after {arrival:.1} / \
             {arrival_high:.1} ms, the end known after {end:.1} / {end_high:.1} ms (p50 / p99); opening the log took {:.0} ms",
            opened.as_secs_f64() * 1e3
        );
    }
    Ok(())
}

fn read_or_wait(log: &KafkaLog, at: Offset, out: &mut Vec<tally_log::Record>) -> Result<Offset, LogError> {
    use tally_log::cluster::SharedLog;
    let next = log.read(TOPIC, at, 8 << 20, Visibility::Durable, out)?;
    if next == at {
        log.wait(Duration::from_millis(100));
    }
    Ok(next)
}

/// Processor time that a process has used, in seconds.
fn cpu_seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    // Linux counts a hundred to the second for user space everywhere.
    Some(ticks as f64 / 100.0)
}
