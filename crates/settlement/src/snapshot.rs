//! Snapshots: every balance at about one moment, taken while the network runs, so that recovery
//! replays from there.
//!
//! A snapshot is fuzzy: accounts are copied page by page between steps of the updaters, and each page
//! says up to which sequence number it was current. Recovery replays from `recover_from` and skips,
//! page by page, what a page holds already. Owners' keys and aliases only grow and are copied last.

use crate::accounts::AccountTable;
use crate::replay::{PAGE, Partition, Replay};
use crate::runtime::shell::SharedState;
use crate::stage::Updater;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tally_crypto::log::Frontier;
use tally_ledger::account::Account;
use tally_ledger::wire::{DecodeError, Reader, write, write_count, write_slice};
use tally_ledger::{AccountNumber, Amount, Network, NetworkId, Timestamp};
use tally_log::Ticket;

/// A snapshot that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file system refused.
    #[error("snapshot {path}: {action} failed")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is not what was written.
    #[error("snapshot {path} is damaged; remove it to recover from the journal alone")]
    Damaged {
        /// Which file.
        path: PathBuf,
    },
    /// The content is not a snapshot's.
    #[error("snapshot {path} cannot be read")]
    Content {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: DecodeError,
    },
    /// It is of another network.
    #[error("snapshot {path} is of network {found}, not {expected}")]
    OtherNetwork {
        /// Which file.
        path: PathBuf,
        /// Its network.
        found: NetworkId,
        /// The network wanted.
        expected: NetworkId,
    },
}

/// Where a snapshot begins: taken before the first page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Every record before this one has its effects in every page.
    pub recover_from: Ticket,
    /// The sequence number that was next.
    pub next: u64,
    /// The Merkle log up to there.
    pub tree: Frontier,
    /// The latest time up to there.
    pub clock: Timestamp,
}

const MAGIC: &[u8; 8] = b"TALLYSN2";
/// The largest block of a snapshot in bytes.
const MAX_BLOCK: usize = 64 << 20;
/// Owners' keys or aliases of one block; few in tests.
const BLOCK: usize = if cfg!(test) { 3 } else { 1 << 15 };

/// Writes blocks, each with its length, and a hash of everything at the end.
pub(crate) struct Blocks<W> {
    out: W,
    hasher: blake3::Hasher,
    pub(crate) block: Vec<u8>,
}

impl<W: Write> Blocks<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, hasher: blake3::Hasher::new(), block: Vec::new() }
    }

    /// Writes the hash of all blocks.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let hash = self.hasher.finalize();
        self.out.write_all(hash.as_bytes())?;
        self.out.flush()
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        let length = u32::try_from(self.block.len()).map_err(io::Error::other)?.to_le_bytes();
        for bytes in [length.as_slice(), &self.block] {
            self.hasher.update(bytes);
            self.out.write_all(bytes)?;
        }
        self.block.clear();
        Ok(())
    }
}

/// Copies the state of all updaters into `out`, locking each for one block at a time.
///
/// # Errors
/// When `out` fails.
pub fn capture(
    network: NetworkId,
    origin: &Origin,
    updaters: &[SharedState<Updater>],
    out: impl Write,
) -> io::Result<()> {
    let mut blocks = Blocks::new(out);
    blocks.block.extend_from_slice(MAGIC);
    write(&mut blocks.block, &network);
    write(&mut blocks.block, &origin.recover_from.0);
    write(&mut blocks.block, &origin.next);
    write(&mut blocks.block, &origin.clock);
    let tree = origin.tree.to_bytes();
    write_count(&mut blocks.block, tree.len());
    blocks.block.extend_from_slice(&tree);
    write_count(&mut blocks.block, updaters.len());
    blocks.end()?;
    for updater in updaters {
        capture_partition(updater, &mut blocks)?;
    }
    blocks.finish()
}

pub(crate) fn capture_partition(
    updater: &SharedState<Updater>,
    blocks: &mut Blocks<impl Write>,
) -> io::Result<()> {
    let lock = || updater.lock().expect("no step panics and goes on");
    {
        let state = lock();
        let own: Vec<_> = state.accounts().iter().take_while(|(number, _)| number.is_institution()).collect();
        write(&mut blocks.block, &state.applied());
        write_count(&mut blocks.block, own.len());
        for (number, account) in own {
            write(&mut blocks.block, &number);
            write(&mut blocks.block, account);
        }
    }
    blocks.end()?;
    capture_pages(
        updater,
        blocks,
        PAGE,
        |state| state.accounts().customers.len(),
        |state, page, block| {
            write(block, &state.applied());
            write_count(block, page.len());
            write_slice(block, &state.accounts().customers[page]);
        },
    )?;
    capture_pages(
        updater,
        blocks,
        BLOCK,
        |state| state.accounts().owners.len(),
        |state, page, block| {
            write_count(block, page.len());
            write_slice(block, &state.accounts().owners[page]);
        },
    )?;
    capture_pages(
        updater,
        blocks,
        BLOCK,
        |state| state.aliases().len(),
        |state, page, block| {
            write_count(block, page.len());
            for (alias, number) in state.aliases().iter_from(page.start).take(page.len()) {
                write(block, &number);
                write_count(block, alias.len());
                block.extend_from_slice(alias.as_bytes());
            }
        },
    )?;
    {
        let state = lock();
        let floors = state.accounts().floors.iter().filter(|(number, _)| !number.is_institution());
        let floors: Vec<_> = floors.collect();
        write_count(&mut blocks.block, floors.len());
        for (number, floor) in floors {
            write(&mut blocks.block, number);
            write(&mut blocks.block, floor);
        }
    }
    blocks.end()
}

/// Copies what only grows, a block of at most `size` at a time, each under a lock of its own; a block that is not
/// full is the last.
fn capture_pages(
    updater: &SharedState<Updater>,
    blocks: &mut Blocks<impl Write>,
    size: usize,
    count: impl Fn(&Updater) -> usize,
    copy: impl Fn(&Updater, Range<usize>, &mut Vec<u8>),
) -> io::Result<()> {
    let mut first = 0;
    loop {
        let state = updater.lock().expect("no step panics and goes on");
        let page = first..count(&state).min(first + size);
        let last = page.len() < size;
        first = page.end;
        copy(&state, page, &mut blocks.block);
        drop(state);
        blocks.end()?;
        if last {
            return Ok(());
        }
    }
}

/// Writes a snapshot next to the older ones, of which the last is kept.
///
/// # Errors
/// When the file system refuses; older snapshots are as they were.
pub fn save(
    directory: &Path,
    network: NetworkId,
    origin: &Origin,
    updaters: &[SharedState<Updater>],
) -> Result<PathBuf, SnapshotError> {
    let path = directory.join(format!("{:020}.snapshot", origin.next));
    let temporary = path.with_extension("writing");
    let fail = |action| {
        let path = path.clone();
        move |source| SnapshotError::Io { path, action, source }
    };
    let file = File::create(&temporary).map_err(fail("creating"))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    capture(network, origin, updaters, &mut out).map_err(fail("writing"))?;
    let file = out.into_inner().map_err(|e| fail("writing")(e.into_error()))?;
    file.sync_all().map_err(fail("syncing"))?;
    std::fs::rename(&temporary, &path).map_err(fail("renaming"))?;
    File::open(directory).and_then(|d| d.sync_all()).map_err(fail("syncing the directory of"))?;
    for old in list(directory)?.into_iter().rev().skip(2) {
        std::fs::remove_file(&old).map_err(fail("removing an older one than"))?;
    }
    Ok(path)
}

/// The snapshots of a directory, oldest first.
///
/// # Errors
/// When the directory cannot be read.
pub fn list(directory: &Path) -> Result<Vec<PathBuf>, SnapshotError> {
    let fail = |source| SnapshotError::Io { path: directory.to_owned(), action: "listing", source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|extension| extension == "snapshot") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads a snapshot as the state from which a replay goes on, and where in the log it does.
///
/// # Errors
/// When the file cannot be read, is damaged, or is of another network.
pub fn load(path: &Path, network: &Arc<Network>) -> Result<(Replay, Ticket), SnapshotError> {
    let fail = |action| move |source| SnapshotError::Io { path: path.to_owned(), action, source };
    let mut file = File::open(path).map_err(fail("opening"))?;
    let length = file.metadata().map_err(fail("reading"))?.len();
    verify(&mut file, length)
        .map_err(fail("reading"))?
        .then_some(())
        .ok_or_else(|| SnapshotError::Damaged { path: path.to_owned() })?;
    file.rewind().map_err(fail("reading"))?;
    let mut source = Source::new(BufReader::with_capacity(1 << 20, file), length - 32);
    restore(&mut source, network).map_err(|error| match error {
        RestoreError::Io(source) => SnapshotError::Io { path: path.to_owned(), action: "reading", source },
        RestoreError::Content(source) => SnapshotError::Content { path: path.to_owned(), source },
        RestoreError::Network(found) => {
            SnapshotError::OtherNetwork { path: path.to_owned(), found, expected: network.id }
        }
    })
}

fn verify(file: &mut File, length: u64) -> io::Result<bool> {
    let Some(content) = length.checked_sub(32) else { return Ok(false) };
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut left = content;
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        file.read_exact(&mut buffer[..wanted])?;
        hasher.update(&buffer[..wanted]);
        left -= wanted as u64;
    }
    let mut stated = [0; 32];
    file.read_exact(&mut stated)?;
    Ok(hasher.finalize().as_bytes() == &stated)
}

#[derive(Debug)]
pub(crate) enum RestoreError {
    Io(io::Error),
    Content(DecodeError),
    Network(NetworkId),
}

impl From<io::Error> for RestoreError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl std::fmt::Display for RestoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Content(error) => error.fmt(f),
            Self::Network(found) => write!(f, "it is of network {found}"),
        }
    }
}

impl From<DecodeError> for RestoreError {
    fn from(error: DecodeError) -> Self {
        Self::Content(error)
    }
}

pub(crate) struct Source<R> {
    file: R,
    left: u64,
    block: Vec<u8>,
}

impl<R: Read> Source<R> {
    /// Blocks of `length` bytes in all.
    pub(crate) fn new(file: R, length: u64) -> Self {
        Self { file, left: length, block: Vec::new() }
    }

    pub(crate) fn block(&mut self) -> Result<Reader<'_>, RestoreError> {
        let short = || Reader::new("snapshot", &[]).error("a block ends early");
        let mut length = [0; 4];
        self.left = self.left.checked_sub(4).ok_or_else(short)?;
        self.file.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        self.left = self.left.checked_sub(u64::from(length)).ok_or_else(short)?;
        if length as usize > MAX_BLOCK {
            return Err(Reader::new("snapshot", &[]).error("a block is above its limit").into());
        }
        self.block.resize(length as usize, 0);
        self.file.read_exact(&mut self.block)?;
        Ok(Reader::new("snapshot", &self.block))
    }
}

fn restore(source: &mut Source<impl Read>, network: &Arc<Network>) -> Result<(Replay, Ticket), RestoreError> {
    let mut replay = Replay::new(Arc::clone(network));
    let mut head = source.block()?;
    if head.take(8)? != MAGIC {
        return Err(head.error("this is no snapshot of this version").into());
    }
    let id: NetworkId = head.value()?;
    if id != network.id {
        return Err(RestoreError::Network(id));
    }
    let recover_from = Ticket(head.value()?);
    replay.next = head.value()?;
    replay.clock = head.value()?;
    let length = head.count(1 << 16)?;
    let tree = Frontier::from_bytes(head.take(length)?);
    replay.tree = tree.map_err(|_| head.error("the Merkle log's frontier is broken"))?;
    let partitions = head.count(replay.partitions.len())?;
    head.end()?;
    replay.tree_from = replay.next;
    for participant in 0..partitions {
        let partition = &mut replay.partitions[participant];
        let until = restore_partition(source, partition)?;
        replay.snapshot_until = replay.snapshot_until.max(until);
        partition.accounts.agree_floors(network);
    }
    Ok((replay, recover_from))
}

pub(crate) fn restore_partition(
    source: &mut Source<impl Read>,
    partition: &mut Partition,
) -> Result<u64, RestoreError> {
    let mut block = source.block()?;
    partition.institution_from = block.value()?;
    let mut until = partition.institution_from;
    for _ in 0..block.count(1 << 24)? {
        let (number, account): (AccountNumber, Account) = (block.value()?, block.value()?);
        if let Some(own) = partition.accounts.get_mut(number) {
            *own = account;
        } else if account.balance != 0 {
            return Err(block.error("an institution's account is no longer configured").into());
        }
    }
    block.end()?;
    loop {
        let mut block = source.block()?;
        let from = block.value()?;
        let count = block.count(PAGE)?;
        let customers: &mut AccountTable = &mut partition.accounts;
        customers.customers.extend(block.values::<Account>(count)?);
        block.end()?;
        partition.pages.push(from);
        until = until.max(from);
        if count < PAGE {
            break;
        }
    }
    partition.restored = partition.accounts.customers();
    loop {
        let mut block = source.block()?;
        let count = block.count(BLOCK)?;
        let owners = block.values::<tally_crypto::PublicKey>(count)?;
        partition.accounts.owners.extend(owners);
        block.end()?;
        if count < BLOCK {
            break;
        }
    }
    loop {
        let mut block = source.block()?;
        let count = block.count(BLOCK)?;
        for _ in 0..count {
            let number = block.value()?;
            let length = block.count(tally_ledger::order::MAX_ALIAS)?;
            let alias = std::str::from_utf8(block.take(length)?);
            let alias = alias.map_err(|_| Reader::new("snapshot", &[]).error("an alias is not UTF-8"))?;
            partition.aliases.insert(alias, number);
        }
        block.end()?;
        if count < BLOCK {
            break;
        }
    }
    let mut block = source.block()?;
    for _ in 0..block.count(1 << 28)? {
        let (number, floor): (AccountNumber, Amount) = (block.value()?, block.value()?);
        partition.accounts.set_floor(number, floor);
    }
    block.end()?;
    Ok(until)
}

#[cfg(test)]
mod tests;
