//! The reading half of a log: one feed for each partition, filled by the client behind its back.

use super::context::Context;
use super::frame::{self, Frame};
use super::lookup::{Lookup, is_transient, newer, out_of_order};
use super::{KafkaOptions, Traffic, refused, unreadable};
use crate::cluster::{Foreign, Partition};
use crate::{LogError, Offset, Record, TopicId};
use bytes::Bytes;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::types::RDKafkaErrorCode as Code;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

const LOCK: &str = "no holder of a reader's lock panics";
/// Foreign records kept until they are asked for; older ones are only counted.
const KEPT_FOREIGN: usize = 1024;

pub(super) struct Reader {
    consumer: Arc<BaseConsumer<Context>>,
    lookup: Mutex<Option<Lookup>>,
    arrivals: Arc<Arrivals>,
    foreign: Mutex<VecDeque<Foreign>>,
    options: KafkaOptions,
}

/// Tells a waiting thread that records came in.
#[derive(Default)]
struct Arrivals {
    news: Mutex<bool>,
    arrived: Condvar,
}

impl Arrivals {
    fn tell(&self) {
        *self.news.lock().expect(LOCK) = true;
        self.arrived.notify_all();
    }
}

/// How far one partition has been read.
pub(super) struct Feed {
    partition: Partition,
    queue: Option<PartitionQueue<Context>>,
    /// The record that the next read continues with.
    position: Option<u64>,
    /// The number of the next record to arrive, at most `position`.
    expected: u64,
    /// Up to where there were records when last asked.
    known: u64,
    /// Arrived, and over the limit of the read that fetched it.
    held: Option<Bytes>,
    /// Why nothing behind the position can be read.
    stop: Option<Stop>,
    records: u64,
    bytes: u64,
    foreign: u64,
}

#[derive(Clone)]
enum Stop {
    Newer { position: i64, found: u8 },
    Unexpected { position: i64, what: String },
}

impl Stop {
    fn error(&self, partition: &Partition) -> LogError {
        match self {
            Self::Newer { position, found } => newer(partition, *position, *found),
            Self::Unexpected { position, what } => unreadable(partition, *position, what.clone()),
        }
    }
}

impl Feed {
    pub(super) fn new(partition: Partition) -> Self {
        Self {
            partition,
            queue: None,
            position: None,
            expected: 0,
            known: 0,
            held: None,
            stop: None,
            records: 0,
            bytes: 0,
            foreign: 0,
        }
    }

    /// What was read.
    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            read_records: self.records,
            read_bytes: self.bytes,
            foreign_records: self.foreign,
            position: self.position.unwrap_or(0),
            ..Traffic::default()
        }
    }

    fn stopped(&self) -> Result<(), LogError> {
        self.stop.as_ref().map_or(Ok(()), |stop| Err(stop.error(&self.partition)))
    }
}

impl Reader {
    pub(super) fn new(options: &KafkaOptions) -> Result<Self, LogError> {
        let consumer = options.consumer("reader").create_with_context(Context::default());
        let consumer: BaseConsumer<Context> = consumer.map_err(refused("make a consumer"))?;
        Ok(Self {
            consumer: Arc::new(consumer),
            lookup: Mutex::new(Some(Lookup::new(options)?)),
            arrivals: Arc::default(),
            foreign: Mutex::default(),
            options: options.clone(),
        })
    }

    /// Asks the cluster; this waits for the answer.
    pub(super) fn ask<T>(
        &self,
        question: impl FnOnce(&Lookup) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let mut lookup = self.lookup.lock().expect(LOCK);
        if lookup.is_none() {
            *lookup = Some(Lookup::new(&self.options)?);
        }
        question(lookup.as_ref().expect("it was just made"))
    }

    /// Adds records to `out` as [`Log::read`](crate::Log::read) does. `own` tells, where this process appends to the
    /// partition, the number of the next record appended and of the next committed.
    pub(super) fn read(
        &self,
        topic: TopicId,
        feed: &mut Feed,
        from: Offset,
        max_bytes: usize,
        own: Option<(u64, u64)>,
        out: &mut Vec<Record>,
    ) -> Result<Offset, LogError> {
        if feed.position != Some(from.0) {
            self.seek(topic, feed, from, own)?;
        }
        feed.stopped()?;
        if let Some((_, committed)) = own {
            feed.known = feed.known.max(committed);
        }
        let (mut at, mut bytes) = (from.0, 0);
        let deadline = Instant::now() + self.options.request_timeout();
        loop {
            let payload = match feed.held.take() {
                Some(payload) => payload,
                None => match self.next(topic, feed, at, deadline) {
                    Ok(Some(payload)) => payload,
                    Ok(None) => break,
                    // What was read before is handed out first; the error comes with the next read.
                    Err(_) if at > from.0 && feed.stop.is_some() => break,
                    Err(error) => {
                        feed.position = None;
                        out.truncate(out.len() - usize::try_from(at - from.0).unwrap_or(0));
                        return Err(error);
                    }
                },
            };
            if at > from.0 && bytes + payload.len() > max_bytes {
                feed.held = Some(payload);
                // There is more, so nobody waits.
                self.arrivals.tell();
                break;
            }
            bytes += payload.len();
            out.push(Record { offset: Offset(at), payload });
            at += 1;
            if bytes >= max_bytes {
                self.arrivals.tell();
                break;
            }
        }
        feed.position = Some(at);
        feed.records += at - from.0;
        feed.bytes += bytes as u64;
        Ok(Offset(at))
    }

    /// The payload of record `at`, if it has arrived; where it is known to be there, it is waited for.
    fn next(
        &self,
        topic: TopicId,
        feed: &mut Feed,
        at: u64,
        deadline: Instant,
    ) -> Result<Option<Bytes>, LogError> {
        loop {
            let queue = feed.queue.as_ref().expect("a feed with a position has a queue");
            let mut found = queue.poll(Duration::ZERO);
            if found.is_none() {
                if at >= feed.known {
                    return Ok(None);
                }
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    while self.consumer.poll(Duration::ZERO).is_some() {}
                    let reason = self
                        .consumer
                        .context()
                        .explain(format!("record {at} of {} did not come", feed.partition));
                    return Err(LogError::Cluster { operation: "read", reason });
                }
                found = queue.poll(left.min(Duration::from_millis(100)));
            }
            match found {
                None => {}
                Some(Ok(message)) => match frame::parse(message.key()) {
                    Frame::Foreign(what) => {
                        self.keep_foreign(&feed.partition, &message, what);
                        feed.foreign += 1;
                    }
                    Frame::Newer(found) => {
                        let position = message.offset();
                        drop(message);
                        feed.stop = Some(Stop::Newer { position, found });
                        feed.stopped()?;
                    }
                    Frame::Ours(offset) if offset == feed.expected => {
                        let payload = (offset == at)
                            .then(|| Bytes::copy_from_slice(message.payload().unwrap_or_default()));
                        drop(message);
                        feed.expected += 1;
                        if payload.is_some() {
                            return Ok(payload);
                        }
                    }
                    Frame::Ours(offset) => {
                        let position = message.offset();
                        drop(message);
                        let what = out_of_order(offset);
                        feed.stop = Some(Stop::Unexpected { position, what });
                        feed.stopped()?;
                    }
                },
                Some(Err(error)) if is_transient(&error) => {}
                Some(Err(error)) => return Err(self.broken(topic, &feed.partition, at, &error)),
            }
        }
    }

    fn broken(&self, topic: TopicId, partition: &Partition, at: u64, error: &KafkaError) -> LogError {
        match error.rdkafka_error_code() {
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => {
                match self.ask(|lookup| lookup.bounds(partition)) {
                    Ok(bounds) => {
                        let (first, next) = (Offset(bounds.first()), Offset(bounds.next()));
                        LogError::OutOfRange { topic, asked: Offset(at), first, next }
                    }
                    Err(error) => error,
                }
            }
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
                let what = format!("it has no partition {}", partition.number);
                LogError::Topic { topic: partition.topic.clone(), what }
            }
            Some(Code::TopicAuthorizationFailed) => LogError::Topic {
                topic: partition.topic.clone(),
                what: "this process has no access to it".into(),
            },
            _ => LogError::Cluster { operation: "read", reason: self.consumer.context().explain(error) },
        }
    }

    fn keep_foreign(&self, partition: &Partition, message: &BorrowedMessage<'_>, what: &'static str) {
        let position = u64::try_from(message.offset()).unwrap_or(0);
        let payload = frame::beginning(message.payload());
        let mut foreign = self.foreign.lock().expect(LOCK);
        if foreign.len() == KEPT_FOREIGN {
            foreign.pop_front();
        }
        foreign.push_back(Foreign { partition: partition.clone(), position, what, payload });
    }

    /// Goes to record `from`, which is asked for.
    fn seek(
        &self,
        topic: TopicId,
        feed: &mut Feed,
        from: Offset,
        own: Option<(u64, u64)>,
    ) -> Result<(), LogError> {
        let partition = &feed.partition;
        let (begin, all) = self.ask(|lookup| Ok((lookup.begin(partition)?, lookup.bounds(partition))))?;
        let first = Offset(begin.first());
        let position = match &all {
            Ok(all) => {
                let next = Offset(own.map_or(all.next(), |(next, _)| next));
                if from < first || from > next {
                    return Err(LogError::OutOfRange { topic, asked: from, first, next });
                }
                // From the first on, what lies before it is seen too: it is foreign.
                match () {
                    () if from == first => Some(begin.low),
                    () if from.0 >= all.next() => Some(all.high),
                    () => self.ask(|lookup| lookup.locate(partition, from.0, all))?,
                }
            }
            // The end is not as it should be; what lies before it can be read all the same.
            Err(LogError::Version { .. } | LogError::Unreadable { .. }) if from == first => Some(begin.low),
            Err(LogError::Version { .. } | LogError::Unreadable { .. }) if from > first => {
                self.ask(|lookup| lookup.locate(partition, from.0, &begin)).unwrap_or(None)
            }
            Err(_) => None,
        };
        let (expected, known) = match (&all, position) {
            (Ok(all), Some(_)) => (from.0.min(all.next()), all.next()),
            (Err(_), Some(_)) => (from.0, from.0),
            (Ok(all), None) => {
                let what = format!("not record {from}, which lies before the last");
                return Err(unreadable(partition, all.high, what));
            }
            (Err(_), None) => return all.map(|_| ()),
        };
        self.go(feed, position.unwrap_or(begin.low))?;
        (feed.expected, feed.known) = (expected, known);
        (feed.held, feed.stop) = (None, None);
        feed.position = Some(from.0);
        Ok(())
    }

    fn go(&self, feed: &mut Feed, position: i64) -> Result<(), LogError> {
        let Partition { topic, number } = &feed.partition;
        let number = i32::from(*number);
        let place = rdkafka::Offset::Offset(position);
        let wrong = refused("seek in a partition");
        if feed.queue.is_some() {
            return self.consumer.seek(topic, number, place, self.options.request_timeout()).map_err(wrong);
        }
        // Split first: what arrives then never enters the queue that all partitions share.
        let queue = self.consumer.split_partition_queue(topic, number);
        let mut queue =
            queue.ok_or_else(|| unreadable(&feed.partition, position, "no queue for it".into()))?;
        let arrivals = Arc::clone(&self.arrivals);
        queue.set_nonempty_callback(move || arrivals.tell());
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, number, place).map_err(&wrong)?;
        self.consumer.incremental_assign(&list).map_err(wrong)?;
        // The thread that fetches from the partition's broker may sleep for up to a second before it sees that there is
        // something new to fetch, unless an answer comes in. So it is asked something.
        drop(self.consumer.fetch_watermarks(topic, number, self.options.request_timeout()));
        feed.queue = Some(queue);
        Ok(())
    }

    pub(super) fn wait(&self, limit: Duration) {
        // Complaints of the client are taken from its queue, which is bounded by nobody else.
        while self.consumer.poll(Duration::ZERO).is_some() {}
        let news = self.arrivals.news.lock().expect(LOCK);
        let (mut news, _) = self.arrivals.arrived.wait_timeout_while(news, limit, |news| !*news).expect(LOCK);
        *news = false;
    }

    pub(super) fn foreign(&self) -> Vec<Foreign> {
        let mut foreign: MutexGuard<'_, _> = self.foreign.lock().expect(LOCK);
        foreign.drain(..).collect()
    }
}
