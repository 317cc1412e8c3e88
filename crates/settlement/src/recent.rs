//! The end-to-end references seen recently: which transaction used each, until it expires.
//!
//! A reference belongs to the institution that debits: two institutions may use the same one, so that
//! none can use up another's.

use crate::message::Source;
use bytemuck::{Pod, Zeroable};
use tally_ledger::{ParticipantId, Timestamp, Uetr};

/// An end-to-end reference, and the institution whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reference {
    /// The institution that debits.
    pub participant: ParticipantId,
    /// What it chose.
    pub uetr: Uetr,
}

/// 32 bytes, two to a cache line.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Entry {
    uetr: [u8; 16],
    /// The participant above, the batch below [`NUMBER_BITS`].
    number: u64,
    /// Position in the source plus one; zero marks a free entry.
    index: u32,
    /// Expiry in seconds since the epoch, rounded up.
    expiry: u32,
}

/// Open addressing in many small tables, each of which grows alone, so that no growth is felt.
/// Expired entries go when their table would grow.
pub struct Recent {
    shards: Vec<Shard>,
    key: [u64; 2],
    scheduler: u64,
    live: usize,
    limit: usize,
}

#[derive(Default)]
struct Shard {
    entries: Vec<Entry>,
    used: usize,
}

/// Expiries are kept in whole seconds, rounded up, and looked at in whole seconds of the time, so that a reference may be
/// remembered for so long after its expiry.
const ROUNDING_MS: u64 = 2_000;

/// Whether a process that never stopped may still remember a reference with this expiry. One that starts has to remember
/// it as well: the answer must not depend on whether there was a crash.
pub fn may_be_remembered(expiry: Timestamp, now: Timestamp) -> bool {
    expiry.plus_ms(ROUNDING_MS) > now
}

/// Bits of a batch's number: a scheduler that accepts a million batches a second numbers them for eight years.
const NUMBER_BITS: u32 = 48;

impl Entry {
    fn is_of(&self, reference: &Reference) -> bool {
        self.uetr == reference.uetr.0 && self.number >> NUMBER_BITS == u64::from(reference.participant.0)
    }
    fn reference(&self) -> Reference {
        let participant = u16::try_from(self.number >> NUMBER_BITS).expect("16 bits are left");
        Reference { participant: ParticipantId(participant), uetr: Uetr(self.uetr) }
    }
    fn batch(&self) -> u64 {
        self.number & ((1 << NUMBER_BITS) - 1)
    }
}

const SHARDS: usize = 1 << 10;
const SMALLEST: usize = 16;

/// What became of a reference offered to [`Recent::insert`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It was new and is remembered now.
    New,
    /// That transaction used it.
    Before(Source, u32),
    /// It is new, but as many are remembered as may be.
    Full,
}

impl Recent {
    /// Remembers at most `limit` references of what `scheduler` accepts. `key` is secret, so that
    /// nobody can choose references that collide.
    pub fn new(scheduler: u64, limit: usize, key: [u64; 2]) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Self { shards, key, scheduler, live: 0, limit }
    }

    /// Where to look for a reference.
    #[inline]
    pub fn place(&self, reference: &Reference) -> u64 {
        let [a, b]: [u64; 2] = bytemuck::cast(reference.uetr.0);
        let b = b ^ u64::from(reference.participant.0).rotate_right(16);
        let fold = |x: u64, y: u64| {
            let product = u128::from(x) * u128::from(y);
            let [low, high]: [u64; 2] = bytemuck::cast(product);
            low ^ high
        };
        fold(fold(a ^ self.key[0], b ^ self.key[1]) ^ self.key[1], 0x9e37_79b9_7f4a_7c15)
    }

    #[inline]
    fn shard(place: u64) -> usize {
        (place >> 54) as usize
    }

    /// Reads ahead of use, so that cache misses overlap.
    #[inline]
    pub fn touch(&self, places: &[u64]) {
        let mut sum = 0;
        for place in places {
            let shard = &self.shards[Self::shard(*place)];
            if !shard.entries.is_empty() {
                sum ^= shard.entries[*place as usize & (shard.entries.len() - 1)].index;
            }
        }
        std::hint::black_box(sum);
    }

    /// Which transaction used the reference, if one did that has not expired.
    pub fn find(&self, reference: &Reference, now: Timestamp) -> Option<(Source, u32)> {
        let place = self.place(reference);
        let shard = &self.shards[Self::shard(place)];
        let at = shard.find(place, reference)?;
        let entry = &shard.entries[at];
        // In whole seconds, as `insert` judges: what is found here is found there.
        let known = entry.index != 0 && u64::from(entry.expiry) >= now.0 / 1000;
        known.then(|| (Source::new(self.scheduler, entry.batch()), entry.index - 1))
    }

    /// Remembers that the transaction at `index` of batch `number` used the reference, unless it is known.
    #[inline]
    pub fn insert(
        &mut self,
        place: u64,
        reference: &Reference,
        number: u64,
        index: u32,
        expiry: Timestamp,
        now: Timestamp,
    ) -> Seen {
        let shard = &mut self.shards[Self::shard(place)];
        let now_s = u32::try_from(now.0 / 1000).unwrap_or(u32::MAX);
        let expiry = u32::try_from(expiry.0.div_ceil(1000)).unwrap_or(u32::MAX);
        if shard.used * 4 >= shard.entries.len() * 3 {
            let before = shard.used;
            shard.make_room(now_s, self.key);
            self.live -= before - shard.used;
        }
        let at = shard.find(place, reference).expect("room was made");
        let entry = &mut shard.entries[at];
        if entry.index == 0 {
            if self.live >= self.limit {
                return Seen::Full;
            }
            self.live += 1;
            shard.used += 1;
        } else if entry.expiry >= now_s {
            return Seen::Before(Source::new(self.scheduler, entry.batch()), entry.index - 1);
        }
        let number = u64::from(reference.participant.0) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1);
        shard.entries[at] = Entry { uetr: reference.uetr.0, number, index: index + 1, expiry };
        Seen::New
    }

    /// Frees a reference that the transaction at `index` of batch `number` used, if it is that one's still.
    pub fn release(&mut self, reference: &Reference, number: u64, index: u32) {
        let place = self.place(reference);
        let shard = &mut self.shards[Self::shard(place)];
        if let Some(at) = shard.find(place, reference)
            && shard.entries[at].index == index + 1
            && shard.entries[at].batch() == number
        {
            // As if it had expired long ago: it goes with the others that have.
            shard.entries[at].expiry = 0;
        }
    }

    /// How many references are held, expired ones that were not cleared yet among them.
    pub fn len(&self) -> usize {
        self.live
    }
    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }
}

impl Shard {
    /// Where the reference is or would be; none in a table without room.
    #[inline]
    fn find(&self, place: u64, reference: &Reference) -> Option<usize> {
        let mask = self.entries.len().checked_sub(1)?;
        let mut at = place as usize & mask;
        loop {
            let entry = &self.entries[at];
            if entry.index == 0 || entry.is_of(reference) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn make_room(&mut self, now_s: u32, key: [u64; 2]) {
        let live = self.entries.iter().filter(|e| e.index != 0 && e.expiry >= now_s).count();
        let size = (live * 2).next_power_of_two().max(SMALLEST);
        let old = std::mem::replace(&mut self.entries, vec![Entry::zeroed(); size]);
        self.used = live;
        let places = Recent { shards: Vec::new(), key, scheduler: 0, live: 0, limit: 0 };
        for entry in old.into_iter().filter(|e| e.index != 0 && e.expiry >= now_s) {
            let reference = entry.reference();
            let at = self.find(places.place(&reference), &reference).expect("the table has room");
            self.entries[at] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((0u16..600, 1u64..20, 0u64..3), 1..3000)) {
            let mut recent = Recent::new(3, 1 << 20, [1, 2]);
            let mut model: HashMap<Reference, (u64, u64)> = HashMap::new();
            let mut now = 0u64;
            for (number, (uetr, validity, wait)) in (0u64..).zip(steps) {
                now += wait * 1000;
                let mut bytes = [7; 16];
                // Few references, each of two institutions.
                bytes[..2].copy_from_slice(&(uetr / 2).to_le_bytes());
                let uetr = Reference { participant: ParticipantId(uetr % 2), uetr: Uetr(bytes) };
                if wait == 2 && let Some((used, _)) = model.remove(&uetr) {
                    recent.release(&uetr, used, 4);
                    recent.release(&uetr, used, 5);
                }
                let known = model.get(&uetr).filter(|(_, expiry)| *expiry >= now).copied();
                prop_assert_eq!(recent.find(&uetr, Timestamp(now)), known.map(|(n, _)| (Source::new(3, n), 5)));
                let expiry = now + validity * 1000;
                let place = recent.place(&uetr);
                match recent.insert(place, &uetr, number, 5, Timestamp(expiry), Timestamp(now)) {
                    Seen::New => {
                        prop_assert!(known.is_none());
                        model.insert(uetr, (number, expiry));
                    }
                    Seen::Before(source, index) => {
                        prop_assert_eq!((source.number, index), (known.unwrap().0, 5));
                    }
                    Seen::Full => prop_assert!(false),
                }
            }
        }
    }

    #[test]
    fn holds_no_more_than_its_limit() {
        let mut recent = Recent::new(0, 10, [1, 2]);
        let mut offer = |i: u8, now: u64| {
            let uetr = Reference { participant: ParticipantId(1), uetr: Uetr([i; 16]) };
            let place = recent.place(&uetr);
            recent.insert(place, &uetr, 0, 0, Timestamp(now + 1000), Timestamp(now))
        };
        assert!((0..10).all(|i| offer(i, 0) == Seen::New));
        assert_eq!(offer(10, 0), Seen::Full);
        assert!(matches!(offer(3, 0), Seen::Before(..)));
    }
}
