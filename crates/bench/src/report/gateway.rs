//! What was measured of the gateway.

use std::time::Duration;

use super::curves;
use super::page::{Block, Section};
use crate::gateway::{self, Measured};
use crate::recorder::Recorder;
use crate::table::{self, Align, Table};

/// Each way to pay: payments a second with durable outcomes, their latency, what they cost, their bar and limit.
#[must_use]
pub fn section(measured: &[Measured]) -> Section {
    let mut rows = Table::new(&[
        ("signed payments", Align::Left),
        ("tx/s", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("max", Align::Right),
        ("CPU each", Align::Right),
        ("of it the clients", Align::Right),
        ("their cores", Align::Right),
        ("memory", Align::Right),
        ("bar", Align::Right),
        ("", Align::Left),
        ("of its limit", Align::Right),
        ("the limit", Align::Left),
    ]);
    for one in measured {
        let latency = one.latency.as_ref().map(Recorder::percentiles);
        let shown =
            |us: Option<u64>| us.map(|us| table::duration(Duration::from_micros(us))).unwrap_or_default();
        let each = crate::statistics::median(&one.nanoseconds).unwrap_or_default();
        let (bar, passes) = one.bar.clone().map(|(bar, passes)| (bar, Some(passes))).unwrap_or_default();
        rows.row([
            one.title.clone(),
            table::number(one.rate()),
            shown(latency.map(|of| of.p50_us)),
            shown(latency.map(|of| of.p99_us)),
            shown(latency.map(|of| of.p99_9_us)),
            shown(latency.map(|of| of.max_us)),
            table::duration(Duration::from_nanos(each as u64)),
            crate::statistics::median(&one.generator).map(|ns| table::quantity(ns, "ns")).unwrap_or_default(),
            one.generator_cores().map(table::number).unwrap_or_default(),
            table::bytes(one.resident_bytes as f64),
            bar,
            passes.map(|passes| if passes { "reached" } else { "missed" }).unwrap_or_default().to_owned(),
            one.share().map(|share| table::quantity(share, "share")).unwrap_or_default(),
            one.limit.as_ref().map(|limit| limit.name.clone()).unwrap_or_default(),
        ]);
    }
    let about = "Every payment is signed by its payer and verified; outcomes are told when they are durable. The CPU is that \
                 of the whole process, clients included, which share the cores with the network.";
    let mut blocks = Vec::new();
    for one in measured {
        for (part, recorder) in &one.parts {
            let of = recorder.percentiles();
            let shown = |us: u64| table::duration(Duration::from_micros(us));
            blocks.push(Block::Note(format!(
                "{}: the {part} request alone takes p50 {}, p99 {}, p99.9 {}.",
                one.title,
                shown(of.p50_us),
                shown(of.p99_us),
                shown(of.p99_9_us)
            )));
        }
        blocks.extend(one.notes.iter().cloned().map(Block::Note));
    }
    for one in measured {
        if let Some(latency) = &one.latency {
            blocks.push(curves::histogram(&one.title, latency));
            blocks.push(curves::percentiles(&one.title, latency, Some(gateway::LATENCY_BAR)));
        }
    }
    for one in measured.iter().filter(|one| one.series.iter().any(|samples| samples.len() > 1)) {
        let runs: Vec<&[f64]> = one.series.iter().map(Vec::as_slice).collect();
        blocks.push(curves::over_time(&one.title, gateway::INTERVAL.as_secs_f64(), &runs, None));
    }
    let caption = "Signed payments through the gateway, on loopback without TLS".to_owned();
    Section {
        title: "The gateway".to_owned(),
        blocks: [Block::Table(caption, rows), Block::Note(about.to_owned())]
            .into_iter()
            .chain(blocks)
            .collect(),
    }
}
