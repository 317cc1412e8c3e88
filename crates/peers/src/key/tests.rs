use super::*;
use std::os::unix::fs::PermissionsExt;

/// The first development account of Besu's documentation.
const SECRET: &str = "8f2a55949038a9610f50fb23b5883af3b4ecb3c3bb792cbcefbd1542c692be63";

#[test]
fn a_key_has_the_address_that_besu_gives_it() {
    let key = NodeKey::parse(SECRET.as_bytes()).unwrap();
    assert_eq!(key.address().to_string().to_lowercase(), "0xfe3b557e8fb62b89f4916b721be55ceb828dbd73");
    let prefixed = NodeKey::parse(format!("0x{SECRET}\n").as_bytes()).unwrap();
    assert_eq!(prefixed.id(), key.id());
    assert_eq!(key.id().to_string().parse::<NodeId>(), Ok(key.id()));
}

#[test]
fn a_signature_recovers_to_the_key() {
    let key = NodeKey::parse(SECRET.as_bytes()).unwrap();
    let digest = keccak256(b"sealed");
    let signature = key.sign_recoverable(&digest);
    assert_eq!(signature.recover_address_from_prehash(&digest).unwrap(), key.address());
    let plain = key.sign(&digest);
    assert!(key.id().verifies(&digest, &plain));
    assert!(!key.id().verifies(&keccak256(b"other"), &plain));
    assert!(!NodeKey::new(&[1; 32]).unwrap().id().verifies(&digest, &plain));
}

#[test]
fn what_is_no_key_is_refused() {
    for text in ["", "0x", "8f", &format!("{SECRET}00"), &format!(" {SECRET}")] {
        assert!(matches!(NodeKey::parse(text.as_bytes()), Err(KeyFault::Length { .. })), "{text:?}");
    }
    let mistyped = SECRET.replacen(|_: char| true, "g", 1);
    assert!(matches!(NodeKey::parse(mistyped.as_bytes()), Err(KeyFault::Digit { place: 1 })));
    assert!(matches!(NodeKey::parse("0".repeat(64).as_bytes()), Err(KeyFault::Range)));
    assert!(matches!(NodeKey::parse("f".repeat(64).as_bytes()), Err(KeyFault::Range)));
    assert_eq!(NodeId::new([7; 64]), Err(NotOnCurve));
}

#[test]
fn a_missing_file_is_made_once_and_for_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let made = NodeKey::read_or_create(&path).unwrap();
    assert_eq!(NodeKey::read_or_create(&path).unwrap().id(), made.id());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
    let other = NodeKey::new(&[1; 32]).unwrap();
    assert_eq!(other.create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(NodeKey::read(&path).unwrap().id(), made.id());
}

#[test]
fn many_that_start_at_once_get_one_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let ids: Vec<_> = std::thread::scope(|scope| {
        let start = || NodeKey::read_or_create(&path).unwrap().id();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
}

#[test]
fn a_damaged_file_is_left_alone_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    fs::write(&path, "hello").unwrap();
    let error = NodeKey::read_or_create(&path).unwrap_err();
    assert!(error.to_string().contains("key"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"hello");
    fs::write(&path, vec![b'0'; 100_000]).unwrap();
    assert!(matches!(NodeKey::read(&path).unwrap_err().fault, KeyFault::Length { found: 100_000 }));
}

#[test]
fn the_key_is_not_printed() {
    let key = NodeKey::parse(SECRET.as_bytes()).unwrap();
    assert!(!format!("{key:?}").contains("8f2a55"));
}
