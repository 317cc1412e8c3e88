//! Runs the whole network once, for profiling.
use std::time::Duration;
use tally_bench::settlement::{Load, Run, run};
use tally_bench::workload::{Mix, Workload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tally_ops::memory::share_one_heap();
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, or: u64| arguments.get(at).and_then(|a| a.parse().ok()).unwrap_or(or);
    let mix = if arguments.get(1).is_some_and(|a| a == "between") { Mix::Between } else { Mix::Inside };
    let workload = Workload {
        mix,
        accounts: u32::try_from(number(2, 100_000))?,
        payers: u32::try_from(number(3, 0))?,
        validity: Duration::from_secs(number(6, 15)),
        seed: 1,
    };
    let rate = number(5, 0);
    let run_ = Run {
        workload: workload.clone(),
        load: if rate > 0 { Load::Open(rate) } else { Load::Closed(4) },
        duration: Duration::from_secs(number(4, 5)),
        warm_up: Duration::from_secs(1),
        batch: usize::try_from(number(7, 4096))?,
        prepared: 1 << 21,
    };
    let directory = tempfile::tempdir()?;
    let setup = workload.set_up(directory.path(), |o| o.snapshot_every = None)?;
    eprintln!("set up in {:?}", setup.took);
    let measured = run(&setup, &run_, None)?;
    let p = measured.latency.percentiles();
    println!(
        "{:.0} tx/s, made {}, refused {}, p50 {} us, p99 {} us, max {} us, cpu {:?} of {:?}, rss {} MiB",
        measured.rate,
        measured.made,
        measured.refused,
        p.p50_us,
        p.p99_us,
        p.max_us,
        measured.after.cpu_since(&measured.before),
        measured.elapsed,
        measured.after.peak_resident_bytes >> 20
    );
    for thread in tally_ops::process::threads()? {
        println!("{:?}", thread);
    }
    Ok(())
}
