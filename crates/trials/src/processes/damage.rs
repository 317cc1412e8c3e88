//! Records that nobody can read, in every topic of a network that runs: what cannot change a decision is set aside, what
//! could stops those who need it, with an error that names the record; and once it is mended all goes on.

use super::run::{Run, Summary};
use super::world::{Damage, Key};
use crate::simulation::life::chain;
use crate::witness::Witness;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use tally_log::cluster::Partition;
use tally_log::{Offset, Record};
use tally_settlement::process::{Layout, Role, ShardError};
use tally_sim::Rng;

/// Runs a seed in which one record is damaged; what it came to, and how often a shard or gateway stopped because of it.
///
/// # Panics
/// When anything is not as it should be: this is the purpose. The message names the seed.
#[must_use]
pub fn run_damaged(seed: u64) -> (Summary, u64) {
    let witness = Witness::of_processes(seed);
    let mut run = Run::new(seed);
    for _ in 0..run.rng().between(20, 200) {
        run.act();
    }
    let stopped = run.damage();
    run.end();
    let summary = run.summary();
    drop(witness);
    (summary, stopped)
}

/// What a network writes, by kind of topic.
#[must_use]
pub fn records(seed: u64) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut run = Run::new(seed);
    for _ in 0..300 {
        run.act();
    }
    let mut all: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for topic in run.world.setup.layout.topics() {
        let kind = all.entry(kind(&topic.name).to_owned()).or_default();
        for number in 0..topic.partitions {
            let records = run.world.cluster.peek(&Partition::new(topic.name.clone(), number), Offset(0));
            kind.extend(records.into_iter().map(|record| record.payload.to_vec()));
        }
    }
    all
}

/// What the name of a topic begins with, after the network's prefix.
fn kind(topic: &str) -> &str {
    topic.split('.').nth(1).unwrap_or(topic)
}

/// Who reads a partition, at work or when opened.
fn readers(layout: &Layout, Partition { topic, number }: &Partition) -> Vec<Key> {
    let topic = topic.strip_prefix(&format!("{}.", layout.prefix)).unwrap_or(topic);
    let (kind, bic) = topic.split_once('.').unwrap_or((topic, ""));
    let of = layout.participants.iter().position(|participant| participant == bic);
    let of = of.and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX);
    let everybody = |role: Role| layout.everybody().map(move |participant| (role, participant.0));
    match kind {
        "accepted" | "scheduler" => vec![(Role::Scheduler, *number)],
        "proposals" | "consents" | "snapshots" => vec![(Role::Approver, of), (Role::Updater, of)],
        "participations" => vec![(Role::Assembler, *number % layout.assemblers)],
        "approver" => vec![(Role::Approver, of)],
        "decisions" => vec![(Role::Sequencer, 0), (Role::Assembler, *number)],
        "assembler" => vec![(Role::Assembler, *number)],
        "sequence" => {
            let schedulers = (0..layout.schedulers).map(|number| (Role::Scheduler, number));
            everybody(Role::Approver).chain(everybody(Role::Updater)).chain(schedulers).collect()
        }
        "sequencer" => vec![(Role::Sequencer, 0)],
        _ => Vec::new(),
    }
}

/// Bytes that are none of a record's topic.
fn damaged(rng: &mut Rng, topic: &str, payload: &[u8]) -> Bytes {
    let has_version = !topic.contains("transactions") && !topic.contains("accepted");
    let mut bytes = payload.to_vec();
    match rng.below(5) {
        0 => bytes.clear(),
        1 => drop(bytes.pop()),
        2 => bytes.push(0),
        // What a newer program writes.
        3 if has_version && !bytes.is_empty() => bytes[0] = bytes[0].wrapping_add(1),
        _ => {
            bytes.truncate(rng.index(7));
            rng.fill(&mut bytes);
        }
    }
    bytes.into()
}

impl Run {
    /// Damages a record for a while; how often somebody stopped because of it.
    fn damage(&mut self) -> u64 {
        self.stall(false);
        self.world.forget_zombies();
        let layout = self.world.setup.layout.clone();
        let mut partitions: Vec<Partition> = layout
            .topics()
            .into_iter()
            .flat_map(|topic| {
                (0..topic.partitions).map(move |number| Partition::new(topic.name.clone(), number))
            })
            .collect();
        partitions.retain(|partition| !self.world.cluster.peek(partition, Offset(0)).is_empty());
        // What an institution writes there is its own: others pass over what they cannot read, and it is not mended.
        partitions.retain(|partition| !matches!(kind(&partition.topic), "approvals" | "cosignatures"));
        if partitions.is_empty() {
            return 0;
        }
        // A kind of topic first: there are many of some.
        let kinds: BTreeSet<String> =
            partitions.iter().map(|partition| kind(&partition.topic).to_owned()).collect();
        let chosen = self.rng().index(kinds.len());
        let chosen = kinds.into_iter().nth(chosen).unwrap_or_default();
        partitions.retain(|partition| kind(&partition.topic) == chosen);
        let partition = partitions[self.rng().index(partitions.len())].clone();
        let records = self.world.cluster.peek(&partition, Offset(0));
        let back = [1, 3, 1_000][self.rng().index(3)].min(records.len());
        let Record { offset, payload } = records[records.len() - 1 - self.rng().index(back)].clone();
        let bad = damaged(self.rng(), &partition.topic, &payload);
        self.world.trace.record("damages", partition.to_string().as_bytes());
        assert!(self.world.cluster.alter(&partition, offset, bad), "it was just read");
        let stops = readers(&layout, &partition);
        self.world.damaged =
            Some(Damage { partition: partition.clone(), position: offset.0, stops, stopped: 0 });
        for _ in 0..60 {
            let key = self.any();
            if self.rng().chance(1, 4) {
                self.world.open(key);
            } else {
                self.turns();
            }
            let passes = self.rng().below(50);
            self.world.now = self.world.now.plus_ms(passes);
        }
        let mut stopped = 0;
        for number in 0..self.world.gateways.len() {
            stopped += u64::from(self.gateway_stops(number, &partition, offset));
        }
        stopped += self.world.damaged.take().map_or(0, |damage| damage.stopped);
        // Mended, unless nobody needs it any more.
        let _ = self.world.cluster.alter(&partition, offset, payload);
        self.world.forget_zombies();
        for key in self.world.all() {
            self.world.end(key, 0);
        }
        if chosen == "transactions" {
            let scheduler = partition.number % layout.schedulers;
            let before = self.world.undecodable.get(&scheduler).copied().unwrap_or(0);
            let more = self.world.dead_letters((Role::Scheduler, scheduler)) - before;
            assert!(more <= 1, "one record was damaged, {more} were set aside");
            self.world.undecodable.insert(scheduler, before + more);
            stopped += more;
        }
        self.look();
        stopped
    }

    /// Whether a gateway cannot read on, for a reason that it names.
    fn gateway_stops(&mut self, number: usize, partition: &Partition, offset: Offset) -> bool {
        let gateway = self.world.gateways[number].as_mut().expect("gateways are opened at once");
        let read = |gateway: &mut tally_settlement::process::Gateway| -> Result<(), ShardError> {
            for _ in 0..2_000 {
                gateway.intake()?;
                gateway.sequence()?;
            }
            Ok(())
        };
        let Err(error) = read(gateway) else { return false };
        let (text, wanted) = (chain(&error), format!("record {} of {partition}", offset.0));
        assert!(text.contains(&wanted), "gateway {number} stops, not because of {wanted}: {text}");
        true
    }
}
