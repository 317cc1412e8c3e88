use std::time::{Duration, SystemTime};

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, SigningKey};

use super::*;

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[(word >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    text
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

fn token(algorithm: &str, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let head = base64(json!({"typ": "JWT", "alg": algorithm}).to_string().as_bytes());
    let message = format!("{head}.{}", base64(claims.to_string().as_bytes()));
    let signature = base64(&sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn hs256(secret: &[u8], claims: &Value) -> String {
    token("HS256", claims, |message| {
        ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret), message).as_ref().to_vec()
    })
}

fn es256(key: &KeyPair, claims: &Value) -> String {
    token("ES256", claims, |message| fixed(&key.sign(message).unwrap()))
}

/// The two numbers of an ASN.1 signature, 32 bytes each.
fn fixed(der: &[u8]) -> Vec<u8> {
    let mut numbers = Vec::new();
    let mut rest = &der[2..];
    for _ in 0..2 {
        let length = usize::from(rest[1]);
        let number = &rest[2..2 + length];
        let number = &number[number.len().saturating_sub(32)..];
        numbers.extend(std::iter::repeat_n(0, 32 - number.len()));
        numbers.extend_from_slice(number);
        rest = &rest[2 + length..];
    }
    numbers
}

fn status(fixture: &Fixture, token: Option<&str>, method: &str) -> (u16, i64) {
    let mut stream = fixture.connect();
    let header = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    send(&mut stream, "POST", &header, &request(method, &json!([])).to_string());
    let (status, text) = receive(&mut stream);
    let answer: Value = serde_json::from_str(&text).unwrap();
    (status, answer["error"]["code"].as_i64().unwrap_or(0))
}

#[test]
fn tokens_of_a_known_issuer_allow_what_they_say() {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key.pem");
    std::fs::write(&path, key.public_key_pem()).unwrap();
    let mut guarded = endpoint();
    guarded.namespaces = Namespaces::parse(["ETH", "DEBUG"]).unwrap();
    guarded.authentication = Some(Authenticator::public_key_file(&path, "ES256").unwrap());
    let fixture = start(guarded);

    assert_eq!(status(&fixture, None, "eth_blockNumber"), (401, -40100));
    assert_eq!(status(&fixture, Some("a.b.c"), "eth_blockNumber"), (401, -40100));
    let good = es256(&key, &json!({"permissions": ["eth:blockNumber"], "exp": now() + 60}));
    assert_eq!(status(&fixture, Some(&good), "eth_blockNumber"), (200, 0));
    assert_eq!(status(&fixture, Some(&good), "eth_echo"), (200, -40100));
    assert_eq!(status(&fixture, Some(&good), "debug_secret"), (200, -40100));
    let all = es256(&key, &json!({"permissions": ["*:*"], "exp": now() + 60}));
    assert_eq!(status(&fixture, Some(&all), "debug_secret"), (200, 0));
    let late = es256(&key, &json!({"permissions": ["*:*"], "exp": now() - 1}));
    assert_eq!(status(&fixture, Some(&late), "eth_blockNumber"), (401, -40100));
    let endless = es256(&key, &json!({"permissions": ["*:*"]}));
    assert_eq!(status(&fixture, Some(&endless), "eth_blockNumber"), (401, -40100));
    let stranger = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let forged = es256(&stranger, &json!({"permissions": ["*:*"], "exp": now() + 60}));
    assert_eq!(status(&fixture, Some(&forged), "eth_blockNumber"), (401, -40100));
    // The public key must not serve as a secret, and no signature is no signature.
    let confused =
        hs256(key.public_key_pem().as_bytes(), &json!({"permissions": ["*:*"], "exp": now() + 60}));
    assert_eq!(status(&fixture, Some(&confused), "eth_blockNumber"), (401, -40100));
    let unsigned = token("none", &json!({"permissions": ["*:*"], "exp": now() + 60}), |_| Vec::new());
    assert_eq!(status(&fixture, Some(&unsigned), "eth_blockNumber"), (401, -40100));
}

#[test]
fn a_connection_does_not_outlive_its_token() {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key.pem");
    std::fs::write(&path, key.public_key_pem()).unwrap();
    let authenticator = Authenticator::public_key_file(&path, "ES256").unwrap();
    let time = SystemTime::now();
    let text = es256(&key, &json!({"permissions": ["eth:*", "nonsense"], "exp": now() + 60}));
    let permissions = authenticator.verify(&text, time).unwrap();
    assert!(
        permissions.allow("eth_call") && !permissions.allow("net_version") && !permissions.allow("nonsense")
    );
    assert!(permissions.hold(time) && !permissions.hold(time + Duration::from_secs(62)));
    assert!(!permissions.expired(time) && permissions.expired(time + Duration::from_secs(62)));
}

#[test]
fn tokens_from_a_shared_secret_hold_for_a_minute() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jwt.hex");
    std::fs::write(&path, format!("0x{}\n", "ab".repeat(32))).unwrap();
    let mut guarded = endpoint();
    guarded.authentication = Some(Authenticator::secret_file(&path).unwrap());
    guarded.free_methods = ["eth_blockNumber".to_owned()].into();
    let fixture = start(guarded);
    let secret = [0xab; 32];
    assert_eq!(status(&fixture, None, "eth_blockNumber"), (200, 0));
    assert_eq!(status(&fixture, None, "eth_echo"), (200, -40100));
    assert_eq!(status(&fixture, Some(&hs256(&secret, &json!({"iat": now()}))), "eth_echo"), (200, 0));
    assert_eq!(
        status(&fixture, Some(&hs256(&secret, &json!({"iat": now() - 120}))), "eth_echo"),
        (401, -40100)
    );
    assert_eq!(
        status(&fixture, Some(&hs256(&secret, &json!({"iat": now() + 120}))), "eth_echo"),
        (401, -40100)
    );
    assert_eq!(status(&fixture, Some(&hs256(&secret, &json!({}))), "eth_echo"), (401, -40100));
    assert_eq!(status(&fixture, Some(&hs256(&[1; 32], &json!({"iat": now()}))), "eth_echo"), (401, -40100));
}

#[test]
fn files_without_keys_are_refused_with_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    assert!(Authenticator::secret_file(&path).unwrap_err().to_string().contains("cannot read"));
    std::fs::write(&path, "abcd").unwrap();
    assert!(Authenticator::secret_file(&path).unwrap_err().to_string().contains("64 hexadecimal digits"));
    assert!(
        Authenticator::public_key_file(&path, "RS256").unwrap_err().to_string().contains("no public key")
    );
    assert!(Authenticator::public_key_file(&path, "HS256").unwrap_err().to_string().contains("`HS256`"));
}
