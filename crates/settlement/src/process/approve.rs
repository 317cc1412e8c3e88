//! A participant's approver as a shard. What it answered is in its approvals: it reserves that again, so that it never
//! contradicts an approval that left the building.

use super::layout::{Bindings, Layout, Role};
use super::ledger::{Ledger, LedgerTopics, consents_of};
use super::shard::{Opened, Resumable, Shard, ShardError, Stop};
use super::state::State;
use crate::message::{ApprovalBatch, ApprovalSigner, Message as _, Source};
use crate::runtime::executor::{Signal, Stage};
use crate::runtime::feed::{Cursor, Feeds, UnreadableRecords};
use crate::runtime::shell::{ApproverShell, Known, approvals_stream};
use crate::runtime::topic::{Reader, Topic};
use crate::runtime::under_way::UnderWay;
use crate::stage::Approver;
use crate::stage::approver::{Answer, Recovered, verdicts_given};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tally_crypto::{PublicKey, SigningKey};
use tally_ledger::wire::{DecodeError, Reader as Bytes, write, write_count};
use tally_ledger::{Network, ParticipantId, Refusal, Timestamp};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{Log, TopicId};

struct Approving {
    shell: ApproverShell,
    log: Arc<dyn SharedLog>,
    proposals: Vec<Cursor>,
    sequence: Cursor,
    approvals: Vec<TopicId>,
    approved: ApprovedRecords,
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
    let topics = LedgerTopics::bind(&mut bindings, layout, participant, Role::Approver);
    let approvals = topics.answers.clone();
    let state = bindings.writes(layout.state(Role::Approver, shard));
    let dead_letters = bindings.writes(layout.dead_letters(Role::Approver, shard));
    let opened = Opened::open(cluster, layout, (Role::Approver, shard), bindings, stop)?;

    // Its record's columns: next are the proposals by scheduler, then the sequence; low are the proposals by scheduler,
    // then the approvals by assembler. More says since when what it approved on a signature has not expired.
    let recorded = opened.state(state, now)?;
    let schedulers = topics.proposals.len();
    let answered: Vec<u64> = (0..schedulers).map(|at| recorded.next(at)).collect();
    let mut ledger = Ledger::recover(&opened, &topics, network, participant)?;
    ledger.advance(&opened, recorded.next(schedulers), &answered)?;
    let own = &network.participants[participant.index()].key;
    let mut given = given(&opened, &approvals, (network, own), |at| recorded.low(schedulers + at))?;

    let mut under_way = UnderWay::default();
    let updater = ledger.shell.state.lock().expect("no step panics and goes on");
    let progress = updater.progress();
    let below = progress.seen.iter().copied().collect();
    let mut recovered = Recovered { below, ..Recovered::default() };
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
        let Some(Given { assembler, at, answers: before }) = given.remove(&source) else {
            return Err(opened.history(format!("the answers to {source:?} are gone, and it is not decided")));
        };
        // What was recorded as answered and has no answer was answered by something that cannot be read: it is refused.
        let unanswered = Refusal::ApprovalTimeout.number();
        let verdicts = verdicts_given(proposals, None, &before).into_iter();
        let verdicts = verdicts.map(|verdict| verdict.unwrap_or(unanswered)).collect();
        under_way.note(source, stream, position);
        under_way.note(source, approvals_stream(assembler), at);
        answers.push(Answer { proposals: Arc::clone(proposals), verdicts, decided });
    }
    recovered.given = given.into_iter().map(|(source, given)| (source, given.answers)).collect();
    answers.sort_by_key(|answer| (answer.proposals.source.scheduler, answer.proposals.source.number));
    let names = updater.aliases().iter().map(|(alias, _)| alias);
    let mut approver = Approver::new(Arc::clone(network), key, updater.accounts().clone(), names)
        .following(updater.applied());
    drop(updater);
    let answered_before: Vec<_> = answers.iter().map(|answer| Arc::clone(&answer.proposals)).collect();
    approver.recover(answers, recovered, recorded.clock);
    let broken = |error| opened.history(format!("what the approver recorded cannot be read: {error}"));
    let mut approved = ApprovedRecords::decode(&recorded.more, approvals.len()).map_err(broken)?;
    approved.recall(&opened, &approvals, recorded.clock, &mut approver)?;
    let width_ms = (network.longest_validity_ms / 16).max(1);

    let signal = Arc::new(Signal::default());
    let log: Arc<dyn Log> = Arc::clone(&opened.log) as Arc<dyn Log>;
    let (asked, proposals) = opened.follow(&topics.proposals, |at| answered[at], UnreadableRecords::Stop);
    let sequence = Cursor::new(ledger.sequence.next());
    let shown = ledger.position().consents;
    let from = |at: usize| shown.get(at).copied().unwrap_or(0);
    let (mut consents, _) = consents_of(&opened, &topics.consents, from, (network, participant));
    if let Some(consents) = &mut consents {
        answered_before.iter().for_each(|proposals| consents.state.propose(proposals));
    }
    let of_sequence = [(topics.sequence, opened.partition(topics.sequence), sequence.clone())];
    let shell = ApproverShell {
        bic: network.participants[participant.index()].bic.clone(),
        state: approver,
        proposals: asked,
        sequence: Reader::shared(Feeds::new(Arc::clone(&opened.log), of_sequence, UnreadableRecords::Stop)),
        approvals: approvals
            .iter()
            .map(|id| Topic::logged("approvals", 1, Arc::clone(&log), *id, &signal))
            .collect(),
        answers: None,
        consents,
        undecided: None,
        under_way,
        held: None,
        known: Known::default(),
    };
    approved.begin(width_ms, approvals.iter().map(|id| opened.log.next(*id).0));
    let approving =
        Approving { shell, log: Arc::clone(&opened.log), proposals, sequence, approvals, approved };
    Ok(Shard::new(opened, Box::new(approving), Some(state), dead_letters))
}

/// What was answered to an accepted batch: to which assembler, the first of the records, and the answers.
struct Given {
    assembler: usize,
    at: u64,
    answers: Vec<ApprovalBatch>,
}

/// What its topics hold of answers with its signature, by accepted batch. What is not, or cannot be read, counts for nobody.
fn given(
    opened: &Opened,
    approvals: &[TopicId],
    (network, own): (&Network, &PublicKey),
    low: impl Fn(usize) -> u64,
) -> Result<HashMap<Source, Given>, ShardError> {
    let mut given: HashMap<Source, Given> = HashMap::new();
    let mut signer = ApprovalSigner::new(network.id);
    for (assembler, id) in approvals.iter().enumerate() {
        let next = opened.log.next(*id).0;
        opened.read_bytes(*id, low(assembler).min(next)..next, |at, payload| {
            let read = ApprovalBatch::decode(&payload).ok();
            let signed = read.filter(|answers| signer.verifies(answers, own));
            let Some(answers) = signed else {
                tracing::warn!(
                    shard = opened.name,
                    assembler,
                    at,
                    "a record among the own answers is passed over"
                );
                return Ok(());
            };
            let given = given.entry(answers.source);
            given.or_insert_with(|| Given { assembler, at, answers: Vec::new() }).answers.push(answers);
            Ok(())
        })?;
    }
    Ok(given)
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
        // A decision that waits for consents is not taken.
        next.push(
            self.shell.undecided.as_ref().map_or_else(|| self.sequence.next(), |polled| polled.position),
        );
        let clock = self.shell.state.clock();
        let ends = self.approvals.iter().map(|id| self.log.next(*id).0);
        let latest = self.shell.state.approved_once().take_latest();
        self.approved.note(clock, latest, ends);
        let more = self.approved.encode();
        Some(State { clock, next, low, more })
    }

    fn approver(&self) -> Option<&Approver> {
        Some(&self.shell.state)
    }
}

/// Which records of the approvals may hold what has not expired: an approver that is opened recalls these.
#[derive(Default)]
struct ApprovedRecords {
    /// By assembler, the oldest first.
    of: Vec<VecDeque<Span>>,
    /// By assembler, where the approvals ended that were noted.
    ends: Vec<u64>,
    /// Records that are appended within so many milliseconds are noted together.
    width_ms: u64,
}

/// Records of approvals from a position on, up to the next span.
#[derive(Clone, Copy)]
struct Span {
    from: u64,
    /// When the first of them was appended.
    began: Timestamp,
    /// When the last of what they approve expires.
    expires: Timestamp,
}

/// Spans of one partition: those of one and two validities are 48 and one is begun.
const MAX_SPANS: usize = 1 << 8;

impl ApprovedRecords {
    fn begin(&mut self, width_ms: u64, ends: impl Iterator<Item = u64>) {
        self.width_ms = width_ms;
        self.ends = ends.collect();
    }

    /// Learns that what the approver approved since the last time, whose latest expiry is given, is before these ends.
    fn note(&mut self, now: Timestamp, latest: Option<Timestamp>, ends: impl Iterator<Item = u64>) {
        for ((spans, before), end) in self.of.iter_mut().zip(&mut self.ends).zip(ends) {
            while spans.front().is_some_and(|span| span.expires <= now) {
                spans.pop_front();
            }
            let from = std::mem::replace(before, end);
            let Some(latest) = latest.filter(|_| from < end) else { continue };
            let is_full = spans.len() >= MAX_SPANS;
            match spans.back_mut() {
                Some(span) if is_full || now < span.began.plus_ms(self.width_ms) => {
                    span.expires = span.expires.max(latest);
                }
                _ => spans.push_back(Span { from, began: now, expires: latest }),
            }
        }
    }

    /// Lets an approver know what an earlier process approved and has not expired at `now`.
    fn recall(
        &mut self,
        opened: &Opened,
        approvals: &[TopicId],
        now: Timestamp,
        approver: &mut Approver,
    ) -> Result<(), ShardError> {
        for (spans, id) in self.of.iter_mut().zip(approvals) {
            spans.retain(|span| span.expires > now);
            let (first, end) = (opened.log.first(*id).0, opened.log.next(*id).0);
            let Some(from) = spans.front().map(|span| span.from.max(first)) else { continue };
            opened.read_bytes(*id, from..end.max(from), |at, payload| {
                let span = spans.iter().rev().find(|span| span.from <= at).or(spans.front());
                // What cannot be read approves nothing.
                let (Some(span), Ok(batch)) = (span, ApprovalBatch::decode(&payload)) else { return Ok(()) };
                for (id, _) in batch.ids.iter().zip(&batch.verdicts).filter(|(_, verdict)| **verdict == 0) {
                    approver.recall(id, span.expires);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_count(&mut out, self.of.len());
        for spans in &self.of {
            write_count(&mut out, spans.len());
            for span in spans {
                write(&mut out, &span.from);
                write(&mut out, &span.began);
                write(&mut out, &span.expires);
            }
        }
        out
    }

    /// An approver that never recorded anything has none.
    fn decode(bytes: &[u8], assemblers: usize) -> Result<Self, DecodeError> {
        let mut records = Self { of: vec![VecDeque::new(); assemblers], ..Self::default() };
        if bytes.is_empty() {
            return Ok(records);
        }
        let mut reader = Bytes::new("what an approver approved", bytes);
        for at in 0..reader.count(1 << 16)? {
            for _ in 0..reader.count(MAX_SPANS)? {
                let span = Span { from: reader.value()?, began: reader.value()?, expires: reader.value()? };
                if let Some(spans) = records.of.get_mut(at) {
                    spans.push_back(span);
                }
            }
        }
        reader.end()?;
        Ok(records)
    }
}
