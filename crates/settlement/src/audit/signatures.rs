//! The signatures of what was made, verified beside the pass on all processors.

use super::finding::Change;
use super::item::Place;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use tally_crypto::{BatchVerifier, Signed};
use tally_ledger::{AccountId, Uetr};

/// Signatures that are verified together: as many as a full batch has, also where the journal's batches are small.
const LOT: usize = 4096;
/// Signers' keys that a verifier remembers in decoded form: about 16 MiB.
const KNOWN_KEYS: usize = 1 << 16;

/// What a signature is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    /// Where the transaction was decided.
    pub(super) place: Place,
    /// Its reference; its id is what is signed.
    pub(super) uetr: Uetr,
    /// The first change that rests on the signature, and the account that it is on; none if nothing does.
    pub(super) rests: Option<(Change, AccountId)>,
}

/// Signatures that do not verify, in the order of the journal.
#[derive(Default)]
pub(super) struct Wrong {
    /// The first of them.
    pub(super) first: Vec<(Claim, Signed)>,
    /// How many there are beyond those.
    pub(super) more: u64,
}

#[derive(Default)]
struct Lot {
    signed: Vec<Signed>,
    /// One for each.
    claims: Vec<Claim>,
}

/// The verifiers and what waits for them.
pub(super) struct Signatures {
    lot: Lot,
    lots: SyncSender<Lot>,
    verifiers: Vec<JoinHandle<Wrong>>,
}

impl Signatures {
    /// Starts as many verifiers as there are processors; each keeps the first `most` that do not verify.
    pub(super) fn new(most: usize) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        // Bounded: a journal is read faster than its signatures are verified.
        let (lots, receiver) = sync_channel(processors);
        let receiver = Arc::new(Mutex::new(receiver));
        let verifiers = (0..processors).map(|_| {
            let receiver = Arc::clone(&receiver);
            thread::spawn(move || verify(&receiver, most))
        });
        Self { lot: Lot::default(), lots, verifiers: verifiers.collect() }
    }

    /// Hands in a signature; they come in the order of the journal.
    #[inline]
    pub(super) fn add(&mut self, signed: Signed, claim: Claim) {
        self.lot.signed.push(signed);
        self.lot.claims.push(claim);
        if self.lot.signed.len() >= LOT {
            self.hand_in();
        }
    }

    /// Waits for the verifiers.
    pub(super) fn finish(mut self) -> Wrong {
        self.hand_in();
        drop(self.lots);
        let mut all = Wrong::default();
        for verifier in self.verifiers {
            let Wrong { first, more } = verifier.join().unwrap_or_else(|p| resume_unwind(p));
            all.first.extend(first);
            all.more += more;
        }
        all.first.sort_by_key(|(claim, _)| claim.place.ticket);
        all
    }

    fn hand_in(&mut self) {
        let next = Lot { signed: Vec::with_capacity(LOT), claims: Vec::with_capacity(LOT) };
        // A verifier ends early only by a panic, which `finish` passes on.
        let _ = self.lots.send(std::mem::replace(&mut self.lot, next));
    }
}

/// Verifies lots until there are no more.
fn verify(lots: &Mutex<Receiver<Lot>>, most: usize) -> Wrong {
    let mut verifier = BatchVerifier::new(KNOWN_KEYS);
    let mut found = Wrong::default();
    loop {
        let next = lots.lock().expect("no verifier panics while it takes a lot").recv();
        let Ok(lot) = next else { return found };
        let Err(wrong) = verifier.verify(&lot.signed) else { continue };
        for at in wrong {
            if found.first.len() < most {
                found.first.push((lot.claims[at], lot.signed[at]));
            } else {
                found.more += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Source;
    use tally_crypto::SigningKey;
    use tally_ledger::Timestamp;
    use tally_log::Ticket;

    fn claim(number: u64) -> Claim {
        let place = Place {
            ticket: Ticket(number),
            sequence: number,
            timestamp: Timestamp(0),
            source: Source::new(0, number),
            index: 0,
        };
        Claim { place, uetr: Uetr([0; 16]), rests: None }
    }

    fn verified(count: u64, forged: &[u64], most: usize) -> (Vec<u64>, u64) {
        let key = SigningKey::from_seed([1; 32]);
        let mut signatures = Signatures::new(most);
        for number in 0..count {
            let message = tally_crypto::hash(&number.to_le_bytes());
            let over = if forged.contains(&number) { tally_crypto::Hash::ZERO } else { message };
            let signature = key.sign(over.as_bytes());
            signatures.add(Signed { key: key.public_key(), message, signature }, claim(number));
        }
        let Wrong { first, more } = signatures.finish();
        (first.iter().map(|(claim, _)| claim.place.sequence).collect(), more)
    }

    #[test]
    fn good_signatures_are_found_in_order() {
        assert_eq!(verified(0, &[], 3), (vec![], 0));
        assert_eq!(verified(200, &[], 3), (vec![], 0));
    }

    #[test]
    fn each_forged_signature_is_named_whatever_lot_it_is_in() {
        assert_eq!(verified(1, &[0], 3), (vec![0], 0));
        // Lots are full after some; one in a later lot does not hide those before it.
        assert_eq!(verified(10_000, &[4095, 4096, 9_999], 9), (vec![4095, 4096, 9_999], 0));
        let (first, more) = verified(5_000, &[1, 2, 3, 4], 2);
        assert_eq!((first, more), (vec![1, 2], 2));
    }
}
