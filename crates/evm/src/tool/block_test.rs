//! The block tests: chains that are imported block by block, valid ones and others, with forks.

use std::collections::HashMap;
use std::path::PathBuf;

use alloy_consensus::Header;
use alloy_primitives::{B256, U256};
use serde_json::Value;

use super::files::{find, spread, tests};
use super::{Memory, Options, TestResult, ToolError};
use crate::block::{
    Ancestor, Block, BlockError, Sealing, validate_body, validate_execution, validate_header,
    validate_ommers, validate_state_root,
};
use crate::execute::{Contents, Env, Executor, execute_all};
use crate::genesis::{Object, accounts, json as values};
use crate::schedule::{Fork, Schedule};
use crate::transaction::recover_all;

type Text<T> = Result<T, String>;

/// Runs the block tests under the paths. A result stands for one chain.
///
/// # Errors
/// A file that cannot be read.
pub fn block_tests(paths: &[PathBuf], options: &Options) -> Result<Vec<TestResult>, ToolError> {
    let files = find(paths)?;
    let results = spread(&files, options.threads, |path| {
        let mut results = Vec::new();
        for (name, test) in tests(path)? {
            let network = test.get("network").and_then(Value::as_str).unwrap_or_default();
            if options.takes(&name, network) {
                let mut root = None;
                let outcome = check(&test, network, &mut root);
                results.push(TestResult::new(&name, network, root, outcome));
            }
        }
        Ok::<_, ToolError>(results)
    });
    Ok(results.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A chain of errors in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

struct Imported {
    header: Header,
    ommers: Vec<B256>,
    total_difficulty: U256,
    state: Memory,
}

struct Chain {
    schedule: Schedule,
    blocks: HashMap<B256, Imported>,
    head: B256,
}

fn check(test: &Value, network: &str, root: &mut Option<B256>) -> Text<()> {
    let mut schedule = Schedule::named(network).map_err(text)?;
    let test = Object::new(test, "").map_err(text)?;
    if let Some(config) = test.object("config").map_err(text)? {
        if let Some(chain_id) = config.number("chainid").map_err(text)? {
            schedule.chain_id = chain_id;
        }
        schedule.read_blobs(&config).map_err(text)?;
    }
    let pre = test.object("pre").map_err(text)?.ok_or("the test has no `pre`")?;
    let state = Memory::of(&accounts(&pre).map_err(text)?);
    let mut chain = Chain::new(schedule, &genesis(&test)?, state)?;

    for (index, block) in test.array("blocks").map_err(text)?.iter().enumerate() {
        let block = Object::new(block, format!("blocks[{index}]")).map_err(text)?;
        let expected = match block.text("expectException").map_err(text)? {
            Some(exception) => Err(exception),
            None if block.get("blockHeader").is_none() => Err("an invalid block"),
            None => Ok(()),
        };
        // Bytes that are not even hexadecimal make an invalid block as well.
        let imported = match block.text("rlp").map_err(text)?.map(values::bytes) {
            Some(Ok(bytes)) => chain.import(&bytes).map_err(|error| causes(&error)),
            _ => Err("no bytes".into()),
        };
        match (imported, expected) {
            (Ok(()), Err(exception)) => {
                return Err(format!("block {index} was imported, expected {exception}"));
            }
            (Err(error), Ok(())) => return Err(format!("block {index} was refused: {error}")),
            (Ok(()), Ok(())) | (Err(_), Err(_)) => {}
        }
    }
    let head = chain.blocks.get(&chain.head).ok_or("the head is missing")?;
    let after = head.state.root();
    *root = Some(after);
    if let Some(expected) = test.word("lastblockhash").map_err(text)?
        && expected != chain.head
    {
        return Err(format!("the head is {}, expected {expected}", chain.head));
    }
    let expected = match test.word("postStateHash").map_err(text)? {
        Some(expected) => Some(expected),
        None => match test.object("postState").map_err(text)? {
            Some(post) => Some(Memory::of(&accounts(&post).map_err(text)?).root()),
            None => None,
        },
    };
    match expected {
        Some(expected) if expected != after => Err(format!("the state root is {after}, expected {expected}")),
        _ => Ok(()),
    }
}

fn genesis(test: &Object<'_>) -> Text<Block> {
    let bytes = test.bytes("genesisRLP").map_err(text)?.ok_or("the test has no `genesisRLP`")?;
    Block::decode(&bytes).map_err(|error| format!("the genesis block: {}", causes(&error)))
}

impl Chain {
    fn new(schedule: Schedule, genesis: &Block, state: Memory) -> Text<Self> {
        let header = genesis.header.clone();
        let root = state.root();
        if header.state_root != root {
            return Err(format!("the root of `pre` is {root}, the genesis block has {}", header.state_root));
        }
        let head = header.hash_slow();
        let total_difficulty = header.difficulty;
        let block = Imported { header, ommers: Vec::new(), total_difficulty, state };
        Ok(Self { schedule, blocks: HashMap::from([(head, block)]), head })
    }

    fn import(&mut self, bytes: &[u8]) -> Result<(), BlockError> {
        let block = Block::decode(bytes)?;
        let header = &block.header;
        let parent_hash = header.parent_hash;
        let parent = self
            .blocks
            .get(&parent_hash)
            .ok_or(BlockError::Parent { expected: self.head, found: parent_hash })?;
        let sealing = Sealing::Ethereum { parent_total_difficulty: Some(parent.total_difficulty) };
        validate_header(&self.schedule, header, &parent.header, parent_hash, &sealing)?;
        validate_body(&self.schedule, &block, bytes.len())?;
        if !block.body.ommers.is_empty() {
            validate_ommers(&self.schedule, &block.body.ommers, &self.ancestors(parent_hash))?;
        }
        let transactions = recover_all(block.body.transactions.clone(), 1)
            .into_iter()
            .enumerate()
            .map(|(index, recovered)| recovered.map_err(|source| BlockError::Transaction { index, source }))
            .collect::<Result<Vec<_>, _>>()?;
        let rules = self.schedule.rules_of(header);
        let mut intermediate = |changes: &tally_state::Changes| {
            let mut state = parent.state.clone();
            state.apply(changes);
            Ok(state.root())
        };
        let contents = Contents {
            transactions: &transactions,
            ommers: &block.body.ommers,
            withdrawals: block.body.withdrawals.as_deref().unwrap_or_default(),
        };
        let env = Env::of(header);
        let hashes = |number| self.hash_of(parent_hash, number);
        let only_storage = |address| parent.state.has_storage(address);
        let executor =
            Executor::with_storage_collisions(&self.schedule, &env, &parent.state, &hashes, &only_storage);
        let executed = execute_all(
            executor,
            contents,
            if rules.has(Fork::Byzantium) { None } else { Some(&mut intermediate) },
        )?;
        validate_execution(header, &executed)?;
        let mut state = parent.state.clone();
        state.apply(&executed.changes);
        validate_state_root(header, state.root())?;

        let total_difficulty = parent.total_difficulty.saturating_add(header.difficulty);
        let head = &self.blocks[&self.head];
        let ahead = if header.difficulty.is_zero() {
            header.number > head.header.number
        } else {
            total_difficulty > head.total_difficulty
        };
        let hash = header.hash_slow();
        let ommers = block.body.ommers.iter().map(Header::hash_slow).collect();
        self.blocks.insert(hash, Imported { header: block.header, ommers, total_difficulty, state });
        if ahead {
            self.head = hash;
        }
        Ok(())
    }

    fn ancestors(&self, mut hash: B256) -> Vec<Ancestor> {
        let mut ancestors = Vec::new();
        while ancestors.len() < 7
            && let Some(block) = self.blocks.get(&hash)
        {
            ancestors.push(Ancestor { hash, header: block.header.clone(), ommers: block.ommers.clone() });
            hash = block.header.parent_hash;
        }
        ancestors
    }

    /// The hash of the block with this number before a child of `hash`.
    fn hash_of(&self, mut hash: B256, number: u64) -> B256 {
        while let Some(block) = self.blocks.get(&hash) {
            if block.header.number == number {
                return hash;
            }
            hash = block.header.parent_hash;
        }
        B256::ZERO
    }
}
