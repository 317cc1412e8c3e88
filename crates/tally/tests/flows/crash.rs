//! SIGKILL of any node, of the notary and of the database's server at random moments under load: no state is spent
//! twice, no cash is made or lost, and every flow that a client asked for ends exactly once.
//!
//! `TALLY_KILLS` sets how often in all (default 120), `TALLY_SEED` which run. The clients' choices and the moments
//! follow from the seed; what the processes make of it does not, which is the point.

use super::load::{Party, World};
use super::support::{Network, Node};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tally_rpc::Outcome;
use tally_sim::Rng;
use tally_store::server::PostgresServer;

const CLIENTS: usize = 12;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// What can be killed.
struct Victims {
    network: Network,
    labels: Vec<&'static str>,
    nodes: Vec<Option<Node>>,
    database: Option<PostgresServer>,
}

impl Victims {
    fn start(network: Network, labels: &[&'static str], database: Option<PostgresServer>) -> Self {
        let nodes = labels.iter().map(|label| Some(network.start(label))).collect();
        Self { network, labels: labels.to_vec(), nodes, database }
    }

    /// Kills one at random and starts it again; sometimes once more while it recovers. Says how many were killed.
    fn kill(&mut self, rng: &mut Rng) -> u64 {
        if let Some(database) = &self.database
            && rng.chance(1, 6)
        {
            database.kill().unwrap();
            spin(rng.below(20_000));
            database.restart().unwrap();
            return 1;
        }
        if rng.chance(1, 10) {
            return self.kill_all(rng);
        }
        let victim = rng.index(self.nodes.len());
        let label = self.labels[victim];
        self.nodes[victim].take().unwrap().kill();
        let mut kills = 1;
        // While it recovers, or just before or after.
        while rng.chance(1, 6) {
            let node = Node::spawn(self.network.node(label));
            spin(rng.below(30_000));
            node.kill();
            kills += 1;
        }
        // The others go on without it for a while.
        spin(rng.below(15_000));
        self.nodes[victim] = Some(self.network.start(label));
        kills
    }

    /// Kills every node, and the database if there is one, within moments; starts them in any order.
    fn kill_all(&mut self, rng: &mut Rng) -> u64 {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        rng.shuffle(&mut order);
        if let Some(database) = &self.database {
            database.kill().unwrap();
        }
        for victim in &order {
            self.nodes[*victim].take().unwrap().kill();
        }
        if let Some(database) = &self.database {
            database.restart().unwrap();
        }
        rng.shuffle(&mut order);
        for victim in &order {
            self.nodes[*victim] = Some(self.network.start(self.labels[*victim]));
        }
        order.len() as u64 + u64::from(self.database.is_some())
    }
}

fn spin(micros: u64) {
    let moment = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < moment {
        std::thread::yield_now();
    }
}

/// Kills so many times under load, then checks the books. The parties are all but the last of `labels`.
fn survive(
    network: Network,
    labels: &[&'static str],
    database: Option<PostgresServer>,
    kills: u64,
    seed: u64,
) {
    let began = Instant::now();
    let mut rng = Rng::new(seed);
    network.agree_to_par();
    let parties = labels[..labels.len() - 1].iter().map(|label| Party::new(network.node(label))).collect();
    let world = World::new(parties);
    let mut victims = Victims::start(network, labels, database);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(world.open());
    let clients: Vec<_> = (0..CLIENTS).map(|_| runtime.spawn(Arc::clone(&world).work(rng.fork()))).collect();
    let mut killed = 0;
    while killed < kills {
        // After so many more flows, and a moment: at any step of those under way.
        let enough = world.ended.load(Ordering::Relaxed) + 1 + rng.below(30);
        while world.ended.load(Ordering::Relaxed) < enough {
            assert!(clients.iter().all(|client| !client.is_finished()), "a client failed: see above");
            std::thread::sleep(Duration::from_millis(1));
        }
        spin(rng.below(5_000));
        killed += victims.kill(&mut rng);
    }
    world.stop.store(true, Ordering::Relaxed);
    for client in clients {
        runtime.block_on(client).unwrap();
    }
    let under_load = began.elapsed();
    let tally = runtime.block_on(world.check());
    println!(
        "{killed} kills in {under_load:.1?}, seed {seed}, checked in {:.1?}: {tally:?}",
        began.elapsed() - under_load
    );
    assert!(tally.completed as u64 > kills && tally.completed * 2 > tally.flows, "there was load: {tally:?}");
    drop(runtime);
    for node in victims.nodes.into_iter().flatten() {
        node.stop();
    }
}

#[test]
fn the_books_show_it_when_a_node_forgets() {
    let network = Network::pair();
    let labels = ["PartyA", "PartyB"];
    let data = network.node("PartyA").root().join("data");
    let old = network.directory.join("old");
    let world = World::new(labels.iter().map(|label| Party::new(network.node(label))).collect());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let pay = |request: &str| {
        let arguments = serde_json::json!({ "amount": "5.00 USD", "to": world.parties[1].name });
        let outcome = runtime.block_on(world.ask(0, "CashPay", arguments, request));
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    };
    let _others = ["Notary", "PartyB"].map(|label| network.start(label));
    let node = network.start("PartyA");
    runtime.block_on(world.open());
    pay("kept");
    runtime.block_on(world.check());
    node.stop();
    std::fs::create_dir(&old).unwrap();
    for file in std::fs::read_dir(&data).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), old.join(file.file_name())).unwrap();
    }
    let node = network.start("PartyA");
    pay("forgotten");
    node.kill();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&old, &data).unwrap();
    let _node = network.start("PartyA");
    let noticed = catch_unwind(AssertUnwindSafe(|| runtime.block_on(world.check())));
    let noticed = noticed.expect_err("a payment is missing");
    let noticed = noticed.downcast_ref::<String>().unwrap();
    assert!(noticed.contains("forgotten") && noticed.contains("is not a flow of its own"), "{noticed}");
}

#[test]
fn cash_is_neither_made_nor_lost_however_often_nodes_and_notary_are_killed() {
    let (kills, seed) = (number("TALLY_KILLS", 120), number("TALLY_SEED", 1));
    survive(Network::pair(), &["PartyA", "PartyB", "Notary"], None, kills * 2 / 3, seed);
}

#[test]
fn nor_when_postgresql_is_killed_as_well() {
    let (kills, seed) = (number("TALLY_KILLS", 120), number("TALLY_SEED", 1));
    let server = PostgresServer::start().unwrap();
    let url = server.url();
    let network = Network::of(&[
        "--nodes",
        "PartyA,PartyB",
        "--notary",
        "Notary:validating",
        "--database",
        "postgres",
        "--postgres-url",
        &url,
    ]);
    survive(network, &["PartyA", "PartyB", "Notary"], Some(server), kills.div_ceil(3), seed + 1);
}
