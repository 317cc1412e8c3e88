//! Each stage alone between its topics: what it does, what Kafka costs there, and what more of them are predicted to do.

use crate::ceiling::Ceiling;
use crate::cluster::alone::{Alone, Repeated};
use crate::cluster::model::{self, ASSUMED, Cost, REPLICAS};
use crate::limits::Limit;
use crate::report::page::{Block, Section};
use crate::result::{Better, Record};
use crate::settlement::Run;
use crate::stages;
use crate::statistics::median;
use crate::table::{self, Align, Table};
use std::time::Duration;
use tally_settlement::process::Role;

/// The stage as it is measured in memory.
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

fn ns(value: f64) -> String {
    table::quantity(value, "ns")
}

fn known(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    value.map_or("–".to_owned(), shown)
}

/// The share of what the broker takes and gives that a stage uses at its rate.
#[must_use]
pub fn share(stage: &Repeated, limits: &[Limit]) -> Option<f64> {
    let shares: Option<Vec<f64>> =
        stage.runs.iter().map(|one| ceiling(one, limits)?.share(one.rate())).collect();
    median(&shares?)
}

/// What the broker allows of a stage.
fn ceiling(one: &Alone, limits: &[Limit]) -> Option<Ceiling> {
    super::broker(one.bytes(), 1.0, limits)
}

/// What each stage did, `instances` of those that split.
#[must_use]
pub fn alone(stages: &[Repeated], instances: u16, limits: &[Limit]) -> Section {
    let mut rows = Table::new(&[
        ("stage", Align::Left),
        ("instances", Align::Right),
        ("tx/s", Align::Right),
        ("published, one", Align::Right),
        ("times", Align::Right),
        ("CPU each", Align::Right),
        ("of it Kafka's client", Align::Right),
        ("broker", Align::Right),
        ("B written", Align::Right),
        ("B read", Align::Right),
        ("payments a commit", Align::Right),
        ("of broker's limit", Align::Right),
    ]);
    for stage in stages {
        let published = in_memory(stage.role()).and_then(stages::Stage::published);
        let each = |figure: &crate::published::Figure| {
            format!("{}×", table::number(stage.rate() / f64::from(stage.instances()) / figure.value))
        };
        rows.row([
            stage.role().name().to_owned(),
            stage.instances().to_string(),
            table::number(stage.rate()),
            published.map_or(String::new(), |figure| table::number(figure.value)),
            published.map_or(String::new(), each),
            ns(stage.each(|one| one.cpu)),
            ns(stage.each(|one| one.client)),
            known(stage.broker(), ns),
            table::number(stage.median(|one| one.bytes().0)),
            table::number(stage.median(|one| one.bytes().1)),
            // Who appends nothing commits nothing.
            known(
                Some(stage.median(|one| one.payments as f64 / one.commits as f64)).filter(|p| p.is_finite()),
                table::number,
            ),
            known(share(stage, limits), |share| table::quantity(share, "share")),
        ]);
    }
    let runs = stages.first().map_or(0, |stage| stage.runs.len());
    let what = if instances == 1 { "one instance" } else { "instances share the work" };
    let note = format!(
        "Each stage's processes between topics in which all that they read lies ready; nothing else runs but the broker, on \
         the same cores. Medians of {runs}. Times: of one instance. CPU each: of the processes that share the work, for a \
         payment; the broker's beside it. Of broker's limit: bytes appended as a share of what it takes, and bytes read as a \
         share of what it gives, through the same client in this run."
    );
    Section {
        title: format!("Stages alone over Kafka, {instances}"),
        blocks: vec![Block::Table(format!("Each stage alone over Kafka: {what}"), rows), Block::Note(note)],
    }
}

/// One stage on Kafka and in files.
struct Compared<'a> {
    kafka: &'a Repeated,
    files: &'a Repeated,
}

/// What is compared of one stage, or of all, for a payment: times in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Difference {
    /// Elapsed in files and on Kafka.
    pub elapsed: (f64, f64),
    /// Processor time of the stage's processes in files and on Kafka.
    pub cpu: (f64, f64),
    /// Of Kafka's client's threads.
    pub client: f64,
    /// Of the broker.
    pub broker: f64,
    /// Waiting for commits, in files and on Kafka.
    pub commit: (f64, f64),
    /// Bytes appended and read on Kafka.
    pub bytes: (f64, f64),
    /// Commits for a thousand payments, in files and on Kafka.
    pub commits: (f64, f64),
}

impl Difference {
    fn of(compared: &Compared<'_>) -> Self {
        let (kafka, files) = (compared.kafka, compared.files);
        let both = |of: fn(&Alone) -> Duration| (files.each(of), kafka.each(of));
        let commits = |one: &Alone| one.commits as f64 * 1e3 / one.payments.max(1) as f64;
        Self {
            elapsed: both(|one| one.elapsed),
            cpu: both(|one| one.cpu),
            client: kafka.each(|one| one.client),
            broker: kafka.broker().unwrap_or(0.0),
            commit: both(|one| one.commit),
            bytes: (kafka.median(|one| one.bytes().0), kafka.median(|one| one.bytes().1)),
            commits: (files.median(commits), kafka.median(commits)),
        }
    }

    fn plus(self, other: Self) -> Self {
        let pair = |a: (f64, f64), b: (f64, f64)| (a.0 + b.0, a.1 + b.1);
        Self {
            elapsed: pair(self.elapsed, other.elapsed),
            cpu: pair(self.cpu, other.cpu),
            client: self.client + other.client,
            broker: self.broker + other.broker,
            commit: pair(self.commit, other.commit),
            bytes: pair(self.bytes, other.bytes),
            commits: pair(self.commits, other.commits),
        }
    }

    /// Processor time that Kafka costs more, the broker's included.
    #[must_use]
    pub fn more_cpu(&self) -> f64 {
        self.cpu.1 - self.cpu.0 + self.broker
    }

    fn times(&self, name: &str, memory: Option<f64>) -> [String; 9] {
        [
            name.to_owned(),
            ns(self.elapsed.0),
            ns(self.elapsed.1),
            ns(self.elapsed.1 - self.elapsed.0),
            known(memory, ns),
            ns(self.cpu.0),
            ns(self.cpu.1),
            ns(self.broker),
            ns(self.more_cpu()),
        ]
    }

    fn causes(&self, name: &str) -> [String; 8] {
        [
            name.to_owned(),
            ns(self.client),
            table::number(self.bytes.0),
            table::number(self.bytes.1),
            table::number(self.commits.0),
            table::number(self.commits.1),
            ns(self.commit.0),
            ns(self.commit.1),
        ]
    }
}

/// What Kafka costs over the file log, stage by stage and for all of them: the last is the sum. Stages that were not measured
/// in both are left out.
#[must_use]
pub fn differences(kafka: &[Repeated], files: &[Repeated]) -> (Vec<(Role, Difference)>, Difference) {
    let both = kafka.iter().filter_map(|kafka| {
        let files = files.iter().find(|files| files.role() == kafka.role())?;
        Some((kafka.role(), Difference::of(&Compared { kafka, files })))
    });
    let each: Vec<_> = both.collect();
    let all = each.iter().fold(Difference::default(), |sum, (_, one)| sum.plus(*one));
    (each, all)
}

/// What Kafka costs over the file log for a payment, and why.
#[must_use]
pub fn cost(kafka: &[Repeated], files: &[Repeated], memory: &[stages::Measured], legs: u8) -> Section {
    let mut times = Table::new(&[
        ("for a payment", Align::Left),
        ("elapsed: file", Align::Right),
        ("Kafka", Align::Right),
        ("more", Align::Right),
        ("CPU: memory", Align::Right),
        ("file", Align::Right),
        ("Kafka", Align::Right),
        ("broker", Align::Right),
        ("more", Align::Right),
    ]);
    let mut causes = Table::new(&[
        ("why", Align::Left),
        ("CPU of the client's threads", Align::Right),
        ("B written", Align::Right),
        ("B read", Align::Right),
        ("commits of 1,000: file", Align::Right),
        ("Kafka", Align::Right),
        ("waited for them: file", Align::Right),
        ("Kafka", Align::Right),
    ]);
    let (each, all) = differences(kafka, files);
    for (role, difference) in &each {
        let stage = in_memory(*role);
        let found = memory.iter().find(|m| Some(m.stage) == stage && m.legs == legs && !m.signed);
        times.row(difference.times(role.name(), found.map(stages::Measured::nanoseconds)));
        causes.row(difference.causes(role.name()));
    }
    times.row(all.times("all five", None));
    causes.row(all.causes("all five"));
    let moved = all.bytes.0 + all.bytes.1;
    let note = format!(
        "The same batches through the same shards, once on Kafka and once in the journal of one process (fdatasync), one \
         instance of each stage; memory: the stage's own step (`tally bench stages`). More CPU: what its processes take beyond \
         files, and all that the broker takes. Together {} of CPU more for a payment: the broker has {}, the client's own \
         threads {}, and the stages' threads {}, where each record is copied into the client and out of it. {} bytes are \
         appended and {} read on the way, each fetched or sent, checked (CRC) and copied by client and broker: {} of CPU a \
         byte. A commit is a request to the coordinator and a marker in each partition, and waits for both; in files it waits \
         for the disk: {} of a payment's {} were spent waiting on Kafka, {} of {} in files.",
        ns(all.more_cpu()),
        ns(all.broker),
        ns(all.client),
        ns(all.cpu.1 - all.cpu.0 - all.client),
        table::number(all.bytes.0),
        table::number(all.bytes.1),
        ns(all.more_cpu() / moved.max(1.0)),
        ns(all.commit.1),
        ns(all.elapsed.1),
        ns(all.commit.0),
        ns(all.elapsed.0),
    );
    Section {
        title: "What Kafka costs over the file log".to_owned(),
        blocks: vec![
            Block::Table("Cost of Kafka over the file log, for each payment".to_owned(), times),
            Block::Table("Where it comes from".to_owned(), causes),
            Block::Note(note),
        ],
    }
}

/// Instances of each stage beside each other; `levels` are so many of those that split, the first of them one.
#[must_use]
pub fn scaling(levels: &[(u16, Vec<Repeated>)], cores: usize) -> Section {
    let mut columns = vec![("stage".to_owned(), Align::Left)];
    for (instances, _) in levels {
        columns.push((format!("{instances}: tx/s"), Align::Right));
        if *instances > 1 {
            columns.push(("model".to_owned(), Align::Right));
        }
        columns.push(("CPU and broker".to_owned(), Align::Right));
    }
    let columns: Vec<_> = columns.iter().map(|(name, align)| (name.as_str(), *align)).collect();
    let mut rows = Table::new(&columns);
    for stage in levels.first().map_or(&[][..], |(_, stages)| stages) {
        let mut row = vec![stage.role().name().to_owned()];
        for (instances, stages) in levels {
            let found = stages.iter().find(|other| other.role() == stage.role());
            let each = |found: &Repeated| found.each(|one| one.cpu) + found.broker().unwrap_or(0.0);
            row.push(known(found.map(Repeated::rate), table::number));
            let model = |found: &Repeated| model::instances(&Cost::of(stage), found.instances(), cores);
            if *instances > 1 {
                row.push(known(found.map(model), table::number));
            }
            row.push(known(found.map(each), ns));
        }
        rows.row(row);
    }
    let note = format!(
        "Schedulers and assemblers share batches, approvers and updaters institutions, of which there are then as many; the \
         sequencer is one in every column. All on the same {cores} cores as the broker, so that more instances do more only \
         until these are busy. Model: as many times what one does, at most {cores} cores\nover what one takes with the \
         broker. CPU and broker: for a payment.\n"
    );
    Section {
        title: "Instances".to_owned(),
        blocks: vec![Block::Table("Instances of each stage".to_owned(), rows), Block::Note(note)],
    }
}

/// What more machines are predicted to do.
#[must_use]
pub fn predictions(stages: &[Repeated], cores: usize, batch: usize) -> Section {
    let costs: Vec<_> = stages.iter().map(Cost::of).collect();
    let mut rows = Table::new(&[
        ("machines like this", Align::Right),
        ("tx/s", Align::Right),
        ("limited by", Align::Left),
        ("CPU for a payment, all", Align::Right),
        ("sequencer busy", Align::Right),
    ]);
    for machines in [1, 10, 100] {
        let predicted = model::predict(&costs, machines, cores);
        rows.row([
            machines.to_string(),
            table::number(predicted.rate),
            predicted.bound.words().to_owned(),
            ns(predicted.cpu_ns),
            table::quantity(predicted.sequencer, "share"),
        ]);
    }
    let mut blocks = vec![
        Block::Table("Predicted of more machines".to_owned(), rows),
        Block::Note(
            ASSUMED
                .replace("{cores}", &cores.to_string())
                .replace("{batch}", &table::count(batch as u64))
                .replace("{copies}", &REPLICAS.to_string()),
        ),
    ];
    if let Some(sequencer) = model::sequencer(&costs) {
        blocks.push(Block::Note(format!(
            "The sequencer's limit is one of records, each the decisions on one batch: {} a second here, whatever they hold. \
             With {} payments in each that is {} tx/s; with 100 it would be {} tx/s.",
            table::number(sequencer.records),
            table::number(sequencer.rate / sequencer.records.max(1.0)),
            table::number(sequencer.rate),
            table::number(sequencer.records * 100.0),
        )));
    }
    Section { title: "More machines".to_owned(), blocks }
}

/// The record of a stage alone; `split` is how many instances there were of the stages that split, `log` what joined them.
#[must_use]
pub fn record(stage: &Repeated, log: &str, split: u16, run: &Run, limits: &[Limit]) -> Record {
    let sampled = |of: fn(&Alone) -> Duration| stage.samples(|one| one.per_payment(of(one)));
    let mut record = Record::new(stages::EXPERIMENT, &format!("{} over {log}", stage.role().name()))
        .setting("log", log)
        .setting("instances", stage.instances())
        .setting("split", split)
        .setting("legs", run.workload.mix.legs())
        .setting("signed", run.workload.is_signed())
        .setting("accounts_per_bank", run.workload.accounts)
        .setting("batch", run.batch)
        .setting("payments", stage.runs[0].payments)
        .sampled("rate_tps", stage.samples(Alone::rate), "tx/s", Better::Higher)
        .sampled("cpu_ns_per_transaction", sampled(|one| one.cpu), "ns", Better::Lower)
        .sampled("client_ns_per_transaction", sampled(|one| one.client), "ns", Better::Lower)
        .sampled("elapsed_ns_per_transaction", sampled(|one| one.elapsed), "ns", Better::Lower)
        .sampled("commit_ns_per_transaction", sampled(|one| one.commit), "ns", Better::Lower)
        .sampled("written_per_transaction", stage.samples(|one| one.bytes().0), "B", Better::Lower)
        .sampled("read_per_transaction", stage.samples(|one| one.bytes().1), "B", Better::Lower)
        .sampled("commits", stage.samples(|one| one.commits as f64), "commits", Better::Lower);
    let broker: Vec<f64> = stage.runs.iter().filter_map(|one| Some(one.per_payment(one.broker?))).collect();
    if !broker.is_empty() {
        record = record.sampled("broker_ns_per_transaction", broker, "ns", Better::Lower);
    }
    if let Some(share) = share(stage, limits).filter(|_| log == "kafka") {
        record = record.metric("share_of_broker", share, "share", Better::Higher);
        for one in &stage.runs {
            if let Some(ceiling) = ceiling(one, limits) {
                record = record.against(&ceiling, one.rate());
            }
        }
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::alone::tests::alone as sample;

    fn stage(role: Role, elapsed_us: u64, cpu_us: u64, broker_us: u64) -> Repeated {
        Repeated { runs: vec![sample(role, elapsed_us, cpu_us, broker_us)] }
    }

    #[test]
    fn the_cost_of_kafka_is_the_difference_and_the_broker() {
        let kafka = [stage(Role::Scheduler, 900, 500, 200), stage(Role::Sequencer, 100, 40, 60)];
        let files = [stage(Role::Scheduler, 400, 300, 0), stage(Role::Updater, 1, 1, 1)];
        let (each, all) = differences(&kafka, &files);
        assert_eq!(each.len(), 1, "only what was measured in both");
        let (role, difference) = each[0];
        assert_eq!(
            (role, difference.elapsed, difference.cpu),
            (Role::Scheduler, (400.0, 900.0), (300.0, 500.0))
        );
        assert!((difference.more_cpu() - 400.0).abs() < 1e-9 && (difference.client - 250.0).abs() < 1e-9);
        assert_eq!((difference.bytes, difference.commits), ((20.0, 40.0), (2.0, 2.0)));
        assert_eq!(all, difference);
        let twice = difference.plus(difference);
        assert!((twice.more_cpu() - 800.0).abs() < 1e-9 && (twice.commit.1 - 450.0).abs() < 1e-9);
        let text = cost(&kafka, &files, &[], 2).text(false);
        assert!(
            text.contains("scheduler") && !text.contains("sequencer") && text.contains("400 ns of CPU more"),
            "{text}"
        );
    }

    #[test]
    fn tables_have_a_row_for_each_stage_and_say_what_they_assume() {
        let one = vec![stage(Role::Scheduler, 1000, 500, 200), stage(Role::Sequencer, 100, 40, 60)];
        let two = vec![stage(Role::Scheduler, 600, 500, 250), stage(Role::Sequencer, 100, 40, 60)];
        let text = scaling(&[(1, one.clone()), (2, two)], 2).text(false);
        assert!(text.contains("1: tx/s") && text.contains("2: tx/s"), "{text}");
        assert!(
            text.lines().any(|line| line.starts_with("scheduler") && line.contains("1,666,667")),
            "{text}"
        );
        let text = predictions(&one, 2, 4096).text(false);
        assert!(text.contains("the sequencer, which is one") && text.contains("4,096"), "{text}");
        assert!(!text.contains('{') && text.lines().all(|line| line.chars().count() <= 120), "{text}");
        let text = self::alone(&one, 1, &[]).text(false);
        assert!(text.contains("scheduler") && text.contains("11,019"), "{text}");
    }

    #[test]
    fn a_share_needs_both_limits() {
        let limit = |name: &str, value: f64| Limit {
            name: name.into(),
            value,
            unit: "B/s",
            better: Better::Higher,
            cores: 2,
            samples: vec![value],
            processor_share: None,
        };
        let stage = stage(Role::Scheduler, 1000, 500, 200);
        assert_eq!(share(&stage, &[limit("kafka-produce-64k", 1e8)]), None);
        // A million payments a second of 20 bytes appended and 40 read.
        let limits = [limit("kafka-produce-64k", 1e8), limit("kafka-consume-64k", 4e8)];
        assert!((share(&stage, &limits).unwrap() - 0.3).abs() < 1e-9);
    }
}
