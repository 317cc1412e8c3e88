//! The same topics in the journal of one process: a cluster of one, for what Kafka costs beyond it.
//!
//! Every partition is a topic of one [`FileLog`], and a commit is one `fdatasync`. The directory is locked, so there is
//! nobody to fence.

use super::{ClusterError, Shape};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tally_log::cluster::{Binding, Cluster, Foreign, Members, Partition, SharedLog};
use tally_log::{
    Appended, FileLog, Health, Log, LogError, Offset, Options, Record, Ticket, TopicId, Visibility,
};

/// Bytes that are copied by one commit, and read at once.
const COPY_BYTES: usize = 8 << 20;
/// How long one who waits sleeps at most: nobody else writes here.
const PAUSE: Duration = Duration::from_millis(1);

/// A network's partitions in one journal.
pub(super) struct FileCluster {
    log: Arc<FileLog>,
    topics: BTreeMap<Partition, TopicId>,
}

/// Every partition of a network, in an order that depends on nothing else.
fn partitions(shape: &Shape) -> Vec<Partition> {
    let topics = shape.layout().topics().into_iter();
    topics
        .flat_map(|topic| (0..topic.partitions).map(move |at| Partition::new(topic.name.clone(), at)))
        .collect()
}

impl FileCluster {
    /// Opens the journal in `directory`, or makes one.
    ///
    /// # Errors
    /// When it cannot be opened, or another process has it.
    pub(super) fn open(directory: &Path, shape: &Shape) -> Result<Self, LogError> {
        let (log, _) = FileLog::open(directory, Options::default())?;
        let topics = partitions(shape).into_iter().zip((0..).map(TopicId)).collect();
        Ok(Self { log: Arc::new(log), topics })
    }

    /// Copies all that the partitions of a network hold, record by record.
    ///
    /// # Errors
    /// When one cannot be read, or the journal refuses.
    pub(super) fn copy(&self, from: &dyn Cluster) -> Result<(), ClusterError> {
        let bindings = self.topics.iter().map(|(partition, id)| Binding {
            id: *id,
            partition: partition.clone(),
            writes: false,
        });
        let log = from.reader(&bindings.collect::<Vec<_>>())?;
        for (partition, id) in &self.topics {
            let (first, next) = (log.first(*id).0, log.next(*id).0);
            if next == u64::MAX {
                return Err(ClusterError::process("copy", format!("the end of {partition} is not known")));
            }
            // What was released is not needed, but positions count it.
            for _ in 0..first {
                self.log.append(*id, &[])?;
            }
            let (mut at, mut records) = (first, Vec::new());
            while at < next {
                at = log.read(*id, Offset(at), COPY_BYTES, Visibility::Durable, &mut records)?.0;
                if records.is_empty() {
                    log.wait(PAUSE);
                }
                for record in records.drain(..) {
                    self.log.append(*id, &[&record.payload])?;
                }
                self.log.sync()?;
            }
            if first > 0 {
                self.log.sync()?;
                self.log.release(*id, Offset(first))?;
            }
        }
        Ok(())
    }

    /// Reads what the files of a journal hold, so that who opens it next finds them in memory as Kafka's broker has its own:
    /// a journal is written past the page cache.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(super) fn warm(directory: &Path) -> std::io::Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::io::copy(&mut std::fs::File::open(entry.path())?, &mut std::io::sink())?;
            }
        }
        Ok(())
    }

    fn bind(&self, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        let mut bound = BTreeMap::new();
        for Binding { id, partition, .. } in bindings {
            let topic = self.topics.get(partition).ok_or_else(|| LogError::Topic {
                topic: partition.topic.clone(),
                what: format!("it has no partition {}", partition.number),
            })?;
            bound.insert(id.0, *topic);
        }
        Ok(Arc::new(Bound {
            log: Arc::clone(&self.log),
            bound,
            pending: AtomicUsize::new(0),
            syncing: Mutex::default(),
        }))
    }
}

impl Cluster for FileCluster {
    fn open(&self, _writer: &str, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        self.bind(bindings)
    }

    fn reader(&self, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        self.bind(bindings)
    }

    fn join(&self, _group: &str, _topics: &[String]) -> Result<Box<dyn Members>, LogError> {
        let reason = "files have no groups: one process has them all".to_owned();
        Err(LogError::Cluster { operation: "join a group", reason })
    }
}

struct Bound {
    log: Arc<FileLog>,
    bound: BTreeMap<u16, TopicId>,
    pending: AtomicUsize,
    syncing: Mutex<()>,
}

impl Bound {
    fn topic(&self, id: TopicId) -> Result<TopicId, LogError> {
        let unknown =
            || LogError::Topic { topic: id.to_string(), what: "this log was not opened with it".into() };
        self.bound.get(&id.0).copied().ok_or_else(unknown)
    }
}

impl Log for Bound {
    fn append(&self, topic: TopicId, parts: &[&[u8]]) -> Result<Appended, LogError> {
        let appended = self.log.append(self.topic(topic)?, parts)?;
        self.pending.fetch_add(parts.iter().map(|part| part.len()).sum(), Ordering::Relaxed);
        Ok(appended)
    }

    fn durable(&self) -> Ticket {
        self.log.durable()
    }

    fn sync(&self) -> Result<Ticket, LogError> {
        let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.pending.load(Ordering::Relaxed);
        let ticket = self.log.sync()?;
        self.pending.fetch_sub(taken, Ordering::Relaxed);
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
        self.log.read(self.topic(topic)?, from, max_bytes, visibility, out)
    }

    fn first(&self, topic: TopicId) -> Offset {
        self.topic(topic).map_or(Offset(0), |topic| self.log.first(topic))
    }

    fn next(&self, topic: TopicId) -> Offset {
        self.topic(topic).map_or(Offset(0), |topic| self.log.next(topic))
    }

    fn release(&self, topic: TopicId, before: Offset) -> Result<(), LogError> {
        self.log.release(self.topic(topic)?, before)
    }

    fn health(&self) -> Health {
        self.log.health()
    }
}

impl SharedLog for Bound {
    fn wait(&self, limit: Duration) {
        std::thread::sleep(limit.min(PAUSE));
    }

    fn pending_bytes(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    fn behind(&self) -> Vec<(Partition, u64)> {
        Vec::new()
    }

    fn foreign(&self) -> Vec<Foreign> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_log::cluster::MemoryCluster;

    #[test]
    fn topics_are_copied_with_their_positions_and_written_on() {
        let shape = Shape { schedulers: 2, ..Shape::sample() };
        let plans = shape.layout().topics().into_iter().map(|topic| (topic.name, topic.partitions));
        let memory = MemoryCluster::new(plans);
        let partition = |number| Partition::new(format!("{}.accepted", shape.prefix), number);
        let bind = |number| [Binding { id: TopicId(7), partition: partition(number), writes: true }];
        let source = Cluster::open(&memory, "w", &bind(1)).unwrap();
        for payload in ["gone", "one", "two"] {
            source.append(TopicId(7), &[payload.as_bytes()]).unwrap();
        }
        source.sync().unwrap();
        source.release(TopicId(7), Offset(1)).unwrap();
        let directory = tempfile::tempdir().unwrap();
        FileCluster::open(directory.path(), &shape).unwrap().copy(&memory).unwrap();
        FileCluster::warm(directory.path()).unwrap();

        let files = FileCluster::open(directory.path(), &shape).unwrap();
        let other = Cluster::open(&files, "w", &bind(0)).unwrap();
        assert_eq!(other.next(TopicId(7)), Offset(0), "it was empty");
        let log = Cluster::open(&files, "w", &bind(1)).unwrap();
        assert_eq!(log.append(TopicId(7), &[b"th", b"ree"]).unwrap().offset, Offset(3));
        assert_eq!(log.pending_bytes(), 5);
        log.sync().unwrap();
        assert_eq!(log.pending_bytes(), 0);
        let mut records = Vec::new();
        assert_eq!(
            log.read(TopicId(7), Offset(1), 1 << 20, Visibility::Durable, &mut records).unwrap(),
            Offset(4)
        );
        let texts: Vec<_> = records.iter().map(|record| record.payload.as_ref()).collect();
        assert_eq!(texts, [&b"one"[..], b"two", b"three"]);
        assert!(files.join("g", &[]).is_err());
    }
}
