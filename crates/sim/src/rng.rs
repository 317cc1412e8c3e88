//! Seeded randomness, the same on every platform and for ever.

/// A random generator for simulations: xoshiro256** (Blackman and Vigna, "Scrambled Linear Pseudorandom Number
/// Generators", 2021), seeded by splitmix64. Not for keys.
///
/// ```
/// let mut rng = tally_sim::Rng::new(7);
/// assert!(rng.below(10) < 10);
/// assert_eq!(tally_sim::Rng::new(7).next_u64(), tally_sim::Rng::new(7).next_u64());
/// ```
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut at = seed;
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (at ^ (at >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// Sixty-four uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= t;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A uniform number in `0..n`, without bias.
    ///
    /// # Panics
    /// If `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a number below zero was asked for");
        // Lemire, "Fast Random Integer Generation in an Interval", 2019.
        let reject_below = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            #[expect(clippy::cast_possible_truncation, reason = "the low and the high half of the product")]
            let (low, high) = (product as u64, (product >> 64) as u64);
            if low >= reject_below {
                return high;
            }
        }
    }

    /// A uniform index in `0..len`.
    ///
    /// # Panics
    /// If `len` is zero.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("it is below a usize")
    }

    /// A uniform number in `low..=high`.
    ///
    /// # Panics
    /// If `low > high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range was asked for");
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.next_u64(),
        }
    }

    /// True in `numerator` of `denominator` cases.
    ///
    /// # Panics
    /// If `denominator` is zero.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Fills `bytes` uniformly.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Puts `items` in a uniformly random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }

    /// A generator of its own for a part of the simulation, so that what one part draws does not change what
    /// the others get.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn is_the_published_generator() {
        // First output of xoshiro256** from the state 1, 2, 3, 4, worked by hand:
        // rotl(2 * 5, 7) * 9 = 1280 * 9 = 11520; the second word is then 0.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!(rng.next_u64(), 11520);
        assert_eq!(rng.next_u64(), 0);
        assert_eq!(rng.next_u64(), 1_509_978_240);
    }

    #[test]
    fn seeds_by_splitmix64() {
        // The published test vector of splitmix64 from zero.
        assert_eq!(Rng::new(0).state[0], 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn stays_below_and_reaches_everything() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            seen[rng.index(5)] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        assert_eq!(rng.below(1), 0);
        assert_eq!(rng.between(9, 9), 9);
        rng.between(0, u64::MAX);
    }

    #[test]
    fn shuffles_without_losing_anything() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::new(3).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn fills_every_length() {
        for len in 0..20 {
            let mut bytes = vec![0; len];
            Rng::new(5).fill(&mut bytes);
            assert!(len < 8 || bytes.iter().any(|&b| b != 0));
        }
    }
}
