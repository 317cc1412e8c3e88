//! A node that is killed at any moment opens at a block that it had committed, no earlier than the last
//! one that it had called durable.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use alloy_primitives::{Address, U256};
use tally_state::{
    Account, AccountChange, Batch, Changes, Database, Durability, History, Options, Read, State, StoreOptions,
};

const DIRECTORY: &str = "TALLY_STATE_KILL_DIRECTORY";
const SLOTS: u64 = 40;

fn open(directory: &Path) -> State {
    // Small, so that files are written and merged all the time.
    let store = StoreOptions { write_buffer_bytes: 64 << 10, ..StoreOptions::default() };
    let database = Database::open(directory, store).expect("the store opens");
    let options = Options { history: History::Blocks(8), ..Options::default() };
    State::open(database, options).expect("the state opens")
}

/// Block `number` writes its number everywhere.
fn block(number: u64) -> Changes {
    let mut changes = Changes::default();
    let account = Some(Account { nonce: number, ..Account::default() });
    let storage = (0..SLOTS).map(|slot| (U256::from(slot), U256::from(number + 1))).collect();
    changes.accounts.insert(Address::ZERO, AccountChange { account, storage_cleared: false, storage });
    changes
}

/// Runs in a process of its own, until it is killed.
#[test]
#[ignore = "started by the other test"]
fn writer() {
    let directory = std::env::var(DIRECTORY).unwrap();
    let state = open(Path::new(&directory));
    let mut next = match state.head().unwrap() {
        Some((number, _)) => number + 1,
        None => {
            let mut batch = Batch::new();
            state.begin(&mut batch, 0, &block(0)).unwrap();
            state.database().commit(batch, Durability::Synced).unwrap();
            1
        }
    };
    loop {
        let layer = state.view().unwrap().apply(&block(next)).unwrap();
        let mut batch = Batch::new();
        state.commit(&mut batch, next, &layer).unwrap();
        state.database().commit(batch, Durability::Synced).unwrap();
        println!("\ncommitted {next}");
        next += 1;
    }
}

#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_durable() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..8 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "writer", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut committed = 0;
        let mut seen = 0;
        for line in lines.map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("committed ") {
                committed = number.parse().unwrap();
                seen += 1;
                if seen == round * 11 {
                    writer.kill().unwrap();
                }
            }
        }
        writer.wait().unwrap();
        assert!(seen >= round * 11, "the writer ended by itself");

        let state = open(directory.path());
        let (head, root) = state.head().unwrap().unwrap();
        assert!(head >= committed);
        let oldest = state.oldest().unwrap().unwrap();
        for number in oldest..=head {
            let view = state.at(number).unwrap();
            assert_eq!(view.account(Address::ZERO).unwrap().unwrap().nonce, number);
            for slot in 0..SLOTS {
                assert_eq!(view.storage(Address::ZERO, U256::from(slot)).unwrap(), U256::from(number + 1));
            }
            let proof = view.proof(Address::ZERO, &[]).unwrap();
            assert!(proof.verify(view.root()).unwrap());
        }
        assert_eq!(state.view().unwrap().root(), root);
    }
}
