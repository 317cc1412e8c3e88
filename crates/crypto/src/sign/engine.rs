//! The group arithmetic that the batch equation needs, and its portable form.

use super::{Signed, challenge};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{Identity, IsIdentity, VartimeMultiscalarMul};

/// Arithmetic on edwards25519 with public data.
pub(super) trait Engine: Copy {
    /// A decoded point.
    type Point: Copy;
    /// A sum of multiples of points.
    type Sum;

    /// `k` of RFC 8032 section 5.1.7 for each item.
    fn challenges(self, items: &[Signed]) -> Vec<Scalar>;

    /// Decodes points by the rules of ZIP-215. An encoding of none gives the identity and `false`.
    fn decode(self, encodings: &[[u8; 32]]) -> (Vec<Self::Point>, Vec<bool>);

    /// The sum of all products of a scalar and its point; `scalars`, those of `points`, are below
    /// 2^126.
    fn sum(self, long: &[(Scalar, &Self::Point)], scalars: &[u128], points: &[Self::Point]) -> Self::Sum;

    /// `a - b`.
    fn subtract(self, a: &Self::Sum, b: &Self::Sum) -> Self::Sum;

    /// Whether 8 times the sum is the identity.
    fn is_small_order(self, sum: &Self::Sum) -> bool;
}

/// curve25519-dalek: AVX2 where there is, otherwise plain integers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

impl Engine for Portable {
    type Point = EdwardsPoint;
    type Sum = EdwardsPoint;

    fn challenges(self, items: &[Signed]) -> Vec<Scalar> {
        items
            .iter()
            .map(|item| challenge(item.signature.r_bytes(), &item.key, item.message.as_bytes()))
            .collect()
    }

    fn decode(self, encodings: &[[u8; 32]]) -> (Vec<EdwardsPoint>, Vec<bool>) {
        encodings
            .iter()
            .map(|encoding| match CompressedEdwardsY(*encoding).decompress() {
                Some(point) => (point, true),
                None => (EdwardsPoint::identity(), false),
            })
            .unzip()
    }

    fn sum(
        self,
        long: &[(Scalar, &EdwardsPoint)],
        scalars: &[u128],
        points: &[EdwardsPoint],
    ) -> EdwardsPoint {
        let short = scalars.iter().map(|scalar| Scalar::from(*scalar));
        EdwardsPoint::vartime_multiscalar_mul(
            long.iter().map(|(scalar, _)| *scalar).chain(short).collect::<Vec<_>>(),
            long.iter().map(|(_, point)| *point).chain(points),
        )
    }

    fn subtract(self, a: &EdwardsPoint, b: &EdwardsPoint) -> EdwardsPoint {
        a - b
    }

    fn is_small_order(self, sum: &EdwardsPoint) -> bool {
        sum.mul_by_cofactor().is_identity()
    }
}
