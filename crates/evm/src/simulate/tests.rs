use alloy_primitives::{B256, Bytes, U256, hex};
use alloy_rpc_types_eth::simulate::SimulatePayload;
use serde_json::Value;

use super::*;
use crate::call::Limits;
use crate::execute::Env;
use crate::tool::reference::{RpcCase, rpc_chain};

fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

fn word(value: &Value) -> B256 {
    value.as_str().unwrap().parse().unwrap()
}

/// Says how a simulation differs from what the case has.
fn difference(simulated: &[Simulated], expected: &Value) -> Option<String> {
    let expected = expected.as_array()?;
    if expected.len() != simulated.len() {
        return Some(format!("{} blocks, expected {}", simulated.len(), expected.len()));
    }
    for (index, (block, expected)) in simulated.iter().zip(expected).enumerate() {
        let calls = expected["calls"].as_array().unwrap();
        if calls.len() != block.calls.len() {
            return Some(format!("block {index}: {} calls, expected {}", block.calls.len(), calls.len()));
        }
        for (call, expected) in block.calls.iter().zip(calls) {
            let found = format!(
                "{} {} {} {} {:?} {:?}",
                hex::encode_prefixed(call.return_data()),
                call.called.gas_used,
                call.called.gas_needed,
                call.called.failure.is_none(),
                call.called.failure.as_ref().map(|failure| (failure.code(), failure.to_string())),
                call.logs
                    .iter()
                    .map(|log| (log.address, log.topics().to_vec(), log.data.data.clone()))
                    .collect::<Vec<_>>()
            );
            let error = expected.get("error").map(|error| {
                (error["code"].as_i64().unwrap() as i32, error["message"].as_str().unwrap().to_owned())
            });
            let logs: Vec<_> = expected["logs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|log| {
                    let address: Address = log["address"].as_str().unwrap().parse().unwrap();
                    let topics: Vec<_> = log["topics"].as_array().unwrap().iter().map(word).collect();
                    let data: Bytes = log["data"].as_str().unwrap().parse().unwrap();
                    (address, topics, data)
                })
                .collect();
            let wanted = format!(
                "{} {} {} {} {error:?} {logs:?}",
                expected["returnData"].as_str().unwrap(),
                number(&expected["gasUsed"]),
                number(&expected["maxUsedGas"]),
                expected["status"] == "0x1",
            );
            if found != wanted {
                return Some(format!("block {index}: call\n  {found}\n, expected\n  {wanted}"));
            }
        }
        let hashes: Vec<_> = expected["transactions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|transaction| word(if transaction.is_string() { transaction } else { &transaction["hash"] }))
            .collect();
        let found: Vec<_> = block.transactions.iter().map(|transaction| transaction.hash).collect();
        if hashes != found {
            return Some(format!("block {index}: transactions {found:?}, expected {hashes:?}"));
        }
        if number(&expected["size"]) != block.size as u64 {
            return Some(format!("block {index}: size {}", block.size));
        }
        if word(&expected["stateRoot"]) != block.header.state_root {
            return Some(format!("block {index}: state root"));
        }
        if word(&expected["hash"]) != block.hash {
            return Some(format!("block {index}: header {:?}", block.header));
        }
    }
    None
}

#[test]
fn simulations_are_those_of_the_execution_apis() {
    let Some(chain) = rpc_chain() else { return };
    let mut failures = Vec::new();
    let cases = RpcCase::all("eth_simulateV1");
    assert!(cases.len() >= 40, "{}", cases.len());
    for case in cases {
        let Some(base) = chain.at(case.parameters.get(1)) else {
            assert_eq!(case.expected["error"]["message"], "header not found", "{}", case.name);
            continue;
        };
        let payload: SimulatePayload = serde_json::from_value(case.parameters[0].clone()).unwrap();
        let env = Env::of(&base.header);
        let base_hash = base.header.hash_slow();
        let hashes = |number: u64| chain.hash_of(base_hash, number);
        let place = Place {
            schedule: &chain.schedule,
            env: &env,
            state: &base.state,
            hashes: &hashes,
            codes: None,
            limits: Limits { gas: 50_000_000, stop: None },
        };
        let mut root = |changes: &tally_state::Changes| {
            let mut state = base.state.clone();
            state.apply(changes);
            Ok(state.root())
        };
        let outcome = simulate(&place, &base.header, base_hash, &payload, &mut root);
        let problem = match (&outcome, case.expected.get("result")) {
            (Ok(simulated), Some(expected)) => difference(simulated, expected),
            (Ok(_), None) => Some(format!("no error, expected {}", case.expected["error"])),
            (Err(error), Some(_)) => Some(format!("error {error}")),
            (Err(error), None) => {
                let expected = &case.expected["error"];
                let same =
                    expected["code"] == error.simulate_code() && expected["message"] == error.to_string();
                (!same).then(|| format!("error {} {error}, expected {expected}", error.simulate_code()))
            }
        };
        failures.extend(problem.map(|problem| format!("{}: {problem}\n", case.name)));
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.concat());
}

#[test]
fn a_block_too_many_is_refused() {
    let base = Header::default();
    let request: SimulatePayload =
        serde_json::from_str(r#"{"blockStateCalls":[{"blockOverrides":{"number":"0x101"}}]}"#).unwrap();
    let error = blocks::in_order(&base, &request.block_state_calls).err().unwrap();
    assert_eq!(error.simulate_code(), -38026);
    assert!(U256::from(MAX_BLOCKS) < U256::from(0x101));
}
