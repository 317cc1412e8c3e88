//! Faults under load: what was acknowledged stands, nothing is applied twice, balances are those of a model, and an audit
//! of the topics finds nothing.
//!
//! `TALLY_FAULTS` sets how many, `TALLY_SEED` which; the choices follow from the seed, what the processes make of them
//! does not.

use super::network::{Network, PATIENCE, STAGES, eventually};
use super::payments::{BANKS, CUSTOMERS, Random, World, plan, told};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tally::client::Client;
use tally_ledger::{TransactionBatch, Uetr};
use tally_log::kafka::broker::Setup;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// Customers who send on through whichever gateway answers.
struct Load {
    stop: Arc<AtomicBool>,
    gateways: Arc<Mutex<Vec<String>>>,
    answered: Arc<AtomicU64>,
    clients: Vec<std::thread::JoinHandle<()>>,
}

const CLIENTS: usize = 3;
const BATCH: u64 = 12;

impl Load {
    fn start(world: &Arc<World>, network: &Network, random: &mut Random) -> Self {
        let mut load = Self {
            stop: Arc::default(),
            gateways: Arc::new(Mutex::new(network.gateways())),
            answered: Arc::default(),
            clients: Vec::new(),
        };
        for _ in 0..CLIENTS {
            let (world, random) = (Arc::clone(world), Random(random.next()));
            let (stop, gateways, answered) =
                (Arc::clone(&load.stop), Arc::clone(&load.gateways), Arc::clone(&load.answered));
            load.clients.push(std::thread::spawn(move || {
                send(&world, random, &stop, &gateways, &answered);
            }));
        }
        load
    }

    /// Tells the customers which gateways there are now.
    fn moved(&self, network: &Network) {
        *self.gateways.lock().unwrap() = network.gateways();
    }

    /// Waits until so many more payments were answered with their outcome.
    #[track_caller]
    fn goes_on(&self, payments: u64, after: &str) {
        let enough = self.answered.load(Ordering::Relaxed) + payments;
        eventually(&format!("payments go on after: {after}"), || {
            (self.answered.load(Ordering::Relaxed) >= enough).then_some(())
        });
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().unwrap();
        }
    }
}

/// Sends batches; what was not answered is sent again, to any gateway, until it is.
fn send(
    world: &World,
    mut random: Random,
    stop: &AtomicBool,
    gateways: &Mutex<Vec<String>>,
    answered: &AtomicU64,
) {
    let mut unknown: Vec<Uetr> = Vec::new();
    loop {
        let client = {
            let gateways = gateways.lock().unwrap();
            Client::new(&gateways[random.below(gateways.len() as u64) as usize])
        };
        let stopping = stop.load(Ordering::Relaxed);
        if stopping && unknown.is_empty() {
            return;
        }
        if !stopping {
            let new: Vec<_> = (0..=random.below(BATCH)).map(|_| world.transaction(&mut random)).collect();
            world.remember(&new);
            unknown.extend(new.iter().map(|sent| sent.transaction.header.uetr));
        }
        let mut batch = TransactionBatch::default();
        {
            let all = world.sent.lock().unwrap();
            for uetr in &unknown {
                assert!(batch.push(&all[uetr].transaction));
            }
        }
        let Ok(body) = client.submit(&batch) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let mut still = Vec::new();
        for (uetr, outcome) in unknown.iter().zip(&body.outcomes) {
            if told(outcome).is_some() {
                world.acknowledge(uetr, outcome);
                answered.fetch_add(1, Ordering::Relaxed);
            } else {
                still.push(*uetr);
            }
        }
        unknown = still;
    }
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
    /// The broker is killed, and started again.
    Broker,
}

impl Fault {
    fn all() -> Vec<Self> {
        let stages = STAGES.iter().map(|(stage, _)| *stage);
        let each =
            |stage| [Self::Kill(stage), Self::KillAll(stage), Self::Pause(stage), Self::Another(stage)];
        stages.flat_map(each).chain([Self::Everything, Self::Broker]).collect()
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
            Self::Broker => {
                network.brokers.kill(1);
                std::thread::sleep(moment);
                network.brokers.restart(1).unwrap();
            }
        }
        load.moved(network);
    }
}

#[test]
fn nothing_is_lost_or_done_twice_whatever_is_killed() {
    let (faults, seed) = (number("TALLY_FAULTS", 0), number("TALLY_SEED", 1));
    let mut random = Random(seed);
    let mut network = Network::new(&plan(), Setup::default());
    network.start_all();
    network.until_ready();
    let world = Arc::new(World::new(&network.layout()));
    let load = Load::start(&world, &network, &mut random);
    load.goes_on(50, "the start");
    let all = Fault::all();
    let chosen: Vec<Fault> = match faults {
        0 => Fault::short(),
        _ => (0..faults).map(|_| all[random.below(all.len() as u64) as usize]).collect(),
    };
    let mut took: BTreeMap<String, Duration> = BTreeMap::new();
    for fault in &chosen {
        fault.inject(&mut network, &load, &mut random);
        let began = Instant::now();
        load.goes_on(40, &format!("{fault:?} of seed {seed}"));
        took.insert(format!("{fault:?}"), began.elapsed());
    }
    load.end();
    for (fault, took) in took {
        println!("{fault}: 40 payments more after {took:?}");
    }
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
fn a_sequencer_that_stands_by_takes_over() {
    let mut network = Network::new(&plan(), Setup::default());
    network.start_all();
    network.until_ready();
    let world = Arc::new(World::new(&network.layout()));
    let load = Load::start(&world, &network, &mut Random(7));
    load.goes_on(50, "the start");
    for round in 0..4 {
        let active = eventually("a sequencer is active", || {
            (0..2).find(|at| {
                network.process("sequencer", *at).metric("tally_stage_shards").is_some_and(|n| n > 0.0)
            })
        });
        let began = Instant::now();
        network.kill("sequencer", active);
        load.goes_on(30, "a sequencer was killed");
        println!("take-over {round}: 30 payments more after {:?}", began.elapsed());
        assert!(began.elapsed() < PATIENCE);
        network.start("sequencer", active);
    }
    load.end();
    world.compare(&network.client());
    network.audit();
}
