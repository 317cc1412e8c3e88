//! How long a proof takes to be read and verified: `cargo run --release -p tally-proof --example measure`

use std::hint::black_box;
use std::time::{Duration, Instant};
use tally_proof::{Keys, Proof};

const PROOF: &str = include_str!("../tests/golden/proof.json");
const KEYS: &str = include_str!("../tests/golden/keys.json");
const RUNS: usize = 2_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys: Keys = serde_json::from_str(KEYS)?;
    let proof: Proof = serde_json::from_str(PROOF)?;
    let mut verify = Vec::with_capacity(RUNS);
    let mut both = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let began = Instant::now();
        black_box(black_box(&proof).verify(&keys)?);
        verify.push(began.elapsed());
        let began = Instant::now();
        let read: Proof = serde_json::from_str(black_box(PROOF))?;
        black_box(read.verify(&keys)?);
        both.push(began.elapsed());
    }
    println!("{} approvals, {} bytes of JSON, {RUNS} runs, one core", proof.approvals.len(), PROOF.len());
    line("verify", &mut verify);
    line("read and verify", &mut both);
    Ok(())
}

fn line(what: &str, samples: &mut [Duration]) {
    samples.sort_unstable();
    let at = |share: usize| samples[(samples.len() - 1) * share / 100].as_micros();
    println!("{what:16} p50 {} µs, p99 {} µs, longest {} µs (bar: 1,000 µs)", at(50), at(99), at(100));
}
