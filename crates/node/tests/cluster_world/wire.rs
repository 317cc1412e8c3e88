//! A node that speaks to a member by itself, and says what it likes.

use std::sync::Arc;
use std::time::Duration;

use tally_crypto::Hash;
use tally_identity::server_name;
use tally_node::CLUSTER_PROTOCOL;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, server};

use super::{PATIENCE, World, name};

pub(crate) const HELLO: u8 = 1;
pub(crate) const MESSAGE: u8 = 2;
pub(crate) const REQUEST: u8 = 3;
pub(crate) const ANSWER: u8 = 4;
pub(crate) const HEARTBEAT: u8 = 6;

pub(crate) fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 1).expect("a small frame");
    [&length.to_le_bytes()[..], &[kind], body].concat()
}

pub(crate) fn hello(cluster: &Hash) -> Vec<u8> {
    frame(HELLO, &[&1_u16.to_le_bytes()[..], cluster.as_bytes()].concat())
}

pub(crate) struct Line(TlsStream<TcpStream>);

impl Line {
    /// A connection to the member `to` with the certificate of the node `of`.
    pub(crate) async fn open(world: &World, of: usize, to: usize) -> Self {
        Self::try_open(world, of, to, CLUSTER_PROTOCOL).await.expect("a connection")
    }

    pub(crate) async fn try_open(
        world: &World,
        of: usize,
        to: usize,
        protocol: &[u8],
    ) -> std::io::Result<Self> {
        let mut config = ClientConfig::clone(&world.tls(of).peer_client());
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(("127.0.0.1", world.ports[to])).await?;
        let stream = TlsConnector::from(Arc::new(config)).connect(server_name(&name(to)), stream).await?;
        Ok(Self(stream))
    }

    /// As [`Self::open`], past the hellos.
    pub(crate) async fn greeted(world: &World, of: usize, to: usize) -> Self {
        loop {
            let mut line = Self::open(world, of, to).await;
            line.send(&hello(world.cluster.id())).await;
            // One that broke the protocol has to wait before it is let in again.
            match line.next().await {
                Some((kind, body)) => {
                    assert_eq!(frame(kind, &body), hello(world.cluster.id()));
                    return line;
                }
                None => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Says something; whether it was taken.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        let write = async {
            self.0.write_all(bytes).await?;
            self.0.flush().await
        };
        tokio::time::timeout(PATIENCE, write).await.expect("it writes or fails").is_ok()
    }

    /// The next frame; `None` once the member has closed.
    pub(crate) async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let read = async {
            let mut length = [0; 4];
            self.0.read_exact(&mut length).await.ok()?;
            let mut frame = vec![0; usize::try_from(u32::from_le_bytes(length)).ok()?];
            self.0.read_exact(&mut frame).await.ok()?;
            let body = frame.split_off(1);
            Some((frame[0], body))
        };
        tokio::time::timeout(PATIENCE, read).await.expect("it reads or ends")
    }

    /// Waits until the member has closed; nothing but heartbeats may come before.
    pub(crate) async fn closed(&mut self) {
        while let Some((kind, _)) = self.next().await {
            assert_eq!(kind, HEARTBEAT);
        }
    }
}

/// A connection of a member to `listener`, which answers with the certificate of the node `of`;
/// `None` when the member does not take it.
pub(crate) async fn accept(
    world: &World,
    of: usize,
    listener: &TcpListener,
) -> Option<server::TlsStream<TcpStream>> {
    let mut config = ServerConfig::clone(&world.tls(of).peer_server());
    config.alpn_protocols = vec![CLUSTER_PROTOCOL.to_vec()];
    let (stream, _) = listener.accept().await.expect("a connection");
    let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await.ok()?;
    stream.write_all(&hello(world.cluster.id())).await.ok()?;
    let mut first = vec![0; hello(world.cluster.id()).len()];
    stream.read_exact(&mut first).await.ok()?;
    assert_eq!(first, hello(world.cluster.id()));
    Some(stream)
}
