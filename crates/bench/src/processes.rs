//! What processes use while something is measured: processor time, memory, bytes read and written, over time.
//!
//! Read from proc(5) at fixed intervals by a thread of its own, so that a process need not know that it is watched.

mod procfs;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use procfs::{Reading, WatchError, read};

/// A process to be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// What it is called in reports.
    pub label: String,
    /// Its id.
    pub pid: u32,
    /// Whether its children count with it, as those of a database server do.
    pub with_children: bool,
}

impl Watched {
    /// One process.
    pub fn new(label: impl Into<String>, pid: u32) -> Self {
        Self { label: label.into(), pid, with_children: false }
    }
}

/// What a process had used at some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// When, from the start of watching.
    pub at: Duration,
    /// What.
    pub reading: Reading,
}

/// What a process used over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What it is called.
    pub label: String,
    /// In order of time; empty when it could never be read.
    pub samples: Vec<Sample>,
}

impl Series {
    /// The part between two times, its ends included.
    #[must_use]
    pub fn between(&self, from: Duration, until: Duration) -> &[Sample] {
        let start = self.samples.partition_point(|sample| sample.at < from);
        let end = self.samples.partition_point(|sample| sample.at <= until);
        self.samples.get(start..end).unwrap_or_default()
    }

    /// Processor time used in that part, as (user, system).
    #[must_use]
    pub fn cpu(&self, from: Duration, until: Duration) -> (Duration, Duration) {
        match self.between(from, until) {
            [first, .., last] => last.reading.cpu_since(&first.reading),
            _ => (Duration::ZERO, Duration::ZERO),
        }
    }

    /// How many cores it kept busy, from each sample to the next, with the time between them.
    #[must_use]
    pub fn cores(&self) -> Vec<(Duration, f64)> {
        self.samples
            .windows(2)
            .filter_map(|pair| {
                let [before, after] = pair else { return None };
                let (user, system) = after.reading.cpu_since(&before.reading);
                let passed = after.at.saturating_sub(before.at).as_secs_f64();
                (passed > 0.0).then(|| (after.at, (user + system).as_secs_f64() / passed))
            })
            .collect()
    }

    /// Resident memory at the end, in bytes.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.samples.last().map_or(0, |sample| sample.reading.resident_bytes)
    }

    /// The most resident memory that the process has had, in bytes.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.samples.iter().map(|sample| sample.reading.peak_bytes).max().unwrap_or(0)
    }

    /// Bytes read from and written to storage in a part, as the kernel counts them.
    #[must_use]
    pub fn moved(&self, from: Duration, until: Duration) -> (u64, u64) {
        match self.between(from, until) {
            [first, .., last] => (
                last.reading.read_bytes.saturating_sub(first.reading.read_bytes),
                last.reading.written_bytes.saturating_sub(first.reading.written_bytes),
            ),
            _ => (0, 0),
        }
    }
}

/// Watches processes until it is stopped.
#[derive(Debug)]
pub struct Watch {
    began: Instant,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Series>>,
}

impl Watch {
    /// Begins to watch, with a sample at once and then at each interval.
    ///
    /// # Errors
    /// [`WatchError`] when there is no thread for it.
    pub fn start(watched: Vec<Watched>, every: Duration) -> Result<Self, WatchError> {
        let stop = Arc::new(AtomicBool::new(false));
        let began = Instant::now();
        let mut series: Vec<Series> =
            watched.iter().map(|one| Series { label: one.label.clone(), samples: Vec::new() }).collect();
        // Here, and not when the thread first runs: what follows is all between two samples.
        sample(&watched, &mut series, began);
        let thread = {
            let stop = Arc::clone(&stop);
            let body = move || watch(&watched, series, every, began, &stop);
            std::thread::Builder::new().name("watch".to_owned()).spawn(body).map_err(WatchError::Thread)?
        };
        Ok(Self { began, stop, thread })
    }

    /// When it began.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Takes a last sample and ends.
    ///
    /// # Panics
    /// When the thread that watched did, which would be a fault of this module.
    #[must_use]
    pub fn stop(self) -> Vec<Series> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().expect("reading text does not panic")
    }
}

fn watch(
    watched: &[Watched],
    mut series: Vec<Series>,
    every: Duration,
    began: Instant,
    stop: &AtomicBool,
) -> Vec<Series> {
    let mut due = began;
    loop {
        due += every;
        while Instant::now() < due && !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        }
        let stopping = stop.load(Ordering::Relaxed);
        sample(watched, &mut series, began);
        if stopping {
            return series;
        }
    }
}

/// Reads each process; one that has ended leaves its series where it was.
fn sample(watched: &[Watched], series: &mut [Series], began: Instant) {
    for (one, series) in watched.iter().zip(series) {
        if let Ok(reading) = read(one) {
            series.samples.push(Sample { at: began.elapsed(), reading });
        }
    }
}
