//! What is signed, byte by byte: vectors on which clients in other languages are tried.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]
#![allow(dead_code, reason = "the support is shared with the tests of proofs")]

mod support;

use serde_json::{Value, json};
use support::{NAMESAKE, NETWORK, key};
use tally_crypto::log::{Checkpoint, Cosignature, SignedTreeHead, TreeHead};
use tally_crypto::{Hash, merkle};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::Terms;
use tally_ledger::{
    AccountNumber, AccountOrder, Amount, AssetId, IdKey, Kind, Leg, NetworkId, ParticipantId, Timestamp,
    Transaction, TransactionBatch, Uetr,
};
use tally_proof::approval::{Answer, Statement};

const GOLDEN: &str = include_str!("golden/ids.json");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn terms(network: NetworkId) -> Terms {
    Terms {
        network,
        uetr: "97ed4827-7b6f-4491-a06f-b548d5a7512d".parse::<Uetr>().unwrap(),
        expiry: Timestamp(1_750_000_060_000),
        details: tally_crypto::hash(b"invoice 4711"),
        seed: [9; 16],
    }
}

/// A transfer whose legs are in those participants' books, in that order.
fn transfer(network: NetworkId, participants: &[u16]) -> Transaction {
    let leg = |(at, participant): (u32, &u16)| Leg {
        participant: ParticipantId(*participant),
        asset: AssetId(0),
        account: AccountNumber(at + 3),
        amount: Amount(if at % 2 == 0 { -1_250 } else { 1_250 }),
    };
    Transaction::new(Kind::Transfer, &terms(network), (0..).zip(participants).map(leg).collect())
}

fn order(network: NetworkId) -> Transaction {
    let action = AccountAction::Open {
        count: 1,
        asset: AssetId(0),
        owner: key(2).public_key(),
        floor: Amount(-5),
        alias: "DE89370400440532013000".into(),
    };
    Transaction::account(
        &terms(network),
        AccountOrder { participant: ParticipantId(2), number: AccountNumber(7), action },
    )
}

fn vector(name: &str, make: &dyn Fn(NetworkId) -> Transaction) -> Value {
    let (mut transaction, mut namesake) = (make(NETWORK), make(NAMESAKE));
    // The wire form is the same but for the signatures: four bytes do not tell the networks apart.
    assert_eq!(transaction, namesake);
    transaction.sign(&NETWORK, &key(1));
    namesake.sign(&NAMESAKE, &key(1));
    let id = transaction.id(&NETWORK);
    let signature = transaction.signers[0].signature;
    assert!(tally_crypto::verify(&key(1).public_key(), id.as_bytes(), &signature).is_ok());
    assert!(
        tally_crypto::verify(&key(1).public_key(), namesake.id(&NAMESAKE).as_bytes(), &signature).is_err()
    );
    let mut batch = TransactionBatch::default();
    assert!(batch.push(&transaction));
    let mut bytes = Vec::new();
    batch.encode(&mut bytes);
    json!({
        "name": name,
        "batch": hex(&bytes),
        "participants": transaction.participants(),
        "id": id,
        "signature": signature,
        "id_on_namesake": namesake.id(&NAMESAKE),
        "signature_on_namesake": namesake.signers[0].signature,
    })
}

fn approval() -> Value {
    let id = transfer(NETWORK, &[1, 0, 0, 2]).id(&NETWORK);
    let answers = [
        Answer { id: tally_crypto::hash(b"another"), index: 2, verdict: 24 },
        Answer { id, index: 5, verdict: 0 },
        Answer { id: tally_crypto::hash(b"a third"), index: 8, verdict: 0 },
    ];
    let leaves: Vec<Hash> = answers.iter().map(Answer::leaf).collect();
    let statement = Statement {
        root: merkle::root(&leaves),
        scheduler: 1,
        batch: 40,
        participant: ParticipantId(1),
        batch_len: 9,
    };
    let answers: Vec<Value> = answers
        .iter()
        .map(|answer| {
            json!({ "id": answer.id, "index": answer.index, "verdict": answer.verdict, "leaf": answer.leaf() })
        })
        .collect();
    json!({
        "answers": answers,
        "root": statement.root,
        "scheduler": statement.scheduler,
        "batch": statement.batch,
        "participant": statement.participant,
        "batch_len": statement.batch_len,
        "statement": statement.hash(&NETWORK),
        "signature": key(1).sign(statement.hash(&NETWORK).as_bytes()),
        "statement_on_namesake": statement.hash(&NAMESAKE),
        "signature_on_namesake": key(1).sign(statement.hash(&NAMESAKE).as_bytes()),
    })
}

fn tree_head() -> Value {
    let root = *tally_crypto::hash(b"a root").as_bytes();
    let head = TreeHead { size: 50, root, timestamp_ms: 1_750_000_000_049 };
    json!({
        "size": head.size,
        "timestamp_ms": head.timestamp_ms,
        "root": hex(&head.root),
        "bytes": hex(&head.signing_bytes(&NETWORK.0)),
        "signature": SignedTreeHead::sign(head, &NETWORK.0, &key(0)).signature,
        "signature_on_namesake": SignedTreeHead::sign(head, &NAMESAKE.0, &key(0)).signature,
    })
}

/// What witness 1 signs of the same head.
fn cosignature() -> Value {
    let root = *tally_crypto::hash(b"a root").as_bytes();
    let checkpoint = |network: NetworkId| Checkpoint { network: network.0, size: 50, root };
    let time_s = 1_750_000_060;
    let sign = |network| Cosignature::sign(&checkpoint(network), time_s, &key(1)).unwrap().signature;
    json!({
        "size": 50,
        "root": hex(&root),
        "time_s": time_s,
        "message": Cosignature::message(&checkpoint(NETWORK), time_s),
        "signature": sign(NETWORK),
        "signature_on_namesake": sign(NAMESAKE),
    })
}

/// The layouts are for ever: clients sign them. `TALLY_WRITE_GOLDEN=1` writes the file anew.
#[test]
fn the_signed_forms_are_the_published_ones() {
    let listed = |participants: &'static [u16]| move |network| transfer(network, participants);
    let many: Vec<u16> = (0..30).map(|n| (n * 700) ^ 0x1555).collect();
    let kind = |kind: Kind| {
        move |network| {
            let mut transaction = transfer(network, &[1, 1]);
            transaction.header.kind = kind.number();
            transaction
        }
    };
    let transactions = [
        vector("one participant, two legs", &listed(&[1, 1])),
        vector("one participant, two legs, issue", &kind(Kind::Issue)),
        vector("one participant, two legs, redeem", &kind(Kind::Redeem)),
        vector("two participants, two legs", &listed(&[2, 1])),
        vector("two participants, four legs", &listed(&[1, 2, 1, 2])),
        vector("three participants, three legs", &listed(&[2, 0, 1])),
        vector("three participants, four legs", &listed(&[1, 0, 0, 2])),
        vector("participants beyond one byte", &listed(&[300, 65_533, 300, 256])),
        vector("eight participants, eight legs", &listed(&[8, 7, 6, 5, 4, 3, 2, 1])),
        vector("thirty participants, thirty legs", &|network| transfer(network, &many)),
        vector("an account order", &order),
    ];
    let vectors = json!({
        "network": NETWORK,
        "namesake": NAMESAKE,
        "transaction_key": hex(IdKey::new(&NETWORK).as_bytes()),
        "owner_seed": hex(&[2; 32]),
        "owner": key(1).public_key(),
        "operator_seed": hex(&[1; 32]),
        "operator": key(0).public_key(),
        "transactions": transactions,
        "approval": approval(),
        "tree_head": tree_head(),
        "cosignature": cosignature(),
    });
    let text = serde_json::to_string_pretty(&vectors).unwrap() + "\n";
    if std::env::var_os("TALLY_WRITE_GOLDEN").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/ids.json"), &text).unwrap();
    }
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), serde_json::from_str::<Value>(GOLDEN).unwrap());
}
