//! Decoded public keys, remembered from one batch to the next.

use super::PublicKey;
use super::engine::{Decoded, Engine};
use curve25519_dalek::constants::ED25519_BASEPOINT_COMPRESSED;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Keys in two generations: when the younger is full it becomes the older, and what nobody asked for
/// meanwhile goes.
pub(super) struct KnownKeys<P> {
    young: Generation<P>,
    old: Generation<P>,
    limit: usize,
    base: Option<P>,
    /// Number of the batch in work.
    batch: u64,
    /// Its keys' slots, those of them that are decoded now, and what is decoded.
    slots: Vec<usize>,
    fresh_slots: Vec<usize>,
    fresh: Vec<[u8; 32]>,
    decoded: Decoded<P>,
    keys: BatchKeys<P>,
}

/// A table from a key to its slot; a slot's point and place are apart, so that finding keys reads few
/// bytes.
struct Generation<P> {
    slots: HashMap<PublicKey, usize>,
    points: Vec<P>,
    notes: Vec<Note>,
}

/// What is known of a slot beside its point.
#[derive(Clone, Copy)]
struct Note {
    /// The last batch that used it, and the key's position in that batch.
    batch: u64,
    position: u32,
    /// Whether the key stands for a point.
    valid: bool,
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
            base: None,
            batch: 0,
            slots: Vec::new(),
            fresh_slots: Vec::new(),
            fresh: Vec::new(),
            decoded: Decoded::default(),
            keys: BatchKeys { of_item: Vec::new(), known: Decoded::default() },
        }
    }

    /// Finds the points of a batch's keys, decoding those that are not known.
    pub(super) fn find<E: Engine<Point = P>>(
        &mut self,
        engine: &E,
        keys: impl Iterator<Item = PublicKey>,
    ) -> &BatchKeys<P> {
        if self.young.points.len() >= self.limit {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.batch += 1;
        self.slots.clear();
        self.fresh_slots.clear();
        self.fresh.clear();
        self.keys.of_item.clear();
        let base = *self.base.get_or_insert_with(|| {
            engine.decode(&[ED25519_BASEPOINT_COMPRESSED.to_bytes()], &mut self.decoded);
            self.decoded.points[0]
        });
        for key in keys {
            let slot = self.slot(key, base);
            let note = &mut self.young.notes[slot];
            if note.batch != self.batch {
                self.slots.push(slot);
                note.batch = self.batch;
                note.position = u32::try_from(self.slots.len()).expect("a batch fits into memory");
            }
            self.keys.of_item.push(note.position as usize);
        }
        engine.decode(&self.fresh, &mut self.decoded);
        let decoded = self.decoded.points.iter().zip(&self.decoded.valid);
        for (slot, (point, valid)) in self.fresh_slots.iter().zip(decoded) {
            self.young.points[*slot] = *point;
            self.young.notes[*slot].valid = *valid;
        }
        let known = &mut self.keys.known;
        known.clear();
        known.points.push(base);
        known.valid.push(true);
        known.points.extend(self.slots.iter().map(|slot| self.young.points[*slot]));
        known.valid.extend(self.slots.iter().map(|slot| self.young.notes[*slot].valid));
        &self.keys
    }

    /// The slot of a key among the young; one that must still be decoded holds `unknown`.
    fn slot(&mut self, key: PublicKey, unknown: P) -> usize {
        let vacant = match self.young.slots.entry(key) {
            Entry::Occupied(slot) => return *slot.get(),
            Entry::Vacant(vacant) => vacant,
        };
        let slot = self.young.points.len();
        vacant.insert(slot);
        let (point, valid) = match self.old.slots.get(&key) {
            Some(old) => (self.old.points[*old], self.old.notes[*old].valid),
            None => {
                self.fresh.push(key.0);
                self.fresh_slots.push(slot);
                (unknown, false)
            }
        };
        self.young.points.push(point);
        self.young.notes.push(Note { batch: 0, position: 0, valid });
        slot
    }
}

impl<P> Default for Generation<P> {
    fn default() -> Self {
        Self { slots: HashMap::default(), points: Vec::new(), notes: Vec::new() }
    }
}

impl<P> Generation<P> {
    fn clear(&mut self) {
        self.slots.clear();
        self.points.clear();
        self.notes.clear();
    }
}
