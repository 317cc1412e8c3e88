//! A crash at every unit of every shipped flow, with and without losing that unit, and every message twice: all ends
//! the same.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod crashes;
mod scenarios;

use crashes::Trial;
use scenarios::{SCENARIOS, name, network};

fn every_crash(validating: bool, copies: usize) {
    let mut crashes = 0;
    for scenario in SCENARIOS {
        let trial = Trial {
            what: scenario.what,
            network: &|| network(validating, scenario.prepare),
            who: name(scenario.who),
            flow: scenario.flow,
            arguments: &scenario.arguments,
            succeeds: scenario.what != "pay too much",
        };
        crashes += trial.crash_everywhere(copies);
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
