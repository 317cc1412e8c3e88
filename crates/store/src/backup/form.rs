//! The form of the file.
//!
//! ```text
//! "TALLYBAK" | form: u32 | frame of the head | frames of records | empty frame | number of rows: u64 | checksum: 32
//! frame: length: u32, not 0 | content | checksum: 32
//! ```
//! Numbers are little-endian. Each checksum is keyed by the one before it, so that the last one is a checksum over
//! everything and no frame can be left out, added or moved. Head and records are borsh. A frame holds whole records,
//! about a mebibyte of them.

use super::{Backup, BackupError, Kind};
use borsh::{BorshDeserialize, BorshSerialize};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tally_contracts::{Name, Timestamp};
use tally_crypto::{Hash, hash, keyed};

const MAGIC: &[u8; 8] = b"TALLYBAK";
const FORM: u32 = 1;
/// A frame is closed once it has so much content.
const FRAME: usize = 1 << 20;
/// No frame has more: a row, of which an attachment is the largest, and what came before it.
const FRAME_LIMIT: u32 = 256 << 20;
const CHECKSUM: usize = 32;

/// What stands at the beginning.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) struct Head {
    pub(crate) node: String,
    pub(crate) schema: u32,
    pub(crate) taken_ms: u64,
}

impl Head {
    pub(crate) fn new(node: &Name, schema: u32, taken: Timestamp) -> Self {
        Self { node: node.as_str().to_owned(), schema, taken_ms: taken.as_millis() }
    }

    /// When the backup was taken.
    pub(crate) fn taken(&self) -> Timestamp {
        Timestamp::from_millis(self.taken_ms)
    }

    fn name(&self) -> Result<Name, BackupError> {
        self.node
            .parse()
            .map_err(|error| BackupError::Damaged { reason: format!("the node's name: {error}") })
    }
}

/// What follows the head.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) enum Record {
    /// The rows that follow are of this table.
    Table { name: String, columns: Vec<String> },
    /// A row, in the order of the columns.
    Row(Vec<Cell>),
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Bytes(Vec<u8>),
}

impl Cell {
    pub(crate) fn is_of(&self, kind: Kind) -> bool {
        match self {
            Self::Null => true,
            Self::Integer(_) => kind == Kind::Integer,
            Self::Bytes(_) => kind == Kind::Bytes,
        }
    }
}

fn beginning() -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..].copy_from_slice(&FORM.to_le_bytes());
    bytes
}

/// A backup that is being written. Until it is finished the file has another name.
pub(crate) struct Writer {
    path: PathBuf,
    draft: PathBuf,
    out: Option<BufWriter<File>>,
    content: Vec<u8>,
    checksum: Hash,
    rows: u64,
    bytes: u64,
}

impl Writer {
    pub(crate) fn create(path: &Path, head: &Head) -> Result<Self, BackupError> {
        if path.symlink_metadata().is_ok() {
            return Err(BackupError::Exists { path: path.to_owned() });
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let draft = path.with_file_name(name);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&draft);
        let file =
            file.map_err(|source| BackupError::File { action: "write", path: draft.clone(), source })?;
        let beginning = beginning();
        let mut writer = Self {
            path: path.to_owned(),
            draft,
            out: Some(BufWriter::new(file)),
            content: Vec::new(),
            checksum: hash(&beginning),
            rows: 0,
            bytes: 0,
        };
        writer.write(&beginning)?;
        writer.content = encode(head);
        writer.close_frame()?;
        Ok(writer)
    }

    fn failed(&self) -> impl Fn(io::Error) -> BackupError + use<> {
        let path = self.path.clone();
        move |source| BackupError::File { action: "write", path: path.clone(), source }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        let failed = self.failed();
        if let Some(out) = &mut self.out {
            out.write_all(bytes).map_err(failed)?;
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn push(&mut self, record: &Record) -> Result<(), BackupError> {
        if let Record::Row(_) = record {
            self.rows += 1;
        }
        self.content.extend_from_slice(&encode(record));
        if self.content.len() >= FRAME { self.close_frame() } else { Ok(()) }
    }

    fn close_frame(&mut self) -> Result<(), BackupError> {
        if self.content.is_empty() {
            return Ok(());
        }
        let content = std::mem::take(&mut self.content);
        let length = u32::try_from(content.len()).ok().filter(|length| *length <= FRAME_LIMIT);
        let too_long = || io::Error::other(format!("a row of {} bytes is too long", content.len()));
        let length = length.ok_or_else(|| self.failed()(too_long()))?;
        self.checksum = keyed(self.checksum.as_bytes(), &content);
        self.write(&length.to_le_bytes())?;
        self.write(&content)?;
        let checksum = self.checksum;
        self.write(checksum.as_bytes())
    }

    /// The backup is complete, durable, and has its name.
    pub(crate) fn finish(mut self, head: &Head) -> Result<Backup, BackupError> {
        self.close_frame()?;
        let mut end = 0_u32.to_le_bytes().to_vec();
        end.extend_from_slice(&self.rows.to_le_bytes());
        let checksum = keyed(self.checksum.as_bytes(), &end);
        end.extend_from_slice(checksum.as_bytes());
        self.write(&end)?;
        let failed = self.failed();
        let out = self.out.take();
        let durable = || {
            if let Some(out) = out {
                out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            }
            std::fs::rename(&self.draft, &self.path)?;
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        durable().map_err(failed)?;
        Ok(Backup {
            node: head.name()?,
            schema: head.schema,
            taken: head.taken(),
            rows: self.rows,
            bytes: self.bytes,
            checksum,
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Where it was finished the draft has its name, and there is nothing to remove.
        let _ = std::fs::remove_file(&self.draft);
    }
}

fn encode(value: &impl BorshSerialize) -> Vec<u8> {
    borsh::to_vec(value).expect("memory takes everything")
}

/// A backup that is being read. Every record is verified before it is given out.
pub(crate) struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    head: Head,
    content: Vec<u8>,
    /// How much of the content was given out.
    read: usize,
    checksum: Hash,
    rows: u64,
    bytes: u64,
    ended: bool,
}

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Self, BackupError> {
        let failed = |source| BackupError::File { action: "read", path: path.to_owned(), source };
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let mut found = Vec::new();
        (&mut file).take(12).read_to_end(&mut found).map_err(failed)?;
        let (Some(magic), Some(form)) = (found.get(..8), found.get(8..12)) else {
            return Err(BackupError::Foreign { path: path.to_owned() });
        };
        if magic != MAGIC {
            return Err(BackupError::Foreign { path: path.to_owned() });
        }
        let form = u32::from_le_bytes(form.try_into().unwrap_or_default());
        if form != FORM {
            return Err(BackupError::Form { found: form, known: FORM });
        }
        let mut reader = Self {
            path: path.to_owned(),
            file,
            head: Head { node: String::new(), schema: 0, taken_ms: 0 },
            content: Vec::new(),
            read: 0,
            checksum: hash(&beginning()),
            rows: 0,
            bytes: 12,
            ended: false,
        };
        if !reader.frame()? {
            return Err(damaged("it has no head"));
        }
        reader.head = borsh::from_slice(&reader.content).map_err(|_| damaged("its head does not decode"))?;
        reader.read = reader.content.len();
        Ok(reader)
    }

    /// What stands at the beginning.
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// The node that it is of.
    pub(crate) fn node(&self) -> Result<Name, BackupError> {
        self.head.name()
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>, BackupError> {
        // Grows with what is there, not with what the file says of itself.
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(length as u64).read_to_end(&mut bytes);
        read.map_err(|source| BackupError::File { action: "read", path: self.path.clone(), source })?;
        if bytes.len() < length {
            return Err(damaged("it ends too early"));
        }
        self.bytes += length as u64;
        Ok(bytes)
    }

    /// Reads the next frame; `false` at the end.
    fn frame(&mut self) -> Result<bool, BackupError> {
        let length = self.bytes(4)?;
        let number = u32::from_le_bytes(length[..].try_into().unwrap_or_default());
        if number > FRAME_LIMIT {
            return Err(damaged("a frame has no possible length"));
        }
        let content = if number == 0 {
            [length, self.bytes(8)?].concat()
        } else {
            self.bytes(usize::try_from(number).map_err(|_| damaged("a frame is too long"))?)?
        };
        let checksum = keyed(self.checksum.as_bytes(), &content);
        if self.bytes(CHECKSUM)? != checksum.as_bytes() {
            return Err(damaged(&format!("a checksum is wrong before byte {}", self.bytes)));
        }
        self.checksum = checksum;
        self.read = 0;
        if number > 0 {
            self.content = content;
            return Ok(true);
        }
        self.content.clear();
        self.ended = true;
        let rows = content.get(4..12).and_then(|rows| rows.try_into().ok()).map(u64::from_le_bytes);
        if rows != Some(self.rows) {
            return Err(damaged("it does not hold the rows that it should"));
        }
        let mut more = [0];
        match self.file.read(&mut more) {
            Ok(0) => Ok(false),
            Ok(_) => Err(damaged("something follows its end")),
            Err(source) => Err(BackupError::File { action: "read", path: self.path.clone(), source }),
        }
    }

    /// The next record; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, BackupError> {
        while self.read == self.content.len() {
            if self.ended || !self.frame()? {
                return Ok(None);
            }
        }
        let mut rest = &self.content[self.read..];
        let record = Record::deserialize(&mut rest).map_err(|_| damaged("a record does not decode"))?;
        self.read = self.content.len() - rest.len();
        if let Record::Row(_) = record {
            self.rows += 1;
        }
        Ok(Some(record))
    }

    /// What the backup says of itself, once it was read to its end.
    pub(crate) fn finish(self) -> Result<Backup, BackupError> {
        if !self.ended {
            return Err(damaged("it was not read to its end"));
        }
        Ok(Backup {
            node: self.head.name()?,
            schema: self.head.schema,
            taken: self.head.taken(),
            rows: self.rows,
            bytes: self.bytes,
            checksum: self.checksum,
        })
    }
}

fn damaged(reason: &str) -> BackupError {
    BackupError::Damaged { reason: reason.to_owned() }
}
