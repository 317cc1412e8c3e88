//! What a proof proves, and that nothing in it can be changed.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod support;

use proptest::prelude::*;
use std::sync::OnceLock;
use support::flip::Fields;
use support::{Ledger, NAMESAKE, NETWORK, approval, approval_of, key, keys, payment, proof};
use tally_crypto::log::SignedTreeHead;
use tally_ledger::{Leg, ParticipantId, Refusal, Timestamp};
use tally_proof::approval::{About, Approval, ApprovalError, Sibling};
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
    assert_eq!((verified.id, verified.uetr), (payment.id(&NETWORK), payment.header.uetr));
    assert_eq!((verified.verdict, verified.sequence), (Ok(()), 144));
    assert_eq!(verified.timestamp, Timestamp(1_750_000_000_020));
    assert_eq!((verified.head.size, verified.head.timestamp_ms), (50, 1_750_000_000_049));
    let answers: Vec<_> =
        verified.answers.iter().map(|answer| (answer.bic.as_str(), answer.verdict)).collect();
    assert_eq!(answers, [("CENTDEFF", Ok(())), ("BANKDEFF", Ok(())), ("BANKFRPP", Ok(()))]);
    assert_eq!(verified.concerned, [0, 1, 2].map(ParticipantId));
    assert_eq!(verified.legs, [(0, payment.legs[0])]);
    assert_eq!(verified.hidden_legs, 3);
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

fn fields() -> &'static Fields {
    static FIELDS: OnceLock<Fields> = OnceLock::new();
    FIELDS.get_or_init(|| {
        // Every change is refused only if the proof itself is not.
        proof().verify_finality(&keys()).unwrap();
        let fields = Fields::of(serde_json::to_value(proof()).unwrap());
        assert!(fields.paths.len() > 60, "{:?}", fields.paths);
        fields
    })
}

fn changed(path: &str, bit: usize) -> Result<(), String> {
    let Ok(proof) = serde_json::from_value::<Proof>(fields().flipped(path, bit)) else { return Ok(()) };
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

#[test]
fn a_hash_beside_a_path_stands_on_its_side() {
    let honest = proof();
    honest.verify_finality(&keys()).unwrap();
    for (at, approval) in honest.approvals.iter().enumerate() {
        assert!(approval.path.iter().any(|sibling| matches!(sibling, Sibling::Left(_))));
        assert!(approval.path.iter().any(|sibling| matches!(sibling, Sibling::Right(_))));
        for (step, sibling) in approval.path.iter().enumerate() {
            let mut turned = honest.clone();
            turned.approvals[at].path[step] = match *sibling {
                Sibling::Left(hash) => Sibling::Right(hash),
                Sibling::Right(hash) => Sibling::Left(hash),
            };
            let refused = turned.verify_finality(&keys());
            assert!(matches!(refused, Err(ProofError::Approval { .. })), "{at} {step}: {refused:?}");
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
        let shown = ledger.consistency(first, second);
        prop_assert_eq!(shown.verify(&keys()), Ok(()));
        prop_assert_eq!(shown.joins(&ledger.receipt(50).head, &shown.first, &keys()).is_ok(), second == 50);
        // From leaf 20 on the other log has another decision: two histories, both signed.
        let mut forked = shown.clone();
        forked.second = other.consistency(first, second).second;
        prop_assert_eq!(forked.verify(&keys()).is_ok(), second <= 20);
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
    // One without a part in it, with its own true signature: in place of each of the others,
    // whatever legs are shown.
    for shows in [&[][..], &[0], &[1], &[2], &[0, 2], &[1, 2], &[0, 1, 2]] {
        let mut proof = proof();
        proof.transaction = Contents::of(NETWORK, &payment(), |leg| shows.contains(&leg.participant.0));
        assert!(proof.verify(&keys()).is_ok());
        for place in 0..3 {
            let mut stand_in = proof.clone();
            stand_in.approvals[place] = approval(3, 0);
            assert_eq!(
                stand_in.verify(&keys()),
                Err(ProofError::NotConcerned("BANKESMM".into())),
                "{shows:?}"
            );
            // Nor is it made one of those concerned: the id commits to them.
            stand_in.transaction.participants[place] = ParticipantId(3);
            stand_in.transaction.participants.sort_unstable();
            assert!(matches!(stand_in.verify(&keys()), Err(ProofError::Id { .. } | ProofError::Form(_))));
        }
    }
    let mut renamed = proof();
    renamed.approvals[1].participant = ParticipantId(3);
    assert_eq!(renamed.verify(&keys()), Err(ProofError::NotConcerned("BANKESMM".into())));
    renamed.approvals = vec![approval(3, 0)];
    renamed.approvals[0].participant = ParticipantId(1);
    assert!(matches!(renamed.verify_finality(&keys()), Err(ProofError::Approval { .. })));
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
    proof.transaction = Contents::of(NETWORK, &payment(), |_| true);
    assert_eq!(proof.verify(&keys()).unwrap().legs.len(), 4);
    proof.transaction = proof.transaction.hiding(nobody);
    assert_eq!(proof.transaction, Contents::of(NETWORK, &payment(), nobody));
    let verified = proof.verify(&keys()).unwrap();
    assert_eq!((verified.hidden_legs, verified.concerned.len()), (4, 3));
    assert!(verified.legs.is_empty() && verified.id == payment().id(&NETWORK));
}

#[test]
fn other_keys_prove_nothing() {
    let mut other = keys();
    other.network = NAMESAKE;
    assert!(matches!(proof().verify(&other), Err(ProofError::Network { .. })));
    let mut other = keys();
    other.operator = key(3).public_key();
    assert!(matches!(proof().verify(&other), Err(ProofError::Receipt(ReceiptError::Head(_)))));
    let mut other = keys();
    other.institutions[2].key = key(3).public_key();
    assert!(matches!(proof().verify(&other), Err(ProofError::Approval { .. })));
}

/// A proof of what an operator and a customer have made up between them: its id is of these
/// contents, the log has it, and `approving` have signed it.
fn made_up(change: impl Fn(&mut Contents), approving: &[u8]) -> Result<(), ProofError> {
    let mut proof = proof();
    change(&mut proof.transaction);
    let id = proof.transaction.id().unwrap();
    proof.receipt = Ledger::of(NETWORK, id, 0, 50).receipt(50);
    proof.approvals =
        approving.iter().map(|participant| approval_of(&NETWORK, id, *participant, 0)).collect();
    proof.verify(&keys()).map(|_| ())
}

#[test]
fn participants_and_legs_belong_together() {
    let of = |participants: &[u16]| {
        let participants: Vec<_> = participants.iter().copied().map(ParticipantId).collect();
        move |contents: &mut Contents| contents.participants.clone_from(&participants)
    };
    let form = |outcome: Result<(), ProofError>| matches!(outcome, Err(ProofError::Form(_)));
    assert_eq!(made_up(of(&[0, 1, 2]), &[0, 1, 2]), Ok(()));
    // Nobody, or no list in order: each institution is there once, at its place.
    assert!(form(made_up(of(&[]), &[])));
    assert!(form(made_up(of(&[0, 2, 1]), &[0, 1, 2])));
    assert!(form(made_up(of(&[0, 1, 1]), &[0, 1])));
    assert!(form(made_up(of(&[2, 1, 0]), &[0, 1, 2])));
    // Without the institution whose leg is shown, with one more than there are legs to be hidden.
    assert!(form(made_up(of(&[0, 2]), &[0, 2])));
    assert!(form(made_up(of(&[0, 2, 3]), &[0, 2, 3])));
    assert!(form(made_up(of(&[0, 1, 2, 3, 4]), &[0, 1, 2, 3])));
    // All legs are shown: then these are all, and every one of them.
    let shown = |participants: &[u16]| {
        let list = of(participants);
        move |contents: &mut Contents| {
            *contents = Contents::of(NETWORK, &payment(), |_| true);
            list(contents);
        }
    };
    assert_eq!(made_up(shown(&[0, 1, 2]), &[0, 1, 2]), Ok(()));
    assert!(form(made_up(shown(&[0, 1]), &[0, 1])));
    assert!(form(made_up(shown(&[0, 1, 2, 3]), &[0, 1, 2, 3])));
    assert!(form(made_up(shown(&[0, 1, 3]), &[0, 1, 3])));
    // An account order has no legs, and is one institution's.
    let order = |participants: &[u16]| {
        let list = of(participants);
        move |contents: &mut Contents| {
            (contents.kind, contents.legs) = (4, Vec::new());
            list(contents);
        }
    };
    assert_eq!(made_up(order(&[2]), &[2]), Ok(()));
    assert!(form(made_up(order(&[1, 2]), &[1, 2])));
    // Some legs are hidden, and the rest could be anybody's: who is listed must approve.
    assert_eq!(made_up(of(&[0, 1, 3]), &[0, 1, 3]), Ok(()));
    let missing = ProofError::NotShown { missing: 1, participants: 3 };
    assert_eq!(made_up(of(&[0, 1, 3]), &[0, 1]), Err(missing));
    let beside = ProofError::NotConcerned("BANKFRPP".into());
    assert_eq!(made_up(of(&[0, 1, 3]), &[0, 1, 2]), Err(beside));
}

#[test]
fn a_transaction_of_nobody_is_not_approved_by_nobody() {
    let mut proof = proof();
    proof.transaction = proof.transaction.hiding(nobody);
    proof.transaction.participants.clear();
    proof.receipt.id = proof.transaction.id().unwrap();
    proof.approvals.clear();
    assert!(matches!(proof.verify_finality(&keys()), Err(ProofError::Form(_))));
    let three = vec![ParticipantId(0), ParticipantId(1), ParticipantId(2)];
    proof.transaction.participants = three;
    proof.transaction.legs = vec![proof.transaction.legs[0]; 256];
    assert!(matches!(proof.verify_finality(&keys()), Err(ProofError::Form(_))));
    proof.transaction.legs.truncate(255);
    proof.transaction.participants = (0..31).map(ParticipantId).collect();
    assert!(matches!(proof.verify_finality(&keys()), Err(ProofError::Form(_))));
}

/// Two networks with one operator and the same institutions, whose ids begin with the same four
/// bytes.
#[test]
fn nothing_of_one_network_proves_anything_on_its_namesake() {
    assert_eq!(NAMESAKE.tag(), NETWORK.tag());
    let namesake = tally_proof::Keys { network: NAMESAKE, ..keys() };
    let (here, there) = (payment().id(&NETWORK), payment().id(&NAMESAKE));
    assert_ne!(here, there);
    // The whole of it.
    assert!(matches!(proof().verify(&namesake), Err(ProofError::Network { .. })));
    // The id, under which the payer signed.
    let mut moved = proof();
    moved.transaction.network = NAMESAKE;
    assert_eq!(moved.verify(&namesake), Err(ProofError::Id { contents: there, receipt: here }));
    // The tree head.
    moved.receipt = Ledger::of(NETWORK, there, 0, 50).receipt(50);
    assert!(matches!(moved.verify(&namesake), Err(ProofError::Receipt(ReceiptError::Head(_)))));
    let ledger = Ledger::of(NETWORK, here, 0, 50);
    let operator = key(0).public_key();
    assert!(ledger.receipt(50).verify(&NETWORK, &operator).is_ok());
    assert!(matches!(ledger.receipt(50).verify(&NAMESAKE, &operator), Err(ReceiptError::Head(_))));
    let shown = ledger.consistency(21, 50);
    assert!(matches!(shown.verify(&namesake), Err(ConsistencyError::Head { .. })));
    // The approvals, also of the same bytes for an id.
    moved.receipt = Ledger::of(NAMESAKE, there, 0, 50).receipt(50);
    moved.approvals = (0..3).map(|participant| approval_of(&NETWORK, there, participant, 0)).collect();
    assert!(matches!(moved.verify(&namesake), Err(ProofError::Approval { .. })));
    moved.approvals = (0..3).map(|participant| approval_of(&NAMESAKE, there, participant, 0)).collect();
    assert!(moved.verify(&namesake).is_ok());
}

#[test]
fn the_largest_proof_is_within_the_limit() {
    let mut proof = proof();
    let shown = Contents::of(NETWORK, &payment(), |_| true);
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
    proof.receipt.head =
        tally_crypto::log::SignedTreeHead::sign(proof.receipt.head.head, &NETWORK.0, &key(0));
    let (head, decision) = (1_750_000_000_019, 1_750_000_000_020);
    let time = ReceiptError::Time { head, decision };
    assert_eq!(proof.verify(&keys()), Err(ProofError::Receipt(time)));
}

#[test]
fn consistency_is_of_the_heads_at_hand() {
    let ledger = Ledger::new(0, 50);
    let shown = ledger.consistency(21, 50);
    let (early, late) = (ledger.receipt(21).head, ledger.receipt(50).head);
    assert_eq!(shown.joins(&early, &late, &keys()), Ok(()));
    let between = ledger.receipt(30).head;
    assert_eq!(shown.joins(&between, &late, &keys()), Err(ConsistencyError::OtherHead { size: 30 }));
    let mut swapped = shown.clone();
    std::mem::swap(&mut swapped.first, &mut swapped.second);
    assert!(matches!(swapped.verify(&keys()), Err(ConsistencyError::Path(_))));
    let other = tally_proof::Keys { operator: key(1).public_key(), ..keys() };
    assert!(matches!(shown.verify(&other), Err(ConsistencyError::Head { size: 21, .. })));
}

#[test]
fn a_refusal_is_not_shown_as_an_approval() {
    let mut proof = proof();
    proof.approvals[1] = approval(1, Refusal::InsufficientFunds.number());
    proof.approvals[1].verdict = 0;
    assert!(matches!(proof.verify_finality(&keys()), Err(ProofError::Approval { .. })));
}

#[test]
fn an_answer_is_of_a_batch_that_there_can_be() {
    let form = |approval: &Approval| {
        let about = About { network: NETWORK, id: payment().id(&NETWORK), scheduler: 0, batch: 0 };
        approval.verify(&about, &key(1).public_key()) == Err(ApprovalError::Form)
    };
    let mut beyond = approval(1, 0);
    assert!(!form(&beyond));
    beyond.index = beyond.batch_len;
    assert!(form(&beyond));
    let mut long = approval(1, 0);
    let sibling = Sibling::Right(proof().receipt.root);
    long.path = vec![sibling; 16];
    assert!(!form(&long));
    long.path.push(sibling);
    assert!(form(&long));
}

#[test]
fn both_heads_of_a_consistency_proof_are_the_operators_and_time_does_not_go_back() {
    let keys = keys();
    let shown = Ledger::new(0, 50).consistency(21, 50);
    for later in [false, true] {
        let mut forged = shown.clone();
        let head = if later { &mut forged.second } else { &mut forged.first };
        let size = head.head.size;
        *head = SignedTreeHead::sign(head.head, &NETWORK.0, &key(1));
        let wrong = forged.verify(&keys).unwrap_err();
        assert!(matches!(wrong, ConsistencyError::Head { size: of, .. } if of == size), "{wrong}");
    }
    let mut back = shown;
    let (first, second) = (back.first.head.timestamp_ms, back.first.head.timestamp_ms - 1);
    back.second.head.timestamp_ms = second;
    back.second = SignedTreeHead::sign(back.second.head, &NETWORK.0, &key(0));
    assert_eq!(back.verify(&keys), Err(ConsistencyError::Time { first, second }));
}
