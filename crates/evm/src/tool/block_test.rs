//! The block tests: chains that are imported block by block, valid ones and others, with forks.

use std::path::PathBuf;

use alloy_primitives::B256;
use serde_json::Value;

use super::files::{find, spread, tests};
use super::{Chain, Memory, Options, TestResult, ToolError};
use crate::block::{Block, BlockError};
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
            Some(exception) => Err(Some(exception)),
            None if block.get("blockHeader").is_none() => Err(None),
            None => Ok(()),
        };
        // Bytes that are not even hexadecimal make an invalid block as well.
        let imported = match block.text("rlp").map_err(text)?.map(values::bytes) {
            Some(Ok(bytes)) => import(&mut chain, &bytes, expected.err().flatten()),
            _ => {
                let source = alloy_rlp::Error::Custom("the bytes are no hexadecimal");
                Err(BlockError::Encoding { part: "block", source })
            }
        };
        compare(imported, expected).map_err(|problem| format!("block {index} {problem}"))?;
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

/// Imports a block. The tool that makes the tests leaves an invalid transaction out of what the header says, and not out
/// of the body: such a block breaks two rules, and the test is about the transaction.
fn import(chain: &mut Chain, bytes: &[u8], exception: Option<&str>) -> Result<(), BlockError> {
    let imported = chain.import(bytes);
    match (&imported, exception) {
        (Err(error @ BlockError::Body { part: "transactions", .. }), Some(exception))
            if !error.is_one_of(exception) =>
        {
            chain.refusal_of_body(bytes).map_or(imported, Err)
        }
        _ => imported,
    }
}

/// Holds what came of an import against what the test says: a block that is refused for another reason than the test's
/// may be refused by chance.
fn compare(imported: Result<(), BlockError>, expected: Result<(), Option<&str>>) -> Text<()> {
    match (imported, expected) {
        (Ok(()), Ok(())) => Ok(()),
        (Ok(()), Err(exception)) => {
            Err(format!("was imported, expected {}", exception.unwrap_or("an invalid block")))
        }
        (Err(error), Ok(())) => Err(format!("was refused: {}", causes(&error))),
        // A node that cannot read its state has said nothing about the block.
        (Err(error), Err(_)) if !error.is_invalid() => Err(format!("was not checked: {}", causes(&error))),
        (Err(error), Err(Some(exception))) if !error.is_one_of(exception) => {
            Err(format!("was refused as {}, expected {exception}: {}", error.test_name(), causes(&error)))
        }
        (Err(_), Err(_)) => Ok(()),
    }
}

fn genesis(test: &Object<'_>) -> Text<Block> {
    let bytes = test.bytes("genesisRLP").map_err(text)?.ok_or("the test has no `genesisRLP`")?;
    Block::decode(&bytes).map_err(|error| format!("the genesis block: {}", causes(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_is_refused_for_another_reason_than_the_tests_fails_the_case() {
        let number = || Err(BlockError::Number { expected: 1, found: 2 });
        assert!(compare(number(), Err(Some("BlockException.INVALID_BLOCK_NUMBER"))).is_ok());
        let either = "TransactionException.NONCE_IS_MAX|BlockException.INVALID_BLOCK_NUMBER";
        assert!(compare(number(), Err(Some(either))).is_ok());
        assert!(compare(number(), Err(None)).is_ok());
        let problem = compare(number(), Err(Some("BlockException.INVALID_GASLIMIT"))).unwrap_err();
        assert!(
            problem.contains("INVALID_BLOCK_NUMBER, expected BlockException.INVALID_GASLIMIT"),
            "{problem}"
        );
        assert!(compare(number(), Ok(())).is_err());
        assert!(compare(Ok(()), Err(None)).is_err());
        assert!(compare(Ok(()), Ok(())).is_ok());
    }

    #[test]
    fn what_could_not_be_read_is_no_refusal_of_a_block() {
        let unread = BlockError::State(Box::new(std::io::Error::other("torn")));
        assert!(compare(Err(unread), Err(None)).is_err());
    }

    #[test]
    fn one_breach_has_all_the_names_that_are_true_of_it() {
        let limit = |found| BlockError::GasLimit { parent: 5_000, found };
        assert!(limit(u64::MAX).is_one_of("BlockException.GASLIMIT_TOO_BIG"));
        assert!(limit(u64::MAX).is_one_of("BlockException.INVALID_GASLIMIT"));
        assert!(!limit(6_000).is_one_of("BlockException.GASLIMIT_TOO_BIG"));
        let parent = |found| BlockError::Parent { expected: B256::repeat_byte(1), found };
        assert!(parent(B256::ZERO).is_one_of("BlockException.UNKNOWN_PARENT_ZERO"));
        assert!(!parent(B256::repeat_byte(2)).is_one_of("BlockException.UNKNOWN_PARENT_ZERO"));
        let ommer = BlockError::Ommer(Box::new(limit(u64::MAX)));
        assert!(ommer.is_one_of("BlockException.GASLIMIT_TOO_BIG"));
        let early =
            |index| BlockError::Transaction { index, source: crate::TransactionError::TypeNotSupported(3) };
        assert!(early(0).is_one_of("TransactionException.TYPE_3_TX_PRE_FORK"));
        assert!(!early(0).is_one_of("TransactionException.TYPE_4_TX_PRE_FORK"));
    }
}
