//! What a replica must not lose: the decided batches, and what it signed.

mod batches;
mod record;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use batches::Batches;
use record::Record;

/// Keeps what a replica's effects carry. The host calls it; the replica does not.
pub trait Storage {
    /// Keeps a record in place of the one before; it is durable once this returns.
    ///
    /// # Errors
    /// [`StorageError`]: whether it is durable is not known, and the replica must not go on.
    fn persist(&mut self, record: &[u8]) -> Result<(), StorageError>;

    /// Appends the batch after the last one; it is durable once this returns.
    ///
    /// # Errors
    /// [`StorageError::Gap`] for another height; else as [`Self::persist`].
    fn append(&mut self, height: u64, batch: &[u8]) -> Result<(), StorageError>;

    /// The last record that was kept.
    ///
    /// # Errors
    /// [`StorageError`]: it cannot be read.
    fn record(&self) -> Result<Option<Vec<u8>>, StorageError>;

    /// The height of the last batch; zero when there is none.
    fn height(&self) -> u64;

    /// Batches from a height on, as many as fit into `bytes` but one at least; none if there is
    /// none.
    ///
    /// # Errors
    /// [`StorageError`]: one cannot be read.
    fn batches(&self, from: u64, bytes: usize) -> Result<Vec<Vec<u8>>, StorageError>;
}

/// Why a storage does not do what it is asked.
#[derive(Debug, Error)]
pub enum StorageError {
    /// The file system.
    #[error("{path}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What it says.
        #[source]
        source: io::Error,
    },
    /// Another process has it.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// Bytes are not those that were written. The batches can be had from other members, by a
    /// member with an empty storage and a **new** voting key; what this one signed cannot.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A batch is not the one after the last.
    #[error("batch {found} was to be appended where {expected} follows")]
    Gap {
        /// The height that follows.
        expected: u64,
        /// The height that was given.
        found: u64,
    },
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> StorageError + '_ {
    move |source| StorageError::Io { path: path.to_owned(), source }
}

/// A storage in a directory of its own: `batches`, to which batches are appended, and two files for
/// the record, which are written in turn, so that the last one is whole while the next is written.
/// Every entry has a checksum.
///
/// An entry that was not completely written when the process ended is dropped: nothing was sent yet
/// that rests on it. Any other damage is an error.
#[derive(Debug)]
pub struct FileStorage {
    batches: Batches,
    record: Record,
    /// Held as long as this lives.
    _lock: File,
}

impl FileStorage {
    /// Opens the storage in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// [`StorageError::InUse`], [`StorageError::Damaged`], or the file system's.
    pub fn open(directory: &Path) -> Result<Self, StorageError> {
        fs::create_dir_all(directory).map_err(io_at(directory))?;
        let path = directory.join("lock");
        let lock = File::create(&path).map_err(io_at(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StorageError::InUse(directory.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io_at(&path)(source)),
        }
        let storage =
            Self { batches: Batches::open(directory)?, record: Record::open(directory)?, _lock: lock };
        // The names of new files are durable too.
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(io_at(directory))?;
        Ok(storage)
    }
}

impl Storage for FileStorage {
    fn persist(&mut self, record: &[u8]) -> Result<(), StorageError> {
        self.record.write(record)
    }

    fn append(&mut self, height: u64, batch: &[u8]) -> Result<(), StorageError> {
        self.batches.append(height, batch)
    }

    fn record(&self) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.record.last().map(<[u8]>::to_vec))
    }

    fn height(&self) -> u64 {
        self.batches.height()
    }

    fn batches(&self, from: u64, bytes: usize) -> Result<Vec<Vec<u8>>, StorageError> {
        self.batches.read(from, bytes)
    }
}

#[cfg(test)]
mod tests;
