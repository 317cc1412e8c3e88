//! Simulated networks, as many as a test run can afford; `make sim` runs more.

use tally_trials::post;
use tally_trials::simulation::run;

#[test]
fn no_seed_breaks_settlement() {
    for seed in 1..=400 {
        let _ = run(seed);
    }
}

#[test]
fn what_seeds_found_stays_mended() {
    // 51673: a process that started forgot a reference a moment before one that went on would have, so that whether it
    // could be used again depended on a crash, and the audit objected.
    let _ = run(51_673);
}

#[test]
fn a_seed_replays_its_run() {
    for seed in 1_000..1_020 {
        assert_eq!(run(seed), run(seed));
    }
}

#[test]
fn no_post_however_bad_breaks_the_stages() {
    let (mut timed_out, mut withdrawn) = (0, 0);
    for seed in 1..=400 {
        let summary = post::run(seed);
        timed_out += summary.timed_out;
        withdrawn += summary.withdrawn;
        assert!(seed % 20 > 0 || post::run(seed) == summary, "seed {seed} replays");
    }
    assert!(timed_out > 400, "only {timed_out} answers came too late");
    assert!(withdrawn > 400, "only {withdrawn} were withdrawn in time");
}
