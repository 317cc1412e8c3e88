//! An assembler as a shard. What it decided is in its decisions; what it had counted without deciding it counts again.

use super::layout::{Bindings, Layout, Role};
use super::shard::{Opened, Resumable, Shard, ShardError, Stop, write_numbers};
use super::state::State;
use crate::message::{ApprovalBatch, DecisionBatch, Source};
use crate::runtime::executor::{Signal, Stage};
use crate::runtime::feed::Cursor;
use crate::runtime::shell::{AssemblerShell, DECISIONS_STREAM};
use crate::runtime::topic::Topic;
use crate::runtime::under_way::UnderWay;
use crate::stage::Assembler;
use crate::stage::assembler::Finished;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tally_ledger::wire::{DecodeError, Reader as Bytes, write, write_count};
use tally_ledger::{Network, Timestamp};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{Log, TopicId};

struct Assembling {
    shell: AssemblerShell,
    log: Arc<dyn SharedLog>,
    cursors: Vec<Cursor>,
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
    let withdrawals: Vec<_> =
        (0..layout.gateways).map(|gateway| bindings.reads(layout.withdrawals(gateway, shard))).collect();
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
    let mut assembler = Assembler::one_of(Arc::clone(network), assemblers, finished, recorded.clock);
    let mut under_way = UnderWay::default();

    // What was decided of the batches that are not finished, and where.
    let mut decided: HashMap<Source, (u64, BTreeSet<u32>)> = HashMap::new();
    let until = opened.log.next(decisions).0;
    opened.read(decisions, recorded.low(approvals.len())..until, |position, batch: DecisionBatch| {
        let (_, indices) = decided.entry(batch.source).or_insert_with(|| (position, BTreeSet::new()));
        indices.extend(batch.indices);
        Ok(())
    })?;
    // The approvals that were counted, again. Nothing can be decided by them that was not.
    for (participant, id) in (0u16..).zip(&approvals) {
        let at = usize::from(participant);
        opened.read(*id, recorded.low(at)..recorded.next(at), |position, batch: ApprovalBatch| {
            let source = batch.source;
            if assembler.is_finished(source) {
                return Ok(());
            }
            if let Some((first, indices)) = decided.get(&source)
                && !assembler.is_open(source)
            {
                assembler.reopen(source, batch.source_len, |index| indices.contains(&index));
                under_way.note(source, DECISIONS_STREAM, *first);
            }
            let again = assembler.count(recorded.clock, &batch);
            if again.is_ok_and(|again| !again.indices.is_empty()) {
                return Err(opened.history(format!("answers to {source:?} decide what was not decided")));
            }
            if assembler.is_open(source) {
                under_way.note(source, participant, position);
            }
            Ok(())
        })?;
    }

    let signal = Arc::new(Signal::default());
    let log: Arc<dyn Log> = Arc::clone(&opened.log) as Arc<dyn Log>;
    let (reader, cursors) = opened.follow(&approvals, |at| recorded.next(at), None);
    // From now on: who asked before asks again.
    let (withdrawals, _) =
        opened.follow(&withdrawals, |at| opened.log.next(withdrawals[at]).0, Some(Arc::clone(&opened.aside)));
    let shell = AssemblerShell {
        state: assembler,
        approvals: reader,
        withdrawals,
        decisions: Topic::logged("decisions", 1, log, decisions, &signal),
        on_not_counted: Box::new(|why| tracing::error!(%why, "answers that count for nothing")),
        looked: Timestamp(0),
        under_way,
    };
    let assembling = Assembling { shell, log: Arc::clone(&opened.log), cursors, decisions };
    Ok(Shard::new(opened, Box::new(assembling), Some(state), dead_letters))
}

impl Resumable for Assembling {
    fn stage(&mut self) -> &mut dyn Stage {
        &mut self.shell
    }

    fn state(&mut self) -> Option<State> {
        let next: Vec<u64> = self.cursors.iter().map(Cursor::next).collect();
        let under_way = &self.shell.under_way;
        let mut low: Vec<u64> = (0u16..).zip(&next).map(|(feed, next)| under_way.low(feed, *next)).collect();
        low.push(under_way.low(DECISIONS_STREAM, self.log.next(self.decisions).0));
        let more = encode_finished(self.shell.state.finished());
        Some(State { clock: self.shell.state.clock(), next, low, more })
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
