//! Nodes that lost their database or got an old one back: what peers and notaries give back, and what a liar cannot.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tally_contracts::{Name, TransactionId};
use tally_flows::{Body, FlowError, Message, Shared};
use tally_protocols::recover::PAGES_OF_A_SESSION;
use tally_protocols::testing::{Event, Ledger, Network};

fn pay(
    network: &mut Network,
    from: &Name,
    to: &Name,
    amount: &str,
    issuer: &Name,
) -> Result<Value, FlowError> {
    network.run(from, "CashPay", json!({ "amount": amount, "to": to, "issuer": issuer }))
}

fn recover(network: &mut Network, who: &Name) -> Value {
    network.run(who, "Recover", json!({ "wait_ms": 5000 })).unwrap()
}

/// What the vault of a node holds, and what it has recorded.
fn books(network: &Network, who: &Name) -> (Vec<String>, Vec<String>) {
    network.ledger(who, |ledger| {
        (
            ledger.states.keys().map(ToString::to_string).collect(),
            ledger.transactions.keys().map(ToString::to_string).collect(),
        )
    })
}

fn world(validating: bool) -> (Network, [Name; 3]) {
    let mut network = Network::new();
    let parties = ["Alice", "Bob", "Carol"].map(|organisation| network.party(organisation));
    network.notary("Notary", validating);
    let alice = &parties[0];
    network.run(alice, "CashIssue", json!({ "amount": "100.00 USD", "outputs": 4 })).unwrap();
    (network, parties)
}

#[test]
fn a_database_that_was_deleted_comes_back_from_peers() {
    for validating in [false, true] {
        let (mut network, [alice, bob, carol]) = world(validating);
        for _ in 0..12 {
            pay(&mut network, &alice, &bob, "3.00 USD", &alice).unwrap();
            pay(&mut network, &bob, &carol, "1.00 USD", &alice).unwrap();
        }
        network.run(&alice, "IouCreate", json!({ "value": 9, "lender": bob })).unwrap();
        let before = books(&network, &bob);
        network.replace_memory(&bob, Ledger::default());
        assert_eq!(network.cash(&bob, "USD", &alice), 0);
        let report = recover(&mut network, &bob);
        assert_eq!(report["incomplete"], json!([]), "{report}");
        assert_eq!(report["consumed"], json!([]), "{report}");
        assert_eq!(books(&network, &bob), before);
        assert_eq!(network.ledger(&bob, |ledger| ledger.recovered), 1);
        pay(&mut network, &bob, &carol, "24.00 USD", &alice).unwrap();
        // Again: nothing is lacking.
        let report = recover(&mut network, &bob);
        let peers = report["peers"].as_array().unwrap();
        assert!(peers.iter().all(|peer| peer["transactions"] == 0), "{report}");
    }
}

#[test]
fn a_database_that_was_restored_catches_up_and_spends_nothing_twice() {
    let (mut network, [alice, bob, carol]) = world(false);
    pay(&mut network, &alice, &bob, "40.00 USD", &alice).unwrap();
    let backup = network.backup(&alice);
    for _ in 0..10 {
        pay(&mut network, &alice, &bob, "2.00 USD", &alice).unwrap();
        pay(&mut network, &bob, &alice, "1.00 USD", &alice).unwrap();
    }
    let before = books(&network, &alice);
    network.replace_memory(&alice, backup);
    assert_ne!(books(&network, &alice), before);
    let report = recover(&mut network, &alice);
    assert_eq!(report["incomplete"], json!([]), "{report}");
    assert_eq!(books(&network, &alice), before);
    let all = network.cash(&alice, "USD", &alice);
    pay(&mut network, &alice, &carol, &format!("{}.{:02} USD", all / 100, all % 100), &alice).unwrap();
}

#[test]
fn what_nobody_gives_back_is_known_to_be_consumed_by_the_notary_and_never_spent() {
    let (mut network, [alice, bob, _]) = world(false);
    let backup = network.backup(&alice);
    // A payment to itself: the notary, which saw a tear-off, knows its id alone.
    pay(&mut network, &alice, &alice, "100.00 USD", &alice).unwrap();
    network.replace_memory(&alice, backup);
    assert_eq!(network.cash(&alice, "USD", &alice), 10_000);
    let report = recover(&mut network, &alice);
    assert_eq!(report["consumed"].as_array().unwrap().len(), 4, "{report}");
    assert_eq!(network.cash(&alice, "USD", &alice), 0);
    let refused = pay(&mut network, &alice, &bob, "1.00 USD", &alice);
    assert!(matches!(refused, Err(FlowError::Insufficient { .. })), "{refused:?}");
}

#[test]
fn a_peer_that_is_away_is_named_and_another_recovery_completes() {
    let (mut network, [alice, bob, carol]) = world(false);
    pay(&mut network, &alice, &bob, "10.00 USD", &alice).unwrap();
    pay(&mut network, &bob, &carol, "5.00 USD", &alice).unwrap();
    // Of this one Alice alone can tell.
    pay(&mut network, &alice, &bob, "10.00 USD", &alice).unwrap();
    let before = books(&network, &bob);
    network.replace_memory(&bob, Ledger::default());
    network.set_cut(&bob, &alice, true);
    let report = recover(&mut network, &bob);
    assert_eq!(report["incomplete"][0]["party"], json!(alice), "{report}");
    assert_ne!(books(&network, &bob), before);
    network.set_cut(&bob, &alice, false);
    network.settle();
    let report = recover(&mut network, &bob);
    assert_eq!(report["incomplete"], json!([]), "{report}");
    assert_eq!(books(&network, &bob), before);
}

/// A peer is asked by Carol, who had a part in one transaction: it names no other.
#[test]
fn a_peer_names_only_transactions_in_which_the_asking_node_takes_part() {
    let (mut network, [alice, bob, carol]) = world(false);
    for _ in 0..5 {
        pay(&mut network, &alice, &bob, "1.00 USD", &alice).unwrap();
    }
    network.run(&alice, "IouCreate", json!({ "value": 9, "lender": carol })).unwrap();
    network.replace_memory(&carol, Ledger::default());
    let before = network.received(&carol).len();
    recover(&mut network, &carol);
    let recorded = network.ledger(&carol, |ledger| ledger.transactions.len());
    assert_eq!(recorded, 1, "the loan");
    let foreign = network.ledger(&bob, |ledger| ledger.transactions.keys().copied().collect::<Vec<_>>());
    for received in &network.received(&carol)[before..] {
        for id in &foreign {
            let seen = received.bytes.windows(32).any(|window| window == id.as_bytes());
            assert!(!seen, "{id} is none of Carol's business");
        }
    }
}

/// A peer that changes anything in what it gives is found out, and keeps nobody from what others give.
#[test]
fn a_peer_that_forges_is_named_and_the_others_complete_the_recovery() {
    let (mut network, [alice, bob, carol]) = world(false);
    pay(&mut network, &alice, &bob, "10.00 USD", &alice).unwrap();
    pay(&mut network, &bob, &carol, "10.00 USD", &alice).unwrap();
    let before = books(&network, &bob);
    network.replace_memory(&bob, Ledger::default());
    let (liar, victim) = (alice.clone(), bob.clone());
    network.set_tamper(Some(Box::new(move |from, to, bytes| {
        let Ok(mut message) = Message::decode(bytes) else { return };
        // Batches of transactions are the largest messages of a recovery.
        if (from, to) == (&liar, &victim)
            && let Body::Data(payload) = &mut message.body
            && payload.len() > 300
        {
            let place = payload.len() - 20;
            payload[place] ^= 1;
            *bytes = message.encode();
        }
    })));
    let report = recover(&mut network, &bob);
    assert_eq!(report["incomplete"][0]["party"], json!(alice), "{report}");
    // Carol has the second payment and, as its history, the first.
    assert_eq!(books(&network, &bob).1, before.1);
}

/// A peer that answers just in time, and never says that its ledger ends, holds a recovery up for a while only.
#[test]
fn a_peer_that_never_ends_is_given_up_and_the_others_complete_the_recovery() {
    let (mut network, [alice, bob, carol]) = world(false);
    pay(&mut network, &alice, &bob, "10.00 USD", &alice).unwrap();
    pay(&mut network, &bob, &carol, "10.00 USD", &alice).unwrap();
    network.replace_memory(&bob, Ledger::default());
    let pages = Arc::new(AtomicU64::new(0));
    let (liar, victim, counter) = (alice.clone(), bob.clone(), pages.clone());
    network.set_tamper(Some(Box::new(move |from, to, bytes| {
        let Ok(mut message) = Message::decode(bytes) else { return };
        if (from, to) == (&liar, &victim)
            && let Body::Data(payload) = &mut message.body
            && borsh::from_slice::<Shared>(payload).is_ok()
        {
            let page = counter.fetch_add(1, Ordering::Relaxed);
            let endless = Shared { transactions: Vec::new(), next: Some(page + 1) };
            *payload = borsh::to_vec(&endless).unwrap();
            *bytes = message.encode();
        }
    })));
    let recovery = network.start(&bob, "Recover", json!({ "wait_ms": 5000 })).unwrap();
    let mut seen = 0;
    while network.result(&bob, recovery).is_none() {
        let event = network.events().first().cloned().expect("something happens until it ends");
        network.happen(&event);
        let now = pages.load(Ordering::Relaxed);
        if now > seen {
            network.advance(4_000);
            seen = now;
        }
        assert!(seen < 100, "the peer is asked for ever");
    }
    let report = network.result(&bob, recovery).unwrap().unwrap();
    assert_eq!(report["incomplete"][0]["party"], json!(alice), "{report}");
    assert!(report["incomplete"].as_array().unwrap().len() == 1, "{report}");
    assert_eq!(report["peers"][0]["party"], json!(carol), "{report}");
}

/// What a flow remembers of one session does not grow with a peer's ledger.
#[test]
fn a_long_recovery_takes_several_sessions() {
    let (mut network, [alice, bob, _]) = world(false);
    // Five transactions are on a page.
    for _ in 0..5 * PAGES_OF_A_SESSION + 20 {
        pay(&mut network, &alice, &bob, "0.01 USD", &alice).unwrap();
    }
    let before = books(&network, &bob);
    let ended = network.outcomes(&alice).len();
    network.replace_memory(&bob, Ledger::default());
    let report = recover(&mut network, &bob);
    assert_eq!(report["incomplete"], json!([]), "{report}");
    assert_eq!(books(&network, &bob), before);
    assert_eq!(network.outcomes(&alice).len(), ended + 2);
}

/// Members of a cluster say what is consumed; one of them lies both ways, one is away, and then two.
#[test]
fn what_a_cluster_has_consumed_is_what_more_than_one_third_of_its_members_say() {
    let mut network = Network::new();
    let alice = network.party("Alice");
    let bob = network.party("Bob");
    let members = network.cluster("Cluster", &["Member 1", "Member 2", "Member 3", "Member 4"]);
    network.run(&alice, "CashIssue", json!({ "amount": "100.00 USD", "outputs": 4 })).unwrap();
    pay(&mut network, &alice, &bob, "25.00 USD", &alice).unwrap();
    let backup = network.backup(&alice);
    let paid = pay(&mut network, &alice, &alice, "50.00 USD", &alice).unwrap();
    network.replace_memory(&alice, backup.clone());
    // The first says that what is consumed is not, and that what is not is consumed.
    let (liar, victim) = (members[0].clone(), alice.clone());
    network.set_tamper(Some(Box::new(move |from, to, bytes| {
        let Ok(mut message) = Message::decode(bytes) else { return };
        if (from, to) == (&liar, &victim)
            && let Body::Data(payload) = &mut message.body
            && let Ok(said) = borsh::from_slice::<Vec<Option<TransactionId>>>(payload)
        {
            let turned = |by: Option<TransactionId>| match by {
                Some(_) => None,
                None => Some(TransactionId::from_bytes([7; 32])),
            };
            *payload = borsh::to_vec(&said.into_iter().map(turned).collect::<Vec<_>>()).unwrap();
            *bytes = message.encode();
        }
    })));
    let report = recover(&mut network, &alice);
    assert_eq!(report["unknown_states"], 0, "{report}");
    let consumed = report["consumed"].as_array().unwrap();
    assert!(
        consumed.len() == 2 && consumed.iter().all(|state| state["by"] == paid["transaction"]),
        "{report}"
    );
    assert_eq!(network.cash(&alice, "USD", &alice), 2_500);
    // With one of the others away, three answer, of whom two are right. They say the same of what is consumed. Of what is
    // not, the liar may be right and they may not have caught up.
    network.replace_memory(&alice, backup.clone());
    network.set_cut(&alice, &members[3], true);
    let report = recover(&mut network, &alice);
    assert_eq!(
        (&report["unknown_states"], network.cash(&alice, "USD", &alice)),
        (&json!(1), 2_500),
        "{report}"
    );
    // The liar and one that has not caught up have seen nothing: what the third has seen is not forgotten.
    network.replace_memory(&alice, backup.clone());
    let (blind, victim) = (members[..2].to_vec(), alice.clone());
    network.set_tamper(Some(Box::new(move |from, to, bytes| {
        let Ok(mut message) = Message::decode(bytes) else { return };
        if blind.contains(from)
            && *to == victim
            && let Body::Data(payload) = &mut message.body
            && let Ok(said) = borsh::from_slice::<Vec<Option<TransactionId>>>(payload)
        {
            *payload = borsh::to_vec(&vec![None::<TransactionId>; said.len()]).unwrap();
            *bytes = message.encode();
        }
    })));
    let report = recover(&mut network, &alice);
    assert_eq!((&report["unknown_states"], &report["consumed"]), (&json!(2), &json!([])), "{report}");
    assert!(report["incomplete"].to_string().contains("do not agree"), "{report}");
    network.set_tamper(None);
    // Two members are too few.
    network.replace_memory(&alice, backup);
    network.set_cut(&alice, &members[2], true);
    let report = recover(&mut network, &alice);
    assert_eq!(
        (&report["unknown_states"], network.cash(&alice, "USD", &alice)),
        (&json!(3), 7_500),
        "{report}"
    );
    let incomplete = report["incomplete"].to_string();
    assert!(incomplete.contains("2 of 4 members answered, 3 have to"), "{report}");
}

/// Sessions with a node that lost its memory end: nobody waits for ever.
#[test]
fn flows_that_wait_for_a_node_which_lost_its_database_fail_with_the_reason() {
    let (mut network, [alice, bob, _]) = world(false);
    let asleep = network.start(&alice, "Ping", json!({ "to": bob, "after_ms": 60_000 })).unwrap();
    // Until nothing is left but to wait.
    while let Some(event) = network.events().first().cloned().filter(|event| !matches!(event, Event::Wait(_)))
    {
        network.happen(&event);
    }
    assert!(network.result(&alice, asleep).is_none(), "Bob sleeps");
    network.replace_memory(&bob, Ledger::default());
    network.settle();
    let failure = network.result(&alice, asleep).expect("it ended").unwrap_err();
    assert!(matches!(failure, FlowError::Forgotten { .. }), "{failure:?}");
    // What it answers is over as well, and both go on.
    network.run(&alice, "Ping", json!({ "to": bob })).unwrap();
    network.run(&bob, "Ping", json!({ "to": alice })).unwrap();
}
