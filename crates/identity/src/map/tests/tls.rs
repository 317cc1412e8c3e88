//! The service over TLS.

use super::{Small, cache};
use crate::NetworkMap;
use crate::map::{MapError, service};
use crate::testing::{NOW, reasons};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// An authority with a service's certificate, in files.
struct Files {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn files(directory: &Path, called: &str) -> Files {
    let authority_key = KeyPair::generate().expect("a key");
    let mut authority = CertificateParams::new(Vec::<String>::new()).expect("an authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certified = authority.self_signed(&authority_key).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let leaf = leaf.signed_by(&key, &Issuer::new(authority, authority_key)).expect("a certificate");
    let write = |kind: &str, text: String| {
        let path = directory.join(format!("{called}-{kind}.pem"));
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        path
    };
    Files {
        authority: write("ca", certified.pem()),
        certificate: write("certificate", leaf.pem()),
        key: write("key", key.serialize_pem()),
    }
}

#[test]
fn a_service_over_tls_is_believed_by_its_authority_alone() {
    let small = Small::new();
    let directory = small.world.directory.path();
    let (ours, others) = (files(directory, "ours"), files(directory, "others"));
    let tls = service::tls(&ours.certificate, &ours.key).expect("TLS");
    let served = small.serve_with(small.map(), Some(tls));
    let url = &served.url;
    assert!(url.starts_with("https://"), "{url}");
    let open = |url: &str, authority: &Path| {
        NetworkMap::from_service_over_tls(url, authority, &cache(&small), &small.world.trust(), NOW)
    };
    let error = open(url, &others.authority).expect_err("another authority");
    assert!(matches!(error, MapError::Unreachable { .. }), "{error:?}");
    // Somebody who says nothing keeps nobody waiting.
    let address = url.strip_prefix("https://").expect("an address");
    let _silent: Vec<_> =
        (0..8).map(|_| std::net::TcpStream::connect(address).expect("a connection")).collect();
    let (map, _) = open(url, &ours.authority).expect("a map");
    assert_eq!(map.snapshot().nodes().len(), 2);
    map.refresh(NOW).expect("asked again");
    // Plain HTTP gets no answer there.
    let plain = format!("http://{address}");
    let error = NetworkMap::from_service(&plain, &directory.join("plain"), &small.world.trust(), NOW);
    assert!(matches!(error, Err(MapError::Unreachable { .. })));
}

#[test]
fn files_that_are_of_no_use_for_tls_are_named() {
    let small = Small::new();
    let directory = small.world.directory.path();
    let (ours, others) = (files(directory, "ours"), files(directory, "others"));
    let open = |url: &str, authority: &Path| {
        NetworkMap::from_service_over_tls(url, authority, &cache(&small), &small.world.trust(), NOW)
            .map(|_| ())
            .expect_err("of no use")
    };
    let error = open("https://127.0.0.1:9", &ours.key);
    assert!(reasons(&error).contains("ours-key.pem"), "{error:?}");
    // A file of authorities is for TLS.
    assert!(matches!(open("http://127.0.0.1:9", &ours.authority), MapError::Url { .. }));
    for (certificate, key) in
        [(&ours.certificate, &others.key), (&ours.key, &ours.key), (&ours.certificate, &ours.certificate)]
    {
        let error = service::tls(certificate, key).expect_err("of no use");
        assert!(matches!(error, MapError::Tls { .. }), "{error:?}");
    }
    std::fs::set_permissions(&ours.key, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    let error = service::tls(&ours.certificate, &ours.key).expect_err("open to others");
    assert!(matches!(error, MapError::File(_)), "{error:?}");
}
