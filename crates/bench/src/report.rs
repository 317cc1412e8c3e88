//! Measurements in tables, with published figures and the machine's limits beside them; and as pages with charts.

pub mod chain;
pub mod chart;
pub mod cluster;
pub mod curves;
pub mod evm;
pub mod flows;
pub mod gateway;
pub mod page;

use std::time::Duration;

use tally_ops::process::Machine;

use self::page::Section;
use crate::ceiling::Ceiling;
use crate::limits::{ALL_CORES, BUSY, Limit, find};
use crate::recovery;
use crate::result::Commit;
use crate::settlement::{Load, Measured};
use crate::stages;
use crate::suite::{Bar, Memory, Outcome};
use crate::table::{self, Align, Table};
use crate::workload::{Mix, Workload};

/// Where a run took place, and of which source: the heading of a report.
#[must_use]
pub fn heading(machine: &Machine, commit: &Commit) -> String {
    let bytes = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), |bytes| table::bytes(bytes as f64));
    let dirty = if commit.dirty == Some(true) { ", with changes" } else { "" };
    let revision = commit.revision.as_deref().unwrap_or("unknown");
    table::facts([
        ("processor", format!("{}, {} cores", machine.cpu_model, machine.cores)),
        ("memory", bytes(machine.memory_bytes)),
        ("kernel", machine.kernel.clone()),
        ("source", format!("{revision}{dirty}")),
    ])
}

/// The limits as a table: one core and all cores beside each other.
#[must_use]
pub fn limits(limits: &[Limit]) -> Section {
    let mut rows = Table::new(&[
        ("limit", Align::Left),
        ("one core", Align::Right),
        ("each", Align::Right),
        ("all cores", Align::Right),
        ("times", Align::Right),
    ]);
    let shown = |limit: &Limit| table::quantity(limit.value, limit.unit);
    for limit in limits.iter().filter(|limit| !limit.name.ends_with(ALL_CORES)) {
        let all = find(limits, &format!("{}{ALL_CORES}", limit.name));
        let each = match limit.unit {
            "B/s" | "us" => String::new(),
            _ => table::quantity(1.0 / limit.value, "s"),
        };
        rows.row([
            limit.name.clone(),
            shown(limit),
            each,
            all.map(shown).unwrap_or_default(),
            all.map(|all| table::number(all.value / limit.value)).unwrap_or_default(),
        ]);
    }
    let mut section = Section::of("Limits of this machine", rows);
    if let Some(least) = limits.iter().filter_map(|limit| limit.processor_share).min_by(f64::total_cmp)
        && least < BUSY
    {
        section.note(format!(
            "The machine was busy: at worst the workers had {} of a processor. It can do more than this.",
            table::quantity(least, "share")
        ));
    }
    section
}

/// Each stage alone, beside what was published of one instance of it and what the machine allows.
#[must_use]
pub fn stages(measured: &[stages::Measured], limits: &[Limit]) -> Section {
    let mut rows = Table::new(&[
        ("stage", Align::Left),
        ("payment", Align::Left),
        ("tx/s", Align::Right),
        ("CPU each", Align::Right),
        ("published", Align::Right),
        ("times", Align::Right),
        ("bar", Align::Right),
        ("of its limit", Align::Right),
        ("the limit: what a payment needs at least", Align::Left),
    ]);
    for one in measured {
        let work = one.work();
        let share = one.share(limits);
        let payment = format!("{} legs{}", one.legs, if one.signed { ", signed" } else { "" });
        let published = one.stage.published().filter(|_| !one.signed);
        let times = one.times_published();
        rows.row([
            one.stage.name().to_owned(),
            payment,
            table::number(one.rate()),
            table::quantity(one.nanoseconds(), "ns"),
            published.map_or(String::new(), |figure| table::number(figure.value)),
            times.map_or(String::new(), |times| format!("{}×", table::number(times))),
            times.map_or(String::new(), |_| format!("{}×", one.stage.bar())),
            share.map_or("–".to_owned(), |share| table::quantity(share, "share")),
            work.to_string(),
        ]);
    }
    let mut section = Section::of("Each stage alone", rows);
    section.note(
        "One instance on one thread, on batches in memory: nothing durable in these rows. Published: one instance on \
         its own machine, unsigned (AWS Architecture Blog); only times are of two machines. Limit: those hashes, \
         updates, bytes and signatures at the rates measured on one core in this run, one after the other; both in processor time.",
    );
    section
}

fn times(value: f64) -> String {
    format!("{}×", table::number(value))
}

/// The whole network's throughput, with what it costs and what the machine allows.
#[must_use]
pub fn throughput(outcomes: &[Outcome]) -> Section {
    let mut rows = Table::new(&[
        ("whole network", Align::Left),
        ("tx/s", Align::Right),
        ("bar", Align::Right),
        ("published", Align::Right),
        ("times", Align::Right),
        ("CPU each", Align::Right),
        ("cores busy", Align::Right),
        ("memory", Align::Right),
        ("of its limit", Align::Right),
        ("the limit, and the next", Align::Left),
    ]);
    for outcome in outcomes {
        let published = outcome.published();
        let ceiling = |ceiling: &Ceiling| format!("{}: {}", table::rate(ceiling.rate), ceiling.name);
        rows.row([
            outcome.title.clone(),
            table::number(outcome.rate()),
            outcome.bar().map(bar).unwrap_or_default(),
            published.map_or(String::new(), |figure| table::number(figure.value)),
            published.map_or(String::new(), |figure| times(outcome.rate() / figure.value)),
            table::quantity(outcome.median(Measured::nanoseconds), "ns"),
            table::number(outcome.median(Measured::cores)),
            table::bytes(outcome.median(|run| run.after.resident_bytes as f64)),
            outcome.share().map_or("–".to_owned(), |share| table::quantity(share, "share")),
            outcome.ceilings.iter().map(ceiling).collect::<Vec<_>>().join("; "),
        ]);
    }
    let mut section = Section::of("The whole network", rows);
    if let Some(outcome) = outcomes.iter().find(|outcome| outcome.is_in_use()) {
        let every = outcome.run.snapshots.unwrap_or_default();
        section.note(format!(
            "{}: references are remembered for {} h, balances are saved every {} (a network in use: every minute), and a \
             payment counts when all updaters have applied it. Left out of every row: clients' connections and the \
             gateway, payers' signatures where a row does not say that payments are signed, Kafka or another machine \
             between the stages, a sequence that others witness, texts kept beside payments, and the references of the \
             whole day before. All institutions' stages share one process, each account pays rarely, and the generator \
             hands in whole batches.",
            outcome.title,
            outcome.run.workload.validity.as_secs() / 3600,
            table::duration(every),
        ));
    }
    section.note(
        "Generator included; an outcome counts once it is durable (fdatasync) and decided. Unsigned, as in the published \
         test: payers neither sign nor are verified; institutions sign their approvals, the operator its tree heads. \
         Signed: payments are prepared by their payers before the run, and each signature is verified. CPU each: of the \
         whole process, for a payment. Published: about 313 instances together, on other machines (AWS Architecture \
         Blog, 2021).",
    );
    let cores = tally_ops::process::machine().cores as f64;
    for outcome in outcomes.iter().filter(|outcome| matches!(outcome.run.load, Load::Closed(_))) {
        let busy = outcome.median(Measured::cores);
        if busy < BUSY * cores {
            section.note(format!(
                    "{}: had {} of {cores} cores. Others used the machine, or the disk was waited for; it can do more than \
                 this.",
                    outcome.title,
                    table::number(busy)
                ),
            );
        }
    }
    for outcome in outcomes.iter().filter(|outcome| matches!(outcome.run.load, Load::Closed(_))) {
        let runs: Vec<&[f64]> = outcome.runs.iter().map(|run| &run.seconds[..]).collect();
        let bar = outcome.bar().and_then(|bar| match bar {
            Bar::Rate(rate) => Some(rate),
            Bar::Share(_) => None,
        });
        section.blocks.push(curves::over_time(&outcome.title, 1.0, &runs, bar));
    }
    for outcome in outcomes.iter().filter(|outcome| outcome.refused() > 0) {
        section.note(format!("{}: {} payments were refused", outcome.title, outcome.refused()));
    }
    section
}

/// Where the processor time of a payment goes; `stages` were measured in the same run of the program.
#[must_use]
pub fn breakdown(outcomes: &[Outcome], stages: &[stages::Measured]) -> Section {
    let mut rows = Table::new(&[
        ("where the time goes", Align::Left),
        ("CPU each", Align::Right),
        ("stages alone", Align::Right),
        ("joining them", Align::Right),
        ("journal", Align::Right),
        ("driver", Align::Right),
        ("of all, in the kernel", Align::Right),
    ]);
    for outcome in outcomes {
        let workload = &outcome.run.workload;
        let workers = outcome.median(|run| run.thread_nanoseconds("tally-stage"));
        let alone = stages::alone(stages, workload.mix, workload.is_signed());
        let shown = |ns: f64| table::quantity(ns, "ns");
        rows.row([
            outcome.title.clone(),
            shown(outcome.median(Measured::nanoseconds)),
            alone.map_or("–".to_owned(), shown),
            shown(workers - alone.unwrap_or_default()),
            shown(outcome.median(|run| run.thread_nanoseconds("tally-log"))),
            shown(outcome.median(|run| run.per_payment(run.driver))),
            shown(outcome.median(|run| run.per_payment(run.kernel()))),
        ]);
    }
    let mut section = Section::of("Where the time goes", rows);
    section.note(
        "Stages alone: the sum of the rows above for all that a payment passes. Joining them: the rest of the workers' \
         time: queues, encoding and checksums of records, memory that another core wrote or frees, receipts. Journal: \
         the thread that writes and syncs. Driver: the thread that makes unsigned payments and takes outcomes.",
    );
    section
}

fn bar(bar: Bar) -> String {
    match bar {
        Bar::Rate(rate) => table::number(rate),
        Bar::Share(share) => format!("{} of limit", table::quantity(share, "share")),
    }
}

/// Latency under arrivals at a fixed rate.
#[must_use]
pub fn latency(outcomes: &[Outcome]) -> Section {
    let mut rows = Table::new(&[
        ("latency", Align::Left),
        ("arrivals", Align::Right),
        ("p50", Align::Right),
        ("p90", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("max", Align::Right),
        ("CPU each", Align::Right),
    ]);
    for outcome in outcomes {
        let Load::Open(arrivals) = outcome.run.load else { continue };
        let of = outcome.latency().percentiles();
        let shown = |us: u64| table::duration(Duration::from_micros(us));
        rows.row([
            outcome.title.clone(),
            table::rate(arrivals as f64),
            shown(of.p50_us),
            shown(of.p90_us),
            shown(of.p99_us),
            shown(of.p99_9_us),
            shown(of.max_us),
            table::quantity(outcome.median(Measured::nanoseconds), "ns"),
        ]);
    }
    let mut section = Section::of("Latency at a fixed rate of arrivals", rows);
    section.note(
        "Open loop: from each payment's intended start, the wait for its batch of a millisecond included, to its durable \
         outcome. Bars: p50 10.0 ms, p99 50.0 ms at half of the maximum rate.",
    );
    for outcome in outcomes.iter().filter(|outcome| matches!(outcome.run.load, Load::Open(_))) {
        let latency = outcome.latency();
        section.blocks.push(curves::histogram(&outcome.title, &latency));
        section.blocks.push(curves::percentiles(&outcome.title, &latency, Some(Duration::from_millis(50))));
    }
    section
}

/// How fast a journal is read back.
#[must_use]
pub fn recovery(measured: &[recovery::Measured], workload: &Workload, limits: &[Limit]) -> Section {
    let mut rows = Table::new(&[
        ("journal read back", Align::Left),
        ("transactions", Align::Right),
        ("tx/s", Align::Right),
        ("bar", Align::Right),
        ("CPU each", Align::Right),
        ("of its limit", Align::Right),
        ("the limit: what a payment needs at least, on one core", Align::Left),
    ]);
    for one in measured {
        let work = one.reader.work(workload.mix, workload.is_signed());
        let share = work.ceiling(limits).and_then(|ceiling| ceiling.share(1e9 / one.nanoseconds()));
        rows.row([
            one.reader.name().to_owned(),
            table::count(one.transactions),
            table::number(one.rate()),
            table::number(recovery::BAR),
            table::quantity(one.nanoseconds(), "ns"),
            share.map_or("–".to_owned(), |share| table::quantity(share, "share")),
            work.to_string(),
        ]);
    }
    let mix = match workload.mix {
        Mix::Inside => "payments of two legs".to_owned(),
        Mix::Between => "payments of four legs".to_owned(),
        Mix::Mixed(share) => format!("payments of two legs, {share} % of four"),
    };
    let signed = if workload.is_signed() { "signed" } else { "unsigned" };
    let mut section = Section::of("A journal read back", rows);
    section.note(format!("The journal of a run just ended, {signed} {mix}; no snapshot is used."));
    section
}

/// What many accounts take.
#[must_use]
pub fn memory(memory: &Memory) -> Section {
    let mut rows = Table::new(&[
        ("memory", Align::Left),
        ("resident", Align::Right),
        ("under load", Align::Right),
        ("load", Align::Right),
        ("bar", Align::Right),
        ("set up in", Align::Right),
    ]);
    rows.row([
        format!("{} accounts", table::count(memory.accounts)),
        table::bytes(memory.idle_bytes as f64),
        table::bytes(memory.loaded_bytes as f64),
        table::rate(memory.rate),
        table::bytes(Memory::BAR_BYTES),
        table::duration(memory.set_up),
    ]);
    let mut section = Section::of("Memory of many accounts", rows);
    section.note("Of the whole process, generator included. Accounts opened in ranges, without aliases.");
    section
}

#[cfg(test)]
mod tests;
