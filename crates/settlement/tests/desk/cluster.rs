//! A network whose shards share a cluster in memory, each run by a thread of its own.

use super::host::{Host, WAIT, key, network};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tally_ledger::{Network, ParticipantId, Timestamp};
use tally_log::cluster::{Binding, Cluster, Foreign, Members, MemoryCluster, Partition, SharedLog};
use tally_log::{Appended, Health, Log, LogError, Offset, Record, Ticket, TopicId, Visibility};
use tally_settlement::audit::{AuditOptions, audit_entries};
use tally_settlement::desk::Settlement;
use tally_settlement::engine::wall_clock;
use tally_settlement::process::journal::Journal;
use tally_settlement::process::{
    Desk, DeskOptions, Layout, Role, Shard, ShardError, Stop, approve, assemble, schedule, sequence, update,
};

/// How many institutions cosign an outcome before it is told.
const WITNESSES: u8 = 2;

pub(crate) struct ClusterHost {
    cluster: MemoryCluster,
    network: Arc<Network>,
    layout: Layout,
    shards: Shards,
    desk: Option<Desk>,
    pub(crate) participants: Vec<ParticipantId>,
    /// How many institutions cosign an outcome before the gateways that are opened from now on tell it.
    pub(crate) witnesses: u8,
    pub(crate) outage: Outage,
    /// Whether gateways may not read approvals.
    pub(crate) withheld: Outage,
}

/// Threads that run all shards but the gateways.
struct Shards(BTreeMap<(Role, u16), Running>);

/// A thread that runs one shard.
struct Running {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.set();
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

impl Shards {
    fn start(cluster: &MemoryCluster, layout: &Layout, network: &Arc<Network>, but: Option<Role>) -> Self {
        let mut all = vec![(Role::Sequencer, 0)];
        all.extend((0..layout.schedulers).map(|shard| (Role::Scheduler, shard)));
        all.extend((0..layout.assemblers).map(|shard| (Role::Assembler, shard)));
        for participant in layout.everybody() {
            all.extend([(Role::Approver, participant.0), (Role::Updater, participant.0)]);
        }
        all.retain(|(role, _)| Some(*role) != but);
        Self(all.into_iter().map(|which| (which, run(cluster, layout, network, which))).collect())
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        // All at once: each takes a moment.
        self.0.values().for_each(|running| running.stop.set());
    }
}

fn run(cluster: &MemoryCluster, layout: &Layout, network: &Arc<Network>, which: (Role, u16)) -> Running {
    let stop = Stop::default();
    let (cluster, layout, network, stopped) =
        (cluster.clone(), layout.clone(), Arc::clone(network), stop.clone());
    let thread = std::thread::spawn(move || {
        let shard = open(&cluster, &layout, &network, which, wall_clock(), &stopped);
        match shard.and_then(|shard| shard.run(wall_clock, &stopped)) {
            Ok(()) | Err(ShardError::Stopped { .. }) => {}
            // The one that took over goes on.
            Err(error) => assert!(error.is_fenced(), "{error:?}"),
        }
    });
    Running { stop, thread: Some(thread) }
}

fn open(
    cluster: &MemoryCluster,
    layout: &Layout,
    network: &Arc<Network>,
    (role, number): (Role, u16),
    now: Timestamp,
    stop: &Stop,
) -> Result<Shard, ShardError> {
    let key_of = |number: u16| key(u8::try_from(number + 1).unwrap());
    match role {
        Role::Scheduler => schedule::open(cluster, layout, network, number, (1 << 20, [1, 2]), now, stop),
        Role::Approver => approve::open(cluster, layout, network, number, key_of(number), now, stop),
        Role::Assembler => assemble::open(cluster, layout, network, number, now, stop),
        Role::Sequencer => sequence::open(cluster, layout, network.id, key_of(0), now, stop),
        Role::Updater => update::open(cluster, layout, network, number, (key_of(number), 200), now, stop)
            .map(|(shard, _)| shard),
        Role::Gateway => unreachable!("it is no shard"),
    }
}

impl ClusterHost {
    /// Ends a shard; everybody else goes on.
    pub(crate) fn stop(&mut self, role: Role, number: u16) {
        drop(self.shards.0.remove(&(role, number)).unwrap());
    }

    /// Runs a shard that was ended.
    pub(crate) fn start(&mut self, role: Role, number: u16) {
        let running = run(&self.cluster, &self.layout, &self.network, (role, number));
        assert!(self.shards.0.insert((role, number), running).is_none(), "it runs");
    }

    /// Appends to the cosignatures of an institution whose updater was ended, as it may.
    pub(crate) fn append_cosignatures(&self, of: ParticipantId, record: &[u8]) {
        let bic = &self.layout.participants[of.index()];
        let topic = format!("{}.cosignatures.{bic}", self.layout.prefix);
        let binding = Binding { id: TopicId(0), partition: Partition::new(topic, 0), writes: true };
        let log = self.cluster.open(&self.layout.writer(Role::Updater, of.0), &[binding]).unwrap();
        log.append(TopicId(0), &[record]).unwrap();
        log.sync().unwrap();
    }

    fn gateway(&self, number: u16) -> Desk {
        let (outage, withheld) = (self.outage.clone(), self.withheld.clone());
        let reached = Reached { cluster: self.cluster.clone(), outage, withheld };
        let cluster: Arc<dyn Cluster> = Arc::new(reached);
        let options = DeskOptions {
            gateway: number,
            participants: self.participants.clone(),
            witnesses: self.witnesses,
        };
        Desk::open(&cluster, &self.layout, &self.network, &options, &Stop::default()).unwrap()
    }

    /// Ends the gateway, and opens number `number` in its place.
    pub(crate) fn open_gateway(&mut self, number: u16) {
        drop(self.desk.take());
        self.desk = Some(self.gateway(number));
    }

    /// Opens gateway `number`, and returns the one that was.
    pub(crate) fn another_gateway(&mut self, number: u16) -> Desk {
        let new = self.gateway(number);
        self.desk.replace(new).unwrap()
    }

    pub(crate) fn until(&self, what: &str, ready: impl Fn(&dyn Settlement) -> bool) {
        let began = Instant::now();
        while !ready(self.desk()) {
            assert!(began.elapsed() < WAIT, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl ClusterHost {
    /// A network in which nobody runs the updaters: no institution cosigns anything, and its gateway waits for none.
    pub(crate) fn without_updaters() -> Self {
        Self::with(0, Some(Role::Updater))
    }

    fn with(witnesses: u8, but: Option<Role>) -> Self {
        let network = Arc::new(network());
        let participants = network.participants.iter().map(|p| p.bic.clone()).collect();
        let layout =
            Layout { prefix: "test".into(), participants, schedulers: 2, assemblers: 2, gateways: 2 };
        let cluster =
            MemoryCluster::new(layout.topics().into_iter().map(|topic| (topic.name, topic.partitions)));
        let shards = Shards::start(&cluster, &layout, &network, but);
        let participants = layout.everybody().collect();
        let (outage, withheld) = (Outage::default(), Outage::default());
        let desk = None;
        let mut host =
            Self { cluster, network, layout, shards, desk, participants, witnesses, outage, withheld };
        host.open_gateway(0);
        host
    }
}

impl Host for ClusterHost {
    fn start() -> Self {
        Self::with(WITNESSES, None)
    }

    fn desk(&self) -> &dyn Settlement {
        self.desk.as_ref().unwrap()
    }

    /// Every process is taken over by another while it runs; the gateway ends, and another number begins.
    fn crash(mut self) -> Self {
        drop(self.desk.take());
        self.shards = Shards::start(&self.cluster, &self.layout, &self.network, None);
        self.open_gateway(1);
        self
    }

    fn audit(&self) {
        let journal = Journal::open(&self.cluster, &self.layout).unwrap();
        let report = audit_entries(journal, &self.network, AuditOptions { signatures: true }).unwrap();
        assert_eq!(report.undecided, 0);
        assert_eq!(report.sequenced, self.desk().sequenced());
        assert_eq!(report.totals, self.desk().totals());
    }
}

/// Whether one process is cut off from the cluster.
#[derive(Clone, Default)]
pub(crate) struct Outage(Arc<AtomicBool>);

impl Outage {
    pub(crate) fn set(&self, is_out: bool) {
        self.0.store(is_out, Ordering::SeqCst);
    }

    fn is_out(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn check(&self, operation: &'static str) -> Result<(), LogError> {
        let refused = LogError::Cluster { operation, reason: "it cannot be reached".into() };
        if self.is_out() { Err(refused) } else { Ok(()) }
    }
}

/// The cluster as a process sees it that may be cut off.
struct Reached {
    cluster: MemoryCluster,
    outage: Outage,
    withheld: Outage,
}

impl Reached {
    fn log(&self, log: Arc<dyn SharedLog>) -> Arc<dyn SharedLog> {
        Arc::new(ReachedLog { log, outage: self.outage.clone() })
    }
}

impl Cluster for Reached {
    fn open(&self, writer: &str, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        self.outage.check("open")?;
        Ok(self.log(self.cluster.open(writer, bindings)?))
    }
    fn reader(&self, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        self.outage.check("open")?;
        if bindings.iter().any(|binding| binding.partition.topic.contains(".approvals.")) {
            self.withheld.check("open")?;
        }
        Ok(self.log(self.cluster.reader(bindings)?))
    }
    fn join(&self, group: &str, topics: &[String]) -> Result<Box<dyn Members>, LogError> {
        self.cluster.join(group, topics)
    }
}

struct ReachedLog {
    log: Arc<dyn SharedLog>,
    outage: Outage,
}

impl Log for ReachedLog {
    fn append(&self, topic: TopicId, parts: &[&[u8]]) -> Result<Appended, LogError> {
        self.log.append(topic, parts)
    }
    fn durable(&self) -> Ticket {
        self.log.durable()
    }
    fn sync(&self) -> Result<Ticket, LogError> {
        if self.outage.is_out() {
            return Err(LogError::Stalled { reason: "it cannot be reached".into() });
        }
        self.log.sync()
    }
    fn read(
        &self,
        topic: TopicId,
        from: Offset,
        max_bytes: usize,
        visibility: Visibility,
        out: &mut Vec<Record>,
    ) -> Result<Offset, LogError> {
        self.outage.check("read")?;
        self.log.read(topic, from, max_bytes, visibility, out)
    }
    fn first(&self, topic: TopicId) -> Offset {
        self.log.first(topic)
    }
    fn next(&self, topic: TopicId) -> Offset {
        if self.outage.is_out() { Offset(u64::MAX) } else { self.log.next(topic) }
    }
    fn release(&self, topic: TopicId, before: Offset) -> Result<(), LogError> {
        self.log.release(topic, before)
    }
    fn health(&self) -> Health {
        self.log.health()
    }
}

impl SharedLog for ReachedLog {
    fn wait(&self, limit: Duration) {
        self.log.wait(limit);
    }
    fn pending_bytes(&self) -> usize {
        self.log.pending_bytes()
    }
    fn foreign(&self) -> Vec<Foreign> {
        self.log.foreign()
    }
    fn behind(&self) -> Vec<(Partition, u64)> {
        self.log.behind()
    }
}
