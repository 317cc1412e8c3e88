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
    assert!(fixture.metrics.render().contains("tally_jsonrpc_held_bytes 0"), "all was given back");
}

#[test]
fn an_answer_that_fails_after_it_began_to_leave_says_so_at_its_end() {
    let fixture = started(traces(), 64 << 20, 1);
    let answer = streamed(&fixture, &array(3, true)).unwrap();
    assert_eq!(answer["error"], json!({ "code": -32000, "message": "it failed" }));
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
    assert_eq!(answer["error"]["code"], -32002);
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
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while fixture.call(&request("debug_array", &json!(["0x1"])))["result"] != json!([1, 1]) {
        assert!(std::time::Instant::now() < deadline, "the trace of a client that does not read goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(fixture.metrics.render().contains("tally_jsonrpc_slow_clients_total 1"));
    // The rest is cut off, and the answer is not taken for a whole one.
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n") && rest.len() < 64 << 20);
}

#[test]
fn answers_share_what_they_hold_until_they_are_read() {
    let fixture = started(traces(), 40 << 20, 4);
    let long = request("eth_long", &json!([format!("{:#x}", 32 << 20)]));
    let mut reader = fixture.connect();
    send(&mut reader, "POST", "", &long.to_string());
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    // The first answer waits for its reader.
    let refused = fixture.call(&long);
    assert_eq!(refused["error"]["code"], -32005, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("try again later"));
    assert_eq!(fixture.call(&request("eth_blockNumber", &json!([])))["result"], "0x10");
    // It is whole again when it was read, or its reader has gone.
    drop(reader);
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while fixture.call(&long)["result"].is_null() {
        assert!(std::time::Instant::now() < deadline, "what was held is not given back");
        std::thread::sleep(Duration::from_millis(20));
    }
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
    let metrics = fixture.metrics.render();
    assert!(metrics.contains("tally_jsonrpc_running_traces 1"), "{metrics}");
    assert!(metrics.contains("tally_jsonrpc_refused_traces_total 1"), "{metrics}");
    fixture.door.open();
    assert!(receive(&mut first).1.contains("true"));
    assert_eq!(fixture.call(&request("debug_trace", &json!([])))["result"], true);
}
