use super::*;
use proptest::prelude::*;
use std::process::Command;

const COST: ScryptCost = ScryptCost::TRIVIAL;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn key() -> SigningKey {
    SigningKey::from_seed([5; 32])
}

fn put(path: &Path, bytes: &[u8], mode: u32) {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn what_was_written_is_read() {
    let directory = directory();
    let path = directory.path().join("node.key");
    KeyFile::write(&path, &key(), b"correct horse", COST).unwrap();
    let read = KeyFile::read(&path, b"correct horse").unwrap();
    assert_eq!(read.public_key(), key().public_key());
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(names(directory.path()), ["node.key"]);
    let text = std::fs::read_to_string(&path).unwrap();
    let start = format!("public-key: {}\n-----BEGIN ENCRYPTED PRIVATE KEY-----\n", key().public_key());
    assert!(text.starts_with(&start));
    assert!(text.ends_with("-----END ENCRYPTED PRIVATE KEY-----\n"));
}

#[test]
fn the_default_cost_works() {
    let directory = directory();
    let path = directory.path().join("node.key");
    KeyFile::write(&path, &key(), b"p", ScryptCost::default()).unwrap();
    assert_eq!(KeyFile::read(&path, b"p").unwrap().public_key(), key().public_key());
}

#[test]
fn an_existing_key_is_kept_unless_replaced() {
    let directory = directory();
    let path = directory.path().join("node.key");
    KeyFile::write(&path, &key(), b"old", COST).unwrap();
    let other = SigningKey::from_seed([6; 32]);
    let error = KeyFile::write(&path, &other, b"new", COST).unwrap_err();
    assert!(matches!(&error, KeyFileError::Exists { path: p } if *p == path), "{error}");
    assert_eq!(KeyFile::read(&path, b"old").unwrap().public_key(), key().public_key());
    KeyFile::replace(&path, &other, b"new", COST).unwrap();
    assert_eq!(KeyFile::read(&path, b"new").unwrap().public_key(), other.public_key());
    assert_eq!(names(directory.path()), ["node.key"]);
}

#[test]
fn every_wrong_passphrase_is_called_that() {
    // Enough of them to meet the right padding by chance (one in 256).
    let directory = directory();
    let path = directory.path().join("node.key");
    KeyFile::write(&path, &key(), b"right", COST).unwrap();
    for i in 0..2000u32 {
        let error = KeyFile::read(&path, &i.to_le_bytes()).unwrap_err();
        assert!(matches!(&error, KeyFileError::WrongPassphrase { path: p } if *p == path), "{error:?}");
        assert!(error.to_string().contains("node.key"));
    }
}

#[test]
fn files_open_to_others_are_refused() {
    let directory = directory();
    let path = directory.path().join("node.key");
    KeyFile::write(&path, &key(), b"p", COST).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o601] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let error = KeyFile::read(&path, b"p").unwrap_err();
        assert!(matches!(error, KeyFileError::PermissionsTooOpen { mode: m, .. } if m == mode));
    }
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
    KeyFile::read(&path, b"p").unwrap();
}

#[test]
fn root_may_hand_a_file_to_its_reader() {
    const ROOT: u32 = 0;
    for (mode, owner, reader, too_open) in [
        (0o440, ROOT, 1000, false),
        (0o640, ROOT, 1000, false),
        (0o440, ROOT, ROOT, true),
        (0o440, 1000, 1000, true),
        (0o444, ROOT, 1000, true),
        (0o460, ROOT, 1000, true),
        (0o600, 1000, 1000, false),
    ] {
        assert_eq!(is_too_open(mode, owner, reader), too_open, "{mode:o} of {owner}, read by {reader}");
    }
}

#[test]
fn other_failures_are_told_apart() {
    let directory = directory();
    let path = directory.path().join("node.key");
    let read = || KeyFile::read(&path, b"p").unwrap_err();
    assert!(matches!(read(), KeyFileError::Io { action: "open", .. }));
    put(&path, &[b'x'; 16 * 1024 + 1], 0o600);
    assert!(matches!(read(), KeyFileError::TooLarge { limit: 16384, .. }));
    put(&path, b"\xff", 0o600);
    assert!(matches!(read(), KeyFileError::Malformed { source: Malformation::NotText(0), .. }));
    put(&path, b"hello", 0o600);
    assert!(matches!(read(), KeyFileError::Malformed { source: Malformation::Document(_), .. }));
    put(&path, b"-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n", 0o600);
    assert!(matches!(read(), KeyFileError::Malformed { source: Malformation::Label(_), .. }));
    assert!(matches!(KeyFile::read(directory.path(), b"p"), Err(KeyFileError::NotAFile { .. })));
    let write = |path: &Path, passphrase: &[u8], cost| KeyFile::write(path, &key(), passphrase, cost);
    assert!(matches!(write(&path, b"", COST), Err(KeyFileError::EmptyPassphrase { .. })));
    for (log_n, p) in [(0, 1), (21, 1), (14, 0), (14, 65), (20, 64)] {
        let cost = ScryptCost { log_n, p };
        assert!(matches!(write(&path, b"p", cost), Err(KeyFileError::Cost { .. })), "{cost:?}");
    }
    let nowhere = directory.path().join("absent").join("node.key");
    assert!(matches!(write(&nowhere, b"p", COST), Err(KeyFileError::Io { .. })));
    assert!(matches!(write(Path::new("/"), b"p", COST), Err(KeyFileError::NotAFile { .. })));
}

#[test]
fn damage_does_not_make_another_key() {
    // The last two blocks of ciphertext hold the seed's second half and the padding; a change in the
    // one before them decrypts without complaint.
    let path = Path::new("damaged.key");
    let text = pem::encode(path, &key(), b"p", COST).unwrap();
    let (public, body) = text.split_once('\n').unwrap();
    let (_, document) = pkcs8::SecretDocument::from_pem(body).unwrap();
    let mut der = document.as_bytes().to_vec();
    let at = der.len() - 40;
    der[at] ^= 1;
    let damaged = pkcs8::SecretDocument::try_from(der.as_slice()).unwrap();
    let damaged = damaged.to_pem("ENCRYPTED PRIVATE KEY", pkcs8::LineEnding::LF).unwrap();
    let silent = pem::decode(path, damaged.as_bytes(), b"p").unwrap();
    assert_ne!(silent.public_key(), key().public_key());
    for public in [public, "public-key: 00"] {
        let error = pem::decode(path, format!("{public}\n{}", *damaged).as_bytes(), b"p").unwrap_err();
        assert!(matches!(error, KeyFileError::Malformed { source: Malformation::PublicKey, .. }));
    }
}

#[test]
fn a_file_cannot_ask_for_endless_work() {
    // scrypt's cost parameter raised by one change of a byte.
    let path = Path::new("greedy.key");
    let text = pem::encode(path, &key(), b"p", ScryptCost { log_n: 14, p: 1 }).unwrap();
    let (_, body) = text.split_once('\n').unwrap();
    let (_, document) = pkcs8::SecretDocument::from_pem(body).unwrap();
    let mut der = document.as_bytes().to_vec();
    // INTEGER 16384 is 02 02 40 00; the tag of the block size follows.
    let at = der.windows(5).position(|w| w == [2, 2, 0x40, 0, 2]).unwrap();
    der[at + 2] = 0x7f;
    let greedy = pkcs8::SecretDocument::try_from(der.as_slice()).unwrap();
    let text = greedy.to_pem("ENCRYPTED PRIVATE KEY", pkcs8::LineEnding::LF).unwrap();
    let error = pem::decode(path, text.as_bytes(), b"p").unwrap_err();
    assert!(matches!(error, KeyFileError::Malformed { source: Malformation::Cost, .. }), "{error:?}");
}

#[test]
fn a_failed_write_leaves_nothing() {
    let directory = directory();
    let path = directory.path().join("taken");
    std::fs::create_dir(&path).unwrap();
    KeyFile::write(&path, &key(), b"p", COST).unwrap_err();
    KeyFile::replace(&path, &key(), b"p", COST).unwrap_err();
    assert_eq!(names(directory.path()), ["taken"]);
}

/// Runs openssl; `None`, said aloud, when there is none.
fn openssl(arguments: &[&str]) -> Option<Vec<u8>> {
    match Command::new("openssl").args(arguments).output() {
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "openssl {arguments:?}: {error}");
            Some(output.stdout)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: there is no openssl on this machine to check key files with");
            None
        }
        Err(error) => panic!("openssl: {error}"),
    }
}

#[test]
fn openssl_reads_our_files() {
    let directory = directory();
    let path = directory.path().join("node.key");
    KeyFile::write(&path, &key(), b"secret", ScryptCost::default()).unwrap();
    let file = path.to_str().unwrap();
    let Some(der) = openssl(&["pkey", "-in", file, "-passin", "pass:secret", "-pubout", "-outform", "DER"])
    else {
        return;
    };
    assert!(der.ends_with(key().public_key().as_bytes()));
}

#[test]
fn we_read_files_of_openssl() {
    let directory = directory();
    let path = directory.path().join("node.key");
    let file = path.to_str().unwrap();
    let make = ["genpkey", "-algorithm", "ed25519", "-aes-256-cbc", "-pass", "pass:secret", "-out", file];
    if openssl(&make).is_none() {
        return;
    }
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let key = KeyFile::read(&path, b"secret").unwrap();
    let public = ["pkey", "-in", file, "-passin", "pass:secret", "-pubout", "-outform", "DER"];
    assert!(openssl(&public).unwrap().ends_with(key.public_key().as_bytes()));
    assert!(matches!(KeyFile::read(&path, b"other"), Err(KeyFileError::WrongPassphrase { .. })));

    let other = ["genpkey", "-algorithm", "x25519", "-aes-256-cbc", "-pass", "pass:secret", "-out", file];
    openssl(&other).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let error = KeyFile::read(&path, b"secret").unwrap_err();
    assert!(matches!(error, KeyFileError::Malformed { source: Malformation::Algorithm(_), .. }), "{error:?}");
}

proptest! {
    #[test]
    fn random_bytes_are_an_error(bytes: Vec<u8>) {
        prop_assert!(pem::decode(Path::new("random"), &bytes, b"p").is_err());
    }

    #[test]
    fn random_documents_are_an_error(der: Vec<u8>) {
        let body = pem_body(&der);
        let text = format!("-----BEGIN ENCRYPTED PRIVATE KEY-----\n{body}-----END ENCRYPTED PRIVATE KEY-----\n");
        prop_assert!(pem::decode(Path::new("random"), text.as_bytes(), b"p").is_err());
    }

    #[test]
    fn damaged_files_are_an_error_or_the_same_key(position: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let path = Path::new("damaged");
        let text = pem::encode(path, &key(), b"p", COST).unwrap();
        let mut damaged = text.as_bytes().to_vec();
        let position = position.index(damaged.len());
        damaged[position] = byte;
        if let Ok(read) = pem::decode(path, &damaged, b"p") {
            prop_assert_eq!(read.public_key(), key().public_key());
        }
        let _ = pem::decode(path, &damaged[..cut.index(damaged.len())], b"p");
    }
}

/// Base64 in lines of 64 characters (RFC 7468 section 2).
fn pem_body(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut characters = Vec::new();
    for group in bytes.chunks(3) {
        let mut bits = 0u32;
        for i in 0..3 {
            bits = bits << 8 | u32::from(group.get(i).copied().unwrap_or(0));
        }
        for i in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * i) & 63) as usize];
            characters.push(if i <= group.len() { digit } else { b'=' });
        }
    }
    let lines: Vec<&str> = characters.chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.iter().map(|line| format!("{line}\n")).collect()
}
