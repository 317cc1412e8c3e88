//! What other processes append: partitions of a shared log, read in turn.

use crate::message::Message;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tally_ledger::wire::DecodeError;
use tally_log::cluster::{Partition, SharedLog};
use tally_log::{LogError, Offset, Record, TopicId, Visibility};

/// A batch, and where it was read.
#[derive(Debug)]
pub struct Polled<T> {
    /// Which of the reader's partitions; 0 where there is one topic in memory.
    pub feed: usize,
    /// The position there.
    pub position: u64,
    /// The batch.
    pub value: Arc<T>,
}

/// A record that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The log could not give it.
    #[error("{partition} cannot be read from record {position} on")]
    Log {
        /// Where.
        partition: Partition,
        /// From where on.
        position: u64,
        /// Why.
        #[source]
        source: LogError,
    },
    /// It has another form.
    #[error(
        "record {position} of {partition} has another form; this program may be older than what wrote it"
    )]
    Form {
        /// Where.
        partition: Partition,
        /// Which.
        position: u64,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
}

/// The kind of reason for which a record is set aside: what an audit counts by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordFault {
    /// No program of this network appended it.
    Foreign,
    /// It has another form than the topic's records.
    Unreadable,
    /// It breaks the count of the partition's records: nothing after it is read.
    OutOfOrder,
    /// It names a participant that the network does not have.
    UnknownParticipant,
    /// It names another participant than the one that may write there.
    AnothersName,
    /// It is about a batch that no scheduler accepted.
    UnknownBatch,
    /// It takes the batch to have another length.
    WrongLength,
    /// Its signature is not the participant's.
    WrongSignature,
    /// It answers for a transaction in which the participant has no part.
    NotAsked,
    /// It contradicts an earlier answer of the participant.
    Contradiction,
    /// It cosigns a head that the operator did not sign.
    NotTheOperators,
    /// It cosigns a head that the operator signed and that is not of this sequence: evidence against the operator.
    TwoHistories,
}

impl RecordFault {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Foreign,
        Self::Unreadable,
        Self::OutOfOrder,
        Self::UnknownParticipant,
        Self::AnothersName,
        Self::UnknownBatch,
        Self::WrongLength,
        Self::WrongSignature,
        Self::NotAsked,
        Self::Contradiction,
        Self::NotTheOperators,
        Self::TwoHistories,
    ];

    /// Its name in dead letters and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Unreadable => "unreadable",
            Self::OutOfOrder => "out_of_order",
            Self::UnknownParticipant => "unknown_participant",
            Self::AnothersName => "anothers_name",
            Self::UnknownBatch => "unknown_batch",
            Self::WrongLength => "wrong_length",
            Self::WrongSignature => "wrong_signature",
            Self::NotAsked => "not_asked",
            Self::Contradiction => "contradiction",
            Self::NotTheOperators => "not_the_operators",
            Self::TwoHistories => "two_histories",
        }
    }

    /// The kind of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

/// A record that was passed over because nothing depends on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetAside {
    /// Where it lies.
    pub partition: Partition,
    /// Which it is there.
    pub position: u64,
    /// What kind of fault it has.
    pub fault: RecordFault,
    /// What is wrong with it.
    pub reason: String,
    /// How many bytes it has.
    pub bytes: usize,
    /// The first [`KEPT_BYTES`] of them at most.
    pub kept: bytes::Bytes,
}

/// Bytes of a record that are set aside with the reason.
pub const KEPT_BYTES: usize = 1 << 16;
/// Records that are set aside before those that gathered are taken away: what one member appends must neither fill the
/// memory nor the commit of those who read it.
const MAX_ASIDE: usize = 256;

impl SetAside {
    /// A record at `position` of `partition`.
    pub fn new(
        partition: Partition,
        position: u64,
        fault: RecordFault,
        reason: String,
        payload: &[u8],
    ) -> Self {
        let kept = bytes::Bytes::copy_from_slice(&payload[..payload.len().min(KEPT_BYTES)]);
        Self { partition, position, fault, reason, bytes: payload.len(), kept }
    }
}

/// Where what is set aside gathers.
pub type Aside = Arc<Mutex<Vec<SetAside>>>;

/// What becomes of records that cannot be read.
#[derive(Clone)]
pub enum UnreadableRecords {
    /// They are an error: to pass over one could change a decision.
    Stop,
    /// They gather here: nothing depends on them.
    SetAside(Aside),
    /// Each partition is another member's. What cannot be read gathers here and holds up nobody else: also a partition
    /// that breaks the count of its records, which is read no further.
    OfMembers(Aside),
    /// They are the reader's own institution's, and those who decide have set them aside.
    PassOver,
}

/// How far a reader has come in one partition, for those who record it.
#[derive(Clone, Debug)]
pub struct Cursor(Arc<AtomicU64>);

impl Cursor {
    /// A cursor before the record at `next`.
    pub fn new(next: u64) -> Self {
        Self(Arc::new(AtomicU64::new(next)))
    }
    /// The position of the next record that the stage gets.
    pub fn next(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Several partitions of a shared log.
pub struct Feeds {
    log: Arc<dyn SharedLog>,
    feeds: Vec<Feed>,
    turn: usize,
    unreadable: UnreadableRecords,
}

struct Feed {
    id: TopicId,
    partition: Partition,
    cursor: Cursor,
    /// The position after the last record fetched.
    fetched: u64,
    records: VecDeque<Record>,
    scratch: Vec<Record>,
    /// Whether nothing more of it can be read.
    ended: bool,
}

/// Bytes that are fetched from the log at once.
const FETCH_BYTES: usize = 1 << 20;

impl Feeds {
    /// These partitions, each from the position of its cursor on.
    pub fn new(
        log: Arc<dyn SharedLog>,
        partitions: impl IntoIterator<Item = (TopicId, Partition, Cursor)>,
        unreadable: UnreadableRecords,
    ) -> Self {
        let feed = |(id, partition, cursor): (TopicId, Partition, Cursor)| Feed {
            fetched: cursor.next(),
            id,
            partition,
            cursor,
            records: VecDeque::new(),
            scratch: Vec::new(),
            ended: false,
        };
        Self { log, feeds: partitions.into_iter().map(feed).collect(), turn: 0, unreadable }
    }

    /// How many partitions there are.
    pub(crate) fn count(&self) -> usize {
        self.feeds.len()
    }

    /// By partition, the position after the last record that has come, whether it was polled or not.
    pub(crate) fn come(&self) -> Vec<u64> {
        self.feeds.iter().map(|feed| feed.fetched).collect()
    }

    /// Whether everything before position `ends`, by partition, was polled.
    pub(crate) fn has_reached(&self, ends: &[u64]) -> bool {
        self.feeds.iter().zip(ends).all(|(feed, end)| feed.cursor.next() >= *end)
    }

    /// Whether everything of one partition before position `end` was polled.
    pub(crate) fn has_come_to(&self, feed: usize, end: u64) -> bool {
        self.feeds.get(feed).is_some_and(|feed| feed.cursor.next() >= end)
    }

    /// By partition, its end as of now; none where the cluster does not say.
    pub(crate) fn ends(&self) -> Option<Vec<u64>> {
        (0..self.feeds.len()).map(|feed| self.end(feed)).collect()
    }

    /// The end of one partition as of now; none where the cluster does not say.
    pub(crate) fn end(&self, feed: usize) -> Option<u64> {
        let id = self.feeds.get(feed)?.id;
        Some(self.log.next(id).0).filter(|end| *end != u64::MAX)
    }

    /// The next batch of the next partition that has one, but for those partitions of which `waits` says so.
    pub(crate) fn poll_unless<T: Message>(
        &mut self,
        waits: impl Fn(usize) -> bool,
    ) -> Result<Option<Polled<T>>, Unreadable> {
        for _ in 0..self.feeds.len() {
            let at = self.turn;
            self.turn = (self.turn + 1) % self.feeds.len();
            if waits(at) {
                continue;
            }
            while let Some(record) = self.take(at)? {
                let position = record.offset.0;
                let feed = &self.feeds[at];
                match T::decode(&record.payload) {
                    Ok(value) => {
                        feed.cursor.0.store(position + 1, Ordering::Release);
                        return Ok(Some(Polled { feed: at, position, value: Arc::new(value) }));
                    }
                    Err(source) => {
                        let partition = feed.partition.clone();
                        match &self.unreadable {
                            UnreadableRecords::Stop => {
                                return Err(Unreadable::Form { partition, position, source });
                            }
                            UnreadableRecords::SetAside(aside) | UnreadableRecords::OfMembers(aside) => {
                                let (fault, reason) = (RecordFault::Unreadable, source.to_string());
                                let letter =
                                    SetAside::new(partition, position, fault, reason, &record.payload);
                                aside.lock().expect(LOCK).push(letter);
                            }
                            UnreadableRecords::PassOver => {
                                tracing::warn!(%partition, position, error = %source, "a record was passed over");
                            }
                        }
                        feed.cursor.0.store(position + 1, Ordering::Release);
                    }
                }
            }
        }
        Ok(None)
    }

    /// The next record of a partition, if it has one that is to be read now.
    fn take(&mut self, at: usize) -> Result<Option<Record>, Unreadable> {
        let feed = &mut self.feeds[at];
        let (aside, of_members) = match &self.unreadable {
            UnreadableRecords::SetAside(aside) => (aside, false),
            UnreadableRecords::OfMembers(aside) => (aside, true),
            UnreadableRecords::Stop | UnreadableRecords::PassOver => return feed.take(&*self.log),
        };
        if feed.ended || aside.lock().expect(LOCK).len() >= MAX_ASIDE {
            return Ok(None);
        }
        match feed.take(&*self.log) {
            Err(Unreadable::Log { partition, position, source })
                if of_members && breaks_the_count(&source) =>
            {
                feed.ended = true;
                let letter =
                    SetAside::new(partition, position, RecordFault::OutOfOrder, source.to_string(), &[]);
                aside.lock().expect(LOCK).push(letter);
                Ok(None)
            }
            taken => taken,
        }
    }
}

const LOCK: &str = "no holder of the lock panics";

/// Whether a log says of a partition that nothing of it from some record on can be read, whoever tries.
pub(crate) fn breaks_the_count(error: &LogError) -> bool {
    matches!(error, LogError::Unreadable { .. } | LogError::Version { .. } | LogError::OutOfRange { .. })
}

impl Feed {
    fn take(&mut self, log: &dyn SharedLog) -> Result<Option<Record>, Unreadable> {
        if self.records.is_empty() {
            let read =
                log.read(self.id, Offset(self.fetched), FETCH_BYTES, Visibility::Durable, &mut self.scratch);
            let position = self.fetched;
            let failed = |source| Unreadable::Log { partition: self.partition.clone(), position, source };
            self.fetched = read.map_err(failed)?.0;
            self.records.extend(self.scratch.drain(..));
        }
        Ok(self.records.pop_front())
    }
}
