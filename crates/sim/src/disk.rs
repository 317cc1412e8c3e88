//! A disk that forgets what was not synced.

mod faults;
mod file;
mod inode;
#[cfg(test)]
mod tests;

pub use file::SimFile;

use crate::Rng;
use faults::Faults;
use inode::{Change, Inode};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a device writes whole or not at all, in bytes. A larger write can be torn between sectors.
pub const SECTOR_BYTES: usize = 512;

/// One directory of files in memory with the promises of a disk and no more: what [`SimFile::sync_data`],
/// [`SimFile::sync_all`] and [`SimDisk::sync_dir`] returned `Ok` for survives [`SimDisk::crash`]; any part of
/// the rest may.
///
/// Clones are handles to the same disk. Before a crash, reads see every write.
///
/// ```
/// use tally_sim::{Rng, SimDisk};
/// let disk = SimDisk::new(1);
/// let file = disk.create("a")?;
/// file.write_at(b"synced", 0)?;
/// file.sync_all()?;
/// disk.sync_dir()?;
/// disk.crash(&mut Rng::new(2));
/// let mut bytes = [0; 6];
/// disk.open("a")?.read_at(&mut bytes, 0)?;
/// assert_eq!(&bytes, b"synced");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// Exclusive use of a name, until dropped or until the disk crashes.
#[derive(Debug)]
pub struct SimLock {
    disk: SimDisk,
    name: String,
    generation: u64,
}

/// Everything on a disk at one moment, synced or not, with its faults to come.
#[derive(Clone, Debug)]
pub struct Snapshot {
    state: State,
}

/// How often the disk was asked for what, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Writes, successful or not.
    pub writes: u64,
    /// Syncs of file contents, successful or not.
    pub syncs: u64,
    /// Syncs of the directory, successful or not.
    pub dir_syncs: u64,
    /// Every operation that changes or syncs something.
    pub operations: u64,
}

#[derive(Clone, Debug)]
struct State {
    rng: Rng,
    generation: u64,
    next_inode: u64,
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    synced_names: BTreeMap<String, u64>,
    unsynced_names: Vec<NameChange>,
    locks: BTreeSet<String>,
    /// How many open files each inode has, of this generation.
    open: BTreeMap<u64, u64>,
    faults: Faults,
    counts: DiskCounts,
}

#[derive(Clone, Debug)]
enum NameChange {
    Add { name: String, inode: u64 },
    Remove { name: String },
    Rename { from: String, to: String, inode: u64 },
}

impl NameChange {
    /// What gets a name by it.
    fn inode(&self) -> Option<u64> {
        match self {
            Self::Add { inode, .. } | Self::Rename { inode, .. } => Some(*inode),
            Self::Remove { .. } => None,
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Add { name, inode } => {
                names.insert(name.clone(), *inode);
            }
            Self::Remove { name } => {
                names.remove(name);
            }
            Self::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}

impl SimDisk {
    /// An empty disk. The seed decides what short writes and failing syncs leave out.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            rng: Rng::new(seed),
            generation: 0,
            next_inode: 0,
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            locks: BTreeSet::new(),
            open: BTreeMap::new(),
            faults: Faults::default(),
            counts: DiskCounts::default(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a thread panicked inside the simulated disk")
    }

    /// Creates the empty file `name`, which must not exist. The name is lost in a crash before
    /// [`sync_dir`](Self::sync_dir).
    ///
    /// # Errors
    /// `AlreadyExists`, or an injected fault.
    pub fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut state = self.state();
        state.begin()?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.faults.take_space(0, 0)?;
        let inode = state.next_inode;
        state.next_inode += 1;
        state.inodes.insert(inode, Inode::default());
        state.change_names(NameChange::Add { name: name.to_owned(), inode });
        Ok(state.opened(self, inode))
    }

    /// Opens the file `name`.
    ///
    /// # Errors
    /// `NotFound`, or an injected fault.
    pub fn open(&self, name: &str) -> io::Result<SimFile> {
        let mut state = self.state();
        state.faults.check_power()?;
        let inode = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(state.opened(self, inode))
    }

    /// The names of all files, sorted.
    ///
    /// # Errors
    /// An injected fault.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.faults.check_power()?;
        Ok(state.names.keys().cloned().collect())
    }

    /// Removes the name of a file; it may be back after a crash before [`sync_dir`](Self::sync_dir).
    ///
    /// # Errors
    /// `NotFound`, or an injected fault.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.begin()?;
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change_names(NameChange::Remove { name: name.to_owned() });
        Ok(())
    }

    /// Renames a file, replacing one that has the new name; undone by a crash before
    /// [`sync_dir`](Self::sync_dir), or not.
    ///
    /// # Errors
    /// `NotFound`, or an injected fault.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.begin()?;
        let inode = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.change_names(NameChange::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    /// Makes all names durable.
    ///
    /// # Errors
    /// An injected fault.
    pub fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        state.counts.dir_syncs += 1;
        state.begin()?;
        state.faults.check_sync()?;
        state.synced_names = state.names.clone();
        state.unsynced_names.clear();
        state.forget_unnamed();
        Ok(())
    }

    /// Takes `name` for exclusive use; `None` if it is taken.
    ///
    /// # Errors
    /// An injected fault.
    pub fn try_lock(&self, name: &str) -> io::Result<Option<SimLock>> {
        let mut state = self.state();
        state.faults.check_power()?;
        if !state.locks.insert(name.to_owned()) {
            return Ok(None);
        }
        Ok(Some(SimLock { disk: self.clone(), name: name.to_owned(), generation: state.generation }))
    }

    /// Loses power and comes back: of everything not synced, each write is kept, dropped or torn at sectors, each
    /// change of length or of a name is kept or dropped, independently of the others. Open files and
    /// locks of before are gone and injected faults end.
    pub fn crash(&self, rng: &mut Rng) {
        let mut state = self.state();
        state.end_run();
        for inode in state.inodes.values_mut() {
            inode.crash(rng);
        }
        let mut names = std::mem::take(&mut state.synced_names);
        for change in std::mem::take(&mut state.unsynced_names) {
            if rng.chance(1, 2) {
                change.apply(&mut names);
            }
        }
        state.names.clone_from(&names);
        state.synced_names = names;
        state.forget_unnamed();
    }

    /// Kills the process and leaves the machine running: open files, locks and injected faults are gone, every
    /// write is kept, though no more durable than it was.
    pub fn kill(&self) {
        let mut state = self.state();
        state.end_run();
        state.forget_unnamed();
    }

    /// Everything on the disk, to [`restore`](Self::restore) later.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { state: self.state().clone() }
    }

    /// Puts back what was on the disk at the time of `snapshot`. Open files and locks are gone.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut state = self.state();
        let generation = state.generation + 1;
        *state = snapshot.state.clone();
        state.generation = generation;
        state.locks.clear();
        state.open.clear();
    }

    /// The content of `name`, as a read would see it; none if there is no such file.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).and_then(|inode| state.inodes.get(inode)).map(|inode| inode.current().to_vec())
    }

    /// Replaces the whole content of `name`, creating it if need be, and makes it durable: what a careless
    /// operator or a failing device might do.
    pub fn overwrite(&self, name: &str, content: Vec<u8>) {
        let mut state = self.state();
        let inode = state.names.get(name).copied().unwrap_or_else(|| {
            let inode = state.next_inode;
            state.next_inode += 1;
            state.names.insert(name.to_owned(), inode);
            inode
        });
        state.synced_names.insert(name.to_owned(), inode);
        state.inodes.insert(inode, Inode::durable(content));
    }

    /// Flips one bit of `name`, counted from the first byte's lowest, on the medium and in the cache.
    /// False if the file is shorter or not there.
    pub fn flip_bit(&self, name: &str, bit: u64) -> bool {
        let mut state = self.state();
        let Some(inode) = state.names.get(name).copied() else { return false };
        state.inodes.get_mut(&inode).is_some_and(|inode| inode.flip_bit(bit))
    }

    /// How often the disk was asked for what.
    #[must_use]
    pub fn counts(&self) -> DiskCounts {
        self.state().counts
    }

    /// Faults to come: the next `operations` writes, allocations and creations fail with `StorageFull`.
    pub fn fail_space(&self, operations: u64) {
        self.state().faults.space_failures = operations;
    }

    /// Faults to come: all files together can have at most `bytes` (none: no limit).
    pub fn limit_space(&self, bytes: Option<u64>) {
        self.state().faults.capacity_bytes = bytes;
    }

    /// Faults to come: after `successes` more syncs, one fails with an I/O error, and what it should have made
    /// durable is no longer known to need it: later syncs succeed without it, and a crash may lose it.
    pub fn fail_sync(&self, successes: u64) {
        self.state().faults.sync_failure_after = Some(successes);
    }

    /// Faults to come: writes of more than one byte stop early, at random.
    pub fn short_writes(&self, on: bool) {
        self.state().faults.short_writes = on;
    }

    /// Faults to come: after `operations` more changes or syncs the power is gone: every operation fails
    /// until [`crash`](Self::crash).
    pub fn power_off_after(&self, operations: u64) {
        self.state().faults.operations_left = Some(operations);
    }
}

impl State {
    fn begin(&mut self) -> io::Result<()> {
        self.counts.operations += 1;
        self.faults.begin_operation()
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced_names.push(change);
    }

    fn used_bytes(&self) -> u64 {
        self.inodes.values().map(|inode| inode.current().len() as u64).sum()
    }

    /// Another open file of an inode.
    fn opened(&mut self, disk: &SimDisk, inode: u64) -> SimFile {
        *self.open.entry(inode).or_default() += 1;
        SimFile { disk: disk.clone(), inode, generation: self.generation }
    }

    /// One open file less of an inode, whose content goes with the last if it has no name.
    fn closed(&mut self, inode: u64) {
        let left = self.open.get_mut(&inode).expect("it was open");
        *left -= 1;
        if *left == 0 {
            self.open.remove(&inode);
            self.forget_unnamed();
        }
    }

    /// The process that used the disk is gone, and with it its open files, its locks and the faults.
    fn end_run(&mut self) {
        self.generation += 1;
        self.locks.clear();
        self.open.clear();
        self.faults.end_with_run();
    }

    /// Drops what no open file and no name, present or coming back in a crash, can reach.
    fn forget_unnamed(&mut self) {
        let mut reached: BTreeSet<u64> =
            self.names.values().chain(self.synced_names.values()).copied().collect();
        // A name that was removed may come back, and one that was added be lost, until names are synced.
        reached.extend(self.unsynced_names.iter().filter_map(NameChange::inode));
        reached.extend(self.open.keys());
        self.inodes.retain(|inode, _| reached.contains(inode));
    }
}

impl State {
    fn change(&mut self, inode: u64, change: Change) {
        self.inodes.get_mut(&inode).expect("an open file exists").change(change);
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.generation == self.generation {
            state.locks.remove(&self.name);
        }
    }
}
