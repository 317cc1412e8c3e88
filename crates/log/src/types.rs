//! Positions, records and conditions that every log speaks of.

use bytes::Bytes;
use std::fmt;

/// A topic: one ordered sequence of records with one writer. Names belong to the user of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u16);

/// The position of a record in its topic: dense, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

/// The position of a record in the order of appends to its log, over all topics: dense, from 1, so that
/// `Ticket(0)` is before every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Where a record went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its position in its topic. Final, because a topic has a single writer.
    pub offset: Offset,
    /// Its position in the log: on disk when [`Log::durable`](crate::Log::durable) reaches it.
    pub ticket: Ticket,
}

/// A record as read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its position in its topic.
    pub offset: Offset,
    /// The bytes appended. Often a slice of a larger buffer, which lives as long as the slice does.
    pub payload: Bytes,
}

/// Which records a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Everything appended, even what a crash could still take back. For stages whose own output
    /// cannot become durable before their input does.
    Appended,
    /// Only what is on stable storage.
    Durable,
}

/// Whether a log can make progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It can.
    Ok,
    /// Not at present: appended records stay queued up to the limit, and each sync tries again.
    Stalled {
        /// What the device said.
        reason: String,
    },
    /// Never again: the process must be restarted and recover from what is on disk.
    Failed {
        /// What the device said.
        reason: String,
    },
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {}", self.0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}", self.0)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticket {}", self.0)
    }
}
