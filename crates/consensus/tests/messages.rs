//! The forms of messages: published vectors, round trips, and what is refused.

use std::path::Path;

use alloy_primitives::{Address, B256, Bytes, hex};
use proptest::prelude::*;
use serde_json::Value;
use tally_consensus::message::{
    Certificate, Commit, Prepare, PreparedRound, Proposal, RoundChange, RoundChangePayload, Signed,
};
use tally_consensus::qbft::Form;
use tally_consensus::{Block, ExtraData, Message, Packet, Protocol, Seal, View};

const PROTOCOLS: [Protocol; 3] = [Protocol::Ibft2, Protocol::QBFT, Protocol::Qbft(Form::BESU)];

/// All forms in which QBFT's vectors have been published.
const FORMS: [Form; 4] = [
    Form::REFERENCE,
    Form { null_prepared: false, ..Form::REFERENCE },
    Form { fixed_width: false, null_prepared: false, null_block: false, digest_first: true },
    Form::BESU,
];

fn bytes(value: &Value) -> Bytes {
    hex::decode(value.as_str().expect("hexadecimal text")).expect("hexadecimal text").into()
}

fn seal(value: &Value) -> Seal {
    Seal::from_slice(&bytes(value)).expect("a signature")
}

fn view(value: &Value) -> View {
    let round = u32::try_from(value["round"].as_u64().expect("a round")).expect("a round");
    View { height: value["sequence"].as_u64().expect("a sequence"), round }
}

fn prepare(value: &Value) -> Signed<Prepare> {
    let unsigned = &value["unsignedPrepare"];
    let payload = Prepare { view: view(unsigned), digest: B256::from_slice(&bytes(&unsigned["digest"])) };
    Signed { payload, seal: seal(&value["signature"]) }
}

fn change(value: &Value) -> Signed<RoundChangePayload> {
    let unsigned = &value["unsignedRoundChange"];
    let prepared = unsigned["preparedRound"].as_u64().map(|round| PreparedRound {
        round: u32::try_from(round).expect("a round"),
        digest: B256::from_slice(&bytes(&unsigned["preparedValue"])),
        certificate: None,
    });
    Signed { payload: RoundChangePayload { view: view(unsigned), prepared }, seal: seal(&value["signature"]) }
}

fn list<T>(value: &Value, item: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().expect("a list").iter().map(item).collect()
}

/// The message of a published case.
fn message(form: Form, input: &Value) -> Option<(u8, Message)> {
    let block = |value: &Value| Block::decode(Protocol::Qbft(form), bytes(value)).ok();
    Some(match input["type"].as_str().expect("a type") {
        "prepare" => (0x13, Message::Prepare(prepare(input))),
        "commit" => {
            let unsigned = &input["unsignedCommit"];
            let payload = Commit {
                view: view(unsigned),
                digest: B256::from_slice(&bytes(&unsigned["digest"])),
                commit_seal: seal(&unsigned["commitSeal"]),
            };
            (0x14, Message::Commit(Signed { payload, seal: seal(&input["signature"]) }))
        }
        "roundChange" => {
            let block = if input["block"].is_null() { None } else { Some(block(&input["block"])?) };
            let signed = change(&input["signedRoundChange"]);
            let prepares = list(&input["prepares"], prepare);
            (0x15, Message::RoundChange(Box::new(RoundChange { signed, block, prepares })))
        }
        "proposal" => {
            let signed = &input["signedProposal"];
            let proposal = Proposal {
                view: view(&signed["unsignedProposal"]),
                block: block(&signed["unsignedProposal"]["block"])?,
                seal: seal(&signed["signature"]),
                round_changes: list(&input["roundChanges"], change),
                prepares: list(&input["prepares"], prepare),
            };
            (0x12, Message::Proposal(Box::new(proposal)))
        }
        other => panic!("a case of the unknown type {other}"),
    })
}

/// Checks each case of a file against `forms`; one of them must write and read it.
fn check_cases(text: &str, forms: &[Form]) -> usize {
    let file: Value = serde_json::from_str(text).expect("JSON");
    let cases: Vec<(&Value, &Value)> = match &file {
        Value::Array(cases) => cases.iter().map(|case| (&case["input"], &case["output"])).collect(),
        Value::Object(cases) => cases.values().map(|case| (&case["message"], &case["rlp"])).collect(),
        _ => panic!("neither a list nor an object of cases"),
    };
    for (input, output) in &cases {
        let expected = bytes(output);
        let fits = |form: &&Form| {
            let protocol = Protocol::Qbft(**form);
            let Some((code, message)) = message(**form, input) else { return false };
            let packet = message.encode(protocol);
            packet == (Packet { code, bytes: expected.clone() })
                && Message::decode(protocol, &packet).as_ref() == Ok(&message)
        };
        assert!(forms.iter().any(|form| fits(&form)), "no form writes and reads {input}");
    }
    cases.len()
}

#[test]
fn writes_and_reads_the_published_vectors() {
    let kept = include_str!("data/rlp_messages.json");
    assert_eq!(check_cases(kept, &[Form::REFERENCE]), 3);
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/ethereum/qbft");
    let Ok(entries) = std::fs::read_dir(&reference) else {
        eprintln!("skipped: there is no reference material at {}", reference.display());
        return;
    };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).expect("a vector file");
            assert!(check_cases(&text, &FORMS) > 0, "{} has cases", path.display());
        }
    }
}

/// Besu's later vectors (Consensys/qbft-tests, `MessageRLPTests/messages.json`, Apache-2.0), the short ones.
#[test]
fn writes_and_reads_the_later_vectors() {
    let text = r#"{
      "prepare": { "message": { "type": "prepare", "unsignedPrepare": { "sequence": 1, "round": 0,
        "digest": "0x641c42a09c96374e2fb362ecd573d24e832e6a2b4ef155257ab362415a0b88a4" },
        "signature": "0x443dbefb34b6ad272d12214de75d723fe6ab6d544309b99c162c9617ccd7f54357e9c54d04fb951a394903212392db407c0d6939401afdb15fc0e47aa77471be01" },
        "rlp": "0xf867e30180a0641c42a09c96374e2fb362ecd573d24e832e6a2b4ef155257ab362415a0b88a4b841443dbefb34b6ad272d12214de75d723fe6ab6d544309b99c162c9617ccd7f54357e9c54d04fb951a394903212392db407c0d6939401afdb15fc0e47aa77471be01" },
      "roundChange": { "message": { "type": "roundChange", "signedRoundChange": { "unsignedRoundChange": {
        "sequence": 1, "round": 0, "preparedValue": null, "preparedRound": null },
        "signature": "0x8c3c38d9e33b66d57523d4609bee0edfacdee3dfbcdce6e16bea788e9aed7839648ebdeda0c441535a2133500de53fe3aaf4baf6a754bcf834c839f49754b55601" },
        "block": null, "prepares": [] },
        "rlp": "0xf84bf847c30180c0b8418c3c38d9e33b66d57523d4609bee0edfacdee3dfbcdce6e16bea788e9aed7839648ebdeda0c441535a2133500de53fe3aaf4baf6a754bcf834c839f49754b55601c0c0" }
    }"#;
    assert_eq!(check_cases(text, &[Form::BESU]), 2);
}

/// Signed by the validator of those vectors: who signed what is known, so the hash is right.
#[test]
fn hashes_what_besu_hashes() {
    let text = "0xf867e30180a0641c42a09c96374e2fb362ecd573d24e832e6a2b4ef155257ab362415a0b88a4b841443dbefb34b6ad272d12214de75d723fe6ab6d544309b99c162c9617ccd7f54357e9c54d04fb951a394903212392db407c0d6939401afdb15fc0e47aa77471be01";
    let packet = Packet { code: 0x13, bytes: hex::decode(text).expect("well formed").into() };
    let protocol = Protocol::Qbft(Form::BESU);
    let message = Message::decode(protocol, &packet).expect("well formed");
    let key = tally_consensus::SecretKey::from_bytes(&[9; 32]).expect("well formed");
    let Message::Prepare(prepare) = &message else { panic!("a prepare message") };
    // rlp([0x13, [1, 0, digest]])
    let mut preimage = hex::decode("e513e30180a0").expect("well formed");
    preimage.extend_from_slice(prepare.payload.digest.as_slice());
    let hash = alloy_primitives::keccak256(&preimage);
    assert_eq!(tally_consensus::message::prepare_hash(protocol, &prepare.payload), hash);
    assert_eq!(message.author(protocol, &key), tally_consensus::recover(hash, &prepare.seal));
    // IBFT 2.0: keccak256(code ‖ payload).
    let mut preimage = hex::decode("01ef8800000000000000018400000000a0").expect("well formed");
    preimage.extend_from_slice(prepare.payload.digest.as_slice());
    let hash = alloy_primitives::keccak256(&preimage);
    assert_eq!(tally_consensus::message::prepare_hash(Protocol::Ibft2, &prepare.payload), hash);
}

fn block(protocol: Protocol, round: u32) -> Block {
    let mut extra = ExtraData::of_validators(&[Address::repeat_byte(1), Address::repeat_byte(2)]);
    extra.round = round;
    let header = alloy_consensus::Header {
        number: 7,
        extra_data: extra.encode(protocol, tally_consensus::Cover::Everything).into(),
        ..Default::default()
    };
    let mut payload = alloy_rlp::encode(&header);
    payload.extend_from_slice(&[0xc2, 0x01, 0x02, 0xc0]);
    let mut bytes = Vec::new();
    alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(&mut bytes);
    bytes.extend_from_slice(&payload);
    Block::decode(protocol, bytes.into()).expect("well formed")
}

fn any_seal() -> impl Strategy<Value = Seal> {
    (any::<[u8; 32]>(), any::<[u8; 32]>(), 0_u8..2)
        .prop_map(|(r, s, id)| Seal::from_slice(&[&r[..], &s[..], &[id]].concat()).expect("well formed"))
}

fn any_view() -> impl Strategy<Value = View> {
    (any::<u64>(), any::<u32>()).prop_map(|(height, round)| View { height, round })
}

fn any_prepare() -> impl Strategy<Value = Signed<Prepare>> {
    (any_view(), any::<[u8; 32]>(), any_seal()).prop_map(|(view, digest, seal)| Signed {
        payload: Prepare { view, digest: B256::new(digest) },
        seal,
    })
}

fn any_change(protocol: Protocol) -> impl Strategy<Value = Signed<RoundChangePayload>> {
    let certificate = (any_seal(), prop::collection::vec(any_prepare(), 0..4));
    let prepared = prop::option::of((any::<u32>(), any::<[u8; 32]>(), certificate));
    (any_view(), prepared, any_seal()).prop_map(move |(view, prepared, seal)| {
        let prepared = prepared.map(|(round, digest, (proposal_seal, prepares))| PreparedRound {
            round,
            digest: B256::new(digest),
            certificate: (protocol == Protocol::Ibft2).then_some(Certificate { proposal_seal, prepares }),
        });
        Signed { payload: RoundChangePayload { view, prepared }, seal }
    })
}

fn any_message(protocol: Protocol) -> impl Strategy<Value = Message> {
    let qbft = protocol.proposer_prepares();
    let prepares = move || prop::collection::vec(any_prepare(), 0..if qbft { 4 } else { 1 });
    prop_oneof![
        any_prepare().prop_map(Message::Prepare),
        (any_prepare(), any_seal()).prop_map(|(prepare, commit_seal)| {
            let Prepare { view, digest } = prepare.payload;
            Message::Commit(Signed { payload: Commit { view, digest, commit_seal }, seal: prepare.seal })
        }),
        (any_change(protocol), any::<bool>(), any::<u32>(), prepares()).prop_map(
            move |(signed, has_block, round, prepares)| {
                let block = has_block.then(|| block(protocol, round));
                Message::RoundChange(Box::new(RoundChange { signed, block, prepares }))
            }
        ),
        (any_view(), any_seal(), prop::collection::vec(any_change(protocol), 0..4), prepares()).prop_map(
            move |(view, seal, round_changes, prepares)| {
                let block = block(protocol, view.round);
                Message::Proposal(Box::new(Proposal { view, block, seal, round_changes, prepares }))
            }
        ),
    ]
}

fn with_protocol() -> impl Strategy<Value = (Protocol, Message)> {
    prop::sample::select(PROTOCOLS.to_vec())
        .prop_flat_map(|protocol| any_message(protocol).prop_map(move |message| (protocol, message)))
}

proptest! {
    #[test]
    fn every_message_can_be_read_again((protocol, message) in with_protocol()) {
        let packet = message.encode(protocol);
        prop_assert_eq!(Message::decode(protocol, &packet), Ok(message));
    }

    /// Whatever is read is written as it was: there is one form only.
    #[test]
    fn damaged_messages_are_refused_or_canonical(
        (protocol, message) in with_protocol(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()
    ) {
        let packet = message.encode(protocol);
        let mut bytes = packet.bytes.to_vec();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let packet = Packet { bytes: bytes.into(), ..packet };
        if let Ok(message) = Message::decode(protocol, &packet) {
            prop_assert_eq!(message.encode(protocol), packet);
        }
    }

    #[test]
    fn any_bytes_are_survived(code in any::<u8>(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for protocol in PROTOCOLS {
            let packet = Packet { code, bytes: bytes.clone().into() };
            if let Ok(message) = Message::decode(protocol, &packet) {
                prop_assert_eq!(message.encode(protocol), packet);
            }
            let _ = ExtraData::decode(protocol, &bytes);
            let _ = Block::decode(protocol, bytes.clone().into());
        }
    }
}

#[test]
fn refuses_what_is_not_the_form() {
    use tally_consensus::MessageError;
    let packet = Packet { code: 0x16, bytes: Bytes::new() };
    assert_eq!(Message::decode(Protocol::QBFT, &packet), Err(MessageError::Code(0x16)));
    // Numbers where fixed widths are expected, and the other way round.
    let Ok(vector) = serde_json::from_str::<Value>(include_str!("data/rlp_messages.json")) else {
        panic!("JSON")
    };
    let packet = Packet { code: 0x13, bytes: bytes(&vector[1]["output"]) };
    let error = Message::decode(Protocol::Qbft(Form::BESU), &packet).unwrap_err();
    let MessageError::Form(error) = error else { panic!("{error}") };
    assert_eq!(error.to_string(), "sequence: a number with a leading zero");
    // A byte too many, within or behind.
    let mut longer = packet.bytes.to_vec();
    longer.push(0);
    assert!(Message::decode(Protocol::QBFT, &Packet { code: 0x13, bytes: longer.into() }).is_err());
}
