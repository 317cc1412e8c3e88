//! Flows under a person's eyes: list, pause, retry, kill.

use std::sync::Arc;

use tally_contracts::Timestamp;

use super::{Engine, lock};
use crate::cell::{Cell, Status};
use crate::{FlowId, Origin};

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
        cell.state().killed = true;
        self.schedule(&cell);
        Ok(())
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
