//! The key of a node's legal identity is rotated, with real sockets, threads and files.

mod world;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tally_identity::{Identity, NetworkMap, NodeKeys, SignedNodeInfo, system_now};
use tally_node::{NodeError, Running};
use tally_ops::shutdown::Shutdown;
use tally_rpc::{Client, VaultQuery};
use world::{World, name, output, start};

const ISIN: &str = "XS0000000009";

/// The node's own password file.
fn passphrase(world: &World, index: usize) -> Vec<u8> {
    let text = std::fs::read_to_string(&world.network.nodes[index].passphrase).expect("the passphrase");
    text.trim_end().as_bytes().to_vec()
}

/// Gives a node that does not run a new key.
fn rotate(world: &World, index: usize) {
    let home = &world.network.nodes[index].identity;
    let now = system_now();
    NodeKeys::rotate(home, &passphrase(world, index), NodeKeys::COST, now, now).expect("a new key");
}

/// Makes the key known.
fn publish(world: &World, index: usize) {
    let now = system_now();
    let home = &world.network.nodes[index].identity;
    let identity = Identity::load(home, &passphrase(world, index), now).expect("an identity");
    let (map, _) = NetworkMap::from_folder(&world.network.map, identity.trust(), now).expect("a map");
    let addresses = map.info(identity.name()).expect("it is on the map").addresses.clone();
    let info = SignedNodeInfo::sign(&identity, addresses, 1, now.as_millis()).expect("an info");
    map.publish(&info, now).expect("it is published");
}

fn again(world: &mut World, index: usize) {
    world.stop(index);
    rotate(world, index);
    publish(world, index);
    world.start(index);
}

/// Users of nodes, who wait for what they ask. Nodes are started and stopped outside of it: that blocks.
struct Users(tokio::runtime::Runtime);

impl Users {
    fn new() -> Self {
        Self(tokio::runtime::Runtime::new().expect("a runtime"))
    }

    fn of(&self, world: &World, index: usize) -> User<'_> {
        User { runtime: &self.0, client: self.0.block_on(world.client(index)) }
    }
}

struct User<'a> {
    runtime: &'a tokio::runtime::Runtime,
    client: Client,
}

impl User<'_> {
    fn run(&self, flow: &str, arguments: Value) -> Value {
        self.run_as(flow, &arguments, None)
    }

    fn run_as(&self, flow: &str, arguments: &Value, request: Option<&str>) -> Value {
        let asked = start(flow, arguments, request);
        let run = async { tokio::time::timeout(Duration::from_secs(90), self.client.run_flow(&asked)).await };
        let end = self.runtime.block_on(run).expect("in time");
        output(end.unwrap_or_else(|error| panic!("{flow}: {error:?}")))
    }

    fn begin(&self, flow: &str, arguments: &Value, request: &str) {
        let asked = start(flow, arguments, Some(request));
        self.runtime.block_on(self.client.start_flow(&asked)).expect("a flow");
    }

    fn states(&self) -> Vec<String> {
        let query = VaultQuery::default();
        let page = self.runtime.block_on(self.client.query_vault(&query)).expect("a page");
        let mut states: Vec<_> = page.states.iter().map(|state| state.reference.clone()).collect();
        states.sort();
        states
    }

    /// Waits until the node has heard of the key that another has now.
    fn hears_of(&self, world: &World, index: usize) {
        let home = &world.network.nodes[index].identity;
        let identity = Identity::load(home, &passphrase(world, index), system_now()).expect("an identity");
        let key = identity.party().key.to_string();
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let map = self.runtime.block_on(self.client.network_map()).expect("a map");
            if map.parties.iter().any(|party| party.key == key) {
                return;
            }
            assert!(Instant::now() < deadline, "the key is not heard of");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Waits until a node says that it has to be recovered.
fn needs_recovery(world: &World, index: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while world.nodes[index].as_ref().expect("it runs").core().recovery().is_none() {
        assert!(Instant::now() < deadline, "the node does not notice");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn party(organisation: &str) -> Value {
    json!(name(organisation).to_string())
}

#[test]
fn a_node_with_a_new_key_has_what_it_had() {
    let mut world = World::new(&["PartyA", "PartyB", "Notary"], false);
    let users = Users::new();
    let (a, b) = (users.of(&world, 0), users.of(&world, 1));
    a.run("CashIssue", json!({ "amount": "20.00 USD" }));
    a.run("CashPay", json!({ "amount": "9.00 USD", "to": party("PartyB") }));
    let bond = json!({ "isin": ISIN, "nominal": "5.00 USD", "maturity": 4_000_000_000_000_u64 });
    a.run("BondIssue", bond);
    a.run("BondTransfer", json!({ "isin": ISIN, "nominal": "5.00 USD", "to": party("PartyB") }));
    let iou = b.run("IouCreate", json!({ "value": 9, "lender": party("PartyA") }));

    // A payment is in the middle: its notary is away.
    world.stop(2);
    let pay = |amount: &str| json!({ "amount": amount, "to": party("PartyA"), "issuer": party("PartyA") });
    b.begin("CashPay", &pay("1.00 USD"), "waiting");
    let before = b.states();
    drop(b);
    world.stop(1);
    rotate(&world, 1);
    // It is on the map with another key.
    let refused = Running::start(world.directory(1), &world.settings(1), &Shutdown::new());
    assert!(matches!(refused, Err(NodeError::OtherKey(_))), "{:?}", refused.err());
    publish(&world, 1);
    world.start(1);
    world.start(2);
    let b = users.of(&world, 1);
    a.hears_of(&world, 1);
    users.of(&world, 2).hears_of(&world, 1);
    b.run_as("CashPay", &pay("1.00 USD"), Some("waiting"));
    assert_eq!(b.states().len(), before.len(), "of one coin, the change is left");
    b.run("CashPay", pay("2.00 USD"));
    a.run("CashPay", json!({ "amount": "4.00 USD", "to": party("PartyB") }));
    b.run("CashExit", json!({ "amount": "3.00 USD", "issuer": party("PartyA") }));
    a.run("IouSettle", json!({ "linear_id": iou["linear_id"] }));
    b.run("BondTransfer", json!({ "isin": ISIN, "nominal": "2.00 USD", "to": party("PartyA") }));

    // A second time, and the issuer as well; then each loses its database.
    drop((a, b));
    (0..2).for_each(|index| again(&mut world, index));
    let (a, b, notary) = (users.of(&world, 0), users.of(&world, 1), users.of(&world, 2));
    for (by, of) in [(&a, 1), (&b, 0), (&notary, 0), (&notary, 1)] {
        by.hears_of(&world, of);
    }
    b.run("CashPay", pay("1.00 USD"));
    drop((a, b, notary));
    for index in 0..2 {
        let had = users.of(&world, index).states();
        assert!(!had.is_empty());
        world.stop(index);
        std::fs::remove_dir_all(world.directory(index).join("data")).expect("the database is deleted");
        world.start(index);
        needs_recovery(&world, index);
        let user = users.of(&world, index);
        user.run("Recover", json!({ "wait_ms": 10_000 }));
        assert_eq!(user.states(), had, "{index}");
    }
    users.of(&world, 1).run("CashPay", pay("1.00 USD"));
    (0..3).for_each(|index| world.stop(index));
}

/// What peers have of a node is signed with its former key until it has met them with the new one.
#[test]
fn a_node_that_lost_its_database_and_has_a_new_key_notices() {
    let mut world = World::new(&["PartyA", "PartyB", "Notary"], false);
    let users = Users::new();
    let a = users.of(&world, 0);
    a.run("CashIssue", json!({ "amount": "5.00 USD" }));
    a.run("CashPay", json!({ "amount": "5.00 USD", "to": party("PartyB") }));
    drop(a);
    let had = users.of(&world, 1).states();
    world.stop(1);
    std::fs::remove_dir_all(world.directory(1).join("data")).expect("the database is deleted");
    rotate(&world, 1);
    publish(&world, 1);
    world.start(1);
    needs_recovery(&world, 1);
    let b = users.of(&world, 1);
    b.run("Recover", json!({ "wait_ms": 10_000 }));
    assert_eq!(b.states(), had);
    drop(b);
    (0..3).for_each(|index| world.stop(index));
}
