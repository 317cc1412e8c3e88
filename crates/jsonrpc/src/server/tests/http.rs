use super::*;

#[test]
fn a_call_is_answered_with_its_identifier() {
    let fixture = start(endpoint());
    let (status, body) = fixture.post(r#"{"jsonrpc":"2.0","id":"a\"b","method":"eth_blockNumber"}"#);
    assert_eq!((status, body.as_str()), (200, r#"{"jsonrpc":"2.0","id":"a\"b","result":"0x10"}"#));
    let answer =
        fixture.call(&json!({"jsonrpc": "2.0", "id": null, "method": "eth_echo", "params": [1, "é"]}));
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": null, "result": [1, "é"]}));
}

#[test]
fn errors_have_the_numbers_of_the_standard() {
    let fixture = start(endpoint());
    let code = |body: &str| {
        let (status, text) = fixture.post(body);
        let answer: Value = serde_json::from_str(&text).unwrap();
        (status, answer["id"].clone(), answer["error"]["code"].as_i64().unwrap())
    };
    let none = Value::Null;
    assert_eq!(code("{\"jsonrpc\":\"2.0\",\"id\":1,"), (400, none.clone(), -32700));
    assert_eq!(code("nonsense"), (400, none.clone(), -32700));
    assert_eq!(code(""), (400, none.clone(), -32700));
    assert_eq!(code("[1,"), (400, none.clone(), -32700));
    assert_eq!(code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\u{1}\"}"), (400, none.clone(), -32700));
    assert_eq!(code("[]"), (400, none.clone(), -32600));
    assert_eq!(code("7"), (400, none.clone(), -32600));
    assert_eq!(code("{}"), (200, none.clone(), -32600));
    assert_eq!(code(r#"{"jsonrpc":"2.0","id":{},"method":"eth_blockNumber"}"#), (200, none.clone(), -32600));
    assert_eq!(code(r#"{"jsonrpc":"1.0","id":4,"method":"eth_blockNumber"}"#), (200, json!(4), -32600));
    assert_eq!(code(r#"{"jsonrpc":"2.0","id":4,"method":5}"#), (200, json!(4), -32600));
    assert_eq!(code(r#"{"jsonrpc":"2.0","id":4,"method":"eth_echo","params":3}"#), (200, json!(4), -32600));
    assert_eq!(code(r#"{"jsonrpc":"2.0","id":4,"method":"eth_no"}"#), (200, json!(4), -32601));
    assert_eq!(
        code(r#"{"jsonrpc":"2.0","id":4,"method":"eth_subscribe","params":["newHeads"]}"#),
        (200, json!(4), -32601)
    );
    assert_eq!(code(r#"{"jsonrpc":"2.0","id":4,"method":"debug_secret"}"#), (200, json!(4), -32604));
    assert_eq!(
        code(r#"{"jsonrpc":"2.0","id":4,"method":"eth_blockNumber","params":[1]}"#),
        (200, json!(4), -32602)
    );
    assert_eq!(
        code(r#"{"jsonrpc":"2.0","id":4,"method":"eth_long","params":{"a":1}}"#),
        (200, json!(4), -32602)
    );
    assert_eq!(code(r#"{"jsonrpc":"2.0","id":4,"method":"eth_panics"}"#), (200, json!(4), -32603));
    let (_, text) = fixture.post(r#"{"jsonrpc":"2.0","id":4,"method":"eth_fails"}"#);
    let error = r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32000,"message":"it \"failed\"","data":"0x01"}}"#;
    assert_eq!(text, error);
}

#[test]
fn a_batch_is_answered_in_its_order_without_notifications() {
    let fixture = start(endpoint());
    fixture.door.open();
    let batch = json!([
        request("eth_blockNumber", &json!([])),
        {"jsonrpc": "2.0", "method": "eth_echo", "params": [0]},
        3,
        {"jsonrpc": "2.0", "id": 2, "method": "eth_slow", "params": [5]},
        {"jsonrpc": "2.0", "id": 3, "method": "eth_no"},
    ]);
    let answer = fixture.call(&batch);
    let answers = answer.as_array().unwrap();
    assert_eq!(answers.len(), 4, "{answer}");
    assert_eq!(answers[0]["result"], "0x10");
    assert_eq!(answers[1]["error"]["code"], -32600);
    assert_eq!(answers[2]["result"], json!([5]));
    assert_eq!(answers[3]["error"]["code"], -32601);

    let (status, text) = fixture.post(r#"[{"jsonrpc":"2.0","method":"eth_echo","params":[0]}]"#);
    assert_eq!((status, text.as_str()), (204, ""));
    let (status, _) = fixture.post(r#"{"jsonrpc":"2.0","method":"eth_echo","params":[0]}"#);
    assert_eq!(status, 204);

    let long: Vec<Value> = (0..100).map(|_| request("eth_blockNumber", &json!([]))).collect();
    assert_eq!(fixture.call(&json!(long)).as_array().unwrap().len(), 100);
}

#[test]
fn requests_of_one_connection_are_answered_in_order_also_when_sent_at_once() {
    let fixture = start(endpoint());
    fixture.door.open();
    let mut stream = fixture.connect();
    for number in 0..50 {
        let method = if number % 7 == 0 { "eth_slow" } else { "eth_echo" };
        send(&mut stream, "POST", "", &request(method, &json!([number])).to_string());
    }
    for number in 0..50 {
        let (status, text) = receive(&mut stream);
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &answer["result"]), (200, &json!([number])));
    }
}

#[test]
fn only_known_hosts_and_allowed_pages_are_served() {
    let mut open = endpoint();
    open.hosts = Hosts::parse(["node.example", "localhost"]);
    open.origins = Origins::parse(["https://wallet.example"]);
    let fixture = start(open);
    let ask = |host: &str, headers: &str| {
        let mut stream = fixture.connect();
        let body = request("eth_blockNumber", &json!([])).to_string();
        let length = body.len();
        let head =
            format!("POST / HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
        stream.write_all(head.as_bytes()).unwrap();
        receive_all(&mut stream)
    };
    assert_eq!(ask("NODE.example:8545", JSON).0, 200);
    let (status, _, body) = ask("evil.example", "");
    assert_eq!((status, body.as_str()), (403, r#"{"message":"Host not authorized."}"#));
    let json = JSON;
    let (status, head, _) = ask("localhost", &format!("Origin: https://wallet.example\r\n{json}"));
    assert_eq!(status, 200);
    assert!(head.contains("access-control-allow-origin: https://wallet.example"), "{head}");
    let (_, head, _) = ask("localhost", &format!("Origin: https://evil.example\r\n{json}"));
    assert!(!head.contains("access-control"), "{head}");
    // What a browser sends without asking is not taken for a call.
    assert_eq!(ask("localhost", "Origin: https://evil.example\r\nContent-Type: text/plain\r\n").0, 415);
    // Not each browser says for which page.
    for kind in ["", "Content-Type: text/plain\r\n", "Content-Type: application/json-rpc\r\n"] {
        let (status, _, body) = ask("localhost", kind);
        assert_eq!(status, 415, "{kind}");
        assert!(body.contains("Content-Type: application/json"), "it says what: {body}");
    }
    assert_eq!(ask("localhost", "Content-Type: Application/JSON; charset=utf-8\r\n").0, 200);

    let mut stream = fixture.connect();
    send(
        &mut stream,
        "OPTIONS",
        "Origin: https://wallet.example\r\nAccess-Control-Request-Method: POST\r\n",
        "",
    );
    let (status, head, _) = receive_all(&mut stream);
    assert_eq!(status, 204);
    assert!(head.contains("access-control-allow-methods: post"), "{head}");

    let mut stream = fixture.connect();
    send(&mut stream, "GET", "", "");
    assert_eq!(receive(&mut stream).0, 405);
}

#[test]
fn names_of_hosts_and_origins_are_read_as_operators_write_them() {
    assert!(Hosts::parse(["*"]).allow(None));
    assert!(Hosts::parse(["all"]).allow(Some("anything")));
    assert!(!Hosts::default().allow(None));
    assert!(Hosts::parse(["::1"]).allow(Some("[::1]:8545")));
    assert!(!Hosts::parse(["localhost"]).allow(Some("localhost.evil.example")));
    assert_eq!(Origins::parse(["none"]), Origins::None);
    assert_eq!(Origins::parse(["*"]), Origins::Any);
    assert!(Origins::parse(["remix.example"]).allow("https://remix.example"));
    assert!(!Origins::parse(["https://remix.example"]).allow("http://remix.example"));
    assert_eq!(Namespaces::parse(["eth", "QBFT"]).unwrap().iter().collect::<Vec<_>>(), ["eth", "qbft"]);
    assert!(Namespaces::parse(["ETH", "PRIV"]).unwrap_err().to_string().contains("`PRIV` is no API"));
}

#[test]
fn what_is_under_way_is_finished_at_the_end_and_nothing_more_is_accepted() {
    let fixture = start(endpoint());
    let mut stream = fixture.connect();
    send(&mut stream, "POST", "", &request("eth_slow", &json!([1])).to_string());
    fixture.door.until_inside(1);
    let address = fixture.address();
    let Fixture { server, door, .. } = fixture;
    let stopping = std::thread::spawn(move || server.stop(Duration::from_secs(20)));
    door.open();
    assert_eq!(receive(&mut stream).0, 200);
    stopping.join().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_page_without_a_token_calls_nothing_that_is_the_operators() {
    let mut open = endpoint();
    open.namespaces = Namespaces::parse(["ETH", "DEBUG"]).unwrap();
    open.origins = Origins::Any;
    let fixture = start(open);
    let code = |headers: &str, method: &str| {
        let mut stream = fixture.connect();
        send(&mut stream, "POST", headers, &request(method, &json!([])).to_string());
        let (_, text) = receive(&mut stream);
        let answer: Value = serde_json::from_str(&text).unwrap();
        answer["error"]["code"].as_i64().unwrap_or(0)
    };
    let page = "Origin: https://evil.example\r\n";
    assert_eq!(code(page, "eth_blockNumber"), 0);
    assert_eq!(code(page, "debug_secret"), -40100);
    assert_eq!(code("Origin: null\r\n", "debug_secret"), -40100, "a page of no origin is one as well");
    assert_eq!(code("", "debug_secret"), 0, "no page calls");

    let url = format!("ws://localhost:{}/", fixture.address().port());
    let mut asked =
        tokio_tungstenite::tungstenite::client::IntoClientRequest::into_client_request(url).unwrap();
    asked.headers_mut().insert("origin", "https://evil.example".parse().unwrap());
    let mut socket = tokio_tungstenite::tungstenite::client(asked, fixture.connect()).unwrap().0;
    socket.send(Message::text(request("debug_secret", &json!([])).to_string())).unwrap();
    assert_eq!(text(&mut socket)["error"]["code"], -40100);
}

#[test]
fn a_socket_of_the_file_system_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rpc.sock");
    let mut own = Endpoint::at(&path);
    own.namespaces = Namespaces::parse(["DEBUG"]).unwrap();
    for _ in 0..2 {
        // What an earlier process left is no obstacle.
        let fixture = start(own.clone());
        assert!(fixture.server.addresses().is_empty());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut stream = UnixStream::connect(&path).unwrap();
        let body = request("debug_secret", &json!([])).to_string();
        let length = body.len();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: any\r\n{JSON}Connection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\"result\":1}"), "{answer}");
        // Another process is in the way as long as it listens.
        let error = Server::start(
            vec![own.clone()],
            Registry::new(),
            &Options::default(),
            &tally_ops::metrics::Registry::new(),
        );
        assert!(error.unwrap_err().to_string().contains("rpc.sock"));
        drop(fixture);
        // The server's threads let go of it a moment later.
        while UnixStream::connect(&path).is_ok() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    // A file that is no socket is nobody's to remove.
    let file = directory.path().join("mine");
    std::fs::write(&file, "x").unwrap();
    let metrics = tally_ops::metrics::Registry::new();
    let error = Server::start(vec![Endpoint::at(&file)], Registry::new(), &Options::default(), &metrics);
    assert!(error.is_err());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
}
