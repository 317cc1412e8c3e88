//! Which tables there are, which segments they have, and from which journal on batches are missing in
//! them. Replaced as a whole, by a rename.

use super::StoreError;
use super::directory::Directory;
use super::error::Failure;
use super::segment::SegmentInfo;

pub(super) const FILE_NAME: &str = "manifest";
const TEMPORARY_NAME: &str = "manifest.new";
const MAGIC: [u8; 8] = *b"tlystore";
/// Raised with each change of any file's format.
pub(super) const FORMAT_VERSION: u32 = 1;

/// The store's table of contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Random; part of each journal record's checksum.
    pub(super) salt: u64,
    /// Batches in this journal and later ones are not in segments.
    pub(super) first_journal: u64,
    /// The next free number for a journal or segment.
    pub(super) next_id: u64,
    pub(super) tables: Vec<TableManifest>,
}

/// One table: its name, and its runs, newest first, each a list of segments in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TableManifest {
    pub(super) name: String,
    pub(super) runs: Vec<Vec<SegmentInfo>>,
}

impl Manifest {
    /// Reads it; `None` when the directory has no store yet.
    pub(super) fn read(directory: &Directory) -> Result<Option<Self>, StoreError> {
        let path = directory.path_of(FILE_NAME);
        let Some(bytes) = directory.read(FILE_NAME)? else { return Ok(None) };
        let mut reader = Reader { bytes: &bytes, at: 0 };
        let damaged = |at: usize, what: &str| StoreError::corrupt(&path, at as u64, what);
        if reader.take(8) != Some(&MAGIC) {
            return Err(damaged(0, "this is not the manifest of a store"));
        }
        let found = reader.u32().ok_or_else(|| damaged(8, "the version is missing"))?;
        if found > FORMAT_VERSION {
            return Err(StoreError::NewerFormat { path, found, supported: FORMAT_VERSION });
        }
        let body = bytes.len().saturating_sub(4);
        if bytes.get(body..).and_then(|sum| sum.try_into().ok()).map(u32::from_le_bytes)
            != Some(crc32fast::hash(&bytes[..body]))
        {
            return Err(damaged(body, "the checksum does not match"));
        }
        reader.bytes = &bytes[..body];
        let manifest = reader.manifest().ok_or_else(|| damaged(reader.at, "the contents do not parse"))?;
        Ok(Some(manifest))
    }

    /// Puts this one in the place of the one before, durably.
    ///
    /// # Errors
    /// After [`Failure::Fatal`] either of the two may be what the next opening finds: no file that one of them names may
    /// be removed.
    pub(super) fn write(&self, directory: &Directory) -> Result<(), Failure> {
        let replace = || {
            let file = directory.create(TEMPORARY_NAME)?;
            file.write_all_at(&self.encode(), 0)?;
            file.sync()?;
            directory.rename(TEMPORARY_NAME, FILE_NAME)
        };
        replace().map_err(|cause| {
            directory.discard(TEMPORARY_NAME);
            Failure::Unharmed(cause)
        })?;
        directory.sync().map_err(Failure::Fatal)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&self.salt.to_le_bytes());
        out.extend_from_slice(&self.first_journal.to_le_bytes());
        out.extend_from_slice(&self.next_id.to_le_bytes());
        count(&mut out, self.tables.len());
        for table in &self.tables {
            bytes(&mut out, table.name.as_bytes());
            count(&mut out, table.runs.len());
            for run in &table.runs {
                count(&mut out, run.len());
                for segment in run {
                    out.extend_from_slice(&segment.id.to_le_bytes());
                    out.extend_from_slice(&segment.size.to_le_bytes());
                    out.extend_from_slice(&segment.entries.to_le_bytes());
                    out.extend_from_slice(&segment.directory_offset.to_le_bytes());
                    out.extend_from_slice(&segment.directory_length.to_le_bytes());
                    bytes(&mut out, &segment.first_key);
                    bytes(&mut out, &segment.last_key);
                }
            }
        }
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }
}

fn count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    count(out, bytes.len());
    out.extend_from_slice(bytes);
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.u32()? as usize;
        Some(self.take(length)?.to_vec())
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.u32()?;
        (0..length).map(|_| item(self)).collect()
    }

    fn manifest(&mut self) -> Option<Manifest> {
        let manifest = Manifest {
            salt: self.u64()?,
            first_journal: self.u64()?,
            next_id: self.u64()?,
            tables: self.list(|reader| {
                Some(TableManifest {
                    name: String::from_utf8(reader.bytes()?).ok()?,
                    runs: reader.list(|reader| reader.list(Self::segment))?,
                })
            })?,
        };
        (self.at == self.bytes.len()).then_some(manifest)
    }

    fn segment(&mut self) -> Option<SegmentInfo> {
        Some(SegmentInfo {
            id: self.u64()?,
            size: self.u64()?,
            entries: self.u64()?,
            directory_offset: self.u64()?,
            directory_length: self.u32()?,
            first_key: self.bytes()?,
            last_key: self.bytes()?,
        })
    }
}
