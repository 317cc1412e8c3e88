//! Ways to damage bytes.

use tally_sim::Rng;

/// Numbers at which mistakes happen.
const CORNERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    i64::MIN as u64,
    u64::MAX,
];

/// Damages `bytes` in one place or a few; `other` lends parts. Sometimes nothing is changed.
pub(super) fn damage(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..rng.below(4) {
        if bytes.is_empty() {
            bytes.push(0);
        }
        let at = rng.index(bytes.len());
        match rng.below(10) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = CORNERS[rng.index(4)].to_le_bytes()[0],
            2..=4 => {
                // A number, where it may lie.
                let width = [2, 4, 8][rng.index(3)];
                let at = if rng.chance(1, 2) { at } else { at / width * width };
                let number = match rng.below(3) {
                    0 => CORNERS[rng.index(CORNERS.len())],
                    1 => rng.below(40),
                    _ => rng.next_u64(),
                };
                for (to, from) in bytes[at..].iter_mut().zip(number.to_le_bytes()).take(width) {
                    *to = from;
                }
            }
            5 => bytes.truncate(at),
            6 => {
                let mut more = vec![0; rng.index(40)];
                rng.fill(&mut more);
                bytes.splice(at..at, more);
            }
            7 => {
                let end = (at + rng.index(200)).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            8 => {
                let end = (at + rng.index(200)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                if !other.is_empty() {
                    let from = rng.index(other.len());
                    let part = &other[from..(from + rng.index(200)).min(other.len())];
                    let end = (at + part.len()).min(bytes.len());
                    bytes.splice(at..end, part.iter().copied());
                }
            }
        }
    }
}

/// One of `samples`, damaged; nothing but noise sometimes.
pub(super) fn damaged(rng: &mut Rng, samples: &[Vec<u8>]) -> Vec<u8> {
    if rng.chance(1, 50) {
        let mut noise = vec![0; rng.index(300)];
        rng.fill(&mut noise);
        return noise;
    }
    let mut bytes = samples[rng.index(samples.len())].clone();
    let other = &samples[rng.index(samples.len())];
    damage(rng, &mut bytes, other);
    bytes
}
