//! Charts that any experiment has: what was done over time, and how long it took.

use super::chart::{Axis, Bar, Bars, Chart, Line};
use super::page::{Block, Section};
use crate::processes::Series;
use crate::recorder::Recorder;
use std::time::Duration;

/// Payments a second over time, a line for each run; `interval` in seconds is that of the samples.
#[must_use]
pub fn over_time(title: &str, interval: f64, runs: &[&[f64]], bar: Option<f64>) -> Block {
    let line = |(number, samples): (usize, &&[f64])| Line {
        name: format!("run {}", number + 1),
        points: samples.iter().enumerate().map(|(at, rate)| ((at as f64 + 0.5) * interval, *rate)).collect(),
    };
    Block::Chart(Chart {
        title: format!("{title}: throughput over time"),
        x: Axis::linear("seconds", "s"),
        y: Axis::linear("payments per second", "tx/s"),
        lines: runs.iter().enumerate().map(line).collect(),
        marks: bar.map(|bar| ("bar".to_owned(), bar)).into_iter().collect(),
    })
}

/// Up to which latency each bar of a histogram goes: each twice the one before.
const FIRST: Duration = Duration::from_micros(250);

/// How many of the payments took how long, in shares of all.
#[must_use]
pub fn histogram(title: &str, latency: &Recorder) -> Block {
    let mut bars = Vec::new();
    let (mut to, mut below) = (FIRST, 0.0);
    while below < 1.0 && latency.count() > 0 {
        let share = latency.share_up_to(to);
        // Nothing is said of what nobody had to wait for.
        if share > 0.0 {
            let name = format!("up to {}", crate::table::duration(to));
            bars.push(Bar { name, parts: vec![("payments".to_owned(), share - below)] });
        }
        (to, below) = (to * 2, share);
    }
    Block::Bars(Bars { title: format!("{title}: latency"), unit: "share", bars })
}

/// Latency below which each share of the payments stayed.
#[must_use]
pub fn percentiles(title: &str, latency: &Recorder, bar: Option<Duration>) -> Block {
    let shares = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999];
    // Towards 1 each step is a tenth of what is left: "nines".
    let point = |share: &f64| (-(1.0 - share).log10(), latency.quantile(*share).as_secs_f64());
    Block::Chart(Chart {
        title: format!("{title}: latency by percentile"),
        x: Axis::linear("nines: 1 is p90, 2 is p99, 3 is p99.9", ""),
        y: Axis::logarithmic("from the intended start to the outcome", "s"),
        lines: vec![Line { name: "latency".to_owned(), points: shares.iter().map(point).collect() }],
        marks: bar.map(|bar| ("bar".to_owned(), bar.as_secs_f64())).into_iter().collect(),
    })
}

/// How many cores a process and its children kept busy, and how much memory they had, over all of a measurement.
#[must_use]
pub fn usage(series: &Series) -> Section {
    let chart = |title: &str, y, points| {
        let lines = vec![Line { name: series.label.clone(), points }];
        Block::Chart(Chart {
            title: title.to_owned(),
            x: Axis::linear("seconds", "s"),
            y,
            lines,
            marks: Vec::new(),
        })
    };
    let cores = series.cores().into_iter().map(|(at, cores)| (at.as_secs_f64(), cores)).collect();
    let memory = series.samples.iter().map(|one| (one.at.as_secs_f64(), one.reading.resident_bytes as f64));
    Section {
        title: "Processor and memory, from the beginning to the end".to_owned(),
        blocks: vec![
            chart("Cores kept busy", Axis::linear("cores", ""), cores),
            chart("Resident memory", Axis::linear("memory", "B"), memory.collect()),
            Block::Note("Preparations and what the machine is measured by are part of it.".to_owned()),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_every_payment_once() {
        let mut latency = Recorder::new();
        for (micros, count) in [(100, 10), (900, 70), (1_900, 15), (30_000, 5)] {
            latency.record_latency(Duration::from_micros(micros), count);
        }
        let Block::Bars(bars) = histogram("x", &latency) else { panic!("bars are wanted") };
        let shares: Vec<_> = bars.bars.iter().map(|bar| (bar.parts[0].1 * 100.0).round()).collect();
        assert_eq!(shares, [10.0, 0.0, 70.0, 15.0, 0.0, 0.0, 0.0, 5.0]);
        let Block::Bars(bars) = histogram("x", &Recorder::new()) else { panic!("bars are wanted") };
        assert!(bars.bars.is_empty());
    }
}
