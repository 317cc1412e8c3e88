//! How far a shard has come, as it records it with what it appends.

use crate::message::Message;
use tally_ledger::Timestamp;
use tally_ledger::wire::{DecodeError, Reader, write, write_count, write_slice};

/// What a shard needs to go on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct State {
    /// No time before this comes again.
    pub(super) clock: Timestamp,
    /// The position that comes next in each partition it reads.
    pub(super) next: Vec<u64>,
    /// The position from which on it must read again to find what was under way; which partitions, each stage knows.
    pub(super) low: Vec<u64>,
    /// What else the stage must know.
    pub(super) more: Vec<u8>,
}

const VERSION: u8 = 1;
const MAX_PARTITIONS: usize = 1 << 16;
const MAX_MORE: usize = 32 << 20;

impl Message for State {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        write(out, &self.clock);
        for column in [&self.next, &self.low] {
            write_count(out, column.len());
            write_slice(out, column);
        }
        write_count(out, self.more.len());
        out.extend_from_slice(&self.more);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("state of a shard", bytes);
        reader.version(VERSION)?;
        let clock = reader.value()?;
        let mut columns = [Vec::new(), Vec::new()];
        for column in &mut columns {
            let count = reader.count(MAX_PARTITIONS)?;
            *column = reader.values(count)?;
        }
        let [next, low] = columns;
        let length = reader.count(MAX_MORE)?;
        let more = reader.take(length)?.to_vec();
        reader.end()?;
        Ok(Self { clock, next, low, more })
    }
}

impl State {
    /// The position that comes next in the partition at `at`; 0 where nothing was recorded.
    pub(super) fn next(&self, at: usize) -> u64 {
        self.next.get(at).copied().unwrap_or(0)
    }
    /// As [`Self::next`], for the position from which on to read again.
    pub(super) fn low(&self, at: usize) -> u64 {
        self.low.get(at).copied().unwrap_or(0)
    }
}
