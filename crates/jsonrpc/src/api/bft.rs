//! Validators and their votes: `qbft_…` and `ibft_…`, which differ in nothing but their names.

use alloy_primitives::{Address, B256, Bytes};
use alloy_rpc_types_eth::{TransactionInput, TransactionRequest};
use serde_json::{Value, json};
use tally_chain::BlockId;
use tally_chain::sealed::{GET_VALIDATORS, Sealed, read_validators};
use tally_consensus::{Protocol, Vote};
use tally_evm::call::call;

use super::client::write_bool;
use super::{Answer, Api, Found, Methods, call_error, internal, read_error};
use crate::error::{METHOD_NOT_ENABLED, RpcError};
use crate::params::{BlockChoice, BlockName, Params};
use crate::server::CallContext;
use crate::write;

/// Blocks that signer metrics look at, unless asked otherwise (Besu's number).
const METRICS_BLOCKS: u64 = 100;
/// The most that they look at.
const MOST_METRICS_BLOCKS: u64 = 100_000;

/// The two protocols, by the names of their methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Qbft,
    Ibft,
}

pub(super) fn register(methods: &mut Methods<'_>) {
    for (prefix, kind) in [("qbft", Kind::Qbft), ("ibft", Kind::Ibft)] {
        methods.add(&format!("{prefix}_getValidatorsByBlockNumber"), move |api, params, out, context| {
            let [block] = params.take::<1>()?;
            validators(api, kind, BlockChoice::Name(block.required()?), out, context)
        });
        methods.add(&format!("{prefix}_getValidatorsByBlockHash"), move |api, params, out, context| {
            let [block] = params.take::<1>()?;
            validators(api, kind, BlockChoice::Hash(block.required::<B256>()?), out, context)
        });
        methods.add(&format!("{prefix}_getSignerMetrics"), move |api, params, out, context| {
            metrics(api, kind, params, out, context)
        });
        methods.add(&format!("{prefix}_proposeValidatorVote"), move |api, params, out, _| {
            let [address, add] = params.take::<2>()?;
            let vote = Vote { recipient: address.required::<Address>()?, add: add.required::<bool>()? };
            voting(api, kind)?;
            api.node.proposals().propose(vote);
            write_bool(out, true);
            Ok(())
        });
        methods.add(&format!("{prefix}_discardValidatorVote"), move |api, params, out, _| {
            let [address] = params.take::<1>()?;
            let address = address.required::<Address>()?;
            voting(api, kind)?;
            api.node.proposals().discard(address);
            write_bool(out, true);
            Ok(())
        });
        methods.add(&format!("{prefix}_getPendingVotes"), move |api, params, out, _| {
            params.none()?;
            voting(api, kind)?;
            let votes: serde_json::Map<String, Value> = api
                .node
                .proposals()
                .iter()
                .map(|vote| (format!("{:#x}", vote.recipient), Value::Bool(vote.add)))
                .collect();
            out.extend_from_slice(Value::Object(votes).to_string().as_bytes());
            Ok(())
        });
        methods.add(&format!("{prefix}_getRequestTimeoutSeconds"), move |api, params, out, _| {
            params.none()?;
            let next = api.chain().head().number().saturating_add(1);
            let seconds = sealed(api, kind)?.settings(next).request_timeout_ms / 1000;
            out.extend_from_slice(seconds.to_string().as_bytes());
            Ok(())
        });
    }
}

/// The rules of the chain's validators, if it has any of this kind.
fn sealed(api: &Api, kind: Kind) -> Result<&Sealed, RpcError> {
    let wanted = |sealed: &&Sealed| matches!(sealed.protocol(), Protocol::Qbft(_)) == (kind == Kind::Qbft);
    api.chain().sealed().filter(wanted).ok_or_else(|| {
        RpcError::new(METHOD_NOT_ENABLED, "Method not enabled: the chain has another consensus protocol")
    })
}

/// The same, where validators vote rather than a contract names them.
fn voting(api: &Api, kind: Kind) -> Result<&Sealed, RpcError> {
    let sealed = sealed(api, kind)?;
    if sealed.contract(api.chain().head().number().saturating_add(1)).is_some() {
        return Err(RpcError::new(METHOD_NOT_ENABLED, "Method not enabled: a contract names the validators"));
    }
    Ok(sealed)
}

fn validators(
    api: &Api,
    kind: Kind,
    choice: BlockChoice,
    out: &mut Vec<u8>,
    context: &CallContext<'_>,
) -> Answer {
    let sealed = sealed(api, kind)?;
    let Some(found) = api.look_up(choice)? else { return super::blocks::null(out) };
    let list = match sealed.contract(found.number()) {
        Some(contract) => by_contract(api, found, contract, context)?,
        None => sealed.extra(&found.header.header).map_err(|error| internal(&error))?.validators,
    };
    write::array(out, &list, |out, address| write::data(out, address.as_slice()));
    Ok(())
}

/// The validators that a contract named for a block, in the state before it.
fn by_contract(
    api: &Api,
    found: Found,
    contract: Address,
    context: &CallContext<'_>,
) -> Result<Vec<Address>, RpcError> {
    context.costly()?;
    let parent = api.find(BlockChoice::Name(BlockName::Number(found.number().saturating_sub(1))))?;
    let input = TransactionInput::new(Bytes::from_static(&GET_VALIDATORS));
    let request = TransactionRequest { to: Some(contract.into()), input, ..TransactionRequest::default() };
    let called =
        api.execute(&parent, context, |place| call(place, &request, None, None))?.map_err(call_error)?;
    read_validators(contract, &called.output).map_err(|error| internal(&error))
}

fn metrics(
    api: &Api,
    kind: Kind,
    params: Params<'_>,
    out: &mut Vec<u8>,
    context: &CallContext<'_>,
) -> Answer {
    let [from, to] = params.take::<2>()?;
    let (from, to) = (from.optional::<BlockName>()?, to.optional::<BlockName>()?);
    context.costly()?;
    sealed(api, kind)?;
    let reader = api.chain().reader();
    let head = reader.head().number();
    let number = |name: BlockName| match name {
        BlockName::Number(number) => number.min(head),
        BlockName::Earliest => 0,
        _ => head,
    };
    let to = to.map_or(head, number);
    let from = from.map_or(to.saturating_sub(METRICS_BLOCKS - 1), number);
    if from > to {
        return Err(RpcError::params("invalid block range params"));
    }
    if to - from >= MOST_METRICS_BLOCKS {
        return Err(RpcError::limit(format!("limit exceeded: at most {MOST_METRICS_BLOCKS} blocks")));
    }
    let mut signers = std::collections::BTreeMap::<Address, (u64, u64)>::new();
    // Nobody proposed the first block.
    for number in from.max(1)..=to {
        if number % 256 == 0 {
            context.check()?;
        }
        let Some(header) = reader.header(BlockId::Number(number)).map_err(read_error)? else { break };
        let signer = signers.entry(header.header.beneficiary).or_default();
        *signer = (signer.0 + 1, number);
    }
    // Validators that proposed nothing stand in the list as well.
    if let Some(validators) = &reader.head().branch.validators {
        for address in validators.set.addresses() {
            signers.entry(*address).or_default();
        }
    }
    let list: Vec<Value> = signers
        .into_iter()
        .map(|(address, (count, last))| {
            json!({
                "address": format!("{address:#x}"),
                "proposedBlockCount": format!("{count:#x}"),
                "lastProposedBlockNumber": format!("{last:#x}"),
            })
        })
        .collect();
    out.extend_from_slice(Value::Array(list).to_string().as_bytes());
    Ok(())
}
