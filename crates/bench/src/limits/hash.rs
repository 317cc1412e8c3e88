//! How fast this machine hashes.

use std::hint::black_box;

use sha2::{Digest, Sha256};
use tally_crypto::{Hash, hash, hash_many};

use super::Limit;
use super::meter::Meter;

pub(super) const COUNT: usize = 5;

/// Inputs of a round: they stay in the second-level cache, as a batch that was just read does.
const INPUTS: usize = 1024;
const UNIT: &str = "hash/s";

pub(super) fn measure(meter: &Meter, cores: usize, add: &mut impl FnMut(Limit)) {
    each::<64>(meter, "blake3-64", cores, blake3, add);
    Limit::rates(meter, "blake3-64-many", UNIT, cores, |n| workers(n, many), add);
    each::<200>(meter, "blake3-200", cores, blake3, add);
    each::<64>(meter, "sha256-64", cores, sha256, add);
    each::<200>(meter, "sha256-200", cores, sha256, add);
}

fn each<const N: usize>(
    meter: &Meter,
    name: &str,
    cores: usize,
    one: impl Fn(&[u8; N]) -> u8 + Copy + Send,
    add: &mut impl FnMut(Limit),
) {
    let round = move |inputs: &[[u8; N]], _: &mut Vec<Hash>| {
        for input in inputs {
            black_box(one(input));
        }
    };
    Limit::rates(meter, name, UNIT, cores, |n| workers(n, round), add);
}

fn workers<const N: usize>(
    n: usize,
    round: impl Fn(&[[u8; N]], &mut Vec<Hash>) + Copy + Send,
) -> Vec<impl FnMut() -> u64 + Send> {
    let worker = |at: usize| {
        let inputs: Vec<[u8; N]> = (0..INPUTS).map(|input| [(input * 31 + at) as u8; N]).collect();
        let mut hashes = Vec::with_capacity(INPUTS);
        move || {
            hashes.clear();
            round(black_box(&inputs), &mut hashes);
            black_box(&hashes);
            INPUTS as u64
        }
    };
    (0..n).map(worker).collect()
}

fn blake3<const N: usize>(input: &[u8; N]) -> u8 {
    hash(input).as_bytes()[0]
}

fn sha256<const N: usize>(input: &[u8; N]) -> u8 {
    Sha256::digest(input)[0]
}

fn many(inputs: &[[u8; 64]], hashes: &mut Vec<Hash>) {
    hash_many(inputs, hashes);
}
