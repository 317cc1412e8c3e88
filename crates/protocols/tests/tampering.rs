//! What a peer may try: forged signatures, another notary, altered history, replayed messages, questions that are none
//! of its business. Each is refused with its typed error, and nothing of it stays.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod evil;

use serde_json::json;
use tally_contracts::{Name, SignedTransaction, StateRef, TransactionSignature};
use tally_flows::{Body, Delivered, Fate, FlowError, Message};
use tally_protocols::notarise::Answer;
use tally_protocols::resolve::Offer;
use tally_protocols::testing::Network;

struct World {
    network: Network,
    alice: Name,
    bob: Name,
    mallory: Name,
    notary: Name,
}

fn world() -> World {
    let mut network = Network::new();
    let (alice, bob) = (network.party("Alice"), network.party("Bob"));
    let mallory = network.party_with("Mallory", evil::registry);
    let notary = network.notary("Notary", false);
    network.run(&alice, "CashIssue", json!({ "amount": "10.00 USD" })).unwrap();
    World { network, alice, bob, mallory, notary }
}

/// The failure that the other node told.
fn told(error: &FlowError) -> (&str, &str) {
    match error {
        FlowError::Counterparty { kind, reason, .. } => (kind, reason),
        other => panic!("{other:?} is not the other node's failure"),
    }
}

/// Why the one payment that Bob did not record did not arrive. It is final all the same.
#[track_caller]
fn lost(world: &World) -> String {
    let lacking = world.network.undelivered(&world.alice);
    let [(party, id, reason)] = lacking.as_slice() else { panic!("{lacking:?}") };
    assert_eq!(*party, world.bob);
    assert!(world.network.transaction(&world.alice, id).is_some());
    reason.clone()
}

fn pay(world: &mut World) -> Result<serde_json::Value, FlowError> {
    world.network.run(&world.alice, "CashPay", json!({ "amount": "10.00 USD", "to": world.bob }))
}

/// Changes the payload of each message from one node to another.
fn alter<T: borsh::BorshDeserialize + borsh::BorshSerialize>(
    world: &mut World,
    from: &Name,
    to: &Name,
    change: impl Fn(T) -> T + 'static,
) {
    let (from, to) = (from.clone(), to.clone());
    world.network.set_tamper(Some(Box::new(move |sender, receiver, bytes| {
        if *sender != from || *receiver != to {
            return;
        }
        let mut message = Message::decode(bytes).unwrap();
        let payload = match &mut message.body {
            Body::Open { payload: Some(payload), .. } | Body::Data(payload) => payload,
            _ => return,
        };
        if let Ok(value) = borsh::from_slice::<T>(payload) {
            *payload = borsh::to_vec(&change(value)).unwrap();
        }
        *bytes = message.encode();
    })));
}

/// The signature with one bit of it changed.
fn forged(signature: TransactionSignature) -> TransactionSignature {
    let mut bytes = borsh::to_vec(&signature).unwrap();
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    borsh::from_slice(&bytes).unwrap()
}

#[test]
fn a_forged_signature_of_the_notary() {
    let mut world = world();
    let (notary, alice) = (world.notary.clone(), world.alice.clone());
    alter(&mut world, &notary, &alice, |answer| match answer {
        Answer::Signed(signature) => Answer::Signed(forged(signature)),
        other => other,
    });
    let error = pay(&mut world).unwrap_err();
    assert!(
        matches!(&error, FlowError::Unknown { kind, reason, .. }
            if kind == "invalid" && reason.contains("notary's signature")),
        "{error}"
    );
    assert!(world.network.received(&world.bob).is_empty());
}

#[test]
fn a_signature_of_somebody_else_than_the_notary() {
    let mut world = world();
    let (notary, alice) = (world.notary.clone(), world.alice.clone());
    let other = world.network.identity(&world.mallory).key;
    alter(&mut world, &notary, &alice, move |answer| match answer {
        Answer::Signed(signature) => Answer::Signed(TransactionSignature { by: other, ..signature }),
        other => other,
    });
    let error = pay(&mut world).unwrap_err();
    let FlowError::Unknown { kind, reason, .. } = &error else { panic!("{error}") };
    assert!(kind == "unexpected" && reason.contains(world.notary.as_str()), "{error}");
}

#[test]
fn forged_signatures_of_a_payment() {
    for which in 0..2 {
        let mut world = world();
        let (alice, bob) = (world.alice.clone(), world.bob.clone());
        alter(&mut world, &alice, &bob, move |offer: Offer| {
            let mut signatures = offer.transaction.signatures().to_vec();
            signatures[which] = forged(signatures[which]);
            let transaction =
                SignedTransaction::new(offer.transaction.transaction().clone(), signatures).unwrap();
            Offer { transaction, ..offer }
        });
        pay(&mut world).unwrap();
        let reason = lost(&world);
        assert!(reason.contains("failed (invalid)") && reason.contains("does not verify"), "{reason}");
        assert_eq!(world.network.cash(&world.bob, "USD", &world.alice), 0);
        world.network.ledger(&world.bob, |ledger| assert!(ledger.transactions.is_empty()));
    }
}

#[test]
fn a_missing_signature_of_a_payment() {
    for which in 0..2 {
        let mut world = world();
        let (alice, bob) = (world.alice.clone(), world.bob.clone());
        alter(&mut world, &alice, &bob, move |offer: Offer| {
            let mut signatures = offer.transaction.signatures().to_vec();
            signatures.remove(which);
            let transaction =
                SignedTransaction::new(offer.transaction.transaction().clone(), signatures).unwrap();
            Offer { transaction, ..offer }
        });
        pay(&mut world).unwrap();
        let reason = lost(&world);
        assert!(reason.contains("failed (invalid)") && reason.contains("lacks "), "{reason}");
    }
}

#[test]
fn a_forged_signature_in_the_history() {
    let mut world = world();
    let (alice, bob) = (world.alice.clone(), world.bob.clone());
    alter(&mut world, &alice, &bob, |mut offer: Offer| {
        for found in &mut offer.history {
            let signatures: Vec<_> = found.signatures().iter().copied().map(forged).collect();
            *found = SignedTransaction::new(found.transaction().clone(), signatures).unwrap();
        }
        offer
    });
    pay(&mut world).unwrap();
    let reason = lost(&world);
    assert!(reason.contains("failed (invalid)") && reason.contains("does not verify"), "{reason}");
    world.network.ledger(&world.bob, |ledger| assert!(ledger.transactions.is_empty()));
}

#[test]
fn history_that_does_not_come_along_is_asked_for() {
    let mut world = world();
    let (alice, bob) = (world.alice.clone(), world.bob.clone());
    alter(&mut world, &alice, &bob, |offer: Offer| Offer { history: Vec::new(), ..offer });
    pay(&mut world).unwrap();
    assert_eq!(world.network.cash(&world.bob, "USD", &world.alice), 1000);
    assert_eq!(world.network.received(&world.bob).len(), 2);
}

#[test]
fn what_must_not_be_recorded_is_refused() {
    for (how, kind, says) in [
        ("forged history", "invalid", "lacks the signature"),
        ("conjured history", "invalid", "cash-conserved"),
        ("not notarised", "invalid", "lacks its notary's signature"),
        ("counterfeit", "invalid", "never certified"),
        ("counterfeit of itself", "invalid", "never certified"),
        ("counterfeit in the history", "invalid", "never certified"),
        ("other consumers", "invalid", "names other consumers"),
        ("a downgraded contract", "invalid", "version 0"),
        ("another network", "invalid", "is of network"),
        ("own notary", "invalid", "none of this network"),
        ("none of its business", "refused", "does not concern"),
        ("a bad signature", "invalid", "does not verify"),
    ] {
        let World { mut network, bob, mallory, .. } = world();
        let error = network.run(&mallory, "HandOver", json!({ "victim": bob, "how": how })).unwrap_err();
        let (code, reason) = told(&error);
        assert!(code == kind && reason.contains(says), "{how}: {error}");
        assert!(network.vault(&bob).is_empty(), "{how}");
        network.ledger(&bob, |ledger| assert!(ledger.transactions.is_empty(), "{how}"));
    }
}

#[test]
fn a_notary_signs_only_what_it_was_shown_and_asked_for_properly() {
    for (how, kind, says) in [
        ("hides the inputs", "invalid", "Inputs"),
        ("hides the references", "invalid", "References"),
        ("hides the time window", "invalid", "TimeWindow"),
        ("hides the notary", "invalid", "Notary"),
        ("shows the outputs", "refused", "Outputs"),
        ("signature over another transaction", "invalid", "does not verify"),
        ("another's name", "refused", "neither consumes an input nor asks"),
        ("signature in another role", "invalid", "given as oracle"),
        ("hides the consumers", "invalid", "not shown whose signatures consume"),
        ("the consumers of another transaction", "invalid", "not shown whose signatures consume"),
        ("the consumers of more", "refused", "of which no output is consumed"),
        ("the consumers twice", "refused", "are shown twice"),
        ("shows what is consumed", "refused", "Outputs"),
        ("nothing to attest", "refused", "nothing that a notary attests"),
        ("another notary", "refused", "the notary of transaction"),
        ("whole", "other_form", "a tear-off"),
    ] {
        let World { mut network, mallory, notary, .. } = world();
        let error = network.run(&mallory, "AskNotary", json!({ "victim": notary, "how": how })).unwrap_err();
        let (code, reason) = told(&error);
        assert!(code == kind && reason.contains(says), "{how}: {error}");
        assert!(network.signed(&notary).is_empty(), "{how}");
        network.ledger(&notary, |ledger| assert!(ledger.consumed.is_empty(), "{how}"));
    }
}

#[test]
fn nobody_burns_a_coin_that_it_paid_to_another() {
    let World { mut network, bob, mallory, notary, .. } = world();
    network.run(&mallory, "CashIssue", json!({ "amount": "10.00 USD" })).unwrap();
    let paid = network.run(&mallory, "CashPay", json!({ "amount": "10.00 USD", "to": bob })).unwrap();
    let id: tally_contracts::TransactionId = serde_json::from_value(paid["transaction"].clone()).unwrap();
    let coin = StateRef { transaction: id, index: 0 };
    let error = network.run(&mallory, "Burn", json!({ "victim": bob, "state": coin })).unwrap_err();
    let (code, reason) = told(&error);
    assert!(code == "invalid" && reason.contains("does not verify"), "{error}");
    network.ledger(&notary, |ledger| assert!(!ledger.consumed.contains_key(&coin)));
    // Bob spends it.
    let pay = json!({ "amount": "10.00 USD", "to": mallory, "issuer": mallory });
    network.run(&bob, "CashPay", pay).unwrap();
}

#[test]
fn a_notary_out_of_its_time_or_place() {
    let World { mut network, mallory, notary, bob, .. } = world();
    let late =
        network.run(&mallory, "AskNotary", json!({ "victim": notary, "how": "too late" })).unwrap_err();
    assert!(matches!(late, FlowError::OutsideTimeWindow { .. }), "{late}");
    let not_one = network.run(&mallory, "AskNotary", json!({ "victim": bob, "how": "part" })).unwrap_err();
    assert!(told(&not_one).1.contains("is not a notary"), "{not_one}");
    let validating = network.notary("Careful", true);
    let part =
        network.run(&mallory, "AskNotary", json!({ "victim": validating, "how": "part" })).unwrap_err();
    assert!(told(&part).1.contains("the whole transaction"), "{part}");
    // The same question, put properly, is answered.
    network.run(&mallory, "AskNotary", json!({ "victim": notary, "how": "part" })).unwrap();
}

#[test]
fn a_validating_notary_does_not_sign_what_breaks_a_contract() {
    let mut network = Network::new();
    let bob = network.party("Bob");
    let mallory = network.party_with("Mallory", evil::registry);
    let notary = network.notary("Careful", true);
    for how in ["forged history", "conjured history"] {
        let error = network.run(&mallory, "HandOver", json!({ "victim": bob, "how": how })).unwrap_err();
        assert_eq!(told(&error).0, "invalid", "{how}: {error}");
        assert!(matches!(&error, FlowError::Counterparty { party, .. } if *party == notary));
    }
    assert!(network.signed(&notary).is_empty());
    network.ledger(&notary, |ledger| assert!(ledger.consumed.is_empty()));
}

#[test]
fn a_lender_signs_nothing_but_an_iou_to_itself() {
    for (how, kind) in
        [("issue cash", "refused"), ("the other way round", "refused"), ("unsigned", "invalid")]
    {
        let World { mut network, bob, mallory, .. } = world();
        let error = network.run(&mallory, "MoreThanAnIou", json!({ "victim": bob, "how": how })).unwrap_err();
        assert_eq!(told(&error).0, kind, "{how}: {error}");
        assert!(network.signed(&bob).is_empty(), "{how}");
    }
    let World { mut network, bob, mallory, .. } = world();
    network.run(&mallory, "MoreThanAnIou", json!({ "victim": bob, "how": "nothing" })).unwrap();
    assert_eq!(network.signed(&bob).len(), 1);
}

#[test]
fn a_receiver_of_bonds_does_not_sign_away_its_cash() {
    let mut world = world();
    let World { network, alice, bob, mallory, .. } = &mut world;
    // Mallory knows the coin: it was his.
    network.run(alice, "CashPay", json!({ "amount": "10.00 USD", "to": mallory })).unwrap();
    network.run(mallory, "CashPay", json!({ "amount": "10.00 USD", "to": bob })).unwrap();
    let coin = network.vault(bob)[0].0.reference;
    let signed = network.signed(bob).len();
    let error = network.run(mallory, "TakeAsTransfer", json!({ "victim": bob, "state": coin })).unwrap_err();
    assert_eq!(told(&error).0, "refused", "{error}");
    assert_eq!(network.signed(bob).len(), signed);
}

#[test]
fn a_receiver_of_bonds_neither_issues_cash_nor_gives_bonds_back() {
    let World { mut network, bob, mallory, .. } = world();
    let error = network.run(&mallory, "IssueAsTransfer", json!({ "victim": bob })).unwrap_err();
    assert_eq!(told(&error).0, "refused", "{error}");
    let bond = json!({ "isin": "XS0000000009", "nominal": "5.00 USD", "maturity": 0 });
    network.run(&mallory, "BondIssue", bond).unwrap();
    let give = json!({ "isin": "XS0000000009", "nominal": "5.00 USD", "to": bob });
    network.run(&mallory, "BondTransfer", give).unwrap();
    let holding = network.vault(&bob)[0].0.reference;
    let signed = network.signed(&bob).len();
    let error = network.run(&mallory, "TakeBond", json!({ "victim": bob, "state": holding })).unwrap_err();
    assert_eq!(told(&error).0, "refused", "{error}");
    assert_eq!(network.signed(&bob).len(), signed);
}

#[test]
fn a_buyer_does_not_pay_for_what_is_not_there() {
    for (how, kind) in
        [("own notary", "invalid"), ("not its own", "invalid"), ("more than there is", "invalid")]
    {
        let World { mut network, bob, mallory, .. } = world();
        network.run(&mallory, "CashIssue", json!({ "amount": "50.00 USD" })).unwrap();
        network.run(&mallory, "CashPay", json!({ "amount": "50.00 USD", "to": bob })).unwrap();
        network.agree_to_par(&bob, &mallory, "USD".parse().unwrap());
        let error = network.run(&mallory, "SellFake", json!({ "victim": bob, "how": how })).unwrap_err();
        assert_eq!(told(&error).0, kind, "{how}: {error}");
        assert!(network.signed(&bob).is_empty());
    }
    let World { mut network, bob, mallory, .. } = world();
    network.run(&mallory, "CashIssue", json!({ "amount": "50.00 USD" })).unwrap();
    network.run(&mallory, "CashPay", json!({ "amount": "50.00 USD", "to": bob })).unwrap();
    network.agree_to_par(&bob, &mallory, "USD".parse().unwrap());
    network.run(&mallory, "SellFake", json!({ "victim": bob, "how": "honestly" })).unwrap();
    assert_eq!(network.signed(&bob).len(), 1, "what is there he would buy");
}

#[test]
fn a_seller_signs_nothing_but_what_it_asked_for() {
    for (how, says, rotated) in [
        ("nothing", "pays less"),
        ("less", "pays less"),
        ("other cash", "pays less"),
        ("encumbered", "pays less"),
        ("more bonds", "leaves too little"),
        ("an IOU", "sign more"),
        ("honestly", "it is signed"),
    ]
    .into_iter()
    .flat_map(|(how, says)| [(how, says, false), (how, says, true)])
    {
        how.clone_into(&mut evil::CHEATS.lock().unwrap());
        let mut network = Network::new();
        let alice = network.party("Alice");
        let mallory = network.party_with("Mallory", evil::buyer);
        network.notary("Notary", false);
        network.run(&alice, "CashIssue", json!({ "amount": "10.00 USD" })).unwrap();
        network.run(&alice, "CashPay", json!({ "amount": "10.00 USD", "to": mallory })).unwrap();
        let bond =
            json!({ "isin": "XS0000000009", "nominal": "9.00 USD", "maturity": 4_000_000_000_000_u64 });
        network.run(&alice, "BondIssue", bond).unwrap();
        if rotated {
            network.rotate(&alice);
        }
        let signed = network.signed(&alice).len();
        let sale =
            json!({ "isin": "XS0000000009", "nominal": "6.00 USD", "price": "5.00 USD", "buyer": mallory });
        let told = match network.run(&alice, "DeliveryVersusPayment", sale) {
            Err(error) => error.to_string(),
            // It is signed and final; Mallory says that it has nothing.
            Ok(_) => network.undelivered(&alice)[0].2.clone(),
        };
        assert!(told.contains(says), "{how}: {told}");
        assert_eq!(
            network.signed(&alice).len() - signed,
            usize::from(how == "honestly") * (1 + usize::from(rotated)),
            "{how}"
        );
    }
}

#[test]
fn a_forged_signature_of_a_counterparty() {
    let mut world = world();
    let (alice, bob) = (world.alice.clone(), world.bob.clone());
    alter(
        &mut world,
        &bob,
        &alice,
        |reply: tally_protocols::resolve::Reply<TransactionSignature>| match reply {
            tally_protocols::resolve::Reply::Answer(signature) => {
                tally_protocols::resolve::Reply::Answer(forged(signature))
            }
            other => other,
        },
    );
    let error = world.network.run(&alice, "IouCreate", json!({ "value": 1, "lender": bob })).unwrap_err();
    assert!(matches!(error, FlowError::Invalid { .. }), "{error}");
    assert!(world.network.vault(&alice).iter().all(|(_, summary)| summary.kind != "iou"));
    // Bob, who signed, hears that nothing came of it.
    world.network.ledger(&bob, |ledger| assert!(ledger.flows.is_empty() && ledger.states.is_empty()));
}

#[test]
fn nobody_gets_what_is_not_in_the_history_of_what_he_was_offered() {
    let mut network = Network::new();
    let alice = network.party("Alice");
    let bob = network.party_with("Bob", evil::curious);
    network.notary("Notary", false);
    let secret = network.run(&alice, "CashIssue", json!({ "amount": "777.00 EUR" })).unwrap();
    let secret: tally_contracts::TransactionId =
        serde_json::from_value(secret["transaction"].clone()).unwrap();
    *evil::WANTED.lock().unwrap() = secret;
    network.run(&alice, "CashIssue", json!({ "amount": "10.00 USD" })).unwrap();
    network.run(&alice, "CashPay", json!({ "amount": "10.00 USD", "to": bob })).unwrap();
    let reason = &network.undelivered(&alice)[0].2;
    assert!(reason.contains("not part of what it was offered"), "{reason}");
    let hidden = network.transaction(&alice, &secret).unwrap().transaction().encode().to_vec();
    let salt = &hidden[1..33];
    let received = network.received(&bob);
    assert!(received.iter().all(|message| !message.bytes.windows(32).any(|window| window == salt)));
}

#[test]
fn replayed_messages_do_nothing() {
    let mut world = world();
    let mut world = {
        pay(&mut world).unwrap();
        world
    };
    let World { network, alice, bob, mallory, notary } = &mut world;
    let carol = network.party("Carol");
    let flows = |network: &Network, who: &Name| network.ledger(who, |ledger| ledger.outcomes.len());
    for who in [alice.clone(), bob.clone(), notary.clone()] {
        let before = flows(network, &who);
        for message in network.received(&who) {
            // By the same peer: it was here before.
            let again = network.inject(&message.from, &who, message.bytes.clone()).unwrap();
            assert_eq!(again, Delivered::Late);
        }
        network.settle();
        assert_eq!(flows(network, &who), before, "nothing was started at {who}");
    }
    // To the notary by another peer: it is not he who signed the request.
    let signed = network.signed(notary).len();
    for message in network.received(notary).iter().filter(|message| message.from == *alice) {
        network.inject(mallory, notary, message.bytes.clone()).unwrap();
    }
    network.settle();
    assert_eq!(network.signed(notary).len(), signed);
    // To another node: it is none of its business.
    for message in network.received(bob) {
        network.inject(alice, &carol, message.bytes.clone()).unwrap();
    }
    network.settle();
    network.ledger(&carol, |ledger| {
        assert!(ledger.transactions.is_empty() && ledger.flows.is_empty());
        assert!(ledger.outcomes.values().all(Result::is_err));
    });
    // To the payee by another peer: he has it already, once.
    for message in network.received(bob) {
        network.inject(mallory, bob, message.bytes.clone()).unwrap();
    }
    network.settle();
    assert_eq!(network.cash(bob, "USD", alice), 1000);
}

#[test]
fn any_changed_byte_is_harmless() {
    let mut rng = tally_sim::Rng::new(5);
    let (mut unknown, mut waiting) = (0, 0);
    let mut outcomes = std::collections::BTreeMap::new();
    for _ in 0..400 {
        let mut world = world();
        let (message, place, bit) = (rng.below(4), rng.next_u64(), rng.below(8));
        let mut count = 0;
        world.network.set_tamper(Some(Box::new(move |_, _, bytes| {
            if count == message {
                let place = usize::try_from(place % bytes.len() as u64).unwrap();
                bytes[place] ^= 1 << bit;
            }
            count += 1;
        })));
        let flow = world
            .network
            .start(&world.alice, "CashPay", json!({ "amount": "10.00 USD", "to": world.bob }))
            .unwrap();
        world.network.settle();
        let bob = world.network.cash(&world.bob, "USD", &world.alice);
        let alice = world.network.cash(&world.alice, "USD", &world.alice);
        assert!(bob == 0 || bob == 1000 && alice == 0, "Alice has {alice}, Bob {bob}");
        *outcomes.entry(world.network.undelivered(&world.alice).len()).or_insert(0) += 1;
        // What a flow said is true, and what is final arrives once nobody changes anything.
        world.network.set_tamper(None);
        for _ in 0..2 {
            world.network.deliver_again(&world.alice);
            world.network.settle();
        }
        let bob = world.network.cash(&world.bob, "USD", &world.alice);
        let alice = world.network.cash(&world.alice, "USD", &world.alice);
        match world.network.result(&world.alice, flow).map(|result| result.map_err(|error| error.fate())) {
            // A message that became none may leave the flow waiting: on a real line nobody can change it.
            None => waiting += 1,
            Some(Ok(_) | Err(Fate::Final(_))) => assert_eq!((alice, bob), (0, 1000)),
            Some(Err(Fate::Refused)) => assert_eq!((alice, bob), (1000, 0)),
            Some(Err(Fate::Unknown(_))) => {
                unknown += 1;
                assert_eq!((alice, bob), (0, 1000));
            }
        }
    }
    let lacking = outcomes.get(&1).copied().unwrap_or(0);
    assert!(
        unknown > 30 && lacking > 30 && waiting < 200,
        "{unknown} unknown, {outcomes:?}, {waiting} waiting"
    );
}
