//! What was measured of the flows ledger, in tables and as a page.

use std::time::Duration;

use super::chart::{Axis, Bar, Bars, Chart, Line};
use super::page::{Block, Page, Section, Tile};
use crate::flows::outcome::{Fact, Loaded, Outcome};
use crate::flows::suite::{Findings, Sweep};
use crate::processes::Series;
use crate::table::{self, Align, Table};

/// The most flows of a node whose steps make a bar.
const SHOWN_STEPS: usize = 12;

fn duration_us(us: u64) -> String {
    table::duration(Duration::from_micros(us))
}

/// Throughput and latency of each load, with what it costs and what the machine allows.
#[must_use]
pub fn loads<'o>(outcomes: impl IntoIterator<Item = &'o Outcome>) -> Table {
    let mut rows = Table::new(&[
        ("flows", Align::Left),
        ("tx/s", Align::Right),
        ("bar", Align::Right),
        ("beyond", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("CPU each", Align::Right),
        ("cores busy", Align::Right),
        ("driver", Align::Right),
        ("of its limit", Align::Right),
        ("published", Align::Right),
        ("times", Align::Right),
    ]);
    for outcome in outcomes {
        let Some(load) = &outcome.load else { continue };
        let of = load.measured.latency.percentiles();
        let bar = |bar: Option<f64>| bar.map(table::number).unwrap_or_default();
        // A median latency is compared with a median latency, a rate with a rate.
        // What is no rate and no latency of flows stands among what is published, and is not compared here.
        let published = outcome.published.first().filter(|_| outcome.name != "memory");
        let times = published.map(|figure| {
            if figure.id.ends_with("p50") {
                figure.value / (of.p50_us.max(1) as f64 / 1e6)
            } else {
                outcome.rate() / figure.value
            }
        });
        let value = |figure: &crate::published::Figure| {
            if figure.id.ends_with("p50") {
                table::quantity(figure.value, "s")
            } else {
                table::number(figure.value)
            }
        };
        rows.row([
            outcome.title.clone(),
            table::number(outcome.rate()),
            bar(outcome.bars.map(|(bar, _)| bar)),
            bar(outcome.bars.map(|(_, beyond)| beyond)),
            duration_us(of.p50_us),
            duration_us(of.p99_us),
            duration_us(of.max_us),
            table::quantity(load.all_cpu_ns(), "ns"),
            table::number(load.cores()),
            driver_share(load).map(|share| table::quantity(share, "share")).unwrap_or_default(),
            outcome.share().map(|share| table::quantity(share, "share")).unwrap_or_default(),
            published.map(|figure| value(figure)).unwrap_or_default(),
            times.map(|times| format!("{}×", table::number(times))).unwrap_or_default(),
        ]);
    }
    rows
}

/// The driver's part of the processor time.
fn driver_share(load: &Loaded) -> Option<f64> {
    let driver = load.processes.iter().find(|process| process.label == "driver")?;
    let (user, system) = load.cpu_ns(driver);
    let all = load.all_cpu_ns();
    (all > 0.0).then(|| (user + system) / all)
}

/// What each process used for a load.
#[must_use]
pub fn processes(load: &Loaded) -> Table {
    let mut rows = Table::new(&[
        ("process", Align::Left),
        ("user, each flow", Align::Right),
        ("kernel, each flow", Align::Right),
        ("cores", Align::Right),
        ("memory, most", Align::Right),
        ("read", Align::Right),
        ("written", Align::Right),
        ("commits", Align::Right),
        ("each", Align::Right),
        ("units in one", Align::Right),
        ("changes in one", Align::Right),
    ]);
    for process in &load.processes {
        let (user, system) = load.cpu_ns(process);
        let (read, written) = process.moved(load.from, load.until());
        let commits =
            load.commits.iter().find(|(node, _)| *node == process.label).map(|(_, commits)| commits);
        let commits = commits.filter(|commits| commits.batches > 0);
        let of = |value: Option<String>| value.unwrap_or_default();
        rows.row([
            process.label.clone(),
            table::quantity(user, "ns"),
            table::quantity(system, "ns"),
            table::number((user + system) * load.measured.rate / 1e9),
            table::bytes(process.peak_bytes() as f64),
            table::bytes(read as f64),
            table::bytes(written as f64),
            of(commits.map(|commits| table::count(commits.batches))),
            of(commits.map(|commits| table::quantity(commits.mean_s, "s"))),
            of(commits.map(|commits| table::number(commits.units))),
            of(commits.map(|commits| table::number(commits.writes))),
        ]);
    }
    rows
}

/// How long the steps of flows took, on average.
#[must_use]
pub fn steps(load: &Loaded) -> Table {
    let mut rows = Table::new(&[
        ("node", Align::Left),
        ("flow", Align::Left),
        ("step", Align::Left),
        ("times", Align::Right),
        ("mean", Align::Right),
    ]);
    for step in &load.steps {
        rows.row([
            step.node.clone(),
            step.flow.clone(),
            step.step.clone(),
            table::count(step.count),
            table::quantity(step.mean_s, "s"),
        ]);
    }
    rows
}

/// Times and sizes, with what they are to be.
#[must_use]
pub fn facts<'o>(outcomes: impl IntoIterator<Item = &'o Outcome>) -> Table {
    let mut rows = Table::new(&[
        ("experiment", Align::Left),
        ("figure", Align::Left),
        ("value", Align::Right),
        ("bar", Align::Right),
        ("", Align::Left),
    ]);
    for outcome in outcomes {
        for fact in &outcome.facts {
            rows.row([
                outcome.title.clone(),
                fact.title.clone(),
                table::quantity(fact.value, fact.unit),
                fact.bar.map(|bar| table::quantity(bar, fact.unit)).unwrap_or_default(),
                verdict(fact.passes()).to_owned(),
            ]);
        }
    }
    rows
}

pub(super) fn verdict(passes: Option<bool>) -> &'static str {
    match passes {
        Some(true) => "reached",
        Some(false) => "missed",
        None => "",
    }
}

/// The points of a sweep.
#[must_use]
pub fn sweep(sweep: &Sweep) -> Table {
    let mut rows = Table::new(&[
        (sweep.axis, Align::Right),
        ("tx/s", Align::Right),
        ("p50", Align::Right),
        ("p90", Align::Right),
        ("p99", Align::Right),
        ("CPU each", Align::Right),
        ("cores busy", Align::Right),
    ]);
    for (value, outcome) in &sweep.points {
        let Some(load) = &outcome.load else { continue };
        let of = load.measured.latency.percentiles();
        rows.row([
            table::count(*value as u64),
            table::number(outcome.rate()),
            duration_us(of.p50_us),
            duration_us(of.p90_us),
            duration_us(of.p99_us),
            table::quantity(load.all_cpu_ns(), "ns"),
            table::number(load.cores()),
        ]);
    }
    rows
}

/// What others have published of what was measured.
#[must_use]
pub fn published(findings: &Findings) -> Table {
    let mut rows = Table::new(&[
        ("published", Align::Left),
        ("of", Align::Left),
        ("value", Align::Right),
        ("source", Align::Left),
    ]);
    let outcomes = findings.sweeps.iter().flat_map(|sweep| sweep.points.iter().map(|(_, outcome)| outcome));
    let mut seen = Vec::new();
    for figure in findings.outcomes.iter().chain(outcomes).flat_map(|outcome| &outcome.published) {
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
pub const NOTES: &str = "Parties, notary and driver are processes of their own on one machine, with mutual TLS 1.3 between nodes, gRPC over \
     TLS to\nthe driver, and every answer durable before it is given. A flow is timed from just before its request (in \
     open loop: from\nwhen it was to be made) to its completed result. Pay: each coin was issued in a transaction of its \
     own, which the payee\nmeets for the first time and verifies. CPU each: of all processes, the driver's included. Limit: \
     the signatures and the\ndurable writes that a payment needs, measured on this machine in this run, and nothing else \
     (`tally bench limits`).\nPublished figures were taken on other machines unless they say so.\n";

/// Everything as text.
#[must_use]
pub fn text(findings: &Findings, styled: bool) -> String {
    let mut parts = Vec::new();
    let all = &findings.outcomes;
    if all.iter().any(|outcome| outcome.load.is_some()) {
        parts.push(loads(all).render(styled) + NOTES);
    }
    let facts = facts(all);
    if !facts.is_empty() {
        parts.push(facts.render(styled));
    }
    for outcome in all.iter().filter(|outcome| is_detailed(outcome)) {
        let Some(load) = &outcome.load else { continue };
        parts.push(format!(
            "{}:\n{}\n{}",
            outcome.title,
            processes(load).render(styled),
            steps(load).render(styled)
        ));
    }
    for one in &findings.sweeps {
        parts.push(format!("{}:\n{}", one.title, sweep(one).render(styled)));
    }
    let published = published(findings);
    if !published.is_empty() {
        parts.push(published.render(styled));
    }
    parts.extend(findings.left_out.iter().map(|text| format!("Left out: {text}\n")));
    parts.join("\n")
}

fn is_detailed(outcome: &Outcome) -> bool {
    matches!(outcome.name.as_str(), "issue" | "pay") && outcome.load.is_some()
}

/// Everything as a page; `facts` say where it was measured.
#[must_use]
pub fn page(findings: &Findings, facts: Vec<(String, String)>) -> Page {
    let mut sections = vec![headlines(findings)];
    for outcome in findings.outcomes.iter().filter(|outcome| is_detailed(outcome)) {
        if let Some(load) = &outcome.load {
            sections.push(detail(outcome, load));
        }
    }
    sections.extend(findings.sweeps.iter().map(sweep_section));
    let published = published(findings);
    if !published.is_empty() {
        let note = "Every figure was taken on its own hardware: only a ratio between two systems measured in one run on \
                    one machine is a result.";
        let blocks =
            vec![Block::Table("Beside what was measured here".into(), published), Block::Note(note.into())];
        sections.push(Section { title: "Published figures".into(), blocks });
    }
    Page { title: "Tallystick: the flows ledger, measured".into(), facts, sections }
}

fn headlines(findings: &Findings) -> Section {
    let all = &findings.outcomes;
    let mut tiles: Vec<Tile> = Vec::new();
    for outcome in all {
        if let (Some((bar, beyond)), Some(_)) = (outcome.bars, &outcome.load) {
            tiles.push(Tile {
                name: outcome.title.clone(),
                value: format!("{}/s", table::number(outcome.rate())),
                note: format!("bar {}, beyond it {}", table::number(bar), table::number(beyond)),
                passes: Some(outcome.rate() >= bar),
            });
        }
        if let (Some(share), Some(ceiling), "pay") =
            (outcome.share(), &outcome.ceiling, outcome.name.as_str())
        {
            tiles.push(Tile {
                name: format!("{}: share of its limit", outcome.title),
                value: table::quantity(share, "share"),
                note: format!("bar 40 %, beyond it 70 %; limit {}/s", table::number(ceiling.rate)),
                passes: Some(share >= 0.4),
            });
        }
        let barred = |fact: &Fact| {
            let bar = fact.bar?;
            // Most say what they are only beside their experiment.
            let name = if fact.title.starts_with(&outcome.title) {
                fact.title.clone()
            } else {
                format!("{}: {}", outcome.title, fact.title)
            };
            Some(Tile {
                name,
                value: table::quantity(fact.value, fact.unit),
                note: format!("at most {}", table::quantity(bar, fact.unit)),
                passes: fact.passes(),
            })
        };
        tiles.extend(outcome.facts.iter().filter_map(barred));
    }
    let mut blocks = vec![Block::Tiles(tiles)];
    if all.iter().any(|outcome| outcome.load.is_some()) {
        blocks.push(Block::Table("Loads".into(), loads(all)));
        blocks.push(Block::Note(NOTES.replace('\n', " ")));
    }
    let facts = facts(all);
    if !facts.is_empty() {
        blocks.push(Block::Table("Times and sizes".into(), facts));
    }
    blocks.extend(findings.left_out.iter().map(|text| Block::Note(format!("Left out: {text}"))));
    Section { title: "In short".into(), blocks }
}

fn over_time(
    load: &Loaded,
    title: &str,
    unit: &'static str,
    points: impl Fn(&Series) -> Vec<(f64, f64)>,
) -> Block {
    let line = |process: &Series| Line { name: process.label.clone(), points: points(process) };
    Block::Chart(Chart {
        title: title.to_owned(),
        x: Axis::linear("seconds", "s"),
        y: Axis::linear("", unit),
        lines: load.processes.iter().map(line).collect(),
        marks: Vec::new(),
    })
}

fn detail(outcome: &Outcome, load: &Loaded) -> Section {
    let interval = load.measured.interval.as_secs_f64();
    let rate =
        load.measured.series.iter().enumerate().map(|(at, rate)| ((at as f64 + 0.5) * interval, *rate));
    let throughput = Chart {
        title: format!("{}: throughput over time", outcome.title),
        x: Axis::linear("seconds", "s"),
        y: Axis::linear("flows per second", "tx/s"),
        lines: vec![Line { name: "completed".into(), points: rate.collect() }],
        marks: outcome.bars.iter().map(|(bar, _)| ("bar".to_owned(), *bar)).collect(),
    };
    let memory = |process: &Series| {
        let point = |sample: &crate::processes::Sample| {
            (sample.at.as_secs_f64(), sample.reading.resident_bytes as f64)
        };
        process.samples.iter().map(point).collect()
    };
    let cores = |process: &Series| {
        // Each reading counts whole ticks of the clock: over half a second they are fine enough.
        let coarse: Vec<_> = process.samples.iter().copied().step_by(5).collect();
        let coarse = Series { label: String::new(), samples: coarse };
        coarse.cores().into_iter().map(|(at, cores)| (at.as_secs_f64(), cores)).collect()
    };
    let written = |process: &Series| {
        let first = process.samples.first().map_or(0, |sample| sample.reading.written_bytes);
        let point = |sample: &crate::processes::Sample| {
            (sample.at.as_secs_f64(), sample.reading.written_bytes.saturating_sub(first) as f64)
        };
        process.samples.iter().map(point).collect()
    };
    let blocks = vec![
        Block::Chart(throughput),
        over_time(load, "Cores that each process keeps busy", "", cores),
        over_time(load, "Resident memory", "B", memory),
        over_time(load, "Written to storage", "B", written),
        Block::Bars(cpu_bars(load)),
        Block::Bars(step_bars(load)),
        Block::Table("Processes, while measured".into(), processes(load)),
        Block::Table("Steps of flows; the last of each goes on until its durable end".into(), steps(load)),
    ];
    Section { title: outcome.title.clone(), blocks }
}

fn cpu_bars(load: &Loaded) -> Bars {
    let bar = |process: &Series| {
        let (user, system) = load.cpu_ns(process);
        Bar {
            name: process.label.clone(),
            parts: vec![("program".to_owned(), user), ("kernel".to_owned(), system)],
        }
    };
    let bars = load.processes.iter().map(bar).collect();
    Bars { title: "Processor time of one flow".into(), unit: "ns", bars }
}

/// One bar for each flow of each node.
fn step_bars(load: &Loaded) -> Bars {
    let mut bars: Vec<Bar> = Vec::new();
    for step in &load.steps {
        let name = format!("{} {}", step.node, step.flow);
        let part = (step.step.clone(), step.mean_s);
        match bars.iter_mut().find(|bar| bar.name == name) {
            Some(bar) if bar.parts.len() < SHOWN_STEPS => bar.parts.push(part),
            Some(_) => {}
            None => bars.push(Bar { name, parts: vec![part] }),
        }
    }
    Bars { title: "Time in each step".into(), unit: "s", bars }
}

fn sweep_section(sweep: &Sweep) -> Section {
    let x = || Axis { label: sweep.axis.to_owned(), unit: "", logarithmic: sweep.logarithmic };
    let points = |of: fn(&Outcome, &Loaded) -> f64| {
        let point = |(value, outcome): &(f64, Outcome)| Some((*value, of(outcome, outcome.load.as_ref()?)));
        sweep.points.iter().filter_map(point).collect::<Vec<_>>()
    };
    let line = |name: &str, points| Line { name: name.to_owned(), points };
    let throughput = Chart {
        title: "Throughput".into(),
        x: x(),
        y: Axis::linear("flows per second", "tx/s"),
        lines: vec![line("completed", points(|outcome, _| outcome.rate()))],
        marks: Vec::new(),
    };
    let latency = Chart {
        title: "Latency".into(),
        x: x(),
        y: Axis::logarithmic("from request to result", "s"),
        lines: vec![
            line("p50", points(|_, load| load.measured.latency.percentiles().p50_us as f64 / 1e6)),
            line("p90", points(|_, load| load.measured.latency.percentiles().p90_us as f64 / 1e6)),
            line("p99", points(|_, load| load.measured.latency.percentiles().p99_us as f64 / 1e6)),
        ],
        marks: Vec::new(),
    };
    let cpu = Chart {
        title: "Processor time of one flow".into(),
        x: x(),
        y: Axis::linear("all processes", "ns"),
        lines: vec![line("CPU", points(|_, load| load.all_cpu_ns()))],
        marks: Vec::new(),
    };
    let blocks = vec![
        Block::Chart(throughput),
        Block::Chart(latency),
        Block::Chart(cpu),
        Block::Table(sweep.title.to_owned(), self::sweep(sweep)),
    ];
    Section { title: sweep.title.to_owned(), blocks }
}
