//! Requests of this node to its cluster: each is brought to all members until its end is known.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::mem::discriminant;
use std::sync::{Arc, Mutex};

use alloy_primitives::Address;
use tally_contracts::{Name, PublicKey, Signature, TransactionId, encode};
use tally_crypto::Hash;
use tally_notary::{
    Answer, Attestation, Client, Cluster, Collector, Config, Input, Outcome, Progress, Rejection, Request,
    Signatures, SignedAnswer, TransactionForm,
};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, MissedTickBehavior};

use super::frame;
use super::intake::Intake;
use super::line::Line;
use super::section::Times;
use crate::desk::lock;

/// Answers of other members that wait to be looked at. A member whose answers find no room waits.
const HEARD: usize = 256;
/// How often the time between two askings doubles: members that have much to do get no more of it.
const DOUBLINGS: u32 = 3;
/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(50);

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// `2f + 1` members attest that the transaction consumes its inputs. Each signature is one as
    /// `Role::Notary` over the transaction ([`TransactionForm`]).
    Committed(Attestation),
    /// `f + 1` members gave this refusal, which never changes. Their answers prove it to others.
    Refused {
        /// Why it is refused.
        outcome: Outcome,
        /// Answers with this outcome, one of each of `f + 1` members or more.
        answers: Vec<SignedAnswer>,
    },
    /// `f + 1` members do not take this request, one of which is right: it was not ordered, and no
    /// member that is right will order it. That is not signed, and says nothing of other requests
    /// about the same transaction.
    Rejected(Rejection),
    /// What becomes of it is not known here: ask again.
    Undecided(Undecided),
}

/// Why nothing is known of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// Too few members answered in time.
    #[error("{answered} members answered in time, which is too few")]
    Deadline {
        /// How many answered.
        answered: usize,
    },
    /// As many requests of this node, or of the one who asks, are under way as may be.
    #[error("too many requests are under way: of this node, or of who asks")]
    Busy,
    /// The node stops.
    #[error("the node stops")]
    Stopping,
}

/// Who waits for a decision; is always told one, and once.
struct Completion(Option<Box<dyn FnOnce(Decision) + Send>>);

impl Completion {
    fn complete(mut self, decision: Decision) {
        if let Some(then) = self.0.take() {
            then(decision);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then(Decision::Undecided(Undecided::Stopping));
        }
    }
}

/// Requests under way and their bytes.
#[derive(Clone, Copy, Default)]
struct Load {
    requests: usize,
    bytes: usize,
}

/// Room for requests under way: other members give each client as much.
///
/// Nobody who asks holds more than what is free, so that one takes half of the room at most, two a
/// third each, and there is always some for another.
struct Room {
    limit: Load,
    held: Mutex<Shares>,
}

#[derive(Default)]
struct Shares {
    all: Load,
    by_asker: BTreeMap<Name, Load>,
}

/// Room that one submission holds.
struct Held {
    room: Arc<Room>,
    asker: Name,
    bytes: usize,
}

impl Room {
    fn hold(self: &Arc<Self>, asker: &Name, bytes: usize) -> Option<Held> {
        let mut held = lock(&self.held);
        let all = Load { requests: held.all.requests + 1, bytes: held.all.bytes.saturating_add(bytes) };
        let own = held.by_asker.get(asker).copied().unwrap_or_default();
        let own = Load { requests: own.requests + 1, bytes: own.bytes.saturating_add(bytes) };
        // What the asker held before is less than what was free.
        if all.requests.saturating_add(own.requests) > self.limit.requests + 1
            || all.bytes.saturating_add(own.bytes) > self.limit.bytes.saturating_add(bytes)
            || all.bytes > self.limit.bytes
        {
            return None;
        }
        held.all = all;
        held.by_asker.insert(asker.clone(), own);
        Some(Held { room: Arc::clone(self), asker: asker.clone(), bytes })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = lock(&self.room.held);
        held.all = Load { requests: held.all.requests - 1, bytes: held.all.bytes - self.bytes };
        if let Some(own) = held.by_asker.get_mut(&self.asker) {
            *own = Load { requests: own.requests - 1, bytes: own.bytes - self.bytes };
            if own.requests == 0 {
                held.by_asker.remove(&self.asker);
            }
        }
    }
}

struct Submission {
    request: Request,
    then: Completion,
    held: Held,
}

/// What a member said about a request of this node.
pub(super) struct Heard {
    pub(super) from: Address,
    pub(super) conversation: u64,
    pub(super) word: Word,
}

pub(super) enum Word {
    Answer(SignedAnswer),
    Rejection { transaction: TransactionId, reason: Rejection },
}

/// Takes requests, and hands in what members say about them.
#[derive(Clone)]
pub(super) struct Asker {
    room: Arc<Room>,
    submissions: UnboundedSender<Submission>,
    /// Of this node's own replica, which must not wait. It answers each request as often as it was
    /// asked, so requests under way bound it.
    own: UnboundedSender<Heard>,
    others: mpsc::Sender<Heard>,
}

/// The other end of it.
pub(super) struct Questions {
    submissions: UnboundedReceiver<Submission>,
    own: UnboundedReceiver<Heard>,
    others: mpsc::Receiver<Heard>,
}

impl Asker {
    pub(super) fn new(config: &Config) -> (Self, Questions) {
        let (submissions, submitted) = mpsc::unbounded_channel();
        let (own, own_heard) = mpsc::unbounded_channel();
        let (others, others_heard) = mpsc::channel(HEARD);
        let room = Arc::new(Room {
            limit: Load { requests: config.share_requests, bytes: config.share_bytes },
            held: Mutex::default(),
        });
        let questions = Questions { submissions: submitted, own: own_heard, others: others_heard };
        (Self { room, submissions, own, others }, questions)
    }

    /// Requests under way.
    pub(super) fn under_way(&self) -> usize {
        lock(&self.room.held).all.requests
    }

    /// `asker` has asked this member for it.
    pub(super) fn submit(&self, asker: &Name, request: Request, then: Box<dyn FnOnce(Decision) + Send>) {
        let then = Completion(Some(then));
        match self.room.hold(asker, encode(&request).len()) {
            // One that finds nobody is told that the node stops.
            Some(held) => drop(self.submissions.send(Submission { request, then, held })),
            None => then.complete(Decision::Undecided(Undecided::Busy)),
        }
    }

    /// What this node's replica says.
    pub(super) fn own(&self, heard: Heard) {
        let _ = self.own.send(heard);
    }

    /// What another member says; waits for room.
    pub(super) async fn hear(&self, heard: Heard) {
        let _ = self.others.send(heard).await;
    }
}

/// Where requests go, and whom to blame.
pub(super) struct Ways {
    pub(super) cluster: Arc<Cluster>,
    /// This node's voting key and name.
    pub(super) me: Client,
    pub(super) own: Address,
    pub(super) intake: Arc<Intake>,
    pub(super) lines: BTreeMap<Address, Arc<Line>>,
    /// Is told of members that answered with another's key, or a signature that does not verify.
    pub(super) blame: Box<dyn Fn(Address) + Send>,
    pub(super) times: Times,
}

struct Waiting {
    until: Instant,
    then: Completion,
    held: Held,
}

impl Waiting {
    /// Who is told may ask for something else at once, and finds the room.
    fn end(self, decision: Decision) {
        drop(self.held);
        self.then.complete(decision);
    }
}

struct Open<'a> {
    id: Hash,
    request: Request,
    collector: Collector<'a>,
    /// The last good answer of each member.
    answers: BTreeMap<Address, Answer>,
    rejections: BTreeMap<Address, Rejection>,
    asked: Instant,
    /// How often it was asked again.
    again: u32,
    waiting: Vec<Waiting>,
}

/// Notes whether a signature was good when the collector looked.
struct Noted(Cell<bool>);

impl Signatures for Noted {
    fn verify(&self, cluster: &Cluster, by: &PublicKey, answer: &Answer, signature: &Signature) -> bool {
        let good = TransactionForm.verify(cluster, by, answer, signature);
        self.0.set(good);
        good
    }
}

/// Brings requests to their ends until the node stops.
pub(super) async fn run(mut questions: Questions, ways: Ways, mut stop: watch::Receiver<bool>) {
    let cluster = Arc::clone(&ways.cluster);
    let mut desk =
        Desk { ways, cluster: &cluster, open: BTreeMap::new(), by_id: HashMap::new(), next: first() };
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            Some(submission) = questions.submissions.recv() => desk.submitted(submission),
            Some(heard) = questions.own.recv() => desk.heard(heard),
            Some(heard) = questions.others.recv() => desk.heard(heard),
            _ = ticks.tick() => desk.tick(),
        }
    }
}

/// Conversations of an earlier run of this node are not taken for those of this one.
fn first() -> u64 {
    tally_identity::system_now().as_millis() << 20
}

struct Desk<'a> {
    ways: Ways,
    cluster: &'a Cluster,
    open: BTreeMap<u64, Open<'a>>,
    by_id: HashMap<Hash, u64>,
    next: u64,
}

impl<'a> Desk<'a> {
    fn submitted(&mut self, submission: Submission) {
        let Submission { request, then, held } = submission;
        let now = Instant::now();
        let waiting = Waiting { until: now + self.ways.times.decide, then, held };
        if request.commit.requester != self.ways.me.name {
            return waiting.end(Decision::Rejected(Rejection::Requester));
        }
        let id = request.id();
        if let Some(open) = self.by_id.get(&id).and_then(|known| self.open.get_mut(known)) {
            return open.waiting.push(waiting);
        }
        let conversation = self.next;
        self.next += 1;
        self.by_id.insert(id, conversation);
        let collector = Collector::new(self.cluster, request.commit.transaction);
        let open = Open {
            id,
            request,
            collector,
            answers: BTreeMap::new(),
            rejections: BTreeMap::new(),
            asked: now,
            again: 0,
            waiting: vec![waiting],
        };
        self.ways.ask(conversation, &open.request, |_| true);
        self.open.insert(conversation, open);
    }

    fn heard(&mut self, heard: Heard) {
        let Heard { from, conversation, word } = heard;
        let Some(open) = self.open.get_mut(&conversation) else { return };
        let transaction = open.request.commit.transaction;
        let decision = match word {
            Word::Answer(signed) if signed.answer.transaction == transaction => {
                let member = self.cluster.members().iter().find(|member| member.address() == from);
                if member.is_none_or(|member| member.key != signed.by) {
                    return (self.ways.blame)(from);
                }
                // Said again it is not verified again.
                if open.answers.get(&from) == Some(&signed.answer) {
                    return;
                }
                let noted = Noted(Cell::new(false));
                let progress = open.collector.take(&signed, &noted);
                if !noted.0.get() {
                    return (self.ways.blame)(from);
                }
                open.answers.insert(from, signed.answer);
                match progress {
                    Progress::Waiting => return,
                    Progress::Committed(attestation) => Decision::Committed(attestation),
                    Progress::Refused(outcome) => {
                        Decision::Refused { outcome, answers: open.collector.refusal(&outcome) }
                    }
                }
            }
            Word::Rejection { transaction: about, reason } if about == transaction => {
                open.rejections.insert(from, reason);
                match open.rejected(self.ways.own, self.cluster.faulty()) {
                    Some(reason) => Decision::Rejected(reason),
                    None => return,
                }
            }
            Word::Answer(_) | Word::Rejection { .. } => return,
        };
        self.close(conversation, &decision);
    }

    fn close(&mut self, conversation: u64, decision: &Decision) {
        if let Some(open) = self.open.remove(&conversation) {
            self.by_id.remove(&open.id);
            open.waiting.into_iter().for_each(|waiting| waiting.end(decision.clone()));
        }
    }

    /// Gives up what waited for too long, and asks again.
    fn tick(&mut self) {
        let now = Instant::now();
        let by_id = &mut self.by_id;
        let ways = &self.ways;
        self.open.retain(|conversation, open| {
            let answered = open.answers.len();
            for waiting in open.waiting.extract_if(.., |waiting| waiting.until <= now) {
                waiting.end(Decision::Undecided(Undecided::Deadline { answered }));
            }
            if open.waiting.is_empty() {
                by_id.remove(&open.id);
                return false;
            }
            let wait = ways.times.ask_again * 2_u32.pow(open.again.min(DOUBLINGS));
            if now.duration_since(open.asked) >= wait {
                (open.asked, open.again) = (now, open.again + 1);
                let all = open.answers.len() >= ways.cluster.members().len();
                ways.ask(*conversation, &open.request, |member| {
                    // Where all have answered and disagree, those that refused may have found another end.
                    match open.answers.get(&member) {
                        None => true,
                        Some(answer) => all && answer.outcome != Outcome::Committed,
                    }
                });
            }
            true
        });
    }
}

impl Ways {
    /// Brings a request to members. What finds no room, or no link, is brought again later.
    fn ask(&self, conversation: u64, request: &Request, wanted: impl Fn(Address) -> bool) {
        let frame = frame::request(conversation, request);
        if wanted(self.own) {
            let client = Client { conversation, ..self.me.clone() };
            let input = Input::Request { client, request: request.clone() };
            let _ = self.intake.offer(self.own, input, frame.len());
        }
        for (_, line) in self.lines.iter().filter(|(member, _)| wanted(**member)) {
            line.send(frame.clone());
        }
    }
}

impl Open<'_> {
    /// Why more than `faulty` members do not take it, in the words of this node's own replica where
    /// it is among them. That there is no room passes.
    fn rejected(&self, own: Address, faulty: usize) -> Option<Rejection> {
        let kind = |reason: &&Rejection| {
            !matches!(reason, Rejection::Busy)
                && self
                    .rejections
                    .values()
                    .filter(|other| discriminant(*other) == discriminant(*reason))
                    .count()
                    > faulty
        };
        self.rejections.get(&own).filter(kind).or_else(|| self.rejections.values().find(kind)).cloned()
    }
}

#[cfg(test)]
mod tests;
