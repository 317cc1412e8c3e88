//! The experiments: a plan says how, each function of it runs one.
//!
//! | module | what |
//! | --- | --- |
//! | here | load: issue, pay, IOU, in closed and in open loop |
//! | `waiting` | flows that wait for a counterparty, through a restart |
//! | `history` | a payee that has to fetch a long history |
//! | `vault` | queries of a large vault |
//! | `memory` | a node's start, and its memory after many payments |

mod history;
mod memory;
mod vault;
mod waiting;

use std::time::Duration;

use serde_json::Value;
use tally_rpc::Client;

use super::FlowsError;
use super::drive::{Load, Run, drive};
use super::meters::Meters;
use super::network::{Layout, Network, NotaryLayout, Pinned};
use super::outcome::{Ceiling, Fact, Loaded, Outcome};
use super::work::Work;
use crate::limits::{ALL_CORES, PAY, PAY_CLUSTER};
use crate::processes::Watch;
use crate::published::{self, Figure};

/// How often processes are looked at.
const EVERY: Duration = Duration::from_millis(100);

/// What is common to the experiments.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How networks are made.
    pub layout: Layout,
    /// Flows under way in closed loop.
    pub in_flight: u64,
    /// Connections of the driver.
    pub connections: usize,
    /// How long each load runs before it is measured.
    pub warm_up: Duration,
    /// How long it is measured.
    pub duration: Duration,
    /// Coins of a payment.
    pub outputs: u32,
    /// On how many cores everything runs, the driver included; all where it is not set.
    pub cores: Option<usize>,
    /// The most that the machine allows of payments, by the number of cores, as far as it was measured.
    pub pay_limits: Vec<(usize, Ceiling)>,
}

/// The driver's end: its threads and connections.
pub(super) struct Driver {
    runtime: tokio::runtime::Runtime,
}

impl Driver {
    pub(super) fn new() -> Result<Self, FlowsError> {
        // One thread: it shares the machine with those it drives.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("driver")
            .enable_all()
            .build()
            .map_err(FlowsError::system("cannot start the driver's thread"))?;
        Ok(Self { runtime })
    }

    pub(super) fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(what)
    }

    /// Connections to a node.
    pub(super) fn clients(
        &self,
        network: &Network,
        node: usize,
        count: usize,
    ) -> Result<Vec<Client>, FlowsError> {
        self.wait(async {
            let mut clients = Vec::with_capacity(count);
            for _ in 0..count.max(1) {
                clients.push(network.node(node).client().await?);
            }
            Ok(clients)
        })
    }

    /// Drives flows and watches what that takes.
    pub(super) fn load(
        &self,
        network: &Network,
        clients: &[Client],
        work: Work,
        run: &Run,
    ) -> Result<Loaded, FlowsError> {
        let before = meters(network)?;
        let watch = Watch::start(network.watched(), EVERY)?;
        let began = watch.began();
        let request = work.request();
        let measured = self.wait(drive(clients, run, |_| request.clone()));
        let processes = watch.stop();
        let measured = measured?.all_well()?;
        let mut steps = Vec::new();
        let mut commits = Vec::new();
        for ((label, before), (_, after)) in before.iter().zip(meters(network)?) {
            let since = after.since(before);
            steps.extend(since.steps(label));
            commits.push((label.clone(), since.commits()));
        }
        let from = measured.from.saturating_duration_since(began);
        Ok(Loaded { run: run.clone(), measured, processes, from, steps, commits })
    }
}

fn meters(network: &Network) -> Result<Vec<(String, Meters)>, FlowsError> {
    let running = network.nodes().iter().filter(|node| node.pid().is_some());
    running.map(|node| Ok((node.label().to_owned(), node.meters()?))).collect()
}

fn figures(ids: &[&str]) -> Vec<&'static Figure> {
    ids.iter().filter_map(|id| published::figure(id)).collect()
}

impl Plan {
    fn closed(&self) -> Run {
        self.run(Load::Closed(self.in_flight))
    }

    fn run(&self, load: Load) -> Run {
        Run {
            load,
            connections: self.connections,
            warm_up: self.warm_up,
            duration: self.duration,
            total: None,
        }
    }

    pub(super) fn settings(&self) -> Vec<(&'static str, Value)> {
        let threads = |threads: usize| if threads == 0 { Value::from("auto") } else { Value::from(threads) };
        vec![
            ("nodes", (self.layout.parties.len() + self.layout.notary.organisations().len()).into()),
            ("notary", self.layout.notary.name().into()),
            ("database", self.layout.database.name().into()),
            ("flow_threads", threads(self.layout.flow_threads)),
            ("rpc_threads", threads(self.layout.rpc_threads)),
            ("cores", self.cores.map_or(Value::from("all"), Value::from)),
            ("tls", true.into()),
            ("durable", true.into()),
        ]
    }

    pub(super) fn pin(&self) -> Result<Option<Pinned>, FlowsError> {
        self.cores.map(Pinned::to).transpose()
    }

    fn outcome(&self, name: &str, title: String, load: Loaded) -> Outcome {
        Outcome { load: Some(load), ..self.facts(name, title, Vec::new()) }
    }

    fn facts(&self, name: &str, title: String, facts: Vec<Fact>) -> Outcome {
        Outcome {
            name: name.to_owned(),
            title,
            settings: self.settings(),
            load: None,
            facts,
            bars: None,
            ceiling: None,
            published: Vec::new(),
        }
    }

    /// Issues at PartyA as fast as it goes.
    ///
    /// # Errors
    /// [`FlowsError`].
    pub fn issue(&self) -> Result<Outcome, FlowsError> {
        let _pinned = self.pin()?;
        let (network, driver) = (Network::start(&self.layout)?, Driver::new()?);
        let clients = driver.clients(&network, 0, self.connections)?;
        let load = driver.load(&network, &clients, Work::Issue, &self.closed())?;
        Ok(self.issued(load))
    }

    fn issued(&self, load: Loaded) -> Outcome {
        let mut outcome = self.outcome("issue", "Issue (own node)".to_owned(), load);
        outcome.bars = Some((2_500.0, 5_000.0));
        outcome.published = figures(&["corda-oss-4.3-issue", "corda-ent-r3-issue"]);
        outcome
    }

    fn paid(&self, name: &str, title: String, load: Loaded) -> Outcome {
        let mut outcome = self.outcome(name, title, load);
        outcome.settings.push(("outputs", self.outputs.into()));
        outcome
    }

    /// What the limit was measured of: payments of one coin on SQLite. A validating notary has more to do than the one of
    /// which it was measured, which is shown hashes: the limit holds for it, and it cannot be reached.
    fn pay_limit(&self) -> Option<Ceiling> {
        if self.outputs != 1 || self.layout.database.name() != "sqlite" {
            return None;
        }
        let limit = match self.layout.notary {
            NotaryLayout::NonValidating | NotaryLayout::Validating => PAY,
            NotaryLayout::Clustered => PAY_CLUSTER,
        };
        let cores = self.cores.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let of_notary = |name: &str| name.trim_end_matches(ALL_CORES) == limit;
        let fits = |(of, ceiling): &&(usize, Ceiling)| *of == cores && of_notary(&ceiling.name);
        self.pay_limits.iter().find(fits).map(|(_, ceiling)| ceiling.clone())
    }

    /// Issue + Repeated Pay: issues for as long as is then paid, and pays each coin to PartyB, who meets its issuance
    /// for the first time. Gives both, issue first.
    ///
    /// # Errors
    /// [`FlowsError`].
    pub fn issue_and_pay(&self) -> Result<[Outcome; 2], FlowsError> {
        let _pinned = self.pin()?;
        let (network, driver) = (Network::start(&self.layout)?, Driver::new()?);
        let clients = driver.clients(&network, 0, self.connections)?;
        let issued = driver.load(&network, &clients, Work::Issue, &self.closed())?;
        let coins = issued.measured.completed_in_all;
        let run = Run { total: Some(coins), ..self.closed() };
        let paid = driver.load(&network, &clients, Work::Pay { outputs: self.outputs }, &run)?;
        let plural = if self.outputs == 1 { "coin" } else { "coins" };
        let title = format!("Pay (A to B, notary, resolution), {} {plural}", self.outputs);
        let mut paid = self.paid("pay", title, paid);
        // Whether there were coins for the whole time changes nothing about what was measured.
        if let Some(load) = &mut paid.load {
            load.run.total = None;
        }
        paid.bars = Some((1_000.0, 2_000.0));
        paid.ceiling = self.pay_limit();
        paid.published = figures(&[
            "corda-ent-r3-issue-and-pay",
            "corda-ent-4.1-x86-40-cores",
            "corda-ent-4.1-x86-1-core",
        ]);
        Ok([self.issued(issued), paid])
    }

    /// Issues that many coins at PartyA.
    pub(super) fn fund(&self, driver: &Driver, clients: &[Client], coins: u64) -> Result<(), FlowsError> {
        let run = Run {
            load: Load::Closed(self.in_flight.max(64)),
            connections: self.connections,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(3600),
            total: Some(coins),
        };
        let request = Work::Issue.request();
        driver.wait(drive(clients, &run, |_| request.clone()))?.all_well().map(drop)
    }

    /// Pays at a fixed rate, whatever the nodes do.
    ///
    /// # Errors
    /// [`FlowsError`].
    pub fn pay_at(&self, rate: u64) -> Result<Outcome, FlowsError> {
        let _pinned = self.pin()?;
        let (network, driver) = (Network::start(&self.layout)?, Driver::new()?);
        let clients = driver.clients(&network, 0, self.connections)?;
        let run = self.run(Load::Open(rate));
        let seconds = (self.warm_up + self.duration).as_secs_f64();
        self.fund(&driver, &clients, (rate as f64 * seconds).ceil() as u64 + 1)?;
        let load = driver.load(&network, &clients, Work::Pay { outputs: self.outputs }, &run)?;
        let of = load.measured.latency.percentiles();
        let mut outcome = self.paid("pay-open", format!("Pay at {rate}/s"), load);
        if rate == 10 {
            outcome.published = figures(&["corda-oss-4.3-pay-p50"]);
            let seconds = |us: u64| us as f64 / 1e6;
            outcome.facts = vec![
                Fact::new("pay_p50", "Pay at 10/s: half are done within", seconds(of.p50_us), "s")
                    .at_most(0.020),
                Fact::new("pay_p99", "Pay at 10/s: 99 of 100 are done within", seconds(of.p99_us), "s")
                    .at_most(0.100),
            ];
        }
        Ok(outcome)
    }

    /// IOUs of PartyA to PartyB at a fixed rate.
    ///
    /// # Errors
    /// [`FlowsError`].
    pub fn iou_at(&self, rate: u64) -> Result<Outcome, FlowsError> {
        let _pinned = self.pin()?;
        let (network, driver) = (Network::start(&self.layout)?, Driver::new()?);
        let clients = driver.clients(&network, 0, self.connections)?;
        let load = driver.load(&network, &clients, Work::Iou, &self.run(Load::Open(rate)))?;
        let mut outcome = self.outcome("iou-open", format!("IOU at {rate}/s"), load);
        outcome.published = figures(&["corda-oss-3.3-peak"]);
        Ok(outcome)
    }
}
