//! Finding test files and running them over several threads.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};

use crate::genesis::GenesisError;

/// Why the tool could not do its work; a test that fails is no such error.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// A file or directory cannot be read.
    #[error("`{path}` cannot be read", path = .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is no JSON.
    #[error("`{path}` is not JSON", path = .path.display())]
    Json {
        /// Which.
        path: PathBuf,
        /// Where it breaks off.
        #[source]
        source: serde_json::Error,
    },
    /// A field of an input has a value that it cannot have.
    #[error(transparent)]
    Field(#[from] GenesisError),
    /// A fork that is not known.
    #[error(transparent)]
    Network(#[from] crate::schedule::UnknownNetwork),
    /// Output cannot be written.
    #[error("the output cannot be written")]
    Output(#[source] std::io::Error),
    /// The transaction of a run was refused.
    #[error("the transaction was refused")]
    Refused(#[source] crate::execute::Refusal),
}

/// Every `.json` file under the paths, in order of name; a path that is a file stands for itself.
pub(super) fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ToolError> {
    let mut found = Vec::new();
    for path in paths {
        visit(path, &mut found)?;
    }
    Ok(found)
}

fn visit(path: &Path, found: &mut Vec<PathBuf>) -> Result<(), ToolError> {
    let failed = |source| ToolError::File { path: path.to_owned(), source };
    if !std::fs::metadata(path).map_err(failed)?.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    let mut entries = std::fs::read_dir(path)
        .and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()
        })
        .map_err(failed)?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() || entry.extension().is_some_and(|extension| extension == "json") {
            visit(&entry, found)?;
        }
    }
    Ok(())
}

/// The tests of a file by name; entries that begin with an underscore are notes.
pub(super) fn tests(path: &Path) -> Result<Map<String, Value>, ToolError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ToolError::File { path: path.to_owned(), source })?;
    let mut tests: Map<String, Value> =
        serde_json::from_str(&text).map_err(|source| ToolError::Json { path: path.to_owned(), source })?;
    tests.retain(|name, _| !name.starts_with('_'));
    Ok(tests)
}

/// Applies `work` to each item over `threads` threads; results are in the order of the items.
pub(super) fn spread<T: Sync, O: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> O + Sync) -> Vec<O> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, O)>> = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let output = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, output));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, output)| output).collect()
}
