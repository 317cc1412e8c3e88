//! Gas per second of this crate's executor, and of `revm` alone on the same transactions.
//!
//! `cargo run --release -p tally-evm --example gas [rounds]`

use std::time::Instant;

use tally_evm::bench::{measure, workloads};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(7), |rounds| rounds.parse())?;
    let start = Instant::now();
    for workload in workloads() {
        println!("{}", measure(&workload, rounds, &|| start.elapsed())?);
    }
    Ok(())
}
