//! The voting key is never used without what it signed.
//!
//! A member that votes with an old key and an empty, or another's, storage could vote twice for one
//! height. So the storage names its voter, and a mark says that the key has a storage: beside the
//! key, and beside the storage's folder, since keys may be mounted read-only. The storage is named
//! before the key is marked: a crash between the two costs nothing.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use alloy_primitives::Address;

/// In the storage's folder: whose it is.
const VOTER: &str = "voter";
/// Beside the key, and beside the storage's folder: the voter that has a storage.
const USED: &str = "voter.used";

/// The voting key and the storage do not belong together.
#[derive(Debug, thiserror::Error)]
pub enum CustodyError {
    /// A file.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried, as a verb with the file as its object.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The key has voted, and the storage with what it signed is not here.
    #[error(
        "the voting key {voter} was used before, and {} does not have what it signed: it could vote twice. Bring the \
         folder back as it was last, or make a new voting key and have the network's parameters name it",
        storage.display()
    )]
    Forgotten {
        /// Its address.
        voter: Address,
        /// The folder.
        storage: PathBuf,
    },
    /// The storage is another voter's.
    #[error(
        "{} is the storage of the voting key {found}, not of {voter}; a new key begins with an empty folder",
        storage.display()
    )]
    OtherVoter {
        /// This node's voter.
        voter: Address,
        /// The voter of the storage.
        found: String,
        /// The folder.
        storage: PathBuf,
    },
}

fn io_at<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> CustodyError + 'a {
    move |source| CustodyError::Io { action, path: path.to_owned(), source }
}

/// Makes sure that `storage` is the folder of this voter, whose key is in the folder `keys`; a folder
/// is made for a key that was never used. Where `keys` cannot be written, the loss of all of the
/// node's data is not noticed.
pub(super) fn claim(keys: &Path, storage: &Path, voter: Address) -> Result<(), CustodyError> {
    std::fs::create_dir_all(storage).map_err(io_at("create", storage))?;
    let above = storage.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
    // The name of a new folder is durable before the key is marked.
    File::open(above).and_then(|above| above.sync_all()).map_err(io_at("flush", above))?;
    let (named, marks) = (storage.join(VOTER), [keys.join(USED), above.join(USED)]);
    let own = voter.to_string();
    let mut marked = Vec::new();
    for mark in &marks {
        marked.push(read(mark)?.as_deref() == Some(&own));
    }
    match read(&named)? {
        Some(found) if found != own => {
            return Err(CustodyError::OtherVoter { voter, found, storage: storage.to_owned() });
        }
        Some(_) => {}
        None if marked.contains(&true) => {
            return Err(CustodyError::Forgotten { voter, storage: storage.to_owned() });
        }
        None => write(&named, &own)?,
    }
    for (mark, _) in marks.iter().zip(marked).filter(|(_, marked)| !marked) {
        match write(mark, &own) {
            Err(CustodyError::Io { source, .. }) if mark.starts_with(keys) && is_read_only(&source) => {
                tracing::warn!(path = %mark.display(), "the use of the voting key cannot be marked beside it");
            }
            written => written?,
        }
    }
    Ok(())
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

fn read(path: &Path) -> Result<Option<String>, CustodyError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes[..bytes.len().min(64)]).trim_end().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_at("read", path)(error)),
    }
}

/// Writes a file as a whole; it survives a power cut once this returns.
fn write(path: &Path, text: &str) -> Result<(), CustodyError> {
    let draft = path.with_extension("new");
    let directory = path.parent().unwrap_or(Path::new("."));
    File::create(&draft)
        .and_then(|mut file| {
            file.write_all(format!("{text}\n").as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&draft, path))
        .and_then(|()| File::open(directory)?.sync_all())
        .map_err(io_at("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            let home = Self(tempfile::tempdir().expect("a directory"));
            std::fs::create_dir(home.keys()).expect("a folder");
            home
        }

        fn keys(&self) -> PathBuf {
            self.0.path().join("keys")
        }

        fn claim(&self, storage: &str, voter: u8) -> Result<(), CustodyError> {
            claim(&self.keys(), &self.0.path().join(storage), Address::repeat_byte(voter))
        }

        fn moved(&self, from: &str, to: &str) {
            std::fs::create_dir_all(self.0.path().join(to).parent().expect("a parent")).expect("a folder");
            std::fs::rename(self.0.path().join(from), self.0.path().join(to)).expect("moved");
        }
    }

    #[test]
    fn a_key_that_was_used_does_not_begin_again_without_its_storage() {
        let home = Home::new();
        home.claim("data/first", 1).expect("a new key");
        home.claim("data/first", 1).expect("the next start");
        let forgotten = |found| assert!(matches!(found, Err(CustodyError::Forgotten { .. })), "{found:?}");
        forgotten(home.claim("data/second", 1));
        home.moved("data/first", "moved/first");
        forgotten(home.claim("data/first", 1));
        forgotten(home.claim("elsewhere/first", 1));
        home.claim("moved/first", 1).expect("its storage, elsewhere");
        // Either mark alone says so.
        std::fs::remove_file(home.keys().join(USED)).expect("removed");
        forgotten(home.claim("data/third", 1));
        // A new key begins with an empty folder.
        let found = home.claim("moved/first", 2);
        assert!(matches!(found, Err(CustodyError::OtherVoter { .. })), "{found:?}");
        home.claim("data/fourth", 2).expect("a new key");
    }

    #[test]
    fn a_crash_between_the_files_costs_nothing() {
        let home = Home::new();
        home.claim("data/storage", 1).expect("a new key");
        for mark in [home.keys().join(USED), home.0.path().join("data").join(USED)] {
            std::fs::remove_file(&mark).expect("the mark was not there yet");
            home.claim("data/storage", 1).expect("the next start");
            assert!(mark.exists());
        }
    }
}
