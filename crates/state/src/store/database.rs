//! Opening the store, committing, and looking at it.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use super::background::Background;
use super::batch;
use super::cache::BlockCache;
use super::directory::{Directory, Lock};
use super::error::Failure;
use super::journal::{self, Journal};
use super::manifest::{self, Manifest, TableManifest};
use super::memory::MemoryRun;
use super::segment::{self, Segment};
use super::version::{Run, Version};
use super::{Batch, Snapshot, StoreError, Table};

const LOCK_FILE: &str = "lock";

/// How much memory a store may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// For blocks of the files that were read lately.
    pub cache_bytes: usize,
    /// For batches that are not in sorted files yet. At most twice as much is held: once this is full
    /// it is written out while the next fills.
    pub write_buffer_bytes: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { cache_bytes: 32 << 20, write_buffer_bytes: 16 << 20 }
    }
}

/// Whether a commit waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The batch, and all before it, outlast a loss of power.
    Synced,
    /// The batch outlasts the end of this process; a loss of power can take it, and all after it.
    Buffered,
}

/// The store: named tables of sorted keys, changed by atomic batches. Cheap to clone, shared between
/// threads; the files are closed with the last clone.
#[derive(Clone, Debug)]
pub struct Database {
    shared: Arc<Shared>,
    /// Only files have work in the background.
    _background: Option<Arc<Background>>,
}

/// What the handles and the threads in the background have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) files: Option<Files>,
    version: RwLock<Arc<Version>>,
    names: RwLock<Vec<String>>,
    writer: Mutex<Writer>,
    pub(super) work: Mutex<Work>,
    pub(super) changed: Condvar,
}

#[derive(Debug)]
pub(super) struct Files {
    pub(super) directory: Directory,
    pub(super) cache: Arc<BlockCache>,
    /// Held while segments are installed, by whoever does so.
    pub(super) manifest: Mutex<Manifest>,
    write_buffer_bytes: usize,
    _lock: Lock,
}

#[derive(Debug, Default)]
struct Writer {
    journal: Option<Journal>,
    memory_bytes: usize,
    stopped: Option<StoreError>,
}

/// What is to be done in the background.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) closing: bool,
    /// Frozen runs wait to be written out; what came after them is in this journal.
    pub(super) flush: Option<u64>,
    /// Tables may have runs to merge.
    pub(super) merge: bool,
    /// Why the last flush failed. The next is tried once somebody took this.
    pub(super) failed: Option<StoreError>,
    /// Why the last merge failed. The next is tried after the next flush.
    pub(super) merge_failed: Option<StoreError>,
}

/// A lock whose holder cannot leave it half changed: the value is replaced as a whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Database {
    /// A store in memory, for tests and tools; it ends with its last handle.
    pub fn in_memory() -> Self {
        let shared = Shared {
            files: None,
            version: RwLock::default(),
            names: RwLock::default(),
            writer: Mutex::default(),
            work: Mutex::default(),
            changed: Condvar::new(),
        };
        Self { shared: Arc::new(shared), _background: None }
    }

    /// Opens the store in `directory`, which is made if need be, as the last commit left it.
    ///
    /// # Errors
    /// [`StoreError::Locked`] while another process has it, [`StoreError::NewerFormat`],
    /// [`StoreError::Corrupt`], or what the file system said.
    pub fn open(directory: impl AsRef<Path>, options: StoreOptions) -> Result<Self, StoreError> {
        Self::open_in(Directory::open(directory.as_ref())?, options)
    }

    /// As [`Database::open`], in a directory that may be a test's.
    pub(super) fn open_in(directory: Directory, options: StoreOptions) -> Result<Self, StoreError> {
        let lock = directory.lock(LOCK_FILE)?;
        let cache = Arc::new(BlockCache::new(options.cache_bytes));
        let mut manifest = match Manifest::read(&directory)? {
            Some(manifest) => manifest,
            None => found(&directory)?,
        };
        let mut version = open_segments(&directory, &manifest, &cache)?;
        let Contents { journals, stale } = contents(&directory, &manifest)?;
        let mut writer = Writer::default();
        let last = *journals.last().expect("checked to begin with the manifest's first");
        let mut end = 0;
        for id in journals {
            let good = journal::records(&directory, id, manifest.salt, id == last, |bytes| {
                if !batch::is_sound(bytes, manifest.tables.len()) {
                    let path = directory.path_of(&journal::file_name(id));
                    return Err(StoreError::corrupt(&path, 0, "a batch names a table that there is not"));
                }
                writer.memory_bytes += bytes.len();
                for (table, run) in MemoryRun::from_batch(bytes.to_vec()) {
                    version.table_mut(table).push(run, true);
                }
                Ok(())
            })?;
            end = good;
        }
        writer.journal = Some(Journal::resume(&directory, last, manifest.salt, end)?);
        // What a crash left behind goes once everything else is known to be sound.
        stale.iter().try_for_each(|name| directory.remove(name))?;
        manifest.next_id = manifest.next_id.max(last + 1);
        let shared = Arc::new(Shared {
            names: RwLock::new(manifest.tables.iter().map(|table| table.name.clone()).collect()),
            files: Some(Files {
                directory,
                cache,
                manifest: Mutex::new(manifest),
                write_buffer_bytes: options.write_buffer_bytes,
                _lock: lock,
            }),
            version: RwLock::new(Arc::new(version)),
            writer: Mutex::new(writer),
            work: Mutex::new(Work { merge: true, ..Work::default() }),
            changed: Condvar::new(),
        });
        let background = Background::start(&shared)?;
        Ok(Self { shared, _background: Some(Arc::new(background)) })
    }

    /// The table of this name, which is made if need be.
    pub fn table(&self, name: &str) -> Result<Table, StoreError> {
        let known = |names: &[String]| names.iter().position(|known| known == name);
        if let Some(number) = known(&self.shared.names.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(Table(number as u16));
        }
        let mut names = self.shared.names.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known(&names) {
            return Ok(Table(number as u16));
        }
        if names.len() == usize::from(u16::MAX) {
            let (length, limit) = (names.len() + 1, names.len());
            return Err(StoreError::TooLong { what: "list of tables", table: name.into(), length, limit });
        }
        if let Some(files) = &self.shared.files {
            let mut manifest = lock(&files.manifest);
            let mut grown = manifest.clone();
            grown.tables.push(TableManifest { name: name.to_owned(), runs: Vec::new() });
            grown.write(&files.directory).map_err(Failure::into_cause)?;
            *manifest = grown;
        }
        names.push(name.to_owned());
        Ok(Table((names.len() - 1) as u16))
    }

    /// Applies a batch: all of it becomes visible at once, and none of it if this fails.
    ///
    /// # Errors
    /// [`StoreError::TooLong`] for what the batch could not take, [`StoreError::DiskFull`] (try again
    /// once there is room), [`StoreError::Stopped`] and what the file system said.
    pub fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        if batch.is_empty() {
            batch.into_bytes()?;
            return if durability == Durability::Synced { self.sync() } else { Ok(()) };
        }
        let bytes = batch.into_bytes()?;
        let mut writer = lock(&self.shared.writer);
        self.shared.make_room(&mut writer)?;
        if let Some(journal) = &mut writer.journal {
            match journal.append(&bytes) {
                Ok(()) => {}
                Err(Failure::Unharmed(error)) => return Err(error),
                Err(Failure::Fatal(error)) => return Err(writer.stop(error)),
            }
            if durability == Durability::Synced
                && let Err(error) = journal.sync()
            {
                return Err(writer.stop(error));
            }
        }
        writer.memory_bytes += bytes.len();
        self.shared.apply(bytes);
        Ok(())
    }

    /// Makes all commits so far durable.
    pub fn sync(&self) -> Result<(), StoreError> {
        let mut writer = lock(&self.shared.writer);
        writer.check()?;
        let Some(journal) = &mut writer.journal else { return Ok(()) };
        match journal.sync() {
            Ok(()) => Ok(()),
            Err(error) => Err(writer.stop(error)),
        }
    }

    /// The store as it is now, for as long as the snapshot lives.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.shared.version())
    }

    /// Writes what is in memory to sorted files and merges those, as far as there is need. Returns when
    /// that is done.
    pub fn settle(&self) -> Result<(), StoreError> {
        if self.shared.files.is_none() {
            return Ok(());
        }
        self.shared.freeze(&mut lock(&self.shared.writer))?;
        self.shared.wait(|work| work.flush.is_some() || work.merge)?;
        lock(&self.shared.work).merge_failed.take().map_or(Ok(()), Err)
    }

    /// About how many bytes a table takes, on disk and in memory.
    pub fn size_bytes(&self, table: Table) -> u64 {
        let version = self.shared.version();
        let Some(table) = version.table(table) else { return 0 };
        let memory: usize = table.memory_runs().map(|run| run.size_bytes()).sum();
        let disk: u64 = table.runs.iter().map(|run| run.size_bytes()).sum();
        memory as u64 + disk
    }

    /// How many sorted files count.
    #[cfg(test)]
    pub(super) fn segments(&self) -> usize {
        let version = self.shared.version();
        version.tables().flat_map(|(_, table)| &table.runs).map(|run| run.segments.len()).sum()
    }

    /// Bytes of memory that the store holds: the cache, and what is not written out yet.
    pub fn memory_bytes(&self) -> u64 {
        let version = self.shared.version();
        let runs = version.tables().flat_map(|(_, table)| table.memory_runs());
        let memory: usize = runs.map(|run| run.size_bytes()).sum();
        memory as u64 + self.shared.files.as_ref().map_or(0, |files| files.cache.size_bytes())
    }
}

impl Writer {
    fn check(&self) -> Result<(), StoreError> {
        match &self.stopped {
            Some(cause) => Err(StoreError::Stopped { cause: Box::new(cause.clone()) }),
            None => Ok(()),
        }
    }

    fn stop(&mut self, cause: StoreError) -> StoreError {
        self.stopped = Some(cause.clone());
        cause
    }
}

impl Shared {
    pub(super) fn version(&self) -> Arc<Version> {
        Arc::clone(self.version.read().unwrap_or_else(PoisonError::into_inner).deref())
    }

    /// Replaces the version by a changed copy.
    pub(super) fn change(&self, change: impl FnOnce(&mut Version)) {
        let mut current = self.version.write().unwrap_or_else(PoisonError::into_inner);
        let mut version = Version::clone(&current);
        change(&mut version);
        *current = Arc::new(version);
    }

    /// Adds a batch to memory. The caller holds the writer.
    fn apply(&self, bytes: Vec<u8>) {
        // Only writers change what is in `memory`, so the merging needs no lock for readers to wait on.
        let mut next = Version::clone(&self.version());
        let mut touched = Vec::new();
        for (table, run) in MemoryRun::from_batch(bytes) {
            next.table_mut(table).push(run, self.files.is_some());
            touched.push(table);
        }
        self.change(|version| {
            for table in touched {
                version.table_mut(table).memory = std::mem::take(&mut next.table_mut(table).memory);
            }
        });
    }

    /// Before a commit: hands a full buffer on, and waits while both buffers are full.
    fn make_room(&self, writer: &mut Writer) -> Result<(), StoreError> {
        writer.check()?;
        let Some(files) = &self.files else { return Ok(()) };
        if writer.memory_bytes < files.write_buffer_bytes {
            return Ok(());
        }
        self.freeze(writer)
    }

    /// Hands what is in memory to the background and starts a new journal.
    fn freeze(&self, writer: &mut Writer) -> Result<(), StoreError> {
        let Some(files) = &self.files else { return Ok(()) };
        self.wait(|work| work.flush.is_some())?;
        if writer.memory_bytes == 0 {
            return Ok(());
        }
        let (id, salt) = {
            let mut manifest = lock(&files.manifest);
            manifest.next_id += 1;
            (manifest.next_id - 1, manifest.salt)
        };
        // What the new journal takes must not be durable before what the old one has.
        if let Some(journal) = &mut writer.journal
            && let Err(error) = journal.sync()
        {
            return Err(writer.stop(error));
        }
        writer.journal = Some(Journal::create(&files.directory, id, salt)?);
        writer.memory_bytes = 0;
        self.change(|version| {
            let tables: Vec<Table> = version
                .tables()
                .filter(|(_, contents)| !contents.memory.is_empty())
                .map(|(table, _)| table)
                .collect();
            for table in tables {
                let contents = version.table_mut(table);
                contents.frozen = std::mem::take(&mut contents.memory);
            }
        });
        lock(&self.work).flush = Some(id);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until `busy` is false, or an attempt failed: then its error is returned, and the next
    /// attempt starts.
    fn wait(&self, busy: impl Fn(&Work) -> bool) -> Result<(), StoreError> {
        let mut work = lock(&self.work);
        while busy(&work) {
            if let Some(error) = work.failed.take() {
                self.changed.notify_all();
                return Err(error);
            }
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

/// Writes the manifest and the first journal of a new store.
fn found(directory: &Directory) -> Result<Manifest, StoreError> {
    // Seeded by the system; it only has to be unknown to whoever writes transactions.
    let salt = RandomState::new().build_hasher().finish();
    let manifest = Manifest { salt, first_journal: 1, next_id: 2, tables: Vec::new() };
    // The first journal is there, and empty, before there is a manifest. Anything else had one.
    let first = journal::file_name(manifest.first_journal);
    for (name, _, _) in numbered(directory)? {
        if name != first || directory.open_file(&name, false)?.length()? > 0 {
            let path = directory.path_of(manifest::FILE_NAME);
            return Err(StoreError::corrupt(&path, 0, format!("it is missing, but there is {name}")));
        }
    }
    Journal::create(directory, manifest.first_journal, salt)?;
    manifest.write(directory).map_err(Failure::into_cause)?;
    Ok(manifest)
}

fn open_segments(
    directory: &Directory,
    manifest: &Manifest,
    cache: &Arc<BlockCache>,
) -> Result<Version, StoreError> {
    let mut version = Version::default();
    for (number, table) in manifest.tables.iter().enumerate() {
        let contents = version.table_mut(Table(number as u16));
        for run in &table.runs {
            let open = |info: &segment::SegmentInfo| {
                Segment::open(directory, info.clone(), Arc::clone(cache)).map(Arc::new)
            };
            let segments = run.iter().map(open).collect::<Result<_, _>>()?;
            contents.runs.push(Arc::new(Run { segments }));
        }
    }
    Ok(version)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Segment,
    Journal,
}

/// The segments and journals of a directory, with their numbers.
fn numbered(directory: &Directory) -> Result<Vec<(String, u64, Kind)>, StoreError> {
    let known = |name: String| {
        let (stem, extension) = name.split_once('.')?;
        let id = stem.parse().ok()?;
        match extension {
            "segment" => Some((name, id, Kind::Segment)),
            "journal" => Some((name, id, Kind::Journal)),
            _ => None,
        }
    };
    Ok(directory.list()?.into_iter().filter_map(known).collect())
}

/// What there is beside the manifest and the segments that it names.
struct Contents {
    /// The journals that count, in order.
    journals: Vec<u64>,
    /// Files that nothing names.
    stale: Vec<String>,
}

fn contents(directory: &Directory, manifest: &Manifest) -> Result<Contents, StoreError> {
    let known: BTreeSet<u64> = manifest
        .tables
        .iter()
        .flat_map(|table| table.runs.iter().flatten().map(|segment| segment.id))
        .collect();
    let mut journals = BTreeSet::new();
    let mut stale = Vec::new();
    for (name, id, kind) in numbered(directory)? {
        match kind {
            Kind::Segment if known.contains(&id) => {}
            Kind::Journal if id >= manifest.first_journal => {
                journals.insert(id);
            }
            Kind::Segment | Kind::Journal => stale.push(name),
        }
    }
    if journals.first() != Some(&manifest.first_journal) {
        let path = directory.path_of(&journal::file_name(manifest.first_journal));
        return Err(StoreError::corrupt(&path, 0, "the journal is missing"));
    }
    // A journal that could not be made may have left its name: the one before it went on, and its end may be torn.
    while let Some(last) = journals.last().copied().filter(|last| *last != manifest.first_journal) {
        let name = journal::file_name(last);
        if directory.open_file(&name, false)?.length()? > 0 {
            break;
        }
        journals.remove(&last);
        stale.push(name);
    }
    Ok(Contents { journals: journals.into_iter().collect(), stale })
}
