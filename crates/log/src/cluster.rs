//! Where processes meet: topics that many processes share, each with one writer at a time.
//!
//! A process opens a [`SharedLog`] under its writer's name and with the partitions that it appends to and reads.
//! What it appends becomes visible to others, all of it at once, when it [syncs](Log::sync); whoever opened a
//! log under the same name before is fenced from that moment on, so that no two processes ever write as one.

mod memory;

pub use memory::MemoryCluster;

use crate::{Log, LogError, TopicId};
use std::sync::Arc;
use std::time::Duration;

/// One partition of a named topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The topic's name.
    pub topic: String,
    /// Which of its partitions, from 0.
    pub number: u16,
}

impl Partition {
    /// Partition `number` of `topic`.
    pub fn new(topic: impl Into<String>, number: u16) -> Self {
        Self { topic: topic.into(), number }
    }
}

impl std::fmt::Display for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.topic, self.number)
    }
}

/// What one process does with one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// How the process names it.
    pub id: TopicId,
    /// Which it is.
    pub partition: Partition,
    /// Whether the process appends to it. Then no other does, except under the same writer's name.
    pub writes: bool,
}

/// A record that nobody of this network appended, found in one of its topics and passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Where.
    pub partition: Partition,
    /// At which position of the server's own counting.
    pub position: u64,
    /// What shows that it is foreign.
    pub what: &'static str,
    /// Its payload, or as much of its beginning as is kept.
    pub payload: bytes::Bytes,
}

/// A log over partitions that other processes append to or read as well.
///
/// What [`Log`] promises holds for the partitions that this process writes. Beyond it:
///
/// * **All or nothing.** What was appended since the last [`sync`](Log::sync) becomes visible by the next one, over all
///   partitions at once, or never.
/// * **Fenced.** Once another process has opened a log under the same writer's name, `append` and `sync` fail with
///   [`LogError::Fenced`] and nothing that was not synced before becomes visible, ever.
/// * **Dense for readers.** The offsets of a partition count its records without a gap, for every reader.
/// * [`read`](Log::read) never waits: it gives what has arrived. [`Visibility::Appended`](crate::Visibility::Appended)
///   means the same as `Durable` here. On a partition of another writer, [`next`](Log::next) asks for its end as of now, and where the cluster does
///   not say, the end is after everything: nobody takes what is missing for the end. What this process wrote itself, and what
///   was there when a read went to another place, is waited for.
pub trait SharedLog: Log {
    /// Sleeps until something may have arrived on a partition that was read, at most for `limit`.
    fn wait(&self, limit: Duration);

    /// Bytes appended since the last sync.
    fn pending_bytes(&self) -> usize;

    /// By partition of other writers, how many records there are, as far as is known without asking, that were not read.
    fn behind(&self) -> Vec<(Partition, u64)>;

    /// The foreign records found since the last call.
    fn foreign(&self) -> Vec<Foreign>;
}

/// A membership in a group whose members share the partitions of some topics: each partition belongs to one
/// member at a time, as far as the group knows. It may be wrong about a member that hangs or is cut off: fencing, not
/// membership, keeps two from writing as one.
pub trait Members: Send {
    /// Takes part for at most `limit`, and returns what belongs to this member now, if that has changed.
    ///
    /// # Errors
    /// When this member can never take part again.
    fn poll(&mut self, limit: Duration) -> Result<Option<Vec<Partition>>, LogError>;
}

/// Topics shared by processes.
pub trait Cluster: Send + Sync {
    /// Opens a log for `writer`, fencing whoever opened one under that name before. Everything that was synced under
    /// that name can be read in it.
    ///
    /// # Errors
    /// When the cluster cannot be reached, or a partition is not there.
    fn open(&self, writer: &str, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError>;

    /// Opens a log that only reads.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when a binding writes.
    fn reader(&self, bindings: &[Binding]) -> Result<Arc<dyn SharedLog>, LogError>;

    /// Becomes a member of `group`, which shares the partitions of `topics`.
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    fn join(&self, group: &str, topics: &[String]) -> Result<Box<dyn Members>, LogError>;
}
