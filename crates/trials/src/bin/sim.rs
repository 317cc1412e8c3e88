//! Runs simulated networks, one seed after the other: `tally-sim [SEED] [COUNT]`.

use std::process::ExitCode;
use std::time::Instant;
use tally_trials::simulation::{Summary, run};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Ok(first), Ok(count), None) =
        (arguments.next().unwrap_or(Ok(1)), arguments.next().unwrap_or(Ok(1)), arguments.next())
    else {
        eprintln!("usage: tally-sim [SEED] [COUNT]: runs COUNT seeds from SEED on");
        return ExitCode::from(2);
    };
    let began = Instant::now();
    let (mut transactions, mut lives, mut made) = (0, 0, 0);
    for seed in first..first.saturating_add(count) {
        let Ok(summary) = std::panic::catch_unwind(|| run(seed)) else { return ExitCode::FAILURE };
        let again = (count == 1 || seed % 64 == 0).then(|| run(seed));
        if again.is_some_and(|again| again != summary) {
            eprintln!("seed {seed} does not replay: two runs differ");
            return ExitCode::FAILURE;
        }
        if count == 1 {
            print_one(&summary);
        }
        transactions += summary.transactions;
        lives += summary.lives;
        made += summary.made;
    }
    println!(
        "{count} seeds from {first} on: {transactions} transactions, {made} made, {lives} lives, {:.1} s, clean",
        began.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}

fn print_one(summary: &Summary) {
    println!("trace {:016x} of {} steps in {} lives", summary.trace, summary.steps, summary.lives);
    println!("{} transactions, {} made", summary.transactions, summary.made);
    println!("{} repeated, {} duplicates", summary.repeats, summary.duplicates);
    println!("{} recoveries from a snapshot, {} transactions reopened", summary.snapshots, summary.reopened);
    for (refusal, count) in &summary.refused {
        println!("{count:6} {refusal:?}");
    }
}
