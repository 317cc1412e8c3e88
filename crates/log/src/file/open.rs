//! Opens a journal: recovers it and continues it, or only looks at it.

use super::format::SegmentHeader;
use super::index::SegmentIndex;
use super::queue::{Queue, Sealed};
use super::reader::{LOCK_NAME, NEW_SUFFIX, io_error, segment_name};
use super::recovery::{Recovered, is_optional, recover};
use super::writer::{Trouble, Writer, create_segment};
use super::{FileLog, OpenReport, Options};
use crate::disk::{Disk, DiskFile, OsDisk, read_full_at, write_all_at};
use crate::{Log, LogError};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};

/// How often a journal that changes is looked at again.
const READ_ONLY_ATTEMPTS: u32 = 100;

impl FileLog {
    /// Opens the journal in `directory`, creating both if need be, and recovers what is in it: afterwards
    /// every record that is left is durable.
    ///
    /// # Errors
    /// [`LogError::Locked`] if another process has it open; [`LogError::Corrupt`] if a durable record is damaged,
    /// in which case nothing was changed; [`LogError::Version`]; [`LogError::Options`]; [`LogError::Io`].
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<(Self, OpenReport), LogError> {
        let path = directory.as_ref();
        let disk = OsDisk::new(path).map_err(io_error("create", path.display().to_string()))?;
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
        let failed_to = |operation| io_error(operation, disk.describe());
        let lock = disk.try_lock(LOCK_NAME).map_err(failed_to("lock"))?;
        let lock = lock.ok_or_else(|| LogError::Locked { directory: disk.describe() })?;
        for name in disk.list().map_err(failed_to("list"))? {
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
        let disk = OsDisk::existing(path).map_err(io_error("open", path.display().to_string()))?;
        Self::open_read_only_on(Arc::new(disk))
    }

    /// As [`open_read_only`](Self::open_read_only), on any disk.
    ///
    /// # Errors
    /// As [`open_read_only`](Self::open_read_only).
    pub fn open_read_only_on(disk: Arc<dyn Disk>) -> Result<(Self, OpenReport), LogError> {
        let mut attempts = READ_ONLY_ATTEMPTS;
        let recovered = loop {
            attempts -= 1;
            match recover(&*disk) {
                // A writer at work removed the first segment since it was listed.
                Err(LogError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && attempts > 0 => {}
                other => break other?,
            }
        };
        let recovered = recovered.ok_or_else(|| LogError::Io {
            operation: "find a journal in",
            file: disk.describe(),
            source: io::ErrorKind::NotFound.into(),
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
            Err(error) if !is_optional(&error) => {
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
        recovered.sealed.push_back(Sealed { number, index, end });
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
fn rewrite(file: &dyn DiskFile, range: std::ops::Range<u64>) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = range.start;
    while at < range.end {
        let len = usize::try_from(range.end - at).map_or(buffer.len(), |rest| rest.min(buffer.len()));
        let read = read_full_at(file, &mut buffer[..len], at)?;
        if read < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
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
