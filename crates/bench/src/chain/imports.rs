//! A chain into an empty node: from a file of blocks, and from a peer that has it.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tally_chain::node::Distances;

use super::calls::limit;
use super::history::{self, History, build};
use super::network::{Caller, Layout, Network, wait, wait_for};
use super::outcome::{Outcome, Usage};
use super::reads::Observer;
use super::registry::{Account, Signed, register};
use super::{ChainBenchError, GENERATOR};
use crate::ceiling::Ceiling;
use crate::fact::Fact;
use crate::processes::{Series, Watch, Watched};
use crate::published::figure;

/// How often processes are looked at: a small chain is imported in a moment.
const EVERY: Duration = Duration::from_millis(20);
/// Transactions a second that are to be reached, and what is better.
const BARS: (f64, f64) = (8_000.0, 15_000.0);
/// What a node's memory is to be at most, in bytes.
const MEMORY_BAR: f64 = 300.0 * 1024.0 * 1024.0;
/// The longest that a node may take for a chain.
const PATIENCE: Duration = Duration::from_secs(3600);
/// What the process is called that takes the chain.
const TAKER: &str = "importing";

/// How the chain comes into the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// From a file, by `tally chain import`.
    File,
    /// From a peer, every block executed.
    Full,
    /// From a peer, without executing anything: blocks, receipts and the newest state, each with its proof.
    Fast,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::File, Self::Full, Self::Fast];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Full => "full",
            Self::Fast => "fast",
        }
    }

    /// Whether a node takes a chain of so many blocks in this way.
    #[must_use]
    pub fn takes(self, head: u64) -> bool {
        self != Self::Fast || head >= Distances::default().lead
    }

    const fn title(self) -> &'static str {
        match self {
            Self::File => "import of a file",
            Self::Full => "full sync from a peer",
            Self::Fast => "fast sync from a peer",
        }
    }

    const fn published(self) -> &'static str {
        match self {
            Self::File | Self::Full => "besu-1.5.0-full-sync",
            Self::Fast => "besu-1.5.0-fast-sync",
        }
    }

    /// Whether every transaction is executed.
    fn executes(self) -> bool {
        self != Self::Fast
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| format!("one of {}", names()))
    }
}

/// A chain into empty nodes.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The network; none of its validators runs.
    pub layout: Layout,
    /// What the chain holds.
    pub history: history::Plan,
    /// What is measured, one after the other.
    pub modes: Vec<Mode>,
}

/// What came into the node, and how long that took.
struct Taken {
    took: Duration,
    /// The time that the program itself says it took, where it says so.
    said: Option<Duration>,
    usage: Usage,
}

/// Builds a chain and brings it into an empty node in every way that the plan says.
///
/// # Errors
/// [`ChainBenchError`]; a node that does not come to the same head is one.
pub fn run(plan: &Plan, observer: &mut impl Observer) -> Result<Vec<Outcome>, ChainBenchError> {
    let head = plan.history.head();
    if let Some(mode) = plan.modes.iter().find(|mode| !mode.takes(head)) {
        let least = Distances::default().lead;
        let mode = mode.title();
        return Err(ChainBenchError::Plan(format!(
            "{mode} begins {least} blocks behind, and the chain has {head}: give more blocks"
        )));
    }
    let mut layout = plan.layout.clone();
    // One that has the chain, and one for each way to get it.
    layout.followers = 1 + plan.modes.len();
    layout.timestamp = plan.history.timestamp(layout.period);
    let mut network = Network::make(&layout)?;
    let source = layout.validators;
    let file = network.genesis().with_file_name("blocks.rlp");
    let (blocks, calls) = (plan.history.blocks, plan.history.calls);
    observer.begins(&format!("building {blocks} blocks of {calls} calls"));
    let history = build(&network, network.node(source), plan.history, Some(&file))?;
    let ceiling = ceiling(&plan.history)?;
    let file_bytes = std::fs::metadata(&file).map_err(ChainBenchError::file(&file))?.len();
    let mut outcomes = Vec::with_capacity(plan.modes.len());
    for (index, mode) in (source + 1..).zip(&plan.modes) {
        observer.begins(mode.title());
        let taken = match mode {
            Mode::File => from_file(&network, index, &history, &file)?,
            Mode::Full => from_peer(&mut network, source, index, &history)?,
            Mode::Fast => {
                network.node(index).reconfigure("sync-mode = \"FULL\"", "sync-mode = \"FAST\"")?;
                from_peer(&mut network, source, index, &history)?
            }
        };
        let outcome = outcome(plan, *mode, &history, file_bytes, taken, &ceiling);
        observer.ended(&outcome)?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// One key recovery for each transaction, on all cores.
fn ceiling(plan: &history::Plan) -> Result<Ceiling, ChainBenchError> {
    let account = Account::new(plan.seed, 0);
    let to = account.contract();
    let calls: Vec<Signed> = (0..200)
        .map(|nonce| Signed::from(&account.call(1, nonce, to, register(to.into_word(), to))))
        .collect();
    let (recovery_s, _) = limit::recovery(&calls)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(limit::ceiling(recovery_s, 1, cores))
}

fn from_file(
    network: &Network,
    index: usize,
    history: &History,
    file: &Path,
) -> Result<Taken, ChainBenchError> {
    let node = network.node(index);
    let (program, stop) = (&network.layout().program, &network.layout().stop);
    let began = Instant::now();
    let mut child = program
        .command(&["chain", "import"], &node.log())?
        .arg(node.directory())
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|source| ChainBenchError::Start { node: TAKER.to_owned(), source })?;
    // This process does nothing meanwhile, and what a child has moved counts as its parent's once that has ended.
    let watch = Watch::start(vec![Watched::new(TAKER, child.id())], EVERY)?;
    let from = began.saturating_duration_since(watch.began());
    // A line or two: they fit into the pipe.
    let output = child.stdout.take();
    let status = wait(child, stop)?;
    let took = began.elapsed();
    let processes = watch.stop();
    let mut text = String::new();
    if let Some(mut output) = output {
        output
            .read_to_string(&mut text)
            .map_err(ChainBenchError::system("cannot read what the import said"))?;
    }
    if !status.success() {
        let node = "the import".to_owned();
        return Err(ChainBenchError::Ended {
            node,
            status: status.to_string(),
            log: network.node(index).log(),
        });
    }
    let wanted = format!("head {} {}", history.plan.head(), history.head);
    if !text.contains(&wanted) {
        return Err(ChainBenchError::answer("chain import", text.as_bytes()));
    }
    Ok(Taken { took, said: said(&text), usage: Usage { processes, from, until: from + took } })
}

/// The time in `… gas in 1.2 s: …`.
fn said(text: &str) -> Option<Duration> {
    let (_, rest) = text.split_once(" gas in ")?;
    let (seconds, _) = rest.split_once(" s:")?;
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

fn from_peer(
    network: &mut Network,
    source: usize,
    index: usize,
    history: &History,
) -> Result<Taken, ChainBenchError> {
    let stop = network.layout().stop.clone();
    let head = history.plan.head();
    network.run(source)?;
    let mut caller = network.node(source).client()?;
    at_head(&mut caller, head, &stop)?;
    let began = Instant::now();
    network.run(index)?;
    let pid = |index: usize| network.node(index).pid().unwrap_or(0);
    let watched = vec![
        Watched::new(TAKER, pid(index)),
        Watched::new("serving", pid(source)),
        Watched::new(GENERATOR, std::process::id()),
    ];
    let watch = Watch::start(watched, EVERY)?;
    let from = Duration::ZERO;
    let mut caller = network.node(index).client()?;
    at_head(&mut caller, head, &stop)?;
    let took = began.elapsed();
    let until = watch.began().elapsed();
    let processes = watch.stop();
    let block: serde_json::Value =
        caller.call("eth_getBlockByNumber", &format!(r#"["0x{head:x}",false]"#))?;
    if block["hash"].as_str() != Some(history.head.to_string().as_str()) {
        return Err(ChainBenchError::answer("eth_getBlockByNumber", block.to_string().as_bytes()));
    }
    network.end(index)?;
    network.end(source)?;
    Ok(Taken { took, said: None, usage: Usage { processes, from, until } })
}

fn at_head(
    caller: &mut Caller,
    head: u64,
    stop: &tally_ops::shutdown::Shutdown,
) -> Result<(), ChainBenchError> {
    wait_for("the chain's head", PATIENCE, stop, || Ok((caller.block_number()? >= head).then_some(())))
}

fn outcome(
    plan: &Plan,
    mode: Mode,
    history: &History,
    file_bytes: u64,
    taken: Taken,
    ceiling: &Ceiling,
) -> Outcome {
    let seconds = taken.took.as_secs_f64().max(1e-9);
    let (blocks, transactions) = (plan.history.head(), plan.history.transactions());
    let rate = |count: u64| count as f64 / seconds;
    let taker = taken.usage.processes.iter().find(|process| process.label == TAKER);
    let memory = taker.map_or(0, Series::peak_bytes) as f64;
    let last = |process: &Series| process.samples.last().map(|sample| sample.reading);
    let processor = taker.and_then(last).map_or(0.0, |used| (used.user + used.system).as_secs_f64());
    let written = taker.and_then(last).map_or(0, |used| used.written_bytes) as f64;
    let mut facts = vec![
        Fact::new("took", "from the start of the process until it had the chain", seconds, "s"),
        Fact::new("blocks", "blocks", blocks as f64, "").higher(),
        Fact::new("transactions", "transactions", transactions as f64, "").higher(),
        Fact::new("block_rate", "blocks a second", rate(blocks), "").higher(),
        Fact::new("gas_rate", "gas a second", rate(history.gas), "").higher(),
        Fact::new("file", "the blocks as a file", file_bytes as f64, "B"),
        Fact::new("processor", "processor time of the process", processor, "s"),
        Fact::new("processor_each", "of that for a transaction", processor / transactions as f64, "s"),
        Fact::new("memory", "memory of the process, most", memory, "B").at_most(MEMORY_BAR),
        Fact::new("written", "written by the process", written, "B"),
    ];
    if let Some(said) = taken.said {
        let each = transactions as f64 / said.as_secs_f64().max(1e-9);
        facts.push(
            Fact::new("import_rate", "a second of the import itself, as it says", each, "tx/s").higher(),
        );
    }
    Outcome {
        name: format!("import-{}", mode.name()),
        title: mode.title().to_owned(),
        settings: vec![
            ("blocks", plan.history.blocks.into()),
            ("calls_in_a_block", plan.history.calls.into()),
            ("accounts", plan.history.accounts.into()),
            ("consensus", plan.layout.consensus.name().into()),
            ("validators", plan.layout.validators.into()),
            ("seed", plan.history.seed.into()),
        ],
        rate: rate(transactions),
        unit: "tx/s",
        bars: mode.executes().then_some(BARS),
        latency: None,
        facts,
        usage: taken.usage,
        ceiling: mode.executes().then(|| ceiling.clone()),
        published: figure(mode.published()).into_iter().collect(),
        comparable: false,
        notes: vec![
            "Published: hours for a public test network's whole chain, on another machine.".to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_import_says_is_read() {
        let text = "7 blocks, 36 transactions, 99 gas in 1.2 s: 30 transactions/s, 0.0 Mgas/s; head 6 0xab\n";
        assert_eq!(said(text), Some(Duration::from_millis(1200)));
        assert_eq!(said("7 blocks"), None);
    }

    #[test]
    fn modes_have_names() {
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
            assert!(figure(mode.published()).is_some());
        }
        assert!(Mode::Full.takes(1) && !Mode::Fast.takes(255) && Mode::Fast.takes(256));
        assert!("slow".parse::<Mode>().unwrap_err().contains("full"));
        let plan = history::Plan { blocks: 1, calls: 1, accounts: 1, seed: 1 };
        let ceiling = ceiling(&plan).unwrap();
        assert!(ceiling.rate > 100.0 && ceiling.name.starts_with("1 key recover"), "{ceiling:?}");
    }
}
