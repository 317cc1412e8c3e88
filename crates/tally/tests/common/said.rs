//! The program, and what it said.

use std::process::{Command, Output, Stdio};

pub(crate) fn tally() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
    command.env_remove("TALLY_NETWORK").env_remove("TALLY_PASSPHRASE").env_remove("TALLY_LOG");
    command.stdin(Stdio::null());
    command
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
