//! The end-to-end references seen recently: which transaction used each, until it expires.
//!
//! A reference belongs to the institution that debits: two institutions may use the same one, so that
//! none can use up another's. Nor can one use up everybody's memory, see `shares`.

mod shares;

use crate::message::Source;
use bytemuck::{Pod, Zeroable};
use shares::Shares;
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
    /// Expiry in seconds since the epoch, rounded up; zero once it is released.
    expiry: u32,
}

/// Open addressing in many small tables, each of which grows alone, so that no growth is felt.
/// Expired entries are cleared when their table would grow. They stop counting before that, with
/// time, so that no table has to be swept for the limit to heal.
pub struct Recent {
    shards: Vec<Shard>,
    key: [u64; 2],
    scheduler: u64,
    shares: Shares,
    /// The second by which is judged; it never goes back.
    now: u32,
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
    forgotten_after(expiry) > now
}

/// When no process remembers a reference with this expiry any more.
pub fn forgotten_after(expiry: Timestamp) -> Timestamp {
    expiry.plus_ms(ROUNDING_MS)
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
    /// It is new, but as many are remembered as may be, of all institutions or of this one.
    Full,
}

impl Recent {
    /// Remembers at most `limit` references of what `scheduler` accepts, of which each of so many
    /// institutions has a share. `key` is secret, so that nobody can choose references that collide.
    ///
    /// An expired reference is counted a little longer: a two-thousandth of the longest validity.
    pub fn new(
        scheduler: u64,
        limit: usize,
        (institutions, longest_validity_ms): (usize, u64),
        key: [u64; 2],
    ) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        let shares = Shares::new(limit, institutions, longest_validity_ms);
        // What is released counts as expired in second zero.
        Self { shards, key, scheduler, shares, now: 1 }
    }

    /// Where to look for a reference.
    #[inline]
    pub fn place(&self, reference: &Reference) -> u64 {
        place(self.key, reference)
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
        // By the second that `insert` judges by: what is found here is found there.
        let known = entry.index != 0 && entry.expiry >= seconds(now).max(self.now);
        known.then(|| (Source::new(self.scheduler, entry.batch()), entry.index - 1))
    }

    /// Remembers that the transaction at `index` of batch `number` used the reference, unless it is known
    /// or there is no room. A time that goes back stands still instead.
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
        self.put(place, reference, number, index, expiry, now, true)
    }

    /// The same for what was accepted before: there is always room, since what is forgotten can be paid again.
    pub fn restore(
        &mut self,
        place: u64,
        reference: &Reference,
        number: u64,
        index: u32,
        expiry: Timestamp,
        now: Timestamp,
    ) -> Seen {
        self.put(place, reference, number, index, expiry, now, false)
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "those of `insert`, and whether the limit counts")]
    fn put(
        &mut self,
        place: u64,
        reference: &Reference,
        number: u64,
        index: u32,
        expiry: Timestamp,
        now: Timestamp,
        limited: bool,
    ) -> Seen {
        let now_s = seconds(now).max(self.now);
        if now_s > self.now {
            self.now = now_s;
            self.shares.advance(now_s);
        }
        let shard = &mut self.shards[Self::shard(place)];
        // Zero is what was released.
        let expiry = u32::try_from(expiry.0.div_ceil(1000)).unwrap_or(u32::MAX).max(1);
        if shard.used * 4 >= shard.entries.len() * 3 {
            shard.make_room(now_s, self.key);
        }
        let at = shard.find(place, reference).expect("room was made");
        let entry = &mut shard.entries[at];
        let is_free = entry.index == 0;
        if !is_free && entry.expiry >= now_s {
            return Seen::Before(Source::new(self.scheduler, entry.batch()), entry.index - 1);
        }
        if limited && !self.shares.has_room(reference.participant) {
            return Seen::Full;
        }
        if expiry >= now_s {
            self.shares.take(reference.participant, expiry);
        }
        shard.used += usize::from(is_free);
        let number = u64::from(reference.participant.0) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1);
        *entry = Entry { uetr: reference.uetr.0, number, index: index + 1, expiry };
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
            // As if it had expired long ago: the entry goes with the others that have.
            let expiry = std::mem::take(&mut shard.entries[at].expiry);
            // What has expired may be cleared at any time. It counts until its time is over, cleared or not.
            if expiry >= self.now {
                self.shares.release(reference.participant, expiry);
            }
        }
    }

    /// How many references are counted: those remembered, and some that have expired of late.
    pub fn len(&self) -> usize {
        self.shares.all()
    }
    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

    /// Clears what has expired. At most four sevenths are in use then: with a limit that is a power of
    /// two, a table of average size is half full at the limit, and does not double for a few more.
    #[cold]
    fn make_room(&mut self, now_s: u32, key: [u64; 2]) {
        let live = self.entries.iter().filter(|e| e.index != 0 && e.expiry >= now_s).count();
        let size = (live * 7 / 4).next_power_of_two().max(SMALLEST);
        let old = std::mem::replace(&mut self.entries, vec![Entry::zeroed(); size]);
        self.used = live;
        for entry in old.into_iter().filter(|e| e.index != 0 && e.expiry >= now_s) {
            let reference = entry.reference();
            let at = self.find(place(key, &reference), &reference).expect("the table has room");
            self.entries[at] = entry;
        }
    }
}

/// Whole seconds since the epoch.
#[inline]
fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.0 / 1000).unwrap_or(u32::MAX)
}

#[inline]
fn place(key: [u64; 2], reference: &Reference) -> u64 {
    let [a, b]: [u64; 2] = bytemuck::cast(reference.uetr.0);
    let b = b ^ u64::from(reference.participant.0).rotate_right(16);
    let fold = |x: u64, y: u64| {
        let product = u128::from(x) * u128::from(y);
        let [low, high]: [u64; 2] = bytemuck::cast(product);
        low ^ high
    };
    fold(fold(a ^ key[0], b ^ key[1]) ^ key[1], 0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests;
