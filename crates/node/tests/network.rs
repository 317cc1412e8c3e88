//! Nodes with real sockets, threads and databases.

mod world;

use serde_json::json;
use tally_rpc::{ClientError, RefusalCode, VaultQuery};
use world::{World, name, output, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cash_is_issued_and_paid() {
    let world = tokio::task::spawn_blocking(|| World::new(&["PartyA", "PartyB", "Notary"], false))
        .await
        .expect("a network");
    let a = world.client(0).await;
    let b = world.client(1).await;
    output(
        a.run_flow(&start("CashIssue", &json!({ "amount": "100.00 USD" }), None)).await.expect("an answer"),
    );
    let pay = json!({ "amount": "30.00 USD", "to": name("PartyB").to_string() });
    let paid = a.run_flow(&start("CashPay", &pay, Some("payment-1"))).await.expect("an answer");
    let again = a.run_flow(&start("CashPay", &pay, Some("payment-1"))).await.expect("an answer");
    assert_eq!(output(paid), output(again), "the same request is the same payment");
    let more = json!({ "amount": "31.00 USD", "to": name("PartyB").to_string() });
    match a.run_flow(&start("CashPay", &more, Some("payment-1"))).await {
        Err(ClientError::Refused(refusal)) => assert_eq!(refusal.code, RefusalCode::RequestIdReused),
        other => panic!("another payment under the same request id: {other:?}"),
    }
    let sum = |page: tally_rpc::VaultPage| page.states.iter().filter_map(|state| state.quantity).sum::<u64>();
    assert_eq!(sum(a.query_vault(&VaultQuery::default()).await.expect("a page")), 7000);
    assert_eq!(sum(b.query_vault(&VaultQuery::default()).await.expect("a page")), 3000);
    tokio::task::spawn_blocking(move || drop_all(world)).await.expect("an end");
}

fn drop_all(mut world: World) {
    for index in 0..world.nodes.len() {
        world.stop(index);
    }
}
