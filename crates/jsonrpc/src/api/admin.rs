//! The node's peers: `admin_…`.

use serde_json::{Value, json};
use tally_peers::{Enode, Network, Role};

use super::client::write_bool;
use super::{Api, Methods};
use crate::error::{INVALID_PARAMS, METHOD_NOT_SUPPORTED, RpcError};
use crate::params::Argument;

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("admin_peers", |api, params, out, _| {
        params.none()?;
        let peers: Vec<Value> = api.node.network().map_or_else(Vec::new, peers);
        out.extend_from_slice(Value::Array(peers).to_string().as_bytes());
        Ok(())
    });
    methods.add("admin_nodeInfo", |api, params, out, _| {
        params.none()?;
        out.extend_from_slice(node_info(api).to_string().as_bytes());
        Ok(())
    });
    methods.add("admin_addPeer", |api, params, out, _| {
        let [enode] = params.take::<1>()?;
        let added = network(api)?.add(parse(enode)?).map_err(|error| RpcError::server(error.to_string()))?;
        write_bool(out, added);
        Ok(())
    });
    methods.add("admin_removePeer", |api, params, out, _| {
        let [enode] = params.take::<1>()?;
        write_bool(out, network(api)?.remove(&parse(enode)?.id));
        Ok(())
    });
}

fn network(api: &Api) -> Result<&Network, RpcError> {
    api.node.network().ok_or_else(|| {
        RpcError::new(METHOD_NOT_SUPPORTED, "Method not supported: the node runs without peers")
    })
}

fn parse(argument: Argument<'_>) -> Result<Enode, RpcError> {
    let text = argument.required::<String>()?;
    text.parse().map_err(|error| RpcError::new(INVALID_PARAMS, format!("invalid enode: {error}")))
}

fn peers(network: &Network) -> Vec<Value> {
    network
        .peers()
        .into_iter()
        .map(|peer| {
            json!({
                "version": format!("{:#x}", peer.version),
                "name": peer.client,
                "caps": [format!("tally/{}", peer.version)],
                "network": {
                    "localAddress": network.local_address().map(|address| address.to_string()),
                    "remoteAddress": peer.remote.to_string(),
                    "inbound": peer.role != Role::Initiator,
                    "trusted": peer.known,
                    "static": peer.known,
                },
                "port": format!("{:#x}", peer.remote.port()),
                "id": format!("0x{}", peer.id),
                "enode": peer.enode.to_string(),
                "protocols": { "tally": {
                    "address": peer.peer.to_string(),
                    "score": peer.score,
                    "connectedSeconds": peer.connected.as_secs(),
                    "roundTripMicroseconds": peer.round_trip.map(|time| time.as_micros() as u64),
                    "bytesIn": peer.bytes_in,
                    "bytesOut": peer.bytes_out,
                } },
            })
        })
        .collect()
}

fn node_info(api: &Api) -> Value {
    let chain = api.chain();
    let head = chain.head();
    let network = api.node.network();
    let enode = network.and_then(Network::enode);
    let address = network.and_then(Network::local_address);
    json!({
        "name": api.settings.client_version,
        "id": network.map(|network| network.id().to_string()),
        "enode": enode.as_ref().map(ToString::to_string),
        "ip": address.map(|address| address.ip().to_string()),
        "listenAddr": address.map(|address| address.to_string()),
        "ports": { "discovery": 0, "listener": address.map(|address| address.port()) },
        "protocols": { "eth": {
            "config": chain.genesis().config,
            "difficulty": format!("{:#x}", head.branch.total_difficulty()),
            "genesis": chain.genesis_hash(),
            "head": head.hash(),
            "network": api.settings.network_id,
        } },
    })
}
