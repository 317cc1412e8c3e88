//! What a chain's node is asked over JSON-RPC: every method, with parameters that are right, nearly right, or neither.
//!
//! Two small chains are asked, one of validators and one after the merge. An answer is a result that is JSON, or an
//! error whose number is documented and says that the caller, not the node, is at fault; and asking changes nothing.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tally_chain::chain::Attributes;
use tally_chain::node::{Node, Options as NodeOptions};
use tally_chain::{Chain, Options, pool};
use tally_consensus::{Config, Cover, ExtraData, MIX_HASH, Protocol};
use tally_evm::{Genesis, Transaction, recover};
use tally_jsonrpc::api;
use tally_jsonrpc::error as codes;
use tally_jsonrpc::params::Params;
use tally_jsonrpc::server::{CallContext, Place, Registry};
use tally_peers::{NodeKey, Permissions};
use tally_sim::Rng;
use tally_state::{Database, Durability};

use super::Small;
use super::damage::damage;

/// Blocks after the first one.
const BLOCKS: u64 = 4;
/// How long a call may run before it is told to end.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of one answer.
const ANSWER_BYTES: usize = 4 << 20;
/// Emits a log with topic 1, keeps the block's number in the slot that its input names, and answers with the slot's value before.
const CODE: &str = "0x60003554602052600160006000a1436000355560206020f3";
const CONTRACT: Address = Address::repeat_byte(0xcc);

/// Every number that `tally_jsonrpc::error` documents, and that of an unknown block (execution-apis), but for the one that
/// says that the node failed.
const CODES: [i32; 15] = [
    codes::PARSE_ERROR,
    codes::INVALID_REQUEST,
    codes::METHOD_NOT_FOUND,
    codes::METHOD_NOT_ENABLED,
    codes::INVALID_PARAMS,
    codes::SERVER_ERROR,
    codes::RESOURCE_NOT_FOUND,
    codes::TIMED_OUT,
    codes::TRANSACTION_REJECTED,
    codes::METHOD_NOT_SUPPORTED,
    codes::LIMIT_EXCEEDED,
    codes::UNAUTHORIZED,
    codes::EXECUTION_REVERTED,
    codes::PRUNED_HISTORY,
    -39001,
];

/// Methods that are there to change something.
const CHANGING: [&str; 6] = [
    "eth_sendRawTransaction",
    "qbft_proposeValidatorVote",
    "qbft_discardValidatorVote",
    "admin_addPeer",
    "admin_removePeer",
    "txpool_drop",
];

/// A node with a few blocks, which nobody calls but this.
struct Asked {
    node: Node,
    registry: Registry,
    methods: Vec<String>,
    /// Hashes, addresses and encodings that mean something to this chain.
    known: Vec<Value>,
}

fn key() -> NodeKey {
    NodeKey::new(&[7; 32]).expect("a number below the order of the curve")
}

fn genesis(validators: bool) -> Value {
    let own = key().address();
    let consensus = if validators {
        json!({"zeroBaseFee": true, "qbft": {"epochlength": 30000, "blockperiodseconds": 1, "requesttimeoutseconds": 4}})
    } else {
        json!({"terminalTotalDifficulty": 0, "pragueTime": 0, "blobSchedule": {
            "cancun": {"target": 3, "max": 6, "baseFeeUpdateFraction": 3338477},
            "prague": {"target": 6, "max": 9, "baseFeeUpdateFraction": 5007716}}})
    };
    let mut config = json!({
        "chainId": 1337, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0, "byzantiumBlock": 0,
        "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0,
        "shanghaiTime": 0, "cancunTime": 0,
    });
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), consensus) {
        config.extend(more);
    }
    let mut alloc = json!({
        own.to_string(): {"balance": "0xffffffffffffffffffffffff"},
        CONTRACT.to_string(): {"balance": "0x1", "code": CODE, "storage": {"0x01": "0x02"}},
    });
    if !validators {
        // EIP-4788, EIP-2935, EIP-7002 and EIP-7251 are called in every block, and may answer nothing.
        for system in [
            "000F3df6D732807Ef1319fB7B8bB8522d0Beac02",
            "0000F90827F1C53a10cb7A02335B175320002935",
            "00000961Ef480Eb55e80D19ad83579A64c007002",
            "0000BBdDc7CE488642fb579F8B00f3a590007251",
        ] {
            alloc[system] = json!({"balance": "0x0", "code": "0x00", "nonce": "0x1"});
        }
    }
    json!({
        "config": config, "nonce": "0x0", "timestamp": "0x58ee40ba", "gasLimit": "0x1c9c380", "difficulty": if validators { "0x1" } else { "0x0" },
        "mixHash": MIX_HASH, "coinbase": Address::ZERO, "extraData": extra_data(validators), "alloc": alloc,
    })
}

fn extra_data(validators: bool) -> Bytes {
    if !validators {
        return Bytes::new();
    }
    ExtraData::of_validators(&[key().address()]).encode(Protocol::QBFT, Cover::Everything).into()
}

fn signed(nonce: u64, to: TxKind, input: &[u8], gas_limit: u64) -> Transaction {
    let body = TxEip1559 {
        chain_id: 1337,
        nonce,
        gas_limit,
        max_fee_per_gas: 2_000_000_000,
        to,
        value: U256::from(1),
        input: Bytes::copy_from_slice(input),
        ..TxEip1559::default()
    };
    let signature = key().sign_recoverable(&body.signature_hash());
    body.into_signed(signature).into()
}

impl Asked {
    fn over(validators: bool) -> Self {
        let genesis = Genesis::from_value(&genesis(validators)).expect("the genesis file is right");
        let chain =
            Chain::open(Database::in_memory(), genesis, Options::default()).expect("a chain begins with it");
        let mut known =
            vec![json!(key().address()), json!(CONTRACT), json!(Address::ZERO), json!(B256::ZERO)];
        let mut nonce = 0;
        for number in 1..=BLOCKS {
            let head = chain.head();
            let before = &head.sealed().header;
            let transactions: Vec<Transaction> = (0..3)
                .map(|at| {
                    let input = U256::from(at).to_be_bytes::<32>();
                    let to = if at == 0 { TxKind::Create } else { TxKind::Call(CONTRACT) };
                    signed(nonce + at, to, if at == 0 { &[0x60, 0, 0x60, 0, 0xf3] } else { &input }, 100_000)
                })
                .collect();
            nonce += 3;
            known.extend(transactions.iter().map(|transaction| json!(transaction.tx_hash())));
            let attributes = Attributes {
                timestamp: before.timestamp + 1,
                beneficiary: key().address(),
                extra_data: extra_data(validators),
                mix_hash: MIX_HASH,
                gas_limit: before.gas_limit,
                withdrawals: Vec::new(),
                parent_beacon_block_root: None,
                until: None,
            };
            let recovered =
                transactions.into_iter().map(|transaction| recover(transaction).expect("it is signed"));
            let built = chain.build(&head.branch, attributes, recovered).expect("a block can be built");
            assert!(built.skipped.is_empty(), "{:?}", built.skipped);
            let head =
                chain.commit(&[built.candidate], Durability::Buffered, |_| ()).expect("it follows the head");
            assert_eq!(head.number(), number);
            known.push(json!(head.hash()));
        }
        for transaction in [
            signed(nonce, TxKind::Call(CONTRACT), &[0; 32], 60_000),
            signed(nonce + 1, TxKind::Call(Address::ZERO), &[], 21_000),
        ] {
            known.push(json!(transaction.tx_hash()));
            known.push(json!(hex::encode_prefixed(tally_evm::transaction::encode(&transaction))));
        }
        let options = NodeOptions {
            pool: pool::Limits::default(),
            engine: Config::new(Protocol::QBFT),
            keys: None,
            permissions: Permissions::everyone(),
            target_gas_limit: None,
            threads: 1,
            sync: tally_chain::node::Sync::Full,
        };
        let node = Node::start(chain, None, options).expect("a node starts");
        let registry = api::registry(node.clone(), api::Settings::new("tally/fuzz".into(), 1337));
        let mut methods: Vec<String> = registry.names().map(str::to_owned).collect();
        methods.sort();
        let mut asked = Self { node, registry, methods, known };
        let filter = json!([{"fromBlock": "0x0"}]).to_string();
        for (method, params) in [("eth_newFilter", filter.as_str()), ("eth_newBlockFilter", "[]")] {
            let id = asked.result(method, Some(params)).expect("a filter can be made");
            // Among the hashes they are to be found as well.
            asked.known.extend(std::iter::repeat_n(id, 4));
        }
        asked
    }

    /// What only a method of [`CHANGING`] may change.
    fn fingerprint(&self) -> (B256, usize, usize, Vec<(Address, bool)>) {
        let (pending, queued) = self.node.pool().status();
        let votes = self.node.proposals().iter().map(|vote| (vote.recipient, vote.add)).collect();
        (self.node.chain().head().hash(), pending, queued, votes)
    }

    /// The result, if there is one.
    fn result(&self, method: &str, text: Option<&str>) -> Option<Value> {
        let what = || format!("{method} {}", text.unwrap_or("without parameters"));
        let handler = self.registry.get(method).expect("it is registered");
        let stop = AtomicBool::new(false);
        let began = Instant::now();
        let context = |place| CallContext::new(place, began + PATIENCE, ANSWER_BYTES, &stop);
        let mut out = b"before".to_vec();
        let mut answer = handler(Params::new(text), &mut out, &context(Place::Inline));
        if answer.as_ref().is_err_and(|error| error.is_costly()) {
            out.truncate(6);
            answer = handler(Params::new(text), &mut out, &context(Place::Pool));
        }
        match answer {
            Ok(()) => {
                assert!(out.starts_with(b"before"), "{} changed what was written before it", what());
                let result = serde_json::from_slice::<Value>(&out[6..]);
                Some(result.unwrap_or_else(|error| {
                    panic!("{}: {error}: {}", what(), String::from_utf8_lossy(&out[6..]))
                }))
            }
            Err(error) => {
                // `eth_simulateV1` has numbers of its own, and the general one for what a block cannot hold.
                let simulated = method == "eth_simulateV1"
                    && (error.code == codes::INTERNAL_ERROR || (-38_099..=-38_010).contains(&error.code));
                assert!(simulated || CODES.contains(&error.code), "{}: {error}", what());
                assert!(!error.message.is_empty(), "{}: nothing is said", what());
                let data = error.data.as_deref().map(serde_json::from_str::<&RawValue>);
                assert!(data.is_none_or(|data| data.is_ok()), "{}: {:?} is not JSON", what(), error.data);
                None
            }
        }
    }
}

/// Parameters as they should be; `known` has hashes and addresses of the chain.
fn right(method: &str, rng: &mut Rng, known: &[Value]) -> Value {
    let (_, kind) = method.split_once('_').unwrap_or(("", method));
    let mut any = || known[rng.index(known.len())].clone();
    let call = json!({"from": key().address(), "to": CONTRACT, "input": format!("0x{:064x}", 1), "gas": "0xffff", "value": "0x0"});
    let options = json!({"tracer": "callTracer", "enableMemory": true, "disableStorage": false, "tracerConfig": {"withLog": true}});
    let overrides = json!({CONTRACT.to_string(): {"balance": "0x5", "nonce": "0x3", "code": CODE, "stateDiff": {format!("0x{:064x}", 1): format!("0x{:064x}", 9)}}});
    match kind {
        "call" | "estimateGas" => {
            json!([call, "latest", overrides, {"number": "0x9", "time": "0x60000000"}])
        }
        "createAccessList" => json!([call, "latest"]),
        "fillTransaction" => json!([call]),
        "traceCall" => json!([call, "latest", options]),
        "traceTransaction" | "traceBlockByHash" => json!([any(), options]),
        "traceBlockByNumber" => json!(["0x2", options]),
        "simulateV1" => json!([{"blockStateCalls": [
            {"blockOverrides": {"number": "0x10", "gasLimit": "0xfffff", "baseFeePerGas": "0x9"}, "stateOverrides": overrides, "calls": [call, call]},
            {"calls": [{"from": CONTRACT, "to": null, "input": "0x00"}]}], "validation": false, "traceTransfers": true, "returnFullTransactions": true}, "latest"]),
        "getLogs" | "newFilter" => {
            json!([{"fromBlock": "0x0", "toBlock": "latest", "address": [CONTRACT, Address::ZERO], "topics": [[format!("0x{:064x}", 1), null], null]}])
        }
        "getFilterChanges" | "getFilterLogs" | "uninstallFilter" => json!([any()]),
        "getProof" => json!([CONTRACT, ["0x0", format!("0x{:064x}", 1)], "latest"]),
        "getStorageAt" => json!([CONTRACT, "0x1", {"blockHash": any(), "requireCanonical": true}]),
        "getStorageValues" => json!([{CONTRACT.to_string(): ["0x0", "0x1"]}, "latest"]),
        "getBalance" | "getCode" | "getTransactionCount" => json!([any(), {"blockNumber": "0x2"}]),
        "feeHistory" => json!(["0x4", "latest", [0.5, 50, 99.5]]),
        "sendRawTransaction" => json!([any()]),
        "sha3" => json!(["0x00ff"]),
        "contentFrom" | "drop" | "addPeer" | "removePeer" | "discardValidatorVote" => json!([any()]),
        "proposeValidatorVote" => json!([any(), true]),
        "getSignerMetrics" => json!(["earliest", "latest"]),
        "buildBlockV1" => {
            json!([any(), {"timestamp": "0x58ee4100", "prevRandao": B256::ZERO, "suggestedFeeRecipient": CONTRACT,
            "withdrawals": [{"index": "0x0", "validatorIndex": "0x1", "address": CONTRACT, "amount": "0x1"}], "parentBeaconBlockRoot": B256::ZERO}, [], "0x"])
        }
        _ if kind.ends_with("AndIndex") && kind.contains("Hash") => json!([any(), "0x0"]),
        _ if kind.ends_with("AndIndex") => json!(["0x2", "0x1"]),
        "blockNumber" => json!([]),
        "getBlockByNumber" => json!(["0x2", true]),
        "getBlockByHash" => json!([any(), true]),
        _ if kind.contains("Number") => json!(["0x2"]),
        _ if kind.contains("Hash") || kind == "getTransactionReceipt" || kind == "fate" => json!([any()]),
        _ if kind.starts_with("getRaw") || kind == "getBlockReceipts" => json!([any()]),
        _ => json!([]),
    }
}

/// A value where mistakes happen.
fn odd(rng: &mut Rng, known: &[Value]) -> Value {
    const WORDS: [&str; 24] = [
        "",
        "0x",
        "0x0",
        "0x00",
        "0x1",
        "0x01",
        "0xg",
        "0X1",
        "-0x1",
        "1",
        "latest",
        "pending",
        "earliest",
        "safe",
        "finalized",
        "0xffffffffffffffff",
        "0x10000000000000000",
        "0x7fffffffffffffff",
        "0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "0x10000000000000000000000000000000000000000000000000000000000000000",
        "null",
        "callTracer",
        "\u{0}\"\\\u{1f600}",
        "prestateTracer",
    ];
    match rng.below(12) {
        0 => Value::Null,
        1 => json!(rng.chance(1, 2)),
        2 => json!(rng.next_u64() >> rng.below(64)),
        3 => json!(-1 - (rng.next_u64() >> 1 >> rng.below(63)) as i64),
        4 => [json!(0.5), json!(1e300), json!(-0.0), json!(100.000001)][rng.index(4)].clone(),
        5 => json!([]),
        6 => json!({}),
        7 => {
            let mut bytes = vec![0; [1, 4, 20, 31, 32, 33, 48, 200][rng.index(8)]];
            rng.fill(&mut bytes);
            json!(hex::encode_prefixed(bytes))
        }
        8 | 9 => known[rng.index(known.len())].clone(),
        _ => json!(WORDS[rng.index(WORDS.len())]),
    }
}

/// How many values there are in a value, itself among them.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(size).sum(),
        Value::Object(members) => members.values().map(size).sum(),
        _ => 0,
    }
}

/// The value of a number, counted as in [`size`].
fn nth(value: &mut Value, number: usize) -> Option<&mut Value> {
    if number == 0 {
        return Some(value);
    }
    let mut left = number - 1;
    let members: Vec<&mut Value> = match value {
        Value::Array(list) => list.iter_mut().collect(),
        Value::Object(members) => members.values_mut().collect(),
        _ => return None,
    };
    for member in members {
        let inside = size(member);
        if left < inside {
            return nth(member, left);
        }
        left -= inside;
    }
    None
}

/// Changes one value somewhere inside.
fn mistake(rng: &mut Rng, params: &mut Value, known: &[Value]) {
    let at = rng.index(size(params));
    let other = odd(rng, known);
    let from = rng.index(size(params));
    let again = nth(params, from).map_or(Value::Null, |value| value.clone());
    let Some(value) = nth(params, at) else { return };
    match value {
        Value::Array(list) if rng.chance(2, 3) => match rng.below(4) {
            0 => list.push(other),
            1 => list.push(again),
            2 => list.truncate(rng.index(list.len() + 1)),
            _ => {
                if let Some(first) = list.first().cloned() {
                    list.extend(std::iter::repeat_n(first, rng.index(40)));
                }
            }
        },
        Value::Object(members) if rng.chance(2, 3) => {
            const NAMES: [&str; 16] = [
                "blockHash",
                "blockNumber",
                "data",
                "input",
                "nonce",
                "type",
                "accessList",
                "authorizationList",
                "blobVersionedHashes",
                "maxFeePerGas",
                "gasPrice",
                "maxPriorityFeePerGas",
                "state",
                "movePrecompileToAddress",
                "tracer",
                "timeout",
            ];
            if rng.chance(1, 3) {
                let name = members.keys().nth(rng.index(members.len().max(1))).cloned();
                name.and_then(|name| members.remove(&name));
            } else {
                members.insert(
                    NAMES[rng.index(NAMES.len())].to_owned(),
                    if rng.chance(1, 4) { again } else { other },
                );
            }
        }
        Value::String(text) if rng.chance(1, 2) => {
            // A digit more, or less, or another.
            let mut bytes = text.clone().into_bytes();
            damage(rng, &mut bytes, b"0x");
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
        value => *value = if rng.chance(1, 5) { again } else { other },
    }
}

/// See the module.
pub(super) fn parameters(rng: &mut Rng, _: &Small) {
    static ASKED: OnceLock<[Mutex<Asked>; 2]> = OnceLock::new();
    let all = ASKED.get_or_init(|| [true, false].map(|validators| Mutex::new(Asked::over(validators))));
    let asked = all[rng.index(2)].lock().unwrap_or_else(PoisonError::into_inner);
    let method = &asked.methods[rng.index(asked.methods.len())];
    let mut params = right(method, rng, &asked.known);
    for _ in 0..rng.below(4) {
        mistake(rng, &mut params, &asked.known);
    }
    let text = params.to_string();
    let before = asked.fingerprint();
    asked.result(method, (!rng.chance(1, 40)).then_some(text.as_str()));
    let after = asked.fingerprint();
    assert_eq!(before.0, after.0, "{method} {text} moved the chain's head");
    assert!(
        CHANGING.contains(&method.as_str()) || before == after,
        "{method} {text} changed {before:?} to {after:?}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Methods with nothing behind them here: another consensus, blocks' access lists, no accounts of its own, no peers.
    const NEVER: [&str; 18] = [
        "admin_addPeer",
        "admin_removePeer",
        "debug_getRawBlockAccessList",
        "eth_coinbase",
        "eth_getBlockAccessList",
        "eth_getUncleByBlockHashAndIndex",
        "eth_getUncleByBlockNumberAndIndex",
        "eth_sendTransaction",
        "eth_sign",
        "eth_signTransaction",
        "ibft_discardValidatorVote",
        "ibft_getPendingVotes",
        "ibft_getRequestTimeoutSeconds",
        "ibft_getSignerMetrics",
        "ibft_getValidatorsByBlockHash",
        "ibft_getValidatorsByBlockNumber",
        "ibft_proposeValidatorVote",
        "net_enode",
    ];

    #[test]
    fn every_method_has_a_result_for_what_is_right() {
        let mut unanswered: Option<BTreeSet<String>> = None;
        for validators in [true, false] {
            let asked = Asked::over(validators);
            let mut rng = Rng::new(1);
            let mut without = BTreeSet::new();
            for method in &asked.methods {
                let results = (0..60).filter(|_| {
                    let params = right(method, &mut rng, &asked.known).to_string();
                    asked.result(method, Some(&params)).is_some_and(|result| !result.is_null())
                });
                if results.count() == 0 {
                    without.insert(method.clone());
                }
            }
            asked.node.stop();
            unanswered = Some(match unanswered {
                None => without,
                Some(before) => before.intersection(&without).cloned().collect(),
            });
        }
        let unanswered = unanswered.unwrap_or_default();
        assert_eq!(unanswered, NEVER.map(str::to_owned).into());
    }
}
