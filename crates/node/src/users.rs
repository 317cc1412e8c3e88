//! The users' file of a running node: what is changed in it counts without a restart.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use tally_rpc::{Admission, Users, UsersError};

use crate::desk::full_text;

/// What tells one content of the file from the next: inode, length, and when it was changed.
type Stamp = (u64, u64, i64, i64);

/// The file, and how it was when it was read last.
pub(crate) struct UsersFile {
    path: PathBuf,
    seen: Option<Stamp>,
    /// How it was when it was looked at last. A file is read once two looks find it the same, since a program may write
    /// it piece by piece.
    looked_at: Option<Stamp>,
}

impl UsersFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, seen: None, looked_at: None }
    }

    /// The users that are in the file.
    pub(crate) fn read(&mut self) -> Result<Users, UsersError> {
        // Looked at before it is read: what is changed in between is read again.
        self.seen = self.stamp();
        Users::read(&self.path)
    }

    /// Lets in those who are in the file now, if it was changed. A file that cannot be used changes nothing: the users
    /// of before stay, and the log says why.
    pub(crate) fn refresh(&mut self, admission: &Admission) {
        let now = self.stamp();
        let settled = std::mem::replace(&mut self.looked_at, now) == now;
        if now == self.seen || !settled {
            return;
        }
        match self.read() {
            Ok(users) => {
                let count = users.iter().count();
                admission.replace(users);
                tracing::info!(count, file = %self.path.display(), "the users were read again");
            }
            Err(error) => {
                let error = full_text(&error);
                tracing::warn!(error, "the users were not read again; those of before stay");
            }
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some((metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec()))
    }
}
