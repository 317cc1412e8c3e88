//! One node of a network.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use alloy_primitives::B256;
use serde_json::Value;
use tally_ops::shutdown::Shutdown;

use super::process::{Process, Program};
use crate::chain::ChainBenchError;
use crate::chain::http::{Client, result};

/// A node of a network, running or not.
#[derive(Debug)]
pub struct Node {
    label: String,
    directory: PathBuf,
    validator: bool,
    process: Option<Process>,
}

impl Node {
    pub(super) fn new(label: String, directory: PathBuf, validator: bool) -> Self {
        Self { label, directory, validator, process: None }
    }

    /// What it is called in reports.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether it is a validator.
    #[must_use]
    pub fn is_validator(&self) -> bool {
        self.validator
    }

    /// Its process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// What its process writes to standard error.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Adds lines to its configuration.
    ///
    /// # Errors
    /// [`ChainBenchError::File`].
    pub fn configure(&self, lines: &str) -> Result<(), ChainBenchError> {
        let file = self.directory.join("config.toml");
        let append = || File::options().append(true).open(&file)?.write_all(lines.as_bytes());
        append().map_err(ChainBenchError::file(&file))
    }

    /// Changes a line of its configuration.
    ///
    /// # Errors
    /// [`ChainBenchError::File`], and [`ChainBenchError::Plan`] when there is no such line.
    pub fn reconfigure(&self, line: &str, instead: &str) -> Result<(), ChainBenchError> {
        let file = self.directory.join("config.toml");
        let text = std::fs::read_to_string(&file).map_err(ChainBenchError::file(&file))?;
        if !text.contains(line) {
            return Err(ChainBenchError::Plan(format!("{} has no line {line}", file.display())));
        }
        std::fs::write(&file, text.replacen(line, instead, 1)).map_err(ChainBenchError::file(&file))
    }

    pub(super) fn run(&mut self, program: &Program, stop: &Shutdown) -> Result<(), ChainBenchError> {
        assert!(self.process.is_none(), "{} runs", self.label);
        self.process = Some(Process::start(program, &self.label, &self.directory, &self.log(), stop)?);
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<(), ChainBenchError> {
        self.process.take().map_or(Ok(()), |process| process.end(&self.label))
    }

    /// Where it takes calls over HTTP.
    ///
    /// # Errors
    /// [`ChainBenchError::Plan`] when it does not run.
    pub fn address(&self) -> Result<SocketAddr, ChainBenchError> {
        let process = self.process.as_ref();
        process
            .map(Process::http)
            .ok_or_else(|| ChainBenchError::Plan(format!("{} does not run", self.label)))
    }

    /// A connection for calls.
    ///
    /// # Errors
    /// [`ChainBenchError`] when it does not run or does not let one in.
    pub fn client(&self) -> Result<Caller, ChainBenchError> {
        let client = Client::connect(self.address()?).map_err(ChainBenchError::call(&self.label))?;
        Ok(Caller { label: self.label.clone(), client })
    }
}

/// A connection to a node, for calls whose answers are read.
#[derive(Debug)]
pub struct Caller {
    label: String,
    client: Client,
}

impl Caller {
    /// The connection itself.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Calls a method and reads the text of its result.
    ///
    /// # Errors
    /// [`ChainBenchError`]; an error in the answer is one.
    pub fn text(&mut self, method: &str, params: &str) -> Result<&[u8], ChainBenchError> {
        let answer = self.client.call(method, params).map_err(ChainBenchError::call(&self.label))?;
        result(answer).ok_or_else(|| ChainBenchError::answer(method, answer))
    }

    /// Calls a method and reads its result.
    ///
    /// # Errors
    /// [`ChainBenchError`]; an error in the answer is one.
    pub fn call<T: serde::de::DeserializeOwned>(
        &mut self,
        method: &str,
        params: &str,
    ) -> Result<T, ChainBenchError> {
        let text = self.text(method, params)?;
        serde_json::from_slice(text).map_err(|_| ChainBenchError::answer(method, text))
    }

    /// The newest block's number.
    ///
    /// # Errors
    /// [`ChainBenchError`].
    pub fn block_number(&mut self) -> Result<u64, ChainBenchError> {
        let text = self.text("eth_blockNumber", "[]")?;
        quantity(text).ok_or_else(|| ChainBenchError::answer("eth_blockNumber", text))
    }

    /// The receipt of a transaction, when it is there: its block, and whether the transaction succeeded.
    ///
    /// # Errors
    /// [`ChainBenchError`].
    pub fn receipt(&mut self, hash: &B256) -> Result<Option<(u64, bool)>, ChainBenchError> {
        const METHOD: &str = "eth_getTransactionReceipt";
        let receipt: Value = self.call(METHOD, &format!(r#"["{hash}"]"#))?;
        if receipt.is_null() {
            return Ok(None);
        }
        let number = receipt["blockNumber"].as_str().and_then(hexadecimal);
        match (number, receipt["status"].as_str()) {
            (Some(number), Some(status)) => Ok(Some((number, status == "0x1"))),
            _ => Err(ChainBenchError::answer(METHOD, receipt.to_string().as_bytes())),
        }
    }
}

/// A quantity as JSON has it: `"0x1f"`.
fn quantity(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    hexadecimal(text.strip_prefix('"')?.strip_suffix('"')?)
}

pub(in crate::chain) fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
