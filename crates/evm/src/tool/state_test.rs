//! The state tests: one transaction over a small state, for each fork and each variant of its fields.

use std::io::Write;
use std::path::PathBuf;

use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Log, TxKind, U256, keccak256};
use revm::context::TxEnv;
use revm::context::either::Either;
use revm::context_interface::result::ExecutionResult;
use revm::{DatabaseCommit, ExecuteEvm, InspectEvm};
use serde_json::{Value, json};
use tally_state::Read;

use super::files::{find, spread, tests};
use super::{Memory, OpcodeTrace, Options, TestResult, ToolError};
use crate::execute::{Cache, Env, Machine, Refusal, machine};
use crate::genesis::{Object, accounts, json as values};
use crate::schedule::{Fork, Rules, Schedule};
use crate::transaction::{TransactionError, recover_authorization};

type Text<T> = Result<T, String>;

/// Runs the state tests under the paths. A result stands for one variant under one fork.
///
/// A trace goes to `trace`, after each variant a line with its state root.
///
/// # Errors
/// A file that cannot be read, or a trace that cannot be written.
pub fn state_tests(
    paths: &[PathBuf],
    options: &Options,
    trace: &mut (dyn Write + Send + '_),
) -> Result<Vec<TestResult>, ToolError> {
    let files = find(paths)?;
    if options.trace {
        let mut results = Vec::new();
        for path in &files {
            for (name, test) in tests(path)? {
                results.extend(variants(&name, &test, options, Some(trace)));
            }
        }
        return Ok(results);
    }
    let results = spread(&files, options.threads, |path| {
        let mut results = Vec::new();
        for (name, test) in tests(path)? {
            results.extend(variants(&name, &test, options, None));
        }
        Ok::<_, ToolError>(results)
    });
    Ok(results.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn variants(
    name: &str,
    test: &Value,
    options: &Options,
    mut trace: Option<&mut (dyn Write + Send + '_)>,
) -> Vec<TestResult> {
    let mut results = Vec::new();
    let Some(forks) = test.get("post").and_then(Value::as_object) else { return results };
    for (fork, list) in forks {
        if !options.takes(name, fork) {
            continue;
        }
        for post in list.as_array().into_iter().flatten() {
            let mut root = None;
            let outcome = variant(name, test, fork, post, options, trace.as_deref_mut(), &mut root);
            results.push(TestResult::new(name, fork, root, outcome));
        }
    }
    results
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn variant(
    name: &str,
    test: &Value,
    fork: &str,
    post: &Value,
    options: &Options,
    trace: Option<&mut (dyn Write + Send + '_)>,
    root: &mut Option<B256>,
) -> Text<()> {
    let mut schedule = Schedule::named(fork).map_err(text)?;
    let test = Object::new(test, "").map_err(text)?;
    if let Some(config) = test.object("config").map_err(text)? {
        if let Some(chain_id) = config.number("chainid").map_err(text)? {
            schedule.chain_id = chain_id;
        }
        schedule.read_blobs(&config).map_err(text)?;
    }
    let rules = schedule.rules(1, u64::MAX, true);
    let env = environment(&test, &rules)?;
    let pre = test.object("pre").map_err(text)?.ok_or("the test has no `pre`")?;
    let memory = Memory::of(&accounts(&pre).map_err(text)?);
    let post = Object::new(post, "post").map_err(text)?;
    let expected_error = post.text("expectException").map_err(text)?.map(str::to_owned);

    let (changes, outcome) = match transaction(&test, &post, &rules) {
        Err(error) => (None, Err(error)),
        Ok(transaction) => execute(name, &rules, &env, &memory, transaction, options, trace)?,
    };
    let mut after = memory;
    if let Some(changes) = changes {
        after.apply(&changes);
    }
    let state_root = after.root();
    *root = Some(state_root);
    let logs = match (outcome, &expected_error) {
        (Ok(_), Some(expected)) => return Err(format!("executed, expected {expected}")),
        (Err(error), None) => return Err(format!("refused: {error}")),
        (Ok(result), None) => result.into_logs(),
        (Err(_), Some(_)) => Vec::new(),
    };
    if let Some(expected) = post.word("hash").map_err(text)?
        && expected != state_root
    {
        return Err(format!("post state root mismatch: got {state_root}, want {expected}"));
    }
    let logs = logs_hash(&logs);
    match post.word("logs").map_err(text)? {
        Some(expected) if expected != logs => {
            Err(format!("post state logs hash mismatch: got {logs}, want {expected}"))
        }
        _ => Ok(()),
    }
}

/// keccak-256 of the RLP list of logs.
fn logs_hash(logs: &[Log]) -> B256 {
    let mut encoded = Vec::new();
    alloy_rlp::encode_list(logs, &mut encoded);
    keccak256(encoded)
}

type Executed = (Option<tally_state::Changes>, Result<ExecutionResult, String>);

fn execute(
    name: &str,
    rules: &Rules,
    env: &Env,
    memory: &Memory,
    transaction: TxEnv,
    options: &Options,
    trace: Option<&mut (dyn Write + Send + '_)>,
) -> Text<Executed> {
    // In state tests a block's hash is that of its number in decimal.
    let hashes = |number: u64| keccak256(number.to_string());
    let cache = Cache::new(memory, &hashes, None);
    let (configuration, block) = (rules.configuration(), env.block(rules));
    let Some(output) = trace else {
        let mut machine = machine(rules, configuration, block, cache, ());
        let result = machine.transact(transaction);
        let cache = machine.ctx.journaled_state.database_mut();
        return Ok(match result {
            Ok(result) => {
                cache.commit(result.state);
                (Some(cache.changes()), Ok(result.result))
            }
            Err(error) => (None, Err(Refusal::from(error).to_string())),
        });
    };
    let inspector = OpcodeTrace::new(std::io::BufWriter::new(output), options.trace_memory);
    let mut machine = machine(rules, configuration, block, cache, inspector);
    let (executed, summary) = inspected(name, rules, memory, &mut machine, transaction);
    machine.inspector.finish(&summary).map_err(text)?;
    Ok(executed)
}

fn inspected<R: Read, W: Write>(
    name: &str,
    rules: &Rules,
    memory: &Memory,
    machine: &mut Machine<Cache<'_, R>, OpcodeTrace<W>>,
    transaction: TxEnv,
) -> (Executed, Value) {
    let result = machine.inspect_tx(transaction);
    let cache = machine.ctx.journaled_state.database_mut();
    match result {
        Ok(result) => {
            cache.commit(result.state);
            let changes = cache.changes();
            let mut after = memory.clone();
            after.apply(&changes);
            let output = result.result.output().cloned().unwrap_or_default();
            let summary = json!({
                "output": output,
                "gasUsed": format!("{:#x}", result.result.tx_gas_used()),
                "stateRoot": after.root(),
                "logsRoot": logs_hash(result.result.logs()),
                "pass": result.result.is_success(),
                "fork": rules.fork.name(),
                "test": name,
            });
            ((Some(changes), Ok(result.result)), summary)
        }
        Err(error) => {
            let problem = Refusal::from(error).to_string();
            let summary = json!({
                "output": "0x",
                "gasUsed": "0x0",
                "stateRoot": memory.root(),
                "error": problem,
                "pass": false,
                "fork": rules.fork.name(),
                "test": name,
            });
            ((None, Err(problem)), summary)
        }
    }
}

fn environment(test: &Object<'_>, rules: &Rules) -> Text<Env> {
    let env = test.object("env").map_err(text)?.ok_or("the test has no `env`")?;
    let number = |name: &str| env.number(name).map_err(text);
    let difficulty = env.quantity("currentDifficulty").map_err(text)?.unwrap_or_default();
    Ok(Env {
        number: number("currentNumber")?.unwrap_or(1),
        timestamp: number("currentTimestamp")?.unwrap_or(0),
        beneficiary: env.address("currentCoinbase").map_err(text)?.unwrap_or_default(),
        gas_limit: number("currentGasLimit")?.unwrap_or(0),
        base_fee: if rules.has(Fork::London) { number("currentBaseFee")?.unwrap_or(10) } else { 0 },
        difficulty: if rules.has(Fork::Paris) { U256::ZERO } else { difficulty },
        prev_randao: match env.word("currentRandom").map_err(text)? {
            Some(random) => random,
            None => B256::from(difficulty),
        },
        excess_blob_gas: number("currentExcessBlobGas")?,
        slot_number: number("slotNumber")?.unwrap_or(0),
        ..Env::default()
    })
}

fn transaction(test: &Object<'_>, post: &Object<'_>, rules: &Rules) -> Text<TxEnv> {
    let fields = test.object("transaction").map_err(text)?.ok_or("the test has no `transaction`")?;
    let indexes = post.object("indexes").map_err(text)?.ok_or("the variant has no `indexes`")?;
    let index = |name: &str| -> Text<usize> {
        let index = indexes.number(name).map_err(text)?.unwrap_or(0);
        usize::try_from(index).map_err(text)
    };
    let chosen = |list: &str, which: &str| -> Text<Value> {
        let list_values = fields.array(list).map_err(text)?;
        list_values.get(index(which)?).cloned().ok_or_else(|| format!("`{list}` has no such index"))
    };
    let price = |name: &str| -> Text<Option<u128>> {
        let price = fields.quantity(name).map_err(text)?;
        price.map(u128::try_from).transpose().map_err(|_| format!("`{name}` is above 128 bits"))
    };
    let data = chosen("data", "data")?;
    let kind = match fields.text("to").map_err(text)? {
        None | Some("") => TxKind::Create,
        Some(to) => TxKind::Call(values::address(to)?),
    };
    let access_list = match fields.array("accessLists").map_err(text)?.get(index("data")?) {
        Some(Value::Array(entries)) => Some(entries.iter().map(access_entry).collect::<Text<Vec<_>>>()?),
        _ => None,
    };
    let blobs = fields.get("blobVersionedHashes").is_some() || fields.get("maxFeePerBlobGas").is_some();
    let authorizations = fields.array("authorizationList").map_err(text)?;
    let tx_type = if fields.get("authorizationList").is_some() {
        4
    } else if blobs {
        3
    } else if fields.get("maxFeePerGas").is_some() {
        2
    } else {
        u8::from(access_list.is_some())
    };
    if tx_type >= 3 && kind.is_create() {
        return Err("a transaction of this type cannot create a contract".into());
    }
    if tx_type == 3
        && rules.has(Fork::Cancun)
        && fields.array("blobVersionedHashes").map_err(text)?.is_empty()
    {
        return Err(TransactionError::NoBlobs.to_string());
    }
    let gas_limit = values::quantity(&chosen("gasLimit", "gas")?)?;
    let mut env = TxEnv {
        tx_type,
        caller: sender(&fields)?,
        gas_limit: u64::try_from(gas_limit).map_err(text)?,
        gas_price: price("maxFeePerGas")?.or(price("gasPrice")?).unwrap_or(0),
        kind,
        value: values::quantity(&chosen("value", "value")?)?,
        data: values::bytes(data.as_str().unwrap_or_default())?,
        nonce: fields.number("nonce").map_err(text)?.unwrap_or(0),
        chain_id: Some(rules.chain_id),
        access_list: AccessList(access_list.unwrap_or_default()),
        gas_priority_fee: price("maxPriorityFeePerGas")?,
        max_fee_per_blob_gas: price("maxFeePerBlobGas")?.unwrap_or(0),
        ..TxEnv::default()
    };
    for hash in fields.array("blobVersionedHashes").map_err(text)? {
        env.blob_hashes.push(B256::left_padding_from(&values::bytes(hash.as_str().unwrap_or_default())?));
    }
    for entry in authorizations {
        env.authorization_list.push(Either::Right(recover_authorization(&authorization(entry)?)));
    }
    Ok(env)
}

fn sender(fields: &Object<'_>) -> Text<Address> {
    match fields.address("sender").map_err(text)? {
        Some(sender) => Ok(sender),
        None => Err("the transaction has no `sender`".into()),
    }
}

fn access_entry(entry: &Value) -> Text<AccessListItem> {
    let entry = Object::new(entry, "accessLists").map_err(text)?;
    let address = entry.address("address").map_err(text)?.ok_or("an access list entry has no address")?;
    let storage_keys = entry
        .array("storageKeys")
        .map_err(text)?
        .iter()
        .map(|key| Ok(B256::from(values::word(key.as_str().unwrap_or_default())?)))
        .collect::<Text<Vec<_>>>()?;
    Ok(AccessListItem { address, storage_keys })
}

fn authorization(entry: &Value) -> Text<SignedAuthorization> {
    let entry = Object::new(entry, "authorizationList").map_err(text)?;
    let number = |name: &str| Ok::<_, String>(entry.quantity(name).map_err(text)?.unwrap_or_default());
    let parity = match entry.quantity("yParity").map_err(text)? {
        Some(parity) => parity,
        None => number("v")?,
    };
    Ok(SignedAuthorization::new_unchecked(
        Authorization {
            chain_id: number("chainId")?,
            address: entry.address("address").map_err(text)?.unwrap_or_default(),
            nonce: u64::try_from(number("nonce")?).map_err(text)?,
        },
        u8::try_from(parity).map_err(text)?,
        number("r")?,
        number("s")?,
    ))
}
