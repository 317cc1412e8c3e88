//! The little that a journal needs of a disk, so that it can run on one that fails on purpose.

mod direct;
#[cfg(feature = "sim")]
mod sim;

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// One directory of files, all named relative to it.
pub trait Disk: Send + Sync {
    /// Creates an empty file for reading and writing. Its name is durable after [`sync_dir`](Self::sync_dir).
    ///
    /// # Errors
    /// Of the operating system; `AlreadyExists` if there is one.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file, for writing as well if `write`.
    ///
    /// # Errors
    /// Of the operating system.
    fn open(&self, name: &str, write: bool) -> io::Result<Box<dyn DiskFile>>;

    /// The names in the directory, in any order.
    ///
    /// # Errors
    /// Of the operating system.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Removes a file; durable after [`sync_dir`](Self::sync_dir).
    ///
    /// # Errors
    /// Of the operating system.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Renames a file; durable after [`sync_dir`](Self::sync_dir).
    ///
    /// # Errors
    /// Of the operating system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes creations, removals and renames durable.
    ///
    /// # Errors
    /// Of the operating system.
    fn sync_dir(&self) -> io::Result<()>;

    /// Takes `name` for exclusive use until what is returned is dropped or the process ends; `None` if it is
    /// taken.
    ///
    /// # Errors
    /// Of the operating system.
    fn try_lock(&self, name: &str) -> io::Result<Option<Box<dyn Send + Sync>>>;

    /// The directory, for messages.
    fn describe(&self) -> String;
}

/// An open file of a [`Disk`].
pub trait DiskFile: Send + Sync {
    /// Reads into `buffer` from byte `position`; possibly less than asked for, nothing only at the end.
    ///
    /// # Errors
    /// Of the operating system.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes the start of `bytes` at byte `position` and says how much.
    ///
    /// # Errors
    /// Of the operating system; `StorageFull` or `QuotaExceeded` if there is no space.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize>;

    /// Makes the content durable, as `fdatasync`.
    ///
    /// # Errors
    /// Of the operating system. Afterwards it is unknown what is durable, and a second try proves nothing.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes content and metadata durable, as `fsync`.
    ///
    /// # Errors
    /// As [`sync_data`](Self::sync_data).
    fn sync_all(&self) -> io::Result<()>;

    /// Makes the file at least `len` bytes long, zeros at the end, with the space reserved where the file
    /// system can.
    ///
    /// # Errors
    /// Of the operating system; `StorageFull` or `QuotaExceeded` if there is no space.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Cuts the file off, or fills it up with zeros, to be `len` bytes long.
    ///
    /// # Errors
    /// Of the operating system.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// Of the operating system.
    fn len(&self) -> io::Result<u64>;

    /// Whether the length is zero.
    ///
    /// # Errors
    /// Of the operating system.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A directory of the operating system.
#[derive(Clone, Debug)]
pub struct OsDisk {
    directory: PathBuf,
}

impl OsDisk {
    /// The directory at `path`, created with its parents if need be.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        std::fs::create_dir_all(&path)?;
        Self::existing(path)
    }

    /// The directory at `path`, which must exist.
    ///
    /// # Errors
    /// Of the operating system; `NotADirectory`.
    pub fn existing(path: impl AsRef<Path>) -> io::Result<Self> {
        let directory = path.as_ref().to_path_buf();
        if !std::fs::metadata(&directory)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { directory })
    }
}

impl Disk for OsDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.directory.join(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        Ok(past_the_cache(&path, file))
    }

    fn open(&self, name: &str, write: bool) -> io::Result<Box<dyn DiskFile>> {
        let path = self.directory.join(name);
        let file = OpenOptions::new().read(true).write(write).open(&path)?;
        Ok(if write { past_the_cache(&path, file) } else { Box::new(file) })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.directory.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let path = self.directory.join(name);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn describe(&self) -> String {
        self.directory.display().to_string()
    }
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        use rustix::fs::FallocateFlags;
        use rustix::io::Errno;
        if len <= DiskFile::len(self)? {
            return Ok(());
        }
        match rustix::fs::fallocate(self, FallocateFlags::empty(), 0, len) {
            // Reserving is an optimisation; the length is what recovery relies on.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => File::set_len(self, len),
            other => other.map_err(io::Error::from),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// The file for writing past the page cache where that is possible, else through it.
fn past_the_cache(path: &Path, file: File) -> Box<dyn DiskFile> {
    match direct::DirectFile::open(path, file) {
        Ok(direct) => Box::new(direct),
        Err(cached) => Box::new(cached),
    }
}

/// Writes all of `bytes` at `position`.
pub(crate) fn write_all_at(file: &dyn DiskFile, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, position) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                position += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills `buffer` from `position` as far as the file goes and says how far.
pub(crate) fn read_full_at(file: &dyn DiskFile, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], position + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
