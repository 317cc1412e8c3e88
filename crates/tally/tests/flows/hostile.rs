//! A hostile node: a process with a member's valid keys that runs altered flows and attacks two parties and both kinds of
//! notary, while the parties pay each other at a steady rate. Every payment ends well, nothing is made or lost, every node
//! is ready all the time, and none grows.
//!
//! `TALLY_HOSTILE_S` sets for how many seconds (default 8), `TALLY_HOSTILE_RATE` how many payments a second (default 10),
//! `TALLY_SEED` which lies.

mod attacks;
#[expect(dead_code, reason = "some of these flows answer others, which this node does not do")]
#[path = "../../../protocols/tests/evil/mod.rs"]
mod evil;
mod ledger;
#[path = "../../../protocols/tests/evil/poison.rs"]
mod poison;
mod sockets;

use super::load::{Party, World};
use super::support::{Network, Node, PATIENCE, eventually, ready};
use attacks::Attacks;
use serde_json::{Value, json};
use sockets::Sockets;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tally::flows_network::layout::{NodeDirectory, NodeRunFile};
use tally_node::{Running, Settings};
use tally_ops::shutdown::Shutdown;
use tally_rpc::{ClientError, FlowQuery, FlowState, Outcome, RefusalCode, StartFlow, UndeliveredQuery};
use tally_sim::Rng;

/// Who is attacked: two parties, a notary that sees hashes, one that validates.
const VICTIMS: [&str; 4] = ["PartyA", "PartyB", "Blind", "Careful"];
/// How many of them are parties.
const PARTIES: usize = 2;
const NOTARIES: [&str; 2] = ["Blind", "Careful"];
/// The node that runs altered flows.
const MALLORY: &str = "Mallory";
/// A member whose certificate is used over sockets without a node.
const STRANGER: &str = "Stranger";
/// Files and sockets that the first party may have open.
const FILES: u32 = 1024;
/// What each party issues at each notary, in cents.
const ISSUED: u64 = 100_000_000;
/// No node under attack is larger.
const MEMORY_BYTES: u64 = 512 << 20;
/// The environment's variable with the hostile node's directory.
const DIRECTORY: &str = "TALLY_HOSTILE_DIRECTORY";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

fn name(label: &str) -> String {
    format!("O={label}, L=London, C=GB")
}

/// The program that the test starts as a process of its own. Nothing without a directory.
#[test]
#[ignore = "a program that the test of the hostile node starts"]
fn program() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let home = NodeDirectory::new(directory);
    let settings = Settings::load(home.root(), &[]).unwrap();
    let flows = tally_trials::flows::liars::registry(tally_trials::flows::liars::Role::Institution);
    let flows = poison::poison(evil::beside(flows));
    let running = Running::start_with(home.root(), &settings, &Shutdown::new(), flows).unwrap();
    let addresses = running.addresses();
    let run = NodeRunFile {
        pid: std::process::id(),
        messaging: addresses.messaging,
        rpc: addresses.rpc,
        http: addresses.http,
    };
    let new = home.run_file().with_extension("new");
    std::fs::write(&new, serde_json::to_vec(&run).unwrap()).unwrap();
    std::fs::rename(new, home.run_file()).unwrap();
    // It ends when the test does.
    let mut nothing = Vec::new();
    std::io::stdin().read_to_end(&mut nothing).unwrap();
}

/// The hostile node's process.
struct Hostile(Child);

impl Hostile {
    fn start(home: &NodeDirectory) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hostile::program", "--ignored", "--nocapture"]);
        command.env(DIRECTORY, home.root()).stdin(Stdio::piped()).stdout(Stdio::null());
        let log = std::fs::File::create(home.log()).unwrap();
        let hostile = Self(command.stderr(log).spawn().unwrap());
        eventually("the hostile node runs", || NodeRunFile::read(home).unwrap());
        hostile
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Payments between the two parties, at a steady rate whatever becomes of the ones before.
struct Honest {
    world: Arc<World>,
    stop: AtomicBool,
    begun: AtomicU64,
    ended: AtomicU64,
    took: Mutex<Vec<Duration>>,
    /// What did not end as it must.
    faults: Mutex<Vec<String>>,
}

impl Honest {
    fn fault(&self, what: String) {
        self.faults.lock().unwrap().push(what);
    }

    async fn pay(self: Arc<Self>, rate: u64, mut rng: Rng) {
        let mut clock = tokio::time::interval(Duration::from_micros(1_000_000 / rate));
        while !self.stop.load(Ordering::Relaxed) {
            clock.tick().await;
            let count = self.begun.fetch_add(1, Ordering::Relaxed);
            let from = usize::from(count % 2 == 1);
            let arguments = json!({
                "amount": format!("{}.{:02} USD", rng.below(20), 1 + rng.below(99)),
                "to": name(VICTIMS[1 - from]),
                "issuer": name(VICTIMS[rng.index(PARTIES)]),
                "notary": name(NOTARIES[rng.index(NOTARIES.len())]),
            });
            tokio::spawn(Arc::clone(&self).one(from, arguments, count));
        }
    }

    async fn one(self: Arc<Self>, from: usize, arguments: Value, count: u64) {
        let began = Instant::now();
        let mut start = StartFlow {
            flow: "CashPay".to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            request_id: Some(format!("honest-{count}")),
        };
        let client = self.world.parties[from].client().await;
        let end = tokio::time::timeout(PATIENCE, client.run_flow(&start)).await;
        match &end {
            Ok(Ok(end)) if matches!(end.outcome, Outcome::Completed(_)) => {
                self.took.lock().unwrap().push(began.elapsed());
            }
            other => self.fault(format!("payment {count} from {}: {other:?}", VICTIMS[from])),
        }
        // The same request is the same payment, and no other.
        if count.is_multiple_of(8)
            && let Ok(Ok(end)) = end
        {
            match client.run_flow(&start).await {
                Ok(again) if again == end => {}
                again => self.fault(format!("payment {count} again: {again:?}")),
            }
            start.arguments["amount"] = "999.00 USD".into();
            match client.run_flow(&start).await {
                Err(ClientError::Refused(refusal)) if refusal.code == RefusalCode::RequestIdReused => {}
                again => self.fault(format!("payment {count} under a used request id: {again:?}")),
            }
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until all have ended, then says how long they took.
    #[track_caller]
    fn end(&self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        eventually("every payment has ended", || {
            (self.ended.load(Ordering::Relaxed) == self.begun.load(Ordering::Relaxed)).then_some(())
        });
        let mut took = self.took.lock().unwrap().clone();
        took.sort();
        let at = |of: usize| took[(took.len() - 1) * of / 100];
        format!("{} payments, p50 {:.1?}, p99 {:.1?}, longest {:.1?}", took.len(), at(50), at(99), at(100))
    }
}

/// Looks at the nodes from outside, as an operator's monitoring does.
#[derive(Default)]
struct Watch {
    looks: u64,
    /// Answers for which it had to ask again.
    again: u64,
    faults: Vec<String>,
    largest: BTreeMap<&'static str, u64>,
}

impl Watch {
    fn look(&mut self, network: &Network) {
        for label in VICTIMS {
            let home = network.node(label);
            let mut answer = ready(&home);
            // A connection may have to make room for a newer one of the same address.
            for _ in 0..4 {
                if answer.as_ref().is_some_and(|answer| !answer.is_empty()) {
                    break;
                }
                self.again += 1;
                std::thread::sleep(Duration::from_millis(50));
                answer = ready(&home);
            }
            self.looks += 1;
            if !answer.as_ref().is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
                self.faults.push(format!("{label} is not ready: {answer:?}"));
            }
            let pid = NodeRunFile::read(&home).unwrap().map(|run| run.pid);
            if let Some(bytes) = pid.and_then(resident) {
                let largest = self.largest.entry(label).or_default();
                *largest = bytes.max(*largest);
            }
        }
    }
}

/// How much memory a process has, in bytes.
fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Gives both parties cash of both, at both notaries, in enough coins for what is under way at a time.
async fn open(world: &World) {
    for (party, label) in VICTIMS.iter().take(PARTIES).enumerate() {
        for notary in NOTARIES {
            let issue = json!({
                "amount": format!("{}.00 USD", ISSUED / 100), "outputs": 100, "notary": name(notary),
            });
            let outcome = world.ask(party, "CashIssue", issue, &format!("issue-{label}-{notary}")).await;
            assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
            let half = json!({
                "amount": format!("{}.00 USD", ISSUED / 200), "outputs": 50, "notary": name(notary),
                "to": name(VICTIMS[1 - party]),
            });
            let outcome = world.ask(party, "CashPay", half, &format!("half-{label}-{notary}")).await;
            assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
        }
    }
}

/// That nothing is left which a person would have to look after, but for what Mallory does not take.
async fn tidy(world: &World) {
    for party in &world.parties {
        let held = FlowQuery { states: vec![FlowState::Held], page_size: 100, ..FlowQuery::default() };
        let held = &held;
        let flows = party.insist(|client| async move { client.flows(held).await }).await.unwrap().flows;
        assert!(flows.is_empty(), "{}: {flows:#?}", party.name);
        let query = &UndeliveredQuery { page_size: 1000, ..UndeliveredQuery::default() };
        let lacking = party.insist(|client| async move { client.undelivered(query).await }).await.unwrap();
        for undelivered in lacking.undelivered {
            assert_eq!(undelivered.party, name(MALLORY), "{undelivered:?}");
        }
        assert!(lacking.unresolved.is_empty(), "{}: {:?}", party.name, lacking.unresolved);
    }
}

#[test]
fn a_hostile_node_harms_no_payment_between_others() {
    let (seconds, rate) = (number("TALLY_HOSTILE_S", 8), number("TALLY_HOSTILE_RATE", 10));
    let mut rng = Rng::new(number("TALLY_SEED", 1));
    tally_ops::descriptors::raise();
    let nodes = [&VICTIMS[..PARTIES], &[MALLORY, STRANGER]].concat().join(",");
    let network = Network::of(&["--nodes", &nodes, "--notary", "Blind", "--notary", "Careful:validating"]);
    let mut running = vec![Node::spawn_with_files(network.node(VICTIMS[0]), FILES)];
    assert!(running[0].ready(), "{}", running[0].log());
    running.extend(VICTIMS[1..].iter().map(|label| network.start(label)));
    let hostile = Hostile::start(&network.node(MALLORY));
    let world = World::new(VICTIMS[..PARTIES].iter().map(|label| Party::new(network.node(label))).collect());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(open(&world));
    let honest = Arc::new(Honest {
        world: Arc::clone(&world),
        stop: AtomicBool::new(false),
        begun: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        took: Mutex::default(),
        faults: Mutex::default(),
    });
    let before: Vec<_> = VICTIMS
        .iter()
        .map(|label| resident(NodeRunFile::read(&network.node(label)).unwrap().unwrap().pid).unwrap() >> 20)
        .collect();
    runtime.spawn(Arc::clone(&honest).pay(rate, rng.fork()));
    let attacks = Attacks::new(Party::new(network.node(MALLORY)), Arc::clone(&world));
    attacks.begin(runtime.handle(), &mut rng);
    let sockets = Sockets::new(&network);
    sockets.begin(runtime.handle(), &mut rng);

    let began = Instant::now();
    let mut watch = Watch::default();
    while began.elapsed() < Duration::from_secs(seconds) {
        watch.look(&network);
        std::thread::sleep(Duration::from_millis(200));
    }
    let told = attacks.end();
    let sent = sockets.end();
    let paid = honest.end();
    drop(hostile);
    watch.look(&network);

    println!("{paid}");
    println!("attacks, by kind and how they ended: {told:#?}");
    println!("over sockets: {sent:?}");
    let largest: Vec<_> = watch.largest.values().map(|bytes| bytes >> 20).collect();
    println!(
        "{} looks at the nodes, {} of them repeated; MiB before {before:?} and at most {largest:?}",
        watch.looks, watch.again
    );
    for (label, node) in VICTIMS.iter().zip(&mut running) {
        assert!(node.lives(), "{label} ended by itself:\n{}", node.log());
    }
    let faults = honest.faults.lock().unwrap();
    assert!(faults.is_empty(), "{} honest payments: {:#?}", faults.len(), &faults[..faults.len().min(10)]);
    assert!(watch.faults.is_empty(), "{:#?}", watch.faults);
    assert!(attacks.succeeded().is_empty(), "{:#?}", attacks.succeeded());
    for (label, bytes) in &watch.largest {
        assert!(*bytes < MEMORY_BYTES, "{label} has grown to {bytes} bytes");
    }
    runtime.block_on(async {
        ledger::check(&world).await;
        tidy(&world).await;
    });
    drop(runtime);
    for node in running {
        node.stop();
    }
}
