//! Questions to the cluster about a partition: where it begins and ends, and where a record lies.

use super::context::Context;
use super::frame::{self, Frame};
use super::{KafkaOptions, refused, unreadable};
use crate::LogError;
use crate::cluster::Partition;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{Offset, TopicPartitionList};
use std::time::{Duration, Instant};

/// Asks by a consumer of its own, so that what is being read is not disturbed. It waits for the answers.
pub(super) struct Lookup {
    consumer: BaseConsumer<Context>,
    limit: Duration,
}

/// For how long a client's complaints are gathered once it has failed.
const COMPLAINTS: Duration = Duration::from_millis(50);

/// Where a record of ours lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// In the server's counting.
    pub(super) position: i64,
    /// In the count of the partition's own records.
    pub(super) offset: u64,
}

/// What a partition holds: committed records only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The server's first position, and the one after its last committed.
    pub(super) low: i64,
    pub(super) high: i64,
    /// The first and the last record, where there is one.
    pub(super) ends: Option<(Place, Place)>,
}

impl Bounds {
    pub(super) fn first(&self) -> u64 {
        self.ends.map_or(0, |(first, _)| first.offset)
    }

    pub(super) fn next(&self) -> u64 {
        self.ends.map_or(0, |(_, last)| last.offset.saturating_add(1))
    }
}

impl Lookup {
    pub(super) fn new(options: &KafkaOptions) -> Result<Self, LogError> {
        let mut config = options.consumer("lookup");
        config
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "5")
            .set("max.partition.fetch.bytes", "65536")
            .set("queued.min.messages", "1");
        let consumer = config.create_with_context(Context::default()).map_err(refused("make a consumer"))?;
        Ok(Self { consumer, limit: options.request_timeout() })
    }

    fn explained(&self, operation: &'static str, error: &KafkaError) -> LogError {
        // What the client complains about comes with its events, one at each poll.
        let enough = Instant::now() + COMPLAINTS;
        while Instant::now() < enough {
            let _ = self.consumer.poll(Duration::from_millis(5));
        }
        LogError::Cluster { operation, reason: self.consumer.context().explain(error) }
    }

    /// That every partition is there.
    pub(super) fn check(&self, partitions: &[&Partition]) -> Result<(), LogError> {
        let mut topics: Vec<_> = partitions.iter().map(|partition| partition.topic.as_str()).collect();
        topics.sort_unstable();
        topics.dedup();
        for topic in topics {
            let found = self
                .consumer
                .fetch_metadata(Some(topic), self.limit)
                .map_err(|error| self.explained("describe a topic", &error))?;
            let wrong = |what: String| LogError::Topic { topic: topic.to_owned(), what };
            let found = found.topics().iter().find(|found| found.name() == topic);
            let found = found.ok_or_else(|| wrong("the cluster does not know it".into()))?;
            if let Some(error) = found.error() {
                return Err(wrong(match error.into() {
                    Code::UnknownTopicOrPartition | Code::UnknownTopic => {
                        "it does not exist; create it".into()
                    }
                    Code::TopicAuthorizationFailed => "this process has no access to it".into(),
                    code => code.to_string(),
                }));
            }
            for partition in partitions.iter().filter(|partition| partition.topic == topic) {
                if !found.partitions().iter().any(|found| found.id() == i32::from(partition.number)) {
                    let (count, number) = (found.partitions().len(), partition.number);
                    return Err(wrong(format!("it has {count} partitions, and no partition {number}")));
                }
            }
        }
        Ok(())
    }

    fn watermarks(&self, partition: &Partition) -> Result<(i64, i64), LogError> {
        let deadline = Instant::now() + self.limit;
        loop {
            match self.consumer.fetch_watermarks(&partition.topic, partition.number.into(), self.limit) {
                Ok(found) => return Ok(found),
                Err(error) if !is_transient(&error) || Instant::now() > deadline => {
                    return Err(self.explained("ask for the ends of a partition", &error));
                }
                // A broker that has just become leader says so until it is sure.
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Asks about a partition by its ends. Where records are deleted between the answers, it asks again.
    fn between<T>(
        &self,
        partition: &Partition,
        ask: impl Fn(i64, i64) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let deadline = Instant::now() + self.limit;
        loop {
            let (low, high) = self.watermarks(partition)?;
            match ask(low, high) {
                Err(_) if Instant::now() < deadline && self.watermarks(partition)?.0 > low => {}
                answer => return answer,
            }
        }
    }

    /// Where the partition's records begin and end. It fails if the last are not as they should be.
    pub(super) fn bounds(&self, partition: &Partition) -> Result<Bounds, LogError> {
        self.between(partition, |low, high| {
            let Some(first) = self.first(partition, low, high)? else {
                return Ok(Bounds { low, high, ends: None });
            };
            let last = self.last(partition, first.position, high)?;
            let last =
                last.ok_or_else(|| unreadable(partition, first.position, "nothing any more".to_owned()))?;
            Ok(Bounds { low, high, ends: Some((first, last)) })
        })
    }

    /// The number that the partition's next record gets: [`bounds`](Self::bounds) without looking for where it begins.
    pub(super) fn next(&self, partition: &Partition) -> Result<u64, LogError> {
        self.between(partition, |low, high| match self.last(partition, low, high)? {
            Some(last) => Ok(last.offset.saturating_add(1)),
            None if low > 0 => Err(forgotten(partition, low)),
            None => Ok(0),
        })
    }

    /// Where the partition's records begin, as if the first were the last.
    pub(super) fn begin(&self, partition: &Partition) -> Result<Bounds, LogError> {
        self.between(partition, |low, high| {
            let first = self.first(partition, low, high)?;
            Ok(Bounds { low, high, ends: first.map(|first| (first, first)) })
        })
    }

    /// The first record between a partition's ends.
    fn first(&self, partition: &Partition, low: i64, high: i64) -> Result<Option<Place>, LogError> {
        let first = self.at_or_after(partition, low, high)?;
        if first.is_none() && low > 0 {
            return Err(forgotten(partition, low));
        }
        Ok(first)
    }

    /// The last record at or after position `low`: looked for backwards in steps that double twice, since commits take
    /// positions too. It must follow the one before it.
    fn last(&self, partition: &Partition, low: i64, high: i64) -> Result<Option<Place>, LogError> {
        let mut step = 4;
        loop {
            let from = (high - step).max(low);
            let (mut last, mut count): (Option<Place>, _) = (None, 0);
            self.scan(partition, from, high, |found| {
                let follows = last.is_none_or(|last| last.offset.checked_add(1) == Some(found.offset));
                if !follows || found.offset == u64::MAX {
                    return Err(unreadable(partition, found.position, out_of_order(found.offset)));
                }
                (last, count) = (Some(found), count + 1);
                Ok(true)
            })?;
            if count > 1 || from == low {
                return Ok(last);
            }
            step *= 4;
        }
    }

    /// The first record of ours at or after a position and before `high`.
    fn at_or_after(
        &self,
        partition: &Partition,
        position: i64,
        high: i64,
    ) -> Result<Option<Place>, LogError> {
        let mut first = None;
        self.scan(partition, position, high, |found| {
            first = Some(found);
            Ok(false)
        })?;
        Ok(first)
    }

    /// Shows `see` the records of ours from a position up to `high`, until it returns false.
    fn scan(
        &self,
        partition: &Partition,
        position: i64,
        high: i64,
        mut see: impl FnMut(Place) -> Result<bool, LogError>,
    ) -> Result<(), LogError> {
        if position >= high {
            return Ok(());
        }
        let mut list = TopicPartitionList::new();
        let wrong = refused("look into a partition");
        let number = partition.number.into();
        list.add_partition_offset(&partition.topic, number, Offset::Offset(position)).map_err(&wrong)?;
        self.consumer.assign(&list).map_err(&wrong)?;
        let scanned = loop {
            match self.poll(partition, high) {
                Ok(Some(found)) => match see(found) {
                    Ok(true) if found.position + 1 < high => {}
                    Ok(_) => break Ok(()),
                    Err(error) => break Err(error),
                },
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.consumer.unassign().map_err(&wrong)?;
        scanned
    }

    /// The next record of ours before `high`.
    fn poll(&self, partition: &Partition, high: i64) -> Result<Option<Place>, LogError> {
        let deadline = Instant::now() + self.limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.consumer.poll(left) {
                Some(Ok(message)) if message.offset() >= high => return Ok(None),
                Some(Ok(message)) => match frame::parse(message.key()) {
                    Frame::Ours(offset) => return Ok(Some(Place { position: message.offset(), offset })),
                    Frame::Foreign(_) => {}
                    Frame::Newer(found) => return Err(newer(partition, message.offset(), found)),
                },
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(None),
                Some(Err(error)) if !is_transient(&error) => {
                    return Err(self.explained("look into a partition", &error));
                }
                Some(Err(_)) => {}
                None if left.is_zero() => {
                    let reason = self.consumer.context().explain("no answer in time");
                    return Err(LogError::Cluster { operation: "look into a partition", reason });
                }
                None => {}
            }
        }
    }

    /// Where record `offset` lies, which is not before the first of `bounds`; none if it is nowhere.
    pub(super) fn locate(
        &self,
        partition: &Partition,
        offset: u64,
        bounds: &Bounds,
    ) -> Result<Option<i64>, LogError> {
        let Some((first, _)) = bounds.ends else { return Ok(None) };
        // Between two records lie at least as many positions as records.
        let distance = |from: u64, to: u64| i64::try_from(to.saturating_sub(from)).unwrap_or(i64::MAX);
        let mut low = first.position.saturating_add(distance(first.offset, offset));
        let mut high = bounds.high - 1;
        while low <= high {
            let middle = low + (high - low) / 2;
            match self.at_or_after(partition, middle, bounds.high)? {
                Some(found) if found.offset == offset => return Ok(Some(found.position)),
                Some(found) if found.offset < offset => {
                    low = found.position.saturating_add(distance(found.offset, offset));
                }
                Some(found) => {
                    high = (middle - 1).min(found.position.saturating_sub(distance(offset, found.offset)));
                }
                None => high = middle - 1,
            }
        }
        Ok(None)
    }
}

fn forgotten(partition: &Partition, low: i64) -> LogError {
    let what = "nothing: the records before it were deleted, and with them their count".to_owned();
    unreadable(partition, low, what)
}

/// What is wrong with a record that is not the next.
pub(super) fn out_of_order(offset: u64) -> String {
    format!("record {offset}, which does not follow the one before it")
}

pub(super) fn newer(partition: &Partition, position: i64, found: u8) -> LogError {
    let file = format!("{partition} at Kafka offset {position}");
    LogError::Version { file, found: found.into(), supported: frame::VERSION.into() }
}

/// Whether the client goes on by itself after this error.
pub(super) fn is_transient(error: &KafkaError) -> bool {
    !matches!(
        error.rdkafka_error_code(),
        Some(
            Code::TopicAuthorizationFailed
                | Code::ClusterAuthorizationFailed
                | Code::UnknownTopicOrPartition
                | Code::UnknownTopic
                | Code::UnknownPartition
                | Code::AutoOffsetReset
                | Code::OffsetOutOfRange
                | Code::Authentication
                | Code::SaslAuthenticationFailed
                | Code::SSL
                | Code::MessageSizeTooLarge
                | Code::InvalidMessage
                | Code::BadMessage
        )
    )
}
