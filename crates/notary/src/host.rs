//! Runs a replica on a thread: its clock, its timers, its storage, and what it says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use alloy_primitives::Address;
use tally_consensus::Keys;
use tally_contracts::TransactionId;
use thiserror::Error;

use crate::{
    Answer, BatchError, Client, Cluster, Config, Consumptions, Effect, Fault, Input, Judge, Message,
    OpenError, Rejection, Replica, SignedAnswer, Storage, StorageError, Timer,
};

/// How long the host waits at most before it looks around.
const IDLE: Duration = Duration::from_secs(1);

/// How a member reaches the other members and its clients. Called on the host's thread: none of
/// these may block.
///
/// What is sent may be lost, repeated, late and out of order; the replica sends again what matters.
/// Whoever implements it authenticates both ends, bounds what waits for each of them, and hands in
/// what it receives as [`Input::Message`], [`Input::Request`], [`Input::Connected`] and
/// [`Input::Disconnected`].
pub trait Transport {
    /// Sends a message to another member, if it is connected.
    fn send(&mut self, to: Address, bytes: Vec<u8>);

    /// Sends an answer to a client, if it is connected.
    fn answer(&mut self, to: &Client, answer: &SignedAnswer);

    /// Tells a client that its request was not taken.
    fn reject(&mut self, to: &Client, transaction: TransactionId, reason: &Rejection);

    /// A member did what none that is right does: for the log.
    fn blame(&mut self, member: Address, fault: &Fault);

    /// The voting key did not sign a message of this height and round, which was not sent: for the
    /// log.
    fn cannot_sign(&mut self, height: u64, round: u32);

    /// How far the replica is, after each step: the batches that are decided and carried out here,
    /// and the requests that wait.
    fn progress(&mut self, height: u64, waiting: usize) {
        let _ = (height, waiting);
    }
}

/// Where a host hears from. Called on the host's thread.
///
/// A member that says too much must not keep the host from hearing the others: whoever implements
/// it bounds what waits of each, and takes from each in turn.
pub trait Inbox {
    /// What is to be done next; `None` when nothing came for so long.
    fn next(&mut self, wait: Duration) -> Option<Told>;
}

/// One line for all. It ends once nobody can tell it anything more.
impl Inbox for &Receiver<Told> {
    fn next(&mut self, wait: Duration) -> Option<Told> {
        match self.recv_timeout(wait) {
            Ok(told) => Some(told),
            Err(RecvTimeoutError::Disconnected) => Some(Told::Stop),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }
}

/// What a member is, beside its storage and its network.
pub struct Identity {
    /// The cluster that it is a member of.
    pub cluster: Arc<Cluster>,
    /// Its voting key.
    pub keys: Arc<dyn Keys>,
    /// Signs answers with its key for answers.
    pub sign: Box<dyn Fn(Answer) -> SignedAnswer + Send>,
}

/// What a running host is told.
#[derive(Debug)]
pub enum Told {
    /// Something for the replica.
    Input(Input),
    /// To end. What it signed and decided is durable.
    Stop,
}

/// Why a host does not start, or ended.
#[derive(Debug, Error)]
pub enum HostError {
    /// The storage failed. Whether its last write is durable is not known: open it again.
    #[error("the storage of the clustered notary failed")]
    Storage(#[from] StorageError),
    /// The storage is not one that this member can go on from.
    #[error("the clustered notary does not start from its storage")]
    Open(#[from] OpenError),
    /// See [`Effect::Halt`].
    #[error(
        "a quorum sealed batch {height}, which does not follow from the batches before; a person has to look"
    )]
    Halted {
        /// The height of that batch.
        height: u64,
        /// What is wrong with it.
        #[source]
        why: BatchError,
    },
}

/// A replica with all that it needs to run.
pub struct Host<S, T> {
    replica: Replica,
    storage: S,
    transport: T,
    sign: Box<dyn Fn(Answer) -> SignedAnswer + Send>,
    /// Bytes of a message between members.
    message_bytes: usize,
    timers: BinaryHeap<Reverse<(Instant, Timer)>>,
}

impl<S: Storage, T: Transport> Host<S, T> {
    /// A member that goes on where its storage ended.
    ///
    /// # Errors
    /// [`HostError::Storage`] or [`HostError::Open`].
    pub fn open(
        identity: Identity,
        config: Config,
        judge: Box<dyn Judge>,
        storage: S,
        transport: T,
    ) -> Result<Self, HostError> {
        let Identity { cluster, keys, sign } = identity;
        let message_bytes = config.message_bytes();
        let record = storage.record()?;
        let mut failure = None;
        let batches =
            Stored { storage: &storage, bytes: message_bytes, next: 1, read: Vec::new().into_iter() };
        let batches = batches.map_while(|batch| batch.map_err(|error| failure = Some(error)).ok());
        let replica = Replica::open(cluster, config, keys, judge, record.as_deref(), batches);
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(Self {
                replica: replica?,
                storage,
                transport,
                sign,
                message_bytes,
                timers: BinaryHeap::new(),
            }),
        }
    }

    /// What the member has seen consumed: to be read while it runs.
    #[must_use]
    pub fn consumptions(&self) -> Consumptions {
        self.replica.consumptions()
    }

    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// [`HostError`]: the member must sign nothing more until a person, or a start from its
    /// storage, has seen to it.
    pub fn run(mut self, mut inbox: impl Inbox) -> Result<(), HostError> {
        self.step(Input::Start)?;
        loop {
            let wait = self
                .timers
                .peek()
                .map_or(IDLE, |Reverse((at, _))| at.saturating_duration_since(Instant::now()).min(IDLE));
            match inbox.next(wait) {
                Some(Told::Input(input)) => self.step(input)?,
                Some(Told::Stop) => return Ok(()),
                None => {}
            }
            while let Some(Reverse((at, timer))) = self.timers.peek().copied()
                && at <= Instant::now()
            {
                self.timers.pop();
                self.step(Input::Timer(timer))?;
            }
        }
    }

    fn step(&mut self, input: Input) -> Result<(), HostError> {
        let mut effects = Vec::new();
        self.replica.step(now_ms(), input, &mut effects);
        effects.into_iter().try_for_each(|effect| self.carry_out(effect))?;
        self.transport.progress(self.replica.height(), self.replica.waiting());
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), HostError> {
        match effect {
            Effect::Persist(record) => self.storage.persist(&record)?,
            Effect::Append { height, batch } => self.storage.append(height, &batch)?,
            Effect::Send { to, bytes } => self.transport.send(to, bytes),
            Effect::SendBatches { to, from } => {
                // Half of a message at most, so that what encodes the batches fits beside them.
                let batches = self.storage.batches(from, self.message_bytes / 2)?;
                if !batches.is_empty() {
                    self.transport.send(to, Message::Batches(batches).to_bytes());
                }
            }
            Effect::Answer { to, answer } => {
                let signed = (self.sign)(answer);
                to.iter().for_each(|client| self.transport.answer(client, &signed));
            }
            Effect::Reject { to, transaction, reason } => self.transport.reject(&to, transaction, &reason),
            Effect::SetTimer { timer, after_ms } => {
                self.timers.push(Reverse((Instant::now() + Duration::from_millis(after_ms), timer)));
            }
            Effect::Blame { member, fault } => self.transport.blame(member, &fault),
            Effect::CannotSign { height, round } => self.transport.cannot_sign(height, round),
            Effect::Halt { height, why } => return Err(HostError::Halted { height, why }),
        }
        Ok(())
    }
}

/// All batches of a storage, in order, a few of them in memory.
struct Stored<'a, S> {
    storage: &'a S,
    bytes: usize,
    next: u64,
    read: std::vec::IntoIter<Vec<u8>>,
}

impl<S: Storage> Iterator for Stored<'_, S> {
    type Item = Result<Vec<u8>, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read.len() == 0 {
            match self.storage.batches(self.next, self.bytes) {
                Ok(batches) => self.read = batches.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
        let batch = self.read.next()?;
        self.next += 1;
        Some(Ok(batch))
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
