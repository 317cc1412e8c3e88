//! Settlement as processes of its own, on real brokers: killed, paused, started twice, cut off.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod faults;
mod network;
#[path = "../common/payments.rs"]
#[allow(dead_code, reason = "the tests of one process try more of it")]
mod payments;
#[path = "../common/said.rs"]
#[allow(dead_code, reason = "read where a command fails")]
mod said;
