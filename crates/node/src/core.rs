//! One node without threads and sockets: flows, store and queues, moved by whoever calls.

mod aside;
mod past;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::shares::core as fixture;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use tally_contracts::{AttachmentId, Name, Party, StateRef, Timestamp, TransactionId};
use tally_flows::{
    Arrival, Begun, Delivered, DeliveryError, Engine, Fate, Flow as _, FlowError, FlowId, Limits, Mark,
    Origin, Outcome, Registry, RestoreError, Saved, SessionId, Start, StartError, Started,
};
use tally_messaging::{Cause, Position, QueueId, Refusal};
use tally_protocols::consent::DAY;
use tally_store::{FlowStatus, Produced, Restored, SavedFlow, Store, StoreError, Write};

use crate::courier::Courier;
use crate::desk::commit::Batch;
use crate::desk::submissions::Submit;
use crate::desk::watch::{Event, Follower, Step};
use crate::desk::{Desk, Parts, full_text, lock};
use crate::metrics::Meters;

/// Units that may wait for the store before messages and starts have to wait as well.
const WAITING_UNITS: usize = 20_000;
/// How many of them may be there before messages of peers wait: the rest is for what this node's users start.
const PEERS_UNITS: usize = WAITING_UNITS / 4 * 3;
/// Messages of one peer that may be on their way to the disk.
const PEER_MESSAGES: u64 = 1000;
/// Flows read from the journal in one go.
const RESTORE_PAGE: usize = 1000;

/// Where durable messages go.
pub trait Post: Send + Sync {
    /// Messages to peers, durable and in order for each.
    fn send(&self, messages: Vec<(Name, u64, Bytes)>);
    /// All messages of a peer's queue up to a number are durable here.
    fn acknowledge(&self, peer: &Name, queue: QueueId, up_to: u64);
    /// There is room again for messages that were refused as too many.
    fn resume(&self);
    /// The queue to a peer begins anew, or all queues in both directions if `None`: what is sent from now on is numbered
    /// from 1. Nothing is to be done where no connections last.
    fn begin_anew(&self, _peer: Option<&Name>) {}
    /// The node's standing has changed; those who are connected are told. Nothing is to be done where no connections
    /// last.
    fn announce(&self) {}
}

/// A change of the vault, as those who track it hear of it.
#[derive(Clone, Debug)]
pub struct VaultChange {
    /// The transaction that was recorded.
    pub transaction: TransactionId,
    /// Its outputs that concern this node.
    pub produced: Vec<Produced>,
    /// The states that it consumed, those that are not in the vault too.
    pub consumed: Vec<StateRef>,
    /// When it was recorded.
    pub at: Timestamp,
}

type Tracker = Box<dyn FnMut(&VaultChange) -> bool + Send>;

/// Why a node's memory could not be taken up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store fails.
    #[error("the node's database cannot be read")]
    Store(#[from] StoreError),
    /// A flow's journal is damaged.
    #[error(transparent)]
    Flow(#[from] RestoreError),
    /// What the store knows of pasts is not what this program writes.
    #[error("{0}")]
    Past(String),
    /// A row of the journal is not what this program writes.
    #[error("flow {flow} in the database does not decode: {reason}")]
    Row {
        /// The flow.
        flow: FlowId,
        /// What is wrong.
        reason: String,
    },
}

/// Why the node takes no new work.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The store takes nothing.
    #[error("the node cannot write its database: {0}")]
    Store(String),
    /// More is waiting than the store keeps up with.
    #[error("{0} changes wait for the database; try again later")]
    Overloaded(usize),
    /// The flow is refused.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The user gave this request id to another start before.
    #[error("this request id was used before, for another start of {flow}; nothing was started")]
    Reused {
        /// Its id.
        id: FlowId,
        /// The flow that was started then.
        flow: String,
        /// The version of its code. Where it is not the newest one, the arguments of the two starts may be the same in
        /// another encoding.
        version: u32,
        /// Its arguments, encoded as that version does.
        arguments: Vec<u8>,
    },
}

/// What is known of a flow.
#[derive(Clone, Debug)]
pub enum Known {
    /// It has not ended.
    UnderWay,
    /// It has.
    Ended {
        /// How.
        outcome: Outcome,
        /// When.
        at: Timestamp,
    },
}

/// What a user asks to be started.
#[derive(Clone, Debug)]
pub struct Request {
    /// The user.
    pub user: String,
    /// The user's name for this start: the same name is the same start. Without one it is a start of its own.
    pub request: Option<String>,
    /// The flow's name.
    pub flow: String,
    /// Its encoded arguments.
    pub arguments: Vec<u8>,
}

/// A node.
pub struct Core {
    desk: Arc<Desk>,
    engine: Engine,
    post: OnceLock<Arc<dyn Post>>,
    restored: Option<Restored>,
    /// Of each peer: held while what it says of its database is judged.
    meetings: Mutex<HashMap<Name, Arc<Mutex<()>>>>,
    /// Messages of this node to itself that are not taken yet.
    loopback: Mutex<VecDeque<(u64, Bytes)>>,
    trackers: Mutex<Vec<Tracker>>,
    /// Messages were refused because there was no room.
    refused: AtomicBool,
    courier: Courier,
    /// The batch under way, so that one is made at a time.
    committing: Mutex<Option<Batch>>,
    /// Peers with flows here that were not members when it was looked last.
    absent: Mutex<BTreeSet<Name>>,
}

impl Core {
    /// Takes up a node's memory: its queues, locks and flows.
    ///
    /// # Errors
    /// The store fails, or holds what this program did not write.
    pub fn open(parts: Parts, registry: Registry, limits: Limits, meters: Meters) -> Result<Self, OpenError> {
        let store = parts.store.clone();
        let me = parts.me.clone();
        let bearer = parts.bearer();
        let queues = store.queues()?;
        let desk = Arc::new(Desk::new(parts, meters));
        let engine = Engine::new(registry, limits, bearer, desk.parts.network.id(), desk.clone());
        let core = Self {
            desk,
            engine,
            post: OnceLock::new(),
            restored: queues.restored,
            meetings: Mutex::default(),
            loopback: Mutex::default(),
            trackers: Mutex::default(),
            refused: AtomicBool::new(false),
            courier: Courier::default(),
            committing: Mutex::new(None),
            absent: Mutex::default(),
        };
        {
            let mut outbound = lock(&core.desk.outbound);
            outbound.renew(QueueId(queues.own));
            for (peer, queue) in &queues.outbound {
                outbound.restore(peer.clone(), queue.sent, queue.acknowledged);
            }
            let mut inbound = lock(&core.desk.inbound);
            for ((peer, queue), up_to) in &queues.inbound {
                inbound.restore(peer.clone(), QueueId(*queue), *up_to);
            }
            let since = core.desk.now().saturating_sub(DAY);
            lock(&core.desk.consents).restore(store.consents(since)?);
            let mut vault = lock(&core.desk.vault);
            for (state, flow) in store.locks()? {
                vault.hold(FlowId(flow), state);
            }
        }
        let mut after = None;
        loop {
            let page = store.unfinished_flows(after, RESTORE_PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(last.flow.flow);
            for saved in page {
                if let Err(error) = core.courier.restore(&saved) {
                    tracing::error!(error = full_text(&error), "a delivery under way is not known as one");
                }
                core.take_up(saved);
            }
        }
        // What this node had to say to itself and has not heard.
        let heard = lock(&core.desk.inbound).position(&me.name, core.queue()).accepted;
        // It may have died between hearing and noting that it need not be said again.
        core.acknowledged(&me.name, heard);
        let mut from = heard;
        loop {
            let page = store.outbound(&me.name, from, 1 << 20)?;
            let Some((last, _)) = page.last() else { break };
            from = *last;
            lock(&core.loopback).extend(page.into_iter().map(|(number, bytes)| (number, Bytes::from(bytes))));
        }
        Ok(core)
    }

    /// Takes up a flow of the journal. One whose journal is damaged is held for a person, and keeps no other from going on.
    fn take_up(&self, saved: SavedFlow) {
        let flow = FlowId(saved.flow.flow);
        let units = saved.steps.len() as u64;
        let (start, error) = match start_of(&saved) {
            Err(error) => (None, error),
            Ok(start) => {
                let journal = journal_of(start.clone(), saved);
                match journal.and_then(|saved| self.engine.restore(saved).map_err(OpenError::from)) {
                    Ok(()) => return,
                    Err(error) => (Some(start), error),
                }
            }
        };
        let reason = full_text(&error);
        tracing::error!(%flow, reason, "a flow cannot be taken up");
        if let Some(start) = start {
            self.engine.hold(start, units, &reason);
        }
    }

    /// Where durable messages go from now on.
    ///
    /// # Panics
    /// It was said before.
    pub fn join(&self, post: Arc<dyn Post>) {
        assert!(self.post.set(post).is_ok(), "a node has one post");
    }

    /// The node is a member of a clustered notary from here on, whose decisions its flows wait for.
    ///
    /// # Panics
    /// It was said before.
    pub fn join_cluster(self: &Arc<Self>, cluster: Arc<dyn Submit>) {
        let core = Arc::downgrade(self);
        let wake = move |flow| {
            if let Some(core) = core.upgrade() {
                core.engine.wake(flow);
            }
        };
        self.desk.submissions.join(cluster, Box::new(wake));
    }

    /// Why this node is no longer a member of its clustered notary, if its member has ended.
    pub fn cluster_failure(&self) -> Option<String> {
        self.desk.submissions.failure()
    }

    /// Who this node is.
    pub fn me(&self) -> &Party {
        &self.desk.parts.me
    }

    /// The name of this node's outbound queues.
    pub fn queue(&self) -> QueueId {
        lock(&self.desk.outbound).life()
    }

    /// The mark of a restored backup, as it was when the node was opened.
    pub fn restored(&self) -> Option<Restored> {
        self.restored
    }

    /// Its flows.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Its store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.desk.parts.store
    }

    /// What it is made of.
    pub fn parts(&self) -> &Parts {
        &self.desk.parts
    }

    pub(crate) fn courier(&self) -> &Courier {
        &self.courier
    }

    /// The time by its clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.desk.now()
    }

    /// What it counts.
    pub fn meters(&self) -> &Meters {
        &self.desk.meters
    }

    /// The flow that holds a state.
    pub fn holder(&self, state: &StateRef) -> Option<FlowId> {
        lock(&self.desk.vault).holder(state)
    }

    /// Can work be accepted now?
    ///
    /// # Errors
    /// Why not.
    pub fn available(&self) -> Result<(), Unavailable> {
        if let Some(trouble) = self.desk.queue.trouble() {
            return Err(Unavailable::Store(trouble));
        }
        let waiting = self.desk.queue.len();
        if waiting >= WAITING_UNITS {
            return Err(Unavailable::Overloaded(waiting));
        }
        Ok(())
    }

    /// Asks whether the store can be used: it writes something and reads something, on the thread that commits. `answer`
    /// is called once, with what is in the way if something is; it must be quick. Not called when the node stops before.
    pub fn probe(&self, answer: impl FnOnce(Result<(), String>) + Send + 'static) {
        self.desk.queue.probe(Box::new(answer));
    }

    /// Answers those who ask whether the store can be used.
    pub(crate) fn answer_probes(&self) {
        let probes = self.desk.queue.take_probes();
        if probes.is_empty() {
            return;
        }
        let result = match self.desk.queue.trouble() {
            Some(trouble) => Err(trouble),
            None => self.use_store().map_err(|error| full_text(&error)),
        };
        for probe in probes {
            probe(result.clone());
        }
    }

    fn use_store(&self) -> Result<(), StoreError> {
        let store = self.store();
        // Changes nothing, and is written all the same.
        let peer = self.me().name.clone();
        store.apply(&[Write::Received { peer, queue: self.queue().0, up_to: 0 }])?;
        let nothing = TransactionId::from_bytes([0; 32]);
        store.flow([0; 16])?;
        store.transactions(&[nothing])?;
        store.consumed(&[StateRef { transaction: nothing, index: 0 }])?;
        store.check()
    }

    /// Starts a flow for a user. It is durable once a follower hears so. A request id that the user gave before answers
    /// with the flow that was started then, if that was the same flow with the same arguments. Ids of two users have
    /// nothing to do with each other.
    ///
    /// # Errors
    /// See [`Unavailable`]. Nothing was started.
    pub fn start(&self, request: Request) -> Result<(FlowId, Started), Unavailable> {
        self.available()?;
        let (name, version) = self.engine.registry().newest(&request.flow).map_err(StartError::from)?;
        if name == tally_protocols::recover::Recover::NAME {
            self.renew();
        }
        let seed = self.desk.seed();
        let flow = match &request.request {
            Some(id) => FlowId::of_request(&request.user, id),
            None => FlowId::of_request("", &tally_crypto::hash(&seed).to_string()),
        };
        let asked = Begun {
            name: name.into(),
            version,
            arguments: request.arguments,
            origin: Origin::User { name: request.user },
        };
        let Begun { name, version, arguments, origin } = asked.clone();
        let started =
            self.engine.start(Start { flow, name, version, arguments, origin, seed, at: self.desk.now() })?;
        match started {
            Started::New => self.desk.meters.started.increment(),
            Started::Before => {
                let begun = self.begun(flow)?;
                if begun != asked {
                    return Err(Unavailable::Reused {
                        id: flow,
                        flow: begun.name.to_string(),
                        version: begun.version,
                        arguments: begun.arguments,
                    });
                }
            }
        }
        Ok((flow, started))
    }

    /// How a flow began that was started before.
    fn begun(&self, flow: FlowId) -> Result<Begun, Unavailable> {
        if let Some(begun) = self.engine.begun(flow) {
            return Ok(begun);
        }
        // The engine holds a flow until its end is durable, so the store has this one.
        let unreadable = |reason: String| Unavailable::Store(format!("flow {flow}: {reason}"));
        let row = tokio::task::block_in_place(|| self.store().flow(flow.0))
            .map_err(|error| Unavailable::Store(full_text(&error)))?
            .ok_or_else(|| unreadable("it was started before and is not there".to_owned()))?;
        let origin = borsh::from_slice(&row.flow.origin).map_err(|error| unreadable(error.to_string()))?;
        Ok(Begun {
            name: row.flow.name.into(),
            version: row.flow.version,
            arguments: row.flow.arguments,
            origin,
        })
    }

    /// Starts a flow that the node needs itself; the shipped ones are in [`tally_protocols::deliver`].
    ///
    /// # Errors
    /// See [`Unavailable`]. Nothing was started.
    pub fn start_own(&self, flow: &str, arguments: Vec<u8>) -> Result<FlowId, Unavailable> {
        self.available()?;
        let (name, version) = self.engine.registry().newest(flow).map_err(StartError::from)?;
        let seed = self.desk.seed();
        let flow = FlowId::of_request("", &tally_crypto::hash(&seed).to_string());
        let at = self.desk.now();
        let start = Start { flow, name: name.into(), version, arguments, origin: Origin::Node, seed, at };
        self.engine.start(start)?;
        self.desk.meters.started.increment();
        Ok(flow)
    }

    /// What is known of a flow; `None` when it was never started.
    ///
    /// # Errors
    /// The store fails or does not decode.
    pub fn known(&self, flow: FlowId) -> Result<Option<Known>, OpenError> {
        if self.engine.holds(flow) {
            return Ok(Some(Known::UnderWay));
        }
        // Asked for on threads of the network too, on which a database must not be waited for otherwise.
        let Some(row) = tokio::task::block_in_place(|| self.store().flow(flow.0))? else { return Ok(None) };
        match row.status {
            FlowStatus::Unfinished(_) => Ok(Some(Known::UnderWay)),
            FlowStatus::Ended { outcome, at } => {
                Ok(Some(Known::Ended { outcome: decode_outcome(flow, &outcome)?, at }))
            }
        }
    }

    /// Follows a flow until it ends. The follower is called on the node's threads and must be quick. When the flow has
    /// ended already it is told so at once.
    ///
    /// # Errors
    /// The store fails; [`OpenError::Row`] for a flow that is not there at all.
    pub fn follow(&self, flow: FlowId, mut follower: Follower) -> Result<(), OpenError> {
        {
            let mut watch = lock(&self.desk.watch);
            if self.engine.holds(flow) {
                watch.follow(flow, follower);
                return Ok(());
            }
        }
        match self.known(flow)? {
            Some(Known::Ended { outcome, .. }) => {
                follower(&Event::Started);
                follower(&Event::Ended(outcome));
                Ok(())
            }
            _ => Err(OpenError::Row { flow, reason: "there is no such flow".to_owned() }),
        }
    }

    /// The step that a flow went into last.
    pub fn latest_step(&self, flow: FlowId) -> Option<Step> {
        lock(&self.desk.watch).latest(flow)
    }

    /// Tells of every change of the vault from now on, until the tracker answers `false`. Called on the thread that
    /// commits; must be quick.
    pub fn track(&self, tracker: impl FnMut(&VaultChange) -> bool + Send + 'static) {
        lock(&self.trackers).push(Box::new(tracker));
    }

    /// Stores an attachment; `stored` is called once it is durable.
    pub fn attach(&self, id: AttachmentId, bytes: Vec<u8>, stored: impl FnOnce() + Send + 'static) {
        self.desk.queue.store_attachment(id, bytes, Box::new(stored));
    }

    /// How far a peer's messages have come.
    pub fn position(&self, peer: &Name, queue: QueueId) -> Position {
        lock(&self.desk.inbound).position(peer, queue)
    }

    /// Takes messages of a peer, in order, removing what it takes.
    ///
    /// # Errors
    /// No room now, or numbers that do not follow one another; what is left was not taken.
    pub fn receive(
        &self,
        peer: &Name,
        queue: QueueId,
        messages: &mut Vec<(u64, Bytes)>,
    ) -> Result<(), Refusal> {
        let mut taken = 0;
        let result = messages.iter().try_for_each(|(number, bytes)| {
            self.take(peer, queue, *number, bytes)?;
            taken += 1;
            Ok(())
        });
        messages.drain(..taken);
        result
    }

    fn take(&self, peer: &Name, queue: QueueId, number: u64, bytes: &Bytes) -> Result<(), Refusal> {
        if self.available().is_err() || !self.has_room_for(peer, queue) {
            self.refused.store(true, Ordering::Relaxed);
            return Err(Refusal::Busy);
        }
        let Some(ticket) = lock(&self.desk.inbound).accept(peer, queue, number) else {
            let expected = self.position(peer, queue).accepted + 1;
            return Err(Refusal::Invalid(format!("message {number} came where {expected} was due")));
        };
        let meters = &self.desk.meters;
        match self.engine.deliver(peer, bytes.to_vec(), ticket, self.desk.seed(), self.desk.now()) {
            Ok(Delivered::Taken(_)) => meters.taken_messages.increment(),
            Ok(Delivered::Late) => {
                meters.late_messages.increment();
                self.desk.settle(ticket);
            }
            Err(DeliveryError::Trouble(trouble)) => {
                tracing::warn!(%peer, number, %trouble, "a message waits for the database");
                lock(&self.desk.inbound).give_back(ticket);
                self.refused.store(true, Ordering::Relaxed);
                return Err(Refusal::Busy);
            }
            Err(error) => {
                tracing::warn!(%peer, number, %error, "a message was refused");
                meters.refused_messages.increment();
                self.desk.settle(ticket);
            }
        }
        Ok(())
    }

    /// May a peer say more now? What one of them says, and all together, leaves room for what others say and for what
    /// the node's users start.
    fn has_room_for(&self, peer: &Name, queue: QueueId) -> bool {
        if *peer == self.me().name {
            return true;
        }
        let position = self.position(peer, queue);
        self.desk.queue.len() < PEERS_UNITS
            && position.accepted.saturating_sub(position.durable) < PEER_MESSAGES
    }

    /// Ends the flows of peers that are members no longer, if they were not when this was called before either: a map
    /// that is being written does not end them. Called after the network map was read again.
    pub fn review_members(&self) {
        let network = &self.desk.parts.network;
        let gone: BTreeSet<Name> =
            self.engine.starters().into_iter().filter(|peer| network.party(peer).is_none()).collect();
        let mut absent = lock(&self.absent);
        for peer in gone.intersection(&absent) {
            let flows = self.engine.end_of_peer(peer, &FlowError::UnknownParty { name: peer.to_string() });
            tracing::warn!(%peer, flows, "the flows of a peer end that is not a member any more");
        }
        *absent = gone;
    }

    /// A peer has all messages up to a number.
    pub fn acknowledged(&self, peer: &Name, up_to: u64) {
        let news = lock(&self.desk.outbound).acknowledged(peer, up_to, (self.parts().clock)());
        if news {
            self.desk.queue.soon();
            self.engine.room();
        }
    }

    /// The same, said of a queue of this name: counts only if it is the present one.
    pub fn acknowledged_over(&self, peer: &Name, queue: QueueId, up_to: u64) {
        if self.queue_to(peer) == queue {
            self.acknowledged(peer, up_to);
        }
    }

    /// The last durable message to a peer.
    pub fn last(&self, peer: &Name) -> u64 {
        lock(&self.desk.outbound).last(peer)
    }

    /// Durable messages to a peer.
    ///
    /// # Errors
    /// The store fails.
    pub fn outbound(
        &self,
        peer: &Name,
        after: u64,
        limit_bytes: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, Cause> {
        Ok(self.store().outbound(peer, after, limit_bytes)?)
    }

    /// The peers that have not acknowledged everything.
    pub fn unacknowledged(&self) -> Vec<Name> {
        lock(&self.desk.outbound)
            .waiting()
            .filter(|(peer, waiting)| *waiting > 0 && **peer != self.me().name)
            .map(|(peer, _)| peer.clone())
            .collect()
    }

    /// Runs one flow that is ready; `false` when none is.
    pub fn turn(&self) -> bool {
        match self.engine.next() {
            Some(turn) => {
                self.engine.run(turn, self.desk.now());
                self.wake_waiting();
                true
            }
            None => false,
        }
    }

    /// Wakes flows whose time has come, and hands this node what it says to itself.
    pub fn tick(&self) {
        self.engine.tick(self.desk.now());
        self.hear_self();
    }

    /// Makes what waits durable, if anything does, and lets it out: `true` when something was.
    ///
    /// # Errors
    /// Nothing was let out. After a transient error the next call tries the same batch again; any other is a broken
    /// invariant or a lost database, and the node has to end. What is the fault of one flow is no error: its flow is
    /// held, and the others' units are written.
    pub fn commit(&self) -> Result<bool, StoreError> {
        let mut committing = lock(&self.committing);
        if committing.is_none() {
            *committing = self.desk.take_batch();
        }
        let Some(batch) = committing.take() else { return Ok(false) };
        let (batch, result) = match self.desk.apply(&batch) {
            Err(error) if error.is_of_writes() && batch.set_aside.is_none() => {
                match self.set_aside(batch, error) {
                    Ok(batch) => {
                        let result = self.desk.apply(&batch);
                        (batch, result)
                    }
                    Err((batch, error)) => (batch, Err(error)),
                }
            }
            result => (batch, result),
        };
        if let Err(error) = result {
            *committing = Some(batch);
            return Err(error);
        }
        // Released in the order of the batches, so still under the lock.
        self.release(batch);
        Ok(true)
    }

    /// Runs the flows for whose states there may be enough now.
    fn wake_waiting(&self) {
        for flow in self.desk.take_ready() {
            self.engine.wake(flow);
        }
    }

    fn release(&self, mut batch: Batch) {
        for unit in &batch.units {
            if let Some(outcome) = &unit.outcome {
                let meters = &self.desk.meters;
                match outcome.as_ref().map_err(FlowError::fate) {
                    Ok(_) | Err(Fate::Final(_)) => meters.completed.increment(),
                    Err(Fate::Unknown(_)) => meters.unknown.increment(),
                    Err(Fate::Refused) => meters.failed.increment(),
                }
                self.engine.forget(unit.flow);
                self.desk.submissions.forget(unit.flow);
            }
        }
        self.desk.settle_batch(&mut batch);
        self.wake_waiting();
        if batch.units.iter().any(|unit| unit.recovered) {
            tracing::info!("the node is recovered");
            self.engine.admit_only(None);
        }
        let me = &self.desk.parts.me.name;
        if batch.anew.contains(&None) {
            lock(&self.loopback).clear();
        }
        if !batch.anew.is_empty() {
            self.engine.room();
        }
        let mut sends = Vec::with_capacity(batch.sends.len());
        for (peer, number, bytes) in batch.sends {
            let bytes = Bytes::from(bytes);
            if peer == *me {
                lock(&self.loopback).push_back((number, bytes));
            } else {
                sends.push((peer, number, bytes));
            }
        }
        if let Some(post) = self.post.get() {
            for peer in &batch.anew {
                post.begin_anew(peer.as_ref());
            }
            if batch.standing.is_some() {
                post.announce();
            }
            if !sends.is_empty() {
                post.send(sends);
            }
            for progress in &batch.progress {
                if progress.peer == *me {
                    self.acknowledged(me, progress.up_to);
                } else {
                    post.acknowledge(&progress.peer, progress.queue, progress.up_to);
                }
            }
        }
        self.hear_self();
        let mut trackers = lock(&self.trackers);
        if trackers.is_empty() {
            return;
        }
        for write in batch.writes {
            let Write::Transaction(recorded) = write else { continue };
            let change = VaultChange {
                transaction: recorded.id,
                produced: recorded.produced,
                consumed: recorded.consumed,
                at: recorded.at,
            };
            trackers.retain_mut(|tracker| tracker(&change));
        }
    }

    fn hear_self(&self) {
        let own = self.queue();
        let mut loopback = lock(&self.loopback);
        let me = &self.desk.parts.me.name;
        while let Some((number, bytes)) = loopback.front() {
            match self.take(me, own, *number, bytes) {
                Ok(()) => {
                    loopback.pop_front();
                }
                // It is tried again at the next tick.
                Err(_) => return,
            }
        }
    }

    /// Asks for the messages that were refused, if there is room again; see [`Post::resume`].
    pub fn resume(&self) {
        if self.refused.load(Ordering::Relaxed)
            && self.available().is_ok()
            && let Some(post) = self.post.get()
        {
            self.refused.store(false, Ordering::Relaxed);
            post.resume();
        }
    }

    /// Brings the gauges up to date.
    pub fn measure(&self) {
        self.desk.submissions.measure();
        let meters = &self.desk.meters;
        let gauge = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        let long = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        meters.under_way.set(gauge(self.engine.unfinished()));
        meters.queued_turns.set(gauge(self.engine.queued()));
        meters.in_hospital.set(gauge(self.engine.in_hospital()));
        meters.held_states.set(gauge(lock(&self.desk.vault).held()));
        meters.waiting_units.set(gauge(self.desk.queue.len()));
        let waiting = lock(&self.desk.outbound).waiting().map(|(_, waiting)| waiting).sum();
        meters.waiting_messages.set(long(waiting));
        let usage = self.store().usage();
        meters.store_reads.set(long(usage.reads));
        meters.store_read_seconds.set(long(usage.read_ns / 1000));
        meters.store_wait_seconds.set(long(usage.wait_ns / 1000));
        meters.readers.set(i64::from(usage.readers));
        meters.readers_busy.set(i64::from(usage.readers_busy));
    }

    /// Runs flows until the node stops.
    pub(crate) fn work(&self) {
        while self.desk.wait() {
            self.turn();
        }
    }

    /// Makes batches until the node stops and nothing is left, or until the store fails for good.
    pub(crate) fn keep_committing(&self, patience: std::time::Duration) -> Result<(), StoreError> {
        let mut stopping = None;
        while self.is_committing() || self.desk.queue.wait() {
            self.answer_probes();
            match self.commit() {
                Ok(_) => stopping = None,
                Err(error) if error.is_transient() => {
                    tracing::warn!(error = full_text(&error), "the database takes nothing; trying again");
                    if self.desk.queue.is_stopped() {
                        let since = *stopping.get_or_insert_with(std::time::Instant::now);
                        if since.elapsed() > patience {
                            return Err(error);
                        }
                    }
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn is_committing(&self) -> bool {
        lock(&self.committing).is_some()
    }

    /// Stops: flows run no longer, and what waits becomes durable.
    pub(crate) fn stop(&self) {
        self.desk.stop();
        self.desk.queue.stop();
    }
}

fn decode_outcome(flow: FlowId, bytes: &[u8]) -> Result<Outcome, OpenError> {
    borsh::from_slice(bytes).map_err(|error| OpenError::Row { flow, reason: format!("its outcome: {error}") })
}

fn start_of(saved: &SavedFlow) -> Result<Start, OpenError> {
    let flow = FlowId(saved.flow.flow);
    let origin = borsh::from_slice(&saved.flow.origin)
        .map_err(|error| OpenError::Row { flow, reason: format!("its origin: {error}") })?;
    Ok(Start {
        flow,
        name: saved.flow.name.as_str().into(),
        version: saved.flow.version,
        arguments: saved.flow.arguments.clone(),
        origin,
        seed: saved.flow.seed,
        at: saved.flow.at,
    })
}

fn journal_of(start: Start, saved: SavedFlow) -> Result<Saved, OpenError> {
    for (place, (unit, _)) in (0..).zip(&saved.steps) {
        if place != *unit {
            let reason = format!("its unit {place} is missing");
            return Err(OpenError::Row { flow: start.flow, reason });
        }
    }
    Ok(Saved {
        start,
        steps: saved.steps.into_iter().map(|(_, entries)| entries).collect(),
        arrivals: saved
            .arrivals
            .into_iter()
            .map(|arrival| Arrival {
                session: SessionId(arrival.session),
                number: arrival.number,
                message: arrival.message,
                ticket: 0,
            })
            .collect(),
        mark: match saved.mark {
            tally_store::Mark::Running => Mark::Running,
            tally_store::Mark::Paused => Mark::Paused,
            tally_store::Mark::Held { reason } => Mark::Held { reason },
        },
    })
}
