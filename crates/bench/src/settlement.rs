//! The whole network under load, its generator included.

mod port;

pub use port::Port;

use crate::pace::{Due, OpenLoop};
use crate::progress::{Progress, Status};
use crate::recorder::{Recorder, Throughput};
use crate::result::{Better, Record};
use crate::workload::{Generator, Setup, Workload, WorkloadError};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_ledger::{NetworkId, TransactionBatch};
use tally_ops::process::{ThreadCpu, Usage, thread_cpu, threads, usage};
use tally_settlement::engine::wall_clock;
use tally_settlement::message::{Intake, SequenceBatch, Source};

/// The experiment that runs are recorded under.
pub const EXPERIMENT: &str = "settlement";

/// How payments come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// So many a second, whatever the network does.
    Open(u64),
    /// As many as it takes, with so many batches under way at each scheduler.
    Closed(usize),
}

/// When an outcome counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// When it is in the one global order, durably.
    Sequenced,
    /// When every updater has applied it to its balances too, so that it shows wherever somebody asks.
    Applied,
}

impl Counted {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequenced => "sequenced",
            Self::Applied => "applied",
        }
    }
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
    /// How often balances are saved; none: not while it runs.
    pub snapshots: Option<Duration>,
    /// When an outcome counts.
    pub counted: Counted,
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
    /// Processor time while measured of the thread that makes and hands in the payments.
    pub driver: Duration,
    /// Processor time while measured of the others, by name: workers, the journal's flusher.
    pub threads: Vec<ThreadCpu>,
}

impl Measured {
    /// Processor time of the whole process for each payment, in nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self) -> f64 {
        let (user, system) = self.after.cpu_since(&self.before);
        self.per_payment(user + system)
    }

    /// How many cores the process kept busy.
    #[must_use]
    pub fn cores(&self) -> f64 {
        self.nanoseconds() * self.made as f64 / 1e9 / self.elapsed.as_secs_f64()
    }

    /// Processor time in the kernel.
    #[must_use]
    pub fn kernel(&self) -> Duration {
        self.after.cpu_since(&self.before).1
    }

    /// Processor time for each payment of the threads whose names begin so, in nanoseconds.
    #[must_use]
    pub fn thread_nanoseconds(&self, prefix: &str) -> f64 {
        let threads = self.threads.iter().filter(|thread| thread.name.starts_with(prefix));
        self.per_payment(threads.map(|thread| thread.cpu).sum())
    }

    /// A time as nanoseconds for each payment made while measured.
    #[must_use]
    pub fn per_payment(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e9 / self.made.max(1) as f64
    }
}

/// What a process has used when the measured time begins.
struct Before {
    usage: Usage,
    driver: Duration,
    threads: Vec<ThreadCpu>,
    made: u64,
    at: Duration,
}

/// When payments were to start: they arrived evenly over the time `over` before `last`, and were handed in together
/// when the last of them had arrived.
#[derive(Clone, Copy)]
struct Intended {
    last: Duration,
    over: Duration,
}

struct UnderWay {
    intended: Intended,
    scheduler: usize,
    count: u64,
}

/// Drives one run through a [`Port`].
struct Driver<'a, P> {
    run: &'a Run,
    port: P,
    began: Instant,
    submitted: HashMap<u64, UnderWay>,
    accepted: HashMap<Source, UnderWay>,
    /// Decisions that came before the word that their payments were accepted: other partitions, other ways.
    early: Vec<Arc<SequenceBatch>>,
    /// Decisions that are not applied everywhere, in order.
    unapplied: VecDeque<Arc<SequenceBatch>>,
    at_scheduler: Vec<usize>,
    latency: Recorder,
    throughput: Throughput,
    done: u64,
    refused: u64,
}

/// How long after the last payment outcomes are waited for.
const DRAIN: Duration = Duration::from_secs(60);
/// How long the driver sleeps at most when nothing is to be done.
const IDLE: Duration = Duration::from_millis(5);

/// Runs a workload on a network that was set up for it.
///
/// # Errors
/// When the network fails, or outcomes do not come.
pub fn run(setup: &Setup, run: &Run, progress: Option<&str>) -> Result<Measured, WorkloadError> {
    run_with(setup, run, progress, &mut |_| Ok(()))
}

/// Runs a workload as [`run`] does; `at` is called when the measured time begins and ends.
///
/// # Errors
/// Those of [`run`], and what `at` returns.
pub fn run_with(
    setup: &Setup,
    run: &Run,
    progress: Option<&str>,
    at: &mut dyn FnMut(Moment) -> Result<(), WorkloadError>,
) -> Result<Measured, WorkloadError> {
    drive(port::Inside::new(setup), setup.engine.network().id, run, progress, at)
}

/// When something of the network is to be read, for whoever measures what its parts use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The measured time begins.
    Begin,
    /// It has ended.
    End,
}

/// Runs a workload through a port; `at` is called when the measured time begins and ends.
///
/// # Errors
/// When the network fails, or outcomes do not come; what `at` returns.
pub fn drive(
    port: impl Port,
    network: NetworkId,
    run: &Run,
    progress: Option<&str>,
    at: &mut dyn FnMut(Moment) -> Result<(), WorkloadError>,
) -> Result<Measured, WorkloadError> {
    let schedulers = port.schedulers();
    let mut prepared = if run.workload.is_signed() { prepare(run, network, schedulers) } else { Vec::new() };
    let mut generator = Generator::new(&run.workload, network, schedulers);
    let mut driver = Driver {
        run,
        port,
        began: Instant::now(),
        submitted: HashMap::new(),
        accepted: HashMap::new(),
        early: Vec::new(),
        unapplied: VecDeque::new(),
        at_scheduler: vec![0; schedulers],
        latency: Recorder::new(),
        throughput: Throughput::per_second(),
        done: 0,
        refused: 0,
    };
    let mut make = |scheduler: usize, count: usize| -> Option<TransactionBatch> {
        if run.workload.is_signed() {
            prepared[scheduler].pop_front()
        } else {
            Some(generator.batch(scheduler, count, wall_clock()))
        }
    };
    driver.drive(&mut make, progress, at)
}

/// Payments that their payers have signed, for each scheduler: every scheduler's are made on a thread of their own.
fn prepare(run: &Run, network: NetworkId, schedulers: usize) -> Vec<VecDeque<TransactionBatch>> {
    let batches = run.prepared.div_ceil(run.batch).div_ceil(schedulers);
    let make = |scheduler: usize| {
        let seed = run.workload.seed ^ ((scheduler as u64 + 1) << 32);
        let mut generator = Generator::new(&Workload { seed, ..run.workload.clone() }, network, schedulers);
        (0..batches).map(|_| generator.batch(scheduler, run.batch, wall_clock())).collect()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..schedulers).map(|at| scope.spawn(move || make(at))).collect();
        threads.into_iter().map(|thread| thread.join().expect("making payments does not panic")).collect()
    })
}

impl<P: Port> Driver<'_, P> {
    fn drive(
        &mut self,
        make: &mut impl FnMut(usize, usize) -> Option<TransactionBatch>,
        progress: Option<&str>,
        at: &mut dyn FnMut(Moment) -> Result<(), WorkloadError>,
    ) -> Result<Measured, WorkloadError> {
        let end = self.end();
        let mut shown = progress.map(Progress::stderr);
        let mut open = match self.run.load {
            Load::Open(rate) => Some(OpenLoop::new(rate, self.run.batch as u64, None).map_err(refused)?),
            Load::Closed(_) => None,
        };
        let mut turn = 0;
        let mut exhausted = false;
        let mut due: VecDeque<Due> = VecDeque::new();
        let mut before = None;
        let mut last_shown = Duration::ZERO;
        while !exhausted && self.began.elapsed() < end {
            let elapsed = self.began.elapsed();
            if before.is_none() && elapsed >= self.run.warm_up {
                at(Moment::Begin)?;
                before = Some(self.used(elapsed)?);
            }
            let events = self.port.events();
            let mut progress = self.receive()?;
            if let Some(open) = &mut open {
                due.extend(std::iter::from_fn(|| open.take(elapsed)));
            }
            for _ in 0..self.at_scheduler.len() {
                turn = (turn + 1) % self.at_scheduler.len();
                let Some((intended, count)) = self.wanted(turn, elapsed, &mut due) else { continue };
                let Some(batch) = make(turn, count) else {
                    exhausted = true;
                    break;
                };
                self.submit(turn, intended, batch)?;
                progress = true;
            }
            self.port.flush()?;
            if let Some(shown) = &mut shown
                && elapsed >= last_shown + Duration::from_millis(250)
            {
                last_shown = elapsed;
                shown.update(&self.status(elapsed));
            }
            if !progress {
                let next = open.as_ref().and_then(OpenLoop::next_at).map(|at| at.saturating_sub(elapsed));
                self.port.wait(events, next.unwrap_or(IDLE).min(IDLE));
            }
            healthy(&self.port)?;
        }
        let stopped = self.began.elapsed();
        let before = before.ok_or(WorkloadError::TimedOut("the end of the warm-up"))?;
        let after = self.used(stopped)?;
        at(Moment::End)?;
        if let Some(open) = &mut open {
            // A driver that was held up has not seen all that was due before the end.
            due.extend(std::iter::from_fn(|| open.take(end)).filter(|due| due.intended < end));
        }
        self.drain(make, &mut due)?;
        if let Some(shown) = &mut shown {
            shown.finish(&self.status(stopped));
        }
        let (elapsed, made) = (after.at.saturating_sub(before.at), after.made - before.made);
        Ok(Measured {
            rate: made as f64 / elapsed.as_secs_f64(),
            latency: std::mem::take(&mut self.latency),
            seconds: self.throughput.rates(stopped),
            refused: self.refused,
            made,
            elapsed,
            driver: after.driver.saturating_sub(before.driver),
            threads: since(&after.threads, &before.threads),
            before: before.usage,
            after: after.usage,
        })
    }

    /// What the next batch for a scheduler is, if one may be handed in.
    fn wanted(
        &self,
        scheduler: usize,
        elapsed: Duration,
        due: &mut VecDeque<Due>,
    ) -> Option<(Intended, usize)> {
        match self.run.load {
            Load::Closed(window) => (self.at_scheduler[scheduler] < window)
                .then_some((Intended { last: elapsed, over: Duration::ZERO }, self.run.batch)),
            Load::Open(rate) => {
                let due = self.port.has_room(scheduler).then(|| due.pop_front()).flatten()?;
                let over = Duration::from_secs_f64(due.count as f64 / rate as f64);
                Some((Intended { last: due.intended, over }, due.count as usize))
            }
        }
    }

    /// Hands in what was due before the end, and waits for all outcomes: leaving out what was late would leave out
    /// the worst.
    fn drain(
        &mut self,
        make: &mut impl FnMut(usize, usize) -> Option<TransactionBatch>,
        due: &mut VecDeque<Due>,
    ) -> Result<(), WorkloadError> {
        let deadline = Instant::now() + DRAIN;
        while !(due.is_empty() && self.submitted.is_empty() && self.accepted.is_empty()) {
            if Instant::now() > deadline {
                return Err(WorkloadError::TimedOut("an outcome"));
            }
            let events = self.port.events();
            let mut progress = self.receive()?;
            for scheduler in 0..self.at_scheduler.len() {
                if due.is_empty() {
                    break;
                }
                let Some((intended, count)) = self.wanted(scheduler, Duration::ZERO, due) else { continue };
                match make(scheduler, count) {
                    Some(batch) => self.submit(scheduler, intended, batch)?,
                    None => due.clear(),
                }
                progress = true;
            }
            self.port.flush()?;
            if !progress {
                self.port.wait(events, IDLE);
            }
            healthy(&self.port)?;
        }
        Ok(())
    }

    fn end(&self) -> Duration {
        self.run.warm_up + self.run.duration
    }

    fn used(&self, at: Duration) -> Result<Before, WorkloadError> {
        Ok(Before {
            usage: usage().map_err(refused)?,
            driver: thread_cpu().map_err(refused)?,
            threads: threads().map_err(refused)?,
            made: self.done,
            at,
        })
    }

    fn status(&self, elapsed: Duration) -> Status {
        let p99 = (self.latency.count() > 0).then(|| self.latency.quantile(0.99));
        Status { elapsed, done: self.done, total: None, p99 }
    }

    fn submit(
        &mut self,
        scheduler: usize,
        intended: Intended,
        batch: TransactionBatch,
    ) -> Result<(), WorkloadError> {
        let count = batch.len() as u64;
        let origin = self.port.submit(scheduler, batch)?;
        self.at_scheduler[scheduler] += 1;
        self.submitted.insert(origin, UnderWay { intended, scheduler, count });
        Ok(())
    }

    /// Records outcomes of payments that were to start in the measured time.
    fn record(&mut self, intended: Intended, now: Duration, count: u64) {
        if intended.last < self.run.warm_up || intended.last >= self.end() {
            return;
        }
        if intended.over.is_zero() {
            self.latency.record_n(intended.last, now, count);
            return;
        }
        const PARTS: u32 = 16;
        for part in 0..PARTS {
            let waited = intended.over * (2 * part + 1) / (2 * PARTS);
            let n = |part: u32| count * u64::from(part) / u64::from(PARTS);
            self.latency.record_n(intended.last.saturating_sub(waited), now, n(part + 1) - n(part));
        }
    }

    /// Takes what has come; whether anything had.
    fn receive(&mut self) -> Result<bool, WorkloadError> {
        let mut any = false;
        // Outcomes are looked at first: what the scheduler said of them was said before.
        let mut decided = std::mem::take(&mut self.early);
        while let Some(batch) = self.port.sequence()? {
            match self.run.counted {
                Counted::Sequenced => decided.push(batch),
                Counted::Applied => self.unapplied.push_back(batch),
            }
        }
        if !self.unapplied.is_empty() {
            let applied = self.port.applied();
            while let Some(batch) =
                self.unapplied.pop_front_if(|batch| batch.first + u64::from(batch.count) <= applied)
            {
                decided.push(batch);
            }
        }
        while let Some(intake) = self.port.intake()? {
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
            let Some(under_way) = self.accepted.get_mut(&batch.source) else {
                self.early.push(batch);
                continue;
            };
            any = true;
            let count = u64::from(batch.count);
            let made: u64 =
                batch.runs.iter().filter(|run| run.verdict == 0).map(|run| u64::from(run.count)).sum();
            self.refused += count - made;
            self.done += made;
            self.throughput.add(now, made);
            let intended = under_way.intended;
            under_way.count -= count;
            if under_way.count == 0 {
                self.at_scheduler[under_way.scheduler] -= 1;
                self.accepted.remove(&batch.source);
            }
            self.record(intended, now, count);
        }
        Ok(any)
    }
}

fn healthy(port: &impl Port) -> Result<(), WorkloadError> {
    match port.health() {
        tally_log::Health::Failed { reason } => Err(WorkloadError::Refused(reason)),
        _ => Ok(()),
    }
}

/// What each thread has used in between.
fn since(after: &[ThreadCpu], before: &[ThreadCpu]) -> Vec<ThreadCpu> {
    let used = |name: &str| before.iter().find(|thread| thread.name == name).map(|thread| thread.cpu);
    let since = |thread: &ThreadCpu| ThreadCpu {
        cpu: thread.cpu.saturating_sub(used(&thread.name).unwrap_or_default()),
        ..thread.clone()
    };
    after.iter().map(since).collect()
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
    let mut record = Record::new(EXPERIMENT, name)
        .setting("mix", format!("{:?}", workload.mix))
        .setting("legs", workload.mix.legs())
        .setting("accounts_per_bank", workload.accounts)
        .setting("payers", workload.payers)
        .setting("signed", workload.is_signed())
        .setting("load", load)
        .setting(if load == "open" { "rate_tps" } else { "window_batches" }, rate)
        .setting("batch", run.batch)
        .setting("duration_s", run.duration.as_secs_f64())
        .setting("warm_up_s", run.warm_up.as_secs_f64())
        .setting("validity_s", workload.validity.as_secs_f64())
        .setting("snapshots_s", run.snapshots.map(|every| every.as_secs_f64()))
        .setting("counted", run.counted.name())
        .sampled("throughput_tps", seconds, "tx/s", Better::Higher)
        .metric("rate_tps", measured.rate, "tx/s", Better::Higher)
        .metric("refused", measured.refused as f64, "tx", Better::Lower)
        .metric("cpu_ns_per_transaction", measured.nanoseconds(), "ns", Better::Lower)
        .metric("driver_ns_per_transaction", measured.per_payment(measured.driver), "ns", Better::Lower)
        .metric("kernel_ns_per_transaction", measured.per_payment(cpu.1), "ns", Better::Lower)
        .metric("resident", measured.after.resident_bytes as f64, "B", Better::Lower)
        .latency(&measured.latency);
    for thread in measured.threads.iter().filter(|thread| !thread.cpu.is_zero()) {
        let name = format!("thread_{}_ns_per_transaction", thread.name.replace('-', "_"));
        record = record.metric(&name, measured.per_payment(thread.cpu), "ns", Better::Lower);
    }
    record.cpu_user_s = cpu.0.as_secs_f64();
    record.cpu_system_s = cpu.1.as_secs_f64();
    record.rss_bytes = measured.after.peak_resident_bytes;
    record
}
