//! Two sets of results side by side: the ratio of medians, and whether it is more than noise.
//!
//! Records are paired by experiment, name and settings. For each metric of a pair the ratio `B / A` of the medians of
//! the raw samples is given with a 95 % interval; where the interval includes 1, no difference was seen.
//!
//! What the interval is worth: samples of one run share everything that makes one run differ from the next (memory
//! layout, neighbours, temperature), so that intervals of single runs are too narrow. Several records with one key
//! count as several runs, and the interval then covers the difference between runs as well; three or more for each
//! side are worth their time. Of many metrics that did not change, one in twenty will show a difference by chance.

use std::collections::BTreeMap;

use crate::result::{Better, Record};
use crate::statistics::{median, ratio_interval};
use crate::table::{self, Align, Table};

/// Fewer samples than this on either side give no interval.
pub const MIN_SAMPLES: usize = 5;

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// The median of all raw samples, or of the values where no samples were kept.
    pub median: f64,
    /// How many runs.
    pub runs: usize,
    /// How many raw samples, or values, in all of them.
    pub samples: usize,
}

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// B is better, and the interval excludes 1.
    Better,
    /// B is worse, and the interval excludes 1.
    Worse,
    /// The interval includes 1.
    NoDifference,
    /// Too few samples for an interval, or medians of zero.
    Unknown,
}

impl Verdict {
    /// The words for a table.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoDifference => "no difference seen",
            Self::Unknown => "too few samples to tell",
        }
    }
}

/// One metric on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Experiment, name and settings ([`Record::key`]).
    pub key: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is good.
    pub better: Better,
    /// The first set.
    pub a: Side,
    /// The second set.
    pub b: Side,
    /// `B / A`, where A is not zero.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio.
    pub interval: Option<(f64, f64)>,
    /// What follows from it.
    pub verdict: Verdict,
}

/// All comparisons of two sets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Metrics that both sets have, in order of key and metric.
    pub comparisons: Vec<Comparison>,
    /// What only the first set has, or has with another unit: key and metric.
    pub only_a: Vec<String>,
    /// What only the second set has.
    pub only_b: Vec<String>,
    /// Whether the machines differ, in which case a ratio compares machines as much as programs.
    pub machines_differ: bool,
}

type Values<'r> = BTreeMap<(String, &'r str, &'r str), Series<'r>>;

struct Series<'r> {
    better: Better,
    values: Vec<f64>,
    samples: Vec<&'r [f64]>,
}

impl Series<'_> {
    /// One slice for each run; where a run kept no samples, all runs are one slice of their values.
    fn runs(&self) -> Vec<&[f64]> {
        if self.samples.len() == self.values.len() { self.samples.clone() } else { vec![&self.values] }
    }
}

/// Compares two sets of results.
#[must_use]
pub fn compare(a: &[Record], b: &[Record]) -> Report {
    let (values_a, mut values_b) = (gather(a), gather(b));
    let mut report = Report { machines_differ: machines_differ(a, b), ..Report::default() };
    for (id, series_a) in values_a {
        match values_b.remove(&id) {
            Some(series_b) => report.comparisons.extend(pair(&id, &series_a, &series_b)),
            None => report.only_a.push(format!("{} {}", id.0, id.1)),
        }
    }
    report.only_b = values_b.into_keys().map(|id| format!("{} {}", id.0, id.1)).collect();
    report
}

fn machines_differ(a: &[Record], b: &[Record]) -> bool {
    let mut machines = a.iter().chain(b).map(|record| &record.machine);
    machines.next().is_some_and(|first| machines.any(|machine| machine != first))
}

fn gather(records: &[Record]) -> Values<'_> {
    let mut values = Values::new();
    for record in records {
        for (name, metric) in &record.metrics {
            let id = (record.key(), name.as_str(), metric.unit.as_str());
            let series = values.entry(id).or_insert_with(|| Series {
                better: metric.better,
                values: Vec::new(),
                samples: Vec::new(),
            });
            series.values.push(metric.value);
            series
                .samples
                .extend(record.samples.get(name).filter(|samples| !samples.is_empty()).map(Vec::as_slice));
        }
    }
    values
}

fn pair(id: &(String, &str, &str), a: &Series<'_>, b: &Series<'_>) -> Option<Comparison> {
    let side = |series: &Series<'_>| {
        let all = series.runs().concat();
        Some(Side { median: median(&all)?, runs: series.values.len(), samples: all.len() })
    };
    let (side_a, side_b) = (side(a)?, side(b)?);
    let ratio = Some(side_b.median / side_a.median).filter(|ratio| ratio.is_finite());
    let enough = side_a.samples.min(side_b.samples) >= MIN_SAMPLES;
    // Any fixed seed: the same files give the same report.
    let interval = if enough { ratio_interval(&a.runs(), &b.runs(), 0x7a11) } else { None };
    let verdict = match interval {
        None => Verdict::Unknown,
        Some((low, high)) if low <= 1.0 && 1.0 <= high => Verdict::NoDifference,
        Some((low, _)) if (low > 1.0) == (b.better == Better::Higher) => Verdict::Better,
        Some(_) => Verdict::Worse,
    };
    Some(Comparison {
        key: id.0.clone(),
        metric: id.1.to_owned(),
        unit: id.2.to_owned(),
        better: b.better,
        a: side_a,
        b: side_b,
        ratio,
        interval,
        verdict,
    })
}

impl Report {
    /// The report as text for a terminal or a file.
    #[must_use]
    pub fn render(&self, styled: bool) -> String {
        let mut rows = Table::new(&[
            ("experiment", Align::Left),
            ("metric", Align::Left),
            ("A", Align::Right),
            ("B", Align::Right),
            ("B / A", Align::Right),
            ("95 % interval", Align::Right),
            ("runs, samples", Align::Right),
            ("", Align::Left),
        ]);
        for comparison in &self.comparisons {
            let (a, b) = (&comparison.a, &comparison.b);
            rows.row([
                comparison.key.clone(),
                comparison.metric.clone(),
                table::quantity(a.median, &comparison.unit),
                table::quantity(b.median, &comparison.unit),
                comparison.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.3}")),
                comparison.interval.map_or("–".to_owned(), |(low, high)| format!("{low:.3} … {high:.3}")),
                format!("{}, {} : {}, {}", a.runs, a.samples, b.runs, b.samples),
                comparison.verdict.words().to_owned(),
            ]);
        }
        let mut text = if rows.is_empty() { "Nothing to compare.\n".to_owned() } else { rows.render(styled) };
        for (name, only) in [("A", &self.only_a), ("B", &self.only_b)] {
            for what in only {
                text.push_str(&format!("only in {name}: {what}\n"));
            }
        }
        if self.machines_differ {
            text.push_str("The machines differ: a ratio compares machines as much as programs.\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::SplitMix;

    fn run(name: &str, samples: Vec<f64>) -> Record {
        Record::new("pipeline", name).setting("batch", 64).sampled(
            "throughput",
            samples,
            "tx/s",
            Better::Higher,
        )
    }

    fn noisy(seed: u64, centre: f64) -> Vec<f64> {
        let mut random = SplitMix::new(seed);
        (0..30).map(|_| centre * (1.0 + (random.below(1000) as f64 - 500.0) / 10_000.0)).collect()
    }

    fn verdict(a: &[Record], b: &[Record]) -> (Verdict, f64) {
        let report = compare(a, b);
        assert_eq!(report.comparisons.len(), 1);
        (report.comparisons[0].verdict, report.comparisons[0].ratio.unwrap())
    }

    #[test]
    fn a_real_difference_is_seen_in_its_direction() {
        let (slow, fast) = ([run("x", noisy(1, 1000.0))], [run("x", noisy(2, 1200.0))]);
        let (found, ratio) = verdict(&slow, &fast);
        assert_eq!(found, Verdict::Better);
        assert!((1.17..1.23).contains(&ratio), "{ratio}");
        assert_eq!(verdict(&fast, &slow).0, Verdict::Worse);

        let latency = |samples| [Record::new("e", "n").sampled("latency", samples, "us", Better::Lower)];
        assert_eq!(verdict(&latency(noisy(1, 10.0)), &latency(noisy(2, 20.0))).0, Verdict::Worse);
        assert_eq!(verdict(&latency(noisy(1, 20.0)), &latency(noisy(2, 10.0))).0, Verdict::Better);
    }

    #[test]
    fn noise_is_no_difference_and_few_samples_are_no_verdict() {
        assert_eq!(
            verdict(&[run("x", noisy(1, 1000.0))], &[run("x", noisy(9, 1001.0))]).0,
            Verdict::NoDifference
        );
        let few = [run("x", vec![1.0, 1.0, 1.0, 1.0])];
        assert_eq!(verdict(&few, &[run("x", noisy(9, 1000.0))]).0, Verdict::Unknown);
        let zero = [run("x", vec![0.0; 9])];
        let report = compare(&zero, &[run("x", noisy(9, 1000.0))]);
        assert_eq!((report.comparisons[0].ratio, report.comparisons[0].verdict), (None, Verdict::Unknown));
    }

    #[test]
    fn runs_that_differ_among_themselves_widen_the_interval() {
        // Each run is steady, but runs are far apart: 30 samples of each say less than they seem to.
        let runs = |centres: [f64; 3]| -> Vec<Record> {
            centres.iter().enumerate().map(|(at, centre)| run("x", noisy(at as u64, *centre))).collect()
        };
        assert_eq!(
            verdict(&runs([900.0, 1000.0, 1300.0]), &runs([950.0, 1250.0, 1100.0])).0,
            Verdict::NoDifference
        );
        assert_eq!(verdict(&runs([900.0, 910.0, 905.0]), &runs([950.0, 960.0, 955.0])).0, Verdict::Better);
    }

    #[test]
    fn values_without_samples_are_compared_over_runs() {
        let runs = |values: &[f64]| -> Vec<Record> {
            values
                .iter()
                .map(|value| Record::new("e", "n").metric("size", *value, "B", Better::Lower))
                .collect()
        };
        assert_eq!(verdict(&runs(&[5.0]), &runs(&[6.0])), (Verdict::Unknown, 1.2));
        assert_eq!(verdict(&runs(&[5.0; 5]), &runs(&[6.0; 5])), (Verdict::Worse, 1.2));
    }

    #[test]
    fn only_what_is_alike_is_paired() {
        let a = [run("x", noisy(1, 1.0)), run("gone", noisy(1, 1.0))];
        let mut other_batch = run("x", noisy(1, 1.0));
        other_batch.settings.insert("batch".to_owned(), 65.into());
        other_batch.machine.cores += 1;
        let report = compare(&a, &[run("x", noisy(1, 1.0)), other_batch]);
        assert_eq!(report.comparisons.len(), 1);
        assert_eq!(report.comparisons[0].interval.map(|(low, high)| low <= 1.0 && high >= 1.0), Some(true));
        assert_eq!(report.only_a, ["pipeline gone batch=64 throughput"]);
        assert_eq!(report.only_b, ["pipeline x batch=65 throughput"]);
        assert!(report.machines_differ);

        let text = report.render(false);
        assert!(text.contains("no difference seen") && text.contains("only in A: pipeline gone"), "{text}");
        assert!(compare(&[], &[]).render(false).starts_with("Nothing to compare"));
        assert_eq!(
            report,
            compare(
                &a,
                &[run("x", noisy(1, 1.0)), {
                    let mut again = run("x", noisy(1, 1.0));
                    again.settings.insert("batch".to_owned(), 65.into());
                    again.machine.cores += 1;
                    again
                }]
            )
        );
    }
}
