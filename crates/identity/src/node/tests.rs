use super::*;
use crate::authority::Reason;
use crate::testing::{COST, DAY, LIFETIME, NOW, PASSPHRASE, World, at, name, reasons};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

#[test]
fn a_crash_in_the_middle_of_making_keys_costs_nothing() {
    let mut world = World::new();
    let home = world.home("PartyA");
    let request = NodeKeys::create(&home, &name("PartyA"), PASSPHRASE, COST).expect("a request");
    // As if the machine had stopped before the request, or before the TLS key, was written.
    std::fs::remove_file(home.join(REQUEST)).expect("removed");
    std::fs::remove_file(home.join("tls.key")).expect("removed");
    let again = NodeKeys::create(&home, &name("PartyA"), PASSPHRASE, COST).expect("a request");
    assert_eq!(again.key(), request.key());
    assert_eq!(NodeKeys::create(&home, &name("PartyA"), PASSPHRASE, COST).expect("a request"), again);
    let path = world.manager.issue(&again, NOW, LIFETIME).expect("a certificate");
    NodeKeys::accept(&home, PASSPHRASE, world.root.certificate().der(), &path, NOW).expect("accepted");
    // Accepting the same answer twice is no harm.
    NodeKeys::accept(&home, PASSPHRASE, world.root.certificate().der(), &path, NOW).expect("accepted");
    Identity::load(&home, PASSPHRASE, NOW).expect("an identity");
}

#[test]
fn a_directory_is_of_one_node() {
    let world = World::new();
    let home = world.home("PartyA");
    NodeKeys::create(&home, &name("PartyA"), PASSPHRASE, COST).expect("a request");
    let error = NodeKeys::create(&home, &name("PartyB"), PASSPHRASE, COST).expect_err("another's");
    assert!(
        matches!(&error, IdentityError::OtherNode { found, .. } if *found == name("PartyA")),
        "{error:?}"
    );
    assert!(matches!(Identity::load(&home, PASSPHRASE, NOW), Err(IdentityError::NotAccepted)));
}

#[test]
fn only_the_answer_to_the_own_request_is_accepted() {
    let (mut world, mut foreign) = (World::new(), World::called("Other"));
    let root = world.root.certificate().der().clone();
    let home = world.home("PartyA");
    let request = NodeKeys::create(&home, &name("PartyA"), PASSPHRASE, COST).expect("a request");
    let other =
        NodeKeys::create(&world.home("PartyB"), &name("PartyB"), PASSPHRASE, COST).expect("a request");
    let other_key =
        NodeKeys::create(&world.home("Again"), &name("PartyA"), PASSPHRASE, COST).expect("a request");
    let accept = |path: &CertificatePath, now| NodeKeys::accept(&home, PASSPHRASE, &root, path, now);

    let path = world.manager.issue(&other, NOW, LIFETIME).expect("a certificate");
    let error = accept(&path, NOW).expect_err("another's name");
    assert!(matches!(error, IdentityError::Certificate(CertificateError::NameMismatch { .. })));
    let path = foreign.manager.issue(&request, NOW, LIFETIME).expect("a certificate");
    let error = accept(&path, NOW).expect_err("another network's");
    assert!(matches!(error, IdentityError::Certificate(CertificateError::UnknownIssuer { .. })));
    let error = accept(world.manager.path(), NOW).expect_err("the manager's own");
    assert!(matches!(error, IdentityError::Certificate(CertificateError::WrongRole { .. })));
    let path = world.manager.issue(&request, NOW, LIFETIME).expect("a certificate");
    let error = accept(&path, at(2 * LIFETIME)).expect_err("expired");
    assert!(matches!(error, IdentityError::Certificate(CertificateError::Expired(_))));
    world.manager.revoke(&name("PartyA"), Reason::Superseded, NOW).expect("revoked");
    let path = world.manager.issue(&other_key, NOW, LIFETIME).expect("a certificate");
    let error = accept(&path, NOW).expect_err("another's key");
    assert!(matches!(error, IdentityError::Certificate(CertificateError::KeyMismatch { .. })));
    assert!(matches!(Identity::load(&home, PASSPHRASE, NOW), Err(IdentityError::NotAccepted)));
}

#[test]
fn certificates_are_renewed_without_new_keys() {
    let mut world = World::new();
    let before = world.node("PartyA");
    let home = world.home("PartyA");
    let late = at(LIFETIME + DAY);
    let error = Identity::load(&home, PASSPHRASE, late).expect_err("expired");
    let text = reasons(&error);
    assert!(
        text.contains("2027-02-14T08:00:00Z") && text.contains("clock says 2027-02-15T08:00:00Z"),
        "{text}"
    );
    let request = NodeKeys::create(&home, &name("PartyA"), PASSPHRASE, COST).expect("the request");
    let path = world.manager.issue(&request, late, LIFETIME).expect("a certificate");
    NodeKeys::accept(&home, PASSPHRASE, world.root.certificate().der(), &path, late).expect("accepted");
    let after = Identity::load(&home, PASSPHRASE, late).expect("an identity");
    assert_eq!(after.party(), before.party());
    assert_eq!(after.tls_path().leaf().key_der(), before.tls_path().leaf().key_der());
}

#[test]
fn a_wrong_passphrase_and_open_files_are_refused() {
    let mut world = World::new();
    world.node("PartyA");
    let home = world.home("PartyA");
    let load = |passphrase: &[u8]| Identity::load(&home, passphrase, NOW).expect_err("refused");
    assert!(matches!(load(b"guess"), IdentityError::Key(KeyFileError::WrongPassphrase { .. })));
    let open = |file: &str, mode| {
        std::fs::set_permissions(home.join(file), std::fs::Permissions::from_mode(mode)).expect("changed");
    };
    open("tls.key", 0o640);
    assert!(matches!(
        load(PASSPHRASE),
        IdentityError::TlsKey(TlsKeyError::File(FileError::PermissionsTooOpen { .. }))
    ));
    open("tls.key", 0o600);
    open("identity.key", 0o604);
    assert!(matches!(load(PASSPHRASE), IdentityError::Key(KeyFileError::PermissionsTooOpen { .. })));
    open("identity.key", 0o600);
    Identity::load(&home, PASSPHRASE, NOW).expect("an identity");
    let empty =
        NodeKeys::create(&world.home("PartyB"), &name("PartyB"), b"", COST).expect_err("no passphrase");
    assert!(matches!(empty, IdentityError::Key(KeyFileError::EmptyPassphrase { .. })));
}

#[test]
fn files_of_two_nodes_do_not_mix() {
    let mut world = World::new();
    world.node("PartyA");
    world.node("PartyB");
    let (home, other) = (world.home("PartyA"), world.home("PartyB"));
    for file in ["identity.key", "identity.pem", "tls.key", "tls.pem"] {
        let own = std::fs::read(home.join(file)).expect("read");
        std::fs::copy(other.join(file), home.join(file)).expect("copied");
        let error = Identity::load(&home, PASSPHRASE, NOW).expect_err("mixed");
        assert!(
            matches!(
                &error,
                IdentityError::Certificate(
                    CertificateError::KeyMismatch { .. } | CertificateError::NameMismatch { .. }
                ) | IdentityError::Tls(_)
            ),
            "{file}: {error:?}"
        );
        std::fs::write(home.join(file), own).expect("written");
    }
    // The TLS certificate as the legal identity's, and the other way round.
    for (from, to) in [("tls.pem", "identity.pem"), ("identity.pem", "tls.pem")] {
        let own = std::fs::read(home.join(to)).expect("read");
        std::fs::copy(home.join(from), home.join(to)).expect("copied");
        let error = Identity::load(&home, PASSPHRASE, NOW).expect_err("mixed");
        assert!(matches!(error, IdentityError::Certificate(CertificateError::WrongRole { .. })));
        std::fs::write(home.join(to), own).expect("written");
    }
    Identity::load(&home, PASSPHRASE, NOW).expect("an identity");
}

/// With any byte of a certificate file changed the node does not start, or starts as the same node
/// (text around the Base64 is not part of the certificate).
#[test]
fn damaged_certificate_files_are_errors() {
    let mut world = World::new();
    let identity = world.node("PartyA");
    let home = world.home("PartyA");
    let mut refused = 0;
    for file in ["root.pem", "identity.pem", "tls.pem"] {
        let own = std::fs::read(home.join(file)).expect("read");
        for position in (0..own.len()).step_by(3) {
            let mut changed = own.clone();
            changed[position] ^= 1 << (position % 8);
            std::fs::write(home.join(file), changed).expect("written");
            match Identity::load(&home, PASSPHRASE, NOW) {
                Ok(loaded) => {
                    assert_eq!(loaded.path(), identity.path(), "{file}, byte {position}");
                    assert_eq!(loaded.tls_path(), identity.tls_path(), "{file}, byte {position}");
                }
                Err(_) => refused += 1,
            }
        }
        for cut in [0, 1, own.len() / 2, own.len() - 30] {
            std::fs::write(home.join(file), &own[..cut]).expect("written");
            assert!(Identity::load(&home, PASSPHRASE, NOW).is_err(), "{file}, {cut} bytes");
        }
        std::fs::write(home.join(file), own).expect("written");
    }
    assert!(refused > 1500, "{refused}");
}

#[test]
fn a_damaged_tls_key_is_an_error() {
    let mut world = World::new();
    world.node("PartyA");
    let home = world.home("PartyA");
    let file = home.join("tls.key");
    let own = std::fs::read(&file).expect("read");
    let body = own.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    for position in body..own.len() - 30 {
        let mut changed = own.clone();
        changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
        if own[position] == b'\n' {
            continue;
        }
        std::fs::write(&file, changed).expect("written");
        let error = Identity::load(&home, PASSPHRASE, NOW);
        assert!(
            matches!(error, Err(IdentityError::TlsKey(_) | IdentityError::Tls(_))),
            "byte {position}: {error:?}"
        );
    }
    std::fs::write(&file, vec![b'-'; 20_000]).expect("written");
    let error = Identity::load(&home, PASSPHRASE, NOW).expect_err("too large");
    assert!(matches!(error, IdentityError::TlsKey(TlsKeyError::File(FileError::TooLarge { .. }))));
}

/// The quickest of a few, because the machine may be busy with other tests.
#[test]
fn a_node_loads_its_keys_within_its_share_of_the_start() {
    let mut world = World::new();
    let home = world.home("PartyA");
    let request = NodeKeys::create(&home, &name("PartyA"), PASSPHRASE, NodeKeys::COST).expect("a request");
    let path = world.manager.issue(&request, NOW, LIFETIME).expect("a certificate");
    NodeKeys::accept(&home, PASSPHRASE, world.root.certificate().der(), &path, NOW).expect("accepted");
    let quickest = (0..5)
        .map(|_| {
            let begun = Instant::now();
            Identity::load(&home, PASSPHRASE, NOW).expect("an identity");
            begun.elapsed()
        })
        .min()
        .expect("five loads");
    println!("loaded in {quickest:?}");
    assert!(quickest < Duration::from_secs(1), "{quickest:?}");
}

#[test]
fn openssl_reads_the_tls_key() {
    let mut world = World::new();
    world.node("PartyA");
    let output = std::process::Command::new("openssl")
        .args(["pkey", "-noout", "-text", "-passin"])
        .arg(format!("pass:{}", String::from_utf8_lossy(PASSPHRASE)))
        .arg("-in")
        .arg(world.home("PartyA").join("tls.key"))
        .output();
    // The program is on every developer's machine, yet nothing of this crate needs it.
    let Ok(output) = output else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("P-256"), "{output:?}");
}

#[test]
fn a_notary_signs_with_a_key_of_its_own() {
    let mut world = World::new();
    let party = world.node("PartyA");
    assert!(party.notary_key().is_none() && party.notary_party().is_none());
    let notary = world.notary("Notary");
    let service = notary.notary_party().expect("a notary").clone();
    assert_eq!(service.name, *notary.name());
    assert_ne!(service.key, notary.party().key);
    assert_eq!(notary.notary_key().expect("a key").public_key(), service.key);
    // What is there is used, and renewed with the rest.
    let home = world.home("Notary");
    NodeKeys::create_notary(&home, PASSPHRASE, COST, NOW).expect("a key");
    let request = Request::parse(&std::fs::read(home.join("request.csr")).expect("read")).expect("a request");
    let renewed = world.manager.issue(&request, at(LIFETIME), LIFETIME).expect("a certificate");
    NodeKeys::accept(&home, PASSPHRASE, world.root.certificate().der(), &renewed, at(LIFETIME))
        .expect("renewed");
    let later = Identity::load(&home, PASSPHRASE, at(LIFETIME + 1000)).expect("an identity");
    assert_eq!(later.notary_party(), Some(&service));
    assert!(later.not_after() > notary.not_after());
}

#[test]
fn a_key_made_before_the_certificate_waits_for_it() {
    let mut world = World::new();
    let home = world.home("Notary");
    let request = NodeKeys::create(&home, &name("Notary"), PASSPHRASE, COST).expect("a request");
    NodeKeys::create_notary(&home, PASSPHRASE, COST, NOW).expect("a key");
    let path = world.manager.issue(&request, NOW, LIFETIME).expect("a certificate");
    NodeKeys::accept(&home, PASSPHRASE, world.root.certificate().der(), &path, NOW).expect("accepted");
    assert!(Identity::load(&home, PASSPHRASE, NOW).expect("an identity").notary_key().is_some());
}

#[test]
fn a_voting_key_is_made_once_and_its_file_is_as_the_others() {
    use tally_consensus::Keys;
    let world = World::new();
    let home = world.home("Member");
    assert!(NodeKeys::voter(&home, PASSPHRASE).expect("none yet").is_none());
    let made = NodeKeys::create_voter(&home, PASSPHRASE, COST).expect("a key").address();
    assert_eq!(NodeKeys::create_voter(&home, PASSPHRASE, COST).expect("the same").address(), made);
    let read = NodeKeys::voter(&home, PASSPHRASE).expect("the same").expect("it is there");
    assert_eq!(read.address(), made);
    let other = NodeKeys::create_voter(&world.home("Other"), PASSPHRASE, COST).expect("a key");
    assert_ne!(other.address(), made);
    let file = home.join("voter.key");
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let found = NodeKeys::voter(&home, b"wrong");
    assert!(matches!(found, Err(IdentityError::Key(KeyFileError::WrongPassphrase { .. }))), "{found:?}");
    std::fs::write(&file, "not a key").expect("written");
    assert!(matches!(NodeKeys::voter(&home, PASSPHRASE), Err(IdentityError::Key(_))));
}

/// A file's name, and what is in it.
type File<'a> = (&'a str, &'a [u8]);

/// The files of a directory.
fn files(home: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(home).expect("a directory").map(|entry| entry.expect("an entry"));
    let read = |path: &Path| std::fs::read(path).expect("a file");
    entries.map(|entry| (entry.file_name().into_string().expect("text"), read(&entry.path()))).collect()
}

#[test]
fn a_rotated_identity_has_a_new_key_and_keeps_the_former_ones() {
    let mut world = World::new();
    let before = world.node("PartyA");
    let home = world.home("PartyA");
    assert!(before.former().is_empty());
    let rotate = |until, now| NodeKeys::rotate(&home, PASSPHRASE, COST, until, now);
    let wrong = NodeKeys::rotate(&home, b"wrong", COST, NOW, NOW).expect_err("another passphrase");
    assert!(matches!(wrong, IdentityError::Key(KeyFileError::WrongPassphrase { .. })), "{wrong:?}");
    let late =
        rotate(at(2 * LIFETIME), at(2 * LIFETIME)).expect_err("the authority's certificate has run out");
    assert!(matches!(late, IdentityError::Certificate(CertificateError::Expired(_))), "{late:?}");
    let first = rotate(at(5), NOW).expect("a new key");
    let identity = Identity::load(&home, PASSPHRASE, NOW).expect("an identity");
    assert_eq!((identity.party(), identity.key().public_key()), (&first, first.key));
    assert_eq!((&first.name, first.key == before.party().key), (before.name(), false));
    assert_eq!(identity.tls_path(), before.tls_path());
    // The clock was set back in between.
    let second = rotate(at(1), NOW).expect("a new key");
    let identity = Identity::load(&home, PASSPHRASE, NOW).expect("an identity");
    assert_eq!(identity.party(), &second);
    let former: Vec<_> = identity.former().iter().map(|former| (&former.party, former.until)).collect();
    assert_eq!(former, [(before.party(), at(5)), (&first, at(6))]);
    for former in identity.former() {
        assert_eq!(former.key.public_key(), former.party.key);
    }
    for name in files(&home).keys().filter(|name| name.ends_with(".key")) {
        let mode = std::fs::metadata(home.join(name)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    // Certificates are renewed, after which those of former keys have run out.
    let now = at(LIFETIME + DAY);
    let request = NodeKeys::create(&home, &name("PartyA"), PASSPHRASE, COST).expect("the request");
    let path = world.manager.issue(&request, now, LIFETIME).expect("a certificate");
    NodeKeys::accept(&home, PASSPHRASE, world.root.certificate().der(), &path, now).expect("accepted");
    let renewed = Identity::load(&home, PASSPHRASE, now).expect("an identity");
    assert_eq!((renewed.party(), renewed.former().len()), (&second, 2));
    // What is no former key of this node is none.
    std::fs::copy(home.join("identity.pem"), home.join("former-1.pem")).expect("a copy");
    std::fs::copy(home.join("former-1800000000005.key"), home.join("former-1.key")).expect("a copy");
    let other = Identity::load(&home, PASSPHRASE, now).expect_err("another key");
    assert!(matches!(other, IdentityError::Certificate(CertificateError::KeyMismatch { .. })), "{other:?}");
    std::fs::rename(home.join("former-1.pem"), home.join("former-x.pem")).expect("renamed");
    let noise = Identity::load(&home, PASSPHRASE, now).expect_err("no time");
    assert!(matches!(&noise, IdentityError::Former { file } if file == "former-x.pem"), "{noise:?}");
}

/// A rotation that was cut off is found, and completed with the same keys.
#[test]
fn a_crash_in_the_middle_of_a_rotation_costs_nothing() {
    let mut world = World::new();
    let before = world.node("PartyA");
    let home = world.home("PartyA");
    let old = files(&home);
    let party = NodeKeys::rotate(&home, PASSPHRASE, COST, at(5), NOW).expect("a new key");
    let new = files(&home);
    let write = |files: &[File<'_>]| {
        for name in ["identity.key", "identity.pem", "former-1800000000005.pem", "former-1800000000005.key"] {
            let _ = std::fs::remove_file(home.join(name));
        }
        for (name, bytes) in files {
            std::fs::write(home.join(name), bytes).expect("written");
            let mode = std::fs::Permissions::from_mode(if name.ends_with(".key") { 0o600 } else { 0o644 });
            std::fs::set_permissions(home.join(name), mode).expect("a mode");
        }
    };
    let of = |files: &std::collections::BTreeMap<String, Vec<u8>>, name: &str| files[name].clone();
    let (old_key, old_pem) = (of(&old, "identity.key"), of(&old, "identity.pem"));
    let (new_key, new_pem) = (of(&new, "identity.key"), of(&new, "identity.pem"));
    let (former_pem, former_key) = ("former-1800000000005.pem", "former-1800000000005.key");
    let next_key: File<'_> = ("identity-next.key", &new_key);
    let next_pem: File<'_> = ("identity-next.pem", &new_pem);
    let kept_pem: File<'_> = (former_pem, &old_pem);
    let kept_key: File<'_> = (former_key, &old_key);
    let present: [File<'_>; 2] = [("identity.key", &old_key), ("identity.pem", &old_pem)];
    let half: [File<'_>; 2] = [("identity.key", &new_key), ("identity.pem", &old_pem)];
    for (step, directory) in [
        [&present[..], &[next_key]].concat(),
        [&present[..], &[next_key, next_pem]].concat(),
        [&present[..], &[next_key, next_pem, kept_pem]].concat(),
        [&present[..], &[next_key, next_pem, kept_pem, kept_key]].concat(),
        [&half[..], &[next_pem, kept_pem, kept_key]].concat(),
    ]
    .into_iter()
    .enumerate()
    {
        write(&directory);
        let unfinished = Identity::load(&home, PASSPHRASE, NOW).expect_err("it is no identity");
        assert!(matches!(unfinished, IdentityError::Unfinished), "{step}: {unfinished:?}");
        let path = authority::read_path(&home.join("node-authority.pem")).expect("a path");
        let root = world.root.certificate().der();
        let accepted = NodeKeys::accept(&home, PASSPHRASE, root, &path, NOW);
        assert!(matches!(accepted, Err(IdentityError::Unfinished)), "{step}: {accepted:?}");
        // Later: the time at which it was given up stays, if that was written.
        let again = NodeKeys::rotate(&home, PASSPHRASE, COST, at(9), at(9)).expect("it completes");
        assert_eq!(again, party, "{step}");
        let identity = Identity::load(&home, PASSPHRASE, NOW).expect("an identity");
        let [former] = identity.former() else { panic!("{step}: {:?}", identity.former()) };
        let until = if step < 2 { at(9) } else { at(5) };
        assert_eq!(
            (identity.party(), &former.party, former.until),
            (&party, before.party(), until),
            "{step}"
        );
        let _ = std::fs::remove_file(home.join("former-1800000000009.pem"));
        let _ = std::fs::remove_file(home.join("former-1800000000009.key"));
    }
}
