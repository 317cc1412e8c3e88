//! Eight points of edwards25519 at once.
//!
//! Formulas: Hisil, Wong, Carter, Dawson, "Twisted Edwards Curves Revisited", sections 3.1, 3.2 and
//! 3.3, for a = -1. They are complete: equal, opposite, small-order points and the identity need no
//! case of their own.

use super::field::{self, Field, Limbs, add, broadcast, mul, neg, select, square, sub};
use super::field::{twice_minus, twice_plus};
use std::arch::x86_64::*;

/// `(X : Y : Z : T)` with x = X/Z, y = Y/Z, xy = T/Z.
#[derive(Clone, Copy)]
pub(super) struct Extended {
    pub(super) x: Field,
    pub(super) y: Field,
    pub(super) z: Field,
    pub(super) t: Field,
}

/// An affine point prepared for adding: y + x, y - x, 2 d x y.
#[derive(Clone, Copy)]
pub(super) struct Prepared {
    plus: Field,
    minus: Field,
    t2d: Field,
}

/// One prepared point in memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(in crate::sign) struct Point {
    plus: Limbs,
    minus: Limbs,
    t2d: Limbs,
}

impl Point {
    /// Reads each of its cache lines.
    pub(super) fn touch(&self) -> u64 {
        self.plus[0] ^ self.t2d[4]
    }
}

/// The same point in all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn broadcast_point(point: &Point) -> Prepared {
    Prepared { plus: broadcast(&point.plus), minus: broadcast(&point.minus), t2d: broadcast(&point.t2d) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn identity() -> Extended {
    let (zero, one) = (broadcast(&field::ZERO), broadcast(&field::ONE));
    Extended { x: zero, y: one, z: one, t: zero }
}

/// `p + q`, or `p - q` in the lanes of `negative`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn add_prepared(p: Extended, q: Prepared, negative: __mmask8) -> Extended {
    // -q swaps y + x with y - x and turns 2dxy round, which swaps F with G below.
    let a = mul(sub(p.y, p.x), select(negative, q.minus, q.plus));
    let b = mul(add(p.y, p.x), select(negative, q.plus, q.minus));
    let c = mul(p.t, q.t2d);
    let (less, more) = (twice_minus(p.z, c), twice_plus(p.z, c));
    let (e, h) = (sub(b, a), add(b, a));
    let (f, g) = (select(negative, less, more), select(negative, more, less));
    Extended { x: mul(e, f), y: mul(g, h), z: mul(f, g), t: mul(e, h) }
}

/// `p + q`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn add_points(p: Extended, q: Extended) -> Extended {
    let a = mul(sub(p.y, p.x), sub(q.y, q.x));
    let b = mul(add(p.y, p.x), add(q.y, q.x));
    let c = mul(mul(p.t, q.t), broadcast(&field::TWICE_D));
    let zz = mul(p.z, q.z);
    let (e, f, g, h) = (sub(b, a), twice_minus(zz, c), twice_plus(zz, c), add(b, a));
    Extended { x: mul(e, f), y: mul(g, h), z: mul(f, g), t: mul(e, h) }
}

/// `-p`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn negate(p: Extended) -> Extended {
    Extended { x: neg(p.x), t: neg(p.t), ..p }
}

/// `2 p`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn double(p: Extended) -> Extended {
    let (a, b) = (square(p.x), square(p.y));
    let sum = add(a, b);
    let zz = square(p.z);
    // All four with the opposite sign of the paper's, which leaves the products as they are.
    let e = sub(sum, square(add(p.x, p.y)));
    let g = sub(a, b);
    let f = twice_plus(zz, g);
    Extended { x: mul(e, f), y: mul(g, sum), z: mul(f, g), t: mul(e, sum) }
}

/// The lanes whose point becomes the identity when multiplied by the cofactor 8.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn is_small_order(p: Extended) -> __mmask8 {
    let p = double(double(double(p)));
    field::is_zero(p.x) & field::is_zero(sub(p.y, p.z))
}

/// Decodes sixteen points by the rules of ZIP-215 (RFC 8032 section 5.1.3 without its refusal of
/// non-canonical encodings). Lanes that encode none give the identity; the masks tell the good ones.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn decode(encodings: &[[[u8; 32]; 8]; 2]) -> [(Prepared, __mmask8); 2] {
    let one = broadcast(&field::ONE);
    let y = encodings.each_ref().map(|encodings| field::from_bytes(encodings));
    let fraction = |y: Field| {
        let yy = square(y);
        (sub(yy, one), add(mul(yy, broadcast(&field::D)), one))
    };
    // x = u v^3 (u v^7)^((p - 5) / 8) is a root of u/v, or of -u/v, or there is none.
    let base = |(u, v): (Field, Field)| {
        let v3 = mul(square(v), v);
        mul(u, mul(square(v3), v))
    };
    let fractions = y.map(fraction);
    let power = field::pow_p58(fractions.map(base));
    std::array::from_fn(|i| {
        let (u, v) = fractions[i];
        let root = mul(mul(u, mul(square(v), v)), power[i]);
        finish(&encodings[i], y[i], u, v, root)
    })
}

/// The points with these `y`, given candidates for the roots of `u / v`.
#[target_feature(enable = "avx512f,avx512ifma")]
fn finish(encodings: &[[u8; 32]; 8], y: Field, u: Field, v: Field, x: Field) -> (Prepared, __mmask8) {
    let one = broadcast(&field::ONE);
    let vxx = mul(v, square(x));
    let is_root = field::is_zero(sub(vxx, u));
    let is_root_of_minus = field::is_zero(add(vxx, u));
    let x = select(is_root, mul(x, broadcast(&field::SQRT_MINUS_ONE)), x);
    let mut sign = 0;
    for (lane, encoding) in encodings.iter().enumerate() {
        sign |= (encoding[31] >> 7) << lane;
    }
    let x = select(field::is_odd(x) ^ sign, x, neg(x));

    let valid = is_root | is_root_of_minus;
    let prepared = Prepared {
        plus: select(valid, one, add(y, x)),
        minus: select(valid, one, sub(y, x)),
        t2d: select(valid, broadcast(&field::ZERO), mul(mul(x, y), broadcast(&field::TWICE_D))),
    };
    (prepared, valid)
}

/// The point of every lane.
#[target_feature(enable = "avx512f")]
pub(super) fn points(prepared: &Prepared) -> [Point; 8] {
    let [plus, minus, t2d] =
        [prepared.plus, prepared.minus, prepared.t2d].map(|f| f.0.map(bytemuck::cast::<_, [u64; 8]>));
    std::array::from_fn(|lane| Point {
        plus: plus.map(|limb| limb[lane]),
        minus: minus.map(|limb| limb[lane]),
        t2d: t2d.map(|limb| limb[lane]),
    })
}

/// One point in memory: the limbs of X, Y, Z and T, padded to whole cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(in crate::sign) struct Row {
    low: [u64; 8],
    middle: [u64; 8],
    high: [u64; 4],
}

impl Row {
    pub(super) const IDENTITY: Self =
        Self { low: [0, 0, 0, 0, 0, 1, 0, 0], middle: [0, 0, 1, 0, 0, 0, 0, 0], high: [0; 4] };
}

/// Takes the point of lane `i` from `rows[i]`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(rows: [&Row; 8]) -> Extended {
    let low = transpose(rows.map(|row| bytemuck::cast(row.low)));
    let middle = transpose(rows.map(|row| bytemuck::cast(row.middle)));
    let high = columns_of_4(rows.map(|row| bytemuck::cast(row.high)));
    Extended {
        x: Field([low[0], low[1], low[2], low[3], low[4]]),
        y: Field([low[5], low[6], low[7], middle[0], middle[1]]),
        z: Field([middle[2], middle[3], middle[4], middle[5], middle[6]]),
        t: Field([middle[7], high[0], high[1], high[2], high[3]]),
    }
}

/// The rows from which [`load`] would take `p`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store(p: Extended) -> [Row; 8] {
    let Extended { x: Field(x), y: Field(y), z: Field(z), t: Field(t) } = p;
    let low = transpose([x[0], x[1], x[2], x[3], x[4], y[0], y[1], y[2]]);
    let middle = transpose([y[3], y[4], z[0], z[1], z[2], z[3], z[4], t[0]]);
    let high = rows_of_4([t[1], t[2], t[3], t[4]]);
    std::array::from_fn(|lane| Row {
        low: bytemuck::cast(low[lane]),
        middle: bytemuck::cast(middle[lane]),
        high: bytemuck::cast(high[lane]),
    })
}

/// Rows to columns of an 8 x 8 matrix of 64-bit words.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(r: [__m512i; 8]) -> [__m512i; 8] {
    // Named by the rows they hold: words of even and of odd columns, paired by row.
    let even = |i: usize| _mm512_unpacklo_epi64(r[i], r[i + 1]);
    let odd = |i: usize| _mm512_unpackhi_epi64(r[i], r[i + 1]);
    let quarter = |pairs: [__m512i; 4]| {
        let [ab, cd, ef, gh] = pairs;
        let (top_04, top_26) = (_mm512_shuffle_i64x2::<0x88>(ab, cd), _mm512_shuffle_i64x2::<0xdd>(ab, cd));
        let (low_04, low_26) = (_mm512_shuffle_i64x2::<0x88>(ef, gh), _mm512_shuffle_i64x2::<0xdd>(ef, gh));
        [
            _mm512_shuffle_i64x2::<0x88>(top_04, low_04),
            _mm512_shuffle_i64x2::<0x88>(top_26, low_26),
            _mm512_shuffle_i64x2::<0xdd>(top_04, low_04),
            _mm512_shuffle_i64x2::<0xdd>(top_26, low_26),
        ]
    };
    let [c0, c2, c4, c6] = quarter([even(0), even(2), even(4), even(6)]);
    let [c1, c3, c5, c7] = quarter([odd(0), odd(2), odd(4), odd(6)]);
    [c0, c1, c2, c3, c4, c5, c6, c7]
}

/// The four columns of eight rows of four words.
#[inline]
#[target_feature(enable = "avx512f")]
fn columns_of_4(r: [__m256i; 8]) -> [__m512i; 4] {
    let pair = |a: usize, b: usize| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(r[a]), r[b]);
    let (ac, bd, eg, fh) = (pair(0, 2), pair(1, 3), pair(4, 6), pair(5, 7));
    let (top, low) = (_mm512_unpacklo_epi64(ac, bd), _mm512_unpacklo_epi64(eg, fh));
    let (odd_top, odd_low) = (_mm512_unpackhi_epi64(ac, bd), _mm512_unpackhi_epi64(eg, fh));
    [
        _mm512_shuffle_i64x2::<0x88>(top, low),
        _mm512_shuffle_i64x2::<0x88>(odd_top, odd_low),
        _mm512_shuffle_i64x2::<0xdd>(top, low),
        _mm512_shuffle_i64x2::<0xdd>(odd_top, odd_low),
    ]
}

/// The eight rows of four columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn rows_of_4(c: [__m512i; 4]) -> [__m256i; 8] {
    // In 128-bit parts: words 0 and 1, then 2 and 3, of rows a, c, e, g and of rows b, d, f, h.
    let (even_01, odd_01) = (_mm512_unpacklo_epi64(c[0], c[1]), _mm512_unpackhi_epi64(c[0], c[1]));
    let (even_23, odd_23) = (_mm512_unpacklo_epi64(c[2], c[3]), _mm512_unpackhi_epi64(c[2], c[3]));
    let join = |words_01: __m512i, words_23: __m512i| {
        let first_two = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
        let last_two = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
        let ac = _mm512_permutex2var_epi64(words_01, first_two, words_23);
        let eg = _mm512_permutex2var_epi64(words_01, last_two, words_23);
        [
            _mm512_castsi512_si256(ac),
            _mm512_extracti64x4_epi64::<1>(ac),
            _mm512_castsi512_si256(eg),
            _mm512_extracti64x4_epi64::<1>(eg),
        ]
    };
    let [a, c, e, g] = join(even_01, even_23);
    let [b, d, f, h] = join(odd_01, odd_23);
    [a, b, c, d, e, f, g, h]
}

/// The same sum in all lanes: for the few additions at the end.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn broadcast_row(row: &Row) -> Extended {
    load([row; 8])
}
