use super::*;
use crate::authority::Reason;
use crate::issue;
use crate::signer::Signer;
use crate::testing::{COST, DAY, LIFETIME, NOW, PASSPHRASE, World, at, name, reasons};
use proptest::prelude::*;
use tally_crypto::SigningKey;

#[test]
fn believes_every_path_of_the_network() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let trust = world.trust();
    world.install(&trust, NOW);
    let verified = trust.verify(identity.path(), Role::LegalIdentity, NOW).expect("a legal identity");
    assert_eq!((verified.name, verified.key), (name("PartyA"), identity.key().public_key()));
    assert!(trust.verify(identity.tls_path(), Role::Tls, NOW).is_ok());
    assert!(trust.verify(&identity.path().issuer().expect("an authority"), Role::NodeAuthority, NOW).is_ok());
    assert!(trust.verify(world.manager.path(), Role::IdentityManager, NOW).is_ok());
    assert!(trust.verify(world.map_key.path(), Role::NetworkMap, NOW).is_ok());
}

#[test]
fn no_certificate_stands_for_another_role() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let notary = world.notary("Notary");
    let trust = world.trust();
    let authority = identity.path().issuer().expect("an authority");
    let paths = [
        (identity.path(), Role::LegalIdentity),
        (identity.tls_path(), Role::Tls),
        (&authority, Role::NodeAuthority),
        (world.manager.path(), Role::IdentityManager),
        (world.map_key.path(), Role::NetworkMap),
        (notary.notary_path().expect("a notary"), Role::NotaryService),
    ];
    for (path, own) in paths {
        for role in Role::ALL.into_iter().filter(|role| *role != own) {
            assert_eq!(
                trust.verify(path, role, NOW),
                Err(CertificateError::WrongRole {
                    subject: path.subject().clone(),
                    expected: role,
                    found: own
                })
            );
        }
    }
}

#[test]
fn certificates_count_within_their_validity_only() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let trust = world.trust();
    let verify = |now| trust.verify(identity.path(), Role::LegalIdentity, now);
    let (first, last) = (identity.path().leaf().not_before(), identity.path().leaf().not_after());
    assert_eq!(last, at(LIFETIME));
    assert!(verify(first).is_ok());
    // To the end of the last second.
    assert!(verify(Timestamp::from_millis(last.as_millis() + 999)).is_ok());
    let late = verify(Timestamp::from_millis(last.as_millis() + 1000)).expect_err("expired");
    assert!(matches!(&late, CertificateError::Expired(validity) if validity.subject == name("PartyA")));
    let early = verify(Timestamp::from_millis(first.as_millis() - 1)).expect_err("not valid yet");
    assert!(matches!(&early, CertificateError::NotYetValid(_)));
}

#[test]
fn a_wrong_clock_is_told_with_the_validity() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let verify =
        |now| world.trust().verify(identity.path(), Role::LegalIdentity, now).expect_err("a wrong clock");
    let validity = "the legal identity certificate of O=PartyA, L=London, C=GB is valid from \
                    2027-01-15T07:00:00Z to 2027-02-14T08:00:00Z, and this machine's clock says";
    assert_eq!(
        verify(at(365 * DAY)).to_string(),
        format!(
            "expired: {validity} 2028-01-15T08:00:00Z; set the clock if it is wrong, or have the certificate renewed"
        )
    );
    // A machine that lost its clock: the root is the first that is not valid yet.
    let text = verify(Timestamp::EPOCH).to_string();
    assert!(text.contains("not valid yet") && text.contains("clock says 1970-01-01T00:00:00Z"), "{text}");
}

#[test]
fn a_revoked_node_is_refused_and_others_are_not() {
    let mut world = World::new();
    let (mallory, honest) = (world.node("Mallory"), world.node("PartyA"));
    let trust = world.trust();
    world.install(&trust, NOW);
    assert!(trust.verify(mallory.path(), Role::LegalIdentity, NOW).is_ok());
    world.manager.revoke(&name("Mallory"), Reason::KeyCompromise, NOW).expect("revoked");
    world.install(&trust, at(1000));
    for (path, role) in [(mallory.path(), Role::LegalIdentity), (mallory.tls_path(), Role::Tls)] {
        let error = trust.verify(path, role, at(1000)).expect_err("revoked");
        assert!(
            matches!(&error, CertificateError::Revoked { subject, role: Role::NodeAuthority, .. } if *subject == name("Mallory")),
            "{error:?}"
        );
    }
    assert!(trust.verify(honest.path(), Role::LegalIdentity, at(1000)).is_ok());
    // Clones are one.
    assert_eq!(trust.clone().revocations()[0].len(), 1);
}

#[test]
fn an_older_or_foreign_or_future_list_is_refused() {
    let mut world = World::new();
    let mut other = World::called("Other");
    let trust = world.trust();
    let manager = world.manager.certificate().clone();
    let older = world.manager.revocation_list(NOW, DAY).expect("a list");
    let newer = world.manager.revocation_list(NOW, DAY).expect("a list");
    let install =
        |list: &[u8], manager: &Certificate, now| trust.install(list, manager, now).map(|list| list.number());
    assert_eq!(install(&newer, &manager, NOW), Ok(2));
    assert_eq!(install(&newer, &manager, NOW), Ok(2), "the list in force");
    assert_eq!(install(&older, &manager, NOW), Err(RevocationError::Older { got: 1, have: 2 }));
    let foreign = other.manager.revocation_list(NOW, DAY).expect("a list");
    assert!(matches!(install(&foreign, &manager, NOW), Err(RevocationError::Issuer { .. })));
    assert!(matches!(
        install(&foreign, other.manager.certificate(), NOW),
        Err(RevocationError::Manager(CertificateError::UnknownIssuer { .. }))
    ));
    let future = world.manager.revocation_list(at(DAY), DAY).expect("a list");
    let error = install(&future, &manager, NOW).expect_err("a list of tomorrow");
    assert!(matches!(error, RevocationError::Future { .. }));
    assert!(error.to_string().contains("2027-01-16T08:00:00Z"), "{error}");
    let node = world.node("PartyA").path().certificates()[1].clone();
    assert!(matches!(install(&newer, &node, NOW), Err(RevocationError::Manager(_))));
    assert_eq!(trust.revocations()[0].number(), 2);
}

#[test]
fn an_unknown_root_is_refused() {
    let mut world = World::called("Other");
    let identity = world.node("PartyA");
    let trust = World::called("Network").trust();
    let error = trust.verify(identity.path(), Role::LegalIdentity, NOW).expect_err("another root");
    assert!(matches!(&error, CertificateError::UnknownIssuer { .. }), "{error:?}");
    // Of the same name, but of another key.
    let trust = World::called("Other").trust();
    for (path, role) in [
        (identity.path(), Role::LegalIdentity),
        (identity.tls_path(), Role::Tls),
        (&identity.path().issuer().expect("an authority"), Role::NodeAuthority),
        (world.map_key.path(), Role::NetworkMap),
    ] {
        let error = trust.verify(path, role, NOW).expect_err("another root");
        assert!(matches!(&error, CertificateError::Signature { .. }), "{error:?}");
    }
}

#[test]
fn only_a_root_is_trusted() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let error = Trust::new(identity.path().leaf().der()).expect_err("no root");
    assert!(matches!(error, CertificateError::WrongRole { expected: Role::Root, .. }));
    // Says that it is a root, but somebody else's key signed it.
    let (key, other) = (SigningKey::generate().expect("a key"), SigningKey::generate().expect("a key"));
    let params = issue::params(Role::Root, &name("Root"), NOW, at(DAY)).expect("parameters");
    let issuer = rcgen::Issuer::from_params(&params, Signer::new(&other));
    let certificate = params.signed_by(&Signer::new(&key), &issuer).expect("a certificate");
    assert!(matches!(Trust::new(certificate.der()), Err(CertificateError::Signature { .. })));
}

/// A leaf with the honest authority's name above it, signed by whoever wants to be PartyA.
#[test]
fn a_forged_leaf_is_refused() {
    let mut world = World::new();
    let path = world.node("PartyA").path().issuer().expect("an authority");
    let key = SigningKey::generate().expect("a key");
    for role in [Role::LegalIdentity, Role::Tls] {
        let params = issue::params(role, &name("PartyA"), NOW, at(DAY)).expect("parameters");
        let issuer = issue::issuer(path.leaf());
        let issuer = rcgen::Issuer::from_params(&issuer, Signer::new(&key));
        let leaf = params.signed_by(&Signer::new(&key), &issuer).expect("a certificate");
        let forged = path.extended(Certificate::parse(leaf.der()).expect("a certificate")).expect("a path");
        assert_eq!(
            world.trust().verify(&forged, role, NOW),
            Err(CertificateError::Signature { subject: name("PartyA"), role, by: name("PartyA") })
        );
    }
}

/// Certificates are not malleable: with any one bit changed a path does not parse or does not verify.
#[test]
fn a_path_with_any_byte_changed_is_refused() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let trust = world.trust();
    for (path, role) in [(identity.path(), Role::LegalIdentity), (identity.tls_path(), Role::Tls)] {
        let original: Vec<Vec<u8>> = path.to_der().iter().map(|der| der.to_vec()).collect();
        for (number, der) in original.iter().enumerate() {
            for position in 0..der.len() {
                let mut changed = original.clone();
                changed[number][position] ^= 1 << (position % 8);
                let believed =
                    CertificatePath::parse(&changed).and_then(|path| trust.verify(&path, role, NOW));
                assert!(believed.is_err(), "certificate {number}, byte {position}");
            }
        }
    }
}

#[test]
fn a_revocation_list_with_any_byte_changed_is_refused() {
    let mut world = World::new();
    world.node("Mallory");
    world.manager.revoke(&name("Mallory"), Reason::CessationOfOperation, NOW).expect("revoked");
    let trust = world.trust();
    let list = world.manager.revocation_list(NOW, DAY).expect("a list");
    let manager = world.manager.certificate();
    for position in 0..list.len() {
        let mut changed = list.clone();
        changed[position] ^= 1 << (position % 8);
        assert!(trust.install(&changed, manager, NOW).is_err(), "byte {position}");
    }
    for cut in 0..list.len() {
        assert!(trust.install(&list[..cut], manager, NOW).is_err(), "{cut} bytes");
    }
    assert!(trust.revocations().is_empty());
    assert!(trust.install(&list, manager, NOW).is_ok());
    let large = vec![0x30; crate::MAX_REVOCATION_LIST_BYTES + 1];
    assert!(matches!(trust.install(&large, manager, NOW), Err(RevocationError::TooLarge { .. })));
}

#[test]
fn the_openssl_program_believes_the_same_paths() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let directory = world.directory.path();
    let [leaf, above, root] = ["leaf.pem", "above.pem", "root.pem"].map(|file| directory.join(file));
    let authorities = identity.tls_path().issuer().expect("authorities");
    std::fs::write(&leaf, crate::pem::encode_certificate(identity.tls_path().leaf().der())).expect("written");
    std::fs::write(&above, crate::pem::encode_path(&authorities)).expect("written");
    std::fs::write(&root, crate::pem::encode_certificate(world.root.certificate().der())).expect("written");
    let verify = |purpose: &str, leaf: &std::path::Path| {
        std::process::Command::new("openssl")
            .args(["verify", "-x509_strict", "-purpose", purpose, "-attime", "1800000000"])
            .args(["-verify_hostname", &crate::name::host(&name("PartyA")), "-CAfile"])
            .arg(&root)
            .arg("-untrusted")
            .arg(&above)
            .arg(leaf)
            .output()
    };
    // The program is on every developer's machine, yet nothing of this crate needs it.
    let Ok(output) = verify("sslserver", &leaf) else { return };
    assert!(output.status.success(), "{output:?}");
    assert!(verify("sslclient", &leaf).expect("openssl").status.success());
    let legal = directory.join("legal.pem");
    std::fs::write(&legal, crate::pem::encode_certificate(identity.path().leaf().der())).expect("written");
    assert!(
        !verify("sslserver", &legal).expect("openssl").status.success(),
        "a legal identity serves no TLS"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn noise_is_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(Certificate::parse(&bytes).is_err());
        let mut sequence = vec![0x30, 0x82, 0x02, 0x00];
        sequence.extend(&bytes);
        prop_assert!(Certificate::parse(&sequence).is_err());
        prop_assert!(crate::Request::parse(&bytes).is_err());
        prop_assert!(crate::SignedNodeInfo::decode(&bytes).is_err());
        prop_assert!(crate::SignedParameters::decode(&bytes).is_err());
    }
}

#[test]
fn reasons_name_the_cause() {
    let error = RevocationError::Manager(CertificateError::PathLength { count: 9 });
    assert!(reasons(&error).contains("9 certificates"), "{}", reasons(&error));
}

/// A second identity manager of the same network.
fn second(world: &World) -> (tempfile::TempDir, crate::Manager) {
    let directory = tempfile::tempdir().expect("a directory");
    let called = "CN=Second, O=Network, L=London, C=GB".parse().expect("a name");
    let manager =
        crate::Manager::create(directory.path(), &world.root, &called, PASSPHRASE, COST, NOW, 500 * DAY);
    (directory, manager.expect("a manager"))
}

#[test]
fn the_list_of_one_identity_manager_undoes_nothing_of_another() {
    let mut world = World::new();
    let mallory = world.node("Mallory");
    let (_directory, mut second) = second(&world);
    let trust = world.trust();
    world.manager.revoke(&name("Mallory"), Reason::KeyCompromise, NOW).expect("revoked");
    world.install(&trust, NOW);
    for _ in 0..3 {
        // Of a higher number than that of the first manager.
        let list = second.revocation_list(NOW, DAY).expect("a list");
        trust.install(&list, second.certificate(), NOW).expect("a list");
    }
    assert!(matches!(
        trust.verify(mallory.path(), Role::LegalIdentity, NOW),
        Err(CertificateError::Revoked { .. })
    ));
    // Nor does a low number of one hold up the other's.
    world.install(&trust, NOW);
    assert_eq!(trust.revocations().len(), 3);
}

#[test]
fn what_an_identity_manager_without_a_list_certified_is_not_believed() {
    let mut world = World::new();
    let (_directory, mut second) = second(&world);
    let home = world.home("PartyB");
    let request = crate::NodeKeys::create(&home, &name("PartyB"), PASSPHRASE, COST).expect("a request");
    let path = second.issue(&request, NOW, LIFETIME).expect("a certificate");
    let trust = world.trust();
    world.install(&trust, NOW);
    assert!(matches!(
        trust.verify(&path, Role::NodeAuthority, NOW),
        Err(CertificateError::NoRevocationList { .. })
    ));
    let list = second.revocation_list(NOW, DAY).expect("a list");
    trust.install(&list, second.certificate(), NOW).expect("a list");
    assert!(trust.verify(&path, Role::NodeAuthority, NOW).is_ok());
}

#[test]
fn a_revoked_identity_manager_certifies_and_revokes_nothing() {
    let mut world = World::new();
    let party = world.node("PartyA");
    let trust = world.trust();
    world.install(&trust, NOW);
    let manager = world.manager.certificate().clone();
    world.root.revoke(manager.subject(), Reason::KeyCompromise, NOW).expect("revoked");
    let list = world.root.revocation_list(NOW, DAY).expect("a list");
    trust.install_root(&list, NOW).expect("a list");
    assert!(matches!(
        trust.verify(party.path(), Role::LegalIdentity, NOW),
        Err(CertificateError::Revoked { role: Role::IdentityManager, .. })
    ));
    let list = world.manager.revocation_list(NOW, DAY).expect("a list");
    assert!(matches!(
        trust.install(&list, &manager, NOW),
        Err(RevocationError::Manager(CertificateError::Revoked { .. }))
    ));
    // Whoever was certified before was certified all the same.
    assert!(trust.verify_past(party.path(), Role::LegalIdentity).is_ok());
    // A manager signs no list in the root's name.
    let forged = world.manager.revocation_list(NOW, DAY).expect("a list");
    assert!(matches!(trust.install_root(&forged, NOW), Err(RevocationError::Issuer { .. })));
}

#[test]
fn an_overdue_list_stops_new_connections_until_a_fresh_one_comes() {
    let mut world = World::new();
    let party = world.node("PartyA");
    let trust = world.trust();
    world.install(&trust, NOW);
    let tls = |now| trust.verify(party.tls_path(), Role::Tls, now);
    let due = DAY + crate::REVOCATION_GRACE_MS;
    assert!(tls(at(due)).is_ok());
    assert!(matches!(tls(at(due + 1)), Err(CertificateError::Overdue { .. })));
    // Who is on the map, and what was signed, stays believed.
    assert!(trust.verify(party.path(), Role::LegalIdentity, at(due + 1)).is_ok());
    trust.set_grace(0);
    assert!(tls(at(DAY)).is_ok());
    assert!(matches!(tls(at(DAY + 1)), Err(CertificateError::Overdue { .. })));
    world.install(&trust, at(DAY + 1));
    assert!(tls(at(DAY + 1)).is_ok());
}
