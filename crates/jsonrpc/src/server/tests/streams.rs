//! Answers that leave while they are made, and what all answers hold together.

use super::*;

/// Digits of an array that has so many mebibytes of text.
const MEBIBYTE: u64 = 1 << 19;

fn traces() -> Endpoint {
    let mut endpoint = endpoint();
    endpoint.namespaces = Namespaces::parse(["DEBUG", "ETH"]).unwrap();
    endpoint
}

/// Several threads that wait, and a bound on what is held.
fn started(endpoint: Endpoint, held_bytes: usize, traces: usize) -> Fixture {
    let call = Duration::from_secs(60);
    start_with(endpoint, &Options { threads: 2, workers: 2, waiters: 4, queue: 4, call, held_bytes, traces })
}

fn array(mebibytes: u64, fails: bool) -> Value {
    request("debug_array", &json!([format!("{:#x}", mebibytes * MEBIBYTE), fails]))
}

/// The body of an answer in chunks (RFC 9112, section 7.1), or none when it is cut off.
fn chunks(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut line = || {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            if stream.read_exact(&mut byte).is_err() {
                return None;
            }
            line.push(byte[0]);
        }
        Some((String::from_utf8(line).unwrap().trim().to_lowercase(), stream.try_clone().unwrap()))
    };
    let mut head = String::new();
    loop {
        let (next, _) = line()?;
        if next.is_empty() {
            break;
        }
        head.push_str(&next);
    }
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    let mut body = Vec::new();
    loop {
        let (length, mut stream) = line()?;
        let length = usize::from_str_radix(&length, 16).unwrap();
        let start = body.len();
        body.resize(start + length, 0);
        stream.read_exact(&mut body[start..]).ok()?;
        line()?;
        if length == 0 {
            return Some(body);
        }
    }
}

/// Waits for what other threads do soon.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "not so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Fixture {
    fn has_metric(&self, name: &str, value: u64) -> bool {
        self.metrics.render().lines().any(|line| line == format!("{name}{{}} {value}"))
    }

    fn held(&self) -> u64 {
        let metrics = self.metrics.render();
        let held = metrics.lines().find_map(|line| line.strip_prefix("tally_jsonrpc_held_bytes{} "));
        held.unwrap().parse().unwrap()
    }

    /// Whether a long answer of so many mebibytes is refused, because others hold too much.
    fn refuses(&self, mebibytes: u64) -> bool {
        let answer = self.call(&long(mebibytes));
        let error = &answer["error"];
        if error.is_null() {
            return false;
        }
        assert_eq!(error["code"], -32005);
        assert!(error["message"].as_str().unwrap().contains("try again later"), "{error}");
        true
    }
}

/// A request whose answer is made where it was read, and has so many mebibytes.
fn long(mebibytes: u64) -> Value {
    request("eth_long", &json!([format!("{:#x}", mebibytes << 20)]))
}

fn streamed(fixture: &Fixture, request: &Value) -> Option<Value> {
    let mut stream = fixture.connect();
    send(&mut stream, "POST", "", &request.to_string());
    chunks(&mut stream).map(|body| serde_json::from_slice(&body).unwrap())
}

#[test]
fn a_long_answer_leaves_while_it_is_made_and_holds_little() {
    // 40 MiB, though all answers together may hold 4.
    let fixture = started(traces(), 4 << 20, 1);
    let answer = streamed(&fixture, &array(40, false)).unwrap();
    assert_eq!(answer["result"].as_array().unwrap().len() as u64, 40 * MEBIBYTE + 1);
    assert_eq!(answer["id"], 1);
    // A short one has its length.
    let short = fixture.call(&request("debug_array", &json!(["0x2"])));
    assert_eq!(short["result"], json!([1, 1, 1]));
    eventually("all was given back", || fixture.has_metric("tally_jsonrpc_held_bytes", 0));
}

#[test]
fn an_answer_that_fails_after_it_began_to_leave_says_so_at_its_end() {
    let fixture = started(traces(), 64 << 20, 1);
    let answer = streamed(&fixture, &array(3, true)).unwrap();
    assert_eq!(answer["error"], json!({ "code": -32000, "message": "it failed" }));
    // The result that has left is nobody's.
    assert_eq!(answer["result"], Value::Null);
    let mut small = traces();
    small.limits.stream_bytes = 2 << 20;
    let fixture = started(small, 64 << 20, 1);
    let answer = streamed(&fixture, &array(3, false)).unwrap();
    assert_eq!(answer["error"]["code"], -32005);
    assert!(answer["error"]["message"].as_str().unwrap().contains("2097152 bytes"));
    let mut short = traces();
    short.limits.stream = Duration::from_millis(1);
    let fixture = started(short, 64 << 20, 1);
    let answer = streamed(&fixture, &array(64, false)).unwrap();
    assert_eq!((&answer["error"]["code"], &answer["result"]), (&json!(-32002), &Value::Null));
    // The same limit heals: what is below it is answered.
    assert_eq!(fixture.call(&request("debug_array", &json!(["0x1"])))["result"], json!([1, 1]));
}

#[test]
fn who_does_not_read_a_long_answer_blocks_nobody_and_is_cut_off() {
    let mut endpoint = traces();
    endpoint.limits.stall = Duration::from_millis(300);
    let fixture = started(endpoint, 64 << 20, 1);
    let mut slow = fixture.connect();
    send(&mut slow, "POST", "", &array(64, false).to_string());
    let mut byte = [0];
    slow.read_exact(&mut byte).unwrap();
    // Others are answered meanwhile, and the only place for a trace is free again after the stall.
    assert_eq!(fixture.call(&request("eth_blockNumber", &json!([])))["result"], "0x10");
    eventually("the trace of a client that does not read has ended", || {
        fixture.call(&request("debug_array", &json!(["0x1"])))["result"] == json!([1, 1])
    });
    eventually("it is counted", || fixture.has_metric("tally_jsonrpc_slow_clients_total", 1));
    eventually("all was given back", || fixture.has_metric("tally_jsonrpc_held_bytes", 0));
    // The rest is cut off, and the answer is not taken for a whole one.
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n") && rest.len() < 64 << 20);
}

#[test]
fn answers_share_what_they_hold_until_they_are_read() {
    let fixture = started(traces(), 40 << 20, 4);
    let mut reader = fixture.connect();
    send(&mut reader, "POST", "", &long(32).to_string());
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    // The first answer waits for its reader.
    assert!(fixture.refuses(32));
    assert_eq!(fixture.call(&request("eth_blockNumber", &json!([])))["result"], "0x10");
    // It is whole again when it was read, or its reader has gone.
    drop(reader);
    eventually("what was held is given back", || !fixture.refuses(32));
    // A batch does not leave while it is made, and is bounded all the same.
    let batch = json!([array(60, false), array(1, false)]);
    let (_, text) = fixture.post(&batch.to_string());
    let answers: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&answers[0]["error"]["code"], answers[1]["result"].is_array()), (&json!(-32005), true));
}

#[test]
fn a_trace_that_gets_no_place_is_refused_until_there_is_one() {
    let fixture = started(traces(), 64 << 20, 1);
    let mut first = fixture.connect();
    send(&mut first, "POST", "", &request("debug_trace", &json!([])).to_string());
    fixture.door.until_inside(1);
    let refused = fixture.call(&request("debug_trace", &json!([])));
    assert_eq!(refused["error"]["code"], -32005);
    assert!(refused["error"]["message"].as_str().unwrap().contains("try again later"), "{refused}");
    assert!(fixture.has_metric("tally_jsonrpc_running_traces", 1));
    assert!(fixture.has_metric("tally_jsonrpc_refused_traces_total", 1));
    fixture.door.open();
    assert!(receive(&mut first).1.contains("true"));
    assert_eq!(fixture.call(&request("debug_trace", &json!([])))["result"], true);
}

#[test]
fn an_answer_whose_call_breaks_after_it_began_to_leave_is_cut_off() {
    let fixture = started(traces(), 64 << 20, 1);
    assert_eq!(streamed(&fixture, &request("debug_breaks", &json!([]))), None);
    assert_eq!(fixture.call(&request("debug_array", &json!(["0x1"])))["result"], json!([1, 1]));
    eventually("all was given back", || fixture.has_metric("tally_jsonrpc_held_bytes", 0));
    assert!(fixture.has_metric("tally_jsonrpc_slow_clients_total", 0));
}

#[test]
fn what_was_made_in_one_piece_counts_until_it_has_left() {
    let fixture = started(traces(), 64 << 20, 1);
    let mut reader = fixture.connect();
    let piece = request("debug_piece", &json!([format!("{:#x}", 48 << 20)]));
    send(&mut reader, "POST", "", &piece.to_string());
    let mut head = [0; 17];
    reader.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK\r\n");
    // What is read of it lies in the buffers of the system, much less than there is.
    assert!(fixture.refuses(32));
    let body = chunks(&mut reader).unwrap();
    assert!(body.len() > 48 << 20 && body.ends_with(b"xx\"}"));
    eventually("what was held is given back", || !fixture.refuses(32));
}

#[test]
fn an_answer_that_is_whole_is_not_held_for_a_reader_that_takes_nothing_or_too_little() {
    for pause in [Duration::from_secs(20), Duration::from_millis(20)] {
        let mut endpoint = traces();
        endpoint.limits.stall = Duration::from_millis(500);
        endpoint.limits.stream = Duration::from_millis(500);
        let fixture = started(endpoint, 40 << 20, 1);
        let mut slow = fixture.connect();
        send(&mut slow, "POST", "", &long(32).to_string());
        let mut part = [0; 32 << 10];
        slow.read_exact(&mut part).unwrap();
        assert!(fixture.refuses(9));
        let reading = std::thread::spawn(move || {
            let mut length = part.len();
            std::thread::park_timeout(pause);
            while let Ok(more @ 1..) = slow.read(&mut part) {
                length += more;
                std::thread::park_timeout(pause);
            }
            length
        });
        eventually("what was held is given back", || !fixture.refuses(9));
        eventually("it is counted", || fixture.has_metric("tally_jsonrpc_slow_clients_total", 1));
        if pause < Duration::from_secs(1) {
            assert!(reading.join().unwrap() < 32 << 20);
        }
    }
}

#[test]
fn a_client_that_goes_ends_its_trace_and_gives_back_what_it_holds() {
    let fixture = started(traces(), 64 << 20, 1);
    let mut gone = fixture.connect();
    send(&mut gone, "POST", "", &array(64, false).to_string());
    let mut byte = [0];
    gone.read_exact(&mut byte).unwrap();
    assert_eq!(fixture.call(&array(0, false))["error"]["code"], -32005);
    drop(gone);
    eventually("the trace has ended", || fixture.call(&array(0, false))["error"].is_null());
    eventually("all was given back", || fixture.has_metric("tally_jsonrpc_held_bytes", 0));
}

#[test]
fn answers_over_a_websocket_share_what_they_hold_as_well() {
    let mut endpoint = traces();
    endpoint.limits.backlog_bytes = 64 << 20;
    let fixture = started(endpoint, 40 << 20, 1);
    let mut socket = fixture.websocket();
    // It does not leave while it is made.
    socket.send(Message::text(array(60, false).to_string())).unwrap();
    assert_eq!(text(&mut socket)["error"]["code"], -32005);
    eventually("all was given back", || fixture.has_metric("tally_jsonrpc_held_bytes", 0));
    socket.send(Message::text(long(32).to_string())).unwrap();
    // Calls would take from what it needs while it is made.
    eventually("it is made", || fixture.held() >= 32 << 20);
    assert!(fixture.refuses(9));
    std::thread::sleep(Duration::from_millis(100));
    assert!(fixture.refuses(9), "it counts until it is written");
    drop(socket);
    eventually("what was held is given back", || !fixture.refuses(9));
}
