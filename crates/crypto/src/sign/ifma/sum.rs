//! Sums of many multiples of points (Pippenger's bucket method), eight windows of the scalars at
//! a time.
//!
//! A scalar is cut into signed digits. A lane stands for one digit's position (a window) and has
//! buckets of its own, so that no two lanes ever meet in one bucket: adding a point costs one
//! vector addition for eight digits, with the point in all lanes and eight different buckets.
//! Digits are 8 bits wide for large batches and 4 for small ones, the two widths at which the
//! windows of a scalar fill whole vectors.

use super::point::{self, Extended, Point, Row};
use curve25519_dalek::scalar::Scalar;
use std::arch::x86_64::*;

/// Windows handled together.
const LANES: usize = 8;

/// From this many scalars on, 8-bit digits cost less than 4-bit ones: half the additions of
/// points, sixteen times the additions of buckets.
const WIDE_DIGITS_FROM: usize = 180;

/// What a sum is made in, kept from one to the next.
#[derive(Default)]
pub(super) struct Workspace {
    long_digits: Vec<[i8; 64]>,
    short_digits: Vec<[i8; 32]>,
    buckets: Vec<Row>,
}

/// `sum(long[i].0 * keys[long[i].1]) + sum(scalars[i] * points[i])`.
///
/// The short scalars are below 2^126, so that their digits do not carry beyond 128 bits.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
pub(super) fn sum(
    workspace: &mut Workspace,
    long: &[(Scalar, usize)],
    keys: &[Point],
    scalars: &[u128],
    points: &[Point],
) -> Row {
    if long.len() + scalars.len() < WIDE_DIGITS_FROM {
        sum_by_digits::<4>(workspace, long, keys, scalars, points)
    } else {
        sum_by_digits::<8>(workspace, long, keys, scalars, points)
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn sum_by_digits<const BITS: u32>(
    workspace: &mut Workspace,
    long: &[(Scalar, usize)],
    keys: &[Point],
    scalars: &[u128],
    points: &[Point],
) -> Row {
    let Workspace { long_digits, short_digits, buckets } = workspace;
    long_digits.clear();
    long_digits.extend(long.iter().map(|(s, _)| digits::<BITS>(s.to_bytes())));
    short_digits.clear();
    short_digits.extend(scalars.iter().map(|s| self::short_digits::<BITS>(*s)));
    let mut buckets = Buckets::new(buckets, 1 << (BITS - 1));
    let mut windows = Vec::new();
    for group in 0..(256 / BITS) as usize / LANES {
        buckets.clear();
        for ((_, key), digits) in long.iter().zip(&*long_digits) {
            buckets.add(&keys[*key], &digits.as_chunks::<LANES>().0[group]);
        }
        if group < (128 / BITS) as usize / LANES {
            for (point, digits) in points.iter().zip(&*short_digits) {
                buckets.add(point, &digits.as_chunks::<LANES>().0[group]);
            }
        }
        windows.extend(point::store(buckets.total()));
    }
    let mut total = point::identity();
    for window in windows.iter().rev() {
        for _ in 0..BITS {
            total = point::double(total);
        }
        total = point::add_points(total, point::broadcast_row(window));
    }
    point::store(total)[0]
}

/// Digits of `BITS` bits, from -2^(BITS-1) to 2^(BITS-1) - 1, lowest first, of a number below 2^253.
fn digits<const BITS: u32>(scalar: [u8; 32]) -> [i8; 64] {
    let halves = scalar.as_chunks::<16>().0;
    let [low, high] = [u128::from_le_bytes(halves[0]), u128::from_le_bytes(halves[1])];
    // Half a digit's range is added to every digit, with carries, then taken off without.
    let (low, over) = low.overflowing_add(bias::<BITS>());
    let high = high + bias::<BITS>() + u128::from(over);
    let mut digits = [0; 64];
    let count = (128 / BITS) as usize;
    digits[..count].copy_from_slice(&unbias::<BITS>(low)[..count]);
    digits[count..2 * count].copy_from_slice(&unbias::<BITS>(high)[..count]);
    digits
}

/// As [`digits`], of a number below 2^126.
fn short_digits<const BITS: u32>(scalar: u128) -> [i8; 32] {
    unbias::<BITS>(scalar + bias::<BITS>())
}

/// Half a digit's range in every digit.
const fn bias<const BITS: u32>() -> u128 {
    if BITS == 8 { u128::from_le_bytes([0x80; 16]) } else { u128::from_le_bytes([0x88; 16]) }
}

fn unbias<const BITS: u32>(biased: u128) -> [i8; 32] {
    let bytes = biased.to_le_bytes();
    if BITS == 8 {
        std::array::from_fn(|i| bytes.get(i).map_or(0, |byte| (byte ^ 0x80).cast_signed()))
    } else {
        std::array::from_fn(|i| (bytes[i / 2] >> (4 * (i % 2)) & 15).cast_signed() - 8)
    }
}

/// For each lane one running sum for every absolute value of a digit.
struct Buckets<'a> {
    rows: &'a mut [Row],
    /// Rows a lane has: one for digit zero, which nobody reads, then 1 to the largest.
    per_lane: usize,
}

impl<'a> Buckets<'a> {
    fn new(rows: &'a mut Vec<Row>, largest: usize) -> Self {
        let per_lane = largest + 1;
        rows.resize(LANES * per_lane, Row::IDENTITY);
        Self { rows, per_lane }
    }

    fn clear(&mut self) {
        self.rows.fill(Row::IDENTITY);
    }

    /// Adds `point` to, or subtracts it from, the bucket of each lane's digit.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn add(&mut self, point: &Point, digits: &[i8; LANES]) {
        let at: [usize; LANES] =
            std::array::from_fn(|lane| lane * self.per_lane + usize::from(digits[lane].unsigned_abs()));
        let signs = u64::from_le_bytes(digits.map(i8::cast_unsigned));
        let negative = _mm512_movepi64_mask(_mm512_cvtepi8_epi64(_mm_cvtsi64_si128(signs.cast_signed())));
        let sums = point::load(at.map(|at| &self.rows[at]));
        let sums = point::add_prepared(sums, point::broadcast_point(point), negative);
        let rows = point::store(sums);
        for (at, row) in at.into_iter().zip(rows) {
            self.rows[at] = row;
        }
    }

    /// For each lane the sum of all buckets, each times its digit.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn total(&self) -> Extended {
        let (mut running, mut total) = (point::identity(), point::identity());
        for digit in (1..self.per_lane).rev() {
            let rows = std::array::from_fn(|lane| &self.rows[lane * self.per_lane + digit]);
            running = point::add_points(running, point::load(rows));
            total = point::add_points(total, running);
        }
        total
    }
}
