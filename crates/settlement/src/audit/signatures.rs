//! The clients' signatures of a journal, verified beside its replay on all processors.

use crate::message::{AcceptedBatch, Source};
use crate::stage::scheduler::KNOWN_KEYS;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use tally_crypto::{BatchVerifier, Hash, Signed};
use tally_log::Ticket;

/// Signatures that are verified together: as many as a full batch has, also where the journal's batches are small.
const LOT: usize = 4096;

/// A batch with signatures that do not verify.
pub(super) struct Finding {
    pub(super) ticket: Ticket,
    pub(super) finding: String,
}

/// Signatures of some batches, one after the other.
#[derive(Default)]
struct Lot {
    signed: Vec<Signed>,
    /// Where each batch's begin, and which it is.
    batches: Vec<(usize, Ticket, Source)>,
}

/// The verifiers and what waits for them.
pub(super) struct Signatures {
    lot: Lot,
    lots: SyncSender<Lot>,
    verifiers: Vec<JoinHandle<Option<Finding>>>,
}

impl Signatures {
    /// Starts as many verifiers as there are processors.
    pub(super) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        // Bounded: a journal is read faster than its signatures are verified.
        let (lots, receiver) = sync_channel(processors);
        let receiver = Arc::new(Mutex::new(receiver));
        let verifiers = (0..processors).map(|_| {
            let receiver = Arc::clone(&receiver);
            thread::spawn(move || verify(&receiver))
        });
        Self { lot: Lot::default(), lots, verifiers: verifiers.collect() }
    }

    /// Hands in a batch's signatures, by the ids of its transactions; batches come in the journal's order.
    pub(super) fn add(&mut self, ticket: Ticket, source: Source, accepted: &AcceptedBatch, ids: &[Hash]) {
        let batch = &accepted.batch;
        self.lot.batches.push((self.lot.signed.len(), ticket, source));
        for (place, id) in batch.places().zip(ids) {
            self.lot.signed.extend(batch.signers[place.signers].iter().map(|signer| signer.signed(*id)));
        }
        if self.lot.signed.len() >= LOT {
            self.hand_in();
        }
    }

    /// Waits for the verifiers; the first batch of the journal with signatures that do not verify, if there is one.
    pub(super) fn finish(mut self) -> Option<Finding> {
        self.hand_in();
        drop(self.lots);
        let findings = self
            .verifiers
            .into_iter()
            .filter_map(|verifier| verifier.join().unwrap_or_else(|p| resume_unwind(p)));
        findings.min_by_key(|finding| finding.ticket)
    }

    fn hand_in(&mut self) {
        // A verifier ends early only by a panic, which `finish` passes on.
        let _ = self.lots.send(std::mem::take(&mut self.lot));
    }
}

/// Verifies lots until there are no more; lots come in the journal's order, so that the first finding is the one.
fn verify(lots: &Mutex<Receiver<Lot>>) -> Option<Finding> {
    let mut verifier = BatchVerifier::new(KNOWN_KEYS);
    let mut finding = None;
    loop {
        let next = lots.lock().expect("no verifier panics while it takes a lot").recv();
        let Ok(lot) = next else { return finding };
        if finding.is_none() {
            finding = verifier.verify(&lot.signed).err().and_then(|wrong| first(&lot, &wrong));
        }
    }
}

/// The first batch that has any of the signatures at positions `wrong`, which ascend.
fn first(lot: &Lot, wrong: &[usize]) -> Option<Finding> {
    let position = wrong.first()?;
    let after = lot.batches.partition_point(|(start, ..)| start <= position);
    let (_, ticket, source) = lot.batches.get(after.checked_sub(1)?)?;
    let end = lot.batches.get(after).map_or(lot.signed.len(), |(start, ..)| *start);
    let count = wrong.iter().filter(|position| **position < end).count();
    Some(Finding { ticket: *ticket, finding: format!("{count} signatures of {source:?} do not verify") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_crypto::SigningKey;
    use tally_ledger::transaction::Terms;
    use tally_ledger::{Kind, NetworkId, Timestamp, Transaction, TransactionBatch, Uetr};

    /// A batch of signed transactions, and their ids; those at `forged` are signed by another than they say.
    fn batch(number: u64, size: u8, forged: &[u8]) -> (AcceptedBatch, Vec<Hash>) {
        let (mut batch, mut ids) = (TransactionBatch::default(), Vec::new());
        for at in 0..size {
            let terms = Terms {
                network: NetworkId(1),
                uetr: Uetr([at; 16]),
                expiry: Timestamp(number),
                details: Hash::ZERO,
                seed: [at; 16],
            };
            let mut transaction = Transaction::new(Kind::Transfer, &terms, Vec::new());
            transaction.sign(&SigningKey::from_seed([at; 32]));
            if forged.contains(&at) {
                transaction.signers[0].key = SigningKey::from_seed([255; 32]).public_key();
            }
            ids.push(transaction.id());
            assert!(batch.push(&transaction));
        }
        (AcceptedBatch { accepted_at: Timestamp(0), batch }, ids)
    }

    fn audited(batches: &[(u8, &[u8])]) -> Option<(Ticket, String)> {
        let mut signatures = Signatures::new();
        for (number, (size, forged)) in (0..).zip(batches) {
            let (accepted, ids) = batch(number, *size, forged);
            signatures.add(Ticket(10 + number), Source::new(0, number), &accepted, &ids);
        }
        signatures.finish().map(|Finding { ticket, finding }| (ticket, finding))
    }

    #[test]
    fn good_signatures_are_found_in_order() {
        assert_eq!(audited(&[]), None);
        assert_eq!(audited(&[(0, &[]), (1, &[]), (200, &[])]), None);
    }

    #[test]
    fn the_first_batch_with_a_forged_signature_is_named_whatever_lot_it_is_in() {
        let finding = |number: u64, count: usize| {
            let source = Source::new(0, number);
            Some((Ticket(10 + number), format!("{count} signatures of {source:?} do not verify")))
        };
        assert_eq!(audited(&[(1, &[0])]), finding(0, 1));
        assert_eq!(audited(&[(5, &[]), (0, &[]), (7, &[6]), (0, &[])]), finding(2, 1));
        assert_eq!(audited(&[(5, &[]), (7, &[0, 3]), (9, &[1])]), finding(1, 2));
        // Lots are full after some batches; findings in a later one do not hide those before it.
        let mut many: Vec<(u8, &[u8])> = vec![(250, &[]); 60];
        many[41].1 = &[7, 8, 249];
        many[20].1 = &[249];
        many[59].1 = &[0];
        assert_eq!(audited(&many), finding(20, 1));
    }
}
