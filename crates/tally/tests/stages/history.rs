//! What clients asked and were told, and when, for a checker that shares no code with the network.

use super::payments::{OPENING, Sent, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

/// The history of one network's clients.
pub(crate) struct History {
    began: Instant,
    operations: Mutex<Vec<Value>>,
}

/// How long the search for an explanation may take.
const LIMIT: &str = "5m";

impl History {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), operations: Mutex::default() }
    }

    /// Nanoseconds since the beginning.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap()
    }

    /// A payment that was asked for at `call`, and its outcome: none for made, else the reason code. It is known now.
    pub(crate) fn paid(&self, client: usize, call: u64, world: &World, sent: &Sent, refused: Option<&str>) {
        let operation = json!({
            "kind": "transfer", "group": group(world, sent.from), "reference": sent.transaction.header.uetr.to_string(),
            "from": account(sent.from), "to": account(sent.to), "amount": sent.amount,
        });
        let result = refused.map_or("made".to_owned(), |code| format!("refused:{code}"));
        self.add(client, call, &operation, &json!(result));
    }

    /// A balance that was asked for at `call`. It is known now.
    pub(crate) fn balance(&self, client: usize, call: u64, world: &World, customer: usize, balance: i64) {
        let operation =
            json!({ "kind": "balance", "group": group(world, customer), "account": account(customer) });
        self.add(client, call, &operation, &json!({ "balance": balance }));
    }

    fn add(&self, client: usize, call: u64, operation: &Value, result: &Value) {
        let line = json!({
            "client": client, "call_ns": call, "return_ns": self.now(), "op": operation, "result": result
        });
        self.operations.lock().unwrap().push(line);
    }

    /// Writes it down, and has it checked. Funds are reserved from a payment's approval to its decision: a payment may be refused
    /// for want of funds that a balance shows until the other is made.
    #[track_caller]
    pub(crate) fn check(&self, world: &World, name: &str) {
        let mut groups: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
        for customer in 0..world.customers.len() {
            groups.entry(group(world, customer)).or_default().insert(account(customer), OPENING);
        }
        let mut text = json!({ "initial": groups }).to_string();
        for operation in self.operations.lock().unwrap().iter() {
            text.push('\n');
            text.push_str(&operation.to_string());
        }
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("history-{name}.json"));
        std::fs::write(&file, text).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check-history");
        let checked =
            Command::new(script).args(["-reservations", "-timeout", LIMIT]).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        println!("{}", said.trim_end());
        let error = String::from_utf8_lossy(&checked.stderr);
        assert_eq!(checked.status.code(), Some(0), "{said}{error}: {}", file.display());
        // It is kept where it is of use.
        std::fs::remove_file(&file).unwrap();
    }
}

fn group(world: &World, customer: usize) -> String {
    format!("g{}", customer % world.groups)
}

fn account(customer: usize) -> String {
    format!("c{customer}")
}
