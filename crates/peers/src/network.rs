//! The sessions of one node, and what the host does with them from its own threads.

mod connect;
mod core;
mod opening;

use crate::config::{Config, SMALLEST_WINDOW};
use crate::enode::{Enode, Host};
use crate::event::Events;
use crate::handshake::Role;
use crate::key::NodeId;
use crate::permissions::Permissions;
use crate::send::{Pending, SendError};
use crate::tls::TlsError;
use alloy_primitives::Address;
use bytes::Bytes;
use core::Core;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// The sessions of one node. Clones are the same network. Everything here may be called from any
/// thread, on or off the runtime, and none of it waits for a peer, save [`Network::stop`].
#[derive(Clone)]
pub struct Network {
    core: Arc<Core>,
}

/// What is known of a peer with which there is a session.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// Its address.
    pub peer: Address,
    /// Its key.
    pub id: NodeId,
    /// Where it listens, as far as is known: from the list of known peers, else from what it says.
    pub enode: Enode,
    /// The other end of the connection.
    pub remote: SocketAddr,
    /// This node's role: the initiator of a connection that it opened.
    pub role: Role,
    /// Whether it is one of the known peers.
    pub known: bool,
    /// Program and version, as it says.
    pub client: String,
    /// The version of the protocol.
    pub version: u16,
    /// The smoothed time of a ping and its answer, once there is one.
    pub round_trip: Option<Duration>,
    /// Its points, from 0 to [`FULL_SCORE`](crate::FULL_SCORE).
    pub score: u32,
    /// For how long there has been this session.
    pub connected: Duration,
    /// Bytes received, without the overhead of TLS.
    pub bytes_in: u64,
    /// Bytes sent, without the overhead of TLS.
    pub bytes_out: u64,
    /// Messages received.
    pub messages_in: u64,
    /// Messages sent.
    pub messages_out: u64,
    /// Bytes of urgent messages that wait to be sent.
    pub urgent_waiting: u64,
    /// Bytes of bulk that wait to be sent.
    pub bulk_waiting: u64,
}

/// A known peer.
#[derive(Debug, Clone)]
pub struct KnownPeer {
    /// Where it listens.
    pub enode: Enode,
    /// Whether there is a session with it.
    pub connected: bool,
    /// Why the last attempt to connect failed, when the one after it has not succeeded.
    pub failure: Option<String>,
}

impl Network {
    /// Starts to listen and to connect, on this runtime, which drives timers and sockets.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: Config, runtime: &Handle) -> Result<(Self, Events), StartError> {
        let listener = match config.listen {
            None => None,
            Some(address) => {
                let fail = |source| StartError::Listen { address, source };
                let listener = TcpListener::bind(address).map_err(fail)?;
                listener.set_nonblocking(true).map_err(fail)?;
                let local = listener.local_addr().map_err(fail)?;
                let _entered = runtime.enter();
                Some((tokio::net::TcpListener::from_std(listener).map_err(fail)?, local))
            }
        };
        let (core, events) = Core::new(config, listener.as_ref().map(|(_, local)| *local), runtime.clone())?;
        let core = Arc::new(core);
        if let Some((listener, _)) = listener {
            core.spawn(connect::accept(Arc::clone(&core), listener));
        }
        core.spawn(connect::dial(Arc::clone(&core)));
        Ok((Self { core }, events))
    }

    /// This node's key.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.core.key.id()
    }

    /// This node's address.
    #[must_use]
    pub fn address(&self) -> Address {
        self.core.key.address()
    }

    /// Where this node listens.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.core.local
    }

    /// This node's own enode URL; nothing when it does not listen.
    #[must_use]
    pub fn enode(&self) -> Option<Enode> {
        let local = self.core.local?;
        let host = self.core.advertised.clone().unwrap_or(Host::Ip(local.ip()));
        Some(Enode { id: self.id(), host, port: local.port(), discovery_port: None })
    }

    /// Sends a message to a peer.
    ///
    /// # Errors
    /// [`SendError`]; nothing has then been sent.
    pub fn send(&self, peer: &Address, kind: u8, payload: Bytes) -> Result<(), SendError> {
        self.core.session(peer)?.send(kind, payload)
    }

    /// Sends a message to these peers; those to which it could not be sent, and why.
    pub fn send_to_all<'a>(
        &self,
        peers: impl IntoIterator<Item = &'a Address>,
        kind: u8,
        payload: &Bytes,
    ) -> Vec<SendError> {
        let send = |peer| self.send(peer, kind, payload.clone()).err();
        peers.into_iter().filter_map(send).collect()
    }

    /// Sends a message to every peer; those to which it could not be sent, and why.
    pub fn broadcast(&self, kind: u8, payload: &Bytes) -> Vec<SendError> {
        let send = |session: &Arc<crate::session::Session>| session.send(kind, payload.clone()).err();
        self.core.sessions().values().filter_map(send).collect()
    }

    /// Sends a request to a peer: a future of its answer, which can also be
    /// [waited for](Pending::wait).
    pub fn request(&self, peer: &Address, kind: u8, payload: Bytes, timeout: Duration) -> Pending {
        let handle = self.core.runtime.clone();
        let sent = self.core.session(peer).and_then(|session| {
            let (number, answer) = session.request(kind, payload)?;
            Ok((session, number, answer))
        });
        match sent {
            Err(error) => Pending::failed(error, handle),
            Ok((session, number, answer)) => {
                let timeout = {
                    let _entered = handle.enter();
                    Box::pin(tokio::time::sleep(timeout))
                };
                Pending::sent(answer, timeout, session, number, handle)
            }
        }
    }

    /// The peers with which there is a session, by address.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerInfo> {
        let sessions: Vec<_> = self.core.sessions().values().map(Arc::clone).collect();
        let now = Instant::now();
        let state = self.core.state();
        let info = |session: Arc<crate::session::Session>| {
            let known = state.roster.enode(&session.id).cloned();
            let said = SocketAddr::new(session.remote.ip(), session.hello.port);
            let (urgent_waiting, bulk_waiting) = session.waiting();
            PeerInfo {
                peer: session.peer,
                id: session.id,
                known: known.is_some(),
                enode: known.unwrap_or_else(|| Enode::new(session.id, said)),
                remote: session.remote,
                role: session.role,
                client: session.hello.client.clone(),
                version: session.hello.newest.min(crate::handshake::NEWEST),
                round_trip: session.round_trip(),
                score: state.standing.score(&session.peer, now),
                connected: now.saturating_duration_since(session.since),
                bytes_in: session.traffic.bytes_in.load(Ordering::Relaxed),
                bytes_out: session.traffic.bytes_out.load(Ordering::Relaxed),
                messages_in: session.traffic.messages_in.load(Ordering::Relaxed),
                messages_out: session.traffic.messages_out.load(Ordering::Relaxed),
                urgent_waiting,
                bulk_waiting,
            }
        };
        let mut peers: Vec<_> = sessions.into_iter().map(info).collect();
        peers.sort_by_key(|info| info.peer);
        peers
    }

    /// How many peers there are.
    #[must_use]
    pub fn peer_count(&self) -> usize {
        self.core.sessions().len()
    }

    /// Whether there is a session with a peer.
    #[must_use]
    pub fn is_connected(&self, peer: &Address) -> bool {
        self.core.sessions().contains_key(peer)
    }

    /// The known peers, by key.
    #[must_use]
    pub fn known(&self) -> Vec<KnownPeer> {
        let mut known = self.core.state().roster.list();
        known.sort_by_key(|peer| peer.enode.id);
        known
    }

    /// Keeps a session with a peer from now on (`admin_addPeer`), and forgives it what it has done.
    /// Whether it was not known before.
    ///
    /// # Errors
    /// [`AddError`].
    pub fn add(&self, enode: Enode) -> Result<bool, AddError> {
        self.core.add(enode)
    }

    /// No longer keeps a session with a peer (`admin_removePeer`), and ends the one there is. Whether it
    /// was known.
    pub fn remove(&self, id: &NodeId) -> bool {
        self.core.remove(id)
    }

    /// Says that a peer has misbehaved, by so many of its [`FULL_SCORE`](crate::FULL_SCORE) points.
    /// A peer without points is disconnected and refused for a time; points come back with good
    /// behaviour. Whether it was disconnected.
    pub fn report(&self, peer: &Address, weight: u32) -> bool {
        self.core.report(peer, weight)
    }

    /// The rules that this network goes by: a clone, which shares them.
    #[must_use]
    pub fn permissions(&self) -> Permissions {
        self.core.permissions.clone()
    }

    /// Ends the sessions that the rules no longer permit, and tries known peers again that they permit
    /// now. To be called when the rules have changed.
    pub fn apply_permissions(&self) {
        self.core.apply_permissions();
    }

    /// Stops: takes nothing new, says goodbye to every peer, and waits, within the time that the
    /// configuration gives, for the sessions to end. The events end then.
    pub async fn stop(&self) {
        self.core.stop().await;
    }

    /// As [`Network::stop`], for a thread that is not the runtime's.
    ///
    /// # Panics
    /// On a thread of an asynchronous runtime.
    pub fn stop_and_wait(&self) {
        self.core.runtime.block_on(self.core.stop());
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("address", &self.address()).finish_non_exhaustive()
    }
}

/// The network could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is taken, or the address is not this machine's.
    #[error("cannot listen for peers at {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A peer could not be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// It is this node.
    #[error("the enode URL is this node's own")]
    Itself,
    /// The rules do not permit it.
    #[error("the node is not on the list of permitted nodes")]
    NotPermitted,
}

/// The window that is announced.
fn window(configured: u32) -> u32 {
    configured.max(SMALLEST_WINDOW)
}

#[cfg(test)]
mod tests;
