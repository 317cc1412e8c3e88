//! Files that only their owner may read.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a new file, readable by its owner only, which appears at once with its contents and is
/// durable when this returns.
///
/// # Errors
/// [`io::Error`]; of kind [`io::ErrorKind::AlreadyExists`] when there is such a file, which is left as
/// it is.
pub fn create_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".new")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(directory)?;
    file.write_all(contents)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    fs::File::open(directory)?.sync_all()
}
