//! Who runs next. A flow is in the queue at most once and runs on one thread at a time; what happens while it runs
//! makes it run again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tally_contracts::Timestamp;

use super::{Engine, Turn, lock};
use crate::FlowId;
use crate::cell::Cell;

pub(super) const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const AGAIN: u8 = 3;

impl Engine {
    /// The next flow to run, if any. A turn that is dropped without [`Engine::run`] never comes back.
    pub fn next(&self) -> Option<Turn> {
        let cell = lock(&self.runnable).pop_front()?;
        cell.schedule.store(RUNNING, Ordering::SeqCst);
        Some(Turn(cell))
    }

    pub(super) fn schedule(&self, cell: &Arc<Cell>) {
        let changed = cell.schedule.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| match now {
            IDLE => Some(QUEUED),
            RUNNING => Some(AGAIN),
            _ => None,
        });
        if changed == Ok(IDLE) {
            lock(&self.runnable).push_back(cell.clone());
            self.host.wake();
        }
    }

    /// The turn is over; what came meanwhile makes another.
    pub(super) fn rest(&self, cell: &Arc<Cell>) {
        let before = cell.schedule.swap(IDLE, Ordering::SeqCst);
        if before == AGAIN {
            self.schedule(cell);
        }
    }

    /// A flow that ended has not: its last turn was never over, see [`Engine::run`].
    pub(super) fn revive(&self, cell: &Cell) {
        cell.schedule.store(IDLE, Ordering::SeqCst);
    }

    /// Wakes the flows whose time has come.
    pub fn tick(&self, now: Timestamp) {
        for list in [&self.timers, &self.silences] {
            let due: Vec<FlowId> = {
                let mut times = lock(list);
                let mut due = Vec::new();
                while let Some(first) = times.first().copied().filter(|(at, _)| *at <= now) {
                    times.remove(&first);
                    due.push(first.1);
                }
                due
            };
            self.wake_all(due);
        }
    }

    /// When [`Engine::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        lock(&self.timers).first().map(|(at, _)| *at)
    }

    /// Queues to peers have room again: flows that waited for it run.
    pub fn room(&self) {
        let waiting: Vec<FlowId> = std::mem::take(&mut *lock(&self.wanting_room)).into_iter().collect();
        self.wake_all(waiting);
    }

    /// What this flow waits for at its node, see [`Response::Later`](crate::Response::Later), may be there.
    pub fn wake(&self, flow: FlowId) {
        self.wake_all(vec![flow]);
    }

    pub(super) fn wake_all(&self, flows: Vec<FlowId>) {
        for flow in flows {
            if let Some(cell) = self.find(flow) {
                self.schedule(&cell);
            }
        }
    }
}
