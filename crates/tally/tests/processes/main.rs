//! Tests of the program as its users have it: real processes, real files, real HTTP.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod access;
mod events;
mod gateway;
mod http;
mod kill;
mod measures;
mod messages;
mod networks;
#[path = "../common/payments.rs"]
mod payments;
mod reference;
#[path = "../common/said.rs"]
mod said;
mod support;
