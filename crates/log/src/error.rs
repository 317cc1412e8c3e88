//! What can go wrong in a log, and what to do about it.

use crate::{Offset, TopicId};
use std::io;
use thiserror::Error;

/// An operation of a log that did not happen.
#[derive(Debug, Error)]
pub enum LogError {
    /// A memory log has no room. Release what has been consumed and append again.
    #[error(
        "the log is full: {used_bytes} of {capacity_bytes} bytes are in use; release consumed records first"
    )]
    Full {
        /// Payload bytes held.
        used_bytes: usize,
        /// Payload bytes that fit.
        capacity_bytes: usize,
    },
    /// Too much waits for the disk. Sync, or wait for the flusher, and append again.
    #[error("{pending_bytes} bytes wait for the disk and {max_pending_bytes} may; append again after a sync")]
    Backpressure {
        /// Bytes appended and not yet durable.
        pending_bytes: usize,
        /// The configured limit.
        max_pending_bytes: usize,
    },
    /// The record can never be appended; split it.
    #[error("a record of {bytes} bytes is over the limit of {max_bytes}")]
    TooLarge {
        /// Its payload.
        bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
    /// The position asked for is not in the log: already released, or not yet written.
    #[error("{topic} has offsets {} up to {}, not {}", first.0, next.0, asked.0)]
    OutOfRange {
        /// The topic.
        topic: TopicId,
        /// The offset asked for.
        asked: Offset,
        /// The first that can be read.
        first: Offset,
        /// The one after the last.
        next: Offset,
    },
    /// The disk is full or over quota. Nothing is lost: free space and sync again.
    #[error("the log is stalled ({reason}); free space on its file system, it will go on by itself")]
    Stalled {
        /// What the device said.
        reason: String,
    },
    /// The device reported that writes may be lost. Restart the process on a good device; it
    /// recovers from what is on disk.
    #[error(
        "the log has failed and accepts nothing more ({reason}); restart to recover from what is on disk"
    )]
    Failed {
        /// What the device said.
        reason: String,
    },
    /// Another process writes under this writer's name now. What this one had not synced is void; it must stop.
    #[error("writer '{writer}' was taken over by another process; this one writes nothing more")]
    Fenced {
        /// Under which name.
        writer: String,
    },
    /// The cluster could not be reached, or refused.
    #[error("the cluster could not {operation}: {reason}")]
    Cluster {
        /// What was tried.
        operation: &'static str,
        /// What it said.
        reason: String,
    },
    /// A topic that should be there is not, or has other partitions than planned.
    #[error("topic '{topic}': {what}")]
    Topic {
        /// Its name.
        topic: String,
        /// What is wrong with it.
        what: String,
    },
    /// The stored bytes are not what was written. Restore the file from a replica or backup; nothing was
    /// changed.
    #[error("{segment} is damaged at byte {position}: {what}; restore it from a replica or a backup")]
    Corrupt {
        /// The file.
        segment: String,
        /// The byte in the file at which the damaged structure starts.
        position: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A partition holds what it cannot hold: it stops there, since what follows could change a decision. Find out who
    /// wrote it.
    #[error("{partition} holds at Kafka offset {position} {what}; nothing behind it is read")]
    Unreadable {
        /// Topic and number of the partition.
        partition: String,
        /// The position in the server's own counting.
        position: u64,
        /// What is there.
        what: String,
    },
    /// The file was written by a newer version of this program.
    #[error("{file} has format version {found}, this program reads up to {supported}; use a newer program")]
    Version {
        /// The file.
        file: String,
        /// Its version.
        found: u32,
        /// The newest known.
        supported: u32,
    },
    /// Another process has the journal open for writing.
    #[error("the journal in {directory} is in use by another process; stop it, or open read-only")]
    Locked {
        /// The directory.
        directory: String,
    },
    /// The log was opened for reading only.
    #[error("the log was opened read-only")]
    ReadOnly,
    /// An option makes no sense.
    #[error("log option {option}: {what}")]
    Options {
        /// Its name.
        option: &'static str,
        /// What it must be.
        what: &'static str,
    },
    /// The operating system refused.
    #[error("cannot {operation} {file}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        file: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
}
