//! Logs on real Kafka brokers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kafka {
    pub(crate) mod basics;
    pub(crate) mod faults;
    pub(crate) mod foreign;
    pub(crate) mod secured;
    pub(crate) mod shared;
}
