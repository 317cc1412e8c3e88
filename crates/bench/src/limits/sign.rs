//! How fast this machine signs and verifies.

use std::hint::black_box;
use std::sync::Arc;

use tally_crypto::{Signed, SigningKey, hash, verify, verify_batch};

use super::Limit;
use super::meter::Meter;

pub(super) const COUNT: usize = 5;

const BATCH: usize = 1024;
const LARGE_BATCH: usize = 4096;
const FEW_KEYS: usize = 8;
/// Signatures made or verified one at a time between two looks at the clock.
const ROUND: usize = 16;
const UNIT: &str = "signature/s";

pub(super) fn measure(meter: &Meter, cores: usize, add: &mut impl FnMut(Limit)) {
    let keys: Arc<[SigningKey]> = (0..LARGE_BATCH).map(key).collect();
    let distinct = claims(&keys[..BATCH], BATCH);
    let few = claims(&keys[..FEW_KEYS], BATCH);
    let large = claims(&keys, LARGE_BATCH);

    let sign = |n| {
        let worker = |_| {
            let (keys, mut round) = (Arc::clone(&keys), 0_usize);
            move || {
                round = round.wrapping_add(1);
                let key = &keys[round % BATCH];
                for message in 0..ROUND {
                    black_box(key.sign(&[message as u8; 32]));
                }
                ROUND as u64
            }
        };
        (0..n).map(worker).collect()
    };
    Limit::rates(meter, "ed25519-sign", UNIT, cores, sign, add);

    let single = |n| {
        let worker = |_| {
            let (claims, mut rounds) = (Arc::clone(&distinct), 0_usize);
            move || {
                let from = rounds * ROUND % BATCH;
                rounds = rounds.wrapping_add(1) % BATCH;
                for claim in &claims[from..from + ROUND] {
                    // Whether it is good was checked when it was made; a worker does not panic.
                    let _ = black_box(verify(&claim.key, claim.message.as_bytes(), &claim.signature));
                }
                ROUND as u64
            }
        };
        (0..n).map(worker).collect()
    };
    Limit::rates(meter, "ed25519-verify", UNIT, cores, single, add);

    for (name, claims) in [
        ("ed25519-verify-batch-1024", &distinct),
        ("ed25519-verify-batch-1024-few-keys", &few),
        ("ed25519-verify-batch-4096", &large),
    ] {
        let batch = |n| {
            let worker = |_| {
                let claims = Arc::clone(claims);
                move || {
                    let _ = black_box(verify_batch(&claims));
                    claims.len() as u64
                }
            };
            (0..n).map(worker).collect()
        };
        Limit::rates(meter, name, UNIT, cores, batch, add);
    }
}

fn key(number: usize) -> SigningKey {
    SigningKey::from_seed(*hash(&number.to_le_bytes()).as_bytes())
}

/// A batch of `count` good signatures by these keys in turn.
///
/// # Panics
/// When they do not verify: a bad batch takes another path and would be no limit.
fn claims(keys: &[SigningKey], count: usize) -> Arc<[Signed]> {
    let claims: Arc<[Signed]> = keys
        .iter()
        .cycle()
        .take(count)
        .enumerate()
        .map(|(at, key)| {
            let message = hash(&(at + LARGE_BATCH).to_le_bytes());
            Signed { key: key.public_key(), message, signature: key.sign(message.as_bytes()) }
        })
        .collect();
    assert!(verify_batch(&claims).is_ok(), "signatures just made verify");
    claims
}
