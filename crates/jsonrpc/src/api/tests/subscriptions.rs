//! Over a real server: a WebSocket that listens while blocks come.

use std::net::TcpStream;

use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use super::*;
use crate::server::{Endpoint, Options as ServerOptions, Server};

fn read(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        if let Message::Text(text) = socket.read().unwrap() {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

fn ask(socket: &mut WebSocket<TcpStream>, method: &str, params: &Value) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    socket.send(Message::text(request.to_string())).unwrap();
    read(socket)["result"].clone()
}

#[test]
fn heads_and_logs_are_told_as_blocks_come() {
    let Some(directory) = reference("rpc-compat") else { return };
    let genesis = std::fs::read_to_string(directory.join("genesis.json")).unwrap();
    let blocks = std::fs::read(directory.join("chain.rlp")).unwrap();
    let node = Client::over(&genesis, &[]);
    let registry = registry(node.node.clone(), Settings::new("tally/test".into(), 1));
    let metrics = tally_ops::metrics::Registry::new();
    let endpoint = Endpoint::new(([127, 0, 0, 1], 0).into());
    let server = Server::start(vec![endpoint], registry, &ServerOptions::default(), &metrics).unwrap();
    let stream = TcpStream::connect(server.addresses()[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut socket, _) = client("ws://localhost/", stream).unwrap();

    let heads = ask(&mut socket, "eth_subscribe", &json!(["newHeads"]));
    let emitter = "0x7dcd17433742f4c0ca53122ab541d0ba67fc27df";
    let logs = ask(&mut socket, "eth_subscribe", &json!(["logs", {"address": emitter}]));
    assert_eq!(ask(&mut socket, "eth_blockNumber", &json!([])), "0x0");
    files::import(node.node.chain(), &blocks[..], 2, &mut |_| ()).unwrap();

    let range = json!([{"fromBlock": "0x0", "toBlock": "latest", "address": emitter}]);
    let wanted = node.ok("eth_getLogs", &range);
    let wanted = wanted.as_array().unwrap();
    let (mut found_heads, mut found_logs) = (Vec::new(), Vec::new());
    while found_heads.len() < 0x36 || found_logs.len() < wanted.len() {
        let told = read(&mut socket)["params"].clone();
        if told["subscription"] == heads {
            found_heads.push(told["result"]["number"].clone());
        } else {
            assert_eq!(told["subscription"], logs);
            found_logs.push(told["result"].clone());
        }
    }
    assert!(!wanted.is_empty());
    assert_eq!(&found_logs, wanted);
    let numbers: Vec<Value> = (1..=0x36).map(|number| json!(format!("{number:#x}"))).collect();
    assert_eq!(found_heads, numbers);
    // And the answer of a costly call, over the same socket.
    assert_eq!(ask(&mut socket, "eth_getLogs", &range), json!(wanted));
}
