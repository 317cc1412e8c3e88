//! The limit of a chain's transactions: every node must find every sender by recovering a key.

use std::time::{Duration, Instant};

use tally_evm::transaction::{decode, recover};

use crate::chain::ChainBenchError;
use crate::chain::registry::Signed;
use crate::fact::Ceiling;
use crate::statistics::median;

/// How long recoveries are timed.
const TIME: Duration = Duration::from_millis(600);
/// Recoveries of one sample.
const AT_ONCE: usize = 50;

/// How long one recovery takes on one core, in seconds: the median of the samples that come with it. Decoding and hashing are
/// left out: only the recovery is what no node can do without.
///
/// # Errors
/// A prepared transaction that is none, which would be a fault of this module.
pub fn recovery(calls: &[Signed]) -> Result<(f64, Vec<f64>), ChainBenchError> {
    let unusable = |error: tally_evm::TransactionError| ChainBenchError::Build { reason: error.to_string() };
    let decoded: Result<Vec<_>, _> = calls.iter().take(2_000).map(|call| decode(&call.encoded)).collect();
    let decoded: Vec<_> = decoded.map_err(unusable)?.into_iter().map(std::sync::Arc::new).collect();
    let mut samples = Vec::new();
    let began = Instant::now();
    while began.elapsed() < TIME && !decoded.is_empty() {
        for part in decoded.chunks(AT_ONCE) {
            let sample = Instant::now();
            for transaction in part {
                std::hint::black_box(recover(std::sync::Arc::clone(transaction)).map_err(unusable)?);
            }
            samples.push(sample.elapsed().as_secs_f64() / part.len() as f64);
        }
    }
    Ok((median(&samples).unwrap_or(0.0), samples))
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
