//! Settlement as processes of its own, on real brokers: killed, paused, started twice, cut off.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod cancellation;
mod faults;
mod history;
mod hostile;
mod institutions;
mod load;
mod network;
#[path = "../common/payments.rs"]
mod payments;
#[path = "../common/said.rs"]
mod said;
