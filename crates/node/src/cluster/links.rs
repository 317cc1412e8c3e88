//! Connections to and from the other members, over TLS 1.3.
//!
//! Each member dials every other one. What it has to say goes over the connection that it dialed;
//! the side that accepted says that it lives, and no more. So a link has one writer, and a member
//! that reads slowly, says too much or says garbage costs its own connections alone.

mod accept;
mod dial;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use tally_contracts::Name;
use tally_identity::tls::Tls;
use tally_notary::Cluster;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

use super::asker::Asker;
use super::error::LinkError;
use super::frame::{self, Hello, Limits};
use super::intake::Intake;
use super::line::Line;
use super::meters::Counts;
use super::section::Times;
use crate::desk::lock;

/// Application protocol (RFC 7301) of links between members of a clustered notary.
pub const CLUSTER_PROTOCOL: &[u8] = b"tally-notary-member/1";

/// How long a member whose connection broke the protocol is not let in again.
const BARRED: Duration = Duration::from_secs(1);
/// One frame may take so many silences to be written.
const WRITES: u32 = 3;

/// Another member, and the links with it.
pub(super) struct Peer {
    pub(super) name: Name,
    pub(super) voter: Address,
    /// Where it listens: `host:port`.
    socket: String,
    pub(super) line: Arc<Line>,
    /// Counts connections from it that were let in; the newest one stays.
    newest: watch::Sender<u64>,
    barred: Mutex<Option<Instant>>,
}

impl Peer {
    /// Ends the connection from it, and lets it in again after a while.
    pub(super) fn bar(&self) {
        *lock(&self.barred) = Some(Instant::now() + BARRED);
        self.newest.send_modify(|newest| *newest += 1);
    }

    fn is_barred(&self) -> bool {
        lock(&self.barred).is_some_and(|until| Instant::now() < until)
    }
}

/// What all links of a member have in common.
pub(super) struct Links {
    pub(super) me: Name,
    /// The address of this node's voting key.
    pub(super) own: Address,
    peers: BTreeMap<Address, Arc<Peer>>,
    names: BTreeMap<Name, Address>,
    hello: Hello,
    limits: Limits,
    times: Times,
    tls: Tls,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    intake: Arc<Intake>,
    asker: Asker,
    pub(super) figures: Arc<Counts>,
    stop: watch::Receiver<bool>,
    /// Held by every task: it is closed when the last one has ended.
    alive: Mutex<Option<mpsc::Sender<()>>>,
}

/// What links work with.
pub(super) struct LinkParts {
    pub(super) cluster: Arc<Cluster>,
    pub(super) me: Name,
    pub(super) own: Address,
    /// Where each other member listens.
    pub(super) sockets: BTreeMap<Name, String>,
    pub(super) limits: Limits,
    /// Bytes that may wait to be written to one member.
    pub(super) line_bytes: usize,
    pub(super) times: Times,
    pub(super) tls: Tls,
    pub(super) intake: Arc<Intake>,
    pub(super) asker: Asker,
    pub(super) figures: Arc<Counts>,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) alive: mpsc::Sender<()>,
}

impl Links {
    pub(super) fn new(parts: LinkParts) -> Self {
        let LinkParts { cluster, me, own, mut sockets, limits, line_bytes, times, tls, .. } = parts;
        let mut server = ServerConfig::clone(&tls.peer_server());
        server.alpn_protocols = vec![CLUSTER_PROTOCOL.to_vec()];
        let mut client = ClientConfig::clone(&tls.peer_client());
        client.alpn_protocols = vec![CLUSTER_PROTOCOL.to_vec()];
        let others = cluster.members().iter().filter(|member| member.name != me);
        let peer = |member: &tally_notary::Member| {
            let peer = Peer {
                name: member.name.clone(),
                voter: member.address(),
                socket: sockets.remove(&member.name).unwrap_or_default(),
                line: Arc::new(Line::new(line_bytes)),
                newest: watch::Sender::new(0),
                barred: Mutex::default(),
            };
            (peer.voter, Arc::new(peer))
        };
        let peers: BTreeMap<Address, Arc<Peer>> = others.map(peer).collect();
        Self {
            me,
            own,
            names: peers.values().map(|peer| (peer.name.clone(), peer.voter)).collect(),
            peers,
            hello: Hello { version: frame::VERSION, cluster: *cluster.id() },
            limits,
            times,
            tls,
            server: Arc::new(server),
            client: Arc::new(client),
            intake: parts.intake,
            asker: parts.asker,
            figures: parts.figures,
            stop: parts.stop,
            alive: Mutex::new(Some(parts.alive)),
        }
    }

    /// The member with this voting key, unless it is this node.
    pub(super) fn peer(&self, voter: Address) -> Option<&Arc<Peer>> {
        self.peers.get(&voter)
    }

    /// The member of this name, unless it is this node.
    pub(super) fn named(&self, name: &Name) -> Option<&Arc<Peer>> {
        self.peer(*self.names.get(name)?)
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.peers.values()
    }

    /// Listens, and dials every other member. Within a runtime.
    pub(super) fn start(self: &Arc<Self>, listener: tokio::net::TcpListener) {
        self.spawn(accept::listen(listener, Arc::clone(self)));
        for peer in self.peers() {
            self.spawn(dial::keep(Arc::clone(self), Arc::clone(peer)));
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let Some(alive) = lock(&self.alive).clone() else { return };
        tokio::spawn(async move {
            task.await;
            drop(alive);
        });
    }

    /// Starts no more tasks.
    pub(super) fn close(&self) {
        lock(&self.alive).take();
    }

    async fn stopped(&self) {
        // Whoever could stop it is gone: it is stopped.
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }

    /// Ends when a certificate of the link is no longer good: it ran out, or was revoked. A member
    /// that is revoked is treated like one that fell silent, and found out as soon.
    async fn recheck(&self, chain: &[CertificateDer<'static>]) -> LinkError {
        loop {
            tokio::time::sleep(self.times.silence).await;
            if let Err(error) = self.tls.recheck(chain) {
                return error.into();
            }
        }
    }

    fn ended(&self, peer: &Peer, direction: &str, error: &LinkError) {
        if error.is_fault() {
            self.figures.faulty_links.fetch_add(1, Relaxed);
            tracing::warn!(member = %peer.name, error = crate::desk::full_text(error), "a link {direction} a member of the cluster ended by its fault");
        } else {
            tracing::info!(member = %peer.name, error = crate::desk::full_text(error), "a link {direction} a member of the cluster ended");
        }
    }

    /// Writes all of it, as long as it does not take for ever.
    async fn write(&self, io: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), LinkError> {
        let limit = self.times.silence * WRITES;
        let write = async {
            io.write_all(bytes).await?;
            io.flush().await
        };
        match tokio::time::timeout(limit, write).await {
            Ok(written) => written.map_err(LinkError::Broken),
            Err(_) => Err(LinkError::Stuck(limit)),
        }
    }

    /// Says that this side lives, for ever.
    async fn beat(&self, io: &mut (impl AsyncWrite + Unpin)) -> LinkError {
        loop {
            tokio::time::sleep(self.times.heartbeat).await;
            if let Err(error) = self.write(io, &frame::heartbeat()).await {
                return error;
            }
        }
    }

    /// A member answered with another's key, or a signature that does not verify.
    pub(super) fn answered_falsely(&self, member: Address) {
        self.figures.blames.fetch_add(1, Relaxed);
        if let Some(peer) = self.peer(member) {
            peer.bar();
        }
    }

    fn check(&self, hello: Hello) -> Result<(), LinkError> {
        if hello.cluster == self.hello.cluster { Ok(()) } else { Err(LinkError::OtherCluster) }
    }
}
