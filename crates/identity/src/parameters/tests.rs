use super::*;
use crate::testing::{DAY, NOW, World, at};

#[test]
fn parameters_survive_their_encoding_and_are_believed() {
    let mut world = World::new();
    let notary = world.node("Notary");
    let signed = world.parameters(4, &notary);
    let decoded = SignedParameters::decode(&signed.encode()).expect("parameters");
    assert_eq!(decoded, signed);
    assert_eq!(decoded.verify(&world.trust(), NOW).expect("believed").epoch, 4);
}

#[test]
fn parameters_with_any_byte_changed_are_refused() {
    let mut world = World::new();
    let notary = world.node("Notary");
    let trust = world.trust();
    let bytes = world.parameters(1, &notary).encode();
    for position in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[position] ^= 1 << (position % 8);
        let believed =
            SignedParameters::decode(&changed).and_then(|signed| signed.verify(&trust, NOW).map(|_| ()));
        assert!(believed.is_err(), "byte {position}");
    }
    for cut in 0..bytes.len() {
        assert!(SignedParameters::decode(&bytes[..cut]).is_err(), "{cut} bytes");
    }
}

#[test]
fn only_the_network_map_signs_parameters() {
    let mut world = World::new();
    let notary = world.node("Notary");
    let honest = world.parameters(1, &notary);
    let trust = world.trust();
    let forged = |path: &CertificatePath, key: &tally_contracts::SigningKey| SignedParameters {
        signature: key.sign(message(&honest.content).as_bytes()),
        path: path.clone(),
        ..honest.clone()
    };
    // With the right certificate, but another key.
    assert!(matches!(
        forged(world.map_key.path(), notary.key()).verify(&trust, NOW),
        Err(ParametersError::Signature { .. })
    ));
    // With a key of the network, of another role.
    assert!(matches!(
        forged(notary.path(), notary.key()).verify(&trust, NOW),
        Err(ParametersError::Certificate(CertificateError::WrongRole { expected: Role::NetworkMap, .. }))
    ));
    let other = World::called("Network");
    assert!(matches!(
        honest.verify(&other.trust(), NOW),
        Err(ParametersError::Certificate(CertificateError::Signature { .. }))
    ));
    assert!(matches!(
        honest.verify(&trust, at(2000 * DAY)),
        Err(ParametersError::Certificate(CertificateError::Expired(_)))
    ));
}

#[test]
fn parameters_that_make_no_sense_are_neither_signed_nor_read() {
    let mut world = World::new();
    let notary = world.node("Notary");
    let sense = world.parameters(1, &notary).unverified().clone();
    let twice = NetworkParameters { notaries: vec![sense.notaries[0].clone(); 2], ..sense.clone() };
    let many = NetworkParameters { notaries: vec![sense.notaries[0].clone(); 257], ..sense.clone() };
    let nothing = NetworkParameters { max_transaction_bytes: 0, ..sense.clone() };
    let small = NetworkParameters { max_message_bytes: 1, ..sense.clone() };
    let least = sense.max_transaction_bytes + BESIDE_A_TRANSACTION;
    let tight = NetworkParameters { max_message_bytes: least - 1, ..sense.clone() };
    SignedParameters::sign(&world.map_key, NetworkParameters { max_message_bytes: least, ..sense })
        .expect("just enough");
    for senseless in [twice, many, nothing, small, tight] {
        let content = tally_contracts::encode(&senseless);
        let error = SignedParameters::sign(&world.map_key, senseless).expect_err("senseless");
        let envelope = Envelope {
            signature: world.map_key.key().sign(message(&content).as_bytes()).into(),
            path: world.map_key.path().to_der().iter().map(|der| der.to_vec()).collect(),
            content,
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(tally_contracts::encode(&envelope));
        assert_eq!(SignedParameters::decode(&bytes), Err(error));
    }
    let large = vec![0; MAX_PARAMETERS_BYTES + 1];
    assert_eq!(SignedParameters::decode(&large), Err(ParametersError::TooLarge { bytes: large.len() }));
}

#[test]
fn a_notary_that_changes_its_key_or_leaves_stays_known() {
    let mut world = World::new();
    let (notary, other) = (world.notary("Notary"), world.notary("Other"));
    let mut parameters = world.parameters(1, &notary).unverified().clone();
    let party = |identity: &crate::Identity| identity.notary_party().expect("a notary").clone();
    let first = party(&notary);
    let second = Party { name: first.name.clone(), key: party(&other).key };
    parameters.put_notary(Notary { party: second.clone(), kind: NotaryKind::Validating });
    assert_eq!(parameters.notaries, [Notary { party: second.clone(), kind: NotaryKind::Validating }]);
    assert!(parameters.names_notary(&first) && parameters.names_notary(&second));
    parameters.put_notary(Notary { party: first.clone(), kind: NotaryKind::NonValidating });
    parameters.remove_notary(&first.name);
    assert!(parameters.notaries.is_empty());
    assert_eq!(parameters.former_notaries.len(), 2);
    assert!(parameters.names_notary(&first) && parameters.names_notary(&second));
    assert!(!parameters.names_notary(&party(&other)));
    parameters.former_notaries.reverse();
    assert!(matches!(SignedParameters::sign(&world.map_key, parameters), Err(ParametersError::Notaries(_))));
}

/// Four members of a network, whose keys are made of a number.
fn members(first: u8) -> Vec<tally_notary::Member> {
    let member = |number: u8| tally_notary::Member {
        name: format!("O=Member {number}, L=London, C=GB").parse().expect("a name"),
        voter: [number; 20],
        key: tally_crypto::SigningKey::from_seed([number; 32]).public_key().into(),
    };
    (first..first + 4).map(member).collect()
}

#[test]
fn the_key_of_a_clustered_notary_is_that_of_its_members_in_this_network() {
    let mut world = World::new();
    let single = world.node("Notary");
    let sense = world.parameters(1, &single).unverified().clone();
    let trust = world.trust();
    let name: Name = "O=Cluster, L=London, C=GB".parse().expect("a name");
    let cluster = Notary::clustered(trust.network(), name.clone(), members(1)).expect("a cluster");
    assert!(cluster.party.key.is_composite());
    let signed = |notary: Notary| {
        let parameters = NetworkParameters { notaries: vec![notary], ..sense.clone() };
        let signed = SignedParameters::sign(&world.map_key, parameters)?;
        let decoded = SignedParameters::decode(&signed.encode())?;
        decoded.verify(&trust, NOW).cloned()
    };
    assert_eq!(signed(cluster.clone()).expect("believed").notaries, vec![cluster.clone()]);
    let composite = || ParametersError::Composite { name: name.clone() };
    // Other members, the members of another network, members in another number, a key of one node.
    let others = Notary { kind: NotaryKind::Clustered(members(2)), ..cluster.clone() };
    assert_eq!(signed(others), Err(composite()));
    let network = tally_contracts::NetworkId::from_bytes([1; 32]);
    let elsewhere = Notary::clustered(network, name.clone(), members(1)).expect("a cluster");
    assert_eq!(signed(elsewhere), Err(composite()));
    let mut voter = members(1);
    voter[0].voter = [9; 20];
    let voter = Notary { kind: NotaryKind::Clustered(voter), ..cluster.clone() };
    assert_eq!(signed(voter), Err(composite()), "a member with another voting key is another notary");
    let three = Notary { kind: NotaryKind::Clustered(members(1)[..3].to_vec()), ..cluster.clone() };
    assert!(matches!(signed(three), Err(ParametersError::Cluster { .. })));
    let alone = Notary { kind: NotaryKind::NonValidating, ..cluster.clone() };
    assert_eq!(signed(alone), Err(composite()));
    let mut single = cluster.clone();
    single.party.key = members(1)[0].key;
    assert_eq!(signed(single), Err(composite()));
    let member = members(1)[0].name.clone();
    let named = Notary::clustered(trust.network(), member.clone(), members(1)).expect("a cluster");
    assert_eq!(signed(named), Err(ParametersError::NameOfMember { name: member }));
}
