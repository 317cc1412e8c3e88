//! Extra data and the hashes of headers, against published vectors.

use alloy_consensus::Header;
use alloy_primitives::{Address, B64, B256, Bytes, U256, b256, hex};
use tally_consensus::qbft::Form;
use tally_consensus::{
    Block, Cover, Expectation, ExtraData, HeaderError, Keys, Protocol, Seal, SecretKey, ValidatorSet,
    ValidatorsFrom, Vote, block_hash, hash_covering,
};

const QBFT: Protocol = Protocol::Qbft(Form::BESU);

fn key(n: u8) -> SecretKey {
    let mut scalar = [0; 32];
    scalar[31] = n;
    SecretKey::from_bytes(&scalar).expect("well formed")
}

/// Consensys/qbft-tests, `BftBlockHeaderHashTests/bft_block_headers_data.json` (Apache-2.0); its extra data has
/// the form that IBFT 2.0 still has.
fn published_header() -> Header {
    let extra = "f90178a0000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1fea940000000000000000000000000000000000000001940000000000000000000000000000000000000002d794000000000000000000000000000000000000000381ff8400fedcbaf9010cb8412d98a30d2844aa05b4fcf3abcd333e195d4ad365726a7b9a5bc19744dcec0ad42d129ad2890b86c32a969a9b511d8c1c846f7eb694455bb29b7365ab260a188100b8416e65e1097c802f12fe12048871f228fc394fb005cbf5c55225adbff7e82c94d352fc83967effa3a777a9d50e677108b732258c7ef6e1a3e8fc34919b90e0f34e00b841b8462060df24936c7da7413fbf8ac706775d06ba052831075fd2059458ca91e971f35a7a90ec5225328fe25d6dec51de3a2d71e81a581ceb98acdafd5bcd12f801b841be1cb71a2525013ae8ac676505597229265960b4d34654dc88249d1bc7e07a324f44b16542adad19bddade1785ac9687b656cbf64685a2e6e6b4f04d9aad23cd00";
    Header {
        parent_hash: b256!("a7762d3307dbf2ae6a1ae1b09cf61c7603722b2379731b6b90409cdb8c8288a0"),
        state_root: b256!("ca07595b82f908822971b7e848398e3395e59ee52565c7ef3603df1a1fa7bc80"),
        difficulty: U256::from(1),
        number: 1,
        gas_limit: 4_704_588,
        timestamp: 1_530_674_616,
        extra_data: hex::decode(extra).expect("well formed").into(),
        mix_hash: tally_consensus::MIX_HASH,
        ..Header::default()
    }
}

#[test]
fn hashes_are_the_published_ones() {
    let header = published_header();
    let extra = ExtraData::decode(Protocol::Ibft2, &header.extra_data).expect("well formed");
    assert_eq!(extra.round, 0x00fe_dcba);
    assert_eq!(extra.vote, Some(Vote { recipient: Address::with_last_byte(3), add: true }));
    assert_eq!(extra.encode(Protocol::Ibft2, Cover::Everything), header.extra_data);
    let on_chain = b256!("8d8736980278155e486cf0543c0a53cd3a3c961c3b976c6a4ac7dc5310dad88d");
    assert_eq!(block_hash(Protocol::Ibft2, &header), Ok(on_chain));
    let sealed = b256!("b1d26d018658f2556a2c3f0080596055cb0d05bcab91397f8ae8f01ea831559c");
    assert_eq!(hash_covering(Protocol::Ibft2, &header, &extra, Cover::WithoutSeals), sealed);
    // The seals are of the private keys 1 to 4.
    for (n, seal) in (1..).zip(&extra.seals) {
        assert_eq!(tally_consensus::recover(sealed, seal), Some(key(n).address()));
    }
    assert_eq!(extra.seals.len(), 4);
}

#[test]
fn extra_data_of_either_protocol() {
    let seal = |a: u8, b: u8| {
        let mut bytes = [0; 65];
        (bytes[31], bytes[63]) = (a, b);
        Seal::from_slice(&bytes).expect("well formed")
    };
    let extra = ExtraData {
        vanity: vec![7; 32],
        validators: vec![Address::with_last_byte(1), Address::with_last_byte(2)],
        vote: Some(Vote { recipient: Address::with_last_byte(1), add: false }),
        round: 1,
        seals: vec![seal(1, 10), seal(10, 1)],
    };
    let vanity = "07".repeat(32);
    let validators = "ea940000000000000000000000000000000000000001940000000000000000000000000000000000000002";
    let (one, ten) = (format!("{:064x}", 1), format!("{:064x}", 10));
    let seals = format!("f886b841{one}{ten}00b841{ten}{one}00");
    let vote = "d6940000000000000000000000000000000000000001";
    let qbft = format!("f8eca0{vanity}{validators}{vote}8001{seals}");
    assert_eq!(hex::encode(extra.encode(QBFT, Cover::Everything)), qbft);
    let ibft = format!("f8f0a0{vanity}{validators}{vote}008400000001{seals}");
    assert_eq!(hex::encode(extra.encode(Protocol::Ibft2, Cover::Everything)), ibft);
    for protocol in [QBFT, Protocol::Ibft2] {
        let bytes = extra.encode(protocol, Cover::Everything);
        assert_eq!(ExtraData::decode(protocol, &bytes).as_ref(), Ok(&extra));
        let sealed = ExtraData { seals: Vec::new(), ..extra.clone() };
        let unsealed = extra.encode(protocol, Cover::WithoutSeals);
        if protocol == QBFT {
            assert_eq!(ExtraData::decode(protocol, &unsealed), Ok(sealed));
        } else {
            assert!(ExtraData::decode(protocol, &unsealed).is_err(), "IBFT 2.0 leaves the list of seals out");
        }
    }
    // What one protocol writes, the other does not take for its own.
    assert!(ExtraData::decode(QBFT, &hex::decode(ibft).expect("well formed")).is_err());
    assert!(ExtraData::decode(Protocol::Ibft2, &hex::decode(qbft).expect("well formed")).is_err());
}

/// From genesis files of networks that run: QBFT by `quorum-genesis-tool`, IBFT 2.0 by `besu operator`.
#[test]
fn reads_the_extra_data_of_existing_networks() {
    let qbft = "f87aa00000000000000000000000000000000000000000000000000000000000000000f8549493917cadbace5dfce132b991732c6cda9bcc5b8a9427a97c9aaf04f18f3014c32e036dd0ac76da5f1894ce412f988377e31f4d0ff12d74df73b51c42d0ca9498c1334496614aed49d2e81526d089f7264fed9cc080c0";
    let ibft = "f87ea00000000000000000000000000000000000000000000000000000000000000000f85494c98adee2e27b436582259500797fa6633f88367f941a82f57f6a423b19cc1b47be00a9336386363caf948e9a8b35a3f31344e596196a6911799d9dc49c9494df536f1174a453f63f8a97ee30853b31cbbe913a808400000000c0";
    for (protocol, text) in [(QBFT, qbft), (Protocol::Ibft2, ibft)] {
        let bytes = hex::decode(text).expect("well formed");
        let extra = ExtraData::decode(protocol, &bytes).expect("well formed");
        assert_eq!(extra.validators.len(), 4);
        assert_eq!(extra, ExtraData::of_validators(&extra.validators));
        assert_eq!(extra.encode(protocol, Cover::Everything), bytes);
    }
}

fn sealed_block(protocol: Protocol, signers: &[u8]) -> (Block, ValidatorSet) {
    let validators = ValidatorSet::new((1..=4).map(|n| key(n).address()).collect());
    let mut extra = ExtraData::of_validators(validators.addresses());
    extra.round = 3;
    let header = Header {
        beneficiary: validators.addresses()[0],
        difficulty: U256::from(1),
        number: 9,
        timestamp: 100,
        mix_hash: tally_consensus::MIX_HASH,
        extra_data: extra.encode(protocol, Cover::Everything).into(),
        ..Header::default()
    };
    let mut payload = alloy_rlp::encode(&header);
    payload.extend_from_slice(&[0xc0, 0xc0]);
    let mut bytes = Vec::new();
    alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(&mut bytes);
    bytes.extend_from_slice(&payload);
    let block = Block::decode(protocol, bytes.into()).expect("well formed");
    let seals = signers.iter().map(|n| key(*n).sign(block.digest()).expect("well formed")).collect();
    (block.with_seals(seals), validators)
}

#[test]
fn a_block_is_the_same_in_every_round() {
    for protocol in [QBFT, Protocol::Ibft2] {
        let (block, _) = sealed_block(protocol, &[1, 2, 3]);
        let again = block.with_round(4);
        assert_eq!((again.round(), block.round()), (4, 3));
        assert_eq!(again.hash(), block.hash());
        assert_ne!(again.digest(), block.digest());
        assert!(again.extra().seals.is_empty());
        assert_eq!(again.with_round(3).digest(), block.digest());
        assert_eq!(Block::decode(protocol, block.bytes().clone()), Ok(block.clone()));
        assert_eq!(block_hash(protocol, block.header()), Ok(block.hash()));
    }
}

#[test]
fn seals_must_be_a_quorum_of_distinct_validators() {
    for protocol in [QBFT, Protocol::Ibft2] {
        let check = |signers: &[u8]| {
            let (block, validators) = sealed_block(protocol, signers);
            let expectation = Expectation {
                protocol,
                validators: &validators,
                named: ValidatorsFrom::Headers,
                earliest_s: 100,
            };
            expectation.check_seals(block.header(), block.extra(), &key(1))
        };
        assert_eq!(check(&[1, 2, 3]), Ok(()));
        assert_eq!(check(&[4, 2, 3, 1]), Ok(()));
        assert_eq!(check(&[1, 2]), Err(HeaderError::Quorum { found: 2, quorum: 3 }));
        assert_eq!(check(&[1, 2, 2]), Err(HeaderError::Seal(2)));
        assert_eq!(check(&[1, 5, 2, 3]), Err(HeaderError::Seal(1)));
        assert_eq!(check(&[1, 2, 3, 4, 1]), Err(HeaderError::Seal(4)));
    }
}

type Change = fn(&mut Header, &mut ExtraData);

#[test]
fn headers_keep_the_rules() {
    let changes: [(Change, HeaderError); 8] = [
        (|header, _| header.difficulty = U256::from(2), HeaderError::Difficulty(U256::from(2))),
        (|header, _| header.mix_hash = B256::ZERO, HeaderError::MixHash(B256::ZERO)),
        (|header, _| header.ommers_hash = B256::ZERO, HeaderError::Ommers),
        (|header, _| header.nonce = B64::with_last_byte(1), HeaderError::Nonce(B64::with_last_byte(1))),
        (|_, extra| extra.vanity.push(0), HeaderError::Vanity(33)),
        (|_, extra| extra.validators.reverse(), HeaderError::Validators),
        (|header, _| header.beneficiary = Address::ZERO, HeaderError::Proposer(Address::ZERO)),
        (|header, _| header.timestamp = 99, HeaderError::Early { timestamp: 99, earliest: 100 }),
    ];
    let (block, validators) = sealed_block(Protocol::Ibft2, &[]);
    let expectation = Expectation {
        protocol: Protocol::Ibft2,
        validators: &validators,
        named: ValidatorsFrom::Headers,
        earliest_s: 100,
    };
    assert_eq!(expectation.check(block.header(), block.extra()), Ok(()));
    for (change, expected) in changes {
        let (mut header, mut extra) = (block.header().clone(), block.extra().clone());
        change(&mut header, &mut extra);
        assert_eq!(expectation.check(&header, &extra), Err(expected));
    }
    // QBFT leaves the nonce free, as Besu does.
    let header = Header { nonce: B64::with_last_byte(1), ..block.header().clone() };
    assert_eq!(Expectation { protocol: QBFT, ..expectation }.check(&header, block.extra()), Ok(()));
    // A contract names the validators: the header must not.
    let contract = Expectation { named: ValidatorsFrom::Contract, ..expectation };
    assert_eq!(contract.check(block.header(), block.extra()), Err(HeaderError::Validators));
    let empty = ExtraData { validators: Vec::new(), ..block.extra().clone() };
    assert_eq!(contract.check(block.header(), &empty), Ok(()));
    let vote = Some(Vote { recipient: Address::ZERO, add: true });
    assert_eq!(contract.check(block.header(), &ExtraData { vote, ..empty }), Err(HeaderError::Vote));
}

#[test]
fn blocks_that_are_none() {
    for text in ["", "80", "c0", "c1c0", "c28080"] {
        let bytes: Bytes = hex::decode(text).expect("well formed").into();
        assert!(Block::decode(QBFT, bytes).is_err(), "{text}");
    }
}
