//! The limit of a chain's transactions: every node must find every sender by recovering a key.

use std::time::{Duration, Instant};

use tally_evm::transaction::{decode, recover};
use tally_ops::process::thread_cpu;

use crate::ceiling::Ceiling;
use crate::chain::ChainBenchError;
use crate::chain::registry::Signed;

/// Samples of the time that recoveries take.
const SAMPLES: usize = 5;
/// How long each sample lasts: the system may count processor time in steps of 10 ms.
const SAMPLE: Duration = Duration::from_millis(200);
/// Recoveries between two looks at the clock.
const AT_ONCE: usize = 50;

/// How much processor time one recovery takes, in seconds: over all samples, which come with it. Decoding and hashing are
/// left out: only the recovery is what no node can do without. By processor time, because a limit that others on the machine made
/// lower would flatter what is compared with it.
///
/// # Errors
/// A prepared transaction that is none, which would be a fault of this module.
pub fn recovery(calls: &[Signed]) -> Result<(f64, Vec<f64>), ChainBenchError> {
    let unusable = |error: tally_evm::TransactionError| ChainBenchError::Build { reason: error.to_string() };
    let decoded: Result<Vec<_>, _> = calls.iter().take(2_000).map(|call| decode(&call.encoded)).collect();
    let decoded: Vec<_> = decoded.map_err(unusable)?.into_iter().map(std::sync::Arc::new).collect();
    if decoded.is_empty() {
        return Ok((0.0, Vec::new()));
    }
    let mut samples = Vec::with_capacity(SAMPLES);
    let (mut all, mut count) = (0.0, 0_u32);
    let mut next = decoded.iter().cycle();
    for _ in 0..SAMPLES {
        let began = Instant::now();
        let before = thread_cpu().ok();
        let mut done = 0_u32;
        while began.elapsed() < SAMPLE {
            for transaction in next.by_ref().take(AT_ONCE) {
                std::hint::black_box(recover(std::sync::Arc::clone(transaction)).map_err(unusable)?);
                done += 1;
            }
        }
        // Where the system does not say, the wall's time has to do.
        let used = before.and_then(|before| Some(thread_cpu().ok()?.saturating_sub(before)));
        let seconds = used.unwrap_or_else(|| began.elapsed()).as_secs_f64();
        samples.push(seconds / f64::from(done.max(1)));
        all += seconds;
        count += done;
    }
    Ok((all / f64::from(count.max(1)), samples))
}

/// The most transactions a second that so many nodes can take on so many cores, when each of them does nothing but recover keys.
#[must_use]
pub fn ceiling(recovery_s: f64, nodes: usize, cores: usize) -> Ceiling {
    let each = recovery_s * nodes as f64;
    let rate = if each > 0.0 { cores as f64 / each } else { 0.0 };
    let recoveries = if nodes == 1 { "key recovery" } else { "key recoveries" };
    let name = format!(
        "{nodes} {recoveries} for each transaction ({:.1} µs each) on {cores} cores",
        recovery_s * 1e6
    );
    Ceiling { name, rate }
}
