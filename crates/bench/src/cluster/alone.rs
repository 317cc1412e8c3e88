//! Each stage alone between its topics: what it reads lies ready in them, and nothing else runs. The same batches on Kafka,
//! and in the journal of one process.

use super::files::FileCluster;
use super::member::{Counters, Detail, Member, Place};
use super::meter::Worked;
use super::network::{Broker, Launcher, Running, Stage};
use super::{ClusterError, Shape, Traffic};
use crate::processes::{Watched, read};
use crate::settlement::{Port, Run};
use crate::statistics::median;
use crate::workload::{Generator, Workload};
use std::path::Path;
use std::time::{Duration, Instant};
use tally_log::cluster::{Binding, Cluster, Partition};
use tally_log::{Log, Offset, TopicId, Visibility};
use tally_settlement::engine::wall_clock;
use tally_settlement::message::{Message, SequenceBatch};
use tally_settlement::process::Role;

/// One stage, all its instances, measured once.
#[derive(Debug, Clone, PartialEq)]
pub struct Alone {
    /// Which.
    pub role: Role,
    /// How many processes shared the work.
    pub instances: u16,
    /// Payments that passed.
    pub payments: u64,
    /// How long they took, from the first batch that was read to the last commit, or to finding nothing more to read where
    /// nothing is committed.
    pub elapsed: Duration,
    /// Processor time until then of the processes that shared the work, from the word to go.
    pub cpu: Duration,
    /// Of it, of the threads of Kafka's client.
    pub client: Duration,
    /// Processor time of the broker; none where there is none, or it was not started here.
    pub broker: Option<Duration>,
    /// What a process whose institution no payment concerned spent on learning that, on average; none where there is no such
    /// process.
    pub bystander: Option<Duration>,
    /// Commits, of all its processes.
    pub commits: u64,
    /// How long its processes waited for them.
    pub commit: Duration,
    /// What went through their topics.
    pub traffic: Traffic,
}

impl Alone {
    /// Payments a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.payments as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// A time for each payment, in nanoseconds.
    #[must_use]
    pub fn per_payment(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e9 / self.payments.max(1) as f64
    }

    /// Payload bytes appended and read for each payment.
    #[must_use]
    pub fn bytes(&self) -> (f64, f64) {
        let sum = |of: fn(&super::Through) -> u64| self.traffic.values().map(of).sum::<u64>() as f64;
        let each = |bytes: f64| bytes / self.payments.max(1) as f64;
        (each(sum(|through| through.appended_bytes)), each(sum(|through| through.read_bytes)))
    }

    /// The same stage at both times that it met the payments.
    fn plus(mut self, again: Self) -> Self {
        let sum = |a: Option<Duration>, b: Option<Duration>| a.zip(b).map(|(a, b)| a + b);
        for (topic, through) in again.traffic {
            self.traffic.entry(topic).or_default().add(through);
        }
        Self {
            elapsed: self.elapsed + again.elapsed,
            cpu: self.cpu + again.cpu,
            client: self.client + again.client,
            broker: sum(self.broker, again.broker),
            bystander: sum(self.bystander, again.bystander),
            commits: self.commits + again.commits,
            commit: self.commit + again.commit,
            ..self
        }
    }

    /// Records read.
    #[must_use]
    pub fn records_read(&self) -> u64 {
        self.traffic.values().map(|through| through.read_records).sum()
    }
}

/// A stage measured several times.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeated {
    /// Each time; never empty.
    pub runs: Vec<Alone>,
}

impl Repeated {
    /// Which stage.
    #[must_use]
    pub fn role(&self) -> Role {
        self.runs[0].role
    }

    /// How many processes shared the work.
    #[must_use]
    pub fn instances(&self) -> u16 {
        self.runs[0].instances
    }

    /// One value for each run.
    pub fn samples(&self, of: impl Fn(&Alone) -> f64) -> Vec<f64> {
        self.runs.iter().map(of).collect()
    }

    /// The median over the runs of something.
    pub fn median(&self, of: impl Fn(&Alone) -> f64) -> f64 {
        median(&self.samples(of)).unwrap_or_default()
    }

    /// The median of a time for each payment, in nanoseconds.
    pub fn each(&self, of: impl Fn(&Alone) -> Duration) -> f64 {
        self.median(|one| one.per_payment(of(one)))
    }

    /// The median of the broker's processor time for each payment, in nanoseconds; none where it is not known.
    #[must_use]
    pub fn broker(&self) -> Option<f64> {
        let known: Vec<f64> = self.runs.iter().filter_map(|one| Some(one.per_payment(one.broker?))).collect();
        median(&known)
    }

    /// Payments a second: the median.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.median(Alone::rate)
    }

    /// Puts runs of all stages together, stage by stage.
    #[must_use]
    pub fn of(runs: Vec<Vec<Alone>>) -> Vec<Self> {
        let mut stages: Vec<Self> = Vec::new();
        for one in runs.into_iter().flatten() {
            match stages.iter_mut().find(|stage| stage.role() == one.role) {
                Some(stage) => stage.runs.push(one),
                None => stages.push(Self { runs: vec![one] }),
            }
        }
        stages
    }
}

/// Every stage, on Kafka and in files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Both {
    /// On Kafka.
    pub kafka: Vec<Alone>,
    /// In files, each process alone; empty where that was not asked for.
    pub files: Vec<Alone>,
}

/// The stages, in the order in which a payment meets them: an approver meets it again when it is decided.
const WAY: [Role; 6] =
    [Role::Scheduler, Role::Approver, Role::Assembler, Role::Sequencer, Role::Approver, Role::Updater];

/// The most payments that may pass at once: approvers take no more before they hear of decisions.
pub const MOST: usize = 1_000_000;

/// After this time without work the end is looked for.
const QUIET: Duration = Duration::from_millis(300);
/// Who has read nothing for so long has nothing to do.
const NOTHING: Duration = Duration::from_secs(10);
/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How long a stage may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Measures every stage on a network of this shape, of which `batches` batches of the run's payments pass; where there is a
/// directory for files, with the same batches there too.
///
/// # Errors
/// When the network fails, or not every payment comes through.
pub fn run(
    broker: &Broker,
    shape: &Shape,
    run: &Run,
    batches: usize,
    launcher: &Launcher,
    files: Option<&Path>,
) -> Result<Both, ClusterError> {
    let mut network = Running::start(broker, shape, launcher)?;
    network.open_accounts(run)?;
    network.stop_stages();
    let mut port = network.take_port()?;
    let schedulers = usize::from(shape.schedulers);
    let mut generator = Generator::new(&run.workload, shape.network().0.id, schedulers);
    for at in 0..batches {
        let scheduler = at % schedulers;
        port.submit(scheduler, generator.batch(scheduler, run.batch, wall_clock()))?;
        port.flush()?;
        while !port.has_room(scheduler) {
            std::thread::sleep(LOOK);
        }
    }
    port.settled()?;
    drop(port);
    let payments = (batches * run.batch) as u64;
    let stages = Stages { network: &network, workload: &run.workload, payments, launcher };
    if let Some(directory) = files {
        FileCluster::open(directory, shape)?.copy(network.cluster())?;
    }
    let before = decided(network.cluster(), shape)?;
    let mut found = Both::default();
    for role in WAY {
        add(&mut found.kafka, stages.on_kafka(role)?);
    }
    complete("stages alone on Kafka", before, decided(network.cluster(), shape)?, payments)?;
    if let Some(directory) = files {
        for role in WAY {
            add(&mut found.files, stages.in_files(role, directory)?);
        }
        let journal = FileCluster::open(directory, shape)?;
        complete("stages alone in files", before, decided(&journal, shape)?, payments)?;
    }
    network.end()?;
    Ok(found)
}

fn add(stages: &mut Vec<Alone>, one: Alone) {
    match stages.iter().position(|earlier| earlier.role == one.role) {
        Some(at) => {
            let earlier = stages.remove(at);
            stages.insert(at, earlier.plus(one));
        }
        None => stages.push(one),
    }
}

/// How many decisions are in the sequence, and how many of them are refusals.
fn decided(cluster: &dyn Cluster, shape: &Shape) -> Result<(u64, u64), ClusterError> {
    const READ_BYTES: usize = 1 << 20;
    let (id, partition) = (TopicId(0), Partition::new(format!("{}.sequence", shape.prefix), 0));
    let log = cluster.reader(&[Binding { id, partition, writes: false }])?;
    let (mut at, end) = (log.first(id).0, log.next(id).0);
    if end == u64::MAX {
        return Err(ClusterError::process("sequence", "its end is not known"));
    }
    let (mut all, mut refused, mut records) = (0, 0, Vec::new());
    while at < end {
        at = log.read(id, Offset(at), READ_BYTES, Visibility::Durable, &mut records)?.0;
        for record in records.drain(..) {
            let batch = SequenceBatch::decode(&record.payload)
                .map_err(|error| ClusterError::process("sequence", error))?;
            all += u64::from(batch.count);
            let refusals = batch.runs.iter().filter(|run| run.verdict != 0);
            refused += refusals.map(|run| u64::from(run.count)).sum::<u64>();
        }
    }
    Ok((all, refused))
}

/// Whether every payment was decided in between, and none refused: otherwise something else was measured.
fn complete(on: &str, before: (u64, u64), after: (u64, u64), payments: u64) -> Result<(), ClusterError> {
    let (decided, refused) = (after.0 - before.0, after.1 - before.1);
    if (decided, refused) == (payments, 0) {
        return Ok(());
    }
    let what = format!("of {payments} payments {decided} were decided, and {refused} of them refused");
    Err(ClusterError::process(on, what))
}

struct Stages<'a> {
    network: &'a Running,
    workload: &'a Workload,
    payments: u64,
    launcher: &'a Launcher,
}

/// One process of a stage, when it had nothing more to do.
struct Done {
    shard: u16,
    since: Counters,
    client: Duration,
}

impl Stages<'_> {
    /// Whether a process shares the work: the central bank and banks that have no payments only learn that there is none.
    fn concerned(&self, role: Role, shard: u16) -> bool {
        !matches!(role, Role::Approver | Role::Updater) || (1..=self.workload.spread).contains(&shard)
    }

    fn members(&self, role: Role) -> Vec<Member> {
        let shards = self.network.shape.shards().into_iter().filter(|(of, _)| *of == role);
        shards.map(|(_, shard)| Member { paused: true, ..self.network.member(role, shard) }).collect()
    }

    /// All processes of a stage at once.
    fn on_kafka(&self, role: Role) -> Result<Alone, ClusterError> {
        let (done, broker) = self.together(&self.members(role), self.network.broker())?;
        Ok(self.sum(role, &done, broker))
    }

    /// The processes that share the work one after the other: a journal is one process's.
    fn in_files(&self, role: Role, directory: &Path) -> Result<Alone, ClusterError> {
        let mut done = Vec::new();
        for member in self.members(role).into_iter().filter(|member| self.concerned(role, member.shard)) {
            let failed =
                |error| ClusterError::process(&member.role, format!("its journal cannot be read: {error}"));
            FileCluster::warm(directory).map_err(failed)?;
            let place = Place::Files { directory: directory.to_owned() };
            done.extend(self.together(&[Member { place, ..member }], None)?.0);
        }
        Ok(self.sum(role, &done, None))
    }

    /// Lets processes work until nothing is left; what each did, and what the broker did.
    fn together(
        &self,
        members: &[Member],
        broker: Option<&Watched>,
    ) -> Result<(Vec<Done>, Option<Duration>), ClusterError> {
        let mut stages = Vec::new();
        for member in members {
            stages.push(self.launcher.start(member)?);
        }
        for stage in &mut stages {
            stage.ready()?;
        }
        let of_broker = || -> Result<Option<Duration>, ClusterError> {
            let reading = broker.map(read).transpose()?;
            Ok(reading.map(|reading| reading.user + reading.system))
        };
        let before = stages.iter_mut().map(Stage::detail).collect::<Result<Vec<_>, _>>()?;
        let broker_before = of_broker()?;
        let began = Instant::now();
        stages.iter_mut().try_for_each(Stage::go)?;
        // What is read from files is there at once; a cluster may take its time.
        let quiet = if broker.is_some() { QUIET } else { QUIET / 6 };
        let mut last: Vec<Worked> = vec![Worked::default(); stages.len()];
        let (mut moved, mut broker_at) = (Duration::ZERO, broker_before);
        let after = loop {
            std::thread::sleep(LOOK);
            let mut changed = false;
            for (stage, last) in stages.iter_mut().zip(&mut last) {
                let now = stage.counters()?.worked;
                changed |= now != *last;
                *last = now;
            }
            let elapsed = began.elapsed();
            let begun = last.iter().all(|one| one.from_ns > 0) || elapsed > NOTHING;
            if changed {
                (moved, broker_at) = (elapsed, of_broker()?);
            } else if begun && elapsed > moved + quiet {
                let after = stages.iter_mut().map(Stage::detail).collect::<Result<Vec<_>, _>>()?;
                if after.iter().all(|counters| counters.detail.as_ref().is_some_and(Detail::is_done)) {
                    break after;
                }
                // To ask takes its time, too.
                moved = elapsed;
            }
            if elapsed > LIMIT {
                let role = members.first().map_or("stage", |member| member.role.as_str());
                return Err(ClusterError::process(role, "it does not come to an end"));
            }
        };
        let done = members.iter().zip(before.iter().zip(&after)).map(|(member, (before, after))| Done {
            shard: member.shard,
            since: after.since(before),
            client: Duration::from_nanos(after.client_ns_since(before)),
        });
        let broker = broker_at.zip(broker_before).map(|(after, before)| after.saturating_sub(before));
        Ok((done.collect(), broker))
    }

    fn sum(&self, role: Role, done: &[Done], broker: Option<Duration>) -> Alone {
        let concerned = |shard: u16| self.concerned(role, shard);
        let cpu = |one: &Done| Duration::from_nanos(one.since.worked.cpu_ns);
        let bystanders: Vec<f64> =
            done.iter().filter(|one| !concerned(one.shard)).map(|one| cpu(one).as_secs_f64()).collect();
        let mut traffic = Traffic::new();
        for (topic, through) in done.iter().flat_map(|one| &one.since.traffic) {
            traffic.entry(topic.clone()).or_default().add(*through);
        }
        let working = || done.iter().filter(|one| concerned(one.shard));
        let worked = working().map(|one| one.since.worked);
        let client: Duration = working().map(|one| one.client).sum();
        let all: Duration = working().map(cpu).sum();
        Alone {
            role,
            instances: u16::try_from(done.len() - bystanders.len()).unwrap_or(u16::MAX),
            payments: self.payments,
            elapsed: Duration::from_nanos(elapsed(worked.clone())),
            cpu: all,
            // Asked for a moment later, when it was all over.
            client: client.min(all),
            broker,
            bystander: median(&bystanders).map(Duration::from_secs_f64),
            commits: worked.clone().map(|one| one.commits).sum(),
            commit: Duration::from_nanos(worked.map(|one| one.commit_ns).sum()),
            traffic,
        }
    }
}

/// From the first batch that any of them read to the last end, in nanoseconds: they were told to go at the same time.
fn elapsed(worked: impl Iterator<Item = Worked> + Clone) -> u64 {
    let from = worked.clone().map(|one| one.from_ns).filter(|from| *from > 0).min().unwrap_or(0);
    worked.map(|one| one.until_ns).max().unwrap_or(0).saturating_sub(from)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tally_log::cluster::MemoryCluster;

    /// A stage that took so long for a thousand payments.
    pub(crate) fn alone(role: Role, elapsed_us: u64, cpu_us: u64, broker_us: u64) -> Alone {
        let through = super::super::Through {
            appended_records: 2,
            appended_bytes: 20_000,
            read_records: 4,
            read_bytes: 40_000,
        };
        Alone {
            role,
            instances: 1,
            payments: 1000,
            elapsed: Duration::from_micros(elapsed_us),
            cpu: Duration::from_micros(cpu_us),
            client: Duration::from_micros(cpu_us / 2),
            broker: Some(Duration::from_micros(broker_us)),
            bystander: Some(Duration::from_micros(1)),
            commits: 2,
            commit: Duration::from_micros(elapsed_us / 4),
            traffic: [("t".to_owned(), through)].into(),
        }
    }

    #[test]
    fn medians_are_of_the_runs_of_one_stage() {
        let runs = [(900, 300), (1000, 500), (4000, 100)].map(|(elapsed, cpu)| {
            vec![alone(Role::Scheduler, elapsed, cpu, 10), alone(Role::Sequencer, 50, 20, 10)]
        });
        let stages = Repeated::of(runs.into());
        assert_eq!(stages.iter().map(Repeated::role).collect::<Vec<_>>(), [Role::Scheduler, Role::Sequencer]);
        let scheduler = &stages[0];
        assert_eq!(scheduler.runs.len(), 3);
        assert!((scheduler.rate() - 1e6).abs() < 1.0 && (scheduler.each(|one| one.cpu) - 300.0).abs() < 1e-6);
        assert_eq!(scheduler.broker(), Some(10.0));
        assert_eq!((scheduler.runs[0].bytes(), scheduler.runs[0].records_read()), ((20.0, 40.0), 4));
        let without = Repeated { runs: vec![Alone { broker: None, ..alone(Role::Updater, 1, 1, 1) }] };
        assert_eq!(without.broker(), None);
    }

    #[test]
    fn time_runs_from_the_first_to_the_last_of_all_processes() {
        let worked = |from_ns, until_ns| Worked { from_ns, until_ns, ..Worked::default() };
        assert_eq!(elapsed([worked(30, 100), worked(20, 90), worked(0, 0)].into_iter()), 80);
        assert_eq!(elapsed([].into_iter()), 0);
    }

    #[test]
    fn a_stage_that_meets_payments_twice_is_one_stage() {
        let mut stages = Vec::new();
        let way = [(Role::Approver, 300), (Role::Sequencer, 7), (Role::Approver, 50)];
        way.into_iter().for_each(|(role, us)| add(&mut stages, alone(role, us, us, us)));
        assert_eq!(stages.iter().map(|one| one.role).collect::<Vec<_>>(), [Role::Approver, Role::Sequencer]);
        let (both, once) = (&stages[0], alone(Role::Approver, 350, 350, 350));
        assert_eq!((both.elapsed, both.cpu, both.broker), (once.elapsed, once.cpu, once.broker));
        assert_eq!((both.payments, both.commits, both.bytes()), (1000, 4, (40.0, 80.0)));
    }

    #[test]
    fn payments_that_do_not_come_through_are_missed() {
        assert!(complete("x", (10, 1), (15, 1), 5).is_ok());
        for after in [(14, 1), (16, 1), (15, 2)] {
            let error = complete("x", (10, 1), after, 5).unwrap_err().to_string();
            assert!(error.contains("of 5 payments"), "{error}");
        }
        let shape = Shape::sample();
        let topics = shape.layout().topics().into_iter().map(|topic| (topic.name, topic.partitions));
        assert_eq!(decided(&MemoryCluster::new(topics), &shape).unwrap(), (0, 0));
    }
}
