//! How a journal is kept, and what is known about it.

use super::Truncated;
use crate::Ticket;

/// How a journal is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The size of a segment file, in bytes, reserved in advance. A segment can become larger by one record
    /// that is larger than this, and by its index.
    pub segment_bytes: u64,
    /// How much may wait for the disk, in bytes. At least one record may, whatever its size.
    pub max_pending_bytes: usize,
    /// How much of what was appended last is kept in memory for readers, in bytes, besides what waits.
    pub tail_bytes: usize,
    /// What becomes of released records.
    pub retain: Retain,
    /// The identity of a new journal; none: a random one. A simulation sets it, to be repeatable.
    pub journal: Option<[u8; 16]>,
}

/// What becomes of released records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retain {
    /// They are kept for ever, for audit.
    All,
    /// A segment is removed once all its records, and all segments before it, are released.
    Unreleased,
}

impl Default for Options {
    /// Segments of 256 MiB, 128 MiB waiting, 64 MiB in memory, everything kept.
    fn default() -> Self {
        Self {
            segment_bytes: 256 << 20,
            max_pending_bytes: 128 << 20,
            tail_bytes: 64 << 20,
            retain: Retain::All,
            journal: None,
        }
    }
}

/// What was found when a journal was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenReport {
    /// There was none, and a new one was created.
    pub created: bool,
    /// Segment files, the last included.
    pub segments: usize,
    /// The last record.
    pub last: Ticket,
    /// What an interrupted write left behind the last record. It was removed, unless opened read-only.
    pub truncated: Option<Truncated>,
}

/// Counts since the journal was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Calls of `fdatasync` and `fsync`, without those for the directory.
    pub syncs: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes that wait for the disk.
    pub pending_bytes: usize,
    /// Segment files, the last included.
    pub segments: usize,
}
