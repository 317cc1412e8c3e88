//! Writing full buffers out as segments, and merging segments so that a read has few to look at.
//!
//! One thread does each, so that a long merge never makes a commit wait for its buffer.

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use super::cursor::Merge;
use super::database::{Files, Shared, lock};
use super::error::Failure;
use super::manifest::Manifest;
use super::segment::{self, Segment, SegmentInfo, SegmentWriter};
use super::value::Found;
use super::version::Run;
use super::{StoreError, Table, journal};

/// A segment ends once it has this many bytes, which bounds the part of it that is held in memory.
const SEGMENT_BYTES: u64 = 32 << 20;
/// Runs of one class of size are merged once there are this many; each class is as many times larger.
const FAN: usize = 4;
/// Runs up to this size are in the lowest class.
const SMALLEST_CLASS_BYTES: u64 = 1 << 20;
/// Runs whose keys do not overlap are put in a row without copying, if their segments have this size
/// on average.
const ROW_SEGMENT_BYTES: u64 = 4 << 20;
/// Entries between two looks at whether the store is closing.
const PATIENCE: u32 = 4096;

/// The two threads; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Background {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let mut background = Self { shared: Arc::clone(shared), threads: Vec::new() };
        for (name, run) in [("store-flush", flushing as fn(&Shared)), ("store-merge", merging)] {
            let shared = Arc::clone(shared);
            let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&shared));
            let directory = &background.shared.files().directory;
            let thread = thread.map_err(StoreError::io("start a thread for", directory.path()))?;
            background.threads.push(thread);
        }
        Ok(background)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        lock(&self.shared.work).closing = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn files(&self) -> &Files {
        self.files.as_ref().expect("only a store with files has work in the background")
    }

    fn is_closing(&self) -> bool {
        lock(&self.work).closing
    }

    /// Sleeps until `ready` gives something; `None` once the store closes.
    fn next_work<T>(&self, ready: impl Fn(&super::database::Work) -> Option<T>) -> Option<T> {
        let mut work = lock(&self.work);
        loop {
            if work.closing {
                return None;
            }
            if let Some(found) = ready(&work) {
                return Some(found);
            }
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn flushing(shared: &Shared) {
    // After a failure, whoever waits takes the error away and by that asks for another attempt.
    while let Some(journal) = shared.next_work(|work| work.flush.filter(|_| work.failed.is_none())) {
        let outcome = flush(shared, journal);
        let mut work = lock(&shared.work);
        match outcome {
            Ok(()) => {
                work.flush = None;
                work.merge = true;
            }
            Err(error) => work.failed = Some(error),
        }
        drop(work);
        shared.changed.notify_all();
    }
}

fn merging(shared: &Shared) {
    while shared.next_work(|work| work.merge.then_some(())).is_some() {
        let outcome = merge_one(shared);
        let mut work = lock(&shared.work);
        match outcome {
            Ok(true) => {}
            Ok(false) => work.merge = shared.has_plan(),
            Err(error) => {
                work.merge = false;
                work.merge_failed = Some(error);
            }
        }
        drop(work);
        shared.changed.notify_all();
    }
}

impl Shared {
    fn has_plan(&self) -> bool {
        let version = self.version();
        version.tables().any(|(_, contents)| plan(&sizes(&contents.runs)).is_some())
    }
}

/// Writes frozen runs out. What was frozen lies before `journal`.
fn flush(shared: &Shared, journal: u64) -> Result<(), StoreError> {
    let files = shared.files();
    let version = shared.version();
    let mut written = Fresh::default();
    for (table, contents) in version.tables().filter(|(_, contents)| !contents.frozen.is_empty()) {
        let merge = Merge::over_memory(contents.frozen.iter().rev())?;
        let run = write(files, merge, contents.runs.is_empty(), || false)?.expect("not interrupted");
        written.runs.push((table, run));
    }
    files.directory.sync()?;
    let mut manifest = lock(&files.manifest);
    let mut next = Manifest::clone(&manifest);
    for (table, run) in &written.runs {
        if let Some(run) = run {
            next.tables[usize::from(table.0)].runs.insert(0, infos(run));
        }
    }
    next.first_journal = journal;
    let written = written.named_by(next.write(&files.directory))?;
    let before = manifest.first_journal;
    *manifest = next;
    shared.change(|version| {
        for (table, run) in written {
            let contents = version.table_mut(table);
            contents.frozen.clear();
            contents.runs.splice(0..0, run);
        }
    });
    drop(manifest);
    for id in before..journal {
        files.directory.discard(&journal::file_name(id));
    }
    Ok(())
}

/// What was written for a table; no run when nothing was left.
type Written = (Table, Option<Arc<Run>>);

/// Runs that no manifest names yet. Dropped, their files go.
#[derive(Default)]
struct Fresh {
    runs: Vec<Written>,
}

impl Fresh {
    /// The runs, once a manifest that names them was written.
    fn named_by(mut self, written: Result<(), Failure>) -> Result<Vec<Written>, StoreError> {
        match written {
            Ok(()) => Ok(std::mem::take(&mut self.runs)),
            Err(Failure::Unharmed(cause)) => Err(cause),
            Err(Failure::Fatal(cause)) => {
                self.runs.clear();
                Err(cause)
            }
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let runs = self.runs.iter().filter_map(|(_, run)| run.as_deref());
        runs.flat_map(|run| &run.segments).for_each(|segment| segment.remove());
    }
}

/// Merges runs of the table that needs it most, if any does. False when there was nothing to do, or
/// the store closes.
fn merge_one(shared: &Shared) -> Result<bool, StoreError> {
    let files = shared.files();
    let version = shared.version();
    let plans = version.tables().filter_map(|(table, contents)| {
        let range = plan(&sizes(&contents.runs))?;
        Some((table, &contents.runs, range))
    });
    // Many runs make each read slow; many bytes only make the merge slow.
    let Some((table, runs, range)) = plans.max_by_key(|(_, runs, _)| runs.len()) else { return Ok(false) };
    let old = &runs[range.clone()];
    let mut fresh = Fresh::default();
    let merged = if let Some(row) = in_a_row(old) {
        Some(Arc::new(row))
    } else {
        let bottom = range.end == runs.len();
        match write(files, Merge::over_runs(old)?, bottom, || shared.is_closing())? {
            Some(run) => {
                fresh.runs.push((table, run.clone()));
                run
            }
            None => return Ok(false),
        }
    };
    files.directory.sync()?;

    let mut manifest = lock(&files.manifest);
    // Flushed runs may have come in front meanwhile; nobody else takes runs away.
    let position_in = |runs: &[Arc<Run>]| {
        runs.iter().position(|run| Arc::ptr_eq(run, &old[0])).expect("runs leave only by merges")
    };
    let start = {
        let version = shared.version();
        position_in(&version.table(table).expect("the table exists").runs)
    };
    let mut next = Manifest::clone(&manifest);
    let replacement = merged.as_deref().map(infos);
    next.tables[usize::from(table.0)].runs.splice(start..start + old.len(), replacement);
    fresh.named_by(next.write(&files.directory))?;
    *manifest = next;
    let kept: Vec<u64> = merged.iter().flat_map(|run| run.segments.iter()).map(|s| s.info.id).collect();
    shared.change(|version| {
        version.table_mut(table).runs.splice(start..start + old.len(), merged);
    });
    drop(manifest);
    for segment in old.iter().flat_map(|run| &run.segments) {
        if !kept.contains(&segment.info.id) {
            segment.remove();
        }
    }
    Ok(true)
}

fn infos(run: &Run) -> Vec<SegmentInfo> {
    run.segments.iter().map(|segment| segment.info.clone()).collect()
}

fn sizes(runs: &[Arc<Run>]) -> Vec<u64> {
    runs.iter().map(|run| run.size_bytes()).collect()
}

/// Which neighbouring runs, newest first, are to be merged: the first [`FAN`] or more of which none is
/// of a higher class than the newest of them.
fn plan(sizes: &[u64]) -> Option<std::ops::Range<usize>> {
    let class = |size: u64| {
        let mut class = 0;
        let mut limit = SMALLEST_CLASS_BYTES;
        while size > limit {
            limit = limit.saturating_mul(FAN as u64);
            class += 1;
        }
        class
    };
    (0..sizes.len()).find_map(|start| {
        let highest = class(sizes[start]);
        let count = sizes[start..].iter().take_while(|size| class(**size) <= highest).count();
        (count >= FAN).then_some(start..start + count)
    })
}

/// The runs as one without copying, if no two of them overlap and their segments are large already.
fn in_a_row(runs: &[Arc<Run>]) -> Option<Run> {
    let mut segments: Vec<Arc<Segment>> = runs.iter().flat_map(|run| run.segments.iter().cloned()).collect();
    let total: u64 = segments.iter().map(|segment| segment.info.size).sum();
    segments.sort_by(|a, b| a.info.first_key.cmp(&b.info.first_key));
    let disjoint = segments.windows(2).all(|pair| pair[0].info.last_key < pair[1].info.first_key);
    (disjoint && total >= ROW_SEGMENT_BYTES * segments.len() as u64).then_some(Run { segments })
}

/// Writes what `merge` gives as a run; inner `None` when nothing was left, outer when interrupted. With
/// `bottom` there is nothing older, so deleted keys need not be remembered.
#[expect(clippy::option_option, reason = "interrupted and empty are different outcomes")]
fn write(
    files: &Files,
    mut merge: Merge,
    bottom: bool,
    interrupted: impl Fn() -> bool,
) -> Result<Option<Option<Arc<Run>>>, StoreError> {
    let mut segments = Segments { files, list: Vec::new() };
    let mut writer: Option<SegmentWriter> = None;
    let mut patience = PATIENCE;
    while let Some((key, found)) = merge.step()? {
        let value = match &found {
            Found::Value(value) => Some(&**value),
            Found::Deleted if bottom => continue,
            Found::Deleted => None,
        };
        patience -= 1;
        if patience == 0 {
            patience = PATIENCE;
            if interrupted() {
                return Ok(None);
            }
        }
        let open = match &mut writer {
            Some(open) => open,
            None => writer.insert(SegmentWriter::create(&files.directory, files.take_id())?),
        };
        open.add(&key, value)?;
        if open.size_bytes() >= SEGMENT_BYTES {
            segments.finish(writer.take().expect("it was open"))?;
        }
    }
    if let Some(open) = writer {
        segments.finish(open)?;
    }
    let segments = std::mem::take(&mut segments.list);
    Ok(Some((!segments.is_empty()).then(|| Arc::new(Run { segments }))))
}

/// The finished segments of a run that is being written. Dropped, their files go.
struct Segments<'a> {
    files: &'a Files,
    list: Vec<Arc<Segment>>,
}

impl Segments<'_> {
    fn finish(&mut self, writer: SegmentWriter) -> Result<(), StoreError> {
        let info = writer.finish()?;
        let id = info.id;
        let open = Segment::open(&self.files.directory, info, Arc::clone(&self.files.cache));
        let open = open.inspect_err(|_| self.files.directory.discard(&segment::file_name(id)))?;
        self.list.push(Arc::new(open));
        Ok(())
    }
}

impl Drop for Segments<'_> {
    fn drop(&mut self) {
        self.list.iter().for_each(|segment| segment.remove());
    }
}

impl Files {
    fn take_id(&self) -> u64 {
        let mut manifest = lock(&self.manifest);
        manifest.next_id += 1;
        manifest.next_id - 1
    }
}
