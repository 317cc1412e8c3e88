//! Batches in the order in which they were committed, until they are in segments.
//!
//! ```text
//! record: magic u32 | length u32 | crc32 u32 (of the rest) | synced u64 | bytes of the batch
//! ```
//! `synced` is the length of the journal that was known to be durable when the record was written. A
//! record that does not verify is the torn end of the last write, unless a later record proves that
//! what is damaged here had been durable. The checksum covers the store's random number and the place
//! as well, so that bytes inside a batch, which others choose, cannot pass for a record.

use super::StoreError;
use super::batch::BATCH_LIMIT;
use super::directory::{Directory, StoreFile};
use super::error::Failure;

const MAGIC: [u8; 4] = *b"tlyb";
const HEADER: usize = 4 + 4 + 4 + 8;

pub(super) fn file_name(id: u64) -> String {
    format!("{id:010}.journal")
}

/// A journal that takes records.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) id: u64,
    file: StoreFile,
    salt: u64,
    length: u64,
    synced: u64,
}

impl Journal {
    /// A new, empty one whose name is durable.
    pub(super) fn create(directory: &Directory, id: u64, salt: u64) -> Result<Self, StoreError> {
        let name = file_name(id);
        let file = directory.create(&name)?;
        directory.sync().inspect_err(|_| directory.discard(&name))?;
        Ok(Self { id, file, salt, length: 0, synced: 0 })
    }

    /// Goes on behind the `length` bytes that [`records`] found good; what follows is cut off.
    pub(super) fn resume(directory: &Directory, id: u64, salt: u64, length: u64) -> Result<Self, StoreError> {
        let file = directory.open_file(&file_name(id), true)?;
        file.cut(length)?;
        file.sync()?;
        Ok(Self { id, file, salt, length, synced: length })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// After [`Failure::Unharmed`] the journal is as it was.
    pub(super) fn append(&mut self, batch: &[u8]) -> Result<(), Failure> {
        let mut header = [0; HEADER];
        header[0..4].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&(batch.len() as u32).to_le_bytes());
        header[12..20].copy_from_slice(&self.synced.to_le_bytes());
        let place = Place { salt: self.salt, journal: self.id, offset: self.length };
        let sum = place.checksum(&header[12..20], batch);
        header[8..12].copy_from_slice(&sum.to_le_bytes());
        let written = self
            .file
            .write_all_at(&header, self.length)
            .and_then(|()| self.file.write_all_at(batch, self.length + HEADER as u64));
        if let Err(cause) = written {
            return Err(match self.file.cut(self.length) {
                Ok(()) => Failure::Unharmed(cause),
                Err(_) => Failure::Fatal(cause),
            });
        }
        self.length += (HEADER + batch.len()) as u64;
        Ok(())
    }

    /// Makes all records durable.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        if self.synced < self.length {
            self.file.sync()?;
            self.synced = self.length;
        }
        Ok(())
    }
}

/// Where a record stands: part of its checksum.
struct Place {
    salt: u64,
    journal: u64,
    offset: u64,
}

impl Place {
    fn checksum(&self, synced: &[u8], batch: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for number in [self.salt, self.journal, self.offset] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(synced);
        hasher.update(batch);
        hasher.finalize()
    }
}

/// The bytes of one journal.
struct Reader {
    bytes: Vec<u8>,
    salt: u64,
    id: u64,
}

impl Reader {
    /// One record's batch, what it says was durable, and where the record ends.
    fn record(&self, at: usize) -> Option<(&[u8], u64, usize)> {
        let header = self.bytes.get(at..at + HEADER)?;
        let length = u32::from_le_bytes(header[4..8].try_into().ok()?) as usize;
        let sum = u32::from_le_bytes(header[8..12].try_into().ok()?);
        if header[0..4] != MAGIC || length > BATCH_LIMIT {
            return None;
        }
        let end = at + HEADER + length;
        let batch = self.bytes.get(at + HEADER..end)?;
        let synced = u64::from_le_bytes(header[12..20].try_into().ok()?);
        let place = Place { salt: self.salt, journal: self.id, offset: at as u64 };
        (place.checksum(&header[12..20], batch) == sum).then_some((batch, synced, end))
    }

    /// What the records behind a damaged one say was durable.
    fn later(&self, after: usize) -> impl Iterator<Item = u64> + '_ {
        (after + 1..self.bytes.len()).filter_map(|at| self.record(at)).map(|(_, synced, _)| synced)
    }
}

/// Reads the journal `id`: gives each batch to `take`, returns the length of the good part. With
/// `last`, a torn end is expected and left out.
pub(super) fn records(
    directory: &Directory,
    id: u64,
    salt: u64,
    last: bool,
    mut take: impl FnMut(&[u8]) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let name = file_name(id);
    let path = directory.path_of(&name);
    let Some(bytes) = directory.read(&name)? else {
        return Err(StoreError::corrupt(&path, 0, "the journal is missing"));
    };
    let reader = Reader { bytes, salt, id };
    let mut at = 0;
    while let Some((batch, _, end)) = reader.record(at) {
        take(batch)?;
        at = end;
    }
    let good = at as u64;
    if at == reader.bytes.len() {
        return Ok(good);
    }
    if !last || reader.later(at).any(|synced| synced > good) {
        return Err(StoreError::corrupt(&path, good, "a batch that had been durable does not verify"));
    }
    Ok(good)
}
