//! What all connections of one node have in common.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tally_contracts::Name;
use tally_ops::connections::Places;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::error::{Cause, ConnectionError};
use crate::inbound::Slot;
use crate::messaging::Node;
use crate::metrics::Counters;
use crate::outbound::Outbound;
use crate::queues::{Acquaintance, Directory, Inbox, Outbox, QueueId, Unfit};
use crate::settings::Settings;
use crate::status::Refused;
use crate::tls::Tls;

/// Refusals kept for an operator.
const REFUSALS_KEPT: usize = 64;

/// A number for jitter.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) tls: Arc<dyn Tls>,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) inbox: Arc<dyn Inbox>,
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) acquaintance: Arc<dyn Acquaintance>,
    pub(crate) random: Random,
    pub(crate) runtime: Handle,
    pub(crate) counters: Counters,
    pub(crate) outbound: RwLock<HashMap<Name, Arc<Outbound>>>,
    pub(crate) inbound: RwLock<HashMap<Name, Arc<Slot>>>,
    pub(crate) pending: Places,
    /// Counts orders to verify peers again; a handshake begun before one does not lead to a connection.
    pub(crate) epoch: AtomicU64,
    /// Accepted connections past their handshake.
    pub(crate) established: AtomicUsize,
    pub(crate) outbox_readers: Semaphore,
    refusals: Mutex<VecDeque<Refused>>,
    /// Set when the node stops.
    pub(crate) stop: watch::Sender<bool>,
    /// Counts changes of state, never messages.
    pub(crate) changes: watch::Sender<u64>,
    /// Held by every task; the channel closes when the last one has ended.
    tasks: Mutex<Option<mpsc::Sender<()>>>,
}

impl Shared {
    pub(crate) fn new(settings: Settings, node: Node, tasks: mpsc::Sender<()>) -> Self {
        let Node { tls, directory, inbox, outbox, acquaintance, random } = node;
        Self {
            tls,
            directory,
            inbox,
            outbox,
            acquaintance,
            random,
            runtime: Handle::current(),
            counters: Counters::new(),
            outbound: RwLock::default(),
            inbound: RwLock::default(),
            pending: Places::new(settings.handshake_limit, settings.handshakes_per_address),
            epoch: AtomicU64::new(0),
            established: AtomicUsize::new(0),
            outbox_readers: Semaphore::new(settings.outbox_readers),
            refusals: Mutex::default(),
            stop: watch::Sender::new(false),
            changes: watch::Sender::new(0),
            tasks: Mutex::new(Some(tasks)),
            settings,
        }
    }

    /// Runs a task that [`Shared::stop_tasks`] waits for; nothing once the node stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let Some(alive) = lock(&self.tasks).clone() else { return };
        self.runtime.spawn(async move {
            task.await;
            drop(alive);
        });
    }

    /// Tells every task to end, and starts no more.
    pub(crate) fn stop_tasks(&self) {
        self.stop.send_replace(true);
        lock(&self.tasks).take();
    }

    /// Resolves once the node stops.
    pub(crate) async fn stopped(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// Asks the outbox on a thread that may block, a few peers at a time.
    pub(crate) async fn read_outbox<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Outbox) -> Result<T, Cause> + Send + 'static,
    ) -> Result<T, ConnectionError> {
        let _turn = self.outbox_readers.acquire().await.map_err(|_| ConnectionError::Stopping)?;
        self.counters.outbox_reads.fetch_add(1, Relaxed);
        let outbox = Arc::clone(&self.outbox);
        let answer = self.runtime.spawn_blocking(move || question(&*outbox)).await;
        // An outbox that panics is an outbox that cannot be read.
        answer.unwrap_or_else(|error| Err(error.into())).map_err(ConnectionError::Outbox)
    }

    /// Has the node judge what a peer tells of its database, on a thread that may block.
    pub(crate) async fn meet(
        &self,
        peer: &Name,
        standing: bytes::Bytes,
        queue: Option<QueueId>,
    ) -> Result<(), ConnectionError> {
        let (acquaintance, peer) = (Arc::clone(&self.acquaintance), peer.clone());
        let judged = self.runtime.spawn_blocking(move || acquaintance.meet(&peer, &standing, queue)).await;
        match judged {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Unfit::Superseded(evidence))) => Err(ConnectionError::Superseded { evidence }),
            Ok(Err(Unfit::Invalid(reason))) => Err(ConnectionError::Invalid(reason)),
            Ok(Err(Unfit::Store(cause))) => Err(ConnectionError::Outbox(cause)),
            Err(error) => Err(ConnectionError::Outbox(error.into())),
        }
    }

    pub(crate) fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Remembers a connection to this node that ended by a refusal.
    pub(crate) fn refused(&self, address: SocketAddr, peer: Option<Name>, error: ConnectionError) {
        if let Some(reason) = error.reason() {
            self.counters.refused(reason);
            if !reason.is_orderly() {
                tracing::warn!(%address, peer = peer.as_ref().map(tracing::field::display), error = %error, "connection refused");
                let mut kept = lock(&self.refusals);
                if kept.len() == REFUSALS_KEPT {
                    kept.pop_front();
                }
                kept.push_back(Refused { address, peer, error: Arc::new(error) });
            }
        }
        self.changed();
    }

    pub(crate) fn refusals(&self) -> Vec<Refused> {
        lock(&self.refusals).iter().cloned().collect()
    }

    pub(crate) fn established(&self) -> usize {
        self.established.load(Relaxed)
    }
}

/// A lock whose holders do not panic between related writes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
