use super::*;

/// Every method of the document, called so that it answers with something.
fn examples(client: &Client) -> Vec<(&'static str, Value)> {
    let head = client.ok("eth_getBlockByNumber", &json!(["latest", false]));
    let (hash, transaction) = (head["hash"].clone(), head["transactions"][0].clone());
    let account = "0x7435ed30a8b4aeb0877cef0c6e8cffe834eb865f";
    let contract = "0x7dcd17433742f4c0ca53122ab541d0ba67fc27df";
    let call = json!({"from": account, "to": contract, "input": "0x01"});
    vec![
        ("debug_getBadBlocks", json!([])),
        ("debug_getRawBlock", json!(["latest"])),
        ("debug_getRawHeader", json!(["latest"])),
        ("debug_getRawReceipts", json!(["latest"])),
        ("debug_getRawTransaction", json!([transaction])),
        ("debug_traceBlockByHash", json!([hash])),
        ("debug_traceBlockByNumber", json!(["0x4", {"enableMemory": true, "enableReturnData": true}])),
        ("debug_traceTransaction", json!([transaction])),
        ("eth_accounts", json!([])),
        ("eth_baseFee", Value::Null),
        ("eth_blobBaseFee", Value::Null),
        ("eth_blockNumber", json!([])),
        ("eth_call", json!([call, "latest"])),
        ("eth_capabilities", Value::Null),
        ("eth_chainId", json!([])),
        ("eth_config", json!([])),
        ("eth_createAccessList", json!([call, "latest"])),
        ("eth_estimateGas", json!([call])),
        ("eth_feeHistory", json!(["0x30", "latest", [0.5, 50, 99.5]])),
        ("eth_fillTransaction", json!([call])),
        ("eth_gasPrice", json!([])),
        ("eth_getBalance", json!([account, {"blockHash": hash, "requireCanonical": true}])),
        ("eth_getBlockByHash", json!([hash, true])),
        ("eth_getBlockByNumber", json!(["latest", true])),
        ("eth_getBlockReceipts", json!([hash])),
        ("eth_getBlockTransactionCountByHash", json!([hash])),
        ("eth_getBlockTransactionCountByNumber", json!(["latest"])),
        ("eth_getCode", json!([contract, "latest"])),
        ("eth_getLogs", json!([{"fromBlock": "0x1", "toBlock": "latest", "address": contract}])),
        ("eth_getProof", json!([contract, ["0x0", format!("0x{:064x}", 7)], "latest"])),
        ("eth_getStorageAt", json!([contract, "0x0", "latest"])),
        ("eth_getStorageValues", json!([{contract: ["0x0", "0x1"]}, "latest"])),
        ("eth_getTransactionByBlockHashAndIndex", json!([hash, "0x0"])),
        ("eth_getTransactionByBlockNumberAndIndex", json!(["latest", "0x1"])),
        ("eth_getTransactionByHash", json!([transaction])),
        ("eth_getTransactionCount", json!([account, "pending"])),
        ("eth_getTransactionReceipt", json!([transaction])),
        ("eth_maxPriorityFeePerGas", json!([])),
        ("eth_newBlockFilter", json!([])),
        ("eth_newFilter", json!([{"fromBlock": "0x1"}])),
        ("eth_newPendingTransactionFilter", json!([])),
        (
            "eth_simulateV1",
            json!([{"blockStateCalls": [{"calls": [call]}], "returnFullTransactions": true}, "latest"]),
        ),
        ("eth_syncing", json!([])),
        ("eth_uninstallFilter", json!(["0x99"])),
        ("net_version", json!([])),
        ("txpool_content", json!([])),
        ("txpool_contentFrom", json!([account])),
        ("txpool_status", json!([])),
    ]
}

#[test]
fn every_result_has_the_form_that_the_document_gives_it() {
    let (Some(client), Some(document)) = (Client::reference(), openrpc::OpenRpc::load()) else { return };
    let examples = examples(&client);
    for (method, params) in &examples {
        let result = client.ok(method, params);
        if let Some(fault) = document.fault(method, &result) {
            panic!("{fault}: {result}");
        }
    }
    // What is asked for elsewhere, or answers with an error alone here.
    let others = [
        "debug_getRawBlockAccessList",
        "eth_coinbase",
        "eth_getBlockAccessList",
        "eth_getFilterChanges",
        "eth_getFilterLogs",
        "eth_sendRawTransaction",
        "eth_sendTransaction",
        "eth_sign",
        "eth_signTransaction",
    ];
    for method in document.methods() {
        let known = others.contains(&method) || examples.iter().any(|(name, _)| *name == method);
        assert!(known, "{method} is never called");
    }
}

#[test]
fn every_block_of_every_fork_has_the_form_of_the_document() {
    let (Some(client), Some(document)) = (Client::reference(), openrpc::OpenRpc::load()) else { return };
    for number in 0..=0x36 {
        let name = format!("{number:#x}");
        for (method, params) in [
            ("eth_getBlockByNumber", json!([name, true])),
            ("eth_getBlockByNumber", json!([name, false])),
            ("eth_getBlockReceipts", json!([name])),
        ] {
            let result = client.ok(method, &params);
            assert_eq!(document.fault(method, &result), None, "{number}");
        }
    }
}

#[test]
fn what_is_not_there_is_null_or_the_error_of_the_standard() {
    let Some(client) = Client::reference() else { return };
    let nothing = format!("0x{}", "77".repeat(32));
    for (method, params) in [
        ("eth_getBlockByHash", json!([nothing, false])),
        ("eth_getBlockByNumber", json!(["0x1000", false])),
        ("eth_getBlockReceipts", json!(["0x1000"])),
        ("eth_getTransactionByHash", json!([nothing])),
        ("eth_getTransactionReceipt", json!([nothing])),
        ("eth_getTransactionByBlockNumberAndIndex", json!(["latest", "0x1000"])),
        ("eth_getBlockTransactionCountByHash", json!([nothing])),
        ("eth_getUncleByBlockNumberAndIndex", json!(["latest", "0x0"])),
        ("eth_getBlockAccessList", json!(["0x1000"])),
    ] {
        assert_eq!(client.ok(method, &params), Value::Null, "{method}");
    }
    let account = "0x7435ed30a8b4aeb0877cef0c6e8cffe834eb865f";
    for (method, params, code) in [
        ("eth_getBalance", json!([account, "0x1000"]), -32000),
        ("eth_getBalance", json!([account, nothing]), -32000),
        ("eth_getBalance", json!([account, {"blockNumber": "0x1", "blockHash": nothing}]), -32602),
        ("eth_getBalance", json!([]), -32602),
        ("eth_getBalance", json!([account, "latest", 1]), -32602),
        ("eth_getBalance", json!(["0x12", "latest"]), -32602),
        ("eth_getBlockByNumber", json!(["0x01", false]), -32602),
        ("eth_getBlockByNumber", json!(["latest"]), -32602),
        ("eth_call", json!([{"to": 1}]), -32602),
        ("eth_getLogs", json!([{"blockHash": nothing, "fromBlock": "0x1"}]), -32602),
        ("eth_getLogs", json!([{"blockHash": nothing}]), -32000),
        ("eth_getLogs", json!([{"topics": [[], [], [], [], []]}]), -32602),
        ("eth_getBlockAccessList", json!(["latest"]), -32001),
        ("eth_getFilterChanges", json!(["0x12345"]), -32000),
        ("eth_sendRawTransaction", json!(["0x01"]), -32000),
        ("eth_sendTransaction", json!([{}]), -32000),
        ("eth_feeHistory", json!(["0x1", "latest", [90, 10]]), -32000),
        ("debug_traceTransaction", json!([nothing]), -32000),
        ("debug_traceBlockByNumber", json!(["0x0"]), -32000),
        ("admin_addPeer", json!(["enode://1"]), -32004),
        ("qbft_getPendingVotes", json!([]), -32604),
    ] {
        assert_eq!(client.code(method, &params), code, "{method} {params}");
    }
}

#[test]
fn an_old_state_is_read_as_it_was() {
    let Some(client) = Client::reference() else { return };
    let contract = "0x7dcd17433742f4c0ca53122ab541d0ba67fc27df";
    let at = |block: &str| client.ok("eth_getStorageAt", &json!([contract, "0x0", block]));
    assert_ne!(at("0x1"), at("latest"));
    assert_eq!(at("0x36"), at("latest"));
    let proof = client.ok("eth_getProof", &json!([contract, ["0x0"], "0x5"]));
    assert_eq!(
        proof["storageProof"][0]["value"],
        client.ok("eth_getStorageValues", &json!([{contract: ["0x0"]}, "0x5"]))[contract][0]
            .as_str()
            .map(|text| format!("0x{}", text.trim_start_matches("0x").trim_start_matches('0')))
            .unwrap()
    );
}

#[test]
fn filters_tell_of_what_is_new_and_no_more() {
    let Some(client) = Client::reference() else { return };
    let blocks = client.ok("eth_newBlockFilter", &json!([]));
    let logs = client.ok("eth_newFilter", &json!([{"fromBlock": "0x1", "toBlock": "latest"}]));
    let pending = client.ok("eth_newPendingTransactionFilter", &json!([]));
    let sent = "0x01f8cc870c72dd9d5e883e028401a2158b83015f90947dcd17433742f4c0ca53122ab541d0ba67fc27df8083010203f85bf859947dcd17433742f4c0ca53122ab541d0ba67fc27dff842a00000000000000000000000000000000000000000000000000000000000000000a0010000000000000000000000000000000000000000000000000000000000000080a077c7fff2b3316a4a0b112a12eed09f6f10d31f3f4600a882301970ecb8451644a02e2136e1c2c3244ad1dfd367c11de1c288faba87991a8866b3fbbbda6033fa0b";
    let hash = client.ok("eth_sendRawTransaction", &json!([sent]));
    assert_eq!(client.ok("eth_getFilterChanges", &json!([blocks])), json!([]));
    assert_eq!(client.ok("eth_getFilterChanges", &json!([logs])), json!([]));
    assert_eq!(client.ok("eth_getFilterChanges", &json!([pending])), json!([hash]));
    assert_eq!(client.ok("eth_getFilterChanges", &json!([pending])), json!([]));
    let all = client.ok("eth_getFilterLogs", &json!([logs]));
    assert_eq!(all, client.ok("eth_getLogs", &json!([{"fromBlock": "0x1", "toBlock": "latest"}])));
    assert!(!all.as_array().unwrap().is_empty());
    // What was sent waits, and can be seen.
    assert_eq!(client.code("eth_sendRawTransaction", &json!([sent])), -32000);
    let waiting = client.ok("eth_getTransactionByHash", &json!([hash]));
    assert_eq!((&waiting["blockHash"], &waiting["hash"]), (&Value::Null, &hash));
    assert_eq!(client.ok("txpool_fate", &json!([hash])), "waiting");
    // The operator drops it, by its hash or for its sender.
    assert_eq!(client.code("txpool_drop", &json!(["0x01"])), -32602);
    assert_eq!(client.ok("txpool_drop", &json!(["0x7dcd17433742f4c0ca53122ab541d0ba67fc27df"])), json!([]));
    assert_eq!(client.ok("txpool_drop", &json!([hash])), json!([hash]));
    assert_eq!(client.ok("txpool_fate", &json!([hash])), "dropped by this node's operator");
    assert_eq!(client.ok("txpool_drop", &json!([hash])), json!([]));
    assert_eq!(client.ok("eth_uninstallFilter", &json!([pending])), true);
    assert_eq!(client.ok("eth_uninstallFilter", &json!([pending])), false);
}
