//! BLAKE3 of many short inputs of one size, one input per SIMD lane.
//!
//! [`blake3::hash`] parallelises within one long input; a 64-byte input leaves 15 of 16 AVX-512
//! lanes idle. The functions here fill the lanes with different inputs instead and give exactly
//! the same hashes. They call the entry point that BLAKE3 itself uses for the chunks of a long
//! input; it is public but undocumented, hence the exact version in `Cargo.toml` and the
//! equality tests below.

use crate::Hash;
use blake3::IncrementCounter;
use blake3::platform::Platform;

/// Bytes of one compression (BLAKE3 paper, section 2.1).
const BLOCK: usize = 64;
/// Bytes of one chunk; longer inputs become a tree, which this module does not build.
const CHUNK: usize = 1024;
/// Inputs handed over at once: a few times the widest SIMD degree, small enough for the stack.
const GROUP: usize = 64;

// BLAKE3 paper, table 3.
const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const ROOT: u8 = 1 << 3;
const KEYED_HASH: u8 = 1 << 4;

/// The initial value, shared with SHA-256 (BLAKE3 paper, table 1).
const IV: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// Appends the BLAKE3 hash of every input to `out`, in order.
///
/// Each equals [`crate::hash()`] of that input. `N` is a multiple of 64, at least 64 and at most
/// 1024; anything else does not compile:
///
/// ```compile_fail
/// tally_crypto::hash_many(&[[0u8; 65]], &mut Vec::new());
/// ```
///
/// Allocates only when `out` lacks capacity.
pub fn hash_many<const N: usize>(inputs: &[[u8; N]], out: &mut Vec<Hash>) {
    let start = out.len();
    out.resize(start + inputs.len(), Hash::ZERO);
    fill(inputs, &IV, 0, &mut out[start..]);
}

/// Appends the keyed BLAKE3 hash of every input to `out`, in order.
///
/// Each equals [`crate::keyed`] of that input; `N` as for [`hash_many`].
pub fn hash_many_keyed<const N: usize>(key: &[u8; 32], inputs: &[[u8; N]], out: &mut Vec<Hash>) {
    let start = out.len();
    out.resize(start + inputs.len(), Hash::ZERO);
    fill(inputs, &key_words(key), KEYED_HASH, &mut out[start..]);
}

/// A key as the compression function takes it: eight little-endian words.
fn key_words(key: &[u8; 32]) -> [u32; 8] {
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

fn fill<const N: usize>(inputs: &[[u8; N]], key: &[u32; 8], flags: u8, out: &mut [Hash]) {
    const {
        assert!(N >= BLOCK && N <= CHUNK && N.is_multiple_of(BLOCK), "N must be 64, 128, ... or 1024");
    }
    let platform = Platform::detect();
    let Some(first) = inputs.first() else { return };
    let mut group = [first; GROUP];
    for (inputs, out) in inputs.chunks(GROUP).zip(out.chunks_mut(GROUP)) {
        for (slot, input) in group.iter_mut().zip(inputs) {
            *slot = input;
        }
        platform.hash_many(
            &group[..inputs.len()],
            key,
            0,
            IncrementCounter::No,
            flags,
            CHUNK_START,
            CHUNK_END | ROOT,
            bytemuck::cast_slice_mut(out),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Distinct inputs from a seed, as many as there are lanes and remainders to get wrong.
    fn inputs<const N: usize>(count: usize, seed: [u8; 32]) -> Vec<[u8; N]> {
        let mut reader = blake3::Hasher::new_keyed(&seed).finalize_xof();
        (0..count)
            .map(|_| {
                let mut input = [0; N];
                reader.fill(&mut input);
                input
            })
            .collect()
    }

    fn equals_the_public_functions<const N: usize>(count: usize, seed: [u8; 32]) {
        let inputs = inputs::<N>(count, seed);
        let mut out = vec![Hash::from_bytes([7; 32])];
        hash_many(&inputs, &mut out);
        hash_many_keyed(&seed, &inputs, &mut out);
        let mut expected = vec![Hash::from_bytes([7; 32])];
        expected.extend(inputs.iter().map(|input| crate::hash(input)));
        expected.extend(inputs.iter().map(|input| crate::keyed(&seed, input)));
        assert_eq!(out, expected, "{count} inputs of {N} bytes");
    }

    #[test]
    fn every_count_around_the_lane_and_group_sizes() {
        for count in 0..=140 {
            equals_the_public_functions::<64>(count, [count as u8; 32]);
        }
    }

    proptest! {
        #[test]
        fn every_size(count in 0usize..80, seed: [u8; 32]) {
            equals_the_public_functions::<64>(count, seed);
            equals_the_public_functions::<128>(count, seed);
            equals_the_public_functions::<192>(count, seed);
            equals_the_public_functions::<576>(count, seed);
            equals_the_public_functions::<1024>(count, seed);
        }
    }
}
