//! The file of decided batches: each with its length and checksum, one behind the other.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tally_crypto::{Hash, hash};

use super::{StorageError, io_at};

/// Four bytes for the length, big-endian; the first four of the length's hash, so that a damaged
/// length is not taken for an entry that was cut off; then the hash of length and batch.
const PREFIX: usize = 4 + 4 + 32;

#[derive(Debug)]
pub(super) struct Batches {
    path: PathBuf,
    file: File,
    /// Where each batch begins, and at last where the next will.
    offsets: Vec<u64>,
    /// A write failed: where the file ends is not known.
    broken: bool,
}

fn checksum(length: [u8; 4], batch: &[u8]) -> Hash {
    hash(&[&length[..], batch].concat())
}

fn prefix(length: [u8; 4], batch: &[u8]) -> [u8; PREFIX] {
    let mut prefix = [0; PREFIX];
    prefix[..4].copy_from_slice(&length);
    prefix[4..8].copy_from_slice(&hash(&length).as_bytes()[..4]);
    prefix[8..].copy_from_slice(checksum(length, batch).as_bytes());
    prefix
}

impl Batches {
    pub(super) fn open(directory: &Path) -> Result<Self, StorageError> {
        let path = directory.join("batches");
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(&path).map_err(io_at(&path))?;
        let size = file.metadata().map_err(io_at(&path))?.len();
        let mut offsets = vec![0];
        let mut at = 0;
        let mut reader = std::io::BufReader::with_capacity(1 << 20, &mut file);
        while let Some(entry) = read_entry(&mut reader, size - at).map_err(io_at(&path))? {
            if !entry.whole {
                // Only what was being written last can be cut short or partly there.
                if at + entry.length < size {
                    let what = format!("batch {} does not have its checksum", offsets.len());
                    return Err(StorageError::Damaged { path, what });
                }
                break;
            }
            at += entry.length;
            offsets.push(at);
        }
        if at < size {
            file.set_len(at).and_then(|()| file.sync_all()).map_err(io_at(&path))?;
        }
        Ok(Self { path, file, offsets, broken: false })
    }

    pub(super) fn height(&self) -> u64 {
        self.offsets.len() as u64 - 1
    }

    pub(super) fn append(&mut self, height: u64, batch: &[u8]) -> Result<(), StorageError> {
        let expected = self.height() + 1;
        if height != expected {
            return Err(StorageError::Gap { expected, found: height });
        }
        let damaged = |what: &str| StorageError::Damaged { path: self.path.clone(), what: what.to_owned() };
        if self.broken {
            return Err(damaged("an earlier write failed; it has to be opened again"));
        }
        let length = u32::try_from(batch.len()).map_err(|_| damaged("a batch is longer than 4 GiB"))?;
        let length = length.to_be_bytes();
        let entry = [&prefix(length, batch)[..], batch].concat();
        let begin = self.offsets.last().copied().unwrap_or_default();
        self.broken = true;
        self.file
            .seek(SeekFrom::Start(begin))
            .and_then(|_| self.file.write_all(&entry))
            .and_then(|()| self.file.sync_data())
            .map_err(io_at(&self.path))?;
        self.broken = false;
        self.offsets.push(begin + entry.len() as u64);
        Ok(())
    }

    pub(super) fn read(&self, from: u64, bytes: usize) -> Result<Vec<Vec<u8>>, StorageError> {
        let mut batches = Vec::new();
        let mut size = 0_usize;
        let first = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
        for span in self.offsets.get(first..).unwrap_or_default().windows(2) {
            let damaged =
                |what: &str| StorageError::Damaged { path: self.path.clone(), what: what.to_owned() };
            let length = usize::try_from(span[1] - span[0]).map_err(|_| damaged("a batch is too long"))?;
            size = size.saturating_add(length);
            if size > bytes && !batches.is_empty() {
                break;
            }
            let mut entry = vec![0; length];
            self.file.read_exact_at(&mut entry, span[0]).map_err(io_at(&self.path))?;
            let batch = entry.split_off(PREFIX);
            let mut length = [0; 4];
            length.copy_from_slice(&entry[..4]);
            if prefix(length, &batch)[..] != entry {
                return Err(damaged("a batch does not have its checksum"));
            }
            batches.push(batch);
        }
        Ok(batches)
    }
}

struct Entry {
    /// What it takes in the file; all that is left where it was cut off.
    length: u64,
    whole: bool,
}

/// The next entry; `None` at the end of the file, of which `left` bytes are left.
fn read_entry(reader: &mut impl Read, left: u64) -> std::io::Result<Option<Entry>> {
    if left == 0 {
        return Ok(None);
    }
    let cut = Entry { length: left, whole: false };
    let mut found = [0; PREFIX];
    match reader.read_exact(&mut found) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Some(cut)),
        other => other?,
    }
    let mut length = [0; 4];
    length.copy_from_slice(&found[..4]);
    if found[4..8] != hash(&length).as_bytes()[..4] {
        // The file may have grown without what was to be written there.
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest)?;
        let nothing = rest.iter().all(|byte| *byte == 0);
        return Ok(Some(if nothing { cut } else { Entry { length: 0, whole: false } }));
    }
    let total = PREFIX as u64 + u64::from(u32::from_be_bytes(length));
    if total > left {
        return Ok(Some(cut));
    }
    let mut batch = Vec::new();
    reader.take(total - PREFIX as u64).read_to_end(&mut batch)?;
    Ok(Some(Entry { length: total, whole: prefix(length, &batch) == found }))
}
