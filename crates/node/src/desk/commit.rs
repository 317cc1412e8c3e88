//! From units of flows to batches of the store, and from durable batches to the world.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tally_contracts::{AttachmentId, Name, SignedTransaction, StateRef, TransactionId};
use tally_flows::{Arrival, FlowError, FlowId, LedgerWrite, Mark, Outcome, Unit};
use tally_messaging::QueueId;
use tally_store::{Consent, NewFlow, Produced, Recorded, StoreError, Unresolved, Write};

use super::inbound::Progress;
use super::recent::part_key;
use super::{Desk, full_text, lock};

/// Units in one batch at most: what is durable first is not kept waiting by what came long after.
const UNITS: usize = 4096;
/// How long a change that nobody waits for may wait for others.
const LINGER: Duration = Duration::from_millis(20);

/// Told when an attachment is durable, or why it is not.
pub(crate) type Stored = Box<dyn FnOnce() + Send>;

/// Told whether the store can be used, or why not.
pub(crate) type Probe = Box<dyn FnOnce(Result<(), String>) + Send>;

/// A unit as the store and the world will see it.
pub(crate) struct Prepared {
    pub(crate) flow: FlowId,
    /// Which of the flow's units it is.
    pub(crate) number: u64,
    pub(crate) starts: bool,
    pub(crate) writes: Vec<Write>,
    pub(crate) sends: Vec<(Name, Vec<u8>)>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) recorded: Vec<Arc<SignedTransaction>>,
    pub(crate) kept: Vec<TransactionId>,
    pub(crate) attached: Vec<AttachmentId>,
    pub(crate) notarised: Vec<StateRef>,
    /// Messages that arrived for a flow which ends with this unit: written only if the unit is set aside.
    pub(crate) arrivals: Vec<Write>,
    /// States that their notary has given to a transaction which is not recorded here.
    pub(crate) lost: Vec<StateRef>,
    /// Consumed by what is not recorded here.
    pub(crate) elsewhere: Vec<StateRef>,
    /// The node is recovered once this is durable.
    pub(crate) recovered: bool,
}

#[derive(Default)]
pub(crate) struct Queue {
    pending: Mutex<Pending>,
    ready: Condvar,
}

#[derive(Default)]
struct Pending {
    units: Vec<Prepared>,
    attachments: Vec<(AttachmentId, Vec<u8>, Stored)>,
    probes: Vec<Probe>,
    /// Changes of queues and of what is known of peers, and who is told that they are durable.
    changes: Vec<(Vec<Write>, Stored)>,
    /// The node's own standing is to be written.
    standing: bool,
    /// Since when there has been something that nobody waits for.
    lazy: Option<Instant>,
    stopped: bool,
    /// Why the store does not take anything at the moment.
    trouble: Option<String>,
}

/// What is made durable together.
pub(crate) struct Batch {
    pub(crate) writes: Vec<Write>,
    pub(crate) units: Vec<Prepared>,
    pub(crate) sends: Vec<(Name, u64, Vec<u8>)>,
    pub(crate) progress: Vec<Progress>,
    /// Which of the writes are those of each unit; what follows the last is of none.
    pub(crate) spans: Vec<Range<usize>>,
    /// What was taken out of it, once it was refused.
    pub(crate) set_aside: Option<SetAside>,
    pub(crate) attachments: Vec<Stored>,
    /// Queues that begin anew: to one peer, or all of them if `None`.
    pub(crate) anew: Vec<Option<Name>>,
    /// The node's own standing, if it is written.
    pub(crate) standing: Option<super::past::Standing>,
}

impl Batch {
    /// How many writes come before those of the first unit.
    pub(crate) fn head(&self) -> usize {
        self.spans.first().map_or(0, |span| span.start)
    }
}

/// What a batch holds in the place of units that the store refuses.
#[derive(Default)]
pub(crate) struct SetAside {
    /// Flows whose start is written with it.
    pub(crate) started: Vec<FlowId>,
    /// Messages that are written with it and were in no unit.
    pub(crate) tickets: Vec<u64>,
}

/// A message that arrived for a flow, as the store keeps it.
pub(crate) fn arrival_write(flow: FlowId, arrival: Arrival) -> Write {
    Write::Arrival {
        flow: flow.0,
        session: arrival.session.0,
        number: arrival.number,
        message: arrival.message,
    }
}

impl Queue {
    /// Units that are not durable yet.
    pub(crate) fn len(&self) -> usize {
        lock(&self.pending).units.len()
    }

    /// Why the store takes nothing, while it does not.
    pub(crate) fn trouble(&self) -> Option<String> {
        lock(&self.pending).trouble.clone()
    }

    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        lock(&self.pending).trouble = trouble;
    }

    pub(crate) fn store_attachment(&self, id: AttachmentId, bytes: Vec<u8>, stored: Stored) {
        lock(&self.pending).attachments.push((id, bytes, stored));
        self.ready.notify_one();
    }

    /// Somebody wants to know whether the store can be used.
    pub(crate) fn probe(&self, probe: Probe) {
        lock(&self.pending).probes.push(probe);
        self.ready.notify_one();
    }

    pub(crate) fn take_probes(&self) -> Vec<Probe> {
        std::mem::take(&mut lock(&self.pending).probes)
    }

    /// Changes of queues and of what is known of peers; durable after every unit submitted before.
    pub(crate) fn change(&self, writes: Vec<Write>, then: Stored) {
        lock(&self.pending).changes.push((writes, then));
        self.ready.notify_one();
    }

    /// The node's own standing has changed.
    pub(crate) fn write_standing(&self) {
        lock(&self.pending).standing = true;
        self.ready.notify_one();
    }

    /// There is something that can wait a little.
    pub(crate) fn soon(&self) {
        let mut pending = lock(&self.pending);
        if pending.lazy.is_none() {
            pending.lazy = Some(Instant::now());
            self.ready.notify_one();
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.pending).stopped
    }

    pub(crate) fn stop(&self) {
        lock(&self.pending).stopped = true;
        self.ready.notify_all();
    }

    /// Waits until there is a batch to make; `false` when the node stops and nothing is left.
    pub(crate) fn wait(&self) -> bool {
        let mut pending = lock(&self.pending);
        loop {
            let changes = pending.standing || !pending.changes.is_empty() || !pending.probes.is_empty();
            if changes || !pending.units.is_empty() || !pending.attachments.is_empty() {
                return true;
            }
            if pending.stopped {
                return pending.lazy.is_some();
            }
            match pending.lazy.map(|since| LINGER.saturating_sub(since.elapsed())) {
                Some(left) if left.is_zero() => return true,
                Some(left) => {
                    pending =
                        self.ready.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                None => pending = self.ready.wait(pending).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Desk {
    /// Turns a unit into writes, on the thread that ran the flow, and queues it.
    pub(super) fn enqueue(&self, unit: Unit) {
        let at = self.now();
        let flow = unit.flow;
        let ends = unit.outcome.is_some();
        let starts = unit.start.is_some();
        let mut writes = Vec::with_capacity(4 + unit.arrivals.len() + unit.writes.len());
        let start = unit.start.map(|start| NewFlow {
            flow: start.flow.0,
            name: start.name.to_string(),
            version: start.version,
            arguments: start.arguments,
            origin: borsh::to_vec(&start.origin).expect("an origin is written to memory"),
            seed: start.seed,
            at: start.at,
        });
        let outcome = unit
            .outcome
            .as_ref()
            .map(|outcome| borsh::to_vec(outcome).expect("an outcome is written to memory"));
        match (start, outcome) {
            (Some(start), Some(outcome)) => writes.push(Write::FlowEndedAtOnce { flow: start, outcome, at }),
            (Some(start), None) => writes.push(Write::FlowStarted(start)),
            (None, Some(outcome)) => writes.push(Write::FlowEnded { flow: flow.0, outcome, at }),
            (None, None) => {}
        }
        let mut tickets = Vec::with_capacity(unit.arrivals.len());
        let mut arrivals = Vec::new();
        for arrival in unit.arrivals {
            // What the engine tells a flow itself came in no message.
            if arrival.ticket != 0 {
                tickets.push(arrival.ticket);
            }
            if ends { &mut arrivals } else { &mut writes }.push(arrival_write(flow, arrival));
        }
        if !ends {
            // Written even when empty, so that the numbers of a flow's units have no gap.
            writes.push(Write::Steps { flow: flow.0, unit: unit.number, entries: unit.steps });
        }
        if let Some(mark) = unit.mark.filter(|_| !ends) {
            let mark = match mark {
                Mark::Running => tally_store::Mark::Running,
                Mark::Paused => tally_store::Mark::Paused,
                Mark::Held { reason } => {
                    tracing::warn!(flow = %flow, reason, "a flow is held for a person");
                    tally_store::Mark::Held { reason }
                }
            };
            writes.push(Write::FlowMarked { flow: flow.0, mark });
        }
        let mut prepared = Prepared {
            flow,
            number: unit.number,
            arrivals,
            starts,
            writes,
            sends: Vec::with_capacity(unit.sends.len()),
            outcome: unit.outcome,
            recorded: Vec::new(),
            kept: Vec::new(),
            attached: Vec::new(),
            notarised: Vec::new(),
            lost: Vec::new(),
            elsewhere: Vec::new(),
            recovered: false,
        };
        if let Some(Err(FlowError::Conflict { state, consumed_by })) = prepared.outcome {
            self.lose(&mut prepared, state, consumed_by);
        }
        for write in unit.writes {
            self.prepare(&mut prepared, write, ends, at);
        }
        prepared.sends.extend(unit.sends.into_iter().map(|(peer, message)| (peer, message.encode())));
        let mut pending = lock(&self.queue.pending);
        if !prepared.recorded.is_empty() {
            let mut recent = lock(&self.recent);
            for transaction in &prepared.recorded {
                recent.submit(transaction);
            }
        }
        if !tickets.is_empty() {
            let mut inbound = lock(&self.inbound);
            for ticket in tickets {
                inbound.settle(ticket);
            }
        }
        pending.units.push(prepared);
        drop(pending);
        self.queue.ready.notify_one();
    }

    /// Takes the units of a flow that wait, without making anything of them.
    pub(crate) fn take_units(&self, flow: FlowId) -> Vec<Prepared> {
        let mut pending = lock(&self.queue.pending);
        if !pending.units.iter().any(|unit| unit.flow == flow) {
            return Vec::new();
        }
        let (taken, left) =
            std::mem::take(&mut pending.units).into_iter().partition(|unit| unit.flow == flow);
        pending.units = left;
        taken
    }

    /// Forgets what a unit that is set aside showed to other flows.
    pub(crate) fn withdraw(&self, unit: &Prepared) {
        let mut recent = lock(&self.recent);
        for transaction in &unit.recorded {
            recent.withdraw(&transaction.id());
        }
        recent.end(unit.flow);
    }

    /// A flow ended with its notary's word that a state is consumed: no other flow tries it again. The word counts for
    /// states that the flow held to consume them, which are all of that notary; of any other it may be a lie.
    fn lose(&self, prepared: &mut Prepared, state: StateRef, by: TransactionId) {
        if lock(&self.vault).holder(&state) != Some(prepared.flow) {
            return;
        }
        tracing::warn!(flow = %prepared.flow, %state, consumed_by = %by, "a state is set aside: its notary says that it is consumed");
        prepared.writes.push(Write::Lost { state, by });
        prepared.lost.push(state);
    }

    fn prepare(
        &self,
        prepared: &mut Prepared,
        write: LedgerWrite,
        ends: bool,
        at: tally_contracts::Timestamp,
    ) {
        let flow = prepared.flow.0;
        match write {
            LedgerWrite::Record(signed) => {
                let transaction = signed.transaction();
                let mut produced = Vec::new();
                for (index, state) in (0..).zip(transaction.outputs()) {
                    // A state that no contract here understands cannot be spent from here either.
                    let Ok(Some(summary)) = self.parts.contracts.describe(state) else { continue };
                    if summary.participants.iter().any(|key| self.own.contains(key)) {
                        produced.push(Produced { index, state: state.clone(), summary });
                    }
                }
                prepared.writes.push(Write::Transaction(Recorded {
                    id: signed.id(),
                    bytes: signed.encode(),
                    consumed: transaction.inputs().to_vec(),
                    produced,
                    at,
                }));
                prepared.recorded.push(signed);
            }
            LedgerWrite::Keep(signed) => {
                prepared.kept.push(signed.id());
                if !ends {
                    prepared.writes.push(Write::Dependency { flow, id: signed.id(), bytes: signed.encode() });
                }
            }
            LedgerWrite::KeepPart(part) => {
                let id = part_key(part.attachment, part.number);
                prepared.kept.push(id);
                if !ends {
                    prepared.writes.push(Write::Dependency { flow, id, bytes: part.bytes.to_vec() });
                }
            }
            LedgerWrite::Consent { rule, quantity, at } => {
                prepared.writes.push(Write::Consented(Consent { flow, rule, quantity, at }));
            }
            LedgerWrite::Attach(attachment) => {
                let id = attachment.id();
                prepared.attached.push(id);
                prepared.writes.push(Write::Attachment { id, bytes: attachment.content().to_vec() });
            }
            LedgerWrite::Hold(states) if !ends => prepared.writes.push(Write::Lock { flow, states }),
            LedgerWrite::Release(states) if !ends => prepared.writes.push(Write::Unlock { flow, states }),
            LedgerWrite::Hold(_) | LedgerWrite::Release(_) => {}
            LedgerWrite::Undelivered { transaction, party, reason } => {
                prepared.writes.push(Write::Undelivered { transaction, party, at, reason });
            }
            LedgerWrite::Delivered { transaction, party } => {
                prepared.writes.push(Write::Delivered { transaction, party });
            }
            LedgerWrite::Unresolved { transaction, told, reason } => {
                prepared.writes.push(Write::Unresolved(Unresolved {
                    transaction: transaction.id(),
                    bytes: transaction.encode(),
                    told: borsh::to_vec(&told).expect("names are written to memory"),
                    at,
                    reason,
                }));
            }
            LedgerWrite::Resolved(transaction) => prepared.writes.push(Write::Resolved(transaction)),
            LedgerWrite::ConsumedElsewhere(states) => {
                for (state, by) in states {
                    prepared.writes.push(Write::ConsumedElsewhere { state, by, at });
                    prepared.elsewhere.push(state);
                }
            }
            LedgerWrite::Recovered => {
                prepared.writes.push(Write::Recovered);
                prepared.recovered = true;
            }
            LedgerWrite::Consume { states, by, requester } => {
                for state in &states {
                    prepared.writes.push(Write::Consumed {
                        state: *state,
                        by,
                        requester: requester.clone(),
                        at,
                    });
                }
                prepared.notarised.extend(states);
            }
        }
    }

    /// A message that needs nothing durable was dealt with.
    pub(crate) fn settle(&self, ticket: u64) {
        lock(&self.inbound).settle(ticket);
        self.queue.soon();
    }

    /// What waits to be made durable, if anything does.
    pub(crate) fn take_batch(&self) -> Option<Batch> {
        let mut pending = lock(&self.queue.pending);
        let mut units = if pending.units.len() > UNITS {
            let rest = pending.units.split_off(UNITS);
            std::mem::replace(&mut pending.units, rest)
        } else {
            std::mem::take(&mut pending.units)
        };
        let mut writes =
            Vec::with_capacity(units.iter().map(|unit| unit.writes.len() + unit.sends.len()).sum());
        let mut anew = Vec::new();
        let mut stored = Vec::new();
        let mut standing = std::mem::take(&mut pending.standing);
        if pending.units.is_empty() {
            for (changes, then) in std::mem::take(&mut pending.changes) {
                self.begin_anew(&changes, &mut anew);
                writes.extend(changes);
                stored.push(then);
            }
        }
        let mut progress = Vec::new();
        // What is settled belongs to units taken now or before, unless some are left for the next batch.
        if pending.units.is_empty() {
            lock(&self.inbound).take_settled(&mut progress);
            pending.lazy = None;
        }
        let attachments = std::mem::take(&mut pending.attachments);
        drop(pending);

        if units.iter().any(|unit| unit.recovered) {
            lock(&self.past).recovered();
            standing = true;
        }
        let standing = {
            let past = lock(&self.past);
            writes.extend(past.write().filter(|_| standing));
            past.own().filter(|_| standing)
        };
        let mut sends = Vec::new();
        let mut spans = Vec::with_capacity(units.len());
        {
            let now = (self.parts.clock)();
            let mut outbound = lock(&self.outbound);
            for unit in &mut units {
                let first = writes.len();
                writes.append(&mut unit.writes);
                for (peer, message) in unit.sends.drain(..) {
                    let number = outbound.number(&peer, message.len(), now);
                    writes.push(Write::Send { peer: peer.clone(), number, message: message.clone() });
                    sends.push((peer, number, message));
                }
                spans.push(first..writes.len());
            }
            for (peer, up_to) in outbound.take_acknowledged() {
                writes.push(Write::Acknowledged { peer, up_to });
            }
        }
        for Progress { peer, queue, up_to } in &progress {
            writes.push(Write::Received { peer: peer.clone(), queue: queue.0, up_to: *up_to });
        }
        stored.reserve(attachments.len());
        for (id, bytes, then) in attachments {
            writes.push(Write::Attachment { id, bytes });
            stored.push(then);
        }
        if writes.is_empty() && units.is_empty() {
            return None;
        }
        let set_aside = None;
        Some(Batch { writes, units, sends, progress, spans, set_aside, attachments: stored, anew, standing })
    }

    /// Numbers that are given out from now on are those of queues that begin anew.
    fn begin_anew(&self, changes: &[Write], anew: &mut Vec<Option<Name>>) {
        for change in changes {
            match change {
                Write::Renewed { own } => {
                    lock(&self.outbound).renew(QueueId(*own));
                    lock(&self.inbound).renew();
                    anew.push(None);
                }
                Write::QueueAnew { peer, queue } => {
                    lock(&self.outbound).anew(peer, QueueId(*queue));
                    anew.push(Some(peer.clone()));
                }
                Write::Acquainted { peer, only: Some(queue), .. } => {
                    lock(&self.inbound).only(peer, QueueId(*queue));
                }
                _ => {}
            }
        }
    }

    /// A batch is durable: memory that stood for it is given up, and those who wait are told.
    pub(crate) fn settle_batch(&self, batch: &mut Batch) {
        self.units.fetch_add(batch.units.len() as u64, Ordering::Relaxed);
        {
            let mut recent = lock(&self.recent);
            let mut vault = lock(&self.vault);
            for unit in &mut batch.units {
                for signed in unit.recorded.drain(..) {
                    vault.consumed(signed.transaction().inputs());
                    recent.recorded(unit.flow, signed);
                }
                vault.consumed(&unit.elsewhere);
                for id in &unit.kept {
                    recent.kept_durably(unit.flow, id);
                }
                for id in &unit.attached {
                    recent.attached_durably(unit.flow, id);
                }
                vault.consumed(&unit.lost);
                if let Some(outcome) = &unit.outcome {
                    vault.release_all(unit.flow, outcome.is_err());
                    recent.end(unit.flow);
                } else {
                    recent.tidy(unit.flow);
                }
            }
            // Change has arrived, or what was held is free.
            vault.wake_first();
            self.note_ready(&vault);
        }
        {
            let mut notary = lock(&self.notary);
            for unit in &batch.units {
                notary.durable(&unit.notarised);
            }
        }
        {
            let mut outbound = lock(&self.outbound);
            for (peer, number, _) in &batch.sends {
                outbound.durable(peer, *number);
            }
        }
        {
            let mut inbound = lock(&self.inbound);
            for progress in &batch.progress {
                inbound.durable(progress);
            }
        }
        let set_aside = batch.set_aside.take().unwrap_or_default();
        for ticket in set_aside.tickets {
            self.settle(ticket);
        }
        if let Some(standing) = &batch.standing {
            lock(&self.past).durable(&self.parts.me.name, &self.parts.key, standing);
        }
        let mut finished = Vec::new();
        {
            let mut watch = lock(&self.watch);
            for flow in set_aside.started {
                watch.started(flow);
            }
            for unit in &batch.units {
                if unit.starts {
                    watch.started(unit.flow);
                }
                if let Some(outcome) = &unit.outcome {
                    finished.extend(watch.ended(unit.flow, outcome));
                }
            }
        }
        for step in &finished {
            self.meters.step(step);
        }
        for stored in batch.attachments.drain(..) {
            stored();
        }
    }

    /// Applies a batch.
    pub(crate) fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        let began = Instant::now();
        let result = self.parts.store.apply(&batch.writes);
        self.meters.applied(batch.units.len(), batch.writes.len(), began.elapsed());
        match &result {
            Ok(()) => self.queue.set_trouble(None),
            Err(error) => self.queue.set_trouble(Some(full_text(error))),
        }
        result
    }
}
