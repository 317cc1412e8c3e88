//! Flows under a person's eyes: list, pause, retry, kill.

use std::sync::Arc;

use tally_contracts::{Name, Timestamp};

use super::{Engine, lock};
use crate::cell::{Cell, SessionState, Status, Waiting};
use crate::journal::{Arrival, Step};
use crate::{FlowError, FlowId, Origin};

/// A flow under way, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its identifier.
    pub flow: FlowId,
    /// Its name; for one that answers, the name of the flow that it answers.
    pub name: Arc<str>,
    /// The version of its code.
    pub version: u32,
    /// Who started it.
    pub origin: Origin,
    /// When.
    pub at: Timestamp,
    /// How it stands.
    pub state: FlowState,
    /// The step that it told last; empty before the first.
    pub step: String,
    /// What it waits for; empty when it does not.
    pub waits_for: String,
}

/// How a flow under way stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// It runs or waits for what it asked for.
    Running,
    /// It is tried again by itself.
    Healing {
        /// How often it was tried.
        attempts: u32,
        /// When it is tried next.
        until: Timestamp,
        /// What stopped it.
        reason: String,
    },
    /// A person paused it.
    Paused,
    /// It waits for a person.
    Held {
        /// What stopped it.
        reason: String,
    },
}

/// Why a flow cannot be paused, retried or killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// No such flow is under way.
    #[error("no flow {0} is under way; it may have ended")]
    Unknown(FlowId),
    /// It runs already.
    #[error("flow {0} is neither paused nor held")]
    Running(FlowId),
}

impl Engine {
    /// The flows under way, oldest first; at most `limit` after `after`.
    pub fn views(&self, after: Option<(Timestamp, FlowId)>, limit: usize) -> Vec<View> {
        let mut cells: Vec<_> = lock(&self.flows)
            .by_id
            .values()
            .filter(|cell| after.is_none_or(|after| (cell.at, cell.id) > after))
            .cloned()
            .collect();
        if cells.len() > limit {
            cells.select_nth_unstable_by_key(limit, |cell| (cell.at, cell.id));
            cells.truncate(limit);
        }
        cells.sort_unstable_by_key(|cell| (cell.at, cell.id));
        cells.iter().map(|cell| view(cell)).collect()
    }

    /// One flow under way.
    pub fn view(&self, flow: FlowId) -> Option<View> {
        self.find(flow).map(|cell| view(&cell))
    }

    /// How many flows are held or being healed.
    pub fn in_hospital(&self) -> usize {
        let cells: Vec<_> = lock(&self.flows).by_id.values().cloned().collect();
        cells
            .iter()
            .filter(|cell| matches!(cell.state().status, Status::Held { .. } | Status::Healing { .. }))
            .count()
    }

    /// Pauses a flow: it keeps what arrives and does not run.
    ///
    /// # Errors
    /// [`ControlError::Unknown`].
    pub fn pause(&self, flow: FlowId) -> Result<(), ControlError> {
        self.set(flow, |status| {
            *status = Status::Paused;
            Ok(())
        })
    }

    /// Runs a paused, held or healing flow again over its journal.
    ///
    /// # Errors
    /// [`ControlError::Unknown`]; [`ControlError::Running`] when it is none of these.
    pub fn retry(&self, flow: FlowId) -> Result<(), ControlError> {
        self.set(flow, |status| {
            if *status == Status::Active {
                return Err(ControlError::Running(flow));
            }
            *status = Status::Active;
            Ok(())
        })
    }

    /// Ends a flow with [`crate::FlowError::Killed`]. What it has sent and recorded stays.
    ///
    /// # Errors
    /// [`ControlError::Unknown`].
    pub fn kill(&self, flow: FlowId) -> Result<(), ControlError> {
        let cell = self.find(flow).ok_or(ControlError::Unknown(flow))?;
        self.condemn(&cell, FlowError::Killed);
        Ok(())
    }

    /// Ends all flows that a peer started, with this failure: how many they are. For a peer that is no longer a member.
    pub fn end_of_peer(&self, peer: &Name, error: &FlowError) -> usize {
        let cells: Vec<_> = lock(&self.flows)
            .by_id
            .values()
            .filter(|cell| self.starter(cell) == Some(peer))
            .cloned()
            .collect();
        for cell in &cells {
            self.condemn(cell, error.clone());
        }
        cells.len()
    }

    /// Undoes what a flow did in its unit of this number and since, because the host cannot make it durable: the flow is
    /// as it was before, but for messages that arrived, and is held for a person. The host writes that in the place of
    /// this unit, with the arrivals of all units that are undone, and with those returned, which were in none yet.
    /// `undo` is called while the flow cannot run: units of the flow that the host has not written are left out by it.
    ///
    /// `None` when there is no such flow, or one that never ran; it is over then.
    pub fn set_back(
        &self,
        flow: FlowId,
        unit: u64,
        reason: &str,
        undo: impl FnOnce(),
    ) -> Option<Vec<Arrival>> {
        let (cell, ended) = {
            let flows = lock(&self.flows);
            match flows.by_id.get(&flow) {
                Some(cell) => (Some(cell.clone()), false),
                None => (flows.ending.get(&flow).cloned().flatten(), true),
            }
        };
        let Some(cell) = cell else {
            undo();
            self.forget(flow);
            return None;
        };
        let mut running = lock(&cell.running);
        *running = None;
        undo();
        let mut state = cell.state();
        // It may have ended in the turn that was waited for.
        let ended = ended || state.status == Status::Ended;
        let place = usize::try_from(unit).unwrap_or(usize::MAX);
        let before = state.unit_starts.get(place).copied().unwrap_or(state.submitted);
        // What was received and digested by steps that are undone is not kept as it came.
        if state.steps.iter().skip(before).any(|step| matches!(step, Step::Digested(_))) {
            state.damaged = Some(reason.to_owned());
        }
        state.steps.truncate(before);
        state.submitted = state.steps.len();
        state.unit_starts.truncate(place);
        state.unit_starts.push(before);
        state.units = unit.saturating_add(1);
        state.start = None;
        state.sends.clear();
        state.writes.clear();
        state.mark_changed = false;
        state.condemned = None;
        state.trouble = None;
        state.deadline = None;
        state.wants_room = false;
        state.waiting = Waiting::Nothing;
        state.status = Status::Held { reason: reason.to_owned() };
        state.rewind();
        let opened: Vec<u32> = state
            .steps
            .iter()
            .filter_map(|step| if let Step::Opened { index, .. } = step { Some(*index) } else { None })
            .collect();
        let is_known = |session: &SessionState| session.index.is_none_or(|index| opened.contains(&index));
        let (kept, undone) = std::mem::take(&mut state.sessions).into_iter().partition(is_known);
        state.sessions = kept;
        self.disown(undone);
        let arrivals = std::mem::take(&mut state.arrivals);
        if ended {
            self.revive(&cell);
            let mut flows = lock(&self.flows);
            flows.ending.remove(&flow);
            flows.by_id.insert(flow, cell.clone());
            if let Some(peer) = self.starter(&cell) {
                lock(&self.shares).restore(peer);
            }
        }
        self.index_sessions(&cell, &state);
        self.charge(&mut state);
        Some(arrivals)
    }

    /// Forgets sessions of which no peer has heard.
    fn disown(&self, sessions: Vec<SessionState>) {
        for session in sessions {
            lock(&self.flows).sessions.remove(&session.hears);
            if session.peer != *self.me.name() {
                lock(&self.shares).keep(&session.peer, session.charged_bytes, 0);
            }
        }
    }

    fn condemn(&self, cell: &Arc<Cell>, error: FlowError) {
        cell.state().condemned = Some(error);
        self.schedule(cell);
    }

    fn set(
        &self,
        flow: FlowId,
        change: impl FnOnce(&mut Status) -> Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        let cell = self.find(flow).ok_or(ControlError::Unknown(flow))?;
        lock(&self.flows).no_longer_waits(flow);
        {
            let mut state = cell.state();
            if state.status == Status::Ended {
                return Err(ControlError::Unknown(flow));
            }
            change(&mut state.status)?;
            state.mark_changed = true;
        }
        self.schedule(&cell);
        Ok(())
    }
}

fn view(cell: &Cell) -> View {
    let state = cell.state();
    View {
        flow: cell.id,
        name: cell.name.clone(),
        version: cell.version,
        origin: cell.origin.clone(),
        at: cell.at,
        state: match &state.status {
            Status::Active | Status::Ended => FlowState::Running,
            Status::Healing { attempts, until, reason } => {
                FlowState::Healing { attempts: *attempts, until: *until, reason: reason.clone() }
            }
            Status::Paused => FlowState::Paused,
            Status::Held { reason } => FlowState::Held { reason: reason.clone() },
        },
        step: state.label.to_owned(),
        waits_for: state.waiting.describe(),
    }
}
