//! The audit log: every administrative act, a line of JSON each, with the hash of the line before
//! it.
//!
//! An act is recorded, on disk, before it is done: one that cannot be recorded is not done. The
//! file alone shows that a line was changed or taken out before its last one, by someone who did
//! not compute the hashes anew. Whoever may write the file can do that, change the last line, cut
//! lines off the end, and delete the file. All of this is found with the hash of a line that was
//! kept elsewhere, up to that line: [`AuditLog::verify`] gives it, [`AuditLog::verify_after`] looks
//! for it.

use super::{Quota, Role};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tally_crypto::Hash;
use tally_ledger::TransactionId;
use tally_settlement::engine::wall_clock;

/// The longest line, in bytes.
const MAX_LINE: usize = 64 << 10;

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Act {
    /// A user was let in, or given other rights.
    Grant {
        /// Who.
        user: String,
        /// BIC of the institution that the user acts for; none for every institution.
        institution: Option<String>,
        /// What the user may do.
        roles: BTreeSet<Role>,
        /// When the access ends, ISO 8601.
        expires: Option<String>,
        /// How much the user may send.
        quota: Quota,
    },
    /// A user was let in no more.
    Revoke {
        /// Who.
        user: String,
    },
    /// It was agreed how much all users of an institution may send together; none: as much as each of them may.
    Limit {
        /// BIC.
        institution: String,
        /// How much.
        quota: Option<Quota>,
    },
    /// A gateway read the access file, at its start or because the file was another.
    AccessFile {
        /// BLAKE3 of the file.
        hash: Hash,
    },
    /// An order for an account was handed in.
    AccountOrder {
        /// BIC of the institution whose account it is.
        institution: String,
        /// The account's number.
        account: u32,
        /// `open`, `freeze`, `release`, `close` or `limit`, and more where it says more.
        order: String,
        /// The transaction, by which the ledger tells what became of it.
        transaction: TransactionId,
    },
    /// An issue or a redemption was handed in.
    Issuance {
        /// `issue` or `redeem`.
        order: String,
        /// The transaction, by which the ledger tells what became of it.
        transaction: TransactionId,
    },
}

impl Act {
    /// The transaction by which it is done, where it is done by one.
    pub fn transaction(&self) -> Option<TransactionId> {
        match self {
            Self::AccountOrder { transaction, .. } | Self::Issuance { transaction, .. } => Some(*transaction),
            Self::Grant { .. } | Self::Revoke { .. } | Self::Limit { .. } | Self::AccessFile { .. } => None,
        }
    }
}

/// A line of the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its number, from 0.
    pub number: u64,
    /// When, by the machine's clock, ISO 8601.
    pub time: String,
    /// Who: the gateway's user, `gateway`, or `uid N` for who ran a command on its machine.
    pub by: String,
    /// What.
    pub act: Act,
    /// BLAKE3 of the line before, without its end; zeros in the first.
    pub before: Hash,
}

/// An act that was not recorded, or a log that is not as it was written.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file cannot be read or written.
    #[error("the audit log {path} cannot be written or read")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line is not what follows the one before it.
    #[error("line {line} of the audit log {path}: {what}")]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// No line has a hash that was kept from an earlier reading.
    #[error(
        "no line of the audit log {path} has the hash {hash}: what it had up to that line was changed, cut off or deleted \
         since, or the hash is of another log"
    )]
    Missing {
        /// Which file.
        path: PathBuf,
        /// The hash that was kept.
        hash: Hash,
    },
}

/// The file of a network's administrative acts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditLog {
    path: PathBuf,
}

impl AuditLog {
    /// Its usual name.
    pub const FILE: &str = "audit.jsonl";

    /// The log in that file, which need not be there yet.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The log in the directory of that file, under its usual name.
    pub fn beside(file: &Path) -> Self {
        Self::at(file.with_file_name(Self::FILE))
    }

    fn failed(&self) -> impl Fn(io::Error) -> AuditError + use<> {
        let path = self.path.clone();
        move |source| AuditError::File { path: path.clone(), source }
    }

    /// Records acts of one user, on disk when this returns. Several processes may write one log.
    ///
    /// # Errors
    /// When the file cannot be written, or its last line is none: nothing may be done then.
    pub fn record(&self, by: &str, acts: impl IntoIterator<Item = Act>) -> Result<(), AuditError> {
        let failed = self.failed();
        let is_new = !self.path.exists();
        let mut options = File::options();
        let mut file =
            options.read(true).append(true).create(true).mode(0o600).open(&self.path).map_err(&failed)?;
        file.lock().map_err(&failed)?;
        let (mut number, mut before) = self.last(&mut file)?;
        let time = crate::codec::time(wall_clock());
        let mut lines = Vec::new();
        for act in acts {
            tracing::info!(target: "audit", by, ?act);
            let record = Record { number, time: time.clone(), by: by.to_owned(), act, before };
            let line = serde_json::to_vec(&record).map_err(|error| failed(error.into()))?;
            (number, before) = (number + 1, tally_crypto::hash(&line));
            lines.extend_from_slice(&line);
            lines.push(b'\n');
        }
        file.write_all(&lines).and_then(|()| file.sync_data()).map_err(&failed)?;
        if is_new {
            super::file::sync_folder(&self.path).map_err(&failed)?;
        }
        Ok(())
    }

    /// Records an act of whoever runs this program, as [`Self::record`] does.
    ///
    /// # Errors
    /// As for that.
    pub fn record_own(&self, act: Act) -> Result<(), AuditError> {
        self.record(&format!("uid {}", rustix::process::getuid().as_raw()), [act])
    }

    /// The number and the `before` of the next line. What follows the last complete line was never recorded, and goes.
    fn last(&self, file: &mut File) -> Result<(u64, Hash), AuditError> {
        let failed = self.failed();
        let length = file.metadata().map_err(&failed)?.len();
        let from = length.saturating_sub(2 * MAX_LINE as u64);
        let mut end = Vec::new();
        file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(&mut end)).map_err(&failed)?;
        let complete = end.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if complete < end.len() {
            file.set_len(from + complete as u64).map_err(&failed)?;
            end.truncate(complete);
        }
        let Some(lines) = end.strip_suffix(b"\n") else { return Ok((0, Hash::default())) };
        let line = lines.rsplit(|byte| *byte == b'\n').next().unwrap_or(lines);
        let record: Record = serde_json::from_slice(line)
            .map_err(|error| failed(io::Error::other(format!("its last line is no record: {error}"))))?;
        Ok((record.number + 1, tally_crypto::hash(line)))
    }

    /// Shows `see` every record, and checks that each follows the one before. Returns the hash of
    /// the last line, zeros where there is none: who keeps it elsewhere gives it to
    /// [`Self::verify_after`] later.
    ///
    /// # Errors When the file cannot be read, or a line does not follow the one before it. That the
    /// last line was changed, that lines were cut off the end or that there is no file any more is
    /// no error here.
    pub fn verify(&self, see: impl FnMut(&Record)) -> Result<Hash, AuditError> {
        self.verify_after(Hash::default(), see)
    }

    /// As [`Self::verify`], from a hash on that an earlier reading gave: shows `see` the records
    /// after the line that has it. Zeros stand before the first line.
    ///
    /// # Errors As for [`Self::verify`], and [`AuditError::Missing`] when no line has that hash:
    /// then a line up to there was changed, cut off or deleted, the hashes after it computed anew
    /// or not.
    pub fn verify_after(&self, kept: Hash, mut see: impl FnMut(&Record)) -> Result<Hash, AuditError> {
        let failed = self.failed();
        let mut is_found = kept == Hash::default();
        let missing = || AuditError::Missing { path: self.path.clone(), hash: kept };
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return if is_found { Ok(Hash::default()) } else { Err(missing()) };
            }
            opened => opened.map_err(&failed)?,
        };
        file.lock_shared().map_err(&failed)?;
        let mut reader = BufReader::new(file);
        let (mut number, mut before, mut line) = (0, Hash::default(), Vec::new());
        loop {
            line.clear();
            let read = (&mut reader).take(MAX_LINE as u64).read_until(b'\n', &mut line).map_err(&failed)?;
            let wrong = |what: String| AuditError::Line { path: self.path.clone(), line: number + 1, what };
            if read == 0 {
                return if is_found { Ok(before) } else { Err(missing()) };
            }
            let Some(text) = line.strip_suffix(b"\n") else {
                return Err(wrong("it has no end".to_owned()));
            };
            let record: Record = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
            if record.number != number || record.before != before {
                return Err(wrong("it does not follow the line before it".to_owned()));
            }
            (number, before) = (number + 1, tally_crypto::hash(text));
            if is_found {
                see(&record);
            }
            is_found |= before == kept;
        }
    }

    /// Records that a gateway read that access file.
    pub(super) fn record_access_file(&self, path: &Path) -> Result<(), AuditError> {
        let read = fs::read(path).map_err(|source| AuditError::File { path: path.to_owned(), source })?;
        self.record("gateway", [Act::AccessFile { hash: tally_crypto::hash(&read) }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revoke(user: &str) -> Act {
        Act::Revoke { user: user.to_owned() }
    }

    fn users(log: &AuditLog) -> Result<Vec<String>, AuditError> {
        let mut users = Vec::new();
        log.verify(|record| match &record.act {
            Act::Revoke { user } => users.push(user.clone()),
            other => panic!("{other:?}"),
        })?;
        Ok(users)
    }

    #[test]
    fn a_log_is_chained_and_says_where_it_was_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let log = AuditLog::at(path.clone());
        assert_eq!(users(&log).unwrap(), [""; 0]);
        log.record("alice", [revoke("a"), revoke("b")]).unwrap();
        AuditLog::at(path.clone()).record("uid 0", [revoke("c")]).unwrap();
        assert_eq!(users(&log).unwrap(), ["a", "b", "c"]);
        let written = fs::read_to_string(&path).unwrap();

        // A line that a crash cut off was never recorded.
        fs::write(&path, format!("{written}{{\"number\":3,")).unwrap();
        assert!(matches!(users(&log), Err(AuditError::Line { line: 4, .. })));
        log.record("bob", [revoke("d")]).unwrap();
        assert_eq!(users(&log).unwrap(), ["a", "b", "c", "d"]);
        let written = fs::read_to_string(&path).unwrap();

        let lines: Vec<_> = written.lines().collect();
        let changed = [
            (written.replace("\"b\"", "\"x\""), 3),
            ([lines[0], lines[2], lines[3], ""].join("\n"), 2),
            ([lines[1], lines[0], lines[2], lines[3], ""].join("\n"), 1),
            (written.replace("alice", "mallory"), 2),
            (written.replace("\"number\":2", "\"number\":2,\"more\":1"), 3),
        ];
        for (text, at) in changed {
            fs::write(&path, &text).unwrap();
            let found = users(&log);
            assert!(matches!(found, Err(AuditError::Line { line, .. }) if line == at), "{at}: {found:?}");
        }
        fs::write(&path, "nothing of ours\n").unwrap();
        assert!(matches!(log.record("alice", [revoke("e")]), Err(AuditError::File { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "nothing of ours\n");
    }

    /// What an auditor reads later, who kept the hash of an earlier reading.
    fn since(log: &AuditLog, kept: Hash) -> Result<Hash, AuditError> {
        log.verify_after(kept, |_| {})
    }

    #[test]
    fn a_hash_that_was_kept_finds_what_was_changed_up_to_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let log = AuditLog::at(path.clone());
        log.record("alice", [revoke("a"), revoke("b"), revoke("c")]).unwrap();
        let kept = log.verify(|_| {}).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = written.lines().collect();
        let missing = |found: Result<Hash, AuditError>| match found {
            Err(AuditError::Missing { hash, .. }) => hash == kept,
            other => panic!("{other:?}"),
        };

        // The log went on since, or did not.
        assert_eq!(since(&log, kept).unwrap(), kept);
        log.record("bob", [revoke("d")]).unwrap();
        let last = since(&log, kept).unwrap();
        let mut shown = Vec::new();
        log.verify_after(kept, |record| shown.push((record.number, record.by.clone()))).unwrap();
        assert_eq!(shown, [(3, "bob".to_owned())]);
        assert_eq!(last, tally_crypto::hash(fs::read(&path).unwrap().split(|b| *b == b'\n').nth(3).unwrap()));
        assert_eq!(since(&log, last).unwrap(), last);

        // The last line is another: each line follows the one before it all the same.
        fs::write(&path, written.replace("\"c\"", "\"x\"")).unwrap();
        log.verify(|_| {}).unwrap();
        assert!(missing(since(&log, kept)));
        // And the log goes on after it.
        log.record("mallory", [revoke("d")]).unwrap();
        assert!(missing(since(&log, kept)));

        // Lines are cut off the end.
        fs::write(&path, [lines[0], lines[1], ""].join("\n")).unwrap();
        log.verify(|_| {}).unwrap();
        assert!(missing(since(&log, kept)));
        fs::write(&path, "").unwrap();
        assert!(missing(since(&log, kept)));

        // The file is deleted, and then begun anew.
        fs::remove_file(&path).unwrap();
        log.verify(|_| {}).unwrap();
        assert!(missing(since(&log, kept)));
        log.record("mallory", [revoke("a"), revoke("b"), revoke("c")]).unwrap();
        assert!(missing(since(&log, kept)));

        // A log that had no line yet is the beginning of every log.
        since(&log, Hash::default()).unwrap();
        fs::remove_file(&path).unwrap();
        since(&log, Hash::default()).unwrap();
    }

    #[test]
    fn many_write_one_log() {
        let directory = tempfile::tempdir().unwrap();
        let log = AuditLog::at(directory.path().join("audit.jsonl"));
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let log = log.clone();
                scope.spawn(move || {
                    (0..10).for_each(|act| log.record("x", [revoke(&format!("{writer}-{act}"))]).unwrap());
                });
            }
        });
        assert_eq!(users(&log).unwrap().len(), 40);
    }
}
