//! Measures a journal in a directory: append with syncs by the flusher, scan, read by topic.
//!
//! `cargo run --release -p tally-log --example journal_speed -- DIRECTORY [RECORD_KIB] [TOTAL_MIB]`

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_log::{FileLog, Log, LogError, Offset, Options, Ticket, TopicId, Visibility};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: journal_speed DIRECTORY [RECORD_KIB] [TOTAL_MIB]")?;
    let record_bytes = arguments.next().map_or(Ok(200), |kib| kib.parse::<usize>())? << 10;
    let total_bytes = arguments.next().map_or(Ok(2048), |mib| mib.parse::<usize>())? << 20;
    let payload: Vec<u8> = (0..record_bytes).map(|index| (index * 31) as u8).collect();
    let records = total_bytes / record_bytes;

    let (log, _) = FileLog::open(&directory, Options::default())?;
    let log = Arc::new(log);
    let flusher = FileLog::spawn_flusher(&log, Duration::ZERO)?;
    let start = Instant::now();
    let mut appending = Duration::ZERO;
    for index in 0..records {
        let topic = TopicId((index % 4) as u16);
        loop {
            let before = Instant::now();
            let (header, body) = payload.split_at(64);
            let result = log.append(topic, &[header, body]);
            appending += before.elapsed();
            match result {
                Ok(_) => break,
                Err(LogError::Backpressure { .. }) => std::thread::sleep(Duration::from_micros(200)),
                Err(error) => return Err(error.into()),
            }
        }
    }
    flusher.stop()?;
    let elapsed = start.elapsed();
    let megabytes = (records * record_bytes) as f64 / 1e6;
    let statistics = log.statistics();
    println!(
        "append and sync: {:.0} MB/s ({} records of {} KiB, {} fdatasyncs, {:.1} MB each, {:.1} us in each append)",
        megabytes / elapsed.as_secs_f64(),
        records,
        record_bytes >> 10,
        statistics.syncs,
        megabytes / statistics.syncs as f64,
        appending.as_secs_f64() * 1e6 / records as f64,
    );
    for pass in ["first", "second"] {
        let start = Instant::now();
        let mut bytes = 0;
        for scanned in log.scan(Ticket(0)) {
            bytes += scanned?.record.payload.len();
        }
        println!("{pass} scan: {:.2} GB/s", bytes as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    let start = Instant::now();
    let mut bytes = 0;
    let mut out = Vec::new();
    for topic in 0..4 {
        let mut at = Offset(0);
        while at < log.next(TopicId(topic)) {
            at = log.read(TopicId(topic), at, 4 << 20, Visibility::Durable, &mut out)?;
            bytes += out.drain(..).map(|record| record.payload.len()).sum::<usize>();
        }
    }
    println!("read by topic: {:.2} GB/s", bytes as f64 / start.elapsed().as_secs_f64() / 1e9);
    drop(log);
    let start = Instant::now();
    let (log, report) = FileLog::open(&directory, Options::default())?;
    println!("open {} segments: {:.1} ms", report.segments, start.elapsed().as_secs_f64() * 1e3);

    let start = Instant::now();
    let rounds = 200;
    for _ in 0..rounds {
        log.append(TopicId(0), &[&payload])?;
        log.sync()?;
    }
    println!(
        "append and sync one by one: {:.2} ms each",
        start.elapsed().as_secs_f64() * 1e3 / f64::from(rounds)
    );
    Ok(())
}
