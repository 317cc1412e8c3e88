//! One coin and many payments: each waits for the change of the one before it.

mod world;

use std::sync::Arc;

use serde_json::json;
use tally_rpc::{Client, Outcome, VaultQuery};
use world::{World, name, output, start};

const PAYMENTS: usize = 50;

async fn network() -> World {
    tokio::task::spawn_blocking(|| World::new(&["PartyA", "PartyB", "Notary"], false))
        .await
        .expect("a network")
}

async fn sum(client: &Client) -> u64 {
    let page =
        client.query_vault(&VaultQuery { page_size: 1000, ..VaultQuery::default() }).await.expect("a page");
    assert!(page.states.iter().all(|state| state.locked_by.is_none()), "a flow left something held");
    page.states.iter().filter_map(|state| state.quantity).sum()
}

/// Every payment of one coin, by requests of these names.
async fn pay_all(client: &Arc<Client>) -> Vec<Outcome> {
    let payments = (0..PAYMENTS).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let pay = json!({ "amount": "1.00 USD", "to": name("PartyB").to_string() });
            let request = format!("payment-{number}");
            client.run_flow(&start("CashPay", &pay, Some(&request))).await.map(|end| end.outcome)
        })
    });
    let payments: Vec<_> = payments.collect();
    let mut outcomes = Vec::new();
    for payment in payments {
        if let Ok(outcome) = payment.await.expect("no panic") {
            outcomes.push(outcome);
        }
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_payments_of_one_coin_all_succeed() {
    let mut world = network().await;
    let a = Arc::new(world.client(0).await);
    output(
        a.run_flow(&start("CashIssue", &json!({ "amount": "50.00 USD" }), None)).await.expect("an answer"),
    );
    let outcomes = pay_all(&a).await;
    for outcome in &outcomes {
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    }
    assert_eq!(outcomes.len(), PAYMENTS);
    assert_eq!(sum(&a).await, 0);
    assert_eq!(sum(&world.client(1).await).await, 5000);
    // What does not come back is refused, and at once.
    let more = json!({ "amount": "0.01 USD", "to": name("PartyB").to_string() });
    let refused = a.run_flow(&start("CashPay", &more, None)).await.expect("an answer").outcome;
    assert!(
        matches!(&refused, Outcome::Failed(failure) if failure.to_string().contains("insufficient")),
        "{refused:?}"
    );
    drop(a);
    tokio::task::spawn_blocking(move || (0..3).for_each(|index| world.stop(index))).await.expect("an end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_that_wait_go_on_after_a_restart() {
    let mut world = network().await;
    let a = Arc::new(world.client(0).await);
    output(
        a.run_flow(&start("CashIssue", &json!({ "amount": "50.00 USD" }), None)).await.expect("an answer"),
    );
    let asked = {
        let a = a.clone();
        tokio::spawn(async move { pay_all(&a).await })
    };
    // Some are paid by then, and most wait.
    let b = world.client(1).await;
    while sum(&b).await < 500 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let mut world = tokio::task::spawn_blocking(move || {
        world.stop(0);
        world.start(0);
        world
    })
    .await
    .expect("a restart");
    asked.await.expect("no panic");
    let a = Arc::new(world.client(0).await);
    let outcomes = pay_all(&a).await;
    for outcome in &outcomes {
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    }
    assert_eq!(outcomes.len(), PAYMENTS);
    assert_eq!(sum(&a).await, 0);
    assert_eq!(sum(&b).await, 5000);
    drop((a, b));
    tokio::task::spawn_blocking(move || (0..3).for_each(|index| world.stop(index))).await.expect("an end");
}
