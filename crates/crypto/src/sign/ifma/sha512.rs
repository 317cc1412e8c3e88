//! SHA-512 of eight 96-byte inputs at once: `R || A || M` of eight signatures over hashes.
//!
//! FIPS 180-4, one 64-bit lane for each input. 96 bytes and padding fill one block exactly once, so
//! there is no loop over blocks.

use std::arch::x86_64::*;

/// FIPS 180-4 section 4.2.3: the first 64 bits of the fractional parts of the cube roots of the
/// first 80 primes.
const K: [u64; 80] = [
    0x428a2f98d728ae22,
    0x7137449123ef65cd,
    0xb5c0fbcfec4d3b2f,
    0xe9b5dba58189dbbc,
    0x3956c25bf348b538,
    0x59f111f1b605d019,
    0x923f82a4af194f9b,
    0xab1c5ed5da6d8118,
    0xd807aa98a3030242,
    0x12835b0145706fbe,
    0x243185be4ee4b28c,
    0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f,
    0x80deb1fe3b1696b1,
    0x9bdc06a725c71235,
    0xc19bf174cf692694,
    0xe49b69c19ef14ad2,
    0xefbe4786384f25e3,
    0x0fc19dc68b8cd5b5,
    0x240ca1cc77ac9c65,
    0x2de92c6f592b0275,
    0x4a7484aa6ea6e483,
    0x5cb0a9dcbd41fbd4,
    0x76f988da831153b5,
    0x983e5152ee66dfab,
    0xa831c66d2db43210,
    0xb00327c898fb213f,
    0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2,
    0xd5a79147930aa725,
    0x06ca6351e003826f,
    0x142929670a0e6e70,
    0x27b70a8546d22ffc,
    0x2e1b21385c26c926,
    0x4d2c6dfc5ac42aed,
    0x53380d139d95b3df,
    0x650a73548baf63de,
    0x766a0abb3c77b2a8,
    0x81c2c92e47edaee6,
    0x92722c851482353b,
    0xa2bfe8a14cf10364,
    0xa81a664bbc423001,
    0xc24b8b70d0f89791,
    0xc76c51a30654be30,
    0xd192e819d6ef5218,
    0xd69906245565a910,
    0xf40e35855771202a,
    0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8,
    0x1e376c085141ab53,
    0x2748774cdf8eeb99,
    0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63,
    0x4ed8aa4ae3418acb,
    0x5b9cca4f7763e373,
    0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc,
    0x78a5636f43172f60,
    0x84c87814a1f0ab72,
    0x8cc702081a6439ec,
    0x90befffa23631e28,
    0xa4506cebde82bde9,
    0xbef9a3f7b2c67915,
    0xc67178f2e372532b,
    0xca273eceea26619c,
    0xd186b8c721c0c207,
    0xeada7dd6cde0eb1e,
    0xf57d4f7fee6ed178,
    0x06f067aa72176fba,
    0x0a637dc5a2c898a6,
    0x113f9804bef90dae,
    0x1b710b35131c471b,
    0x28db77f523047d84,
    0x32caab7b40c72493,
    0x3c9ebe0a15c9bebc,
    0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6,
    0x597f299cfc657e2a,
    0x5fcb6fab3ad6faec,
    0x6c44198c4a475817,
];

/// FIPS 180-4 section 5.3.5: the same of the square roots of the first 8 primes.
const INITIAL: [u64; 8] = [
    0x6a09e667f3bcc908,
    0xbb67ae8584caa73b,
    0x3c6ef372fe94f82b,
    0xa54ff53a5f1d36f1,
    0x510e527fade682d1,
    0x9b05688c2b3e6c1f,
    0x1f83d9abfb41bd6b,
    0x5be0cd19137e2179,
];

/// The digests of the eight inputs, each as eight big-endian words.
#[target_feature(enable = "avx512f")]
pub(super) fn eight(inputs: &[[u8; 96]; 8]) -> [[u64; 8]; 8] {
    let mut w: [__m512i; 16] = [_mm512_setzero_si512(); 16];
    for (i, word) in w[..12].iter_mut().enumerate() {
        let lanes: [u64; 8] =
            std::array::from_fn(|lane| u64::from_be_bytes(inputs[lane].as_chunks::<8>().0[i]));
        *word = bytemuck::cast(lanes);
    }
    // Section 5.1.2: a one bit, zeros, the length in bits.
    w[12] = splat(1 << 63);
    w[15] = splat(96 * 8);

    let initial = INITIAL.map(|word| splat(word));
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = initial;
    for block in K.as_chunks::<16>().0.iter().enumerate() {
        let (round, k) = block;
        if round > 0 {
            for t in 0..16 {
                let sigma_1 = small_sigma::<19, 61, 6>(w[(t + 14) % 16]);
                let sigma_0 = small_sigma::<1, 8, 7>(w[(t + 1) % 16]);
                w[t] = sum([sigma_1, w[(t + 9) % 16], sigma_0, w[t]]);
            }
        }
        for t in 0..16 {
            // Ch and Maj as truth tables.
            let choose = _mm512_ternarylogic_epi64::<0xca>(e, f, g);
            let majority = _mm512_ternarylogic_epi64::<0xe8>(a, b, c);
            let t1 = sum([h, big_sigma::<14, 18, 41>(e), choose, _mm512_add_epi64(splat(k[t]), w[t])]);
            let t2 = _mm512_add_epi64(big_sigma::<28, 34, 39>(a), majority);
            (h, g, f, e) = (g, f, e, _mm512_add_epi64(d, t1));
            (d, c, b, a) = (c, b, a, _mm512_add_epi64(t1, t2));
        }
    }
    let state = [a, b, c, d, e, f, g, h];
    let words: [[u64; 8]; 8] =
        std::array::from_fn(|i| bytemuck::cast(_mm512_add_epi64(state[i], initial[i])));
    std::array::from_fn(|lane| words.map(|word| word[lane]))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(value: u64) -> __m512i {
    _mm512_set1_epi64(value.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sum([a, b, c, d]: [__m512i; 4]) -> __m512i {
    _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

/// Section 4.1.3, equations 4.10 and 4.11.
#[inline]
#[target_feature(enable = "avx512f")]
fn big_sigma<const A: i32, const B: i32, const C: i32>(x: __m512i) -> __m512i {
    xor3(_mm512_ror_epi64::<A>(x), _mm512_ror_epi64::<B>(x), _mm512_ror_epi64::<C>(x))
}

/// Section 4.1.3, equations 4.12 and 4.13.
#[inline]
#[target_feature(enable = "avx512f")]
fn small_sigma<const A: i32, const B: i32, const C: u32>(x: __m512i) -> __m512i {
    xor3(_mm512_ror_epi64::<A>(x), _mm512_ror_epi64::<B>(x), _mm512_srli_epi64::<C>(x))
}
