//! What is written: the same bytes as the files in `tests/data/written`, which `scripts/check-iso20022` checks
//! against the published schemas, and the same content when read back.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod documents;
mod golden;
mod headers;
mod investigations;
mod pages;
mod returns;
mod samples;
mod statements;
