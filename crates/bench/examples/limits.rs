//! Measures the limits of this machine and prints them: `limits [DIRECTORY [SECONDS]]`.

use std::error::Error;
use std::time::Duration;

use tally_bench::limits::{self, Options};
use tally_bench::table;

fn main() -> Result<(), Box<dyn Error>> {
    tally_ops::memory::share_one_heap();
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    if let Some(directory) = arguments.next() {
        options.directory = directory.into();
    }
    if let Some(seconds) = arguments.next() {
        options.total = Duration::try_from_secs_f64(seconds.parse()?)?;
    }
    let machine = tally_ops::process::machine();
    let shown = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), |bytes| table::bytes(bytes as f64));
    print!(
        "{}",
        table::facts([
            ("processor", format!("{}, {} cores", machine.cpu_model, machine.cores)),
            ("cache", shown(machine.cache_bytes)),
            ("memory", shown(machine.memory_bytes)),
            ("kernel", machine.kernel),
        ])
    );
    let limits = limits::run_each(&options, |limit| eprintln!("measured {}", limit.name))?;
    print!("\n{}", limits::render(&limits, table::styled()));
    Ok(())
}
