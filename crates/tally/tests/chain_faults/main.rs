//! Networks of a chain's nodes as their operators have them, real processes on real disks: killed, absent, out of
//! space, and with files that are not as they should be.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod absence;
mod client;
mod devnet;
mod disk;
mod kill;
mod load;
mod options;
mod refusals;
#[path = "../common/said.rs"]
mod said;
mod support;
