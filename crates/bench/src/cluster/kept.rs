//! A cluster that keeps what was opened on it, for what went through and when.

use super::meter::Meter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tally_log::cluster::{Binding, Cluster, Foreign, Members, Partition, SharedLog};
use tally_log::{Appended, Health, Log, LogError, Offset, Record, Ticket, TopicId, Visibility};

/// What went through the partitions of a topic, as one process saw it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Through {
    /// Records appended.
    pub appended_records: u64,
    /// Their payloads.
    pub appended_bytes: u64,
    /// Records read.
    pub read_records: u64,
    /// Their payloads.
    pub read_bytes: u64,
}

impl Through {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            appended_records: self.appended_records - earlier.appended_records,
            appended_bytes: self.appended_bytes - earlier.appended_bytes,
            read_records: self.read_records - earlier.read_records,
            read_bytes: self.read_bytes - earlier.read_bytes,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.appended_records += other.appended_records;
        self.appended_bytes += other.appended_bytes;
        self.read_records += other.read_records;
        self.read_bytes += other.read_bytes;
    }
}

/// By topic.
pub type Traffic = BTreeMap<String, Through>;

/// A cluster whose logs are kept and counted.
pub(super) struct Kept {
    cluster: Box<dyn Cluster>,
    logs: Mutex<Vec<Arc<Counted>>>,
    meter: Arc<Meter>,
}

impl Kept {
    pub(super) fn new(cluster: impl Cluster + 'static) -> Self {
        Self { cluster: Box::new(cluster), logs: Mutex::default(), meter: Arc::default() }
    }

    /// When work was done on its logs.
    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Work begins: what was read before, to recover, says nothing of where it goes on.
    pub(super) fn begin(&self) {
        self.meter.begin();
        for log in self.locked().iter() {
            log.feeds().values_mut().for_each(|feed| feed.position = None);
        }
    }

    fn keep(
        &self,
        bindings: &[Binding],
        open: impl FnOnce() -> Result<Arc<dyn SharedLog>, LogError>,
    ) -> Result<Arc<dyn SharedLog>, LogError> {
        let began = Instant::now();
        let log = open()?;
        self.meter.opened(began.elapsed());
        let counted = Arc::new(Counted {
            log,
            bindings: bindings.to_vec(),
            feeds: Mutex::default(),
            reading: AtomicU64::new(0),
            meter: Arc::clone(&self.meter),
        });
        self.locked().push(Arc::clone(&counted));
        Ok(counted)
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Arc<Counted>>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log that was opened last.
    pub(super) fn last(&self) -> Option<Arc<dyn SharedLog>> {
        self.locked().last().map(|log| Arc::clone(log) as Arc<dyn SharedLog>)
    }

    /// What went through all that was opened.
    pub(super) fn traffic(&self) -> Traffic {
        let mut all = Traffic::new();
        for log in self.locked().iter() {
            let feeds = log.feeds();
            for binding in &log.bindings {
                let feed = feeds.get(&binding.id.0).copied().unwrap_or_default();
                all.entry(binding.partition.topic.clone()).or_default().add(feed.through);
            }
        }
        all
    }

    /// Bytes appended that are not visible.
    pub(super) fn pending_bytes(&self) -> u64 {
        self.locked().iter().map(|log| log.pending_bytes() as u64).sum()
    }

    /// How many records there are, in partitions that were read since work began and are not written, that were not read, and
    /// one more for each read that has not come back. It asks the cluster.
    pub(super) fn behind(&self) -> u64 {
        let logs = self.locked().clone();
        logs.iter().map(|log| log.behind_now()).fold(0, u64::saturating_add)
    }
}

impl Cluster for Kept {
    fn open(&self, writer: &str, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        self.keep(bindings, || self.cluster.open(writer, bindings))
    }

    fn reader(&self, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        self.keep(bindings, || self.cluster.reader(bindings))
    }

    fn join(&self, group: &str, topics: &[String]) -> Result<Box<dyn Members>, LogError> {
        self.cluster.join(group, topics)
    }
}

/// One partition of a log.
#[derive(Clone, Copy, Default)]
struct Feed {
    through: Through,
    /// Where the next read continues, if there was one.
    position: Option<u64>,
}

/// A log that counts.
struct Counted {
    log: Arc<dyn SharedLog>,
    bindings: Vec<Binding>,
    feeds: Mutex<BTreeMap<u16, Feed>>,
    /// Reads that have not come back: where a partition is read for the first time, nothing else says that it is.
    reading: AtomicU64,
    meter: Arc<Meter>,
}

impl Counted {
    fn feeds(&self) -> MutexGuard<'_, BTreeMap<u16, Feed>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn behind_now(&self) -> u64 {
        let feeds = self.feeds().clone();
        let read = self.bindings.iter().filter(|binding| !binding.writes);
        let left = |binding: &Binding| {
            let position = feeds.get(&binding.id.0)?.position?;
            Some(self.log.next(binding.id).0.saturating_sub(position))
        };
        read.filter_map(left).fold(self.reading.load(Ordering::SeqCst), u64::saturating_add)
    }
}

impl Log for Counted {
    fn append(&self, topic: TopicId, parts: &[&[u8]]) -> Result<Appended, LogError> {
        let appended = self.log.append(topic, parts)?;
        let mut feeds = self.feeds();
        let through = &mut feeds.entry(topic.0).or_default().through;
        through.appended_records += 1;
        through.appended_bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(appended)
    }

    fn durable(&self) -> Ticket {
        self.log.durable()
    }

    fn sync(&self) -> Result<Ticket, LogError> {
        let began = Instant::now();
        let ticket = self.log.sync()?;
        self.meter.synced(began.elapsed());
        Ok(ticket)
    }

    fn read(
        &self,
        topic: TopicId,
        from: Offset,
        max_bytes: usize,
        visibility: Visibility,
        out: &mut Vec<Record>,
    ) -> Result<Offset, LogError> {
        let before = out.len();
        self.reading.fetch_add(1, Ordering::SeqCst);
        let read = self.log.read(topic, from, max_bytes, visibility, out);
        let records = &out[before..];
        if let Ok(next) = &read {
            let mut feeds = self.feeds();
            let feed = feeds.entry(topic.0).or_default();
            feed.position = Some(next.0);
            feed.through.read_records += records.len() as u64;
            feed.through.read_bytes += records.iter().map(|record| record.payload.len() as u64).sum::<u64>();
        }
        self.reading.fetch_sub(1, Ordering::SeqCst);
        let next = read?;
        self.meter.read(!records.is_empty());
        Ok(next)
    }

    fn first(&self, topic: TopicId) -> Offset {
        self.log.first(topic)
    }

    fn next(&self, topic: TopicId) -> Offset {
        self.log.next(topic)
    }

    fn release(&self, topic: TopicId, before: Offset) -> Result<(), LogError> {
        self.log.release(topic, before)
    }

    fn health(&self) -> Health {
        self.log.health()
    }
}

impl SharedLog for Counted {
    fn wait(&self, limit: Duration) {
        self.log.wait(limit);
    }

    fn pending_bytes(&self) -> usize {
        self.log.pending_bytes()
    }

    fn behind(&self) -> Vec<(Partition, u64)> {
        self.log.behind()
    }

    fn foreign(&self) -> Vec<Foreign> {
        self.log.foreign()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Worked;
    use tally_log::cluster::MemoryCluster;

    #[test]
    fn what_goes_through_is_counted_and_what_is_left_is_known() {
        let kept = Kept::new(MemoryCluster::new([("in".to_owned(), 1), ("out".to_owned(), 2)]));
        let binding = |id: u16, topic: &str, number, writes| Binding {
            id: TopicId(id),
            partition: Partition::new(topic, number),
            writes,
        };
        let source = kept.open("source", &[binding(0, "in", 0, true)]).unwrap();
        for payload in [&b"12345"[..], b"678"] {
            source.append(TopicId(0), &[payload, b"!"]).unwrap();
        }
        source.sync().unwrap();
        let stage = [binding(0, "in", 0, false), binding(1, "out", 0, true), binding(2, "out", 1, true)];
        let stage = kept.open("stage", &stage).unwrap();
        kept.begin();
        let mut records = Vec::new();
        stage.read(TopicId(0), Offset(0), 1, Visibility::Durable, &mut records).unwrap();
        assert_eq!((records.len(), kept.behind()), (1, 1));
        stage.append(TopicId(1), &[b"a"]).unwrap();
        stage.append(TopicId(2), &[b"bc"]).unwrap();
        stage.sync().unwrap();
        stage.read(TopicId(0), Offset(1), 1, Visibility::Durable, &mut records).unwrap();
        assert_eq!(kept.behind(), 0);
        // The source's commits are counted too: it is the same process here.
        let worked = kept.meter().worked();
        assert!(worked.commits == 1 && worked.until_ns > 0 && worked.until_ns >= worked.commit_ns);
        source.append(TopicId(0), &[b""]).unwrap();
        source.sync().unwrap();
        assert_eq!(kept.behind(), 1);
        kept.begin();
        assert_eq!((kept.behind(), kept.meter().worked()), (0, Worked::default()), "nothing was read since");
        let traffic = kept.traffic();
        let of = |topic: &str| {
            let t = traffic[topic];
            (t.appended_records, t.appended_bytes, t.read_records, t.read_bytes)
        };
        assert_eq!((of("in"), of("out")), ((3, 10, 2, 10), (2, 3, 0, 0)));
    }

    /// A log that is asked for the first time, and answers when it is told to.
    struct Slow(Mutex<std::sync::mpsc::Receiver<()>>);

    impl Log for Slow {
        fn read(
            &self,
            _topic: TopicId,
            from: Offset,
            _max_bytes: usize,
            _visibility: Visibility,
            _out: &mut Vec<Record>,
        ) -> Result<Offset, LogError> {
            self.0.lock().unwrap().recv().unwrap();
            Ok(from)
        }
        fn first(&self, _topic: TopicId) -> Offset {
            Offset(0)
        }
        fn next(&self, _topic: TopicId) -> Offset {
            Offset(3)
        }
        fn append(&self, topic: TopicId, _parts: &[&[u8]]) -> Result<Appended, LogError> {
            Err(LogError::OutOfRange { topic, asked: Offset(0), first: Offset(0), next: Offset(0) })
        }
        fn durable(&self) -> Ticket {
            Ticket(0)
        }
        fn sync(&self) -> Result<Ticket, LogError> {
            Ok(Ticket(0))
        }
        fn release(&self, _topic: TopicId, _before: Offset) -> Result<(), LogError> {
            Ok(())
        }
        fn health(&self) -> Health {
            Health::Ok
        }
    }

    impl SharedLog for Slow {
        fn wait(&self, _limit: Duration) {}
        fn pending_bytes(&self) -> usize {
            0
        }
        fn behind(&self) -> Vec<(Partition, u64)> {
            Vec::new()
        }
        fn foreign(&self) -> Vec<Foreign> {
            Vec::new()
        }
    }

    /// An assembler had read who is asked, and waited for the first answers: it passed for one that was done.
    #[test]
    fn who_waits_for_a_first_read_is_not_done() {
        let (answer, answers) = std::sync::mpsc::channel();
        let partition = Partition::new("in", 0);
        let log = Counted {
            log: Arc::new(Slow(Mutex::new(answers))),
            bindings: vec![Binding { id: TopicId(0), partition, writes: false }],
            feeds: Mutex::default(),
            reading: AtomicU64::new(0),
            meter: Arc::default(),
        };
        assert_eq!(log.behind_now(), 0);
        std::thread::scope(|scope| {
            let read =
                scope.spawn(|| log.read(TopicId(0), Offset(0), 1, Visibility::Durable, &mut Vec::new()));
            while log.behind_now() == 0 {
                std::thread::yield_now();
            }
            assert_eq!(log.behind_now(), 1);
            answer.send(()).unwrap();
            read.join().unwrap().unwrap();
        });
        assert_eq!(log.behind_now(), 3);
    }
}
