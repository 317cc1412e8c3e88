//! Traces of calls whose code does not end before its gas does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::*;
use crate::server::{Endpoint, Namespaces, Options as ServerOptions, Server};

const CODE: &str = "0x00000000000000000000000000000000000c0de0";

/// A call to code that only goes round (`JUMPDEST`, `PUSH1 0`, `JUMP`), and how it is traced.
fn round(gas: u64, options: &Value) -> Value {
    let mut options = options.clone();
    options["stateOverrides"] = json!({CODE: {"code": "0x5b600056"}});
    json!([{"to": CODE, "gas": format!("{gas:#x}")}, "latest", options])
}

fn settings() -> Settings {
    Settings::new("tally/test".into(), 1337)
}

#[test]
fn a_trace_in_memory_is_bounded_in_bytes_and_any_trace_in_instructions() {
    let mut client = qbft::client();
    let trace = client.ok("debug_traceCall", &round(50_000, &json!({})));
    assert_eq!(trace["failed"], true);
    assert!(trace["structLogs"].as_array().unwrap().len() > 7_000);
    // The client of these tests takes 64 MiB.
    let Err(error) = client.call("debug_traceCall", &round(50_000_000, &json!({}))) else {
        panic!("the trace has no bound");
    };
    assert!(error.code == -32005 && error.message.contains("67108864 bytes"), "{error}");

    client.registry = registry(client.node.clone(), Settings { trace_steps: 10_000, ..settings() });
    for options in [json!({}), json!({"tracer": "callTracer"}), json!({"limit": 1})] {
        let Err(error) = client.call("debug_traceCall", &round(500_000, &options)) else {
            panic!("{options}: instructions have no bound");
        };
        assert!(error.code == -32005 && error.message.contains("10000 instructions"), "{error}");
        client.ok("debug_traceCall", &round(25_000, &options));
    }
}

#[test]
fn a_trace_of_one_call_over_http_is_longer_than_what_all_may_hold() {
    let client = qbft::client();
    let mut endpoint = Endpoint::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    endpoint.namespaces = Namespaces::parse(["DEBUG"]).unwrap();
    let options = ServerOptions { held_bytes: 4 << 20, ..ServerOptions::default() };
    let metrics = tally_ops::metrics::Registry::new();
    let methods = registry(client.node.clone(), settings());
    let server = Server::start(vec![endpoint], methods, &options, &metrics).unwrap();
    let post = |request: &Value| {
        let body = request.to_string();
        let mut stream = TcpStream::connect(server.addresses()[0]).unwrap();
        write!(
            stream,
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let body = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        let rest = answer.split_off(body);
        (String::from_utf8(answer).unwrap().to_lowercase(), rest)
    };
    let call = |id: u64, params: &Value| json!({"jsonrpc": "2.0", "id": id, "method": "debug_traceCall", "params": params});
    let params = round(600_000, &json!({}));
    let (head, body) = post(&call(1, &params));
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    let answer: Value = serde_json::from_slice(&unchunked(&body)).unwrap();
    assert_eq!((&answer["error"], &answer["result"]["failed"]), (&Value::Null, &json!(true)));
    assert!(body.len() > 8 << 20 && answer["result"]["structLogs"].as_array().unwrap().len() > 140_000);
    // In a batch it would be held, and is refused; the call after it is answered.
    let (_, body) = post(&json!([call(1, &params), call(2, &round(25_000, &json!({})))]));
    let answers: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answers[0]["error"]["code"], -32005);
    assert_eq!(answers[1]["result"]["failed"], true, "{answers}");
}

/// The body without the lengths of its chunks (RFC 9112, section 7.1).
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|end| end == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 2 + length + 2..];
    }
}
