//! What every process of Tallystick needs around its work, and nothing about the work itself.
//!
//! | module | promise |
//! | --- | --- |
//! | [`config`] | one TOML file, overridden by environment, then by flags; an error names file, line, column and key |
//! | [`connections`] | who keeps a connection to a listener when there are too many |
//! | [`descriptors`] | how many files and connections this process may have open |
//! | [`metrics`] | counters, gauges and histograms, rendered as OpenMetrics text |
//! | [`memory`] | how this process asks for memory |
//! | [`shutdown`] | SIGTERM and SIGINT become a token that drains; a second signal ends the process |
//! | [`ports`] | free ports of the loopback interface, for networks on one machine |
//! | [`process`] | processor time and memory of this process, and a description of the machine |
//! | [`telemetry`] | structured log lines on standard error |
//!
//! This is the lowest layer: no other crate of the workspace is used here, and no asynchronous runtime.

pub mod config;
pub mod connections;
pub mod descriptors;
pub mod memory;
pub mod metrics;
pub mod ports;
pub mod process;
pub mod shutdown;
pub mod telemetry;
