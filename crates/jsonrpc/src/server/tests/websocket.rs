use super::*;

fn say(socket: &mut WebSocket<TcpStream>, value: &Value) {
    socket.send(Message::text(value.to_string())).unwrap();
}

#[test]
fn calls_and_batches_work_over_a_websocket() {
    let fixture = start(endpoint());
    let mut socket = fixture.websocket();
    say(&mut socket, &request("eth_blockNumber", &json!([])));
    assert_eq!(text(&mut socket), json!({"jsonrpc": "2.0", "id": 1, "result": "0x10"}));
    say(&mut socket, &json!([request("eth_echo", &json!([1])), request("eth_no", &json!([]))]));
    let answers = text(&mut socket);
    assert_eq!((&answers[0]["result"], &answers[1]["error"]["code"]), (&json!([1]), &json!(-32601)));
    socket.send(Message::text("{")).unwrap();
    assert_eq!(text(&mut socket)["error"]["code"], -32700);
}

#[test]
fn a_costly_call_does_not_hold_up_those_after_it() {
    let fixture = start(endpoint());
    let mut socket = fixture.websocket();
    say(&mut socket, &request("eth_slow", &json!(["slow"])));
    say(&mut socket, &request("eth_echo", &json!(["fast"])));
    assert_eq!(text(&mut socket)["result"], json!(["fast"]));
    fixture.door.open();
    assert_eq!(text(&mut socket)["result"], json!(["slow"]));
}

#[test]
fn costly_calls_end_with_their_websocket() {
    let fixture = start(endpoint());
    let mut socket = fixture.websocket();
    say(&mut socket, &request("eth_slow", &json!([1])));
    fixture.door.until_inside(1);
    drop(socket);
    let mut open = fixture.door.open.lock().unwrap();
    while !fixture.door.stopped.load(Ordering::SeqCst) {
        open = fixture.door.moved.wait(open).unwrap();
    }
}

#[test]
fn a_subscription_is_named_before_it_speaks_and_ends_when_asked() {
    let mut few = endpoint();
    few.limits.subscriptions = 1;
    let fixture = start(few);
    let mut socket = fixture.websocket();
    say(&mut socket, &request("eth_subscribe", &json!(["newHeads"])));
    let id = text(&mut socket)["result"].clone();
    assert!(id.as_str().unwrap().starts_with("0x"));
    let told = |result: &str| json!({"jsonrpc": "2.0", "method": "eth_subscription", "params": {"subscription": id, "result": result}});
    assert_eq!(text(&mut socket), told("first"));
    let sink = fixture.heads.0.lock().unwrap().pop().unwrap();
    sink.send(b"\"second\"").unwrap();
    assert_eq!(text(&mut socket), told("second"));

    say(&mut socket, &request("eth_subscribe", &json!(["newHeads"])));
    assert_eq!(text(&mut socket)["error"]["code"], -32005);
    say(&mut socket, &request("eth_unsubscribe", &json!([id])));
    assert_eq!(text(&mut socket)["result"], true);
    assert!(sink.ended() && sink.send(b"1").is_err());
    say(&mut socket, &request("eth_unsubscribe", &json!([id])));
    assert_eq!(text(&mut socket)["error"]["code"], -32000);
    say(&mut socket, &request("eth_subscribe", &json!(["other"])));
    assert_eq!(text(&mut socket)["error"]["code"], -32602);
}

#[test]
fn who_does_not_read_is_dropped_and_the_rest_is_not_held() {
    let mut tight = endpoint();
    tight.limits.backlog_bytes = 1 << 20;
    let fixture = start(tight);
    let mut socket = fixture.websocket();
    say(&mut socket, &request("eth_subscribe", &json!(["newHeads"])));
    text(&mut socket);
    let sink = fixture.heads.0.lock().unwrap().pop().unwrap();
    let result = format!("\"{}\"", "x".repeat(100_000));
    // What the system's buffers take is megabytes; a reader that never reads is noticed after those.
    let sent = (0..10_000).take_while(|_| sink.send(result.as_bytes()).is_ok()).count();
    assert!(sent < 10_000, "nothing was dropped");
    assert!(sink.ended());
    let dropped = || fixture.metrics.counter("tally_jsonrpc_slow_clients", "", &[]).unwrap().get();
    while dropped() == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_message_too_long_ends_the_connection_with_an_error() {
    let mut small = endpoint();
    small.limits.request_bytes = 1000;
    let fixture = start(small);
    let mut socket = fixture.websocket();
    say(&mut socket, &request("eth_echo", &json!(["x".repeat(2000)])));
    assert_eq!(text(&mut socket)["error"]["code"], -32005);
    assert!(matches!(socket.read(), Ok(Message::Close(_)) | Err(_)));
}

#[test]
fn pages_of_other_origins_open_no_websocket() {
    let fixture = start(endpoint());
    let ask = |headers: &str| {
        let mut stream = fixture.connect();
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
        send(&mut stream, "GET", &format!("{upgrade}{headers}"), "");
        receive(&mut stream).0
    };
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    assert_eq!(ask(key), 101);
    assert_eq!(ask(&format!("{key}Origin: https://evil.example\r\n")), 403);
    assert_eq!(ask(""), 400);
    let mut only_http = endpoint();
    only_http.websocket = false;
    let fixture = start(only_http);
    let mut stream = fixture.connect();
    send(&mut stream, "GET", &format!("Connection: Upgrade\r\nUpgrade: websocket\r\n{key}"), "");
    assert_eq!(receive(&mut stream).0, 405);
}
