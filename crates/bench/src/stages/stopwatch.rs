//! Timing rounds of work whose preparation does not count.

use std::time::{Duration, Instant};

use tally_ops::process::thread_cpu;

use super::Options;

/// Adds up the time of the parts of a round that count.
#[derive(Default)]
pub(super) struct Stopwatch {
    wall: Duration,
    cpu: Duration,
}

impl Stopwatch {
    /// Runs a part that counts.
    pub(super) fn time<R>(&mut self, part: impl FnOnce() -> R) -> R {
        let cpu = thread_cpu().unwrap_or_default();
        let began = Instant::now();
        let result = part();
        self.wall += began.elapsed();
        self.cpu += thread_cpu().unwrap_or_default().saturating_sub(cpu);
        result
    }
}

/// What came of some repetitions.
pub(super) struct Samples {
    /// Units per second.
    pub(super) rates: Vec<f64>,
    /// Nanoseconds of this thread's processor time for each unit.
    pub(super) cpu_ns: Vec<f64>,
}

/// Work that is done again and again.
pub(super) trait Rounds {
    /// Does it once more; how many units it did.
    fn round(&mut self, watch: &mut Stopwatch) -> u64;

    /// Called after each repetition: panics unless every unit of every round was really done.
    fn check(&self);
}

/// Work that checks itself in each round.
impl<F: FnMut(&mut Stopwatch) -> u64> Rounds for F {
    fn round(&mut self, watch: &mut Stopwatch) -> u64 {
        self(watch)
    }

    fn check(&self) {}
}

/// Rounds before the first that is measured: tables have grown and memory is mapped.
const WARM_UP: usize = 6;

/// Repeats rounds as often and as long as `options` say.
pub(super) fn repeat(options: &Options, mut rounds: impl Rounds) -> Samples {
    let warm_up = Instant::now();
    for _ in 0..WARM_UP {
        rounds.round(&mut Stopwatch::default());
        if warm_up.elapsed() > options.repetition {
            break;
        }
    }
    rounds.check();
    let mut samples = Samples { rates: Vec::new(), cpu_ns: Vec::new() };
    for _ in 0..options.repetitions {
        let mut watch = Stopwatch::default();
        let mut done = 0;
        while done == 0 || watch.wall < options.repetition {
            done += rounds.round(&mut watch);
        }
        rounds.check();
        let done = done as f64;
        samples.rates.push(done / watch.wall.as_secs_f64());
        samples.cpu_ns.push(watch.cpu.as_secs_f64() * 1e9 / done);
    }
    samples
}
