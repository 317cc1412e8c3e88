//! The whole network under load, in one process, its generator included.

use crate::pace::{Due, OpenLoop};
use crate::progress::{Progress, Status};
use crate::published;
use crate::recorder::{Recorder, Throughput};
use crate::result::{Better, Record};
use crate::workload::{Generator, Setup, Workload, WorkloadError};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use tally_ledger::TransactionBatch;
use tally_ops::process::{Usage, usage};
use tally_settlement::engine::{VolumePort, wall_clock};
use tally_settlement::message::{Intake, Source};

/// How payments come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// So many a second, whatever the network does.
    Open(u64),
    /// As many as it takes, with so many batches under way at each scheduler.
    Closed(usize),
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What is paid.
    pub workload: Workload,
    /// How it comes.
    pub load: Load,
    /// For how long it is measured.
    pub duration: Duration,
    /// How long it runs before it is measured.
    pub warm_up: Duration,
    /// Payments of one batch at most.
    pub batch: usize,
    /// Signed payments are made before the run, as many as this; they are their payers' work.
    pub prepared: usize,
}

/// What a run measured.
pub struct Measured {
    /// Payments made a second, from the first to the last outcome of the measured time.
    pub rate: f64,
    /// From the intended start to the durable outcome.
    pub latency: Recorder,
    /// Payments made in each second.
    pub seconds: Vec<f64>,
    /// Payments refused: none are expected.
    pub refused: u64,
    /// Processor time and memory while measured.
    pub before: Usage,
    /// At the end.
    pub after: Usage,
    /// Payments made while measured.
    pub made: u64,
    /// How long was measured.
    pub elapsed: Duration,
}

struct UnderWay {
    intended: Duration,
    scheduler: usize,
    count: u64,
}

/// Drives one run through a [`VolumePort`].
struct Driver<'a> {
    run: &'a Run,
    port: VolumePort,
    began: Instant,
    submitted: HashMap<u64, UnderWay>,
    accepted: HashMap<Source, UnderWay>,
    at_scheduler: Vec<usize>,
    latency: Recorder,
    throughput: Throughput,
    done: u64,
    refused: u64,
    measuring: bool,
}

/// How long after the last payment outcomes are waited for.
const DRAIN: Duration = Duration::from_secs(60);

/// Runs a workload on a network that was set up for it.
///
/// # Errors
/// When the network fails, or outcomes do not come.
pub fn run(setup: &Setup, run: &Run, progress: Option<&str>) -> Result<Measured, WorkloadError> {
    let port = setup.engine.volume();
    let schedulers = port.schedulers();
    let mut generator = Generator::new(&run.workload, setup.engine.network().id, schedulers);
    let mut prepared = vec![VecDeque::new(); schedulers];
    if run.workload.is_signed() {
        for at in 0..run.prepared.div_ceil(run.batch) {
            prepared[at % schedulers].push_back(generator.batch(at % schedulers, run.batch, wall_clock()));
        }
    }
    let mut driver = Driver {
        run,
        port,
        began: Instant::now(),
        submitted: HashMap::new(),
        accepted: HashMap::new(),
        at_scheduler: vec![0; schedulers],
        latency: Recorder::new(),
        throughput: Throughput::per_second(),
        done: 0,
        refused: 0,
        measuring: false,
    };
    let mut make = |scheduler: usize, count: usize| -> Option<TransactionBatch> {
        if run.workload.is_signed() {
            prepared[scheduler].pop_front()
        } else {
            Some(generator.batch(scheduler, count, wall_clock()))
        }
    };
    driver.drive(setup, &mut make, progress)
}

impl Driver<'_> {
    fn drive(
        &mut self,
        setup: &Setup,
        make: &mut impl FnMut(usize, usize) -> Option<TransactionBatch>,
        progress: Option<&str>,
    ) -> Result<Measured, WorkloadError> {
        let end = self.run.warm_up + self.run.duration;
        let mut shown = progress.map(Progress::stderr);
        let mut open = match self.run.load {
            Load::Open(rate) => Some(OpenLoop::new(rate, self.run.batch as u64, None).map_err(refused)?),
            Load::Closed(_) => None,
        };
        let mut turn = 0;
        let mut exhausted = false;
        let mut due: VecDeque<Due> = VecDeque::new();
        let (mut before, mut made_before, mut measured_from) = (None, 0, Duration::ZERO);
        let mut last_shown = Duration::ZERO;
        while !exhausted && self.began.elapsed() < end {
            let elapsed = self.began.elapsed();
            if before.is_none() && elapsed >= self.run.warm_up {
                before = Some(usage().map_err(refused)?);
                (made_before, measured_from, self.measuring) = (self.done, elapsed, true);
            }
            let mut progress = self.receive();
            if let Some(open) = &mut open {
                due.extend(std::iter::from_fn(|| open.take(elapsed)));
            }
            for _ in 0..self.at_scheduler.len() {
                turn = (turn + 1) % self.at_scheduler.len();
                let wanted = match self.run.load {
                    Load::Closed(window) if self.at_scheduler[turn] < window => {
                        Some((elapsed, self.run.batch))
                    }
                    Load::Closed(_) => None,
                    Load::Open(_) if self.port.has_room(turn) => {
                        due.pop_front().map(|due| (due.intended, due.count as usize))
                    }
                    Load::Open(_) => None,
                };
                let Some((intended, count)) = wanted else { continue };
                let Some(batch) = make(turn, count) else {
                    exhausted = true;
                    break;
                };
                self.submit(turn, intended, batch);
                progress = true;
            }
            if let Some(shown) = &mut shown
                && elapsed >= last_shown + Duration::from_millis(250)
            {
                last_shown = elapsed;
                let p99 = (self.latency.count() > 0).then(|| self.latency.quantile(0.99));
                shown.update(&Status { elapsed, done: self.done, total: None, p99 });
            }
            if !progress {
                let next = open.as_ref().and_then(OpenLoop::next_at).map(|at| at.saturating_sub(elapsed));
                self.port.wait(next.unwrap_or(Duration::from_millis(5)).min(Duration::from_millis(5)));
            }
            if let tally_log::Health::Failed { reason } = setup.engine.health() {
                return Err(WorkloadError::Refused(reason));
            }
        }
        let stopped = self.began.elapsed();
        let after = usage().map_err(refused)?;
        let made = self.done - made_before;
        let deadline = Instant::now() + DRAIN;
        while !(self.submitted.is_empty() && self.accepted.is_empty()) {
            if Instant::now() > deadline {
                return Err(WorkloadError::TimedOut("an outcome"));
            }
            if !self.receive() {
                self.port.wait(Duration::from_millis(5));
            }
        }
        if let Some(shown) = &mut shown {
            let p99 = (self.latency.count() > 0).then(|| self.latency.quantile(0.99));
            shown.finish(&Status { elapsed: stopped, done: self.done, total: None, p99 });
        }
        let elapsed = stopped.saturating_sub(measured_from);
        Ok(Measured {
            rate: made as f64 / elapsed.as_secs_f64(),
            latency: std::mem::take(&mut self.latency),
            seconds: self.throughput.rates(stopped),
            refused: self.refused,
            before: before.ok_or(WorkloadError::TimedOut("the end of the warm-up"))?,
            after,
            made,
            elapsed,
        })
    }

    fn submit(&mut self, scheduler: usize, intended: Duration, batch: TransactionBatch) {
        let count = batch.len() as u64;
        let origin = self.port.submit(scheduler, batch);
        self.at_scheduler[scheduler] += 1;
        self.submitted.insert(origin, UnderWay { intended, scheduler, count });
    }

    /// Takes what has come; whether anything had.
    fn receive(&mut self) -> bool {
        let mut any = false;
        // Outcomes are looked at first: what the scheduler said of them was said before.
        let mut decided = Vec::new();
        while let Some((_, batch)) = self.port.sequence.poll() {
            decided.push(batch);
        }
        while let Some((_, intake)) = self.port.intake.poll() {
            any = true;
            let Some(mut batch) = self.submitted.remove(&intake.origin) else { continue };
            let accepted = intake.results.iter().filter(|r| matches!(r, Intake::Accepted(_))).count() as u64;
            self.refused += batch.count - accepted;
            match intake.source {
                Some(source) => {
                    batch.count = accepted;
                    self.accepted.insert(source, batch);
                }
                None => self.at_scheduler[batch.scheduler] -= 1,
            }
        }
        let now = self.began.elapsed();
        for batch in decided {
            any = true;
            let Some(under_way) = self.accepted.get_mut(&batch.source) else { continue };
            let count = u64::from(batch.count);
            let made: u64 =
                batch.runs.iter().filter(|run| run.verdict == 0).map(|run| u64::from(run.count)).sum();
            self.refused += count - made;
            self.done += made;
            self.throughput.add(now, made);
            if self.measuring {
                self.latency.record_n(under_way.intended, now, count);
            }
            under_way.count -= count;
            if under_way.count == 0 {
                self.at_scheduler[under_way.scheduler] -= 1;
                self.accepted.remove(&batch.source);
            }
        }
        any
    }
}

fn refused(error: impl std::fmt::Display) -> WorkloadError {
    WorkloadError::Refused(error.to_string())
}

/// The record of a run, for the results file.
pub fn record(name: &str, run: &Run, measured: &Measured) -> Record {
    let workload = &run.workload;
    let (load, rate) = match run.load {
        Load::Open(rate) => ("open", rate),
        Load::Closed(window) => ("closed", window as u64),
    };
    let seconds: Vec<f64> = measured.seconds.iter().skip(run.warm_up.as_secs() as usize).copied().collect();
    let cpu = measured.after.cpu_since(&measured.before);
    let per_transaction = (cpu.0 + cpu.1).as_secs_f64() * 1e9 / (measured.made.max(1) as f64);
    let mut record = Record::new("settlement", name)
        .setting("mix", format!("{:?}", workload.mix))
        .setting("legs", workload.mix.legs())
        .setting("accounts_per_bank", workload.accounts)
        .setting("payers", workload.payers)
        .setting("signed", workload.is_signed())
        .setting("load", load)
        .setting(if load == "open" { "rate_tps" } else { "window_batches" }, rate)
        .setting("batch", run.batch)
        .setting("duration_s", run.duration.as_secs_f64())
        .setting("seed", workload.seed)
        .sampled("throughput_tps", seconds, "1/s", Better::Higher)
        .metric("rate_tps", measured.rate, "1/s", Better::Higher)
        .metric("refused", measured.refused as f64, "1", Better::Lower)
        .metric("cpu_ns_per_transaction", per_transaction, "ns", Better::Lower)
        .latency(&measured.latency);
    if let Some(figure) = published::figure("rln-network-aggregate") {
        record = record.published(figure);
    }
    record.cpu_user_s = cpu.0.as_secs_f64();
    record.cpu_system_s = cpu.1.as_secs_f64();
    record.rss_bytes = measured.after.peak_resident_bytes;
    record
}
