//! Notaries whose key has changed: what they signed before counts, nothing new becomes final by the former key.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use serde_json::{Value, json};
use tally_contracts::Name;
use tally_flows::FlowError;
use tally_protocols::testing::{Ledger, Network};

fn pay(network: &mut Network, from: &Name, to: &Name, amount: &str) -> Result<Value, FlowError> {
    let issuer = network.names()[0].clone();
    network.run(from, "CashPay", json!({ "amount": amount, "to": to, "issuer": issuer }))
}

fn world(validating: bool) -> (Network, [Name; 3], Name) {
    let mut network = Network::new();
    let parties = ["Alice", "Bob", "Carol"].map(|organisation| network.party(organisation));
    let notary = network.notary("Notary", validating);
    network.run(&parties[0], "CashIssue", json!({ "amount": "10.00 USD", "outputs": 2 })).unwrap();
    (network, parties, notary)
}

#[test]
fn what_a_notary_signed_with_its_former_key_is_delivered_and_recovered() {
    for validating in [false, true] {
        let (mut network, [alice, bob, _], notary) = world(validating);
        network.set_cut(&alice, &bob, true);
        network.start(&alice, "CashPay", json!({ "amount": "5.00 USD", "to": bob })).unwrap();
        network.settle();
        assert_eq!(network.cash(&bob, "USD", &alice), 0);
        network.rekey_notary(&notary);
        network.set_cut(&alice, &bob, false);
        network.settle();
        assert_eq!(network.cash(&bob, "USD", &alice), 500, "it was final before the key changed");
        network.replace_memory(&bob, Ledger::default());
        let report = network.run(&bob, "Recover", json!({ "wait_ms": 5000 })).unwrap();
        assert_eq!(report["incomplete"], json!([]), "{report}");
        assert_eq!(network.cash(&bob, "USD", &alice), 500);
    }
}

#[test]
fn nothing_new_becomes_final_by_the_former_key_of_a_notary() {
    let (mut network, [alice, bob, carol], notary) = world(false);
    pay(&mut network, &alice, &bob, "5.00 USD").unwrap();
    let before = network.signed(&bob).len();
    network.rekey_notary(&notary);
    // Coins of the former key are not chosen, and keep no coin of the new one from being chosen.
    let refusal = pay(&mut network, &bob, &carol, "5.00 USD").unwrap_err();
    assert!(matches!(refusal, FlowError::Insufficient { available: 0, held: 0, .. }), "{refusal}");
    assert_eq!(network.signed(&bob).len(), before, "nothing was signed");
    network.run(&alice, "CashIssue", json!({ "amount": "3.00 USD" })).unwrap();
    pay(&mut network, &alice, &bob, "3.00 USD").unwrap();
    pay(&mut network, &bob, &carol, "3.00 USD").unwrap();
    assert_eq!(network.cash(&bob, "USD", &alice), 500, "it is still in the vault");
}

#[test]
fn a_notary_with_a_new_key_refuses_nothing_that_it_may_have_committed_before() {
    let (mut network, [alice, bob, _], notary) = world(false);
    let flow = network.start(&alice, "CashPay", json!({ "amount": "5.00 USD", "to": bob })).unwrap();
    while network.ledger(&notary, |ledger| ledger.consumed.is_empty()) {
        let event = network.events().first().cloned().expect("it comes so far");
        network.happen(&event);
    }
    network.set_cut(&alice, &notary, true);
    network.engine(&alice).kill(flow).unwrap();
    network.settle();
    let unknown = |network: &Network| network.ledger(&alice, |ledger| ledger.unresolved.len());
    assert_eq!(unknown(&network), 1);
    // The payer has not heard of the new key when it asks again, and then has.
    network.set_behind(&alice, true);
    network.rekey_notary(&notary);
    network.set_cut(&alice, &notary, false);
    for behind in [true, false] {
        network.set_behind(&alice, behind);
        network.deliver_again(&alice);
        network.settle();
        assert_eq!(unknown(&network), 1, "it may be final: {:?}", network.outcomes(&alice));
    }
}
