//! The gateway under load: signed payments over gRPC and over HTTP, and payment messages; the clients share the process.

mod http;
mod messages;
mod served;
mod stream;

use crate::recorder::{Recorder, Throughput};
use crate::result::{Better, Record};
use crate::settlement::{self, Load, Run};
use crate::suite::SuiteError;
use crate::workload::{Mix, Workload, WorkloadError};
use served::Served;
use std::path::PathBuf;
use std::time::Duration;
use tally_ops::process::{Usage, usage};

/// The experiment that runs are recorded under.
pub const EXPERIMENT: &str = "gateway";
/// The share of the engine's own rate that a stream is to reach.
const STREAM_BAR: f64 = 0.8;
/// Single payments a second.
const HTTP_BAR: f64 = 10_000.0;
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
    /// Payments a second in each tenth of a second, of each run; none where payments come together.
    pub series: Vec<Vec<f64>>,
    /// Processor time of the whole process, clients included, for each payment, in nanoseconds; of each run.
    pub nanoseconds: Vec<f64>,
    /// Memory of the whole process at the end.
    pub resident_bytes: u64,
    /// What it is to be, and whether it is.
    pub bar: Option<(String, bool)>,
    /// The most that the rate can be, and what that is.
    pub limit: Option<(f64, &'static str)>,
}

impl Measured {
    /// Payments a second: the median.
    #[must_use]
    pub fn rate(&self) -> f64 {
        crate::statistics::median(&self.rates).unwrap_or_default()
    }

    /// The rate as a share of its limit.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        self.limit.map(|(limit, _)| self.rate() / limit)
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
            .sampled("cpu_per_payment", self.nanoseconds.clone(), "ns", Better::Lower);
        if let Some(latency) = &self.latency {
            record = record.latency(latency);
        }
        match self.limit {
            Some((limit, name)) => record.against(name, limit, self.rate()),
            None => record,
        }
    }
}

/// What a client did.
struct Done {
    payments: usize,
    took: Duration,
    latency: Option<Recorder>,
    series: Option<Throughput>,
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
    let own = Run {
        workload: workload.clone(),
        load: Load::Closed(8),
        duration: plan.duration,
        warm_up: Duration::from_secs(1),
        batch: plan.batch,
        prepared: (verified * 1.5 * (plan.duration.as_secs_f64() + 1.0)) as usize,
    };
    let mut engine = Measured {
        name: "engine",
        title: "the engine itself, no gateway".to_owned(),
        rates: Vec::new(),
        latency: None,
        series: Vec::new(),
        nanoseconds: Vec::new(),
        resident_bytes: 0,
        bar: None,
        limit: Some((verified, "signatures verified on all cores")),
    };
    for run in 0..plan.runs {
        // A network for each: whoever drives one that way takes all outcomes, and one that nobody listens to waits.
        let setup = set_up(&format!("own-{run}"))?;
        let measured = settlement::run(&setup, &own, None)?;
        engine.rates.push(measured.rate);
        engine.nanoseconds.push(measured.nanoseconds());
        engine.resident_bytes = measured.after.resident_bytes;
    }
    let own_rate = engine.rate();
    let served = Served::new(set_up("served")?, directory.path(), &workload)?;

    let payments = (own_rate * plan.duration.as_secs_f64()) as usize;
    let mut stream = served.measure(plan, "grpc", "gRPC, one stream", &mut begins, |served, run| {
        let batches = served.batches(run, payments, plan.batch);
        Ok(Box::new(move |served: &Served| stream::pay(served, batches)))
    })?;
    let share = stream.rate() / own_rate;
    stream.limit = Some((own_rate, "the engine's own signed rate"));
    stream.bar = Some((format!("{:.0} % of the engine", STREAM_BAR * 100.0), share >= STREAM_BAR));

    let connections = plan.connections;
    let singles = (HTTP_BAR * plan.duration.as_secs_f64()) as usize;
    let title = format!("HTTP, single payments, {connections} connections");
    let mut closed = served.measure(plan, "http-closed", &title, &mut begins, |served, run| {
        let payments = served.batches(1000 + run, singles, 1);
        Ok(Box::new(move |served: &Served| http::pay(served, payments, connections, None)))
    })?;
    closed.bar = Some((format!("{HTTP_BAR:.0}/s"), closed.rate() >= HTTP_BAR));
    closed.limit = Some((own_rate, "the engine's own signed rate"));

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
    let title = format!("pain.001 of {MESSAGE} payments, parse to all outcomes");
    let mut message = served.measure(plan, "pain.001", &title, &mut begins, |served, run| {
        let body = messages::prepare(served, run)?;
        Ok(Box::new(move |served: &Served| messages::submit(served, &body)))
    })?;
    let least = MESSAGE as f64 / MESSAGE_BAR.as_secs_f64();
    message.bar = Some((format!("{} s", MESSAGE_BAR.as_secs()), message.rate() >= least));
    served.end()?;
    Ok(vec![engine, stream, closed, open, message])
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
        let mut measured = Measured {
            name,
            title: title.to_owned(),
            rates: Vec::new(),
            latency: None,
            series: Vec::new(),
            nanoseconds: Vec::new(),
            resident_bytes: 0,
            bar: None,
            limit: None,
        };
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
