//! Units that the store refuses: they are set aside with their flows, and the rest of their batch is written.
//!
//! The store refuses a batch as a whole. Where the fault is that of one unit, such as a transaction that consumes what
//! another one recorded here has consumed, it would refuse the same batch for ever. So the unit is looked for, its flow
//! is held for a person with the reason, and what arrived for it is kept, since its sender is told that it was taken.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use tally_contracts::Name;
use tally_flows::{Body, FlowId, Message, SessionId};
use tally_store::{Mark, Store, StoreError, Write};

use super::Core;
use crate::desk::commit::{Batch, Prepared, SetAside, arrival_write};
use crate::desk::full_text;

/// The units of a batch that cannot be written, and why.
struct Search<'a> {
    store: &'a dyn Store,
    batch: &'a Batch,
    refused: Vec<(usize, String)>,
    flows: HashSet<FlowId>,
}

/// What is written in the place of units that are set aside.
#[derive(Default)]
struct Replaced {
    writes: Vec<Write>,
    /// Messages that have a number and will not be said.
    silenced: HashSet<(Name, u64)>,
    set_aside: SetAside,
}

impl Search<'_> {
    /// Writes the units of a range but for those that cannot be, and those that follow these in the same flow. Every
    /// write may be applied again, so that the batch can be written as a whole afterwards.
    fn sift(&mut self, range: Range<usize>) -> Result<(), StoreError> {
        let Self { batch, .. } = *self;
        let units: Vec<usize> =
            range.clone().filter(|place| !self.flows.contains(&batch.units[*place].flow)).collect();
        if units.is_empty() {
            return Ok(());
        }
        // Names of queues and the node's standing come before all units, which build on them.
        let mut writes: Vec<Write> = batch.writes[..batch.head()].to_vec();
        for place in units.iter() {
            writes.extend_from_slice(&batch.writes[batch.spans[*place].clone()]);
        }
        let Err(error) = self.store.apply(&writes) else { return Ok(()) };
        if !error.is_of_writes() {
            return Err(error);
        }
        if let [only] = units[..] {
            // What a notary remembers contradicts what it wrote down: nothing of it may be answered any more.
            if !batch.units[only].notarised.is_empty() {
                return Err(error);
            }
            self.flows.insert(batch.units[only].flow);
            self.refused.push((only, full_text(&error)));
            return Ok(());
        }
        let middle = range.start + range.len() / 2;
        self.sift(range.start..middle)?;
        self.sift(middle..range.end)
    }
}

impl Core {
    /// Takes the units out of a refused batch that cannot be written, and holds their flows. What remains is to be
    /// applied as a whole.
    ///
    /// # Errors
    /// The batch as it was, and the store's error: it is not that of single units.
    #[expect(clippy::result_large_err, reason = "a batch that is given back is used at once")]
    pub(super) fn set_aside(&self, batch: Batch, refusal: StoreError) -> Result<Batch, (Batch, StoreError)> {
        let mut search = Search {
            store: self.desk.parts.store.as_ref(),
            batch: &batch,
            refused: Vec::new(),
            flows: HashSet::new(),
        };
        if let Err(error) = search.sift(0..batch.units.len()) {
            return Err((batch, error));
        }
        let refused = search.refused;
        if refused.is_empty() {
            return Err((batch, refusal));
        }
        Ok(self.without(batch, &refused))
    }

    fn without(&self, mut batch: Batch, refused: &[(usize, String)]) -> Batch {
        let held: Vec<(FlowId, usize, &str)> = refused
            .iter()
            .map(|(place, reason)| (batch.units[*place].flow, *place, reason.as_str()))
            .collect();
        let head = batch.head();
        let rest = batch.writes.split_off(batch.spans.last().map_or(0, |span| span.end));
        let mut writes = Vec::with_capacity(batch.writes.len() + rest.len());
        let mut spans = Vec::with_capacity(batch.spans.len());
        let mut units = Vec::with_capacity(batch.units.len());
        let mut out: HashMap<FlowId, Vec<(Prepared, Vec<Write>)>> = HashMap::new();
        let mut all = batch.writes.into_iter();
        writes.extend(all.by_ref().take(head));
        for ((place, unit), span) in batch.units.into_iter().enumerate().zip(batch.spans) {
            let own = all.by_ref().take(span.len());
            // Units of the same flow before the refused one stay.
            if held.iter().any(|(flow, first, _)| *flow == unit.flow && place >= *first) {
                out.entry(unit.flow).or_default().push((unit, own.collect()));
            } else {
                let first = writes.len();
                writes.extend(own);
                spans.push(first..writes.len());
                units.push(unit);
            }
        }
        let mut replaced = Replaced { writes, ..Replaced::default() };
        for (flow, _, reason) in held {
            self.hold(flow, out.remove(&flow).unwrap_or_default(), reason, &mut replaced);
        }
        let Replaced { mut writes, silenced, set_aside } = replaced;
        for (peer, number, message) in &mut batch.sends {
            if silenced.contains(&(peer.clone(), *number)) {
                *message = nothing();
            }
        }
        writes.extend(rest);
        Batch { writes, units, spans, set_aside: Some(set_aside), ..batch }
    }

    /// Writes that a flow is held, in the place of units that cannot be written.
    fn hold(&self, flow: FlowId, units: Vec<(Prepared, Vec<Write>)>, reason: &str, replaced: &mut Replaced) {
        let Replaced { writes, silenced, set_aside } = replaced;
        let Some((first, _)) = units.first() else { return };
        let number = first.number;
        tracing::error!(%flow, unit = number, reason, "the database refuses what a flow did; the flow is held");
        let mut waiting = Vec::new();
        let reason = format!("the database refuses what the flow did: {reason}");
        let unread = self.engine.set_back(flow, number, &reason, || waiting = self.desk.take_units(flow));
        let is_held = unread.is_some();
        let mut arrivals = Vec::new();
        let waiting = waiting.into_iter().map(|mut unit| {
            let own = std::mem::take(&mut unit.writes);
            (unit, own)
        });
        for (unit, own) in units.into_iter().chain(waiting) {
            self.desk.withdraw(&unit);
            for write in own {
                match write {
                    Write::FlowStarted(start) | Write::FlowEndedAtOnce { flow: start, .. } if is_held => {
                        writes.push(Write::FlowStarted(start));
                        set_aside.started.push(flow);
                    }
                    Write::Arrival { .. } => arrivals.push(write),
                    // Numbers of messages have no gap, or the peer would take none that follow.
                    Write::Send { peer, number, .. } => {
                        silenced.insert((peer.clone(), number));
                        writes.push(Write::Send { peer, number, message: nothing() });
                    }
                    _ => {}
                }
            }
            arrivals.extend(unit.arrivals);
        }
        if !is_held {
            return;
        }
        for arrival in unread.unwrap_or_default() {
            // What the engine told the flow itself came in no message.
            if arrival.ticket != 0 {
                set_aside.tickets.push(arrival.ticket);
            }
            arrivals.push(arrival_write(flow, arrival));
        }
        writes.append(&mut arrivals);
        writes.push(Write::Steps { flow: flow.0, unit: number, entries: Vec::new() });
        writes.push(Write::FlowMarked { flow: flow.0, mark: Mark::Held { reason } });
    }
}

/// A message that says nothing, of a session that nobody is in.
fn nothing() -> Vec<u8> {
    Message { session: SessionId([0; 16]), number: 1, last: true, body: Body::End }.encode()
}
