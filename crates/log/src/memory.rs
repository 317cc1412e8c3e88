//! A log in memory: durable at once, gone with the process. For tests and for stages that are recomputed.

use crate::{Appended, Health, Log, LogError, MAX_RECORD_BYTES, Offset, Record, Ticket, TopicId, Visibility};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A bounded log in memory.
///
/// ```
/// use tally_log::{Log, MemoryLog, Offset, TopicId, Visibility};
/// let log = MemoryLog::new(1 << 20);
/// let appended = log.append(TopicId(0), &[b"pay ", b"Bob"])?;
/// assert!(log.durable() >= appended.ticket);
/// let mut out = Vec::new();
/// log.read(TopicId(0), Offset(0), 1024, Visibility::Durable, &mut out)?;
/// assert_eq!(&out[0].payload[..], b"pay Bob");
/// # Ok::<(), tally_log::LogError>(())
/// ```
#[derive(Debug)]
pub struct MemoryLog {
    capacity_bytes: usize,
    durable: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used_bytes: usize,
    topics: HashMap<u16, Topic>,
}

#[derive(Debug, Default)]
struct Topic {
    first: u64,
    records: VecDeque<Bytes>,
}

impl Topic {
    fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }
}

/// What a record costs besides its payload, so that a flood of empty records is bounded too.
const OVERHEAD_BYTES: usize = size_of::<Bytes>();

impl MemoryLog {
    /// An empty log that holds at most `capacity_bytes` of payload (and a small fixed cost for each record).
    #[must_use]
    pub fn new(capacity_bytes: usize) -> Self {
        Self { capacity_bytes, durable: AtomicU64::new(0), state: Mutex::new(State::default()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a thread panicked inside the memory log")
    }
}

impl Log for MemoryLog {
    fn append(&self, topic: TopicId, parts: &[&[u8]]) -> Result<Appended, LogError> {
        let bytes = payload_len(parts)?;
        let payload = Bytes::from(parts.concat());
        let mut state = self.state();
        let cost = bytes + OVERHEAD_BYTES;
        if state.used_bytes.saturating_add(cost) > self.capacity_bytes {
            return Err(LogError::Full { used_bytes: state.used_bytes, capacity_bytes: self.capacity_bytes });
        }
        state.used_bytes += cost;
        let entry = state.topics.entry(topic.0).or_default();
        let offset = Offset(entry.next());
        entry.records.push_back(payload);
        // Inside the lock, so that a ticket is never seen before its record is.
        let ticket = Ticket(self.durable.fetch_add(1, Ordering::AcqRel) + 1);
        Ok(Appended { offset, ticket })
    }

    fn durable(&self) -> Ticket {
        Ticket(self.durable.load(Ordering::Acquire))
    }

    fn sync(&self) -> Result<Ticket, LogError> {
        Ok(self.durable())
    }

    fn read(
        &self,
        topic: TopicId,
        from: Offset,
        max_bytes: usize,
        _visibility: Visibility,
        out: &mut Vec<Record>,
    ) -> Result<Offset, LogError> {
        let state = self.state();
        let (first, next) = state.topics.get(&topic.0).map_or((0, 0), |t| (t.first, t.next()));
        if from.0 < first || from.0 > next {
            return Err(LogError::OutOfRange {
                topic,
                asked: from,
                first: Offset(first),
                next: Offset(next),
            });
        }
        let mut at = from.0;
        if let Some(entry) = state.topics.get(&topic.0) {
            let mut taken = 0;
            let skip = usize::try_from(at - first).expect("an index of records in memory");
            for payload in entry.records.range(skip..) {
                if at > from.0 && taken + payload.len() > max_bytes {
                    break;
                }
                taken += payload.len();
                out.push(Record { offset: Offset(at), payload: payload.clone() });
                at += 1;
            }
        }
        Ok(Offset(at))
    }

    fn first(&self, topic: TopicId) -> Offset {
        Offset(self.state().topics.get(&topic.0).map_or(0, |t| t.first))
    }

    fn next(&self, topic: TopicId) -> Offset {
        Offset(self.state().topics.get(&topic.0).map_or(0, Topic::next))
    }

    fn release(&self, topic: TopicId, before: Offset) -> Result<(), LogError> {
        let mut state = self.state();
        let (first, next) = state.topics.get(&topic.0).map_or((0, 0), |t| (t.first, t.next()));
        if before.0 > next {
            return Err(LogError::OutOfRange {
                topic,
                asked: before,
                first: Offset(first),
                next: Offset(next),
            });
        }
        let mut freed = 0;
        if let Some(entry) = state.topics.get_mut(&topic.0) {
            while entry.first < before.0 {
                freed += entry.records.pop_front().map_or(0, |payload| payload.len() + OVERHEAD_BYTES);
                entry.first += 1;
            }
        }
        state.used_bytes -= freed;
        Ok(())
    }

    fn health(&self) -> Health {
        Health::Ok
    }
}

/// The length of a record given in parts, if a log may hold it.
pub(crate) fn payload_len(parts: &[&[u8]]) -> Result<usize, LogError> {
    let bytes = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
    if bytes > MAX_RECORD_BYTES {
        return Err(LogError::TooLarge { bytes, max_bytes: MAX_RECORD_BYTES });
    }
    Ok(bytes)
}
