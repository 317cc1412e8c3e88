use super::*;
use crate::HexError;
use proptest::prelude::*;

fn key(scheme: Scheme, byte: u8) -> SigningKey {
    SigningKey::from_secret(scheme, &[byte; 32]).unwrap()
}

/// Group orders (SEC 2 sections 2.4.1 and 2.4.2).
fn order(scheme: Scheme) -> [u8; 32] {
    let text = match scheme {
        Scheme::Secp256k1 => "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
        _ => "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
    };
    *text.parse::<crate::Hash>().unwrap().as_bytes()
}

/// `order - s`, the other value that satisfies the ECDSA equation.
fn negated(scheme: Scheme, s: &[u8]) -> [u8; 32] {
    let mut out = order(scheme);
    let mut borrow = 0;
    for i in (0..32).rev() {
        let difference = i16::from(out[i]) - i16::from(s[i]) - borrow;
        borrow = i16::from(difference < 0);
        out[i] = difference.rem_euclid(256) as u8;
    }
    out
}

fn rebuilt(scheme: Scheme, bytes: [u8; 64]) -> Signature {
    match scheme {
        Scheme::Ed25519 => Signature::Ed25519(bytes.into()),
        Scheme::Secp256k1 => Signature::Secp256k1(bytes),
        Scheme::P256 => Signature::P256(bytes),
    }
}

#[test]
fn rfc_6979_vector_for_p256() {
    // RFC 6979 appendix A.2.5, SHA-256, message "test"; its s is below half of the order.
    let secret: crate::Hash =
        "C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721".parse().unwrap();
    let key = SigningKey::from_secret(Scheme::P256, secret.as_bytes()).unwrap();
    assert_eq!(
        key.public_key().to_string(),
        "p256:0360fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"
    );
    assert_eq!(
        key.sign(b"test").to_string(),
        "p256:f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367\
         019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083"
    );
}

#[test]
fn published_key_of_secp256k1() {
    // The generator itself (SEC 2 section 2.4.1) is the key of secret 1.
    let mut one = [0; 32];
    one[31] = 1;
    let key = SigningKey::from_secret(Scheme::Secp256k1, &one).unwrap();
    assert_eq!(
        key.public_key().to_string(),
        "secp256k1:0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
    );
}

#[test]
fn signs_and_verifies_in_every_scheme() {
    for scheme in Scheme::ALL {
        let signer = key(scheme, 7);
        let signature = signer.sign(b"pay");
        assert_eq!(signature, signer.sign(b"pay"), "deterministic");
        assert_eq!((signer.scheme(), signature.scheme()), (scheme, scheme));
        assert_eq!(verify(&signer.public_key(), b"pay", &signature), Ok(()));
        assert!(verify(&signer.public_key(), b"pat", &signature).is_err());
        assert!(verify(&key(scheme, 8).public_key(), b"pay", &signature).is_err());
        let again = SigningKey::from_secret(scheme, &signer.secret()).unwrap();
        assert_eq!(again.public_key(), signer.public_key());
        assert!(!format!("{signer:?}").contains("0707"), "the secret is not shown");
        for byte in 0..64 {
            let mut bytes = *signature.as_bytes();
            bytes[byte] ^= 1;
            assert!(
                verify(&signer.public_key(), b"pay", &rebuilt(scheme, bytes)).is_err(),
                "{scheme} {byte}"
            );
        }
    }
}

#[test]
fn generated_keys_differ() {
    for scheme in Scheme::ALL {
        let (a, b) = (SigningKey::generate(scheme).unwrap(), SigningKey::generate(scheme).unwrap());
        assert_eq!(a.scheme(), scheme);
        assert_ne!(a.public_key(), b.public_key());
    }
}

#[test]
fn the_second_form_of_an_ecdsa_signature_is_refused() {
    for scheme in [Scheme::Secp256k1, Scheme::P256] {
        for byte in 1..20 {
            let signer = key(scheme, byte);
            let mut bytes = *signer.sign(b"pay").as_bytes();
            let high = negated(scheme, &bytes[32..]);
            bytes[32..].copy_from_slice(&high);
            let refused = verify(&signer.public_key(), b"pay", &rebuilt(scheme, bytes));
            assert_eq!(refused, Err(VerifyError::HighS(scheme)));
        }
    }
}

#[test]
fn values_out_of_range_are_refused() {
    for scheme in [Scheme::Secp256k1, Scheme::P256] {
        let signer = key(scheme, 3);
        let good = *signer.sign(b"pay").as_bytes();
        for part in [0, 32] {
            for value in [[0; 32], order(scheme), [0xff; 32]] {
                let mut bytes = good;
                bytes[part..part + 32].copy_from_slice(&value);
                let refused = verify(&signer.public_key(), b"pay", &rebuilt(scheme, bytes));
                assert_eq!(refused, Err(VerifyError::Range(scheme)));
            }
        }
        for secret in [[0; 32], order(scheme), [0xff; 32]] {
            assert_eq!(SigningKey::from_secret(scheme, &secret).err(), Some(SecretError(scheme)));
        }
    }
}

#[test]
fn bytes_that_are_no_point_are_refused() {
    for scheme in [Scheme::Secp256k1, Scheme::P256] {
        let signature = key(scheme, 3).sign(b"pay");
        let mut refused = 0;
        for x in 0..=255 {
            let mut bytes = [0; 33];
            bytes[0] = 2;
            bytes[32] = x;
            let key = match scheme {
                Scheme::P256 => PublicKey::P256(CompressedPoint(bytes)),
                _ => PublicKey::Secp256k1(CompressedPoint(bytes)),
            };
            refused += usize::from(verify(&key, b"pay", &signature) == Err(VerifyError::Key(scheme)));
        }
        assert!((64..192).contains(&refused), "about half of all x are on the curve, refused {refused}");
        let mut beyond = [0xff; 33];
        beyond[0] = 3;
        let key = match scheme {
            Scheme::P256 => PublicKey::P256(CompressedPoint(beyond)),
            _ => PublicKey::Secp256k1(CompressedPoint(beyond)),
        };
        assert_eq!(verify(&key, b"pay", &signature), Err(VerifyError::Key(scheme)));
    }
    for first in (0..=255).filter(|first| !matches!(first, 2 | 3)) {
        let mut bytes = [1; 33];
        bytes[0] = first;
        assert_eq!(CompressedPoint::from_bytes(bytes), None);
        let mut encoded = vec![1];
        encoded.extend(bytes);
        assert!(borsh::from_slice::<PublicKey>(&encoded).is_err());
    }
}

#[test]
fn a_signature_counts_for_its_own_scheme_only() {
    for a in Scheme::ALL {
        for b in Scheme::ALL {
            let signature = key(b, 5).sign(b"pay");
            let outcome = verify(&key(a, 5).public_key(), b"pay", &signature);
            if a == b {
                assert_eq!(outcome, Ok(()));
            } else {
                assert_eq!(outcome, Err(VerifyError::Scheme { key: a, signature: b }));
            }
        }
    }
}

#[test]
fn unknown_texts_are_errors() {
    let digits = "02".repeat(33);
    assert_eq!("".parse::<PublicKey>(), Err(ParseError::Scheme));
    assert_eq!(digits.parse::<PublicKey>(), Err(ParseError::Scheme));
    assert_eq!(format!("rsa:{digits}").parse::<PublicKey>(), Err(ParseError::Scheme));
    assert!(format!("p256:{digits}").parse::<PublicKey>().is_ok());
    assert_eq!(format!("p256:04{}", &digits[2..]).parse::<PublicKey>(), Err(ParseError::Point(Scheme::P256)));
    assert_eq!(
        "ed25519:00".parse::<PublicKey>(),
        Err(ParseError::Hex(Scheme::Ed25519, HexError::Length { expected: 64, got: 2 }))
    );
}

proptest! {
    #[test]
    fn every_form_round_trips(which in 0usize..3, secret in 1u8.., message: Vec<u8>) {
        let signer = key(Scheme::ALL[which], secret.min(0xfe));
        let (public, signature) = (signer.public_key(), signer.sign(&message));
        prop_assert_eq!(verify(&public, &message, &signature), Ok(()));
        prop_assert_eq!(public.to_string().parse(), Ok(public));
        prop_assert_eq!(signature.to_string().parse(), Ok(signature));
        prop_assert_eq!(borsh::from_slice::<PublicKey>(&borsh::to_vec(&public).unwrap()).unwrap(), public);
        prop_assert_eq!(borsh::from_slice::<Signature>(&borsh::to_vec(&signature).unwrap()).unwrap(), signature);
        let json = serde_json::to_string(&(public, signature)).unwrap();
        prop_assert_eq!(serde_json::from_str::<(PublicKey, Signature)>(&json).unwrap(), (public, signature));
    }

    #[test]
    fn any_bytes_are_an_error_or_their_own_encoding(bytes in proptest::collection::vec(0u8..4, 0..70)) {
        if let Ok(public) = borsh::from_slice::<PublicKey>(&bytes) {
            prop_assert_eq!(borsh::to_vec(&public).unwrap(), bytes.clone());
            let _ = verify(&public, b"", &key(public.scheme().unwrap_or_default(), 1).sign(b""));
        }
        if let Ok(signature) = borsh::from_slice::<Signature>(&bytes) {
            prop_assert_eq!(borsh::to_vec(&signature).unwrap(), bytes);
        }
    }
}

#[test]
fn a_composite_key_has_a_form_and_signs_nothing() {
    let composite = PublicKey::Composite(crate::Hash::from_bytes([7; 32]));
    let text = composite.to_string();
    assert_eq!(text, format!("composite:{}", "07".repeat(32)));
    assert_eq!(text.parse::<PublicKey>().unwrap(), composite);
    assert!(matches!("composite:07".parse::<PublicKey>(), Err(ParseError::Composite(_))));
    let bytes = borsh::to_vec(&composite).unwrap();
    assert_eq!((bytes[0], bytes.len()), (3, 33));
    assert_eq!(borsh::from_slice::<PublicKey>(&bytes).unwrap(), composite);
    assert!(composite.is_composite() && composite.scheme().is_none());
    for scheme in Scheme::ALL {
        let signature = key(scheme, 7).sign(b"pay");
        assert_eq!(verify(&composite, b"pay", &signature), Err(VerifyError::Composite));
        assert!(!key(scheme, 7).public_key().is_composite());
    }
}
