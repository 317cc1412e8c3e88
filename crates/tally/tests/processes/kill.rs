//! SIGKILL at random moments under load: what was acknowledged stands, nothing is applied twice, the balances are
//! those of a model, and an audit of the files alone finds nothing.
//!
//! `TALLY_KILLS` sets how often (default 50), `TALLY_SEED` which run. The clients' choices and the moments follow
//! from the seed; what the processes make of it does not, which is the point.

use super::payments::{BANKS, CLIENTS, CUSTOMERS, Random, Round, World, plan};
use super::support::{Network, Running};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tally_settlement::audit::{AuditOptions, audit};

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
