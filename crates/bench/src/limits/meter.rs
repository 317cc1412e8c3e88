//! Repeating a piece of work on one or more threads at once.

use std::io;
use std::iter::zip;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use tally_ops::process::thread_cpu;

/// How long, and how often, each measurement takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    pub(super) repetition: Duration,
    pub(super) repetitions: usize,
}

/// What workers have done together.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    /// Work per second, once for each repetition.
    pub(super) samples: Vec<f64>,
    /// The share of its time that a worker had a processor, once for each repetition; less than 1 on a busy machine.
    pub(super) processor_share: Vec<f64>,
}

impl Meter {
    /// Work per second of all workers together, once for each repetition.
    ///
    /// A worker does a round of work and says how much it was; a round takes much longer than reading the clock.
    /// Workers run on threads of their own and begin each repetition together. They do not panic: the others would
    /// wait for them at the start of the next one.
    pub(super) fn rates<W: FnMut() -> u64 + Send>(&self, workers: Vec<W>) -> Rates {
        let start_line = Barrier::new(workers.len());
        let cores = workers.len();
        let mut samples = vec![0.0; self.repetitions];
        let mut processor_share = vec![0.0; self.repetitions];
        thread::scope(|scope| {
            let threads: Vec<_> = workers
                .into_iter()
                .map(|mut work| {
                    let start_line = &start_line;
                    scope.spawn(move || {
                        // The first round faults pages in and fills the caches.
                        work();
                        let measure = |_| {
                            start_line.wait();
                            let (start, cpu) = (Instant::now(), thread_cpu().unwrap_or_default());
                            let rate = self.rate(|| Ok(work())).unwrap_or_default();
                            let used = thread_cpu().unwrap_or_default().saturating_sub(cpu);
                            (rate, used.as_secs_f64() / start.elapsed().as_secs_f64())
                        };
                        (0..self.repetitions).map(measure).collect::<Vec<(f64, f64)>>()
                    })
                })
                .collect();
            for thread in threads {
                // A worker that panicked leaves its part of the sum out, and its message on standard error.
                let measured = thread.join().unwrap_or_default();
                for ((sum, share), (rate, used)) in zip(zip(&mut samples, &mut processor_share), measured) {
                    *sum += rate;
                    *share += used / cores as f64;
                }
            }
        });
        Rates { samples, processor_share }
    }

    /// Work per second of one repetition on this thread; at least one round.
    pub(super) fn rate(&self, mut work: impl FnMut() -> io::Result<u64>) -> io::Result<f64> {
        let start = Instant::now();
        let mut done = 0;
        loop {
            done += work()?;
            let elapsed = start.elapsed();
            if elapsed >= self.repetition {
                return Ok(done as f64 / elapsed.as_secs_f64());
            }
        }
    }
}
