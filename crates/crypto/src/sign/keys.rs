//! Decoded public keys, remembered from one batch to the next.

use super::PublicKey;
use super::engine::{Decoded, Engine};
use curve25519_dalek::constants::ED25519_BASEPOINT_COMPRESSED;
use std::hash::{BuildHasher, RandomState};

/// Keys whose places in memory are read ahead of use together, so that cache misses overlap.
const AHEAD: usize = 32;

/// Keys in two generations: when the younger is full it becomes the older, and what nobody asked for
/// meanwhile goes.
pub(super) struct KnownKeys<P> {
    young: Generation<P>,
    old: Generation<P>,
    limit: usize,
    /// Keyed by the system's random source: an adversary that chooses keys cannot choose collisions.
    hasher: RandomState,
    base: Option<P>,
    /// Number of the batch in work.
    batch: u64,
    /// Its keys that are not decoded yet, the slot and the position of each, and what they stand for.
    fresh: Vec<[u8; 32]>,
    fresh_places: Vec<(usize, usize)>,
    decoded: Decoded<P>,
    keys: BatchKeys<P>,
}

/// The keys of one batch.
pub(super) struct BatchKeys<P> {
    /// The position in `known` of each item's key.
    pub(super) of_item: Vec<usize>,
    /// The base point, then every key once.
    pub(super) known: Decoded<P>,
}

impl<P: Copy> KnownKeys<P> {
    /// Remembers the keys of the last batch or, if more, at least the last `limit` keys and at most
    /// twice as many beside the last batch's.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            young: Generation::default(),
            old: Generation::default(),
            limit,
            hasher: RandomState::new(),
            base: None,
            batch: 0,
            fresh: Vec::new(),
            fresh_places: Vec::new(),
            decoded: Decoded::default(),
            keys: BatchKeys { of_item: Vec::new(), known: Decoded::default() },
        }
    }

    /// Finds the points of a batch's keys, decoding those that are not known.
    pub(super) fn find<E: Engine<Point = P>>(
        &mut self,
        engine: &E,
        mut keys: impl Iterator<Item = PublicKey>,
    ) -> &BatchKeys<P> {
        if self.young.slots.len() >= self.limit {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.batch += 1;
        self.fresh.clear();
        self.fresh_places.clear();
        self.keys.of_item.clear();
        self.keys.known.clear();
        let base = *self.base.get_or_insert_with(|| {
            engine.decode(&[ED25519_BASEPOINT_COMPRESSED.to_bytes()], &mut self.decoded);
            self.decoded.points[0]
        });
        self.keys.known.points.push(base);
        self.keys.known.valid.push(true);
        let mut ahead = Vec::with_capacity(AHEAD);
        loop {
            ahead.clear();
            ahead.extend(keys.by_ref().take(AHEAD).map(|key| (key, self.hasher.hash_one(key))));
            if ahead.is_empty() {
                break;
            }
            self.touch(engine, &ahead);
            for (key, hash) in &ahead {
                self.take(key, *hash, base);
            }
        }
        engine.decode(&self.fresh, &mut self.decoded);
        let decoded = self.decoded.points.iter().zip(&self.decoded.valid);
        for ((slot, position), (point, valid)) in self.fresh_places.iter().zip(decoded) {
            self.young.points[*slot] = *point;
            self.young.slots[*slot].valid = *valid;
            self.keys.known.points[*position] = *point;
            self.keys.known.valid[*position] = *valid;
        }
        &self.keys
    }

    /// Reads ahead what [`Self::take`] will use: the indices of all, then what these lead to.
    fn touch<E: Engine<Point = P>>(&self, engine: &E, keys: &[(PublicKey, u64)]) {
        let mut sum = 0;
        for (_, hash) in keys {
            sum ^= self.young.first(*hash) ^ self.old.first(*hash);
        }
        for (_, hash) in keys {
            for generation in [&self.young, &self.old] {
                if let Some(slot) = slot_of(generation.first(*hash), *hash) {
                    sum ^= generation.slots[slot].batch ^ engine.touch(&generation.points[slot]);
                }
            }
        }
        std::hint::black_box(sum);
    }

    /// The next item's key; `unknown` stands for the point of one that must still be decoded.
    fn take(&mut self, key: &PublicKey, hash: u64, unknown: P) {
        let known = &mut self.keys.known;
        let slot = match self.young.find(key, hash) {
            Some(slot) => slot,
            None => {
                let old = self.old.find(key, hash);
                let (point, valid) = old.map_or((unknown, false), |slot| self.old.at(slot));
                let slot = self.young.insert(key, hash, point, valid);
                if old.is_none() {
                    self.fresh.push(key.0);
                    self.fresh_places.push((slot, known.points.len()));
                }
                slot
            }
        };
        let note = &mut self.young.slots[slot];
        if note.batch != self.batch {
            note.batch = self.batch;
            note.position = u32::try_from(known.points.len()).expect("a batch fits into memory");
            known.points.push(self.young.points[slot]);
            known.valid.push(note.valid);
        }
        self.keys.of_item.push(note.position as usize);
    }
}

/// A table from a key to its slot, with open addressing. What finds a key lies apart from the points, so that it
/// takes little of the cache.
struct Generation<P> {
    /// Where a key's hash leads to, and onwards: in the lower half a slot plus one, in the upper half that of the
    /// hash of its key; zero where nothing is. At most half full; its length is a power of two, or zero.
    index: Vec<u64>,
    slots: Vec<Slot>,
    points: Vec<P>,
}

/// What is known of a key beside its point, in one cache line.
#[repr(align(64))]
struct Slot {
    key: PublicKey,
    hash: u64,
    /// The last batch that used it, and the key's position in that batch.
    batch: u64,
    position: u32,
    /// Whether the key stands for a point.
    valid: bool,
}

const LOWER: u64 = u32::MAX as u64;

/// The slot that an entry of the index names, if its key may be the one with this hash.
fn slot_of(entry: u64, hash: u64) -> Option<usize> {
    (entry != 0 && entry & !LOWER == hash & !LOWER).then(|| (entry & LOWER) as usize - 1)
}

impl<P> Default for Generation<P> {
    fn default() -> Self {
        Self { index: Vec::new(), slots: Vec::new(), points: Vec::new() }
    }
}

impl<P: Copy> Generation<P> {
    fn clear(&mut self) {
        self.index.fill(0);
        self.slots.clear();
        self.points.clear();
    }

    /// The entry to which a hash leads at first; zero where the table has no room.
    fn first(&self, hash: u64) -> u64 {
        if self.index.is_empty() { 0 } else { self.index[hash as usize & (self.index.len() - 1)] }
    }

    fn find(&self, key: &PublicKey, hash: u64) -> Option<usize> {
        let mut at = hash as usize;
        loop {
            let entry = *self.index.get(at & self.index.len().wrapping_sub(1))?;
            if entry == 0 {
                return None;
            }
            if let Some(slot) = slot_of(entry, hash)
                && self.slots[slot].key == *key
            {
                return Some(slot);
            }
            at = at.wrapping_add(1);
        }
    }

    /// The point of a slot, and whether its key stands for it.
    fn at(&self, slot: usize) -> (P, bool) {
        (self.points[slot], self.slots[slot].valid)
    }

    /// A new slot, for a key that has none.
    fn insert(&mut self, key: &PublicKey, hash: u64, point: P, valid: bool) -> usize {
        let slot = self.slots.len();
        self.slots.push(Slot { key: *key, hash, batch: 0, position: 0, valid });
        self.points.push(point);
        if 2 * self.slots.len() > self.index.len() {
            self.index.clear();
            self.index.resize((4 * self.slots.len()).next_power_of_two(), 0);
            for slot in 0..self.slots.len() {
                self.enter(slot);
            }
        } else {
            self.enter(slot);
        }
        slot
    }

    /// Enters a slot into the index, which has room for it.
    fn enter(&mut self, slot: usize) {
        let hash = self.slots[slot].hash;
        let named = u64::try_from(slot + 1).ok().filter(|slot| *slot <= LOWER);
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        while self.index[at] != 0 {
            at = (at + 1) & mask;
        }
        self.index[at] = hash & !LOWER | named.expect("a batch fits into memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Few hashes for many keys, so that probes are long and halves of hashes agree.
    fn hash_of(key: u8) -> u64 {
        u64::from(key % 3) << 32 | u64::from(key % 5) << 62 | u64::from(key % 2)
    }

    proptest! {
        #[test]
        fn a_generation_is_a_map(keys in prop::collection::vec(any::<u8>(), 0..400), clear_at in 0usize..400) {
            let mut generation = Generation::default();
            let mut model = HashMap::new();
            for (number, byte) in keys.into_iter().enumerate() {
                if number == clear_at {
                    generation.clear();
                    model.clear();
                }
                let (key, hash) = (PublicKey([byte; 32]), hash_of(byte));
                let found = generation.find(&key, hash).map(|slot| generation.at(slot));
                prop_assert_eq!(found, model.get(&byte).copied());
                if found.is_none() {
                    generation.insert(&key, hash, number, number % 2 == 0);
                    model.insert(byte, (number, number % 2 == 0));
                }
            }
            prop_assert_eq!(generation.slots.len(), model.len());
        }
    }
}
