//! A cluster that keeps what was opened on it, for what went through.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tally_log::LogError;
use tally_log::cluster::{Binding, Cluster, Members, SharedLog};
use tally_log::kafka::{KafkaCluster, KafkaLog};

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

/// A Kafka cluster whose logs are kept.
pub(super) struct Kept {
    cluster: KafkaCluster,
    logs: Mutex<Vec<Arc<KafkaLog>>>,
}

impl Kept {
    pub(super) fn new(cluster: KafkaCluster) -> Self {
        Self { cluster, logs: Mutex::default() }
    }

    fn keep(&self, log: Arc<KafkaLog>) -> Arc<dyn SharedLog> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&log));
        log
    }

    /// What was opened.
    pub(super) fn logs(&self) -> Vec<Arc<KafkaLog>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What went through all that was opened.
    pub(super) fn traffic(&self) -> Traffic {
        let mut all = Traffic::new();
        for (partition, traffic) in self.logs().iter().flat_map(|log| log.traffic()) {
            all.entry(partition.topic).or_default().add(Through {
                appended_records: traffic.appended_records,
                appended_bytes: traffic.appended_bytes,
                read_records: traffic.read_records,
                read_bytes: traffic.read_bytes,
            });
        }
        all
    }
}

impl Cluster for Kept {
    fn open(&self, writer: &str, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        Ok(self.keep(self.cluster.open_kafka(writer, bindings)?))
    }

    fn reader(&self, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        Ok(self.keep(self.cluster.reader_kafka(bindings)?))
    }

    fn join(&self, group: &str, topics: &[String]) -> Result<Box<dyn Members>, LogError> {
        self.cluster.join(group, topics)
    }
}
