//! What a chain's node reads from users, peers and files: transactions, blocks, genesis files, messages, key stores.

use std::sync::OnceLock;

use alloy_consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEip7702, TxLegacy};
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use tally_chain::protocol::{
    self, Accounts, Blocks, GetAccounts, GetSlots, Hashes, Head, Headers, History, Items, Past, Range, Slot,
    Slots, Storage, Transactions,
};
use tally_chain::{Chain, Options, files};
use tally_evm::{Block, Body, Genesis, Transaction};
use tally_sim::Rng;
use tally_state::Database;

use super::Small;
use super::damage::damage;

const GENESIS: &str = r#"{
  "config": {
    "chainId": 1337, "berlinBlock": 0, "londonBlock": 0, "shanghaiTime": 10, "zeroBaseFee": true, "contractSizeLimit": 65536,
    "blobSchedule": { "cancun": { "target": 3, "max": 6, "baseFeeUpdateFraction": 3338477 } },
    "qbft": { "epochlength": 30000, "blockperiodseconds": 2, "requesttimeoutseconds": 4, "blockreward": "0x5" },
    "transitions": { "qbft": [ { "block": 7, "blockperiodseconds": 1, "validatorselectionmode": "contract",
      "validatorcontractaddress": "0x0000000000000000000000000000000000008888" } ] }
  },
  "nonce": "0x0", "timestamp": "0x58ee40ba", "gasLimit": "0x29b92700", "difficulty": "0x1",
  "extraData": "0xf87aa00000000000000000000000000000000000000000000000000000000000000000f8549464a702e6263b7297a96638cac6ae65e6541f4169943923390ad55e90c237593b3b0e401f3b08a0318594aefdb9a738c9f433e5b6b212a6d62f6370c2f69294c7eeb9a4e00ce683cf93039b212648e01c6c6b78c080c0",
  "mixHash": "0x63746963616c2062797a616e74696e65206661756c7420746f6c6572616e6365",
  "alloc": { "fe3b557e8fb62b89f4916b721be55ceb828dbd73": { "balance": "0xad78ebc5ac6200000", "nonce": "1",
    "code": "0x6001", "storage": { "0x01": "0x02" } } }
}"#;

const KEYSTORE: &str = r#"{"version":3,"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","crypto":{"cipher":"aes-128-ctr",
"cipherparams":{"iv":"83dbcc02d8ccb40e466191a123791e0e"},"ciphertext":"d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c",
"kdf":"scrypt","kdfparams":{"dklen":32,"n":8,"p":1,"r":8,"salt":"ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19"},
"mac":"2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097"}}"#;

const PERMISSIONS: &str = r#"accounts-allowlist=["0xfe3b557e8fb62b89f4916b721be55ceb828dbd73"]
nodes-allowlist=["enode://6f8a80d14311c39f35f516fa664deaaaa13e85b2f7493f37f6144d86991ec012937307647bd3b9a82abe2974e1407241d54947bbb39763a4cac9f77166ad92a0@10.3.58.6:30303?discport=30301"]
"#;

fn signature() -> Signature {
    Signature::new(U256::from(0x1234_5678_9abc_def0_u64), U256::from(7), true)
}

fn transactions() -> Vec<Transaction> {
    let access =
        AccessList(vec![AccessListItem { address: Address::repeat_byte(3), storage_keys: vec![B256::ZERO] }]);
    let to = TxKind::Call(Address::repeat_byte(9));
    let legacy =
        TxLegacy { chain_id: Some(5), nonce: 1, gas_price: 7, gas_limit: 21_000, to, ..TxLegacy::default() };
    let listed =
        TxEip2930 { chain_id: 5, gas_limit: 30_000, access_list: access.clone(), ..TxEip2930::default() };
    let priced = TxEip1559 {
        chain_id: 5,
        max_fee_per_gas: 9,
        to,
        access_list: access.clone(),
        ..TxEip1559::default()
    };
    let delegating = TxEip7702 { chain_id: 5, access_list: access, ..TxEip7702::default() };
    vec![
        legacy.into_signed(signature()).into(),
        listed.into_signed(signature()).into(),
        priced.into_signed(signature()).into(),
        delegating.into_signed(signature()).into(),
    ]
}

/// What a chain's node reads, as it is written.
struct Encodings {
    transactions: Vec<Vec<u8>>,
    blocks: Vec<Vec<u8>>,
}

fn encodings() -> &'static Encodings {
    static ALL: OnceLock<Encodings> = OnceLock::new();
    ALL.get_or_init(|| {
        let transactions = transactions();
        let encoded = transactions
            .iter()
            .map(|transaction| tally_evm::transaction::encode(transaction).to_vec())
            .collect();
        let body = Body { transactions, ommers: vec![Default::default()], withdrawals: None };
        let late =
            Body { withdrawals: Some(vec![Default::default(); 2]), ommers: Vec::new(), ..body.clone() };
        let blocks =
            [body, late, Body::default()].map(|body| Block { header: Default::default(), body }.encode());
        Encodings { transactions: encoded, blocks: blocks.to_vec() }
    })
}

fn damaged(rng: &mut Rng, of: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = of[rng.index(of.len())].clone();
    let other = &of[rng.index(of.len())];
    damage(rng, &mut bytes, other);
    bytes
}

/// A transaction that can be read has one form only; its sender is found or not.
pub(super) fn transaction(rng: &mut Rng, _: &Small) {
    let bytes = damaged(rng, &encodings().transactions);
    if let Ok(transaction) = tally_evm::transaction::decode(&bytes) {
        assert_eq!(
            tally_evm::transaction::encode(&transaction),
            bytes,
            "read from another form than it is written in"
        );
        let _ = tally_evm::recover(transaction);
    }
    let _ = tally_evm::transaction::decode_pooled(&bytes);
}

/// A block that can be read has one form only.
pub(super) fn block(rng: &mut Rng, _: &Small) {
    let bytes = damaged(rng, &encodings().blocks);
    if let Ok(block) = Block::decode(&bytes) {
        assert_eq!(block.encode(), bytes, "read from another form than it is written in");
    }
}

/// A genesis file is read or refused, and so are its forks and its first block.
pub(super) fn genesis(rng: &mut Rng, _: &Small) {
    let bytes = damaged(rng, &[GENESIS.as_bytes().to_vec()]);
    let Ok(text) = std::str::from_utf8(&bytes) else { return };
    if let Ok(genesis) = Genesis::parse(text) {
        let _ = Chain::open(Database::in_memory(), genesis, Options::default());
    }
}

/// Messages between nodes have one form only.
pub(super) fn message(rng: &mut Rng, _: &Small) {
    fn same<T: alloy_rlp::Decodable + alloy_rlp::Encodable>(bytes: &[u8]) {
        if let Ok(message) = protocol::decode::<T>("fuzz", bytes) {
            assert_eq!(protocol::encode(&message), bytes, "read from another form than it is written in");
        }
    }
    let some: Vec<Bytes> = encodings().transactions.iter().map(|bytes| Bytes::from(bytes.clone())).collect();
    let whole = [
        protocol::encode(&Head { number: 300, hash: B256::repeat_byte(1) }).to_vec(),
        protocol::encode(&Transactions { transactions: some.clone() }).to_vec(),
        protocol::encode(&Hashes { hashes: vec![B256::ZERO; 3] }).to_vec(),
        protocol::encode(&Range { first: 1 << 40, count: 7 }).to_vec(),
        protocol::encode(&Blocks { blocks: some.clone() }).to_vec(),
        protocol::encode(&get_accounts()).to_vec(),
        protocol::encode(&accounts(some.clone())).to_vec(),
        protocol::encode(&get_slots()).to_vec(),
        protocol::encode(&slots(some.clone())).to_vec(),
        protocol::encode(&history(some)).to_vec(),
    ];
    let bytes = damaged(rng, &whole);
    same::<Head>(&bytes);
    same::<Transactions>(&bytes);
    same::<Hashes>(&bytes);
    same::<Range>(&bytes);
    same::<Blocks>(&bytes);
    same::<Headers>(&bytes);
    same::<Items>(&bytes);
    same::<GetAccounts>(&bytes);
    same::<GetSlots>(&bytes);
    same::<Slots>(&bytes);
    same::<History>(&bytes);
    same::<Accounts>(&bytes);
    // What the bytes of an account are is checked apart: they are proved by the account that they give.
    if let Ok(accounts) = protocol::decode::<Accounts>("fuzz", &bytes) {
        for account in accounts.accounts {
            let _ = tally_state::StoredAccount::decode(&account.account);
        }
    }
}

fn get_accounts() -> GetAccounts {
    GetAccounts { number: 7, root: B256::repeat_byte(1), start: B256::ZERO, end: B256::repeat_byte(0xff) }
}

fn accounts(proof: Vec<Bytes>) -> Accounts {
    let some = tally_state::Account { nonce: 300, balance: U256::from(5), code_hash: B256::repeat_byte(4) };
    let stored = tally_state::StoredAccount { account: some, storage_root: B256::repeat_byte(3) };
    let account = protocol::Account { key: B256::repeat_byte(2), account: stored.encode().into() };
    Accounts { accounts: vec![account; 2], proof }
}

fn get_slots() -> GetSlots {
    let GetAccounts { number, root, start, end } = get_accounts();
    GetSlots { number, root, accounts: vec![start, end], start, end }
}

fn slots(proof: Vec<Bytes>) -> Slots {
    let slot = Slot { key: B256::repeat_byte(6), value: U256::from(1_000) };
    Slots {
        storages: vec![
            Storage { slots: vec![slot; 2], proof: Vec::new() },
            Storage { slots: Vec::new(), proof },
        ],
    }
}

fn history(blocks: Vec<Bytes>) -> History {
    let log = alloy_primitives::Log::new_unchecked(
        Address::repeat_byte(1),
        vec![B256::repeat_byte(2)],
        Bytes::from_static(&[3; 40]),
    );
    let receipt = tally_chain::blocks::Receipt {
        outcome: alloy_consensus::Eip658Value::Eip658(true),
        cumulative_gas_used: 50_000,
        gas_used: 21_000,
        first_log: 2,
        logs: vec![log],
    };
    let receipts = vec![receipt; 2];
    History { blocks: blocks.into_iter().map(|block| Past { block, receipts: receipts.clone() }).collect() }
}

/// A file of blocks that are not of the chain is refused, and the chain is as it was.
pub(super) fn file(rng: &mut Rng, _: &Small) {
    static CHAIN: OnceLock<Chain> = OnceLock::new();
    let chain = CHAIN.get_or_init(|| {
        let genesis = Genesis::parse(GENESIS).expect("the genesis file is right");
        Chain::open(Database::in_memory(), genesis, Options::default()).expect("a chain begins with it")
    });
    let bytes = damaged(rng, &encodings().blocks);
    let imported = files::import(chain, bytes.as_slice(), 1, &mut |_| ());
    assert!(imported.is_err() || bytes.is_empty(), "blocks of no chain were taken");
    assert_eq!(chain.head().number(), 0);
}

/// See [`tally_peers::fuzz::enode`].
pub(super) fn enode(rng: &mut Rng, _: &Small) {
    let url = PERMISSIONS.split('"').find(|text| text.starts_with("enode")).unwrap_or_default();
    tally_peers::fuzz::enode(&damaged(rng, &[url.as_bytes().to_vec(), format!("[\"{url}\"]").into_bytes()]));
}

/// See [`tally_peers::fuzz::frames`].
pub(super) fn frames(rng: &mut Rng, _: &Small) {
    tally_peers::fuzz::frames(&damaged(rng, &encodings().transactions));
}

/// See [`tally_peers::fuzz::handshake`].
pub(super) fn handshake(rng: &mut Rng, _: &Small) {
    tally_peers::fuzz::handshake(&damaged(rng, &encodings().transactions));
}

/// See [`tally_peers::fuzz::keystore`].
pub(super) fn keystore(rng: &mut Rng, _: &Small) {
    tally_peers::fuzz::keystore(&damaged(rng, &[KEYSTORE.as_bytes().to_vec()]));
}

/// See [`tally_peers::fuzz::permissions`].
pub(super) fn permissions(rng: &mut Rng, _: &Small) {
    tally_peers::fuzz::permissions(&damaged(rng, &[PERMISSIONS.as_bytes().to_vec()]));
}
