//! Which keys a segment certainly does not have: a Bloom filter whose bits for one key share a line of
//! the processor's cache (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom Filters").

/// Words of one line.
const LINE: usize = 8;
const BITS_PER_KEY: usize = 10;
const PROBES: u32 = 6;

/// A set of hashes that answers "no" or "perhaps"; about one wrong "perhaps" in a hundred.
#[derive(Debug)]
pub(super) struct Filter {
    words: Vec<u64>,
}

impl Filter {
    pub(super) fn new(hashes: &[u64]) -> Self {
        let lines = (hashes.len() * BITS_PER_KEY).div_ceil(LINE * 64).max(1);
        let mut filter = Self { words: vec![0; lines * LINE] };
        for hash in hashes {
            let line = filter.line(*hash);
            for bit in bits(*hash) {
                filter.words[line + bit / 64] |= 1 << (bit % 64);
            }
        }
        filter
    }

    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let line = self.line(hash);
        bits(hash).all(|bit| self.words[line + bit / 64] & (1 << (bit % 64)) != 0)
    }

    fn line(&self, hash: u64) -> usize {
        let lines = (self.words.len() / LINE) as u64;
        (((hash >> 32) * lines) >> 32) as usize * LINE
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.words.len() * 8
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for word in &self.words {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || !bytes.len().is_multiple_of(LINE * 8) {
            return None;
        }
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
        Some(Self { words: words.collect() })
    }
}

/// Positions within a line, by double hashing from the half that did not choose the line.
fn bits(hash: u64) -> impl Iterator<Item = usize> {
    let step = (hash as u32).rotate_left(15).wrapping_mul(0x9e37_79b1) | 1;
    (0..PROBES)
        .map(move |probe| ((hash as u32).wrapping_add(probe.wrapping_mul(step)) >> 23) as usize % (LINE * 64))
}
