//! What an experiment on a chain found, and its record.

use std::time::Duration;

use serde_json::Value;

use super::EXPERIMENT;
use crate::ceiling::Ceiling;
use crate::fact::Fact;
use crate::processes::Series;
use crate::published::Figure;
use crate::recorder::Recorder;
use crate::result::{Better, Record};

/// What processes used while something was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Each process over time.
    pub processes: Vec<Series>,
    /// When measuring began, from the start of watching.
    pub from: Duration,
    /// When it ended.
    pub until: Duration,
}

impl Usage {
    /// How many cores a process kept busy, as (in the program, in the kernel).
    #[must_use]
    pub fn cores(&self, process: &Series) -> (f64, f64) {
        // Sampled at intervals: over the time between the samples that lie inside.
        let inside = process.between(self.from, self.until);
        let (Some(first), Some(last)) = (inside.first(), inside.last()) else { return (0.0, 0.0) };
        let seconds = last.at.saturating_sub(first.at).as_secs_f64();
        let (user, system) = process.cpu(self.from, self.until);
        let busy = |time: Duration| if seconds > 0.0 { time.as_secs_f64() / seconds } else { 0.0 };
        (busy(user), busy(system))
    }

    /// How many cores all processes kept busy together, but for those of one label.
    #[must_use]
    pub fn cores_without(&self, label: &str) -> f64 {
        let others = self.processes.iter().filter(|process| process.label != label);
        others.map(|process| self.cores(process)).map(|(user, system)| user + system).sum()
    }

    /// How many cores the process of this label kept busy.
    #[must_use]
    pub fn cores_of(&self, label: &str) -> f64 {
        let found = self.processes.iter().find(|process| process.label == label);
        found.map_or(0.0, |process| {
            let (user, system) = self.cores(process);
            user + system
        })
    }

    /// What the rate would be if all cores were there for these processes alone, at the processor time that each unit
    /// took; `None` where nothing was done. On a machine that does other things too it says more than the rate.
    #[must_use]
    pub fn rate_alone(&self, rate: f64) -> Option<f64> {
        let busy: f64 = self
            .processes
            .iter()
            .map(|process| self.cores(process))
            .map(|(user, system)| user + system)
            .sum();
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        (busy > 0.0).then(|| rate * cores / busy)
    }

    /// The most memory that any process but that of one label has had, in bytes.
    #[must_use]
    pub fn most_memory_without(&self, label: &str) -> u64 {
        let others = self.processes.iter().filter(|process| process.label != label);
        others.map(Series::peak_bytes).max().unwrap_or(0)
    }
}

/// What an experiment found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The name of its record.
    pub name: String,
    /// What it is called for a person.
    pub title: String,
    /// What was set.
    pub settings: Vec<(&'static str, Value)>,
    /// How much was done a second.
    pub rate: f64,
    /// The unit of it.
    pub unit: &'static str,
    /// What is to be reached: at least, and better.
    pub bars: Option<(f64, f64)>,
    /// Latencies, where they were recorded.
    pub latency: Option<Recorder>,
    /// Other figures.
    pub facts: Vec<Fact>,
    /// What processes used.
    pub usage: Usage,
    /// The most that the machine allows.
    pub ceiling: Option<Ceiling>,
    /// What others have published.
    pub published: Vec<&'static Figure>,
    /// Whether the first of them is of the same quantity as the rate.
    pub comparable: bool,
    /// What a person should know beside the figures.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Its share of what the machine allows.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        self.ceiling.as_ref()?.share(self.rate)
    }

    /// What was published of the same quantity.
    #[must_use]
    pub fn compared(&self) -> Option<&'static Figure> {
        self.published.first().copied().filter(|_| self.comparable)
    }

    /// A figure by its name.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&Fact> {
        self.facts.iter().find(|fact| fact.name == name)
    }

    /// The record of it.
    #[must_use]
    pub fn record(&self) -> Record {
        let mut record = Record::new(EXPERIMENT, &self.name);
        for (name, value) in &self.settings {
            record = record.setting(name, value.clone());
        }
        record = record.metric("rate", self.rate, self.unit, Better::Higher);
        if let Some(latency) = &self.latency {
            record = record.latency(latency);
        }
        for fact in &self.facts {
            record = record.metric(fact.name, fact.value, fact.unit, fact.better);
            if !fact.samples.is_empty() {
                record.samples.insert(fact.name.to_owned(), fact.samples.clone());
            }
        }
        for process in &self.usage.processes {
            record = used(record, &self.usage, process);
        }
        if let Some(ceiling) = &self.ceiling {
            record = record.against(ceiling, self.rate);
        }
        self.published.iter().fold(record, |record, figure| record.published(figure))
    }
}

fn used(mut record: Record, usage: &Usage, process: &Series) -> Record {
    let label = process.label.replace(' ', "_");
    let (user, system) = usage.cores(process);
    let (read, written) = process.moved(usage.from, usage.until);
    let resident = process.samples.iter().map(|sample| sample.reading.resident_bytes as f64).collect();
    if process.label == super::GENERATOR {
        let (user, system) = process.cpu(usage.from, usage.until);
        record.cpu_user_s = user.as_secs_f64();
        record.cpu_system_s = system.as_secs_f64();
        record.rss_bytes = process.peak_bytes();
    }
    record
        .metric(&format!("{label}_user_cores"), user, "", Better::Lower)
        .metric(&format!("{label}_system_cores"), system, "", Better::Lower)
        .metric(&format!("{label}_peak_resident"), process.peak_bytes() as f64, "B", Better::Lower)
        .metric(&format!("{label}_read"), read as f64, "B", Better::Lower)
        .metric(&format!("{label}_written"), written as f64, "B", Better::Lower)
        .sampled(&format!("{label}_resident"), resident, "B", Better::Lower)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::{Reading, Sample};

    fn series(label: &str, milliseconds_each: u64) -> Series {
        let sample = |at: u64| Sample {
            at: Duration::from_secs(at),
            reading: Reading {
                user: Duration::from_millis(at * milliseconds_each),
                resident_bytes: milliseconds_each,
                peak_bytes: milliseconds_each,
                written_bytes: at * 1000,
                ..Reading::default()
            },
        };
        Series { label: label.to_owned(), samples: (0..=10).map(sample).collect() }
    }

    #[test]
    fn what_was_used_is_told_apart_by_process() {
        let processes = vec![series("follower", 500), series(crate::chain::GENERATOR, 250)];
        let usage = Usage { processes, from: Duration::from_secs(2), until: Duration::from_secs(8) };
        assert_eq!(usage.cores_of("follower"), 0.5);
        assert_eq!(usage.cores_of("nobody"), 0.0);
        assert_eq!(usage.cores_without(crate::chain::GENERATOR), 0.5);
        assert_eq!(usage.most_memory_without("follower"), 250);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        assert!((usage.rate_alone(30.0).unwrap() - 40.0 * cores).abs() < 1e-9);
        let mut latency = Recorder::new();
        latency.record_latency(Duration::from_millis(3), 5);
        let outcome = Outcome {
            name: "x".into(),
            title: "X".into(),
            settings: vec![("rate_tps", 10.into())],
            rate: 10.0,
            unit: "tx/s",
            bars: None,
            latency: Some(latency),
            facts: vec![Fact::new("lost", "lost", 0.0, "")],
            usage,
            ceiling: Some(Ceiling { name: "limit".into(), rate: 40.0 }),
            published: vec![],
            comparable: false,
            notes: vec![],
        };
        let record = outcome.record();
        record.check().unwrap();
        assert_eq!((outcome.share(), record.limit.as_ref().unwrap().share), (Some(0.25), 0.25));
        assert_eq!(record.metrics["follower_written"].value, 6000.0);
        assert_eq!(record.metrics["generator_user_cores"].value, 0.25);
        assert_eq!(record.cpu_user_s, 1.5);
        assert_eq!(outcome.fact("lost").map(|fact| fact.value), Some(0.0));
    }
}
