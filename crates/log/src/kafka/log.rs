//! One process's log on a Kafka cluster.

use super::reader::{Feed, Reader};
use super::writer::Writer;
use super::{Inner, refused, topics, unknown, unreadable};
use crate::cluster::{Binding, Foreign, Partition, SharedLog};
use crate::{Appended, Health, Log, LogError, Offset, Record, Ticket, TopicId, Visibility};
use rdkafka::TopicPartitionList;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LOCK: &str = "no holder of a feed's lock panics";

/// A log over partitions of a Kafka cluster, opened by [`KafkaCluster`](super::KafkaCluster).
pub struct KafkaLog {
    cluster: Arc<Inner>,
    writer: Option<Writer>,
    reader: Reader,
    feeds: BTreeMap<u16, Mutex<Feed>>,
    partitions: BTreeMap<u16, Partition>,
    /// The last answers to what `first` and `next` ask, for when the cluster gives none.
    ends: Mutex<BTreeMap<u16, (u64, u64)>>,
}

/// What went through one partition of a log, for its metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Records appended since the log was opened.
    pub appended_records: u64,
    /// Their payloads.
    pub appended_bytes: u64,
    /// Records read since the log was opened, those read twice counted twice.
    pub read_records: u64,
    /// Their payloads.
    pub read_bytes: u64,
    /// Foreign records passed over.
    pub foreign_records: u64,
    /// Where the next read continues; 0 before the first.
    pub position: u64,
    /// The end of the partition when it was last asked for. What lies between is the lag.
    pub end: u64,
}

impl KafkaLog {
    pub(super) fn open(
        cluster: &Arc<Inner>,
        writer: Option<&str>,
        bindings: &[Binding],
    ) -> Result<Self, LogError> {
        let mut seen = HashSet::new();
        for binding in bindings {
            if !seen.insert(&binding.partition) {
                let what = format!("partition {} is bound twice", binding.partition.number);
                return Err(LogError::Topic { topic: binding.partition.topic.clone(), what });
            }
        }
        let reader = Reader::new(&cluster.options)?;
        let partitions: Vec<_> = bindings.iter().map(|binding| &binding.partition).collect();
        reader.ask(|lookup| lookup.check(&partitions))?;
        // Whoever wrote under this name is fenced from here on, so that no end read below can move.
        let writer = writer.map(|name| Writer::open(&cluster.options, name)).transpose()?;
        let mut ends = BTreeMap::new();
        if let Some(writer) = &writer {
            for binding in bindings.iter().filter(|binding| binding.writes) {
                let bounds = reader.ask(|lookup| lookup.bounds(&binding.partition))?;
                ends.insert(binding.id.0, (bounds.first(), bounds.next()));
                writer.start(binding.id, binding.partition.clone(), bounds.next());
            }
        }
        let feed = |binding: &Binding| (binding.id.0, Mutex::new(Feed::new(binding.partition.clone())));
        Ok(Self {
            cluster: Arc::clone(cluster),
            writer,
            reader,
            feeds: bindings.iter().map(feed).collect(),
            partitions: bindings.iter().map(|binding| (binding.id.0, binding.partition.clone())).collect(),
            ends: Mutex::new(ends),
        })
    }

    fn writer(&self) -> Result<&Writer, LogError> {
        self.writer.as_ref().ok_or(LogError::ReadOnly)
    }

    fn partition(&self, topic: TopicId) -> Result<&Partition, LogError> {
        self.partitions.get(&topic.0).ok_or_else(|| unknown(topic))
    }

    fn own(&self, topic: TopicId) -> Option<(u64, u64)> {
        self.writer.as_ref().and_then(|writer| writer.next(topic))
    }

    /// Where a partition begins, asked for now; where it began before if there is no answer.
    fn beginning(&self, topic: TopicId) -> u64 {
        let Some(partition) = self.partitions.get(&topic.0) else { return 0 };
        let asked = self.reader.ask(|lookup| lookup.begin(partition));
        let mut ends = self.ends.lock().expect(LOCK);
        let (first, _) = ends.entry(topic.0).or_default();
        if let Ok(bounds) = asked {
            *first = bounds.first();
        }
        *first
    }

    /// Where a partition ends, asked for now. Where there is no answer, it ends after everything: who reads up to the end
    /// must not take what is missing for the end.
    fn end(&self, topic: TopicId) -> u64 {
        let Some(partition) = self.partitions.get(&topic.0) else { return 0 };
        let Ok(next) = self.reader.ask(|lookup| lookup.next(partition)) else { return u64::MAX };
        self.ends.lock().expect(LOCK).entry(topic.0).or_default().1 = next;
        next
    }

    /// What went through each partition. It asks the cluster for nothing.
    #[must_use]
    pub fn traffic(&self) -> Vec<(Partition, Traffic)> {
        let one = |(id, partition): (&u16, &Partition)| {
            let topic = TopicId(*id);
            let mut traffic = self.feeds[id].lock().expect(LOCK).traffic();
            if let Some(writer) = &self.writer {
                (traffic.appended_records, traffic.appended_bytes) = writer.count(topic);
            }
            let end = self.ends.lock().expect(LOCK).get(id).map_or(0, |(_, next)| *next);
            traffic.end = self.own(topic).map_or(end, |(_, committed)| committed).max(traffic.position);
            (partition.clone(), traffic)
        };
        self.partitions.iter().map(one).collect()
    }
}

impl Log for KafkaLog {
    fn append(&self, topic: TopicId, parts: &[&[u8]]) -> Result<Appended, LogError> {
        self.writer()?.append(topic, parts)
    }

    fn durable(&self) -> Ticket {
        self.writer.as_ref().map_or(Ticket(0), Writer::durable)
    }

    fn sync(&self) -> Result<Ticket, LogError> {
        self.writer.as_ref().map_or(Ok(Ticket(0)), Writer::sync)
    }

    fn read(
        &self,
        topic: TopicId,
        from: Offset,
        max_bytes: usize,
        _visibility: Visibility,
        out: &mut Vec<Record>,
    ) -> Result<Offset, LogError> {
        let feed = self.feeds.get(&topic.0).ok_or_else(|| unknown(topic))?;
        let own = self.own(topic);
        self.reader.read(topic, &mut feed.lock().expect(LOCK), from, max_bytes, own, out)
    }

    fn first(&self, topic: TopicId) -> Offset {
        Offset(self.beginning(topic))
    }

    fn next(&self, topic: TopicId) -> Offset {
        Offset(self.own(topic).map_or_else(|| self.end(topic), |(next, _)| next))
    }

    fn release(&self, topic: TopicId, before: Offset) -> Result<(), LogError> {
        let partition = self.partition(topic)?;
        let bounds = self.reader.ask(|lookup| lookup.bounds(partition))?;
        let (first, next) = (Offset(bounds.first()), self.own(topic).map_or(bounds.next(), |(next, _)| next));
        if before.0 > next {
            return Err(LogError::OutOfRange { topic, asked: before, first, next: Offset(next) });
        }
        // The last record stays: it alone tells the number of the next one.
        let before = before.0.min(bounds.next().saturating_sub(1));
        if before <= first.0 {
            return Ok(());
        }
        let found = self.reader.ask(|lookup| lookup.locate(partition, before, &bounds))?;
        let position =
            found.ok_or_else(|| unreadable(partition, bounds.low, format!("no record {before}")))?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(
            &partition.topic,
            partition.number.into(),
            rdkafka::Offset::Offset(position),
        )
        .map_err(refused("delete records"))?;
        topics::delete_records(&*self.cluster.admin()?, &self.cluster.options, &list)
    }

    fn health(&self) -> Health {
        self.writer.as_ref().map_or(Health::Ok, Writer::health)
    }
}

impl SharedLog for KafkaLog {
    fn wait(&self, limit: Duration) {
        self.reader.wait(limit);
    }

    fn pending_bytes(&self) -> usize {
        self.writer.as_ref().map_or(0, Writer::pending_bytes)
    }

    fn behind(&self) -> Vec<(Partition, u64)> {
        let writes = |partition: &Partition| {
            self.partitions.iter().any(|(id, of)| of == partition && self.own(TopicId(*id)).is_some())
        };
        let others = self.traffic().into_iter().filter(|(partition, _)| !writes(partition));
        others.map(|(partition, traffic)| (partition, traffic.end.saturating_sub(traffic.position))).collect()
    }

    fn foreign(&self) -> Vec<Foreign> {
        self.reader.foreign()
    }
}
