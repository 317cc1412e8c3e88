//! One node of a chain: its directory's settings, made into what runs.

mod telemetry;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tally_chain::chain::Options as ChainOptions;
use tally_chain::node::{self, Node};
use tally_chain::pool;
use tally_chain::setup::{Api, RpcServer, Settings, StateHistory, SyncMode};
use tally_chain::{Chain, protocol};
use tally_consensus::{Config as EngineConfig, Keys, Protocol, SecretKey};
use tally_evm::Genesis;
use tally_jsonrpc::api;
use tally_jsonrpc::server::{Authenticator, Endpoint, Hosts, Namespaces, Options, Origins, Server};
use tally_peers::{Config, Network, NodeKey, Permissions, static_nodes};
use tally_state::{Database, History, Options as StateOptions, StoreOptions};
use tokio::runtime::Runtime;

/// The largest genesis file that is read, in bytes.
const LARGEST_GENESIS: u64 = 256 << 20;
/// How long calls that are under way may take when the node stops.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running node.
pub(crate) struct ChainNode {
    node: Node,
    server: Option<Server>,
    /// The names of its endpoints, in their order.
    endpoints: Vec<&'static str>,
    runtime: Option<Runtime>,
    metrics: Option<std::net::SocketAddr>,
}

/// Opens the chain of a node's directory, without anything around it.
pub(crate) fn open_chain(settings: &Settings) -> anyhow::Result<Chain> {
    let path = &settings.genesis_file;
    let text = read_limited(path, LARGEST_GENESIS)?;
    let genesis = Genesis::parse(&text).with_context(|| format!("the genesis file {}", path.display()))?;
    let directory = settings.data_path.join("database");
    let database = Database::open(&directory, StoreOptions::default())
        .with_context(|| format!("the database {}", directory.display()))?;
    let history = match settings.history {
        StateHistory::Archive => History::Archive,
        StateHistory::Blocks(blocks) => History::Blocks(blocks),
    };
    let state = StateOptions { history, ..StateOptions::default() };
    let options = ChainOptions { state, ..ChainOptions::default() };
    Chain::open(database, genesis, options).with_context(|| format!("the chain of {}", path.display()))
}

fn read_limited(path: &Path, limit: u64) -> anyhow::Result<String> {
    let length = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len();
    anyhow::ensure!(length <= limit, "{} has {length} bytes, at most {limit} are read", path.display());
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

impl ChainNode {
    /// Starts the node that the settings describe. `name` is what its log lines call it.
    pub(crate) fn start(settings: &Settings, name: &str) -> anyhow::Result<Self> {
        for option in &settings.ineffective {
            tracing::warn!("{}: {} changes nothing here: {}", option.place, option.key, option.why);
        }
        let chain = open_chain(settings)?;
        let key_file = &settings.node_private_key_file;
        let key = NodeKey::read_or_create(key_file)
            .with_context(|| format!("the node's key {}", key_file.display()))?;
        let permissions =
            Permissions::open(settings.permissions.nodes.clone(), settings.permissions.accounts.clone())?;
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(cores.min(2))
            .thread_name("peers")
            .enable_all()
            .build()
            .context("cannot start the threads that talk to peers")?;
        let network = match settings.p2p.enabled {
            true => Some(
                Network::start(network_config(settings, &chain, &key, &permissions)?, runtime.handle())
                    .context("cannot listen for peers")?,
            ),
            false => None,
        };
        let protocol = chain.sealed().map_or(Protocol::QBFT, tally_chain::sealed::Sealed::protocol);
        let keys: Arc<dyn Keys> = Arc::new(SecretKey::from_bytes(&key.secret_bytes())?);
        let options = node::Options {
            pool: pool_limits(settings),
            engine: EngineConfig::new(protocol),
            keys: Some(keys),
            permissions,
            target_gas_limit: settings.target_gas_limit,
            threads: cores,
            sync: match settings.sync_mode {
                SyncMode::Full => node::Sync::Full,
                SyncMode::Fast => node::Sync::Fast(node::Distances::default()),
            },
        };
        let network_id = settings.network_id.unwrap_or(chain.chain_id());
        let node = Node::start(chain, network, options)?;
        telemetry::log_notices(&node, name);
        let registry = tally_ops::metrics::Registry::new();
        let mut methods = api::Settings::new(client_version(settings), network_id);
        if settings.rpc_gas_cap > 0 {
            methods.call_gas = settings.rpc_gas_cap;
        }
        methods.trace_steps = settings.traces.steps;
        methods.logs.blocks = match settings.rpc_max_logs_range {
            0 => u64::MAX,
            blocks => blocks,
        };
        let mut endpoints = Vec::new();
        let mut listening = Vec::new();
        for (name, server, websocket) in [("http", &settings.http, false), ("ws", &settings.ws, true)] {
            if server.enabled {
                endpoints.push(name);
                listening.push(endpoint(settings, server, websocket)?);
            }
        }
        if settings.socket.enabled {
            let mut own = Endpoint::at(&settings.socket.path);
            own.namespaces = namespaces(&settings.socket.apis)?;
            bound_traces(settings, &mut own);
            listening.push(own);
        }
        let server = if listening.is_empty() {
            None
        } else {
            let methods = api::registry(node.clone(), methods);
            let options = Options {
                held_bytes: settings.traces.held_bytes,
                traces: settings.traces.running,
                ..Options::default()
            };
            let started = Server::start(listening, methods, &options, &registry);
            Some(started.inspect_err(|_| node.stop())?)
        };
        let metrics = match settings.metrics.enabled {
            true => Some(runtime.block_on(telemetry::serve(settings.metrics.listen, &node, registry))?),
            false => None,
        };
        Ok(Self { node, server, endpoints, runtime: Some(runtime), metrics })
    }

    /// The node itself.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Where it can be reached: `p2p=… http=… ws=… metrics=…`, what there is of it.
    pub(crate) fn addresses(&self) -> String {
        let p2p = self.node.network().and_then(Network::local_address);
        let servers = self.server.iter().flat_map(|server| server.addresses().iter().copied().map(Some));
        [("p2p", p2p), ("metrics", self.metrics)]
            .into_iter()
            .chain(self.endpoints.iter().copied().zip(servers))
            .filter_map(|(name, address)| Some(format!(" {name}={}", address?)))
            .collect()
    }

    /// Takes no more calls, finishes those under way, and ends. Then another process, or this one, may open its directory.
    pub(crate) fn stop(mut self) {
        if let Some(server) = self.server.take() {
            server.stop(PATIENCE);
        }
        self.node.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(PATIENCE);
        }
        let node = self.node.downgrade();
        drop(self);
        if !node.wait_until_gone(PATIENCE) {
            tracing::warn!("the store is still open: somebody holds the node");
        }
    }
}

fn network_config(
    settings: &Settings,
    chain: &Chain,
    key: &NodeKey,
    permissions: &Permissions,
) -> anyhow::Result<Config> {
    let mut seed = u64::from_le_bytes(tally_gateway::random()?);
    // SplitMix64 (Steele, Lea, Flood, 2014): spreads attempts to connect, keeps no secret.
    let random = Box::new(move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    });
    let network_id = settings.network_id.unwrap_or(chain.chain_id());
    let mut config = Config::new(key.clone(), network_id, chain.genesis_hash(), protocol::kinds(), random);
    config.listen = Some(settings.p2p.listen);
    config.advertised = Some(settings.p2p.host.clone());
    config.known = static_nodes::read(&settings.p2p.static_nodes_file)?;
    config.known.extend(settings.p2p.bootnodes.iter().cloned());
    config.limits.peers = settings.p2p.max_peers;
    config.permissions = permissions.clone();
    if let Some(identity) = &settings.identity {
        config.client = format!("{}/{identity}", config.client);
    }
    Ok(config)
}

fn pool_limits(settings: &Settings) -> pool::Limits {
    let defaults = pool::Limits::default();
    pool::Limits {
        transactions: settings.pool.max_size.unwrap_or(defaults.transactions),
        sender: settings.pool.max_by_sender.unwrap_or(defaults.sender),
        price_bump: u32::try_from(settings.pool.price_bump_percent).unwrap_or(u32::MAX),
        min_gas_price: u128::from(settings.min_gas_price),
        replay_protection: settings.replay_protection,
        ..defaults
    }
}

fn endpoint(settings: &Settings, server: &RpcServer, websocket: bool) -> anyhow::Result<Endpoint> {
    let mut endpoint = Endpoint::new(server.listen);
    endpoint.http = !websocket;
    endpoint.websocket = websocket;
    endpoint.namespaces = namespaces(&server.apis)?;
    if server.jwt_public_key_file.is_none() && server.apis.iter().any(|api| api.is_operators()) {
        tracing::warn!(
            listen = %server.listen,
            "ADMIN, DEBUG, IBFT, QBFT, TESTING and TXPOOL are for whoever reaches this address, without a token: \
             see rpc-http-authentication-enabled, rpc-socket-enabled"
        );
    }
    endpoint.origins = Origins::parse(server.cors_origins.iter().map(String::as_str));
    endpoint.hosts = Hosts::parse(settings.host_allowlist.iter().map(String::as_str));
    if let Some(file) = &server.jwt_public_key_file {
        let authenticator = Authenticator::public_key_file(file, "RS256");
        let authenticator = authenticator.or_else(|_| Authenticator::public_key_file(file, "ES256"));
        endpoint.authentication = Some(authenticator.with_context(|| format!("{}", file.display()))?);
    }
    endpoint.limits.connections = server.max_active_connections;
    endpoint.limits.request_bytes = server.max_request_bytes;
    endpoint.limits.batch_calls = server.max_batch_size;
    bound_traces(settings, &mut endpoint);
    Ok(endpoint)
}

fn bound_traces(settings: &Settings, endpoint: &mut Endpoint) {
    endpoint.limits.stream_bytes = settings.traces.bytes;
    endpoint.limits.stream = Duration::from_secs(settings.traces.seconds);
}

fn namespaces(apis: &[Api]) -> anyhow::Result<Namespaces> {
    let names = Api::ALL.into_iter().filter(|(_, api)| apis.contains(api)).map(|(name, _)| name);
    Ok(Namespaces::parse(names)?)
}

/// `name/version/system/language`, as clients of Ethereum say it.
fn client_version(settings: &Settings) -> String {
    let identity = settings.identity.as_ref().map(|identity| format!("/{identity}")).unwrap_or_default();
    format!(
        "tally{identity}/v{}/{}-{}/rust",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}
