//! The way to one peer: one task that connects, delivers, and connects again.

mod connect;
mod conversation;
mod queue;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tally_contracts::Name;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::error::ConnectionError;
use crate::shared::{Shared, lock};
use crate::status::{Link, OutboundStatus};

use queue::Queue;

/// The way to one peer.
pub(crate) struct Outbound {
    name: Name,
    queue: Mutex<Queue>,
    /// News for the writer, or for the task that waits for a reason to connect.
    wake: Notify,
    /// Ends a wait between attempts.
    retry: Notify,
    /// Counts orders to end the present connection.
    cut: watch::Sender<u64>,
    link: Mutex<(Link, Option<Arc<ConnectionError>>)>,
    connections: AtomicU64,
    /// The peer is to be told this node's standing.
    announces: AtomicBool,
}

impl Outbound {
    pub(crate) fn new(name: Name, buffer_limit: usize) -> Self {
        Self {
            name,
            queue: Mutex::new(Queue::new(buffer_limit)),
            wake: Notify::new(),
            retry: Notify::new(),
            cut: watch::Sender::new(0),
            link: Mutex::new((Link::Idle, None)),
            connections: AtomicU64::new(0),
            announces: AtomicBool::new(false),
        }
    }

    /// Takes note of a message without waking anyone; returns whether memory holds it.
    pub(crate) fn push(&self, number: u64, bytes: Bytes) -> bool {
        lock(&self.queue).push(number, bytes)
    }

    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn ask(&self) {
        lock(&self.queue).ask();
        self.wake.notify_one();
    }

    pub(crate) fn nudge(&self) {
        self.retry.notify_one();
    }

    /// Ends the present connection; what is sent after this call does not travel over it.
    pub(crate) fn cut(&self) {
        lock(&self.queue).cut();
        self.cut.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The queue begins anew; what the present connection takes after this call does not travel.
    pub(crate) fn reset(&self) {
        lock(&self.queue).reset();
        self.cut.send_modify(|count| *count = count.wrapping_add(1));
        self.wake.notify_one();
    }

    /// Has the present connection tell the standing of this node.
    pub(crate) fn announce(&self) {
        self.announces.store(true, Relaxed);
        self.wake.notify_one();
    }

    pub(crate) fn status(&self) -> OutboundStatus {
        let (link, problem) = lock(&self.link).clone();
        let queue = lock(&self.queue);
        OutboundStatus {
            link,
            announced: queue.announced(),
            acknowledged: queue.acknowledged(),
            buffered_messages: queue.len(),
            buffered_bytes: queue.bytes(),
            reconnections: self.connections.load(Relaxed).saturating_sub(1),
            problem,
        }
    }

    fn set(&self, shared: &Shared, link: Link) {
        lock(&self.link).0 = link;
        shared.changed();
    }

    /// Delivers until the node stops.
    pub(crate) async fn run(self: Arc<Self>, shared: Arc<Shared>) {
        let mut backoff = Backoff::new(shared.settings.retry_floor, shared.settings.retry_ceiling);
        loop {
            let wanted = async {
                while !lock(&self.queue).wants_connection() {
                    self.wake.notified().await;
                }
            };
            tokio::select! {
                () = shared.stopped() => return,
                () = wanted => {}
            }
            let end = self.attempt(&shared, &mut backoff).await;
            if let Some(reason) = end.reason() {
                shared.counters.refused(reason);
            }
            if matches!(end, ConnectionError::Stopping) {
                self.set(&shared, Link::Idle);
                return;
            }
            // Ends that this side wanted. Those that the peer wants wait like a failure, so that no peer can keep
            // this node busy with handshakes.
            if matches!(end, ConnectionError::Idle | ConnectionError::Renewed) {
                self.set(&shared, Link::Idle);
                continue;
            }
            tracing::info!(peer = %self.name, error = %end, "connection to peer ended");
            let wait = backoff.next((shared.random)());
            self.fail(&shared, end, wait);
            tokio::select! {
                () = shared.stopped() => return,
                () = self.retry.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn fail(&self, shared: &Shared, end: ConnectionError, wait: Duration) {
        lock(&self.queue).release();
        *lock(&self.link) = (Link::Waiting(wait), Some(Arc::new(end)));
        shared.changed();
    }

    /// One connection from the first packet to its end.
    async fn attempt(&self, shared: &Shared, backoff: &mut Backoff) -> ConnectionError {
        self.set(shared, Link::Connecting);
        // Before the TLS configuration is asked for, so that a change of it is not missed.
        let (mut cut, epoch) = (self.cut.subscribe(), lock(&self.queue).epoch());
        let established = tokio::select! {
            () = shared.stopped() => return ConnectionError::Stopping,
            _ = cut.changed() => return ConnectionError::Renewed,
            established = connect::establish(&self.name, shared) => established,
        };
        let conversation = match established {
            Ok(conversation) => conversation,
            Err(error) => {
                shared.counters.attempts_failed.fetch_add(1, Relaxed);
                return error;
            }
        };
        // Before the outbox is asked, so that no message falls between its answer and memory.
        lock(&self.queue).hold();
        let agreed = tokio::select! {
            () = shared.stopped() => return ConnectionError::Stopping,
            _ = cut.changed() => return ConnectionError::Renewed,
            agreed = connect::agree(&self.name, shared, conversation) => agreed,
        };
        let agreed = match agreed {
            Ok(agreed) => agreed,
            Err(error) => {
                shared.counters.attempts_failed.fetch_add(1, Relaxed);
                return error;
            }
        };
        shared.counters.connections_made.fetch_add(1, Relaxed);
        if self.connections.fetch_add(1, Relaxed) > 0 {
            shared.counters.reconnections.fetch_add(1, Relaxed);
        }
        let before = {
            let mut queue = lock(&self.queue);
            if queue.epoch() == epoch {
                queue.connected(agreed.last, agreed.welcome.durable);
            }
            queue.acknowledged()
        };
        self.announces.store(false, Relaxed);
        *lock(&self.link) = (Link::Connected, None);
        shared.changed();
        let begin = Instant::now();
        let end = self.converse(shared, agreed, cut, epoch).await;
        // A connection that brought nothing forward is a failed attempt, or a queue that cannot go on would be
        // tried again at the shortest interval for ever.
        let progress = lock(&self.queue).acknowledged() > before;
        if progress || begin.elapsed() >= shared.settings.retry_ceiling {
            backoff.reset();
        }
        end
    }
}
