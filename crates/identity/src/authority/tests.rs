use super::*;
use crate::node::NodeKeys;
use crate::request::{MAX_REQUEST_BYTES, RequestError};
use crate::signer::Signer;
use crate::testing::{COST, DAY, LIFETIME, NOW, PASSPHRASE, World, at, name};
use tally_crypto::keystore::KeyFileError;

fn request(name: &Name) -> Request {
    Request::new(name, &SigningKey::generate().expect("a key")).expect("a request")
}

#[test]
fn a_name_is_given_to_one_key_only() {
    let mut world = World::new();
    let first = request(&name("PartyA"));
    let path = world.manager.issue(&first, NOW, LIFETIME).expect("a certificate");
    assert_eq!(path.subject(), first.name());
    assert_eq!(path.leaf().key_der(), first.key_der());
    for taken in ["PartyA", "PARTYA", "partya"] {
        let error = world.manager.issue(&request(&name(taken)), NOW, LIFETIME).expect_err("taken");
        assert!(
            matches!(&error, AuthorityError::NameTaken { holder, .. } if *holder == name("PartyA")),
            "{error:?}"
        );
    }
    // The same key again is a renewal.
    world.manager.issue(&first, at(DAY), LIFETIME).expect("a second certificate");
    assert_eq!(world.manager.entries().len(), 2);
    world.manager.issue(&request(&name("PartyB")), NOW, LIFETIME).expect("another name");
}

#[test]
fn a_key_is_given_one_name_only() {
    let mut world = World::new();
    let key = SigningKey::generate().expect("a key");
    let own = |of: &str| Request::new(&name(of), &key).expect("a request");
    world.manager.issue(&own("PartyA"), NOW, LIFETIME).expect("a certificate");
    let error = world.manager.issue(&own("PartyB"), NOW, LIFETIME).expect_err("taken");
    assert!(
        matches!(&error, AuthorityError::KeyTaken { holder, .. } if *holder == name("PartyA")),
        "{error:?}"
    );
}

#[test]
fn a_lost_key_is_replaced_after_its_revocation() {
    let mut world = World::new();
    let lost = request(&name("PartyA"));
    world.manager.issue(&lost, NOW, LIFETIME).expect("a certificate");
    let fresh = request(&name("PartyA"));
    assert!(matches!(world.manager.issue(&fresh, NOW, LIFETIME), Err(AuthorityError::NameTaken { .. })));
    world.manager.revoke(&name("PartyA"), Reason::KeyCompromise, at(DAY)).expect("revoked");
    assert!(matches!(world.manager.issue(&lost, at(DAY), LIFETIME), Err(AuthorityError::KeyRevoked { .. })));
    world.manager.issue(&fresh, at(DAY), LIFETIME).expect("a certificate for the new key");
    assert!(matches!(
        world.manager.revoke(&name("PartyB"), Reason::Unspecified, NOW),
        Err(AuthorityError::NothingToRevoke { .. })
    ));
}

#[test]
fn the_authorities_names_are_reserved() {
    let mut world = World::new();
    for (own, role) in [("Manager", Role::IdentityManager), ("root", Role::Root)] {
        let name: Name = format!("CN={own}, O=Network, L=London, C=GB").parse().expect("a name");
        let error = world.manager.issue(&request(&name), NOW, LIFETIME).expect_err("reserved");
        assert!(matches!(&error, AuthorityError::NameReserved { role: of, .. } if *of == role), "{error:?}");
    }
}

#[test]
fn a_request_shows_that_its_sender_has_the_key() {
    // Signed with another key than the one in the request.
    struct Thief<'a>(Signer<'a>, Signer<'a>);
    impl rcgen::PublicKeyData for Thief<'_> {
        fn der_bytes(&self) -> &[u8] {
            self.0.der_bytes()
        }
        fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
            self.0.algorithm()
        }
    }
    impl rcgen::SigningKey for Thief<'_> {
        fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
            self.1.sign(message)
        }
    }
    let (victim, own) = (SigningKey::generate().expect("a key"), SigningKey::generate().expect("a key"));
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = crate::name::to_x509(&name("PartyA"));
    let stolen =
        params.serialize_request(&Thief(Signer::new(&victim), Signer::new(&own))).expect("a request");
    assert_eq!(
        Request::parse(stolen.der()),
        Err(RequestError::ProofOfPossession { subject: name("PartyA") })
    );
    let honest = request(&name("PartyA"));
    assert_eq!(Request::parse(honest.der()).as_ref(), Ok(&honest));
    assert_eq!(Request::parse(honest.to_pem().as_bytes()).as_ref(), Ok(&honest));
    for position in 0..honest.der().len() {
        let mut changed = honest.der().to_vec();
        changed[position] ^= 1 << (position % 8);
        // The parser is lax about a tag outside of what is signed.
        if let Ok(parsed) = Request::parse(&changed) {
            assert_eq!((parsed.name(), parsed.key()), (honest.name(), honest.key()), "byte {position}");
        }
    }
    let large = vec![b'-'; MAX_REQUEST_BYTES + 1];
    assert_eq!(Request::parse(&large), Err(RequestError::TooLarge { bytes: large.len() }));
}

#[test]
fn a_request_asks_for_nothing_but_name_and_key() {
    // What a request asks for beyond that is not looked at: a node gets what its role has.
    let key = SigningKey::generate().expect("a key");
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = crate::name::to_x509(&name("PartyA"));
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.subject_alt_names = vec![rcgen::SanType::DnsName("bank.example".try_into().expect("a host"))];
    let greedy = params.serialize_request(&Signer::new(&key)).expect("a request");
    let request = Request::parse(greedy.der()).expect("a request");
    let mut world = World::new();
    let path = world.manager.issue(&request, NOW, LIFETIME).expect("a certificate");
    assert_eq!(path.leaf().role(), Role::NodeAuthority);
}

#[test]
fn what_was_issued_and_revoked_survives_a_restart() {
    let World { directory, root, mut manager, .. } = World::new();
    let path = directory.path().join("authority");
    manager.issue(&request(&name("PartyA")), NOW, LIFETIME).expect("a certificate");
    manager.issue(&request(&name("PartyB")), NOW, LIFETIME).expect("a certificate");
    manager.revoke(&name("PartyA"), Reason::Superseded, NOW).expect("revoked");
    manager.revocation_list(NOW, DAY).expect("a list");
    assert!(matches!(Manager::open(&path, PASSPHRASE), Err(AuthorityError::Busy { .. })));
    let entries = manager.entries().to_vec();
    drop(manager);
    let mut manager = Manager::open(&path, PASSPHRASE).expect("the manager");
    assert_eq!(manager.entries(), entries);
    assert!(matches!(
        manager.issue(&request(&name("PartyB")), NOW, LIFETIME),
        Err(AuthorityError::NameTaken { .. })
    ));
    let list = manager.revocation_list(NOW, DAY).expect("a list");
    let trust = Trust::new(root.certificate().der()).expect("a root");
    let list = trust.install(&list, manager.certificate(), NOW).expect("a list");
    assert_eq!((list.number(), list.len()), (2, 1));
    assert_eq!(Root::open(&path, PASSPHRASE).expect("the root").certificate(), root.certificate());
    NetworkMapKey::open(&path, PASSPHRASE).expect("the network map's key");
}

#[test]
fn a_wrong_passphrase_or_mixed_files_are_refused() {
    let World { directory, manager, .. } = World::new();
    drop(manager);
    let path = directory.path().join("authority");
    let wrong = |error| matches!(error, AuthorityError::Key(KeyFileError::WrongPassphrase { .. }));
    assert!(wrong(Root::open(&path, b"guess").expect_err("a wrong passphrase")));
    assert!(wrong(Manager::open(&path, b"guess").expect_err("a wrong passphrase")));
    assert!(wrong(NetworkMapKey::open(&path, b"guess").expect_err("a wrong passphrase")));
    std::fs::copy(path.join("root.key"), path.join("manager.key")).expect("copied");
    let error = Manager::open(&path, PASSPHRASE).expect_err("the root's key");
    assert!(matches!(error, AuthorityError::Certificate(CertificateError::KeyMismatch { .. })));
    std::fs::copy(path.join("network-map.pem"), path.join("manager.pem")).expect("copied");
    let error = Manager::open(&path, PASSPHRASE).expect_err("the network map's certificate");
    assert!(matches!(error, AuthorityError::Certificate(CertificateError::WrongRole { .. })));
}

#[test]
fn a_damaged_register_is_told() {
    let World { directory, manager, .. } = World::new();
    drop(manager);
    let path = directory.path().join("authority");
    let register = path.join("register.json");
    for text in
        ["", "{", "[]", "{\"list_number\": 1, \"entries\": [{}]}", "{\"list_number\": -1, \"entries\": []}"]
    {
        std::fs::write(&register, text).expect("written");
        let error = Manager::open(&path, PASSPHRASE).expect_err("a damaged register");
        assert!(matches!(&error, AuthorityError::Register { path, .. } if *path == register), "{error:?}");
    }
    std::fs::remove_file(&register).expect("removed");
    // Starting with an empty register would give names away twice.
    assert!(matches!(Manager::open(&path, PASSPHRASE), Err(AuthorityError::File(_))));
}

#[test]
fn authorities_are_not_overwritten() {
    let world = World::new();
    let path = world.directory.path().join("authority");
    let error = Root::create(&path, &name("Root"), PASSPHRASE, COST, NOW, DAY).expect_err("one is there");
    assert!(matches!(error, AuthorityError::Key(KeyFileError::Exists { .. })));
    assert!(Root::open(&path, PASSPHRASE).is_ok());
}

#[test]
fn no_certificate_outlives_its_issuer() {
    let mut world = World::new();
    let path = world.manager.issue(&request(&name("PartyA")), NOW, u64::MAX).expect("a certificate");
    assert_eq!(path.leaf().not_after(), world.manager.certificate().not_after());
    let home = world.home("PartyB");
    let request = NodeKeys::create(&home, &name("PartyB"), PASSPHRASE, COST).expect("a request");
    let path = world.manager.issue(&request, NOW, LIFETIME).expect("a certificate");
    NodeKeys::accept(&home, PASSPHRASE, world.root.certificate().der(), &path, NOW).expect("accepted");
    let identity = crate::Identity::load(&home, PASSPHRASE, NOW).expect("an identity");
    assert_eq!(identity.not_after(), path.leaf().not_after());
}
