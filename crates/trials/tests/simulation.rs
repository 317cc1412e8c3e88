//! Simulated networks, as many as a test run can afford; `make sim` runs more.

use tally_trials::simulation::run;

#[test]
fn no_seed_breaks_settlement() {
    for seed in 1..=400 {
        let _ = run(seed);
    }
}

#[test]
fn a_seed_replays_its_run() {
    for seed in 1_000..1_020 {
        assert_eq!(run(seed), run(seed));
    }
}
