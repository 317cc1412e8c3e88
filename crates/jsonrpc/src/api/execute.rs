//! Calls that change nothing: `eth_call`, `eth_estimateGas`, `eth_createAccessList`, `eth_simulateV1`.

use alloy_primitives::B256;
use alloy_rpc_types_eth::simulate::SimulatePayload;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use tally_evm::call::{CallError, access_list, call, estimate};
use tally_evm::simulate::{Simulated, simulate};
use tally_state::Changes;

use super::{Answer, Api, Methods, call_error, failure_error};
use crate::error::RpcError;
use crate::params::{Argument, BlockChoice, Params};
use crate::server::CallContext;
use crate::write::{self, Object, Placed, Transactions};

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("eth_call", eth_call);
    methods.add("eth_estimateGas", estimate_gas);
    methods.add("eth_createAccessList", create_access_list);
    methods.add("eth_simulateV1", simulate_v1);
}

/// The transaction of a call.
pub(super) fn request(argument: Argument<'_>) -> Result<TransactionRequest, RpcError> {
    let missing = || RpcError::params("missing value for required argument 0");
    argument.deserialize()?.ok_or_else(missing)
}

fn eth_call(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [transaction, block, state, environment] = params.take::<4>()?;
    context.costly()?;
    let request = request(transaction)?;
    let state = state.deserialize::<StateOverride>()?;
    let environment = environment.deserialize::<BlockOverrides>()?;
    let found = api.find(block.optional::<BlockChoice>()?.unwrap_or_default())?;
    let called = api
        .execute(&found, context, |place| call(place, &request, state.as_ref(), environment.as_ref()))?
        .map_err(call_error)?;
    match &called.failure {
        Some(failure) => Err(failure_error(failure)),
        None => {
            write::data(out, &called.output);
            Ok(())
        }
    }
}

fn estimate_gas(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [transaction, block, state, environment] = params.take::<4>()?;
    context.costly()?;
    let request = request(transaction)?;
    let state = state.deserialize::<StateOverride>()?;
    let environment = environment.deserialize::<BlockOverrides>()?;
    let found = api.find(block.optional::<BlockChoice>()?.unwrap_or_default())?;
    let gas = api
        .execute(&found, context, |place| estimate(place, &request, state.as_ref(), environment.as_ref()))?
        .map_err(call_error)?;
    write::quantity(out, gas);
    Ok(())
}

fn create_access_list(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [transaction, block, state] = params.take::<3>()?;
    context.costly()?;
    let request = request(transaction)?;
    let state = state.deserialize::<StateOverride>()?;
    let found = api.find(block.optional::<BlockChoice>()?.unwrap_or_default())?;
    let outcome = api
        .execute(&found, context, |place| access_list(place, &request, state.as_ref(), None))?
        .map_err(call_error)?;
    let mut object = Object::open(out);
    object.member(out, "accessList");
    write::access_list(out, &outcome.access_list);
    if let Some(failure) = &outcome.failure {
        object.member(out, "error");
        write::string(out, &failure.to_string());
    }
    object.quantity(out, "gasUsed", outcome.gas_used);
    object.close(out);
    Ok(())
}

/// The error of a simulation, with the numbers that the execution-apis have for it.
fn simulate_error(error: CallError) -> RpcError {
    match &error {
        CallError::Stopped | CallError::State(_) => call_error(error),
        _ => RpcError::new(error.simulate_code(), error.to_string()),
    }
}

fn simulate_v1(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [payload, block] = params.take::<2>()?;
    context.costly()?;
    let payload: SimulatePayload<TransactionRequest> =
        payload.deserialize()?.ok_or_else(|| RpcError::params("missing value for required argument 0"))?;
    if payload.block_state_calls.is_empty() {
        return Err(RpcError::params("empty input"));
    }
    let found = api.find(block.optional::<BlockChoice>()?.unwrap_or_default())?;
    let base = &found.header;
    let blocks = api
        .execute(&found, context, |place| {
            let mut root = |changes: &Changes| -> Result<B256, Box<dyn std::error::Error + Send + Sync>> {
                Ok(place.state.apply(changes)?.root())
            };
            simulate(place, &base.header, base.hash, &payload, &mut root)
        })?
        .map_err(simulate_error)?;
    write::array(out, &blocks, |out, block| write_simulated(out, block, payload.return_full_transactions));
    Ok(())
}

fn write_simulated(out: &mut Vec<u8>, block: &Simulated, full: bool) {
    let list: Vec<_> =
        block.transactions.iter().map(|made| (made.hash, made.sender, &made.transaction)).collect();
    let hashes: Vec<u8> = block.transactions.iter().flat_map(|made| made.hash.0).collect();
    let transactions = if full { Transactions::Unsigned(&list) } else { Transactions::Hashes(&hashes) };
    let withdrawals = block.header.withdrawals_root.map(|_| &[][..]);
    let mut object = Object::open(out);
    let size = block.size as u64;
    write::open_block(out, &mut object, block.hash, &block.header, size, transactions, &[], withdrawals);
    object.member(out, "calls");
    let mut first_log = 0;
    write::array(
        out,
        (0..).zip(block.calls.iter().zip(&block.transactions)),
        |out, (index, (call, made))| {
            let placed = Placed {
                hash: block.hash,
                number: block.header.number,
                timestamp: block.header.timestamp,
                index,
                base_fee: block.header.base_fee_per_gas,
            };
            let mut object = Object::open(out);
            object.data(out, "returnData", call.return_data());
            object.member(out, "logs");
            write::array(out, (first_log..).zip(&call.logs), |out, (index, log)| {
                write::log(out, log, &placed, made.hash, index, false);
            });
            first_log += call.logs.len() as u64;
            object.quantity(out, "gasUsed", call.called.gas_used);
            object.quantity(out, "maxUsedGas", call.called.gas_needed);
            object.quantity(out, "status", u64::from(call.called.failure.is_none()));
            if let Some(failure) = &call.called.failure {
                object.member(out, "error");
                let mut error = Object::open(out);
                error.member(out, "message");
                write::string(out, &failure.to_string());
                error.member(out, "code");
                out.extend_from_slice(failure.code().to_string().as_bytes());
                if let Some(data) = failure.data() {
                    error.data(out, "data", data);
                }
                error.close(out);
            }
            object.close(out);
        },
    );
    object.close(out);
}
