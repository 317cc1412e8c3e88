//! What delivery costs: messages per second, processor time per message at both ends, one-way latency.
//!
//! `cargo run --release -p tally-messaging --example throughput [messages]`. Sender and receiver are two
//! processes with one network thread each; nothing is stored, so that only delivery is measured: the receiver
//! acknowledges what it takes at once, and the sender keeps its outbox in memory.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tally_contracts::Name;
use tally_messaging::{
    Acquaintance, Bytes, Cause, Directory, Inbox, Messaging, Node, Outbox, Position, QueueId, Refusal,
    Settings, Tls, Unfit,
};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const QUEUE: QueueId = QueueId([1; 16]);

/// Certificates that one process makes for both and hands over in hexadecimal.
struct Identity {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

fn names() -> Result<(Name, Name), Failure> {
    Ok(("O=Sender, L=London, C=GB".parse()?, "O=Receiver, L=London, C=GB".parse()?))
}

impl Identity {
    /// Root, certificate and key.
    fn make() -> Result<[Vec<u8>; 3], Failure> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let leaf = CertificateParams::new(vec!["node.tally.test".to_owned()])?.signed_by(&key, &issuer)?;
        Ok([issuer.der().to_vec(), leaf.der().to_vec(), key.serialize_der()])
    }

    fn new([root, leaf, key]: [Vec<u8>; 3]) -> Result<Self, Failure> {
        let provider = Arc::new(default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(root))?;
        let roots = Arc::new(roots);
        let chain = vec![CertificateDer::from(leaf)];
        let key = || PrivatePkcs8KeyDer::from(key.clone()).into();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider)).build()?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key())?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key())?;
        Ok(Self { server: Arc::new(server), client: Arc::new(client) })
    }
}

/// Both sides hold the same certificate; whose it is depends on who asks.
struct Certificates(Identity, Name);

impl Tls for Certificates {
    fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.server)
    }

    fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0.client)
    }

    fn server_name(&self, _: &Name) -> ServerName<'static> {
        ServerName::try_from("node.tally.test").expect("a DNS name")
    }

    fn peer_name(&self, _: &[CertificateDer<'_>]) -> Result<Name, Cause> {
        Ok(self.1.clone())
    }
}

struct Addresses(String);

impl Directory for Addresses {
    fn addresses(&self, _: &Name) -> Option<Vec<String>> {
        Some(vec![self.0.clone()])
    }
}

/// Nodes whose databases never change.
struct Strangers;

impl Acquaintance for Strangers {
    fn queue(&self, _: &Name) -> QueueId {
        QUEUE
    }

    fn standing(&self) -> Vec<u8> {
        Vec::new()
    }

    fn meet(&self, _: &Name, _: &[u8], _: Option<QueueId>) -> Result<(), Unfit> {
        Ok(())
    }

    fn superseded(&self, _: &Name, _: &[u8]) {}

    fn astray(&self, _: &Name, _: QueueId) {}
}

/// The unacknowledged messages of the sender.
#[derive(Default)]
struct Sent {
    messages: Mutex<(u64, VecDeque<Bytes>)>,
    acknowledged: AtomicU64,
}

impl Sent {
    fn put(&self, message: Bytes) -> u64 {
        let mut messages = self.messages.lock().expect("no holder panics");
        messages.1.push_back(message);
        messages.0 + messages.1.len() as u64
    }
}

impl Outbox for Sent {
    fn last(&self, _: &Name) -> Result<u64, Cause> {
        let messages = self.messages.lock().expect("no holder panics");
        Ok(messages.0 + messages.1.len() as u64)
    }

    fn after(&self, _: &Name, number: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>, Cause> {
        let messages = self.messages.lock().expect("no holder panics");
        let skip = number.saturating_sub(messages.0) as usize;
        let mut room = limit;
        let kept = messages.1.iter().skip(skip).take_while(|message| {
            let fits = room > 0;
            room = room.saturating_sub(message.len());
            fits
        });
        Ok(kept.zip(number + 1..).map(|(message, number)| (number, message.to_vec())).collect())
    }

    fn acknowledged(&self, _: &Name, _: QueueId, up_to: u64) {
        let mut messages = self.messages.lock().expect("no holder panics");
        while messages.0 < up_to && messages.1.pop_front().is_some() {
            messages.0 += 1;
        }
        self.acknowledged.store(up_to, Relaxed);
    }
}

/// Takes everything; keeps the latency of each message.
#[derive(Default)]
struct Received {
    count: AtomicU64,
    latencies: Mutex<Vec<u32>>,
    messaging: OnceLock<Weak<Messaging>>,
}

impl Inbox for Received {
    fn position(&self, _: &Name, _: QueueId) -> Position {
        let count = self.count.load(Relaxed);
        Position { accepted: count, durable: count }
    }

    fn receive(&self, peer: &Name, queue: QueueId, messages: &mut Vec<(u64, Bytes)>) -> Result<(), Refusal> {
        let now = nanos();
        let mut latencies = self.latencies.lock().expect("no holder panics");
        for (number, message) in messages.drain(..) {
            self.count.store(number, Relaxed);
            if let Some(sent) = message.first_chunk::<8>() {
                let latency = now.saturating_sub(u64::from_le_bytes(*sent));
                latencies.push(u32::try_from(latency).unwrap_or(u32::MAX));
            }
        }
        if let Some(messaging) = self.messaging.get().and_then(Weak::upgrade) {
            messaging.acknowledge(peer, queue, self.count.load(Relaxed));
        }
        Ok(())
    }
}

/// Wall clock, which both processes share.
fn nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Processor time of this process in user and kernel mode together (proc(5), fields 14 and 15 of `stat`; 100
/// ticks a second).
fn processor_time() -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

fn node(identity: Identity, peer: Name, address: String, inbox: Arc<Received>, outbox: Arc<Sent>) -> Node {
    Node {
        tls: Arc::new(Certificates(identity, peer)),
        directory: Arc::new(Addresses(address)),
        inbox,
        outbox,
        acquaintance: Arc::new(Strangers),
        random: Arc::new(|| 0),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>, Failure> {
    let digits: Vec<u8> = text.trim().bytes().collect();
    digits.chunks(2).map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

/// Answers each line on standard input with the processor time in nanoseconds and the latencies since the last.
fn receiver() -> Result<(), Failure> {
    let mut lines = std::io::stdin().lock().lines();
    let mut line = || lines.next().ok_or("the sender is gone")?.map_err(Failure::from);
    let identity = Identity::new([unhex(&line()?)?, unhex(&line()?)?, unhex(&line()?)?])?;
    let runtime = runtime()?;
    let received = Arc::new(Received::default());
    let node = node(identity, names()?.0, String::new(), Arc::clone(&received), Arc::default());
    let messaging = Arc::new(runtime.block_on(Messaging::start(Settings::default(), node))?);
    received.messaging.set(Arc::downgrade(&messaging)).map_err(|_| "set twice")?;
    println!("{}", messaging.local_addr());
    while line().is_ok() {
        let mut latencies = std::mem::take(&mut *received.latencies.lock().expect("no holder panics"));
        latencies.sort_unstable();
        let at = |share: usize| latencies.get(latencies.len() * share / 1000).copied().unwrap_or_default();
        let reads = messaging.metrics().reads;
        println!("{} {} {} {} {reads}", processor_time()?.as_nanos(), at(500), at(990), at(999));
    }
    Ok(())
}

struct Receiver {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Receiver {
    fn tell(&mut self, line: &str) -> Result<(), Failure> {
        let input = self.child.stdin.as_mut().ok_or("no input")?;
        Ok(writeln!(input, "{line}")?)
    }

    fn answer(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    fn figures(&mut self) -> Result<Vec<u64>, Failure> {
        self.tell("figures")?;
        Ok(self.answer()?.split(' ').map(str::parse).collect::<Result<_, _>>()?)
    }
}

fn main() -> Result<(), Failure> {
    if std::env::args().nth(1).as_deref() == Some("receive") {
        return receiver();
    }
    let count: u64 = std::env::args().nth(1).map_or(Ok(500_000), |text| text.parse())?;
    let child = Command::new(std::env::current_exe()?)
        .arg("receive")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut receiver = {
        let mut child = child;
        let answers = BufReader::new(child.stdout.take().ok_or("no output")?);
        Receiver { child, answers }
    };
    let made = Identity::make()?;
    for part in &made {
        receiver.tell(&hex(part))?;
    }
    let address = receiver.answer()?;
    let runtime = runtime()?;
    let outbox = Arc::new(Sent::default());
    let peer = names()?.1;
    let node = node(Identity::new(made)?, peer.clone(), address, Arc::default(), Arc::clone(&outbox));
    let messaging = runtime.block_on(Messaging::start(Settings::default(), node))?;

    println!(
        "bytes  batch  offered/s  messages/s  sender µs  receiver µs  p50 µs  p99 µs  p99.9 µs  per write  per read"
    );
    for (size, batch, rate) in [
        (300, 1, None),
        (300, 16, None),
        (1500, 1, None),
        (1500, 16, None),
        (600, 1, Some(1_000)),
        (600, 1, Some(10_000)),
        (600, 10, Some(10_000)),
        (600, 1, Some(50_000)),
        (600, 10, Some(50_000)),
    ] {
        let count = rate.map_or(count, |rate: u64| count.min(rate * 3));
        let before = (receiver.figures()?, processor_time()?, messaging.metrics());
        let begin = Instant::now();
        let mut last = 0;
        let mut sent = 0;
        while sent < count {
            if let Some(rate) = rate {
                // An open loop on a fixed timetable.
                let due = begin + Duration::from_secs_f64(sent as f64 / rate as f64);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            let messages: Vec<_> = (0..batch)
                .map(|_| {
                    let mut message = vec![0; size];
                    message[..8].copy_from_slice(&nanos().to_le_bytes());
                    let message = Bytes::from(message);
                    last = outbox.put(message.clone());
                    (&peer, last, message)
                })
                .collect();
            sent += batch;
            messaging.send_all(messages);
            // A closed window, so that delivery and not the outbox is measured.
            while last - outbox.acknowledged.load(Relaxed) > 100_000
                || messaging.peer(&peer).outbound.is_some_and(|out| out.buffered_bytes > 500_000)
            {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        while outbox.acknowledged.load(Relaxed) < last {
            std::thread::sleep(Duration::from_micros(100));
        }
        let took = begin.elapsed();
        let after = (receiver.figures()?, processor_time()?, messaging.metrics());
        let each = |nanos: u128| nanos as f64 / 1000.0 / count as f64;
        let writes = (after.2.writes - before.2.writes).max(1);
        let reads = (after.0[4] - before.0[4]).max(1);
        println!(
            "{size:5}  {batch:5}  {:>9}  {:10.0}  {:9.2}  {:11.2}  {:6}  {:6}  {:8}  {:9.1}  {:8.1}",
            rate.map_or("most".to_owned(), |rate| rate.to_string()),
            count as f64 / took.as_secs_f64(),
            each((after.1 - before.1).as_nanos()),
            each(u128::from(after.0[0] - before.0[0])),
            after.0[1] / 1000,
            after.0[2] / 1000,
            after.0[3] / 1000,
            count as f64 / writes as f64,
            count as f64 / reads as f64,
        );
    }
    runtime.block_on(messaging.shutdown());
    drop(receiver.child.stdin.take());
    receiver.answers.read_to_end(&mut Vec::new())?;
    receiver.child.wait()?;
    Ok(())
}
