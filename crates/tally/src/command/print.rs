//! How outcomes look on the terminal.

use super::Ended;
use std::io::{self, Write};
use tally_gateway::wire::{OutcomeView, Status};

/// Writes a line to standard output. A reader that went away ends the program quietly.
pub(super) fn line(text: &str) {
    if let Err(error) = writeln!(io::stdout().lock(), "{text}") {
        let code = if error.kind() == io::ErrorKind::BrokenPipe { 0 } else { 2 };
        std::process::exit(code);
    }
}

/// Shows what became of a transaction.
pub(super) fn outcome(outcome: &OutcomeView) -> Ended {
    let mut text = format!("{} {}", outcome.status.code(), outcome.uetr);
    if let Some(sequence) = outcome.sequence {
        text.push_str(&format!("  sequence {sequence}"));
    }
    if let Some(time) = &outcome.time {
        text.push_str(&format!("  {time}"));
    }
    if let Some(reason) = &outcome.reason {
        text.push_str(&format!("  {} {}", reason.code, reason.text));
    }
    line(&text);
    if outcome.status == Status::Refused { Ended::Refused } else { Ended::Well }
}

/// A number of minor units with its decimals.
pub(super) fn decimal(minor_units: i128, exponent: u8) -> String {
    tally_ledger::amount::Decimal(minor_units, exponent).to_string()
}

/// A time as RFC 3339 in UTC, from milliseconds since the Unix epoch.
pub(super) fn time(millis: u64) -> String {
    let since = std::time::Duration::from_millis(millis);
    match std::time::UNIX_EPOCH.checked_add(since) {
        // Later years have no such form.
        Some(time) if millis < 253_402_300_800_000 => humantime::format_rfc3339_millis(time).to_string(),
        _ => format!("{millis} ms"),
    }
}
