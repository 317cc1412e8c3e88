//! One session: what both its tasks and the host's threads share. The tasks are in [`run`].

mod run;

pub(crate) use run::part;

use crate::config::Timing;
use crate::event::{DisconnectReason, EventQueue};
use crate::flow::Flow;
use crate::frame::{Control, Form, Unanswered};
use crate::handshake::{Hello, Role};
use crate::key::NodeId;
use crate::kind::{Kinds, Lane, Rule};
use crate::outbox::{Outbox, Outgoing};
use crate::send::{RequestError, SendError};
use alloy_primitives::Address;
use bytes::Bytes;
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

type Answer = oneshot::Sender<Result<Bytes, RequestError>>;

/// What a session needs to know of the network around it.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) kinds: Kinds,
    pub(crate) timing: Timing,
    pub(crate) window: u32,
    pub(crate) most_urgent: u64,
    pub(crate) most_bulk: u64,
    pub(crate) most_requests: u32,
    pub(crate) events: Arc<EventQueue>,
}

/// One session.
pub(crate) struct Session {
    pub(crate) connection: u64,
    pub(crate) peer: Address,
    pub(crate) id: NodeId,
    pub(crate) role: Role,
    pub(crate) hello: Hello,
    pub(crate) remote: SocketAddr,
    pub(crate) since: Instant,
    pub(crate) traffic: Traffic,
    around: Surroundings,
    outbox: Mutex<Outbox>,
    /// Something was put into the outbox, or credit may be given.
    wake: Notify,
    flow: Mutex<Flow>,
    /// Bytes of urgent messages that wait for the host.
    urgent_waiting: AtomicU64,
    urgent_taken: Notify,
    requests: Mutex<Requests>,
    answering: AtomicU32,
    end: Mutex<Option<DisconnectReason>>,
    ended: Notify,
    probe: Notify,
    /// Microseconds; 0 when there is no measurement yet.
    round_trip: AtomicU64,
}

/// What has gone through a session, without the overhead of TLS.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) messages_in: AtomicU64,
    pub(crate) messages_out: AtomicU64,
}

#[derive(Default)]
struct Requests {
    next: u64,
    open: HashMap<u64, (u8, Answer)>,
    closed: bool,
}

impl Session {
    pub(crate) fn new(
        connection: u64,
        role: Role,
        hello: Hello,
        remote: SocketAddr,
        around: Surroundings,
    ) -> Self {
        Self {
            connection,
            peer: hello.id.address(),
            id: hello.id,
            role,
            remote,
            since: Instant::now(),
            traffic: Traffic::default(),
            outbox: Mutex::new(Outbox::new(around.most_urgent, around.most_bulk, hello.window)),
            wake: Notify::new(),
            flow: Mutex::new(Flow::new(around.window)),
            urgent_waiting: AtomicU64::new(0),
            urgent_taken: Notify::new(),
            requests: Mutex::default(),
            answering: AtomicU32::new(0),
            end: Mutex::new(None),
            ended: Notify::new(),
            probe: Notify::new(),
            round_trip: AtomicU64::new(0),
            hello,
            around,
        }
    }

    /// Sends a message that has no answer.
    pub(crate) fn send(&self, kind: u8, payload: Bytes) -> Result<(), SendError> {
        match self.around.kinds.rule(kind) {
            Some(Rule::Message { lane, longest, .. }) => {
                self.push(*lane, *longest, Outgoing { form: Form::Message, kind, payload })
            }
            _ => Err(SendError::Kind { kind }),
        }
    }

    /// Sends a request; its number and where the answer comes.
    pub(crate) fn request(
        &self,
        kind: u8,
        payload: Bytes,
    ) -> Result<(u64, oneshot::Receiver<Result<Bytes, RequestError>>), SendError> {
        let Some(Rule::Request { lane, longest, .. }) = self.around.kinds.rule(kind) else {
            return Err(SendError::Kind { kind });
        };
        let (sender, receiver) = oneshot::channel();
        let number = {
            let mut requests = lock(&self.requests);
            if requests.closed {
                return Err(SendError::NotConnected { peer: self.peer });
            }
            let number = requests.next;
            requests.next = number.wrapping_add(1);
            requests.open.insert(number, (kind, sender));
            number
        };
        let message = Outgoing { form: Form::Request(number), kind, payload };
        if let Err(error) = self.push(*lane, *longest, message) {
            self.forget(number);
            return Err(error);
        }
        Ok((number, receiver))
    }

    /// Answers a request of the peer's.
    pub(crate) fn respond(&self, number: u64, kind: u8, payload: Bytes) -> Result<(), SendError> {
        match self.around.kinds.rule(kind) {
            Some(Rule::Request { lane, longest_response, .. }) => {
                let message = Outgoing { form: Form::Response(number), kind, payload };
                self.push(*lane, *longest_response, message)
            }
            _ => Err(SendError::Kind { kind }),
        }
    }

    fn push(&self, lane: Lane, longest: u32, message: Outgoing) -> Result<(), SendError> {
        let found = message.payload.len();
        if found > longest as usize {
            return Err(SendError::Long { kind: message.kind, longest, found });
        }
        if lock(&self.end).is_some() {
            return Err(SendError::NotConnected { peer: self.peer });
        }
        let pushed = lock(&self.outbox).push(lane, message);
        match (pushed, lane) {
            (Ok(()), _) => {
                self.wake.notify_one();
                Ok(())
            }
            (Err(_), Lane::Bulk) => Err(SendError::Full { peer: self.peer }),
            (Err(_), Lane::Urgent) => {
                self.end(DisconnectReason::Slow);
                Err(SendError::Slow { peer: self.peer })
            }
        }
    }

    fn control(&self, control: Control) {
        if lock(&self.outbox).push_control(control).is_err() {
            self.end(DisconnectReason::Flood);
        }
        self.wake.notify_one();
    }

    /// The answer to a request is no longer waited for.
    pub(crate) fn forget(&self, number: u64) {
        lock(&self.requests).open.remove(&number);
    }

    /// A request of the peer's has been dealt with; without an answer when there is a reason.
    pub(crate) fn answered(&self, without: Option<(u64, Unanswered)>) {
        self.answering.fetch_sub(1, Ordering::Relaxed);
        if let Some((number, why)) = without {
            self.control(Control::Unanswered(number, why));
        }
    }

    /// The host has taken a message that counted for so many bytes.
    pub(crate) fn taken(&self, lane: Lane, cost: u64) {
        match lane {
            Lane::Urgent => {
                self.urgent_waiting.fetch_sub(cost, Ordering::AcqRel);
                self.urgent_taken.notify_one();
            }
            Lane::Bulk => {
                let due = {
                    let mut flow = lock(&self.flow);
                    flow.taken(cost);
                    flow.is_due()
                };
                if due {
                    self.wake.notify_one();
                }
            }
        }
    }

    /// Ends the session; the first reason counts.
    pub(crate) fn end(&self, reason: DisconnectReason) {
        let mut end = lock(&self.end);
        if end.is_none() {
            *end = Some(reason);
            drop(end);
            self.ended.notify_one();
            let mut requests = lock(&self.requests);
            requests.closed = true;
            for (_, (_, answer)) in requests.open.drain() {
                // Whoever asked may have stopped waiting.
                drop(answer.send(Err(RequestError::Disconnected)));
            }
        }
    }

    /// Sees at once whether the peer is still there.
    pub(crate) fn probe(&self) {
        self.probe.notify_one();
    }

    /// The smoothed time of a ping and its answer.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        Some(self.round_trip.load(Ordering::Relaxed)).filter(|us| *us > 0).map(Duration::from_micros)
    }

    /// Bytes that wait to be sent, urgent and bulk.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        lock(&self.outbox).waiting()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("peer", &self.peer)
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
