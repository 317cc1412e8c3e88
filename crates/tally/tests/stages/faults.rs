//! Faults under load: what was acknowledged stands, nothing is applied twice, balances are those of a model, an audit of
//! the topics finds nothing, and what clients were told is what one ledger could have told them.
//!
//! `TALLY_FAULTS` sets how many, `TALLY_SEED` which; the choices follow from the seed, what the processes make of them
//! does not.

use super::load::Load;
use super::network::{Network, PATIENCE, STAGES, eventually};
use super::payments::{BANKS, Random, World, plan_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_log::Log;
use tally_log::TopicId;
use tally_log::cluster::{Binding, Cluster, Partition};
use tally_log::kafka::KafkaCluster;
use tally_log::kafka::broker::Setup;
use tally_log::kafka::topics::TopicPlan;

/// Customers of each bank, and the groups in which they pay each other: small, so that a checker of histories sees through them.
const CUSTOMERS: usize = 24;
const GROUPS: usize = 12;
/// The largest file on a disk that is almost full: the network itself writes smaller ones.
const ROOM_MIB: u32 = 40;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// What is done to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// One process of a stage is killed, and started again after a while.
    Kill(&'static str),
    /// All processes of a stage are.
    KillAll(&'static str),
    /// A process hangs, for longer than the others take it for dead; then it goes on as if nothing had been.
    Pause(&'static str),
    /// One process more is started, and killed again.
    Another(&'static str),
    /// Every process of every stage is killed.
    Everything,
    /// The second process of each stage is cut off from the brokers, for longer than the others take it for dead; then it is
    /// heard again.
    CutOff,
    /// A broker is killed, and started again. Where there are three, payments go on meanwhile.
    Broker,
    /// One of three brokers hangs, with its connections open.
    HangingBroker,
    /// The disk of the last of three brokers is full for what it writes next; it ends, and later has room again.
    FullDisk,
}

impl Fault {
    fn all() -> Vec<Self> {
        let stages = STAGES.iter().map(|(stage, _)| *stage);
        let each =
            |stage| [Self::Kill(stage), Self::KillAll(stage), Self::Pause(stage), Self::Another(stage)];
        stages.flat_map(each).chain([Self::Everything, Self::CutOff, Self::Broker]).collect()
    }

    /// What is done to networks on three brokers only.
    fn of_three() -> Vec<Self> {
        vec![Self::Broker, Self::HangingBroker, Self::FullDisk]
    }

    /// What every run does: each stage killed and paused once, and the rest of the list once.
    fn short() -> Vec<Self> {
        let mut faults: Vec<_> = STAGES.iter().map(|(stage, _)| Self::KillAll(stage)).collect();
        faults.extend([
            Self::Kill("sequencer"),
            Self::Pause("sequencer"),
            Self::Pause("scheduler"),
            Self::Pause("assembler"),
            Self::Another("approver"),
            Self::CutOff,
            Self::Broker,
            Self::Everything,
        ]);
        faults
    }

    fn inject(self, network: &mut Network, load: &Load, random: &mut Random) {
        let count = |stage: &str| STAGES.iter().find(|(name, _)| *name == stage).unwrap().1;
        let moment = Duration::from_millis(random.below(1_500));
        match self {
            Self::Kill(stage) => {
                let at = random.below(count(stage) as u64) as usize;
                network.kill(stage, at);
                load.moved(network);
                std::thread::sleep(moment);
                network.start(stage, at);
            }
            Self::KillAll(stage) => {
                for at in 0..count(stage) {
                    network.kill(stage, at);
                }
                std::thread::sleep(moment);
                for at in 0..count(stage) {
                    network.start(stage, at);
                }
            }
            Self::Pause(stage) => {
                let at = random.below(count(stage) as u64) as usize;
                network.process(stage, at).signal("STOP");
                // Longer than a session lasts.
                std::thread::sleep(Duration::from_millis(2_500) + moment);
                network.process(stage, at).signal("CONT");
            }
            Self::Another(stage) => {
                network.start(stage, count(stage));
                std::thread::sleep(moment);
                network.kill(stage, count(stage));
            }
            Self::Everything => {
                for (stage, count) in STAGES {
                    (0..count).for_each(|at| network.kill(stage, at));
                }
                std::thread::sleep(moment);
                network.start_all();
            }
            Self::CutOff => {
                network.brokers.cut(true);
                std::thread::sleep(Duration::from_millis(2_500) + moment);
                load.goes_on(40, "half of the processes are cut off");
                network.brokers.cut(false);
            }
            Self::Broker => {
                let one = u16::try_from(random.below(network.nodes.into())).unwrap() + 1;
                network.brokers.kill(one);
                if network.nodes == 1 {
                    std::thread::sleep(moment);
                } else {
                    load.goes_on(40, "one broker of three is gone");
                }
                network.brokers.restart(one).unwrap();
                network.brokers.wait_until_all_serve().unwrap();
            }
            Self::HangingBroker => {
                let one = u16::try_from(random.below(network.nodes.into())).unwrap() + 1;
                network.brokers.pause(one).unwrap();
                load.goes_on(40, "one broker of three hangs");
                network.brokers.go_on(one).unwrap();
            }
            Self::FullDisk => {
                network.brokers.limit_disk(ROOM_MIB);
                network.brokers.restart(network.nodes).unwrap();
                network.brokers.wait_until_all_serve().unwrap();
                fill(network);
                load.goes_on(40, "the disk of one broker of three is full");
                network.brokers.free_disk();
                network.brokers.restart(network.nodes).unwrap();
                network.brokers.wait_until_all_serve().unwrap();
            }
        }
        load.moved(network);
    }
}

/// Fills the disk of the last broker, until it ends.
fn fill(network: &Network) {
    let cluster = KafkaCluster::new(network.brokers.options()).unwrap();
    let topic = TopicPlan::new("filler", 1).replicated(network.nodes, network.nodes / 2 + 1);
    cluster.create_topics(std::slice::from_ref(&topic)).unwrap();
    let binding = Binding { id: TopicId(0), partition: Partition::new("filler", 0), writes: true };
    let log = cluster.open("filler", &[binding]).unwrap();
    let bytes = vec![7; 1 << 19];
    eventually("the disk is full", || {
        log.append(TopicId(0), &[&bytes]).unwrap();
        // A broker that ends has its part taken over: that may take a moment.
        let _ = log.sync();
        (!network.brokers.runs(network.nodes)).then_some(())
    });
}

/// A network under load, faults one after another, and at the end what must hold after any of them.
fn survives(name: &str, setup: Setup, short: Vec<Fault>, all: &[Fault]) {
    let (faults, seed) = (number("TALLY_FAULTS", 0), number("TALLY_SEED", 1));
    let mut random = Random(seed);
    let mut network = Network::new(&plan_of(CUSTOMERS), setup);
    network.start_all();
    network.until_ready();
    let world = Arc::new(World::of(&network.layout(), CUSTOMERS, GROUPS));
    let load = Load::start(&world, &network, &mut random);
    load.goes_on(50, "the start");
    let chosen: Vec<Fault> = match faults {
        0 => short,
        _ => (0..faults).map(|_| all[random.below(all.len() as u64) as usize]).collect(),
    };
    let mut took: BTreeMap<String, (u32, Duration)> = BTreeMap::new();
    for fault in &chosen {
        fault.inject(&mut network, &load, &mut random);
        let began = Instant::now();
        load.goes_on(40, &format!("{fault:?} of seed {seed}"));
        let (count, longest) = took.entry(format!("{fault:?}")).or_default();
        (*count, *longest) = (*count + 1, began.elapsed().max(*longest));
    }
    load.end(name);
    for (fault, (count, took)) in took {
        println!("{fault}, {count} times: 40 payments more after {took:?} at most");
    }
    // Whoever was killed comes back, and any gateway answers.
    network.until_ready();
    world.compare(&network.client());

    let report = network.audit();
    let (sent, settled) = world.counts();
    println!("{} faults: {sent} payments, {settled} settled", chosen.len());
    // The opening, and what the clients sent: nothing else, and nothing twice.
    let opening = 2 + 2 * BANKS.len() * CUSTOMERS;
    let line = report.lines().find(|line| line.trim_start().starts_with("accepted")).unwrap();
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    assert_eq!(digits.parse::<usize>().unwrap(), opening + sent, "{report}");

    // A clean stop leaves nothing to do for those who come.
    for (stage, count) in STAGES {
        for at in 0..count {
            assert_eq!(network.stop(stage, at), Some(0), "{stage} {at}");
        }
    }
}

#[test]
fn nothing_is_lost_or_done_twice_whatever_is_killed() {
    survives("one-broker", Setup { far: true, ..Setup::default() }, Fault::short(), &Fault::all());
}

#[test]
fn two_brokers_of_three_are_enough() {
    let setup = Setup { nodes: 3, heap_mib: 384, far: true, ..Setup::default() };
    let all: Vec<_> = Fault::all().into_iter().chain(Fault::of_three()).collect();
    survives("three-brokers", setup, Fault::of_three(), &all);
}

#[test]
fn a_sequencer_that_stands_by_takes_over() {
    let mut network = Network::new(&plan_of(CUSTOMERS), Setup::default());
    network.start_all();
    network.until_ready();
    let world = Arc::new(World::of(&network.layout(), CUSTOMERS, GROUPS));
    let load = Load::start(&world, &network, &mut Random(7));
    load.goes_on(50, "the start");
    for round in 0..4 {
        let active = eventually("a sequencer is active", || {
            (0..2).find(|at| {
                network
                    .process("sequencer", *at)
                    .metric("tally_stage_running_shards")
                    .is_some_and(|n| n > 0.0)
            })
        });
        let began = Instant::now();
        network.kill("sequencer", active);
        load.goes_on(30, "a sequencer was killed");
        println!("take-over {round}: 30 payments more after {:?}", began.elapsed());
        assert!(began.elapsed() < PATIENCE);
        network.start("sequencer", active);
    }
    load.end("takeover");
    network.until_ready();
    world.compare(&network.client());
    network.audit();
}
