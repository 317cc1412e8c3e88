use super::*;

const CALLER: &str = "0x00000000000000000000000000000000000c0de0";
/// Runs the code that it is called with.
const LOGGER: &str = "0x00000000000000000000000000000000000c0de1";
const REVERTER: &str = "0x00000000000000000000000000000000000c0de2";

fn simulated(client: &Client, payload: &Value, block: &str) -> Value {
    client.ok("eth_simulateV1", &json!([payload, block]))
}

/// Execution-apis: a log's index is its place among the logs of its block, and what was reverted is no log of it.
#[test]
fn logs_are_counted_through_their_block() {
    let Some(client) = Client::reference() else { return };
    let code = json!({
        // One log without topics; the same, and a revert; both contracts, one after the other.
        LOGGER: {"code": "0x5f5fa0"},
        REVERTER: {"code": "0x5f5fa05f5ffd"},
        CALLER: {"code": format!(
            "0x5f5f5f5f5f73{}5af1505f5f5f5f5f73{}5af1505f5fa0", &REVERTER[2..], &LOGGER[2..]
        )},
    });
    let call = |to: &str| json!({"from": "0x00000000000000000000000000000000000000aa", "to": to});
    let calls = json!([call(LOGGER), call(REVERTER), call(CALLER), call(LOGGER)]);
    for transfers in [false, true] {
        let payload = json!({
            "blockStateCalls": [{"stateOverrides": code, "calls": calls}, {"calls": [call(LOGGER)]}],
            "traceTransfers": transfers,
        });
        let blocks = simulated(&client, &payload, "latest");
        let indices = |block: &Value| -> Vec<(Value, Value)> {
            let calls = block["calls"].as_array().unwrap().iter();
            let logs = calls.flat_map(|call| call["logs"].as_array().unwrap().clone());
            logs.map(|log| (log["logIndex"].clone(), log["transactionIndex"].clone())).collect()
        };
        let expected = [("0x0", "0x0"), ("0x1", "0x2"), ("0x2", "0x2"), ("0x3", "0x3")];
        assert_eq!(indices(&blocks[0]), expected.map(|(log, call)| (json!(log), json!(call))));
        assert_eq!(indices(&blocks[1]), [(json!("0x0"), json!("0x0"))]);
    }
}

/// The reference answers a list of no blocks with an error, whatever the block is that they should follow.
#[test]
fn no_blocks_at_all_are_refused() {
    let Some(client) = Client::reference() else { return };
    for block in ["latest", "0xffff"] {
        for payload in [json!({}), json!({"blockStateCalls": []})] {
            let error = client.call("eth_simulateV1", &json!([payload, block])).unwrap_err();
            assert_eq!((error.code, error.message.as_ref()), (-32602, "empty input"));
        }
    }
}

/// An empty block can follow any block of a chain that goes through every fork, and has the form of its own fork.
#[test]
fn an_empty_block_follows_any_block() {
    let (Some(client), Some(document)) = (Client::reference(), openrpc::OpenRpc::load()) else { return };
    let number = |value: &Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
    let head = number(&client.ok("eth_blockNumber", &json!([])));
    for base in 0..=head {
        let parent = client.ok("eth_getBlockByNumber", &json!([format!("{base:#x}"), false]));
        for payload in [
            json!({"blockStateCalls": [{}]}),
            json!({"blockStateCalls": [{"calls": [], "stateOverrides": {}}], "validation": true}),
            json!({"blockStateCalls": [{"calls": [{}]}]}),
        ] {
            let blocks = simulated(&client, &payload, &format!("{base:#x}"));
            assert_eq!(document.fault("eth_simulateV1", &blocks), None, "{blocks}");
            let block = &blocks[0];
            assert_eq!(block["parentHash"], parent["hash"]);
            assert_eq!(number(&block["number"]), base + 1);
            let none = block["transactions"].as_array().unwrap().is_empty();
            // Since Cancun the protocol's own contracts write at the start of a block.
            if none && block["parentBeaconBlockRoot"].is_null() {
                assert_eq!(block["stateRoot"], parent["stateRoot"], "{block}");
            }
            if none {
                assert_eq!((&block["gasUsed"], &block["calls"]), (&json!("0x0"), &json!([])));
            }
        }
    }
}

/// Before London there are no transactions with a fee market, so a call stands in its block as one of the first type.
#[test]
fn calls_are_transactions_that_their_fork_has() {
    let Some(client) = Client::reference() else { return };
    let payload = json!({"blockStateCalls": [{"calls": [{}]}], "returnFullTransactions": true});
    let kind = |base: &str| simulated(&client, &payload, base)[0]["transactions"][0]["type"].clone();
    assert_eq!(kind("0x1"), "0x0");
    assert_eq!(kind("latest"), "0x2");
}
