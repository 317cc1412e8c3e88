//! A member that pays with coins which cannot be spent, and one that wants to be bought from without being asked.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

#[path = "evil/poison.rs"]
mod evil;

use serde_json::json;

use tally_contracts::{Name, StateRef, TransactionId};
use tally_flows::{FlowError, Registry};
use tally_protocols::testing::{Event, Network};

const ISIN: &str = "XS0000000009";

fn registry() -> Registry {
    evil::poison(tally_protocols::registry())
}

struct World {
    network: Network,
    alice: Name,
    bob: Name,
    mallory: Name,
}

fn world() -> World {
    let mut network = Network::new();
    let (alice, bob) = (network.party("Alice"), network.party("Bob"));
    let mallory = network.party_with("Mallory", registry);
    network.notary("Notary", false);
    World { network, alice, bob, mallory }
}

#[test]
fn a_coin_that_its_payer_has_encumbered_is_not_chosen() {
    let World { mut network, alice, bob, mallory } = world();
    let honest = |amount: &str| json!({ "amount": amount, "to": bob });
    network.run(&mallory, "CashIssue", json!({ "amount": "5.00 USD" })).unwrap();
    network.run(&mallory, "PayEncumbered", honest("100.00 USD")).unwrap();
    let on = json!({ "amount": "5.00 USD", "to": alice, "issuer": mallory });
    let nothing = network.run(&bob, "CashPay", on.clone()).unwrap_err();
    assert!(matches!(nothing, FlowError::Insufficient { available: 0, held: 0, .. }), "{nothing}");
    // What is paid without a string attached is paid on, whatever lies beside it.
    network.run(&mallory, "CashPay", honest("5.00 USD")).unwrap();
    network.run(&bob, "CashPay", on).unwrap();
    assert_eq!(network.cash(&alice, "USD", &mallory), 500);
}

#[test]
fn dust_of_a_stranger_does_not_stop_payments() {
    let World { mut network, alice, bob, mallory } = world();
    network.run(&alice, "CashIssue", json!({ "amount": "10.00 USD" })).unwrap();
    network.run(&alice, "CashPay", json!({ "amount": "10.00 USD", "to": bob })).unwrap();
    network.run(&mallory, "CashIssue", json!({ "amount": "0.01 USD" })).unwrap();
    network.run(&mallory, "CashPay", json!({ "amount": "0.01 USD", "to": bob })).unwrap();
    let pay = json!({ "amount": "4.00 USD", "to": alice });
    // Without the setting the user is told of both ways out.
    let unclear = network.run(&bob, "CashPay", pay.clone()).unwrap_err().to_string();
    assert!(unclear.contains("[cash] issuers") && unclear.contains("Mallory"), "{unclear}");
    network.set_policy(&bob, |policy| policy.cash_issuers = Some(vec![bob.clone(), alice.clone()]));
    network.run(&bob, "CashPay", pay.clone()).unwrap();
    assert_eq!(network.cash(&bob, "USD", &alice), 600);
    assert_eq!(network.cash(&bob, "USD", &mallory), 1, "it lies there and is not touched");
    // Nobody else's cash makes up for what is missing.
    let more = json!({ "amount": "6.01 USD", "to": alice });
    let short = network.run(&bob, "CashPay", more).unwrap_err();
    assert!(matches!(short, FlowError::Insufficient { available: 600, .. }), "{short}");
    network.set_policy(&bob, |policy| policy.cash_issuers = Some(Vec::new()));
    let none = network.run(&bob, "CashPay", pay).unwrap_err();
    assert!(matches!(none, FlowError::Insufficient { available: 0, .. }), "{none}");
}

#[test]
fn a_coin_that_its_notary_has_given_away_is_tried_once() {
    let World { mut network, alice, mallory, .. } = world();
    let dead = network.run(&mallory, "CashIssue", json!({ "amount": "1.00 USD" })).unwrap();
    network.run(&mallory, "CashIssue", json!({ "amount": "2.00 USD" })).unwrap();
    let taken =
        network.run(&mallory, "SpendSilently", json!({ "transaction": dead["transaction"] })).unwrap();
    let pay = json!({ "amount": "1.00 USD", "to": alice });
    let conflict = network.run(&mallory, "CashPay", pay.clone()).unwrap_err();
    let FlowError::Conflict { state, consumed_by } = conflict else { panic!("{conflict}") };
    assert_eq!(json!(consumed_by), taken["transaction"]);
    let transaction: TransactionId = serde_json::from_value(dead["transaction"].clone()).unwrap();
    assert_eq!(state, StateRef { transaction, index: 0 });
    network.ledger(&mallory, |ledger| assert_eq!(ledger.lost.get(&state), Some(&consumed_by)));
    // Everything else is still paid out, and no more than that.
    network.crash(&mallory);
    network.run(&mallory, "CashPay", pay.clone()).unwrap();
    network.run(&mallory, "CashPay", pay.clone()).unwrap();
    let rest = network.run(&mallory, "CashPay", pay).unwrap_err();
    assert!(matches!(rest, FlowError::Insufficient { available: 0, .. }), "{rest}");
}

/// Mallory has a bond, and Bob cash of Mallory and of Alice.
fn offer() -> World {
    let mut world = world();
    let World { network, alice, bob, mallory } = &mut world;
    for issuer in [&*alice, &*mallory] {
        network.run(issuer, "CashIssue", json!({ "amount": "1000.00 USD" })).unwrap();
        network.run(issuer, "CashPay", json!({ "amount": "1000.00 USD", "to": bob })).unwrap();
    }
    let bond = json!({ "isin": ISIN, "nominal": "900.00 USD", "maturity": 4_000_000_000_000_u64 });
    network.run(mallory, "BondIssue", bond).unwrap();
    world
}

#[test]
fn a_node_buys_nothing_that_its_institution_has_not_allowed() {
    let World { mut network, alice, bob, mallory } = offer();
    let sell = |price: &str, cash: &Name| json!({ "isin": ISIN, "nominal": "100.00 USD", "price": price, "buyer": bob, "cash_issuer": cash });
    let signed = network.signed(&bob).len();
    let refused = |network: &mut Network, price: &str, cash: &Name| {
        let error = network.run(&mallory, "DeliveryVersusPayment", sell(price, cash)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("[[consent.purchase]]") && !text.contains(".00"), "{text}");
    };
    // One cent for a hundred is refused as well: nobody has said yes.
    refused(&mut network, "0.01 USD", &mallory);
    refused(&mut network, "100.00 USD", &alice);
    network.agree_to_par(&bob, &mallory, "USD".parse().unwrap());
    network.set_policy(&bob, |policy| {
        policy.purchases[0].per_deal = "80.00 USD".parse().unwrap();
        policy.purchases[0].per_day = "150.00 USD".parse().unwrap();
    });
    refused(&mut network, "80.01 USD", &mallory);
    refused(&mut network, "80.00 USD", &alice);
    assert_eq!(network.signed(&bob).len(), signed, "a refusal signs nothing");
    network.run(&mallory, "DeliveryVersusPayment", sell("80.00 USD", &mallory)).unwrap();
    // The day's limit counts what was bought, also after a crash, and heals.
    refused(&mut network, "70.01 USD", &mallory);
    network.crash(&bob);
    refused(&mut network, "70.01 USD", &mallory);
    network.run(&mallory, "DeliveryVersusPayment", sell("70.00 USD", &mallory)).unwrap();
    refused(&mut network, "0.01 USD", &mallory);
    network.advance(24 * 60 * 60 * 1000);
    network.run(&mallory, "DeliveryVersusPayment", sell("80.00 USD", &mallory)).unwrap();
    assert_eq!(network.cash(&bob, "USD", &mallory), 100_000 - 8_000 - 7_000 - 8_000);
    assert_eq!(network.cash(&bob, "USD", &alice), 100_000);
}

#[test]
fn a_changed_policy_does_not_change_a_flow_under_way() {
    let World { mut network, bob, mallory, .. } = offer();
    network.agree_to_par(&bob, &mallory, "USD".parse().unwrap());
    let sale = json!({ "isin": ISIN, "nominal": "100.00 USD", "price": "99.00 USD", "buyer": bob });
    let flow = network.start(&mallory, "DeliveryVersusPayment", sale).unwrap();
    // Bob has agreed and proposed; the seller does not hear of it yet.
    let before = network.commits(&bob);
    while network.commits(&bob) == before {
        let event = network.events().into_iter().find(|event| !matches!(event, Event::Wait(_))).unwrap();
        network.happen(&event);
    }
    assert_eq!(network.signed(&bob).len(), 1);
    network.set_policy(&bob, |policy| policy.purchases.clear());
    network.crash(&bob);
    network.settle();
    network.result(&mallory, flow).unwrap().unwrap();
    assert!(network.views(&bob).is_empty(), "no flow of the buyer is held: {:?}", network.views(&bob));
}

#[test]
fn a_bond_is_repaid_in_own_cash_unless_the_institution_says_otherwise() {
    let World { mut network, alice, bob, mallory } = world();
    let bond = json!({ "isin": ISIN, "nominal": "50.00 USD", "maturity": 0 });
    network.run(&alice, "BondIssue", bond).unwrap();
    let give = json!({ "isin": ISIN, "nominal": "50.00 USD", "to": mallory });
    network.run(&alice, "BondTransfer", give).unwrap();
    network.run(&bob, "CashIssue", json!({ "amount": "50.00 USD" })).unwrap();
    network.run(&bob, "CashPay", json!({ "amount": "50.00 USD", "to": alice })).unwrap();
    let redeem = json!({ "isin": ISIN, "currency": "USD", "cash_issuer": bob });
    let refused = network.run(&mallory, "BondRedeem", redeem).unwrap_err().to_string();
    assert!(refused.contains("repay_in"), "{refused}");
    assert_eq!(network.cash(&alice, "USD", &bob), 5_000);
    network.run(&mallory, "BondRedeem", json!({ "isin": ISIN, "currency": "USD" })).unwrap();
    assert_eq!(network.cash(&mallory, "USD", &alice), 5_000);
}

#[test]
fn nobody_is_made_an_agent_without_being_asked() {
    let World { mut network, bob, mallory, .. } = world();
    let bond = json!({ "isin": ISIN, "nominal": "50.00 USD", "maturity": 0, "agent": bob });
    let refused = network.run(&mallory, "BondIssue", bond.clone()).unwrap_err().to_string();
    assert!(refused.contains("registers_of"), "{refused}");
    assert!(network.signed(&bob).is_empty());
    network.set_policy(&bob, |policy| policy.registers_of = vec![mallory.clone()]);
    network.run(&mallory, "BondIssue", bond).unwrap();
}
