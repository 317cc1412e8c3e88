//! The store's directory: whatever is read from it or changed in it goes through here, so that an error names its file,
//! and tests can put a disk below that fails.

use std::fmt::Debug;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::StoreError;

/// A disk's one directory. What a method returned `Ok` for can be read; it outlasts a loss of power once the file, or
/// for names the directory, is synced.
pub(super) trait Disk: Debug + Send + Sync {
    /// An empty file of this name, in the place of one that is there.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// A file that is there, for reading and, if `write`, for writing.
    fn open(&self, name: &str, write: bool) -> io::Result<Box<dyn DiskFile>>;
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Takes a file's name away.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Gives a file another name, in the place of the file that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes names durable.
    fn sync_names(&self) -> io::Result<()>;
    /// Takes `name` for this process alone, until what is returned is dropped; `None` when another has it.
    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>>;
}

/// What holds a name for this process.
pub(super) type Lock = Box<dyn Held>;

/// Something that is held until it is dropped.
pub(super) trait Held: Debug + Send + Sync {}

impl<T: Debug + Send + Sync> Held for T {}

/// An open file of a [`Disk`].
pub(super) trait DiskFile: Debug + Send + Sync {
    /// Reads some of what is at a place; nothing only at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes the beginning of `bytes` at a place, and says how much.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes contents and length durable. After an error nobody knows what is.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file off.
    fn cut(&self, length: u64) -> io::Result<()>;
    /// Bytes that the file has.
    fn length(&self) -> io::Result<u64>;
}

/// A directory of the operating system.
#[derive(Debug)]
struct OsDisk {
    path: PathBuf,
}

impl Disk for OsDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn open(&self, name: &str, write: bool) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(write).open(self.path.join(name))?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is none of the store's.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(self.path.join(name))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// The directory of a store.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Directory {
    /// That of the operating system at `path`, which is made if need be.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            std::fs::create_dir_all(path).map_err(StoreError::io("create", path))?;
            // What is made durable in it is lost with its name.
            if let Some(parent) = path.canonicalize().ok().as_deref().and_then(Path::parent) {
                File::open(parent).and_then(|it| it.sync_all()).map_err(StoreError::io("flush", parent))?;
            }
        }
        Ok(Self::on(path, Arc::new(OsDisk { path: path.to_owned() })))
    }

    /// That of a disk; errors name files as if they lay at `path`.
    pub(super) fn on(path: &Path, disk: Arc<dyn Disk>) -> Self {
        Self { path: path.to_owned(), disk }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file lies, for errors.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn file(&self, name: &str, file: Box<dyn DiskFile>) -> StoreFile {
        StoreFile { path: self.path_of(name), file }
    }

    fn fail(&self, action: &'static str, name: &str) -> impl FnOnce(io::Error) -> StoreError {
        let path = self.path_of(name);
        move |error| StoreError::io(action, &path)(error)
    }

    pub(super) fn create(&self, name: &str) -> Result<StoreFile, StoreError> {
        let file = self.disk.create(name).map_err(self.fail("create", name))?;
        Ok(self.file(name, file))
    }

    pub(super) fn open_file(&self, name: &str, write: bool) -> Result<StoreFile, StoreError> {
        let file = self.disk.open(name, write).map_err(self.fail("open", name))?;
        Ok(self.file(name, file))
    }

    /// All bytes of a file; `None` when it is not there.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let file = match self.disk.open(name, false) {
            Ok(file) => self.file(name, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.fail("open", name)(error)),
        };
        let mut bytes = vec![0; usize::try_from(file.length()?).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Some(bytes))
    }

    pub(super) fn list(&self) -> Result<Vec<String>, StoreError> {
        self.disk.list().map_err(StoreError::io("list", &self.path))
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.disk.remove(name).map_err(self.fail("remove", name))
    }

    /// Takes away what nothing names; what stays is removed when the store is opened the next time.
    pub(super) fn discard(&self, name: &str) {
        let _ = self.disk.remove(name);
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        self.disk.rename(from, to).map_err(self.fail("rename", from))
    }

    /// Makes the names of all files durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.disk.sync_names().map_err(StoreError::io("flush", &self.path))
    }

    /// Takes the store for this process alone.
    pub(super) fn lock(&self, name: &str) -> Result<Lock, StoreError> {
        match self.disk.try_lock(name).map_err(self.fail("lock", name))? {
            Some(lock) => Ok(lock),
            None => Err(StoreError::Locked { path: self.path.clone() }),
        }
    }
}

/// An open file of the store.
#[derive(Debug)]
pub(super) struct StoreFile {
    path: PathBuf,
    file: Box<dyn DiskFile>,
}

impl StoreFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn length(&self) -> Result<u64, StoreError> {
        self.file.length().map_err(StoreError::io("look at", &self.path))
    }

    pub(super) fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> Result<(), StoreError> {
        let fail = StoreError::io("read", &self.path);
        while !buffer.is_empty() {
            match self.file.read_at(buffer, offset) {
                Ok(0) => return Err(fail(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(fail(error)),
            }
        }
        Ok(())
    }

    pub(super) fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<(), StoreError> {
        let fail = StoreError::io("write", &self.path);
        while !bytes.is_empty() {
            match self.file.write_at(bytes, offset) {
                Ok(0) => return Err(fail(io::ErrorKind::WriteZero.into())),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(fail(error)),
            }
        }
        Ok(())
    }

    /// Makes contents and length durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync().map_err(StoreError::io("flush", &self.path))
    }

    pub(super) fn cut(&self, length: u64) -> Result<(), StoreError> {
        self.file.cut(length).map_err(StoreError::io("cut", &self.path))
    }
}
