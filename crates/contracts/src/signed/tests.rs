use super::*;
use crate::fixture::{alice, amount, bank, bob, build, builder, full, key, notary, signed};
use crate::{Scheme, cash};

#[test]
fn everybody_required_signs() {
    let (transaction, ..) = full();
    let id = transaction.id();
    let complete = signed(&transaction);
    complete.verify_signatures().unwrap();
    assert_eq!(complete.missing_signers().count(), 0);
    for left_out in [alice().key, bob().key, notary().key] {
        let signatures = complete.signatures().iter().copied().filter(|signature| signature.by != left_out);
        let partial = SignedTransaction::new(transaction.clone(), signatures).unwrap();
        let (missing, error) = if left_out == notary().key {
            (None, SignaturesError::NotAttested { id })
        } else {
            (Some(left_out), SignaturesError::Missing { by: left_out, id })
        };
        assert_eq!(partial.verify_signatures(), Err(error));
        assert_eq!(partial.missing_signers().next(), missing);
        assert_eq!(!partial.is_attested(), missing.is_none());
        assert!(!partial.is_agreed_by(&left_out));
        partial.verify_given().unwrap();
        let signature = *complete.signatures().iter().find(|signature| signature.by == left_out).unwrap();
        assert_eq!(partial.with(signature).unwrap(), complete);
        assert_eq!(complete.with(signature).unwrap(), complete, "once is enough");
    }
}

#[test]
fn a_wrong_signature_is_refused() {
    let (transaction, ..) = full();
    let complete = signed(&transaction);
    let id = transaction.id();
    let other = crate::TransactionId::from_bytes([7; 32]);
    let roles = [(1, notary().key, Role::Notary), (4, alice().key, Role::Party), (5, bob().key, Role::Party)];
    for (number, by, role) in roles {
        let others = complete.signatures().iter().copied().filter(|signature| signature.by != by);
        let stray = sign(key(number), role, other);
        assert!(stray.verify(role, other).is_ok() && stray.verify(role, id).is_err());
        let forged = SignedTransaction::new(transaction.clone(), others.chain([stray])).unwrap();
        assert!(
            matches!(forged.verify_given(), Err(SignaturesError::Invalid { by: found, .. }) if found == by)
        );
        assert!(forged.verify_signatures().is_err());
    }
    // A signature over the bare id is not one over the transaction.
    let bare = key(4).sign(id.as_bytes());
    let bare = TransactionSignature { by: alice().key, role: Role::Party, signature: bare };
    assert!(bare.verify(Role::Party, id).is_err());
}

#[test]
fn a_signature_counts_in_the_role_in_which_it_was_given_and_in_no_other() {
    let (transaction, ..) = full();
    let id = transaction.id();
    let roles = [Role::Party, Role::Oracle, Role::Notary];
    for given in roles {
        let signature = sign(key(1), given, id);
        for claimed in roles {
            let claim = TransactionSignature { role: claimed, ..signature };
            assert_eq!(claim.verify(claimed, id).is_ok(), claimed == given, "{given} as {claimed}");
            assert_eq!(signature.verify(claimed, id).is_ok(), claimed == given);
        }
    }
    // A notary that issues cash signs twice, and neither of its signatures stands for the other.
    let timed = builder().time_window(crate::TimeWindow::ending(crate::Timestamp::MAX));
    let own = build(cash::issue(timed, amount("1 USD"), &notary(), alice().key, 0));
    let attested = SignedTransaction::new(own.clone(), [sign(key(1), Role::Notary, own.id())]).unwrap();
    assert_eq!(attested.missing_signers().collect::<Vec<_>>(), [notary().key]);
    let issued = SignedTransaction::new(own.clone(), [sign(key(1), Role::Party, own.id())]).unwrap();
    assert_eq!(issued.verify_signatures(), Err(SignaturesError::NotAttested { id: own.id() }));
    let both = issued.with(sign(key(1), Role::Notary, own.id())).unwrap();
    both.verify_signatures().unwrap();
    assert_eq!(SignedTransaction::decode(&both.encode()).unwrap(), both);
}

#[test]
fn strangers_and_second_signatures_are_refused() {
    let (transaction, ..) = full();
    let complete = signed(&transaction);
    let id = transaction.id();
    for role in [Role::Party, Role::Oracle, Role::Notary] {
        let by = key(7).public_key();
        let refused = SignaturesError::NotRequired { by, role, id };
        assert_eq!(complete.with(sign(key(7), role, id)), Err(refused));
    }
    let by = alice().key;
    let second =
        TransactionSignature { by, role: Role::Party, signature: sign(key(7), Role::Party, id).signature };
    assert_eq!(complete.with(second), Err(SignaturesError::Twice { by, id }));
    let as_oracle = sign(key(4), Role::Oracle, id);
    assert_eq!(
        complete.with(as_oracle),
        Err(SignaturesError::Twice { by, id }),
        "a transaction has one form"
    );
    let unattested = build(cash::issue(builder(), amount("1 USD"), &bank(), by, 0));
    let idle = sign(key(1), Role::Notary, unattested.id());
    assert!(SignedTransaction::new(unattested, [idle]).is_err(), "there is nothing to attest");
}

#[test]
fn every_scheme_may_sign() {
    for scheme in Scheme::ALL {
        let owner = SigningKey::from_secret(scheme, &[7; 32]).unwrap();
        let issuer = crate::Party { name: bank().name, key: owner.public_key() };
        let transaction = build(cash::issue(builder(), amount("1 USD"), &issuer, alice().key, 0));
        let complete =
            SignedTransaction::new(transaction.clone(), [sign(&owner, Role::Party, transaction.id())])
                .unwrap();
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
                5 => {
                    signatures[0] =
                        TransactionSignature { signature: signatures[1].signature, ..signatures[0] }
                }
                7 => signatures[1].signature = sign(key(7), Role::Party, id).signature,
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
    SignedTransaction::new(transaction, [sign(&owner, Role::Party, id)]).unwrap()
}
