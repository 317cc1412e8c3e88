use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use super::*;
use crate::error::RpcError;
use crate::params::Params;

mod http;
mod limits;
mod streams;
mod tokens;
mod websocket;

/// A door that calls wait at until the test opens it.
#[derive(Default)]
struct Door {
    open: Mutex<bool>,
    moved: Condvar,
    inside: Mutex<usize>,
    stopped: AtomicBool,
}

impl Door {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.moved.notify_all();
    }

    fn enter(&self, context: &CallContext<'_>) -> Result<(), RpcError> {
        *self.inside.lock().unwrap() += 1;
        self.moved.notify_all();
        let mut open = self.open.lock().unwrap();
        while !*open {
            if let Err(error) = context.check() {
                self.stopped.store(true, Ordering::SeqCst);
                self.moved.notify_all();
                return Err(error);
            }
            open = self.moved.wait_timeout(open, Duration::from_millis(1)).unwrap().0;
        }
        Ok(())
    }

    fn until_inside(&self, calls: usize) {
        let mut inside = self.inside.lock().unwrap();
        while *inside < calls {
            inside = self.moved.wait(inside).unwrap();
        }
    }
}

/// Keeps the sinks that were subscribed.
#[derive(Default)]
struct Heads(Mutex<Vec<Sink>>);

impl Subscriptions for Heads {
    fn subscribe(&self, params: Params<'_>, sink: Sink) -> Result<(), RpcError> {
        let [kind] = params.take::<1>()?;
        if kind.required::<String>()? != "newHeads" {
            return Err(RpcError::params("no such subscription"));
        }
        // Sent before the identifier is answered; it must arrive after.
        sink.send(b"\"first\"").map_err(|_| RpcError::internal("ended"))?;
        self.0.lock().unwrap().push(sink);
        Ok(())
    }
}

struct Fixture {
    server: Server,
    door: Arc<Door>,
    heads: Arc<Heads>,
    metrics: tally_ops::metrics::Registry,
}

fn endpoint() -> Endpoint {
    Endpoint::new(SocketAddr::from(([127, 0, 0, 1], 0)))
}

fn start(endpoint: Endpoint) -> Fixture {
    start_with(
        endpoint,
        &Options {
            threads: 2,
            workers: 1,
            waiters: 1,
            queue: 1,
            call: Duration::from_secs(60),
            ..Options::default()
        },
    )
}

fn start_with(endpoint: Endpoint, options: &Options) -> Fixture {
    let door = Arc::new(Door::default());
    let heads = Arc::new(Heads::default());
    let mut registry = Registry::new();
    registry.add("eth_blockNumber", |params, out, _| {
        params.none()?;
        out.extend_from_slice(b"\"0x10\"");
        Ok(())
    });
    registry.add("eth_echo", |params, out, _| {
        out.extend_from_slice(params.raw().unwrap_or("null").as_bytes());
        Ok(())
    });
    registry.add("eth_long", |params, out, _| {
        let [length] = params.take::<1>()?;
        let length = usize::try_from(length.required::<u64>()?).unwrap();
        crate::write::string(out, &"x".repeat(length));
        Ok(())
    });
    registry.add("eth_fails", |_, _, _| Err(RpcError::server("it \"failed\"").with_data("\"0x01\"")));
    registry.add("eth_panics", |_, _, _| panic!("on purpose"));
    registry.add("debug_secret", |_, out, _| {
        out.extend_from_slice(b"1");
        Ok(())
    });
    let waiting = door.clone();
    registry.add("eth_slow", move |params, out, context| {
        context.costly()?;
        waiting.enter(context)?;
        out.extend_from_slice(params.raw().unwrap_or("null").as_bytes());
        Ok(())
    });
    // An array of so many digits, and then perhaps an error.
    registry.add("debug_array", |params, out, context| {
        let [length, fails] = params.take::<2>()?;
        let (length, fails) = (length.required::<u64>()?, fails.optional::<bool>()?.unwrap_or(false));
        context.costly()?;
        let _tracing = context.trace()?;
        let start = out.len();
        out.extend_from_slice(b"[1");
        let mut written = Ok(());
        let mut ask_at = start;
        for _ in 0..length {
            out.extend_from_slice(b",1");
            if out.len() > ask_at {
                written = context.pass_on(out, start);
                ask_at = out.len() + (1 << 15);
            }
            if written.is_err() {
                break;
            }
        }
        out.push(b']');
        written?;
        if fails { Err(RpcError::server("it failed")) } else { Ok(()) }
    });
    // A text of so many bytes that leaves once it is whole.
    registry.add_waiting("debug_piece", |params, out, context| {
        let [length] = params.take::<1>()?;
        let length = usize::try_from(length.required::<u64>()?).unwrap();
        context.costly()?;
        let start = out.len();
        crate::write::string(out, &"x".repeat(length));
        context.check_size(length)?;
        context.pass_on(out, start)
    });
    registry.add_waiting("debug_breaks", |_, out, context| {
        context.costly()?;
        let start = out.len();
        out.resize(start + (2 << 20), b' ');
        context.pass_on(out, start)?;
        panic!("on purpose")
    });
    let tracing = door.clone();
    registry.add_waiting("debug_trace", move |_, out, context| {
        context.costly()?;
        let _tracing = context.trace()?;
        tracing.enter(context)?;
        out.extend_from_slice(b"true");
        Ok(())
    });
    registry.set_subscriptions(heads.clone());
    let metrics = tally_ops::metrics::Registry::new();
    let server = Server::start(vec![endpoint], registry, options, &metrics).unwrap();
    Fixture { server, door, heads, metrics }
}

impl Fixture {
    fn address(&self) -> SocketAddr {
        self.server.addresses()[0]
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// The status and the body that come back for a body.
    fn post(&self, body: &str) -> (u16, String) {
        let mut stream = self.connect();
        send(&mut stream, "POST", "", body);
        receive(&mut stream)
    }

    fn call(&self, body: &Value) -> Value {
        let (status, text) = self.post(&body.to_string());
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn websocket(&self) -> WebSocket<TcpStream> {
        let stream = self.connect();
        let url = format!("ws://localhost:{}/", self.address().port());
        tokio_tungstenite::tungstenite::client(url, stream).unwrap().0
    }
}

const JSON: &str = "Content-Type: application/json\r\n";

fn send(stream: &mut TcpStream, method: &str, headers: &str, body: &str) {
    let text = format!(
        "{method} / HTTP/1.1\r\nHost: localhost\r\n{JSON}{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).unwrap();
}

fn receive(stream: &mut TcpStream) -> (u16, String) {
    let (status, _, body) = receive_all(stream);
    (status, body)
}

/// Status, head in lower case, body.
fn receive_all(stream: &mut TcpStream) -> (u16, String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length =
        head.split("content-length: ").nth(1).map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (status, head, String::from_utf8(body).unwrap())
}

fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn text(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        match socket.read().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}
