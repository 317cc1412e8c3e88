//! How long there was no sequencer, and where that time went.

use crate::cluster::takeover::{Options, Split, Takeovers};
use crate::report::page::{Block, Section};
use crate::result::{Better, Record};
use crate::settlement;
use crate::statistics::median;
use crate::table::{self, Align, Table};
use std::time::Duration;

/// The most that a takeover may take, and what would be better than that, in seconds.
pub const BARS: (f64, f64) = (5.0, 1.0);

/// A part of a takeover: what a reader is told that it is, its name in records, and how long it was.
type Part = (&'static str, &'static str, fn(&Split) -> Duration);

/// The parts of a takeover, and all of it.
const PARTS: [Part; 5] = [
    ("silence, until it was decided to take over", "silence", |split| split.silence),
    ("opening its log: the writer before is fenced", "fence", |split| split.fence),
    ("recovering what the one before recorded", "recovery", |split| split.recovery),
    ("first decisions committed", "first_commit", |split| split.commit),
    ("all, from kill -9 to the next committed decision", "until_decision", Split::total),
];

fn seconds(splits: &[Split], of: fn(&Split) -> Duration) -> Vec<f64> {
    splits.iter().map(|split| of(split).as_secs_f64()).collect()
}

/// How long there was no sequencer.
#[must_use]
pub fn section(found: &Takeovers, options: &Options) -> Section {
    let mut rows = Table::new(&[
        ("sequencer killed", Align::Left),
        ("median", Align::Right),
        ("longest", Align::Right),
        ("bar", Align::Right),
        ("beyond", Align::Right),
    ]);
    let mut row = |name: &str, samples: &[f64], barred: bool| {
        let longest = samples.iter().copied().fold(0.0, f64::max);
        let bar = |seconds: f64| if barred { table::quantity(seconds, "s") } else { String::new() };
        rows.row([
            name.to_owned(),
            table::quantity(median(samples).unwrap_or_default(), "s"),
            table::quantity(longest, "s"),
            bar(BARS.0),
            bar(BARS.1),
        ]);
    };
    for (name, key, of) in PARTS {
        row(name, &seconds(&found.splits, of), key == "until_decision");
    }
    row("heard by the gateway, from the kill", &found.heard, false);
    row("by the records' own clocks, last of one to first of the next", &found.seconds, false);
    let note = format!(
        "Killed {} times under {} payments a second. The one that stands by is the program's own standby: it takes over after \
         {} ms without a word of the active one, which says at least every {} ms that it is there. {} records with {} \
         decisions were followed: each began where the one before it ended, in the order and in the Merkle log: no gap, no \
         fork.",
        found.splits.len(),
        table::count(options.rate),
        options.after_ms,
        tally_settlement::process::sequence::HEARTBEAT_MS,
        table::count(found.records),
        table::count(found.decisions)
    );
    Section {
        title: "Takeover of the sequencer".to_owned(),
        blocks: vec![Block::Table("The sequencer is killed".to_owned(), rows), Block::Note(note)],
    }
}

/// The record of takeovers.
#[must_use]
pub fn record(found: &Takeovers, options: &Options) -> Record {
    let mut record = Record::new(settlement::EXPERIMENT, "sequencer takeover over Kafka")
        .setting("rate_tps", options.rate)
        .setting("after_ms", options.after_ms)
        .sampled("without_sequencer", found.seconds.clone(), "s", Better::Lower)
        .sampled("heard_after", found.heard.clone(), "s", Better::Lower)
        .metric("records_followed", found.records as f64, "records", Better::Higher);
    for (_, key, of) in PARTS {
        record = record.sampled(key, seconds(&found.splits, of), "s", Better::Lower);
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_takeover_is_shown_with_its_parts() {
        let split = |ms: u64| Split {
            silence: Duration::from_millis(600),
            fence: Duration::from_millis(ms),
            recovery: Duration::from_millis(2),
            commit: Duration::from_millis(8),
        };
        let found = Takeovers {
            seconds: vec![0.7, 0.8, 0.9],
            heard: vec![0.71, 0.81, 0.91],
            splits: vec![split(40), split(90), split(190)],
            records: 10,
            decisions: 500,
        };
        let options = Options::default();
        let text = section(&found, &options).text(false);
        let whole = text.lines().find(|line| line.starts_with("all, from kill -9")).unwrap();
        assert!(whole.contains("700 ms") && whole.contains("800 ms") && whole.contains("5.00 s"), "{text}");
        let record = record(&found, &options);
        assert_eq!(record.check(), Ok(()));
        assert_eq!(record.samples["until_decision"].len(), 3);
        assert!((record.metrics["fence"].value - 0.09).abs() < 1e-9);
    }
}
