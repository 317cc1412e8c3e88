//! Measures each stage alone and prints it: `stages [REPETITIONS [STAGE]]`.

use std::error::Error;
use std::time::Duration;
use tally_bench::limits::{self, Area};
use tally_bench::{report, stages, table};

fn main() -> Result<(), Box<dyn Error>> {
    tally_ops::memory::share_one_heap();
    let mut options = stages::Options::default();
    if let Some(repetitions) = std::env::args().nth(1) {
        options.repetitions = repetitions.parse()?;
    }
    let measure = limits::Options {
        total: Duration::from_secs(3),
        areas: vec![Area::Hash, Area::Sign, Area::Memory],
        memory_bytes: options.memory_bytes(),
        ..limits::Options::default()
    };
    let limits = limits::run(&measure)?;
    let measured = stages::run_each(&options, |one| eprintln!("measured {}", one.stage.name()));
    print!("{}", report::stages(&measured, &limits, table::styled()));
    Ok(())
}
