use alloy_primitives::{address, b256};

use super::*;
use crate::tool::Memory;

/// As in Besu's tutorial for private networks with QBFT.
const BESU_QBFT: &str = r#"{
  "config": {
    "chainid": 1337,
    "berlinBlock": 0,
    "qbft": {
      "blockperiodseconds": 2,
      "epochlength": 30000,
      "requesttimeoutseconds": 4,
      "unknownOption": 7 // kept
    },
    "transitions": {
      "qbft": [
        { "block": 1240, "validatorselectionmode": "contract",
          "validatorcontractaddress": "0x0000000000000000000000000000000000007777" },
        { "block": 100, "blockperiodseconds": 4, "blockreward": "0x10", "miningbeneficiary": "" }
      ]
    }
  },
  "nonce": "0x0",
  "timestamp": "0x58ee40ba",
  "gasLimit": "0x47b760",
  "difficulty": "0x1",
  "mixHash": "0x63746963616c2062797a616e74696e65206661756c7420746f6c6572616e6365",
  "coinbase": "0x0000000000000000000000000000000000000000",
  "alloc": {
    "fe3b557e8fb62b89f4916b721be55ceb828dbd73": {
      "privateKey": "8f2a55949038a9610f50fb23b5883af3b4ecb3c3bb792cbcefbd1542c692be63",
      "comment": "http://not-a-comment",
      "balance": "0xad78ebc5ac6200000"
    },
    "0x627306090abaB3A6e1400e9345bC60c78a8BEf57": { "balance": "90000000000000000000000" },
    "0x0000000000000000000000000000000000007777": {
      "balance": "0", "code": "0x6001", "storage": { "0x0": "0x01", "01": "0x0" }
    }
  },
  "extraData": "0xf87aa00000000000000000000000000000000000000000000000000000000000000000c0c080c0"
}"#;

#[test]
fn a_qbft_file_of_besu_is_read() {
    let genesis = Genesis::parse(BESU_QBFT).unwrap();
    let Consensus::Qbft(qbft) = &genesis.consensus else { panic!("{:?}", genesis.consensus) };
    assert_eq!((qbft.block_period_seconds, qbft.request_timeout_seconds), (2, 4));
    assert_eq!(qbft.all["unknownOption"], 7);
    assert_eq!(qbft.transitions.iter().map(|transition| transition.block).collect::<Vec<_>>(), [100, 1240]);
    assert_eq!(qbft.at(99).block_period_seconds, 2);
    assert_eq!(qbft.at(100).block_reward, U256::from(16));
    let contract = address!("0000000000000000000000000000000000007777");
    assert_eq!(qbft.at(1239).validator_contract_address, None);
    assert_eq!(qbft.at(1240).validator_contract_address, Some(contract));

    let schedule = genesis.schedule().unwrap();
    assert!(schedule.sealed);
    assert_eq!(schedule.chain_id, 1337);
    assert_eq!(schedule.fork(0, 0, false), Fork::Berlin);
    assert_eq!(genesis.alloc.len(), 3);
    assert_eq!(genesis.alloc[&contract].storage, BTreeMap::from([(U256::ZERO, U256::ONE)]));
    let header = genesis.header(&schedule, B256::ZERO);
    assert_eq!(header.base_fee_per_gas, None);
    assert_eq!(header.timestamp, 0x58ee40ba);
}

#[test]
fn forks_add_their_fields_to_the_first_header() {
    let file = |config: &str| {
        let text = format!(r#"{{"config":{config},"gasLimit":"0x1000000","difficulty":1}}"#);
        let genesis = Genesis::parse(&text).unwrap();
        genesis.header(&genesis.schedule().unwrap(), B256::ZERO)
    };
    let london = file(r#"{"chainId":1,"londonBlock":0}"#);
    assert_eq!(london.base_fee_per_gas, Some(1_000_000_000));
    assert_eq!(london.withdrawals_root, None);
    let prague = file(r#"{"londonBlock":0,"terminalTotalDifficulty":0,"pragueTime":0}"#);
    assert_eq!(prague.withdrawals_root, Some(EMPTY_WITHDRAWALS));
    assert_eq!((prague.blob_gas_used, prague.excess_blob_gas), (Some(0), Some(0)));
    assert_eq!(prague.requests_hash, Some(EMPTY_REQUESTS_HASH));
    assert_eq!(prague.block_access_list_hash, None);
}

/// Besu's `GenesisConfig.getGenesisBaseFeePerGas`: the file's own value, else 1 gwei if `londonBlock` is 0, else none, and
/// then none of the fields after it (`BlockHeader.writeTo`). `zeroBaseFee` is for the blocks after (`ZeroBaseFeeMarket`).
#[test]
fn the_first_header_of_a_network_of_validators_has_the_base_fee_that_besu_gives_it() {
    let file = |config: &str, fee: &str| {
        let text =
            format!(r#"{{"config":{{"qbft":{{}},{config}}},"gasLimit":"0x1000000",{fee}"difficulty":1}}"#);
        let genesis = Genesis::parse(&text).unwrap();
        let schedule = genesis.schedule().unwrap();
        (genesis.header(&schedule, B256::ZERO), schedule)
    };
    let gwei = Some(1_000_000_000);
    let zero = r#""baseFeePerGas":"0x0","#;
    let seven = r#""baseFeePerGas":"0x7","#;
    for (config, fee, expected) in [
        (r#""londonBlock":0"#, "", gwei),
        (r#""londonBlock":0,"zeroBaseFee":true"#, "", gwei),
        (r#""londonBlock":0,"zeroBaseFee":true"#, zero, Some(0)),
        (r#""londonBlock":0,"zeroBaseFee":true"#, seven, Some(7)),
        (r#""londonBlock":1,"zeroBaseFee":true"#, "", None),
        (r#""londonBlock":1,"zeroBaseFee":true"#, seven, Some(7)),
        (r#""shanghaiTime":0,"zeroBaseFee":true"#, "", None),
        (r#""londonBlock":0,"shanghaiTime":0,"zeroBaseFee":true"#, "", gwei),
    ] {
        let (header, schedule) = file(config, fee);
        assert_eq!(header.base_fee_per_gas, expected, "{config} {fee}");
        // Every block after the first is free.
        let next = crate::block::next_base_fee(&schedule, &header, 1);
        assert!(!schedule.zero_base_fee || next == Some(0), "{config} {fee}: {next:?}");
    }
    // Without a base fee the header ends after the nonce, whatever later forks would add.
    let (header, _) = file(r#""pragueTime":0,"zeroBaseFee":true"#, "");
    let (berlin, _) = file(r#""berlinBlock":0"#, "");
    assert_eq!(header.hash_slow(), berlin.hash_slow());
    let (prague, _) = file(r#""londonBlock":0,"pragueTime":0,"zeroBaseFee":true"#, "");
    assert_eq!(prague.requests_hash, Some(EMPTY_REQUESTS_HASH));
    // `zeroBaseFee` changes nothing about the first block.
    let (free, _) = file(r#""londonBlock":0,"zeroBaseFee":true"#, "");
    let (paid, _) = file(r#""londonBlock":0"#, "");
    assert_eq!(free.hash_slow(), paid.hash_slow());
}

#[test]
fn the_first_block_of_mainnet_without_accounts_has_its_fields() {
    // The header of Ethereum's first block; only its state is not given here.
    let text = r#"{"config":{"chainId":1,"homesteadBlock":1150000},"nonce":"0x42","gasLimit":"0x1388",
        "difficulty":"0x400000000",
        "extraData":"0x11bbe8db4e347b4e8c937c1c8370e4b5ed33adb3db69cbdb7a38e1e50b1b82fa"}"#;
    let genesis = Genesis::parse(text).unwrap();
    let root = b256!("d7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544");
    let header = genesis.header(&genesis.schedule().unwrap(), root);
    let hash = b256!("d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3");
    assert_eq!(header.hash_slow(), hash);
}

#[test]
fn changes_and_the_naive_state_agree() {
    let genesis = Genesis::parse(BESU_QBFT).unwrap();
    let mut state = Memory::default();
    state.apply(&genesis.changes());
    assert_eq!(state.root(), Memory::of(&genesis.alloc).root());
}

#[test]
fn errors_name_the_field() {
    let error = |text: &str| {
        let genesis = Genesis::parse(text);
        match genesis.and_then(|genesis| genesis.schedule()) {
            Ok(_) => panic!("{text} was taken"),
            Err(error) => error.to_string(),
        }
    };
    assert!(error("{").contains("not JSON"));
    assert!(error("[]").contains("an object was expected"));
    assert!(error(r#"{"difficulty":"1"}"#).contains("`gasLimit`"));
    assert!(error(r#"{"gasLimit":"0xg","difficulty":"1"}"#).contains("`gasLimit`"));
    assert!(error(r#"{"gasLimit":1.5,"difficulty":"1"}"#).contains("`gasLimit`"));
    let base = r#""gasLimit":1,"difficulty":"1""#;
    let in_qbft = error(&format!(r#"{{{base},"config":{{"qbft":{{"blockperiodseconds":0}}}}}}"#));
    assert!(in_qbft.contains("`config.qbft.blockperiodseconds`"), "{in_qbft}");
    let in_transition = error(&format!(
        r#"{{{base},"config":{{"qbft":{{}},"transitions":{{"qbft":[{{"block":1}},{{}}]}}}}}}"#
    ));
    assert!(in_transition.contains("`config.transitions.qbft[1].block`"), "{in_transition}");
    let transition = |options: &str| {
        error(&format!(
            r#"{{{base},"config":{{"qbft":{{}},"transitions":{{"qbft":[{{"block":1,{options}}}]}}}}}}"#
        ))
    };
    // As Besu, which starts with neither: the validators before a contract's are nobody's choice.
    for options in [
        r#""validatorselectionmode":"blockheader""#,
        r#""validatorselectionmode":"blockheader","validators":[]"#,
        r#""validators":[]"#,
    ] {
        let refused = transition(options);
        assert!(refused.contains("`config.transitions.qbft[0].validators`"), "{refused}");
    }
    let nowhere = transition(r#""validatorselectionmode":"contract""#);
    assert!(nowhere.contains("`config.transitions.qbft[0].validatorcontractaddress`"), "{nowhere}");
    let address = error(&format!(r#"{{{base},"alloc":{{"0x12":{{}}}}}}"#));
    assert!(address.contains("`alloc.0x12`"), "{address}");
    let order = error(&format!(r#"{{{base},"config":{{"berlinBlock":5,"londonBlock":4}}}}"#));
    assert!(order.contains("`config.londonBlock`") && order.contains("berlinBlock"), "{order}");
    let curve = error(&format!(r#"{{{base},"config":{{"ecCurve":"secp256r1"}}}}"#));
    assert!(curve.contains("`config.ecCurve`"), "{curve}");
    let twice = error(&format!(
        r#"{{{base},"alloc":{{"0x0000000000000000000000000000000000000001":{{}},"0000000000000000000000000000000000000001":{{}}}}}}"#
    ));
    assert!(twice.contains("twice"), "{twice}");
}

#[test]
fn text_that_was_cut_or_changed_never_panics() {
    for end in 0..BESU_QBFT.len() {
        let _ = Genesis::parse(&BESU_QBFT[..end]);
    }
    for (index, _) in BESU_QBFT.char_indices() {
        for replacement in ["\"", "0", "-", "{", "/*"] {
            let mut text = BESU_QBFT.to_owned();
            text.replace_range(index..=index, replacement);
            let _ = Genesis::parse(&text).and_then(|genesis| genesis.schedule());
        }
    }
}
