//! What witnesses add to the time until an outcome is told.

use crate::cluster::witnesses::{Options, Witnessed};
use crate::report::page::{Block, Section};
use crate::result::{Better, Record};
use crate::settlement;
use crate::table::{self, Align, Table};

/// Latency of outcomes with witnesses and without.
#[must_use]
pub fn section(found: &Witnessed, options: &Options) -> Section {
    let mut rows = Table::new(&[
        ("an outcome is told", Align::Left),
        ("payments", Align::Right),
        ("p50", Align::Right),
        ("p90", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("longer, p99", Align::Right),
        ("bar", Align::Right),
    ]);
    let witnessed = format!("when {} witnesses have cosigned it", found.witnesses);
    for (title, recorder, barred) in
        [("when it is final", &found.without, false), (witnessed.as_str(), &found.with, true)]
    {
        let of = |quantile: f64| table::duration(recorder.quantile(quantile));
        let longer = || table::quantity(found.longer(), "s");
        let bar = || format!("{} longer", table::duration(Witnessed::BAR));
        rows.row([
            title.to_owned(),
            table::count(recorder.count()),
            of(0.5),
            of(0.9),
            of(0.99),
            of(0.999),
            if barred { longer() } else { String::new() },
            if barred { bar() } else { String::new() },
        ]);
    }
    let note = format!(
        "Two gateways of one network over Kafka, on one broker and one machine, {} payments a second to each in turn, open \
         loop, from a payment's intended start until its outcome is told. Every institution besides the operator is a \
         witness: its updater checks each head of the log, cosigns it, and makes that visible by its next commit.",
        table::count(options.rate)
    );
    Section {
        title: "Witnesses".to_owned(),
        blocks: vec![Block::Table("Outcomes with witnesses and without".to_owned(), rows), Block::Note(note)],
    }
}

/// Two records: without witnesses, and with them.
#[must_use]
pub fn records(found: &Witnessed, options: &Options) -> [Record; 2] {
    let record = |witnesses: u8| {
        Record::new(settlement::EXPERIMENT, "outcome over Kafka")
            .setting("witnesses", witnesses)
            .setting("rate_tps", options.rate)
            .setting("duration_s", options.duration.as_secs_f64())
    };
    [
        record(0).latency(&found.without),
        record(found.witnesses).latency(&found.with).metric("longer_p99", found.longer(), "s", Better::Lower),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;
    use std::time::Duration;

    #[test]
    fn both_stand_beside_each_other_with_the_difference() {
        let recorder = |ms| {
            let mut recorder = Recorder::new();
            recorder.record_latency(Duration::from_millis(ms), 100);
            recorder
        };
        let found = Witnessed { witnesses: 2, without: recorder(20), with: recorder(27) };
        let options = Options::default();
        let text = section(&found, &options).text(false);
        for part in ["when it is final", "2 witnesses", "20.0 ms", "27.0 ms", "7.0", "10.0 ms longer"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        for record in records(&found, &options) {
            assert_eq!(record.check(), Ok(()));
        }
    }
}
