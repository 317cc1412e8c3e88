//! A chain with history, built without waiting: its validators' keys seal each block as a quorum of them would.
//!
//! What is built is a node's own data directory, blocks, receipts, indexes, state and seals included; a node that is started
//! in it serves it, and one that imports it checks everything.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use alloy_primitives::{Address, B256};
use tally_chain::chain::{Attributes, Options};
use tally_chain::setup::{Settings, StateHistory};
use tally_chain::{Branch, Candidate, Chain, files};
use tally_consensus::{Cover, ExtraData, Keys, MIX_HASH, Protocol, SecretKey, hash_covering, quorum};
use tally_evm::{Genesis, Recovered};
use tally_peers::NodeKey;
use tally_state::{Database, Durability, History as StateDepth, Options as StateOptions, StoreOptions};

use super::ChainBenchError;
use super::network::{CHAIN_ID, Layout, Network, Node, now_s};
use super::registry::{self, Account};

/// Blocks whose transactions are signed ahead.
const AHEAD: usize = 4;
/// The first block creates the contract; those after it call it.
const FIRST: u64 = 2;

/// What a chain is to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Blocks of calls; one before them creates the contract.
    pub blocks: u64,
    /// Calls in each.
    pub calls: u64,
    /// Accounts that call, one after the other.
    pub accounts: u64,
    /// Makes the same calls again.
    pub seed: u64,
}

impl Plan {
    /// Transactions of the chain, the contract's creation included.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.blocks * self.calls + 1
    }

    /// The newest block.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.blocks + 1
    }

    /// When the chain begins, so that its newest block is of the past.
    #[must_use]
    pub fn timestamp(&self, period: Duration) -> u64 {
        now_s().saturating_sub((self.head() + 10) * period.as_secs().max(1))
    }
}

/// What was built.
#[derive(Debug, Clone)]
pub struct History {
    /// What it holds.
    pub plan: Plan,
    /// The contract.
    pub contract: Address,
    /// The calls' hashes, by number.
    pub hashes: Vec<B256>,
    /// Gas that all blocks used.
    pub gas: u64,
    /// The newest block's hash.
    pub head: B256,
}

impl History {
    /// The block of a call.
    #[must_use]
    pub fn block_of(&self, number: u64) -> u64 {
        FIRST + number / self.plan.calls.max(1)
    }

    /// Numbers of blocks that hold calls.
    #[must_use]
    pub fn blocks(&self) -> std::ops::RangeInclusive<u64> {
        FIRST..=self.plan.head()
    }

    /// The identity that a call registered.
    #[must_use]
    pub fn identity(&self, number: u64) -> B256 {
        registry::identity(self.plan.seed, number)
    }
}

/// Builds a chain in the directory of a node that does not run, and writes it to a file as well if one is named.
///
/// # Errors
/// [`ChainBenchError`].
pub fn build(
    network: &Network,
    node: &Node,
    plan: Plan,
    export: Option<&Path>,
) -> Result<History, ChainBenchError> {
    let chain = open(node)?;
    let sealers = Sealers::of(network)?;
    let layout = network.layout();
    let deployer = Account::deployer(plan.seed);
    let contract = deployer.contract();
    let mut history = History { plan, contract, hashes: Vec::new(), gas: 0, head: B256::ZERO };
    let creation = deployer.recovered(deployer.create(CHAIN_ID));
    extend(&chain, &sealers, layout, vec![creation], Durability::Buffered, &mut history.gas)?;
    std::thread::scope(|scope| {
        let (ready, blocks) = sync_channel(AHEAD);
        scope.spawn(move || {
            let accounts: Vec<Account> =
                (0..plan.accounts.max(1)).map(|number| Account::new(plan.seed, number)).collect();
            for block in 0..plan.blocks {
                let numbers = block * plan.calls..(block + 1) * plan.calls;
                let calls: Vec<Recovered> =
                    numbers.map(|number| call(plan.seed, &accounts, contract, number)).collect();
                // Nobody takes any more once a block could not be built.
                if ready.send(calls).is_err() {
                    break;
                }
            }
        });
        take(&chain, &sealers, layout, &blocks, &mut history)
    })?;
    history.head = chain.head().hash();
    if let Some(path) = export {
        let file = File::create_new(path).map_err(ChainBenchError::file(path))?;
        files::export(&chain, 1..=plan.head(), BufWriter::with_capacity(1 << 20, file))
            .map_err(|error| ChainBenchError::build("the file of blocks")(&error))?;
    }
    Ok(history)
}

/// Opens the chain of a node as the node itself does.
fn open(node: &Node) -> Result<Chain, ChainBenchError> {
    let failed = |what| move |error: &dyn std::error::Error| ChainBenchError::build(what)(error);
    let configuration = node.directory().join("config.toml");
    let settings = Settings::read(&configuration).map_err(|error| failed("the configuration")(&error))?;
    let text = std::fs::read_to_string(&settings.genesis_file)
        .map_err(ChainBenchError::file(&settings.genesis_file))?;
    let genesis = Genesis::parse(&text).map_err(|error| failed("the genesis file")(&error))?;
    let directory = settings.data_path.join("database");
    let database = Database::open(&directory, StoreOptions::default())
        .map_err(|error| failed("the database")(&error))?;
    let history = match settings.history {
        StateHistory::Archive => StateDepth::Archive,
        StateHistory::Blocks(blocks) => StateDepth::Blocks(blocks),
    };
    let options =
        Options { state: StateOptions { history, ..StateOptions::default() }, ..Options::default() };
    Chain::open(database, genesis, options).map_err(|error| failed("the chain")(&error))
}

fn call(seed: u64, accounts: &[Account], contract: Address, number: u64) -> Recovered {
    let count = accounts.len() as u64;
    let account = &accounts[(number % count) as usize];
    let input = registry::register(registry::identity(seed, number), account.address());
    account.recovered(account.call(CHAIN_ID, number / count, contract, input))
}

fn take(
    chain: &Chain,
    sealers: &Sealers,
    layout: &Layout,
    blocks: &Receiver<Vec<Recovered>>,
    history: &mut History,
) -> Result<(), ChainBenchError> {
    for built in 1..=history.plan.blocks {
        let Ok(calls) = blocks.recv() else { break };
        if layout.stop.is_requested() {
            return Err(ChainBenchError::Stopped);
        }
        history.hashes.extend(calls.iter().map(Recovered::hash));
        // The last one is durable, and all before it.
        let last = built == history.plan.blocks;
        let durability = if last { Durability::Synced } else { Durability::Buffered };
        extend(chain, sealers, layout, calls, durability, &mut history.gas)?;
    }
    Ok(())
}

/// Builds, seals and commits one block.
fn extend(
    chain: &Chain,
    sealers: &Sealers,
    layout: &Layout,
    transactions: Vec<Recovered>,
    durability: Durability,
    gas: &mut u64,
) -> Result<(), ChainBenchError> {
    let failed = |error: tally_chain::ImportError| ChainBenchError::build("a block")(&error);
    let parent = chain.head().branch.clone();
    let count = transactions.len();
    let before = &parent.sealed.header;
    let attributes = Attributes {
        timestamp: before.timestamp + layout.period.as_secs().max(1),
        beneficiary: sealers.proposer(before.number + 1),
        extra_data: sealers.extra.encode(sealers.protocol, Cover::Everything).into(),
        mix_hash: MIX_HASH,
        gas_limit: before.gas_limit,
        withdrawals: Vec::new(),
        parent_beacon_block_root: None,
        until: None,
    };
    let built = chain.build(&parent, attributes, transactions).map_err(failed)?;
    if let Some(skipped) = built.skipped.first() {
        return Err(ChainBenchError::build("a transaction")(&skipped.reason));
    }
    if built.candidate.block.transactions.len() != count {
        let reason = format!("{count} calls do not fit into a block; give a higher gas limit or fewer calls");
        return Err(ChainBenchError::Plan(reason));
    }
    *gas += built.candidate.block.sealed.header.gas_used;
    let candidate = sealers.seal(chain, built.candidate, &parent)?;
    chain.commit(&[candidate], durability, |_| ()).map(drop).map_err(failed)
}

/// The validators with their keys.
struct Sealers {
    protocol: Protocol,
    keys: Vec<SecretKey>,
    /// What a block's extra data is before it is sealed.
    extra: ExtraData,
}

impl Sealers {
    fn of(network: &Network) -> Result<Self, ChainBenchError> {
        let validators = network.nodes().iter().filter(|node| node.is_validator());
        let keys: Result<Vec<SecretKey>, ChainBenchError> = validators
            .map(|node| {
                let key = NodeKey::read(&node.directory().join("key"))?;
                SecretKey::from_bytes(&key.secret_bytes())
                    .map_err(|error| ChainBenchError::build("a validator's key")(&error))
            })
            .collect();
        let mut keys = keys?;
        // Headers list validators in ascending order.
        keys.sort_by_key(Keys::address);
        let addresses: Vec<Address> = keys.iter().map(Keys::address).collect();
        let extra = ExtraData::of_validators(&addresses);
        Ok(Self { protocol: network.layout().consensus.protocol(), keys, extra })
    }

    fn proposer(&self, number: u64) -> Address {
        self.keys[(number % self.keys.len() as u64) as usize].address()
    }

    fn seal(
        &self,
        chain: &Chain,
        candidate: Candidate,
        parent: &Branch,
    ) -> Result<Candidate, ChainBenchError> {
        let mut header = candidate.block.sealed.header.clone();
        let digest = hash_covering(self.protocol, &header, &self.extra, Cover::WithoutSeals);
        let seals =
            self.keys.iter().take(quorum(self.keys.len())).filter_map(|key| key.sign(digest)).collect();
        let extra = ExtraData { seals, ..self.extra.clone() };
        header.extra_data = extra.encode(self.protocol, Cover::Everything).into();
        chain.seal(candidate, parent, header).map_err(|error| ChainBenchError::build("a seal")(&error))
    }
}

#[cfg(test)]
mod tests {
    use tally_chain::BlockId;
    use tally_ops::shutdown::Shutdown;

    use super::*;
    use crate::chain::network::{Consensus, Program};

    #[test]
    fn a_chain_that_was_built_is_taken_by_whoever_checks_everything() {
        for consensus in [Consensus::Qbft, Consensus::Ibft2] {
            let home = tempfile::tempdir().unwrap();
            let plan = Plan { blocks: 5, calls: 7, accounts: 3, seed: 9 };
            let period = Duration::from_secs(2);
            let layout = Layout {
                validators: 4,
                followers: 2,
                consensus,
                period,
                gas_limit: 30_000_000,
                timestamp: plan.timestamp(period),
                connections: 1,
                directory: home.path().to_owned(),
                program: Program { file: "nothing".into(), before: Vec::new() },
                stop: Shutdown::new(),
            };
            let network = Network::make(&layout).unwrap();
            let file = home.path().join("blocks.rlp");
            let history = build(&network, network.follower(), plan, Some(&file)).unwrap();
            assert_eq!((history.hashes.len(), history.plan.transactions()), (35, 36));

            let chain = open(network.node(5)).unwrap();
            let progress = files::import(&chain, File::open(&file).unwrap(), 2, &mut |_| ()).unwrap();
            assert_eq!((progress.blocks, progress.transactions, progress.gas), (6, 36, history.gas));
            assert_eq!((chain.head().hash(), chain.head().number()), (history.head, plan.head()));
            let reader = chain.reader();
            for number in [0, 6, 7, 34] {
                let place = reader.place(history.hashes[number]).unwrap().unwrap();
                assert_eq!(place.block, history.block_of(number as u64));
                assert!(history.blocks().contains(&place.block));
            }
            // Every call succeeded: each emitted its event.
            let block = reader.block(BlockId::Number(3)).unwrap().unwrap();
            assert!(block.receipts.iter().all(|receipt| receipt.logs.len() == 1), "{:?}", block.receipts);
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let home = tempfile::tempdir().unwrap();
        let plan = Plan { blocks: 1, calls: 100, accounts: 3, seed: 9 };
        let period = Duration::from_secs(1);
        let layout = Layout {
            validators: 1,
            followers: 1,
            consensus: Consensus::Qbft,
            period,
            gas_limit: 3_000_000,
            timestamp: plan.timestamp(period),
            connections: 1,
            directory: home.path().to_owned(),
            program: Program { file: "nothing".into(), before: Vec::new() },
            stop: Shutdown::new(),
        };
        let network = Network::make(&layout).unwrap();
        let error = build(&network, network.follower(), plan, None).unwrap_err();
        assert!(error.to_string().contains("gas"), "{error}");
    }
}
