//! A scheduler as a shard. What it accepted is its memory: it reads that again from the oldest batch of which a
//! reference may still be remembered.

use super::layout::{Bindings, Layout, Role};
use super::shard::{Opened, Resumable, Shard, ShardError, Stop};
use super::state::State;
use crate::message::{AcceptedBatch, SequenceBatch, Source};
use crate::recent::may_be_remembered;
use crate::runtime::executor::{Signal, Stage};
use crate::runtime::feed::{Cursor, Feeds, UnreadableRecords};
use crate::runtime::shell::SchedulerShell;
use crate::runtime::topic::{Reader, Topic};
use crate::stage::Scheduler;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tally_ledger::{Network, Timestamp};
use tally_log::Log;
use tally_log::cluster::{Cluster, SharedLog};

struct Scheduling {
    shell: SchedulerShell,
    log: Arc<dyn SharedLog>,
    accepted: tally_log::TopicId,
    cursors: Vec<Cursor>,
    sequence: Cursor,
    remembered: VecDeque<Remembered>,
}

/// An accepted batch of which a reference may be remembered.
struct Remembered {
    number: u64,
    /// Until when.
    expires: Timestamp,
    /// From which record of the sequence on decisions on it come.
    decided_from: u64,
}

/// Opens scheduler number `shard`. It remembers at most `remember` references; `key` is a secret of this process.
///
/// # Errors
/// When the shard cannot be recovered.
pub fn open(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Arc<Network>,
    shard: u16,
    (remember, key): (usize, [u64; 2]),
    now: Timestamp,
    stop: &Stop,
) -> Result<Shard, ShardError> {
    let mut bindings = Bindings::default();
    let submissions: Vec<_> =
        (0..layout.gateways).map(|gateway| bindings.reads(layout.transactions(gateway, shard))).collect();
    let intake: Vec<_> =
        (0..layout.gateways).map(|gateway| bindings.writes(layout.intake(shard, gateway))).collect();
    let sequence = bindings.reads(layout.sequence());
    let accepted = bindings.writes(layout.accepted(shard));
    let participations: Vec<_> =
        (0..layout.assemblers).map(|a| bindings.writes(layout.participations(shard, a))).collect();
    let proposals: Vec<_> =
        layout.everybody().map(|participant| bindings.writes(layout.proposals(participant, shard))).collect();
    let state = bindings.writes(layout.state(Role::Scheduler, shard));
    let dead_letters = bindings.writes(layout.dead_letters(Role::Scheduler, shard));
    let opened = Opened::open(cluster, layout, (Role::Scheduler, shard), bindings, stop)?;

    let recorded = opened.state(state, now)?;
    let next = opened.log.next(accepted).0;
    let from = recorded.low(0).max(opened.log.first(accepted).0).min(next);
    let instance = u64::from(shard);
    let mut scheduler = Scheduler::new(Arc::clone(network), instance, from, remember, key)
        .among(usize::from(layout.schedulers));
    let mut remembered = VecDeque::new();
    // The record's columns: next are the submissions by gateway, then the sequence; low are the oldest accepted batch of which
    // a reference may be remembered, then the first record of the sequence that may decide it.
    let (decided_from, decided_until) = (recorded.low(1), recorded.next(submissions.len()));
    opened.read(accepted, from..next, |number, batch: AcceptedBatch| {
        let expires = batch.expires();
        if may_be_remembered(expires, now) {
            scheduler.restore(Source::new(instance, number), &batch);
            remembered.push_back(Remembered { number, expires, decided_from });
        }
        Ok(())
    })?;
    opened.read(sequence, decided_from..decided_until, |_, batch: SequenceBatch| {
        scheduler.learn(&batch);
        Ok(())
    })?;
    scheduler.go_on(next, recorded.clock);

    let signal = Arc::new(Signal::default());
    let log: Arc<dyn Log> = Arc::clone(&opened.log) as Arc<dyn Log>;
    let aside = UnreadableRecords::SetAside(Arc::clone(&opened.aside));
    let (reader, cursors) = opened.follow(&submissions, |at| recorded.next(at), aside);
    let decided = Cursor::new(decided_until);
    let of_sequence = [(sequence, opened.partition(sequence), decided.clone())];
    let shell = SchedulerShell {
        instance,
        state: Arc::new(Mutex::new(scheduler)),
        submissions: reader,
        sequence: Reader::shared(Feeds::new(Arc::clone(&opened.log), of_sequence, UnreadableRecords::Stop)),
        intake: intake.iter().map(|id| Topic::logged("intake", 1, Arc::clone(&log), *id, &signal)).collect(),
        accepted: Topic::logged("accepted", 1, Arc::clone(&log), accepted, &signal),
        participations: participations
            .iter()
            .map(|id| Topic::logged("participations", 1, Arc::clone(&log), *id, &signal))
            .collect(),
        proposals: proposals
            .iter()
            .map(|id| Topic::logged("proposals", 1, Arc::clone(&log), *id, &signal))
            .collect(),
        waiting: None,
    };
    let log = Arc::clone(&opened.log);
    let scheduling = Scheduling { shell, log, accepted, cursors, sequence: decided, remembered };
    Ok(Shard::new(opened, Box::new(scheduling), Some(state), dead_letters))
}

impl Resumable for Scheduling {
    fn stage(&mut self) -> &mut dyn Stage {
        &mut self.shell
    }

    fn state(&mut self) -> Option<State> {
        let (clock, accepted) = {
            let mut scheduler = self.shell.state.lock().expect("no step panics and goes on");
            (scheduler.clock(), scheduler.take_accepted())
        };
        // Decisions on what was accepted since come after those that have been read.
        let decided_from = self.sequence.next();
        let remember = |(number, expires)| Remembered { number, expires, decided_from };
        self.remembered.extend(accepted.into_iter().map(remember));
        while self.remembered.front().is_some_and(|first| !may_be_remembered(first.expires, clock)) {
            self.remembered.pop_front();
        }
        let first = self.remembered.front();
        let low = vec![
            first.map_or_else(|| self.log.next(self.accepted).0, |first| first.number),
            first.map_or(decided_from, |first| first.decided_from),
        ];
        let mut next: Vec<u64> = self.cursors.iter().map(Cursor::next).collect();
        next.push(decided_from);
        Some(State { clock, next, low, more: Vec::new() })
    }
}
