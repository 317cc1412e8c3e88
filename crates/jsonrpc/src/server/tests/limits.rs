use super::*;

fn error_of(text: &str) -> i64 {
    serde_json::from_str::<Value>(text).unwrap()["error"]["code"].as_i64().unwrap()
}

#[test]
fn a_request_that_says_it_is_long_is_refused_before_it_is_read() {
    let mut small = endpoint();
    small.limits.request_bytes = 1000;
    let fixture = start(small);
    let mut stream = fixture.connect();
    let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: 1001\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let (status, text) = receive(&mut stream);
    assert_eq!((status, error_of(&text)), (413, -32005));
    // Without a length, by what has come.
    let mut stream = fixture.connect();
    let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..3 {
        let chunk = format!("190\r\n{}\r\n", " ".repeat(400));
        stream.write_all(chunk.as_bytes()).unwrap();
    }
    assert_eq!(receive(&mut stream).0, 413);
    let body = format!("{}{}", request("eth_blockNumber", &json!([])), " ".repeat(900));
    assert_eq!(fixture.post(&body).0, 200);
}

#[test]
fn batches_answers_and_nesting_are_bounded() {
    let mut small = endpoint();
    small.limits.batch_calls = 3;
    small.limits.answer_bytes = 1000;
    small.limits.batch_answer_bytes = 1500;
    small.limits.depth = 10;
    let fixture = start(small);
    let long = |bytes: &str| request("eth_long", &json!([bytes]));
    let (status, text) =
        fixture.post(&json!([long("0x1"), long("0x1"), long("0x1"), long("0x1")]).to_string());
    assert_eq!((status, error_of(&text)), (400, -32005));
    assert_eq!(fixture.call(&long("0x400"))["error"]["code"], -32005);
    assert_eq!(fixture.call(&long("0x300"))["error"], Value::Null);
    let answer = fixture.call(&json!([long("0x300"), long("0x300"), long("0x1")]));
    assert_eq!(answer[0]["error"], Value::Null);
    assert_eq!(answer[1]["error"], Value::Null);
    assert_eq!(answer[2]["error"]["code"], -32005, "the third came when the answer was full");

    let nested = |depth: usize| {
        let params = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"eth_echo","params":{params}}}"#)
    };
    assert_eq!(fixture.post(&nested(9)).0, 200);
    let (status, text) = fixture.post(&nested(10));
    assert_eq!((status, error_of(&text)), (400, -32700));
    assert_eq!(fixture.post(&"[".repeat(100_000)).0, 400);
    // Brackets in text do not nest.
    assert_eq!(fixture.call(&request("eth_echo", &json!(["[[[[[[[[[[[[\\\"["])))["error"], Value::Null);
}

#[test]
fn costly_calls_are_refused_when_too_many_wait_and_cheap_ones_are_not() {
    let fixture = start(endpoint());
    let mut busy = Vec::new();
    for waiting in 0..2 {
        let mut stream = fixture.connect();
        send(&mut stream, "POST", "", &request("eth_slow", &json!([waiting])).to_string());
        if waiting == 0 {
            fixture.door.until_inside(1);
        }
        busy.push(stream);
    }
    // The second waits once a third is refused; until it has arrived the third may take its place.
    let refused = loop {
        let mut stream = fixture.connect();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        send(&mut stream, "POST", "", &request("eth_slow", &json!([2])).to_string());
        let mut first = [0];
        if stream.peek(&mut first).is_ok() {
            break receive(&mut stream);
        }
        busy.push(stream);
    };
    assert_eq!((refused.0, error_of(&refused.1)), (200, -32005));
    assert_eq!(fixture.call(&request("eth_blockNumber", &json!([])))["result"], "0x10");
    let batch: Vec<Value> = (0..20).map(|_| request("eth_blockNumber", &json!([]))).collect();
    let answers = fixture.call(&json!(batch));
    assert!(answers.as_array().unwrap().iter().all(|answer| answer["error"]["code"] == -32005), "{answers}");
    assert!(fixture.metrics.render().contains("tally_jsonrpc_refused_calls_total"));
    fixture.door.open();
    for mut stream in busy {
        assert_eq!(receive(&mut stream).0, 200);
    }
}

#[test]
fn a_costly_call_ends_when_its_client_goes() {
    let fixture = start(endpoint());
    let mut stream = fixture.connect();
    send(&mut stream, "POST", "", &request("eth_slow", &json!([1])).to_string());
    fixture.door.until_inside(1);
    drop(stream);
    let mut open = fixture.door.open.lock().unwrap();
    while !fixture.door.stopped.load(Ordering::SeqCst) {
        open = fixture.door.moved.wait(open).unwrap();
    }
}

#[test]
fn a_call_ends_when_its_time_is_up() {
    let options = Options {
        threads: 1,
        workers: 1,
        waiters: 1,
        queue: 1,
        call: Duration::from_millis(30),
        ..Options::default()
    };
    let fixture = start_with(endpoint(), &options);
    assert_eq!(fixture.call(&request("eth_slow", &json!([1])))["error"]["code"], -32002);
}

#[test]
fn a_connection_that_calls_too_often_is_told_so() {
    let mut slow = endpoint();
    slow.limits.calls_per_second = 1;
    slow.limits.burst = 3;
    let fixture = start(slow);
    let mut stream = fixture.connect();
    let mut statuses = Vec::new();
    for _ in 0..5 {
        send(&mut stream, "POST", "", &request("eth_blockNumber", &json!([])).to_string());
        statuses.push(receive(&mut stream).0);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    assert_eq!(
        fixture.post(&request("eth_blockNumber", &json!([])).to_string()).0,
        200,
        "another has its own"
    );
}

#[test]
fn idle_connections_keep_nobody_out_and_who_is_worked_for_stays() {
    let mut few = endpoint();
    few.limits.connections = 4;
    let fixture = start(few);
    let mut worked_for = fixture.connect();
    send(&mut worked_for, "POST", "", &request("eth_slow", &json!([7])).to_string());
    fixture.door.until_inside(1);
    let mut idle: Vec<TcpStream> = (0..3).map(|_| fixture.connect()).collect();
    // All places are taken; each newcomer gets that of the one who was silent for longest.
    for _ in 0..3 {
        assert_eq!(fixture.post(&request("eth_blockNumber", &json!([])).to_string()).0, 200);
    }
    assert_eq!(idle[0].read(&mut [0]).unwrap_or(0), 0, "closed without a word");
    fixture.door.open();
    assert_eq!(receive(&mut worked_for).0, 200);
}

#[test]
fn who_has_a_token_outlasts_strangers_and_a_websocket_gives_way_as_well() {
    let mut few = endpoint();
    few.limits.connections = 2;
    let fixture = start(few);
    let mut socket = fixture.websocket();
    let mut idle = fixture.connect();
    send(&mut idle, "POST", "", &request("eth_blockNumber", &json!([])).to_string());
    assert_eq!(receive(&mut idle).0, 200);
    assert_eq!(fixture.post(&request("eth_blockNumber", &json!([])).to_string()).0, 200);
    assert!(socket.read().is_ok_and(|message| message.is_close()) || socket.read().is_err());
    send(&mut idle, "POST", "", &request("eth_blockNumber", &json!([])).to_string());
    assert_eq!(receive(&mut idle).0, 200, "it was waited for less long");
}

#[test]
fn a_connection_that_dawdles_is_closed() {
    let mut hasty = endpoint();
    hasty.limits.idle = Duration::from_millis(50);
    hasty.limits.body = Duration::from_millis(50);
    let fixture = start(hasty);
    // Nothing at all.
    let mut silent = fixture.connect();
    assert_eq!(silent.read(&mut [0; 16]).unwrap(), 0);
    // A head that never ends.
    let mut slow = fixture.connect();
    slow.write_all(b"POST / HTTP/1.1\r\nHost: local").unwrap();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));
    // A body that never ends.
    let mut slow = fixture.connect();
    let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: 10\r\n\r\n{{");
    slow.write_all(head.as_bytes()).unwrap();
    assert_eq!(receive(&mut slow).0, 408);
    assert_eq!(slow.read(&mut [0]).unwrap_or(0), 0);
}
