//! How large a new transaction may be, by the network's parameters.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use serde_json::{Value, json};
use tally_contracts::Name;
use tally_flows::FlowError;
use tally_protocols::testing::{Ledger, Network};

fn world(validating: bool) -> (Network, [Name; 2]) {
    let mut network = Network::new();
    let parties = ["Alice", "Bob"].map(|organisation| network.party(organisation));
    network.notary("Notary", validating);
    (network, parties)
}

fn issue(network: &mut Network, who: &Name, outputs: u32) -> Result<Value, FlowError> {
    network.run(who, "CashIssue", json!({ "amount": "100.00 USD", "outputs": outputs }))
}

fn pay(network: &mut Network, from: &Name, to: &Name, amount: &str) -> Result<Value, FlowError> {
    network.run(from, "CashPay", json!({ "amount": amount, "to": to }))
}

#[test]
fn nothing_larger_than_the_network_allows_is_signed() {
    let (mut network, [alice, _]) = world(false);
    network.set_transaction_limit(2_000);
    issue(&mut network, &alice, 1).unwrap();
    let signed = network.signed(&alice).len();
    match issue(&mut network, &alice, 50) {
        Err(FlowError::TooLarge { bytes, limit, .. }) => assert!(bytes > limit && limit == 2_000),
        other => panic!("{other:?}"),
    }
    assert_eq!(network.signed(&alice).len(), signed);
}

#[test]
fn a_node_that_allows_less_signs_no_proposal_of_one_that_allows_more() {
    let (mut network, [alice, bob]) = world(false);
    network.set_transaction_limit(100);
    network.set_transaction_limit_of(&alice, 1 << 20);
    match network.run(&alice, "IouCreate", json!({ "value": 9, "lender": bob })) {
        Err(FlowError::Counterparty { kind, .. }) => assert_eq!(kind, "too_large"),
        other => panic!("{other:?}"),
    }
    assert!(network.signed(&bob).is_empty());
}

#[test]
fn a_lower_limit_takes_nothing_out_of_vaults_and_history() {
    for validating in [false, true] {
        let (mut network, [alice, bob]) = world(validating);
        // The issue is larger than what is allowed later on, and so is a payment that is on its way.
        issue(&mut network, &alice, 50).unwrap();
        network.set_cut(&alice, &bob, true);
        network.start(&alice, "CashPay", json!({ "amount": "90.00 USD", "to": bob })).unwrap();
        network.settle();
        network.set_transaction_limit(2_000);
        network.set_cut(&alice, &bob, false);
        network.settle();
        assert_eq!((network.cash(&alice, "USD", &alice), network.cash(&bob, "USD", &alice)), (1000, 9000));
        pay(&mut network, &alice, &bob, "2.00 USD").unwrap();
        network.replace_memory(&bob, Ledger::default());
        let report = network.run(&bob, "Recover", json!({ "wait_ms": 5000 })).unwrap();
        assert_eq!(report["incomplete"], json!([]), "{report}");
        assert_eq!(network.cash(&bob, "USD", &alice), 9200);
    }
}

#[test]
fn a_validating_notary_says_again_what_it_said_before_the_limit_was_lowered() {
    let (mut network, [alice, bob]) = world(true);
    let notary = network.names().into_iter().find(|name| *name != alice && *name != bob).unwrap();
    issue(&mut network, &alice, 50).unwrap();
    let flow = network.start(&alice, "CashPay", json!({ "amount": "90.00 USD", "to": bob })).unwrap();
    while network.ledger(&notary, |ledger| ledger.consumed.is_empty()) {
        let event = network.events().first().cloned().expect("it comes so far");
        network.happen(&event);
    }
    network.set_cut(&alice, &notary, true);
    network.engine(&alice).kill(flow).unwrap();
    network.settle();
    network.set_transaction_limit(2_000);
    network.set_cut(&alice, &notary, false);
    for _ in 0..3 {
        network.deliver_again(&alice);
        network.settle();
    }
    assert_eq!(network.cash(&bob, "USD", &alice), 9000);
}
