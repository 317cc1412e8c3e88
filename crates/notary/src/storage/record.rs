//! The record of what was signed, in two files that are written in turn.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tally_crypto::hash;

use super::{StorageError, io_at};

/// The hash of all that follows, then the number of the write, big-endian; then the record.
const PREFIX: usize = 32 + 8;

#[derive(Debug)]
pub(super) struct Record {
    files: [(PathBuf, File); 2],
    /// How often a record was written.
    number: u64,
    last: Option<Vec<u8>>,
    /// A write failed: which of the two is the last is not known.
    broken: bool,
}

impl Record {
    pub(super) fn open(directory: &Path) -> Result<Self, StorageError> {
        let [(first, a), (second, b)] = [open(directory, "record-0")?, open(directory, "record-1")?];
        let (a, b) = (a.map_err(|()| &first), b.map_err(|()| &second));
        let last = match (a, b) {
            (Ok(a), Ok(b)) => a.max(b),
            // A record that was being written when the process ended: nothing was sent that rests
            // on it.
            (Ok(found @ Some(_)), Err(_)) | (Err(_), Ok(found @ Some(_))) => found,
            // The very first one, likewise.
            (Err(_), Ok(None)) => None,
            (_, Err((path, _))) => {
                let what = "neither record of what was signed has its checksum".to_owned();
                return Err(StorageError::Damaged { path: path.clone(), what });
            }
        };
        let (number, last) = last.map_or((0, None), |(number, record)| (number, Some(record)));
        Ok(Self { files: [first, second], number, last, broken: false })
    }

    pub(super) fn last(&self) -> Option<&[u8]> {
        self.last.as_deref()
    }

    pub(super) fn write(&mut self, record: &[u8]) -> Result<(), StorageError> {
        let number = self.number + 1;
        // Number 1 goes into the first file.
        let (path, file) = &mut self.files[usize::from(number.is_multiple_of(2))];
        if self.broken {
            let what = "an earlier write failed; it has to be opened again".to_owned();
            return Err(StorageError::Damaged { path: path.clone(), what });
        }
        let entry = [&number.to_be_bytes()[..], record].concat();
        let entry = [&hash(&entry).as_bytes()[..], &entry].concat();
        self.broken = true;
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(&entry))
            .and_then(|()| file.set_len(entry.len() as u64))
            .and_then(|()| file.sync_data())
            .map_err(io_at(path))?;
        self.broken = false;
        self.number = number;
        self.last = Some(record.to_vec());
        Ok(())
    }
}

type Found = Result<Option<(u64, Vec<u8>)>, ()>;

/// A file, and the record in it: none in an empty file, an error where it does not have its
/// checksum.
fn open(directory: &Path, name: &str) -> Result<((PathBuf, File), Found), StorageError> {
    let path = directory.join(name);
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let mut file = options.open(&path).map_err(io_at(&path))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io_at(&path))?;
    let found = if bytes.is_empty() { Ok(None) } else { read(&bytes).map(Some).ok_or(()) };
    Ok(((path, file), found))
}

fn read(bytes: &[u8]) -> Option<(u64, Vec<u8>)> {
    let (checksum, entry) = bytes.split_at_checked(32)?;
    let (number, record) = entry.split_at_checked(PREFIX - 32)?;
    let number = u64::from_be_bytes(number.try_into().ok()?);
    (hash(entry).as_bytes()[..] == *checksum).then(|| (number, record.to_vec()))
}
