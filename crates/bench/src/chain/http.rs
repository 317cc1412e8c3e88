//! JSON-RPC over HTTP/1.1 with keep-alive, with as little processor time as that takes: the generator shares the machine
//! with what it measures.
//!
//! Requests are bytes made before time begins; an answer is found by its content length and looked at, not parsed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The head of an answer is shorter than this.
const LARGEST_HEAD: usize = 16 << 10;
/// No answer to a benchmark's request is larger.
const LARGEST_BODY: usize = 256 << 20;
/// Room that a connection begins with.
const ROOM: usize = 64 << 10;
/// Where an answer without a result is told from one with: the result comes before this many bytes.
const RESULT_BEFORE: usize = 64;
/// How long a blocking connection waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The connection.
    #[error("the connection failed")]
    Connection(#[from] io::Error),
    /// The server went away.
    #[error("the server closed the connection before its answer was complete")]
    Closed,
    /// Another status than 200.
    #[error("the server answered: {0}")]
    Status(String),
    /// No HTTP answer with a content length.
    #[error("the answer is none of HTTP/1.1 with a content length: {0}")]
    Form(&'static str),
}

/// The bytes of a request: a call of `method` with `params`, the text of a JSON array.
#[must_use]
pub fn request(method: &str, params: &str) -> Vec<u8> {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The bytes of `eth_sendRawTransaction`, put where `out` is; what was there is gone.
pub fn send_raw_transaction(out: &mut Vec<u8>, encoded: &[u8]) {
    const BEFORE: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x"#;
    const AFTER: &[u8] = br#""]}"#;
    let length = BEFORE.len() + 2 * encoded.len() + AFTER.len();
    out.clear();
    // Writing to a vector does not fail.
    let _ = write!(
        out,
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    out.extend_from_slice(BEFORE);
    let digits = out.len();
    out.resize(digits + 2 * encoded.len(), 0);
    // The room is exactly what the digits take.
    let _ = alloy_primitives::hex::encode_to_slice(encoded, &mut out[digits..]);
    out.extend_from_slice(AFTER);
}

/// The text of the result in an answer; `None` when it holds an error, or nothing like it.
#[must_use]
pub fn result(answer: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = br#""result":"#;
    let beginning = &answer[..answer.len().min(RESULT_BEFORE)];
    let at = beginning.windows(NAME.len()).position(|window| window == NAME)?;
    answer.get(at + NAME.len()..answer.len() - 1)
}

/// What has come of an answer.
#[derive(Debug)]
struct Inbox {
    buffer: Vec<u8>,
    filled: usize,
    /// Where the body begins and ends, once the head is there.
    body: Option<(usize, usize)>,
}

impl Inbox {
    fn new() -> Self {
        Self { buffer: vec![0; ROOM], filled: 0, body: None }
    }

    fn clear(&mut self) {
        self.filled = 0;
        self.body = None;
    }

    fn room(&mut self) -> &mut [u8] {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// Takes note of bytes that came; whether the answer is complete.
    fn came(&mut self, count: usize) -> Result<bool, HttpError> {
        if count == 0 {
            return Err(HttpError::Closed);
        }
        self.filled += count;
        if self.body.is_none() {
            self.body = head(&self.buffer[..self.filled])?;
            if let Some((_, end)) = self.body
                && self.buffer.len() < end
            {
                self.buffer.resize(end, 0);
            }
        }
        match self.body {
            Some((_, end)) if self.filled > end => Err(HttpError::Form("bytes after its end")),
            Some((_, end)) => Ok(self.filled == end),
            None if self.filled > LARGEST_HEAD => Err(HttpError::Form("no end of its head")),
            None => Ok(false),
        }
    }

    fn answer(&self) -> &[u8] {
        match self.body {
            Some((begin, end)) => &self.buffer[begin..end],
            None => &[],
        }
    }
}

/// Where the body begins and ends; `None` while the head is not complete.
fn head(bytes: &[u8]) -> Result<Option<(usize, usize)>, HttpError> {
    const END: &[u8] = b"\r\n\r\n";
    const LENGTH: &[u8] = b"content-length:";
    let Some(end) = bytes.windows(END.len()).position(|window| window == END) else { return Ok(None) };
    let head = &bytes[..end];
    let mut lines = head.split(|byte| *byte == b'\n');
    let status = lines.next().unwrap_or_default();
    if !status.starts_with(b"HTTP/1.1 200") {
        return Err(HttpError::Status(String::from_utf8_lossy(status.trim_ascii()).into_owned()));
    }
    let named =
        |line: &&[u8]| line.len() >= LENGTH.len() && line[..LENGTH.len()].eq_ignore_ascii_case(LENGTH);
    let line = lines.find(named).ok_or(HttpError::Form("no content length"))?;
    let digits = std::str::from_utf8(line[LENGTH.len()..].trim_ascii());
    let length = digits.ok().and_then(|digits| digits.parse::<usize>().ok());
    let length = length
        .filter(|length| *length <= LARGEST_BODY)
        .ok_or(HttpError::Form("no length that it can have"))?;
    let begin = end + END.len();
    Ok(Some((begin, begin + length)))
}

/// A connection whose thread waits for each answer.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    inbox: Inbox,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// [`HttpError::Connection`].
    pub fn connect(address: SocketAddr) -> Result<Self, HttpError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, inbox: Inbox::new() })
    }

    /// Sends a request and gives the body of its answer.
    ///
    /// # Errors
    /// [`HttpError`].
    pub fn ask(&mut self, request: &[u8]) -> Result<&[u8], HttpError> {
        self.inbox.clear();
        self.stream.write_all(request)?;
        loop {
            let count = self.stream.read(self.inbox.room())?;
            if self.inbox.came(count)? {
                return Ok(self.inbox.answer());
            }
        }
    }

    /// Calls a method and gives the body of the answer.
    ///
    /// # Errors
    /// [`HttpError`].
    pub fn call(&mut self, method: &str, params: &str) -> Result<&[u8], HttpError> {
        self.ask(&request(method, params))
    }
}

/// A connection of many that one thread serves.
#[derive(Debug)]
pub struct AsyncClient {
    stream: tokio::net::TcpStream,
    inbox: Inbox,
}

impl AsyncClient {
    /// Connects.
    ///
    /// # Errors
    /// [`HttpError::Connection`].
    pub async fn connect(address: SocketAddr) -> Result<Self, HttpError> {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, inbox: Inbox::new() })
    }

    /// Sends a request and gives the body of its answer.
    ///
    /// # Errors
    /// [`HttpError`].
    pub async fn ask(&mut self, request: &[u8]) -> Result<&[u8], HttpError> {
        self.inbox.clear();
        self.stream.write_all(request).await?;
        loop {
            let count = self.stream.read(self.inbox.room()).await?;
            if self.inbox.came(count)? {
                return Ok(self.inbox.answer());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn requests_have_the_length_they_say() {
        let mut sent = Vec::new();
        send_raw_transaction(&mut sent, &[0xab, 0xcd]);
        let same = request("eth_sendRawTransaction", r#"["0xabcd"]"#);
        assert_eq!(String::from_utf8(sent).unwrap(), String::from_utf8(same.clone()).unwrap());
        let text = String::from_utf8(same).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
        let value: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(value["params"][0], "0xabcd");
    }

    #[test]
    fn an_answer_is_found_however_it_is_cut() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-LENGTH: 36\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[]}";
        for cut in 1..answer.len() {
            let mut inbox = Inbox::new();
            let mut complete = false;
            for part in answer.chunks(cut) {
                assert!(!complete);
                inbox.room()[..part.len()].copy_from_slice(part);
                complete = inbox.came(part.len()).unwrap();
            }
            assert!(complete, "{cut}");
            assert_eq!(result(inbox.answer()).unwrap(), b"[]");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let refused = |text: &str| {
            let mut inbox = Inbox::new();
            inbox.room()[..text.len()].copy_from_slice(text.as_bytes());
            inbox.came(text.len()).unwrap_err().to_string()
        };
        assert!(refused("HTTP/1.1 403 Forbidden\r\n\r\n").contains("403 Forbidden"));
        assert!(refused("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n").contains("length"));
        assert!(refused("HTTP/1.1 200 OK\r\n\r\n").contains("no content length"));
        assert!(refused("HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n").contains("length"));
        assert!(refused("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab").contains("after its end"));
        assert!(refused(&"x".repeat(LARGEST_HEAD + 1)).contains("no end"));
        assert!(matches!(Inbox::new().came(0), Err(HttpError::Closed)));
    }

    #[test]
    fn a_result_is_told_from_an_error() {
        assert_eq!(result(br#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#), Some(br#""0x1""#.as_slice()));
        assert_eq!(result(br#"{"jsonrpc":"2.0","id":1,"result":null}"#), Some(b"null".as_slice()));
        assert_eq!(result(br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000}}"#), None);
        assert_eq!(result(b""), None);
    }

    #[test]
    fn a_large_answer_comes_whole_and_the_connection_is_kept() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let large = "7".repeat(3 * ROOM);
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{large}"}}"#);
        let server = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                for _ in 0..2 {
                    let mut request = [0; 4096];
                    assert!(stream.read(&mut request).unwrap() > 0);
                    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
                        .unwrap();
                }
            }
        });
        let mut client = Client::connect(address).unwrap();
        for _ in 0..2 {
            assert_eq!(result(client.call("x", "[]").unwrap()).unwrap().len(), large.len() + 2);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = AsyncClient::connect(address).await.unwrap();
            for _ in 0..2 {
                let answer = client.ask(&request("x", "[]")).await.unwrap();
                assert_eq!(result(answer).unwrap().len(), large.len() + 2);
            }
        });
        server.join().unwrap();
        // Nobody is there any more.
        assert!(client.call("x", "[]").is_err());
    }
}
