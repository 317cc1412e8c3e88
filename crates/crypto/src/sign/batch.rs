//! Many signatures in one equation.
//!
//! With a coefficient `z_i` for each signature, all are valid if and (but for one chance in
//! 2^128) only if
//!
//! ```text
//! 8 ( sum(z_i R_i) + sum(z_i k_i A_i) - sum(z_i s_i) B ) = 0
//! ```
//!
//! which is one multi-scalar multiplication, several times cheaper than the separate ones.
//! Signatures by the same key share one term. The `z_i` come from a hash of the whole batch
//! (as in Chalkias, Garillot, Nikolaenko, "Taming the many EdDSAs", section 5): whoever chooses the
//! signatures cannot choose the coefficients, and no random source is needed.

use super::{Signed, challenge, verify};
use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{IsIdentity, VartimeMultiscalarMul};
use std::collections::HashMap;

/// Below this many signatures the shared equation has no advantage over separate ones.
const SINGLE: usize = 8;

/// Checks all signatures, by the same rules as [`verify`] one at a time.
///
/// A batch of good signatures costs one equation. Otherwise the batch is halved until the bad
/// ones are found, each at the cost of about one more pass over the batch at most, so that a
/// sender of bad signatures delays the others little.
///
/// # Errors
/// The positions of exactly those items that are not valid, in ascending order.
pub fn verify_batch(items: &[Signed]) -> Result<(), Vec<usize>> {
    let mut bad = Vec::new();
    if items.len() < SINGLE {
        single(items, 0..items.len(), &mut bad);
    } else {
        let mut equation = Equation::new(items, &mut bad);
        let all = 0..equation.terms.len();
        let sum = equation.sum(all.clone());
        equation.search(items, all, sum, &mut bad);
    }
    if bad.is_empty() {
        return Ok(());
    }
    bad.sort_unstable();
    Err(bad)
}

fn single(items: &[Signed], positions: impl Iterator<Item = usize>, bad: &mut Vec<usize>) {
    for position in positions {
        let Signed { key, message, signature } = &items[position];
        if verify(key, message.as_bytes(), signature).is_err() {
            bad.push(position);
        }
    }
}

/// What one signature adds to the equation.
struct Term {
    /// Position among the items.
    item: usize,
    /// Position of its key among the distinct keys.
    key: usize,
    r: EdwardsPoint,
    z: Scalar,
    zs: Scalar,
    zk: Scalar,
}

struct Equation {
    terms: Vec<Term>,
    keys: Vec<EdwardsPoint>,
    /// Coefficient of each key; all zero between calls of `sum`.
    coefficients: Vec<Scalar>,
}

impl Equation {
    /// Decodes the batch; items that no equation can save are reported at once.
    fn new(items: &[Signed], bad: &mut Vec<usize>) -> Self {
        let mut seeds = blake3::Hasher::new_derive_key("tallystick 2026 ed25519 batch coefficients v1")
            .update(bytemuck::cast_slice(items))
            .finalize_xof();
        let mut positions = HashMap::with_capacity(items.len());
        let mut keys = Vec::new();
        let mut terms = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let mut z = [0; 16];
            seeds.fill(&mut z);
            let z = Scalar::from(u128::from_le_bytes(z));
            let key = *positions.entry(item.key).or_insert_with(|| {
                let point = CompressedEdwardsY(item.key.0).decompress()?;
                keys.push(point);
                Some(keys.len() - 1)
            });
            let r = CompressedEdwardsY(*item.signature.r_bytes()).decompress();
            let (Some(key), Some(r), Some(s)) = (key, r, item.signature.s()) else {
                bad.push(position);
                continue;
            };
            let k = challenge(item.signature.r_bytes(), &item.key, item.message.as_bytes());
            terms.push(Term { item: position, key, r, z, zs: z * s, zk: z * k });
        }
        let coefficients = vec![Scalar::ZERO; keys.len()];
        Self { terms, keys, coefficients }
    }

    /// The left-hand side of the equation over a range of the terms, before the cofactor.
    fn sum(&mut self, range: std::ops::Range<usize>) -> EdwardsPoint {
        let terms = &self.terms[range];
        let mut base = Scalar::ZERO;
        let mut used = Vec::new();
        for term in terms {
            base -= term.zs;
            if self.coefficients[term.key] == Scalar::ZERO {
                used.push(term.key);
            }
            self.coefficients[term.key] += term.zk;
        }
        let scalars = std::iter::once(base)
            .chain(used.iter().map(|key| self.coefficients[*key]))
            .chain(terms.iter().map(|term| term.z))
            .collect::<Vec<_>>();
        let points = std::iter::once(&ED25519_BASEPOINT_POINT)
            .chain(used.iter().map(|key| &self.keys[*key]))
            .chain(terms.iter().map(|term| &term.r));
        let sum = EdwardsPoint::vartime_multiscalar_mul(&scalars, points);
        for key in used {
            self.coefficients[key] = Scalar::ZERO;
        }
        sum
    }

    /// Finds the bad signatures of a range whose sum is known.
    fn search(
        &mut self,
        items: &[Signed],
        range: std::ops::Range<usize>,
        sum: EdwardsPoint,
        bad: &mut Vec<usize>,
    ) {
        if sum.mul_by_cofactor().is_identity() {
            return;
        }
        if range.len() < 2 * SINGLE {
            single(items, self.terms[range].iter().map(|term| term.item), bad);
            return;
        }
        let middle = range.start + range.len() / 2;
        let left = self.sum(range.start..middle);
        self.search(items, range.start..middle, left, bad);
        self.search(items, middle..range.end, sum - left, bad);
    }
}
