//! Which experiments are run, how large, and in which order.

use std::time::Duration;

use tally_store::server::ServerError;

use super::FlowsError;
use super::network::{Database, Layout};
use super::outcome::Outcome;
use super::plan::Plan;

/// A group of experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Issue and pay in closed loop.
    Load,
    /// Pay at fixed rates.
    Latency,
    /// IOU at fixed rates.
    Iou,
    /// Pay with more and more under way.
    InFlight,
    /// Pay with more and more coins of a payment.
    Outputs,
    /// Pay with other numbers of threads.
    Threads,
    /// Pay on fewer cores.
    Cores,
    /// Issue and pay on another database.
    Database,
    /// A node's start.
    Start,
    /// Flows that wait.
    Waiting,
    /// A long history.
    History,
    /// A large vault.
    Vault,
    /// Memory after many payments.
    Memory,
}

impl Part {
    /// All of them, in the order in which they are run.
    pub const ALL: [Self; 13] = [
        Self::Load,
        Self::Latency,
        Self::Start,
        Self::Waiting,
        Self::History,
        Self::Vault,
        Self::Iou,
        Self::InFlight,
        Self::Outputs,
        Self::Cores,
        Self::Threads,
        Self::Database,
        Self::Memory,
    ];

    /// What it is called on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Latency => "latency",
            Self::Iou => "iou",
            Self::InFlight => "in-flight",
            Self::Outputs => "outputs",
            Self::Threads => "threads",
            Self::Cores => "cores",
            Self::Database => "database",
            Self::Start => "start",
            Self::Waiting => "waiting",
            Self::History => "history",
            Self::Vault => "vault",
            Self::Memory => "memory",
        }
    }
}

impl std::str::FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|part| part.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.into_iter().map(Self::name).collect();
            format!("one of {}", names.join(", "))
        })
    }
}

/// How large the experiments are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// How long each load runs before it is measured.
    pub warm_up: Duration,
    /// How long issue and pay are measured, and pay at fixed rates.
    pub duration: Duration,
    /// How long each point of a sweep is measured.
    pub point: Duration,
    /// Rates of payments.
    pub pay_rates: Vec<u64>,
    /// Rates of IOUs.
    pub iou_rates: Vec<u64>,
    /// Payments under way.
    pub in_flight: Vec<u64>,
    /// Coins of a payment.
    pub outputs: Vec<u32>,
    /// Threads that run flows.
    pub flow_threads: Vec<usize>,
    /// Threads of the remote interface.
    pub rpc_threads: Vec<usize>,
    /// Cores; those that the machine does not have are left out.
    pub cores: Vec<usize>,
    /// Times that a node is started.
    pub starts: usize,
    /// Flows that wait.
    pub waiting: u64,
    /// Transactions of a history.
    pub depth: u64,
    /// States of a vault.
    pub states: u64,
    /// Pages of each query.
    pub pages: usize,
    /// Payments before memory is looked at; not at all if zero.
    pub payments: u64,
}

impl Sizes {
    /// About two minutes.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            warm_up: Duration::from_millis(500),
            duration: Duration::from_secs(3),
            point: Duration::from_millis(1500),
            pay_rates: vec![10],
            iou_rates: vec![10, 100],
            in_flight: vec![1, 16, 256],
            outputs: vec![],
            flow_threads: vec![1, 8],
            rpc_threads: vec![1, 4],
            cores: vec![1, 2],
            starts: 3,
            waiting: 10_000,
            depth: 10_000,
            states: 100_000,
            pages: 100,
            payments: 0,
        }
    }

    /// What the bars are about, at their full size.
    #[must_use]
    pub fn usual() -> Self {
        Self {
            warm_up: Duration::from_secs(1),
            duration: Duration::from_secs(8),
            point: Duration::from_secs(3),
            pay_rates: vec![10, 100],
            iou_rates: vec![1, 25, 50, 100],
            in_flight: vec![1, 8, 64, 256],
            outputs: vec![],
            flow_threads: vec![1, 4, 16],
            rpc_threads: vec![1, 4],
            cores: vec![1, 2, 4],
            starts: 5,
            waiting: 100_000,
            depth: 10_000,
            states: 1_000_000,
            pages: 300,
            payments: 0,
        }
    }

    /// Everything.
    #[must_use]
    pub fn full() -> Self {
        Self {
            warm_up: Duration::from_secs(2),
            duration: Duration::from_secs(20),
            point: Duration::from_secs(6),
            pay_rates: vec![10, 100, 500],
            iou_rates: vec![1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
            in_flight: vec![1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
            outputs: vec![1, 10, 50],
            flow_threads: vec![1, 2, 4, 8, 16, 32],
            rpc_threads: vec![1, 2, 4, 8],
            cores: vec![1, 2, 4, 8, 16, 32],
            starts: 10,
            waiting: 100_000,
            depth: 10_000,
            states: 1_000_000,
            pages: 1_000,
            payments: 100_000,
        }
    }
}

/// One experiment over and over, with one thing that changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// The name of it.
    pub name: &'static str,
    /// What it is called for a person.
    pub title: &'static str,
    /// What changes.
    pub axis: &'static str,
    /// Whether its values lie far apart.
    pub logarithmic: bool,
    /// What was found at each value.
    pub points: Vec<(f64, Outcome)>,
}

/// What a run of the suite found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Findings {
    /// Experiments, in the order in which they were run.
    pub outcomes: Vec<Outcome>,
    /// Sweeps.
    pub sweeps: Vec<Sweep>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

/// Who hears of the suite's progress.
pub trait Observer {
    /// Something is about to be measured.
    fn begins(&mut self, what: &str);

    /// An experiment has ended.
    ///
    /// # Errors
    /// It cannot be kept; the suite ends.
    fn ended(&mut self, outcome: &Outcome) -> Result<(), FlowsError>;
}

/// Runs parts of the suite.
///
/// # Errors
/// [`FlowsError`]: the first that fails. What had ended by then was told.
pub fn run(
    plan: &Plan,
    sizes: &Sizes,
    parts: &[Part],
    observer: &mut dyn Observer,
) -> Result<Findings, FlowsError> {
    let mut suite = Suite { plan, sizes, observer, findings: Findings::default() };
    for part in Part::ALL.into_iter().filter(|part| parts.contains(part)) {
        suite.part(part)?;
    }
    Ok(suite.findings)
}

struct Suite<'s> {
    plan: &'s Plan,
    sizes: &'s Sizes,
    observer: &'s mut dyn Observer,
    findings: Findings,
}

impl Suite<'_> {
    fn add(&mut self, outcome: Outcome) -> Result<(), FlowsError> {
        self.observer.ended(&outcome)?;
        self.findings.outcomes.push(outcome);
        Ok(())
    }

    fn part(&mut self, part: Part) -> Result<(), FlowsError> {
        let Sizes { duration, point, warm_up, .. } = *self.sizes;
        let plan = Plan { warm_up, duration, ..self.plan.clone() };
        let short = Plan { duration: point, ..plan.clone() };
        match part {
            Part::Load => {
                self.observer.begins("issue and pay");
                plan.issue_and_pay()?.into_iter().try_for_each(|outcome| self.add(outcome))
            }
            Part::Latency => self.sizes.pay_rates.clone().into_iter().try_for_each(|rate| {
                self.observer.begins(&format!("pay at {rate}/s"));
                // Few payments need a longer time.
                let longer = if rate < 100 { plan.duration * 2 } else { plan.duration };
                self.add(Plan { duration: longer, ..plan.clone() }.pay_at(rate)?)
            }),
            Part::Iou => {
                let rates = self.sizes.iou_rates.clone();
                self.sweep("iou", "IOU against load", "requests per second", false, &rates, |rate| {
                    short.iou_at(rate)
                })
            }
            Part::InFlight => {
                let windows = self.sizes.in_flight.clone();
                let title = "Pay against payments under way";
                self.sweep("in-flight", title, "payments under way", true, &windows, |in_flight| {
                    pay(&Plan { in_flight, ..short.clone() })
                })
            }
            Part::Outputs => {
                let outputs = self.sizes.outputs.clone();
                self.sweep("outputs", "Pay against coins of a payment", "coins", true, &outputs, |outputs| {
                    pay(&Plan { outputs, ..short.clone() })
                })
            }
            Part::Threads => {
                let with = |layout: Layout| pay(&Plan { layout, ..short.clone() });
                let (flow, rpc) = (self.sizes.flow_threads.clone(), self.sizes.rpc_threads.clone());
                let layout = &plan.layout;
                let title = "Pay against threads that run flows";
                self.sweep(
                    "flow-threads",
                    title,
                    "flow threads of each node",
                    true,
                    &flow,
                    |flow_threads| with(Layout { flow_threads, ..layout.clone() }),
                )?;
                let title = "Pay against threads of network and RPC";
                self.sweep("rpc-threads", title, "RPC threads of each node", true, &rpc, |rpc_threads| {
                    with(Layout { rpc_threads, ..layout.clone() })
                })
            }
            Part::Cores => {
                let there = std::thread::available_parallelism().map_or(1, usize::from);
                let cores: Vec<usize> =
                    self.sizes.cores.iter().copied().filter(|cores| *cores <= there).collect();
                let title = "Pay against cores, for nodes and driver together";
                self.sweep("cores", title, "cores", false, &cores, |cores| {
                    pay(&Plan { cores: Some(cores), ..short.clone() })
                })
            }
            Part::Database => self.database(&plan),
            Part::Start => {
                self.observer.begins("starting a node");
                self.add(plan.start(self.sizes.starts)?)
            }
            Part::Waiting => {
                self.observer.begins("flows that wait");
                self.add(plan.waiting(self.sizes.waiting)?)
            }
            Part::History => {
                self.observer.begins("a long history");
                self.add(plan.history(self.sizes.depth)?)
            }
            Part::Vault => {
                self.observer.begins("a large vault");
                self.add(plan.vault(self.sizes.states, self.sizes.pages)?)
            }
            Part::Memory if self.sizes.payments == 0 => Ok(()),
            Part::Memory => {
                self.observer.begins("memory after many payments");
                self.add(plan.memory(self.sizes.payments)?)
            }
        }
    }

    fn sweep<T: Copy + std::fmt::Display + Into<Value>>(
        &mut self,
        name: &'static str,
        title: &'static str,
        axis: &'static str,
        logarithmic: bool,
        values: &[T],
        measure: impl Fn(T) -> Result<Outcome, FlowsError>,
    ) -> Result<(), FlowsError> {
        let mut points = Vec::with_capacity(values.len());
        for value in values {
            self.observer.begins(&format!("{title}: {value}"));
            let outcome = measure(*value)?;
            self.observer.ended(&outcome)?;
            points.push(((*value).into().0, outcome));
        }
        if !points.is_empty() {
            self.findings.sweeps.push(Sweep { name, title, axis, logarithmic, points });
        }
        Ok(())
    }

    /// The same load on the other database than the plan's.
    fn database(&mut self, plan: &Plan) -> Result<(), FlowsError> {
        let database = match plan.layout.database {
            Database::Sqlite => match Database::start_server() {
                Ok(started) => started,
                Err(ServerError::NotInstalled) => {
                    let text = "PostgreSQL: no server is installed, and none was given with --postgres";
                    self.findings.left_out.push(text.to_owned());
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            },
            Database::Postgres(_) | Database::Started(_) => Database::Sqlite,
        };
        let name = if database.name() == "postgres" { "PostgreSQL" } else { "SQLite" };
        self.observer.begins(&format!("issue and pay on {name}"));
        let layout = Layout { database, ..plan.layout.clone() };
        for mut outcome in (Plan { layout, ..plan.clone() }).issue_and_pay()? {
            outcome.title = format!("{}, on {name}", outcome.title);
            self.add(outcome)?;
        }
        Ok(())
    }
}

/// A value of a sweep as a chart shows it.
struct Value(f64);

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self(value as f64)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self(f64::from(value))
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self(value as f64)
    }
}

/// Only the payments of [`Plan::issue_and_pay`].
fn pay(plan: &Plan) -> Result<Outcome, FlowsError> {
    let [_, paid] = plan.issue_and_pay()?;
    Ok(paid)
}
