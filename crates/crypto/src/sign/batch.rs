//! Many signatures in one equation.
//!
//! With a coefficient `z_i` for each signature, all are valid if and (but for one chance in
//! 2^126) only if
//!
//! ```text
//! 8 ( sum(z_i R_i) + sum(z_i k_i A_i) - sum(z_i s_i) B ) = 0
//! ```
//!
//! which is one multi-scalar multiplication, several times cheaper than the separate ones.
//! Signatures by the same key share one term. The `z_i` come from a hash of the whole batch
//! (as in Chalkias, Garillot, Nikolaenko, "Taming the many EdDSAs", section 5): whoever chooses the
//! signatures cannot choose the coefficients, and no random source is needed.

use super::accumulator::{Accumulator, Reduced};
use super::engine::{Engine, Portable};
use super::{PublicKey, Signed, verify};
use curve25519_dalek::constants::ED25519_BASEPOINT_COMPRESSED;
use curve25519_dalek::scalar::Scalar;
use std::collections::HashMap;
use std::ops::Range;

/// Below this many signatures the shared equation has no advantage over separate ones.
const SINGLE: usize = 4;

/// Bits of a coefficient: as hard to guess as the group's discrete logarithm, and small enough for
/// signed digits not to carry beyond 128 bits.
const COEFFICIENT_BITS: u32 = 126;

/// Checks all signatures, by the same rules as [`verify`] one at a time.
///
/// A batch of good signatures costs one equation. Otherwise the batch is halved until the bad
/// ones are found, each at the cost of about one more pass over the batch at most, so that a
/// sender of bad signatures delays the others little.
///
/// # Errors
/// The positions of exactly those items that are not valid, in ascending order.
pub fn verify_batch(items: &[Signed]) -> Result<(), Vec<usize>> {
    BatchVerifier::new(0).verify(items)
}

/// [`verify_batch`] for one batch after the other: remembers the points that keys stand for, whose
/// decoding is a good part of a verification, so that those who sign again cost less.
pub struct BatchVerifier(Kind);

enum Kind {
    #[cfg(target_arch = "x86_64")]
    Ifma(super::ifma::Ifma, KnownKeys<<super::ifma::Ifma as Engine>::Point>),
    Portable(KnownKeys<<Portable as Engine>::Point>),
}

impl BatchVerifier {
    /// Remembers at least the last `keys` keys and at most twice as many, at about 250 bytes each.
    pub fn new(keys: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(engine) = super::ifma::Ifma::detect() {
            return Self(Kind::Ifma(engine, KnownKeys::new(keys)));
        }
        Self(Kind::Portable(KnownKeys::new(keys)))
    }

    /// Checks all signatures.
    ///
    /// # Errors
    /// As [`verify_batch`].
    pub fn verify(&mut self, items: &[Signed]) -> Result<(), Vec<usize>> {
        match &mut self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Ifma(engine, known) => verify_with(*engine, known, items),
            Kind::Portable(known) => verify_with(Portable, known, items),
        }
    }
}

/// Decoded keys in two generations: when the younger is full it becomes the older, and what nobody
/// asked for meanwhile goes.
pub(super) struct KnownKeys<P> {
    young: HashMap<PublicKey, (P, bool)>,
    old: HashMap<PublicKey, (P, bool)>,
    limit: usize,
}

impl<P: Copy> KnownKeys<P> {
    pub(super) fn new(limit: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), limit }
    }

    fn get(&mut self, key: &PublicKey) -> Option<(P, bool)> {
        if let Some(known) = self.young.get(key) {
            return Some(*known);
        }
        let known = *self.old.get(key)?;
        self.insert(*key, known);
        Some(known)
    }

    fn insert(&mut self, key: PublicKey, decoded: (P, bool)) {
        if self.limit == 0 {
            return;
        }
        if self.young.len() >= self.limit {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, decoded);
    }
}

/// [`verify_batch`] by one kind of arithmetic.
pub(super) fn verify_with<E: Engine>(
    engine: E,
    known: &mut KnownKeys<E::Point>,
    items: &[Signed],
) -> Result<(), Vec<usize>> {
    let mut valid = vec![true; items.len()];
    if items.len() < SINGLE {
        separately(items, 0..items.len(), &mut valid);
    } else {
        let mut equation = Equation::new(engine, known, items, &mut valid);
        let sum = equation.sum(0..items.len());
        equation.search(0..items.len(), sum, &mut valid);
    }
    let bad: Vec<usize> = (0..items.len()).filter(|position| !valid[*position]).collect();
    if bad.is_empty() { Ok(()) } else { Err(bad) }
}

fn separately(items: &[Signed], range: Range<usize>, valid: &mut [bool]) {
    for position in range {
        let Signed { key, message, signature } = &items[position];
        valid[position] = verify(key, message.as_bytes(), signature).is_ok();
    }
}

/// The position of each item's key among the keys, the keys' points after the base point, and which are valid.
fn decode_keys<E: Engine>(
    engine: E,
    known: &mut KnownKeys<E::Point>,
    items: &[Signed],
) -> (Vec<usize>, Vec<E::Point>, Vec<bool>) {
    let mut encodings = vec![ED25519_BASEPOINT_COMPRESSED.to_bytes()];
    let mut found = vec![None];
    let mut positions: HashMap<PublicKey, usize> = HashMap::with_capacity(items.len());
    let mut key = Vec::with_capacity(items.len());
    for item in items {
        key.push(*positions.entry(item.key).or_insert_with(|| {
            let decoded = known.get(&item.key);
            if decoded.is_none() {
                encodings.push(item.key.0);
            }
            found.push(decoded);
            found.len() - 1
        }));
    }
    let (points, points_valid) = engine.decode(&encodings);
    let mut decoded = points.into_iter().zip(points_valid);
    let mut fresh = encodings.iter();
    let all = found.into_iter().map(|found| match found {
        Some(known) => known,
        None => {
            let new = decoded.next().expect("every key that was not known is decoded");
            if let Some(encoding) = fresh.next() {
                known.insert(PublicKey(*encoding), new);
            }
            new
        }
    });
    let (keys, keys_valid) = all.unzip();
    (key, keys, keys_valid)
}

/// The terms of the equation; those of an item that cannot be decoded are zero.
struct Equation<'a, E: Engine> {
    engine: E,
    items: &'a [Signed],
    /// `R` and `z` of each item.
    r: Vec<E::Point>,
    z: Vec<u128>,
    /// `s` and `z k` of each item.
    s: Vec<Reduced>,
    zk: Vec<Scalar>,
    /// Position of each item's key in `keys`.
    key: Vec<usize>,
    /// The base point, then every key once.
    keys: Vec<E::Point>,
    /// A coefficient for each of `keys`; all zero between calls of `sum`.
    coefficients: Vec<Scalar>,
}

impl<'a, E: Engine> Equation<'a, E> {
    /// Decodes the batch, marking as not valid what no equation can save.
    fn new(engine: E, known: &mut KnownKeys<E::Point>, items: &'a [Signed], valid: &mut [bool]) -> Self {
        let (key, keys, keys_valid) = decode_keys(engine, known, items);
        let mut encodings = Vec::with_capacity(items.len());
        encodings.extend(items.iter().map(|item| *item.signature.r_bytes()));
        let (r, r_valid) = engine.decode(&encodings);

        let mut seeds = blake3::Hasher::new_derive_key("tallystick 2026 ed25519 batch coefficients v1")
            .update(bytemuck::cast_slice(items))
            .finalize_xof();
        let mut z = vec![0u128; items.len()];
        seeds.fill(bytemuck::cast_slice_mut(&mut z));
        let mut s = vec![Reduced::ZERO; items.len()];
        let mut zk = engine.challenges(items);
        for (position, item) in items.iter().enumerate() {
            let parsed = Reduced::parse(item.signature.s_bytes());
            let (Some(parsed), true, true) = (parsed, keys_valid[key[position]], r_valid[position]) else {
                valid[position] = false;
                z[position] = 0;
                zk[position] = Scalar::ZERO;
                continue;
            };
            z[position] = u128::from_le(z[position]) >> (128 - COEFFICIENT_BITS);
            s[position] = parsed;
            zk[position] *= Scalar::from(z[position]);
        }
        let coefficients = vec![Scalar::ZERO; keys.len()];
        Self { engine, items, r, z, s, zk, key, keys, coefficients }
    }

    /// The left-hand side of the equation over a range of the items, before the cofactor.
    fn sum(&mut self, range: Range<usize>) -> E::Sum {
        let mut base = Accumulator::default();
        let mut used = vec![0];
        for position in range.clone() {
            let key = self.key[position];
            if self.coefficients[key] == Scalar::ZERO {
                used.push(key);
            }
            self.coefficients[key] += self.zk[position];
            base.add_product(self.z[position], &self.s[position]);
        }
        self.coefficients[0] = -base.reduce();
        let long: Vec<(Scalar, &E::Point)> = used
            .into_iter()
            .map(|key| (std::mem::take(&mut self.coefficients[key]), &self.keys[key]))
            .collect();
        self.engine.sum(&long, &self.z[range.clone()], &self.r[range])
    }

    /// Finds the bad signatures of a range whose sum is known.
    fn search(&mut self, range: Range<usize>, sum: E::Sum, valid: &mut [bool]) {
        if self.engine.is_small_order(&sum) {
            return;
        }
        if range.len() < 2 * SINGLE {
            separately(self.items, range, valid);
            return;
        }
        let middle = range.start + range.len() / 2;
        let left = self.sum(range.start..middle);
        let right = self.engine.subtract(&sum, &left);
        self.search(range.start..middle, left, valid);
        self.search(middle..range.end, right, valid);
    }
}
