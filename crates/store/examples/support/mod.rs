//! What both measurements share: a store to measure, and payments that look like real ones.

use std::sync::Arc;
use tally_contracts::{
    Name, Party, PublicKey, State, StateRef, Summary, Timestamp, TransactionId, VersionRange,
};
use tally_store::server::PostgresServer;
use tally_store::{Postgres, PostgresOptions, Produced, Recorded, Sqlite, SqliteOptions, Store, Write};

/// A new store of each kind, with what it needs to live.
pub(crate) fn each(measure: impl Fn(&str, Arc<dyn Store>)) {
    let wanted = std::env::args().nth(1);
    let wants = |kind| wanted.as_deref().is_none_or(|wanted| wanted == kind);
    if wants("sqlite") {
        let directory = tempfile::tempdir().expect("a directory");
        let options = SqliteOptions::new(directory.path().join("node.db"));
        measure("sqlite", Arc::new(Sqlite::open(&options).expect("it opens")));
    }
    if wants("postgres") {
        let server = PostgresServer::start().expect("a server");
        let options = PostgresOptions::new(server.url(), "node");
        measure("postgres", Arc::new(Postgres::open(&options).expect("it opens")));
    }
}

pub(crate) fn hash(what: &str, number: u64) -> [u8; 32] {
    *tally_crypto::keyed(b"tally-store example             ", format!("{what} {number}").as_bytes())
        .as_bytes()
}

pub(crate) fn name(organisation: &str) -> Name {
    Name::new(organisation, "London", "GB").expect("a name")
}

pub(crate) fn key(number: u64) -> PublicKey {
    PublicKey::Ed25519(tally_crypto::sign::PublicKey::from_bytes(hash("key", number)))
}

/// A transaction that pays: one coin in, one for the payee and the change out.
pub(crate) fn payment(
    id: TransactionId,
    at: u64,
    owners: [u64; 2],
    asset: &str,
    input: Option<StateRef>,
) -> Write {
    let coin = |(index, owner): (u32, u64)| {
        let quantity = 100 + at % 1000;
        let mut data = vec![7; 110];
        data.extend(quantity.to_le_bytes());
        Produced {
            index,
            state: State {
                contract: "tally.cash".parse().expect("a name"),
                versions: VersionRange { from: 1, to: 1 },
                notary: Party { name: name("Notary"), key: key(999) },
                encumbrance: None,
                consumers: vec![key(owner)],
                data,
            },
            summary: Summary {
                kind: "cash".to_owned(),
                participants: vec![key(owner)],
                owner: Some(key(owner)),
                asset: Some(asset.to_owned()),
                quantity: Some(quantity),
                linear_id: None,
                details: serde_json::json!({ "amount": "1.00 USD", "issuer": "O=Bank, L=London, C=GB" }),
            },
        }
    };
    Write::Transaction(Recorded {
        id,
        bytes: vec![5; 1100],
        consumed: input.into_iter().collect(),
        produced: (0..).zip(owners).map(coin).collect(),
        at: Timestamp::from_millis(at),
    })
}

/// Processor time of this thread, system calls included (Linux, sched-stats).
pub(crate) fn processor_us() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let on_processor_ns = text.split(' ').next().and_then(|text| text.parse::<f64>().ok());
    on_processor_ns.expect("a number") / 1e3
}
