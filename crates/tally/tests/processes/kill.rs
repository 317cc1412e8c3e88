//! SIGKILL at random moments under load: what was acknowledged stands, nothing is applied twice, the balances are
//! those of a model, and an audit of the files alone finds nothing.
//!
//! `TALLY_KILLS` sets how often (default 50), `TALLY_SEED` which run. The clients' choices and the moments follow
//! from the seed; what the processes make of it does not, which is the point.

use super::payments::{BANKS, CUSTOMERS, Random, World, batch, plan, told};
use super::support::{Network, Running};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tally::client::Client;
use tally_gateway::wire::{OutcomeView, Status};
use tally_ledger::Uetr;
use tally_settlement::audit::{AuditOptions, audit};

const CLIENTS: usize = 4;

/// What is checked after one kill.
struct Round {
    first_sequence: u64,
    samples: usize,
}

impl World {
    /// After a restart: what clients were not told is found out; some of it, and some of what they were told, is
    /// sent once more. All that was told stands.
    fn settle_accounts(&self, client: &Client, random: &mut Random, round: &Round) {
        let (mut unknown, mut known) = (Vec::new(), Vec::new());
        for (uetr, sent) in self.sent.lock().unwrap().iter() {
            match sent.told {
                None => unknown.push(*uetr),
                Some(told) => known.push((*uetr, told)),
            }
        }
        unknown.sort();
        known.sort_by_key(|(_, told)| told.sequence);
        // Everything of this round, and some of what is older.
        let older = known.partition_point(|(_, told)| told.sequence < round.first_sequence);
        let mut checked: Vec<_> = known[older..].to_vec();
        checked.extend((0..round.samples.min(older)).map(|_| known[random.below(older as u64) as usize]));
        for (uetr, told_before) in &checked {
            let found = client.status(&uetr.to_string()).unwrap();
            assert_eq!(told(&found), Some(*told_before), "{uetr} was acknowledged otherwise");
        }
        let again: Vec<Uetr> = unknown
            .iter()
            .copied()
            .filter(|_| random.below(2) == 0)
            .chain(checked.iter().take(16).map(|(uetr, _)| *uetr))
            .collect();
        if !again.is_empty() {
            let all = self.sent.lock().unwrap();
            let batch = batch(again.iter().map(|uetr| &all[uetr].transaction));
            drop(all);
            for (uetr, outcome) in again.iter().zip(client.submit(&batch).unwrap().outcomes) {
                self.acknowledge(uetr, &outcome);
            }
        }
        for uetr in unknown.iter().filter(|uetr| !again.contains(uetr)) {
            match decided(client, uetr) {
                Some(outcome) => self.acknowledge(uetr, &outcome),
                // It never arrived, and nobody will send it again.
                None => drop(self.sent.lock().unwrap().remove(uetr)),
            }
        }
    }
}

/// The outcome of a transaction that may have arrived; waits while it is under way.
fn decided(client: &Client, uetr: &Uetr) -> Option<OutcomeView> {
    loop {
        match client.status(&uetr.to_string()) {
            Ok(outcome) if outcome.status == Status::Pending => std::thread::yield_now(),
            Ok(outcome) => return Some(outcome),
            Err(error) => {
                let refused = error.downcast_ref::<tally::client::Refused>();
                assert_eq!(refused.map(|refused| refused.status), Some(404), "{error:#}");
                return None;
            }
        }
    }
}

/// Kills the network after so many more acknowledgements and a moment.
fn kill_under_load(world: &Arc<World>, running: Running<'_>, random: &mut Random) {
    let client = running.client();
    let stop = Arc::new(AtomicBool::new(false));
    let enough = world.acknowledged.load(Ordering::Relaxed) + random.below(600);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (world, client, stop) = (Arc::clone(world), client.clone(), Arc::clone(&stop));
            let random = Random(random.next());
            std::thread::spawn(move || world.load(&client, random, &stop))
        })
        .collect();
    while world.acknowledged.load(Ordering::Relaxed) < enough && !clients.iter().any(|c| c.is_finished()) {
        std::thread::yield_now();
    }
    let moment = Instant::now() + Duration::from_micros(random.below(8_000));
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
    running.kill();
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

#[test]
fn nothing_acknowledged_is_lost_however_often_the_process_is_killed() {
    let (kills, seed) = (number("TALLY_KILLS", 50), number("TALLY_SEED", 1));
    let mut random = Random(seed);
    let network = Network::of(&plan());
    let world = Arc::new(World::new(&network.layout()));
    let ledger = Arc::new(world.network.clone());
    let mut first_sequence = 0;
    for kill in 0..kills {
        let mut running = network.start(&[]);
        if random.below(8) == 0 {
            // While it recovers, or just before or after.
            let moment = Instant::now() + Duration::from_micros(random.below(30_000));
            while Instant::now() < moment {
                std::hint::spin_loop();
            }
            running.kill();
            running = network.start(&[]);
        }
        assert!(running.listens(), "kill {kill} of seed {seed}: the network does not recover");
        let client = running.client();
        world.settle_accounts(&client, &mut random, &Round { first_sequence, samples: 50 });
        world.compare(&client);
        first_sequence = client.network().unwrap().sequence;
        kill_under_load(&world, running, &mut random);
        let report = audit(&network.directory, &ledger, AuditOptions { signatures: false });
        let report = report.unwrap_or_else(|finding| panic!("kill {kill} of seed {seed}: {finding:?}"));
        let acknowledged = world.sent.lock().unwrap().values().filter(|sent| sent.told.is_some()).count();
        assert!(report.sequenced >= acknowledged as u64, "kill {kill} of seed {seed}: decisions are missing");
    }
    let running = network.run();
    let client = running.client();
    world.settle_accounts(&client, &mut random, &Round { first_sequence: 0, samples: 0 });
    world.compare(&client);
    assert_eq!(running.stop().code, Some(0));
    let report = audit(&network.directory, &ledger, AuditOptions { signatures: true }).unwrap();
    let (sent, settled) = world.counts();
    println!("{kills} kills: {sent} payments, {settled} settled, {} records", report.tree_size);
    assert_eq!(report.undecided, 0);
    assert!(sent as u64 > kills, "there was load");
    // The opening, and what the clients sent: nothing else, and nothing twice.
    let opening = 2 + 2 * BANKS.len() as u64 * CUSTOMERS as u64;
    assert_eq!(report.sequenced, opening + sent as u64);
}
