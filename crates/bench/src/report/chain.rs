//! What was measured of an EVM chain, in tables and as a page.

use std::time::Duration;

use super::page::{Block, Page, Section, Tile};
use crate::chain::GENERATOR;
use crate::chain::outcome::Outcome;
use crate::table::{self, Align, Table};

/// How much was done a second, at what latency, and what it took.
#[must_use]
pub fn rates(outcomes: &[Outcome]) -> Table {
    let mut rows = Table::new(&[
        ("chain", Align::Left),
        ("a second", Align::Right),
        ("bar", Align::Right),
        ("beyond", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("cores: nodes", Align::Right),
        ("generator", Align::Right),
        ("of its limit", Align::Right),
        ("published", Align::Right),
    ]);
    for outcome in outcomes {
        let bar = |bar: Option<f64>| bar.map(table::number).unwrap_or_default();
        let latency = outcome.latency.as_ref().map(crate::recorder::Recorder::percentiles);
        let shown = |us: Option<u64>| {
            us.map_or_else(|| "–".to_owned(), |us| table::duration(Duration::from_micros(us)))
        };
        rows.row([
            outcome.title.clone(),
            table::quantity(outcome.rate, outcome.unit),
            bar(outcome.bars.map(|(bar, _)| bar)),
            bar(outcome.bars.map(|(_, beyond)| beyond)),
            shown(latency.map(|of| of.p50_us)),
            shown(latency.map(|of| of.p99_us)),
            shown(latency.map(|of| of.max_us)),
            table::number(outcome.usage.cores_without(GENERATOR)),
            table::number(outcome.usage.cores_of(GENERATOR)),
            outcome.share().map(|share| table::quantity(share, "share")).unwrap_or_default(),
            outcome.compared().map(|figure| table::number(figure.value)).unwrap_or_default(),
        ]);
    }
    rows
}

/// What each process used.
#[must_use]
pub fn processes(outcome: &Outcome) -> Table {
    let mut rows = Table::new(&[
        ("process", Align::Left),
        ("cores", Align::Right),
        ("of it in the kernel", Align::Right),
        ("memory, most", Align::Right),
        ("at the end", Align::Right),
        ("read", Align::Right),
        ("written", Align::Right),
    ]);
    for process in &outcome.usage.processes {
        let (user, system) = outcome.usage.cores(process);
        let (read, written) = process.moved(outcome.usage.from, outcome.usage.until);
        rows.row([
            process.label.clone(),
            table::number(user + system),
            table::number(system),
            table::bytes(process.peak_bytes() as f64),
            table::bytes(process.resident_bytes() as f64),
            table::bytes(read as f64),
            table::bytes(written as f64),
        ]);
    }
    rows
}

/// Single figures, with what they are to be.
#[must_use]
pub fn facts(outcome: &Outcome) -> Table {
    let mut rows = Table::new(&[
        ("figure", Align::Left),
        ("value", Align::Right),
        ("bar", Align::Right),
        ("", Align::Left),
    ]);
    for fact in &outcome.facts {
        rows.row([
            fact.title.clone(),
            table::quantity(fact.value, fact.unit),
            fact.bar.map(|bar| table::quantity(bar, fact.unit)).unwrap_or_default(),
            super::flows::verdict(fact.passes()).to_owned(),
        ]);
    }
    rows
}

/// What others have published of what was measured.
#[must_use]
pub fn published(outcomes: &[Outcome]) -> Table {
    let mut rows = Table::new(&[
        ("published", Align::Left),
        ("of", Align::Left),
        ("value", Align::Right),
        ("source", Align::Left),
    ]);
    let mut seen = Vec::new();
    for figure in outcomes.iter().flat_map(|outcome| &outcome.published) {
        if seen.contains(&&figure.id) {
            continue;
        }
        seen.push(&figure.id);
        rows.row([
            figure.metric.clone(),
            figure.system.clone(),
            table::number(figure.value),
            figure.source.clone(),
        ]);
    }
    rows
}

/// What the figures mean, below them.
pub const NOTES: &str = "Nodes and generator are processes of their own on one machine and share its cores; every node keeps its chain \
     durably.\nWhat others have published was measured on other machines: only what one run measures on one machine compares.\n";

/// Everything as text.
#[must_use]
pub fn text(outcomes: &[Outcome], styled: bool) -> String {
    let mut parts = vec![rates(outcomes).render(styled) + NOTES];
    for outcome in outcomes {
        let mut part = format!("{}:\n{}", outcome.title, facts(outcome).render(styled));
        if let Some(ceiling) = &outcome.ceiling {
            let limit = table::quantity(ceiling.rate, outcome.unit);
            part.push_str(&format!("limit: {limit}, {}\n", ceiling.name));
        }
        outcome.notes.iter().for_each(|note| part.push_str(&format!("{note}\n")));
        parts.push(format!("{part}\n{}", processes(outcome).render(styled)));
    }
    let published = published(outcomes);
    if !published.is_empty() {
        parts.push(published.render(styled));
    }
    parts.join("\n")
}

/// Everything as a page; `facts` say where it was measured.
#[must_use]
pub fn page(outcomes: &[Outcome], about: Vec<(String, String)>) -> Page {
    let tile = |outcome: &Outcome| {
        let (bar, beyond) = outcome.bars?;
        Some(Tile {
            name: outcome.title.clone(),
            value: table::quantity(outcome.rate, outcome.unit),
            note: format!("bar {}, beyond it {}", table::number(bar), table::number(beyond)),
            passes: Some(outcome.rate >= bar),
        })
    };
    let short = vec![
        Block::Tiles(outcomes.iter().filter_map(tile).collect()),
        Block::Table("What was measured".into(), rates(outcomes)),
        Block::Note(NOTES.replace('\n', " ")),
    ];
    let mut sections = vec![Section { title: "In short".into(), blocks: short }];
    for outcome in outcomes {
        let mut blocks = vec![Block::Table("Figures".into(), facts(outcome))];
        blocks.extend(outcome.notes.iter().cloned().map(Block::Note));
        if let Some(ceiling) = &outcome.ceiling {
            let limit = table::quantity(ceiling.rate, outcome.unit);
            blocks.push(Block::Note(format!("Limit: {limit}, {}", ceiling.name)));
        }
        blocks.push(Block::Table("Processes".into(), processes(outcome)));
        sections.push(Section { title: outcome.title.clone(), blocks });
    }
    let published = published(outcomes);
    if !published.is_empty() {
        let blocks = vec![Block::Table("Beside what was measured here".into(), published)];
        sections.push(Section { title: "Published figures".into(), blocks });
    }
    Page { title: "Tallystick: the chain, measured".into(), facts: about, sections }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ceiling::Ceiling;
    use crate::chain::outcome::Usage;
    use crate::fact::Fact;
    use crate::processes::{Reading, Sample, Series};
    use crate::recorder::Recorder;
    use crate::report::page::tests::assert_well_formed;

    fn outcome(title: &str) -> Outcome {
        let sample = |at: u64| Sample {
            at: Duration::from_secs(at),
            reading: Reading { user: Duration::from_millis(at * 500), ..Reading::default() },
        };
        let series = |label: &str| Series { label: label.to_owned(), samples: vec![sample(0), sample(4)] };
        let mut latency = Recorder::new();
        latency.record_latency(Duration::from_millis(1500), 10);
        Outcome {
            name: "calls-qbft".into(),
            title: title.to_owned(),
            settings: Vec::new(),
            rate: 1_234.0,
            unit: "tx/s",
            bars: Some((1_000.0, 2_000.0)),
            latency: Some(latency),
            facts: vec![
                Fact::new("lost", "lost", 3.0, "").at_most(0.0),
                Fact::new("block_min", "least", 1.9, "s").at_least(1.8),
            ],
            usage: Usage {
                processes: vec![series("follower"), series("validator 1"), series(GENERATOR)],
                from: Duration::ZERO,
                until: Duration::from_secs(4),
            },
            ceiling: Some(Ceiling { name: "5 recoveries".into(), rate: 4_936.0 }),
            published: crate::published::figure("besu-1.5.0-tps").into_iter().collect(),
            comparable: true,
            notes: vec!["refused 7: <the pool is full>".into()],
        }
    }

    #[test]
    fn a_run_is_shown_with_its_bars_limit_and_what_is_published() {
        let outcomes = [outcome("500 a second"), outcome("1000 a second")];
        let shown = text(&outcomes, false);
        let wanted = [
            "1,234 tx/s",
            "25.0 %",
            "1.50 s",
            "missed",
            "reached",
            "5 recoveries",
            "refused 7",
            "350",
            "follower",
        ];
        for wanted in wanted {
            assert!(shown.contains(wanted), "{wanted} in {shown}");
        }
        // Two nodes keep half a core busy each, the generator another half.
        let line = shown.lines().find(|line| line.starts_with("500 a second ")).unwrap();
        assert!(line.contains("1.00") && line.contains("0.500"), "{line}");
        assert_eq!(shown.matches("2020").count(), 1, "a figure is shown once");
        let html = page(&outcomes, vec![("processor".into(), "a <fast> one".into())]).render();
        assert_well_formed(&html);
        assert!(html.contains("&lt;the pool is full&gt;") && html.contains("1,234 tx/s"), "{html}");
    }
}
