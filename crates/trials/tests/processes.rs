//! Simulated networks of shards over a cluster, as many as a test run can afford; `make sim LEDGER=processes` runs more.

use tally_trials::processes::{Total, run, run_damaged};

#[test]
fn no_seed_breaks_a_network_of_processes() {
    let mut total = Total::default();
    for seed in 1..=250 {
        let summary = run(seed);
        if seed % 16 == 0 {
            assert_eq!(run(seed), summary, "seed {seed} replays");
        }
        total.add(&summary);
    }
    // That much befell them: a simulation in which nothing happens proves nothing.
    let sum = &total.sum;
    assert!(sum.made > 5_000 && sum.timed_out > 100 && sum.duplicates > 500, "{total}");
    assert!(sum.kills > 1_000 && sum.fenced > 100 && sum.lost > 100 && sum.dead_letters > 20, "{total}");
}

#[test]
fn what_seeds_found_stays_mended() {
    let found: [(&str, &[u64]); 2] = [
        (
            "two assemblers' decisions on orders were sequenced in another order than they were approved",
            &[5, 11, 24, 25],
        ),
        ("a stall within a snapshot ended the updater", &[7, 15, 18]),
    ];
    for (what, seeds) in found {
        for seed in seeds {
            println!("{seed}: {what}");
            let _ = run(*seed);
        }
    }
}

/// Stops are loud, name the record, and nothing is lost once it is mended: checked within.
#[test]
fn damaged_records_stop_those_who_need_them_and_nobody_else() {
    let stopped: u64 = (1..=60).map(|seed| run_damaged(seed).1).sum();
    assert!(stopped > 20, "only {stopped} times did anybody notice");
}
