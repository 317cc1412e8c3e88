//! Settlement over Kafka in tables: rate, latency, and what each process and each hop takes.

use crate::cluster::alone::{Alone, Prediction, REPLICAS, predict};
use crate::cluster::network::{Outcome, Used};
use crate::cluster::takeover::{self, Takeovers};
use crate::cluster::{Through, Traffic, limits};
use crate::limits::Limit;
use crate::result::{Better, Record};
use crate::settlement::{self, Run};
use crate::stages;
use crate::statistics::median;
use crate::table::{self, Align, Table};
use std::collections::BTreeMap;
use std::time::Duration;
use tally_settlement::process::Role;

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

    /// The share of the broker's time that the hops use: bytes appended as a share of what it can take, and bytes
    /// read as a share of what it can give.
    #[must_use]
    pub fn share(&self, limits: &[Limit]) -> Option<f64> {
        let (produce, consume) = (limits::best(limits, "produce")?, limits::best(limits, "consume")?);
        Some(self.appended / produce + self.read / consume)
    }
}

/// What each process used for a payment.
#[must_use]
pub fn processes(outcome: &Outcome, styled: bool) -> String {
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
    rows.render(styled)
}

/// What went through each kind of topic for a payment.
#[must_use]
pub fn hops(outcome: &Outcome, hops: &Hops, limits: &[Limit], styled: bool) -> String {
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
    let mut text = rows.render(styled);
    if let (Some(share), Some(produce), Some(consume)) =
        (hops.share(limits), limits::best(limits, "produce"), limits::best(limits, "consume"))
    {
        text.push_str(&format!(
            "Of the broker's byte limit: {} (bar 50 %, beyond 70 %): {} of {} appended a second and {} of {} read.\n",
            table::quantity(share, "share"),
            table::bytes(hops.appended),
            table::bytes(produce),
            table::bytes(hops.read),
            table::bytes(consume),
        ));
    }
    text
}

/// The most and the least of what a run is to reach, in payments a second.
pub const BARS: (f64, f64) = (120_000.0, 250_000.0);

/// Rate and latency of runs over Kafka, beside what was published of a whole network.
#[must_use]
pub fn runs<'o>(outcomes: impl IntoIterator<Item = (&'o str, &'o Outcome)>, styled: bool) -> String {
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
        ("refused", Align::Right),
    ]);
    let published = crate::published::figure("rln-network-aggregate");
    for (title, outcome) in outcomes {
        let of = outcome.run.latency.percentiles();
        let shown = |us: u64| table::duration(Duration::from_micros(us));
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
            table::count(outcome.run.refused),
        ]);
    }
    rows.render(styled)
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

/// The record of a run over Kafka.
#[must_use]
pub fn record(outcome: &Outcome, run: &Run, split: Split, limits: &[Limit]) -> Record {
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
    match crate::published::figure("rln-network-aggregate") {
        Some(figure) => record.published(figure),
        None => record,
    }
}

/// The record of a stage alone; `split` is how many instances there were of the stages that split.
#[must_use]
pub fn alone_record(one: &Alone, split: u16, run: &Run) -> Record {
    let (written, read) = one.bytes();
    let record = Record::new(stages::EXPERIMENT, &format!("{} over Kafka", one.role.name()))
        .setting("log", "kafka")
        .setting("instances", one.instances)
        .setting("split", split)
        .setting("legs", run.workload.mix.legs())
        .setting("batch", run.batch)
        .setting("payments", one.payments)
        .metric("rate_tps", one.rate(), "tx/s", Better::Higher)
        .metric("cpu_ns_per_transaction", one.per_payment(one.cpu), "ns", Better::Lower)
        .metric("written_per_transaction", written, "B", Better::Lower)
        .metric("read_per_transaction", read, "B", Better::Lower)
        .metric("commits", one.commits as f64, "commits", Better::Lower);
    match one.broker {
        Some(time) => record.metric("broker_ns_per_transaction", one.per_payment(time), "ns", Better::Lower),
        None => record,
    }
}

/// The record of takeovers.
#[must_use]
pub fn takeover_record(found: &Takeovers, options: &takeover::Options) -> Record {
    Record::new(settlement::EXPERIMENT, "sequencer takeover over Kafka")
        .setting("rate_tps", options.rate)
        .setting("session_ms", options.session_ms)
        .sampled("without_sequencer", found.seconds.clone(), "s", Better::Lower)
        .sampled("heard_after", found.heard.clone(), "s", Better::Lower)
        .metric("records_followed", found.records as f64, "records", Better::Higher)
}

/// Each stage alone between its topics, and what Kafka costs there; `memory` is what each took alone on batches in memory.
#[must_use]
pub fn stages(alone: &[Alone], memory: &[stages::Measured], legs: u8, styled: bool) -> String {
    let mut rows = Table::new(&[
        ("stage", Align::Left),
        ("instances", Align::Right),
        ("tx/s", Align::Right),
        ("published, one", Align::Right),
        ("times", Align::Right),
        ("CPU each", Align::Right),
        ("in memory", Align::Right),
        ("Kafka's client", Align::Right),
        ("broker", Align::Right),
        ("B written", Align::Right),
        ("B read", Align::Right),
        ("payments a commit", Align::Right),
    ]);
    for one in alone {
        let stage = in_memory(one.role);
        let found = memory.iter().find(|m| Some(m.stage) == stage && m.legs == legs && !m.signed);
        let published = stage.and_then(stages::Stage::published);
        let cpu = one.per_payment(one.cpu);
        let (written, read) = one.bytes();
        let shown = |ns: f64| table::quantity(ns, "ns");
        rows.row([
            one.role.name().to_owned(),
            one.instances.to_string(),
            table::number(one.rate()),
            published.map_or(String::new(), |figure| table::number(figure.value)),
            published.map_or(String::new(), |figure| {
                format!("{}×", table::number(one.rate() / f64::from(one.instances) / figure.value))
            }),
            shown(cpu),
            found.map_or("–".to_owned(), |found| shown(found.nanoseconds())),
            found.map_or("–".to_owned(), |found| shown(cpu - found.nanoseconds())),
            one.broker.map_or("–".to_owned(), |time| shown(one.per_payment(time))),
            table::number(written),
            table::number(read),
            table::number(one.payments as f64 / one.commits.max(1) as f64),
        ]);
    }
    let mut text = rows.render(styled);
    text.push_str(
        "Each stage's processes between topics in which all that they read lies ready; nothing else runs but the broker, on \
         the same cores.\nKafka's client: what the processes take beyond the stage's own step on batches in memory: each \
         byte read is fetched, checked (CRC),\ncopied out of the client and decoded; each byte written is encoded, copied \
         into the client, checked and sent; a commit is a request\nto the coordinator and a marker in each partition, paid \
         once for a turn. Times: of one instance.\n",
    );
    text
}

fn in_memory(role: Role) -> Option<stages::Stage> {
    Some(match role {
        Role::Scheduler => stages::Stage::Scheduler,
        Role::Approver => stages::Stage::Approver,
        Role::Assembler => stages::Stage::Assembler,
        Role::Sequencer => stages::Stage::Sequencer,
        Role::Updater => stages::Stage::Updater,
        Role::Gateway => return None,
    })
}

/// What more machines are predicted to do.
#[must_use]
pub fn predictions(alone: &[Alone], cores: usize, styled: bool) -> String {
    let mut rows = Table::new(&[
        ("machines like this", Align::Right),
        ("tx/s", Align::Right),
        ("limited by", Align::Left),
    ]);
    for machines in [1, 10, 100] {
        let Prediction { machines, rate, by } = predict(alone, machines, cores);
        rows.row([machines.to_string(), table::number(rate), by.to_owned()]);
    }
    let mut text = rows.render(styled);
    text.push_str(&format!(
        "A model, not a measurement. Assumed: a payment takes the processor time there that it took above, the brokers' for \
         each of {REPLICAS}\ncopies where there is more than one machine; {cores} cores each; the work spreads evenly over \
         schedulers, assemblers and institutions; only\nthe sequencer is not split. Left out: the network between \
         machines, skew, rebalances, the generator. So it is the most there can be.\n"
    ));
    text
}

/// How long there was no sequencer.
#[must_use]
pub fn takeovers(found: &Takeovers, styled: bool) -> String {
    let mut rows = Table::new(&[
        ("sequencer killed", Align::Right),
        ("without one: median", Align::Right),
        ("longest", Align::Right),
        ("heard after: median", Align::Right),
        ("longest", Align::Right),
        ("bar", Align::Right),
        ("beyond", Align::Right),
    ]);
    let longest = |samples: &[f64]| samples.iter().copied().fold(0.0, f64::max);
    let of = |samples: &[f64]| median(samples).unwrap_or_default();
    rows.row([
        format!("{} times", found.seconds.len()),
        table::quantity(of(&found.seconds), "s"),
        table::quantity(longest(&found.seconds), "s"),
        table::quantity(of(&found.heard), "s"),
        table::quantity(longest(&found.heard), "s"),
        "5 s".to_owned(),
        "1 s".to_owned(),
    ]);
    let mut text = rows.render(styled);
    text.push_str(&format!(
        "From the last record of the sequencer that was killed (kill -9, under load) to the first of the one that waited. {} \
         records with {}\ndecisions were followed: each began where the one before it ended, in the order and in the Merkle \
         log: no gap, no fork.\n",
        table::count(found.records),
        table::count(found.decisions)
    ));
    text
}
