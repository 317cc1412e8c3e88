//! Simulated networks of validators, as many as a test run can afford; `make sim LEDGER=consensus` runs more.

use tally_trials::consensus::{Broken, Summary, run, run_broken};

/// Some are run twice, and must come to the same.
#[test]
fn no_seed_breaks_a_network_of_validators() {
    let mut total = Summary::default();
    for seed in 1..=300 {
        let summary = run(seed);
        if seed.is_multiple_of(8) {
            assert_eq!(run(seed), summary, "seed {seed} replays");
        }
        total.add(&summary);
    }
    assert!(total.heights > 3_000 && total.crashes > 100 && total.blamed > 1_000, "{total}");
}

#[test]
fn what_seeds_found_stays_mended() {
    for seed in [
        // A proposer added what it heard while its block was built to the evidence for another block.
        32, 39, // Round changes that a proposal rested on were gone when its block was built.
        60, 82,
        // A validator that was cut off went through rounds alone, with a capped timeout, and was never met.
        71, 207, 426, 734,
        // Validators that were prepared when they crashed did not show in which round they were.
        520, // What was relayed without being looked at got an honest validator blamed.
        17, 54, // A validator left behind asked the same liar for blocks again and again.
        1_502,
    ] {
        let _ = run(seed);
    }
}

/// A broken promise of the host, or too many that fail, is seen by some seed.
#[test]
fn defects_are_noticed() {
    for broken in Broken::ALL {
        let noticed =
            (1..=60).find(|seed| std::panic::catch_unwind(|| run_broken(*seed, Some(broken))).is_err());
        assert!(noticed.is_some(), "nobody noticed {broken:?}");
    }
}
