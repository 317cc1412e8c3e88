//! Starts by users: each flow begins once, and it can be told how it began.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::{Engine, Flows, StartError, Started, lock};
use crate::cell::{Cell, State};
use crate::journal::{Origin, Start};
use crate::{FlowError, FlowId};

/// What a flow was started with by a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The registered name.
    pub name: Arc<str>,
    /// The version of its code.
    pub version: u32,
    /// Its arguments, encoded as this version does.
    pub arguments: Vec<u8>,
    /// Who started it.
    pub origin: Origin,
}

impl Begun {
    /// `None` for a flow that answers a session.
    pub(super) fn by_user(cell: &Cell, state: &State) -> Option<Self> {
        matches!(cell.origin, Origin::User { .. }).then(|| Self {
            name: cell.name.clone(),
            version: cell.version,
            arguments: state.arguments.clone(),
            origin: cell.origin.clone(),
        })
    }
}

/// A flow of which the host is being asked.
#[derive(Default)]
pub(super) struct Asked {
    /// How many threads ask.
    askers: usize,
    /// It began, ended, and was forgotten meanwhile. What the host answers may be older than that.
    pub(super) ended: bool,
}

impl Flows {
    fn holds(&self, flow: FlowId) -> bool {
        self.by_id.contains_key(&flow) || self.ending.contains_key(&flow)
    }

    /// One thread has its answer; `true` when the flow ended while it asked.
    fn answered(&mut self, flow: FlowId) -> bool {
        let Entry::Occupied(mut entry) = self.asked.entry(flow) else { return false };
        entry.get_mut().askers -= 1;
        let ended = entry.get().ended;
        if entry.get().askers == 0 {
            entry.remove();
        }
        ended
    }
}

impl Engine {
    /// Starts a flow. Starting the same flow again changes nothing; whether it was begun with the same arguments is
    /// for the caller to compare, see [`Engine::begun`].
    ///
    /// # Errors
    /// The flow is not installed, there are too many flows, or it is not known whether it was started before.
    pub fn start(&self, start: Start) -> Result<Started, StartError> {
        self.registry.has(&start.name, start.version)?;
        {
            let mut flows = lock(&self.flows);
            if flows.holds(start.flow) {
                return Ok(Started::Before);
            }
            flows.asked.entry(start.flow).or_default().askers += 1;
        }
        let known = self.host.is_known(start.flow);
        let mut flows = lock(&self.flows);
        // Another thread may have been quicker with the same request, or even have finished it.
        let ended = flows.answered(start.flow);
        if known? || ended || flows.holds(start.flow) {
            return Ok(Started::Before);
        }
        flows.draining.admit()?;
        if lock(&self.only).is_some_and(|only| *start.name != *only) {
            return Err(StartError::Refused(FlowError::Recovering));
        }
        if flows.by_id.len() >= self.limits.flows {
            return Err(StartError::Refused(FlowError::Busy { limit: self.limits.flows as u64 }));
        }
        let at = self.me.beginning(start.at);
        let cell = self.cell(Start { at, ..start });
        flows.by_id.insert(cell.id, cell.clone());
        drop(flows);
        self.schedule(&cell);
        Ok(Started::New)
    }

    /// How a flow of a user began that is held here, see [`Engine::holds`]; `None` for any other.
    pub fn begun(&self, flow: FlowId) -> Option<Begun> {
        // Not locked while the flow's own lock is waited for: a turn takes them in the other order.
        let cell = {
            let flows = lock(&self.flows);
            let ending = || flows.ending.get(&flow).and_then(Option::as_ref);
            flows.by_id.get(&flow).or_else(ending)?.clone()
        };
        let state = cell.state();
        Begun::by_user(&cell, &state)
    }
}
