//! A scheduler as a shard. What it accepted is its memory: it reads that again from the oldest batch of which a
//! reference may still be remembered.

use super::layout::{Bindings, Layout, Role};
use super::shard::{Opened, Resumable, Shard, ShardError, Stop};
use super::state::State;
use crate::message::{AcceptedBatch, Source};
use crate::recent::may_be_remembered;
use crate::runtime::executor::{Signal, Stage};
use crate::runtime::feed::Cursor;
use crate::runtime::shell::SchedulerShell;
use crate::runtime::topic::Topic;
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
    /// Accepted batches of which a reference may be remembered, and until when.
    remembered: VecDeque<(u64, Timestamp)>,
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
    let accepted = bindings.writes(layout.accepted(shard));
    let proposals: Vec<_> =
        layout.everybody().map(|participant| bindings.writes(layout.proposals(participant, shard))).collect();
    let state = bindings.writes(layout.state(Role::Scheduler, shard));
    let dead_letters = bindings.writes(layout.dead_letters(Role::Scheduler, shard));
    let opened = Opened::open(cluster, layout, (Role::Scheduler, shard), bindings, stop)?;

    let recorded = opened.state(state, now)?;
    let next = opened.log.next(accepted).0;
    let from = recorded.low(0).max(opened.log.first(accepted).0).min(next);
    let instance = u64::from(shard);
    let mut scheduler = Scheduler::new(Arc::clone(network), instance, from, remember, key);
    let mut remembered = VecDeque::new();
    opened.read(accepted, from..next, |number, batch: AcceptedBatch| {
        let expires = batch.expires();
        if may_be_remembered(expires, now) {
            scheduler.restore(Source::new(instance, number), &batch);
            remembered.push_back((number, expires));
        }
        Ok(())
    })?;
    scheduler.go_on(next, recorded.clock);

    let signal = Arc::new(Signal::default());
    let log: Arc<dyn Log> = Arc::clone(&opened.log) as Arc<dyn Log>;
    let aside = Some(Arc::clone(&opened.aside));
    let (reader, cursors) = opened.follow(&submissions, |at| recorded.next(at), aside);
    let shell = SchedulerShell {
        instance,
        state: Arc::new(Mutex::new(scheduler)),
        submissions: reader,
        intake: intake.iter().map(|id| Topic::logged("intake", 1, Arc::clone(&log), *id, &signal)).collect(),
        accepted: Topic::logged("accepted", 1, Arc::clone(&log), accepted, &signal),
        proposals: proposals
            .iter()
            .map(|id| Topic::logged("proposals", 1, Arc::clone(&log), *id, &signal))
            .collect(),
        waiting: None,
    };
    let scheduling = Scheduling { shell, log: Arc::clone(&opened.log), accepted, cursors, remembered };
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
        self.remembered.extend(accepted);
        while self.remembered.front().is_some_and(|(_, expires)| !may_be_remembered(*expires, clock)) {
            self.remembered.pop_front();
        }
        let low =
            self.remembered.front().map_or_else(|| self.log.next(self.accepted).0, |(number, _)| *number);
        let next = self.cursors.iter().map(Cursor::next).collect();
        Some(State { clock, next, low: vec![low], more: Vec::new() })
    }
}
