//! A crash at every unit of every shipped flow, with and without losing that unit, and every message twice: all ends
//! the same.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod scenarios;

use serde_json::Value;
use tally_contracts::{Name, StateRef, TransactionId};
use tally_protocols::testing::Network;

use scenarios::{SCENARIOS, Scenario, name, network};

/// All that is left at a node in the end.
#[derive(Debug, PartialEq)]
struct Left {
    who: Name,
    states: Vec<StateRef>,
    transactions: Vec<TransactionId>,
    consumed: Vec<(StateRef, TransactionId)>,
    ended: usize,
}

fn left(network: &Network) -> Vec<Left> {
    let of = |who: Name| {
        network.ledger(&who, |ledger| {
            assert!(ledger.flows.is_empty(), "{who} has flows under way: {:?}", network.views(&who));
            assert!(ledger.held.is_empty() && ledger.kept.is_empty(), "flows of {who} left something behind");
            assert!(
                ledger.outbound.values().all(|messages| messages.is_empty()),
                "{who} has messages to send"
            );
            Left {
                who: who.clone(),
                states: ledger.states.keys().copied().collect(),
                transactions: ledger.transactions.keys().copied().collect(),
                consumed: ledger.consumed.iter().map(|(state, (by, _))| (*state, *by)).collect(),
                ended: ledger.outcomes.len(),
            }
        })
    };
    network.names().into_iter().map(of).collect()
}

fn run(network: &mut Network, scenario: &Scenario) -> (Result<Value, String>, Vec<Left>) {
    let who = name(scenario.who);
    let arguments = (scenario.arguments)(network);
    let flow = network.start_as(&who, scenario.flow, arguments, "the flow under test").unwrap();
    network.settle();
    let result = network.result(&who, flow).unwrap_or_else(|| panic!("{} does not end", scenario.what));
    (result.map_err(|error| error.to_string()), left(network))
}

fn every_crash(validating: bool, copies: usize) {
    let mut crashes = 0;
    for scenario in SCENARIOS {
        let mut whole = network(validating, scenario.prepare);
        whole.set_copies(copies);
        let first = whole.all_commits();
        let expected = run(&mut whole, scenario);
        assert!(expected.0.is_ok() || scenario.what == "pay too much", "{}: {:?}", scenario.what, expected.0);
        for at in first..whole.all_commits() {
            for lost in [false, true] {
                let mut network = network(validating, scenario.prepare);
                network.set_copies(copies);
                assert_eq!(network.all_commits(), first);
                network.crash_at(at, lost);
                let found = run(&mut network, scenario);
                assert_eq!(found, expected, "{}, crash at {at} (first {first}), lost: {lost}", scenario.what);
                crashes += 1;
            }
        }
    }
    assert!(crashes > 150, "{crashes} crashes are not all there should be");
}

#[test]
fn crash_at_every_unit() {
    every_crash(false, 1);
}

#[test]
fn crash_at_every_unit_with_a_validating_notary() {
    every_crash(true, 1);
}

#[test]
fn crash_at_every_unit_with_every_message_twice() {
    every_crash(false, 2);
}
