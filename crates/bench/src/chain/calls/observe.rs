//! The chain as a client of the follower sees it: when each block is there, and what it holds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::B256;
use serde::Deserialize;

use super::Plan;
use super::prepare::Numbers;
use crate::chain::ChainBenchError;
use crate::chain::network::{Caller, hexadecimal};
use crate::progress::{Progress, Status};
use crate::recorder::Recorder;
use crate::statistics::quantile;

/// How often the follower is asked for its newest block.
const EVERY: Duration = Duration::from_millis(5);

/// A block as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Its number.
    pub number: u64,
    /// When it was the newest of the follower, or older than it: from the start of the run.
    pub at: Duration,
    /// Its own time, in seconds since 1970.
    pub timestamp: u64,
    /// Calls of this run in it.
    pub calls: u64,
    /// Gas that it used.
    pub gas_used: u64,
    /// Gas that it could use.
    pub gas_limit: u64,
}

/// What was seen of a run.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Blocks in order, without gaps.
    pub blocks: Vec<Seen>,
    /// From when each call was due to its receipt at the follower; calls of the warm-up are left out.
    pub latency: Recorder,
    /// Calls that were committed, by number.
    pub committed: Vec<bool>,
    /// Receipts that were asked for as soon as their block was seen, and were not there, or not as they should be.
    pub wrong_receipts: u64,
    /// Receipts that were asked for.
    pub receipts: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    timestamp: String,
    gas_used: String,
    gas_limit: String,
    transactions: Vec<B256>,
}

/// Watches the follower until all accepted calls are committed, or none is for too long after all have been sent.
///
/// # Errors
/// [`ChainBenchError`].
pub fn observe(
    plan: &Plan,
    caller: &mut Caller,
    numbers: &Numbers,
    start: Instant,
    accepted: &AtomicU64,
    all_sent: &AtomicBool,
    mut progress: Option<Progress<std::io::Stderr>>,
) -> Result<Observed, ChainBenchError> {
    let mut observed = Observed { committed: vec![false; numbers.len()], ..Observed::default() };
    let mut newest = caller.block_number()?;
    let mut committed = 0;
    let mut moved = start.elapsed();
    loop {
        let head = caller.block_number()?;
        let at = start.elapsed();
        while newest < head {
            newest += 1;
            let calls = take(plan, caller, numbers, newest, at, &mut observed)?;
            committed += calls;
            if calls > 0 {
                moved = at;
            }
        }
        if let Some(progress) = &mut progress {
            let p99 = (observed.latency.count() > 0).then(|| observed.latency.quantile(0.99));
            let total = Some(numbers.len() as u64);
            progress.update(&Status { elapsed: at, done: committed, total, p99 });
        }
        if plan.layout.stop.is_requested() {
            return Err(ChainBenchError::Stopped);
        }
        if all_sent.load(Ordering::Acquire) {
            let last = plan.due(numbers.len() as u64).max(moved);
            if committed >= accepted.load(Ordering::Acquire) || at.saturating_sub(last) > plan.patience {
                break;
            }
        }
        std::thread::sleep(EVERY);
    }
    if let Some(progress) = &mut progress {
        let elapsed = observed.blocks.iter().rfind(|block| block.calls > 0).map_or(moved, |block| block.at);
        progress.finish(&Status { elapsed, done: committed, total: None, p99: None });
    }
    Ok(observed)
}

/// Takes note of a block; says how many calls of this run are in it.
fn take(
    plan: &Plan,
    caller: &mut Caller,
    numbers: &Numbers,
    number: u64,
    at: Duration,
    observed: &mut Observed,
) -> Result<u64, ChainBenchError> {
    const METHOD: &str = "eth_getBlockByNumber";
    let block: Block = caller.call(METHOD, &format!(r#"["0x{number:x}",false]"#))?;
    let mut calls = 0;
    for hash in &block.transactions {
        let Some(call) = numbers.get(hash) else { continue };
        calls += 1;
        let due = plan.due(u64::from(*call));
        if due >= plan.warm_up {
            observed.latency.record(due, at);
        }
        if let Some(committed) = usize::try_from(*call).ok().and_then(|call| observed.committed.get_mut(call))
        {
            *committed = true;
        }
    }
    // That receipts are there with their block is what latency relies on: the last one is asked for.
    if let Some(last) = block.transactions.last() {
        observed.receipts += 1;
        if caller.receipt(last)? != Some((number, true)) {
            observed.wrong_receipts += 1;
        }
    }
    let quantity =
        |text: &str| hexadecimal(text).ok_or_else(|| ChainBenchError::answer(METHOD, text.as_bytes()));
    observed.blocks.push(Seen {
        number,
        at,
        timestamp: quantity(&block.timestamp)?,
        calls,
        gas_used: quantity(&block.gas_used)?,
        gas_limit: quantity(&block.gas_limit)?,
    });
    Ok(calls)
}

/// Times between blocks, in seconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Intervals {
    /// From one block's arrival at the follower to the next one's.
    pub arrivals: Vec<f64>,
    /// From one block's own time to the next one's.
    pub timestamps: Vec<f64>,
}

/// Minimum, 1st, 50th and 99th percentile, maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// One in a hundred is not above.
    pub p1: f64,
    /// Half are not above.
    pub p50: f64,
    /// One in a hundred is above.
    pub p99: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// The spread of some values; `None` of nothing.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let at = |share| quantile(values, share);
        Some(Self { min: at(0.0)?, p1: at(0.01)?, p50: at(0.5)?, p99: at(0.99)?, max: at(1.0)? })
    }
}

impl Observed {
    /// How many calls were committed.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.blocks.iter().map(|block| block.calls).sum()
    }

    /// Calls committed a second, from when the first was due to the last block that holds one.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let last = self.blocks.iter().rfind(|block| block.calls > 0);
        let seconds = last.map_or(0.0, |block| block.at.as_secs_f64());
        if seconds > 0.0 { self.committed() as f64 / seconds } else { 0.0 }
    }

    /// Calls committed a second between the first block after `from` and the last one before `until`: whole blocks over
    /// the time that they took. `None` where there are no two.
    #[must_use]
    pub fn steady_rate(&self, from: Duration, until: Duration) -> Option<f64> {
        let inside: Vec<&Seen> =
            self.blocks.iter().filter(|block| block.at >= from && block.at <= until).collect();
        let [first, rest @ ..] = inside.as_slice() else { return None };
        let seconds = rest.last()?.at.saturating_sub(first.at).as_secs_f64();
        let calls: u64 = rest.iter().map(|block| block.calls).sum();
        (seconds > 0.0).then(|| calls as f64 / seconds)
    }

    /// Times between blocks that came between two moments of the load. The first and the last block of a load hold a part of
    /// what the others do, and are through sooner.
    #[must_use]
    pub fn intervals(&self, from: Duration, until: Duration) -> Intervals {
        let pairs = self.blocks.windows(2).filter_map(|pair| match pair {
            [before, after] if before.at >= from && after.at <= until => Some((before, after)),
            _ => None,
        });
        let (arrivals, timestamps) = pairs
            .map(|(before, after)| {
                let arrival = after.at.saturating_sub(before.at).as_secs_f64();
                (arrival, after.timestamp.saturating_sub(before.timestamp) as f64)
            })
            .unzip();
        Intervals { arrivals, timestamps }
    }

    /// Shares of the gas limit that blocks with calls used.
    #[must_use]
    pub fn gas_shares(&self) -> Vec<f64> {
        let loaded = self.blocks.iter().filter(|block| block.calls > 0);
        loaded.map(|block| block.gas_used as f64 / block.gas_limit.max(1) as f64).collect()
    }

    /// Gas that a call uses, on average.
    #[must_use]
    pub fn gas_each(&self) -> f64 {
        let loaded = self.blocks.iter().filter(|block| block.calls > 0);
        let (gas, calls) =
            loaded.fold((0, 0), |(gas, calls), block| (gas + block.gas_used, calls + block.calls));
        if calls > 0 { gas as f64 / calls as f64 } else { 0.0 }
    }
}
