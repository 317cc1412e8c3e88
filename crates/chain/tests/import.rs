//! Importing files of blocks: a chain through every fork, branches, damage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;

use alloy_primitives::{Address, B256, Bytes, U256};
use tally_chain::chain::{Attributes, Commit};
use tally_chain::files::{self, FileError, Progress};
use tally_chain::{BlockId, Chain, Event, Options};
use tally_evm::{Block, Genesis};
use tally_state::{Database, Durability, Read};

fn reference(name: &str) -> Option<PathBuf> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/ethereum").join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

fn import(chain: &Chain, file: &[u8]) -> Result<Progress, FileError> {
    files::import(chain, file, 2, &mut |_| ())
}

#[test]
fn a_chain_through_every_fork_is_imported_exported_and_found_again() {
    let Some(directory) = reference("rpc-compat") else { return };
    let text = std::fs::read_to_string(directory.join("genesis.json")).unwrap();
    let file = std::fs::read(directory.join("chain.rlp")).unwrap();
    let head: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(directory.join("headfcu.json")).unwrap()).unwrap();
    let head: B256 = head["params"][0]["headBlockHash"].as_str().unwrap().parse().unwrap();

    let database = Database::in_memory();
    let chain = Chain::open(database.clone(), Genesis::parse(&text).unwrap(), Options::default()).unwrap();
    let progress = import(&chain, &file).unwrap();
    assert_eq!(chain.head().hash(), head);
    assert_eq!(progress.blocks, chain.head().number());

    let mut exported = Vec::new();
    files::export(&chain, 1..=u64::MAX, &mut exported).unwrap();
    assert_eq!(exported, file);
    let again = import(&chain, &file).unwrap();
    assert_eq!((again.blocks, again.known), (0, progress.blocks));

    drop(chain);
    let chain = Chain::open(database, Genesis::parse(&text).unwrap(), Options::default()).unwrap();
    assert_eq!(chain.head().hash(), head);
    let reader = chain.reader();
    for number in 0..=chain.head().number() {
        let block = reader.block(BlockId::Number(number)).unwrap().unwrap();
        for (index, transaction) in (0..).zip(&block.transactions) {
            let place = reader.place(transaction.hash()).unwrap().unwrap();
            assert_eq!((place.block, place.index), (number, index));
            assert_eq!(reader.transaction(place).unwrap().unwrap().sender(), transaction.sender());
        }
        assert_eq!(block.encode().len() as u64, block.sealed.size);
    }
}

#[test]
fn a_damaged_file_is_refused_at_its_place_and_what_came_before_stays() {
    let Some(directory) = reference("rpc-compat") else { return };
    let text = std::fs::read_to_string(directory.join("genesis.json")).unwrap();
    let file = std::fs::read(directory.join("chain.rlp")).unwrap();
    let open = || {
        let genesis = Genesis::parse(&text).unwrap();
        Chain::open(Database::in_memory(), genesis, Options::default()).unwrap()
    };
    for cut in [1, 2, 3, 700, file.len() - 1] {
        let chain = open();
        let error = import(&chain, &file[..cut]).unwrap_err();
        assert!(matches!(error, FileError::NoBlock { .. }), "{cut}: {error}");
        // All that came before is there.
        assert_eq!(chain.head().number() > 0, cut > 1_000);
    }
    // Any bit of a block's header or body that is flipped makes it another block.
    for at in (5..2_000).step_by(97) {
        let chain = open();
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        assert!(import(&chain, &damaged).is_err(), "{at}");
    }
    let chain = open();
    assert!(matches!(import(&chain, b"no blocks"), Err(FileError::NoBlock { offset: 0, .. })));
}

fn merged() -> Genesis {
    Genesis::from_value(&serde_json::json!({
        "config": { "chainId": 5, "terminalTotalDifficulty": 0, "londonBlock": 0, "berlinBlock": 0 },
        "gasLimit": "0x1c9c380", "difficulty": "0x0", "timestamp": "0x1",
        "alloc": { Address::repeat_byte(1).to_string(): { "balance": "0x10" } },
    }))
    .unwrap()
}

/// Builds empty blocks on a chain of its own, each paying another beneficiary, and gives their encodings.
fn branch(genesis: &Genesis, shared: &[Bytes], length: usize, beneficiary: u8) -> Vec<Bytes> {
    let chain = Chain::open(Database::in_memory(), genesis.clone(), Options::default()).unwrap();
    for block in shared {
        take(&chain, block);
    }
    (0..length)
        .map(|_| {
            let head = chain.head();
            let attributes = Attributes {
                timestamp: head.sealed().header.timestamp + 1,
                beneficiary: Address::repeat_byte(beneficiary),
                extra_data: Bytes::new(),
                mix_hash: B256::ZERO,
                gas_limit: head.sealed().header.gas_limit,
                withdrawals: Vec::new(),
                parent_beacon_block_root: None,
                until: None,
            };
            let built = chain.build(&head.branch, attributes, []).unwrap();
            let encoded = built.candidate.block.encode().into();
            chain.commit(&[built.candidate], Durability::Buffered, |_| ()).unwrap();
            encoded
        })
        .collect()
}

fn take(chain: &Chain, encoded: &Bytes) -> Commit {
    let block = Block::decode(encoded).unwrap();
    chain.import(chain.prepare(block, encoded.len() as u64, &|_| None, 1).unwrap()).unwrap()
}

#[test]
fn a_longer_branch_takes_the_place_of_the_head() {
    let genesis = merged();
    let trunk = branch(&genesis, &[], 2, 7);
    let short = branch(&genesis, &trunk, 2, 8);
    let long = branch(&genesis, &trunk, 3, 9);
    let database = Database::in_memory();
    let chain = Chain::open(database.clone(), genesis.clone(), Options::default()).unwrap();
    let mut events = chain.subscribe();
    for block in trunk.iter().chain(&short) {
        assert_eq!(take(&chain, block), Commit::Head);
    }
    assert_eq!(take(&chain, &long[0]), Commit::Branch);
    assert_eq!(take(&chain, &long[0]), Commit::Known);
    assert_eq!(take(&chain, &long[1]), Commit::Branch);
    assert_eq!(chain.head().number(), 4);
    assert_eq!(take(&chain, &long[2]), Commit::Reorganised { ancestor: 2 });
    assert_eq!(chain.head().number(), 5);
    let reader = chain.reader();
    for (number, block) in (1..).zip(trunk.iter().chain(&long)) {
        assert_eq!(reader.rlp(number).unwrap().as_ref(), Some(block));
    }
    let mut told = Vec::new();
    while let Ok(event) = events.try_recv() {
        told.push(match event {
            Event::Head(block) => block.number() as i64,
            Event::Removed(blocks) => -(blocks.len() as i64),
        });
    }
    assert_eq!(told, [1, 2, 3, 4, -2, 3, 4, 5]);
    // And back, after the process was started anew.
    drop(chain);
    let chain = Chain::open(database, genesis.clone(), Options::default()).unwrap();
    let longest = branch(&genesis, &[&trunk[..], &short].concat(), 2, 8);
    assert_eq!(take(&chain, &longest[0]), Commit::Branch);
    assert_eq!(take(&chain, &longest[1]), Commit::Reorganised { ancestor: 2 });
    let account = chain.head().branch.view.account(Address::repeat_byte(1)).unwrap().unwrap();
    assert_eq!(account.balance, U256::from(0x10));
}

#[test]
fn another_genesis_is_refused() {
    let database = Database::in_memory();
    drop(Chain::open(database.clone(), merged(), Options::default()).unwrap());
    let other = Genesis { timestamp: 2, ..merged() };
    let error = Chain::open(database, other, Options::default()).unwrap_err();
    assert!(error.to_string().contains("holds a chain with genesis"), "{error}");
}

#[test]
fn a_genesis_whose_validators_cannot_be_told_writes_nothing() {
    let sealed = |extra: &str| {
        let genesis = serde_json::json!({
            "config": { "chainId": 5, "berlinBlock": 0, "qbft": { "blockperiodseconds": 1 } },
            "gasLimit": "0x1c9c380", "difficulty": "0x1", "mixHash": tally_consensus::MIX_HASH, "extraData": extra,
        });
        Genesis::from_value(&genesis).unwrap()
    };
    let vanity = format!("a0{}", "00".repeat(32));
    let nobody = format!("0xe5{vanity}c0c080c0");
    // As Besu's documentation of private networks has it.
    let four = format!(
        "0xf87a{vanity}f8549464a702e6263b7297a96638cac6ae65e6541f4169943923390ad55e90c237593b3b0e401f3b08a0318594\
         aefdb9a738c9f433e5b6b212a6d62f6370c2f69294c7eeb9a4e00ce683cf93039b212648e01c6c6b78c080c0"
    );
    let database = Database::in_memory();
    for wrong in ["0x", "0x00", &nobody, &four[..four.len() - 2], &format!("{four}00")] {
        let error = Chain::open(database.clone(), sealed(wrong), Options::default()).unwrap_err();
        assert!(error.to_string().contains("validators"), "{wrong}: {error}");
    }
    let chain = Chain::open(database, sealed(&four), Options::default()).unwrap();
    assert_eq!(chain.head().branch.validators.as_ref().unwrap().set.len(), 4);
}
