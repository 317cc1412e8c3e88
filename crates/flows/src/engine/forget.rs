//! Sessions that the other node no longer knows.

use std::sync::atomic::Ordering;

use tally_contracts::Name;

use super::{Engine, lock};
use crate::cell::{Cell, Status};
use crate::journal::Arrival;
use crate::message::Body;
use crate::{FlowId, Message};

impl Engine {
    /// The node `peer`, or every node if `None`, goes on from another database: sessions with it fail with
    /// [`crate::FlowError::Forgotten`] once everything has been read that arrived before. Gives the flows that are told;
    /// it is in their units once they are [settled](Self::is_settled).
    pub fn forget_sessions(&self, peer: Option<&Name>) -> Vec<FlowId> {
        let cells: Vec<_> = lock(&self.flows).by_id.values().cloned().collect();
        let mut told = Vec::new();
        for cell in cells {
            if forget(&cell, peer) {
                self.schedule(&cell);
                told.push(cell.id);
            }
        }
        told
    }

    /// Has all that arrived for these flows until now been submitted?
    pub fn is_settled(&self, flows: &[FlowId]) -> bool {
        flows.iter().all(|flow| {
            self.find(*flow).is_none_or(|cell| {
                // In this order: what arrives later makes it run again.
                let rests = cell.schedule.load(Ordering::SeqCst) == super::schedule::IDLE;
                rests && cell.state().arrivals.is_empty()
            })
        })
    }
}

/// Ends the sessions of a flow with a peer; `true` if there was one.
fn forget(cell: &Cell, peer: Option<&Name>) -> bool {
    let mut state = cell.state();
    if state.status == Status::Ended {
        return false;
    }
    let mut arrivals = Vec::new();
    for session in &mut state.sessions {
        if peer.is_some_and(|peer| session.peer != *peer)
            || session.inbound.values().any(|arrived| arrived.last)
        {
            continue;
        }
        // Messages come in order, so that the first number that is free is the next.
        let number = (0..).find(|number| !session.inbound.contains_key(number)).unwrap_or(u64::MAX);
        let message = Message { session: session.hears, number, last: true, body: Body::Forgotten };
        let bytes = message.encode();
        session.keep(number, message.body, true, bytes.len());
        arrivals.push(Arrival { session: message.session, number, message: bytes, ticket: 0 });
    }
    let told = !arrivals.is_empty();
    state.arrivals.extend(arrivals);
    told
}
