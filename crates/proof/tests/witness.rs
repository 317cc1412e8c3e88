//! What proofs and consistency show when the keys ask for witnesses.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

#[allow(dead_code, reason = "other tests use the rest of it")]
mod support;

use support::flip::Fields;
use support::{Ledger, NETWORK, key, keys, proof};
use tally_crypto::log::{Checkpoint, Cosignature, SignedTreeHead};
use tally_ledger::ParticipantId;
use tally_proof::witness::MAX_COSIGNATURES;
use tally_proof::{
    Consistency, ConsistencyError, HeadCosignature, Keys, Proof, ProofError, WitnessError, Witnessed,
};

const COSIGNED_KEYS: &str = include_str!("golden/cosigned_keys.json");
const COSIGNED_PROOF: &str = include_str!("golden/cosigned_proof.json");
const COSIGNED_CONSISTENCY: &str = include_str!("golden/cosigned_consistency.json");

fn asking(witnesses: u8) -> Keys {
    Keys { witnesses, ..keys() }
}

fn cosignature(head: &SignedTreeHead, participant: u8) -> HeadCosignature {
    let checkpoint = Checkpoint::of(&head.head, &NETWORK.0);
    let time_s = 1_750_000_060 + u64::from(participant);
    let cosignature = Cosignature::sign(&checkpoint, time_s, &key(participant)).unwrap();
    HeadCosignature::of(ParticipantId(u16::from(participant)), cosignature)
}

fn cosigned(participants: &[u8]) -> Proof {
    let mut proof = proof();
    let head = proof.receipt.head;
    proof.receipt.cosignatures = participants.iter().map(|witness| cosignature(&head, *witness)).collect();
    proof
}

fn error(proof: &Proof, keys: &Keys) -> WitnessError {
    let error = proof.verify(keys).unwrap_err();
    assert_eq!(proof.verify_finality(keys), Err(error.clone()));
    match error {
        ProofError::Witnesses(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn a_proof_says_who_witnessed_the_head() {
    let witness = |participant: u16, bic: &str| Witnessed {
        participant: ParticipantId(participant),
        bic: bic.to_owned(),
        time_s: 1_750_000_060 + u64::from(participant),
    };
    let both = [witness(2, "BANKFRPP"), witness(3, "BANKESMM")];
    for asked in 0..=2 {
        assert_eq!(cosigned(&[3, 2]).verify(&asking(asked)).unwrap().witnesses, both);
    }
    assert_eq!(proof().verify(&asking(0)).unwrap().witnesses, []);
}

#[test]
fn fewer_witnesses_than_the_keys_ask_for_are_refused() {
    let few = |participants: &[u8], wanted, got| {
        let expected = WitnessError::TooFew { size: 50, wanted, got };
        assert_eq!(error(&cosigned(participants), &asking(wanted)), expected);
    };
    few(&[], 1, 0);
    few(&[1, 3], 3, 2);
    // The operator has already signed: its institution is no witness of its own log.
    few(&[0], 1, 0);
    few(&[0, 1], 2, 1);
    assert!(cosigned(&[0, 1, 2]).verify(&asking(2)).is_ok());
    // Nor are two institutions with one key two witnesses.
    let mut keys = asking(2);
    keys.institutions[3].key = keys.institutions[2].key;
    let mut proof = cosigned(&[2, 2]);
    proof.receipt.cosignatures[1].participant = ParticipantId(3);
    assert_eq!(error(&proof, &keys), WitnessError::TooFew { size: 50, wanted: 2, got: 1 });
}

#[test]
fn false_cosignatures_are_refused_whether_or_not_any_are_asked_for() {
    for keys in [asking(0), asking(1)] {
        assert_eq!(error(&cosigned(&[1, 2, 1]), &keys), WitnessError::Twice("BANKDEFF".into()));
        let mut renamed = cosigned(&[1, 2]);
        renamed.receipt.cosignatures[1].participant = ParticipantId(3);
        assert!(matches!(error(&renamed, &keys), WitnessError::Cosignature { size: 50, .. }));
        let mut unknown = cosigned(&[1, 2]);
        unknown.receipt.cosignatures[1].participant = ParticipantId(9);
        assert_eq!(error(&unknown, &keys), WitnessError::UnknownInstitution(ParticipantId(9)));
        // Of another head of the same log.
        let mut other = cosigned(&[1]);
        other.receipt.cosignatures = vec![cosignature(&Ledger::new(0, 50).receipt(49).head, 1)];
        assert!(matches!(error(&other, &keys), WitnessError::Cosignature { .. }));
        // More than there can be, before any is verified.
        assert_eq!(error(&cosigned(&[1, 2, 3, 0, 1]), &keys), WitnessError::TooMany(5));
    }
    let mut many = asking(0);
    many.institutions = (0..1_000)
        .map(|number| tally_proof::Institution {
            participant: ParticipantId(number),
            ..keys().institutions[usize::from(number % 4)].clone()
        })
        .collect();
    let mut proof = cosigned(&[1]);
    proof.receipt.cosignatures = vec![proof.receipt.cosignatures[0]; MAX_COSIGNATURES + 1];
    assert_eq!(error(&proof, &many), WitnessError::TooMany(MAX_COSIGNATURES + 1));
}

#[test]
fn every_bit_of_a_cosignature_is_proven() {
    let fields = Fields::of(serde_json::to_value(cosigned(&[1, 2])).unwrap());
    let paths: Vec<&String> = fields.paths.iter().filter(|path| path.contains("cosignatures")).collect();
    assert_eq!(paths.len(), 6, "{paths:?}");
    for path in paths {
        for bit in 0..512 {
            let Ok(changed) = serde_json::from_value::<Proof>(fields.flipped(path, bit)) else { continue };
            assert!(changed.verify_finality(&asking(1)).is_err(), "bit {bit} of {path} means nothing");
        }
    }
}

#[test]
fn heads_that_are_compared_are_witnessed_too() {
    let ledger = Ledger::new(0, 50);
    let between = ledger.consistency(21, 50);
    let (first, second) = (between.first, between.second);
    let keys = asking(2);
    let with = |early: &[u8], late: &[u8]| {
        let by = |head, of: &[u8]| of.iter().map(|witness| cosignature(head, *witness)).collect();
        let shown = Consistency {
            first_cosignatures: by(&first, early),
            second_cosignatures: by(&second, late),
            ..between.clone()
        };
        assert_eq!(shown.joins(&first, &second, &keys), shown.verify(&keys));
        shown.verify(&keys)
    };
    assert_eq!(with(&[1, 2], &[3, 2]), Ok(()));
    let few = |size, got| Err(ConsistencyError::Witnesses(WitnessError::TooFew { size, wanted: 2, got }));
    assert_eq!(with(&[1], &[1, 2]), few(21, 1));
    assert_eq!(with(&[1, 2], &[]), few(50, 0));
    assert_eq!(between.verify(&asking(0)), Ok(()));
    // Cosignatures of the other head.
    let swapped = Consistency {
        first_cosignatures: vec![cosignature(&second, 1)],
        second_cosignatures: vec![cosignature(&first, 1)],
        ..between.clone()
    };
    assert!(matches!(swapped.verify(&asking(0)), Err(ConsistencyError::Witnesses(_))));
}

/// The files on which clients in other languages are tried. `TALLY_WRITE_GOLDEN=1` writes them anew.
#[test]
fn the_forms_with_cosignatures_are_the_published_ones() {
    let (keys, proof) = (asking(2), cosigned(&[1, 2, 3]));
    let between = Ledger::new(0, 50).consistency(21, 50);
    let by = |head, of: &[u8]| of.iter().map(|witness| cosignature(head, *witness)).collect();
    let consistency = Consistency {
        first_cosignatures: by(&between.first, &[1, 3]),
        second_cosignatures: by(&between.second, &[1, 2, 3]),
        ..between
    };
    proof.verify(&keys).unwrap();
    consistency.verify(&keys).unwrap();
    let files = [
        ("keys", serde_json::to_string_pretty(&keys).unwrap() + "\n", COSIGNED_KEYS),
        ("proof", serde_json::to_string_pretty(&proof).unwrap() + "\n", COSIGNED_PROOF),
        ("consistency", serde_json::to_string_pretty(&consistency).unwrap() + "\n", COSIGNED_CONSISTENCY),
    ];
    if std::env::var_os("TALLY_WRITE_GOLDEN").is_some() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
        for (name, text, _) in &files {
            std::fs::write(format!("{directory}/cosigned_{name}.json"), text).unwrap();
        }
    }
    for (name, text, golden) in files {
        assert_eq!(text, golden, "{name}");
    }
    assert_eq!(serde_json::from_str::<Keys>(COSIGNED_KEYS).unwrap(), keys);
    assert_eq!(serde_json::from_str::<Proof>(COSIGNED_PROOF).unwrap(), proof);
    assert_eq!(serde_json::from_str::<Consistency>(COSIGNED_CONSISTENCY).unwrap(), consistency);
}

#[test]
fn files_without_witnesses_are_read_and_written_as_before() {
    let text = serde_json::to_string(&keys()).unwrap();
    assert!(!text.contains("witnesses"));
    assert_eq!(serde_json::from_str::<Keys>(&text).unwrap().witnesses, 0);
    let text = serde_json::to_string(&asking(2)).unwrap();
    assert_eq!(serde_json::from_str::<Keys>(&text).unwrap(), asking(2));
    assert!(!serde_json::to_string(&proof()).unwrap().contains("cosignatures"));
    let text = serde_json::to_string(&cosigned(&[1])).unwrap();
    assert_eq!(serde_json::from_str::<Proof>(&text).unwrap(), cosigned(&[1]));
}
