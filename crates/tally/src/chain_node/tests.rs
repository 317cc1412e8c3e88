use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use tally_chain::setup::{self, Plan};

use super::*;

/// A network of one validator, whose configuration is each test's.
struct Alone {
    _home: tempfile::TempDir,
    node: PathBuf,
    /// For peers, HTTP and WebSocket.
    ports: Vec<u16>,
}

impl Alone {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let ports = tally_ops::ports::free(3).unwrap();
        let mut plan = Plan::new(1_700_000_000);
        plan.validators = 1;
        plan.block_period_seconds = 1;
        (plan.p2p_port, plan.http_port, plan.ws_port) = (ports[0], ports[1], ports[2]);
        let made = setup::init(plan, &home.path().join("network")).unwrap();
        let node = made.nodes[0].directory.clone();
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        std::fs::write(node.join("jwt.pem"), key.public_key_pem()).unwrap();
        let account = made.accounts[0].address;
        let list = format!("accounts-allowlist = [\"{account}\"]\nnodes-allowlist = []\n");
        std::fs::write(node.join("rules.toml"), list).unwrap();
        Self { _home: home, node, ports }
    }

    /// Starts it with these lines, and with what it needs besides.
    fn start(&self, lines: &str) -> ChainNode {
        let mut text = lines.to_owned();
        for (name, value) in [
            ("genesis-file", "\"../genesis.json\"".to_owned()),
            ("p2p-interface", "\"127.0.0.1\"".to_owned()),
            ("p2p-port", self.ports[0].to_string()),
            ("rpc-http-port", self.ports[1].to_string()),
            ("rpc-ws-port", self.ports[2].to_string()),
        ] {
            if !text.lines().any(|line| line.split(' ').next() == Some(name)) {
                text.push_str(&format!("\n{name} = {value}"));
            }
        }
        let settings = Settings::parse(&text, &self.node).unwrap_or_else(|error| panic!("{error}: {text}"));
        ChainNode::start(&settings, "alone").unwrap_or_else(|error| panic!("{error:#}: {text}"))
    }
}

fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_node_starts_with_each_of_its_options() {
    let starts = [
        "data-path = \".\"\ngenesis-file = \"../genesis.json\"\nnode-private-key-file = \"key\"\nidentity = \"a-node\"",
        "network-id = 7\nsync-mode = \"FAST\"\ndata-storage-format = \"BONSAI\"\nbonsai-historical-block-limit = 9",
        "logging = \"DEBUG\"\nmin-gas-price = 1\ntarget-gas-limit = 30000000\ndiscovery-enabled = false",
        "p2p-enabled = true\np2p-host = \"127.0.0.1\"\np2p-interface = \"127.0.0.1\"\np2p-port = 0\nmax-peers = 3",
        "static-nodes-file = \"static-nodes.json\"\nbootnodes = []",
        "rpc-http-enabled = true\nrpc-http-host = \"127.0.0.1\"\nrpc-http-port = 0\nrpc-http-api = [\"ADMIN\", \"ETH\"]",
        "rpc-http-enabled = true\nrpc-http-cors-origins = [\"http://localhost\"]\nrpc-http-max-active-connections = 5",
        "rpc-http-enabled = true\nrpc-http-max-request-content-length = 4096\nrpc-http-max-batch-size = 2",
        "rpc-http-enabled = true\nrpc-http-authentication-enabled = true\nrpc-http-authentication-jwt-public-key-file = \"jwt.pem\"",
        "rpc-ws-enabled = true\nrpc-ws-host = \"127.0.0.1\"\nrpc-ws-port = 0\nrpc-ws-api = [\"ETH\", \"DEBUG\"]",
        "rpc-ws-enabled = true\nrpc-ws-max-active-connections = 5\nrpc-ws-max-frame-size = 4096",
        "rpc-ws-enabled = true\nrpc-ws-authentication-enabled = true\nrpc-ws-authentication-jwt-public-key-file = \"jwt.pem\"",
        "rpc-socket-enabled = true\nrpc-socket-path = \"own.sock\"\nrpc-socket-api = [\"QBFT\"]",
        "rpc-http-enabled = true\nhost-allowlist = [\"node\"]\nrpc-max-logs-range = 5\nrpc-gas-cap = 100000",
        "rpc-http-enabled = true\nrpc-max-traces = 1\nrpc-max-trace-steps = 1000\nrpc-max-trace-bytes = 2000000",
        "rpc-http-enabled = true\nrpc-max-trace-seconds = 5\nrpc-max-held-bytes = 8000000",
        "tx-pool-max-size = 5\ntx-pool-max-future-by-sender = 2\ntx-pool-price-bump = 20\nstrict-tx-replay-protection-enabled = false",
        "permissions-nodes-config-file-enabled = true\npermissions-nodes-config-file = \"rules.toml\"",
        "permissions-accounts-config-file-enabled = true\npermissions-accounts-config-file = \"rules.toml\"",
        "metrics-enabled = true\nmetrics-host = \"127.0.0.1\"\nmetrics-port = 0\npid-path = \"node.pid\"",
    ];
    let alone = Alone::new();
    for lines in starts {
        alone.start(lines).stop();
    }
    let set: Vec<&str> =
        starts.iter().flat_map(|lines| lines.lines()).filter_map(|line| line.split(' ').next()).collect();
    for name in Settings::names() {
        assert!(set.contains(&name), "no node was started with {name}");
    }
}

/// An answer to a call over HTTP.
fn post(address: std::net::SocketAddr, method: &str, params: &serde_json::Value) -> serde_json::Value {
    let body = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap_or_else(|_| panic!("{answer}"))
}

/// `testing_buildBlockV1` is for tests of other programs: nobody reaches it unless the configuration says so, and
/// then it works over HTTP on a chain that no validators seal.
#[test]
fn blocks_for_tests_are_built_where_the_configuration_names_the_group() {
    let alone = Alone::new();
    let genesis = serde_json::json!({
        "config": {"chainId": 7, "londonBlock": 0, "terminalTotalDifficulty": 0, "ethash": {}},
        "difficulty": "0x0", "gasLimit": "0x1c9c380", "timestamp": "0x10", "baseFeePerGas": "0x7", "alloc": {},
    });
    std::fs::write(alone.node.join("unsealed.json"), genesis.to_string()).unwrap();
    let http = "genesis-file = \"unsealed.json\"\nrpc-http-enabled = true\np2p-enabled = false";
    let call = |lines: &str| {
        let node = alone.start(&format!("{http}\n{lines}"));
        let address = node.server.as_ref().unwrap().addresses()[0];
        let head = post(address, "eth_getBlockByNumber", &serde_json::json!(["latest", false]));
        let attributes = serde_json::json!({
            "timestamp": "0x20", "prevRandao": alloy_primitives::B256::ZERO,
            "suggestedFeeRecipient": alloy_primitives::Address::ZERO,
        });
        let params = serde_json::json!([head["result"]["hash"], attributes, [], "0x"]);
        let answer = post(address, "testing_buildBlockV1", &params);
        node.stop();
        answer
    };
    let refused = call("rpc-http-api = [\"ETH\"]");
    assert!(refused["error"].is_object(), "{refused}");
    let built = call("rpc-http-api = [\"ETH\", \"TESTING\"]");
    assert_eq!(built["result"]["executionPayload"]["blockNumber"], "0x1", "{built}");
    let silent = Settings::parse("genesis-file = \"unsealed.json\"", &alone.node).unwrap();
    for server in [&silent.http.apis, &silent.ws.apis, &silent.socket.apis] {
        assert!(!server.contains(&setup::Api::Testing));
    }
}

#[test]
fn health_readiness_and_metrics_are_there_for_those_who_watch() {
    let alone = Alone::new();
    let node = alone.start("rpc-http-enabled = true\nmetrics-enabled = true\nmetrics-port = 0");
    let address = node.metrics.unwrap();
    assert!(get(address, "/health").contains("200 OK"), "the process lives");
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        let ready = get(address, "/ready");
        if ready.contains("200 OK") {
            break;
        }
        assert!(ready.contains("503") && std::time::Instant::now() < deadline, "{ready}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let metrics = get(address, "/metrics");
    for name in ["tally_chain_connected_peers", "tally_chain_consensus_round", "tally_chain_node_ready 1"] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    node.stop();
    // A node that nobody is connected to does not know whether it is behind.
    let key = alone.node.join("key");
    std::fs::remove_file(&key).unwrap();
    let follower = alone.start("metrics-enabled = true\nmetrics-port = 0");
    let ready = get(follower.metrics.unwrap(), "/ready");
    assert!(ready.contains("503") && ready.ends_with("no peer is connected\n"), "{ready}");
    follower.stop();
}
