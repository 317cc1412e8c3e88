//! JSON-RPC over HTTP, as a user's tool speaks it.

use super::support::{PATIENCE, eventually};
use alloy_primitives::B256;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// Nobody answered, or the connection ended before: what became of the call is unknown.
    Lost(String),
    /// The node refused.
    Refused {
        /// JSON-RPC's number.
        code: i64,
        /// In words.
        message: String,
    },
}

/// Somebody who calls one node.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    url: String,
    agent: ureq::Agent,
}

/// What a chain says of one of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) hash: String,
    pub(crate) state_root: String,
    pub(crate) proposer: String,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let agent = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(10))).build();
        Self { url: format!("http://{address}"), agent: agent.into() }
    }

    fn post(&self, body: &Value) -> Result<Value, Unanswered> {
        let lost = |error: ureq::Error| Unanswered::Lost(error.to_string());
        let request = self.agent.post(&self.url).header("content-type", "application/json");
        let mut answer = request.send(body.to_string()).map_err(lost)?;
        let text = answer.body_mut().with_config().limit(64 << 20).read_to_string().map_err(lost)?;
        Ok(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    pub(crate) fn call(&self, method: &str, params: &Value) -> Result<Value, Unanswered> {
        let answer = self.post(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))?;
        result(answer)
    }

    /// The result of a call to a node that runs well.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, params: &Value) -> Value {
        self.call(method, params).unwrap_or_else(|error| panic!("{} {method} {params}: {error:?}", self.url))
    }

    pub(crate) fn height(&self) -> u64 {
        number(&self.ask("eth_blockNumber", &json!([])))
    }

    /// Waits until the node has a block of at least this number.
    #[track_caller]
    pub(crate) fn await_height(&self, height: u64) {
        eventually(&format!("{} has block {height}", self.url), || (self.height() >= height).then_some(()));
    }

    /// All blocks up to this one, by number.
    pub(crate) fn blocks(&self, until: u64) -> BTreeMap<u64, Block> {
        let mut blocks = BTreeMap::new();
        let numbers: Vec<u64> = (0..=until).collect();
        for numbers in numbers.chunks(200) {
            let calls = numbers.iter().map(|number| {
                let params = json!([format!("{number:#x}"), false]);
                json!({"jsonrpc": "2.0", "id": number, "method": "eth_getBlockByNumber", "params": params})
            });
            let Value::Array(answers) = self.post(&calls.collect()).unwrap() else { panic!("not a batch") };
            for answer in answers {
                let block = result(answer).unwrap();
                let text = |name: &str| block[name].as_str().unwrap_or_else(|| panic!("{block}")).to_owned();
                let (hash, state_root, proposer) = (text("hash"), text("stateRoot"), text("miner"));
                blocks.insert(number(&block["number"]), Block { hash, state_root, proposer });
            }
        }
        assert_eq!(blocks.len() as u64, until + 1);
        blocks
    }

    /// The block that a transaction is in; waits for it, as its fate allows.
    #[track_caller]
    pub(crate) fn await_receipt(&self, hash: B256) -> u64 {
        let mut said = Value::Null;
        let deadline = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < deadline {
            let receipt = self.ask("eth_getTransactionReceipt", &json!([hash]));
            if !receipt.is_null() {
                return number(&receipt["blockNumber"]);
            }
            said = self.ask("txpool_fate", &json!([hash]));
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{} has no receipt of {hash}; of its fate it says: {said}", self.url);
    }
}

fn result(mut answer: Value) -> Result<Value, Unanswered> {
    match answer.get("error") {
        None => Ok(answer["result"].take()),
        Some(error) => Err(Unanswered::Refused {
            code: error["code"].as_i64().unwrap(),
            message: error["message"].as_str().unwrap().to_owned(),
        }),
    }
}

/// A quantity.
#[track_caller]
pub(crate) fn number(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_else(|| panic!("{value}"))
}
