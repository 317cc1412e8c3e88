//! `static-nodes.json` as Besu and geth read it: a list of enode URLs to keep sessions with.

use crate::enode::{Enode, EnodeError};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The largest file that is read.
const LARGEST_FILE: u64 = 4 << 20;

/// Reads the list; a file that is missing or empty is an empty list, as for Besu.
///
/// # Errors
/// [`StaticNodesError`], with the path and, when an entry is wrong, its place in the list.
pub fn read(path: &Path) -> Result<Vec<Enode>, StaticNodesError> {
    let fail = |fault| StaticNodesError { path: path.to_owned(), fault };
    let mut text = Vec::new();
    match fs::File::open(path) {
        Ok(file) => {
            file.take(LARGEST_FILE + 1)
                .read_to_end(&mut text)
                .map_err(|error| fail(StaticNodesFault::Io(error)))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fail(StaticNodesFault::Io(error))),
    }
    parse(&text).map_err(fail)
}

/// Reads the contents of such a file.
///
/// # Errors
/// [`StaticNodesFault`].
pub fn parse(text: &[u8]) -> Result<Vec<Enode>, StaticNodesFault> {
    if text.len() as u64 > LARGEST_FILE {
        return Err(StaticNodesFault::Large);
    }
    if text.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let entries: Vec<String> = serde_json::from_slice(text).map_err(StaticNodesFault::Json)?;
    let parse = |(index, entry): (usize, &String)| {
        entry.parse().map_err(|fault| StaticNodesFault::Entry { index, fault })
    };
    entries.iter().enumerate().map(parse).collect()
}

/// The contents of a file that lists these nodes.
#[must_use]
pub fn format(nodes: &[Enode]) -> String {
    let urls: Vec<_> = nodes.iter().map(|node| format!("  \"{node}\"")).collect();
    if urls.is_empty() { "[]\n".to_owned() } else { format!("[\n{}\n]\n", urls.join(",\n")) }
}

/// A list of static nodes that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the list of static nodes {} cannot be used", path.display())]
pub struct StaticNodesError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub fault: StaticNodesFault,
}

/// What is wrong with a list of static nodes.
#[derive(Debug, thiserror::Error)]
pub enum StaticNodesFault {
    /// Larger than any such list.
    #[error("the file is larger than {LARGEST_FILE} bytes")]
    Large,
    /// Not a JSON list of texts.
    #[error("the file is no JSON list of enode URLs")]
    Json(#[source] serde_json::Error),
    /// An entry that is no enode URL.
    #[error("entry {index} (counted from 0) is no enode URL")]
    Entry {
        /// Its place.
        index: usize,
        /// What is wrong with it.
        #[source]
        fault: EnodeError,
    },
    /// The file system refused.
    #[error("the file cannot be read")]
    Io(#[source] io::Error),
}
