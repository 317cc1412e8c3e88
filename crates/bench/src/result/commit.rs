//! Which source a program was built from.

use std::process::Command;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// A commit, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// The revision in hexadecimal digits.
    pub revision: Option<String>,
    /// Whether tracked files differed from it.
    pub dirty: Option<bool>,
}

impl Commit {
    /// The commit of this build.
    ///
    /// `TALLY_COMMIT` at compile time says it for a release (`<revision>`, or `<revision>-dirty`); otherwise the
    /// git checkout of the working directory is asked, once, which is right where one builds and runs in it.
    #[must_use]
    pub fn of_this_build() -> Self {
        static COMMIT: OnceLock<Commit> = OnceLock::new();
        COMMIT.get_or_init(|| option_env!("TALLY_COMMIT").map_or_else(Self::of_checkout, Self::parse)).clone()
    }

    fn parse(text: &str) -> Self {
        let (revision, dirty) = match text.strip_suffix("-dirty") {
            Some(revision) => (revision, true),
            None => (text, false),
        };
        Self { revision: Some(revision.to_owned()), dirty: Some(dirty) }
    }

    fn of_checkout() -> Self {
        let revision = git(&["rev-parse", "HEAD"]).filter(|revision| !revision.is_empty());
        let dirty = revision
            .as_ref()
            .and_then(|_| git(&["status", "--porcelain", "--untracked-files=no"]))
            .map(|changes| !changes.is_empty());
        Self { revision, dirty }
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_says_its_commit() {
        let clean = Commit { revision: Some("abc123".to_owned()), dirty: Some(false) };
        assert_eq!(Commit::parse("abc123"), clean);
        assert_eq!(Commit::parse("abc123-dirty"), Commit { dirty: Some(true), ..clean });
    }

    #[test]
    fn a_checkout_is_asked() {
        let commit = Commit::of_checkout();
        if let Some(revision) = &commit.revision {
            assert!(revision.len() >= 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit()));
            assert!(commit.dirty.is_some());
        } else {
            assert_eq!(commit.dirty, None);
        }
    }
}
