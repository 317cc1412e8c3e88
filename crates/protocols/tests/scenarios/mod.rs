//! Every shipped flow, with what has to be there before.

use serde_json::{Value, json};
use tally_contracts::Name;
use tally_protocols::testing::Network;

const ISIN: &str = "XS0000000009";

/// What is there before, and the flow under test.
pub(crate) struct Scenario {
    pub(crate) what: &'static str,
    pub(crate) prepare: fn(&mut Network),
    pub(crate) who: &'static str,
    pub(crate) flow: &'static str,
    pub(crate) arguments: fn(&Network) -> Value,
}

pub(crate) fn name(organisation: &str) -> Name {
    Name::new(organisation, "London", "GB").unwrap()
}

pub(crate) fn network(validating: bool, prepare: fn(&mut Network)) -> Network {
    let mut network = Network::new();
    for organisation in ["Alice", "Bob", "Carol"] {
        network.party(organisation);
    }
    network.notary("Notary", validating);
    network.set_rate(&name("Carol"), "EUR", "USD", 1_250_000_000);
    network.set_policy(&name("Carol"), |policy| policy.registers_of = vec![name("Alice")]);
    prepare(&mut network);
    network
}

fn nothing(_: &mut Network) {}

fn cash_at_alice(network: &mut Network) {
    network.run(&name("Alice"), "CashIssue", json!({ "amount": "100.00 USD", "outputs": 2 })).unwrap();
}

fn cash_at_bob(network: &mut Network) {
    cash_at_alice(network);
    network.run(&name("Alice"), "CashPay", json!({ "amount": "90.00 USD", "to": name("Bob") })).unwrap();
}

fn an_iou(network: &mut Network) {
    network.run(&name("Alice"), "IouCreate", json!({ "value": 9, "lender": name("Bob") })).unwrap();
}

fn bond_arguments(maturity: u64) -> Value {
    json!({ "isin": ISIN, "nominal": "50.00 USD", "maturity": maturity, "agent": name("Carol") })
}

fn a_bond(network: &mut Network) {
    network.run(&name("Alice"), "BondIssue", bond_arguments(4_000_000_000_000)).unwrap();
}

fn a_market(network: &mut Network) {
    cash_at_bob(network);
    network.agree_to_par(&name("Bob"), &name("Alice"), "USD".parse().unwrap());
    a_bond(network);
}

fn a_due_bond_at_bob(network: &mut Network) {
    network.run(&name("Alice"), "BondIssue", bond_arguments(0)).unwrap();
    let give = json!({ "isin": ISIN, "nominal": "50.00 USD", "to": name("Bob") });
    network.run(&name("Alice"), "BondTransfer", give).unwrap();
}

/// Bob's coins have a history that is too long to come along with a payment.
fn a_long_history(network: &mut Network) {
    cash_at_bob(network);
    for _ in 0..25 {
        network.run(&name("Bob"), "CashPay", json!({ "amount": "90.00 USD", "to": name("Bob") })).unwrap();
    }
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        what: "issue",
        prepare: nothing,
        who: "Alice",
        flow: "CashIssue",
        arguments: |_| json!({ "amount": "5.00 USD", "outputs": 2 }),
    },
    Scenario {
        what: "pay",
        prepare: cash_at_alice,
        who: "Alice",
        flow: "CashPay",
        arguments: |_| json!({ "amount": "60.00 USD", "to": name("Bob"), "outputs": 2 }),
    },
    Scenario {
        what: "pay with a long history",
        prepare: a_long_history,
        who: "Bob",
        flow: "CashPay",
        arguments: |_| json!({ "amount": "60.00 USD", "to": name("Carol") }),
    },
    Scenario {
        what: "pay too much",
        prepare: cash_at_alice,
        who: "Alice",
        flow: "CashPay",
        arguments: |_| json!({ "amount": "100.01 USD", "to": name("Bob") }),
    },
    Scenario {
        what: "pay at a rate",
        prepare: cash_at_alice,
        who: "Alice",
        flow: "CashPayAtRate",
        arguments: |_| json!({ "amount": "10.00 EUR", "currency": "USD", "to": name("Bob"), "oracle": name("Carol") }),
    },
    Scenario {
        what: "exit",
        prepare: cash_at_bob,
        who: "Bob",
        flow: "CashExit",
        arguments: |_| json!({ "amount": "40.00 USD" }),
    },
    Scenario {
        what: "create an IOU",
        prepare: nothing,
        who: "Alice",
        flow: "IouCreate",
        arguments: |_| json!({ "value": 9, "lender": name("Bob") }),
    },
    Scenario {
        what: "settle an IOU",
        prepare: an_iou,
        who: "Bob",
        flow: "IouSettle",
        arguments: |network| json!({ "linear_id": network.vault(&name("Bob"))[0].1.linear_id }),
    },
    Scenario {
        what: "issue a bond",
        prepare: nothing,
        who: "Alice",
        flow: "BondIssue",
        arguments: |_| bond_arguments(4_000_000_000_000),
    },
    Scenario {
        what: "transfer a bond",
        prepare: a_bond,
        who: "Alice",
        flow: "BondTransfer",
        arguments: |_| json!({ "isin": ISIN, "nominal": "20.00 USD", "to": name("Bob") }),
    },
    Scenario {
        what: "deliver versus payment",
        prepare: a_market,
        who: "Alice",
        flow: "DeliveryVersusPayment",
        arguments: |_| json!({ "isin": ISIN, "nominal": "20.00 USD", "price": "19.00 USD", "buyer": name("Bob") }),
    },
    Scenario {
        what: "redeem a bond",
        prepare: a_due_bond_at_bob,
        who: "Bob",
        flow: "BondRedeem",
        arguments: |_| json!({ "isin": ISIN, "currency": "USD" }),
    },
    Scenario {
        what: "ask for a rate",
        prepare: nothing,
        who: "Alice",
        flow: "ExchangeRate",
        arguments: |_| json!({ "base": "EUR", "quote": "USD", "oracle": name("Carol") }),
    },
    Scenario {
        what: "ping",
        prepare: nothing,
        who: "Alice",
        flow: "Ping",
        arguments: |_| json!({ "to": name("Bob"), "after_ms": 500 }),
    },
];
