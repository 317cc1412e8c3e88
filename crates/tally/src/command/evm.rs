//! `tally evm …`: running EVM code and Ethereum's tests.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use alloy_primitives::{Address, Bytes, U256};
use anyhow::Context;
use tally_evm::Genesis;
use tally_evm::tool::{self, Options, Run, TestResult};

use super::{Ended, print};

/// The commands about the EVM.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Evm {
    /// Run code and print what it returns
    Run(RunArguments),
    /// Run Ethereum's state tests
    Statetest(Tests),
    /// Run Ethereum's block tests
    Blocktest(Tests),
    /// Run Ethereum's transaction tests
    Transactiontest(Tests),
    /// Run Ethereum's RLP tests
    Rlptest(Chosen),
    /// Run Ethereum's trie tests
    Trietest(Chosen),
    /// Measure gas per second beside bare revm
    Bench(BenchArguments),
}

/// Arguments of `tally evm run`.
#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
    /// Code in hexadecimal digits; without it, what the prestate has at the receiver
    #[arg(conflicts_with = "codefile")]
    code: Option<Bytes>,
    /// File with the code in hexadecimal digits; - for standard input
    #[arg(long)]
    codefile: Option<PathBuf>,
    /// Call data
    #[arg(long)]
    input: Option<Bytes>,
    /// Run the code as init code of a new contract
    #[arg(long)]
    create: bool,
    /// Gas for the code
    #[arg(long, default_value_t = 10_000_000_000)]
    gas: u64,
    /// Wei that come with the call
    #[arg(long, default_value = "0")]
    value: U256,
    /// Wei per gas, as GASPRICE gives it
    #[arg(long, default_value_t = 0)]
    price: u128,
    /// Who calls
    #[arg(long)]
    sender: Option<Address>,
    /// Who is called
    #[arg(long)]
    receiver: Option<Address>,
    /// Fork, or network of Ethereum's tests
    #[arg(long, default_value = "Osaka")]
    fork: String,
    /// Genesis file with the accounts that exist before
    #[arg(long)]
    prestate: Option<PathBuf>,
    /// Write a trace to standard error, a line of JSON for each instruction (EIP-3155)
    #[arg(long)]
    json: bool,
    /// With the memory in the trace
    #[arg(long, requires = "json")]
    memory: bool,
}

/// Which tests a command runs.
#[derive(Debug, clap::Args)]
pub(super) struct Chosen {
    /// Files, or directories with files
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Only tests whose name contains this
    #[arg(long, value_name = "TEXT")]
    run: Option<String>,
    /// Print the failures and a count instead of a list of all results
    #[arg(long)]
    summary: bool,
}

/// Arguments of the commands that run tests of several forks.
#[derive(Debug, clap::Args)]
pub(super) struct Tests {
    #[command(flatten)]
    chosen: Chosen,
    /// Only this fork
    #[arg(long)]
    fork: Option<String>,
    /// Write traces to standard error (EIP-3155); state tests only
    #[arg(long)]
    json: bool,
    /// With the memory in the trace
    #[arg(long, requires = "json")]
    memory: bool,
}

/// Arguments of `tally evm bench`.
#[derive(Debug, clap::Args)]
pub(super) struct BenchArguments {
    /// How many times each workload is run; the fastest counts
    #[arg(long, default_value_t = 5)]
    repeat: usize,
}

impl Evm {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        match self {
            Self::Run(arguments) => arguments.run(),
            Self::Statetest(tests) => tests
                .run(|paths, options| tool::state_tests(paths, options, &mut BufWriter::new(io::stderr()))),
            Self::Blocktest(tests) => tests.run(tool::block_tests),
            Self::Transactiontest(tests) => tests.run(tool::transaction_tests),
            Self::Rlptest(chosen) => chosen.run(Options::default(), tool::rlp_tests),
            Self::Trietest(chosen) => chosen.run(Options::default(), tool::trie_tests),
            Self::Bench(arguments) => arguments.run(),
        }
    }
}

impl RunArguments {
    fn run(self) -> anyhow::Result<Ended> {
        let code = match (&self.code, &self.codefile) {
            (Some(code), _) => code.clone(),
            (None, Some(file)) => read_code(file)?,
            (None, None) => Bytes::new(),
        };
        let prestate = match &self.prestate {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                Some(Genesis::parse(&text).with_context(|| format!("{}", path.display()))?)
            }
            None => None,
        };
        let defaults = Run::default();
        let run = Run {
            code,
            create: self.create,
            input: self.input.unwrap_or_default(),
            gas: self.gas,
            value: self.value,
            price: self.price,
            sender: self.sender.unwrap_or(defaults.sender),
            receiver: self.receiver.unwrap_or(defaults.receiver),
            fork: self.fork,
            prestate,
            trace: self.json,
            trace_memory: self.memory,
        };
        let mut trace = BufWriter::new(io::stderr());
        let outcome = tool::run(&run, &mut trace)?;
        trace.flush()?;
        print::line(&outcome.output.to_string());
        match outcome.error {
            Some(error) => {
                print::line(&format!("error: {error}"));
                Ok(Ended::Refused)
            }
            None => Ok(Ended::Well),
        }
    }
}

fn read_code(file: &PathBuf) -> anyhow::Result<Bytes> {
    let cannot = || format!("cannot read {}", file.display());
    let text = if file.as_os_str() == "-" {
        io::read_to_string(io::stdin()).with_context(cannot)?
    } else {
        io::read_to_string(File::open(file).with_context(cannot)?).with_context(cannot)?
    };
    text.trim().parse().with_context(|| format!("{} holds no hexadecimal digits", file.display()))
}

impl Tests {
    fn run(
        self,
        tests: impl FnOnce(&[PathBuf], &Options) -> Result<Vec<TestResult>, tool::ToolError>,
    ) -> anyhow::Result<Ended> {
        let options =
            Options { fork: self.fork, trace: self.json, trace_memory: self.memory, ..Options::default() };
        self.chosen.run(options, tests)
    }
}

impl Chosen {
    fn run(
        self,
        options: Options,
        tests: impl FnOnce(&[PathBuf], &Options) -> Result<Vec<TestResult>, tool::ToolError>,
    ) -> anyhow::Result<Ended> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let options = Options { filter: self.run, threads, ..options };
        let results = tests(&self.paths, &options)?;
        let failed = results.iter().filter(|result| !result.pass).count();
        if self.summary {
            for result in results.iter().filter(|result| !result.pass) {
                let error = result.error.as_deref().unwrap_or("failed");
                print::line(&format!("{} [{}]: {error}", result.name, result.fork));
            }
            print::line(&format!("{} passed, {failed} failed", results.len() - failed));
        } else {
            tool::write_results(&results, &mut BufWriter::new(io::stdout().lock()))?;
        }
        Ok(if failed == 0 { Ended::Well } else { Ended::Refused })
    }
}

impl BenchArguments {
    fn run(self) -> anyhow::Result<Ended> {
        let start = std::time::Instant::now();
        for workload in tally_evm::bench::workloads() {
            let figure = tally_evm::bench::measure(&workload, self.repeat, &|| start.elapsed())?;
            print::line(&figure.to_string());
        }
        Ok(Ended::Well)
    }
}
