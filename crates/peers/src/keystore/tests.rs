use super::*;

const PASSWORD: &[u8] = b"testpassword";
const SECRET: &str = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";

/// The test vectors of the Web3 Secret Storage Definition.
const PBKDF2: &str = r#"{
    "crypto": {
        "cipher": "aes-128-ctr",
        "cipherparams": { "iv": "6087dab2f9fdbbfaddc31a909735c1e6" },
        "ciphertext": "5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46",
        "kdf": "pbkdf2",
        "kdfparams": {
            "c": 262144, "dklen": 32, "prf": "hmac-sha256",
            "salt": "ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"
        },
        "mac": "517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"
    },
    "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
    "version": 3
}"#;

const SCRYPT: &str = r#"{
    "crypto": {
        "cipher": "aes-128-ctr",
        "cipherparams": { "iv": "83dbcc02d8ccb40e466191a123791e0e" },
        "ciphertext": "d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c",
        "kdf": "scrypt",
        "kdfparams": {
            "dklen": 32, "n": 262144, "p": 8, "r": 1,
            "salt": "ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19"
        },
        "mac": "2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097"
    },
    "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
    "version": 3
}"#;

fn nonces() -> Nonces {
    Nonces { salt: [1; 32], iv: [2; 16], id: [3; 16] }
}

fn fault(text: &str) -> KeystoreFault {
    Keystore::parse(text.as_bytes()).unwrap_err()
}

#[test]
fn the_published_vectors_are_read() {
    for text in [PBKDF2, SCRYPT] {
        let store = Keystore::parse(text.as_bytes()).unwrap();
        assert_eq!(hex::encode(store.unlock(PASSWORD).unwrap().secret_bytes().as_slice()), SECRET);
    }
    let store = Keystore::parse(PBKDF2.as_bytes()).unwrap();
    assert!(matches!(store.unlock(b"testpasswore"), Err(KeystoreFault::Password)));
}

#[test]
fn the_published_vectors_are_written() {
    let key = NodeKey::parse(SECRET.as_bytes()).unwrap();
    let bytes = |digits: &str| hex::decode(digits).unwrap();
    let nonces = Nonces {
        salt: bytes("ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd").try_into().unwrap(),
        iv: bytes("6087dab2f9fdbbfaddc31a909735c1e6").try_into().unwrap(),
        id: bytes("3198bc9c66725ab3d9954942343ae5b6").try_into().unwrap(),
    };
    let written = encrypt(&key, PASSWORD, Derivation::Pbkdf2 { c: 262_144 }, &nonces).unwrap();
    let mut written: serde_json::Value = serde_json::from_str(&written).unwrap();
    let expected: serde_json::Value = serde_json::from_str(PBKDF2).unwrap();
    assert_eq!(written["address"].as_str().unwrap(), hex::encode(key.address()));
    assert_eq!(written["crypto"], expected["crypto"]);
    // The vector's id has another version than the random one that is written.
    assert_eq!(written["id"].take(), "3198bc9c-6672-4ab3-9995-4942343ae5b6");
}

#[test]
fn what_is_written_is_read() {
    let key = NodeKey::new(&[9; 32]).unwrap();
    for derivation in [Derivation::LIGHT, Derivation::Pbkdf2 { c: 10 }] {
        let text = encrypt(&key, "p\u{e4}ss".as_bytes(), derivation, &nonces()).unwrap();
        let store = Keystore::parse(text.as_bytes()).unwrap();
        assert_eq!((store.address, store.derivation), (Some(key.address()), derivation));
        assert_eq!(store.unlock("p\u{e4}ss".as_bytes()).unwrap().id(), key.id());
    }
}

#[test]
fn every_changed_byte_of_the_ciphertext_is_seen() {
    let key = NodeKey::new(&[9; 32]).unwrap();
    let text = encrypt(&key, b"p", Derivation::Pbkdf2 { c: 1 }, &nonces()).unwrap();
    let store = Keystore::parse(text.as_bytes()).unwrap();
    for place in 0..32 {
        let mut changed = store.clone();
        changed.ciphertext[place] ^= 1;
        assert!(matches!(changed.unlock(b"p"), Err(KeystoreFault::Password)), "byte {place}");
    }
    let mut changed = store;
    changed.address = Some(Address::ZERO);
    assert!(matches!(changed.unlock(b"p"), Err(KeystoreFault::Address)));
}

#[test]
fn a_file_cannot_ask_for_more_than_there_is() {
    for (from, to) in [
        ("\"n\": 262144", "\"n\": 2147483648"),
        ("\"n\": 262144", "\"n\": 262143"),
        ("\"n\": 262144", "\"n\": 1"),
        ("\"n\": 262144", "\"n\": 0"),
        ("\"r\": 1", "\"r\": 1000000"),
        ("\"r\": 1", "\"r\": 0"),
        ("\"p\": 8", "\"p\": 4294967295"),
        ("\"p\": 8", "\"p\": 0"),
    ] {
        assert!(SCRYPT.contains(from));
        assert!(matches!(fault(&SCRYPT.replace(from, to)), KeystoreFault::Cost), "{to}");
    }
    for to in ["0", "4294967295"] {
        assert!(matches!(fault(&PBKDF2.replace("262144", to)), KeystoreFault::Cost), "{to}");
    }
    let key = NodeKey::new(&[9; 32]).unwrap();
    let costly = Derivation::Scrypt { n: 1 << 30, r: 8, p: 1 };
    assert!(matches!(encrypt(&key, b"", costly, &nonces()), Err(KeystoreFault::Cost)));
}

#[test]
fn what_is_wrong_is_named() {
    assert!(matches!(fault("{"), KeystoreFault::Json(_)));
    assert!(matches!(fault(&" ".repeat(20_000)), KeystoreFault::Large));
    let version = SCRYPT.replace("\"version\": 3", "\"version\": 1");
    assert!(matches!(fault(&version), KeystoreFault::Version { found: 1 }));
    assert!(matches!(fault(&SCRYPT.replace("aes-128-ctr", "aes-256-ctr")), KeystoreFault::Cipher { .. }));
    assert!(matches!(fault(&SCRYPT.replace("\"scrypt\"", "\"argon2\"")), KeystoreFault::Derivation));
    assert!(matches!(fault(&PBKDF2.replace("hmac-sha256", "hmac-sha512")), KeystoreFault::Derivation));
    let length = |text: &str| match fault(text) {
        KeystoreFault::Length { field, .. } => field,
        other => panic!("{other}"),
    };
    assert_eq!(length(&SCRYPT.replace("\"dklen\": 32", "\"dklen\": 64")), "dklen");
    assert_eq!(length(&SCRYPT.replace("83dbcc02d8ccb40e466191a123791e0e", "00")), "iv");
    assert_eq!(length(&SCRYPT.replace("d172bf74", "")), "ciphertext");
    assert_eq!(length(&SCRYPT.replace("2103ac29", "")), "mac");
    assert_eq!(length(&SCRYPT.replace("ab0c7876", &"00".repeat(300))), "salt");
}
