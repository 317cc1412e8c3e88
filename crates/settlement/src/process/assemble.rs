//! An assembler as a shard. What it decided is in its decisions; what it had counted without deciding it counts again.

use super::layout::{Bindings, Layout, Role};
use super::shard::{Opened, Resumable, Shard, ShardError, Stop, write_numbers};
use super::state::State;
use crate::message::{ApprovalBatch, DecisionBatch, Message as _, ParticipationBatch, Source};
use crate::runtime::executor::{Signal, Stage};
use crate::runtime::feed::{Cursor, RecordFault, SetAside, UnreadableRecords, breaks_the_count};
use crate::runtime::shell::{AssemblerShell, DECISIONS_STREAM, Held, PARTICIPATIONS_STREAM};
use crate::runtime::topic::Topic;
use crate::runtime::under_way::UnderWay;
use crate::stage::Assembler;
use crate::stage::assembler::{Finished, NotCounted};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tally_ledger::wire::{DecodeError, Reader as Bytes, write, write_count};
use tally_ledger::{Network, Timestamp};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{Log, TopicId};

struct Assembling {
    shell: AssemblerShell,
    log: Arc<dyn SharedLog>,
    /// By scheduler.
    participations: Vec<Cursor>,
    /// By participant.
    approvals: Vec<Cursor>,
    decisions: TopicId,
}

/// Opens assembler number `shard`.
///
/// # Errors
/// When the shard cannot be recovered.
pub fn open(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Arc<Network>,
    shard: u16,
    now: Timestamp,
    stop: &Stop,
) -> Result<Shard, ShardError> {
    let mut bindings = Bindings::default();
    let approvals: Vec<_> =
        layout.everybody().map(|participant| bindings.reads(layout.approvals(participant, shard))).collect();
    let participations: Vec<_> =
        (0..layout.schedulers).map(|s| bindings.reads(layout.participations(s, shard))).collect();
    let withdrawals: Vec<_> =
        (0..layout.gateways).map(|gateway| bindings.reads(layout.withdrawals(gateway, shard))).collect();
    let consents: Vec<_> =
        layout.everybody().map(|participant| bindings.writes(layout.consents(participant, shard))).collect();
    let decisions = bindings.writes(layout.decisions(shard));
    let state = bindings.writes(layout.state(Role::Assembler, shard));
    let dead_letters = bindings.writes(layout.dead_letters(Role::Assembler, shard));
    let opened = Opened::open(cluster, layout, (Role::Assembler, shard), bindings, stop)?;

    let recorded = opened.state(state, now)?;
    let finished = if recorded.more.is_empty() {
        HashMap::new()
    } else {
        let broken = |error| opened.history(format!("what the assembler recorded cannot be read: {error}"));
        decode_finished(&recorded.more).map_err(broken)?
    };
    let assemblers = u64::from(layout.assemblers);
    let mut assembler =
        Assembler::one_of(Arc::clone(network), assemblers, finished, recorded.clock).with_consents();
    let mut under_way = UnderWay::default();

    // The record's columns: next are the participations by scheduler, then the approvals by participant; low are the same,
    // then its own decisions.
    let schedulers = participations.len();

    // What was decided of the batches that are not finished, and where.
    let mut decided: HashMap<Source, (u64, BTreeSet<u32>)> = HashMap::new();
    let until = opened.log.next(decisions).0;
    let from = recorded.low(schedulers + approvals.len());
    opened.read(decisions, from..until, |position, batch: DecisionBatch| {
        let (_, indices) = decided.entry(batch.source).or_insert_with(|| (position, BTreeSet::new()));
        indices.extend(batch.indices);
        Ok(())
    })?;
    for (scheduler, id) in (0u16..).zip(&participations) {
        let at = usize::from(scheduler);
        opened.read(*id, recorded.low(at)..recorded.next(at), |position, batch: ParticipationBatch| {
            let source = batch.source;
            if assembler.is_finished(source) {
                return Ok(());
            }
            let before = decided.get(&source);
            let is_decided = |index| before.is_some_and(|(_, indices)| indices.contains(&index));
            assembler.reopen(Arc::new(batch), is_decided);
            if assembler.is_open(source) {
                under_way.note(source, PARTICIPATIONS_STREAM + scheduler, position);
                if let Some((first, _)) = before {
                    under_way.note(source, DECISIONS_STREAM, *first);
                }
            }
            Ok(())
        })?;
    }
    // The approvals that were counted, again. What cannot be read, or does not count, was set aside. Answers to a batch that
    // was unknown when they came were set aside as well and may count now: what they decide is decided when the shard runs.
    let mut recovered = Vec::new();
    for (participant, id) in (0u16..).zip(&approvals) {
        let at = schedulers + usize::from(participant);
        let read = opened.read_bytes(*id, recorded.low(at)..recorded.next(at), |position, payload| {
            let Ok(batch) = ApprovalBatch::decode(&payload) else { return Ok(()) };
            let source = batch.source;
            if batch.participant.0 != participant || !assembler.is_open(source) {
                return Ok(());
            }
            if let Ok(decisions) = assembler.count(recorded.clock, &Arc::new(batch)) {
                if assembler.is_open(source) || !decisions.indices.is_empty() {
                    under_way.note(source, participant, position);
                }
                if !decisions.indices.is_empty() {
                    tracing::warn!(
                        shard = opened.name,
                        participant,
                        ?source,
                        "answers that were early count now"
                    );
                    recovered.push(decisions);
                }
            }
            Ok(())
        });
        match read {
            // What the member did to its own partition holds up its own transactions alone.
            Err(ShardError::Log { source, .. }) if breaks_the_count(&source) => {
                tracing::error!(shard = opened.name, participant, error = %source, "a member's answers are not counted again");
            }
            read => read?,
        }
    }

    let signal = Arc::new(Signal::default());
    let log: Arc<dyn Log> = Arc::clone(&opened.log) as Arc<dyn Log>;
    let aside = Arc::clone(&opened.aside);
    let at_scheduler = |at: usize| recorded.next(at);
    let (asked, asked_cursors) = opened.follow(&participations, at_scheduler, UnreadableRecords::Stop);
    // What a participant appends is its own: it is set aside where it cannot be read, and holds up nobody else.
    let at_participant = |at: usize| recorded.next(schedulers + at);
    let of_members = UnreadableRecords::OfMembers(Arc::clone(&aside));
    let (answers, answer_cursors) = opened.follow(&approvals, at_participant, of_members);
    // From now on: who asked before asks again.
    let of_gateways = UnreadableRecords::SetAside(Arc::clone(&aside));
    let (withdrawals, _) = opened.follow(&withdrawals, |at| opened.log.next(withdrawals[at]).0, of_gateways);
    let partitions: Vec<_> = approvals.iter().map(|id| opened.partition(*id)).collect();
    let on_not_counted = move |why: &NotCounted, feed: usize, position: u64, batch: &ApprovalBatch| {
        let mut payload = Vec::new();
        batch.encode(&mut payload);
        if let NotCounted::Contradiction { first, .. } = why {
            // Both, since either alone proves nothing.
            first.encode(&mut payload);
        }
        let partition = partitions[feed].clone();
        let set_aside = SetAside::new(partition, position, fault(why), why.to_string(), &payload);
        aside.lock().expect("no holder of the lock panics").push(set_aside);
    };
    let shell = AssemblerShell {
        shown_again: assembler.take_consents().into(),
        state: assembler,
        participations: asked,
        approvals: answers,
        answering: layout.everybody().collect(),
        held: layout.everybody().map(|_| Held::default()).collect(),
        withdrawals,
        consents: consents
            .iter()
            .map(|id| Topic::logged("consents", 1, Arc::clone(&log), *id, &signal))
            .collect(),
        decisions: Topic::logged("decisions", 1, log, decisions, &signal),
        on_not_counted: Box::new(on_not_counted),
        looked: Timestamp(0),
        recovered,
        under_way,
    };
    let assembling = Assembling {
        shell,
        log: Arc::clone(&opened.log),
        participations: asked_cursors,
        approvals: answer_cursors,
        decisions,
    };
    Ok(Shard::new(opened, Box::new(assembling), Some(state), dead_letters))
}

impl Resumable for Assembling {
    fn stage(&mut self) -> &mut dyn Stage {
        &mut self.shell
    }

    fn state(&mut self) -> Option<State> {
        let under_way = &self.shell.under_way;
        let mut next: Vec<u64> = self.participations.iter().map(Cursor::next).collect();
        let mut low: Vec<u64> =
            (PARTICIPATIONS_STREAM..).zip(&next).map(|(stream, next)| under_way.low(stream, *next)).collect();
        for (feed, cursor) in (0u16..).zip(&self.approvals) {
            // What waits for its batch is read again.
            let held = self.shell.held[usize::from(feed)].answers.as_ref();
            let position = held.map_or_else(|| cursor.next(), |held| held.position);
            low.push(under_way.low(feed, position));
            next.push(position);
        }
        low.push(under_way.low(DECISIONS_STREAM, self.log.next(self.decisions).0));
        let more = encode_finished(self.shell.state.finished());
        Some(State { clock: self.shell.state.clock(), next, low, more })
    }
}

/// What kind of fault answers have that count for nothing.
fn fault(why: &NotCounted) -> RecordFault {
    match why {
        NotCounted::UnknownParticipant(_) => RecordFault::UnknownParticipant,
        NotCounted::Foreign { .. } => RecordFault::AnothersName,
        NotCounted::UnknownBatch(..) => RecordFault::UnknownBatch,
        NotCounted::WrongLength(..) => RecordFault::WrongLength,
        NotCounted::WrongSignature(..) => RecordFault::WrongSignature,
        NotCounted::NotAsked { .. } => RecordFault::NotAsked,
        NotCounted::Contradiction { .. } => RecordFault::Contradiction,
    }
}

pub(super) fn encode_finished(finished: &HashMap<u64, Finished>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut schedulers: Vec<_> = finished.iter().collect();
    schedulers.sort_unstable_by_key(|(scheduler, _)| **scheduler);
    write_count(&mut out, schedulers.len());
    for (scheduler, finished) in schedulers {
        write(&mut out, scheduler);
        write(&mut out, &finished.below);
        write_numbers(&mut out, &finished.above.iter().copied().collect::<Vec<_>>());
    }
    out
}

pub(super) fn decode_finished(bytes: &[u8]) -> Result<HashMap<u64, Finished>, DecodeError> {
    let mut reader = Bytes::new("state of an assembler", bytes);
    let mut finished = HashMap::new();
    for _ in 0..reader.count(1 << 16)? {
        let (scheduler, below) = (reader.value()?, reader.value()?);
        let count = reader.count(1 << 20)?;
        let above = reader.values::<u64>(count)?.into_iter().collect();
        finished.insert(scheduler, Finished { below, above });
    }
    reader.end()?;
    Ok(finished)
}
