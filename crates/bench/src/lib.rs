//! Workloads, load drivers, recorders, experiments, reports.
//!
//! | module | promise |
//! | --- | --- |
//! | [`limits`] | what this machine can do at best, measured in this run |
//! | [`pace`] | when the next batch is due, open loop or closed loop; no clock |
//! | [`recorder`] | latency from the intended start, throughput for each second |
//! | [`result`] | one experiment is one line of JSON with raw samples, commit, settings and machine |
//! | [`compare`] | two sets of results: the ratio of medians with its interval, or "no difference seen" |
//! | [`published`] | figures that others have published, with their sources |
//! | [`workload`] | a network for a benchmark, its accounts, and batches of payments |
//! | [`ceiling`] | figures as shares of what the machine allows; those beyond it are not believed |
//! | [`work`] | what a transaction needs at the very least: the limit of a stage |
//! | [`stages`] | each stage alone |
//! | [`settlement`] | the whole network under load |
//! | [`cluster`] | the same over Kafka, each stage a process of its own |
//! | [`recovery`] | how fast a journal is read back |
//! | [`chain`] | an EVM chain under load, each node a process: transactions, reads, import |
//! | [`evm`] | gas per second of the EVM, beside bare `revm` |
//! | [`gateway`] | the gateway under load: a stream over gRPC, single payments over HTTP, payment messages |
//! | [`flows`] | nodes of the flows ledger under load, each a process |
//! | [`fact`] | single figures, with what they are to be |
//! | [`processes`] | what processes use over time |
//! | [`suite`] | the whole network, experiment by experiment |
//! | [`report`] | measurements in tables and pages, with published figures and limits beside them |
//! | [`table`], [`progress`] | what a person sees |
//!
//! How the figures are taken and what they are worth: `docs/decisions/005-benchmarks.md`.

pub mod ceiling;
pub mod chain;
pub mod cluster;
pub mod compare;
pub mod evm;
pub mod fact;
pub mod flows;
pub mod gateway;
pub mod limits;
pub mod pace;
pub mod processes;
pub mod progress;
pub mod published;
pub mod recorder;
pub mod recovery;
pub mod report;
pub mod result;
pub mod settlement;
pub mod stages;
mod statistics;
pub mod suite;
pub mod table;
pub mod work;
pub mod workload;
