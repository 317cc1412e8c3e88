//! A clustered notary of four nodes, and two that pay through it, over real sockets.

mod world;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tally_rpc::{Client, Outcome, VaultQuery};
use world::{World, name, output, start};

const MEMBERS: [&str; 4] = ["Member1", "Member2", "Member3", "Member4"];
/// The place of the first member among the nodes.
const FIRST: usize = 2;

async fn world() -> World {
    let made = tokio::task::spawn_blocking(|| World::clustered(&["PartyA", "PartyB"], &MEMBERS));
    made.await.expect("a network")
}

async fn run(client: &Client, flow: &str, arguments: &Value) -> Value {
    output(client.run_flow(&start(flow, arguments, None)).await.expect("an answer"))
}

async fn sum(client: &Client) -> u64 {
    let page = client.query_vault(&VaultQuery::default()).await.expect("a page");
    page.states.iter().filter_map(|state| state.quantity).sum()
}

fn drop_all(mut world: World) {
    for index in 0..world.nodes.len() {
        if world.nodes[index].is_some() {
            world.stop(index);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cash_is_paid_through_a_cluster_also_while_a_member_is_away() {
    let mut world = world().await;
    let (a, b) = (world.client(0).await, world.client(1).await);
    run(&a, "CashIssue", &json!({ "amount": "100.00 USD", "outputs": 10 })).await;
    let to_b = json!({ "amount": "10.00 USD", "to": name("PartyB").to_string() });
    let to_a = json!({ "amount": "5.00 USD", "to": name("PartyA").to_string() });
    run(&a, "CashPay", &to_b).await;
    run(&b, "CashPay", &to_a).await;
    assert_eq!((sum(&a).await, sum(&b).await), (9_500, 500));

    // Without each member in turn; the transactions begin with any of them.
    for member in FIRST..FIRST + MEMBERS.len() {
        tokio::task::block_in_place(|| world.stop(member));
        for _ in 0..2 {
            let began = Instant::now();
            run(&a, "CashPay", &json!({ "amount": "1.00 USD", "to": name("PartyB").to_string() })).await;
            assert!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
        }
        tokio::task::block_in_place(|| world.start(member));
    }
    assert_eq!((sum(&a).await, sum(&b).await), (8_700, 1_300));

    // Without two of four nobody knows, and nothing is lost: once they are back the payment is final.
    tokio::task::block_in_place(|| {
        world.stop(FIRST);
        world.stop(FIRST + 1);
    });
    let pay = json!({ "amount": "1.00 USD", "to": name("PartyB").to_string() });
    let flow = a.start_flow(&start("CashPay", &pay, None)).await.expect("a flow");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let state = a.flow(&flow).await.expect("the flow");
    assert!(state.outcome.is_none(), "{state:?}");
    tokio::task::block_in_place(|| {
        world.start(FIRST);
        world.start(FIRST + 1);
    });
    let began = Instant::now();
    while sum(&b).await < 1_400 {
        assert!(began.elapsed() < Duration::from_secs(60), "the payment does not arrive");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let ended = a.flow(&flow).await.expect("the flow").outcome;
    assert!(matches!(ended, Some(Outcome::Completed(_)) | None), "{ended:?}");

    // A payment of B to itself dies with its database, and the members know of it.
    let to_itself = json!({ "amount": "7.00 USD", "to": name("PartyB").to_string(), "issuer": name("PartyA").to_string() });
    let dead = run(&b, "CashPay", &to_itself).await;
    drop(b);
    tokio::task::block_in_place(|| {
        world.stop(1);
        std::fs::remove_dir_all(world.directory(1).join("data")).expect("the database is deleted");
        world.start(1);
    });
    let b = world.client(1).await;
    let began = Instant::now();
    while world.nodes[1].as_ref().expect("it runs").core().recovery().is_none() {
        assert!(began.elapsed() < Duration::from_secs(30), "the node does not notice");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let report = run(&b, "Recover", &json!({})).await;
    assert_eq!((&report["unknown_states"], &report["incomplete"]), (&json!(0), &json!([])), "{report}");
    let consumed = report["consumed"].as_array().expect("a list");
    let is_dead = |state: &Value| state["by"] == dead["transaction"];
    assert!(!consumed.is_empty() && consumed.iter().all(is_dead), "{report}");
    let left = sum(&b).await;
    assert!(left < 1_400, "{left}");
    run(&b, "CashPay", &json!({ "amount": "1.00 USD", "to": name("PartyA").to_string() })).await;
    tokio::task::spawn_blocking(move || drop_all(world)).await.expect("an end");
}
