//! Nodes whose database was deleted, restored from a backup, or copied, with real sockets, threads and files.

mod world;

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tally_messaging::Unfit;
use tally_node::Running;
use tally_ops::shutdown::Shutdown;
use tally_rpc::{Outcome, VaultQuery};
use world::{World, name, output, start};

/// Nodes are started and stopped on threads that may block.
struct Shared(std::sync::Arc<Mutex<World>>);

impl Shared {
    async fn new() -> Self {
        let world = tokio::task::spawn_blocking(|| World::new(&["PartyA", "PartyB", "Notary"], false)).await;
        Self(std::sync::Arc::new(Mutex::new(world.expect("a network"))))
    }

    async fn with<T: Send + 'static>(&self, change: impl FnOnce(&mut World) -> T + Send + 'static) -> T {
        let world = self.0.clone();
        let change = move || change(&mut world.lock().expect("no test panicked with it"));
        tokio::task::spawn_blocking(change).await.expect("it ends")
    }

    async fn client(&self, index: usize) -> tally_rpc::Client {
        let world = self.0.clone();
        let handle = tokio::runtime::Handle::current();
        let connect = move || handle.block_on(world.lock().expect("no panic").client(index));
        tokio::task::spawn_blocking(connect).await.expect("a client")
    }

    async fn run(&self, index: usize, flow: &str, arguments: Value) -> Value {
        output(self.client(index).await.run_flow(&start(flow, &arguments, None)).await.expect("an answer"))
    }

    async fn pay(&self, from: usize, to: &str, amount: &str) -> Value {
        let issuer = name("PartyA").to_string();
        let pay = json!({ "amount": amount, "to": name(to).to_string(), "issuer": issuer });
        tokio::time::timeout(Duration::from_secs(60), self.run(from, "CashPay", pay)).await.expect("in time")
    }

    async fn cash(&self, index: usize) -> u64 {
        let page = self.client(index).await.query_vault(&VaultQuery::default()).await.expect("a page");
        page.states.iter().filter_map(|state| state.quantity).sum()
    }

    /// Waits until a node says that it has to be recovered, and gives the reason.
    async fn needs_recovery(&self, index: usize) -> String {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let reason = self.with(move |world| running(world, index).core().recovery()).await;
            if let Some(reason) = reason {
                return reason;
            }
            assert!(Instant::now() < deadline, "the node does not notice");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Deletes the database of a node while the node does not run.
    async fn lose_database(&self, index: usize) {
        self.with(move |world| {
            world.stop(index);
            std::fs::remove_dir_all(world.directory(index).join("data")).expect("the database is deleted");
            world.start(index);
        })
        .await;
    }

    async fn end(self) {
        self.with(|world| (0..world.nodes.len()).for_each(|index| world.stop(index))).await;
    }
}

fn running(world: &World, index: usize) -> &Running {
    world.nodes[index].as_ref().expect("it runs")
}

/// What `/ready` answers.
fn ready(node: &Running) -> String {
    let address = node.addresses().http.expect("it serves health");
    let mut stream = std::net::TcpStream::connect(address).expect("a connection");
    stream.write_all(b"GET /ready HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n").expect("a question");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_database_is_noticed_and_recovered_from_peers() {
    let world = Shared::new().await;
    world.run(0, "CashIssue", json!({ "amount": "100.00 USD" })).await;
    world.pay(0, "PartyB", "30.00 USD").await;
    world.pay(1, "PartyA", "1.00 USD").await;
    // A flow of A waits for one of B's that will be lost.
    let asleep = json!({ "to": name("PartyB").to_string(), "after_ms": 60_000 });
    let a = world.client(0).await;
    let asleep = a.start_flow(&start("Ping", &asleep, None)).await.expect("a start");
    world.pay(0, "PartyB", "1.00 USD").await;
    world.lose_database(1).await;
    let reason = world.needs_recovery(1).await;
    assert!(reason.contains("another database"), "{reason}");
    let answer = world.with(|world| ready(running(world, 1))).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("needs recovery"), "{answer}");
    let issue = start("CashIssue", &json!({ "amount": "1.00 USD" }), None);
    let refused = world.client(1).await.run_flow(&issue).await.expect_err("it takes no work");
    assert!(refused.to_string().contains("recover"), "{refused}");

    let report = world.run(1, "Recover", json!({})).await;
    assert_eq!(report["incomplete"], json!([]), "{report}");
    assert_eq!((world.cash(0).await, world.cash(1).await), (7000, 3000));
    assert!(world.with(|world| ready(running(world, 1))).await.starts_with("HTTP/1.1 200"));
    let mut watch = a.watch_flow(&asleep).await.expect("a watch");
    let failure = loop {
        match watch.next().await.expect("an event").expect("an end") {
            tally_rpc::FlowEvent::Ended(Outcome::Failed(failure)) => break failure,
            tally_rpc::FlowEvent::Ended(other) => panic!("{other:?}"),
            tally_rpc::FlowEvent::Step(_) => {}
        }
    };
    assert_eq!(failure.code, "forgotten");
    world.pay(0, "PartyB", "5.00 USD").await;
    world.pay(1, "PartyA", "2.00 USD").await;
    assert_eq!((world.cash(0).await, world.cash(1).await), (6700, 3300));
    world.end().await;
}

/// B's database dies with a payment that nobody else has. Its coin is in what A gives back, on the last page that anybody
/// gives: the notary is asked about that one too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coin_that_is_given_back_last_is_known_to_be_consumed_by_what_nobody_has() {
    let world = Shared::new().await;
    world.run(0, "CashIssue", json!({ "amount": "100.00 USD" })).await;
    world.pay(0, "PartyB", "30.00 USD").await;
    world.pay(0, "PartyB", "7.00 USD").await;
    let dead = world.pay(1, "PartyB", "30.00 USD").await;
    world.lose_database(1).await;
    world.needs_recovery(1).await;
    let report = world.run(1, "Recover", json!({})).await;
    assert_eq!(report["incomplete"], json!([]), "{report}");
    let consumed = report["consumed"].as_array().expect("a list");
    assert!(consumed.len() == 1 && consumed[0]["by"] == dead["transaction"], "{report}");
    assert_eq!(world.cash(1).await, 700);
    world.pay(1, "PartyA", "7.00 USD").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_database_is_noticed_and_catches_up() {
    let world = Shared::new().await;
    world.run(0, "CashIssue", json!({ "amount": "100.00 USD", "outputs": 5 })).await;
    world.pay(0, "PartyB", "10.00 USD").await;
    world
        .with(|world| {
            world.stop(0);
            copy(&world.directory(0).join("data"), &world.directory(0).join("backup"));
            world.start(0);
        })
        .await;
    for _ in 0..5 {
        world.pay(0, "PartyB", "3.00 USD").await;
        world.pay(1, "PartyA", "1.00 USD").await;
    }
    let before = (world.cash(0).await, world.cash(1).await);
    world
        .with(|world| {
            world.stop(0);
            std::fs::remove_dir_all(world.directory(0).join("data")).expect("the database is lost");
            copy(&world.directory(0).join("backup"), &world.directory(0).join("data"));
            world.start(0);
        })
        .await;
    world.needs_recovery(0).await;
    let report = world.run(0, "Recover", json!({})).await;
    assert_eq!(report["incomplete"], json!([]), "{report}");
    assert_eq!((world.cash(0).await, world.cash(1).await), before);
    world.pay(0, "PartyB", "4.00 USD").await;
    world.pay(1, "PartyA", "1.00 USD").await;
    // The next start is one of the newest database.
    world
        .with(|world| {
            world.stop(0);
            world.start(0);
        })
        .await;
    world.pay(0, "PartyB", "1.00 USD").await;
    assert_eq!(world.with(|world| running(world, 0).core().recovery()).await, None);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_on_copies_of_one_database_one_is_refused() {
    let world = Shared::new().await;
    world.run(0, "CashIssue", json!({ "amount": "100.00 USD" })).await;
    world.pay(0, "PartyB", "10.00 USD").await;
    let copied = world
        .with(|world| {
            world.stop(0);
            let copied = world.directory(0).with_file_name("copied");
            copy(world.directory(0), &copied);
            world.start(0);
            copied
        })
        .await;
    // The original has met the notary.
    world.pay(0, "PartyB", "10.00 USD").await;
    let copied = world
        .with(move |world| {
            let mut settings = world.settings(0);
            settings.messaging.listen = "127.0.0.1:0".parse().expect("an address");
            Running::start(&copied, &settings, &Shutdown::new()).expect("the copy starts")
        })
        .await;
    let copied = std::sync::Arc::new(Mutex::new(Some(copied)));
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let seen = copied.clone();
        let look = move || seen.lock().expect("no panic").as_ref().expect("it runs").core().recovery();
        match tokio::task::spawn_blocking(look).await.expect("it ends") {
            Some(reason) => {
                assert!(reason.contains("another process has gone on"), "{reason}");
                break;
            }
            None => assert!(Instant::now() < deadline, "the copy does not notice"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The original goes on, also with a peer that has lost its memory of it and meets the copy first.
    let told = {
        let seen = copied.clone();
        let tell = move || seen.lock().expect("no panic").as_ref().expect("it runs").core().standing();
        tokio::task::spawn_blocking(tell).await.expect("it ends")
    };
    world.lose_database(1).await;
    let met = world.with(move |world| running(world, 1).core().meet(&name("PartyA"), &told, None)).await;
    assert!(matches!(met, Err(Unfit::Superseded(None))), "{met:?}");
    world.needs_recovery(1).await;
    let report = world.run(1, "Recover", json!({})).await;
    assert_eq!(report["incomplete"], json!([]), "{report}");
    let seen = copied.clone();
    let answer = tokio::task::spawn_blocking(move || {
        let node = seen.lock().expect("no panic").take().expect("it runs");
        let answer = ready(&node);
        node.stop().expect("an orderly end");
        answer
    });
    let answer = answer.await.expect("it ends");
    assert!(answer.contains("needs recovery"), "{answer}");
    world.pay(0, "PartyB", "10.00 USD").await;
    assert_eq!((world.cash(0).await, world.cash(1).await), (7000, 3000));
    assert_eq!(world.with(|world| running(world, 0).core().recovery()).await, None);
    world.end().await;
}

/// How long it takes to get back a vault of 100,000 states; prints it. `--ignored`, optimised builds say more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it measures, and takes a minute"]
async fn a_large_vault_is_recovered() {
    const PAYMENTS: u64 = 200;
    const COINS: u64 = 500;
    let world = Shared::new().await;
    world.run(0, "CashIssue", json!({ "amount": "100000.00 USD", "outputs": PAYMENTS })).await;
    let pay = json!({ "amount": "500.00 USD", "to": name("PartyB").to_string(), "outputs": COINS });
    for _ in 0..PAYMENTS {
        world.run(0, "CashPay", pay.clone()).await;
    }
    world.lose_database(1).await;
    world.needs_recovery(1).await;
    let began = Instant::now();
    let report = world.run(1, "Recover", json!({})).await;
    println!("{} states of {PAYMENTS} transactions: {:?}", PAYMENTS * COINS, began.elapsed());
    assert_eq!(report["incomplete"], json!([]), "{report}");
    let counted = world.with(|world| {
        let store = running(world, 1).core().store().clone();
        let (mut count, mut cursor) = (0, None);
        loop {
            let query = tally_store::StateQuery { page_size: 1000, cursor, ..Default::default() };
            let page = store.states(&query).expect("a page");
            count += page.states.len() as u64;
            cursor = page.next;
            if cursor.is_none() {
                return count;
            }
        }
    });
    assert_eq!(counted.await, PAYMENTS * COINS);
    world.end().await;
}
