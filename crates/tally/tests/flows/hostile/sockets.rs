//! What a hostile member tries over bare sockets: bytes that are no frames, requests that never end, connections that say
//! nothing.

use super::super::support::Network;
use super::{STRANGER, VICTIMS, name};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tally::flows_network::layout::NodeRunFile;
use tally_identity::{Identity, server_name, system_now, tls};
use tally_sim::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

/// Connections that stay half open at each of the first party's listeners.
const HALF_OPEN: usize = 1_100;
/// The machines that they come from. Who watches the node has an address of its own, and with it a share of the places:
/// among thousands of new connections a second from its own address it would have to ask again and again.
const MACHINES: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];
/// How long one connection of garbage is held.
const HELD: Duration = Duration::from_millis(300);

#[derive(Default)]
struct Counts {
    half_open: AtomicU64,
    garbage: AtomicU64,
    refused: AtomicU64,
    stop: AtomicBool,
}

/// A member's certificate, and where everybody listens.
pub(super) struct Sockets {
    connector: TlsConnector,
    victims: Vec<(String, NodeRunFile)>,
    counts: Arc<Counts>,
}

impl Sockets {
    pub(super) fn new(network: &Network) -> Self {
        let home = network.node(STRANGER);
        let secret = std::fs::read_to_string(home.identity().join("passphrase")).unwrap();
        let identity = Identity::load(&home.identity(), secret.trim_end().as_bytes(), system_now()).unwrap();
        let connector = TlsConnector::from(tls::Tls::new(&identity).unwrap().peer_client());
        let victims = VICTIMS
            .iter()
            .map(|label| (name(label), NodeRunFile::read(&network.node(label)).unwrap().unwrap()))
            .collect();
        Self { connector, victims, counts: Arc::default() }
    }

    pub(super) fn begin(&self, runtime: &tokio::runtime::Handle, rng: &mut Rng) {
        let (_, first) = &self.victims[0];
        for at in 0..HALF_OPEN {
            let from = MACHINES[at % MACHINES.len()];
            for (to, words) in [(first.http.unwrap(), "GET /rea"), (first.rpc, "\x16\x03\x01")] {
                runtime.spawn(half_open(from, to, words, Arc::clone(&self.counts)));
            }
        }
        for (victim, run) in &self.victims {
            let garbage = Garbage {
                connector: self.connector.clone(),
                victim: victim.clone(),
                address: run.messaging,
                counts: Arc::clone(&self.counts),
            };
            runtime.spawn(garbage.send(rng.fork()));
        }
    }

    /// How many connections were half open, how many sent garbage, and how many did not come about.
    pub(super) fn end(&self) -> [(&'static str, u64); 3] {
        self.counts.stop.store(true, Ordering::Relaxed);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sent = [
            ("half open", count(&self.counts.half_open)),
            ("garbage", count(&self.counts.garbage)),
            ("refused", count(&self.counts.refused)),
        ];
        assert!(sent[0].1 >= HALF_OPEN as u64 && sent[1].1 > 10, "{sent:?}");
        sent
    }
}

/// Keeps one connection that says half a word and nothing more; opens another when it is closed.
async fn half_open(from: Ipv4Addr, to: SocketAddr, words: &'static str, counts: Arc<Counts>) {
    while !counts.stop.load(Ordering::Relaxed) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        let connected = tokio::time::timeout(Duration::from_secs(2), socket.connect(to)).await;
        let Ok(Ok(mut stream)) = connected else {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(500)).await;
            continue;
        };
        counts.half_open.fetch_add(1, Ordering::Relaxed);
        if stream.write_all(words.as_bytes()).await.is_ok() {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
        // As fast as one machine would.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

struct Garbage {
    connector: TlsConnector,
    victim: String,
    address: SocketAddr,
    counts: Arc<Counts>,
}

impl Garbage {
    /// One connection after the other with a valid certificate, and what is no conversation.
    async fn send(self, mut rng: Rng) {
        while !self.counts.stop.load(Ordering::Relaxed) {
            let sent = tokio::time::timeout(Duration::from_secs(2), self.once(words(&mut rng))).await;
            let counted =
                if matches!(sent, Ok(Ok(()))) { &self.counts.garbage } else { &self.counts.refused };
            counted.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn once(&self, words: Vec<u8>) -> std::io::Result<()> {
        let stream = TcpStream::connect(self.address).await?;
        let server = server_name(&self.victim.parse().unwrap());
        let mut stream = self.connector.connect(server, stream).await?;
        stream.write_all(&words).await?;
        stream.flush().await?;
        let mut answer = [0; 1024];
        let _ = tokio::time::timeout(HELD, stream.read(&mut answer)).await;
        Ok(())
    }
}

/// A frame: its length, its kind, its fields.
fn frame(kind: u8, fields: &[u8]) -> Vec<u8> {
    let mut frame = (u32::try_from(fields.len()).unwrap() + 1).to_le_bytes().to_vec();
    frame.push(kind);
    frame.extend(fields);
    frame
}

fn words(rng: &mut Rng) -> Vec<u8> {
    let mut noise: Vec<u8> = (0..1 + rng.below(2_000)).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
    let mut hello = b"tallymsg\x01\0\x01\0".to_vec();
    hello.extend([7; 16]);
    let hello = frame(1, &hello);
    match rng.below(8) {
        0 => noise,
        // A length alone: what follows never comes.
        1 => u32::MAX.to_le_bytes().to_vec(),
        2 => frame(1, b"tallyxxx\x01\0\x01\0"),
        3 => hello,
        4 => [hello, frame(3, &noise)].concat(),
        5 => {
            noise.splice(0..0, 1_u64.to_le_bytes());
            [hello, frame(3, &noise)].concat()
        }
        6 => [hello, frame(7, &noise[..noise.len().min(500)])].concat(),
        _ => [hello, frame(u8::try_from(rng.below(256)).unwrap(), &noise)].concat(),
    }
}
