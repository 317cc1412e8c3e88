use super::*;
use crate::authority::Reason;
use crate::testing::{LIFETIME, NOW, World, at, info, name};
use tally_contracts::SigningKey;

#[test]
fn an_info_survives_its_encoding_and_is_believed() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let signed = info(&identity, 7);
    let decoded = SignedNodeInfo::decode(&signed.encode()).expect("an info");
    assert_eq!(decoded, signed);
    assert_eq!(decoded.hash(), tally_crypto::hash(&signed.encode()));
    let believed = decoded.verify(&world.trust(), NOW).expect("believed");
    assert_eq!((&believed.party, believed.serial), (identity.party(), 7));
    assert!(signed.encode().len() < 4096, "{}", signed.encode().len());
}

#[test]
fn an_info_with_any_byte_changed_is_refused() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let trust = world.trust();
    let bytes = info(&identity, 7).encode();
    for position in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[position] ^= 1 << (position % 8);
        let believed = SignedNodeInfo::decode(&changed).and_then(|info| info.verify(&trust, NOW).map(|_| ()));
        assert!(believed.is_err(), "byte {position}");
    }
    for cut in 0..bytes.len() {
        assert!(SignedNodeInfo::decode(&bytes[..cut]).is_err(), "{cut} bytes");
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(matches!(SignedNodeInfo::decode(&longer), Err(InfoError::Malformed(_))));
}

/// Signs whatever content with whatever key.
fn forged(content: &NodeInfo, key: &SigningKey) -> SignedNodeInfo {
    let content = content.encode().expect("a content");
    let signature = key.sign(message(&content).as_bytes());
    let envelope = Envelope { content, signature, notary: None };
    let mut bytes = MAGIC.to_vec();
    bytes.extend(tally_contracts::encode(&envelope));
    SignedNodeInfo::decode(&bytes).expect("a form")
}

#[test]
fn only_the_node_itself_says_something_of_it() {
    let mut world = World::new();
    let (mallory, honest) = (world.node("Mallory"), world.node("PartyA"));
    let trust = world.trust();
    let honest_info = info(&honest, 1).unverified().clone();
    assert!(matches!(
        forged(&honest_info, mallory.key()).verify(&trust, NOW),
        Err(InfoError::Signature { party }) if party == name("PartyA")
    ));
    // PartyA's name with Mallory's certificate and key.
    let mixed = NodeInfo { party: honest.party().clone(), ..info(&mallory, 1).unverified().clone() };
    assert!(matches!(
        forged(&mixed, mallory.key()).verify(&trust, NOW),
        Err(InfoError::PartyMismatch { .. })
    ));
    let party = Party { name: name("PartyA"), key: mallory.party().key };
    let mixed = NodeInfo { party, ..honest_info.clone() };
    assert!(matches!(
        forged(&mixed, mallory.key()).verify(&trust, NOW),
        Err(InfoError::PartyMismatch { .. })
    ));
    // Signed under the TLS certificate.
    let tls = NodeInfo { path: honest.tls_path().clone(), ..honest_info };
    assert!(matches!(
        forged(&tls, honest.key()).verify(&trust, NOW),
        Err(InfoError::Certificate(CertificateError::WrongRole { .. }))
    ));
}

#[test]
fn an_info_counts_as_long_as_its_certificates() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let trust = world.trust();
    let signed = info(&identity, 1);
    let refused = |now| match signed.verify(&trust, now) {
        Err(InfoError::Certificate(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused(at(2 * LIFETIME)), CertificateError::Expired(_)));
    assert!(matches!(refused(Timestamp::EPOCH), CertificateError::NotYetValid(_)));
    world.manager.revoke(&name("PartyA"), Reason::CessationOfOperation, NOW).expect("revoked");
    world.install(&trust, NOW);
    assert!(matches!(refused(NOW), CertificateError::Revoked { .. }));
    let other = World::called("Other").trust();
    assert!(matches!(
        signed.verify(&other, NOW),
        Err(InfoError::Certificate(CertificateError::UnknownIssuer { .. }))
    ));
}

#[test]
fn oversize_is_refused_unread() {
    let bytes = vec![0; MAX_NODE_INFO_BYTES + 1];
    assert_eq!(SignedNodeInfo::decode(&bytes), Err(InfoError::TooLarge { bytes: bytes.len() }));
    let mut world = World::new();
    let identity = world.node("PartyA");
    let address: Address = "a.example:1".parse().expect("an address");
    for count in [0, 9] {
        let error = SignedNodeInfo::sign(&identity, vec![address.clone(); count], 1, 1).expect_err("refused");
        assert_eq!(error, InfoError::AddressCount { count });
    }
}

#[test]
fn addresses_have_one_text() {
    for text in ["bank.example:10002", "127.0.0.1:1", "[2001:db8::1]:65535", "bank_a-1:80"] {
        assert_eq!(text.parse::<Address>().expect("an address").to_string(), text);
    }
    let long = format!("{}:1", "a".repeat(254));
    for text in [
        "",
        "bank",
        "bank:",
        ":1",
        "bank:0",
        "bank:65536",
        "bank:+1",
        "ba nk:1",
        "[bank]:1",
        "::1:1",
        "b/c:1",
        &long,
    ] {
        assert!(text.parse::<Address>().is_err(), "{text:?}");
    }
    let address: Address = "[2001:db8::1]:10002".parse().expect("an address");
    assert_eq!((address.host(), address.port()), ("2001:db8::1", 10002));
}

#[test]
fn a_notary_service_is_the_nodes_own_and_shows_its_key() {
    let mut world = World::new();
    let (notary, other, party) = (world.notary("Notary"), world.notary("Other"), world.node("PartyA"));
    let trust = world.trust();
    let signed = info(&notary, 1);
    let decoded = SignedNodeInfo::decode(&signed.encode()).expect("an info");
    let believed = decoded.verify(&trust, NOW).expect("believed");
    assert_eq!(believed.notary_party().as_ref(), notary.notary_party());
    assert_eq!(info(&party, 1).unverified().notary_party(), None);
    // No signature by the service's key: anybody's key could be named.
    let bare = forged(signed.unverified(), notary.key());
    assert!(matches!(bare.verify(&trust, NOW), Err(InfoError::NotarySignature { .. })));
    let wrong = SignedNodeInfo {
        notary: Some(other.notary_key().expect("a key").sign(notary_message(&signed.content).as_bytes())),
        ..signed.clone()
    };
    assert!(matches!(wrong.verify(&trust, NOW), Err(InfoError::NotarySignature { .. })));
    // The signature as the legal identity's, and the other way round.
    let crossed = SignedNodeInfo {
        notary: Some(notary.notary_key().expect("a key").sign(message(&signed.content).as_bytes())),
        ..signed.clone()
    };
    assert!(matches!(crossed.verify(&trust, NOW), Err(InfoError::NotarySignature { .. })));
    // The certificate of another node's service, or of another role.
    let foreign = NodeInfo { notary: other.notary_path().cloned(), ..signed.unverified().clone() };
    let encoded = foreign.encode().expect("a content");
    let signature = notary.key().sign(message(&encoded).as_bytes());
    let bytes =
        [MAGIC.to_vec(), tally_contracts::encode(&Envelope { content: encoded, signature, notary: None })];
    assert!(SignedNodeInfo::decode(&bytes.concat()).is_err());
    let role = NodeInfo { notary: Some(notary.tls_path().clone()), ..signed.unverified().clone() };
    assert!(matches!(
        forged(&role, notary.key()).verify(&trust, NOW),
        Err(InfoError::Certificate(CertificateError::WrongRole { expected: Role::NotaryService, .. }))
    ));
}
