//! What arrives on the wire that no client of ours sends.

use super::support::{ALICE, Network, PLAN, Running};
use std::io::{Read, Write};
use std::net::TcpStream;

/// The request as the network's operator sends it.
fn by_operator(running: &Running<'_>, request: &[u8]) -> Vec<u8> {
    let text = b"host: x\r\n";
    let Some(place) = request.windows(text.len()).position(|window| window == text) else {
        return request.to_vec();
    };
    let line = format!("authorization: Bearer {}\r\n", running.token());
    [&request[..place], line.as_bytes(), &request[place..]].concat()
}

/// Sends bytes as they are; the status line and body of what comes back.
fn raw(running: &Running<'_>, request: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    // The answer may come, and the connection end, before everything was sent.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

fn request(line: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn bad_requests_are_answered_and_cost_the_others_nothing() {
    let network = Network::of(PLAN);
    let running =
        network.run_with(&["--set", "http.request_timeout_ms=300", "--set", "http.max_body_bytes=100000"]);
    let binary = "application/octet-stream";
    let twice = |name: &str| {
        let both = format!("host: x\r\n{name}: 1\r\n{name}: 2\r\n");
        let one = request("POST /v1/payments/prepare", "application/json", b"{\"payments\":[]}");
        String::from_utf8(one).unwrap().replace("host: x\r\n", &both).into_bytes()
    };
    let cases: [(&str, Vec<u8>); 18] = [
        ("404", request("GET /v2/network", "", b"")),
        ("405", request("DELETE /v1/network", "", b"")),
        ("404", request("GET /v1/accounts/ALPHDEFF/nobody", "", b"")),
        ("404", request("GET /v1/accounts/ALPHDEFF/4294967295", "", b"")),
        ("404", request("GET /v1/accounts/ALPHDEFF/99999999999999999999", "", b"")),
        ("404", request("GET /v1/accounts/NOWHDEFF", "", b"")),
        ("400", request("GET /v1/transactions/x", "", b"")),
        ("404", request("GET /v1/transactions/97ed4827-7b6f-4491-a06f-b548d5a7512d", "", b"")),
        ("400", request(&format!("GET /v1/accounts/ALPHDEFF/{ALICE}/statement?limit=0"), "", b"")),
        ("400", request(&format!("GET /v1/accounts/ALPHDEFF/{ALICE}/statement?limit=x"), "", b"")),
        ("415", request("POST /v1/transactions", "image/png", b"x")),
        ("400", request("POST /v1/transactions", binary, b"\xff\xff\xff\xff\xff\xff\xff\xff")),
        ("400", request("POST /v1/transactions", "text/plain", b"zz")),
        ("400", request("POST /v1/iso20022/submit", "application/json", b"{\"message\":1}")),
        ("413", request("POST /v1/transactions", binary, &[0; 100_001])),
        ("400", twice("idempotency-key")),
        ("400", twice("last-event-id")),
        ("400", b"NONSENSE\r\n\r\n".to_vec()),
    ];
    for (status, bytes) in cases {
        let (line, body) = raw(&running, &by_operator(&running, &bytes));
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert!(line.contains(status), "{shown}: {line} {body}");
        if status != "400" || body.starts_with('{') {
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert!(body["detail"].as_str().is_some_and(|text| !text.is_empty()), "{shown}: {body}");
            assert_eq!(body["status"].to_string(), status, "{shown}: {body}");
        }
    }
    // Clients that send half a request, or half a body, are let go while others are served.
    let mut half: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(running.address()).unwrap()).collect();
    for (place, stream) in half.iter_mut().enumerate() {
        let start: &[u8] = match place % 2 {
            0 => b"GET /health HT",
            _ => b"POST /v1/transactions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nhalf",
        };
        stream.write_all(&by_operator(&running, start)).unwrap();
    }
    assert_eq!(running.balance("ALPHDEFF", ALICE), "1000.00 EUR");
    for (place, mut stream) in half.into_iter().enumerate() {
        let mut answer = Vec::new();
        // Returns because the network closed the connection.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(place % 2 == 0 || answer.contains(" 408 "), "{answer}");
    }
    let (line, body) = raw(&running, &request("GET /health", "", b""));
    assert!(line.contains("200") && body.contains("\"healthy\":true"), "{line} {body}");
}

#[test]
fn idle_connections_give_way_to_newcomers() {
    let network = Network::of(PLAN);
    // So patient that nothing is let go for its time alone.
    let running =
        network.run_with(&["--set", "http.request_timeout_ms=600000", "--set", "http.max_connections=2"]);
    let idle: Vec<TcpStream> = (0..6).map(|_| TcpStream::connect(running.address()).unwrap()).collect();
    let (line, _) = raw(&running, &request("GET /health", "", b""));
    assert!(line.contains("200"), "{line}");
    drop(idle);
}

#[test]
fn a_stop_answers_what_was_asked_before() {
    let network = Network::of(PLAN);
    let running = network.run();
    let idle = TcpStream::connect(running.address()).unwrap();
    let client = running.client();
    client.network().unwrap();
    assert_eq!(running.stop().code, Some(0), "idle connections do not hold a network up");
    assert!(client.network().is_err());
    drop(idle);
}
