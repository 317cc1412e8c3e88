//! Runs simulated networks, one seed after the other: `tally-sim [LEDGER] [SEED] [COUNT]`.

use std::fmt::{Debug, Display};
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;
use tally_trials::simulation::{Summary, run, run_liars};
use tally_trials::{consensus, flows, post, processes};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let ledgers = ["flows", "settlement", "consensus", "processes", "liars"];
    let ledger = arguments.next_if(|text| ledgers.contains(&text.as_str()));
    let mut numbers = arguments.map(|text| text.parse::<u64>());
    let (Ok(first), Ok(count), None) =
        (numbers.next().unwrap_or(Ok(1)), numbers.next().unwrap_or(Ok(1)), numbers.next())
    else {
        eprintln!(
            "usage: tally-sim [settlement|processes|liars|flows|consensus] [SEED] [COUNT]: runs COUNT seeds of a ledger from \
             SEED on; liars are both forms of settlement with members that lie under their own keys"
        );
        return ExitCode::from(2);
    };
    match ledger.as_deref() {
        Some("flows") => run_seeds(first, count, flows::run_both, flows::Total::add_both),
        Some("processes") => run_seeds(first, count, processes::run, processes::Total::add),
        Some("liars") => run_liar_seeds(first, count),
        Some("consensus") => run_seeds(first, count, consensus::run, consensus::Summary::add),
        _ => run_settlement(first, count),
    }
}

fn run_settlement(first: u64, count: u64) -> ExitCode {
    let began = Instant::now();
    let (mut transactions, mut lives, mut made) = (0, 0, 0);
    for seed in first..first.saturating_add(count) {
        let both = || catch_unwind(|| (run(seed), post::run(seed)));
        let Ok((summary, posted)) = both() else { return ExitCode::FAILURE };
        // Every so many seeds once more, so that a run that cannot be replayed does not go unnoticed.
        let again = (count == 1 || seed % 64 == 0).then(both);
        if again.is_some_and(|again| again.ok() != Some((summary.clone(), posted))) {
            return differs(seed);
        }
        if count == 1 {
            print_one(&summary, &posted);
        }
        transactions += summary.transactions + posted.accepted;
        lives += summary.lives;
        made += summary.made + posted.made;
    }
    println!(
        "{count} seeds from {first} on: {transactions} transactions, {made} made, {lives} lives, {:.1} s, clean",
        began.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}

fn run_liar_seeds(first: u64, count: u64) -> ExitCode {
    let began = Instant::now();
    let mut all = processes::LiarsTotal::default();
    let (mut transactions, mut lies) = (0, 0);
    for seed in first..first.saturating_add(count) {
        let both = || catch_unwind(|| (run_liars(seed), processes::run_liars(seed)));
        let Ok((one, split)) = both() else { return ExitCode::FAILURE };
        let again = (count == 1 || seed % 64 == 0).then(both);
        if again.is_some_and(|again| again.ok() != Some((one.clone(), split.clone()))) {
            return differs(seed);
        }
        if count == 1 {
            println!("{one:#?}\n{split:#?}");
        }
        all.add(&split);
        transactions += one.transactions;
        lies += one.lies.values().sum::<u64>();
    }
    for (lie, count) in &all.told {
        println!("{count:8} {lie:?}");
    }
    for (reason, count) in &all.reasons {
        println!("{count:8} {reason}");
    }
    println!("in one process: {transactions} transactions, {lies} lies");
    println!("over a cluster: {all}");
    println!("{count} seeds of each from {first} on: {:.1} s, clean", began.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

fn differs(seed: u64) -> ExitCode {
    eprintln!("seed {seed} does not replay: two runs differ");
    ExitCode::FAILURE
}

fn print_one(summary: &Summary, posted: &post::Summary) {
    println!("trace {:016x} of {} steps in {} lives", summary.trace, summary.steps, summary.lives);
    println!("{} transactions, {} made", summary.transactions, summary.made);
    println!("{} repeated, {} duplicates", summary.repeats, summary.duplicates);
    println!("{} recoveries from a snapshot, {} transactions reopened", summary.snapshots, summary.reopened);
    for (refusal, count) in &summary.refused {
        println!("{count:6} {refusal:?}");
    }
    let post::Summary { trace, accepted, made, timed_out, withdrawn, approved_late } = posted;
    println!(
        "by post: trace {trace:016x}, {accepted} accepted, {made} made, {timed_out} timed out, {withdrawn} withdrawn, \
         {approved_late} approved late"
    );
}

/// Runs each seed twice, which must come to the same, and sums up.
fn run_seeds<S: Debug + PartialEq, T: Default + Display>(
    first: u64,
    count: u64,
    run: fn(u64) -> S,
    add: fn(&mut T, &S),
) -> ExitCode {
    let began = Instant::now();
    let mut all = T::default();
    for seed in first..first.saturating_add(count) {
        let Ok(summary) = catch_unwind(|| run(seed)) else { return ExitCode::FAILURE };
        if catch_unwind(|| run(seed)).ok().as_ref() != Some(&summary) {
            return differs(seed);
        }
        if count == 1 {
            println!("{summary:#?}");
        }
        add(&mut all, &summary);
    }
    println!("{count} seeds from {first} on: {all}, {:.1} s, clean", began.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
