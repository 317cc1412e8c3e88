//! Many flows at once while everything goes wrong: cash is neither made nor lost, and every flow ends.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use serde_json::json;
use tally_contracts::Name;
use tally_flows::FlowError;
use tally_protocols::testing::{Chaos, Network};
use tally_sim::Rng;

const ISIN: &str = "XS0000000009";
const BONDS: u64 = 9000;
const SEEDS: u64 = 300;
const ISSUED: u64 = 3 * 10_000;

fn total(network: &Network, parties: &[Name]) -> u64 {
    parties.iter().map(|issuer| parties.iter().map(|who| network.cash(who, "USD", issuer)).sum::<u64>()).sum()
}

fn nominal(network: &Network, parties: &[Name]) -> u64 {
    let of = |who: &Name| {
        let owner = network.identity(who).key;
        let vault = network.vault(who);
        let bonds =
            vault.iter().filter(|(_, summary)| summary.kind == "bond" && summary.owner == Some(owner));
        bonds.filter_map(|(_, summary)| summary.quantity).sum::<u64>()
    };
    parties.iter().map(of).sum()
}

fn check_vaults(network: &Network, parties: &[Name], seed: u64) {
    // What a notary consumed is unconsumed nowhere, and what is unconsumed somewhere its owner has.
    let notary = network.names().into_iter().find(|name| name.organisation() == "Notary").unwrap();
    let consumed = network.ledger(&notary, |ledger| ledger.consumed.clone());
    for who in parties {
        for (state, summary) in network.vault(who) {
            assert!(
                !consumed.contains_key(&state.reference),
                "seed {seed}: {who} believes it has {}",
                state.reference
            );
            assert!(summary.participants.contains(&network.identity(who).key));
        }
        network.ledger(who, |ledger| {
            assert!(ledger.flows.is_empty(), "seed {seed}: {:?}", network.views(who));
            assert!(
                ledger.held.is_empty() && ledger.kept.is_empty(),
                "seed {seed}: flows left something behind"
            );
        });
    }
}

fn run(seed: u64, chaos: &Chaos) -> (u64, Vec<Result<serde_json::Value, FlowError>>) {
    let mut rng = Rng::new(seed);
    let mut network = Network::new();
    let parties: Vec<_> = ["Alice", "Bob", "Carol"].iter().map(|who| network.party(who)).collect();
    network.notary("Notary", rng.chance(1, 2));
    for party in &parties {
        let outputs = rng.between(1, 4);
        network.run(party, "CashIssue", json!({ "amount": "100.00 USD", "outputs": outputs })).unwrap();
    }
    network.set_policy(&parties[1], |policy| policy.registers_of = vec![parties[0].clone()]);
    let bond = json!({ "isin": ISIN, "nominal": "90.00 USD", "maturity": 4_000_000_000_000_u64, "agent": parties[1] });
    network.run(&parties[0], "BondIssue", bond).unwrap();
    for buyer in &parties {
        network.agree_to_par(buyer, &parties[0], "USD".parse().unwrap());
    }
    let mut flows = Vec::new();
    let mut exits = Vec::new();
    for _ in 0..rng.between(4, 10) {
        let from = &parties[rng.index(3)];
        let to = &parties[rng.index(3)];
        let issuer = &parties[rng.index(3)];
        let cents = rng.between(1, 6000);
        let amount = format!("{}.{:02} USD", cents / 100, cents % 100);
        match rng.below(10) {
            0 => {
                let exit = json!({ "amount": amount, "issuer": issuer });
                let flow = network.start(from, "CashExit", exit).unwrap();
                exits.push((from.clone(), flow, cents));
                flows.push((from.clone(), flow));
            }
            1 if from != to => {
                let nominal = format!("{}.00 USD", rng.between(1, 20));
                let sale = json!({ "isin": ISIN, "nominal": nominal, "price": nominal, "buyer": to });
                flows.push((from.clone(), network.start(from, "DeliveryVersusPayment", sale).unwrap()));
            }
            2 => {
                let gift = json!({ "isin": ISIN, "nominal": "3.00 USD", "to": to });
                flows.push((from.clone(), network.start(from, "BondTransfer", gift).unwrap()));
            }
            3 if from != to => {
                let iou = json!({ "value": rng.between(1, 99), "lender": to });
                flows.push((from.clone(), network.start(from, "IouCreate", iou).unwrap()));
            }
            _ => {
                let pay =
                    json!({ "amount": amount, "to": to, "issuer": issuer, "outputs": rng.between(1, 3) });
                // An amount of a cent or two cannot always be split.
                flows.push((from.clone(), network.start(from, "CashPay", pay).unwrap()));
            }
        }
        if rng.chance(1, 2) {
            network.settle_with(&mut rng, chaos);
        }
    }
    network.settle_with(&mut rng, chaos);
    network.settle();
    let mut results = Vec::new();
    for (who, flow) in &flows {
        results.push(
            network.result(who, *flow).unwrap_or_else(|| panic!("seed {seed}: {:?}", network.views(who))),
        );
    }
    let exited: u64 = exits
        .iter()
        .filter(|(who, flow, _)| matches!(network.result(who, *flow), Some(Ok(_))))
        .map(|(_, _, cents)| cents)
        .sum();
    assert_eq!(total(&network, &parties) + exited, ISSUED, "seed {seed}: cash was made or lost");
    assert_eq!(nominal(&network, &parties), BONDS, "seed {seed}: bonds were made or lost");
    check_vaults(&network, &parties, seed);
    (network.all_commits() as u64, results)
}

#[test]
fn cash_is_conserved_and_every_flow_ends() {
    let mut won = 0;
    let mut all = 0;
    for seed in 0..SEEDS {
        let (_, results) = run(seed, &Chaos::ALL);
        for result in results {
            all += 1;
            match result {
                Ok(_) => won += 1,
                Err(FlowError::Insufficient { .. } | FlowError::Refused { .. }) => {}
                // The buyer has no money, or does not pay in that cash.
                Err(FlowError::Counterparty { kind, .. }) if kind == "insufficient" || kind == "refused" => {}
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
    }
    assert!(won * 3 > all, "{won} of {all} flows did something");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [1, 77] {
        assert_eq!(run(seed, &Chaos::ALL), run(seed, &Chaos::ALL));
    }
}
