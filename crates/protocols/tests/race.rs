//! Two flows want one coin: exactly one gets it.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use serde_json::json;
use tally_flows::FlowError;
use tally_protocols::testing::{Chaos, Network};
use tally_sim::Rng;

struct Race {
    won: usize,
    conflicts: usize,
    insufficient: usize,
}

fn race(seed: u64, validating: bool, ignores_locks: bool, chaos: &Chaos) -> Race {
    let mut network = Network::new();
    let (alice, bob, carol) = (network.party("Alice"), network.party("Bob"), network.party("Carol"));
    network.notary("Notary", validating);
    network.run(&alice, "CashIssue", json!({ "amount": "10.00 USD" })).unwrap();
    network.switch(&alice, |switches| switches.ignores_locks = ignores_locks);
    let flows = [&bob, &carol]
        .map(|to| network.start(&alice, "CashPay", json!({ "amount": "10.00 USD", "to": to })).unwrap());
    let mut rng = Rng::new(seed);
    network.settle_with(&mut rng, chaos);
    let results = flows.map(|flow| {
        network.result(&alice, flow).unwrap_or_else(|| panic!("seed {seed}: a flow does not end"))
    });
    let mut race = Race { won: 0, conflicts: 0, insufficient: 0 };
    let winner = results.iter().find_map(|result| result.as_ref().ok()).map(|won| won["transaction"].clone());
    for result in &results {
        match result {
            Ok(_) => race.won += 1,
            Err(FlowError::Conflict { consumed_by, .. }) => {
                assert_eq!(Some(json!(consumed_by)), winner, "seed {seed}: the loser hears who won");
                race.conflicts += 1;
            }
            Err(
                FlowError::Insufficient { held: 1000, .. } | FlowError::Insufficient { available: 0, .. },
            ) => {
                race.insufficient += 1;
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    let paid = [&bob, &carol].map(|who| network.cash(who, "USD", &alice));
    assert_eq!(paid.iter().sum::<u64>(), 1000, "seed {seed}: {paid:?}");
    assert_eq!(network.cash(&alice, "USD", &alice), 0);
    race
}

#[test]
fn with_soft_locks_the_second_finds_the_coin_held() {
    for seed in 0..50 {
        let race = race(seed, false, false, &Chaos::NONE);
        assert_eq!((race.won, race.insufficient, race.conflicts), (1, 1, 0), "seed {seed}");
    }
}

#[test]
fn without_soft_locks_the_notary_lets_one_through() {
    let mut conflicts = 0;
    for validating in [false, true] {
        for seed in 0..50 {
            let race = race(seed, validating, true, &Chaos::NONE);
            assert_eq!(race.won, 1, "seed {seed}");
            conflicts += race.conflicts;
        }
    }
    assert!(conflicts > 50, "{conflicts}: mostly they meet at the notary");
}

#[test]
fn one_wins_whatever_goes_wrong() {
    for seed in 0..150 {
        let race = race(seed, seed % 2 == 0, seed % 3 > 0, &Chaos::ALL);
        assert_eq!(race.won, 1, "seed {seed}");
    }
}
