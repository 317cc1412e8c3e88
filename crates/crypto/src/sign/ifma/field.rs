//! Eight elements of the field of 2^255 - 19 at once, one in each 64-bit lane.
//!
//! An element is five limbs of 51 bits. IFMA multiplies 52-bit integers, so a product takes limbs
//! below 2^52; every function here takes and gives limbs below 2^51 + 2^15 ("carried"), which is
//! what makes them compose. Sums of two such elements are carried before they are returned, for
//! 2^52 + 2^16 would be cut off by the next product.

use std::arch::x86_64::*;

/// Eight field elements. Limb `i` counts 2^(51 i); see the module for its bound.
#[derive(Clone, Copy)]
pub(super) struct Field(pub(super) [__m512i; 5]);

/// One field element in memory, in the same limbs.
pub(super) type Limbs = [u64; 5];

const MASK: u64 = (1 << 51) - 1;
/// Twice the modulus, limb by limb above any carried limb, so that subtracting cannot borrow.
const TWICE_P: Limbs = [2 * (MASK - 18), 2 * MASK, 2 * MASK, 2 * MASK, 2 * MASK];

pub(super) const ZERO: Limbs = [0; 5];
pub(super) const ONE: Limbs = [1, 0, 0, 0, 0];
/// The curve's `d` = -121665/121666 (RFC 8032 section 5.1).
pub(super) const D: Limbs =
    [0x34dca135978a3, 0x1a8283b156ebd, 0x5e7a26001c029, 0x739c663a03cbb, 0x52036cee2b6ff];
/// `2 d`.
pub(super) const TWICE_D: Limbs =
    [0x69b9426b2f159, 0x35050762add7a, 0x3cf44c0038052, 0x6738cc7407977, 0x2406d9dc56dff];
/// A square root of -1: `2^((p - 1) / 4)`.
pub(super) const SQRT_MINUS_ONE: Limbs =
    [0x61b274a0ea0b0, 0xd5a5fc8f189d, 0x7ef5e9cbd0c60, 0x78595a6804c9e, 0x2b8324804fc1d];

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(value: u64) -> __m512i {
    _mm512_set1_epi64(value.cast_signed())
}

/// The same element in all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn broadcast(limbs: &Limbs) -> Field {
    Field([splat(limbs[0]), splat(limbs[1]), splat(limbs[2]), splat(limbs[3]), splat(limbs[4])])
}

/// Brings limbs below 2^61 under the bound of the module.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn carry(r: [__m512i; 5]) -> Field {
    let mask = splat(MASK);
    let over: [__m512i; 5] = [srl51(r[0]), srl51(r[1]), srl51(r[2]), srl51(r[3]), srl51(r[4])];
    Field([
        _mm512_madd52lo_epu64(_mm512_and_si512(r[0], mask), over[4], splat(19)),
        _mm512_add_epi64(_mm512_and_si512(r[1], mask), over[0]),
        _mm512_add_epi64(_mm512_and_si512(r[2], mask), over[1]),
        _mm512_add_epi64(_mm512_and_si512(r[3], mask), over[2]),
        _mm512_add_epi64(_mm512_and_si512(r[4], mask), over[3]),
    ])
}

#[inline]
#[target_feature(enable = "avx512f")]
fn srl51(x: __m512i) -> __m512i {
    _mm512_srli_epi64::<51>(x)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn limbwise_add(a: Field, b: Field) -> [__m512i; 5] {
    std::array::from_fn(|i| _mm512_add_epi64(a.0[i], b.0[i]))
}

/// `a - b` without a carry; limbs below 2^53.
#[inline]
#[target_feature(enable = "avx512f")]
fn limbwise_sub(a: Field, b: Field) -> [__m512i; 5] {
    std::array::from_fn(|i| _mm512_sub_epi64(_mm512_add_epi64(a.0[i], splat(TWICE_P[i])), b.0[i]))
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn add(a: Field, b: Field) -> Field {
    carry(limbwise_add(a, b))
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn sub(a: Field, b: Field) -> Field {
    carry(limbwise_sub(a, b))
}

/// `2 a + b`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn twice_plus(a: Field, b: Field) -> Field {
    let twice = limbwise_add(a, a);
    carry(std::array::from_fn(|i| _mm512_add_epi64(twice[i], b.0[i])))
}

/// `2 a - b`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn twice_minus(a: Field, b: Field) -> Field {
    let rest = limbwise_sub(a, b);
    carry(std::array::from_fn(|i| _mm512_add_epi64(rest[i], a.0[i])))
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn neg(a: Field) -> Field {
    sub(broadcast(&ZERO), a)
}

/// `b` in the lanes of `mask`, `a` in the others.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn select(mask: __mmask8, a: Field, b: Field) -> Field {
    Field(std::array::from_fn(|i| _mm512_mask_blend_epi64(mask, a.0[i], b.0[i])))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn twice(x: __m512i) -> __m512i {
    // Not a shift: additions have two execution ports to go to, shifts and products share one.
    _mm512_add_epi64(x, x)
}

/// Folds ten columns, column `k` counting 2^(51 k), into five limbs: 2^255 = 19.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn fold(columns: [__m512i; 10]) -> Field {
    // A column holds at most 5 low halves and 5 doubled high ones: below 15 * 2^52; times 19 and
    // added to another still below 2^61.
    let folded = |k: usize| {
        let high = columns[k + 5];
        let thrice = _mm512_add_epi64(twice(high), high);
        let sixteen = _mm512_slli_epi64::<4>(high);
        _mm512_add_epi64(_mm512_add_epi64(columns[k], thrice), sixteen)
    };
    carry([folded(0), folded(1), folded(2), folded(3), folded(4)])
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn mul(a: Field, b: Field) -> Field {
    // The high half of a product in column k counts 2^(51 k + 52), twice column k + 1.
    let mut columns = [_mm512_setzero_si512(); 10];
    for i in 0..5 {
        for j in 0..5 {
            columns[i + j + 1] = _mm512_madd52hi_epu64(columns[i + j + 1], a.0[i], b.0[j]);
        }
    }
    for column in &mut columns[1..] {
        *column = twice(*column);
    }
    for i in 0..5 {
        for j in 0..5 {
            columns[i + j] = _mm512_madd52lo_epu64(columns[i + j], a.0[i], b.0[j]);
        }
    }
    fold(columns)
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn square(a: Field) -> Field {
    // As `mul`, where products of two different limbs count twice: of what goes into a column, four
    // times the high halves of these, twice their low halves and the high halves of the squares,
    // once the low halves of the squares.
    let mut columns = [_mm512_setzero_si512(); 10];
    for i in 0..5 {
        for j in i + 1..5 {
            columns[i + j + 1] = _mm512_madd52hi_epu64(columns[i + j + 1], a.0[i], a.0[j]);
        }
    }
    for column in &mut columns[2..9] {
        *column = twice(*column);
    }
    for i in 0..5 {
        columns[2 * i + 1] = _mm512_madd52hi_epu64(columns[2 * i + 1], a.0[i], a.0[i]);
        for j in i + 1..5 {
            columns[i + j] = _mm512_madd52lo_epu64(columns[i + j], a.0[i], a.0[j]);
        }
    }
    for column in &mut columns[1..] {
        *column = twice(*column);
    }
    for i in 0..5 {
        columns[2 * i] = _mm512_madd52lo_epu64(columns[2 * i], a.0[i], a.0[i]);
    }
    fold(columns)
}

/// `a^(2^times)`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn square_times([mut a, mut b]: [Field; 2], times: u32) -> [Field; 2] {
    for _ in 0..times {
        a = square(a);
        b = square(b);
    }
    [a, b]
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn mul_both(a: [Field; 2], b: [Field; 2]) -> [Field; 2] {
    [mul(a[0], b[0]), mul(a[1], b[1])]
}

/// `a^((p - 5) / 8)` = `a^(2^252 - 3)`, the power in RFC 8032 section 5.1.3.
///
/// Of two vectors, because each squaring waits for the one before: a second chain fills the gaps.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn pow_p58(a: [Field; 2]) -> [Field; 2] {
    let a2 = square_times(a, 1);
    let a9 = mul_both(a, square_times(a2, 2));
    let a11 = mul_both(a2, a9);
    // ones_n is a^(2^n - 1).
    let ones_5 = mul_both(a9, square_times(a11, 1));
    let ones_10 = mul_both(square_times(ones_5, 5), ones_5);
    let ones_20 = mul_both(square_times(ones_10, 10), ones_10);
    let ones_40 = mul_both(square_times(ones_20, 20), ones_20);
    let ones_50 = mul_both(square_times(ones_40, 10), ones_10);
    let ones_100 = mul_both(square_times(ones_50, 50), ones_50);
    let ones_200 = mul_both(square_times(ones_100, 100), ones_100);
    let ones_250 = mul_both(square_times(ones_200, 50), ones_50);
    mul_both(square_times(ones_250, 2), a)
}

/// The representative below p, in limbs below 2^51.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn canonical(a: Field) -> Field {
    let mask = splat(MASK);
    // Carried limbs make a value below 2 p, so p is to be taken off once or not at all: once if
    // adding 19 reaches 2^255.
    let mut over = splat(19);
    for limb in a.0 {
        over = srl51(_mm512_add_epi64(limb, over));
    }
    over = _mm512_madd52lo_epu64(_mm512_setzero_si512(), over, splat(19));
    Field(std::array::from_fn(|i| {
        let limb = _mm512_add_epi64(a.0[i], over);
        over = srl51(limb);
        _mm512_and_si512(limb, mask)
    }))
}

/// The lanes that hold zero.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn is_zero(a: Field) -> __mmask8 {
    let [a0, a1, a2, a3, a4] = canonical(a).0;
    let low = _mm512_or_si512(_mm512_or_si512(a0, a1), _mm512_or_si512(a2, a3));
    _mm512_testn_epi64_mask(_mm512_or_si512(low, a4), _mm512_set1_epi64(-1))
}

/// The lanes whose canonical form is odd: "negative" in RFC 8032 section 5.1.2.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn is_odd(a: Field) -> __mmask8 {
    _mm512_test_epi64_mask(canonical(a).0[0], _mm512_set1_epi64(1))
}

/// The element in each lane.
#[cfg(test)]
#[target_feature(enable = "avx512f")]
pub(super) fn lanes(a: Field) -> [Limbs; 8] {
    let limbs: [[u64; 8]; 5] = a.0.map(bytemuck::cast);
    std::array::from_fn(|lane| limbs.map(|limb| limb[lane]))
}

/// The field elements of eight 255-bit integers, whatever their top bit. Integers of p and above
/// stand for what they are modulo p.
#[target_feature(enable = "avx512f")]
pub(super) fn from_bytes(encodings: &[[u8; 32]; 8]) -> Field {
    let mut limbs = [[0u64; 8]; 5];
    for (lane, encoding) in encodings.iter().enumerate() {
        let words = encoding.as_chunks::<8>().0;
        let [a, b, c, d] = std::array::from_fn(|i| u64::from_le_bytes(words[i]));
        limbs[0][lane] = a & MASK;
        limbs[1][lane] = (a >> 51 | b << 13) & MASK;
        limbs[2][lane] = (b >> 38 | c << 26) & MASK;
        limbs[3][lane] = (c >> 25 | d << 39) & MASK;
        limbs[4][lane] = d >> 12 & MASK;
    }
    Field(limbs.map(bytemuck::cast))
}
