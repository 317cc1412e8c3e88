//! A participant's approver as a shard. What it answered is in its approvals: it reserves that again, so that it never
//! contradicts an approval that left the building.

use super::layout::{Bindings, Layout, Role};
use super::ledger::{Ledger, LedgerTopics};
use super::shard::{Opened, Resumable, Shard, ShardError, Stop};
use super::state::State;
use crate::message::{ApprovalBatch, Source};
use crate::runtime::executor::{Signal, Stage};
use crate::runtime::feed::{Cursor, Feeds};
use crate::runtime::shell::{ApproverShell, Known, approvals_stream};
use crate::runtime::topic::{Reader, Topic};
use crate::runtime::under_way::UnderWay;
use crate::stage::Approver;
use crate::stage::approver::{Answer, Recovered};
use std::collections::HashMap;
use std::sync::Arc;
use tally_crypto::SigningKey;
use tally_ledger::{Network, ParticipantId, Timestamp};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{Log, TopicId};

struct Approving {
    shell: ApproverShell,
    log: Arc<dyn SharedLog>,
    proposals: Vec<Cursor>,
    sequence: Cursor,
    approvals: Vec<TopicId>,
}

/// Opens the approver of participant `shard`, which signs with `key`.
///
/// # Errors
/// When the shard cannot be recovered.
pub fn open(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Arc<Network>,
    shard: u16,
    key: SigningKey,
    now: Timestamp,
    stop: &Stop,
) -> Result<Shard, ShardError> {
    let participant = ParticipantId(shard);
    let mut bindings = Bindings::default();
    let topics = LedgerTopics::bind(&mut bindings, layout, participant, false);
    let approvals: Vec<_> =
        (0..layout.assemblers).map(|a| bindings.writes(layout.approvals(participant, a))).collect();
    let state = bindings.writes(layout.state(Role::Approver, shard));
    let dead_letters = bindings.writes(layout.dead_letters(Role::Approver, shard));
    let opened = Opened::open(cluster, layout, (Role::Approver, shard), bindings, stop)?;

    // Its record's columns: next are the proposals by scheduler, then the sequence; low are the proposals by scheduler,
    // then the approvals by assembler.
    let recorded = opened.state(state, now)?;
    let schedulers = topics.proposals.len();
    let answered: Vec<u64> = (0..schedulers).map(|at| recorded.next(at)).collect();
    let mut ledger = Ledger::recover(&opened, &topics, network, participant)?;
    ledger.advance(&opened, recorded.next(schedulers), &answered)?;
    let verdicts = verdicts(&opened, &approvals, |at| recorded.low(schedulers + at))?;

    let mut under_way = UnderWay::default();
    let updater = ledger.shell.state.lock().expect("no step panics and goes on");
    let progress = updater.progress();
    let mut recovered = Recovered { below: progress.seen.iter().copied().collect(), open: HashMap::new() };
    let mut answers = Vec::new();
    for (source, decided) in progress.open {
        let Some((proposals, _)) = updater.open(source) else {
            // Its proposals come after those that were answered, and have not been read.
            recovered.open.insert(source, decided);
            continue;
        };
        let scheduler = usize::try_from(source.scheduler).expect("schedulers are few");
        let stream = u16::try_from(scheduler).expect("schedulers are few");
        let position = ledger.shell.under_way.low_of(source, stream).unwrap_or(u64::MAX);
        if position >= answered.get(scheduler).copied().unwrap_or(0) {
            recovered.open.insert(source, decided);
            continue;
        }
        let Some((assembler, at, verdicts)) = verdicts.get(&source) else {
            return Err(opened.history(format!("the answers to {source:?} are gone, and it is not decided")));
        };
        if verdicts.len() != proposals.len() {
            return Err(opened.history(format!("the answers to {source:?} are to something else")));
        }
        under_way.note(source, stream, position);
        under_way.note(source, approvals_stream(*assembler), *at);
        answers.push(Answer { proposals: Arc::clone(proposals), verdicts: verdicts.clone(), decided });
    }
    answers.sort_by_key(|answer| (answer.proposals.source.scheduler, answer.proposals.source.number));
    let names = updater.aliases().iter().map(|(alias, _)| alias);
    let mut approver = Approver::new(Arc::clone(network), key, updater.accounts().clone(), names);
    drop(updater);
    approver.recover(answers, recovered, recorded.clock);

    let signal = Arc::new(Signal::default());
    let log: Arc<dyn Log> = Arc::clone(&opened.log) as Arc<dyn Log>;
    let (asked, proposals) = opened.follow(&topics.proposals, |at| answered[at], None);
    let sequence = Cursor::new(ledger.sequence.next());
    let of_sequence = [(topics.sequence, opened.partition(topics.sequence), sequence.clone())];
    let shell = ApproverShell {
        bic: network.participants[participant.index()].bic.clone(),
        state: approver,
        proposals: asked,
        sequence: Reader::shared(Feeds::new(Arc::clone(&opened.log), of_sequence, None)),
        approvals: approvals
            .iter()
            .map(|id| Topic::logged("approvals", 1, Arc::clone(&log), *id, &signal))
            .collect(),
        under_way,
        held: None,
        known: Known::default(),
    };
    let approving = Approving { shell, log: Arc::clone(&opened.log), proposals, sequence, approvals };
    Ok(Shard::new(opened, Box::new(approving), Some(state), dead_letters))
}

/// What was answered to an accepted batch: to which assembler, as which record, and the verdicts.
type Answered = (usize, u64, Vec<u16>);

/// What it answered, by accepted batch.
fn verdicts(
    opened: &Opened,
    approvals: &[TopicId],
    low: impl Fn(usize) -> u64,
) -> Result<HashMap<Source, Answered>, ShardError> {
    let mut verdicts = HashMap::new();
    for (assembler, id) in approvals.iter().enumerate() {
        let next = opened.log.next(*id).0;
        opened.read(*id, low(assembler).min(next)..next, |position, batch: ApprovalBatch| {
            verdicts.insert(batch.source, (assembler, position, batch.verdicts));
            Ok(())
        })?;
    }
    Ok(verdicts)
}

impl Resumable for Approving {
    fn stage(&mut self) -> &mut dyn Stage {
        &mut self.shell
    }

    fn state(&mut self) -> Option<State> {
        let under_way = &self.shell.under_way;
        let mut next: Vec<u64> = self.proposals.iter().map(Cursor::next).collect();
        if let Some(held) = &self.shell.held {
            next[held.feed] = held.position;
        }
        let mut low: Vec<u64> = (0u16..).zip(&next).map(|(feed, next)| under_way.low(feed, *next)).collect();
        let to = |(at, id): (usize, &TopicId)| under_way.low(approvals_stream(at), self.log.next(*id).0);
        low.extend(self.approvals.iter().enumerate().map(to));
        next.push(self.sequence.next());
        Some(State { clock: self.shell.state.clock(), next, low, more: Vec::new() })
    }

    fn approver(&self) -> Option<&Approver> {
        Some(&self.shell.state)
    }
}
