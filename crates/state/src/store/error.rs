//! Why the store refused or failed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What went wrong in the store, and in which file.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the store open.
    #[error("{} is open in another process: stop it, or use another data directory", path.display())]
    Locked {
        /// The store's directory.
        path: PathBuf,
    },
    /// The store was written by a later version of this program.
    #[error("{} has format version {found}, this program reads up to {supported}: use a newer program", path.display())]
    NewerFormat {
        /// The file that says so.
        path: PathBuf,
        /// The version it has.
        found: u32,
        /// The newest version that this program reads.
        supported: u32,
    },
    /// A file holds what was never written there.
    #[error("{} is damaged at byte {offset}: {what}; restore it from a copy, or sync again into an empty directory", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The file system, a quota or a limit of the process leaves no room. Nothing of the batch was kept; it may be tried
    /// again.
    #[error("no room for {}: the disk is full, or a limit is reached; free some space and try again", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: Arc<io::Error>,
    },
    /// A key or value is longer than the store takes.
    #[error("a {what} of {length} bytes for table {table} exceeds the limit of {limit}")]
    TooLong {
        /// `key`, `value` or `batch`.
        what: &'static str,
        /// The table it was meant for.
        table: String,
        /// Its length.
        length: usize,
        /// The most that is taken.
        limit: usize,
    },
    /// An earlier write failed in a way that leaves unknown what is on the disk, so nothing more is
    /// written. Reads go on. Opening the store again finds the last durable batch.
    #[error("the store stopped taking writes: restart to recover it")]
    Stopped {
        /// What failed.
        #[source]
        cause: Box<StoreError>,
    },
}

impl StoreError {
    /// For `map_err` on an operation on a file.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::DiskFull { path: path.to_owned() }
            }
            _ => Self::Io { action, path: path.to_owned(), source: Arc::new(source) },
        }
    }

    /// What is wrong with the file of this name.
    pub(super) fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), offset, what: what.into() }
    }
}

/// How a change of a file failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was changed.
    Unharmed(StoreError),
    /// Nobody knows what the file has.
    Fatal(StoreError),
}

impl Failure {
    /// Why, whatever became of the file.
    pub(super) fn into_cause(self) -> StoreError {
        match self {
            Self::Unharmed(cause) | Self::Fatal(cause) => cause,
        }
    }
}
