//! The arithmetic of the batch equation on CPUs with AVX-512 IFMA, eight at a time.
//!
//! Everything here works on public data and in time that depends on it.
//!
//! The functions inside need instructions that not every CPU has, which is what `unsafe` is about:
//! an [`Ifma`] exists only where they were detected, and only its methods call them.

mod field;
mod point;
mod sha512;
mod sum;

use super::Signed;
use super::engine::{Decoded, Engine};
use curve25519_dalek::scalar::Scalar;
use point::{Point, Row};

/// Proof that this CPU has the instructions, and the memory in which sums are made.
pub(super) struct Ifma(sum::Workspace);

impl Ifma {
    /// Looks for AVX-512 F, DQ and IFMA; `None` where any is missing.
    pub(super) fn detect() -> Option<Self> {
        let found = std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512dq")
            && std::arch::is_x86_feature_detected!("avx512ifma");
        found.then(|| Self(sum::Workspace::default()))
    }
}

impl Engine for Ifma {
    type Point = Point;
    type Sum = Row;

    fn challenges(&self, items: &[Signed], into: &mut Vec<Scalar>) {
        into.clear();
        for chunk in items.chunks(8) {
            let mut inputs = [[0; 96]; 8];
            for (input, item) in inputs.iter_mut().zip(chunk) {
                input[..32].copy_from_slice(item.signature.r_bytes());
                input[32..64].copy_from_slice(item.key.as_bytes());
                input[64..].copy_from_slice(item.message.as_bytes());
            }
            // SAFETY: `self` exists, so `detect` found every instruction set that is enabled there.
            let digests = unsafe { sha512::eight(&inputs) };
            into.extend(digests[..chunk.len()].iter().map(|words| {
                let mut digest = [0; 64];
                digest.as_chunks_mut::<8>().0.copy_from_slice(&words.map(u64::to_be_bytes));
                Scalar::from_bytes_mod_order_wide(&digest)
            }));
        }
    }

    fn decode(&self, encodings: &[[u8; 32]], into: &mut Decoded<Point>) {
        into.clear();
        for chunk in encodings.chunks(16) {
            let mut sixteen = [[[0; 32]; 8]; 2];
            sixteen.as_flattened_mut()[..chunk.len()].copy_from_slice(chunk);
            // SAFETY: as above.
            for (points, mask) in unsafe { decode_sixteen(&sixteen) } {
                into.points.extend(points);
                into.valid.extend((0..8).map(|lane| mask >> lane & 1 == 1));
            }
        }
        into.points.truncate(encodings.len());
        into.valid.truncate(encodings.len());
    }

    fn touch(&self, point: &Point) -> u64 {
        point.touch()
    }

    fn sum(&mut self, long: &[(Scalar, usize)], keys: &[Point], scalars: &[u128], points: &[Point]) -> Row {
        // SAFETY: as above.
        unsafe { sum::sum(&mut self.0, long, keys, scalars, points) }
    }

    fn subtract(&self, a: &Row, b: &Row) -> Row {
        // SAFETY: as above.
        unsafe { subtract(a, b) }
    }

    fn is_small_order(&self, sum: &Row) -> bool {
        // SAFETY: as above.
        unsafe { is_small_order(sum) }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn decode_sixteen(encodings: &[[[u8; 32]; 8]; 2]) -> [([Point; 8], u8); 2] {
    point::decode(encodings).map(|(prepared, valid)| (point::points(&prepared), valid))
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn subtract(a: &Row, b: &Row) -> Row {
    let b = point::negate(point::broadcast_row(b));
    point::store(point::add_points(point::broadcast_row(a), b))[0]
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn is_small_order(sum: &Row) -> bool {
    point::is_small_order(point::broadcast_row(sum)) != 0
}

#[cfg(test)]
mod tests;
