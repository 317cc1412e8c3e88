use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use alloy_primitives::{Address, B256};
use tally_ops::shutdown::Shutdown;

use super::drive::{Requests, Window, closed, open};
use super::*;
use crate::chain::ChainBenchError;
use crate::chain::history::History;
use crate::statistics::SplitMix;

fn history() -> History {
    let plan = history::Plan { blocks: 3, calls: 4, accounts: 5, seed: 1 };
    let hashes = (0..12).map(B256::repeat_byte).collect();
    History { plan, contract: Address::repeat_byte(7), hashes, gas: 0, head: B256::ZERO }
}

#[test]
fn requests_are_calls_of_their_method_about_what_is_there() {
    let history = history();
    let mut random = SplitMix::new(1);
    let mut blocks = std::collections::BTreeSet::new();
    for method in Method::ALL {
        for _ in 0..50 {
            let text = String::from_utf8(method.request(&history, &mut random)).unwrap();
            let (_, body) = text.split_once("\r\n\r\n").unwrap();
            let call: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(call["method"], method.name());
            if method == Method::GetLogs {
                let filter = &call["params"][0];
                assert_eq!(filter["fromBlock"], filter["toBlock"]);
                blocks.insert(filter["fromBlock"].as_str().unwrap().to_owned());
            }
        }
        assert_eq!(method.name().parse(), Ok(method));
    }
    assert_eq!(blocks.into_iter().collect::<Vec<_>>(), ["0x2", "0x3", "0x4"]);
    assert_eq!("getLogs".parse(), Ok(Mix::Only(Method::GetLogs)));
    assert_eq!("mix".parse(), Ok(Mix::Equal));
    assert!("eth_sendRawTransaction".parse::<Mix>().unwrap_err().contains("getCode"));
}

#[test]
fn answers_without_anything_are_not_accepted() {
    for method in Method::ALL {
        for nothing in ["null", "[]", "\"0x\"", "\"\"", "", "{", "[{"] {
            assert!(!method.accepts(nothing.as_bytes()), "{method:?} {nothing}");
        }
    }
    let words = |digit: char| format!("\"0x{}{}\"", "0".repeat(127), digit);
    assert!(Method::Call.accepts(words('1').as_bytes()) && !Method::Call.accepts(words('0').as_bytes()));
    assert!(Method::GetLogs.accepts(br#"[{"address":"0x07"}]"#));
    assert!(
        Method::GetTransactionCount.accepts(b"\"0x1\"") && !Method::GetTransactionCount.accepts(b"\"0x0\"")
    );
}

/// Answers each request of any number of connections after a pause, with the same body.
fn server(pause: Duration, body: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    std::thread::sleep(pause);
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                    if stream.write_all((head + body).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

const WELL: &str = r#"{"jsonrpc":"2.0","id":1,"result":"0x11"}"#;

#[test]
fn a_closed_loop_asks_again_as_soon_as_it_is_answered() {
    let requests = Rc::new(Requests::new(&[Method::BlockNumber], &history(), 3, 1));
    let window = Window { warm_up: Duration::from_millis(50), duration: Duration::from_millis(300) };
    let address = server(Duration::from_millis(10), WELL);
    let answers = closed(address, &requests, 4, window, 1, &Shutdown::new()).unwrap();
    // Four connections, ten milliseconds or more for each answer: 120 at most.
    assert!((1..=120).contains(&answers.answered), "{answers:?}");
    assert!(answers.latency.quantile(0.0) >= Duration::from_millis(10));
    assert_eq!((answers.wrong, answers.bytes), (0, answers.answered * WELL.len() as u64));
    assert!((answers.rate(window) - answers.answered as f64 / 0.3).abs() < 1e-6);
}

#[test]
fn an_open_loop_counts_from_when_a_request_was_due() {
    let requests = Requests::new(&[Method::BlockNumber], &history(), 3, 1);
    let window = Window { warm_up: Duration::from_millis(100), duration: Duration::from_millis(400) };
    // One connection that is answered after 20 ms, and a request every 10: each waits longer than the one before.
    let address = server(Duration::from_millis(20), WELL);
    let answers = open(address, &requests, (1, 100), window, 1, &Shutdown::new()).unwrap();
    assert_eq!(answers.latency.count(), 40);
    assert!(answers.latency.quantile(1.0) >= Duration::from_millis(400), "{answers:?}");
    assert!(answers.answered < 25, "{answers:?}");
}

#[test]
fn wrong_answers_are_counted_and_the_first_is_kept() {
    let requests = Rc::new(Requests::new(&[Method::GetCode], &history(), 3, 1));
    let window = Window { warm_up: Duration::ZERO, duration: Duration::from_millis(50) };
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}"#;
    for body in [error, WELL] {
        let address = server(Duration::ZERO, body);
        let answers = closed(address, &requests, 2, window, 1, &Shutdown::new()).unwrap();
        assert!(answers.wrong > 0 && answers.answered == 0, "{answers:?}");
        assert!(answers.first_wrong.unwrap().contains(&body[..40]));
    }
}

#[test]
fn drivers_stop_when_they_are_asked_to() {
    let requests = Rc::new(Requests::new(&[Method::BlockNumber], &history(), 3, 1));
    let window = Window { warm_up: Duration::ZERO, duration: Duration::from_secs(3600) };
    let address = server(Duration::from_millis(1), WELL);
    let stop = Shutdown::new();
    stop.request();
    let stopped = closed(address, &requests, 2, window, 1, &stop).unwrap_err();
    assert!(matches!(stopped, ChainBenchError::Stopped), "{stopped}");
    let stopped = open(address, &requests, (2, 5), window, 1, &stop).unwrap_err();
    assert!(matches!(stopped, ChainBenchError::Stopped), "{stopped}");
}
