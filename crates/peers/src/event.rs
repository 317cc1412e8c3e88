//! What the host is told, and the queue in which it waits for the host.

use crate::frame::FrameFault;
use crate::frame::{Goodbye, START_COST, Unanswered};
use crate::handshake::Role;
use crate::key::NodeId;
use crate::kind::Lane;
use crate::send::SendError;
use crate::session::Session;
use alloy_primitives::Address;
use bytes::Bytes;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections and disconnections that wait at most before no further peer is let in.
const CROWDED: usize = 4096;

/// What happened. A peer is named by its address, which is also that of its validator.
#[derive(Debug)]
pub enum Event {
    /// There is a session with a peer. It comes before anything else from that session.
    Connected {
        /// The peer.
        peer: Address,
        /// Its key.
        id: NodeId,
        /// Who opened the connection.
        role: Role,
    },
    /// The session with a peer has ended. Messages that came before the end may still follow.
    Disconnected {
        /// The peer.
        peer: Address,
        /// Why.
        reason: DisconnectReason,
    },
    /// A message came.
    Message {
        /// From whom.
        peer: Address,
        /// Its kind.
        kind: u8,
        /// Its contents.
        payload: Bytes,
    },
    /// A request came.
    Request {
        /// From whom.
        peer: Address,
        /// Its kind.
        kind: u8,
        /// Its contents.
        payload: Bytes,
        /// Where the answer goes.
        respond: Responder,
    },
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DisconnectReason {
    /// The peer closed the connection without a word.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer said why it closed.
    #[error("the peer closed the session: {0}")]
    Said(Goodbye),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// Nothing came for too long.
    #[error("nothing came from the peer for too long")]
    Silent,
    /// The peer took in what was sent too slowly.
    #[error("the peer takes in urgent messages too slowly")]
    Slow,
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Violation(FrameFault),
    /// The peer asks for more than it reads.
    #[error("the peer asks without reading the answers")]
    Flood,
    /// The host reported the peer, and its points are used up.
    #[error("the peer misbehaved")]
    Misbehaved,
    /// The rules have changed.
    #[error("the peer is no longer permitted")]
    NotPermitted,
    /// The peer was removed by the operator.
    #[error("the peer was removed")]
    Removed,
    /// The peer opened another session.
    #[error("the peer opened another session")]
    Replaced,
    /// There was no room when the handshake was over.
    #[error("there are as many peers as may be")]
    TooManyPeers,
    /// This node stops.
    #[error("this node is stopping")]
    Stopping,
}

impl DisconnectReason {
    /// What to tell the peer.
    pub(crate) const fn goodbye(&self) -> Option<Goodbye> {
        match self {
            Self::Closed | Self::Said(_) | Self::Broken(_) | Self::Silent => None,
            Self::Slow => Some(Goodbye::Slow),
            Self::Violation(_) | Self::Flood => Some(Goodbye::Violation),
            Self::Misbehaved => Some(Goodbye::Misbehaved),
            Self::NotPermitted => Some(Goodbye::NotPermitted),
            Self::Removed => Some(Goodbye::Removed),
            Self::Replaced => Some(Goodbye::Replaced),
            Self::TooManyPeers => Some(Goodbye::TooManyPeers),
            Self::Stopping => Some(Goodbye::Stopping),
        }
    }
}

/// Where the answer to a request goes. When it is dropped, the peer is told that there is none.
pub struct Responder {
    session: Arc<Session>,
    number: u64,
    kind: u8,
    answered: bool,
}

impl Responder {
    pub(crate) const fn new(session: Arc<Session>, number: u64, kind: u8) -> Self {
        Self { session, number, kind, answered: false }
    }

    /// Answers. May be called from any thread.
    ///
    /// # Errors
    /// [`SendError`]; the peer is then told that it gets no answer, if it is still there.
    pub fn send(mut self, payload: Bytes) -> Result<(), SendError> {
        self.session.respond(self.number, self.kind, payload)?;
        self.answered = true;
        Ok(())
    }

    /// Tells the peer that it gets no answer.
    pub fn refuse(self) {}
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.session.answered(if self.answered { None } else { Some((self.number, Unanswered::Refused)) });
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The host's end of the queue: connections first, then urgent messages, then bulk, each in the order
/// in which they came.
///
/// What waits is bounded for each peer: a peer whose bulk is not taken gets no credit for more, and one
/// whose urgent messages are not taken is not read from.
#[derive(Debug)]
pub struct Events {
    pub(crate) queue: Arc<EventQueue>,
}

/// No event came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoEvent {
    /// Not in this time.
    #[error("nothing happened in that time")]
    Timeout,
    /// And none will: the network has stopped.
    #[error("the network has stopped")]
    Stopped,
}

impl Events {
    /// Waits for the next event; nothing when the network has stopped and all has been told.
    pub fn recv(&self) -> Option<Event> {
        let mut state = self.queue.lock();
        loop {
            if let Some(entry) = state.pop() {
                drop(state);
                return Some(entry.taken());
            }
            if state.closed {
                return None;
            }
            state = self.queue.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits so long for the next event.
    ///
    /// # Errors
    /// [`NoEvent`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Event, NoEvent> {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.queue.lock();
        loop {
            if let Some(entry) = state.pop() {
                drop(state);
                return Ok(entry.taken());
            }
            if state.closed {
                return Err(NoEvent::Stopped);
            }
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(NoEvent::Timeout);
            }
            // A year is for ever, and the library adds it to the clock.
            let left = left.min(Duration::from_secs(31_536_000));
            state = self.queue.ready.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next event if it is there.
    ///
    /// # Errors
    /// [`NoEvent`].
    pub fn try_recv(&self) -> Result<Event, NoEvent> {
        let mut state = self.queue.lock();
        let entry = state.pop();
        let closed = state.closed;
        drop(state);
        match entry {
            Some(entry) => Ok(entry.taken()),
            None if closed => Err(NoEvent::Stopped),
            None => Err(NoEvent::Timeout),
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // What waits would keep its sessions, and they the queue.
        self.queue.abandon();
    }
}

/// Called when an event waits that did not before.
pub type Waker = Box<dyn Fn() + Send + Sync>;

/// The queue itself.
pub(crate) struct EventQueue {
    state: Mutex<State>,
    ready: Condvar,
    waker: Option<Waker>,
}

#[derive(Default)]
struct State {
    sessions: VecDeque<Entry>,
    urgent: VecDeque<Entry>,
    bulk: VecDeque<Entry>,
    closed: bool,
    abandoned: bool,
}

struct Entry {
    event: Event,
    /// Whose bound it counts against, and for how much.
    from: Option<(Arc<Session>, Lane, u64)>,
}

impl Entry {
    fn taken(self) -> Event {
        if let Some((session, lane, cost)) = self.from {
            session.taken(lane, cost);
        }
        self.event
    }
}

impl State {
    fn pop(&mut self) -> Option<Entry> {
        self.sessions.pop_front().or_else(|| self.urgent.pop_front()).or_else(|| self.bulk.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.urgent.is_empty() && self.bulk.is_empty()
    }
}

impl EventQueue {
    pub(crate) fn new(waker: Option<Waker>) -> Self {
        Self { state: Mutex::default(), ready: Condvar::new(), waker }
    }

    /// Adds that a session began or ended.
    pub(crate) fn push(&self, event: Event) {
        self.add(|state| state.sessions.push_back(Entry { event, from: None }));
    }

    /// Adds what came from a session.
    pub(crate) fn push_from(&self, event: Event, session: Arc<Session>, lane: Lane, cost: u64) {
        let entry = Entry { event, from: Some((session, lane, cost)) };
        self.add(|state| match lane {
            Lane::Urgent => state.urgent.push_back(entry),
            Lane::Bulk => state.bulk.push_back(entry),
        });
    }

    /// Nobody takes events any more.
    fn abandon(&self) {
        let mut state = self.lock();
        let waiting = std::mem::take(&mut *state);
        state.abandoned = true;
        drop(state);
        drop(waiting);
    }

    fn add(&self, push: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        if state.abandoned {
            return;
        }
        let was_empty = state.is_empty();
        push(&mut state);
        drop(state);
        if was_empty {
            self.ready.notify_one();
            self.wake();
        }
    }

    /// Whether the host does not even take note of who comes and goes.
    pub(crate) fn is_crowded(&self) -> bool {
        self.lock().sessions.len() >= CROWDED
    }

    /// No more events.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_all();
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventQueue").finish_non_exhaustive()
    }
}

/// What a message counts for while it waits.
pub(crate) fn cost(payload: &Bytes) -> u64 {
    payload.len() as u64 + START_COST
}
