#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use super::*;
use proptest::prelude::*;

const NAME: &str = "witness.example/BANKDEFF";
/// A note computed by another program, with Python's `cryptography`:
///
/// ```python
/// net, root, time = bytes(range(32)), hashlib.sha256(b"root").digest(), 1750000060
/// body = f"tallystick.settlement/v2/{net.hex()}\n50\n{base64.b64encode(root).decode()}\n"
/// key = Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)
/// public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
/// signature = key.sign(f"cosignature/v1\ntime {time}\n{body}".encode())
/// id = hashlib.sha256(NAME.encode() + b"\n\x04" + public).digest()[:4]
/// line = base64.b64encode(id + time.to_bytes(8, "big") + signature).decode()
/// print(f"{body}\n— {NAME} {line}")
/// ```
const NOTE: &str = "\
tallystick.settlement/v2/000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
50
SBNJTRN+FjG7owHVrKtue7eqdM4RhdRWVl71HXN2d7I=

— witness.example/BANKDEFF atpyjQAAAABoTuG82aNSv8726D63zlX8BWCyjQ4paZ2XpiOZA+3wdZeIYb+x8ydd7YCVJnZ66JfOOR0v3DpRpf81pPFJOh49WsRbBg==
";
const TIME_S: u64 = 1_750_000_060;

fn key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

fn checkpoint(size: u64) -> Checkpoint {
    let network = std::array::from_fn(|n| u8::try_from(n).unwrap());
    let root = if size == 50 { Sha256::digest(b"root") } else { Sha256::digest(size.to_be_bytes()) };
    Checkpoint { network, size, root: root.into() }
}

#[test]
fn the_form_is_that_of_other_programs() {
    let cosignature = Cosignature::sign(&checkpoint(50), TIME_S, &key()).unwrap();
    let public = key().public_key();
    let line = cosignature.line(NAME, &public).unwrap();
    assert_eq!(format!("{}\n{line}", checkpoint(50).body()), NOTE);
    assert_eq!(Cosignature::from_line(&line, NAME, &public), Ok(cosignature));
    assert_eq!(Cosignature::from_line(line.trim_end(), NAME, &public), Ok(cosignature));
    assert_eq!(cosignature.verify(&checkpoint(50), &public), Ok(()));
}

#[test]
fn the_message_is_that_of_the_specification() {
    // The example of tlog-cosignature, "Ed25519 signed message", but for the origin.
    let network = [0xff; 32];
    let root = BASE64.decode("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=").unwrap().try_into().unwrap();
    let checkpoint = Checkpoint { network, size: 20_852_163, root };
    let expected = "cosignature/v1\ntime 1679315147\nexample.com/behind-the-sofa\n20852163\n\
                    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
    let expected = expected.replace("example.com/behind-the-sofa", &origin(&network));
    assert_eq!(Cosignature::message(&checkpoint, 1_679_315_147), expected);
    assert!(Checkpoint { size: 0, ..checkpoint }.body().contains("\n0\n"));
}

#[test]
fn a_cosignature_is_of_one_log_one_head_one_time_and_one_witness() {
    let public = key().public_key();
    let cosignature = Cosignature::sign(&checkpoint(50), TIME_S, &key()).unwrap();
    let mut network = checkpoint(50);
    network.network[31] ^= 1;
    let mut root = checkpoint(50);
    root.root[0] ^= 1;
    for other in [network, root, Checkpoint { size: 51, ..checkpoint(50) }] {
        assert!(matches!(cosignature.verify(&other, &public), Err(CosignatureError::Signature(_))));
    }
    let other = Cosignature { time_s: TIME_S + 1, ..cosignature };
    assert!(matches!(other.verify(&checkpoint(50), &public), Err(CosignatureError::Signature(_))));
    let stranger = SigningKey::from_seed([8; 32]).public_key();
    assert!(matches!(cosignature.verify(&checkpoint(50), &stranger), Err(CosignatureError::Signature(_))));
}

#[test]
fn no_time_is_beyond_the_form() {
    let beyond = MAX_TIME_S + 1;
    assert_eq!(MAX_TIME_S, (1 << 63) - 1);
    assert!(Cosignature::sign(&checkpoint(50), MAX_TIME_S, &key()).is_ok());
    assert_eq!(Cosignature::sign(&checkpoint(50), beyond, &key()), Err(CosignatureError::Time(beyond)));
    // Also where somebody has signed it all the same.
    let message = Cosignature::message(&checkpoint(50), beyond);
    let signed = Cosignature { time_s: beyond, signature: key().sign(message.as_bytes()) };
    assert_eq!(signed.verify(&checkpoint(50), &key().public_key()), Err(CosignatureError::Time(beyond)));
}

#[test]
fn what_is_no_line_of_this_witness_is_refused() {
    let public = key().public_key();
    let line = NOTE.lines().last().unwrap();
    let refused = |line: &str, name: &str, key: &PublicKey| {
        assert!(
            matches!(Cosignature::from_line(line, name, key), Err(CosignatureError::Line(_))),
            "{line:?}"
        );
    };
    refused("", NAME, &public);
    refused(&line.replace('—', "-"), NAME, &public);
    refused(&line.replace("BANKDEFF", "BANKFRPP"), NAME, &public);
    refused(&line.replace("==", ""), NAME, &public);
    refused(&line.replace("atpy", "atpz"), NAME, &public);
    refused(&format!("{line} "), NAME, &public);
    refused(line, NAME, &SigningKey::from_seed([8; 32]).public_key());
    for name in ["", "two words", "a+b", "a\nb", "a\u{2003}b", "a\u{7f}b"] {
        refused(&format!("— {name} x"), name, &public);
        let cosignature = Cosignature::from_line(line, NAME, &public).unwrap();
        assert!(matches!(cosignature.line(name, &public), Err(CosignatureError::Line(_))));
    }
}

#[test]
fn a_witness_does_not_go_back() {
    let mut witness = Witness::default();
    let first = witness.cosign(&checkpoint(50), TIME_S, &key()).unwrap();
    // The same head again, under a clock that went back: the same signature.
    assert_eq!(witness.cosign(&checkpoint(50), TIME_S - 9, &key()), Ok(first));
    assert_eq!(
        witness.cosign(&checkpoint(49), TIME_S + 1, &key()),
        Err(WitnessError::Smaller { size: 49, last: 50 })
    );
    let mut other = checkpoint(50);
    other.root[0] ^= 1;
    assert_eq!(witness.cosign(&other, TIME_S + 1, &key()), Err(WitnessError::OtherRoot { size: 50 }));
    let before = witness;
    let beyond = MAX_TIME_S + 1;
    assert_eq!(
        witness.cosign(&checkpoint(51), beyond, &key()),
        Err(WitnessError::Cosignature(CosignatureError::Time(beyond)))
    );
    assert_eq!(witness, before);
    // After a restart it goes on from what it remembers.
    let mut restarted = Witness::new(witness.last());
    assert!(restarted.cosign(&checkpoint(49), TIME_S + 1, &key()).is_err());
    assert_eq!(restarted.cosign(&checkpoint(51), 0, &key()).unwrap().time_s, TIME_S);
    let remembered = serde_json::to_string(&restarted.last()).unwrap();
    assert_eq!(serde_json::from_str::<Option<Cosigned>>(&remembered).unwrap(), restarted.last());
}

proptest! {
    #[test]
    fn whatever_heads_and_clocks_come_sizes_and_times_only_grow(
        steps in prop::collection::vec((0u64..20, any::<u64>(), any::<bool>()), 1..60),
    ) {
        let mut witness = Witness::default();
        let mut last = (0, 0);
        for (size, clock, restarts) in steps {
            if restarts {
                witness = Witness::new(witness.last());
            }
            if let Ok(cosignature) = witness.cosign(&checkpoint(size), clock, &key()) {
                prop_assert!(size >= last.0 && cosignature.time_s >= last.1);
                last = (size, cosignature.time_s);
            }
        }
    }

    #[test]
    fn any_line_is_read_or_refused(line in "(— )?\\PC{0,120}") {
        prop_assert!(Cosignature::from_line(&line, NAME, &key().public_key()).is_err());
    }
}
