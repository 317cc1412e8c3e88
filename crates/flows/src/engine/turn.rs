//! One turn of a flow: its code runs until it waits or ends, and what it did becomes one unit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::Duration;

use tally_contracts::Timestamp;

use super::{Engine, Turn, lock};
use crate::cell::{Cell, State, Status, Waiting};
use crate::journal::{Origin, Outcome, Unit};
use crate::message::{Body, encode};
use crate::registry::Running;
use crate::service::Trouble;
use crate::{Context, FlowError, Message};

/// Where the code came to.
enum Reached {
    Waits,
    Ended(Outcome),
    Trouble(Trouble),
}

impl Engine {
    /// Runs a flow until it waits or ends. What it did is submitted to the host before any other turn of this flow.
    pub fn run(&self, turn: Turn, now: Timestamp) {
        let cell = turn.0;
        self.turns.fetch_add(1, Ordering::Relaxed);
        let mut running = lock(&cell.running);
        let runs = {
            let mut state = cell.state();
            state.now = state.now.max(now);
            self.listen(&cell, &mut state, now);
            match &state.status {
                Status::Ended => return,
                _ if state.condemned.is_some() => true,
                Status::Active => true,
                Status::Healing { until, .. } => *until <= now,
                Status::Paused | Status::Held { .. } => {
                    *running = None;
                    false
                }
            }
        };
        let reached = if runs { self.advance(&cell, &mut running) } else { Reached::Waits };
        let ended = self.close(&cell, &mut running, runs, reached, now);
        drop(running);
        if !ended {
            self.rest(&cell);
        }
    }

    /// Runs the code.
    fn advance(&self, cell: &Arc<Cell>, running: &mut Option<Running>) -> Reached {
        {
            let mut state = cell.state();
            if let Some(error) = state.condemned.take() {
                return Reached::Ended(Err(error));
            }
            if let Some(reason) = &state.damaged {
                return Reached::Trouble(Trouble::Lasting(reason.clone()));
            }
            state.trouble = None;
            state.deadline = None;
            state.wants_room = false;
        }
        if running.is_none() {
            let arguments = {
                let mut state = cell.state();
                state.rewind();
                state.arguments.clone()
            };
            let context = Context(cell.clone());
            let begun = match &cell.origin {
                Origin::User { .. } | Origin::Node => {
                    self.registry.begin(&cell.name, cell.version, context, &arguments)
                }
                Origin::Session { peer, session } => {
                    let session = context.session(*session, peer);
                    self.registry.answer(&cell.name, cell.version, context, session)
                }
            };
            match begun {
                Ok(begun) => *running = Some(begun),
                // A flow under way finishes on its own version or waits for a person; it is not failed by an upgrade.
                Err(error @ (FlowError::Version { .. } | FlowError::UnknownFlow { .. })) => {
                    return Reached::Trouble(Trouble::Lasting(error.to_string()));
                }
                Err(error) => return Reached::Ended(Err(error)),
            }
        }
        let code = running.as_mut().expect("it was begun");
        let mut task = std::task::Context::from_waker(Waker::noop());
        let polled = catch_unwind(AssertUnwindSafe(|| code.as_mut().poll(&mut task)));
        let mut state = cell.state();
        match polled {
            Err(panic) => {
                let text = panic
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "without a message".to_owned());
                Reached::Trouble(Trouble::Lasting(format!("the flow's code panicked: {text}")))
            }
            Ok(_) if state.trouble.is_some() => {
                Reached::Trouble(state.trouble.take().expect("there is trouble"))
            }
            Ok(Poll::Pending) => Reached::Waits,
            Ok(Poll::Ready(_)) if state.is_replaying() => Reached::Trouble(Trouble::Lasting(format!(
                "the flow ended at step {} of the {} in its journal; the code was changed without a new version",
                state.cursor,
                state.steps.len()
            ))),
            Ok(Poll::Ready(outcome)) => Reached::Ended(outcome),
        }
    }

    /// Makes the unit of this turn and submits it; `true` when the flow ended.
    fn close(
        &self,
        cell: &Arc<Cell>,
        running: &mut Option<Running>,
        ran: bool,
        reached: Reached,
        now: Timestamp,
    ) -> bool {
        let mut state = cell.state();
        let mut outcome = None;
        match reached {
            Reached::Waits if ran => {
                self.index_sessions(cell, &state);
                if matches!(state.status, Status::Healing { .. }) {
                    state.status = Status::Active;
                }
            }
            Reached::Waits => {}
            Reached::Ended(result) => {
                *running = None;
                hang_up(&mut state, result.as_ref().err());
                state.status = Status::Ended;
                outcome = Some(result.map_err(|error| state.leave_behind(error, &cell.me.name)));
            }
            Reached::Trouble(Trouble::Passing(reason)) => {
                *running = None;
                let attempts = match &state.status {
                    Status::Healing { attempts, .. } => attempts.saturating_add(1),
                    _ => 1,
                };
                let pause_ms = self
                    .limits
                    .first_retry_ms
                    .saturating_mul(1 << (attempts - 1).min(20))
                    .min(self.limits.longest_retry_ms);
                let until = Timestamp::from_millis(now.as_millis().saturating_add(pause_ms));
                state.status = Status::Healing { attempts, until, reason };
                state.waiting = Waiting::Nothing;
                state.deadline = Some(until);
                self.index_sessions(cell, &state);
            }
            Reached::Trouble(Trouble::Lasting(reason)) => {
                *running = None;
                state.status = Status::Held { reason };
                state.waiting = Waiting::Nothing;
                state.mark_changed = true;
                self.index_sessions(cell, &state);
            }
        }
        if let Status::Healing { until, .. } = &state.status {
            let until = *until;
            state.deadline = Some(until);
        }
        if let Some(at) = state.deadline {
            lock(&self.timers).insert((at, cell.id));
        }
        if state.wants_room {
            lock(&self.wanting_room).insert(cell.id);
        }
        let ended = outcome.is_some();
        if ended {
            self.remove(cell, &mut state);
        } else {
            self.charge(&mut state);
            self.await_word(cell, &mut state);
        }
        if let Some(unit) = unit(cell, &mut state, outcome) {
            drop(state);
            self.host.submit(unit);
        }
        ended
    }

    /// Messages of the sessions that the flow opened find it.
    pub(super) fn index_sessions(&self, cell: &Arc<Cell>, state: &State) {
        if state.sessions.is_empty() {
            return;
        }
        let mut flows = lock(&self.flows);
        for session in &state.sessions {
            flows.sessions.insert(session.hears, cell.id);
        }
    }

    /// A flow has ended and is about to be submitted. It goes over to those that end in one step: once the host has
    /// forgotten it, which may be before this turn is over, nothing here may say that it is under way. Whoever followed
    /// it then would wait for ever.
    fn remove(&self, cell: &Arc<Cell>, state: &mut State) {
        {
            let mut flows = lock(&self.flows);
            flows.by_id.remove(&cell.id);
            flows.no_longer_waits(cell.id);
            for session in &state.sessions {
                flows.sessions.remove(&session.hears);
            }
            flows.ending.insert(cell.id, Some(cell.clone()));
            let mut shares = lock(&self.shares);
            for session in &mut state.sessions {
                shares.keep(&session.peer, std::mem::take(&mut session.charged_bytes), 0);
            }
            if let Some(peer) = self.starter(cell) {
                shares.end(peer);
            }
        }
        lock(&self.wanting_room).remove(&cell.id);
        if let Some(at) = state.silence.take() {
            lock(&self.silences).remove(&(at, cell.id));
        }
    }

    /// A flow that a peer started, and that nobody holds for a person, ends when its peers were silent for too long.
    fn listen(&self, cell: &Cell, state: &mut State, now: Timestamp) {
        let Some(peer) = self.starter(cell) else { return };
        let heard = *state.heard.get_or_insert(now);
        if matches!(state.status, Status::Active | Status::Healing { .. })
            && state.condemned.is_none()
            && now.since(heard) >= Duration::from_millis(self.limits.silence_ms)
        {
            state.condemned = Some(FlowError::Timeout { party: peer.clone() });
        }
    }

    /// Has a flow that a peer started looked at again once the peer may have been silent for too long.
    fn await_word(&self, cell: &Cell, state: &mut State) {
        if self.starter(cell).is_none() || state.silence.is_some_and(|at| at > state.now) {
            return;
        }
        let limit = Duration::from_millis(self.limits.silence_ms.max(1));
        let mut at = state.heard.unwrap_or(state.now).saturating_add(limit);
        if at <= state.now {
            // It is paused or held: a person decides.
            at = state.now.saturating_add(limit);
        }
        let mut silences = lock(&self.silences);
        if let Some(before) = state.silence.replace(at) {
            silences.remove(&(before, cell.id));
        }
        silences.insert((at, cell.id));
    }
}

/// Tells those who still listen that this flow says no more, with its last message if that has not left yet.
fn hang_up(state: &mut State, error: Option<&FlowError>) {
    state.count_sent();
    let State { sessions, sends, .. } = state;
    for session in sessions.iter_mut().filter(|session| session.is_heard()) {
        let unsent = sends.iter_mut().rev().find(|(_, message)| message.session == session.says);
        match (unsent, error) {
            (Some((_, message)), None) => message.last = true,
            (_, error) => {
                let told = |error: &FlowError| error.told(&session.peer, session.index.is_some());
                let body = error.map_or(Body::End, |error| Body::Failed(told(error)));
                let message = Message { session: session.says, number: session.sent, last: true, body };
                sends.push((session.peer.clone(), message));
                session.sent += 1;
            }
        }
    }
}

/// What this turn leaves behind; `None` when none of it has to be durable yet, because nobody has seen anything of it.
fn unit(cell: &Cell, state: &mut State, outcome: Option<Outcome>) -> Option<Unit> {
    let mark = std::mem::take(&mut state.mark_changed).then(|| state.status.mark());
    let shows = state.start.is_some()
        || !state.arrivals.is_empty()
        || !state.sends.is_empty()
        || !state.writes.is_empty()
        || outcome.is_some()
        || mark.is_some();
    if !shows {
        return None;
    }
    let before = state.submitted;
    let mut steps = Vec::new();
    // The journal of a flow that has ended is of no use.
    if outcome.is_none() {
        for step in &state.steps[state.submitted..] {
            steps.extend_from_slice(&encode(step));
        }
    }
    state.submitted = state.steps.len();
    let number = state.units;
    state.units += 1;
    state.unit_starts.push(before);
    Some(Unit {
        flow: cell.id,
        number,
        start: state.start.take(),
        arrivals: std::mem::take(&mut state.arrivals),
        steps,
        sends: std::mem::take(&mut state.sends),
        writes: std::mem::take(&mut state.writes),
        outcome,
        mark,
    })
}
