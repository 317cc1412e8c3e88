//! Who is not in a transaction receives no byte of it, and a non-validating notary sees what it has to and no more:
//! proven from all that each node received.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use serde_json::json;
use tally_contracts::{Name, SignedTransaction, encode};
use tally_protocols::testing::Network;

fn contains(network: &Network, who: &Name, needle: &[u8]) -> bool {
    assert!(needle.len() >= 8, "a needle that occurs by chance proves nothing");
    network
        .received(who)
        .iter()
        .any(|message| message.bytes.windows(needle.len()).any(|window| window == needle))
}

/// Everything of a transaction that is worth hiding, each part by itself: in the ledger's encoding, and the salt that
/// would let its hashes be guessed.
fn secrets(transaction: &SignedTransaction) -> Vec<(String, Vec<u8>)> {
    let content = transaction.transaction();
    let mut secrets = vec![("the salt".to_owned(), content.encode()[1..33].to_vec())];
    for (index, state) in content.outputs().iter().enumerate() {
        secrets.push((format!("output {index}"), encode(state)));
        secrets.push((format!("data of output {index}"), state.data.clone()));
    }
    for (index, command) in content.commands().iter().enumerate() {
        secrets.push((format!("command {index}"), encode(&(command.contract, &command.data))));
        secrets.push((format!("signers of command {index}"), encode(&command.signers)));
    }
    for (name, version) in content.contracts() {
        secrets.push((format!("contract {name}"), encode(&(name, version))));
    }
    secrets
}

fn all_transactions(network: &Network, who: &Name) -> Vec<SignedTransaction> {
    network.ledger(who, |ledger| {
        ledger.transactions.values().map(|found| SignedTransaction::clone(found)).collect()
    })
}

#[test]
fn the_search_finds_what_was_sent() {
    let mut network = Network::new();
    let (alice, bob) = (network.party("Alice"), network.party("Bob"));
    network.notary("Notary", false);
    network.run(&alice, "CashIssue", json!({ "amount": "9.00 USD" })).unwrap();
    network.run(&alice, "CashPay", json!({ "amount": "5.00 USD", "to": bob })).unwrap();
    for transaction in all_transactions(&network, &alice) {
        for (what, secret) in secrets(&transaction) {
            assert!(contains(&network, &bob, &secret), "the payee received {what}");
        }
    }
}

#[test]
fn a_third_party_and_the_notary_learn_nothing() {
    let mut network = Network::new();
    let (alice, bob, carol) = (network.party("Alice"), network.party("Bob"), network.party("Carol"));
    let notary = network.notary("Notary", false);
    network.run(&alice, "CashIssue", json!({ "amount": "9.00 USD" })).unwrap();
    network.run(&alice, "CashPay", json!({ "amount": "5.00 USD", "to": bob })).unwrap();
    network.run(&alice, "IouCreate", json!({ "value": 42, "lender": bob })).unwrap();
    network.run(&bob, "CashPay", json!({ "amount": "1.00 USD", "to": alice })).unwrap();
    assert!(network.received(&carol).is_empty());
    let transactions = all_transactions(&network, &alice);
    assert_eq!(transactions.len(), 4);
    // Of each state that is consumed it sees whose signatures consume it, and nothing else.
    let consumed = |transaction: &SignedTransaction| {
        let outputs = transaction.transaction().outputs().iter();
        outputs.map(|state| encode(&state.consumers)).collect::<Vec<_>>()
    };
    let consumers: Vec<_> = transactions.iter().flat_map(consumed).collect();
    for transaction in &transactions {
        let hidden = secrets(transaction).into_iter();
        for (what, secret) in hidden.filter(|(_, secret)| !consumers.contains(secret)) {
            assert!(
                !contains(&network, &notary, &secret),
                "the notary received {what} of {}",
                transaction.id()
            );
        }
    }
    for who in [&alice, &bob] {
        assert!(!contains(&network, &notary, who.as_str().as_bytes()), "the notary read the name of {who}");
    }
    // Bob's key occurs where Bob asks himself, and in nothing that Alice asked.
    let key = encode(&network.identity(&bob).key);
    for message in network.received(&notary).iter().filter(|message| message.from == alice) {
        assert!(
            !message.bytes.windows(key.len()).any(|window| window == key),
            "the notary read the payee's key"
        );
    }
    // What it has to see it does see.
    let payment =
        transactions.iter().find(|transaction| !transaction.transaction().inputs().is_empty()).unwrap();
    assert!(contains(&network, &notary, &encode(&payment.transaction().inputs()[0])));
}

#[test]
fn an_oracle_sees_its_rate_and_who_signs() {
    let mut network = Network::new();
    let (alice, bob, oracle) = (network.party("Alice"), network.party("Bob"), network.party("Oracle"));
    network.notary("Notary", false);
    network.set_rate(&oracle, "EUR", "USD", 1_100_000_000);
    network.run(&alice, "CashIssue", json!({ "amount": "900.00 USD" })).unwrap();
    let pay = json!({ "amount": "5.00 EUR", "currency": "USD", "to": bob, "oracle": oracle });
    let paid = network.run(&alice, "CashPayAtRate", pay).unwrap();
    let id = serde_json::from_value(paid["transaction"].clone()).unwrap();
    let transaction = network.transaction(&alice, &id).unwrap();
    let content = transaction.transaction();
    for (what, secret) in secrets(&transaction) {
        let is_the_rate =
            what.starts_with("command") && secret.starts_with(&encode(&tally_contracts::oracle::NAME));
        let shown = is_the_rate || what.starts_with("signers");
        assert_eq!(contains(&network, &oracle, &secret), shown, "{what}");
    }
    assert!(!contains(&network, &oracle, &encode(&content.inputs()[0])));
    assert!(!contains(&network, &oracle, &encode(&network.identity(&bob).key)));
}

#[test]
fn a_payment_hands_over_its_own_history_only() {
    let mut network = Network::new();
    let (alice, bob, carol) = (network.party("Alice"), network.party("Bob"), network.party("Carol"));
    network.notary("Notary", false);
    network.run(&alice, "CashIssue", json!({ "amount": "7.00 EUR" })).unwrap();
    network.run(&alice, "CashPay", json!({ "amount": "7.00 EUR", "to": carol })).unwrap();
    let private = all_transactions(&network, &carol);
    network.run(&alice, "CashIssue", json!({ "amount": "9.00 USD" })).unwrap();
    for _ in 0..30 {
        network.run(&alice, "CashPay", json!({ "amount": "9.00 USD", "to": alice })).unwrap();
    }
    network.run(&alice, "CashPay", json!({ "amount": "9.00 USD", "to": bob })).unwrap();
    assert_eq!(private.len(), 2);
    for transaction in private {
        for (what, secret) in
            secrets(&transaction).into_iter().filter(|(what, _)| !what.starts_with("contract"))
        {
            // What Alice signs alone is signed by the same key elsewhere.
            if !what.starts_with("signers") && !what.starts_with("command") {
                assert!(!contains(&network, &bob, &secret), "Bob received {what} of {}", transaction.id());
            }
        }
    }
}
