use super::*;
use proptest::prelude::*;

fn unhex<const N: usize>(text: &str) -> [u8; N] {
    crate::hex::decode(text).unwrap()
}

fn signed(seed: u8, message: u64) -> Signed {
    let key = SigningKey::from_seed([seed; 32]);
    let message = crate::hash(&message.to_le_bytes());
    Signed { key: key.public_key(), message, signature: key.sign(message.as_bytes()) }
}

fn check(item: &Signed) -> Result<(), SignatureError> {
    verify(&item.key, item.message.as_bytes(), &item.signature)
}

/// Positions that separate verification refuses: what a batch has to say as well.
fn refused_one_by_one(items: &[Signed]) -> Result<(), Vec<usize>> {
    let bad: Vec<usize> = (0..items.len()).filter(|i| check(&items[*i]).is_err()).collect();
    if bad.is_empty() { Ok(()) } else { Err(bad) }
}

#[test]
fn golden_signatures_of_rfc_8032() {
    // Section 7.1, tests 1 and 3.
    let key =
        SigningKey::from_seed(unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"));
    assert_eq!(
        key.public_key().to_string(),
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    );
    assert_eq!(
        key.sign(b"").to_string(),
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    );
    let key =
        SigningKey::from_seed(unhex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"));
    assert_eq!(
        key.public_key().to_string(),
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"
    );
    assert_eq!(
        key.sign(&[0xaf, 0x82]).to_string(),
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    );
}

#[test]
fn debug_keeps_the_secret() {
    let key = SigningKey::from_seed([0xab; 32]);
    let text = format!("{key:?}");
    assert!(text.contains(&key.public_key().to_string()));
    assert!(!text.contains("abababab") && !text.contains("171, 171"));
}

#[test]
fn generated_keys_differ_and_work() {
    let (one, two) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
    assert_ne!(one.public_key(), two.public_key());
    verify(&one.public_key(), b"m", &one.sign(b"m")).unwrap();
}

#[test]
fn errors_name_the_part() {
    let good = signed(1, 1);
    assert_eq!(check(&good), Ok(()));
    // y = 2 is on no point of the curve.
    let mut off_curve = [0; 32];
    off_curve[0] = 2;
    assert_eq!(check(&Signed { key: PublicKey(off_curve), ..good }), Err(SignatureError::Key));
    let mut signature = good.signature.0;
    signature[..32].copy_from_slice(&off_curve);
    assert_eq!(check(&Signed { signature: Signature(signature), ..good }), Err(SignatureError::R));
    assert_eq!(check(&Signed { message: Hash::ZERO, ..good }), Err(SignatureError::Mismatch));
}

#[test]
fn s_plus_the_group_order_is_refused() {
    // The malleability that RFC 8032 section 8.4 speaks of.
    let good = signed(1, 1);
    let order: [u8; 32] = unhex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let mut malleable = good.signature.0;
    let mut carry = 0;
    for (byte, add) in malleable[32..].iter_mut().zip(order) {
        carry += u16::from(*byte) + u16::from(add);
        *byte = carry.to_le_bytes()[0];
        carry >>= 8;
    }
    let item = Signed { signature: Signature(malleable), ..good };
    assert_eq!(check(&item), Err(SignatureError::S));
    let items: Vec<Signed> = (0..20).map(|i| if i == 11 { item } else { signed(1, i) }).collect();
    assert_eq!(verify_batch(&items), Err(vec![11]));
}

/// The 8 points of small order and their 6 further encodings (ZIP-215 test vectors).
pub(super) fn small_order_encodings() -> Vec<[u8; 32]> {
    let torsion = curve25519_dalek::constants::EIGHT_TORSION;
    let mut encodings: Vec<[u8; 32]> = torsion.iter().map(|point| point.compress().to_bytes()).collect();
    let prime = unhex::<32>("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f");
    // y = p and p + 1 stand for 0 and 1, with either sign; x = 0 with a negative sign for y = 1, -1.
    for (low, negative) in [(0xed, false), (0xed, true), (0xee, false), (0xee, true)] {
        let mut bytes = prime;
        bytes[0] = low;
        bytes[31] |= if negative { 0x80 } else { 0 };
        encodings.push(bytes);
    }
    let mut one = [0; 32];
    (one[0], one[31]) = (1, 0x80);
    encodings.push(one);
    let mut minus_one = prime;
    (minus_one[0], minus_one[31]) = (0xec, 0xff);
    encodings.push(minus_one);
    encodings
}

#[test]
fn small_orders_and_odd_encodings_verify_alone_and_in_a_batch() {
    // s = 0 with A and R of small order satisfies the cofactored equation for every message:
    // ZIP-215 requires acceptance, whatever the encoding.
    let encodings = small_order_encodings();
    assert_eq!(encodings.len(), 14);
    let mut items = Vec::new();
    for key in &encodings {
        for r in &encodings {
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(r);
            let item = Signed {
                key: PublicKey(*key),
                message: crate::hash(b"Zcash"),
                signature: Signature(signature),
            };
            assert_eq!(check(&item), Ok(()), "{item:?}");
            items.push(item);
        }
    }
    assert_eq!(verify_batch(&items), Ok(()));
    // The same points with s = 1 are wrong for all.
    for item in &mut items {
        item.signature.0[32] = 1;
    }
    assert_eq!(verify_batch(&items), Err((0..items.len()).collect()));
}

#[test]
fn torsion_components_cancel_alone_and_in_a_batch() {
    // R and A off the prime-order subgroup by a small-order point: valid after the cofactor.
    let torsion = curve25519_dalek::constants::EIGHT_TORSION;
    let mut items = Vec::new();
    for (i, off) in torsion.iter().enumerate() {
        let key = SigningKey::from_seed([i as u8; 32]);
        let message = crate::hash(&[i as u8]);
        let r = Scalar::from(77u64 + i as u64);
        let r_bytes = (EdwardsPoint::mul_base(&r) + off).compress().to_bytes();
        let public = PublicKey((EdwardsPoint::mul_base(&key.scalar) + torsion[1]).compress().to_bytes());
        let s = r + challenge(&r_bytes, &public, message.as_bytes()) * key.scalar;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&r_bytes);
        signature[32..].copy_from_slice(s.as_bytes());
        let item = Signed { key: public, message, signature: Signature(signature) };
        assert_eq!(check(&item), Ok(()));
        items.extend([item, signed(i as u8, 3)]);
    }
    assert_eq!(verify_batch(&items), Ok(()));
    items[5].message = Hash::ZERO;
    assert_eq!(verify_batch(&items), Err(vec![5]));
}

#[test]
fn large_batches_name_each_bad_signature() {
    let good: Vec<Signed> = (0..600).map(|i| signed((i % 200) as u8, i)).collect();
    assert_eq!(verify_batch(&good), Ok(()));
    for bad in [vec![0], vec![599], vec![299, 300], vec![1, 2, 3, 4, 5, 400], (0..600).collect()] {
        let mut items = good.clone();
        for position in &bad {
            items[*position].message = Hash::ZERO;
        }
        assert_eq!(verify_batch(&items), Err(bad));
    }
}

#[test]
fn two_wrongs_do_not_cancel() {
    // Swapping errors of opposite sign keeps sum(s) right; the coefficients must tell them apart.
    let mut items: Vec<Signed> = (0..64).map(|i| signed(1, i)).collect();
    for (position, change) in [(10, Scalar::ONE), (50, -Scalar::ONE)] {
        let s = items[position].signature.s().unwrap() + change;
        items[position].signature.0[32..].copy_from_slice(s.as_bytes());
    }
    assert_eq!(verify_batch(&items), Err(vec![10, 50]));
}

/// One item, sound or spoilt in one of several ways.
fn any_item() -> impl Strategy<Value = Signed> {
    let encodings = small_order_encodings();
    let spoil = prop_oneof![
        8 => Just(0u8),
        1 => 1u8..8,
    ];
    (0u8..5, 0u64..1000, spoil, any::<[u8; 64]>(), any::<prop::sample::Index>()).prop_map(
        move |(seed, message, spoil, noise, pick)| {
            let mut item = signed(seed, message);
            let odd = encodings[pick.index(encodings.len())];
            match spoil {
                0 => {}
                1 => item.key.0.copy_from_slice(&noise[..32]),
                2 => item.message = Hash::ZERO,
                3 => item.signature = Signature(noise),
                4 => item.signature.0[pick.index(64)] ^= 1 << (noise[0] % 8),
                5 => item.key = PublicKey(odd),
                6 => item.signature.0[..32].copy_from_slice(&odd),
                _ => {
                    item.key = PublicKey(odd);
                    item.signature.0[32..].fill(0);
                    item.signature.0[..32].copy_from_slice(&odd);
                }
            }
            item
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn batches_agree_with_separate_verification(items in prop::collection::vec(any_item(), 0..80)) {
        let expected = refused_one_by_one(&items);
        prop_assert_eq!(&verify_batch(&items), &expected);
        prop_assert_eq!(&batch::Verifier::new(engine::Portable, 0).verify(&items), &expected);
        // With what it remembers, and with what it forgets, the answer is the same.
        let mut verifier = BatchVerifier::new(2);
        for _ in 0..3 {
            prop_assert_eq!(&verifier.verify(&items), &expected);
        }
    }

    #[test]
    fn agrees_with_an_independent_implementation(items in prop::collection::vec(any_item(), 1..40)) {
        for item in items {
            let other = ed25519_zebra::VerificationKey::try_from(item.key.0)
                .and_then(|key| key.verify(&item.signature.0.into(), item.message.as_bytes()));
            prop_assert_eq!(check(&item).is_ok(), other.is_ok());
        }
    }

    #[test]
    fn any_change_to_a_signature_fails(message: Vec<u8>, seed: [u8; 32], bit in 0usize..512) {
        let key = SigningKey::from_seed(seed);
        let mut signature = key.sign(&message);
        prop_assert_eq!(verify(&key.public_key(), &message, &signature), Ok(()));
        signature.0[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(verify(&key.public_key(), &message, &signature).is_err());
    }
}
