//! Nodes with real sockets, threads and databases.

mod world;

use serde_json::json;
use tally_rpc::{ClientError, FlowState, Outcome, RefusalCode, UndeliveredQuery, VaultQuery};
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

async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{what} does not come about")
}

/// What a person who kills a payment is told is true, and what is final arrives without anybody's doing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_payment_is_final_or_unknown_and_arrives() {
    let mut world = tokio::task::spawn_blocking(|| World::new(&["PartyA", "PartyB", "Notary"], false))
        .await
        .expect("a network");
    let a = world.client(0).await;
    output(
        a.run_flow(&start("CashIssue", &json!({ "amount": "100.00 USD" }), None)).await.expect("an answer"),
    );
    let pay = json!({ "amount": "30.00 USD", "to": name("PartyB").to_string() });

    // The payee is away: the payment is final, and waits for it.
    tokio::task::block_in_place(|| world.stop(1));
    let flow = a.start_flow(&start("CashPay", &pay, None)).await.expect("a flow");
    eventually("the payment's record", async || {
        let flow = a.flow(&flow).await.expect("the flow");
        flow.step.filter(|step| step.label == "Sending")
    })
    .await;
    a.kill_flow(&flow).await.expect("it is under way");
    let ended = eventually("its end", async || {
        let flow = a.flow(&flow).await.ok()?;
        flow.outcome.map(|outcome| (flow.state, outcome))
    })
    .await;
    let (FlowState::Completed, Outcome::Completed(paid)) = ended else { panic!("{ended:?}") };
    let paid = paid["transaction"].as_str().expect("an id").to_owned();
    let query = UndeliveredQuery { transaction_id: Some(paid.clone()), ..UndeliveredQuery::default() };
    let page = a.undelivered(&query).await.expect("a page");
    assert_eq!(page.undelivered.len(), 1);
    let lacking = &page.undelivered[0];
    assert_eq!((lacking.party.parse(), lacking.is_member), (Ok(name("PartyB")), true));
    tokio::task::block_in_place(|| world.start(1));
    eventually("the delivery", async || {
        let page = a.undelivered(&query).await.expect("a page");
        page.undelivered.is_empty().then_some(())
    })
    .await;
    let b = world.client(1).await;
    assert!(b.transaction(&paid).await.is_ok());

    // The notary is away: nobody knows, until it is back.
    tokio::task::block_in_place(|| world.stop(2));
    let flow = a.start_flow(&start("CashPay", &pay, None)).await.expect("a flow");
    eventually("the question to the notary", async || {
        let flow = a.flow(&flow).await.expect("the flow");
        flow.step.filter(|step| step.label == "Notarising")
    })
    .await;
    // The payer's own end does not undo it either.
    tokio::task::block_in_place(|| {
        world.stop(0);
        world.start(0);
    });
    let a = world.client(0).await;
    a.kill_flow(&flow).await.expect("it is under way");
    let ended = eventually("its end", async || {
        let flow = a.flow(&flow).await.ok()?;
        flow.outcome.map(|outcome| (flow.state, outcome))
    })
    .await;
    let (FlowState::Unknown, Outcome::Unknown(fate)) = ended else { panic!("{ended:?}") };
    let all = a.undelivered(&UndeliveredQuery::default()).await.expect("a page");
    assert_eq!(all.unresolved[0].transaction_id, fate.transaction_id);
    tokio::task::block_in_place(|| world.start(2));
    eventually("the payment", async || b.transaction(&fate.transaction_id).await.ok()).await;
    let flow = a.flow(&flow).await.expect("the flow");
    assert_eq!(flow.state, FlowState::Completed, "{flow:?}");
    let all = eventually("the last confirmation", async || {
        let all = a.undelivered(&UndeliveredQuery::default()).await.expect("a page");
        all.undelivered.is_empty().then_some(all)
    })
    .await;
    assert!(all.unresolved.is_empty());
    tokio::task::spawn_blocking(move || drop_all(world)).await.expect("an end");
}
