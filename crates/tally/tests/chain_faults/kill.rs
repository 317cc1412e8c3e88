//! SIGKILL of any node at random moments under load: every node opens again, every transaction that a node gave its
//! word for is committed, and there is one chain.
//!
//! `TALLY_KILLS` sets how often in all (default 24), `TALLY_SEED` which run, `TALLY_PAUSE_MS` how long each sender waits
//! after a transaction (default 12: what a node that is away holds back stays below the bound on transactions beyond a
//! gap). The moments follow from the seed; what the processes make of it does not, which is the point.

use super::client::{Client, number};
use super::load::{Load, PAYEE};
use super::support::{Network, Node, agree, eventually, setting};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tally_sim::Rng;

const VALIDATORS: usize = 4;
const SENDERS: u8 = 4;

/// Asks every node for its newest block again and again: none may ever say otherwise afterwards.
struct Witness {
    stop: Arc<AtomicBool>,
    seen: JoinHandle<BTreeSet<(u64, String)>>,
}

impl Witness {
    fn start(clients: Vec<Client>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let seen = std::thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !stopped.load(Ordering::Relaxed) {
                for client in &clients {
                    if let Ok(block) = client.call("eth_getBlockByNumber", &json!(["latest", false])) {
                        seen.insert((number(&block["number"]), block["hash"].as_str().unwrap().to_owned()));
                    }
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            seen
        });
        Self { stop, seen }
    }

    fn stop(self) -> BTreeSet<(u64, String)> {
        self.stop.store(true, Ordering::Relaxed);
        self.seen.join().unwrap()
    }
}

struct Victims {
    network: Network,
    nodes: Vec<Option<Node>>,
}

impl Victims {
    /// Kills some at random, lets the others go on for a moment, and starts them again; sometimes kills one once more
    /// while it starts. Says how many were killed.
    fn kill(&mut self, rng: &mut Rng) -> u64 {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        rng.shuffle(&mut order);
        // Mostly one; sometimes two, of which blocks stop; sometimes all.
        order.truncate(match rng.below(8) {
            0 => self.nodes.len(),
            1 | 2 => 2,
            _ => 1,
        });
        for at in &order {
            self.nodes[*at].take().unwrap().kill();
        }
        let mut kills = order.len() as u64;
        std::thread::sleep(Duration::from_millis(rng.below(700)));
        rng.shuffle(&mut order);
        for at in order {
            while rng.chance(1, 5) {
                let node = Node::spawn(self.network.node(at));
                std::thread::sleep(Duration::from_millis(rng.below(120)));
                node.kill();
                kills += 1;
            }
            self.nodes[at] = Some(self.network.start(at));
        }
        kills
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_however_often_nodes_are_killed() {
    let (kills, seed) = (setting("TALLY_KILLS", 24), setting("TALLY_SEED", 1));
    let pause = Duration::from_millis(setting("TALLY_PAUSE_MS", 12));
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let network = Network::new(VALIDATORS, 1, 250);
    let nodes = network.start_all();
    let clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    clients[VALIDATORS].await_height(2);
    let witness = Witness::start(clients.clone());
    let load = Load::start(&clients, SENDERS, pause, &mut rng);
    let mut victims = Victims { network, nodes: nodes.into_iter().map(Some).collect() };
    let began = Instant::now();
    let mut killed = 0;
    while killed < kills {
        // After so many more transactions, and a moment: at any step of a block.
        let enough = load.acknowledged() + 20 + rng.below(120);
        eventually("transactions are acknowledged", || (load.acknowledged() >= enough).then_some(()));
        std::thread::sleep(Duration::from_micros(rng.below(250_000)));
        killed += victims.kill(&mut rng);
    }
    let sent = load.stop();
    let under_load = began.elapsed();

    // Every one of them goes on, and has what was acknowledged.
    let nodes: Vec<Node> = victims.nodes.into_iter().map(Option::unwrap).collect();
    for hash in sent.acknowledged.iter().chain(&sent.taken) {
        clients[VALIDATORS].await_receipt(*hash);
    }
    let height = clients[VALIDATORS].height();
    for client in &clients {
        client.await_height(height + 4);
    }
    let height = agree(&nodes);
    let seen = witness.stop();
    let blocks = clients[0].blocks(height);
    for (number, hash) in &seen {
        assert!(*number > height || blocks[number].hash == *hash, "block {number} was {hash} once");
    }
    let paid = number(&clients[0].ask("eth_getBalance", &json!([PAYEE, format!("{height:#x}")])));
    // What is refused, or answered by nobody, is sent again: each is committed once.
    assert_eq!(paid, (sent.acknowledged.len() + sent.taken.len()) as u64);
    for client in &clients {
        let status = client.ask("txpool_status", &json!([]));
        assert_eq!(status, json!({"pending": "0x0", "queued": "0x0"}), "nothing is left behind");
    }
    println!(
        "{killed} kills in {under_load:.1?}: {height} blocks, {} transactions acknowledged, {} taken without an answer, \
         calls lost: {:?}, {} refused, checked in {:.1?}",
        sent.acknowledged.len(),
        sent.taken.len(),
        sent.lost,
        sent.refused.len(),
        began.elapsed() - under_load
    );
    assert!(sent.acknowledged.len() as u64 > kills * 20, "there was load");
    // A node that was away does not know what the others hold back, and says so.
    let strange: Vec<&String> =
        sent.refused.iter().filter(|text| !text.starts_with("nonce too far ahead")).collect();
    assert!(strange.is_empty(), "{strange:?}");
    for node in nodes {
        node.stop();
    }
}
