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

/// A record that was passed over because nothing depends on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetAside {
    /// Where it lies.
    pub partition: Partition,
    /// Which it is there.
    pub position: u64,
    /// What is wrong with it.
    pub reason: String,
    /// Its bytes, or as many of them as are kept.
    pub payload: bytes::Bytes,
}

/// Where what is set aside gathers.
pub type Aside = Arc<Mutex<Vec<SetAside>>>;

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
    aside: Option<Aside>,
}

struct Feed {
    id: TopicId,
    partition: Partition,
    cursor: Cursor,
    /// The position after the last record fetched.
    fetched: u64,
    records: VecDeque<Record>,
    scratch: Vec<Record>,
}

/// Bytes that are fetched from the log at once.
const FETCH_BYTES: usize = 1 << 20;

impl Feeds {
    /// These partitions, each from the position of its cursor on. What cannot be decoded is an error, or goes
    /// into `aside` where nothing depends on it.
    pub fn new(
        log: Arc<dyn SharedLog>,
        partitions: impl IntoIterator<Item = (TopicId, Partition, Cursor)>,
        aside: Option<Aside>,
    ) -> Self {
        let feed = |(id, partition, cursor): (TopicId, Partition, Cursor)| Feed {
            fetched: cursor.next(),
            id,
            partition,
            cursor,
            records: VecDeque::new(),
            scratch: Vec::new(),
        };
        Self { log, feeds: partitions.into_iter().map(feed).collect(), turn: 0, aside }
    }

    /// By partition, the position after the last record that has come, whether it was polled or not.
    pub(crate) fn come(&self) -> Vec<u64> {
        self.feeds.iter().map(|feed| feed.fetched).collect()
    }

    /// Whether everything before position `ends`, by partition, was polled.
    pub(crate) fn has_reached(&self, ends: &[u64]) -> bool {
        self.feeds.iter().zip(ends).all(|(feed, end)| feed.cursor.next() >= *end)
    }

    /// By partition, its end as of now; none where the cluster does not say.
    pub(crate) fn ends(&self) -> Option<Vec<u64>> {
        let end = |feed: &Feed| Some(self.log.next(feed.id).0).filter(|end| *end != u64::MAX);
        self.feeds.iter().map(end).collect()
    }

    /// The next batch of the next partition that has one.
    pub(crate) fn poll<T: Message>(&mut self) -> Result<Option<Polled<T>>, Unreadable> {
        for _ in 0..self.feeds.len() {
            let at = self.turn;
            self.turn = (self.turn + 1) % self.feeds.len();
            while let Some(record) = self.feeds[at].take(&*self.log)? {
                let position = record.offset.0;
                let feed = &self.feeds[at];
                match T::decode(&record.payload) {
                    Ok(value) => {
                        feed.cursor.0.store(position + 1, Ordering::Release);
                        return Ok(Some(Polled { feed: at, position, value: Arc::new(value) }));
                    }
                    Err(source) => {
                        let partition = feed.partition.clone();
                        let Some(aside) = &self.aside else {
                            return Err(Unreadable::Form { partition, position, source });
                        };
                        let (reason, payload) = (source.to_string(), record.payload);
                        let set_aside = SetAside { partition, position, reason, payload };
                        aside.lock().expect("no holder of the lock panics").push(set_aside);
                        feed.cursor.0.store(position + 1, Ordering::Release);
                    }
                }
            }
        }
        Ok(None)
    }
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
