//! Topics on Apache Kafka.
//!
//! A writer is a transactional producer: what it appended becomes visible by one commit over all its partitions, and the
//! later holder of a name fences the earlier. Each record's key carries its dense offset, for commits take positions
//! of Kafka's own counting. A reader sees committed records only.

pub mod access;
mod context;
mod frame;
mod log;
mod lookup;
mod members;
mod native;
mod options;
mod reader;
pub mod topics;
mod writer;

#[cfg(feature = "broker")]
pub mod broker;

pub use log::{KafkaLog, Traffic};
pub use options::{Compression, KafkaOptions, Tls};

use crate::cluster::{Binding, Cluster, Members, Partition, SharedLog};
use crate::{LogError, TopicId};
use context::Context;
use rdkafka::admin::AdminClient;
use std::sync::{Arc, Mutex, PoisonError};

/// A Kafka cluster, reached as its options say. Clones are the same cluster.
#[derive(Clone)]
pub struct KafkaCluster(Arc<Inner>);

struct Inner {
    options: KafkaOptions,
    /// Made when it is first needed.
    admin: Mutex<Option<Arc<AdminClient<Context>>>>,
}

impl Inner {
    fn admin(&self) -> Result<Arc<AdminClient<Context>>, LogError> {
        let mut admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(admin) = &*admin {
            return Ok(Arc::clone(admin));
        }
        let made = Arc::new(topics::administrator(&self.options)?);
        *admin = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl KafkaCluster {
    /// A cluster that is not asked for anything yet.
    ///
    /// # Errors
    /// [`LogError::Options`] where the options make no sense.
    pub fn new(options: KafkaOptions) -> Result<Self, LogError> {
        options.check()?;
        Ok(Self(Arc::new(Inner { options, admin: Mutex::new(None) })))
    }

    /// How it is reached.
    #[must_use]
    pub fn options(&self) -> &KafkaOptions {
        &self.0.options
    }

    /// [`Cluster::open`] with the concrete type, for its metrics.
    ///
    /// # Errors
    /// As [`Cluster::open`].
    pub fn open_kafka(&self, writer: &str, bindings: &[Binding]) -> Result<Arc<KafkaLog>, LogError> {
        Ok(Arc::new(KafkaLog::open(&self.0, Some(writer), bindings)?))
    }

    /// [`Cluster::reader`] with the concrete type, for its metrics.
    ///
    /// # Errors
    /// As [`Cluster::reader`].
    pub fn reader_kafka(&self, bindings: &[Binding]) -> Result<Arc<KafkaLog>, LogError> {
        if bindings.iter().any(|binding| binding.writes) {
            return Err(LogError::ReadOnly);
        }
        Ok(Arc::new(KafkaLog::open(&self.0, None, bindings)?))
    }
}

impl Cluster for KafkaCluster {
    fn open(&self, writer: &str, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        Ok(self.open_kafka(writer, bindings)?)
    }

    fn reader(&self, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError> {
        Ok(self.reader_kafka(bindings)?)
    }

    fn join(&self, group: &str, topics: &[String]) -> Result<Box<dyn Members>, LogError> {
        Ok(Box::new(members::KafkaMember::join(&self.0.options, group, topics)?))
    }
}

fn unknown(topic: TopicId) -> LogError {
    LogError::Topic { topic: topic.to_string(), what: "this log was not opened with it".into() }
}

/// The client refused an operation.
fn refused(operation: &'static str) -> impl Fn(rdkafka::error::KafkaError) -> LogError {
    move |error| LogError::Cluster { operation, reason: error.to_string() }
}

fn unreadable(partition: &Partition, position: i64, what: String) -> LogError {
    LogError::Unreadable {
        partition: partition.to_string(),
        position: u64::try_from(position).unwrap_or(0),
        what,
    }
}
