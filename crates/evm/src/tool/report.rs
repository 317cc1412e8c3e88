//! What the test commands take and print.

use std::io::Write;

use alloy_primitives::B256;
use serde::Serialize;

use super::ToolError;

/// How tests are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Run only tests whose name contains this.
    pub filter: Option<String>,
    /// Run only this fork's.
    pub fork: Option<String>,
    /// Write a trace of each instruction (EIP-3155).
    pub trace: bool,
    /// With the memory in the trace.
    pub trace_memory: bool,
    /// Threads to use; a trace uses one.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { filter: None, fork: None, trace: false, trace_memory: false, threads: 2 }
    }
}

impl Options {
    pub(super) fn takes(&self, name: &str, fork: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
            && self.fork.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(fork))
    }
}

/// What came of one test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    /// Its name in the file.
    pub name: String,
    /// Whether everything was as the file says.
    pub pass: bool,
    /// The state root afterwards, where there is a state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_root: Option<B256>,
    /// The fork or network.
    pub fork: String,
    /// What was different.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl TestResult {
    pub(super) fn new(name: &str, fork: &str, state_root: Option<B256>, outcome: Result<(), String>) -> Self {
        Self {
            name: name.to_owned(),
            pass: outcome.is_ok(),
            state_root,
            fork: fork.to_owned(),
            error: outcome.err(),
        }
    }
}

/// Writes results as the JSON list that test drivers read.
///
/// # Errors
/// The output cannot be written.
pub fn write_results(results: &[TestResult], output: &mut dyn Write) -> Result<(), ToolError> {
    serde_json::to_writer_pretty(&mut *output, results).map_err(|error| ToolError::Output(error.into()))?;
    output.write_all(b"\n").map_err(ToolError::Output)
}
