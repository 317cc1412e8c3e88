use super::*;
use crate::fixture::{alice, amount, bank, build, key, network, notary};
use crate::{
    BatchVerifier, Party, Role, SignaturesError, SignedTransaction, State, TimeWindow, Timestamp,
    Transaction, TransactionBuilder, TransactionError, TransactionSignature, cash, sign,
    verify_signatures_of,
};

/// Members 3 to 6, of whom `threshold` sign.
fn of(threshold: usize, identity: u8) -> CompositeKey {
    let members = (3..=6).map(|number| key(number).public_key()).collect();
    CompositeKey::new(threshold, Hash::from_bytes([identity; 32]), members).unwrap()
}

fn named(composite: &CompositeKey) -> Party {
    Party { name: notary().name, key: composite.key() }
}

fn issue(notary: Party) -> Transaction {
    let timed = TransactionBuilder::new(network(), notary).time_window(TimeWindow::ending(Timestamp::MAX));
    build(cash::issue(timed, amount("1 USD"), &bank(), alice().key, 0))
}

fn agreed(transaction: &Transaction) -> SignedTransaction {
    let by_bank = sign(key(2), Role::Party, transaction.id());
    SignedTransaction::new(transaction.clone(), [by_bank]).unwrap()
}

fn by(members: impl IntoIterator<Item = u8>, transaction: &Transaction) -> Vec<TransactionSignature> {
    members.into_iter().map(|number| sign(key(number), Role::Notary, transaction.id())).collect()
}

#[test]
fn as_many_members_as_the_threshold_attest_and_the_transaction_proves_it_by_itself() {
    let composite = of(3, 0);
    let transaction = issue(named(&composite));
    let id = transaction.id();
    let agreed = agreed(&transaction);
    let mut verifier = BatchVerifier::new(16);
    for signers in [vec![3], vec![4, 6], vec![3, 4, 5], vec![3, 5, 6], vec![3, 4, 5, 6]] {
        let enough = signers.len() >= 3;
        let signed = agreed.attested(&composite, by(signers.clone(), &transaction)).unwrap();
        let expected = if enough { Ok(()) } else { Err(SignaturesError::NotAttested { id }) };
        assert_eq!(signed.check_complete(), expected);
        assert_eq!(signed.verify_signatures(), expected, "{signers:?}");
        assert_eq!(verify_signatures_of(std::slice::from_ref(&signed), &mut verifier), [expected]);
        assert_eq!((signed.is_attested(), signed.attestations().count()), (enough, signers.len()));
        let decoded = SignedTransaction::decode(&signed.encode()).unwrap();
        assert_eq!(decoded, signed);
        assert_eq!(decoded.composite(), Some(&composite));
    }
    // One member counts once, however often it is named.
    let twice = agreed.attested(&composite, by([3, 3, 4, 4], &transaction)).unwrap();
    assert_eq!(twice.verify_signatures(), Err(SignaturesError::NotAttested { id }));
    // Nothing is revealed where nobody attested: a transaction has one form.
    assert_eq!(agreed.attested(&composite, []).unwrap(), agreed);
    assert_eq!(agreed.composite(), None);
    assert_eq!(SignedTransaction::decode(&agreed.encode()).unwrap(), agreed);
}

#[test]
fn nobody_but_members_attests_and_in_no_other_role() {
    let composite = of(3, 0);
    let transaction = issue(named(&composite));
    let id = transaction.id();
    let agreed = agreed(&transaction);
    let stranger = by([3, 4, 7], &transaction);
    assert_eq!(
        agreed.attested(&composite, stranger),
        Err(SignaturesError::NotRequired { by: key(7).public_key(), role: Role::Notary, id })
    );
    for role in [Role::Party, Role::Oracle] {
        let other = by([3, 4], &transaction).into_iter().chain([sign(key(5), role, id)]);
        assert_eq!(
            agreed.attested(&composite, other),
            Err(SignaturesError::NotRequired { by: key(5).public_key(), role, id })
        );
        // What was signed in another role does not verify in this one.
        let claimed = TransactionSignature { role: Role::Notary, ..sign(key(5), role, id) };
        let signatures = by([3, 4], &transaction).into_iter().chain([claimed]);
        let signed = agreed.attested(&composite, signatures).unwrap();
        assert!(matches!(signed.verify_signatures(), Err(SignaturesError::Invalid { .. })));
    }
    // The composite key itself signs nothing.
    let itself = TransactionSignature { by: composite.key(), ..by([3], &transaction)[0] };
    assert!(agreed.with(itself).is_err());
    assert!(agreed.attested(&composite, [itself]).is_err());
    assert!(itself.verify(Role::Notary, id).is_err());
    // A wrong signature beside enough good ones spoils it: nobody has a use for it.
    let forged = TransactionSignature { by: key(6).public_key(), ..by([3], &transaction)[0] };
    let signed = agreed.attested(&composite, by([3, 4, 5], &transaction).into_iter().chain([forged]));
    assert!(signed.unwrap().verify_signatures().is_err());
}

#[test]
fn the_reveal_is_of_the_key_that_the_transaction_names() {
    let composite = of(3, 0);
    let transaction = issue(named(&composite));
    let id = transaction.id();
    let agreed = agreed(&transaction);
    let signatures = by([3, 4, 5], &transaction);
    let refused = Err(SignaturesError::NotRevealed { id });
    assert_eq!(agreed.attested(&of(1, 0), signatures.clone()), refused, "another threshold");
    assert_eq!(agreed.attested(&of(3, 1), signatures.clone()), refused, "another cluster of the same keys");
    let others = (2..=5).map(|number| key(number).public_key()).collect();
    let others = CompositeKey::new(3, Hash::from_bytes([0; 32]), others).unwrap();
    assert_eq!(agreed.attested(&others, signatures.clone()), refused, "other members");
    assert_eq!(SignedTransaction::new(transaction.clone(), signatures.clone()), refused, "nothing revealed");
    let single = issue(notary());
    let by_bank = sign(key(2), Role::Party, single.id());
    let single = SignedTransaction::new(single, [by_bank]).unwrap();
    let foreign = by([3, 4, 5], single.transaction());
    assert!(single.attested(&composite, foreign).is_err(), "the notary has a key of its own");
    // In bytes: each changed, cut, lengthened.
    let signed = agreed.attested(&composite, signatures).unwrap();
    let good = signed.encode();
    for position in 0..good.len() {
        let mut bytes = good.clone();
        bytes[position] ^= 1;
        if let Ok(other) = SignedTransaction::decode(&bytes) {
            assert!(other.verify_signatures().is_err(), "byte {position}");
        }
    }
    for length in 0..good.len() {
        assert!(SignedTransaction::decode(&good[..length]).is_err(), "cut to {length}");
    }
    assert!(SignedTransaction::decode(&[&good[..], &[0]].concat()).is_err());
    // A reveal behind a transaction whose notary has a key of its own, or that nobody attested.
    let reveal = encode(&composite);
    assert!(SignedTransaction::decode(&[single.encode(), reveal.clone()].concat()).is_err());
    assert!(SignedTransaction::decode(&[agreed.encode(), reveal].concat()).is_err());
}

#[test]
fn a_composite_key_is_bounded_and_has_one_form() {
    let keys = |numbers: &[u8]| numbers.iter().map(|number| key(*number).public_key()).collect::<Vec<_>>();
    let none = Hash::ZERO;
    let new = |threshold, members| CompositeKey::new(threshold, none, members);
    assert_eq!(new(1, keys(&[1, 2])).unwrap(), new(1, keys(&[2, 1])).unwrap());
    assert_ne!(new(1, keys(&[1, 2])).unwrap().key(), new(2, keys(&[1, 2])).unwrap().key());
    assert_eq!(new(1, keys(&[1, 1])), Err(CompositeKeyError::Order));
    assert_eq!(new(1, Vec::new()), Err(CompositeKeyError::Count(0)));
    for threshold in [0, 3] {
        let refused = CompositeKeyError::Threshold { threshold, members: 2 };
        assert_eq!(new(threshold, keys(&[1, 2])), Err(refused));
    }
    let many = |count: u8| {
        (0..count).map(|number| {
            let secret = [number + 1; 32];
            crate::SigningKey::from_secret(crate::Scheme::Ed25519, &secret).unwrap().public_key()
        })
    };
    assert!(new(21, many(31).collect()).is_ok());
    assert_eq!(new(21, many(32).collect()), Err(CompositeKeyError::Count(32)));
    assert_eq!(new(1, vec![of(3, 0).key()]), Err(CompositeKeyError::Nested));
    let mut turned = keys(&[1, 2]);
    turned.sort_unstable_by(|a, b| b.cmp(a));
    assert!(crate::decode::<CompositeKey>("", &encode(&(1_u8, none, turned)), 1000).is_err());
    assert!(crate::decode::<CompositeKey>("", &encode(&(1_u8, none, u32::MAX)), 1000).is_err());
}

#[test]
fn a_composite_key_neither_signs_a_command_nor_owns_a_state() {
    let composite = of(3, 0);
    let builder = || TransactionBuilder::new(network(), notary());
    let shipped = crate::Contracts::shipped();
    let owned = cash::issue(builder(), amount("1 USD"), &bank(), composite.key(), 0);
    assert!(matches!(
        owned.build([9; 32], &shipped),
        Err(crate::BuildError::Malformed(TransactionError::Composite))
    ));
    let issued = cash::issue(builder(), amount("1 USD"), &named(&composite), alice().key, 0);
    assert!(matches!(
        issued.build([9; 32], &shipped),
        Err(crate::BuildError::Malformed(TransactionError::Composite))
    ));
    let state = State::new(&crate::fixture::cash("1 USD", &bank(), &alice()), named(&composite));
    assert!(state.notary.key.is_composite(), "a state may name it as its notary");
}
