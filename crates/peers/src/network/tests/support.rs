//! Nodes on loopback, and a peer that does as the test says.

use crate::frame::{ChunkLane, Control, Form, encode_chunk};
use crate::handshake::{Hello, Opening, PREFIX, Role};
use crate::network::opening::Link;
use crate::tls::{self, Tls};
use crate::{Config, Enode, Event, Events, Kinds, Lane, Network, NodeId, NodeKey};
use alloy_primitives::{Address, B256};
use bytes::BytesMut;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::client::TlsStream;

pub(super) const VOTE: u8 = 1;
pub(super) const TRANSACTIONS: u8 = 2;
pub(super) const BLOCKS: u8 = 3;
pub(super) const NETWORK: u64 = 1337;
pub(super) const GENESIS: B256 = B256::repeat_byte(9);
/// Longer than anything here takes, on the busiest machine.
pub(super) const LONG: Duration = Duration::from_secs(30);

pub(super) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub(super) fn key(number: u8) -> NodeKey {
    NodeKey::new(&[number; 32]).unwrap()
}

pub(super) fn kinds() -> Kinds {
    Kinds::new()
        .message(VOTE, "vote", Lane::Urgent, 8 << 20)
        .message(TRANSACTIONS, "transactions", Lane::Bulk, 8 << 20)
        .request(BLOCKS, "blocks", Lane::Bulk, 64, 8 << 20)
}

pub(super) struct Node {
    pub(super) network: Network,
    pub(super) events: Events,
}

/// A configuration that listens at any port.
pub(super) fn config(number: u8) -> Config {
    let mut state = u64::from(number);
    let random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 11
    };
    let mut config = Config::new(key(number), NETWORK, GENESIS, kinds(), Box::new(random));
    config.listen = Some(([127, 0, 0, 1], 0).into());
    config.backoff.first = Duration::from_millis(20);
    config.backoff.longest = Duration::from_millis(100);
    config
}

impl Node {
    pub(super) fn start(runtime: &Runtime, number: u8, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(number);
        change(&mut config);
        let (network, events) = Network::start(config, runtime.handle()).unwrap();
        Self { network, events }
    }

    pub(super) fn plain(runtime: &Runtime, number: u8) -> Self {
        Self::start(runtime, number, |_| ())
    }

    /// With other nodes as known peers.
    pub(super) fn knowing(runtime: &Runtime, number: u8, others: &[&Self]) -> Self {
        Self::start(runtime, number, |config| config.known = others.iter().map(|node| node.enode()).collect())
    }

    pub(super) fn enode(&self) -> Enode {
        self.network.enode().unwrap()
    }

    pub(super) fn at(&self) -> SocketAddr {
        self.network.local_address().unwrap()
    }

    pub(super) fn address(&self) -> Address {
        self.network.address()
    }

    /// The next event.
    pub(super) fn next(&self) -> Event {
        self.events.recv_timeout(LONG).unwrap()
    }

    /// The next event, which is that this peer is there.
    pub(super) fn expect_connected(&self) -> Address {
        match self.next() {
            Event::Connected { peer, .. } => peer,
            other => panic!("expected a connection, not {other:?}"),
        }
    }

    /// The next event, which is that a peer has gone.
    pub(super) fn expect_disconnected(&self) -> crate::DisconnectReason {
        match self.next() {
            Event::Disconnected { reason, .. } => reason,
            other => panic!("expected a disconnection, not {other:?}"),
        }
    }

    /// Why the only known peer cannot be reached.
    pub(super) fn failure(&self) -> String {
        let mut failure = None;
        until(|| {
            failure = self.network.known()[0].failure.clone();
            failure.is_some()
        });
        failure.unwrap()
    }
}

/// Waits until something holds.
pub(super) fn until(mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "it does not come about");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// The other end of a session that the test plays.
pub(super) struct Raw {
    pub(super) stream: TlsStream<Link>,
    pub(super) exporter: [u8; 32],
}

impl Raw {
    /// TLS without more.
    pub(super) async fn connect(to: SocketAddr) -> Self {
        let stream = BufReader::new(TcpStream::connect(to).await.unwrap());
        let stream = Tls::new().unwrap().connector.connect(Tls::server_name(), stream).await.unwrap();
        let exporter = tls::exporter(stream.get_ref().1).unwrap();
        Self { stream, exporter }
    }

    /// A hello that holds in this session.
    pub(super) fn hello(&self, key: &NodeKey, instance: u64, to: &NodeId) -> Vec<u8> {
        let hello = Hello {
            oldest: 1,
            newest: 1,
            id: key.id(),
            network_id: NETWORK,
            genesis: GENESIS,
            instance,
            window: 1 << 20,
            port: 0,
            client: "test".to_owned(),
        };
        hello.sign(key, Role::Initiator, &self.exporter, to)
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    pub(super) async fn read_opening(&mut self) -> Opening {
        let mut message = vec![0; PREFIX];
        self.stream.read_exact(&mut message).await.unwrap();
        let length = Opening::body_length([message[0], message[1], message[2]]).unwrap();
        message.resize(PREFIX + length, 0);
        self.stream.read_exact(&mut message[PREFIX..]).await.unwrap();
        Opening::decode(&message).unwrap()
    }

    /// A session with a node.
    pub(super) async fn session(node: &Node, number: u8, instance: u64) -> Self {
        let mut raw = Self::connect(node.at()).await;
        let hello = raw.hello(&key(number), instance, &node.network.id());
        raw.write(&hello).await;
        assert!(matches!(raw.read_opening().await, Opening::Hello(_)));
        raw.write(&Opening::accepted()).await;
        raw
    }

    /// Whether the other side has closed, or is silent for so long.
    pub(super) async fn is_closed_within(&mut self, time: Duration) -> bool {
        let drain = async {
            let mut bytes = vec![0; 1 << 16];
            while !matches!(self.stream.read(&mut bytes).await, Ok(0) | Err(_)) {}
        };
        tokio::time::timeout(time, drain).await.is_ok()
    }
}

/// One message in one chunk.
pub(super) fn message(lane: ChunkLane, kind: u8, payload: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::new();
    encode_chunk(
        &mut bytes,
        lane,
        Some((Form::Message, kind, u32::try_from(payload.len()).unwrap())),
        payload,
    );
    bytes
}

pub(super) fn ping() -> BytesMut {
    let mut bytes = BytesMut::new();
    Control::Ping(1).encode(&mut bytes);
    bytes
}
