//! One journal of segment files for all topics: one sync commits everything appended before it.

mod flusher;
mod format;
mod index;
mod queue;
mod reader;
mod recovery;
mod scan;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub use flusher::Flusher;
pub use recovery::Truncated;
pub use scan::{Scan, Scanned};

use crate::disk::{Disk, DiskFile, OsDisk, read_full_at, write_all_at};
use crate::memory::payload_len;
use crate::{Appended, Health, Log, LogError, Offset, Record, Ticket, TopicId, Visibility};
use bytes::Bytes;
use format::{ITEM_HEADER_BYTES, Kind, SegmentHeader};
use index::SegmentIndex;
use queue::{Place, Queue};
use reader::{LOCK_NAME, NEW_SUFFIX, SegmentReader, io_error, segment_name};
use recovery::{Recovered, recover};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use writer::{Trouble, Writer, create_segment};

const POISONED: &str = "a thread panicked inside the journal";
/// How much of a segment is read at once to find records of one topic.
const READ_WINDOW_BYTES: usize = 256 << 10;

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
    /// Opens the journal in `directory`, creating both if need be, and recovers what is in it: afterwards
    /// every record that is left is durable.
    ///
    /// # Errors
    /// [`LogError::Locked`] if another process has it open; [`LogError::Corrupt`] if a durable record is damaged,
    /// in which case nothing was changed; [`LogError::Version`]; [`LogError::Options`]; [`LogError::Io`].
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<(Self, OpenReport), LogError> {
        let path = directory.as_ref();
        let disk = OsDisk::create(path).map_err(io_error("create", path.display().to_string()))?;
        Self::open_on(Arc::new(disk), options)
    }

    /// As [`open`](Self::open), on any disk.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(disk: Arc<dyn Disk>, options: Options) -> Result<(Self, OpenReport), LogError> {
        if options.segment_bytes < 1024 {
            return Err(LogError::Options { option: "segment_bytes", what: "it must be at least 1024" });
        }
        let io = |operation| io_error(operation, disk.describe());
        let lock = disk.try_lock(LOCK_NAME).map_err(io("lock"))?;
        let lock = lock.ok_or_else(|| LogError::Locked { directory: disk.describe() })?;
        for name in disk.list().map_err(io("list"))? {
            if name.ends_with(NEW_SUFFIX) {
                disk.remove(&name).map_err(io_error("remove", name))?;
            }
        }
        let recovered = recover(&*disk)?;
        let created = recovered.is_none();
        let recovered = match recovered {
            Some(recovered) => recovered,
            None => found_journal(&*disk, &options)?,
        };
        let truncated = recovered.truncated.clone();
        let unmarked = recovered.unmarked;
        let (writer, queue) = resume(&disk, recovered, &options)?;
        let log = Self::assemble(disk, queue, Some(writer), Some(lock), &options);
        if unmarked {
            log.queue().needs_mark();
            log.mark_durable()?;
        }
        let report = OpenReport { created, segments: log.queue().segments(), last: log.durable(), truncated };
        Ok((log, report))
    }

    /// Opens the journal in `directory` for reading, without a lock, even while a writer is at work: shows what
    /// it held at the time of the call. Nothing is changed; what recovery would remove is reported.
    ///
    /// # Errors
    /// [`LogError::Corrupt`], [`LogError::Version`] or [`LogError::Io`]; `Io` with `NotFound` if there is no journal.
    pub fn open_read_only(directory: impl AsRef<Path>) -> Result<(Self, OpenReport), LogError> {
        let path = directory.as_ref();
        let disk = OsDisk::open(path).map_err(io_error("open", path.display().to_string()))?;
        Self::open_read_only_on(Arc::new(disk))
    }

    /// As [`open_read_only`](Self::open_read_only), on any disk.
    ///
    /// # Errors
    /// As [`open_read_only`](Self::open_read_only).
    pub fn open_read_only_on(disk: Arc<dyn Disk>) -> Result<(Self, OpenReport), LogError> {
        let recovered = recover(&*disk)?.ok_or_else(|| LogError::Io {
            operation: "find a journal in",
            file: disk.describe(),
            source: std::io::ErrorKind::NotFound.into(),
        })?;
        let options = Options::default();
        let truncated = recovered.truncated.clone();
        let queue = queue_of(&recovered, &options);
        let log = Self::assemble(disk, queue, None, None, &options);
        let report =
            OpenReport { created: false, segments: log.queue().segments(), last: log.durable(), truncated };
        Ok((log, report))
    }

    fn assemble(
        disk: Arc<dyn Disk>,
        queue: Queue,
        writer: Option<Writer>,
        lock: Option<Box<dyn Send + Sync>>,
        options: &Options,
    ) -> Self {
        Self {
            disk,
            max_pending_bytes: options.max_pending_bytes,
            retain: options.retain,
            durable: AtomicU64::new(queue.last_ticket),
            written_segment: AtomicU64::new(writer.as_ref().map_or(0, |writer| writer.segment)),
            queue: Mutex::new(queue),
            pending: Condvar::new(),
            writer: writer.map(Mutex::new),
            trouble: Mutex::new(None),
            waiters: Mutex::new(Vec::new()),
            leaving: Mutex::new(VecDeque::new()),
            _lock: lock,
        }
    }

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

    /// Adds the wanted records before offset `until` that are between two positions of a segment.
    fn read_segment(
        &self,
        journal: [u8; 16],
        (segment, position, end): (u64, u64, u64),
        wanted: &mut Wanted<'_>,
        until: u64,
    ) -> Result<Stretch, LogError> {
        let start = wanted.at;
        let mut reader = SegmentReader::open(&*self.disk, journal, segment, position, READ_WINDOW_BYTES)?;
        while reader.position < end && wanted.at < until {
            let item = reader.item()?;
            if item.kind != Kind::Record || item.topic != wanted.topic || item.offset < wanted.at {
                reader.skip(&item);
                continue;
            }
            if item.offset != wanted.at {
                return Err(reader.corrupt(reader.position, "a record is out of order"));
            }
            if !wanted.has_room(item.length as usize) {
                return Ok(Stretch::Full);
            }
            let payload = reader.take(&item)?;
            wanted.push(payload);
        }
        if wanted.at == start {
            return Err(reader.corrupt(reader.position, "a record is missing"));
        }
        Ok(Stretch::Exhausted)
    }
}

/// A read in progress.
struct Wanted<'a> {
    topic: u16,
    at: u64,
    any: bool,
    room: usize,
    out: &'a mut Vec<Record>,
}

impl Wanted<'_> {
    fn has_room(&self, len: usize) -> bool {
        !self.any || len <= self.room
    }

    fn push(&mut self, payload: Bytes) {
        self.room = self.room.saturating_sub(payload.len());
        self.out.push(Record { offset: Offset(self.at), payload });
        self.at += 1;
        self.any = true;
    }
}

/// Why reading a stretch of a segment ended.
enum Stretch {
    /// The next record is too much for this read.
    Full,
    /// The next record is elsewhere.
    Exhausted,
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
        let mut wanted = Wanted { topic: topic.0, at: from.0, any: false, room: max_bytes, out };
        loop {
            let last_visible = match visibility {
                Visibility::Appended => u64::MAX,
                Visibility::Durable => self.durable().0,
            };
            let mut queue = self.queue();
            let (first, next) = queue.topics.get(&topic.0).map_or((0, 0), |known| (known.first, known.next));
            if !(first..=next).contains(&wanted.at) {
                if wanted.any {
                    break;
                }
                let (first, next) = (Offset(first), Offset(next));
                return Err(LogError::OutOfRange { topic, asked: from, first, next });
            }
            match queue.locate(topic.0, wanted.at, last_visible) {
                None => break,
                Some(Place::Memory(payload)) => {
                    let mut payload = Some(payload);
                    while let Some(found) = payload.take().filter(|payload| wanted.has_room(payload.len())) {
                        wanted.push(found);
                        payload = match queue.locate(topic.0, wanted.at, last_visible) {
                            Some(Place::Memory(payload)) => Some(payload),
                            _ => None,
                        };
                    }
                    break;
                }
                Some(Place::Disk { segment, position, end, until }) => {
                    let journal = queue.journal;
                    drop(queue);
                    match self.read_segment(journal, (segment, position, end), &mut wanted, until) {
                        Ok(Stretch::Exhausted) => {}
                        Ok(Stretch::Full) => break,
                        // Released between the look into the index and the look into the file.
                        Err(LogError::Io { source, .. })
                            if source.kind() == std::io::ErrorKind::NotFound
                                && self.first(topic).0 > wanted.at => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(Offset(wanted.at))
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

/// Creates the first segment of a new journal.
fn found_journal(disk: &dyn Disk, options: &Options) -> Result<Recovered, LogError> {
    let journal = options.journal.unwrap_or_else(|| {
        // Keyed by the system's random source; it only has to differ from other journals.
        let half = || RandomState::new().hash_one(()).to_le_bytes();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&half());
        id[8..].copy_from_slice(&half());
        id
    });
    let header = SegmentHeader { journal, number: 1, start_ticket: 1, next_offsets: BTreeMap::new() };
    let encoded = header.encode();
    create_segment(disk, 1, &encoded, options.segment_bytes).map_err(at_open)?;
    let position = encoded.len() as u64;
    Ok(Recovered {
        sealed: VecDeque::new(),
        start: BTreeMap::new(),
        index: SegmentIndex::new(1),
        header,
        first_position: position,
        position,
        footer: None,
        truncated: None,
        proven: position,
        unmarked: false,
    })
}

fn queue_of(recovered: &Recovered, options: &Options) -> Queue {
    Queue::new(
        recovered.sealed.clone(),
        &recovered.start,
        &recovered.header,
        recovered.index.clone(),
        recovered.first_position,
        recovered.position,
        options,
    )
}

/// Removes what a crash left behind the last record, makes the rest durable, and continues.
fn resume(
    disk: &Arc<dyn Disk>,
    mut recovered: Recovered,
    options: &Options,
) -> Result<(Writer, Queue), LogError> {
    let number = recovered.header.number;
    let name = segment_name(number);
    let mut file = disk.open(&name, true).map_err(io_error("open", &name))?;
    // Even if there seems to be nothing to cut off or to write: when a sync failed before, the system's cache
    // may show what never reached the disk and never will, unless it is written once more.
    file.set_len(recovered.position).map_err(io_error("cut off", &name))?;
    rewrite(&*file, recovered.proven..recovered.position).map_err(io_error("write again", &name))?;
    if recovered.footer.is_none() {
        match file.allocate(options.segment_bytes) {
            Err(error) if !recovery::is_optional(&error) => {
                return Err(io_error("reserve space for", &name)(error));
            }
            _ => {}
        }
    }
    file.sync_all().map_err(io_error("sync", &name))?;
    disk.sync_dir().map_err(io_error("sync the directory of", &name))?;
    let mut active = number;
    if let Some(end) = recovered.footer {
        let queue = queue_of(&recovered, options);
        let index =
            Arc::new(std::mem::replace(&mut recovered.index, SegmentIndex::new(queue.last_ticket + 1)));
        recovered.sealed.push_back(queue::Sealed { number, index, end });
        active = number + 1;
        recovered.header.number = active;
        recovered.header.start_ticket = queue.last_ticket + 1;
        recovered.header.next_offsets =
            queue.topics.iter().map(|(&topic, known)| (topic, known.next)).collect();
        let encoded = recovered.header.encode();
        file = create_segment(&**disk, active, &encoded, options.segment_bytes).map_err(at_open)?;
        recovered.first_position = encoded.len() as u64;
        recovered.position = recovered.first_position;
    }
    let queue = queue_of(&recovered, options);
    let writer = Writer::new(Arc::clone(disk), file, active, options.segment_bytes, queue.last_ticket);
    Ok((writer, queue))
}

/// Writes what is in `range` of the file once more.
fn rewrite(file: &dyn DiskFile, range: std::ops::Range<u64>) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = range.start;
    while at < range.end {
        let len = usize::try_from(range.end - at).map_or(buffer.len(), |rest| rest.min(buffer.len()));
        let read = read_full_at(file, &mut buffer[..len], at)?;
        if read < len {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        write_all_at(file, &buffer[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

fn at_open(trouble: Trouble) -> LogError {
    match trouble {
        Trouble::Stalled(reason) => LogError::Stalled { reason },
        Trouble::Failed(reason) => LogError::Failed { reason },
    }
}
