//! One journal of segment files for all topics: one sync commits everything appended before it.

mod flusher;
mod format;
mod index;
mod open;
mod options;
mod queue;
mod read;
mod reader;
mod recovery;
mod scan;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub use flusher::Flusher;
pub use options::{OpenReport, Options, Retain, Statistics};
pub use recovery::Truncated;
pub use scan::{Scan, Scanned};

use crate::disk::Disk;
use crate::memory::payload_len;
use crate::{Appended, Health, Log, LogError, Offset, Record, Ticket, TopicId, Visibility};
use format::ITEM_HEADER_BYTES;
use queue::Queue;
use reader::{io_error, segment_name};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use writer::{Trouble, Writer};

const POISONED: &str = "a thread panicked inside the journal";

type Waiter = Box<dyn Fn(Ticket) + Send + Sync>;

/// A log in segment files of one directory, which it locks.
///
/// Nothing is written before [`sync`](Log::sync); a [`Flusher`] calls it in a thread of its own. See
/// docs/decisions/003-journal.md for the format and the rules of recovery.
///
/// ```
/// use tally_log::{FileLog, Log, Offset, Options, TopicId, Visibility};
/// # let directory = tempfile::tempdir()?;
/// let (log, report) = FileLog::open(directory.path(), Options { segment_bytes: 1 << 20, ..Options::default() })?;
/// assert!(report.created);
/// let appended = log.append(TopicId(3), &[b"pay ", b"Bob"])?;
/// assert!(log.durable() < appended.ticket);
/// assert_eq!(log.sync()?, appended.ticket);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileLog {
    disk: Arc<dyn Disk>,
    max_pending_bytes: usize,
    retain: Retain,
    durable: AtomicU64,
    written_segment: AtomicU64,
    queue: Mutex<Queue>,
    /// Tells the flusher that records wait.
    pending: Condvar,
    /// None: read-only. Locked before `queue`, never the other way round.
    writer: Option<Mutex<Writer>>,
    trouble: Mutex<Option<Trouble>>,
    waiters: Mutex<Vec<Waiter>>,
    /// Segments that are released and still to be removed, oldest first.
    leaving: Mutex<VecDeque<u64>>,
    _lock: Option<Box<dyn Send + Sync>>,
}

impl std::fmt::Debug for FileLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileLog").field("directory", &self.disk.describe()).finish_non_exhaustive()
    }
}

impl FileLog {
    /// All records from ticket `from` on (or the first that is left), up to what is durable now, in order.
    #[must_use]
    pub fn scan(&self, from: Ticket) -> Scan {
        let queue = self.queue();
        let segments = queue.segments_from(from.0);
        Scan::new(Arc::clone(&self.disk), queue.journal, segments, from.0, self.durable().0 + 1)
    }

    /// Calls `waiter` with the new [`durable`](Log::durable) after every sync that changed it, in the thread that
    /// synced. Tickets never decrease. It should be quick, must not call `sync` or `on_durable`, and stays
    /// for the life of the log.
    pub fn on_durable(&self, waiter: Waiter) {
        self.waiters.lock().expect(POISONED).push(waiter);
    }

    /// Syncs, and then writes and syncs a mark which tells recovery that the last records were durable, so that
    /// damage to them is not taken for an interrupted write. Does nothing if that is known already.
    ///
    /// # Errors
    /// As [`Log::sync`].
    pub fn mark_durable(&self) -> Result<Ticket, LogError> {
        let durable = self.sync()?;
        if self.queue().mark(durable.0) {
            return self.sync();
        }
        Ok(durable)
    }

    /// Counts since the journal was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let (syncs, written_bytes) = self.writer.as_ref().map_or((0, 0), |writer| {
            let writer = writer.lock().expect(POISONED);
            (writer.syncs, writer.written_bytes)
        });
        let queue = self.queue();
        Statistics { syncs, written_bytes, pending_bytes: queue.pending_bytes, segments: queue.segments() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect(POISONED)
    }

    fn fail(&self, reason: &str) {
        *self.trouble.lock().expect(POISONED) = Some(Trouble::Failed(reason.to_owned()));
    }

    fn check_failed(&self) -> Result<(), LogError> {
        match &*self.trouble.lock().expect(POISONED) {
            Some(Trouble::Failed(reason)) => Err(LogError::Failed { reason: reason.clone() }),
            _ => Ok(()),
        }
    }

    fn publish(&self, ticket: u64) {
        self.durable.store(ticket, Ordering::Release);
        self.queue().publish(ticket);
    }

    fn notify_waiters(&self) {
        let waiters = self.waiters.lock().expect(POISONED);
        // Read under the lock, so that no waiter hears an older ticket after a newer one.
        let durable = self.durable();
        for waiter in &*waiters {
            waiter(durable);
        }
    }
}

impl Log for FileLog {
    fn append(&self, topic: TopicId, parts: &[&[u8]]) -> Result<Appended, LogError> {
        let length = payload_len(parts)?;
        if self.writer.is_none() {
            return Err(LogError::ReadOnly);
        }
        self.check_failed()?;
        // Outside the lock: reading the payload once more is cheaper than making others wait.
        let payload_crc = parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
        let mut queue = self.queue();
        let pending_bytes = queue.pending_bytes;
        if pending_bytes > 0 && pending_bytes + ITEM_HEADER_BYTES + length > self.max_pending_bytes {
            return Err(LogError::Backpressure { pending_bytes, max_pending_bytes: self.max_pending_bytes });
        }
        let offset = queue.append(topic.0, parts, length, payload_crc, self.durable().0);
        let ticket = queue.last_ticket;
        let pending_bytes = queue.pending_bytes;
        let wake = queue.flusher.wake_at_bytes.take_if(|at| pending_bytes >= *at).is_some();
        drop(queue);
        if wake {
            self.pending.notify_all();
        }
        Ok(Appended { offset: Offset(offset), ticket: Ticket(ticket) })
    }

    fn durable(&self) -> Ticket {
        Ticket(self.durable.load(Ordering::Acquire))
    }

    fn sync(&self) -> Result<Ticket, LogError> {
        let mut writer = self.writer.as_ref().ok_or(LogError::ReadOnly)?.lock().expect(POISONED);
        self.check_failed()?;
        let before = self.durable();
        {
            let mut queue = self.queue();
            queue.freeze();
            writer.take(&mut queue.work);
        }
        let outcome = writer.run(|ticket| self.publish(ticket));
        self.written_segment.store(writer.segment, Ordering::Release);
        *self.trouble.lock().expect(POISONED) = outcome.clone().err();
        drop(writer);
        if self.durable() > before {
            self.notify_waiters();
        }
        match outcome {
            Ok(()) => Ok(self.durable()),
            Err(Trouble::Stalled(reason)) => Err(LogError::Stalled { reason }),
            Err(Trouble::Failed(reason)) => Err(LogError::Failed { reason }),
        }
    }

    fn read(
        &self,
        topic: TopicId,
        from: Offset,
        max_bytes: usize,
        visibility: Visibility,
        out: &mut Vec<Record>,
    ) -> Result<Offset, LogError> {
        self.read_records(topic, from, max_bytes, visibility, out)
    }

    fn first(&self, topic: TopicId) -> Offset {
        Offset(self.queue().topics.get(&topic.0).map_or(0, |known| known.first))
    }

    fn next(&self, topic: TopicId) -> Offset {
        Offset(self.queue().topics.get(&topic.0).map_or(0, |known| known.next))
    }

    fn release(&self, topic: TopicId, before: Offset) -> Result<(), LogError> {
        if self.writer.is_none() {
            return Err(LogError::ReadOnly);
        }
        {
            let mut queue = self.queue();
            let (first, next) = queue.topics.get(&topic.0).map_or((0, 0), |known| (known.first, known.next));
            if before.0 > next {
                let (first, next) = (Offset(first), Offset(next));
                return Err(LogError::OutOfRange { topic, asked: before, first, next });
            }
            queue.release(topic.0, before.0);
        }
        if self.retain == Retain::All {
            return Ok(());
        }
        let mut leaving = self.leaving.lock().expect(POISONED);
        loop {
            while let Some(&number) = leaving.front() {
                let name = segment_name(number);
                match self.disk.remove(&name) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(io_error("remove", &name)(error));
                    }
                    _ => {}
                }
                // Before the next goes: a journal may lose its beginning, never its middle.
                self.disk.sync_dir().map_err(io_error("sync the directory of", &name))?;
                leaving.pop_front();
            }
            let mut queue = self.queue();
            match queue.releasable(self.written_segment.load(Ordering::Acquire)) {
                None => return Ok(()),
                Some(number) => {
                    queue.drop_oldest();
                    leaving.push_back(number);
                }
            }
        }
    }

    fn health(&self) -> Health {
        match &*self.trouble.lock().expect(POISONED) {
            None => Health::Ok,
            Some(Trouble::Stalled(reason)) => Health::Stalled { reason: reason.clone() },
            Some(Trouble::Failed(reason)) => Health::Failed { reason: reason.clone() },
        }
    }
}
