//! What each shipped flow leaves behind at every node.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use serde_json::{Value, json};
use tally_contracts::{Name, Role};
use tally_flows::FlowError;
use tally_protocols::testing::{Event, Network};

const ISIN: &str = "XS0000000009";

struct World {
    network: Network,
    alice: Name,
    bob: Name,
    carol: Name,
    notary: Name,
}

fn world_with(validating: bool) -> World {
    let mut network = Network::new();
    let (alice, bob, carol) = (network.party("Alice"), network.party("Bob"), network.party("Carol"));
    let notary = network.notary("Notary", validating);
    network.set_policy(&carol, |policy| policy.registers_of = vec![alice.clone()]);
    World { network, alice, bob, carol, notary }
}

fn world() -> World {
    world_with(false)
}

fn far() -> Value {
    json!(4_000_000_000_000_u64)
}

#[test]
fn issue_pay_and_exit_of_cash() {
    for validating in [false, true] {
        let World { mut network, alice, bob, carol, .. } = world_with(validating);
        network.run(&alice, "CashIssue", json!({ "amount": "100.00 USD", "outputs": 3 })).unwrap();
        assert_eq!(network.cash(&alice, "USD", &alice), 10_000);
        assert_eq!(network.vault(&alice).len(), 3);
        network.run(&alice, "CashPay", json!({ "amount": "70.00 USD", "to": bob, "outputs": 2 })).unwrap();
        assert_eq!(network.cash(&alice, "USD", &alice), 3000);
        assert_eq!(network.cash(&bob, "USD", &alice), 7000);
        assert_eq!(network.vault(&bob).len(), 2);
        network.run(&bob, "CashPay", json!({ "amount": "50.00 USD", "to": carol })).unwrap();
        assert_eq!(network.cash(&carol, "USD", &alice), 5000);
        network.run(&carol, "CashExit", json!({ "amount": "20.00 USD" })).unwrap();
        assert_eq!(network.cash(&carol, "USD", &alice), 3000);
        network.run(&alice, "CashExit", json!({ "amount": "30.00 USD" })).unwrap();
        assert_eq!(network.cash(&alice, "USD", &alice), 0);
        network
            .run(&carol, "CashPay", json!({ "amount": "1.00 USD", "to": carol, "issuer": alice }))
            .unwrap();
        assert_eq!(network.cash(&carol, "USD", &alice), 3000);
        assert_eq!(network.cash(&bob, "USD", &alice), 2000);
    }
}

#[test]
fn a_payment_is_few_signatures_and_few_units() {
    let World { mut network, alice, bob, notary, .. } = world();
    network.run(&alice, "CashIssue", json!({ "amount": "100.00 USD" })).unwrap();
    let before: Vec<_> = [&alice, &bob, &notary].map(|who| network.commits(who)).into();
    let signed: Vec<_> = [&alice, &bob, &notary].map(|who| network.signed(who).len()).into();
    network.run(&alice, "CashPay", json!({ "amount": "100.00 USD", "to": bob })).unwrap();
    let commits: Vec<_> = [&alice, &bob, &notary].map(|who| network.commits(who)).into();
    let signed_now: Vec<_> = [&alice, &bob, &notary].map(|who| network.signed(who).len()).into();
    assert_eq!(commits.iter().zip(&before).map(|(now, before)| now - before).collect::<Vec<_>>(), [3, 1, 1]);
    assert_eq!(
        signed_now.iter().zip(&signed).map(|(now, before)| now - before).collect::<Vec<_>>(),
        [1, 0, 1]
    );
    assert_eq!(network.received(&bob).len(), 1);
    assert_eq!(network.received(&notary).len(), 1);
    assert_eq!(network.received(&alice).len(), 2);
}

#[test]
fn an_issue_is_one_unit() {
    let World { mut network, alice, .. } = world();
    network.run(&alice, "CashIssue", json!({ "amount": "100.00 USD" })).unwrap();
    assert_eq!(network.commits(&alice), 1);
    assert_eq!(network.all_commits(), 1);
}

#[test]
fn what_cannot_be_paid_is_refused() {
    let World { mut network, alice, bob, .. } = world();
    let pay = |amount: &str| json!({ "amount": amount, "to": bob });
    let missing = network.run(&alice, "CashPay", pay("1.00 USD")).unwrap_err();
    assert!(
        matches!(missing, FlowError::Insufficient { wanted: 100, available: 0, held: 0, .. }),
        "{missing}"
    );
    network.run(&alice, "CashIssue", json!({ "amount": "1.00 USD" })).unwrap();
    let short = network.run(&alice, "CashPay", pay("1.01 USD")).unwrap_err();
    assert!(matches!(short, FlowError::Insufficient { wanted: 101, available: 100, .. }), "{short}");
    for arguments in [
        json!({ "amount": "1.00 USD" }),
        json!({ "amount": "1.00 USD", "to": bob, "tip": 1 }),
        json!({ "amount": "1.001 USD", "to": bob }),
        json!({ "amount": "-1.00 USD", "to": bob }),
        json!({ "amount": 1, "to": bob }),
        json!({ "amount": "1.00 USD", "to": "Bob" }),
        json!([]),
    ] {
        let refused = network.start(&alice, "CashPay", arguments.clone()).unwrap_err();
        assert!(matches!(refused, FlowError::Refused { .. }), "{arguments}: {refused}");
    }
    let stranger = json!({ "amount": "1.00 USD", "to": "O=Nobody, L=Nowhere, C=GB" });
    assert!(matches!(network.run(&alice, "CashPay", stranger), Err(FlowError::UnknownParty { .. })));
    for amount in ["0.00 USD", "1.00 USD"] {
        let outputs = json!({ "amount": amount, "to": bob, "outputs": 0 });
        assert!(network.run(&alice, "CashPay", outputs).is_err());
    }
    assert_eq!(network.cash(&alice, "USD", &alice), 100);
    network.run(&alice, "CashPay", pay("1.00 USD")).unwrap();
}

#[test]
fn an_iou_is_made_and_settled() {
    let World { mut network, alice, bob, carol, .. } = world();
    let created = network.run(&alice, "IouCreate", json!({ "value": 99, "lender": bob })).unwrap();
    for who in [&alice, &bob] {
        let vault = network.vault(who);
        assert_eq!(vault.len(), 1);
        assert_eq!(vault[0].1.kind, "iou");
        assert_eq!(vault[0].1.details["value"], 99);
    }
    assert!(network.vault(&carol).is_empty());
    let linear_id = json!({ "linear_id": created["linear_id"] });
    let refused = network.run(&alice, "IouSettle", linear_id.clone()).unwrap_err();
    assert!(refused.to_string().contains("lender"), "{refused}");
    network.run(&bob, "IouSettle", linear_id.clone()).unwrap();
    assert!(network.vault(&alice).is_empty() && network.vault(&bob).is_empty());
    assert!(matches!(network.run(&bob, "IouSettle", linear_id), Err(FlowError::Refused { .. })));
}

#[test]
fn an_iou_of_a_hundred_is_refused_before_anybody_is_asked() {
    let World { mut network, alice, bob, .. } = world();
    for value in [0, 100] {
        let refused = network.run(&alice, "IouCreate", json!({ "value": value, "lender": bob })).unwrap_err();
        assert!(matches!(refused, FlowError::Invalid { .. }), "{refused}");
        assert!(refused.to_string().contains("1 to 99"), "{refused}");
    }
    assert!(network.received(&bob).is_empty());
}

/// Alice issues cash and a bond whose register Carol keeps, and Bob has cash.
fn market() -> World {
    let mut world = world();
    let World { network, alice, bob, carol, .. } = &mut world;
    network.run(alice, "CashIssue", json!({ "amount": "1000.00 USD" })).unwrap();
    network.run(alice, "CashPay", json!({ "amount": "1000.00 USD", "to": bob })).unwrap();
    let bond = json!({ "isin": ISIN, "nominal": "500.00 USD", "maturity": far(), "agent": carol });
    network.run(alice, "BondIssue", bond).unwrap();
    network.agree_to_par(bob, alice, "USD".parse().unwrap());
    world
}

fn nominal(network: &Network, who: &Name) -> u64 {
    let owner = network.identity(who).key;
    let vault = network.vault(who);
    let bonds = vault.iter().filter(|(_, summary)| summary.kind == "bond" && summary.owner == Some(owner));
    bonds.filter_map(|(_, summary)| summary.quantity).sum()
}

#[test]
fn a_bond_is_delivered_against_payment_by_three_signers() {
    let World { mut network, alice, bob, carol, .. } = market();
    let sale = json!({ "isin": ISIN, "nominal": "300.00 USD", "price": "297.00 USD", "buyer": bob });
    let done = network.run(&alice, "DeliveryVersusPayment", sale).unwrap();
    assert_eq!((nominal(&network, &alice), nominal(&network, &bob)), (20_000, 30_000));
    assert_eq!(network.cash(&alice, "USD", &alice), 29_700);
    assert_eq!(network.cash(&bob, "USD", &alice), 70_300);
    let id = serde_json::from_value(done["transaction"].clone()).unwrap();
    for who in [&alice, &bob, &carol] {
        let transaction = network.transaction(who, &id).expect("everybody concerned has it");
        assert_eq!(transaction.signatures().len(), 4, "seller, buyer, agent and notary");
        transaction.verify_signatures().unwrap();
    }
    // Bob gives some of it to Carol, who keeps the register; Alice, who owes it, is told.
    network.run(&bob, "BondTransfer", json!({ "isin": ISIN, "nominal": "100.00 USD", "to": carol })).unwrap();
    assert_eq!((nominal(&network, &bob), nominal(&network, &carol)), (20_000, 10_000));
    let owners = network.vault(&alice).iter().filter(|(_, summary)| summary.kind == "bond").count();
    assert_eq!(owners, 3, "the issuer knows every holding");
}

#[test]
fn a_buyer_does_not_buy_at_any_price() {
    let World { mut network, alice, bob, carol, .. } = market();
    let sale = |price: &str, cash_of: &Name| json!({ "isin": ISIN, "nominal": "300.00 USD", "price": price, "buyer": bob, "cash_issuer": cash_of });
    let above = network.run(&alice, "DeliveryVersusPayment", sale("300.01 USD", &alice)).unwrap_err();
    assert!(matches!(&above, FlowError::Counterparty { kind, .. } if kind == "refused"), "{above}");
    let other_cash = network.run(&alice, "DeliveryVersusPayment", sale("1.00 USD", &carol)).unwrap_err();
    assert!(matches!(&other_cash, FlowError::Counterparty { kind, .. } if kind == "refused"), "{other_cash}");
    let too_much = json!({ "isin": ISIN, "nominal": "500.01 USD", "price": "1.00 USD", "buyer": bob });
    let too_much = network.run(&alice, "DeliveryVersusPayment", too_much).unwrap_err();
    assert!(matches!(too_much, FlowError::Insufficient { .. }), "{too_much}");
    assert_eq!(network.cash(&bob, "USD", &alice), 100_000);
    // Nothing is held for long.
    for who in [&alice, &bob] {
        network.ledger(who, |ledger| assert!(ledger.held.is_empty()));
    }
}

#[test]
fn a_bond_is_repaid_when_due_and_not_before() {
    let World { mut network, alice, bob, carol, .. } = world();
    let due = network.now().as_millis() + 100_000;
    let bond = json!({ "isin": ISIN, "nominal": "500.00 USD", "maturity": due, "agent": carol });
    network.run(&alice, "BondIssue", bond).unwrap();
    network.run(&alice, "BondTransfer", json!({ "isin": ISIN, "nominal": "500.00 USD", "to": bob })).unwrap();
    let redeem = json!({ "isin": ISIN, "currency": "USD" });
    let early = network.run(&bob, "BondRedeem", redeem.clone()).unwrap_err();
    assert!(matches!(&early, FlowError::Counterparty { kind, .. } if kind == "refused"), "{early}");
    network.advance(100_000);
    network.run(&bob, "BondRedeem", redeem.clone()).unwrap();
    assert_eq!(nominal(&network, &bob), 0);
    assert_eq!(network.cash(&bob, "USD", &alice), 50_000);
    for who in [&alice, &carol] {
        assert!(network.vault(who).is_empty(), "the bond is gone everywhere");
    }
    assert!(matches!(network.run(&bob, "BondRedeem", redeem), Err(FlowError::Refused { .. })));
}

#[test]
fn an_issuer_pays_with_the_cash_that_the_holder_wants() {
    let World { mut network, alice, bob, carol, .. } = world();
    let due = network.now().as_millis();
    let bond = json!({ "isin": ISIN, "nominal": "500.00 USD", "maturity": due });
    network.run(&alice, "BondIssue", bond).unwrap();
    network.run(&alice, "BondTransfer", json!({ "isin": ISIN, "nominal": "500.00 USD", "to": bob })).unwrap();
    let redeem = json!({ "isin": ISIN, "currency": "USD", "cash_issuer": carol });
    network.set_policy(&alice, |policy| policy.repay_in = vec![carol.clone()]);
    let without = network.run(&bob, "BondRedeem", redeem.clone()).unwrap_err();
    assert!(matches!(&without, FlowError::Counterparty { kind, .. } if kind == "insufficient"), "{without}");
    assert_eq!(network.cash(&bob, "USD", &carol), 0);
    network.run(&carol, "CashIssue", json!({ "amount": "600.00 USD" })).unwrap();
    network.run(&carol, "CashPay", json!({ "amount": "600.00 USD", "to": alice })).unwrap();
    network.run(&bob, "BondRedeem", redeem).unwrap();
    assert_eq!(network.cash(&bob, "USD", &carol), 50_000);
    assert_eq!(network.cash(&alice, "USD", &carol), 10_000);
}

#[test]
fn an_oracle_says_a_rate_and_signs_a_payment_at_it() {
    let World { mut network, alice, bob, carol, .. } = world();
    let ask = json!({ "base": "EUR", "quote": "USD", "oracle": carol });
    let unknown = network.run(&alice, "ExchangeRate", ask.clone()).unwrap_err();
    assert!(matches!(&unknown, FlowError::Counterparty { kind, .. } if kind == "refused"), "{unknown}");
    network.set_rate(&carol, "EUR", "USD", 1_250_000_000);
    let said = network.run(&alice, "ExchangeRate", ask).unwrap();
    assert_eq!(said["rate"]["rate"], 125_000_000);
    network.run(&alice, "CashIssue", json!({ "amount": "1000.00 USD" })).unwrap();
    let pay = json!({ "amount": "100.00 EUR", "currency": "USD", "to": bob, "oracle": carol });
    let done = network.run(&alice, "CashPayAtRate", pay).unwrap();
    assert_eq!(done["paid"], "125.00 USD");
    assert_eq!(network.cash(&bob, "USD", &alice), 12_500);
    let id = serde_json::from_value(done["transaction"].clone()).unwrap();
    let transaction = network.transaction(&bob, &id).expect("the payee has it");
    let oracle = network.identity(&carol).key;
    let mut signatures = transaction.signatures().iter();
    assert!(signatures.any(|signature| signature.by == oracle && signature.role == Role::Oracle));
    assert!(network.transaction(&carol, &id).is_none(), "the oracle does not see the payment");
}

#[test]
fn a_ping_waits_as_long_as_it_is_told() {
    let World { mut network, alice, bob, .. } = world();
    assert_eq!(network.run(&alice, "Ping", json!({ "to": bob })).unwrap()["took_ms"], 0);
    let later = network.start(&alice, "Ping", json!({ "to": bob, "after_ms": 60_000 })).unwrap();
    // Until nothing is left but to wait.
    while let Some(event) = network.events().first().cloned().filter(|event| !matches!(event, Event::Wait(_)))
    {
        network.happen(&event);
    }
    assert!(network.result(&alice, later).is_none());
    network.crash(&alice);
    network.crash(&bob);
    network.settle();
    assert_eq!(network.result(&alice, later).unwrap().unwrap()["took_ms"], 60_000);
    let too_long = network.run(&alice, "Ping", json!({ "to": bob, "after_ms": 60_001 })).unwrap_err();
    assert!(matches!(&too_long, FlowError::Counterparty { kind, .. } if kind == "refused"), "{too_long}");
}

#[test]
fn steps_are_told_in_order() {
    let World { mut network, alice, bob, .. } = world();
    network.run(&alice, "CashIssue", json!({ "amount": "1.00 USD" })).unwrap();
    let pay = network.start(&alice, "CashPay", json!({ "amount": "1.00 USD", "to": bob })).unwrap();
    network.settle();
    let steps: Vec<_> =
        network.progress(&alice).into_iter().filter(|(flow, _)| *flow == pay).map(|(_, step)| step).collect();
    let told = ["Building", "Verifying", "Signing", "Notarising", "Recording", "Sending"];
    assert_eq!(steps, told.map(|step| format!("CashPay / {step}")));
}
