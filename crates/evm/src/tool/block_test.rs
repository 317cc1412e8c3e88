//! The block tests: chains that are imported block by block, valid ones and others, with forks.

use std::path::PathBuf;

use alloy_primitives::B256;
use serde_json::Value;

use super::files::{find, spread, tests};
use super::{Chain, Memory, Options, TestResult, ToolError};
use crate::block::Block;
use crate::genesis::{Object, accounts, json as values};
use crate::schedule::Schedule;

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
    let mut chain = Chain::new(schedule, &genesis(&test)?, state)
        .map_err(|error| format!("`pre`: {}", causes(&error)))?;

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
