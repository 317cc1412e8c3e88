//! Simulated networks of nodes, as many as a test run can afford; `make sim LEDGER=flows` runs more.

use std::sync::Arc;
use tally_store::{Store, contract};
use tally_trials::flows::{Forgotten, Memory, Total, run, run_liars, run_with, steps};

#[test]
fn the_store_in_memory_does_what_a_store_must() {
    contract::check(&|| {
        let memory = Arc::new(Memory::new([7; 16]));
        Box::new(move || Ok(memory.clone() as Arc<dyn Store>))
    });
}

#[test]
fn a_crash_at_any_step_changes_nothing() {
    for scene in 0..steps::SCENES {
        let crashes = steps::crash_everywhere(scene);
        assert!(crashes.runs > crashes.steps && crashes.steps > 2, "{crashes:?}");
        println!("{crashes:?}");
    }
}

/// As many as fit into some seconds; the summaries of some are made twice.
#[test]
fn no_seed_breaks_a_network_of_nodes() {
    let mut total = Total::default();
    for seed in 1..=240 {
        let summary = run(seed);
        if seed.is_multiple_of(8) {
            assert_eq!(run(seed), summary, "seed {seed} replays");
        }
        total.add(&summary);
    }
    let [races, kills, parts, traces] = total.evidence();
    assert!(races > 500 && kills > 10 && parts > 1_000 && traces > 10_000, "{total}");
    for kind in
        ["conflict", "insufficient", "counterparty", "killed", "outside_time_window", "final", "unknown"]
    {
        assert!(total.failures(kind) > 0, "no user was told of {kind}: {total}");
    }
}

/// Nodes that lie with keys of their own rob nobody, and what is final is never reported as failed.
#[test]
fn no_liar_breaks_a_network_of_nodes() {
    let mut total = Total::default();
    for seed in 1..=120 {
        let summary = run_liars(seed);
        if seed.is_multiple_of(16) {
            assert_eq!(run_liars(seed), summary, "seed {seed} replays");
        }
        total.add(&summary);
    }
    println!("{total}");
    for kind in ["unknown", "counterparty", "conflict"] {
        assert!(total.failures(kind) > 0, "no user was told of {kind}: {total}");
    }
}

#[test]
fn what_seeds_found_stays_mended() {
    // 11250: a person killed the buyer's half of a delivery versus payment after it had signed, so that its coin was free
    // again; a payment took it, and the notary told that payment of the delivery. The books did not expect that.
    let _ = run(11_250);
    // 23509: a liar ended its half of a delivery versus payment after the buyer had signed, and had it made final later.
    // The buyer's next payment took the same coin, and the notary refused it. The books did not expect that of a liar.
    let _ = run_liars(23_509);
}

/// A store that loses something breaks a promise, and some seed shows it.
#[test]
fn what_a_disk_forgets_is_noticed() {
    for forgotten in Forgotten::ALL {
        let noticed =
            (1..=60).find(|seed| std::panic::catch_unwind(|| run_with(*seed, Some(forgotten))).is_err());
        assert!(noticed.is_some(), "nobody noticed that disks forget {forgotten:?}");
    }
}
