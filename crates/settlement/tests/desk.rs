//! What clients of a network are promised, whoever runs its stages: one suite, on a network in one process and on
//! one whose stages are joined by a cluster.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

#[path = "desk/cluster.rs"]
mod cluster;
#[path = "desk/host.rs"]
mod host;
#[path = "desk/suite.rs"]
mod suite;

use cluster::ClusterHost;
use host::{EngineHost, Host, WAIT, customer, id};
use std::time::Duration;
use suite::Bench;
use tally_crypto::Signature;
use tally_crypto::log::{Checkpoint, Cosignature, TreeHead};
use tally_ledger::{Amount, Kind, ParticipantId, Refusal, Timestamp, Transaction};
use tally_log::Health;
use tally_proof::{Keys, ProofError};
use tally_settlement::desk::Settlement;
use tally_settlement::engine::{EngineError, Outcome};
use tally_settlement::message::{CosignatureBatch, CosignedHead, Message};
use tally_settlement::path;
use tally_settlement::process::Role;
use tally_settlement::proof::Wanted;

macro_rules! on_both {
    ($($promise:ident),* $(,)?) => {
        mod one_process {
            $(#[test] fn $promise() { super::suite::$promise(super::Bench::<super::EngineHost>::new()); })*
        }
        mod cluster_of_processes {
            $(#[test] fn $promise() { super::suite::$promise(super::Bench::<super::ClusterHost>::new()); })*
        }
    };
}

on_both!(
    payments_are_final_and_audited,
    every_refusal_changes_nothing,
    a_resubmission_gets_the_same_outcome,
    a_resubmission_after_the_expiry_gets_the_same_outcome,
    each_institution_finds_its_own_payment_under_a_reference_of_several,
    what_was_refused_unsigned_first_is_told_as_it_was_decided_last,
    a_receipt_proves_the_outcome,
    a_proof_is_checked_offline,
    statements_list_movements_latest_first,
    a_reader_sees_what_it_was_told,
    outcomes_are_told_in_order_from_any_place,
    texts_are_kept_with_what_commits_to_them,
    what_is_decided_cannot_be_withdrawn,
);

fn payment(bench: &mut Bench<ClusterHost>, amount: i64) -> Transaction {
    let legs = path::payment(&host::network(), id(host::A, 0), id(host::A, 1), host::EUR, Amount(amount));
    bench.draft(Kind::Transfer, legs, &[&customer(host::A, 0)])
}

#[test]
fn a_client_of_a_gateway_that_died_gets_one_outcome_at_another() {
    let mut bench = Bench::<ClusterHost>::new();
    let payments: Vec<_> = (1..=20).map(|amount| payment(&mut bench, amount)).collect();
    for (at, payment) in payments.iter().enumerate() {
        let pending = bench.host.desk().submit(vec![payment.clone()]).unwrap();
        if at % 3 == 0 {
            // The answer is lost, the transaction is not, or it is: nobody knows.
            bench.host.desk().wait(&pending, Duration::from_millis(at as u64));
        }
        bench.host.open_gateway(u16::try_from((at + 1) % 2).unwrap());
    }
    let outcomes: Vec<_> = payments.iter().map(|payment| bench.send(payment.clone())).collect();
    for outcome in &outcomes {
        assert!(matches!(outcome, Outcome::Final(finality) if finality.verdict.is_ok()), "{outcome:?}");
    }
    assert_eq!(bench.balance(host::A, 0), 10_000 - (1..=20).sum::<i64>());
    bench.host.open_gateway(0);
    for (payment, outcome) in payments.iter().zip(&outcomes) {
        assert_eq!(bench.send(payment.clone()), *outcome);
    }
    bench.host.audit();
}

#[test]
fn a_gateway_that_was_replaced_says_so_and_takes_nothing() {
    let mut bench = Bench::<ClusterHost>::new();
    let old = bench.host.another_gateway(0);
    let first = payment(&mut bench, 5);
    // The old one learns of it when it next hands something in.
    let pending = old.submit(vec![first.clone()]);
    if let Ok(pending) = pending {
        let answers = old.wait(&pending, WAIT);
        assert_eq!(answers[0].outcome, Outcome::Pending);
    }
    assert!(old.is_fenced(), "{:?}", old.failure());
    assert!(matches!(old.health(), Health::Failed { .. }));
    let second = payment(&mut bench, 6);
    assert!(matches!(old.submit(vec![second]), Err(EngineError::Stopped(_))));
    assert!(matches!(bench.send(first), Outcome::Final(_)));
    assert_eq!(bench.balance(host::A, 0), 9_995);
}

#[test]
fn what_one_gateway_told_another_answers_once_it_has_caught_up() {
    let mut bench = Bench::<ClusterHost>::new();
    let other = bench.host.another_gateway(1);
    for paid in 1..=200 {
        assert_eq!(bench.pay((host::A, 0), (host::B, 0), 1), Ok(()));
        other.catch_up(WAIT).unwrap();
        assert_eq!(other.account(id(host::B, 0)).unwrap().balance, Amount(10_000 + paid));
    }
    bench.host.outage.set(true);
    let asked = other.catch_up(Duration::from_millis(50));
    assert!(matches!(asked, Err(EngineError::Behind)), "{asked:?}");
    assert_eq!(other.account(id(host::B, 0)).unwrap().balance, Amount(10_200));
    bench.host.outage.set(false);
    other.catch_up(WAIT).unwrap();
}

#[test]
fn submissions_wait_while_the_cluster_cannot_be_reached_and_go_on_after() {
    let mut bench = Bench::<ClusterHost>::new();
    let before = bench.balance(host::A, 0);
    let first = payment(&mut bench, 7);
    bench.host.outage.set(true);
    let pending = bench.host.desk().submit(vec![first.clone()]).unwrap();
    let answers = bench.host.desk().wait(&pending, Duration::from_millis(200));
    assert_eq!(answers[0].outcome, Outcome::Pending);
    bench.host.until("it says so", |desk| matches!(desk.health(), Health::Stalled { .. }));
    assert_eq!(bench.balance(host::A, 0), before, "balances can be asked for all the while");
    bench.host.outage.set(false);
    let answers = bench.host.desk().wait(&pending, WAIT);
    assert!(matches!(answers[0].outcome, Outcome::Final(finality) if finality.verdict.is_ok()));
    bench.host.until("it is well again", |desk| desk.health() == Health::Ok);
    assert_eq!(bench.send(first), answers[0].outcome);
    assert_eq!(bench.balance(host::A, 0), before - 7);
    bench.host.audit();
}

#[test]
fn what_is_above_the_limit_is_refused_as_busy_and_nothing_is_handed_in() {
    let mut bench = Bench::<ClusterHost>::new();
    let one = payment(&mut bench, 1);
    let many = vec![one; (1 << 18) + 1];
    assert!(matches!(bench.host.desk().submit(many), Err(EngineError::Share(_))));
    let figures = bench.host.desk().figures();
    let handed_in = figures.iter().find(|figure| figure.name == "tally_gateway_handed_in_transactions");
    assert!(handed_in.unwrap().value < 100);
}

#[test]
fn a_gateway_that_may_not_read_approvals_proves_finality_alone() {
    let mut bench = Bench::<ClusterHost>::new();
    let paid = payment(&mut bench, 5);
    assert!(matches!(bench.send(paid.clone()), Outcome::Final(_)));
    let keys = Keys::of(&host::network()).unwrap();
    bench.host.withheld.set(true);
    let proof = bench.host.desk().proof(Wanted::Id(paid.id(&host::NETWORK)), &[]).unwrap().unwrap();
    assert_eq!(proof.missing, [host::A]);
    assert_eq!(proof.verify(&keys), Err(ProofError::NotShown { missing: 1, participants: 1 }));
    assert_eq!(proof.verify_finality(&keys).unwrap().verdict, Ok(()));
    bench.host.withheld.set(false);
    let proof = bench.host.desk().proof(Wanted::Id(paid.id(&host::NETWORK)), &[]).unwrap().unwrap();
    assert!(proof.verify(&keys).is_ok());
}

#[test]
fn books_that_are_not_kept_have_no_answers() {
    let mut bench = Bench::<ClusterHost>::new();
    bench.host.participants = vec![host::B];
    bench.host.open_gateway(1);
    assert_eq!(bench.host.desk().account(id(host::A, 0)), None);
    assert!(bench.host.desk().account(id(host::B, 0)).is_some());
    assert!(bench.host.desk().totals().iter().all(|total| total.participant == host::B));
    assert_eq!(bench.pay((host::A, 0), (host::B, 0), 1), Ok(()));
    assert_eq!(bench.balance(host::B, 0), 10_001);
    let legs = path::payment(&host::network(), id(host::A, 0), id(host::B, 0), host::EUR, Amount(2));
    let paid = bench.draft(Kind::Transfer, legs, &[&customer(host::A, 0)]);
    assert!(matches!(bench.send(paid.clone()), Outcome::Final(_)));
    let proof =
        bench.host.desk().proof(Wanted::Id(paid.id(&host::NETWORK)), &[host::A, host::B]).unwrap().unwrap();
    assert!(proof.transaction.shown().all(|leg| leg.participant == host::B), "nor are their legs shown");
    let mut expired = bench.terms();
    expired.expiry = Timestamp(1);
    let legs = path::payment(&host::network(), id(host::A, 0), id(host::A, 1), host::EUR, Amount(1));
    let mut expired = Transaction::new(Kind::Transfer, &expired, legs);
    expired.sign(&host::NETWORK, &customer(host::A, 0));
    assert_eq!(bench.send(expired), Outcome::Refused(Refusal::Expired));
}

#[test]
fn a_payment_that_an_institution_does_not_answer_can_be_withdrawn() {
    let mut bench = Bench::<ClusterHost>::new();
    bench.host.stop(Role::Approver, host::B.0);
    let legs = path::payment(&host::network(), id(host::A, 0), id(host::B, 0), host::EUR, Amount(70));
    let first = bench.draft(Kind::Transfer, legs.clone(), &[&customer(host::A, 0)]);
    let second = bench.draft(Kind::Transfer, legs, &[&customer(host::A, 0)]);
    let desk = bench.host.desk();
    let pending = desk.submit(vec![first.clone(), second.clone()]).unwrap();
    let answers = desk.wait(&pending, Duration::from_millis(300));
    assert!(answers.iter().all(|answer| answer.outcome == Outcome::Pending), "{answers:?}");
    let accepted = desk.accepted(Wanted::Uetr(first.header.uetr)).unwrap().unwrap();
    assert_eq!(accepted.transaction, first);
    desk.withdraw(&accepted).unwrap();
    bench.host.until("it is refused", |desk| {
        let outcome = desk.status(Wanted::Uetr(first.header.uetr)).unwrap().unwrap().outcome;
        matches!(outcome, Outcome::Final(finality) if finality.verdict == Err(Refusal::Withdrawn))
    });
    // What the other institutions had reserved is free again, though one of them never answered.
    let legs = path::payment(&host::network(), id(host::A, 0), id(host::A, 1), host::EUR, Amount(9_930));
    assert_eq!(bench.try_to(Kind::Transfer, legs, &[&customer(host::A, 0)]), Ok(()));
    // It answers when it comes back; that changes nothing of what was withdrawn.
    bench.host.start(Role::Approver, host::B.0);
    let outcome = bench.send(second);
    assert!(matches!(outcome, Outcome::Final(finality) if finality.verdict.is_ok()), "{outcome:?}");
    let status = bench.host.desk().status(Wanted::Uetr(first.header.uetr)).unwrap().unwrap();
    assert_eq!(bench.send(first), status.outcome, "whoever sends it again hears the same");
    assert_eq!([bench.balance(host::A, 0), bench.balance(host::B, 0)], [0, 10_070]);
    bench.host.audit();
}

/// Heads that an institution cosigns, as a record of its topic.
fn cosigned(of: ParticipantId, heads: &[TreeHead], signer: u8) -> Vec<u8> {
    let heads = heads.iter().map(|head| {
        let checkpoint = Checkpoint::of(head, &host::NETWORK.0);
        let cosignature = Cosignature::sign(&checkpoint, 1, &host::key(signer)).unwrap();
        CosignedHead {
            size: head.size,
            timestamp_ms: head.timestamp_ms,
            time_s: cosignature.time_s,
            root: head.root,
            operator: Signature::from_bytes([0; 64]),
            cosignature: cosignature.signature,
        }
    });
    let mut record = Vec::new();
    CosignatureBatch { participant: of, heads: heads.collect() }.encode(&mut record);
    record
}

/// A head that the operator did not sign.
fn false_head(size: u64) -> TreeHead {
    TreeHead { size, root: [7; 32], timestamp_ms: 1 }
}

fn made(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Final(finality) if finality.verdict.is_ok())
}

#[test]
fn what_a_witness_writes_keeps_no_gateway_from_opening() {
    let mut bench = Bench::<ClusterHost>::new();
    let paid = payment(&mut bench, 5);
    assert!(made(&bench.send(paid.clone())));
    bench.host.stop(Role::Updater, host::B.0);
    // Of more records than the log has, under its own key and under no key, of other records, and what nobody can read.
    let ahead = 1 << 40;
    for record in [
        cosigned(host::B, &[false_head(ahead)], 3),
        cosigned(host::B, &[false_head(ahead + 1)], 9),
        cosigned(host::B, &[false_head(1), false_head(ahead + 2)], 3),
        cosigned(host::B, &[false_head(1)], 3),
        b"noise".to_vec(),
    ] {
        bench.host.append_cosignatures(host::B, &record);
        bench.host.open_gateway(1);
        // What it cosigned before counts: the outcome that was told is told again.
        assert!(made(&bench.send(paid.clone())));
    }
}

#[test]
fn a_false_cosignature_is_in_no_proof() {
    let mut bench = Bench::<ClusterHost>::new();
    bench.host.witnesses = 1;
    bench.host.open_gateway(1);
    bench.host.stop(Role::Updater, host::B.0);
    let keys = Keys { witnesses: 1, ..Keys::of(&host::network()).unwrap() };
    let paid = |bench: &mut Bench<ClusterHost>| {
        let paid = payment(bench, 5);
        assert!(made(&bench.send(paid.clone())));
        let head = bench.host.desk().tree_head().unwrap().head;
        (Wanted::Id(paid.id(&host::NETWORK)), head)
    };
    let is_proven = |bench: &Bench<ClusterHost>, wanted: Wanted| {
        let desk = bench.host.desk();
        let proof = desk.proof(wanted, &[host::A]).unwrap().unwrap();
        let of: Vec<_> = proof.receipt.cosignatures.iter().map(|one| one.participant).collect();
        assert_eq!(of, [host::A]);
        assert!(proof.verify(&keys).is_ok(), "{:?}", proof.verify(&keys));
        let size = proof.receipt.head.head.size;
        let consistency = desk.consistency(size - 1, size).unwrap().unwrap();
        assert!(consistency.second_cosignatures.iter().all(|one| one.participant == host::A));
    };
    // On the head that has the outcome, under a key that is not its own.
    let (wanted, head) = paid(&mut bench);
    bench.host.append_cosignatures(host::B, &cosigned(host::B, &[head], 9));
    is_proven(&bench, wanted);
    // On other heads than the operator's.
    let next: Vec<TreeHead> = (head.size + 1..=head.size + 50).map(false_head).collect();
    bench.host.append_cosignatures(host::B, &cosigned(host::B, &next, 3));
    let (wanted, _) = paid(&mut bench);
    is_proven(&bench, wanted);
}

#[test]
fn an_outcome_waits_for_witnesses_after_a_restart_too() {
    let mut bench = Bench::on(ClusterHost::without_updaters());
    let paid = payment(&mut bench, 5);
    assert!(made(&bench.send(paid.clone())), "a gateway that waits for no witness tells it");
    bench.host.witnesses = 2;
    bench.host.open_gateway(1);
    let answer = bench.host.desk().status(Wanted::Id(paid.id(&host::NETWORK))).unwrap().unwrap();
    assert_eq!(answer.outcome, Outcome::Pending);
    assert!(bench.host.desk().receipt(Wanted::Id(paid.id(&host::NETWORK))).unwrap().is_none());
    for institution in [host::CENTRAL, host::A, host::B] {
        bench.host.start(Role::Updater, institution.0);
    }
    bench.host.until("it is told once witnesses have cosigned it", |desk| {
        let answer = desk.status(Wanted::Id(paid.id(&host::NETWORK))).unwrap().unwrap();
        made(&answer.outcome)
    });
}
