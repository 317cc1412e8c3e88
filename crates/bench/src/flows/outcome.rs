//! What an experiment on the flows ledger found, and its record.

use std::time::Duration;

use serde_json::Value;

use super::EXPERIMENT;
use super::drive::{Load, Measured, Run};
use super::meters::{Commits, StepTime};
pub use crate::ceiling::Ceiling;
pub use crate::fact::Fact;
use crate::processes::Series;
use crate::published::Figure;
use crate::result::{Better, Record};

/// A load and what it did to nodes and driver.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// How it came.
    pub run: Run,
    /// What the driver saw.
    pub measured: Measured,
    /// What each process used over time.
    pub processes: Vec<Series>,
    /// When measuring began, from the start of watching.
    pub from: Duration,
    /// How long the steps of flows took.
    pub steps: Vec<StepTime>,
    /// How nodes made things durable.
    pub commits: Vec<(String, Commits)>,
}

impl Loaded {
    /// When measuring ended, from the start of watching.
    #[must_use]
    pub fn until(&self) -> Duration {
        self.from + self.measured.elapsed
    }

    /// Processor time of a process for each flow, as (user, system) in nanoseconds.
    #[must_use]
    pub fn cpu_ns(&self, process: &Series) -> (f64, f64) {
        // Sampled at intervals: scaled from the samples inside to the time between them.
        let inside = process.between(self.from, self.until());
        let (Some(first), Some(last)) = (inside.first(), inside.last()) else { return (0.0, 0.0) };
        let (user, system) = process.cpu(self.from, self.until());
        let flows = self.measured.rate * last.at.saturating_sub(first.at).as_secs_f64();
        let each = |time: Duration| if flows > 0.0 { time.as_secs_f64() * 1e9 / flows } else { 0.0 };
        (each(user), each(system))
    }

    /// Processor time of all processes for each flow, in nanoseconds.
    #[must_use]
    pub fn all_cpu_ns(&self) -> f64 {
        self.processes.iter().map(|process| self.cpu_ns(process)).map(|(user, system)| user + system).sum()
    }

    /// How many cores all processes kept busy together.
    #[must_use]
    pub fn cores(&self) -> f64 {
        self.all_cpu_ns() * self.measured.rate / 1e9
    }
}

/// What an experiment found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The name of its records.
    pub name: String,
    /// What it is called for a person.
    pub title: String,
    /// What was set, besides the load.
    pub settings: Vec<(&'static str, Value)>,
    /// The load, where there was one that is measured as such.
    pub load: Option<Loaded>,
    /// Other figures.
    pub facts: Vec<Fact>,
    /// Flows a second that are to be reached: at least, and better.
    pub bars: Option<(f64, f64)>,
    /// The most that the machine allows.
    pub ceiling: Option<Ceiling>,
    /// What others have published.
    pub published: Vec<&'static Figure>,
}

impl Outcome {
    /// Flows a second; 0 where there was no load.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.load.as_ref().map_or(0.0, |load| load.measured.rate)
    }

    /// Its share of what the machine allows.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        self.ceiling.as_ref()?.share(self.rate())
    }

    /// The value of a setting.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&Value> {
        self.settings.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// The record of it.
    #[must_use]
    pub fn record(&self) -> Record {
        let mut record = Record::new(EXPERIMENT, &self.name);
        for (name, value) in &self.settings {
            record = record.setting(name, value.clone());
        }
        if let Some(load) = &self.load {
            record = loaded(record, load);
        }
        for fact in &self.facts {
            record = record.metric(fact.name, fact.value, fact.unit, fact.better);
            if !fact.samples.is_empty() {
                record.samples.insert(fact.name.to_owned(), fact.samples.clone());
            }
        }
        if let Some(ceiling) = &self.ceiling
            && self.load.is_some()
        {
            record = record.against(ceiling, self.rate());
        }
        self.published.iter().fold(record, |record, figure| record.published(figure))
    }
}

fn loaded(mut record: Record, load: &Loaded) -> Record {
    let Run { load: how, connections, warm_up, duration, total } = &load.run;
    record = match how {
        Load::Open(rate) => record.setting("loop", "open").setting("offered_tps", *rate),
        Load::Closed(window) => record.setting("loop", "closed").setting("in_flight", *window),
    };
    record = record
        .setting("connections", *connections)
        .setting("warm_up_s", warm_up.as_secs_f64())
        .setting("duration_s", duration.as_secs_f64());
    if let Some(total) = total {
        record = record.setting("flows", *total);
    }
    let measured = &load.measured;
    record = record
        .metric("rate_tps", measured.rate, "tx/s", Better::Higher)
        .metric("cores_busy", load.cores(), "", Better::Lower)
        .metric("failed", measured.failed as f64, "", Better::Lower)
        .sampled("interval_rate_tps", measured.series.clone(), "tx/s", Better::Higher)
        .latency(&measured.latency);
    for process in &load.processes {
        let label = process.label.to_lowercase();
        let (user, system) = load.cpu_ns(process);
        let (read, written) = process.moved(load.from, load.until());
        let samples = |of: fn(&crate::processes::Reading) -> f64| {
            process.samples.iter().map(|sample| of(&sample.reading)).collect::<Vec<f64>>()
        };
        record = record
            .metric(&format!("{label}_user_ns_per_flow"), user, "ns", Better::Lower)
            .metric(&format!("{label}_system_ns_per_flow"), system, "ns", Better::Lower)
            .metric(&format!("{label}_peak_resident"), process.peak_bytes() as f64, "B", Better::Lower)
            .metric(&format!("{label}_read"), read as f64, "B", Better::Lower)
            .metric(&format!("{label}_written"), written as f64, "B", Better::Lower)
            .sampled(
                &format!("{label}_cores"),
                process.cores().into_iter().map(|(_, cores)| cores).collect(),
                "",
                Better::Lower,
            )
            .sampled(&format!("{label}_resident"), samples(|r| r.resident_bytes as f64), "B", Better::Lower);
        if process.label == "driver" {
            let (user, system) = process.cpu(load.from, load.until());
            record.cpu_user_s = user.as_secs_f64();
            record.cpu_system_s = system.as_secs_f64();
            record.rss_bytes = process.peak_bytes();
        }
    }
    for step in &load.steps {
        let name = format!("step: {} / {} / {}", step.node, step.flow, step.step);
        record = record.metric(&name, step.mean_s, "s", Better::Lower);
    }
    for (node, commits) in &load.commits {
        let label = node.to_lowercase();
        record = record
            .metric(&format!("{label}_commit"), commits.mean_s, "s", Better::Lower)
            .metric(&format!("{label}_units_per_commit"), commits.units, "", Better::Higher)
            .metric(&format!("{label}_writes_per_commit"), commits.writes, "", Better::Higher);
    }
    record
}
