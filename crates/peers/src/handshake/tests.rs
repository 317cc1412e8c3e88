use super::*;
use proptest::prelude::*;

fn key(number: u8) -> NodeKey {
    NodeKey::new(&[number; 32]).unwrap()
}

fn hello(key: &NodeKey) -> Hello {
    Hello {
        oldest: 1,
        newest: 1,
        id: key.id(),
        network_id: 1337,
        genesis: B256::repeat_byte(3),
        instance: 99,
        window: 1 << 20,
        port: 30303,
        client: "tally/0.1".to_owned(),
    }
}

fn proof(message: &[u8]) -> Proof {
    match Opening::decode(message).unwrap() {
        Opening::Hello(proof) => *proof,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_proof_holds_for_its_session_role_and_reader_only() {
    let (a, b) = (key(1), key(2));
    let proof = proof(&hello(&a).sign(&a, Role::Initiator, &[5; 32], &b.id()));
    assert_eq!(proof.clone().check(Role::Initiator, &[5; 32], &b.id()), Ok(hello(&a)));
    let check = |role, exporter, to| proof.clone().check(role, &exporter, &to);
    assert_eq!(check(Role::Responder, [5; 32], b.id()), Err(Refusal::Proof), "reflected");
    assert_eq!(check(Role::Initiator, [6; 32], b.id()), Err(Refusal::Proof), "replayed or relayed");
    assert_eq!(check(Role::Initiator, [5; 32], key(3).id()), Err(Refusal::Proof), "meant for another");
}

#[test]
fn a_proof_by_another_key_does_not_hold() {
    let (a, b) = (key(1), key(2));
    let forged = proof(&hello(&a).sign(&b, Role::Initiator, &[5; 32], &b.id()));
    assert_eq!(forged.check(Role::Initiator, &[5; 32], &b.id()), Err(Refusal::Proof));
}

#[test]
fn every_changed_byte_is_refused() {
    let (a, b) = (key(1), key(2));
    let message = hello(&a).sign(&a, Role::Initiator, &[5; 32], &b.id());
    for place in 0..message.len() {
        let mut changed = message.clone();
        changed[place] ^= 1;
        if let Ok(Opening::Hello(proof)) = Opening::decode(&changed) {
            assert_eq!(proof.check(Role::Initiator, &[5; 32], &b.id()), Err(Refusal::Proof), "byte {place}");
        }
    }
}

#[test]
fn every_cut_is_refused() {
    let (a, b) = (key(1), key(2));
    let message = hello(&a).sign(&a, Role::Initiator, &[5; 32], &b.id());
    for length in 0..message.len() {
        assert!(Opening::decode(&message[..length]).is_err(), "{length} bytes");
        // The length corrected, so that the body itself is short.
        if length >= PREFIX {
            let short = super::message(HELLO, &message[PREFIX..length]);
            let believed = match Opening::decode(&short) {
                Ok(Opening::Hello(proof)) => proof.check(Role::Initiator, &[5; 32], &b.id()).is_ok(),
                _ => false,
            };
            assert!(!believed, "{length} bytes");
        }
    }
    let mut longer = message;
    longer.push(0);
    assert_eq!(Opening::decode(&longer), Err(OpeningFault::Truncated));
}

#[test]
fn nodes_that_do_not_belong_together_say_why() {
    let (a, b) = (hello(&key(1)), hello(&key(2)));
    assert_eq!(a.agrees_with(&b), Ok(()));
    let other = Hello { network_id: 5, ..b.clone() };
    assert_eq!(a.agrees_with(&other), Err(Refusal::Network { network_id: 1337 }));
    assert_eq!(a.agrees_with(&Hello { genesis: B256::ZERO, ..b.clone() }), Err(Refusal::Genesis));
    let newer = Hello { oldest: 2, newest: 3, ..b.clone() };
    assert_eq!(a.agrees_with(&newer), Err(Refusal::Version { oldest: 1, newest: 1 }));
    assert_eq!(a.agrees_with(&Hello { oldest: 1, newest: 9, ..b }), Ok(()), "a newer one speaks ours too");
    assert_eq!(a.agrees_with(&a), Err(Refusal::Itself));
}

#[test]
fn every_refusal_survives_the_way() {
    for refusal in [
        Refusal::Version { oldest: 2, newest: 700 },
        Refusal::Network { network_id: u64::MAX },
        Refusal::Genesis,
        Refusal::Proof,
        Refusal::NotPermitted,
        Refusal::TooManyPeers,
        Refusal::AlreadyConnected,
        Refusal::Misbehaved { seconds: 30 },
        Refusal::Itself,
        Refusal::Stopping,
        Refusal::Other { code: 200 },
    ] {
        assert_eq!(Opening::decode(&Opening::refused(&refusal)), Ok(Opening::Refused(refusal)));
    }
    assert_eq!(Opening::decode(&Opening::accepted()), Ok(Opening::Accepted));
}

#[test]
fn what_is_too_long_is_not_read() {
    assert_eq!(Opening::body_length([1, 2, 0]), Ok(512));
    assert_eq!(Opening::body_length([1, 2, 1]), Err(OpeningFault::Long { found: 513 }));
    let long = Hello { client: "x".repeat(1000), ..hello(&key(1)) };
    let message = long.sign(&key(1), Role::Initiator, &[0; 32], &key(2).id());
    assert_eq!(proof(&message).hello.client.len(), LONGEST_CLIENT);
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..190_usize, by in 1..255_u8) {
        crate::fuzz::handshake(&bytes);
        crate::fuzz::keystore(&bytes);
        crate::fuzz::permissions(&bytes);
        let mut message = hello(&key(1)).sign(&key(1), Role::Initiator, &[5; 32], &key(2).id());
        let at = at % message.len();
        message[at] ^= by;
        crate::fuzz::handshake(&message);
    }
}
