//! Single payments over connections that stay: each waits for its durable outcome before the connection's next.

use super::served::Served;
use super::{Done, GatewayBenchError, INTERVAL};
use crate::recorder::{Recorder, Throughput};
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("client")
        .enable_all()
        .build()
        .map_err(GatewayBenchError::client)?;
    let shared = Arc::new(Shared {
        head: format!(
            "POST /v1/transactions HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: \
             application/octet-stream\r\ncontent-length: ",
            served.address,
            served.token.reveal()
        ),
        payments,
        next: AtomicUsize::new(0),
        interval: rate.map(|rate| Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX).max(1)),
        began: Instant::now(),
    });
    let address = served.address;
    runtime.block_on(async {
        let clients: Vec<_> =
            (0..connections).map(|_| tokio::spawn(connection(address, Arc::clone(&shared)))).collect();
        let (mut latency, mut series) = (Recorder::new(), Throughput::every(INTERVAL));
        for client in clients {
            let (one, done) = client.await.map_err(GatewayBenchError::client)??;
            latency.merge(&one);
            series.merge(&done);
        }
        let took = shared.began.elapsed();
        Ok(Done { payments: shared.payments.len(), took, latency: Some(latency), series: Some(series) })
    })
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
    let mut stream = TcpStream::connect(address).await.map_err(GatewayBenchError::client)?;
    stream.set_nodelay(true).map_err(GatewayBenchError::client)?;
    let (mut latency, mut series) = (Recorder::new(), Throughput::every(INTERVAL));
    let mut answer = Vec::new();
    loop {
        let at = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(payment) = shared.payments.get(at) else { return Ok((latency, series)) };
        let intended = match shared.interval {
            Some(interval) => interval * u32::try_from(at).unwrap_or(u32::MAX),
            None => shared.began.elapsed(),
        };
        tokio::time::sleep_until((shared.began + intended).into()).await;
        let mut request = format!("{}{}\r\n\r\n", shared.head, payment.len()).into_bytes();
        request.extend_from_slice(payment);
        stream.write_all(&request).await.map_err(GatewayBenchError::client)?;
        read(&mut stream, &mut answer).await?;
        latency.record(intended, shared.began.elapsed());
        series.add(shared.began.elapsed(), 1);
    }
}

/// Reads one answer, which must say that the payment was settled.
async fn read(stream: &mut TcpStream, answer: &mut Vec<u8>) -> Result<(), GatewayBenchError> {
    answer.clear();
    loop {
        if let Some(length) = length(answer)
            && answer.len() >= length
        {
            let text = String::from_utf8_lossy(answer);
            let settled = text.starts_with("HTTP/1.1 200") && text.contains("\"status\":\"ACSC\"");
            return if settled { Ok(()) } else { Err(GatewayBenchError::Refused(text.into_owned())) };
        }
        if stream.read_buf(answer).await.map_err(GatewayBenchError::client)? == 0 {
            return Err(GatewayBenchError::client("the gateway closed a connection"));
        }
    }
}

/// How long an answer is with its head, once the head is there.
fn length(answer: &[u8]) -> Option<usize> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    Some(end + value.trim().parse::<usize>().ok()?)
}
