//! The hash of keys in filters and in-memory indexes. It is part of the file format.

const SEEDS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9];

/// 64 well-mixed bits. Not meant against an adversary: keys that collide on purpose cost time, never
/// a wrong answer.
pub(super) fn hash(key: &[u8]) -> u64 {
    let mut state = SEEDS[0] ^ key.len() as u64;
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
        state = fold(state ^ word, SEEDS[1]);
    }
    let mut tail = [0; 8];
    let rest = chunks.remainder();
    tail[..rest.len()].copy_from_slice(rest);
    fold(state ^ u64::from_le_bytes(tail), SEEDS[2])
}

/// Both halves of the 128-bit product, folded.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}
