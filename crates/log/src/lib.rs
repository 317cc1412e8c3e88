//! Ordered durable queues: what was appended is read back in order, whole, and never otherwise.
//!
//! A stage reads batches from a [`Log`] and appends batches to a [`Log`]; it cannot tell whether the
//! log is memory ([`MemoryLog`]), a journal of files or, across machines, Kafka
//! ([`kafka::KafkaCluster`]).

pub mod cluster;
#[cfg(any(test, feature = "contract"))]
#[doc(hidden)]
pub mod contract;
mod disk;
mod error;
mod file;
pub mod kafka;
mod memory;
mod types;

pub use disk::{Disk, DiskFile, OsDisk};
pub use error::LogError;
pub use file::{FileLog, Flusher, OpenReport, Options, Retain, Scan, Scanned, Statistics, Truncated};
pub use memory::MemoryLog;
pub use types::{Appended, Health, Offset, Record, Ticket, TopicId, Visibility};

use std::sync::Arc;

/// The largest payload of one record, in bytes, that any log accepts.
pub const MAX_RECORD_BYTES: usize = 64 << 20;

/// Topics of ordered records, sharing one order of durability.
///
/// # How each method maps to Kafka
///
/// | here | Kafka |
/// | --- | --- |
/// | [`TopicId`] | one partition of one topic (the table from id to name and partition belongs to the user) |
/// | [`append`](Log::append) | nothing yet: records wait in memory, up to a limit, which is the back-pressure |
/// | [`Appended::offset`] | carried in the record's key, since commits take offsets of Kafka's own; dense because the topic has this one writer (a fenced `transactional.id` keeps it so) |
/// | [`Appended::ticket`], [`durable`](Log::durable) | a count of this producer's records, and the last of those committed |
/// | [`sync`](Log::sync) | one transaction over all partitions, with `acks=all` |
/// | [`read`](Log::read) | `Fetch` of committed records; [`Visibility::Appended`] is treated as `Durable`: it is permission to see more, not a promise |
/// | [`first`](Log::first), [`next`](Log::next) | `ListOffsets` and the key of the record there; the end of what this writer appended |
/// | [`release`](Log::release) | `DeleteRecords`, but the last record stays |
/// | [`health`](Log::health) | `Stalled`: `NOT_ENOUGH_REPLICAS`, time-outs, retried; `Failed`: `INVALID_PRODUCER_EPOCH`, fenced for ever |
///
/// # What every implementation promises
///
/// * **Single writer for each topic.** Appends to one topic come from one place at a time. Under that
///   rule the offset in [`Appended`] is the log's own, final position of the record. Different topics
///   may be appended to from different threads.
/// * **Dense.** Offsets of a topic count 0, 1, 2, ...; tickets of a log count 1, 2, 3, ... and
///   `Ticket(0)` is before every record.
/// * **Prefix.** After a crash, the surviving records of one log are a prefix of the order of tickets
///   that includes everything that [`durable`](Log::durable) had passed. Kafka promises this for each topic
///   only; a stage that needs it across topics puts both kinds of record into one topic.
/// * **Whole or not at all.** A record is read exactly as it was appended, or an error is returned.
pub trait Log: Send + Sync {
    /// Queues one record, whose payload is the concatenation of `parts`, and returns at once.
    ///
    /// The record is on disk when `durable() >= ticket`; nothing makes it so but [`sync`](Log::sync), here or
    /// in a flusher. An empty payload is a record too.
    ///
    /// # Errors
    /// [`LogError::Backpressure`] or [`LogError::Full`]: nothing was appended, try again after a sync or a
    /// release. [`LogError::TooLarge`]: over [`MAX_RECORD_BYTES`]. [`LogError::ReadOnly`]. [`LogError::Failed`]: for ever.
    fn append(&self, topic: TopicId, parts: &[&[u8]]) -> Result<Appended, LogError>;

    /// The last ticket on stable storage, with every ticket before it. Never decreases; reads without a lock.
    fn durable(&self) -> Ticket;

    /// Makes everything appended before the call durable, all of it by one commit, and returns the new
    /// [`durable`](Log::durable).
    ///
    /// # Errors
    /// [`LogError::Stalled`]: no space; everything stays queued and the next call tries again.
    /// [`LogError::Failed`]: the device may have dropped writes; this and every later call fails.
    fn sync(&self) -> Result<Ticket, LogError>;

    /// Adds the records of `topic` from offset `from` onwards to `out`, until their payloads reach `max_bytes`,
    /// and returns the offset to continue from. At least one record is added if there is a visible one,
    /// whatever its size; none and `from` itself if there is not.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] if `from < first(topic)` or `from > next(topic)`; [`LogError::Corrupt`] if
    /// what is stored is not what was appended (records before the damage may have been added to `out`).
    fn read(
        &self,
        topic: TopicId,
        from: Offset,
        max_bytes: usize,
        visibility: Visibility,
        out: &mut Vec<Record>,
    ) -> Result<Offset, LogError>;

    /// The first offset of `topic` that can still be read; equal to [`next`](Log::next) if there is none.
    fn first(&self, topic: TopicId) -> Offset;

    /// The offset that the next record appended to `topic` will have.
    fn next(&self, topic: TopicId) -> Offset;

    /// Tells that nobody needs the records of `topic` below `before` any more. They may go now, later (a file
    /// log frees whole segments) or never; [`first`](Log::first) says what is left. Records from `before`
    /// onwards stay.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] if `before > next(topic)`.
    fn release(&self, topic: TopicId, before: Offset) -> Result<(), LogError>;

    /// Whether the log can make progress.
    fn health(&self) -> Health;
}

impl<L: Log + ?Sized> Log for Arc<L> {
    fn append(&self, topic: TopicId, parts: &[&[u8]]) -> Result<Appended, LogError> {
        (**self).append(topic, parts)
    }
    fn durable(&self) -> Ticket {
        (**self).durable()
    }
    fn sync(&self) -> Result<Ticket, LogError> {
        (**self).sync()
    }
    fn read(
        &self,
        topic: TopicId,
        from: Offset,
        max_bytes: usize,
        visibility: Visibility,
        out: &mut Vec<Record>,
    ) -> Result<Offset, LogError> {
        (**self).read(topic, from, max_bytes, visibility, out)
    }
    fn first(&self, topic: TopicId) -> Offset {
        (**self).first(topic)
    }
    fn next(&self, topic: TopicId) -> Offset {
        (**self).next(topic)
    }
    fn release(&self, topic: TopicId, before: Offset) -> Result<(), LogError> {
        (**self).release(topic, before)
    }
    fn health(&self) -> Health {
        (**self).health()
    }
}
