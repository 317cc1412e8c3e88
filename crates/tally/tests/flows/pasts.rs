//! Three pasts under load: one party's database is deleted, another's is restored from an earlier backup, and a copy of
//! the third one's directory is started beside it. The operator does what docs/OPERATIONS.md says, and in the end all
//! books are equal.
//!
//! One database is lost at a time: what two lose together, and nobody else has, nobody gives back.
//!
//! `TALLY_PASTS_S` sets for how many seconds (default 5): with more, each party has each of the three pasts in turn.

use super::load::{Party, World};
use super::support::{Network, Node, eventually, ready, run};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tally::flows_network::layout::NodeDirectory;
use tally_rpc::{
    ClientError, FlowQuery, FlowState, Outcome, RefusalCode, StartFlow, StateStatus, UndeliveredQuery,
    VaultState,
};
use tally_sim::Rng;

const LABELS: [&str; 3] = ["PartyA", "PartyB", "PartyC"];
/// How often each party begins a payment.
const EVERY: Duration = Duration::from_millis(50);
/// Most payments of one party that are waited for at a time.
const UNDER_WAY: usize = 50;
/// Longer than the node takes to raise its database's generation under load.
const PAST: Duration = Duration::from_secs(6);
/// What each party issues, in cents.
const ISSUED: u64 = 1_000_000;

/// What came of the payments that were begun.
#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    /// Refused, or without an answer.
    lost: AtomicU64,
    under_way: [AtomicUsize; LABELS.len()],
}

struct Load {
    world: Arc<World>,
    counts: Counts,
    stop: AtomicBool,
}

impl Load {
    /// Begins payments of one party at a steady rate, whatever becomes of them.
    async fn pay(self: Arc<Self>, party: usize, mut rng: Rng) {
        let mut clock = tokio::time::interval(EVERY);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.stop.load(Ordering::Relaxed) {
            clock.tick().await;
            if self.counts.under_way[party].load(Ordering::Relaxed) >= UNDER_WAY {
                continue;
            }
            let to = (party + 1 + rng.index(LABELS.len() - 1)) % LABELS.len();
            let issuer = &self.world.parties[rng.index(LABELS.len())].name;
            let amount = format!("{}.{:02} USD", rng.below(20), 1 + rng.below(99));
            let arguments = json!({ "amount": amount, "to": self.world.parties[to].name, "issuer": issuer });
            let request = format!("{:016x}", rng.next_u64());
            self.counts.begun.fetch_add(1, Ordering::Relaxed);
            self.counts.under_way[party].fetch_add(1, Ordering::Relaxed);
            tokio::spawn(Arc::clone(&self).one(party, arguments, request));
        }
    }

    async fn one(self: Arc<Self>, party: usize, arguments: Value, request: String) {
        let start = StartFlow {
            flow: "CashPay".to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            request_id: Some(request),
        };
        let asked = async {
            let client = self.world.parties[party].client().await;
            Some(client.run_flow(&start).await.ok()?.outcome)
        };
        let outcome = tokio::time::timeout(Duration::from_secs(10), asked).await.ok().flatten();
        let counted = match outcome {
            Some(Outcome::Completed(_)) => &self.counts.completed,
            Some(_) => &self.counts.failed,
            None => &self.counts.lost,
        };
        counted.fetch_add(1, Ordering::Relaxed);
        self.counts.under_way[party].fetch_sub(1, Ordering::Relaxed);
    }

    #[track_caller]
    fn goes_on(&self, payments: u64, after: &str) {
        let enough = self.counts.completed.load(Ordering::Relaxed) + payments;
        eventually(&format!("payments go on after: {after}"), || {
            (self.counts.completed.load(Ordering::Relaxed) >= enough).then_some(())
        });
    }
}

/// Waits until the node says that it has to be recovered.
#[track_caller]
fn needs_recovery(directory: &NodeDirectory) -> String {
    eventually(&format!("{} needs recovery", directory.label()), || {
        ready(directory).filter(|answer| answer.contains("503") && answer.contains("needs recovery"))
    })
}

/// The node takes no work, and says why.
#[track_caller]
fn refuses_work(directory: &NodeDirectory) {
    let refused = run(&["flow", "start", directory.root().to_str().unwrap(), "CashIssue", "amount=1.00 USD"]);
    assert!(refused.code != Some(0) && refused.err.contains("recover"), "{refused:?}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The network, its processes, and the load on them.
struct Pasts {
    network: Network,
    nodes: Vec<Option<Node>>,
    load: Arc<Load>,
    round: usize,
    /// Transactions of which a recovery said that nobody has them.
    reported: BTreeSet<String>,
}

impl Pasts {
    fn path(&self, party: usize) -> String {
        self.network.path(LABELS[party])
    }

    fn data(&self, party: usize) -> PathBuf {
        self.network.node(LABELS[party]).root().join("data")
    }

    fn start(&mut self, party: usize) {
        self.nodes[party] = Some(self.network.start(LABELS[party]));
    }

    fn kill(&mut self, party: usize) {
        self.nodes[party].take().unwrap().kill();
    }

    /// The three pasts at once, and the way back from each.
    fn round(&mut self) {
        let (restored, deleted, copied) =
            (self.round % LABELS.len(), (self.round + 1) % LABELS.len(), (self.round + 2) % LABELS.len());
        let file = self.network.directory.join(format!("backup-{}", self.round));
        let file = file.to_str().unwrap().to_owned();
        run(&["node", "backup", &self.path(restored), &file]).well();
        let since = Instant::now();
        self.load.goes_on(10, "a backup");
        std::thread::sleep(PAST.saturating_sub(since.elapsed()));

        // A copy of the third, of a moment at which it did not run; then the third goes on.
        self.kill(copied);
        let home = self.network.node(LABELS[copied]);
        let double = format!("{}-copy-{}", LABELS[copied], self.round);
        let double = NodeDirectory::new(home.root().with_file_name(double));
        copy(home.root(), double.root());
        let _ = std::fs::remove_file(double.run_file());
        self.start(copied);
        // In every other round each peer meets the one that goes on before the copy starts: it must be the copy then that is
        // refused. Otherwise each of the two may be the first that some peer meets, and both may be refused.
        let meets_first = self.round.is_multiple_of(2);
        if meets_first {
            for other in [restored, deleted] {
                let to = format!("to=@{}", LABELS[other]);
                run(&["flow", "start", &self.path(copied), "CashPay", "amount=0.01 USD", &to]).well();
            }
        }
        let mut started = Node::spawn_elsewhere(double.clone());
        assert!(started.ready(), "the copy did not start:\n{}", started.log());
        let mut double_node = Some(started);
        if meets_first {
            // It runs on beside the others, of which one loses its memory of the original.
            needs_recovery(&double);
        } else {
            self.end_copy(&double, double_node.take(), copied, true);
        }

        // The second loses its database, and has no backup.
        self.kill(deleted);
        std::fs::remove_dir_all(self.data(deleted)).unwrap();
        self.start(deleted);
        if meets_first {
            self.end_copy(&double, double_node, copied, false);
        }
        self.recover(deleted);

        // The first loses its database, and has a backup.
        self.load.goes_on(20, "the recovery of a deleted database");
        self.kill(restored);
        let data = self.data(restored);
        std::fs::rename(&data, data.with_file_name(format!("lost-{}", self.round))).unwrap();
        run(&["node", "restore", &self.path(restored), &file]).well();
        self.start(restored);
        self.recover(restored);
        // Flows of users that were under way in the backup are paused: a person ends them.
        self.end_paused(restored);
        self.load.goes_on(20, "the recovery of a restored database");
        self.round += 1;
    }

    /// The copy is refused. The operator stops it, as it is not to go on, and recovers the original if that was refused
    /// as well, which may be so only if both were started before peers had met one of them.
    fn end_copy(&mut self, double: &NodeDirectory, process: Option<Node>, of: usize, both_refused: bool) {
        let said = needs_recovery(double);
        assert!(said.contains("another process has gone on"), "{said}");
        refuses_work(double);
        process.unwrap().stop();
        std::fs::remove_dir_all(double.root()).unwrap();
        let said = ready(&self.network.node(LABELS[of])).unwrap();
        if !said.contains("200 OK") {
            assert!(both_refused, "the original goes on: {said}");
            self.recover(of);
            self.end_paused(of);
        }
    }

    /// What the operator does once the node says so.
    fn recover(&mut self, party: usize) {
        let home = self.network.node(LABELS[party]);
        needs_recovery(&home);
        refuses_work(&home);
        let said = run(&["node", "recover", &self.path(party)]).well();
        let report: Value = serde_json::from_str(&said).unwrap();
        let report = &report["completed"];
        let consumed = report["consumed"].as_array().unwrap();
        self.reported.extend(consumed.iter().map(|state| state["by"].as_str().unwrap().to_owned()));
        let lost = consumed.len();
        println!("{} is recovered: {lost} states are lost; {}", LABELS[party], report["peers"]);
        assert!(lost <= 2 * UNDER_WAY, "more is lost than was under way: {report}");
        assert_eq!(report["incomplete"], json!([]), "{report}");
        assert_eq!(report["unknown_states"], 0, "{report}");
        let said = ready(&home).unwrap();
        assert!(said.contains("200 OK"), "{said}");
    }

    /// Kills what waits for a person.
    fn end_paused(&self, party: usize) {
        let path = self.path(party);
        let list = run(&["flow", "list", &path, "--state", "paused", "--limit", "1000", "--json"]).well();
        for flow in list.lines() {
            let flow: Value = serde_json::from_str(flow).unwrap();
            run(&["flow", "kill", &path, flow["flow"].as_str().unwrap()]).well();
        }
    }

    /// Waits until no flow of anybody is under way, nothing is undelivered, nothing waits for a person, and the vaults stay
    /// as they are; gives the vaults.
    async fn settle(&self) -> Vec<Vec<VaultState>> {
        // A node waits before it delivers again for as long as it has tried: twice the time that a peer was away.
        let deadline = Instant::now() + Duration::from_secs(240);
        let mut before = Vec::new();
        loop {
            let (mut vaults, mut open) = (Vec::new(), Vec::new());
            for (at, party) in self.load.world.parties.iter().enumerate() {
                let query = FlowQuery {
                    states: vec![FlowState::Running, FlowState::Held, FlowState::Paused],
                    page_size: 100,
                    ..FlowQuery::default()
                };
                let query = &query;
                let flows =
                    party.insist(|client| async move { client.flows(query).await }).await.unwrap().flows;
                let lacking = party
                    .insist(|client| async move { client.undelivered(&UndeliveredQuery::default()).await })
                    .await
                    .unwrap();
                if !(flows.is_empty() && lacking.undelivered.is_empty() && lacking.unresolved.is_empty()) {
                    open.push(format!("{}: {flows:#?} {lacking:#?}", party.name));
                }
                vaults.push(self.load.world.vault(at).await);
            }
            if open.is_empty() && vaults == before {
                return vaults;
            }
            assert!(Instant::now() < deadline, "{open:?}");
            before = vaults;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The vaults without what is said of transactions that nobody has.
fn without(vaults: &[Vec<VaultState>], dead: &BTreeSet<&str>) -> Vec<Vec<VaultState>> {
    let known = |state: &VaultState| {
        let by = state.consumed_by.clone().filter(|by| !dead.contains(by.as_str()));
        VaultState { consumed_by: by, ..state.clone() }
    };
    vaults.iter().map(|vault| vault.iter().map(known).collect()).collect()
}

/// Compares what the parties have: with what was issued, and with each other.
async fn check(world: &World, vaults: &[Vec<VaultState>], reported: &BTreeSet<String>) {
    for by in reported {
        for party in &world.parties {
            let found = party.insist(|client| async move { client.transaction(by).await }).await;
            assert!(found.is_err(), "nobody gave {by}, and {} has it", party.name);
        }
    }
    // What was consumed by a transaction that died with a database counts as lost where it was last.
    let mut dead: BTreeSet<&str> = BTreeSet::new();
    for (party, vault) in world.parties.iter().zip(vaults) {
        for by in vault.iter().filter_map(|state| state.consumed_by.as_deref()).collect::<BTreeSet<_>>() {
            match party.insist(|client| async move { client.transaction(by).await }).await {
                Ok(_) => {}
                Err(ClientError::Refused(refusal)) if refusal.code == RefusalCode::TransactionUnknown => {
                    dead.insert(by);
                }
                Err(error) => panic!("{by}: {error:?}"),
            }
        }
    }
    let is_lost = |state: &VaultState| {
        state.lost_to.is_some() || state.consumed_by.as_deref().is_some_and(|by| dead.contains(by))
    };
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    let mut lost: BTreeMap<String, u64> = BTreeMap::new();
    for (party, vault) in world.parties.iter().zip(vaults) {
        for state in vault.iter().filter(|state| state.owner.as_ref() == Some(&party.name)) {
            let asset = state.asset.clone().unwrap();
            if is_lost(state) {
                *lost.entry(asset.clone()).or_default() += state.quantity.unwrap();
            } else if state.status == StateStatus::Consumed {
                continue;
            }
            *found.entry(asset).or_default() += state.quantity.unwrap();
        }
    }
    println!("lost with a database: {lost:?}, by {} transactions", dead.len());
    let issued: BTreeMap<String, u64> =
        world.parties.iter().map(|party| (format!("USD@{}", party.name), ISSUED)).collect();
    assert_eq!(found, issued, "the sum over the vaults, with {lost:?} that were lost, and what was issued");
    world.check_spending(&without(vaults, &dead)).await;

    // Each pair: what one of the two knows of both, the other knows as well.
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    for party in &world.parties {
        let info = party.insist(|client| async move { client.node_info().await }).await.unwrap();
        keys.insert(info.name, info.key);
    }
    let mut shared = 0;
    for (party, vault) in world.parties.iter().zip(vaults) {
        let known: BTreeSet<&str> = vault
            .iter()
            .flat_map(|state| {
                state.reference.split(':').next().into_iter().chain(state.consumed_by.as_deref())
            })
            .collect();
        for id in known.into_iter().filter(|id| !dead.contains(id)) {
            let found = party.insist(|client| async move { client.transaction(id).await }).await.unwrap();
            let takes_part = |other: &Party| {
                let key = keys[&other.name].as_str();
                found.details["outputs"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|output| output["details"]["owner"] == key)
                    || found.details["signatures"].as_array().unwrap().iter().any(|by| by == &other.name)
            };
            for other in world.parties.iter().filter(|other| other.name != party.name && takes_part(other)) {
                let theirs = other.insist(|client| async move { client.transaction(id).await }).await;
                let theirs = theirs.unwrap_or_else(|error| {
                    panic!(
                        "{} knows nothing of {id}, which {} has: {error:?}: {:#}",
                        other.name, party.name, found.details
                    )
                });
                assert_eq!(theirs.details["inputs"], found.details["inputs"]);
                shared += 1;
            }
        }
    }
    assert!(shared > 0, "no transaction of two was compared");
    println!("{shared} transactions are the same in the books of two");
}

#[test]
fn three_pasts_under_load_end_with_equal_books() {
    let seconds = std::env::var("TALLY_PASTS_S").ok().map_or(5, |text| text.parse().unwrap());
    let seed = std::env::var("TALLY_SEED").ok().map_or(1, |text| text.parse().unwrap());
    let network = Network::of(&["--nodes", &LABELS.join(","), "--notary", "Notary"]);
    let _notary = network.start("Notary");
    let nodes = LABELS.iter().map(|label| Some(network.start(label))).collect();
    let world = World::new(LABELS.iter().map(|label| Party::new(network.node(label))).collect());
    let load =
        Arc::new(Load { world: Arc::clone(&world), counts: Counts::default(), stop: AtomicBool::new(false) });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // Everybody has cash of everybody, and an issue that peers know: what no peer has ever seen comes back from no peer.
    runtime.block_on(async {
        for party in 0..LABELS.len() {
            let issue = json!({ "amount": format!("{}.00 USD", ISSUED / 100), "outputs": 10 });
            let outcome = world.ask(party, "CashIssue", issue, &format!("issue-{party}")).await;
            assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
            for other in (0..LABELS.len()).filter(|other| *other != party) {
                let pay = json!({ "amount": "2000.00 USD", "to": world.parties[other].name, "outputs": 10 });
                let outcome = world.ask(party, "CashPay", pay, &format!("pay-{party}-{other}")).await;
                assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
            }
        }
    });
    let mut rng = Rng::new(seed);
    for party in 0..LABELS.len() {
        runtime.spawn(Arc::clone(&load).pay(party, rng.fork()));
    }
    let began = Instant::now();
    let mut pasts = Pasts { network, nodes, load: Arc::clone(&load), round: 0, reported: BTreeSet::new() };
    while pasts.round == 0 || began.elapsed() < Duration::from_secs(seconds) {
        pasts.round();
    }
    load.stop.store(true, Ordering::Relaxed);
    let counts = &load.counts;
    eventually("every client gave up or had its answer", || {
        counts.under_way.iter().all(|count| count.load(Ordering::Relaxed) == 0).then_some(())
    });
    runtime.block_on(async {
        let vaults = pasts.settle().await;
        check(&world, &vaults, &pasts.reported).await;
    });
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{} rounds in {:.1?}: {} payments begun, {} completed, {} failed, {} without an answer",
        pasts.round,
        began.elapsed(),
        count(&counts.begun),
        count(&counts.completed),
        count(&counts.failed),
        count(&counts.lost)
    );
    assert!(count(&counts.completed) > 50, "there was load");
    drop(runtime);
    for node in pasts.nodes.into_iter().flatten() {
        node.stop();
    }
}
