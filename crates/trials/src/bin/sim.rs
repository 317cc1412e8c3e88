//! Runs simulated networks, one seed after the other: `tally-sim [SEED] [COUNT]`.

use std::process::ExitCode;
use std::time::Instant;
use tally_trials::post;
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
        let both = || std::panic::catch_unwind(|| (run(seed), post::run(seed)));
        let Ok((summary, posted)) = both() else { return ExitCode::FAILURE };
        // Every so many seeds once more, so that a run that cannot be replayed does not go unnoticed.
        let again = (count == 1 || seed % 64 == 0).then(both);
        if again.is_some_and(|again| again.ok() != Some((summary.clone(), posted))) {
            eprintln!("seed {seed} does not replay: two runs differ");
            return ExitCode::FAILURE;
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

fn print_one(summary: &Summary, posted: &post::Summary) {
    println!("trace {:016x} of {} steps in {} lives", summary.trace, summary.steps, summary.lives);
    println!("{} transactions, {} made", summary.transactions, summary.made);
    println!("{} repeated, {} duplicates", summary.repeats, summary.duplicates);
    println!("{} recoveries from a snapshot, {} transactions reopened", summary.snapshots, summary.reopened);
    for (refusal, count) in &summary.refused {
        println!("{count:6} {refusal:?}");
    }
    let post::Summary { trace, accepted, made, timed_out, approved_late } = posted;
    println!(
        "by post: trace {trace:016x}, {accepted} accepted, {made} made, {timed_out} timed out, {approved_late} approved late"
    );
}
