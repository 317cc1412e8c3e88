//! Measures the flows ledger once, for profiling: `flows [issue|pay|pay-at|iou-at|limit|start|waiting|history|vault|memory] [seconds] [in flight, rate or size]`.
//! `flows node run … DIR` is a node, as `tally node run` is.
use std::path::Path;
use std::time::Duration;
use tally_bench::flows::network::{Database, Launcher, Layout};
use tally_bench::flows::outcome::Outcome;
use tally_bench::flows::plan::Plan;
use tally_bench::limits::{Area, Options, render};
use tally_bench::table;
use tally_node::{Running, Settings};
use tally_ops::shutdown::Shutdown;

fn node(directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let shutdown = Shutdown::install()?;
    let running = Running::start(directory, &Settings::load(directory, &[])?, &shutdown)?;
    let addresses = running.addresses().clone();
    let http = addresses.http.ok_or("no address for metrics")?;
    println!("ready messaging={} rpc={} http={http}", addresses.messaging, addresses.rpc);
    let ended = shutdown.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        ended.request();
    });
    shutdown.wait();
    Ok(running.stop()?)
}

fn show(outcome: &Outcome) {
    for fact in &outcome.facts {
        println!("{:>10}  {}", table::quantity(fact.value, fact.unit), fact.title);
    }
    let Some(load) = &outcome.load else { return };
    let p = load.measured.latency.percentiles();
    println!(
        "{}: {}, p50 {} us, p99 {} us, max {} us, {} cores, {} each",
        outcome.title,
        table::rate(load.measured.rate),
        p.p50_us,
        p.p99_us,
        p.max_us,
        table::number(load.cores()),
        table::quantity(load.all_cpu_ns(), "ns"),
    );
    for process in &load.processes {
        let (user, system) = load.cpu_ns(process);
        let (read, written) = process.moved(load.from, load.until());
        println!(
            "  {:10} user {:>9} system {:>9} peak {:>9} read {:>9} written {:>9}",
            process.label,
            table::quantity(user, "ns"),
            table::quantity(system, "ns"),
            table::bytes(process.peak_bytes() as f64),
            table::bytes(read as f64),
            table::bytes(written as f64)
        );
    }
    for (node, commits) in &load.commits {
        println!(
            "  {node:10} {} commits of {} with {} units, {} writes",
            commits.batches,
            table::quantity(commits.mean_s, "s"),
            table::number(commits.units),
            table::number(commits.writes)
        );
    }
    for step in &load.steps {
        let mean = table::quantity(step.mean_s, "s");
        println!("  {:10} {:>9} {:>8} {} / {}", step.node, mean, step.count, step.flow, step.step);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tally_ops::memory::share_one_heap();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "node") {
        return node(Path::new(arguments.last().map_or("", String::as_str)));
    }
    let number = |at: usize, or: u64| arguments.get(at).and_then(|a| a.parse().ok()).unwrap_or(or);
    let plan = Plan {
        layout: Layout {
            parties: vec!["PartyA", "PartyB"],
            validating: false,
            flow_threads: 0,
            rpc_threads: 0,
            database: Database::Sqlite,
            directory: std::env::temp_dir(),
            launcher: Launcher::this_program()?,
        },
        in_flight: number(2, 256),
        connections: 2,
        warm_up: Duration::from_secs(1),
        duration: Duration::from_secs(number(1, 5)),
        outputs: u32::try_from(number(3, 1))?,
        cores: None,
        pay_limits: Vec::new(),
    };
    match arguments.first().map_or("pay", String::as_str) {
        "issue" => show(&plan.issue()?),
        "pay-at" => show(&plan.pay_at(number(2, 10))?),
        "iou-at" => show(&plan.iou_at(number(2, 10))?),
        "start" => show(&plan.start(3)?),
        "waiting" => show(&plan.waiting(number(2, 10_000))?),
        "history" => show(&plan.history(number(2, 10_000))?),
        "vault" => show(&plan.vault(number(2, 100_000), 100)?),
        "memory" => show(&plan.memory(number(2, 10_000))?),
        "limit" => {
            let options = Options { areas: vec![Area::Pay], ..Options::default() };
            println!("{}", render(&tally_bench::limits::run(&options)?, false));
        }
        _ => plan.issue_and_pay()?.iter().for_each(show),
    }
    Ok(())
}
