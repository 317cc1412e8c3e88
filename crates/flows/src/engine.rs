//! Which flow runs when: starts, messages, timers, and the turns of flows.

mod drain;
mod forget;
mod hospital;
mod schedule;
pub(crate) mod shares;
mod starts;
mod turn;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tally_contracts::{Name, NetworkId, Timestamp};

use crate::bearer::Bearer;
use crate::cell::{Cell, SessionState, State, Status, Waiting};
use crate::journal::{Arrival, Origin, Outcome, Saved, Start, Step, Unit};
use crate::message::Body;
use crate::service::{Host, Trouble};
use crate::{FlowError, FlowId, Message, MessageError, Registry, SessionId};
use shares::Shares;

pub use drain::Drain;
use drain::Draining;
pub use hospital::{ControlError, FlowState, View};
use starts::Asked;
pub use starts::Begun;

/// Bounds on what others can make this node keep.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Flows under way.
    pub flows: usize,
    /// Flows under way that peers started, all peers together: the rest of `flows` is for the node's own users.
    pub peers_flows: usize,
    /// Flows under way that one peer started. A peer opens a session by starting a flow, so that this limits the
    /// sessions that it opened as well.
    pub peer_flows: usize,
    /// Bytes of one peer's messages that are kept for flows under way, in all sessions together, with what flows remember
    /// of messages that they have digested (see [`Session::receive_kept`](crate::Session::receive_kept)).
    pub peer_bytes: usize,
    /// Bytes of a session that are kept for its flow.
    pub session_bytes: usize,
    /// Messages of a session that its flow has not read.
    pub session_messages: usize,
    /// How long nothing may be heard of the peer that started a flow before the flow ends, in milliseconds. A flow
    /// that a user of this node started waits for as long as it has to.
    pub silence_ms: u64,
    /// The first pause before a flow in trouble is tried again, in milliseconds; it doubles each time.
    pub first_retry_ms: u64,
    /// The longest pause, in milliseconds.
    pub longest_retry_ms: u64,
}

impl Limits {
    /// At most `flows` under way, three quarters of them for peers.
    #[must_use]
    pub fn with_flows(self, flows: usize) -> Self {
        let peers_flows = flows.saturating_mul(3).div_ceil(4);
        Self { flows, peers_flows, peer_flows: self.peer_flows.min(peers_flows), ..self }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 250_000,
            peers_flows: 187_500,
            peer_flows: 10_000,
            peer_bytes: 64 << 20,
            session_bytes: 16 << 20,
            session_messages: 10_000,
            silence_ms: 24 * 60 * 60 * 1000,
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
    /// The node begins nothing new, see [`Engine::drain`].
    #[error("the node is being drained and begins no new flows; ask again later with the same request id")]
    Draining,
    /// The node takes no new work until what bars it is over.
    #[error("the node begins no new flows: {0}")]
    Barred(String),
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
    me: Arc<Bearer>,
    network: NetworkId,
    host: Arc<dyn Host>,
    flows: Mutex<Flows>,
    runnable: Mutex<VecDeque<Arc<Cell>>>,
    timers: Mutex<BTreeSet<(Timestamp, FlowId)>>,
    wanting_room: Mutex<BTreeSet<FlowId>>,
    /// When flows that peers started end unless the peer is heard of. Apart from `timers`: it is nothing to do.
    silences: Mutex<BTreeSet<(Timestamp, FlowId)>>,
    /// Locked last, after the state of a flow and after `flows`.
    shares: Mutex<Shares>,
    turns: AtomicUsize,
    /// The only flow that may begin, while the node takes no other work.
    only: Mutex<Option<&'static str>>,
}

#[derive(Default)]
struct Flows {
    by_id: HashMap<FlowId, Arc<Cell>>,
    sessions: HashMap<SessionId, FlowId>,
    /// Ended, and not yet durably so; without a cell those that never ran.
    ending: HashMap<FlowId, Option<Arc<Cell>>>,
    /// Those of which the host is being asked whether it knows them.
    asked: HashMap<FlowId, Asked>,
    draining: Draining,
}

/// A flow's right to run, see [`Engine::next`].
pub struct Turn(Arc<Cell>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Engine {
    /// An engine without flows, for the node `me` of `network`. Each flow has the key that the node had when the flow
    /// began, and acts for all its keys.
    pub fn new(
        registry: Registry,
        limits: Limits,
        me: impl Into<Bearer>,
        network: NetworkId,
        host: Arc<dyn Host>,
    ) -> Self {
        Self {
            registry,
            limits,
            me: Arc::new(me.into()),
            network,
            host,
            flows: Mutex::default(),
            runnable: Mutex::default(),
            timers: Mutex::default(),
            wanting_room: Mutex::default(),
            silences: Mutex::default(),
            shares: Mutex::default(),
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

    /// What a peer uses of this node: flows under way that it started, and bytes of its messages that are kept.
    pub fn share_of(&self, peer: &Name) -> (usize, usize) {
        lock(&self.shares).of(peer)
    }

    /// The peers that have started flows which are under way.
    pub fn starters(&self) -> Vec<Name> {
        lock(&self.shares).starters()
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
        flows.by_id.contains_key(&flow) || flows.ending.contains_key(&flow)
    }

    /// Takes up a flow of the journal. It runs over its journal at its next turn.
    ///
    /// # Errors
    /// A damaged journal. A flow whose version is not installed is taken up and held.
    pub fn restore(&self, saved: Saved) -> Result<(), RestoreError> {
        let flow = saved.start.flow;
        let damaged = |reason: String| RestoreError::Damaged { flow, reason };
        let units = saved.steps.len().max(1) as u64;
        let mut steps = Vec::new();
        let mut unit_starts = Vec::with_capacity(saved.steps.len().max(1));
        if saved.steps.is_empty() {
            unit_starts.push(0);
        }
        for unit in &saved.steps {
            unit_starts.push(steps.len());
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
            state.units = units;
            state.unit_starts = unit_starts;
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
            self.charge(&mut state);
        }
        let sessions: Vec<_> = cell.state().sessions.iter().map(|session| session.hears).collect();
        let mut flows = lock(&self.flows);
        flows.sessions.extend(sessions.into_iter().map(|session| (session, flow)));
        flows.by_id.insert(flow, cell.clone());
        if let Some(peer) = self.starter(&cell) {
            lock(&self.shares).restore(peer);
        }
        drop(flows);
        self.schedule(&cell);
        Ok(())
    }

    /// Takes up a flow whose journal is damaged, so that it is held for a person. It never runs; it can be killed.
    pub fn hold(&self, start: Start, units: u64, reason: &str) {
        let flow = start.flow;
        let cell = self.cell(start);
        let sessions: Vec<_> = {
            let mut state = cell.state();
            state.start = None;
            state.units = units.max(1);
            state.unit_starts = vec![0; usize::try_from(state.units).unwrap_or(1)];
            state.status = Status::Held { reason: reason.to_owned() };
            state.damaged = Some(reason.to_owned());
            state.sessions.iter().map(|session| session.hears).collect()
        };
        let mut flows = lock(&self.flows);
        flows.sessions.extend(sessions.into_iter().map(|session| (session, flow)));
        flows.by_id.insert(flow, cell.clone());
        if let Some(peer) = self.starter(&cell) {
            lock(&self.shares).restore(peer);
        }
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
        if matches!(message.body, Body::Cut(_) | Body::Forgotten) {
            return Err(MessageError::local().into());
        }
        let arrival = Arrival { session: message.session, number: message.number, message: bytes, ticket };
        let known = {
            let flows = lock(&self.flows);
            flows.sessions.get(&message.session).and_then(|flow| flows.by_id.get(flow)).cloned()
        };
        match known {
            Some(cell) => self.append(&cell, from, message, arrival, now),
            None => self.answer(from, message, arrival, seed, now),
        }
    }

    /// A message for a flow that is under way. One that is more than may be kept ends its session: it cannot be left
    /// out, for the flow would wait for it for ever.
    fn append(
        &self,
        cell: &Arc<Cell>,
        from: &Name,
        message: Message,
        mut arrival: Arrival,
        now: Timestamp,
    ) -> Result<Delivered, DeliveryError> {
        {
            let mut state = cell.state();
            if state.status == Status::Ended {
                return Ok(Delivered::Late);
            }
            let session = state.hearing(message.session).expect("its messages lead to this flow");
            if session.peer != *from {
                return Err(DeliveryError::Foreign(message.session));
            }
            if session.inbound.contains_key(&message.number) || session.is_cut {
                return Ok(Delivered::Late);
            }
            match self.excess(session, arrival.message.len()) {
                None => session.keep(message.number, message.body, message.last, arrival.message.len()),
                Some(error) => {
                    let cut = Message {
                        session: message.session,
                        number: session.next_unheard(),
                        last: true,
                        body: Body::Cut(error),
                    };
                    arrival.number = cut.number;
                    arrival.message = cut.encode();
                    session.keep(cut.number, cut.body, cut.last, arrival.message.len())
                }
            };
            state.heard = Some(now);
            state.arrivals.push(arrival);
            self.charge(&mut state);
        }
        self.schedule(cell);
        Ok(Delivered::Taken(cell.id))
    }

    /// Why so many bytes more cannot be kept for a session, if they cannot.
    fn excess(&self, session: &SessionState, bytes: usize) -> Option<FlowError> {
        let limits = &self.limits;
        let held = session.held_bytes.saturating_add(bytes);
        let too_large = |what: &str, bytes: usize, limit: usize| {
            Some(FlowError::TooLarge { what: what.to_owned(), bytes: bytes as u64, limit: limit as u64 })
        };
        if held > limits.session_bytes {
            return too_large("what a session keeps", held, limits.session_bytes);
        }
        let unread = session.inbound.range(session.read..).count();
        if unread >= limits.session_messages {
            let reason = format!("a session has {unread} unread messages, as many as it may have");
            return Some(FlowError::Refused { reason });
        }
        let shares = lock(&self.shares);
        if session.peer != *self.me.name() && !shares.has_room(&session.peer, bytes, limits.peer_bytes) {
            let held = shares.of(&session.peer).1.saturating_add(bytes);
            return too_large("what is kept of a peer's messages", held, limits.peer_bytes);
        }
        None
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
            name: answered.as_ref().map_or_else(|_| shown(name), |name| Arc::from(*name)),
            version: *version,
            arguments: Vec::new(),
            origin: Origin::Session { peer: from.clone(), session: message.session },
            seed,
            at: self.me.beginning(now),
        };
        let own = *from == *self.me.name();
        let mut flows = lock(&self.flows);
        if flows.by_id.contains_key(&flow) || flows.ending.contains_key(&flow) {
            return Ok(Delivered::Late);
        }
        let refusal = match answered {
            Err(error) => Some(error),
            Ok(name) if lock(&self.only).is_some_and(|only| only != name) => Some(FlowError::Recovering),
            Ok(_) if flows.by_id.len() >= self.limits.flows => {
                Some(FlowError::Busy { limit: self.limits.flows as u64 })
            }
            Ok(_) if own => None,
            Ok(_) => self.admit(from, arrival.message.len()).err(),
        };
        if let Some(error) = refusal {
            flows.ending.insert(flow, None);
            drop(flows);
            let says = if own { message.session.answering() } else { message.session };
            self.host.submit(refused(start, from, says, arrival, error));
            return Ok(Delivered::Taken(flow));
        }
        let cell = self.cell(start);
        let waits = flows.draining.begins_nothing() && *from != *self.me.name();
        {
            let mut state = cell.state();
            if waits {
                state.status = Status::Paused;
            }
            let length = arrival.message.len();
            let session = state.hearing(message.session).expect("it answers this session");
            session.keep(0, message.body, message.last, length);
            state.heard = Some(now);
            state.arrivals.push(arrival);
            self.charge(&mut state);
        }
        if waits {
            flows.draining.waiting.insert(flow);
        }
        flows.sessions.insert(message.session, flow);
        flows.by_id.insert(flow, cell.clone());
        drop(flows);
        self.schedule(&cell);
        Ok(Delivered::Taken(flow))
    }

    /// Counts a flow that a peer starts, if its share has room for it.
    fn admit(&self, peer: &Name, bytes: usize) -> Result<(), FlowError> {
        let limits = &self.limits;
        let mut shares = lock(&self.shares);
        if !shares.has_room(peer, bytes, limits.peer_bytes) {
            return Err(FlowError::TooLarge {
                what: "what is kept of a peer's messages".to_owned(),
                bytes: shares.of(peer).1.saturating_add(bytes) as u64,
                limit: limits.peer_bytes as u64,
            });
        }
        shares
            .start(peer, limits.peer_flows, limits.peers_flows)
            .map_err(|limit| FlowError::Busy { limit: limit as u64 })
    }

    /// Counts what is kept for a flow's sessions by peer.
    fn charge(&self, state: &mut State) {
        for session in &mut state.sessions {
            let kept = session.kept_bytes();
            if session.charged_bytes != kept && session.peer != *self.me.name() {
                lock(&self.shares).keep(&session.peer, session.charged_bytes, kept);
                session.charged_bytes = kept;
            }
        }
    }

    /// The other node that started a flow, if one did.
    fn starter<'a>(&self, cell: &'a Cell) -> Option<&'a Name> {
        match &cell.origin {
            Origin::Session { peer, .. } if *peer != *self.me.name() => Some(peer),
            _ => None,
        }
    }

    fn cell(&self, start: Start) -> Arc<Cell> {
        Arc::new(Cell::new(start, self.me.clone(), self.network, self.host.clone()))
    }

    /// From now on no flow begins but this one and what answers it; `None`: every flow again. Flows under way go on.
    pub fn admit_only(&self, flow: Option<&'static str>) {
        *lock(&self.only) = flow;
    }

    /// The outcome of a flow is durable.
    pub fn forget(&self, flow: FlowId) {
        let mut flows = lock(&self.flows);
        flows.ending.remove(&flow);
        if let Some(asked) = flows.asked.get_mut(&flow) {
            asked.ended = true;
        }
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

/// The name of a flow that is not installed here, as a peer says it: bounded, and without what a database or a terminal
/// does not take for text.
fn shown(name: &str) -> Arc<str> {
    name.chars().filter(|character| !character.is_control()).take(200).collect::<String>().into()
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
            Self::States => "states that other flows hold".to_owned(),
        }
    }
}
