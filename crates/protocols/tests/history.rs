//! Histories that are handed over: long ones, wide ones, and what may not be asked for.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::time::Instant;

use serde_json::json;
use tally_contracts::Name;
use tally_protocols::testing::Network;
use tally_sim::Rng;

fn pay(network: &mut Network, from: &Name, to: &Name, amount: &str, issuer: &Name) {
    network.run(from, "CashPay", json!({ "amount": amount, "to": to, "issuer": issuer })).unwrap();
}

/// Bob is paid with a coin that Alice has paid to herself `depth` times.
fn deep(depth: usize) -> (Network, Name, Name) {
    let mut network = Network::new();
    let (alice, bob) = (network.party("Alice"), network.party("Bob"));
    network.notary("Notary", false);
    network.run(&alice, "CashIssue", json!({ "amount": "1.00 USD" })).unwrap();
    for _ in 0..depth {
        pay(&mut network, &alice, &alice, "1.00 USD", &alice);
    }
    let began = Instant::now();
    pay(&mut network, &alice, &bob, "1.00 USD", &alice);
    println!("{depth} deep: {:?}, {} messages", began.elapsed(), network.received(&bob).len());
    assert_eq!(network.cash(&bob, "USD", &alice), 100);
    network.ledger(&bob, |ledger| assert_eq!(ledger.transactions.len(), depth + 2));
    (network, alice, bob)
}

#[test]
fn a_deep_history_is_fetched_in_few_round_trips() {
    let (mut network, alice, bob) = deep(2_000);
    assert!(network.received(&bob).len() < 10);
    // What is known is not fetched again.
    let before = network.received(&alice).len();
    pay(&mut network, &bob, &alice, "1.00 USD", &alice);
    assert_eq!(network.received(&alice).len() - before, 1, "the payment, and no history");
}

#[test]
fn a_tangled_history_is_verified_in_order() {
    let mut network = Network::new();
    let parties: Vec<_> = ["Alice", "Bob", "Carol"].iter().map(|who| network.party(who)).collect();
    let dave = network.party("Dave");
    network.notary("Notary", false);
    for party in &parties {
        network.run(party, "CashIssue", json!({ "amount": "10.00 USD", "outputs": 5 })).unwrap();
    }
    let mut rng = Rng::new(11);
    let mut paid = 0;
    for _ in 0..400 {
        let (from, to, issuer) = (rng.index(3), rng.index(3), rng.index(3));
        let amount = format!("0.{:02} USD", rng.between(10, 99));
        let pay = json!({ "amount": amount, "to": parties[to], "issuer": parties[issuer], "outputs": 1 });
        paid += usize::from(network.run(&parties[from], "CashPay", pay).is_ok());
    }
    assert!(paid > 200, "{paid}");
    for party in &parties {
        for issuer in &parties {
            let all = network.cash(party, "USD", issuer);
            if all > 0 {
                pay(&mut network, party, &dave, &format!("{}.{:02} USD", all / 100, all % 100), issuer);
            }
        }
    }
    let total: u64 = parties.iter().map(|issuer| network.cash(&dave, "USD", issuer)).sum();
    assert_eq!(total, 3000);
}

/// `--ignored`: it takes minutes. Prints how long a history of 150,000 transactions takes.
#[test]
#[ignore = "minutes"]
fn a_history_of_150_000_transactions_is_received() {
    deep(150_000);
}
