//! Which flow runs when: starts, messages, timers, and the turns of flows.

mod forget;
mod hospital;
mod schedule;
mod turn;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tally_contracts::{Name, Party, Timestamp};

use crate::cell::{Cell, SessionState, Status, Waiting};
use crate::journal::{Arrival, Origin, Outcome, Saved, Start, Step, Unit};
use crate::message::Body;
use crate::service::{Host, Trouble};
use crate::{FlowError, FlowId, Message, MessageError, Registry, SessionId};

pub use hospital::{ControlError, FlowState, View};

/// Bounds on what others can make this node keep.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Flows under way.
    pub flows: usize,
    /// Bytes of a session that its flow has not read.
    pub session_bytes: usize,
    /// Messages of a session that its flow has not read.
    pub session_messages: usize,
    /// The first pause before a flow in trouble is tried again, in milliseconds; it doubles each time.
    pub first_retry_ms: u64,
    /// The longest pause, in milliseconds.
    pub longest_retry_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 250_000,
            session_bytes: 16 << 20,
            session_messages: 10_000,
            first_retry_ms: 100,
            longest_retry_ms: 60_000,
        }
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// It is the flow's, and durable with the flow's next unit.
    Taken(FlowId),
    /// It was here before, or its flow has ended: nothing to do.
    Late,
}

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// Not a message at all.
    #[error(transparent)]
    Undecodable(#[from] MessageError),
    /// A message for a session that this peer is not in.
    #[error("session {0} is not with this peer")]
    Foreign(SessionId),
    /// The flow has not read what came before, and that is as much as is kept for it.
    #[error("session {0} holds as much as a flow may leave unread")]
    Flooded(SessionId),
    /// It cannot be known now whether the message was here before: it has to come again.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// Why a flow was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The flow or its version is unknown, or there are too many flows.
    #[error(transparent)]
    Refused(#[from] FlowError),
    /// It cannot be known now whether the flow was started before.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// What became of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// The flow is new; its start is durable with its first unit.
    New,
    /// It was started before, by the same request.
    Before,
}

/// Why a flow of the journal was not taken up.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The journal of this flow is damaged.
    #[error("the journal of flow {flow} is damaged: {reason}")]
    Damaged {
        /// The flow.
        flow: FlowId,
        /// What is wrong.
        reason: String,
    },
}

/// The flows of one node.
///
/// Deterministic but for the order in which callers come: time and seeds are given, everything else is asked of the
/// [`Host`]. Any number of threads call [`Engine::next`] and [`Engine::run`]; a flow runs on one of them at a time.
pub struct Engine {
    registry: Registry,
    limits: Limits,
    me: Arc<Party>,
    host: Arc<dyn Host>,
    flows: Mutex<Flows>,
    runnable: Mutex<VecDeque<Arc<Cell>>>,
    timers: Mutex<BTreeSet<(Timestamp, FlowId)>>,
    wanting_room: Mutex<BTreeSet<FlowId>>,
    turns: AtomicUsize,
    /// The only flow that may begin, while the node takes no other work.
    only: Mutex<Option<&'static str>>,
}

#[derive(Default)]
struct Flows {
    by_id: HashMap<FlowId, Arc<Cell>>,
    sessions: HashMap<SessionId, FlowId>,
    /// Ended, and not yet durably so.
    ending: HashSet<FlowId>,
}

/// A flow's right to run, see [`Engine::next`].
pub struct Turn(Arc<Cell>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Engine {
    /// An engine without flows.
    pub fn new(registry: Registry, limits: Limits, me: Party, host: Arc<dyn Host>) -> Self {
        Self {
            registry,
            limits,
            me: Arc::new(me),
            host,
            flows: Mutex::default(),
            runnable: Mutex::default(),
            timers: Mutex::default(),
            wanting_room: Mutex::default(),
            turns: AtomicUsize::new(0),
            only: Mutex::new(None),
        }
    }

    /// What can be started.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// How many flows are under way.
    pub fn len(&self) -> usize {
        lock(&self.flows).by_id.len()
    }

    /// How many flows have not ended durably: those under way, and those whose end is about to be written.
    pub fn unfinished(&self) -> usize {
        let flows = lock(&self.flows);
        flows.by_id.len() + flows.ending.len()
    }

    /// Is no flow under way?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many turns were run.
    pub fn turns(&self) -> usize {
        self.turns.load(Ordering::Relaxed)
    }

    /// How many flows wait to be run.
    pub fn queued(&self) -> usize {
        lock(&self.runnable).len()
    }

    /// Is this flow under way, or has it ended without that being durable yet?
    pub fn holds(&self, flow: FlowId) -> bool {
        let flows = lock(&self.flows);
        flows.by_id.contains_key(&flow) || flows.ending.contains(&flow)
    }

    /// Starts a flow. Starting the same flow again changes nothing.
    ///
    /// # Errors
    /// The flow is not installed, there are too many flows, or it is not known whether it was started before.
    pub fn start(&self, start: Start) -> Result<Started, StartError> {
        self.registry.has(&start.name, start.version)?;
        if self.holds(start.flow) || self.host.is_known(start.flow)? {
            return Ok(Started::Before);
        }
        let mut flows = lock(&self.flows);
        // Another thread may have been quicker with the same request.
        if flows.by_id.contains_key(&start.flow) || flows.ending.contains(&start.flow) {
            return Ok(Started::Before);
        }
        if lock(&self.only).is_some_and(|only| *start.name != *only) {
            return Err(StartError::Refused(FlowError::Recovering));
        }
        if flows.by_id.len() >= self.limits.flows {
            return Err(StartError::Refused(FlowError::Busy { limit: self.limits.flows as u64 }));
        }
        let cell = self.cell(start);
        flows.by_id.insert(cell.id, cell.clone());
        drop(flows);
        self.schedule(&cell);
        Ok(Started::New)
    }

    /// Takes up a flow of the journal. It runs over its journal at its next turn.
    ///
    /// # Errors
    /// A damaged journal. A flow whose version is not installed is taken up and held.
    pub fn restore(&self, saved: Saved) -> Result<(), RestoreError> {
        let flow = saved.start.flow;
        let damaged = |reason: String| RestoreError::Damaged { flow, reason };
        let units = saved.steps.len() as u64;
        let mut steps = Vec::new();
        for unit in &saved.steps {
            steps.extend(Step::decode_all(unit).map_err(|error| damaged(error.to_string()))?);
        }
        let cell = self.cell(saved.start);
        let mut inbound = Vec::with_capacity(saved.arrivals.len());
        for arrival in saved.arrivals {
            let message = Message::decode(&arrival.message).map_err(|error| damaged(error.to_string()))?;
            inbound.push((message, arrival.message.len()));
        }
        {
            let mut state = cell.state();
            state.start = None;
            // The sessions that the flow opened: their messages find it even before it runs, or if it is held.
            for step in &steps {
                if let Step::Opened { peer, index } = step {
                    let id = SessionId::derive(&cell.seed, *index);
                    state.sessions.push(SessionState::new(id, &cell.me, peer.clone(), Some(*index)));
                }
            }
            state.submitted = steps.len();
            state.units = units.max(1);
            state.steps = steps;
            state.status = match saved.mark {
                crate::Mark::Running => Status::Active,
                crate::Mark::Paused => Status::Paused,
                crate::Mark::Held { reason } => Status::Held { reason },
            };
            for (message, bytes) in inbound {
                let Some(session) = state.hearing(message.session) else {
                    return Err(damaged(format!(
                        "a message of session {}, which it is not in",
                        message.session
                    )));
                };
                session.keep(message.number, message.body, message.last, bytes);
            }
        }
        let sessions: Vec<_> = cell.state().sessions.iter().map(|session| session.hears).collect();
        let mut flows = lock(&self.flows);
        flows.sessions.extend(sessions.into_iter().map(|session| (session, flow)));
        flows.by_id.insert(flow, cell.clone());
        drop(flows);
        self.schedule(&cell);
        Ok(())
    }

    /// A message of another node. What is taken is durable with the flow's next unit, whose arrivals carry the `ticket`.
    /// `seed` is for the flow that it may start.
    ///
    /// # Errors
    /// See [`DeliveryError`]. Nothing was changed.
    pub fn deliver(
        &self,
        from: &Name,
        bytes: Vec<u8>,
        ticket: u64,
        seed: [u8; 32],
        now: Timestamp,
    ) -> Result<Delivered, DeliveryError> {
        let message = Message::decode(&bytes)?;
        let arrival = Arrival { session: message.session, number: message.number, message: bytes, ticket };
        let known = {
            let flows = lock(&self.flows);
            flows.sessions.get(&message.session).and_then(|flow| flows.by_id.get(flow)).cloned()
        };
        match known {
            Some(cell) => self.append(&cell, from, message, arrival),
            None => self.answer(from, message, arrival, seed, now),
        }
    }

    /// A message for a flow that is under way.
    fn append(
        &self,
        cell: &Arc<Cell>,
        from: &Name,
        message: Message,
        arrival: Arrival,
    ) -> Result<Delivered, DeliveryError> {
        {
            let mut state = cell.state();
            if state.status == Status::Ended {
                return Ok(Delivered::Late);
            }
            let limits = &self.limits;
            let session = state.hearing(message.session).expect("its messages lead to this flow");
            if session.peer != *from {
                return Err(DeliveryError::Foreign(message.session));
            }
            if session.inbound.contains_key(&message.number) {
                return Ok(Delivered::Late);
            }
            let unread = session.inbound.range(session.read..).count();
            if session.held_bytes.saturating_add(arrival.message.len()) > limits.session_bytes
                || unread >= limits.session_messages
            {
                return Err(DeliveryError::Flooded(message.session));
            }
            session.keep(message.number, message.body, message.last, arrival.message.len());
            state.arrivals.push(arrival);
        }
        self.schedule(cell);
        Ok(Delivered::Taken(cell.id))
    }

    /// A message for no flow that is under way: it opens a session, or it is late.
    fn answer(
        &self,
        from: &Name,
        message: Message,
        arrival: Arrival,
        seed: [u8; 32],
        now: Timestamp,
    ) -> Result<Delivered, DeliveryError> {
        let Body::Open { flow: name, version, .. } = &message.body else { return Ok(Delivered::Late) };
        if message.number != 0 {
            return Ok(Delivered::Late);
        }
        let flow = FlowId::of_session(from, message.session);
        if self.holds(flow) || self.host.is_known(flow)? {
            return Ok(Delivered::Late);
        }
        let answered = self.registry.answers(name, *version);
        let start = Start {
            flow,
            name: answered
                .as_ref()
                .map_or_else(|_| name.chars().take(200).collect::<String>().into(), |name| Arc::from(*name)),
            version: *version,
            arguments: Vec::new(),
            origin: Origin::Session { peer: from.clone(), session: message.session },
            seed,
            at: now,
        };
        let mut flows = lock(&self.flows);
        let refusal = match answered {
            Err(error) => Some(error),
            Ok(name) if lock(&self.only).is_some_and(|only| only != name) => Some(FlowError::Recovering),
            Ok(_) if flows.by_id.len() >= self.limits.flows => {
                Some(FlowError::Busy { limit: self.limits.flows as u64 })
            }
            Ok(_) => None,
        };
        if let Some(error) = refusal {
            flows.ending.insert(flow);
            drop(flows);
            let own = *from == self.me.name;
            let says = if own { message.session.answering() } else { message.session };
            self.host.submit(refused(start, from, says, arrival, error));
            return Ok(Delivered::Taken(flow));
        }
        let cell = self.cell(start);
        {
            let mut state = cell.state();
            let length = arrival.message.len();
            let session = state.hearing(message.session).expect("it answers this session");
            session.keep(0, message.body, message.last, length);
            state.arrivals.push(arrival);
        }
        flows.sessions.insert(message.session, flow);
        flows.by_id.insert(flow, cell.clone());
        drop(flows);
        self.schedule(&cell);
        Ok(Delivered::Taken(flow))
    }

    fn cell(&self, start: Start) -> Arc<Cell> {
        Arc::new(Cell::new(start, self.me.clone(), self.host.clone()))
    }

    /// From now on no flow begins but this one and what answers it; `None`: every flow again. Flows under way go on.
    pub fn admit_only(&self, flow: Option<&'static str>) {
        *lock(&self.only) = flow;
    }

    /// The outcome of a flow is durable.
    pub fn forget(&self, flow: FlowId) {
        lock(&self.flows).ending.remove(&flow);
    }

    fn find(&self, flow: FlowId) -> Option<Arc<Cell>> {
        lock(&self.flows).by_id.get(&flow).cloned()
    }
}

impl Drop for Engine {
    /// The code of a flow holds its context, and that the code: without this neither would ever go, nor the host.
    fn drop(&mut self) {
        for cell in lock(&self.flows).by_id.values() {
            *lock(&cell.running) = None;
        }
    }
}

/// A flow that never ran: nothing here answers it. Recorded, so that the same message is refused once.
fn refused(start: Start, peer: &Name, says: SessionId, arrival: Arrival, error: FlowError) -> Unit {
    let message = Message { session: says, number: 0, last: true, body: Body::Failed(error.clone()) };
    Unit {
        flow: start.flow,
        number: 0,
        start: Some(start),
        arrivals: vec![arrival],
        steps: Vec::new(),
        sends: vec![(peer.clone(), message)],
        writes: Vec::new(),
        outcome: Some(Outcome::Err(error)),
        mark: None,
    }
}

impl Waiting {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Message(peer) => format!("a message from {peer}"),
            Self::Time(at) => format!("the time {} ms", at.as_millis()),
            Self::Room(peer) => format!("room in the queue to {peer}"),
        }
    }
}
