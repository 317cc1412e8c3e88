//! The key of a node's legal identity is rotated. What it owns and owes under the former key it spends, settles and repays
//! as before; what it began under that key it ends under that key; and nobody takes by one key what is another's.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

#[allow(dead_code, reason = "not all that a peer may try is tried here")]
mod evil;

use serde_json::{Value, json};
use tally_contracts::cash::CashState;
use tally_contracts::{Name, Party, StateRef, TransactionId, cash};
use tally_flows::FlowError;
use tally_protocols::testing::{Ledger, Network};

const ISIN: &str = "XS0000000009";
const LATE: u64 = 4_000_000_000_000;

struct World {
    network: Network,
    alice: Name,
    bob: Name,
    carol: Name,
    notary: Name,
}

fn world(validating: bool) -> World {
    let mut network = Network::new();
    let [alice, bob, carol] = ["Alice", "Bob", "Carol"].map(|organisation| network.party(organisation));
    let notary = network.notary("Notary", validating);
    network.set_policy(&carol, |policy| policy.registers_of = vec![alice.clone(), bob.clone()]);
    World { network, alice, bob, carol, notary }
}

/// Minor units of US dollars of an issuer that a node owns under a key.
fn cash_of(network: &Network, owner: &Party, issuer: &Party) -> u64 {
    let asset = cash::asset("USD".parse().unwrap(), issuer);
    let vault = network.vault(&owner.name);
    let own = vault.iter().filter(|(_, summary)| {
        summary.owner == Some(owner.key) && summary.asset.as_deref() == Some(asset.as_str())
    });
    own.filter_map(|(_, summary)| summary.quantity).sum()
}

fn kinds(network: &Network, who: &Name, kind: &str) -> usize {
    network.vault(who).iter().filter(|(_, summary)| summary.kind == kind).count()
}

impl World {
    fn run(&mut self, who: &Name, flow: &str, arguments: Value) -> Value {
        self.network.run(who, flow, arguments).unwrap_or_else(|error| panic!("{flow} of {who}: {error}"))
    }

    /// Cash of Alice for Bob.
    fn pay_bob(&mut self, amount: &str) {
        let (alice, bob) = (self.alice.clone(), self.bob.clone());
        self.run(&alice, "CashIssue", json!({ "amount": amount }));
        self.run(&alice, "CashPay", json!({ "amount": amount, "to": bob }));
    }

    /// A bond of Alice, whose register Carol keeps, for Bob.
    fn give_bob_a_bond(&mut self, maturity: u64) {
        let (alice, bob, carol) = (self.alice.clone(), self.bob.clone(), self.carol.clone());
        let bond = json!({ "isin": ISIN, "nominal": "9.00 USD", "maturity": maturity, "agent": carol });
        self.run(&alice, "BondIssue", bond);
        self.run(&alice, "BondTransfer", json!({ "isin": ISIN, "nominal": "9.00 USD", "to": bob }));
    }
}

#[test]
fn cash_under_former_keys_is_spent_first_and_change_is_of_the_present_one() {
    for validating in [false, true] {
        let mut world = world(validating);
        let (alice, bob, carol) = (world.alice.clone(), world.bob.clone(), world.carol.clone());
        let issuer = world.network.identity(&alice);
        world.pay_bob("5.00 USD");
        let first = world.network.rotate(&bob);
        world.pay_bob("6.00 USD");
        let second = world.network.rotate(&bob);
        world.pay_bob("7.00 USD");
        let present = world.network.identity(&bob);
        let owned = |network: &Network| [&first, &second, &present].map(|me| cash_of(network, me, &issuer));
        assert_eq!(owned(&world.network), [500, 600, 700], "payments arrive under the key of their time");
        world.run(&bob, "CashPay", json!({ "amount": "8.00 USD", "to": carol }));
        assert_eq!(owned(&world.network), [0, 0, 1000]);
        world.run(&bob, "CashExit", json!({ "amount": "10.00 USD", "issuer": alice }));
        assert_eq!(owned(&world.network), [0, 0, 0]);
        assert_eq!(cash_of(&world.network, &world.network.identity(&carol), &issuer), 800);
    }
}

#[test]
fn cash_of_a_former_key_of_its_issuer_is_paid_and_redeemed() {
    for validating in [false, true] {
        let mut world = world(validating);
        let (alice, bob, carol) = (world.alice.clone(), world.bob.clone(), world.carol.clone());
        world.run(&alice, "CashIssue", json!({ "amount": "9.00 USD" }));
        world.run(&alice, "CashPay", json!({ "amount": "5.00 USD", "to": bob }));
        let former = world.network.rotate(&alice);
        let present = world.network.identity(&alice);
        let has = |network: &Network, who: &Name, issuer: &Party| {
            let coins = network.vault(who).into_iter().filter(|(_, summary)| summary.kind == "cash");
            let coins = coins.map(|(found, _)| found.state.read::<CashState>().unwrap());
            let own = coins.filter(|coin| coin.owner == network.identity(who).key && coin.issuer == *issuer);
            own.map(|coin| coin.amount.quantity()).sum::<u64>()
        };
        // Its own it spends without saying whose, and those who hold it by the issuer's name.
        world.run(&alice, "CashPay", json!({ "amount": "1.00 USD", "to": carol }));
        world.run(&bob, "CashPay", json!({ "amount": "2.00 USD", "to": carol, "issuer": alice }));
        world.run(&carol, "CashExit", json!({ "amount": "3.00 USD", "issuer": alice }));
        world.run(&bob, "CashExit", json!({ "amount": "1.00 USD" }));
        assert_eq!([&bob, &carol].map(|who| has(&world.network, who, &former)), [200, 0]);
        world.run(&alice, "CashIssue", json!({ "amount": "4.00 USD" }));
        assert_eq!(has(&world.network, &alice, &former), 300);
        assert_eq!(has(&world.network, &alice, &present), 400, "what it issues now is of its present key");
        // Both are one asset, whose coins one payment and one exit may be of.
        world.run(&alice, "CashPay", json!({ "amount": "6.50 USD", "to": bob, "outputs": 2 }));
        world.run(&bob, "CashExit", json!({ "amount": "8.00 USD" }));
        world.run(&alice, "CashExit", json!({ "amount": "0.50 USD" }));
        let left =
            [&alice, &bob].map(|who| [&former, &present].map(|issuer| has(&world.network, who, issuer)));
        assert_eq!(left.iter().flatten().sum::<u64>(), 50);
    }
}

/// One payment after the other, of coins of both keys of their issuer.
#[test]
fn coins_of_several_keys_of_their_issuer_are_paid_and_given_back() {
    let mut world = world(false);
    let (alice, bob, carol) = (world.alice.clone(), world.bob.clone(), world.carol.clone());
    for amounts in [["1.00 USD", "1.00 USD", "2.00 USD"], ["2.00 USD", "1.00 USD", "1.00 USD"]] {
        for (place, amount) in amounts.iter().enumerate() {
            if place == 1 {
                world.network.rotate(&alice);
            }
            world.pay_bob(amount);
        }
        for _ in 0..4 {
            world.run(&bob, "CashPay", json!({ "amount": "1.00 USD", "to": carol, "issuer": alice }));
        }
        world.run(&carol, "CashPay", json!({ "amount": "3.00 USD", "to": bob, "issuer": alice }));
        world.run(&bob, "CashExit", json!({ "amount": "3.00 USD" }));
        world.run(&carol, "CashExit", json!({ "amount": "1.00 USD" }));
    }
}

#[test]
fn an_iou_is_settled_whichever_side_has_a_new_key() {
    for rotated in [vec!["borrower"], vec!["lender"], vec!["borrower", "lender"]] {
        for validating in [false, true] {
            let mut world = world(validating);
            let (alice, bob) = (world.alice.clone(), world.bob.clone());
            let made = world.run(&bob, "IouCreate", json!({ "value": 9, "lender": alice }));
            for who in &rotated {
                world.network.rotate(if *who == "borrower" { &bob } else { &alice });
            }
            world.run(&alice, "IouSettle", json!({ "linear_id": made["linear_id"] }));
            assert_eq!([&alice, &bob].map(|who| kinds(&world.network, who, "iou")), [0, 0], "{rotated:?}");
        }
    }
}

#[test]
fn bonds_are_transferred_sold_and_redeemed_whoever_has_a_new_key() {
    for rotated in ["Alice", "Bob", "Carol", "all"] {
        for validating in [false, true] {
            let mut world = world(validating);
            let (alice, bob, carol) = (world.alice.clone(), world.bob.clone(), world.carol.clone());
            world.give_bob_a_bond(0);
            let parties = [&alice, &bob, &carol];
            let before = world.network.identity(&bob);
            for who in parties.into_iter().filter(|who| rotated == "all" || who.organisation() == rotated) {
                world.network.rotate(who);
            }
            // The agent receives some as well: it signs under both keys, if it has two.
            for to in [&carol, &alice] {
                world.run(&bob, "BondTransfer", json!({ "isin": ISIN, "nominal": "3.00 USD", "to": to }));
            }
            let rest = world.network.vault(&bob);
            let owner = rest[0].1.owner.unwrap();
            assert_eq!((rest.len(), owner), (1, world.network.identity(&bob).key), "{rotated}");
            assert_eq!(owner == before.key, rotated != "all" && rotated != "Bob");
            world.network.rotate(&carol);
            for holder in [&bob, &carol] {
                world.run(holder, "BondRedeem", json!({ "isin": ISIN, "currency": "USD" }));
            }
            let paid: [u64; 2] = [&bob, &carol].map(|who| {
                let vault = world.network.vault(who);
                vault
                    .iter()
                    .filter(|(_, found)| found.kind == "cash")
                    .filter_map(|(_, found)| found.quantity)
                    .sum()
            });
            assert_eq!(paid, [300, 300], "{rotated}");
            // In what its former key owes, which it takes back.
            world.run(&bob, "CashExit", json!({ "amount": "3.00 USD", "issuer": alice }));
        }
    }
}

#[test]
fn delivery_versus_payment_takes_bonds_and_cash_of_former_keys() {
    for validating in [false, true] {
        let mut world = world(validating);
        let (alice, bob, carol) = (world.alice.clone(), world.bob.clone(), world.carol.clone());
        world.network.agree_to_par(&carol, &alice, "USD".parse().unwrap());
        world.run(&alice, "CashIssue", json!({ "amount": "20.00 USD" }));
        world.run(&alice, "CashPay", json!({ "amount": "6.00 USD", "to": carol }));
        world.give_bob_a_bond(LATE);
        for who in [&bob, &carol] {
            world.network.rotate(who);
        }
        world.run(&alice, "CashPay", json!({ "amount": "6.00 USD", "to": carol }));
        let sale = json!({ "isin": ISIN, "nominal": "7.00 USD", "price": "7.00 USD", "buyer": carol });
        world.run(&bob, "DeliveryVersusPayment", sale);
        let issuer = world.network.identity(&alice);
        let now = |who: &Name| cash_of(&world.network, &world.network.identity(who), &issuer);
        assert_eq!([now(&bob), now(&carol)], [700, 500]);
        let held = |who: &Name| {
            let me = world.network.identity(who).key;
            let vault = world.network.vault(who);
            let own = vault.iter().filter(|(_, found)| found.kind == "bond" && found.owner == Some(me));
            own.filter_map(|(_, found)| found.quantity).sum::<u64>()
        };
        assert_eq!([held(&bob), held(&carol)], [200, 700]);
    }
}

/// Each flow, with its node's key rotated at each moment between its beginning and its end: what it did agrees with its
/// journal, and it ends well.
#[test]
fn what_began_before_goes_on() {
    type Prepare = fn(&mut World) -> (Name, &'static str, Value);
    let flows: [(&str, Prepare); 5] = [
        ("pay", |world| {
            world.pay_bob("5.00 USD");
            (world.bob.clone(), "CashPay", json!({ "amount": "3.00 USD", "to": world.carol }))
        }),
        ("exit", |world| {
            world.pay_bob("5.00 USD");
            (world.bob.clone(), "CashExit", json!({ "amount": "3.00 USD" }))
        }),
        ("lend", |world| (world.bob.clone(), "IouCreate", json!({ "value": 9, "lender": world.alice }))),
        ("transfer", |world| {
            world.give_bob_a_bond(LATE);
            let give = json!({ "isin": ISIN, "nominal": "3.00 USD", "to": world.alice });
            (world.bob.clone(), "BondTransfer", give)
        }),
        ("redeem", |world| {
            world.give_bob_a_bond(0);
            (world.bob.clone(), "BondRedeem", json!({ "isin": ISIN, "currency": "USD" }))
        }),
    ];
    for (what, prepare) in flows {
        for validating in [false, true] {
            for rotated in ["Alice", "Bob", "Carol"] {
                for moment in 0.. {
                    let mut world = world(validating);
                    let (who, flow, arguments) = prepare(&mut world);
                    let flow = world.network.start(&who, flow, arguments).unwrap();
                    let mut ended = false;
                    for _ in 0..moment {
                        match world.network.events().first().cloned() {
                            Some(event) => world.network.happen(&event),
                            None => ended = true,
                        }
                    }
                    let name = Name::new(rotated, "London", "GB").unwrap();
                    world.network.rotate(&name);
                    world.network.settle();
                    for late in [&who, &world.alice.clone(), &world.carol.clone()] {
                        world.network.deliver_again(late);
                        world.network.settle();
                    }
                    let result = world.network.result(&who, flow);
                    let place = format!("{what}, {rotated} at {moment}, {validating}: {result:?}");
                    match &result {
                        Some(Ok(_)) => {}
                        // A new claim is of the present key alone: it is refused, nothing is signed, and asked for again.
                        Some(Err(FlowError::Counterparty { kind, .. }))
                            if (what, rotated, kind.as_str()) == ("lend", "Alice", "refused") =>
                        {
                            assert_eq!(kinds(&world.network, &who, "iou"), 0, "{place}");
                            world.run(
                                &who,
                                "IouCreate",
                                json!({ "value": 9, "lender": "O=Alice, L=London, C=GB" }),
                            );
                        }
                        _ => panic!("{place} {:?}", world.network.views(&who)),
                    }
                    for peer in [&world.alice, &world.bob, &world.carol] {
                        assert_eq!(world.network.undelivered(peer), [], "{place}");
                    }
                    if ended {
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn what_both_know_under_any_key_comes_back() {
    let mut world = world(false);
    let (alice, bob, carol) = (world.alice.clone(), world.bob.clone(), world.carol.clone());
    world.pay_bob("5.00 USD");
    world.give_bob_a_bond(LATE);
    for who in [&bob, &alice] {
        world.network.rotate(who);
    }
    world.run(&bob, "CashPay", json!({ "amount": "2.00 USD", "to": alice, "issuer": alice }));
    world.pay_bob("4.00 USD");
    world.network.rotate(&bob);
    let states = |network: &Network, who: &Name| {
        let mut states: Vec<StateRef> = network.vault(who).iter().map(|(found, _)| found.reference).collect();
        states.sort_unstable();
        states
    };
    for who in [&alice, &bob, &carol] {
        let before = states(&world.network, who);
        assert!(!before.is_empty());
        world.network.replace_memory(who, Ledger::default());
        let report = world.run(who, "Recover", json!({ "wait_ms": 5000 }));
        assert_eq!(report["incomplete"], json!([]), "{who}: {report}");
        assert_eq!(states(&world.network, who), before, "{who}");
    }
    world.run(&bob, "CashPay", json!({ "amount": "4.00 USD", "to": carol, "issuer": alice }));
}

#[test]
fn a_notary_that_has_not_heard_of_the_new_key_or_has_is_no_obstacle() {
    let mut world = world(false);
    let (bob, carol, notary) = (world.bob.clone(), world.carol.clone(), world.notary.clone());
    world.pay_bob("5.00 USD");
    let pay = json!({ "amount": "1.00 USD", "to": carol });
    world.network.set_cut(&bob, &notary, true);
    world.network.start(&bob, "CashPay", pay.clone()).unwrap();
    world.network.settle();
    world.network.rotate(&bob);
    world.network.set_cut(&bob, &notary, false);
    world.network.settle();
    let issuer = world.network.identity(&world.alice);
    let paid = |world: &World| cash_of(&world.network, &world.network.identity(&carol), &issuer);
    assert_eq!(paid(&world), 100, "it answers for its question under the key that it asked with");
    // It asks under a key of which the notary does not know: refused, and nothing is lost.
    world.network.set_behind(&notary, true);
    world.network.rotate(&bob);
    let refusal = world.network.run(&bob, "CashPay", pay.clone()).unwrap_err();
    assert!(matches!(&refusal, FlowError::Counterparty { .. }), "{refusal}");
    world.network.set_behind(&notary, false);
    world.run(&bob, "CashPay", pay);
    assert_eq!(paid(&world), 200);
}

/// Mallory, and what of Bob's former key Mallory may know.
fn with_mallory() -> (World, Name) {
    let mut world = world(false);
    let mallory = world.network.party_with("Mallory", evil::registry);
    (world, mallory)
}

#[track_caller]
fn refuses(world: &mut World, mallory: &Name, flow: &str, arguments: Value) {
    let bob = world.bob.clone();
    let signed = world.network.signed(&bob).len();
    let error = world.network.run(mallory, flow, arguments).unwrap_err();
    assert!(matches!(&error, FlowError::Counterparty { kind, .. } if kind == "refused"), "{flow}: {error}");
    assert_eq!(world.network.signed(&bob).len(), signed, "{flow}");
}

#[test]
fn nobody_takes_a_state_of_a_former_key() {
    let (mut world, mallory) = with_mallory();
    let bob = world.bob.clone();
    world.run(&mallory, "CashIssue", json!({ "amount": "9.00 USD" }));
    world.run(&mallory, "CashPay", json!({ "amount": "5.00 USD", "to": bob }));
    let bond = json!({ "isin": ISIN, "nominal": "5.00 USD", "maturity": 0 });
    world.run(&mallory, "BondIssue", bond);
    world.run(&mallory, "BondTransfer", json!({ "isin": ISIN, "nominal": "5.00 USD", "to": bob }));
    let made = world.run(&bob, "IouCreate", json!({ "value": 9, "lender": mallory }));
    let state = |kind: &str| {
        let vault = world.network.vault(&bob);
        vault.iter().find(|(_, summary)| summary.kind == kind).unwrap().0.reference
    };
    let (coin, holding) = (state("cash"), state("bond"));
    // A coin of Bob's own, which Mallory gave back.
    world.run(&bob, "CashIssue", json!({ "amount": "2.00 USD" }));
    world.run(&bob, "CashPay", json!({ "amount": "2.00 USD", "to": mallory, "issuer": bob }));
    let back = json!({ "amount": "2.00 USD", "to": bob, "issuer": bob });
    let back = world.run(&mallory, "CashPay", back);
    let back: TransactionId = serde_json::from_value(back["transaction"].clone()).unwrap();
    let own = StateRef { transaction: back, index: 0 };
    let former = world.network.identity(&bob).key.to_string();
    for _ in 0..2 {
        world.network.rotate(&bob);
        let coin = json!({ "victim": bob, "state": coin });
        for session in ["BondTransfer", "BondWitness", "BondIssue"] {
            world.network.set_policy(&bob, |policy| policy.registers_of = vec![mallory.clone()]);
            let mut taken = coin.clone();
            taken["session"] = json!(session);
            refuses(&mut world, &mallory, "TakeAsTransfer", taken);
        }
        let exit = json!({ "victim": bob, "state": own, "session": "CashExit" });
        refuses(&mut world, &mallory, "TakeAsTransfer", exit);
        refuses(&mut world, &mallory, "IssueAsTransfer", json!({ "victim": bob, "how": former }));
        for session in ["BondTransfer", "BondWitness"] {
            let taken = json!({ "victim": bob, "state": holding, "session": session });
            refuses(&mut world, &mallory, "TakeBond", taken);
        }
    }
    // What is asked for properly is agreed to.
    world.run(&mallory, "IouSettle", json!({ "linear_id": made["linear_id"] }));
}
