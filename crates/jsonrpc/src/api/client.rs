//! What the client is and where it stands: `eth_chainId`, `eth_syncing`, `net_…`, `web3_…`.

use alloy_primitives::{Bytes, keccak256};
use serde_json::json;
use tally_chain::Node;

use super::{Answer, Api, Methods};
use crate::error::RpcError;
use crate::params::Params;
use crate::server::CallContext;
use crate::write::{self, Object};

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("eth_blockNumber", block_number);
    methods.add("eth_chainId", chain_id);
    methods.add("eth_syncing", syncing);
    methods.add("eth_capabilities", capabilities);
    methods.add("eth_accounts", |_, params, out, _| {
        // This node keeps no keys of its users.
        params.none()?;
        out.extend_from_slice(b"[]");
        Ok(())
    });
    methods.add("eth_coinbase", coinbase);
    methods.add("eth_mining", |api, params, out, _| {
        params.none()?;
        write_bool(out, api.node.consensus().validator);
        Ok(())
    });
    methods.add("eth_hashrate", |_, params, out, _| {
        params.none()?;
        write::quantity(out, 0);
        Ok(())
    });
    methods.add("eth_protocolVersion", |_, params, out, _| {
        params.none()?;
        write::quantity(out, u64::from(PROTOCOL_VERSION));
        Ok(())
    });
    for name in ["eth_sign", "eth_signTransaction", "eth_sendTransaction"] {
        methods.add(name, |_, _, _, _| Err(RpcError::server("unknown account: this node keeps no keys of its users, sign first and use eth_sendRawTransaction")));
    }
    methods.add("net_version", |api, params, out, _| {
        params.none()?;
        write::string(out, &api.settings.network_id.to_string());
        Ok(())
    });
    methods.add("net_listening", |api, params, out, _| {
        params.none()?;
        write_bool(out, api.node.network().is_some_and(|network| network.local_address().is_some()));
        Ok(())
    });
    methods.add("net_peerCount", |api, params, out, _| {
        params.none()?;
        write::quantity(out, api.node.network().map_or(0, |network| network.peer_count() as u64));
        Ok(())
    });
    methods.add("net_enode", |api, params, out, _| {
        params.none()?;
        let enode = api.node.network().and_then(tally_peers::Network::enode);
        let enode = enode.ok_or_else(|| RpcError::server("the node has no peers and listens for none"))?;
        write::string(out, &enode.to_string());
        Ok(())
    });
    methods.add("web3_clientVersion", |api, params, out, _| {
        params.none()?;
        write::string(out, &api.settings.client_version);
        Ok(())
    });
    methods.add("web3_sha3", |_, params, out, _| {
        let [bytes] = params.take::<1>()?;
        write::data(out, keccak256(bytes.required::<Bytes>()?).as_slice());
        Ok(())
    });
    methods.add("rpc_modules", |_, params, out, _| {
        params.none()?;
        let modules = json!({"admin": "1.0", "debug": "1.0", "eth": "1.0", "ibft": "1.0", "net": "1.0",
            "qbft": "1.0", "txpool": "1.0", "web3": "1.0"});
        out.extend_from_slice(modules.to_string().as_bytes());
        Ok(())
    });
}

/// The version of the wire protocol that other clients speak whose data this node has (eth/68).
const PROTOCOL_VERSION: u8 = 68;

pub(super) fn write_bool(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

fn block_number(api: &Api, params: Params<'_>, out: &mut Vec<u8>, _: &CallContext<'_>) -> Answer {
    params.none()?;
    write::quantity(out, api.chain().head().number());
    Ok(())
}

fn chain_id(api: &Api, params: Params<'_>, out: &mut Vec<u8>, _: &CallContext<'_>) -> Answer {
    params.none()?;
    write::quantity(out, api.chain().chain_id());
    Ok(())
}

fn syncing(api: &Api, params: Params<'_>, out: &mut Vec<u8>, _: &CallContext<'_>) -> Answer {
    params.none()?;
    write_syncing(&api.node, out);
    Ok(())
}

/// Where a node stands that is behind its peers; `false` for one that is not.
pub(super) fn write_syncing(node: &Node, out: &mut Vec<u8>) {
    let Some(highest) = node.behind() else {
        out.extend_from_slice(b"false");
        return;
    };
    let head = node.chain().head().number();
    // While a state is taken with its proof, blocks are there of which nothing else can be asked yet.
    let current = node.fast_sync().map_or(head, |progress| progress.block.max(head));
    let mut object = Object::open(out);
    object.quantity(out, "startingBlock", head);
    object.quantity(out, "currentBlock", current);
    object.quantity(out, "highestBlock", highest);
    object.close(out);
}

fn coinbase(api: &Api, params: Params<'_>, out: &mut Vec<u8>, _: &CallContext<'_>) -> Answer {
    params.none()?;
    let Some(address) = api.node.validator() else {
        return Err(RpcError::server("the node is no validator and has no coinbase"));
    };
    write::data(out, address.as_slice());
    Ok(())
}

fn capabilities(api: &Api, params: Params<'_>, out: &mut Vec<u8>, _: &CallContext<'_>) -> Answer {
    params.none()?;
    let reader = api.chain().reader();
    let oldest_state = reader.oldest_state().map_err(super::chain_error)?;
    let mut object = Object::open(out);
    object.member(out, "head");
    let mut head = Object::open(out);
    head.quantity(out, "number", reader.head().number());
    head.data(out, "hash", reader.head().hash());
    head.close(out);
    // Blocks, receipts and indexes are never deleted; states may be.
    for (name, oldest) in [
        ("state", oldest_state),
        ("tx", 0),
        ("logs", 0),
        ("receipts", 0),
        ("blocks", 0),
        ("stateproofs", oldest_state),
    ] {
        object.member(out, name);
        let mut resource = Object::open(out);
        resource.member(out, "disabled");
        write_bool(out, false);
        resource.quantity(out, "oldestBlock", oldest);
        resource.close(out);
    }
    object.close(out);
    Ok(())
}
