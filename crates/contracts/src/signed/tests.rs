use super::*;
use crate::fixture::{alice, amount, bank, bob, build, builder, full, key, notary, signed};
use crate::{Scheme, cash};

#[test]
fn everybody_required_signs() {
    let (transaction, ..) = full();
    let complete = signed(&transaction);
    complete.verify_signatures().unwrap();
    assert_eq!(complete.missing_signers().count(), 0);
    for left_out in [alice().key, bob().key, notary().key] {
        let signatures = complete.signatures().iter().copied().filter(|signature| signature.by != left_out);
        let partial = SignedTransaction::new(transaction.clone(), signatures).unwrap();
        let missing = SignaturesError::Missing { by: left_out, id: transaction.id() };
        assert_eq!(partial.verify_signatures(), Err(missing.clone()));
        assert_eq!(partial.missing_signers().collect::<Vec<_>>(), [left_out]);
        partial.verify_signatures_except(&[left_out]).unwrap();
        partial.verify_signatures_except(&[left_out, bank().key]).unwrap();
        assert_eq!(partial.verify_signatures_except(&[bank().key]), Err(missing));
        let signature = *complete.signatures().iter().find(|signature| signature.by == left_out).unwrap();
        assert_eq!(partial.with(signature).unwrap(), complete);
        assert_eq!(complete.with(signature).unwrap(), complete, "once is enough");
    }
}

#[test]
fn a_wrong_signature_is_refused_whoever_may_be_absent() {
    let (transaction, ..) = full();
    let complete = signed(&transaction);
    let id = transaction.id();
    let other = crate::TransactionId::from_bytes([7; 32]);
    for (number, by) in [(1, notary().key), (4, alice().key), (5, bob().key)] {
        let others = complete.signatures().iter().copied().filter(|signature| signature.by != by);
        let stray = sign(key(number), other);
        assert!(stray.verify(other).is_ok() && stray.verify(id).is_err());
        let forged = SignedTransaction::new(transaction.clone(), others.chain([stray])).unwrap();
        for absent in [vec![], vec![by]] {
            assert!(
                matches!(forged.verify_signatures_except(&absent), Err(SignaturesError::Invalid { by: found, .. }) if found == by)
            );
        }
    }
    // A signature over the bare id is not one over the transaction.
    let bare = TransactionSignature { by: alice().key, signature: key(4).sign(id.as_bytes()) };
    assert!(bare.verify(id).is_err());
}

#[test]
fn strangers_and_second_signatures_are_refused() {
    let (transaction, ..) = full();
    let complete = signed(&transaction);
    let id = transaction.id();
    let stranger = sign(key(7), id);
    assert_eq!(complete.with(stranger), Err(SignaturesError::NotRequired { by: stranger.by, id }));
    let second = TransactionSignature { by: alice().key, signature: stranger.signature };
    assert_eq!(complete.with(second), Err(SignaturesError::Twice { by: alice().key, id }));
}

#[test]
fn every_scheme_may_sign() {
    for scheme in Scheme::ALL {
        let owner = SigningKey::from_secret(scheme, &[7; 32]).unwrap();
        let issuer = crate::Party { name: bank().name, key: owner.public_key() };
        let transaction = build(cash::issue(builder(), amount("1 USD"), &issuer, alice().key, 0));
        let complete = SignedTransaction::new(transaction.clone(), [sign(&owner, transaction.id())]).unwrap();
        complete.verify_signatures().unwrap();
        assert_eq!(SignedTransaction::decode(&complete.encode()).unwrap(), complete);
    }
}

#[test]
fn every_byte_counts() {
    let (transaction, ..) = full();
    let complete = signed(&transaction);
    let good = complete.encode();
    assert_eq!(SignedTransaction::decode(&good).unwrap(), complete);
    for position in 0..good.len() {
        let mut bytes = good.clone();
        bytes[position] ^= 1;
        if let Ok(other) = SignedTransaction::decode(&bytes) {
            assert_ne!(other, complete, "byte {position}");
            assert!(other.verify_signatures().is_err(), "byte {position}");
        }
    }
    for length in 0..good.len() {
        assert!(SignedTransaction::decode(&good[..length]).is_err(), "cut to {length}");
    }
    assert!(SignedTransaction::decode(&[&good[..], &[0]].concat()).is_err());
    let mut swapped = encoded(&transaction, complete.signatures().iter().rev());
    assert!(SignedTransaction::decode(&swapped).is_err(), "not in order");
    swapped = encoded(&transaction, [complete.signatures()[0]; 2].iter());
    assert!(SignedTransaction::decode(&swapped).is_err(), "twice the same");
    let promised = [&crate::encode(&transaction)[..], &[0xff; 4]].concat();
    assert!(SignedTransaction::decode(&promised).is_err(), "more signatures promised than there are");
}

fn encoded<'a>(
    transaction: &Transaction,
    signatures: impl Iterator<Item = &'a TransactionSignature>,
) -> Vec<u8> {
    crate::encode(&(transaction, signatures.collect::<Vec<_>>()))
}

#[test]
fn many_at_once_have_the_outcomes_of_each_alone() {
    let transactions: Vec<_> = (0..20)
        .map(|number| {
            let issue = cash::issue(builder(), amount("1 USD"), &bank(), alice().key, number);
            let timed = issue.time_window(crate::TimeWindow::ending(crate::Timestamp::MAX));
            let complete = signed(&build(timed));
            let (mut signatures, id) = (complete.signatures().to_vec(), complete.id());
            match number {
                3 => drop(signatures.remove(0)),
                5 => signatures[0] = TransactionSignature { by: signatures[0].by, ..signatures[1] },
                7 => signatures[1].signature = sign(key(7), id).signature,
                _ => {}
            }
            SignedTransaction::new(complete.transaction().clone(), signatures).unwrap()
        })
        .chain(SCHEMES.map(by_another_scheme))
        .collect();
    // The same transaction once more, with its signature this time.
    let again = signed(transactions[7].transaction());
    let transactions: Vec<_> = transactions.into_iter().chain([again]).collect();
    let mut verifier = BatchVerifier::new(16);
    for _ in 0..2 {
        let outcomes = verify_signatures_of(&transactions, &mut verifier);
        let alone: Vec<_> = transactions.iter().map(SignedTransaction::verify_signatures).collect();
        assert_eq!(outcomes, alone);
        let wrong: Vec<_> = (0..alone.len()).filter(|at| alone[*at].is_err()).collect();
        assert_eq!(wrong, [3, 5, 7, 21]);
    }
    assert_eq!(verify_signatures_of(&[], &mut verifier), []);
}

const SCHEMES: [(Scheme, bool); 3] = [(Scheme::P256, true), (Scheme::P256, false), (Scheme::Secp256k1, true)];

/// An issue signed by a key of another scheme, rightly or not.
fn by_another_scheme((scheme, right): (Scheme, bool)) -> SignedTransaction {
    let owner = SigningKey::from_secret(scheme, &[7; 32]).unwrap();
    let issuer = crate::Party { name: bank().name, key: owner.public_key() };
    let transaction = build(cash::issue(builder(), amount("1 USD"), &issuer, alice().key, 0));
    let id = if right { transaction.id() } else { TransactionId::from_bytes([1; 32]) };
    SignedTransaction::new(transaction, [sign(&owner, id)]).unwrap()
}
