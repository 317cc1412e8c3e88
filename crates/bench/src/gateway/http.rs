//! Single payments over connections that stay: each waits for its durable outcome before the connection's next.

use super::served::Served;
use super::{Done, GatewayBenchError, INTERVAL};
use crate::recorder::{Recorder, Throughput};
use bytes::Bytes;
use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tally_gateway::access::Token;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Payments over so many connections; at `rate` a second whatever the gateway does, else as many as it takes. Latency counts
/// from when a payment was to start.
pub(super) fn pay(
    served: &Served,
    payments: Vec<Bytes>,
    connections: usize,
    rate: Option<u64>,
) -> Result<Done, GatewayBenchError> {
    let clients = Clients::new()?;
    let shared = Arc::new(Shared {
        head: head(served, "/v1/transactions", "application/octet-stream", &served.token),
        payments,
        next: AtomicUsize::new(0),
        interval: rate.map(|rate| Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX).max(1)),
        began: Instant::now(),
    });
    let address = served.address;
    clients.run(async {
        let clients: Vec<_> =
            (0..connections).map(|_| tokio::spawn(connection(address, Arc::clone(&shared)))).collect();
        let (mut latency, mut series) = (Recorder::new(), Throughput::every(INTERVAL));
        for client in clients {
            let (one, done) = client.await.map_err(GatewayBenchError::client)??;
            latency.merge(&one);
            series.merge(&done);
        }
        let (payments, took) = (shared.payments.len(), shared.began.elapsed());
        Ok(Done { latency: Some(latency), series: Some(series), ..Done::new(payments, took) })
    })
}

/// What every request of a kind begins with, up to the length of its body.
pub(super) fn head(served: &Served, path: &str, kind: &str, token: &Token) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: {kind}\r\ncontent-length: ",
        served.address,
        token.reveal()
    )
}

/// The threads of all clients of one measurement.
pub(super) struct Clients(tokio::runtime::Runtime);

/// How their names begin.
const THREADS: &str = "client";

impl Clients {
    pub(super) fn new() -> Result<Self, GatewayBenchError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(THREADS)
            .enable_all()
            .build()
            .map_err(GatewayBenchError::client)?;
        Ok(Self(runtime))
    }

    /// Runs the clients, and adds the processor time that they took.
    pub(super) fn run(
        &self,
        clients: impl Future<Output = Result<Done, GatewayBenchError>>,
    ) -> Result<Done, GatewayBenchError> {
        let before = Self::cpu()?;
        let mut done = self.0.block_on(clients)?;
        // While the threads are there.
        done.generator = Some(Self::cpu()?.saturating_sub(before));
        Ok(done)
    }

    fn cpu() -> Result<Duration, GatewayBenchError> {
        let threads = tally_ops::process::threads().map_err(GatewayBenchError::client)?;
        Ok(threads.iter().filter(|thread| thread.name.starts_with(THREADS)).map(|thread| thread.cpu).sum())
    }
}

/// A connection that stays as long as the gateway keeps it; then another is opened, as clients do.
pub(super) struct Connection {
    address: SocketAddr,
    /// None once the gateway said that it closes it.
    stream: Option<TcpStream>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self, GatewayBenchError> {
        let stream = Some(connect(address).await?);
        Ok(Self { address, stream, request: Vec::new(), answer: Vec::new() })
    }

    /// Sends a request that begins so, with more headers if there are any, and returns the body of an answer of success. Once
    /// more on another connection where the gateway has closed this one: what is sent is paid once however often it comes.
    pub(super) async fn post(
        &mut self,
        head: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<&[u8], GatewayBenchError> {
        self.request.clear();
        self.request.extend_from_slice(head.as_bytes());
        // Writing to memory does not fail.
        let _ = write!(self.request, "{}\r\n{headers}\r\n", body.len());
        self.request.extend_from_slice(body);
        let range = match self.exchange().await? {
            Some(range) => range,
            None => {
                let again = self.exchange().await?;
                again.ok_or_else(|| GatewayBenchError::client("the gateway closed a connection twice"))?
            }
        };
        if !self.answer.starts_with(b"HTTP/1.1 200") {
            let text = String::from_utf8_lossy(&self.answer).into_owned();
            return Err(GatewayBenchError::Refused(text));
        }
        Ok(&self.answer[range])
    }

    /// Where the answer's body is; none where the gateway closed the connection before it answered.
    async fn exchange(&mut self) -> Result<Option<Range<usize>>, GatewayBenchError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(connect(self.address).await?),
        };
        self.answer.clear();
        if stream.write_all(&self.request).await.is_err() {
            self.stream = None;
            return Ok(None);
        }
        loop {
            if let Some((begin, end)) = body_of(&self.answer)
                && self.answer.len() >= end
            {
                if closes(&self.answer[..begin]) {
                    self.stream = None;
                }
                return Ok(Some(begin..end));
            }
            match stream.read_buf(&mut self.answer).await {
                Ok(0) | Err(_) if self.answer.is_empty() => {
                    self.stream = None;
                    return Ok(None);
                }
                Ok(0) => return Err(GatewayBenchError::client("the gateway broke off an answer")),
                Ok(_) => {}
                Err(error) => return Err(GatewayBenchError::client(error)),
            }
        }
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, GatewayBenchError> {
    let stream = TcpStream::connect(address).await.map_err(GatewayBenchError::client)?;
    stream.set_nodelay(true).map_err(GatewayBenchError::client)?;
    Ok(stream)
}

/// Whether an answer says that its one payment was settled.
pub(super) fn settled(body: &[u8]) -> Result<(), GatewayBenchError> {
    const SETTLED: &[u8] = b"\"status\":\"ACSC\"";
    if body.windows(SETTLED.len()).any(|window| window == SETTLED) {
        return Ok(());
    }
    Err(GatewayBenchError::Refused(String::from_utf8_lossy(body).into_owned()))
}

struct Shared {
    /// What every request begins with.
    head: String,
    payments: Vec<Bytes>,
    next: AtomicUsize,
    /// Between the intended starts of two payments.
    interval: Option<Duration>,
    began: Instant,
}

async fn connection(
    address: SocketAddr,
    shared: Arc<Shared>,
) -> Result<(Recorder, Throughput), GatewayBenchError> {
    let mut connection = Connection::open(address).await?;
    let (mut latency, mut series) = (Recorder::new(), Throughput::every(INTERVAL));
    loop {
        let at = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(payment) = shared.payments.get(at) else { return Ok((latency, series)) };
        let intended = match shared.interval {
            Some(interval) => interval * u32::try_from(at).unwrap_or(u32::MAX),
            None => shared.began.elapsed(),
        };
        tokio::time::sleep_until((shared.began + intended).into()).await;
        settled(connection.post(&shared.head, "", payment).await?)?;
        latency.record(intended, shared.began.elapsed());
        series.add(shared.began.elapsed(), 1);
    }
}

/// Whether the head of an answer says that the connection is closed after it.
fn closes(head: &[u8]) -> bool {
    head.to_ascii_lowercase().windows(19).any(|window| window == b"\r\nconnection: close")
}

/// Where the body of an answer begins and ends, once its head is there.
fn body_of(answer: &[u8]) -> Option<(usize, usize)> {
    let begin = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&answer[..begin]).ok()?;
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    Some((begin, begin + value.trim().parse::<usize>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_long_as_its_head_says() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody and more";
        assert_eq!(body_of(answer), Some((38, 42)));
        assert_eq!(&answer[38..42], b"body");
        assert_eq!(body_of(&answer[..30]), None);
        assert!(closes(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n") && !closes(&answer[..38]));
        assert!(settled(b"{\"outcomes\":[{\"status\":\"ACSC\"}]}").is_ok());
        assert!(settled(b"{\"outcomes\":[{\"status\":\"PDNG\"}]}").is_err());
    }
}
