//! The tool around the machine: the Ethereum tests, traces, and runs of single codes.

mod block_test;
mod chain;
mod encoding_test;
mod files;
mod memory;
mod opcode_trace;
#[cfg(test)]
pub(crate) mod reference;
mod report;
mod run;
mod state_test;
#[cfg(test)]
mod tests;
mod transaction_test;

pub use block_test::block_tests;
pub(crate) use chain::Chain;
pub use encoding_test::{rlp_tests, trie_tests};
pub use files::ToolError;
pub use memory::{Memory, UnknownCode};
pub use opcode_trace::OpcodeTrace;
pub(crate) use opcode_trace::message;
pub use report::{Options, TestResult, write_results};
pub use run::{Run, RunOutcome, run};
pub use state_test::state_tests;
pub use transaction_test::transaction_tests;
