//! The one place for a connection from a peer.

use std::net::SocketAddr;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard, watch};

use crate::error::ConnectionError;
use crate::queues::QueueId;
use crate::shared::{Shared, lock};
use crate::status::InboundStatus;

/// The place for a connection from one peer. A newer connection takes it over: the older may be a dead one of
/// which this side does not know yet.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Held by the connection that delivers to the inbox, so that two never do at the same time.
    hold: Arc<AsyncMutex<()>>,
    /// The newest claim.
    turn: watch::Sender<u64>,
    current: Mutex<Option<Arc<Inbound>>>,
}

/// The connection in the slot, as others see it.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) address: SocketAddr,
    pub(crate) queue: QueueId,
    pub(crate) accepted: AtomicU64,
    /// What may be acknowledged.
    pub(crate) durable: AtomicU64,
    /// What has been.
    pub(crate) told: AtomicU64,
    pub(crate) paused: AtomicBool,
    /// News for the writer.
    pub(crate) wake: Notify,
    /// The inbox may have room.
    pub(crate) room: Notify,
}

/// The right to deliver, given back when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    slot: Arc<Slot>,
    shared: Arc<Shared>,
    _hold: OwnedMutexGuard<()>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Sees when a newer connection wants the slot.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    mine: u64,
    newest: watch::Receiver<u64>,
}

impl Turn {
    /// Whether it is still this connection's turn.
    pub(crate) fn is_mine(&self) -> bool {
        *self.newest.borrow() == self.mine
    }

    pub(crate) async fn over(&mut self) {
        // The sender lives in the slot, which this connection holds.
        let mine = self.mine;
        let _ = self.newest.wait_for(|newest| *newest != mine).await;
    }
}

impl Slot {
    pub(crate) fn new() -> Self {
        Self { hold: Arc::default(), turn: watch::Sender::new(0), current: Mutex::default() }
    }

    /// Asks the present connection to end and waits until it has delivered its last message. `epoch` is that in
    /// which the peer was verified.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        epoch: u64,
    ) -> Result<(Claim, Turn), ConnectionError> {
        let mut mine = 0;
        self.turn.send_modify(|turn| {
            *turn = turn.wrapping_add(1);
            mine = *turn;
        });
        let newest = self.turn.subscribe();
        let hold = Arc::clone(&self.hold).lock_owned().await;
        if *newest.borrow() != mine {
            return Err(ConnectionError::Replaced);
        }
        // An order to verify peers again counts the epoch first and then every slot's turn: whichever of the two
        // came before this claim is seen here, or by the claim's turn.
        if shared.epoch.load(SeqCst) != epoch {
            return Err(ConnectionError::Renewed);
        }
        let limit = shared.settings.connection_limit;
        let room = |count: usize| (count < limit).then_some(count + 1);
        shared
            .established
            .fetch_update(Relaxed, Relaxed, room)
            .map_err(|_| ConnectionError::TooManyConnections(limit))?;
        let claim = Claim { slot: Arc::clone(self), shared: Arc::clone(shared), _hold: hold };
        Ok((claim, Turn { mine, newest }))
    }

    /// Ends the present connection.
    pub(crate) fn cut(&self) {
        self.turn.send_modify(|turn| *turn = turn.wrapping_add(1));
    }

    pub(crate) fn current(&self) -> Option<Arc<Inbound>> {
        lock(&self.current).clone()
    }
}

impl Claim {
    pub(crate) fn occupy(&self, inbound: &Arc<Inbound>) {
        *lock(&self.slot.current) = Some(Arc::clone(inbound));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.slot.current).take();
        self.shared.established.fetch_sub(1, Relaxed);
        self.shared.changed();
    }
}

impl Inbound {
    pub(crate) fn status(&self) -> InboundStatus {
        InboundStatus {
            address: self.address,
            queue: self.queue,
            accepted: self.accepted.load(Relaxed),
            acknowledged: self.told.load(Relaxed),
            paused: self.paused.load(Relaxed),
        }
    }

    /// The inbox has made messages up to this number durable.
    pub(crate) fn acknowledge(&self, up_to: u64) {
        if self.durable.fetch_max(up_to, Relaxed) < up_to {
            self.wake.notify_one();
        }
    }
}
