//! Settlement over Kafka in tables: rate, latency, and what each process and each hop takes.

pub mod stages;
pub mod takeover;
pub mod witnesses;

use super::page::{Block, Section, Tile};
use crate::ceiling::Ceiling;
use crate::cluster::network::{Outcome, Used};
use crate::cluster::{Through, Traffic, limits};
use crate::limits::{Limit, find};
use crate::result::{Better, Record};
use crate::settlement::{self, Run};
use crate::statistics::median;
use crate::table::{self, Align, Table};
use std::collections::BTreeMap;
use std::time::Duration;

/// What went through the topics of a run, and how much of what the broker can do that is.
#[derive(Debug, Clone, PartialEq)]
pub struct Hops {
    /// By topic, the participants' topics of one kind together.
    pub topics: BTreeMap<String, Through>,
    /// Bytes appended a second, all topics together.
    pub appended: f64,
    /// Bytes read a second, all topics together.
    pub read: f64,
}

/// What the broker allows where each unit appends and reads so many bytes: bytes appended as a share of what it can take,
/// and bytes read as a share of what it can give; `units` of them a second were done.
pub(super) fn broker((appended, read): (f64, f64), units: f64, limits: &[Limit]) -> Option<Ceiling> {
    let (produce, consume) = (limits::best(limits, "produce")?, limits::best(limits, "consume")?);
    let each = (appended / produce + read / consume) / units.max(f64::MIN_POSITIVE);
    Some(Ceiling { name: "the broker's bytes appended and read".to_owned(), rate: 1.0 / each })
}

impl Hops {
    /// What went through while a run was measured.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let mut topics: BTreeMap<String, Through> = BTreeMap::new();
        let traffic: Vec<&Traffic> = outcome.used.iter().map(|used| &used.counters.traffic).collect();
        for (topic, through) in traffic.into_iter().flatten() {
            let name = topic.split_once('.').map_or(topic.as_str(), |(_, name)| name);
            let kind = name.split('.').next().unwrap_or(name);
            topics.entry(kind.to_owned()).or_default().add(*through);
        }
        let seconds = outcome.run.elapsed.as_secs_f64();
        let sum = |of: fn(&Through) -> u64| topics.values().map(of).sum::<u64>() as f64 / seconds;
        Self {
            appended: sum(|through| through.appended_bytes),
            read: sum(|through| through.read_bytes),
            topics,
        }
    }

    /// The share of the broker's time that the hops use.
    #[must_use]
    pub fn share(&self, limits: &[Limit]) -> Option<f64> {
        broker((self.appended, self.read), 1.0, limits)?.share(1.0)
    }
}

/// What each process used for a payment.
#[must_use]
pub fn processes(outcome: &Outcome) -> Table {
    let mut rows = Table::new(&[
        ("process", Align::Left),
        ("cores", Align::Right),
        ("CPU each", Align::Right),
        ("in the kernel", Align::Right),
        ("memory", Align::Right),
        ("commits/s", Align::Right),
        ("a commit takes", Align::Right),
        ("batches a turn", Align::Right),
    ]);
    let run = &outcome.run;
    let seconds = run.elapsed.as_secs_f64();
    let mut row = |used: &Used| {
        let counters = &used.counters;
        let commits = counters.commits as f64;
        let per_commit = |value: f64| if commits > 0.0 { value / commits } else { 0.0 };
        let counts = counters.commits > 0;
        rows.row([
            used.label.clone(),
            table::number(used.cpu().as_secs_f64() / seconds),
            table::quantity(run.per_payment(used.cpu()), "ns"),
            table::quantity(run.per_payment(used.cpu.1), "ns"),
            table::bytes(used.resident_bytes as f64),
            if counts { table::number(commits / seconds) } else { String::new() },
            if counts {
                table::duration(Duration::from_nanos(per_commit(counters.commit_ns as f64) as u64))
            } else {
                String::new()
            },
            if counts { table::number(per_commit(counters.steps as f64)) } else { String::new() },
        ]);
    };
    outcome.used.iter().for_each(&mut row);
    let cpu: Duration = outcome.used.iter().map(Used::cpu).sum();
    let kernel: Duration = outcome.used.iter().map(|used| used.cpu.1).sum();
    rows.row([
        "all".to_owned(),
        table::number(cpu.as_secs_f64() / seconds),
        table::quantity(run.per_payment(cpu), "ns"),
        table::quantity(run.per_payment(kernel), "ns"),
        table::bytes(outcome.used.iter().map(|used| used.resident_bytes as f64).sum()),
    ]);
    rows
}

/// What went through each kind of topic for a payment.
#[must_use]
pub fn hops(outcome: &Outcome, hops: &Hops) -> Table {
    let mut rows = Table::new(&[
        ("hop", Align::Left),
        ("records/s", Align::Right),
        ("a record", Align::Right),
        ("B each", Align::Right),
        ("read B each", Align::Right),
        ("appended/s", Align::Right),
        ("read/s", Align::Right),
    ]);
    let (made, seconds) = (outcome.run.made.max(1) as f64, outcome.run.elapsed.as_secs_f64());
    let mut all = Through::default();
    for (name, through) in &hops.topics {
        all.add(*through);
        if through.appended_bytes + through.read_bytes == 0 {
            continue;
        }
        rows.row([
            name.clone(),
            table::number(through.appended_records as f64 / seconds),
            table::bytes(through.appended_bytes as f64 / through.appended_records.max(1) as f64),
            table::number(through.appended_bytes as f64 / made),
            table::number(through.read_bytes as f64 / made),
            table::bytes(through.appended_bytes as f64 / seconds),
            table::bytes(through.read_bytes as f64 / seconds),
        ]);
    }
    rows.row([
        "all".to_owned(),
        table::number(all.appended_records as f64 / seconds),
        String::new(),
        table::number(all.appended_bytes as f64 / made),
        table::number(all.read_bytes as f64 / made),
        table::bytes(hops.appended),
        table::bytes(hops.read),
    ]);
    rows
}

/// What the hops use of what the broker can do, in words.
fn of_limit(hops: &Hops, limits: &[Limit]) -> Option<String> {
    let share = hops.share(limits)?;
    let (produce, consume) = (limits::best(limits, "produce")?, limits::best(limits, "consume")?);
    Some(format!(
        "Of the broker's byte limit: {} (bar 50 %, beyond 70 %): {} of {} appended a second and {} of {} read.",
        table::quantity(share, "share"),
        table::bytes(hops.appended),
        table::bytes(produce),
        table::bytes(hops.read),
        table::bytes(consume),
    ))
}

/// The most and the least of what a run is to reach, in payments a second.
pub const BARS: (f64, f64) = (120_000.0, 250_000.0);

/// Rate and latency of runs over Kafka, beside what was published of a whole network.
#[must_use]
pub fn runs<'o>(outcomes: impl IntoIterator<Item = (&'o str, &'o Outcome)>, limits: &[Limit]) -> Table {
    let mut rows = Table::new(&[
        ("whole network over Kafka", Align::Left),
        ("tx/s", Align::Right),
        ("bar", Align::Right),
        ("beyond", Align::Right),
        ("published", Align::Right),
        ("p50", Align::Right),
        ("p90", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("CPU each, all", Align::Right),
        ("of broker's limit", Align::Right),
        ("refused", Align::Right),
    ]);
    let published = crate::published::figure("rln-network-aggregate");
    for (title, outcome) in outcomes {
        let of = outcome.run.latency.percentiles();
        let shown = |us: u64| table::duration(Duration::from_micros(us));
        let cpu: Duration = outcome.used.iter().map(Used::cpu).sum();
        rows.row([
            title.to_owned(),
            table::number(outcome.run.rate),
            table::number(BARS.0),
            table::number(BARS.1),
            published.map_or(String::new(), |figure| table::number(figure.value)),
            shown(of.p50_us),
            shown(of.p90_us),
            shown(of.p99_us),
            shown(of.max_us),
            table::quantity(outcome.run.per_payment(cpu), "ns"),
            Hops::of(outcome).share(limits).map_or("–".to_owned(), |share| table::quantity(share, "share")),
            table::count(outcome.run.refused),
        ]);
    }
    rows
}

/// The run whose rate is the median, or the one above it of an even number; none of no runs.
#[must_use]
pub fn middle(outcomes: &[Outcome]) -> Option<&Outcome> {
    let mut sorted: Vec<_> = outcomes.iter().collect();
    sorted.sort_by(|a, b| a.run.rate.total_cmp(&b.run.rate));
    sorted.get(sorted.len() / 2).copied()
}

/// Runs of the same network, and what processes and hops took in the one whose rate is the median. `verified` is how many
/// signatures a second the machine verifies, where payments were signed.
#[must_use]
pub fn settlement(outcomes: &[Outcome], limits: &[Limit], verified: Option<&Ceiling>) -> Vec<Section> {
    let titles: Vec<String> = (1..=outcomes.len()).map(|number| format!("run {number}")).collect();
    let table = runs(titles.iter().map(String::as_str).zip(outcomes), limits);
    let Some(middle) = middle(outcomes) else { return Vec::new() };
    let rates: Vec<f64> = outcomes.iter().map(|outcome| outcome.run.rate).collect();
    let shares: Vec<f64> = outcomes.iter().filter_map(|outcome| Hops::of(outcome).share(limits)).collect();
    let rate = median(&rates).unwrap_or_default();
    let mut tiles = vec![Tile {
        name: "whole network over Kafka".into(),
        value: table::rate(rate),
        note: format!("bar {}, beyond it {}", table::number(BARS.0), table::number(BARS.1)),
        passes: verified.is_none().then_some(rate >= BARS.0),
    }];
    let mut note = format!("Median of {}: {}", outcomes.len(), table::rate(rate));
    if let Some(share) = median(&shares) {
        note.push_str(&format!(", {} of the broker's byte limit", table::quantity(share, "share")));
        tiles.push(Tile {
            name: "of the broker's byte limit".into(),
            value: table::quantity(share, "share"),
            note: "bar 50 %, beyond it 70 %".into(),
            passes: Some(share >= 0.5),
        });
    }
    if let Some(verified) = verified {
        let share = table::quantity(verified.share(rate).unwrap_or_default(), "share");
        note.push_str(&format!(
            "; signed: {share} of the {} that batch verification alone does here",
            table::rate(verified.rate)
        ));
    }
    note.push('.');
    let hops = Hops::of(middle);
    let mut below = vec![Block::Table("Topics".into(), self::hops(middle, &hops))];
    below.extend(of_limit(&hops, limits).map(Block::Note));
    vec![
        Section {
            title: "Whole network".into(),
            blocks: vec![Block::Tiles(tiles), Block::Table("Runs".into(), table), Block::Note(note)],
        },
        Section {
            title: "Processes, in the median run".into(),
            blocks: vec![Block::Table("Processes".into(), processes(middle))],
        },
        Section { title: "Topics, in the median run".into(), blocks: below },
    ]
}

/// What the broker takes and gives through the same client.
#[must_use]
pub fn limits(limits: &[Limit]) -> Section {
    let mut rows = Table::new(&[
        ("records of", Align::Left),
        ("produced", Align::Right),
        ("records/s", Align::Right),
        ("consumed", Align::Right),
        ("records/s", Align::Right),
        ("both at once", Align::Right),
        ("records/s", Align::Right),
    ]);
    for size in limits::SIZES {
        let name = limits::label(size);
        let found = |kind: &str| find(limits, &format!("kafka-{kind}-{name}")).map(|limit| limit.value);
        if found("produce").is_none() {
            continue;
        }
        let mut row = vec![table::bytes(size as f64)];
        for kind in ["produce", "consume", "both"] {
            let value = found(kind);
            row.push(value.map_or("–".to_owned(), |value| table::quantity(value, "B/s")));
            row.push(value.map_or("–".to_owned(), |value| table::number(value / size as f64)));
        }
        rows.row(row);
    }
    let note = "Payload bytes a second of transactions with acks=all, and of committed reads, through the client that the \
                stages use; clients and broker on the same cores. Both at once: appended and committed while others read \
                them, each byte counted once. Shares elsewhere are of the largest produced and consumed.";
    Section {
        title: "Limits of the broker".into(),
        blocks: vec![Block::Table("The broker's limits".into(), rows), Block::Note(note.into())],
    }
}

/// How a network is split, and what it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// How many schedulers.
    pub schedulers: u16,
    /// How many assemblers.
    pub assemblers: u16,
    /// Whether record batches are compressed.
    pub lz4: bool,
}

/// The record of a run over Kafka. `verified` is how many signatures a second the machine verifies, where payments were
/// signed.
#[must_use]
pub fn record(
    outcome: &Outcome,
    run: &Run,
    split: Split,
    limits: &[Limit],
    verified: Option<&Ceiling>,
) -> Record {
    let hops = Hops::of(outcome);
    let mut record = settlement::record("kafka", run, &outcome.run)
        .setting("log", "kafka")
        .setting("acks", "all")
        .setting("schedulers", split.schedulers)
        .setting("assemblers", split.assemblers)
        .setting("lz4", split.lz4);
    let made = outcome.run.made.max(1) as f64;
    let seconds = outcome.run.elapsed.as_secs_f64();
    let mut all = 0.0;
    for used in &outcome.used {
        let name = used.label.replace(' ', "_");
        let each = outcome.run.per_payment(used.cpu());
        all += each;
        record = record.metric(&format!("{name}_ns_per_transaction"), each, "ns", Better::Lower);
        if used.counters.commits > 0 {
            let commit = used.counters.commit_ns as f64 / used.counters.commits as f64 / 1e9;
            record = record.metric(&format!("{name}_commit"), commit, "s", Better::Lower).metric(
                &format!("{name}_commits"),
                used.counters.commits as f64 / seconds,
                "1/s",
                Better::Lower,
            );
        }
    }
    record = record
        .metric("all_ns_per_transaction", all, "ns", Better::Lower)
        .metric("appended", hops.appended, "B/s", Better::Higher)
        .metric("read", hops.read, "B/s", Better::Higher);
    for (topic, through) in &hops.topics {
        let each = through.appended_bytes as f64 / made;
        record = record.metric(&format!("{topic}_bytes_per_transaction"), each, "B", Better::Lower);
    }
    if let Some(share) = hops.share(limits) {
        record = record.metric("share_of_broker", share, "share", Better::Higher);
    }
    let rate = outcome.run.rate;
    if let Some(broker) = broker((hops.appended, hops.read), rate, limits) {
        record = record.against(&broker, rate);
    }
    if let Some(verified) = verified {
        record = record.against(verified, rate);
    }
    match crate::published::figure("rln-network-aggregate") {
        Some(figure) => record.published(figure),
        None => record,
    }
}
