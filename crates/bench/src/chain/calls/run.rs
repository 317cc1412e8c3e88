//! One run: a network, a load, what came of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::account::{self, Account};
use super::observe::{Intervals, Observed, Spread, observe};
use super::prepare::prepare;
use super::send::{Sent, send};
use super::{Plan, limit};
use crate::chain::network::{Caller, Layout, Network, now_s, wait_for};
use crate::chain::outcome::{Outcome, Usage};
use crate::chain::registry::Signed;
use crate::chain::{ChainBenchError, GENERATOR};
use crate::fact::Fact;
use crate::processes::{Series, Watch};
use crate::progress::Progress;
use crate::published::figure;
use crate::result::Better;

/// How often processes are looked at.
const EVERY: Duration = Duration::from_millis(100);
/// How long a network may take until its first block, and a contract until it is there.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is to be reached, and what is better: transactions a second with five nodes.
const BARS: (f64, f64) = (1_000.0, 2_000.0);
/// The rate up to which latency has a bar, in transactions a second: half of what is to be reached.
const HALF: u64 = 500;
/// What the 99th percentile of latency is to be at most up to there, in seconds.
const LATENCY_BAR_S: f64 = 3.0;
/// By what share of the period blocks may come early or late.
const PERIOD_SHARE: f64 = 0.1;
/// What a node's memory is to be at most, in bytes.
const MEMORY_BAR: f64 = 300.0 * 1024.0 * 1024.0;

/// Starts a network, sends what the plan says, and finds out what became of it.
///
/// # Errors
/// [`ChainBenchError`].
pub fn run(plan: &Plan, progress: bool) -> Result<Outcome, ChainBenchError> {
    if plan.rate_tps == 0 || plan.total() == 0 {
        return Err(ChainBenchError::Plan(
            "nothing is sent: give a rate and a duration above zero".to_owned(),
        ));
    }
    let plan = &Plan {
        layout: Layout {
            followers: plan.layout.followers.max(1),
            connections: plan.connections,
            timestamp: now_s(),
            ..plan.layout.clone()
        },
        ..plan.clone()
    };
    let calls = prepare(plan);
    // Before there is a network: nothing else runs.
    let (recovery_s, recoveries) = limit::recovery(&calls.calls)?;

    let mut network = Network::make(&plan.layout)?;
    let began = Instant::now();
    network.run_all()?;
    let mut caller = network.follower().client()?;
    let stop = &plan.layout.stop;
    wait_for("the first block", PATIENCE, stop, || Ok((caller.block_number()? > 0).then_some(())))?;
    let first_block = began.elapsed();
    deploy(plan, &mut caller, &calls.creation)?;

    let address = network.follower().address()?;
    let (accepted, all_sent) = (AtomicU64::new(0), AtomicBool::new(false));
    let watch = Watch::start(network.watched(), EVERY)?;
    let watching = watch.began();
    let start = Instant::now();
    let progress = progress.then(|| Progress::stderr(&format!("{} tx/s offered", plan.rate_tps)));
    let (sent, observed) = std::thread::scope(|scope| {
        let observer =
            scope.spawn(|| observe(plan, &mut caller, &calls.numbers, start, &accepted, &all_sent, progress));
        let sent = send(plan, &calls, address, start, &accepted);
        if sent.is_err() {
            // Nothing more is to be observed; the first error is the one that is told.
            accepted.store(0, Ordering::Release);
        }
        all_sent.store(true, Ordering::Release);
        let observed = match observer.join() {
            Ok(observed) => observed,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        (sent, observed)
    });
    let processes = watch.stop();
    let stopped = |error| if stop.is_requested() { ChainBenchError::Stopped } else { error };
    let (sent, observed) = (sent.map_err(stopped)?, observed.map_err(stopped)?);

    let mut asked = network.follower().client()?;
    let account =
        account::account(&observed.committed, &sent, |number| account::fate(&mut asked, &calls, number))?;
    let (receipts, wrong) = account::sample(&mut asked, &calls, &observed.committed, plan.seed)?;
    let offset = start.saturating_duration_since(watching);
    let usage =
        Usage { processes, from: offset + plan.warm_up, until: offset + plan.warm_up + plan.duration };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let nodes = network.nodes().len();
    let ceiling = limit::ceiling(recovery_s, nodes, cores);
    let mut facts = rates(plan, &observed, &sent, &account);
    facts.push(Fact {
        samples: recoveries,
        ..Fact::new("recovery", "processor time of recovering one key", recovery_s, "s")
    });
    facts.extend(blocks(plan, &observed));
    facts.push(Fact::new(
        "first_block",
        "from the start of all processes to the first block",
        first_block.as_secs_f64(),
        "s",
    ));
    facts.extend(costs(&usage));
    facts.push(
        Fact::new(
            "receipts_wrong",
            format!("receipts missing or of failed calls, of {} looked at", receipts + observed.receipts),
            (wrong + observed.wrong_receipts) as f64,
            "",
        )
        .at_most(0.0),
    );
    let notes = notes(&account);
    let rate = observed.steady_rate(plan.warm_up, plan.warm_up + plan.duration + plan.layout.period);
    let rate = rate.unwrap_or_else(|| observed.rate());
    if rate > 0.0 {
        let each = usage.cores_without(GENERATOR) / rate;
        facts.push(Fact::new("nodes_each", "processor time of all nodes, for a call", each, "s"));
    }
    Ok(Outcome {
        name: format!("calls-{}", plan.layout.consensus.name()),
        title: format!("{} calls a second offered", plan.rate_tps),
        settings: settings(plan),
        rate,
        unit: "tx/s",
        bars: Some(BARS),
        latency: Some(observed.latency.clone()),
        facts,
        usage,
        ceiling: Some(ceiling),
        published: ["besu-1.5.0-tps", "besu-1.4.0-tps"].into_iter().filter_map(figure).collect(),
        comparable: true,
        notes,
    })
}

/// Creates the contract that is called.
fn deploy(plan: &Plan, caller: &mut Caller, creation: &Signed) -> Result<(), ChainBenchError> {
    let encoded = alloy_primitives::hex::encode_prefixed(&creation.encoded);
    let _: String = caller.call("eth_sendRawTransaction", &format!(r#"["{encoded}"]"#))?;
    let stop = &plan.layout.stop;
    let created = wait_for("the contract", PATIENCE, stop, || caller.receipt(&creation.hash))?;
    match created {
        (_, true) => Ok(()),
        (block, false) => {
            let reason = format!("the contract's creation failed in block {block}");
            Err(ChainBenchError::Build { reason })
        }
    }
}

fn settings(plan: &Plan) -> Vec<(&'static str, serde_json::Value)> {
    let layout = &plan.layout;
    vec![
        ("consensus", layout.consensus.name().into()),
        ("validators", layout.validators.into()),
        ("followers", layout.followers.into()),
        ("period_s", layout.period.as_secs_f64().into()),
        ("gas_limit", layout.gas_limit.into()),
        ("loop", "open".into()),
        ("offered_tps", plan.rate_tps.into()),
        ("accounts", plan.accounts.into()),
        ("connections", plan.connections.into()),
        ("warm_up_s", plan.warm_up.as_secs_f64().into()),
        ("duration_s", plan.duration.as_secs_f64().into()),
        ("seed", plan.seed.into()),
    ]
}

fn rates(plan: &Plan, observed: &Observed, sent: &Sent, account: &Account) -> Vec<Fact> {
    let latency = observed.latency.percentiles();
    let count = |name, title: &str, value: u64| Fact::new(name, title, value as f64, "");
    let lateness = sent.late.percentiles();
    let us = |us: u64| us as f64 / 1e6;
    let p99 = Fact::new("receipt_p99", "due to receipt, p99", us(latency.p99_us), "s");
    vec![
        Fact::new(
            "committed_rate",
            "committed, from the first due to the last block",
            observed.rate(),
            "tx/s",
        )
        .higher(),
        count("offered", "offered", account.offered).higher(),
        count("accepted", "accepted", account.accepted()).higher(),
        count("committed", "committed", account.committed).higher(),
        count("refused", "refused", account.refusals()),
        count("withheld", "not sent after a refusal of the same account", account.withheld),
        count("waiting", "waiting still", account.waiting),
        count("dropped", "let go of, with a reason", account.drops()),
        count("lost", "lost", account.lost).at_most(0.0),
        Fact::new("receipt_p50", "due to receipt, p50", us(latency.p50_us), "s"),
        if plan.rate_tps <= HALF { p99.at_most(LATENCY_BAR_S) } else { p99 },
        Fact::new("receipt_max", "due to receipt, most", us(latency.max_us), "s"),
        Fact::new("sent_late_p99", "sent after it was due, p99", us(lateness.p99_us), "s"),
        Fact::new("gas_each", "gas of a call", observed.gas_each(), ""),
    ]
}

fn blocks(plan: &Plan, observed: &Observed) -> Vec<Fact> {
    let Intervals { arrivals, timestamps } = observed.intervals(plan.warm_up, plan.warm_up + plan.duration);
    let period = plan.layout.period.as_secs_f64();
    let mut facts = Vec::new();
    if let Some(spread) = Spread::of(&arrivals) {
        let fact = |name, title: &str, value| {
            Fact::new(name, format!("block to block at the follower, {title}"), value, "s")
        };
        let least = Fact { better: Better::Higher, ..fact("block_min", "least", spread.min) };
        facts.extend([
            least.at_least(period * (1.0 - PERIOD_SHARE)),
            fact("block_p1", "p1", spread.p1).higher(),
            Fact { samples: arrivals, ..fact("block_p50", "p50", spread.p50) },
            fact("block_p99", "p99", spread.p99),
            fact("block_max", "most", spread.max).at_most(period * (1.0 + PERIOD_SHARE)),
        ]);
    }
    if let Some(spread) = Spread::of(&timestamps) {
        let fact = |name, title: &str, value| {
            Fact::new(name, format!("timestamp to timestamp, {title}"), value, "s")
        };
        facts.extend([
            fact("timestamp_min", "least", spread.min).higher(),
            Fact { samples: timestamps, ..fact("timestamp_p50", "p50", spread.p50) },
            fact("timestamp_max", "most", spread.max),
        ]);
    }
    let calls: Vec<f64> = observed.blocks.iter().map(|block| block.calls as f64).collect();
    facts.push(Fact::sampled("block_calls", "calls in a block, p50", calls, "").higher());
    let shares = observed.gas_shares();
    if let Some(spread) = Spread::of(&shares) {
        facts.push(Fact::sampled("gas_share", "share of the gas limit, p50", shares, "share"));
        facts.push(Fact::new("gas_share_max", "share of the gas limit, most", spread.max, "share"));
    }
    facts
}

fn costs(usage: &Usage) -> Vec<Fact> {
    let nodes = usage.processes.iter().filter(|process| process.label != GENERATOR);
    let written: u64 = nodes.map(|process: &Series| process.moved(usage.from, usage.until).1).sum();
    let memory = usage.most_memory_without(GENERATOR) as f64;
    vec![
        Fact::new("node_cores", "cores busy with the nodes", usage.cores_without(GENERATOR), ""),
        Fact::new("generator_cores", "cores busy with the generator", usage.cores_of(GENERATOR), ""),
        Fact::new("node_memory", "memory of the largest node, most", memory, "B").at_most(MEMORY_BAR),
        Fact::new("written", "written by all nodes", written as f64, "B"),
    ]
}

fn notes(account: &Account) -> Vec<String> {
    let refused = account.refused.iter().map(|(reason, count)| format!("refused {count}: {reason}"));
    let dropped = account.dropped.iter().map(|(reason, count)| format!("let go of {count}: {reason}"));
    let lost = (account.lost > 0).then(|| {
        format!(
            "LOST: {} transactions were accepted, and neither a block nor the pool knows of them",
            account.lost
        )
    });
    refused.chain(dropped).chain(lost).collect()
}
