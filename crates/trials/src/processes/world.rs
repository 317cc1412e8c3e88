//! The shards, and all that can befall them.

use super::liars::{Liar, reason};
use super::setup::Setup;
use crate::simulation::life::chain;
use crate::simulation::plan::keys;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use tally_ledger::{ParticipantId, Timestamp};
use tally_log::cluster::{Binding, Cluster, MemoryCluster, Partition};
use tally_log::{LogError, Offset, TopicId};
use tally_settlement::process::{
    Gateway, Role, Shard, ShardError, Stop, approve, assemble, schedule, sequence, update,
};
use tally_settlement::runtime::shell::SharedState;
use tally_settlement::stage::{Approver, Updater};
use tally_sim::{Rng, Trace};

/// Which shard.
pub(super) type Key = (Role, u16);

/// A process that runs a shard, by its own machine's clock.
struct Life {
    shard: Shard,
    skew_ms: i64,
}

/// One that was replaced and does not know.
struct Zombie {
    key: Key,
    life: Life,
    /// What it had made visible when it was replaced.
    commits: u64,
}

/// A record that was damaged.
pub(super) struct Damage {
    pub(super) partition: Partition,
    pub(super) position: u64,
    /// Who may stop because of it.
    pub(super) stops: Vec<Key>,
    /// How often somebody did.
    pub(super) stopped: u64,
}

/// What happened to shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) lives: u64,
    pub(super) kills: u64,
    pub(super) fenced: u64,
    pub(super) lost: u64,
    pub(super) clocks: u64,
    pub(super) dead_letters: u64,
}

pub(super) struct World {
    pub(super) cluster: MemoryCluster,
    pub(super) setup: Setup,
    pub(super) now: Timestamp,
    pub(super) step: u64,
    pub(super) rng: Rng,
    /// Where gateways begin to number, apart from the other randomness.
    origins: Rng,
    pub(super) trace: Trace,
    pub(super) counts: Counts,
    lives: BTreeMap<Key, Life>,
    zombies: Vec<Zombie>,
    /// Shards that nobody runs, and the step from which on somebody may.
    down: BTreeMap<Key, u64>,
    pub(super) updaters: BTreeMap<u16, SharedState<Updater>>,
    pub(super) gateways: Vec<Option<Gateway>>,
    /// Records that nobody can read, by scheduler.
    pub(super) undecodable: BTreeMap<u16, u64>,
    /// Records of a lying gateway that nobody can read, by who sets them aside.
    pub(super) unreadable: BTreeMap<Key, u64>,
    pub(super) damaged: Option<Damage>,
    /// The member that lies.
    pub(super) liar: Option<Liar>,
    /// Shards whose turns the liar takes itself.
    pub(super) replaced: BTreeSet<Key>,
    /// Shards that stopped because of a lie, for good, with the reason by its name.
    pub(super) stopped: BTreeMap<Key, &'static str>,
    /// Whether nothing goes wrong on purpose any more.
    pub(super) healed: bool,
}

pub(super) const START: Timestamp = Timestamp(1_750_000_000_000);

/// Whether the answer to what it made visible was lost.
fn is_lost(error: &ShardError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if matches!(error.downcast_ref::<LogError>(), Some(LogError::Failed { .. })) {
            return true;
        }
        cause = error.source();
    }
    false
}

impl World {
    pub(super) fn new(setup: Setup, mut rng: Rng) -> Self {
        let cluster = setup.cluster(&mut rng);
        let mut world = Self {
            cluster,
            setup,
            now: START,
            step: 0,
            trace: Trace::new(),
            counts: Counts::default(),
            lives: BTreeMap::new(),
            zombies: Vec::new(),
            down: BTreeMap::new(),
            updaters: BTreeMap::new(),
            gateways: Vec::new(),
            undecodable: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            damaged: None,
            liar: None,
            replaced: BTreeSet::new(),
            stopped: BTreeMap::new(),
            healed: true,
            origins: rng.clone().fork(),
            rng,
        };
        for key in world.all() {
            world.open(key);
        }
        for number in 0..world.setup.layout.gateways {
            world.gateways.push(None);
            world.open_gateway(number);
        }
        world.healed = false;
        world
    }

    /// Every shard there is.
    pub(super) fn all(&self) -> Vec<Key> {
        let layout = &self.setup.layout;
        let mut all = vec![(Role::Sequencer, 0)];
        all.extend((0..layout.schedulers).map(|shard| (Role::Scheduler, shard)));
        all.extend((0..layout.assemblers).map(|shard| (Role::Assembler, shard)));
        all.extend(layout.everybody().map(|participant| (Role::Approver, participant.0)));
        all.extend(layout.everybody().map(|participant| (Role::Updater, participant.0)));
        all.retain(|key| !self.replaced.contains(key));
        all
    }

    /// From now on the liar takes the turns of a shard itself.
    pub(super) fn replace(&mut self, key: Key) {
        self.lives.remove(&key);
        self.down.remove(&key);
        self.replaced.insert(key);
        if key.0 == Role::Updater {
            self.updaters.remove(&key.1);
        }
    }

    /// By how much the clock of a machine is wrong, until the process on it ends.
    fn skew(&mut self) -> i64 {
        if self.healed {
            return 0;
        }
        // Now and then by more than transactions live.
        let most = if self.rng.chance(1, 40) { 75_000 } else { self.setup.skew_ms };
        let skew = self.rng.between(0, 2 * most);
        i64::try_from(skew).expect("small") - i64::try_from(most).expect("small")
    }

    fn clock(&self, skew_ms: i64) -> Timestamp {
        Timestamp(self.now.0.saturating_add_signed(skew_ms))
    }

    /// Somebody runs a shard, whoever else does.
    pub(super) fn open(&mut self, key: Key) {
        if self.replaced.contains(&key) || self.stopped.contains_key(&key) {
            return;
        }
        let skew_ms = self.skew();
        let now = self.clock(skew_ms);
        match self.try_open(key, now) {
            Ok(shard) => {
                self.counts.lives += 1;
                self.trace.record_number("opens", u64::from(key.1));
                self.down.remove(&key);
                if let Some(life) = self.lives.insert(key, Life { shard, skew_ms }) {
                    let commits = life.shard.watch().counts().commits.load(Ordering::Relaxed);
                    self.zombies.push(Zombie { key, life, commits });
                }
            }
            Err(ShardError::Clock { ahead_ms, .. }) => {
                assert!(!self.healed, "{key:?} is {ahead_ms} ms ahead, still");
                self.counts.clocks += 1;
                self.trace.record_number("clock", ahead_ms);
                // Whoever ran it was fenced by the attempt.
                self.end(key, 20);
            }
            Err(error) => self.stops(key, &error),
        }
    }

    fn try_open(&mut self, key: Key, now: Timestamp) -> Result<Shard, ShardError> {
        let (role, number) = key;
        let (cluster, Setup { layout, network, .. }) = (&self.cluster, &self.setup);
        let stop = Stop::default();
        let signing = |number: u16| keys()[usize::from(number)].clone();
        match role {
            Role::Scheduler => {
                let secret = [self.rng.next_u64(), self.rng.next_u64()];
                let remember = (self.setup.remember, secret);
                schedule::open(cluster, layout, network, number, remember, now, &stop)
            }
            Role::Approver => approve::open(cluster, layout, network, number, signing(number), now, &stop),
            Role::Assembler => assemble::open(cluster, layout, network, number, now, &stop),
            Role::Sequencer => sequence::open(cluster, layout, network.id, signing(0), now, &stop),
            Role::Updater => {
                let every_ms = self.setup.save_every_ms;
                let (shard, state) =
                    update::open(cluster, layout, network, number, (signing(number), every_ms), now, &stop)?;
                self.updaters.insert(number, state);
                Ok(shard)
            }
            Role::Gateway => unreachable!("it is no shard"),
        }
    }

    /// A gateway begins, whoever else is it.
    pub(super) fn open_gateway(&mut self, number: u16) {
        // Its clock does not matter. It is drawn so that the seeds that are kept stay the runs that they were.
        self.skew();
        let first = self.origins.next_u64();
        let gateway = Gateway::open(&self.cluster, &self.setup.layout, number, first, &Stop::default());
        let gateway = gateway.unwrap_or_else(|error| panic!("a gateway does not open: {}", chain(&error)));
        self.trace.record_number("gateway", u64::from(number));
        self.gateways[usize::from(number)] = Some(gateway);
    }

    /// A shard's process ends, and nobody runs it for so many steps.
    pub(super) fn end(&mut self, key: Key, steps: u64) {
        if self.replaced.contains(&key) || self.stopped.contains_key(&key) {
            return;
        }
        if self.lives.remove(&key).is_some() {
            self.counts.kills += 1;
        }
        self.down.insert(key, self.step + steps);
    }

    /// Those down whose time has come are opened somewhere.
    pub(super) fn restart(&mut self) {
        let due: Vec<Key> =
            self.down.iter().filter(|(_, until)| **until <= self.step).map(|(key, _)| *key).collect();
        for key in due {
            self.open(key);
        }
    }

    /// A shard takes a turn, if anybody runs it; whether there was anything to do. What it wrote, the liar sees first.
    pub(super) fn turn(&mut self, key: Key) -> bool {
        let progress = self.turn_alone(key);
        if let Some(mut liar) = self.liar.take() {
            liar.after(self, key);
            self.liar = Some(liar);
        }
        progress
    }

    fn turn_alone(&mut self, key: Key) -> bool {
        let Some(life) = self.lives.get_mut(&key) else { return false };
        let now = Timestamp(self.now.0.saturating_add_signed(life.skew_ms));
        match life.shard.turn(now) {
            Ok(progress) => {
                self.check_floors(key);
                progress
            }
            Err(error) if is_lost(&error) => {
                self.counts.lost += 1;
                self.trace.record_number("lost", u64::from(key.1));
                let steps = self.pause();
                self.end(key, steps);
                true
            }
            Err(error) => {
                self.stops(key, &error);
                true
            }
        }
    }

    /// A shard cannot go on: because of the record that was damaged, which it names, or because of a lie.
    fn stops(&mut self, key: Key, error: &ShardError) {
        let text = chain(error);
        if let Some(liar) = &self.liar {
            let reason = reason(error);
            let own = liar.is_own(key);
            assert!(own || liar.may_stop(key), "{key:?} stops because of {:?}: {text}", liar.member);
            assert!(own || reason.is_some(), "{key:?} stops without a reason that has a type: {text}");
            self.trace.record("stops", text.as_bytes());
            self.end(key, 1 << 40);
            self.down.remove(&key);
            self.stopped.insert(key, reason.unwrap_or("Other"));
            return;
        }
        let Some(Damage { partition, position, stops, stopped }) = &mut self.damaged else {
            panic!("{key:?} stops: {text}");
        };
        assert!(stops.contains(&key), "{key:?} stops because of {position} of {partition}: {text}");
        assert!(
            text.contains(&format!("record {position} of {partition}")),
            "{key:?} does not say where: {text}"
        );
        *stopped += 1;
        self.trace.record_number("stops", u64::from(key.1));
        self.end(key, 1 << 40);
    }

    /// A process that was replaced takes a turn.
    pub(super) fn zombie_turn(&mut self) {
        if self.zombies.is_empty() {
            return;
        }
        let at = self.rng.index(self.zombies.len());
        let Zombie { life, commits, .. } = &mut self.zombies[at];
        let now = Timestamp(self.now.0.saturating_add_signed(life.skew_ms));
        let turned = life.shard.turn(now);
        let visible = life.shard.watch().counts().commits.load(Ordering::Relaxed);
        assert_eq!(visible, *commits, "a process that was fenced makes something visible");
        if let Err(error) = turned {
            let key = self.zombies[at].key;
            let lied_to = self
                .liar
                .as_ref()
                .is_some_and(|liar| liar.is_own(key) || (liar.may_stop(key) && reason(&error).is_some()));
            assert!(error.is_fenced() || is_lost(&error) || lied_to, "{key:?}: {}", chain(&error));
            self.counts.fenced += u64::from(error.is_fenced());
            self.zombies.swap_remove(at);
        }
    }

    /// All who were replaced find out, or are ended.
    pub(super) fn bury(&mut self) {
        for _ in 0..8 * self.zombies.len() {
            self.zombie_turn();
        }
        self.zombies.clear();
    }

    /// All who were replaced are ended.
    pub(super) fn forget_zombies(&mut self) {
        self.zombies.clear();
    }

    /// How many steps something is down for.
    pub(super) fn pause(&mut self) -> u64 {
        match self.rng.below(6) {
            0..=2 => 0,
            3..=4 => self.rng.between(1, 30),
            _ => self.rng.between(30, 300),
        }
    }

    /// Ends the next turn of a shard within it: what it appended is not visible, or is and nobody told it.
    pub(super) fn lose(&mut self, key: Key) {
        let writer = self.setup.layout.writer(key.0, key.1);
        let takes_place = self.rng.chance(1, 2);
        self.cluster.lose(&writer, takes_place);
    }

    /// The approver of a participant, if anybody runs it.
    pub(super) fn approver(&self, participant: u16) -> Option<&Approver> {
        self.lives.get(&(Role::Approver, participant)).and_then(|life| life.shard.approver())
    }

    /// What is available is never below a floor, unless its institution signed that itself.
    fn check_floors(&self, (role, number): Key) {
        if self.liar.as_ref().and_then(Liar::participant) == Some(ParticipantId(number)) {
            return;
        }
        let Some(approver) = (role == Role::Approver).then(|| self.approver(number)).flatten() else {
            return;
        };
        let accounts = approver.accounts();
        for (account, held) in accounts.iter() {
            let floor = accounts.floor(account, held).0;
            assert!(
                held.balance >= floor,
                "{} available on {account:?} of {number}, below {floor}",
                held.balance
            );
        }
    }

    /// Writes as a gateway does, but what nobody can read; the gateway is fenced by it.
    pub(super) fn write_undecodable(&mut self, gateway: u16) {
        let layout = &self.setup.layout;
        let scheduler = u16::try_from(self.rng.below(u64::from(layout.schedulers))).expect("few");
        let number = gateway * layout.schedulers + scheduler;
        let partition = Partition::new(format!("{}.transactions", layout.prefix), number);
        let binding = Binding { id: TopicId(0), partition, writes: true };
        let log = self.cluster.open(&layout.writer(Role::Gateway, gateway), &[binding]);
        let log = log.expect("the partition is there");
        let mut noise = vec![0; self.rng.index(40)];
        self.rng.fill(&mut noise);
        log.append(TopicId(0), &[&noise]).expect("the log is new");
        if log.sync().is_ok() {
            *self.undecodable.entry(scheduler).or_default() += 1;
        }
    }

    /// An updater's process ended while it saved a large snapshot: pieces are there, their end is not. Only where
    /// nobody runs it now.
    pub(super) fn write_half_a_snapshot(&mut self, participant: ParticipantId) {
        let layout = &self.setup.layout;
        let key = (Role::Updater, participant.0);
        if !self.down.contains_key(&key) {
            return;
        }
        let topic = format!("{}.snapshots.{}", layout.prefix, layout.participants[participant.index()]);
        let partition = Partition::new(topic, 0);
        let end = self.cluster.peek(&partition, Offset(0)).into_iter().rev();
        let before = end.into_iter().find(|record| record.payload.get(1) == Some(&1));
        let binding = Binding { id: TopicId(0), partition, writes: true };
        let log =
            self.cluster.open(&layout.writer(key.0, key.1), &[binding]).expect("the partition is there");
        let before = before.map_or(u64::MAX, |record| record.offset.0).to_le_bytes();
        for _ in 0..self.rng.between(1, 3) {
            let piece: [&[u8]; 4] = [&[3, 0], &before, &4u32.to_le_bytes(), b"half"];
            log.append(TopicId(0), &piece).expect("the log is new");
        }
        drop(log.sync());
    }

    /// Records set aside by a shard.
    pub(super) fn dead_letters(&self, key: Key) -> u64 {
        let partition = self.setup.layout.dead_letters(key.0, key.1);
        self.cluster.peek(&partition, Offset(0)).len() as u64
    }
}
