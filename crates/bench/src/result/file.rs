//! Records in files: one JSON object for each line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use super::{Record, RecordError, Timestamp};
use crate::ceiling::BeyondLimit;

/// The longest line that is read, in bytes: room for a day of samples for each second and a histogram.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// What is wrong with a file of results.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// The file or directory cannot be opened, read or written.
    #[error("{}: cannot {action}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A line is not a record.
    #[error("{}:{line}: not a result: {source}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the decoder says.
        source: serde_json::Error,
    },
    /// A record contradicts itself.
    #[error("{}:{line}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The contradiction.
        source: RecordError,
    },
    /// A line is longer than what is read.
    #[error("{}:{line}: longer than {MAX_LINE_BYTES} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A directory without results.
    #[error("{}: holds no results-*.jsonl", path.display())]
    Nothing {
        /// The directory.
        path: PathBuf,
    },
    /// A record that must not be written.
    #[error("the record of {key} is not written: {source}")]
    Unwritable {
        /// Which record.
        key: String,
        /// What is wrong with it.
        source: RecordError,
    },
}

/// Appends records to one file.
#[derive(Debug)]
pub struct ResultWriter {
    path: PathBuf,
    file: File,
    beyond: Vec<BeyondLimit>,
}

impl ResultWriter {
    /// Makes `directory` where needed, and in it `results-<now>-<process>.jsonl`.
    ///
    /// # Errors
    /// [`ResultError::Io`].
    pub fn create(directory: &Path) -> Result<Self, ResultError> {
        std::fs::create_dir_all(directory).map_err(failed(directory, "make the directory"))?;
        let name = format!("results-{}-{}.jsonl", Timestamp::now().compact(), std::process::id());
        let path = directory.join(name);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(failed(&path, "open for writing"))?;
        Ok(Self { path, file, beyond: Vec::new() })
    }

    /// The file that is written.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was appended so far that is beyond its limit: benchmarks that are wrong.
    #[must_use]
    pub fn beyond(&self) -> &[BeyondLimit] {
        &self.beyond
    }

    /// Appends one record as one line, in one write.
    ///
    /// # Errors
    /// [`ResultError::Unwritable`] for a record that a reader would refuse; [`ResultError::Io`].
    pub fn append(&mut self, record: &Record) -> Result<(), ResultError> {
        record.check().map_err(|source| ResultError::Unwritable { key: record.key(), source })?;
        let io = failed(&self.path, "write");
        let mut line = serde_json::to_vec(record).map_err(|error| io(error.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(io)?;
        self.beyond.extend(BeyondLimit::of(record));
        Ok(())
    }
}

/// Reads the records of a file, or of every `results-*.jsonl` of a directory in order of name.
///
/// # Errors
/// [`ResultError`] for the first line that is not a record; an empty line is one.
pub fn read(path: &Path) -> Result<Vec<Record>, ResultError> {
    if !path.is_dir() {
        return read_file(path);
    }
    let io = failed(path, "list the directory");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(&io)? {
        let file = entry.map_err(&io)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("results-") && name.ends_with(".jsonl") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(ResultError::Nothing { path: path.to_owned() });
    }
    files.sort();
    let mut records = Vec::new();
    for file in files {
        records.extend(read_file(&file)?);
    }
    Ok(records)
}

fn read_file(path: &Path) -> Result<Vec<Record>, ResultError> {
    let io = failed(path, "read");
    let mut reader = BufReader::new(File::open(path).map_err(&io)?);
    let mut records = Vec::new();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let limited = (&mut reader).take(MAX_LINE_BYTES as u64 + 1);
        if { limited }.read_until(b'\n', &mut bytes).map_err(&io)? == 0 {
            break;
        }
        if bytes.len() > MAX_LINE_BYTES {
            return Err(ResultError::TooLong { path: path.to_owned(), line });
        }
        let record: Record = serde_json::from_slice(&bytes).map_err(|source| ResultError::Form {
            path: path.to_owned(),
            line,
            source,
        })?;
        record.check().map_err(|source| ResultError::Record { path: path.to_owned(), line, source })?;
        records.push(record);
    }
    Ok(records)
}

fn failed(path: &Path, action: &'static str) -> impl Fn(io::Error) -> ResultError {
    let path = path.to_owned();
    move |source| ResultError::Io { path: path.clone(), action, source }
}
