//! Brings what was appended to disk: large writes, one sync for all of them, new segments.

use super::queue::Work;
use super::reader::{NEW_SUFFIX, segment_name};
use crate::disk::{Disk, DiskFile, write_all_at};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Neighbouring pieces smaller than this are copied together rather than written one by one.
const SMALL_PIECE_BYTES: usize = 64 << 10;
const GATHERED_BYTES: usize = 1 << 20;

pub(super) struct Writer {
    disk: Arc<dyn Disk>,
    file: Box<dyn DiskFile>,
    pub(super) segment: u64,
    segment_bytes: u64,
    work: VecDeque<Work>,
    gathered: Vec<u8>,
    /// The last ticket that is written.
    written: u64,
    /// Something is written that is not synced.
    dirty: bool,
    pub(super) syncs: u64,
    pub(super) written_bytes: u64,
}

/// Why there is no progress.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// No space: try again.
    Stalled(String),
    /// Never try again.
    Failed(String),
}

impl Writer {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        file: Box<dyn DiskFile>,
        segment: u64,
        segment_bytes: u64,
        written: u64,
    ) -> Self {
        Self {
            disk,
            file,
            segment,
            segment_bytes,
            work: VecDeque::new(),
            gathered: Vec::new(),
            written,
            dirty: false,
            syncs: 0,
            written_bytes: 0,
        }
    }

    /// Takes over work that waits in a queue.
    pub(super) fn take(&mut self, work: &mut VecDeque<Work>) {
        self.work.append(work);
    }

    /// Does all the work, and calls `publish` with the ticket up to which everything is durable, each time
    /// that changes. What could not be done stays, to be done by the next call.
    pub(super) fn run(&mut self, publish: impl Fn(u64)) -> Result<(), Trouble> {
        let outcome = self.work_off(&publish);
        if !matches!(outcome, Err(Trouble::Failed(_))) && self.dirty {
            self.commit(&publish)?;
        }
        outcome
    }

    fn work_off(&mut self, publish: &impl Fn(u64)) -> Result<(), Trouble> {
        while let Some(work) = self.work.front() {
            match work {
                Work::Write { .. } => self.write()?,
                Work::Roll { .. } => self.roll(publish)?,
            }
        }
        Ok(())
    }

    /// Writes the piece in front, together with those after it while they are small.
    fn write(&mut self) -> Result<(), Trouble> {
        self.gathered.clear();
        let mut pieces = 0;
        let mut start = 0;
        let mut last = self.written;
        for work in &self.work {
            let Work::Write { position, bytes, ticket } = work else { break };
            let fits = bytes.len() < SMALL_PIECE_BYTES && self.gathered.len() + bytes.len() <= GATHERED_BYTES;
            if pieces > 0 && !fits {
                break;
            }
            if pieces == 0 {
                start = *position;
            }
            pieces += 1;
            last = *ticket;
            if !fits {
                break;
            }
            self.gathered.extend_from_slice(bytes);
        }
        let bytes = match self.work.front() {
            Some(Work::Write { bytes, .. }) if pieces == 1 => bytes,
            _ => &self.gathered[..],
        };
        self.dirty = true;
        write_all_at(&*self.file, bytes, start).map_err(trouble("write the journal"))?;
        self.written_bytes += bytes.len() as u64;
        self.written = last;
        self.work.drain(..pieces);
        Ok(())
    }

    fn commit(&mut self, publish: &impl Fn(u64)) -> Result<(), Trouble> {
        self.syncs += 1;
        self.file.sync_data().map_err(lost("sync the journal"))?;
        self.dirty = false;
        publish(self.written);
        Ok(())
    }

    /// Ends the segment and starts the next. Everything in a segment is durable before there is a next one, so
    /// that damage in any but the last segment is never mistaken for a write that a crash interrupted.
    fn roll(&mut self, publish: &impl Fn(u64)) -> Result<(), Trouble> {
        let Some(&Work::Roll { end, next, ref header }) = self.work.front() else { return Ok(()) };
        let header = header.clone();
        self.syncs += 1;
        self.file.set_len(end).map_err(trouble("cut off a segment"))?;
        self.file.sync_all().map_err(lost("sync a segment"))?;
        self.dirty = false;
        publish(self.written);
        self.file = create_segment(&*self.disk, next, &header, self.segment_bytes)?;
        self.syncs += 1;
        self.segment = next;
        self.work.pop_front();
        Ok(())
    }
}

/// Creates segment `number` with its header; it appears under its name complete and durable or not at all.
pub(super) fn create_segment(
    disk: &dyn Disk,
    number: u64,
    header: &[u8],
    segment_bytes: u64,
) -> Result<Box<dyn DiskFile>, Trouble> {
    let name = segment_name(number);
    let new_name = format!("{name}{NEW_SUFFIX}");
    let file = match disk.create(&new_name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove(&new_name).and_then(|()| disk.create(&new_name))
        }
        other => other,
    }
    .map_err(trouble("create a segment"))?;
    file.allocate(segment_bytes).map_err(trouble("reserve space for a segment"))?;
    write_all_at(&*file, header, 0).map_err(trouble("write the header of a segment"))?;
    file.sync_all().map_err(lost("sync a new segment"))?;
    disk.rename(&new_name, &name).map_err(trouble("name a segment"))?;
    disk.sync_dir().map_err(lost("sync the directory"))?;
    Ok(file)
}

/// Nothing was lost if there was no space for it.
fn trouble(operation: &'static str) -> impl FnOnce(io::Error) -> Trouble {
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Trouble::Stalled(format!("cannot {operation}: {error}"))
        }
        _ => Trouble::Failed(format!("cannot {operation}: {error}")),
    }
}

/// After a failed sync the system may have dropped the data and will say nothing the next time, whatever the
/// error was.
fn lost(operation: &'static str) -> impl FnOnce(io::Error) -> Trouble {
    move |error| Trouble::Failed(format!("cannot {operation}: {error}"))
}
