//! What a payment of the flows ledger needs at the very least: its signatures, and the durable writes of three nodes.
//!
//! Nothing is estimated. Payments are made once by three nodes without sockets ([`recording`]), and what they wrote is
//! written again to new databases, batch by batch, one thread for each node as in a node; beside that, threads sign and
//! verify the same transactions. Parsing, contracts, TLS, messages, queues and scheduling are not in it.
//!
//! The signatures of a payment whose coin was issued in a transaction of its own: the payer signs; the notary verifies
//! the request and signs; the payer verifies the notary; the payee verifies payer and notary, and the issuer over the
//! issuance: two made, five verified.
//!
//! With a clustered notary of four the request is verified by each member and each signs; payer and payee verify three
//! signatures of members each. Votes of members over batches, and what members write beside one notary's database, are
//! not in it.

mod recording;
mod spy;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tally_contracts::{Role, TransactionSignature};
use tally_store::{Sqlite, SqliteOptions, Store, StoreError, Write};

use super::meter::Meter;
use super::{ALL_CORES, Limit};
use crate::flows::FlowsError;
use crate::flows::network::Pinned;
use crate::result::Better;
use recording::{Recording, Signatures};

pub(super) const COUNT: usize = 4;

/// The limit that payments are compared with.
pub const PAY: &str = "pay-signatures-and-writes";
/// The same with a clustered notary of four members.
pub const PAY_CLUSTER: &str = "pay-cluster-signatures-and-writes";
const UNIT: &str = "tx/s";
/// Members of a clustered notary, and how many have to sign.
const MEMBERS: usize = 4;
const QUORUM: usize = 3;
/// Payments of a repetition.
const PAYMENTS: usize = 512;
/// Payments under way when they were recorded: about what nodes under load make durable together.
const TOGETHER: usize = 32;

/// What threads do at once.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Signatures,
    Writes,
    Both,
    /// Both, with a clustered notary.
    Cluster,
}

pub(super) fn measure(
    meter: &Meter,
    cores: usize,
    directory: &Path,
    add: &mut impl FnMut(Limit),
) -> Result<(), FlowsError> {
    let short = meter.repetition.is_zero();
    let (payments, together) = if short { (4, 2) } else { (PAYMENTS, TOGETHER) };
    let recording = recording::record(directory, payments, together)?;
    for (name, part) in [
        ("pay-signatures", Part::Signatures),
        ("pay-writes", Part::Writes),
        (PAY, Part::Both),
        (PAY_CLUSTER, Part::Cluster),
    ] {
        for (suffix, cores) in [("", 1), (ALL_CORES, cores)] {
            // Where there are fewer cores than asked for, all of them do.
            let _pinned = if cores == 1 { Some(Pinned::to(1)?) } else { None };
            let repeat = || repetition(&recording, part, cores, directory);
            let samples = (0..meter.repetitions).map(|_| repeat()).collect::<Result<Vec<f64>, _>>()?;
            add(Limit { cores, ..Limit::new(format!("{name}{suffix}"), UNIT, Better::Higher, samples) });
        }
    }
    Ok(())
}

/// Payments a second.
fn repetition(recording: &Recording, part: Part, cores: usize, directory: &Path) -> Result<f64, FlowsError> {
    let home = tempfile::Builder::new().prefix(".tally-limits-").tempdir_in(directory);
    let home = home.map_err(FlowsError::file(directory))?;
    let mut stores: Vec<(Sqlite, &[Vec<Write>])> = Vec::new();
    if part != Part::Signatures {
        for (index, node) in recording.nodes.iter().enumerate() {
            let store = Sqlite::open(&SqliteOptions::new(home.path().join(format!("{index}.db"))))?;
            node.before.iter().try_for_each(|batch| store.apply(batch))?;
            stores.push((store, &node.batches));
        }
    }
    let signers = if part == Part::Writes { 0 } else { cores };
    let (members, quorum) = if part == Part::Cluster { (MEMBERS, QUORUM) } else { (1, 1) };
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        let writers: Vec<_> = stores
            .iter()
            .map(|(store, batches)| {
                scope.spawn(move || batches.iter().try_for_each(|batch| store.apply(batch)))
            })
            .collect();
        for _ in 0..signers {
            let next = &next;
            scope.spawn(move || {
                while let Some(payment) = recording.payments.get(next.fetch_add(1, Ordering::Relaxed)) {
                    black_box(sign_and_verify(payment, members, quorum));
                }
            });
        }
        let mut written: Result<(), StoreError> = Ok(());
        for writer in writers {
            written = written.and(writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        written
    })?;
    Ok(recording.payments.len() as f64 / began.elapsed().as_secs_f64())
}

/// Everything that is signed and verified for one payment; whether all is well. Each of the `members` verifies the
/// request and signs, at the cost of one notary's signature; payer and payee verify `quorum` of their signatures.
fn sign_and_verify(of: &Signatures, members: usize, quorum: usize) -> bool {
    let id = of.payment.id();
    let verifies = |signature: &TransactionSignature| signature.verify(Role::Notary, id).is_ok();
    let request = tally_contracts::sign(&of.payer, Role::Party, id);
    let requested = (0..members).all(|_| request.verify(Role::Party, id).is_ok());
    let notarised: Vec<_> =
        (0..members).map(|_| tally_contracts::sign(&of.notary, Role::Notary, id)).collect();
    let received = notarised.iter().take(quorum).all(verifies);
    // The payment has one of the notary's signatures.
    let paid = of.payment.verify_signatures().is_ok() && notarised.iter().take(quorum - 1).all(verifies);
    requested && received && paid && of.issuance.verify_signatures().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_signs_twice_and_verifies_five_times_and_every_node_writes() {
        let directory = tempfile::tempdir().unwrap();
        let recording = recording::record(directory.path(), 5, 2).unwrap();
        assert_eq!(recording.payments.len(), 5);
        for payment in &recording.payments {
            // Besides these, the notary verifies the request and the payer verifies the notary.
            assert_eq!(payment.payment.signatures().len() + payment.issuance.signatures().len(), 3);
            assert!(sign_and_verify(payment, 1, 1) && sign_and_verify(payment, MEMBERS, QUORUM));
            assert_eq!(payment.payment.transaction().inputs()[0].transaction, payment.issuance.id());
        }
        let [payer, payee, notary] = &recording.nodes;
        let count = |node: &recording::Node, of: fn(&Write) -> bool| {
            node.batches.iter().flatten().filter(|write| of(write)).count()
        };
        let transactions = |write: &Write| matches!(write, Write::Transaction(_));
        assert_eq!(count(payer, transactions), 5);
        // Each with its issuance.
        assert_eq!(count(payee, transactions), 10);
        assert_eq!(count(notary, |write| matches!(write, Write::Consumed { .. })), 5);
        assert_eq!(count(notary, transactions), 0);
        let ended = |write: &Write| matches!(write, Write::FlowEnded { .. } | Write::FlowEndedAtOnce { .. });
        assert_eq!((count(payer, ended), count(payee, ended), count(notary, ended)), (5, 5, 5));
        assert!(payer.before.iter().flatten().filter(|write| transactions(write)).count() == 5);
        for part in [Part::Signatures, Part::Writes, Part::Both, Part::Cluster] {
            assert!(repetition(&recording, part, 2, directory.path()).unwrap() > 0.0);
        }
    }
}
