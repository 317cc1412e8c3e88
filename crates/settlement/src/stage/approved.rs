//! What an approver has approved on the strength of a signature. A signature pays once: who proposes what it is on a second
//! time, under the name of another batch, gets a no until the transaction expires. That holds whatever the sequence says of
//! the first time: the payer was told that it was refused, and may have paid anew.
//!
//! Schedulers remember references for everybody. This is for an institution that does not trust them.

use std::collections::{BTreeMap, HashSet};
use tally_crypto::Hash;
use tally_ledger::Timestamp;

/// The first half of an id: to find another id with the same half is as much work as to break the signature.
pub(crate) type IdKey = [u8; 16];

/// The ids that an approver has approved, until they expire.
#[derive(Default)]
pub(crate) struct ApprovedOnce {
    /// By expiry in whole minutes, rounded down.
    by_expiry: BTreeMap<u64, HashSet<IdKey>>,
    /// What an earlier process approved, by when the last of it expires.
    recalled: BTreeMap<Timestamp, HashSet<IdKey>>,
    /// The latest expiry of what was approved since it was asked for last.
    latest: Option<Timestamp>,
}

const MINUTE_MS: u64 = 60_000;

pub(crate) fn key(id: &Hash) -> IdKey {
    *id.as_bytes().first_chunk().expect("a hash has 32 bytes")
}

impl ApprovedOnce {
    /// Whether a transaction with that id and expiry was approved and may not be approved again.
    pub(crate) fn contains(&self, id: &IdKey, expiry: Timestamp) -> bool {
        self.by_expiry.get(&(expiry.0 / MINUTE_MS)).is_some_and(|ids| ids.contains(id))
            || self.recalled.range(expiry..).any(|(_, ids)| ids.contains(id))
    }

    /// Remembers that a transaction was approved.
    pub(crate) fn insert(&mut self, id: IdKey, expiry: Timestamp) {
        self.by_expiry.entry(expiry.0 / MINUTE_MS).or_default().insert(id);
        self.latest = self.latest.max(Some(expiry));
    }

    /// Remembers what an earlier process approved; it expires no later than `until`.
    pub(crate) fn recall(&mut self, id: IdKey, until: Timestamp) {
        self.recalled.entry(until).or_default().insert(id);
    }

    /// Lets go of what has expired.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        while let Some(first) = self.by_expiry.first_entry()
            && first.key().saturating_add(1).saturating_mul(MINUTE_MS) <= now.0
        {
            first.remove();
        }
        while let Some(first) = self.recalled.first_entry()
            && *first.key() <= now
        {
            first.remove();
        }
    }

    /// The latest expiry of what was approved since this was last called.
    pub(crate) fn take_latest(&mut self) -> Option<Timestamp> {
        self.latest.take()
    }

    /// How many it remembers.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_expiry.values().chain(self.recalled.values()).map(HashSet::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> IdKey {
        key(&tally_crypto::hash(&[number]))
    }

    #[test]
    fn an_id_is_remembered_until_it_expires() {
        let mut approved = ApprovedOnce::default();
        let (soon, late) = (Timestamp(90_000), Timestamp(900_000));
        approved.insert(id(1), soon);
        approved.insert(id(2), late);
        approved.recall(id(3), late);
        assert!(approved.contains(&id(1), soon) && approved.contains(&id(2), late));
        assert!(approved.contains(&id(3), soon), "it expires no later than that");
        assert!(!approved.contains(&id(4), late));
        assert_eq!((approved.take_latest(), approved.take_latest()), (Some(late), None));
        approved.expire(Timestamp(89_999));
        assert!(approved.contains(&id(1), soon));
        approved.expire(late);
        assert!(!approved.contains(&id(1), soon) && !approved.contains(&id(3), soon));
        approved.expire(Timestamp(960_000));
        assert_eq!(approved.len(), 0);
    }
}
