//! What every process of Tallystick needs around its work, and nothing about the work itself.
//!
//! | module | promise |
//! | --- | --- |
//! | [`config`] | one TOML file, overridden by environment, then by flags; an error names file, line, column and key |
//! | [`metrics`] | counters, gauges and histograms, rendered as OpenMetrics text |
//! | [`memory`] | how this process asks for memory |
//! | [`shutdown`] | SIGTERM and SIGINT become a token that drains; a second signal ends the process |
//! | [`ports`] | free ports of the loopback interface, for networks on one machine |
//! | [`process`] | processor time and memory of this process, and a description of the machine |
//! | [`telemetry`] | structured log lines on standard error |
//!
//! This is the lowest layer: no other crate of the workspace is used here, and no asynchronous runtime.

pub mod config;
pub mod memory;
pub mod metrics;
pub mod ports;
pub mod process;
pub mod shutdown;
pub mod telemetry;
