//! The handle that a node holds.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use tally_contracts::Name;
use tokio::net::TcpListener;
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};

use crate::error::StartError;
use crate::inbound::{self, Slot};
use crate::metrics::Metrics;
use crate::outbound::Outbound;
use crate::queues::{Acquaintance, Directory, Inbox, Outbox, QueueId};
use crate::settings::Settings;
use crate::shared::{Random, Shared};
use crate::status::{PeerStatus, Refused};
use crate::tls::Tls;

/// What messaging works with.
#[derive(Clone)]
pub struct Node {
    /// Certificates.
    pub tls: Arc<dyn Tls>,
    /// Who the peers are and where.
    pub directory: Arc<dyn Directory>,
    /// Where messages go.
    pub inbox: Arc<dyn Inbox>,
    /// Where they come from.
    pub outbox: Arc<dyn Outbox>,
    /// Which databases this node and its peers run on.
    pub acquaintance: Arc<dyn Acquaintance>,
    /// Random numbers for jitter; they need no secrecy.
    pub random: Random,
}

/// Delivery between this node and its peers. Ends when dropped; [`Messaging::shutdown`] ends it in order.
pub struct Messaging {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Closes when the last task has ended.
    ended: AsyncMutex<mpsc::Receiver<()>>,
}

impl Messaging {
    /// Listens, and is ready to deliver. Must be called within a tokio runtime, on which everything runs.
    ///
    /// Queues that were not acknowledged before a restart go on once [`Messaging::connect`] is called for
    /// their peers.
    ///
    /// # Errors
    /// A setting that cannot work, or an address that cannot be listened on.
    pub async fn start(settings: Settings, node: Node) -> Result<Self, StartError> {
        settings.validate()?;
        let address = settings.listen;
        let listener = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listener.await.map_err(|source| StartError::Listen { address, source })?;
        let (tasks, ended) = mpsc::channel(1);
        let shared = Arc::new(Shared::new(settings, node, tasks));
        shared.spawn(inbound::listen(listener, Arc::clone(&shared)));
        Ok(Self { shared, address, ended: AsyncMutex::new(ended) })
    }

    /// The address listened on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The largest message, in bytes, that can be delivered; a node checks before it makes one durable. A larger
    /// one would stop its queue.
    #[must_use]
    pub fn message_limit(&self) -> usize {
        self.shared.settings.message_limit
    }

    /// Sends a message that is durable in the outbox under this number, the one after the last to this peer.
    /// Never blocks: what memory has no room for is read back from the outbox when its turn comes.
    pub fn send(&self, peer: &Name, number: u64, bytes: Bytes) {
        let outbound = self.outbound(peer);
        self.push(&outbound, number, bytes);
        outbound.wake();
    }

    /// [`Messaging::send`] of many: each peer's connection is woken once, after all of its messages are there,
    /// so that they share writes.
    pub fn send_all<'a>(&self, messages: impl IntoIterator<Item = (&'a Name, u64, Bytes)>) {
        let mut woken: Vec<(&Name, Arc<Outbound>)> = Vec::new();
        for (peer, number, bytes) in messages {
            let known = woken.iter().position(|(name, _)| *name == peer).unwrap_or_else(|| {
                woken.push((peer, self.outbound(peer)));
                woken.len() - 1
            });
            self.push(&woken[known].1, number, bytes);
        }
        for (_, outbound) in woken {
            outbound.wake();
        }
    }

    fn push(&self, outbound: &Outbound, number: u64, bytes: Bytes) {
        if !outbound.push(number, bytes) {
            self.shared.counters.messages_left_to_outbox.fetch_add(1, Relaxed);
        }
    }

    /// Connects to a peer and delivers what the outbox holds for it; for queues that outlived a restart.
    pub fn connect(&self, peer: &Name) {
        self.outbound(peer).ask();
    }

    /// Ends the wait for the next attempt to reach a peer, because its address or certificate may have changed.
    pub fn nudge(&self, peer: &Name) {
        if let Some(outbound) = self.known(peer) {
            outbound.nudge();
        }
    }

    /// The inbox has made this peer's messages up to a number durable: the peer may forget them.
    pub fn acknowledge(&self, peer: &Name, queue: QueueId, up_to: u64) {
        let slots = self.shared.inbound.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = slots.get(peer).and_then(|slot| slot.current())
            && current.queue == queue
        {
            current.acknowledge(up_to);
        }
    }

    /// The inbox has room again after it was busy: every connection that waits asks it once more.
    pub fn resume(&self) {
        let slots = self.shared.inbound.read().unwrap_or_else(PoisonError::into_inner);
        for current in slots.values().filter_map(|slot| slot.current()) {
            current.room.notify_one();
        }
    }

    /// Ends both connections with a peer; what is left to deliver is delivered over new ones, if certificates
    /// and directory still allow them. What is sent after this call does not travel over the old connection, and
    /// nothing that comes over it is handed to the inbox any more.
    pub fn disconnect(&self, peer: &Name) {
        self.shared.epoch.fetch_add(1, SeqCst);
        if let Some(outbound) = self.known(peer) {
            outbound.cut();
        }
        let slots = self.shared.inbound.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(peer) {
            slot.cut();
        }
    }

    /// The queue to a peer was set anew: what memory holds of the old one is forgotten, its connection ends, and what is
    /// sent from now on is numbered from 1.
    pub fn reset(&self, peer: &Name) {
        if let Some(outbound) = self.known(peer) {
            outbound.reset();
        }
    }

    /// All queues, in both directions, were set anew: [`Messaging::reset`] of every peer, and connections from peers end.
    pub fn reset_all(&self) {
        self.shared.epoch.fetch_add(1, SeqCst);
        for outbound in self.shared.outbound.read().unwrap_or_else(PoisonError::into_inner).values() {
            outbound.reset();
        }
        for slot in self.shared.inbound.read().unwrap_or_else(PoisonError::into_inner).values() {
            slot.cut();
        }
    }

    /// Tells every connected receiver this node's present standing.
    pub fn announce(&self) {
        for outbound in self.shared.outbound.read().unwrap_or_else(PoisonError::into_inner).values() {
            outbound.announce();
        }
    }

    /// [`Messaging::disconnect`] of every peer, after the TLS configuration changed: whoever is revoked now
    /// does not come back.
    pub fn renew(&self) {
        self.shared.epoch.fetch_add(1, SeqCst);
        for outbound in self.shared.outbound.read().unwrap_or_else(PoisonError::into_inner).values() {
            outbound.cut();
        }
        for slot in self.shared.inbound.read().unwrap_or_else(PoisonError::into_inner).values() {
            slot.cut();
        }
    }

    /// Every peer that messages were sent to or came from, by name.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerStatus> {
        let mut peers = BTreeMap::new();
        let blank = |name: &Name| PeerStatus { name: name.clone(), outbound: None, inbound: None };
        for (name, outbound) in self.shared.outbound.read().unwrap_or_else(PoisonError::into_inner).iter() {
            peers.entry(name.clone()).or_insert_with(|| blank(name)).outbound = Some(outbound.status());
        }
        for (name, slot) in self.shared.inbound.read().unwrap_or_else(PoisonError::into_inner).iter() {
            peers.entry(name.clone()).or_insert_with(|| blank(name)).inbound =
                slot.current().map(|inbound| inbound.status());
        }
        peers.into_values().collect()
    }

    /// One peer.
    #[must_use]
    pub fn peer(&self, name: &Name) -> PeerStatus {
        let slots = self.shared.inbound.read().unwrap_or_else(PoisonError::into_inner);
        PeerStatus {
            name: name.clone(),
            outbound: self.known(name).map(|outbound| outbound.status()),
            inbound: slots.get(name).and_then(|slot| slot.current()).map(|inbound| inbound.status()),
        }
    }

    /// The latest connections to this node that were refused, oldest first.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refused> {
        self.shared.refusals()
    }

    /// What was counted so far.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.shared.counters.read()
    }

    /// Accepted connections that have finished their handshake.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.established()
    }

    /// Changes whenever a connection is made, refused or lost, pauses or goes on; not with messages.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Takes leave of every peer and returns when nothing runs any more: at most a few seconds. What was not
    /// delivered stays in the outbox.
    pub async fn shutdown(&self) {
        self.shared.stop_tasks();
        // Nothing is ever sent: this waits for the channel to close.
        let _ = self.ended.lock().await.recv().await;
    }

    fn known(&self, peer: &Name) -> Option<Arc<Outbound>> {
        self.shared.outbound.read().unwrap_or_else(PoisonError::into_inner).get(peer).cloned()
    }

    fn outbound(&self, peer: &Name) -> Arc<Outbound> {
        if let Some(outbound) = self.known(peer) {
            return outbound;
        }
        let mut all = self.shared.outbound.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(outbound) = all.get(peer) {
            return Arc::clone(outbound);
        }
        let outbound = Arc::new(Outbound::new(peer.clone(), self.shared.settings.buffer_limit));
        all.insert(peer.clone(), Arc::clone(&outbound));
        self.shared.spawn(Arc::clone(&outbound).run(Arc::clone(&self.shared)));
        outbound
    }
}

impl Shared {
    /// The slot of a peer that is in the directory.
    pub(crate) fn slot(&self, peer: &Name) -> Arc<Slot> {
        if let Some(slot) = self.inbound.read().unwrap_or_else(PoisonError::into_inner).get(peer) {
            return Arc::clone(slot);
        }
        let mut all = self.inbound.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(peer.clone()).or_insert_with(|| Arc::new(Slot::new())))
    }
}

impl Drop for Messaging {
    fn drop(&mut self) {
        self.shared.stop_tasks();
    }
}

impl std::fmt::Debug for Messaging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Messaging").field("address", &self.address).finish_non_exhaustive()
    }
}
