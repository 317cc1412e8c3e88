//! Gas per second of this crate's executor, and of `revm` alone on the same transactions.
//!
//! `cargo run --release -p tally-evm --example gas [rounds [workload]]`
//!
//! Times are those of the processor where the system tells them, so that other programs do not count.

use std::time::{Duration, Instant};

use tally_evm::bench::{measure, workloads};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().map_or(Ok(20), |rounds| rounds.parse())?;
    let wanted = arguments.next();
    let start = Instant::now();
    let clock = || processor_time().unwrap_or_else(|| start.elapsed());
    for workload in workloads() {
        if wanted.as_deref().is_none_or(|wanted| wanted == workload.name) {
            println!("{}", measure(&workload, rounds, &clock)?);
        }
    }
    Ok(())
}

/// Nanoseconds that Linux has given to this thread.
fn processor_time() -> Option<Duration> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    statistics.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
