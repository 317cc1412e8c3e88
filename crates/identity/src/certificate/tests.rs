use super::*;
use crate::issue;
use crate::signer::Signer;
use crate::testing::{NOW, World, at, name};
use rcgen::{
    BasicConstraints, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose, SanType,
};
use tally_crypto::SigningKey;

/// A certificate of `role` for PartyA, changed by `change` before it is signed by a key of its own.
fn made(role: Role, change: impl FnOnce(&mut rcgen::CertificateParams)) -> Vec<u8> {
    let key = SigningKey::generate().expect("a key");
    let mut params = issue::params(role, &name("PartyA"), NOW, at(1_000_000)).expect("parameters");
    change(&mut params);
    params.self_signed(&Signer::new(&key)).expect("a certificate").der().to_vec()
}

#[test]
fn certificates_of_every_role_read_back() {
    for role in Role::ALL {
        let certificate = Certificate::parse(&made(role, |_| {})).expect("a certificate");
        assert_eq!(certificate.role(), role);
        assert_eq!(*certificate.subject(), name("PartyA"));
        assert_eq!(certificate.not_before(), NOW);
        assert_eq!(certificate.not_after(), at(1_000_000));
        assert_eq!(certificate.serial().as_bytes().len(), 16);
    }
}

#[test]
fn a_role_with_the_usages_of_another_is_refused() {
    let constraint =
        |role, what: &str, change: &dyn Fn(&mut rcgen::CertificateParams)| match Certificate::parse(&made(
            role,
            |params| change(params),
        )) {
            Err(CertificateError::Constraint { what: found, role: of, .. }) => {
                assert_eq!((found, of), (what, role));
            }
            other => panic!("{role}: {other:?}"),
        };
    for role in Role::ALL {
        constraint(role, "basic constraints", &|params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(7));
        });
        constraint(role, "basic constraints", &|params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        });
        constraint(role, "basic constraints", &|params| params.is_ca = IsCa::NoCa);
        constraint(role, "key usage", &|params| params.key_usages = vec![KeyUsagePurpose::KeyAgreement]);
        constraint(role, "key usage", &|params| params.key_usages.push(KeyUsagePurpose::KeyAgreement));
        constraint(role, "key usage", &|params| params.key_usages.clear());
        constraint(role, "extended key usage", &|params| {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::Any);
        });
        constraint(role, "extended key usage", &|params| {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::Other(vec![1, 2, 3]));
        });
    }
    constraint(Role::Tls, "extended key usage", &|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    constraint(Role::Tls, "extended key usage", &|params| params.extended_key_usages.clear());
    constraint(Role::LegalIdentity, "extended key usage", &|params| {
        params.extended_key_usages = Role::NetworkMap.extended_key_usages();
    });
    constraint(Role::LegalIdentity, "extended key usage", &|params| params.extended_key_usages.clear());
    constraint(Role::NotaryService, "extended key usage", &|params| {
        params.extended_key_usages = Role::LegalIdentity.extended_key_usages();
    });
}

#[test]
fn a_tls_certificate_is_for_the_host_of_its_name_alone() {
    let host = |text: String| SanType::DnsName(text.try_into().expect("a host"));
    let own = || host(name::host(&name("PartyA")));
    let other = || host(name::host(&name("PartyB")));
    for hosts in [vec![], vec![other()], vec![own(), other()], vec![own(), own()]] {
        let error = Certificate::parse(&made(Role::Tls, |params| params.subject_alt_names = hosts.clone()));
        assert!(
            matches!(&error, Err(CertificateError::Constraint { what: "subject alternative name", .. })),
            "{hosts:?}: {error:?}"
        );
    }
    let error =
        Certificate::parse(&made(Role::LegalIdentity, |params| params.subject_alt_names = vec![own()]));
    assert!(matches!(error, Err(CertificateError::Constraint { what: "subject alternative name", .. })));
}

#[test]
fn a_certificate_without_one_role_is_refused() {
    let role = |params: &mut rcgen::CertificateParams| params.custom_extensions[0].clone();
    let none = made(Role::Tls, |params| params.custom_extensions.clear());
    assert!(matches!(Certificate::parse(&none), Err(CertificateError::Malformed(Malformation::NoRole))));
    let twice = made(Role::Tls, |params| {
        let first = role(params);
        params.custom_extensions.push(first);
    });
    assert!(matches!(Certificate::parse(&twice), Err(CertificateError::Malformed(Malformation::Extension))));
    for content in
        [vec![0x02, 0x01, 0x00], vec![0x02, 0x01, 0x08], vec![0x02, 0x02, 0x00, 0x06], vec![0x05, 0x00]]
    {
        let unknown = made(Role::Tls, |params| {
            params.custom_extensions =
                vec![CustomExtension::from_oid_content(&crate::role::role_oid(), content.clone())];
        });
        assert!(matches!(
            Certificate::parse(&unknown),
            Err(CertificateError::Malformed(Malformation::NoRole))
        ));
    }
}

#[test]
fn a_certificate_larger_than_any_is_refused_unread() {
    let bytes = vec![0x30; MAX_CERTIFICATE_BYTES + 1];
    assert_eq!(
        Certificate::parse(&bytes),
        Err(CertificateError::TooLarge { bytes: MAX_CERTIFICATE_BYTES + 1 })
    );
    let mut trailing = made(Role::Tls, |_| {});
    trailing.push(0);
    assert_eq!(Certificate::parse(&trailing), Err(CertificateError::Malformed(Malformation::TrailingBytes)));
}

#[test]
fn a_path_has_one_certificate_for_each_role_in_order() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let certificates = identity.path().certificates().to_vec();
    let [leaf, authority, manager] = certificates.as_slice() else { panic!("three certificates") };
    let path = |certificates: &[&Certificate]| {
        CertificatePath::new(certificates.iter().map(|c| (*c).clone()).collect())
    };
    assert!(path(&[leaf, authority, manager]).is_ok());
    assert!(path(&[authority, manager]).is_ok());
    assert!(path(&[manager]).is_ok());
    for cut in [vec![], vec![leaf], vec![leaf, authority], vec![world.root.certificate()]] {
        assert!(matches!(path(&cut), Err(CertificateError::PathLength { .. })), "{cut:?}");
    }
    for mixed in [vec![authority, leaf, manager], vec![leaf, manager], vec![leaf, leaf, manager]] {
        assert!(matches!(path(&mixed), Err(CertificateError::WrongRole { .. })), "{mixed:?}");
    }
    let long = [leaf, authority, manager, world.root.certificate()];
    assert_eq!(path(&long), Err(CertificateError::PathLength { count: 4 }));
}

#[test]
fn an_authority_signs_for_its_own_name_only() {
    let mut world = World::new();
    let path = world.node("Mallory").path().issuer().expect("an authority");
    let key = SigningKey::generate().expect("a key");
    let foreign = |role: Role| {
        let params = issue::params(role, &name("PartyA"), NOW, at(1_000_000)).expect("parameters");
        let issuer = issue::issuer(path.leaf());
        let certificate = params
            .signed_by(&Signer::new(&key), &Issuer::from_params(&issuer, Signer::new(&key)))
            .expect("a certificate");
        Certificate::parse(certificate.der()).expect("a certificate")
    };
    for role in [Role::LegalIdentity, Role::Tls] {
        assert_eq!(
            path.extended(foreign(role)),
            Err(CertificateError::ForeignName { expected: name("Mallory"), found: name("PartyA"), role })
        );
    }
}

#[test]
fn serial_numbers_have_one_text() {
    let serial = SerialNumber::from_der(&[0, 0x80, 1]).expect("a number");
    assert_eq!(serial, SerialNumber::from_der(&[0x80, 1]).expect("a number"));
    assert_eq!(serial.to_string(), "8001");
    let text = serde_json::to_string(&serial).expect("text");
    assert_eq!(serde_json::from_str::<SerialNumber>(&text).expect("a number"), serial);
    assert!(SerialNumber::from_der(&[]).is_err());
    assert!(SerialNumber::from_der(&[1; 21]).is_err());
    for text in ["\"8\"", "\"8g\"", "\"\"", "7"] {
        assert!(serde_json::from_str::<SerialNumber>(text).is_err(), "{text}");
    }
}
