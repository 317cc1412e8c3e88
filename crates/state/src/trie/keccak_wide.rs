//! Keccak-256 of eight messages at once, one in each lane of AVX-512 registers.
//!
//! A permutation of one state leaves most of a processor's width idle: its 25 words depend on each
//! other. Eight states side by side take little longer than one. FIPS 202 has the steps; the padding
//! is that of Keccak before it, as Ethereum uses it.

#![expect(unsafe_code, reason = "calling what needs AVX-512 is unsafe until it is known to be there")]

use std::arch::x86_64::{
    __m512i, _mm512_rol_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use alloy_primitives::B256;

/// Messages that are hashed at once.
pub(super) const LANES: usize = 8;
/// Bytes that one permutation takes in.
pub(super) const RATE: usize = 136;

const ROUND_CONSTANTS: [u64; 24] = [
    0x0000_0000_0000_0001,
    0x0000_0000_0000_8082,
    0x8000_0000_0000_808a,
    0x8000_0000_8000_8000,
    0x0000_0000_0000_808b,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8009,
    0x0000_0000_0000_008a,
    0x0000_0000_0000_0088,
    0x0000_0000_8000_8009,
    0x0000_0000_8000_000a,
    0x0000_0000_8000_808b,
    0x8000_0000_0000_008b,
    0x8000_0000_0000_8089,
    0x8000_0000_0000_8003,
    0x8000_0000_0000_8002,
    0x8000_0000_0000_0080,
    0x0000_0000_0000_800a,
    0x8000_0000_8000_000a,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8080,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8008,
];

/// The hashes of eight messages that take the same number of permutations; `None` on a processor
/// without AVX-512.
pub(super) fn hash(messages: &[&[u8]; LANES]) -> Option<[B256; LANES]> {
    if !std::arch::is_x86_feature_detected!("avx512f") {
        return None;
    }
    // SAFETY: the processor has AVX-512F, as was just asked.
    Some(unsafe { hash_lanes(messages) })
}

#[target_feature(enable = "avx512f")]
fn hash_lanes(messages: &[&[u8]; LANES]) -> [B256; LANES] {
    let whole = messages[0].len() / RATE;
    debug_assert!(messages.iter().all(|message| message.len() / RATE == whole));
    let mut state = [_mm512_setzero_si512(); 25];
    for block in 0..whole {
        absorb(&mut state, &messages.map(|message| &message[block * RATE..(block + 1) * RATE]));
        permute(&mut state);
    }
    let mut padded = [[0; RATE]; LANES];
    for (block, message) in padded.iter_mut().zip(messages) {
        let tail = &message[whole * RATE..];
        block[..tail.len()].copy_from_slice(tail);
        block[tail.len()] |= 0x01;
        block[RATE - 1] |= 0x80;
    }
    absorb(&mut state, &padded.each_ref().map(|block| &block[..]));
    permute(&mut state);
    let mut hashes = [B256::ZERO; LANES];
    for (position, word) in state[..4].iter().enumerate() {
        let mut words = [0u64; LANES];
        // SAFETY: the target has room for the register's 64 bytes, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), *word) };
        for (hash, word) in hashes.iter_mut().zip(words) {
            hash[position * 8..position * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
    }
    hashes
}

#[target_feature(enable = "avx512f")]
fn absorb(state: &mut [__m512i; 25], blocks: &[&[u8]; LANES]) {
    for (position, word) in state[..RATE / 8].iter_mut().enumerate() {
        let lane = |lane: usize| {
            let bytes = &blocks[lane][position * 8..position * 8 + 8];
            u64::from_le_bytes(bytes.try_into().expect("eight bytes")).cast_signed()
        };
        let lanes = _mm512_set_epi64(lane(7), lane(6), lane(5), lane(4), lane(3), lane(2), lane(1), lane(0));
        *word = _mm512_xor_si512(*word, lanes);
    }
}

/// Truth table of `a ^ b ^ c`.
const XOR: i32 = 0x96;
/// Truth table of `a ^ (!b & c)`.
const CHI: i32 = 0xd2;

#[target_feature(enable = "avx512f")]
#[inline]
fn xor5(a: __m512i, b: __m512i, c: __m512i, d: __m512i, e: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<XOR>(_mm512_ternarylogic_epi64::<XOR>(a, b, c), d, e)
}

/// Theta, rho and pi take `state[from]` to a place in `moved`; chi comes after all were moved.
macro_rules! moved {
    ($state:ident, $left:ident, $right:ident, $($from:literal rotated $by:literal),+) => {
        [$({
            let mixed = _mm512_ternarylogic_epi64::<XOR>($state[$from], $left[$from % 5], $right[$from % 5]);
            _mm512_rol_epi64::<$by>(mixed)
        }),+]
    };
}

#[target_feature(enable = "avx512f")]
fn permute(state: &mut [__m512i; 25]) {
    for constant in ROUND_CONSTANTS {
        let s = *state;
        let column = |x: usize| xor5(s[x], s[x + 5], s[x + 10], s[x + 15], s[x + 20]);
        let c = [column(0), column(1), column(2), column(3), column(4)];
        let left = [c[4], c[0], c[1], c[2], c[3]];
        let right = [
            _mm512_rol_epi64::<1>(c[1]),
            _mm512_rol_epi64::<1>(c[2]),
            _mm512_rol_epi64::<1>(c[3]),
            _mm512_rol_epi64::<1>(c[4]),
            _mm512_rol_epi64::<1>(c[0]),
        ];
        let m = moved!(
            s, left, right,
            0 rotated 0, 6 rotated 44, 12 rotated 43, 18 rotated 21, 24 rotated 14,
            3 rotated 28, 9 rotated 20, 10 rotated 3, 16 rotated 45, 22 rotated 61,
            1 rotated 1, 7 rotated 6, 13 rotated 25, 19 rotated 8, 20 rotated 18,
            4 rotated 27, 5 rotated 36, 11 rotated 10, 17 rotated 15, 23 rotated 56,
            2 rotated 62, 8 rotated 55, 14 rotated 39, 15 rotated 41, 21 rotated 2
        );
        for row in [0, 5, 10, 15, 20] {
            for x in 0..5 {
                state[row + x] =
                    _mm512_ternarylogic_epi64::<CHI>(m[row + x], m[row + (x + 1) % 5], m[row + (x + 2) % 5]);
            }
        }
        state[0] = _mm512_xor_si512(state[0], _mm512_set1_epi64(constant.cast_signed()));
    }
}
