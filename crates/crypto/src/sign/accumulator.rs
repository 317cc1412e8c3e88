//! A sum of products of scalars, reduced once at its end instead of at every step.

use curve25519_dalek::scalar::Scalar;

/// The order of the prime-order subgroup (RFC 8032 section 5.1), in little-endian words.
const ORDER: [u64; 4] = [0x5812631a5cf5d3ed, 0x14def9dea2f79cd6, 0, 0x1000000000000000];

/// A number below the group order, in little-endian words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reduced([u64; 4]);

impl Reduced {
    pub(super) const ZERO: Self = Self([0; 4]);

    /// The number, unless it is the group order or more. In time that depends on it: for public data.
    pub(super) fn parse(bytes: &[u8; 32]) -> Option<Self> {
        let words = bytes.as_chunks::<8>().0;
        let words = std::array::from_fn(|i| u64::from_le_bytes(words[i]));
        words.iter().rev().lt(ORDER.iter().rev()).then_some(Self(words))
    }
}

/// `sum(z_i s_i)` as an integer of 512 bits: room for 2^133 products.
#[derive(Debug, Default)]
pub(super) struct Accumulator([u64; 8]);

impl Accumulator {
    /// Adds `z s`, where `z` is below 2^126.
    pub(super) fn add_product(&mut self, z: u128, s: &Reduced) {
        for (shift, z) in [z as u64, (z >> 64) as u64].into_iter().enumerate() {
            let mut carry = 0;
            for (at, word) in self.0[shift..].iter_mut().enumerate() {
                let factor = s.0.get(at).copied().unwrap_or(0);
                // (2^64 - 1)^2 + 2 (2^64 - 1) = 2^128 - 1.
                let sum = u128::from(z) * u128::from(factor) + u128::from(*word) + carry;
                *word = sum as u64;
                carry = sum >> 64;
            }
        }
    }

    /// The sum modulo the group order.
    pub(super) fn reduce(&self) -> Scalar {
        let mut bytes = [0; 64];
        bytes.as_chunks_mut::<8>().0.copy_from_slice(&self.0.map(u64::to_le_bytes));
        Scalar::from_bytes_mod_order_wide(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parsing_agrees_at_the_edges() {
        let minus_one = (-Scalar::ONE).to_bytes();
        assert!(Reduced::parse(&minus_one).is_some());
        for add in 1..=255 - minus_one[0] {
            let mut bytes = minus_one;
            bytes[0] += add;
            assert_eq!(Reduced::parse(&bytes), None);
        }
        for byte in 16..31 {
            let mut bytes = minus_one;
            bytes[byte] = 1;
            assert_eq!(Reduced::parse(&bytes), None);
        }
        assert_eq!(Reduced::parse(&[0xff; 32]), None);
        assert_eq!(Reduced::parse(&[0; 32]), Some(Reduced::ZERO));
    }

    proptest! {
        #[test]
        fn parsing_agrees_with_the_library(mut bytes: [u8; 32], top in 0u8..0x20) {
            bytes[31] = top;
            let expected = Option::<Scalar>::from(Scalar::from_canonical_bytes(bytes));
            prop_assert_eq!(Reduced::parse(&bytes).is_some(), expected.is_some());
        }

        #[test]
        fn sums_agree_with_the_library(products in prop::collection::vec((any::<u128>(), any::<[u8; 32]>()), 0..60)) {
            let mut sum = Accumulator::default();
            let mut expected = Scalar::ZERO;
            for (z, s) in products {
                let (z, s) = (z >> 2, Scalar::from_bytes_mod_order(s));
                sum.add_product(z, &Reduced::parse(s.as_bytes()).unwrap());
                expected += Scalar::from(z) * s;
            }
            prop_assert_eq!(sum.reduce(), expected);
        }

        #[test]
        fn carries_run_to_the_end(count in 1usize..300) {
            let s = -Scalar::ONE;
            let z = (1u128 << 126) - 1;
            let mut sum = Accumulator::default();
            for _ in 0..count {
                sum.add_product(z, &Reduced::parse(s.as_bytes()).unwrap());
            }
            prop_assert_eq!(sum.reduce(), Scalar::from(count as u64) * Scalar::from(z) * s);
        }
    }
}
