//! The group arithmetic that the batch equation needs, and its portable form.

use super::{Signed, challenge};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{Identity, IsIdentity, VartimeMultiscalarMul};

/// Decoded points, and which of the encodings stood for one; the others are the identity.
#[derive(Debug, Clone)]
pub(super) struct Decoded<P> {
    pub(super) points: Vec<P>,
    pub(super) valid: Vec<bool>,
}

impl<P> Default for Decoded<P> {
    fn default() -> Self {
        Self { points: Vec::new(), valid: Vec::new() }
    }
}

impl<P> Decoded<P> {
    pub(super) fn clear(&mut self) {
        self.points.clear();
        self.valid.clear();
    }
}

/// Arithmetic on edwards25519 with public data. Results go into vectors of the caller, which thereby keep their
/// memory from one batch to the next: fresh pages for each would cost a tenth of a verification.
pub(super) trait Engine {
    /// A decoded point.
    type Point: Copy;
    /// A sum of multiples of points.
    type Sum;

    /// `k` of RFC 8032 section 5.1.7 for each item.
    fn challenges(&self, items: &[Signed], into: &mut Vec<Scalar>);

    /// Decodes points by the rules of ZIP-215.
    fn decode(&self, encodings: &[[u8; 32]], into: &mut Decoded<Self::Point>);

    /// Reads a point ahead of use; the result says nothing.
    fn touch(&self, point: &Self::Point) -> u64;

    /// The sum of all products of a scalar and its point: `long` names points of `keys` by position; `scalars`,
    /// those of `points`, are below 2^126.
    fn sum(
        &mut self,
        long: &[(Scalar, usize)],
        keys: &[Self::Point],
        scalars: &[u128],
        points: &[Self::Point],
    ) -> Self::Sum;

    /// `a - b`.
    fn subtract(&self, a: &Self::Sum, b: &Self::Sum) -> Self::Sum;

    /// Whether 8 times the sum is the identity.
    fn is_small_order(&self, sum: &Self::Sum) -> bool;
}

/// curve25519-dalek: AVX2 where there is, otherwise plain integers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

impl Engine for Portable {
    type Point = EdwardsPoint;
    type Sum = EdwardsPoint;

    fn challenges(&self, items: &[Signed], into: &mut Vec<Scalar>) {
        into.clear();
        into.extend(
            items.iter().map(|item| challenge(item.signature.r_bytes(), &item.key, item.message.as_bytes())),
        );
    }

    fn decode(&self, encodings: &[[u8; 32]], into: &mut Decoded<EdwardsPoint>) {
        into.clear();
        for encoding in encodings {
            let point = CompressedEdwardsY(*encoding).decompress();
            into.valid.push(point.is_some());
            into.points.push(point.unwrap_or_else(EdwardsPoint::identity));
        }
    }

    fn touch(&self, _: &EdwardsPoint) -> u64 {
        // A sum by this arithmetic takes so long that a cache miss does not count.
        0
    }

    fn sum(
        &mut self,
        long: &[(Scalar, usize)],
        keys: &[EdwardsPoint],
        scalars: &[u128],
        points: &[EdwardsPoint],
    ) -> EdwardsPoint {
        let short = scalars.iter().map(|scalar| Scalar::from(*scalar));
        EdwardsPoint::vartime_multiscalar_mul(
            long.iter().map(|(scalar, _)| *scalar).chain(short).collect::<Vec<_>>(),
            long.iter().map(|(_, key)| &keys[*key]).chain(points),
        )
    }

    fn subtract(&self, a: &EdwardsPoint, b: &EdwardsPoint) -> EdwardsPoint {
        a - b
    }

    fn is_small_order(&self, sum: &EdwardsPoint) -> bool {
        sum.mul_by_cofactor().is_identity()
    }
}
