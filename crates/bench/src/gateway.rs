//! The gateway under load: signed payments over gRPC and over HTTP, and payment messages; the clients share the process.

mod http;
mod json;
mod messages;
mod served;
mod stream;

use crate::ceiling::Ceiling;
use crate::recorder::{Recorder, Throughput};
use crate::result::{Better, Record};
use crate::settlement::{self, Counted, Load, Run};
use crate::suite::SuiteError;
use crate::table;
use crate::workload::{Mix, Workload, WorkloadError};
use served::{Served, USERS};
use std::path::PathBuf;
use std::time::Duration;
use tally_gateway::access::Quota;
use tally_ops::process::{Usage, usage};

/// The experiment that runs are recorded under.
pub const EXPERIMENT: &str = "gateway";
/// The share of the engine's own rate that a stream is to reach.
const STREAM_BAR: f64 = 0.8;
/// Single payments a second.
const HTTP_BAR: f64 = 10_000.0;
/// Payments a second that are prepared and submitted as JSON.
pub const JSON_RATE: u64 = 5_000;
/// Of them, as many at least are to be made in the time: the rest are those under way at the end.
const JSON_DONE: f64 = 0.99;
/// How long 99 of 100 single payments may take at that rate.
pub(crate) const LATENCY_BAR: Duration = Duration::from_millis(50);
/// Between the samples of what was done over time.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// How long a message of 10,000 payments may take.
const MESSAGE_BAR: Duration = Duration::from_secs(1);
/// Payments of a message.
pub const MESSAGE: usize = 10_000;
/// Long enough that everything that was signed before is still valid.
const VALIDITY: Duration = Duration::from_secs(900);

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the network is made.
    pub directory: PathBuf,
    /// For how long each part is measured, about.
    pub duration: Duration,
    /// Payments of one batch of a stream.
    pub batch: usize,
    /// Connections over HTTP.
    pub connections: usize,
    /// Single payments a second in open loop.
    pub rate: u64,
    /// Payments a second in open loop that are prepared and submitted as JSON.
    pub json_rate: u64,
    /// For how long.
    pub json_duration: Duration,
    /// Connections for that.
    pub json_connections: usize,
    /// Distinct payers.
    pub payers: u32,
    /// How often each part is repeated.
    pub runs: usize,
    /// Makes the same payments again.
    pub seed: u64,
}

/// A benchmark of the gateway that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum GatewayBenchError {
    /// The network failed.
    #[error(transparent)]
    Network(#[from] WorkloadError),
    /// The machine's limits cannot be measured.
    #[error(transparent)]
    Suite(Box<SuiteError>),
    /// The gateway cannot be set up.
    #[error("the gateway under test cannot be set up: {0}")]
    SetUp(String),
    /// A client failed.
    #[error("a client of the gateway failed: {0}")]
    Client(String),
    /// Payments were refused.
    #[error("payments were refused: {0}")]
    Refused(String),
}

impl GatewayBenchError {
    pub(crate) fn client(error: impl std::fmt::Display) -> Self {
        Self::Client(error.to_string())
    }
    pub(crate) fn set_up(error: impl std::fmt::Display) -> Self {
        Self::SetUp(error.to_string())
    }
}

impl From<SuiteError> for GatewayBenchError {
    fn from(error: SuiteError) -> Self {
        Self::Suite(Box::new(error))
    }
}

impl Plan {
    /// What each user who pays with JSON may send: a quarter more than is wanted of it, two requests for each payment, and
    /// five seconds of that at once after a pause.
    fn quota(&self) -> Quota {
        let requests = (2 * self.json_rate).div_ceil(USERS as u64) * 5 / 4;
        let per_second = u32::try_from(requests).unwrap_or(u32::MAX).max(1);
        Quota { per_second, burst: per_second.saturating_mul(5) }
    }

    /// That in words, with how much of a run what may be sent at once could carry.
    fn quota_words(&self) -> String {
        let Quota { per_second, burst } = self.quota();
        let wanted = 2.0 * self.json_rate as f64 * self.json_duration.as_secs_f64();
        let share = f64::from(burst) * USERS as f64 / wanted.max(1.0);
        format!(
            "JSON: {USERS} users, each with a quota of {} requests a second and {} at once; a payment is two requests. What \
             may be sent at once would carry {} of this run of {} s by itself; the rest lives on the quota for a second. All \
             other parts: one user without a quota that counts.",
            table::number(f64::from(per_second)),
            table::number(f64::from(burst)),
            table::quantity(share.min(1.0), "share"),
            self.json_duration.as_secs_f64(),
        )
    }
}

/// One way to pay, measured.
pub struct Measured {
    /// Its name in the record.
    pub name: &'static str,
    /// What it is, for a person.
    pub title: String,
    /// Payments with a durable outcome a second, of each run.
    pub rates: Vec<f64>,
    /// From the intended start to the outcome, where each payment has its own.
    pub latency: Option<Recorder>,
    /// Latency of each request alone, where a payment takes several.
    pub parts: Vec<(&'static str, Recorder)>,
    /// Payments a second in each tenth of a second, of each run; none where payments come together.
    pub series: Vec<Vec<f64>>,
    /// Processor time of the clients alone for each payment, in nanoseconds, of each run; empty where it is not known.
    pub generator: Vec<f64>,
    /// What a person should know beside the figures.
    pub notes: Vec<String>,
    /// Processor time of the whole process, clients included, for each payment, in nanoseconds; of each run.
    pub nanoseconds: Vec<f64>,
    /// Memory of the whole process at the end.
    pub resident_bytes: u64,
    /// What it is to be, and whether it is.
    pub bar: Option<(String, bool)>,
    /// The most that the rate can be.
    pub limit: Option<Ceiling>,
}

impl Measured {
    fn begin(name: &'static str, title: &str) -> Self {
        Self {
            name,
            title: title.to_owned(),
            rates: Vec::new(),
            latency: None,
            parts: Vec::new(),
            series: Vec::new(),
            generator: Vec::new(),
            notes: Vec::new(),
            nanoseconds: Vec::new(),
            resident_bytes: 0,
            bar: None,
            limit: None,
        }
    }

    /// How many cores the clients kept busy: the median.
    #[must_use]
    pub fn generator_cores(&self) -> Option<f64> {
        Some(crate::statistics::median(&self.generator)? * self.rate() / 1e9)
    }

    /// Payments a second: the median.
    #[must_use]
    pub fn rate(&self) -> f64 {
        crate::statistics::median(&self.rates).unwrap_or_default()
    }

    /// The rate as a share of its limit.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        self.limit.as_ref()?.share(self.rate())
    }

    /// The record.
    #[must_use]
    pub fn record(&self, plan: &Plan) -> Record {
        let mut record = Record::new(EXPERIMENT, self.name)
            .setting("batch", plan.batch)
            .setting("connections", plan.connections)
            .setting("payers", plan.payers)
            .setting("seed", plan.seed)
            .setting("duration_s", plan.duration.as_secs_f64())
            .sampled("throughput", self.rates.clone(), "tx/s", Better::Higher)
            .sampled("cpu_per_payment", self.nanoseconds.clone(), "ns", Better::Lower)
            .sampled("generator_cpu_per_payment", self.generator.clone(), "ns", Better::Lower);
        if self.name == JSON {
            let quota = plan.quota();
            record = record
                .setting("connections", plan.json_connections)
                .setting("duration_s", plan.json_duration.as_secs_f64())
                .setting("rate_tps", plan.json_rate)
                .setting("users", USERS)
                .setting("quota_per_second", quota.per_second)
                .setting("quota_burst", quota.burst);
        }
        if let Some(latency) = &self.latency {
            record = record.latency(latency);
        }
        for (part, recorder) in &self.parts {
            let us = |quantile: f64| recorder.quantile(quantile).as_secs_f64() * 1e6;
            record = record.metric(&format!("{part}_p50"), us(0.5), "us", Better::Lower).metric(
                &format!("{part}_p99"),
                us(0.99),
                "us",
                Better::Lower,
            );
        }
        self.limit.iter().fold(record, |record, limit| record.against(limit, self.rate()))
    }
}

/// The name of the record of payments as JSON.
const JSON: &str = "http-json";

/// What a client did.
struct Done {
    payments: usize,
    took: Duration,
    latency: Option<Recorder>,
    parts: Vec<(&'static str, Recorder)>,
    series: Option<Throughput>,
    /// Processor time of the clients alone.
    generator: Option<Duration>,
}

impl Done {
    fn new(payments: usize, took: Duration) -> Self {
        Self { payments, took, latency: None, parts: Vec::new(), series: None, generator: None }
    }
}

/// The parts in one process, one after the other, each beside what it is compared with in the same run.
///
/// # Errors
/// [`GatewayBenchError`]
pub fn run(plan: &Plan, mut begins: impl FnMut(&str)) -> Result<Vec<Measured>, GatewayBenchError> {
    begins("what the machine verifies");
    let verified = crate::suite::verified()?;
    begins("a network, and its own signed rate");
    let directory = tempfile::Builder::new()
        .prefix("network-")
        .tempdir_in(&plan.directory)
        .map_err(GatewayBenchError::set_up)?;
    let workload = Workload {
        mix: Mix::Inside,
        accounts: plan.payers.max(2),
        payers: plan.payers,
        validity: VALIDITY,
        seed: plan.seed,
        spread: 1,
    };
    let set_up =
        |name: &str| workload.set_up(&directory.path().join(name), |options| options.snapshot_every = None);
    // As a network in use: balances are saved every minute.
    let in_use = || workload.set_up(&directory.path().join("served"), |_| ());
    let own = Run {
        workload: workload.clone(),
        load: Load::Closed(8),
        duration: plan.duration,
        warm_up: Duration::from_secs(1),
        batch: plan.batch,
        prepared: (verified.rate * 1.5 * (plan.duration.as_secs_f64() + 1.0)) as usize,
        snapshots: None,
        counted: Counted::Sequenced,
    };
    let mut engine = Measured::begin("engine", "the engine itself, no gateway");
    engine.limit = Some(verified.clone());
    for run in 0..plan.runs {
        // A network for each: whoever drives one that way takes all outcomes, and one that nobody listens to waits.
        let setup = set_up(&format!("own-{run}"))?;
        let measured = settlement::run(&setup, &own, None)?;
        engine.rates.push(measured.rate);
        engine.nanoseconds.push(measured.nanoseconds());
        engine.resident_bytes = measured.after.resident_bytes;
    }
    let own_rate = engine.rate();
    let served = Served::new(in_use()?, directory.path(), &workload, plan.quota())?;

    let payments = (own_rate * plan.duration.as_secs_f64()) as usize;
    let mut stream = served.measure(plan, "grpc", "gRPC, one stream", &mut begins, |served, run| {
        let batches = served.batches(run, payments, plan.batch);
        Ok(Box::new(move |served: &Served| stream::pay(served, batches)))
    })?;
    let share = stream.rate() / own_rate;
    stream.limit = Some(verified.clone());
    let bar = format!("{:.0} % of the engine: {:.0} %", STREAM_BAR * 100.0, share * 100.0);
    stream.bar = Some((bar, share >= STREAM_BAR));

    let connections = plan.connections;
    let singles = (HTTP_BAR * plan.duration.as_secs_f64()) as usize;
    let title = format!("HTTP, single payments, {connections} connections");
    let mut closed = served.measure(plan, "http-closed", &title, &mut begins, |served, run| {
        let payments = served.batches(1000 + run, singles, 1);
        Ok(Box::new(move |served: &Served| http::pay(served, payments, connections, None)))
    })?;
    closed.bar = Some((format!("{HTTP_BAR:.0}/s"), closed.rate() >= HTTP_BAR));
    closed.limit = Some(verified.clone());

    let rate = plan.rate;
    let singles = (rate as f64 * plan.duration.as_secs_f64()) as usize;
    let title = format!("HTTP, open loop at {rate}/s");
    let mut open = served.measure(plan, "http-open", &title, &mut begins, |served, run| {
        let payments = served.batches(2000 + run, singles, 1);
        Ok(Box::new(move |served: &Served| http::pay(served, payments, connections, Some(rate))))
    })?;
    let p99 = open.latency.as_ref().map_or(Duration::MAX, |latency| latency.quantile(0.99));
    open.bar = Some((format!("p99 <= {} ms", LATENCY_BAR.as_millis()), p99 <= LATENCY_BAR));

    served.open_named()?;
    let (rate, duration, connections) = (plan.json_rate, plan.json_duration, plan.json_connections);
    let title =
        format!("HTTP, JSON prepared and submitted, open loop at {rate}/s, {connections} connections");
    let once = Plan { runs: 1, ..plan.clone() };
    let mut json = served.measure(&once, JSON, &title, &mut begins, |_, run| {
        Ok(Box::new(move |served: &Served| json::pay(served, run, rate, duration, connections)))
    })?;
    let p99 = json.latency.as_ref().map_or(Duration::MAX, |latency| latency.quantile(0.99));
    let in_time = json.rate() >= JSON_DONE * rate as f64;
    let bar = format!("{}/s, p99 <= {} ms", table::number(rate as f64), LATENCY_BAR.as_millis());
    json.bar = Some((bar, in_time && p99 <= LATENCY_BAR));
    json.limit = Some(verified.clone());
    json.notes.push(plan.quota_words());

    let title = format!("pain.001 of {MESSAGE} payments, parse to all outcomes");
    let mut message = served.measure(plan, "pain.001", &title, &mut begins, |served, run| {
        let body = messages::prepare(served, run)?;
        Ok(Box::new(move |served: &Served| messages::submit(served, &body)))
    })?;
    let least = MESSAGE as f64 / MESSAGE_BAR.as_secs_f64();
    message.bar = Some((format!("{} s", MESSAGE_BAR.as_secs()), message.rate() >= least));
    served.end()?;
    Ok(vec![engine, stream, closed, open, json, message])
}

type Work<'w> = Box<dyn FnOnce(&Served) -> Result<Done, GatewayBenchError> + 'w>;

impl Served {
    /// Repeats what `prepare` makes: preparing is the payers' work and is not measured.
    fn measure<'w>(
        &self,
        plan: &Plan,
        name: &'static str,
        title: &str,
        begins: &mut impl FnMut(&str),
        prepare: impl Fn(&Self, u64) -> Result<Work<'w>, GatewayBenchError>,
    ) -> Result<Measured, GatewayBenchError> {
        let mut measured = Measured::begin(name, title);
        for run in 0..plan.runs as u64 {
            begins(title);
            let work = prepare(self, run)?;
            let before = used()?;
            let done = work(self)?;
            let after = used()?;
            let (user, system) = after.cpu_since(&before);
            measured.resident_bytes = after.resident_bytes;
            measured.series.extend(done.series.map(|series| series.rates(done.took)));
            measured.rates.push(done.payments as f64 / done.took.as_secs_f64());
            measured.nanoseconds.push((user + system).as_secs_f64() * 1e9 / done.payments.max(1) as f64);
            let each = |time: Duration| time.as_secs_f64() * 1e9 / done.payments.max(1) as f64;
            measured.generator.extend(done.generator.map(each));
            for (part, recorder) in done.parts {
                match measured.parts.iter_mut().find(|(name, _)| *name == part) {
                    Some((_, all)) => all.merge(&recorder),
                    None => measured.parts.push((part, recorder)),
                }
            }
            if let Some(latency) = done.latency {
                measured.latency.get_or_insert_with(Recorder::new).merge(&latency);
            }
        }
        Ok(measured)
    }
}

fn used() -> Result<Usage, GatewayBenchError> {
    usage().map_err(GatewayBenchError::set_up)
}
