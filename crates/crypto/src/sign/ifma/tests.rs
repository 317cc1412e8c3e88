use super::*;
use crate::sign::engine::{Decoded, Portable};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use field::{Field, Limbs};
use proptest::prelude::*;

/// The instructions, or `None`, said aloud, where they are missing and nothing can be tested.
fn engine() -> Option<Ifma> {
    let engine = Ifma::detect();
    if engine.is_none() {
        eprintln!("SKIPPED: this CPU has no AVX-512 IFMA");
    }
    engine
}

/// An integer modulo p, the slow way, for comparison.
mod slow {
    use super::Limbs;

    /// Little-endian 64-bit words, below p.
    pub(super) type Words = [u64; 4];

    pub(super) const P: Words = [u64::MAX - 18, u64::MAX, u64::MAX, u64::MAX >> 1];

    fn less(a: &Words, b: &Words) -> bool {
        a.iter().rev().lt(b.iter().rev())
    }

    fn sub_words(a: &Words, b: &Words) -> Words {
        let mut borrow = false;
        std::array::from_fn(|i| {
            let (x, one) = a[i].overflowing_sub(b[i]);
            let (x, two) = x.overflowing_sub(u64::from(borrow));
            borrow = one || two;
            x
        })
    }

    pub(super) fn reduce(mut a: Words) -> Words {
        while !less(&a, &P) {
            a = sub_words(&a, &P);
        }
        a
    }

    pub(super) fn add(a: &Words, b: &Words) -> Words {
        let mut carry = 0;
        reduce(std::array::from_fn(|i| {
            let sum = u128::from(a[i]) + u128::from(b[i]) + carry;
            carry = sum >> 64;
            sum as u64
        }))
    }

    pub(super) fn neg(a: &Words) -> Words {
        reduce(sub_words(&P, a))
    }

    pub(super) fn mul(a: &Words, b: &Words) -> Words {
        let mut product = [0; 4];
        for bit in (0..256).rev() {
            product = add(&product, &product);
            if b[bit / 64] >> (bit % 64) & 1 == 1 {
                product = add(&product, a);
            }
        }
        product
    }

    /// The value of limbs of any size.
    pub(super) fn value(limbs: &Limbs) -> Words {
        let shift = [1 << 51, 0, 0, 0];
        limbs.iter().rev().fold([0; 4], |sum, limb| add(&mul(&sum, &shift), &[*limb, 0, 0, 0]))
    }
}

#[test]
fn constants_are_what_their_names_say() {
    let value = slow::value;
    let one = value(&field::ONE);
    let minus_one = slow::neg(&one);
    assert_eq!(slow::mul(&value(&field::SQRT_MINUS_ONE), &value(&field::SQRT_MINUS_ONE)), minus_one);
    assert_eq!(slow::mul(&value(&field::D), &[121666, 0, 0, 0]), slow::neg(&[121665, 0, 0, 0]));
    assert_eq!(value(&field::TWICE_D), slow::add(&value(&field::D), &value(&field::D)));
}

/// Limbs up to the bound that the functions promise to take, often near its ends.
fn any_limbs() -> impl Strategy<Value = Limbs> {
    const BOUND: u64 = (1 << 51) + (1 << 15);
    let limb = prop_oneof![
        4 => 0..BOUND,
        1 => Just(BOUND - 1),
        1 => Just(0),
        1 => (1u64 << 51) - 20..(1 << 51) + 20,
    ];
    prop::array::uniform5(limb)
}

fn any_eight() -> impl Strategy<Value = [Limbs; 8]> {
    prop::array::uniform8(any_limbs())
}

#[target_feature(enable = "avx512f")]
fn from_lanes(lanes: &[Limbs; 8]) -> Field {
    Field(std::array::from_fn(|i| bytemuck::cast(lanes.map(|limbs| limbs[i]))))
}

/// Every operation on `a` and `b`, lane by lane, and the masks.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn field_operations(a: &[Limbs; 8], b: &[Limbs; 8]) -> ([[Limbs; 8]; 9], [u8; 2]) {
    let (a, b) = (from_lanes(a), from_lanes(b));
    let results = [
        field::add(a, b),
        field::sub(a, b),
        field::neg(a),
        field::mul(a, b),
        field::square(a),
        field::twice_plus(a, b),
        field::twice_minus(a, b),
        field::canonical(a),
        field::select(0b1010_0110, a, b),
    ];
    (results.map(|result| field::lanes(result)), [field::is_zero(field::sub(a, b)), field::is_odd(a)])
}

fn check_field(a: &[Limbs; 8], b: &[Limbs; 8]) {
    let Some(_proof) = engine() else { return };
    // SAFETY: the engine exists, so the CPU has the instructions.
    let (results, [equal, odd]) = unsafe { field_operations(a, b) };
    for lane in 0..8 {
        let (x, y) = (slow::value(&a[lane]), slow::value(&b[lane]));
        let twice = slow::add(&x, &x);
        let expected = [
            slow::add(&x, &y),
            slow::add(&x, &slow::neg(&y)),
            slow::neg(&x),
            slow::mul(&x, &y),
            slow::mul(&x, &x),
            slow::add(&twice, &y),
            slow::add(&twice, &slow::neg(&y)),
            x,
            if 0b1010_0110 >> lane & 1 == 1 { y } else { x },
        ];
        for (operation, expected) in expected.iter().enumerate() {
            let limbs = &results[operation][lane];
            assert_eq!(slow::value(limbs), *expected, "operation {operation}");
            assert!(
                limbs.iter().all(|limb| *limb < (1 << 51) + (1 << 15)),
                "operation {operation}: {limbs:x?}"
            );
        }
        let canonical = results[7][lane];
        assert!(canonical.iter().all(|limb| *limb < 1 << 51));
        assert_eq!(canonical[0] & 1, x[0] & 1);
        assert_eq!(odd >> lane & 1, (x[0] & 1) as u8);
        assert_eq!(equal >> lane & 1 == 1, x == y);
        // Below p: 19 more do not reach 2^255.
        let top = canonical[1..].iter().all(|limb| *limb == (1 << 51) - 1);
        assert!(!top || canonical[0] < (1 << 51) - 19);
    }
}

#[test]
fn field_agrees_at_the_edges() {
    let max = [(1 << 51) + (1 << 15) - 1; 5];
    let p = [(1 << 51) - 19, (1 << 51) - 1, (1 << 51) - 1, (1 << 51) - 1, (1 << 51) - 1];
    let p_plus = |n: u64| [p[0] + n, p[1], p[2], p[3], p[4]];
    let ones = [(1 << 51) - 1; 5];
    let edges = [field::ZERO, field::ONE, max, p, p_plus(1), p_plus(17), p_plus(19), ones];
    for shift in 0..8 {
        let mut other = edges;
        other.rotate_left(shift);
        check_field(&edges, &other);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn field_agrees_with_slow_arithmetic(a in any_eight(), b in any_eight()) {
        check_field(&a, &b);
    }
}

/// A mixture of good points, points off the prime-order subgroup, other encodings and non-points.
fn any_encoding() -> impl Strategy<Value = [u8; 32]> {
    let odd = crate::sign::tests::small_order_encodings();
    prop_oneof![
        4 => (any::<[u8; 32]>(), 0usize..8).prop_map(|(scalar, torsion)| {
            let point = EdwardsPoint::mul_base(&Scalar::from_bytes_mod_order(scalar));
            (point + curve25519_dalek::constants::EIGHT_TORSION[torsion]).compress().to_bytes()
        }),
        2 => any::<[u8; 32]>(),
        1 => prop::sample::select(odd),
        // y from p - 3 to 2^255 - 1: canonical up to p - 1, then not.
        1 => (0u8..22, any::<bool>()).prop_map(|(low, sign)| {
            let mut bytes = [0xff; 32];
            bytes[0] = 0xea + low.min(0x15);
            bytes[31] = if sign { 0xff } else { 0x7f };
            bytes
        }),
    ]
}

fn decode<E: Engine>(engine: &E, encodings: &[[u8; 32]]) -> Decoded<E::Point> {
    let mut decoded = Decoded::default();
    engine.decode(encodings, &mut decoded);
    decoded
}

/// What a sum is, in the portable representation, as far as equations can tell: compares
/// `sum - expected`, given as one more term, with zero.
fn equals(engine: &mut Ifma, long: &[(Scalar, [u8; 32])], short: &[(u128, [u8; 32])]) {
    let encodings: Vec<[u8; 32]> = long.iter().map(|l| l.1).chain(short.iter().map(|s| s.1)).collect();
    let Decoded { points: portable, valid: portable_valid } = decode(&Portable, &encodings);
    let Decoded { points, valid } = decode(engine, &encodings);
    assert_eq!(valid, portable_valid, "{encodings:x?}");
    let scalars: Vec<u128> = short.iter().map(|s| s.0).collect();

    // Positions in any order.
    let mut terms: Vec<(Scalar, usize)> = long.iter().enumerate().map(|(at, l)| (l.0, at)).rev().collect();
    let (long_points, short_points) = portable.split_at(long.len());
    let expected = Portable.sum(&terms, long_points, &scalars, short_points);
    let (long_points, short_points) = points.split_at(long.len());
    terms.push((Scalar::ONE, long.len()));
    // One more term takes the sum to zero, and a wrong one does not.
    for (wrong, offset) in [(false, EdwardsPoint::default()), (true, EdwardsPoint::mul_base(&Scalar::ONE))] {
        let last = decode(engine, &[(offset - expected).compress().to_bytes()]);
        let keys = [long_points, &last.points].concat();
        let sum = engine.sum(&terms, &keys, &scalars, short_points);
        assert_eq!(engine.is_small_order(&sum), !wrong);
        // The whole is the sum of its parts.
        let middle = short_points.len() / 2;
        let left = engine.sum(&terms, &keys, &scalars[..middle], &short_points[..middle]);
        let right = engine.sum(&[], &[], &scalars[middle..], &short_points[middle..]);
        let difference = engine.subtract(&engine.subtract(&sum, &left), &right);
        assert!(engine.is_small_order(&difference));
        assert_eq!(engine.is_small_order(&engine.subtract(&left, &sum)), engine.is_small_order(&right));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decoding_and_sums_agree_with_the_portable_form(
        long in prop::collection::vec((any::<[u8; 32]>(), any_encoding()), 0..40),
        short in prop::collection::vec((any::<u128>(), any_encoding()), 0..40),
        repeat in prop::sample::select(vec![1usize, 1, 1, 8]),
    ) {
        let Some(mut engine) = engine() else { return Ok(()) };
        let long: Vec<_> = long.into_iter().map(|(s, p)| (Scalar::from_bytes_mod_order(s), p)).collect();
        let short: Vec<_> = short.into_iter().map(|(s, p)| (s >> 2, p)).collect();
        // Equal points meet in buckets: doublings in disguise.
        equals(&mut engine, &long.repeat(repeat), &short.repeat(repeat));
    }
}

proptest! {
    #[test]
    fn challenges_agree_with_the_portable_form(
        bytes in prop::collection::vec((any::<[u8; 32]>(), any::<[u8; 32]>(), any::<[u8; 32]>()), 0..20),
    ) {
        let Some(engine) = engine() else { return Ok(()) };
        let items: Vec<Signed> = bytes
            .into_iter()
            .map(|(key, message, r)| {
                let mut signature = [0; 64];
                signature[..32].copy_from_slice(&r);
                Signed { key: key.into(), message: message.into(), signature: signature.into() }
            })
            .collect();
        let (mut challenges, mut portable) = (Vec::new(), Vec::new());
        engine.challenges(&items, &mut challenges);
        Portable.challenges(&items, &mut portable);
        prop_assert_eq!(challenges, portable);
    }
}

#[test]
fn extreme_scalars() {
    let Some(mut engine) = engine() else { return };
    let base = curve25519_dalek::constants::ED25519_BASEPOINT_COMPRESSED.to_bytes();
    let minus = CompressedEdwardsY(base).decompress().map(|p| (-p).compress().to_bytes()).unwrap();
    for count in [1, 200] {
        let long = [Scalar::ZERO, Scalar::ONE, -Scalar::ONE, Scalar::from(0x80u64), Scalar::from(u128::MAX)];
        let long: Vec<_> = long.into_iter().flat_map(|s| [(s, base), (s, minus), (s * s, base)]).collect();
        let short = [0, 1, 0x7f, 0x80, 0x88, (1 << 126) - 1, 1 << 125];
        let short: Vec<_> = short.into_iter().flat_map(|s| [(s, base), (s, minus), (s / 2, base)]).collect();
        equals(&mut engine, &long.repeat(count), &short.repeat(count));
        equals(&mut engine, &[], &short);
        equals(&mut engine, &long, &[]);
    }
    equals(&mut engine, &[], &[]);
}

#[test]
fn torsion_is_told_from_the_rest() {
    let Some(mut engine) = engine() else { return };
    for (i, torsion) in curve25519_dalek::constants::EIGHT_TORSION.iter().enumerate() {
        for (point, small) in [(*torsion, true), (torsion + EdwardsPoint::mul_base(&Scalar::ONE), false)] {
            let decoded = decode(&engine, &[point.compress().to_bytes()]);
            let sum = engine.sum(&[(Scalar::ONE, 0)], &decoded.points, &[], &[]);
            assert_eq!(engine.is_small_order(&sum), small, "torsion point {i}");
        }
    }
}
