//! The voting key is never used without what it signed.
//!
//! A member that votes with an old key and an empty, or another's, storage could vote twice for one
//! height. So the storage names its voter, and a mark beside the key says that the key has a
//! storage. The storage is named before the key is marked: a crash between the two costs nothing.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use alloy_primitives::Address;

/// In the storage's folder: whose it is.
const VOTER: &str = "voter";
/// Beside the key: the voter that has a storage somewhere.
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
/// is made for a key that was never used.
pub(super) fn claim(keys: &Path, storage: &Path, voter: Address) -> Result<(), CustodyError> {
    std::fs::create_dir_all(storage).map_err(io_at("create", storage))?;
    // The name of a new folder is durable before the key is marked.
    if let Some(above) = storage.parent() {
        File::open(above).and_then(|above| above.sync_all()).map_err(io_at("flush", above))?;
    }
    let (named, mark) = (storage.join(VOTER), keys.join(USED));
    let own = voter.to_string();
    match read(&named)? {
        Some(found) if found != own => {
            return Err(CustodyError::OtherVoter { voter, found, storage: storage.to_owned() });
        }
        Some(_) => {}
        None if read(&mark)?.as_deref() == Some(&own) => {
            return Err(CustodyError::Forgotten { voter, storage: storage.to_owned() });
        }
        None => write(&named, &own)?,
    }
    if read(&mark)?.as_deref() == Some(&own) { Ok(()) } else { write(&mark, &own) }
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

    #[test]
    fn a_key_that_was_used_does_not_begin_again_without_its_storage() {
        let directory = tempfile::tempdir().expect("a directory");
        let keys = directory.path();
        let (first, second) = (keys.join("first"), keys.join("second"));
        let voter = Address::repeat_byte(1);
        claim(keys, &first, voter).expect("a new key");
        claim(keys, &first, voter).expect("the next start");
        assert!(matches!(claim(keys, &second, voter), Err(CustodyError::Forgotten { .. })));
        std::fs::rename(&first, keys.join("moved")).expect("moved away");
        assert!(matches!(claim(keys, &first, voter), Err(CustodyError::Forgotten { .. })));
        claim(keys, &keys.join("moved"), voter).expect("its storage, elsewhere");
        // A new key begins with an empty folder.
        let other = Address::repeat_byte(2);
        let found = claim(keys, &keys.join("moved"), other);
        assert!(matches!(found, Err(CustodyError::OtherVoter { .. })), "{found:?}");
        claim(keys, &keys.join("third"), other).expect("a new key");
    }

    #[test]
    fn a_crash_between_the_two_files_costs_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let (keys, storage) = (directory.path(), directory.path().join("storage"));
        let voter = Address::repeat_byte(1);
        claim(keys, &storage, voter).expect("a new key");
        std::fs::remove_file(keys.join(USED)).expect("the mark was not there yet");
        claim(keys, &storage, voter).expect("the next start");
        assert!(keys.join(USED).exists());
    }
}
