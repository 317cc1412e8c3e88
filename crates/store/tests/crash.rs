//! A process that writes is killed with SIGKILL at many moments: what it was told is durable is there when the
//! store is opened again, and no batch is there in part.
//!
//! Without the usual test harness, because this program is also the process that is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tally_contracts::{
    Name, Party, PublicKey, State, StateRef, Summary, Timestamp, TransactionId, VersionRange,
};
use tally_store::server::PostgresServer;
use tally_store::{
    Database, NewFlow, PostgresOptions, Produced, Recorded, SqliteOptions, StateQuery, Status, Store,
    StoreError, Write,
};

const ROUNDS: u64 = 12;

fn id(number: u64) -> TransactionId {
    TransactionId::from_bytes(*tally_crypto::hash(&number.to_le_bytes()).as_bytes())
}

fn key() -> PublicKey {
    PublicKey::Ed25519(tally_crypto::sign::PublicKey::from_bytes([1; 32]))
}

/// Batch `number`: a coin that consumes the one of the batch before, a flow, a message.
fn batch(number: u64) -> Vec<Write> {
    let name: Name = "O=B, L=Paris, C=FR".parse().expect("a name");
    let at = Timestamp::from_millis(number);
    let mut flow = [0; 16];
    flow[..8].copy_from_slice(&number.to_be_bytes());
    let coin = |index| Produced {
        index,
        state: State {
            contract: "tally.cash".parse().expect("a name"),
            versions: VersionRange::new(1, 1),
            notary: Party { name: name.clone(), key: key() },
            encumbrance: None,
            consumers: vec![key()],
            data: vec![7; 900],
        },
        summary: Summary {
            kind: "cash".to_owned(),
            participants: vec![key()],
            owner: Some(key()),
            asset: Some("USD".to_owned()),
            quantity: Some(number),
            linear_id: None,
            details: serde_json::Value::Null,
        },
    };
    let spends = number.checked_sub(1).map(|before| StateRef { transaction: id(before), index: 0 });
    vec![
        Write::FlowStarted(NewFlow {
            flow,
            name: "Pay".to_owned(),
            version: 1,
            arguments: vec![1; 3000],
            origin: Vec::new(),
            seed: [2; 32],
            at,
        }),
        Write::Steps { flow, unit: 0, entries: vec![3; 2000] },
        Write::Send { peer: name.clone(), number: number + 1, message: vec![4; 2500] },
        Write::Transaction(Recorded {
            id: id(number),
            bytes: vec![5; 1500],
            consumed: spends.into_iter().collect(),
            produced: vec![coin(0), coin(1)],
            at,
        }),
    ]
}

/// The process that is killed: applies batches from `first` on and says when each is durable.
fn write(database: &Database, first: u64) {
    let store = tally_store::open(database).expect("it opens after every crash");
    let mut out = std::io::stdout().lock();
    for number in first.. {
        store.apply(&batch(number)).expect("it applies");
        // The other end reads until this process is killed.
        if writeln!(out, "{number}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

/// The process whose disk is full after a while: what cannot be written is refused for now, and reads go on.
fn fill(database: &Database) {
    let store = tally_store::open(database).expect("it opens");
    let mut number = 0;
    let refused = loop {
        match store.apply(&batch(number)) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, StoreError::Full(_)), "{refused:?}");
    for _ in 0..3 {
        let again = store.apply(&batch(number));
        assert!(matches!(&again, Err(error) if error.is_transient()), "{again:?}");
        assert_eq!(check(&*store, number), number);
    }
    println!("{number}");
}

/// How many batches are there; each whole.
fn check(store: &dyn Store, acknowledged: u64) -> u64 {
    let flows = store.unfinished_flows(None, usize::MAX).expect("flows");
    let there = flows.len() as u64;
    assert!(there >= acknowledged, "{acknowledged} batches were acknowledged and {there} are there");
    assert!(flows.iter().all(|saved| saved.steps.len() == 1), "a flow is there without its step");
    let messages =
        store.outbound(&"O=B, L=Paris, C=FR".parse().expect("a name"), 0, usize::MAX).expect("messages");
    let mut numbers: Vec<u64> = messages.iter().map(|(number, _)| *number).collect();
    // One call gives a thousand at most.
    while let Some(last) = numbers.last().copied().filter(|last| *last < there) {
        let more = store
            .outbound(&"O=B, L=Paris, C=FR".parse().expect("a name"), last, usize::MAX)
            .expect("messages");
        numbers.extend(more.iter().map(|(number, _)| *number));
    }
    assert_eq!(numbers, (1..=there).collect::<Vec<_>>());
    let ids: Vec<TransactionId> = (0..=there).map(id).collect();
    let found: Vec<bool> = store.transactions(&ids).expect("they read").iter().map(Option::is_some).collect();
    assert_eq!(found, (0..=there).map(|number| number < there).collect::<Vec<_>>());
    let mut query = StateQuery { status: Status::All, page_size: 1000, ..StateQuery::default() };
    let (mut states, mut unconsumed) = (0, 0);
    loop {
        let page = store.states(&query).expect("a page");
        states += page.states.len() as u64;
        unconsumed += page.states.iter().filter(|state| state.consumed.is_none()).count() as u64;
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!((states, unconsumed), (2 * there, if there == 0 { 0 } else { there + 1 }));
    let coins = store.coins("USD", &key(), None, usize::MAX).expect("coins");
    assert_eq!(coins.len() as u64, unconsumed);
    there
}

fn survive(what: &str, database: &Database) {
    let json = serde_json::to_string(database).expect("options are JSON");
    let mut there = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .env("TALLY_STORE_CRASH", &json)
            .env("TALLY_STORE_FIRST", there.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        // A different number of batches each time, then a moment within the next one.
        let mut acknowledged = there;
        for line in lines.by_ref().take(usize::try_from(3 + round * 5).expect("small")) {
            acknowledged = line.expect("a line").parse::<u64>().expect("a number") + 1;
        }
        assert!(acknowledged > there, "the process ended by itself");
        let moment = Duration::from_micros(round * 389 % 3000);
        let start = Instant::now();
        while start.elapsed() < moment {
            std::hint::spin_loop();
        }
        child.kill().expect("it is killed");
        child.wait().expect("it is gone");
        for line in lines {
            acknowledged = line.expect("a line").parse::<u64>().expect("a number") + 1;
        }
        let store = tally_store::open(database).expect("it opens after every crash");
        there = check(&*store, acknowledged);
        // The last batch again, as whoever waited for its answer would.
        store.apply(&batch(there - 1)).expect("a batch can be applied again");
        assert_eq!(check(&*store, acknowledged), there);
    }
    println!("test {what} ... ok ({ROUNDS} crashes, {there} batches)");
}

/// No file may grow beyond a limit, as when the disk is full; then there is room again.
fn survive_a_full_disk(file: &Path) {
    let database = Database::Sqlite(SqliteOptions::new(file));
    let output = Command::new("/bin/sh")
        // In blocks of 512 bytes; without the trap the system would end the process.
        .args(["-c", "trap '' XFSZ; ulimit -f 4000; exec \"$0\""])
        .arg(std::env::current_exe().expect("this program"))
        .env("TALLY_STORE_FULL", serde_json::to_string(&database).expect("options are JSON"))
        .output()
        .expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("a number");
    let there: u64 = text.trim().parse().expect("a number");
    let store = tally_store::open(&database).expect("it opens");
    assert_eq!(check(&*store, there), there);
    store.apply(&batch(there)).expect("there is room again");
    assert_eq!(check(&*store, there + 1), there + 1);
    println!("test a_full_disk_stops_writing_for_now ... ok (after {there} batches)");
}

fn main() {
    if let Ok(json) = std::env::var("TALLY_STORE_FULL") {
        return fill(&serde_json::from_str(&json).expect("options"));
    }
    if let Ok(json) = std::env::var("TALLY_STORE_CRASH") {
        let first = std::env::var("TALLY_STORE_FIRST").expect("it is set").parse().expect("a number");
        return write(&serde_json::from_str(&json).expect("options"), first);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file: &Path = &directory.path().join("node.db");
    survive_a_full_disk(&directory.path().join("full.db"));
    survive("a_killed_process_loses_nothing_sqlite", &Database::Sqlite(SqliteOptions::new(file)));
    let server = PostgresServer::start().expect("a server");
    let options = PostgresOptions { readers: 1, ..PostgresOptions::new(server.url(), "crash") };
    survive("a_killed_process_loses_nothing_postgres", &Database::Postgres(options));
}
