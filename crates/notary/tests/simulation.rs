//! A simulated cluster under faults and liars with real keys, from one seed; a model that shares no
//! code judges it.

#[path = "simulation/keys.rs"]
mod keys;
#[path = "simulation/liar.rs"]
mod liar;
#[path = "simulation/model.rs"]
mod model;
#[path = "simulation/plan.rs"]
mod plan;
#[path = "simulation/world.rs"]
mod world;

use plan::Broken;
use world::{Summary, run};

/// Seeds of a usual run; more by `TALLY_SEEDS`, from `TALLY_SEED` on.
const SEEDS: u64 = 400;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// Some are run twice, and must come to the same.
#[test]
fn no_liar_and_no_crash_makes_a_cluster_consume_a_state_twice_or_leave_a_request_unanswered() {
    let first = number("TALLY_SEED", 1);
    let seeds = number("TALLY_SEEDS", SEEDS);
    let mut total = Summary::default();
    for seed in first..first + seeds {
        let summary = run(seed, None);
        if seed.is_multiple_of(8) {
            assert_eq!(run(seed, None), summary, "seed {seed} replays");
        }
        total.add(&summary);
    }
    println!("{seeds} seeds: {total:?}");
    if seeds >= SEEDS {
        assert!(total.committed > 1_000 && total.refused > 500, "{total:?}");
        assert!(total.crashes > 500 && total.blamed > 500 && total.caught_up > 100, "{total:?}");
    }
}

/// A broken promise, or too many that lie, is seen by some seed: the model can fail.
#[test]
fn defects_are_noticed() {
    for broken in Broken::ALL {
        let noticed = (1..=80).find(|seed| std::panic::catch_unwind(|| run(*seed, Some(broken))).is_err());
        assert!(noticed.is_some(), "nobody noticed {broken:?}");
    }
}
