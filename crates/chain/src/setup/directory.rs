//! A directory that appears at once with everything in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A directory that is being made beside the place where it is to appear. Dropped before
/// [`Draft::publish`], it leaves nothing.
#[derive(Debug)]
pub(super) struct Draft {
    workplace: tempfile::TempDir,
    inside: PathBuf,
    target: PathBuf,
}

/// Why a directory cannot be made there.
#[derive(Debug, thiserror::Error)]
pub(super) enum DraftError {
    /// Something is there already.
    #[error("it is not an empty directory")]
    Occupied,
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Draft {
    /// Begins a directory that is to appear at `target`, which must not be there or be empty.
    pub(super) fn begin(target: &Path) -> Result<Self, DraftError> {
        match fs::read_dir(target) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(DraftError::Occupied);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(DraftError::Occupied),
            Err(error) => return Err(error.into()),
        }
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent)?;
        let workplace = tempfile::Builder::new().prefix(".tally-init").tempdir_in(parent)?;
        let inside = workplace.path().join("made");
        fs::create_dir(&inside)?;
        Ok(Self { workplace, inside, target: target.to_owned() })
    }

    /// Where its contents are written.
    pub(super) fn path(&self) -> &Path {
        &self.inside
    }

    /// Lets it appear, durably.
    pub(super) fn publish(self) -> Result<(), DraftError> {
        sync(&self.inside)?;
        match fs::rename(&self.inside, &self.target) {
            Ok(()) => {}
            // Someone else has put something there meanwhile.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty
                        | io::ErrorKind::AlreadyExists
                        | io::ErrorKind::NotADirectory
                ) =>
            {
                return Err(DraftError::Occupied);
            }
            Err(error) => return Err(error.into()),
        }
        if let Some(parent) = self.workplace.path().parent() {
            fs::File::open(parent)?.sync_all()?;
        }
        self.workplace.close()?;
        Ok(())
    }
}

/// Makes everything in a directory durable.
fn sync(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { sync(&path)? } else { fs::File::open(&path)?.sync_all()? }
    }
    fs::File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_appears_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("a/b");
        let draft = Draft::begin(&target).unwrap();
        fs::write(draft.path().join("file"), "contents").unwrap();
        assert!(!target.exists());
        drop(draft);
        assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 0, "nothing is left");
        let draft = Draft::begin(&target).unwrap();
        fs::write(draft.path().join("file"), "contents").unwrap();
        draft.publish().unwrap();
        assert_eq!(fs::read(target.join("file")).unwrap(), b"contents");
        assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn what_is_there_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        assert!(Draft::begin(place.path()).is_ok(), "an empty directory may be filled");
        let draft = Draft::begin(&place.path().join("net")).unwrap();
        fs::create_dir(place.path().join("net")).unwrap();
        fs::write(place.path().join("net/file"), "mine").unwrap();
        assert!(matches!(draft.publish(), Err(DraftError::Occupied)), "it came meanwhile");
        assert!(matches!(Draft::begin(&place.path().join("net")), Err(DraftError::Occupied)));
        assert!(matches!(Draft::begin(&place.path().join("net/file")), Err(DraftError::Occupied)));
        assert_eq!(fs::read(place.path().join("net/file")).unwrap(), b"mine");
    }
}
