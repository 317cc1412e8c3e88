use std::io;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::core::fixture;

struct Served {
    address: SocketAddr,
    core: Arc<Core>,
    stop: Arc<AtomicUsize>,
    _directory: tempfile::TempDir,
}

impl Served {
    /// A node whose committing thread answers probes, unless `hangs`.
    async fn new(limits: Limits) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let core = Arc::new(fixture(directory.path()));
        let clients = ClientMeters::new(core.meters().registry(), Arc::default()).expect("meters");
        let any = "127.0.0.1:0".parse().expect("an address");
        let ready = Arc::new(AtomicBool::new(true));
        let address =
            serve(any, limits, core.clone(), clients, ready, Arc::new(String::new), Arc::new(|| None))
                .await
                .expect("a listener");
        let stop = Arc::new(AtomicUsize::new(0));
        let (answering, stopped) = (core.clone(), stop.clone());
        std::thread::spawn(move || {
            while stopped.load(Ordering::SeqCst) == 0 {
                answering.answer_probes();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self { address, core, stop, _directory: directory }
    }

    async fn get(&self, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    async fn is_ready(&self) -> bool {
        self.get("/ready").await.expect("an answer").starts_with("HTTP/1.1 200")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_requests_keep_nobody_out() {
    let limits = Limits { connections: 16, of_address: 8, ..Limits::default() };
    let served = Served::new(limits).await;
    let mut half = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(served.address).await.expect("a connection");
        // It may be closed already.
        let _ = stream.write_all(b"GET /health HTTP/1.1\r\nhost: no").await;
        half.push(stream);
    }
    assert!(served.is_ready().await);
    // Nearly all of them were closed.
    let mut open = 0;
    for stream in &mut half {
        let mut byte = [0; 1];
        let read = timeout(Duration::from_millis(5), stream.read(&mut byte)).await;
        open += usize::from(read.is_err());
    }
    assert!(open <= 8, "{open}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_says_nothing_more_is_closed_and_one_that_drips_is_too() {
    let limits =
        Limits { silence: Duration::from_millis(200), age: Duration::from_millis(800), ..Limits::default() };
    let served = Served::new(limits).await;
    let began = Instant::now();
    let mut silent = TcpStream::connect(served.address).await.expect("a connection");
    silent.write_all(b"GET /health HT").await.expect("half a request");
    let mut all = Vec::new();
    let _ = timeout(Duration::from_secs(5), silent.read_to_end(&mut all)).await.expect("it is closed");
    assert!(began.elapsed() >= Duration::from_millis(200));
    let mut drips = TcpStream::connect(served.address).await.expect("a connection");
    let began = Instant::now();
    drips.write_all(b"GET /health HTTP/1.1\r\nx: ").await.expect("the beginning");
    while began.elapsed() < Duration::from_secs(5) && drips.write_all(b"y").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!((Duration::from_millis(700)..Duration::from_secs(5)).contains(&began.elapsed()));
    assert!(served.is_ready().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_database_does_not_answer_is_not_ready_and_is_again_when_it_does() {
    let served = Served::new(Limits::default()).await;
    assert!(served.is_ready().await);
    // The thread that commits hangs.
    served.stop.store(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let answer = served.get("/ready").await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("has not answered within 2 s"), "{answer}");
    let core = served.core.clone();
    let answering = std::thread::spawn(move || {
        for _ in 0..100 {
            core.answer_probes();
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    assert!(served.is_ready().await);
    answering.join().expect("an end");
}
