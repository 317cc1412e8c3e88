//! Small files: read with a limit, replaced as a whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a file of certificates, keys or the network map was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as a verb with the file as its object.
        action: &'static str,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
    /// No file of its kind is that large.
    #[error("{} is larger than the {limit} bytes such a file may have", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Limit in bytes.
        limit: usize,
    },
    /// A directory, pipe or device.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Others than the owner may read or change a private file.
    #[error("{} has mode {mode:04o}, open to others than its owner; run chmod 600 on it", path.display())]
    PermissionsTooOpen {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A new file would take the place of an old one.
    #[error("{} exists already; choose another directory, or remove it on purpose", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The operating system gave no randomness for a file name.
    #[error("the operating system's random source failed")]
    Randomness(#[source] getrandom::Error),
}

impl FileError {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.into(), action, source }
    }

    /// Whether the reason is that there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Whether a file is for its owner alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Mode 0644.
    Public,
    /// Mode 0600, and refused on reading when it is more open.
    Private,
}

impl Access {
    const fn mode(self) -> u32 {
        match self {
            Self::Public => 0o644,
            Self::Private => 0o600,
        }
    }
}

/// Reads at most `limit` bytes of a regular file.
pub(crate) fn read(path: &Path, limit: usize, access: Access) -> Result<Vec<u8>, FileError> {
    let file = OpenOptions::new()
        .read(true)
        // Opening a pipe by mistake must not wait for its writer.
        .custom_flags(O_NONBLOCK)
        .open(path)
        .map_err(FileError::io(path, "open"))?;
    let metadata = file.metadata().map_err(FileError::io(path, "inspect"))?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile { path: path.into() });
    }
    let mode = metadata.mode() & 0o7777;
    if access == Access::Private && mode & 0o077 != 0 {
        return Err(FileError::PermissionsTooOpen { path: path.into(), mode });
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).map_err(FileError::io(path, "read"))?;
    if bytes.len() > limit {
        return Err(FileError::TooLarge { path: path.into(), limit });
    }
    Ok(bytes)
}

/// Gives `path` the contents `bytes`. At every moment, also across a power cut, the name leads to
/// the whole old or the whole new file.
pub(crate) fn replace(path: &Path, bytes: &[u8], access: Access) -> Result<(), FileError> {
    store(path, bytes, access, |temporary| std::fs::rename(temporary, path))
}

/// As [`replace`], but an existing file is an error.
pub(crate) fn create(path: &Path, bytes: &[u8], access: Access) -> Result<(), FileError> {
    store(path, bytes, access, |temporary| {
        // Unlike a rename, a link fails when the name is taken.
        std::fs::hard_link(temporary, path)?;
        std::fs::remove_file(temporary)
    })
}

fn store(
    path: &Path,
    bytes: &[u8],
    access: Access,
    publish: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), FileError> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let Some(name) = path.file_name() else {
        return Err(FileError::NotAFile { path: path.into() });
    };
    let unique = getrandom::u64().map_err(FileError::Randomness)?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{unique:016x}.tmp"));
    let temporary = directory.join(temporary);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(access.mode())
            .open(&temporary)
            .map_err(FileError::io(path, "create a temporary file beside"))?;
        // The process's umask may have taken bits from the owner.
        file.set_permissions(PermissionsExt::from_mode(access.mode()))
            .map_err(FileError::io(path, "set the mode of"))?;
        file.write_all(bytes).map_err(FileError::io(path, "write"))?;
        file.sync_all().map_err(FileError::io(path, "flush"))?;
        publish(&temporary).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists { path: path.into() },
            _ => FileError::Io { path: path.into(), action: "give its name to", source },
        })
    })();
    if let Err(error) = written {
        // The first failure is the one to report.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(FileError::io(path, "flush the directory of"))
}

/// Gives a file another name in its directory, in place of what bears that; durably.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    std::fs::rename(from, to).map_err(FileError::io(from, "rename"))?;
    let directory = match to.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(FileError::io(to, "flush the directory of"))
}

/// The names in a directory that are text.
pub(crate) fn names(directory: &Path) -> Result<Vec<String>, FileError> {
    let entries = std::fs::read_dir(directory).map_err(FileError::io(directory, "list"))?;
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
    let names: io::Result<Vec<_>> = names.collect();
    Ok(names.map_err(FileError::io(directory, "list"))?.into_iter().flatten().collect())
}

/// Makes a directory, mode 0700, and those above it.
pub(crate) fn create_directory(path: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(FileError::io(path, "create the directory"))
}

/// `O_NONBLOCK` of `open(2)`; without effect on regular files.
#[cfg(target_os = "linux")]
const O_NONBLOCK: i32 = 0o4000;
#[cfg(not(target_os = "linux"))]
const O_NONBLOCK: i32 = 0x0004;
