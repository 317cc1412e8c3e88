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
    let found: [(&str, &[u64]); 10] = [
        ("a proposer added what it heard during building to the evidence for another block", &[32, 39]),
        ("round changes that a proposal rested on were gone when its block was built", &[60, 82]),
        ("who was cut off went through rounds alone and was never met", &[71, 207, 426, 734]),
        ("validators prepared before a crash did not show in which round they were", &[520]),
        ("an honest validator was blamed for relaying what it had not looked at", &[17, 54]),
        ("a validator left behind asked the same liar for blocks again and again", &[1_502]),
        ("a newcomer that is no validator yet asked the same liar for blocks again and again", &[702_425]),
        ("a question for blocks was lost and never asked again", &[201_883]),
        (
            "a header with two bodies: who had the wrong one refused it for ever, and the chain stood still",
            &[144],
        ),
        ("a header with two bodies: who had the wrong one made it final", &[124, 156, 189]),
    ];
    for (what, seeds) in found {
        for seed in seeds {
            println!("{seed}: {what}");
            let _ = run(*seed);
        }
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
