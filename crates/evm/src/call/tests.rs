use std::sync::atomic::AtomicBool;

use alloy_primitives::{Address, B256, U256, address, bytes};
use alloy_rpc_types_eth::state::AccountOverride;
use alloy_rpc_types_trace::geth::GethDebugTracingOptions;
use serde_json::{Value, json};

use super::*;
use crate::tool::Memory;
use crate::tool::reference::{RpcCase, rpc_chain};
use crate::trace::tests::Paper;
use crate::trace::{Wanted, trace_block, trace_call};
use crate::transaction::recover_all;

pub(crate) const CONTRACT: Address = address!("00000000000000000000000000000000000c0de0");

/// Works with a call to a contract of this code, which has so much gas, in a block of this environment.
pub(crate) fn with_call<T>(
    code: Bytes,
    env: &Env,
    gas: u64,
    work: impl FnOnce(&Place<'_, Memory>, &TransactionRequest, &StateOverride) -> T,
) -> T {
    let schedule = Schedule::named("Prague").unwrap();
    let hashes = |_| Default::default();
    let place = Place {
        schedule: &schedule,
        env,
        state: Memory::default(),
        hashes: &hashes,
        codes: None,
        limits: Limits { gas, stop: None },
    };
    let request = TransactionRequest { to: Some(CONTRACT.into()), ..Default::default() };
    let code = AccountOverride { code: Some(code), ..Default::default() };
    work(&place, &request, &[(CONTRACT, code)].into_iter().collect())
}

fn with_code(code: Bytes, work: impl FnOnce(&Place<'_, Memory>, &TransactionRequest, &StateOverride)) {
    let env =
        Env { number: 1, gas_limit: 30_000_000, base_fee: 7, excess_blob_gas: Some(0), ..Env::default() };
    with_call(code, &env, 30_000_000, work);
}

#[test]
fn calls_are_those_of_the_execution_apis() {
    let Some(chain) = rpc_chain() else { return };
    let base = chain.at(None).unwrap();
    let env = Env::of(&base.header);
    let hash = base.header.hash_slow();
    let hashes = |number| chain.hash_of(hash, number);
    let place = Place {
        schedule: &chain.schedule,
        env: &env,
        state: &base.state,
        hashes: &hashes,
        codes: None,
        limits: Limits { gas: 50_000_000, stop: None },
    };
    let mut checked = 0;
    for case in RpcCase::all("eth_call") {
        let request: TransactionRequest = serde_json::from_value(case.parameters[0].clone()).unwrap();
        let called = call(&place, &request, None, None).unwrap();
        assert_eq!(json!(called.output), case.expected["result"], "{}", case.name);
        checked += 1;
    }
    for case in RpcCase::all("eth_estimateGas") {
        let request: TransactionRequest = serde_json::from_value(case.parameters[0].clone()).unwrap();
        match estimate(&place, &request, None, None) {
            Ok(gas) => assert_eq!(json!(format!("{gas:#x}")), case.expected["result"], "{}", case.name),
            Err(CallError::Failed(failure)) => {
                let expected = &case.expected["error"];
                assert_eq!(
                    (json!(failure.code()), json!(failure.to_string())),
                    (expected["code"].clone(), expected["message"].clone())
                );
                assert_eq!(json!(failure.data()), expected["data"]);
            }
            Err(error) => panic!("{}: {error}", case.name),
        }
        checked += 1;
    }
    for case in RpcCase::all("eth_createAccessList") {
        let request: TransactionRequest = serde_json::from_value(case.parameters[0].clone()).unwrap();
        let found = access_list(&place, &request, None, None).unwrap();
        let expected = &case.expected["result"];
        assert_eq!(json!(found.access_list), expected["accessList"], "{}", case.name);
        assert_eq!(json!(format!("{:#x}", found.gas_used)), expected["gasUsed"], "{}", case.name);
        checked += 1;
    }
    assert!(checked >= 9);
}

#[test]
fn traces_are_those_of_the_execution_apis() {
    let Some(chain) = rpc_chain() else { return };
    let mut checked = 0;
    for case in RpcCase::all("debug_traceBlockByNumber") {
        let Some(expected) = case.expected["result"].as_array() else { continue };
        let Some(block) = chain.at(case.parameters.first()) else { continue };
        let options: GethDebugTracingOptions = case
            .parameters
            .get(1)
            .map(|options| serde_json::from_value(options.clone()).unwrap())
            .unwrap_or_default();
        let parent_hash = block.header.parent_hash;
        let hashes = |number| chain.hash_of(parent_hash, number);
        let place = Place {
            schedule: &chain.schedule,
            env: &Env::of(&block.header),
            state: &chain.blocks[&parent_hash].state,
            hashes: &hashes,
            codes: None,
            limits: Limits::default(),
        };
        let transactions: Vec<_> =
            recover_all(block.transactions.clone(), 1).into_iter().map(Result::unwrap).collect();
        let mut paper = Paper::default();
        let hash = block.header.hash_slow();
        trace_block(&place, hash, &transactions, Wanted::All, &options, &mut paper).unwrap();
        let traces = paper.json();
        let traces = traces.as_array().unwrap();
        assert_eq!(traces.len(), expected.len(), "{}", case.name);
        for (trace, expected) in traces.iter().zip(expected) {
            assert_eq!(trace["txHash"], expected["txHash"]);
            let mut found = trace["result"].clone();
            let mut wanted = expected["result"].clone();
            for value in [&mut found, &mut wanted] {
                strip(value);
            }
            assert_eq!(found, wanted, "{}", case.name);
        }
        checked += 1;
    }
    assert!(checked >= 3);
}

/// Takes out what geth writes in another way than the specification asks for.
fn strip(value: &mut Value) {
    if let Some(logs) = value.get_mut("structLogs").and_then(Value::as_array_mut) {
        for log in logs {
            let log = log.as_object_mut().unwrap();
            log.remove("refund");
            for (name, empty) in [("memory", json!([])), ("returnData", json!("0x"))] {
                if log.get(name) == Some(&empty) {
                    log.remove(name);
                }
            }
        }
    }
}

#[test]
fn a_call_that_loops_can_be_stopped() {
    // JUMPDEST PUSH0 JUMP
    with_code(bytes!("5b5f56"), |place, request, overrides| {
        let stop = AtomicBool::new(true);
        let stopped = Place { limits: Limits { gas: 30_000_000, stop: Some(&stop) }, ..place.clone() };
        assert!(matches!(call(&stopped, request, Some(overrides), None), Err(CallError::Stopped)));
        let exhausted = call(place, request, Some(overrides), None).unwrap();
        assert_eq!(exhausted.failure, Some(Failure::Halt("out of gas".into())));
        assert_eq!(exhausted.gas_used, 30_000_000);
    });
}

#[test]
fn code_without_a_price_sees_no_base_fee() {
    // BASEFEE PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
    with_code(bytes!("485f5260205ff3"), |place, request, overrides| {
        let free = call(place, request, Some(overrides), None).unwrap();
        assert!(free.output.iter().all(|byte| *byte == 0));
        let rich = AccountOverride { balance: Some(alloy_primitives::U256::MAX >> 1), ..Default::default() };
        let mut overrides = overrides.clone();
        overrides.insert(Address::ZERO, rich);
        let priced = TransactionRequest { gas_price: Some(9), ..request.clone() };
        assert_eq!(call(place, &priced, Some(&overrides), None).unwrap().output[31], 7);
        let cheap = TransactionRequest { gas_price: Some(6), ..request.clone() };
        let error = call(place, &cheap, Some(&overrides), None).unwrap_err();
        assert!(error.to_string().contains("max fee per gas less than block base fee"), "{error}");
    });
}

#[test]
fn an_estimate_is_enough_and_not_much_more() {
    // PUSH1 100 JUMPDEST PUSH1 1 SWAP1 SUB DUP1 DUP1 SSTORE DUP1 PUSH1 2 JUMPI STOP
    with_code(bytes!("60645b600190038080558060025700"), |place, request, overrides| {
        let gas = estimate(place, request, Some(overrides), None).unwrap();
        let with = |gas| {
            let request = TransactionRequest { gas: Some(gas), ..request.clone() };
            call(place, &request, Some(overrides), None).unwrap().failure
        };
        assert_eq!(with(gas), None);
        assert!(with(gas - gas / 50).is_some());
    });
}

#[test]
fn a_revert_has_its_reason() {
    let mut data = bytes!("08c379a0").to_vec();
    data.extend([0; 31]);
    data.push(32);
    data.extend([0; 31]);
    data.push(2);
    data.extend(b"no");
    assert_eq!(Failure::Revert(data.into()).to_string(), "execution reverted: no");
    assert_eq!(Failure::Revert(bytes!("08c379a0ff")).to_string(), "execution reverted");
    let mut panic = bytes!("4e487b71").to_vec();
    panic.extend([0; 31]);
    panic.push(0x11);
    assert_eq!(
        Failure::Revert(panic.into()).to_string(),
        "execution reverted: arithmetic underflow or overflow"
    );
}

#[test]
fn every_tracer_works_on_a_call() {
    with_code(bytes!("485f5260205ff3"), |place, request, overrides| {
        for name in ["", "callTracer", "prestateTracer", "4byteTracer", "noopTracer", "flatCallTracer"] {
            let options: GethDebugTracingOptions = serde_json::from_value(json!({ "tracer": name })).unwrap();
            let mut paper = Paper::default();
            trace_call(place, request, Some(overrides), None, &options, &mut paper).unwrap();
            let trace = paper.json();
            assert!(trace.is_object() || trace.is_array(), "{name}");
        }
        let unknown = serde_json::from_value(json!({ "tracer": "noSuchTracer" })).unwrap();
        let mut paper = Paper::default();
        assert!(trace_call(place, request, Some(overrides), None, &unknown, &mut paper).is_err());
    });
}

/// What a call is told of the state counts as what is in it: storage is in the way of a creation (EIP-7610).
#[test]
fn overridden_storage_is_in_the_way_of_a_creation() {
    // CREATE2 with salt 0 of one byte that is zero, whose result is given back.
    let create = bytes!("5f60015f5ff55f5260205ff3");
    let target = CONTRACT.create2_from_code(B256::ZERO, [0]);
    let created = |storage: &[(u8, u8)]| {
        let mut found = U256::ZERO;
        with_code(create.clone(), |place, request, overrides| {
            let slots = storage
                .iter()
                .map(|(slot, value)| (B256::with_last_byte(*slot), B256::with_last_byte(*value)));
            let change = AccountOverride { state_diff: Some(slots.collect()), ..Default::default() };
            let mut overrides = overrides.clone();
            overrides.insert(target, change);
            found = U256::from_be_slice(&call(place, request, Some(&overrides), None).unwrap().output);
        });
        found
    };
    let word = U256::from_be_bytes(target.into_word().0);
    assert_eq!(created(&[]), word);
    assert_eq!(created(&[(1, 0)]), word);
    assert_eq!(created(&[(1, 0), (2, 7)]), U256::ZERO);
}
