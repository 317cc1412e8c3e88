//! One flow: what its code, the engine and its messages share.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Mutex, MutexGuard};

use tally_contracts::{Name, NetworkId, Party, Timestamp};

use crate::bearer::Bearer;
use crate::journal::{Arrival, Mark, Origin, Start, Step};
use crate::message::Body;
use crate::registry::Running;
use crate::service::{Host, LedgerWrite, Request, Response, Trouble};
use crate::{FlowError, FlowId, Message, SessionId};

pub(crate) struct Cell {
    pub(crate) id: FlowId,
    pub(crate) name: Arc<str>,
    pub(crate) version: u32,
    pub(crate) origin: Origin,
    pub(crate) at: Timestamp,
    pub(crate) seed: [u8; 32],
    /// What the node was when the flow began, whose journal names it so.
    pub(crate) me: Arc<Party>,
    pub(crate) bearer: Arc<Bearer>,
    pub(crate) network: NetworkId,
    pub(crate) host: Arc<dyn Host>,
    /// See `engine::schedule`.
    pub(crate) schedule: AtomicU8,
    /// The code under way. Locked for a turn, by the thread that runs it.
    pub(crate) running: Mutex<Option<Running>>,
    state: Mutex<State>,
}

/// How a flow stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Active,
    /// Tried again at a time, after so many attempts.
    Healing {
        attempts: u32,
        until: Timestamp,
        reason: String,
    },
    Paused,
    Held {
        reason: String,
    },
    Ended,
}

impl Status {
    pub(crate) fn mark(&self) -> Mark {
        match self {
            Self::Paused => Mark::Paused,
            Self::Held { reason } => Mark::Held { reason: reason.clone() },
            Self::Active | Self::Healing { .. } | Self::Ended => Mark::Running,
        }
    }
}

/// What a flow waits for, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Nothing,
    Message(Name),
    Time(Timestamp),
    Room(Name),
    /// States that other flows hold.
    States,
}

pub(crate) struct State {
    pub(crate) now: Timestamp,
    pub(crate) status: Status,
    pub(crate) waiting: Waiting,
    /// When the flow wants to be run even if nothing arrives.
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) wants_room: bool,
    /// The flow is to end with this, whatever its code waits for.
    pub(crate) condemned: Option<FlowError>,
    /// When the flow heard of a peer last. `None`: not since it was taken up.
    pub(crate) heard: Option<Timestamp>,
    /// Where the flow is among `Engine::silences`.
    pub(crate) silence: Option<Timestamp>,
    /// Why the run cannot go on; set by the operation that found it.
    pub(crate) trouble: Option<Trouble>,
    /// The arguments, for running it again.
    pub(crate) arguments: Vec<u8>,

    /// All that the flow did, in order.
    pub(crate) steps: Vec<Step>,
    /// How many of them this run has passed.
    pub(crate) cursor: usize,
    /// How many are in units.
    pub(crate) submitted: usize,
    pub(crate) units: u64,
    /// For each of them, how many steps are in units before it.
    pub(crate) unit_starts: Vec<usize>,
    /// Why running the flow again is of no use: its journal is damaged.
    pub(crate) damaged: Option<String>,

    pub(crate) start: Option<Start>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) sends: Vec<(Name, Message)>,
    pub(crate) writes: Vec<LedgerWrite>,
    pub(crate) mark_changed: bool,

    pub(crate) sessions: Vec<SessionState>,
    /// How many sessions this run has opened.
    pub(crate) opened: u32,
    pub(crate) path: Vec<&'static str>,
    pub(crate) label: &'static str,
}

pub(crate) struct SessionState {
    pub(crate) id: SessionId,
    /// What messages of this flow call it.
    pub(crate) says: SessionId,
    /// What messages for this flow call it.
    pub(crate) hears: SessionId,
    pub(crate) peer: Name,
    /// What arrived, by number.
    pub(crate) inbound: BTreeMap<u64, Arrived>,
    /// The number of the next message that this run reads.
    pub(crate) read: u64,
    /// The number of the next message that this run sends.
    pub(crate) sent: u64,
    /// Which of the sessions that this flow opened it is; `None` when the other side opened it.
    pub(crate) index: Option<u32>,
    /// Bytes in `inbound`.
    pub(crate) held_bytes: usize,
    /// Bytes that this run remembers of messages that it has digested: in the journal and in the flow's own memory.
    pub(crate) digested_bytes: usize,
    /// How many of both are counted in the peer's share.
    pub(crate) charged_bytes: usize,
    /// This node ended the session, because it could not keep what came.
    pub(crate) is_cut: bool,
}

/// What a message takes in memory besides its bytes.
const MESSAGE_BYTES: usize = 128;

pub(crate) struct Arrived {
    pub(crate) body: Body,
    pub(crate) last: bool,
}

impl Arrived {
    /// Does whoever sent this listen no longer? It does if this node ended the session, and is to be told.
    fn ends_listening(&self) -> bool {
        self.last && !matches!(self.body, Body::Cut(_))
    }
}

impl SessionState {
    pub(crate) fn new(id: SessionId, me: &Party, peer: Name, index: Option<u32>) -> Self {
        let (says, hears) = match index {
            _ if peer != me.name => (id, id),
            Some(_) => (id, id.answering()),
            None => (id.answering(), id),
        };
        Self {
            id,
            says,
            hears,
            peer,
            inbound: BTreeMap::new(),
            read: 0,
            sent: 0,
            index,
            held_bytes: 0,
            digested_bytes: 0,
            charged_bytes: 0,
            is_cut: false,
        }
    }

    /// Keeps a message that arrived; `false` when it is there already.
    pub(crate) fn keep(&mut self, number: u64, body: Body, last: bool, bytes: usize) -> bool {
        if self.inbound.contains_key(&number) {
            return false;
        }
        self.is_cut |= matches!(body, Body::Cut(_));
        self.inbound.insert(number, Arrived { body, last });
        self.held_bytes = self.held_bytes.saturating_add(bytes).saturating_add(MESSAGE_BYTES);
        true
    }

    /// What the peer makes this node keep for the session.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.held_bytes.saturating_add(self.digested_bytes)
    }

    /// Counts what is remembered of a digested message: its digest in the journal, and what a flow makes of it, which
    /// takes about twice as much.
    pub(crate) fn remember(&mut self, digest: &[u8]) {
        self.digested_bytes = self.digested_bytes.saturating_add(digest.len().saturating_mul(3));
    }

    /// The first number that the flow has not read and that did not come.
    pub(crate) fn next_unheard(&self) -> u64 {
        let mut next = self.read;
        for number in self.inbound.range(self.read..).map(|(number, _)| *number) {
            if number != next {
                break;
            }
            next = next.saturating_add(1);
        }
        next
    }

    /// What the journal calls it, see [`Step::Sent`].
    pub(crate) fn place(&self) -> u32 {
        self.index.map_or(0, |index| index.saturating_add(1))
    }

    /// Does the other side still listen?
    pub(crate) fn is_heard(&self) -> bool {
        // What it opens may reach the other node's new database all the same, where a flow then waits.
        let ended = |arrived: &Arrived| arrived.ends_listening() && arrived.body != Body::Forgotten;
        (self.sent > 0 || self.index.is_none()) && !self.inbound.values().any(ended)
    }
}

/// What reading the next step of the journal gave.
pub(crate) enum Next {
    /// The flow did this before.
    Again(Step),
    /// It does it for the first time.
    First,
}

impl Cell {
    pub(crate) fn new(start: Start, bearer: Arc<Bearer>, network: NetworkId, host: Arc<dyn Host>) -> Self {
        let me = bearer.at(bearer.place(start.at)).clone();
        let mut sessions = Vec::new();
        if let Origin::Session { peer, session } = &start.origin {
            sessions.push(SessionState::new(*session, &me, peer.clone(), None));
        }
        Self {
            id: start.flow,
            name: start.name.clone(),
            version: start.version,
            origin: start.origin.clone(),
            at: start.at,
            seed: start.seed,
            me,
            bearer,
            network,
            host,
            schedule: AtomicU8::new(0),
            running: Mutex::new(None),
            state: Mutex::new(State {
                now: start.at,
                status: Status::Active,
                waiting: Waiting::Nothing,
                deadline: None,
                wants_room: false,
                condemned: None,
                heard: None,
                silence: None,
                trouble: None,
                arguments: start.arguments.clone(),
                steps: Vec::new(),
                cursor: 0,
                submitted: 0,
                units: 0,
                unit_starts: Vec::new(),
                damaged: None,
                start: Some(start),
                arrivals: Vec::new(),
                sends: Vec::new(),
                writes: Vec::new(),
                mark_changed: false,
                sessions,
                opened: 0,
                path: Vec::new(),
                label: "",
            }),
        }
    }

    /// A flow that panics does so in its own code, never while the state is half changed.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Asks the node, or the journal if the flow asked before. `None`: the run cannot go on, see `State::trouble`, or the
    /// node answers later and is asked again in the next turn.
    pub(crate) fn ask(&self, request: &Request) -> Option<Response> {
        let (now, again) = {
            let mut state = self.state();
            if state.trouble.is_some() {
                return None;
            }
            match state.next() {
                Next::First => (state.now, None),
                Next::Again(Step::Asked { request: kind, answer }) if kind == request.kind() => {
                    if let Some(response) = answer.response() {
                        state.cursor += 1;
                        return Some(response);
                    }
                    (state.now, Some(answer))
                }
                Next::Again(step) => {
                    state.disagrees(&step, &format!("ask its node to {}", request.describe()));
                    return None;
                }
            }
        };
        // The state is not locked while the node works.
        let performed = match self.host.perform(self.id, now, request) {
            Ok(performed) => performed,
            Err(trouble) => {
                self.state().trouble = Some(trouble);
                return None;
            }
        };
        let mut state = self.state();
        if let Some(answer) = again {
            let Some(response) = answer.limit(performed.response) else {
                let what = request.describe();
                state.trouble = Some(Trouble::Lasting(format!(
                    "the flow asked its node to {what}; what was there then is gone"
                )));
                return None;
            };
            state.cursor += 1;
            return Some(response);
        }
        if let Response::Later(until) = performed.response {
            state.wants(until);
            state.waiting = Waiting::States;
            return None;
        }
        if state.waiting == Waiting::States {
            state.waiting = Waiting::Nothing;
        }
        let answer = crate::journal::Answer::of(&performed.response);
        state.did(Step::Asked { request: request.kind(), answer });
        state.writes.extend(performed.writes);
        Some(performed.response)
    }
}

impl State {
    pub(crate) fn next(&self) -> Next {
        self.steps.get(self.cursor).map_or(Next::First, |step| Next::Again(step.clone()))
    }

    pub(crate) fn did(&mut self, step: Step) {
        self.steps.push(step);
        self.cursor = self.steps.len();
    }

    /// Does the flow repeat what it did before?
    pub(crate) fn is_replaying(&self) -> bool {
        self.cursor < self.steps.len()
    }

    pub(crate) fn disagrees(&mut self, journal: &Step, program: &str) {
        self.trouble = Some(Trouble::Lasting(format!(
            "step {}: the journal says that the flow did {}, its code now wants to {program}; \
             the code was changed without a new version, or does not depend on its context alone",
            self.cursor,
            journal.name(),
        )));
    }

    /// Ready to run the flow's code from its beginning.
    pub(crate) fn rewind(&mut self) {
        self.cursor = 0;
        self.opened = 0;
        self.path.clear();
        for session in &mut self.sessions {
            session.read = 0;
            session.sent = 0;
            session.digested_bytes = 0;
        }
    }

    pub(crate) fn session(&mut self, id: SessionId) -> &mut SessionState {
        self.sessions.iter_mut().find(|session| session.id == id).expect("a session in use is listed")
    }

    /// Counts by the journal what was said in each session: a flow that is killed may not have come that far in this
    /// run, or may not have run at all since it was taken up.
    pub(crate) fn count_sent(&mut self) {
        let Self { sessions, steps, .. } = self;
        for session in &mut *sessions {
            session.sent = 0;
        }
        for step in steps {
            let place = match step {
                Step::Opened { index, .. } => index.saturating_add(1),
                Step::Sent(place) => *place,
                _ => continue,
            };
            if let Some(session) = sessions.iter_mut().find(|session| session.place() == place) {
                session.sent += 1;
            }
        }
    }

    /// The session that messages call by this id.
    pub(crate) fn hearing(&mut self, id: SessionId) -> Option<&mut SessionState> {
        self.sessions.iter_mut().find(|session| session.hears == id)
    }

    /// A deadline that the flow waits for, besides others.
    pub(crate) fn wants(&mut self, at: Timestamp) {
        self.deadline = Some(self.deadline.map_or(at, |before| before.min(at)));
    }
}
