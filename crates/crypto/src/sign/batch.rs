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
use super::engine::{Decoded, Engine, Portable};
use super::keys::{BatchKeys, KnownKeys};
use super::{Signed, verify};
use curve25519_dalek::scalar::Scalar;
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
    Ifma(Box<Verifier<super::ifma::Ifma>>),
    Portable(Box<Verifier<Portable>>),
}

impl BatchVerifier {
    /// Remembers at least the last `keys` keys and at most twice as many, beside those of the last batch, at about 250
    /// bytes each.
    pub fn new(keys: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(engine) = super::ifma::Ifma::detect() {
            return Self(Kind::Ifma(Box::new(Verifier::new(engine, keys))));
        }
        Self(Kind::Portable(Box::new(Verifier::new(Portable, keys))))
    }

    /// Checks all signatures.
    ///
    /// # Errors
    /// As [`verify_batch`].
    pub fn verify(&mut self, items: &[Signed]) -> Result<(), Vec<usize>> {
        match &mut self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Ifma(verifier) => verifier.verify(items),
            Kind::Portable(verifier) => verifier.verify(items),
        }
    }
}

/// [`BatchVerifier`] by one kind of arithmetic.
pub(super) struct Verifier<E: Engine> {
    engine: E,
    known: KnownKeys<E::Point>,
    terms: Terms<E>,
}

impl<E: Engine> Verifier<E> {
    pub(super) fn new(engine: E, keys: usize) -> Self {
        Self { engine, known: KnownKeys::new(keys), terms: Terms::default() }
    }

    /// As [`BatchVerifier::verify`].
    pub(super) fn verify(&mut self, items: &[Signed]) -> Result<(), Vec<usize>> {
        let mut valid = vec![true; items.len()];
        if items.len() < SINGLE {
            separately(items, 0..items.len(), &mut valid);
        } else {
            let keys = self.known.find(&self.engine, items.iter().map(|item| item.key));
            self.terms.set(&self.engine, keys, items, &mut valid);
            let mut equation = Equation { engine: &mut self.engine, keys, items, terms: &mut self.terms };
            let sum = equation.sum(0..items.len());
            equation.search(0..items.len(), sum, &mut valid);
        }
        let bad: Vec<usize> = (0..items.len()).filter(|position| !valid[*position]).collect();
        if bad.is_empty() { Ok(()) } else { Err(bad) }
    }
}

fn separately(items: &[Signed], range: Range<usize>, valid: &mut [bool]) {
    for position in range {
        let Signed { key, message, signature } = &items[position];
        valid[position] = verify(key, message.as_bytes(), signature).is_ok();
    }
}

/// The terms of the equation; those of an item that cannot be decoded are zero.
struct Terms<E: Engine> {
    /// `R` and `z` of each item.
    encodings: Vec<[u8; 32]>,
    r: Decoded<E::Point>,
    z: Vec<u128>,
    /// `s` and `z k` of each item.
    s: Vec<Reduced>,
    zk: Vec<Scalar>,
    /// A coefficient for each key's point; all zero between calls of `sum`.
    coefficients: Vec<Scalar>,
    /// The keys of a range and their coefficients.
    long: Vec<(Scalar, usize)>,
}

impl<E: Engine> Default for Terms<E> {
    fn default() -> Self {
        Self {
            encodings: Vec::new(),
            r: Decoded::default(),
            z: Vec::new(),
            s: Vec::new(),
            zk: Vec::new(),
            coefficients: Vec::new(),
            long: Vec::new(),
        }
    }
}

impl<E: Engine> Terms<E> {
    /// Decodes the batch, marking as not valid what no equation can save.
    fn set(&mut self, engine: &E, keys: &BatchKeys<E::Point>, items: &[Signed], valid: &mut [bool]) {
        self.encodings.clear();
        self.encodings.extend(items.iter().map(|item| *item.signature.r_bytes()));
        engine.decode(&self.encodings, &mut self.r);

        let mut seeds = blake3::Hasher::new_derive_key("tallystick 2026 ed25519 batch coefficients v1")
            .update(bytemuck::cast_slice(items))
            .finalize_xof();
        self.z.resize(items.len(), 0);
        seeds.fill(bytemuck::cast_slice_mut(&mut self.z));
        self.s.clear();
        engine.challenges(items, &mut self.zk);
        for (position, item) in items.iter().enumerate() {
            let s = Reduced::parse(item.signature.s_bytes());
            let decoded = keys.known.valid[keys.of_item[position]] && self.r.valid[position];
            let (Some(s), true) = (s, decoded) else {
                valid[position] = false;
                self.z[position] = 0;
                self.s.push(Reduced::ZERO);
                self.zk[position] = Scalar::ZERO;
                continue;
            };
            self.z[position] = u128::from_le(self.z[position]) >> (128 - COEFFICIENT_BITS);
            self.s.push(s);
            self.zk[position] *= Scalar::from(self.z[position]);
        }
        self.coefficients.clear();
        self.coefficients.resize(keys.known.points.len(), Scalar::ZERO);
    }
}

/// The equation of one batch.
struct Equation<'a, E: Engine> {
    engine: &'a mut E,
    keys: &'a BatchKeys<E::Point>,
    items: &'a [Signed],
    terms: &'a mut Terms<E>,
}

impl<E: Engine> Equation<'_, E> {
    /// The left-hand side of the equation over a range of the items, before the cofactor.
    fn sum(&mut self, range: Range<usize>) -> E::Sum {
        let Terms { r, z, s, zk, coefficients, long, .. } = &mut *self.terms;
        let mut base = Accumulator::default();
        long.clear();
        long.push((Scalar::ZERO, 0));
        for position in range.clone() {
            let key = self.keys.of_item[position];
            if coefficients[key] == Scalar::ZERO {
                long.push((Scalar::ZERO, key));
            }
            coefficients[key] += zk[position];
            base.add_product(z[position], &s[position]);
        }
        coefficients[0] = -base.reduce();
        for (coefficient, key) in long.iter_mut() {
            *coefficient = std::mem::take(&mut coefficients[*key]);
        }
        self.engine.sum(long, &self.keys.known.points, &z[range.clone()], &r.points[range])
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
