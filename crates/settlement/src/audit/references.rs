//! The end-to-end references of what was made: which could have been used twice.
//!
//! A scheduler accepts a reference again only after the transaction that used it has expired. So two transactions
//! that were made, have one reference and one paying institution, and could both have been accepted at one time, are
//! one payment made twice.

use std::hash::BuildHasher;
use tally_ledger::{ParticipantId, Timestamp, Uetr};

#[derive(Clone, Copy)]
struct Entry {
    uetr: Uetr,
    /// From when until when it could have been accepted.
    from: Timestamp,
    until: Timestamp,
    /// Its sequence number and one; zero where the entry is free.
    sequence: u64,
    payer: ParticipantId,
}

const FREE: Entry = Entry {
    uetr: Uetr([0; 16]),
    from: Timestamp(0),
    until: Timestamp(0),
    sequence: 0,
    payer: ParticipantId(0),
};

/// A transaction that used a reference.
#[derive(Clone, Copy)]
pub(super) struct Use {
    pub(super) uetr: Uetr,
    /// The institution whose money or order it is.
    pub(super) payer: ParticipantId,
    pub(super) accepted: Timestamp,
    pub(super) expiry: Timestamp,
    pub(super) sequence: u64,
}

/// References by open addressing; those that have expired go when the table would grow.
pub(super) struct References {
    entries: Vec<Entry>,
    used: usize,
    /// Secret, so that nobody can choose references that collide.
    key: u64,
}

const SMALLEST: usize = 1 << 10;

impl References {
    pub(super) fn new() -> Self {
        let key = std::hash::RandomState::new().hash_one(0u64) | 1;
        Self { entries: vec![FREE; SMALLEST], used: 0, key }
    }

    #[inline]
    fn place(&self, uetr: &Uetr) -> usize {
        let [a, b]: [u64; 2] = bytemuck::cast(uetr.0);
        let product = u128::from(a ^ self.key) * u128::from(b ^ self.key.rotate_left(32) | 1);
        let [low, high]: [u64; 2] = bytemuck::cast(product);
        // The table's size is a power of two.
        (low ^ high) as usize & (self.entries.len() - 1)
    }

    /// Reads ahead of use, so that cache misses overlap.
    #[inline]
    pub(super) fn touch(&self, uetr: &Uetr) -> u64 {
        self.entries[self.place(uetr)].sequence
    }

    /// Remembers a use; the sequence number of another that could have been accepted at the same time, if there is one.
    /// `horizon` tells when asked before which time nothing is accepted any more.
    pub(super) fn insert(&mut self, new: &Use, horizon: impl FnOnce() -> Timestamp) -> Option<u64> {
        if self.used * 4 >= self.entries.len() * 3 {
            self.make_room(horizon());
        }
        let mask = self.entries.len() - 1;
        let mut at = self.place(&new.uetr);
        let mut before = None;
        loop {
            let entry = &mut self.entries[at];
            if entry.sequence == 0 {
                *entry = Entry {
                    uetr: new.uetr,
                    from: new.accepted,
                    until: new.expiry,
                    sequence: new.sequence + 1,
                    payer: new.payer,
                };
                self.used += 1;
                return before;
            }
            let same = entry.uetr == new.uetr && entry.payer == new.payer;
            if same && entry.from <= new.expiry && new.accepted <= entry.until {
                before = before.or(Some(entry.sequence - 1));
            }
            at = (at + 1) & mask;
        }
    }

    fn make_room(&mut self, horizon: Timestamp) {
        let all = std::mem::take(&mut self.entries);
        let left = || all.iter().filter(|entry| entry.sequence != 0 && entry.until >= horizon);
        let size = (left().count() * 2).next_power_of_two().max(SMALLEST);
        self.entries = vec![FREE; size];
        self.used = 0;
        for entry in left() {
            let mut at = self.place(&entry.uetr);
            while self.entries[at].sequence != 0 {
                at = (at + 1) & (size - 1);
            }
            self.entries[at] = *entry;
            self.used += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(reference: u64, payer: u16, from: u64, until: u64, sequence: u64) -> Use {
        let mut uetr = [0; 16];
        uetr[..8].copy_from_slice(&reference.to_le_bytes());
        let (accepted, expiry) = (Timestamp(from), Timestamp(until));
        Use { uetr: Uetr(uetr), payer: ParticipantId(payer), accepted, expiry, sequence }
    }

    #[test]
    fn a_reference_is_used_twice_only_if_both_could_have_been_accepted_at_one_time() {
        let mut references = References::new();
        let mut insert = |new: Use| references.insert(&new, || Timestamp(0));
        assert_eq!(insert(used(1, 0, 10, 20, 0)), None);
        assert_eq!(insert(used(1, 1, 10, 20, 1)), None, "another institution's");
        assert_eq!(insert(used(2, 0, 10, 20, 2)), None);
        assert_eq!(insert(used(1, 0, 21, 30, 3)), None, "the first had expired");
        assert_eq!(insert(used(1, 0, 20, 25, 4)), Some(0));
        assert_eq!(insert(used(1, 0, 30, 40, 5)), Some(3));
    }

    #[test]
    fn what_cannot_be_used_again_is_forgotten_and_nothing_else() {
        let mut references = References::new();
        for at in 0..100_000 {
            let horizon = || Timestamp(at);
            assert_eq!(references.insert(&used(at, 0, at, at + 5_000, at), horizon), None);
        }
        assert!(references.entries.len() <= 1 << 15, "{}", references.entries.len());
        for at in 95_001..100_000 {
            let again = used(at, 0, at, at + 5_000, 100_000 + at);
            assert_eq!(references.insert(&again, || Timestamp(100_000)), Some(at));
        }
    }
}
