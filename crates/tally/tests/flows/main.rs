//! Networks of nodes as their users have them: real processes, real databases, TLS on real sockets.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod books;
mod commands;
mod crash;
mod disk;
mod hostile;
mod load;
mod operations;
mod pasts;
mod refusals;
#[path = "../common/said.rs"]
mod said;
mod support;
