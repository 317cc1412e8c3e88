//! Log lines that cannot be written.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::File;
use std::process::Command;

use tally_ops::telemetry::{Format, init};

/// Runs in a process of its own, whose standard error takes nothing.
#[test]
#[ignore = "started by the other test"]
fn speaker() {
    init("info", Format::Text).unwrap();
    tracing::info!("nobody reads this");
    println!("\nalive");
}

#[test]
fn a_line_that_cannot_be_written_does_not_end_who_has_something_to_say() {
    // As on a full disk.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "speaker", "--nocapture"])
        .stderr(full)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("\nalive\n"), "{said}");
}
