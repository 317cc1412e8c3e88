//! Draining: nothing new begins, and what is under way ends. The same holds while something bars new work.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Engine, Flows, StartError, lock};
use crate::FlowId;
use crate::cell::Status;

/// How far a node is drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// Nothing new begins.
    pub draining: bool,
    /// Flows that go on by themselves, and those whose end is not durable yet.
    pub under_way: usize,
    /// Flows that a person has paused, or that are held for one: they do not end by themselves.
    pub for_a_person: usize,
    /// Flows of peers that wait until draining is over.
    pub waiting: usize,
}

impl Drain {
    /// Nothing is under way any more, and nothing new begins.
    pub fn is_empty(&self) -> bool {
        self.draining && self.under_way == 0
    }
}

/// What an engine keeps of it.
#[derive(Default)]
pub(super) struct Draining {
    on: bool,
    /// Why nothing new begins until that is over, whatever a person says of draining.
    barred: Option<Arc<str>>,
    /// Begun by peers since; paused.
    pub(super) waiting: BTreeSet<FlowId>,
}

impl Draining {
    /// Nothing new begins.
    pub(super) fn begins_nothing(&self) -> bool {
        self.on || self.barred.is_some()
    }

    /// # Errors
    /// Why a user starts nothing now.
    pub(super) fn admit(&self) -> Result<(), StartError> {
        match &self.barred {
            Some(reason) => Err(StartError::Barred(reason.to_string())),
            None if self.on => Err(StartError::Draining),
            None => Ok(()),
        }
    }

    fn take_waiting(&mut self) -> BTreeSet<FlowId> {
        if self.begins_nothing() { BTreeSet::new() } else { std::mem::take(&mut self.waiting) }
    }
}

impl Flows {
    /// A flow is another's business from now on: a person's, or nobody's.
    pub(super) fn no_longer_waits(&mut self, flow: FlowId) {
        self.draining.waiting.remove(&flow);
    }
}

impl Engine {
    /// Begins nothing new until [`resume`](Self::resume): starts of users are refused, and a flow with which this node is to
    /// answer a peer is kept, with what arrives for it, and waits. The node's own sessions with itself go on, since flows
    /// under way need them. Not kept over a restart.
    pub fn drain(&self) {
        lock(&self.flows).draining.on = true;
    }

    /// Begins new flows again, those first that wait.
    pub fn resume(&self) {
        let waiting = {
            let mut flows = lock(&self.flows);
            flows.draining.on = false;
            flows.draining.take_waiting()
        };
        self.begin(waiting);
    }

    /// Begins nothing new for a reason, as while it is drained, until there is none.
    pub fn bar(&self, reason: Option<&str>) {
        let waiting = {
            let mut flows = lock(&self.flows);
            flows.draining.barred = reason.map(Arc::from);
            flows.draining.take_waiting()
        };
        self.begin(waiting);
    }

    fn begin(&self, waiting: BTreeSet<FlowId>) {
        for flow in waiting {
            let Some(cell) = self.find(flow) else { continue };
            {
                let mut state = cell.state();
                if state.status == Status::Paused {
                    state.status = Status::Active;
                }
            }
            self.schedule(&cell);
        }
    }

    /// How far the node is drained.
    pub fn drained(&self) -> Drain {
        let (draining, ending, waiting, cells) = {
            let flows = lock(&self.flows);
            let Draining { on, waiting, .. } = &flows.draining;
            let cells: Vec<_> =
                flows.by_id.values().filter(|cell| !waiting.contains(&cell.id)).cloned().collect();
            (*on, flows.ending.len(), waiting.len(), cells)
        };
        let for_a_person = cells
            .iter()
            .filter(|cell| matches!(cell.state().status, Status::Paused | Status::Held { .. }))
            .count();
        Drain { draining, under_way: cells.len() - for_a_person + ending, for_a_person, waiting }
    }
}
