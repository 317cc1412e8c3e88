//! What a proof proves, and that nothing in it can be changed.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod support;

use proptest::prelude::*;
use serde_json::Value;
use std::sync::OnceLock;
use support::{Ledger, approval, key, keys, payment, proof};
use tally_ledger::{Leg, ParticipantId, Refusal, Timestamp};
use tally_proof::approval::Sibling;
use tally_proof::proof::MAX_PROOF_BYTES;
use tally_proof::receipt::ReceiptError;
use tally_proof::{ConsistencyError, Contents, Proof, ProofError};

const GOLDEN: &str = include_str!("golden/proof.json");
const GOLDEN_KEYS: &str = include_str!("golden/keys.json");

fn nobody(_: &Leg) -> bool {
    false
}

#[test]
fn a_proof_says_what_became_of_a_payment_where_and_by_whom() {
    let verified = proof().verify(&keys()).unwrap();
    let payment = payment();
    assert_eq!((verified.id, verified.uetr), (payment.id(), payment.header.uetr));
    assert_eq!((verified.verdict, verified.sequence), (Ok(()), 144));
    assert_eq!(verified.timestamp, Timestamp(1_750_000_000_020));
    assert_eq!((verified.head.size, verified.head.timestamp_ms), (50, 1_750_000_000_049));
    let answers: Vec<_> =
        verified.answers.iter().map(|answer| (answer.bic.as_str(), answer.verdict)).collect();
    assert_eq!(answers, [("CENTDEFF", Ok(())), ("BANKDEFF", Ok(())), ("BANKFRPP", Ok(()))]);
    assert_eq!(verified.legs, [(0, payment.legs[0])]);
    assert_eq!(verified.not_shown(), 0);
}

/// The files that auditors' own programs can be tried on. `TALLY_WRITE_GOLDEN=1` writes them anew.
#[test]
fn the_form_is_the_published_one() {
    let proof_text = serde_json::to_string_pretty(&proof()).unwrap() + "\n";
    let keys_text = serde_json::to_string_pretty(&keys()).unwrap() + "\n";
    if std::env::var_os("TALLY_WRITE_GOLDEN").is_some() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
        std::fs::write(format!("{directory}/proof.json"), &proof_text).unwrap();
        std::fs::write(format!("{directory}/keys.json"), &keys_text).unwrap();
    }
    assert_eq!(proof_text, GOLDEN);
    assert_eq!(keys_text, GOLDEN_KEYS);
    assert_eq!(serde_json::from_str::<Proof>(GOLDEN).unwrap(), proof());
}

/// Paths to every value of a document that has no values in it.
fn leaves(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| leaves(value, &format!("{at}/{name}"), out));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, value)| leaves(value, &format!("{at}/{n}"), out));
        }
        _ => out.push(at.to_owned()),
    }
}

/// The same value with one bit of it flipped.
fn flipped(value: &Value, bit: usize) -> Value {
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(number) => Value::from(number ^ 1 << (bit % 8)),
            None => Value::from(number.as_i64().unwrap() ^ 1 << (bit % 8)),
        },
        Value::String(text) => {
            let mut text = text.clone().into_bytes();
            let digits: Vec<usize> = (0..text.len()).filter(|at| text[*at] != b'-').collect();
            let at = digits[bit / 4 % digits.len()];
            let digit = char::from(text[at]).to_digit(16).unwrap() ^ 1 << (bit % 4);
            text[at] = u8::try_from(char::from_digit(digit, 16).unwrap()).unwrap();
            Value::from(String::from_utf8(text).unwrap())
        }
        other => panic!("{other} has no bits"),
    }
}

struct Fields {
    document: Value,
    paths: Vec<String>,
}

fn fields() -> &'static Fields {
    static FIELDS: OnceLock<Fields> = OnceLock::new();
    FIELDS.get_or_init(|| {
        let document = serde_json::to_value(proof()).unwrap();
        let mut paths = Vec::new();
        leaves(&document, "", &mut paths);
        assert!(paths.len() > 60, "{paths:?}");
        Fields { document, paths }
    })
}

fn changed(path: &str, bit: usize) -> Result<(), String> {
    let mut document = fields().document.clone();
    let value = document.pointer_mut(path).unwrap();
    *value = flipped(value, bit);
    let Ok(proof) = serde_json::from_value::<Proof>(document) else { return Ok(()) };
    match proof.verify_finality(&keys()) {
        Ok(_) => Err(format!("bit {bit} of {path} means nothing")),
        Err(_) => Ok(()),
    }
}

#[test]
fn every_field_is_proven() {
    for path in &fields().paths {
        for bit in 0..8 {
            changed(path, bit).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn every_bit_is_proven(field: prop::sample::Index, bit in 0usize..512) {
        let path = &fields().paths[field.index(fields().paths.len())];
        prop_assert_eq!(changed(path, bit), Ok(()));
    }

    #[test]
    fn any_text_is_an_error_or_a_proof(text in "\\PC{0,200}") {
        prop_assert!(serde_json::from_str::<Proof>(&text).is_err());
    }

    #[test]
    fn any_two_heads_of_a_log_are_consistent_and_no_others(first in 1u64..50, second in 1u64..50) {
        static LEDGER: OnceLock<(Ledger, Ledger)> = OnceLock::new();
        let (ledger, other) = LEDGER.get_or_init(|| (Ledger::new(0, 50), Ledger::new(24, 50)));
        let (first, second) = (first.min(second), first.max(second));
        let operator = key(0).public_key();
        let shown = ledger.consistency(first, second);
        prop_assert_eq!(shown.verify(&operator), Ok(()));
        prop_assert_eq!(shown.joins(&ledger.receipt(50).head, &shown.first, &operator).is_ok(), second == 50);
        // From leaf 20 on the other log has another decision: two histories, both signed.
        let mut forked = shown.clone();
        forked.second = other.consistency(first, second).second;
        prop_assert_eq!(forked.verify(&operator).is_ok(), second <= 20);
    }
}

#[test]
fn an_approval_that_is_missing_is_its_own_outcome() {
    let mut proof = proof();
    proof.approvals.remove(1);
    proof.missing = vec![ParticipantId(1)];
    assert_eq!(proof.verify(&keys()), Err(ProofError::NotShown { missing: 1, participants: 3 }));
    let verified = proof.verify_finality(&keys()).unwrap();
    assert_eq!((verified.not_shown(), verified.missing), (1, vec![ParticipantId(1)]));
    assert_eq!(verified.answers.len(), 2);
    // What the proof says to be missing counts for nothing.
    proof.missing.clear();
    assert_eq!(proof.verify(&keys()), Err(ProofError::NotShown { missing: 1, participants: 3 }));
}

#[test]
fn nobody_stands_in_for_another() {
    let with = |approvals: &[u8]| {
        let mut proof = proof();
        proof.approvals = approvals.iter().map(|participant| approval(*participant, 0)).collect();
        proof.verify_finality(&keys()).map(|_| ())
    };
    assert_eq!(with(&[0, 1, 1]), Err(ProofError::Twice("BANKDEFF".into())));
    assert!(matches!(with(&[0, 1, 2, 3]), Err(ProofError::Form(_))));
    // One without a part in it: it cannot be told while legs are hidden, and is told where they are not.
    assert_eq!(with(&[0, 1, 3]), Ok(()));
    let mut shown = proof();
    shown.transaction = Contents::of(&payment(), |_| true);
    assert!(shown.verify(&keys()).is_ok());
    shown.approvals[2] = approval(3, 0);
    assert_eq!(shown.verify(&keys()), Err(ProofError::NotConcerned("BANKESMM".into())));
    let mut renamed = proof();
    renamed.approvals[1].participant = ParticipantId(3);
    assert!(matches!(renamed.verify(&keys()), Err(ProofError::Approval { .. })));
    let mut unknown = proof();
    unknown.approvals[1].participant = ParticipantId(9);
    assert_eq!(unknown.verify(&keys()), Err(ProofError::UnknownInstitution(ParticipantId(9))));
}

#[test]
fn a_refusal_is_proven_without_everybodys_answer() {
    let no = Refusal::InsufficientFunds;
    let mut proof = proof();
    proof.receipt = Ledger::new(no.number(), 50).receipt(21);
    proof.approvals = vec![approval(1, no.number())];
    let verified = proof.verify(&keys()).unwrap();
    assert_eq!((verified.verdict, verified.answers[0].verdict), (Err(no), Err(no)));
    assert_eq!(verified.not_shown(), 0);
    // The same answer does not go with a settled payment.
    proof.receipt = Ledger::new(0, 50).receipt(50);
    assert_eq!(proof.verify_finality(&keys()), Err(ProofError::Refused("BANKDEFF".into())));
}

#[test]
fn legs_can_be_hidden_before_a_proof_is_handed_on() {
    let mut proof = proof();
    proof.transaction = Contents::of(&payment(), |_| true);
    assert_eq!(proof.verify(&keys()).unwrap().legs.len(), 4);
    proof.transaction = proof.transaction.hiding(nobody);
    assert_eq!(proof.transaction, Contents::of(&payment(), nobody));
    let verified = proof.verify(&keys()).unwrap();
    assert!(verified.legs.is_empty() && verified.id == payment().id());
}

#[test]
fn other_keys_prove_nothing() {
    let mut other = keys();
    other.network.0 += 1;
    assert!(matches!(proof().verify(&other), Err(ProofError::Network { .. })));
    let mut other = keys();
    other.operator = key(3).public_key();
    assert!(matches!(proof().verify(&other), Err(ProofError::Receipt(ReceiptError::Head(_)))));
    let mut other = keys();
    other.institutions[2].key = key(3).public_key();
    assert!(matches!(proof().verify(&other), Err(ProofError::Approval { .. })));
}

#[test]
fn a_transaction_of_nobody_is_not_approved_by_nobody() {
    let mut proof = proof();
    proof.transaction = proof.transaction.hiding(nobody);
    proof.transaction.participants = 0;
    proof.receipt.id = proof.transaction.id().unwrap();
    proof.approvals.clear();
    assert!(matches!(proof.verify_finality(&keys()), Err(ProofError::Form(_))));
    proof.transaction.participants = 3;
    proof.transaction.legs = vec![proof.transaction.legs[0]; 256];
    assert!(matches!(proof.verify_finality(&keys()), Err(ProofError::Form(_))));
}

#[test]
fn the_largest_proof_is_within_the_limit() {
    let mut proof = proof();
    let shown = Contents::of(&payment(), |_| true);
    proof.transaction.legs = vec![shown.legs[1]; 255];
    let hash = proof.receipt.root;
    proof.approvals = vec![approval(0, 0); 255];
    proof.approvals.iter_mut().for_each(|approval| approval.path = vec![Sibling::Right(hash); 16]);
    proof.receipt.decision_path = vec![hash; 16];
    proof.receipt.tree_path = vec![hash; 64];
    proof.missing = vec![ParticipantId(u16::MAX); 255];
    let text = serde_json::to_string_pretty(&proof).unwrap();
    assert!(text.len() as u64 <= MAX_PROOF_BYTES, "{}", text.len());
}

#[test]
fn a_head_of_before_the_decision_is_refused() {
    // An operator whose clock went back signs what nobody takes.
    let mut proof = proof();
    proof.receipt.head.head.timestamp_ms = 1_750_000_000_019;
    proof.receipt.head = tally_crypto::log::SignedTreeHead::sign(proof.receipt.head.head, &key(0));
    let (head, decision) = (1_750_000_000_019, 1_750_000_000_020);
    let time = ReceiptError::Time { head, decision };
    assert_eq!(proof.verify(&keys()), Err(ProofError::Receipt(time)));
}

#[test]
fn consistency_is_of_the_heads_at_hand() {
    let ledger = Ledger::new(0, 50);
    let operator = key(0).public_key();
    let shown = ledger.consistency(21, 50);
    let (early, late) = (ledger.receipt(21).head, ledger.receipt(50).head);
    assert_eq!(shown.joins(&early, &late, &operator), Ok(()));
    let between = ledger.receipt(30).head;
    assert_eq!(shown.joins(&between, &late, &operator), Err(ConsistencyError::OtherHead { size: 30 }));
    let mut swapped = shown.clone();
    std::mem::swap(&mut swapped.first, &mut swapped.second);
    assert!(matches!(swapped.verify(&operator), Err(ConsistencyError::Path(_))));
    assert!(matches!(shown.verify(&key(1).public_key()), Err(ConsistencyError::Head { size: 21, .. })));
}
