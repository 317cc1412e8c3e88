//! Subscriptions: what a WebSocket is told without asking again (`eth_subscribe`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::error::RpcError;
use crate::params::Params;

/// What takes subscriptions on.
pub trait Subscriptions: Send + Sync {
    /// Reads the parameters of `eth_subscribe` and keeps the sink for as long as it is open.
    ///
    /// # Errors
    /// When the parameters name nothing that can be subscribed to.
    fn subscribe(&self, params: Params<'_>, sink: Sink) -> Result<(), RpcError>;
}

/// Where the notifications of one subscription go. Clones share it.
#[derive(Debug, Clone)]
pub struct Sink {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: u64,
    outbox: Arc<Outbox>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// The client has not been told the identifier yet; what is sent waits for that.
    Held(Vec<Bytes>),
    Open,
    Closed,
}

/// The subscription has ended, by the client or with its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the subscription has ended")]
pub struct Ended;

impl Sink {
    pub(super) fn new(id: u64, outbox: Arc<Outbox>) -> Self {
        Self { shared: Arc::new(Shared { id, outbox, state: Mutex::new(State::Held(Vec::new())) }) }
    }

    /// A sink of which the client has been told, and what was sent to it since.
    #[cfg(test)]
    pub(crate) fn alone() -> (Self, impl Fn() -> Vec<serde_json::Value>) {
        let outbox = Arc::new(Outbox::new(1 << 20));
        let sink = Self::new(1, Arc::clone(&outbox));
        sink.open();
        let sent = move || outbox.take().iter().map(|text| serde_json::from_slice(text).unwrap()).collect();
        (sink, sent)
    }

    /// Sends one notification; `result` is its result as JSON text.
    ///
    /// # Errors
    /// [`Ended`]: drop the sink.
    pub fn send(&self, result: &[u8]) -> Result<(), Ended> {
        let mut state = self.lock();
        if matches!(*state, State::Closed) || self.shared.outbox.closed() {
            return Err(Ended);
        }
        let mut text = Vec::with_capacity(result.len() + 100);
        text.extend_from_slice(
            b"{\"jsonrpc\":\"2.0\",\"method\":\"eth_subscription\",\"params\":{\"subscription\":",
        );
        crate::write::quantity(&mut text, self.shared.id);
        text.extend_from_slice(b",\"result\":");
        text.extend_from_slice(result);
        text.extend_from_slice(b"}}");
        if let State::Held(held) = &mut *state {
            held.push(text.into());
            return Ok(());
        }
        // In the lock still, so that notifications keep their order.
        if self.shared.outbox.push(text.into()) { Ok(()) } else { Err(Ended) }
    }

    /// Whether nobody listens anymore.
    #[must_use]
    pub fn ended(&self) -> bool {
        matches!(*self.lock(), State::Closed) || self.shared.outbox.closed()
    }

    pub(super) fn id(&self) -> u64 {
        self.shared.id
    }

    /// Lets go of what was held back, once the client has been told the identifier.
    pub(super) fn open(&self) {
        let mut state = self.lock();
        if let State::Held(held) = std::mem::replace(&mut *state, State::Open) {
            for text in held {
                self.shared.outbox.push(text);
            }
        }
    }

    pub(super) fn close(&self) {
        *self.lock() = State::Closed;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Messages that wait to be written to one WebSocket, bounded in bytes.
#[derive(Debug)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    pub(super) ready: Notify,
    ended: Notify,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Bytes>,
    bytes: usize,
    overflown: bool,
    closed: bool,
}

impl Outbox {
    pub(super) fn new(capacity: usize) -> Self {
        Self { waiting: Mutex::default(), ready: Notify::new(), ended: Notify::new(), capacity }
    }

    /// Adds a message. When more than the capacity waits already, the reader is too slow: the outbox closes.
    pub(super) fn push(&self, message: Bytes) -> bool {
        let mut waiting = self.lock();
        if waiting.closed {
            return false;
        }
        if waiting.bytes > self.capacity {
            waiting.overflown = true;
            waiting.closed = true;
            waiting.messages.clear();
            waiting.bytes = 0;
        } else {
            waiting.bytes += message.len();
            waiting.messages.push_back(message);
        }
        let taken = !waiting.closed;
        drop(waiting);
        self.ready.notify_one();
        if !taken {
            self.ended.notify_waiters();
        }
        taken
    }

    /// Takes all that waits; the bytes count until [`Outbox::written`].
    pub(super) fn take(&self) -> VecDeque<Bytes> {
        std::mem::take(&mut self.lock().messages)
    }

    /// Says that these bytes are gone.
    pub(super) fn written(&self, bytes: usize) {
        let mut waiting = self.lock();
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
        self.ended.notify_waiters();
    }

    /// Ends when the outbox is closed.
    pub(super) async fn gone(&self) {
        let mut ended = std::pin::pin!(self.ended.notified());
        ended.as_mut().enable();
        if !self.closed() {
            ended.await;
        }
    }

    pub(super) fn closed(&self) -> bool {
        self.lock().closed
    }

    pub(super) fn overflown(&self) -> bool {
        self.lock().overflown
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
