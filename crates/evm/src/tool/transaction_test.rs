//! The transaction tests: which forks take an encoded transaction, and who sent it.

use std::path::PathBuf;

use alloy_primitives::{Address, B256, U256};
use serde_json::{Map, Value};

use super::files::{find, spread, tests};
use super::{Options, TestResult, ToolError};
use crate::genesis::{Object, json};
use crate::schedule::Schedule;
use crate::transaction::{Recovered, TransactionError, decode_any_price, recover, recover_from};

/// Runs the transaction tests under the paths. A result stands for one transaction under one fork.
///
/// # Errors
/// A file that cannot be read.
pub fn transaction_tests(paths: &[PathBuf], options: &Options) -> Result<Vec<TestResult>, ToolError> {
    let files = find(paths)?;
    let results = spread(&files, options.threads, |path| {
        let mut results = Vec::new();
        for (name, test) in tests(path)? {
            let Some(forks) = test.get("result").and_then(Value::as_object) else { continue };
            let bytes = test.get("txbytes").and_then(Value::as_str).unwrap_or_default();
            for (fork, expected) in forks {
                if options.takes(&name, fork) {
                    let outcome = check(bytes, fork, expected);
                    results.push(TestResult::new(&name, fork, None, outcome));
                }
            }
        }
        Ok::<_, ToolError>(results)
    });
    Ok(results.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn sender_of(bytes: &[u8]) -> Result<Recovered, TransactionError> {
    match decode_any_price(bytes)? {
        (transaction, None) => recover(transaction),
        (transaction, Some(signed)) => recover_from(transaction.into(), signed),
    }
}

fn check(bytes: &str, fork: &str, expected: &Value) -> Result<(), String> {
    let rules = Schedule::named(fork).map_err(|error| error.to_string())?.rules(1, 1, true);
    let bytes = json::bytes(bytes)?;
    let checked = sender_of(&bytes).and_then(|transaction| {
        let gas = transaction.check(&rules)?;
        Ok::<_, TransactionError>((transaction, gas))
    });
    let empty = Value::Object(Map::new());
    let expected =
        Object::new(expected, "").or_else(|_| Object::new(&empty, "")).map_err(|error| error.to_string())?;
    let exception = expected.text("exception").map_err(|error| error.to_string())?;
    match (checked, exception) {
        (Err(_), Some(_)) => Ok(()),
        (Err(error), None) => Err(format!("refused: {error}")),
        (Ok(_), Some(exception)) => Err(format!("taken, expected {exception}")),
        (Ok((transaction, gas)), None) => {
            let field = |name: &str| expected.bytes(name).map_err(|error| error.to_string());
            let hash = field("hash")?.map(|hash| B256::left_padding_from(&hash));
            if hash.is_some_and(|hash| hash != transaction.hash()) {
                return Err(format!("the hash is {}", transaction.hash()));
            }
            let sender = field("sender")?.map(|sender| Address::left_padding_from(&sender));
            if sender.is_some_and(|sender| sender != transaction.sender()) {
                return Err(format!("the sender is {}", transaction.sender()));
            }
            let intrinsic = expected.quantity("intrinsicGas").map_err(|error| error.to_string())?;
            if intrinsic.is_some_and(|intrinsic| intrinsic != U256::from(gas.gas)) {
                return Err(format!("the intrinsic gas is {}", gas.gas));
            }
            Ok(())
        }
    }
}
