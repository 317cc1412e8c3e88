//! A network for a benchmark: validators and nodes that follow, each a process with a directory of its own.

mod node;
mod process;

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tally_chain::setup::{self, Plan};
use tally_consensus::Protocol;
use tally_ops::shutdown::Shutdown;

use super::{ChainBenchError, GENERATOR};
use crate::processes::Watched;

pub(super) use node::hexadecimal;
pub use node::{Caller, Node};
pub use process::Program;
pub(super) use process::wait;

/// The chain's identifier (EIP-155) in every benchmark.
pub const CHAIN_ID: u64 = 1337;
/// The gas limit of the published measurements.
pub const GAS_LIMIT: u64 = 672_000_000;

/// By what validators agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consensus {
    /// QBFT.
    Qbft,
    /// IBFT 2.0.
    Ibft2,
}

impl Consensus {
    /// Its name, as the command line and genesis files have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qbft => "qbft",
            Self::Ibft2 => "ibft2",
        }
    }

    pub(super) const fn protocol(self) -> Protocol {
        match self {
            Self::Qbft => Protocol::QBFT,
            Self::Ibft2 => Protocol::Ibft2,
        }
    }
}

impl std::str::FromStr for Consensus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Qbft, Self::Ibft2]
            .into_iter()
            .find(|one| one.name() == text)
            .ok_or_else(|| "qbft or ibft2".to_owned())
    }
}

/// What a network is to be like.
#[derive(Debug, Clone)]
pub struct Layout {
    /// How many validators.
    pub validators: usize,
    /// How many nodes that only follow.
    pub followers: usize,
    /// By what they agree.
    pub consensus: Consensus,
    /// From block to block.
    pub period: Duration,
    /// The gas limit of a block.
    pub gas_limit: u64,
    /// When the chain began, in seconds since 1970.
    pub timestamp: u64,
    /// Connections that each node takes over HTTP.
    pub connections: usize,
    /// The networks' directories are made in it.
    pub directory: PathBuf,
    /// What runs a node.
    pub program: Program,
    /// Requested when somebody wants the measurement to end.
    pub stop: Shutdown,
}

/// A network; its processes end and its directory is removed when it is dropped.
#[derive(Debug)]
pub struct Network {
    nodes: Vec<Node>,
    genesis: PathBuf,
    layout: Layout,
    // After the nodes, so that it is removed when they have ended.
    _directory: tempfile::TempDir,
}

/// Seconds since 1970.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Network {
    /// Makes the directories and keys of a network; nothing runs yet. The validators are its first nodes.
    ///
    /// # Errors
    /// [`ChainBenchError`].
    pub fn make(layout: &Layout) -> Result<Self, ChainBenchError> {
        std::fs::create_dir_all(&layout.directory).map_err(ChainBenchError::file(&layout.directory))?;
        let directory = tempfile::Builder::new()
            .prefix("chain-")
            .tempdir_in(&layout.directory)
            .map_err(ChainBenchError::file(&layout.directory))?;
        let made = setup::init(plan(layout)?, &directory.path().join("network"))?;
        set_period(&made.genesis_file, layout)?;
        let mut nodes = Vec::with_capacity(made.nodes.len());
        for (index, one) in made.nodes.iter().enumerate() {
            let label = if one.validator {
                format!("validator {}", index + 1)
            } else if layout.followers == 1 {
                "follower".to_owned()
            } else {
                format!("follower {}", index + 1 - layout.validators)
            };
            let node = Node::new(label, one.directory.clone(), one.validator);
            // More than the usual number of clients, and everything that is configured stands in one file.
            node.configure(&format!(
                "rpc-http-max-active-connections = {}\n",
                layout.connections.max(80) + 16
            ))?;
            // What `chain init` leaves to the operator's socket is asked over HTTP here. The directory may be deeper than the name
            // of a socket may be long.
            node.reconfigure(
                r#"rpc-http-api = ["ETH", "NET", "WEB3"]"#,
                r#"rpc-http-api = ["ETH", "NET", "WEB3", "TXPOOL"]"#,
            )?;
            node.reconfigure("rpc-socket-enabled = true", "rpc-socket-enabled = false")?;
            nodes.push(node);
        }
        Ok(Self { nodes, genesis: made.genesis_file, layout: layout.clone(), _directory: directory })
    }

    /// The genesis file.
    #[must_use]
    pub fn genesis(&self) -> &Path {
        &self.genesis
    }

    /// What it is like.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The nodes, the validators first.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node by its place.
    ///
    /// # Panics
    /// When there are not so many.
    #[must_use]
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// The first node that only follows.
    ///
    /// # Panics
    /// When the layout has none.
    #[must_use]
    pub fn follower(&self) -> &Node {
        &self.nodes[self.layout.validators]
    }

    /// Starts a node that does not run; how long it took until it served.
    ///
    /// # Errors
    /// [`ChainBenchError`].
    ///
    /// # Panics
    /// When there are not so many nodes, or it runs.
    pub fn run(&mut self, index: usize) -> Result<Duration, ChainBenchError> {
        let began = Instant::now();
        self.nodes[index].run(&self.layout.program, &self.layout.stop)?;
        Ok(began.elapsed())
    }

    /// Starts every node.
    ///
    /// # Errors
    /// [`ChainBenchError`].
    pub fn run_all(&mut self) -> Result<(), ChainBenchError> {
        (0..self.nodes.len()).try_for_each(|index| self.run(index).map(drop))
    }

    /// Ends a node in order, and waits until it has.
    ///
    /// # Errors
    /// [`ChainBenchError`].
    ///
    /// # Panics
    /// When there are not so many nodes.
    pub fn end(&mut self, index: usize) -> Result<(), ChainBenchError> {
        self.nodes[index].end()
    }

    /// The processes to watch: the nodes', and this one, which drives them.
    #[must_use]
    pub fn watched(&self) -> Vec<Watched> {
        let running = self.nodes.iter().filter_map(|node| Some(Watched::new(node.label(), node.pid()?)));
        running.chain([Watched::new(GENERATOR, std::process::id())]).collect()
    }
}

fn plan(layout: &Layout) -> Result<Plan, ChainBenchError> {
    let count = layout.validators.saturating_add(layout.followers);
    let ports = u16::try_from(count.saturating_mul(3)).map_err(|_| {
        ChainBenchError::Plan(format!("{count} nodes are more than one machine has ports for"))
    })?;
    let first = tally_ops::ports::free_run(ports)
        .map_err(ChainBenchError::system("there are no ports for the nodes"))?;
    let step = ports / 3;
    let seconds = layout.period.as_secs().max(1);
    let mut plan = Plan::new(layout.timestamp);
    plan.validators = layout.validators;
    plan.followers = layout.followers;
    plan.protocol = layout.consensus.protocol();
    plan.chain_id = CHAIN_ID;
    plan.block_period_seconds = seconds;
    plan.request_timeout_seconds = (2 * seconds).max(4);
    plan.gas_limit = layout.gas_limit;
    plan.host = IpAddr::from(Ipv4Addr::LOCALHOST);
    plan.p2p_port = first;
    plan.http_port = first + step;
    plan.ws_port = first + 2 * step;
    Ok(plan)
}

/// Block periods that are no whole seconds have an option of their own in a genesis file.
fn set_period(genesis: &Path, layout: &Layout) -> Result<(), ChainBenchError> {
    if layout.period.subsec_nanos() == 0 {
        return Ok(());
    }
    let period_ms = u64::try_from(layout.period.as_millis()).unwrap_or(u64::MAX).max(1);
    let unusable =
        |reason: &str| ChainBenchError::Genesis { path: genesis.to_owned(), reason: reason.to_owned() };
    let text = std::fs::read_to_string(genesis).map_err(ChainBenchError::file(genesis))?;
    let mut file: Value = serde_json::from_str(&text).map_err(|error| unusable(&error.to_string()))?;
    let section = file.pointer_mut(&format!("/config/{}", layout.consensus.name()));
    let options =
        section.and_then(Value::as_object_mut).ok_or_else(|| unusable("no options of its validators"))?;
    options.insert("xblockperiodmilliseconds".to_owned(), period_ms.into());
    std::fs::write(genesis, format!("{file:#}\n")).map_err(ChainBenchError::file(genesis))
}

/// Waits until something is there, looking often.
///
/// # Errors
/// [`ChainBenchError::Late`], [`ChainBenchError::Stopped`], and what looking finds wrong.
pub(super) fn wait_for<T>(
    what: &str,
    limit: Duration,
    stop: &Shutdown,
    mut look: impl FnMut() -> Result<Option<T>, ChainBenchError>,
) -> Result<T, ChainBenchError> {
    const EVERY: Duration = Duration::from_millis(5);
    let began = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if began.elapsed() > limit {
            return Err(ChainBenchError::Late { what: what.to_owned(), seconds: limit.as_secs() });
        }
        if stop.wait_timeout(EVERY) {
            return Err(ChainBenchError::Stopped);
        }
    }
}

#[cfg(test)]
mod tests;
