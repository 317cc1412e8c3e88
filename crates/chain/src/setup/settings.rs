//! What a node is configured with: `config.toml`, whose options have the names, meanings and mostly the
//! defaults of Besu's.
//!
//! Options are set on the command line, in the environment or in the file, as with Besu; [`super::besu`] says
//! what becomes of those that have no effect here.
//!
//! Differences, all on the side of a network of known nodes: paths in a file are relative to its
//! directory, so that a node's directory can be moved; there is no discovery; an option that neither
//! program has is a fault.

use super::besu;
use super::options::{Ineffective, Options, Place, SettingsError, SettingsFault, SettingsFaults};
use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use tally_peers::{Enode, Host};

/// The largest file that is read.
const LARGEST_FILE: u64 = 1 << 20;

/// A node's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `data-path`: where the node keeps its database, its key and the list of its peers.
    pub data_path: PathBuf,
    /// `genesis-file`
    pub genesis_file: PathBuf,
    /// `node-private-key-file`; by default `key` in the data path.
    pub node_private_key_file: PathBuf,
    /// `identity`: a name for people, told to peers with the version.
    pub identity: Option<String>,
    /// `network-id`; the chain's identifier when it is not set.
    pub network_id: Option<u64>,
    /// `sync-mode`
    pub sync_mode: SyncMode,
    /// `data-storage-format` and `bonsai-historical-block-limit`
    pub history: StateHistory,
    /// `logging`: the level of log lines.
    pub logging: Option<String>,
    /// `min-gas-price`, in wei: what a transaction must pay to be taken into the pool.
    pub min_gas_price: u64,
    /// `target-gas-limit`: where this node's blocks move the gas limit.
    pub target_gas_limit: Option<u64>,
    /// Options of `p2p-`.
    pub p2p: P2p,
    /// Options of `rpc-http-`.
    pub http: RpcServer,
    /// Options of `rpc-ws-`.
    pub ws: RpcServer,
    /// Options of `rpc-socket-`, which Besu does not have: a socket of the file system for this node's operator.
    pub socket: RpcSocket,
    /// `host-allowlist`: names by which clients may call this node; `*` stands for any.
    pub host_allowlist: Vec<String>,
    /// `rpc-max-logs-range`: blocks that `eth_getLogs` may look at; 0 for any number.
    pub rpc_max_logs_range: u64,
    /// `rpc-gas-cap`: the most gas of `eth_call` and `eth_estimateGas`; 50,000,000 where it is 0 or not set.
    pub rpc_gas_cap: u64,
    /// Options of traces and of long answers.
    pub traces: TraceSettings,
    /// Options of `tx-pool-`.
    pub pool: PoolSettings,
    /// `strict-tx-replay-protection-enabled`: refuse transactions that name no chain id (before EIP-155), which can
    /// be replayed from another chain. Unlike Besu's it is on unless it is switched off.
    pub replay_protection: bool,
    /// Options of `permissions-`.
    pub permissions: PermissionFiles,
    /// Options of `metrics-`.
    pub metrics: Metrics,
    /// `pid-path`: where the node writes the number of its process while it runs.
    pub pid_path: Option<PathBuf>,
    /// Options of Besu's that are set and change nothing here.
    pub ineffective: Vec<Ineffective>,
}

/// Where peers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct P2p {
    /// `p2p-enabled`
    pub enabled: bool,
    /// `p2p-host`: the host that the node's enode URL names.
    pub host: Host,
    /// `p2p-interface` and `p2p-port`: where it listens.
    pub listen: SocketAddr,
    /// `max-peers`
    pub max_peers: usize,
    /// `static-nodes-file`; by default `static-nodes.json` in the data path.
    pub static_nodes_file: PathBuf,
    /// `bootnodes`: further peers to keep sessions with.
    pub bootnodes: Vec<Enode>,
}

/// One of the two ways in which clients call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcServer {
    /// `-enabled`
    pub enabled: bool,
    /// `-host` and `-port`: where it listens.
    pub listen: SocketAddr,
    /// `-api`
    pub apis: Vec<Api>,
    /// `-cors-origins`; over HTTP only.
    pub cors_origins: Vec<String>,
    /// `-max-active-connections`
    pub max_active_connections: usize,
    /// `-max-request-content-length` over HTTP, `-max-frame-size` over WebSocket, in bytes.
    pub max_request_bytes: usize,
    /// `rpc-http-max-batch-size`: requests in one batch, for both.
    pub max_batch_size: usize,
    /// `-authentication-jwt-public-key-file`, when `-authentication-enabled`.
    pub jwt_public_key_file: Option<PathBuf>,
}

/// A socket of the file system that the owner of the process alone can open. It speaks HTTP; no web page reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcSocket {
    /// `-enabled`
    pub enabled: bool,
    /// `-path`; by default `rpc.sock` in the data path.
    pub path: PathBuf,
    /// `-api`: by default all groups but `TESTING`.
    pub apis: Vec<Api>,
}

/// A group of methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// `ADMIN`
    Admin,
    /// `DEBUG`
    Debug,
    /// `ETH`
    Eth,
    /// `IBFT`
    Ibft,
    /// `NET`
    Net,
    /// `QBFT`
    Qbft,
    /// `TESTING`: blocks as another program's tests ask for them, on a chain that no validators seal. Served nowhere
    /// unless an option names it.
    Testing,
    /// `TXPOOL`
    TxPool,
    /// `WEB3`
    Web3,
}

impl Api {
    /// Every group, with its name.
    pub const ALL: [(&'static str, Self); 9] = [
        ("ADMIN", Self::Admin),
        ("DEBUG", Self::Debug),
        ("ETH", Self::Eth),
        ("IBFT", Self::Ibft),
        ("NET", Self::Net),
        ("QBFT", Self::Qbft),
        ("TESTING", Self::Testing),
        ("TXPOOL", Self::TxPool),
        ("WEB3", Self::Web3),
    ];

    /// Those for everybody: what an endpoint serves that is not told more.
    pub const PUBLIC: [Self; 3] = [Self::Eth, Self::Net, Self::Web3];

    /// What an operator's own socket serves that is not told more: every group that is for a running network.
    pub const OPERATORS: [Self; 8] =
        [Self::Admin, Self::Debug, Self::Eth, Self::Ibft, Self::Net, Self::Qbft, Self::TxPool, Self::Web3];

    /// Whether the group changes how the node takes part in the chain, or costs as much as a trace.
    pub fn is_operators(self) -> bool {
        match self {
            Self::Admin | Self::Debug | Self::Ibft | Self::Qbft | Self::Testing | Self::TxPool => true,
            Self::Eth | Self::Net | Self::Web3 => false,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, api)| api)
    }
}

/// Besu's other groups.
const OTHER_APIS: [&str; 9] =
    ["CLIQUE", "EEA", "ENGINE", "IDENTITY", "MINER", "PERM", "PLUGINS", "PRIV", "TRACE"];

/// How a node comes to the state of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// `FULL`: by executing every block.
    Full,
    /// `FAST`, `SNAP` or `CHECKPOINT`: by taking the state at a recent block with its proof.
    Fast,
}

/// Which states a node keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateHistory {
    /// `FOREST`: that of every block.
    Archive,
    /// `BONSAI`: those of so many of the newest blocks.
    Blocks(u64),
}

/// Bounds of traces (`debug_trace…`) and of what answers hold in memory. Besu has no options for these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSettings {
    /// `rpc-max-traces`: traces that are made at a time.
    pub running: usize,
    /// `rpc-max-trace-steps`: instructions of one trace.
    pub steps: u64,
    /// `rpc-max-trace-bytes`: bytes of one trace that is sent while it is made.
    pub bytes: u64,
    /// `rpc-max-trace-seconds`: how long it may take from its first byte to its last, in seconds.
    pub seconds: u64,
    /// `rpc-max-held-bytes`: bytes that all answers and traces together hold in memory.
    pub held_bytes: usize,
}

/// Bounds of the pool of transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSettings {
    /// `tx-pool-max-size`: transactions at most; the pool's own bound when it is not set.
    pub max_size: Option<usize>,
    /// `tx-pool-max-future-by-sender`: transactions of one sender at most.
    pub max_by_sender: Option<usize>,
    /// `tx-pool-price-bump`: by how many percent a replacement must pay more.
    pub price_bump_percent: u64,
}

/// The files of the rules that are switched on, each by `-enabled`; by default
/// `permissions_config.toml` in the data path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionFiles {
    /// `permissions-nodes-config-file`
    pub nodes: Option<PathBuf>,
    /// `permissions-accounts-config-file`
    pub accounts: Option<PathBuf>,
}

/// Where metrics are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// `metrics-enabled`
    pub enabled: bool,
    /// `metrics-host` and `metrics-port`
    pub listen: SocketAddr,
}

/// Where a node's options come from. One that is set in several places counts in the first of these.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// Of the command line: names without `--`, and values. A list has commas.
    pub arguments: Vec<(String, String)>,
    /// Variables of the environment: names of options, see [`Settings::variable`], and values.
    pub environment: Vec<(String, String)>,
    /// The configuration file. Relative paths in it start from its directory, others from the working directory.
    pub file: Option<PathBuf>,
}

impl Settings {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`SettingsError`], with the path, and the line and the option of each fault.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        Self::gather(&Sources { file: Some(path.to_owned()), ..Sources::default() })
    }

    /// Reads options from all their sources.
    ///
    /// # Errors
    /// [`SettingsError`], with the place and the option of each fault.
    pub fn gather(sources: &Sources) -> Result<Self, SettingsError> {
        let fail = |faults| SettingsError { path: sources.file.clone(), faults };
        let text = match &sources.file {
            Some(path) => contents(path).map_err(|fault| fail(fault.into()))?,
            None => String::new(),
        };
        let base = sources.file.as_deref().and_then(Path::parent);
        let mut options =
            Options::parse(&text, base.unwrap_or(Path::new(""))).map_err(|fault| fail(fault.into()))?;
        for (place, set) in
            [(Place::Environment, &sources.environment), (Place::Arguments, &sources.arguments)]
        {
            set.iter().for_each(|(name, value)| options.set(place, name, value.clone()));
        }
        Self::finish(options, base).map_err(fail)
    }

    /// Reads the contents of a configuration file; relative paths in it start from `base`.
    ///
    /// # Errors
    /// [`SettingsFaults`], with the line and the option of each.
    pub fn parse(text: &str, base: &Path) -> Result<Self, SettingsFaults> {
        Self::finish(Options::parse(text, base)?, Some(base))
    }

    fn finish(mut options: Options<'_>, base: Option<&Path>) -> Result<Self, SettingsFaults> {
        let settings = Self::take(&mut options, base);
        let ineffective = options.finish()?;
        Ok(Self { ineffective, ..settings })
    }

    /// The names of all options that have an effect.
    pub fn names() -> Vec<&'static str> {
        let mut options = Options::none();
        Self::take(&mut options, None);
        options.asked()
    }

    /// The names of Besu's other options: other names of those that have an effect, those that change nothing here, and
    /// those of which the value that switches them off alone is taken.
    pub fn other_names() -> Vec<&'static str> {
        besu::names().collect()
    }

    /// The variable of the environment that sets an option, as Besu calls it: `BESU_RPC_HTTP_PORT` for `rpc-http-port`.
    pub fn variable(name: &str) -> String {
        format!("BESU_{}", name.replace('-', "_").to_uppercase())
    }

    /// `base`: the directory of the configuration file, if there is one.
    fn take(options: &mut Options<'_>, base: Option<&Path>) -> Self {
        for (other, name) in besu::OTHER_NAMES {
            options.rename(other, name);
        }
        let missing = |options: &mut Options<'_>, key, why| {
            options.fault(SettingsFault::Missing { key, why });
            PathBuf::new()
        };
        let data_path = options.path("data-path").or_else(|| base.map(Path::to_owned));
        let data_path = data_path.unwrap_or_else(|| {
            missing(options, "data-path", "a node keeps its database and its key somewhere")
        });
        let genesis_file = options.path("genesis-file").unwrap_or_else(|| {
            missing(options, "genesis-file", "a node belongs to a chain, which begins with its genesis file")
        });
        let in_data = |name: &str| data_path.join(name);
        let permissions_file = |options: &mut Options<'_>, enabled, key| -> Option<PathBuf> {
            let file = options.path(key);
            options.flag(enabled, false).then(|| file.unwrap_or_else(|| in_data("permissions_config.toml")))
        };
        let settings = Self {
            node_private_key_file: options.path("node-private-key-file").unwrap_or_else(|| in_data("key")),
            identity: options.parsed("identity", "a name of at most 32 letters, digits, - and _", |text| {
                let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
                let sound = !text.is_empty() && text.len() <= 32 && text.bytes().all(fits);
                sound.then(|| text.to_owned())
            }),
            network_id: match options.number("network-id", 0, 1..=u64::MAX) {
                0 => None,
                id => Some(id),
            },
            sync_mode: options
                .parsed("sync-mode", "FULL, FAST, SNAP or CHECKPOINT", |text| {
                    match text.to_ascii_uppercase().as_str() {
                        "FULL" => Some(SyncMode::Full),
                        "FAST" | "SNAP" | "CHECKPOINT" => Some(SyncMode::Fast),
                        _ => None,
                    }
                })
                .unwrap_or(SyncMode::Full),
            history: history(options),
            logging: options.parsed("logging", "OFF, ERROR, WARN, INFO, DEBUG, TRACE or ALL", |text| {
                match text.to_ascii_uppercase().as_str() {
                    "ALL" => Some("trace".to_owned()),
                    "OFF" | "ERROR" | "WARN" | "INFO" | "DEBUG" | "TRACE" => Some(text.to_ascii_lowercase()),
                    _ => None,
                }
            }),
            min_gas_price: options.number("min-gas-price", 1000, 0..=u64::MAX),
            target_gas_limit: match options.number("target-gas-limit", 0, 5000..=i64::MAX as u64) {
                0 => None,
                limit => Some(limit),
            },
            p2p: P2p {
                enabled: options.flag("p2p-enabled", true),
                host: options
                    .parsed("p2p-host", "an address or a host name", host)
                    .unwrap_or(Host::Ip(Ipv4Addr::LOCALHOST.into())),
                listen: SocketAddr::new(
                    address(options, "p2p-interface", Ipv4Addr::UNSPECIFIED),
                    options.number("p2p-port", 30303, 0..=u16::MAX),
                ),
                max_peers: size(options, "max-peers", 25, 1..=10_000),
                static_nodes_file: options
                    .path("static-nodes-file")
                    .unwrap_or_else(|| in_data("static-nodes.json")),
                bootnodes: options
                    .list("bootnodes", "enode URLs", |text| text.parse().ok())
                    .unwrap_or_default(),
            },
            http: RpcServer {
                enabled: options.flag("rpc-http-enabled", false),
                listen: SocketAddr::new(
                    address(options, "rpc-http-host", Ipv4Addr::LOCALHOST),
                    options.number("rpc-http-port", 8545, 0..=u16::MAX),
                ),
                apis: apis(options, "rpc-http-api", &Api::PUBLIC),
                cors_origins: options.list("rpc-http-cors-origins", "origins", origin).unwrap_or_default(),
                max_active_connections: size(options, "rpc-http-max-active-connections", 80, 1..=100_000),
                max_request_bytes: size(
                    options,
                    "rpc-http-max-request-content-length",
                    5_242_880,
                    1024..=1 << 30,
                ),
                max_batch_size: size(options, "rpc-http-max-batch-size", 1024, 1..=100_000),
                jwt_public_key_file: jwt(
                    options,
                    "rpc-http-authentication-enabled",
                    "rpc-http-authentication-jwt-public-key-file",
                ),
            },
            ws: RpcServer {
                enabled: options.flag("rpc-ws-enabled", false),
                listen: SocketAddr::new(
                    address(options, "rpc-ws-host", Ipv4Addr::LOCALHOST),
                    options.number("rpc-ws-port", 8546, 0..=u16::MAX),
                ),
                apis: apis(options, "rpc-ws-api", &Api::PUBLIC),
                cors_origins: Vec::new(),
                max_active_connections: size(options, "rpc-ws-max-active-connections", 80, 1..=100_000),
                max_request_bytes: size(options, "rpc-ws-max-frame-size", 1_048_576, 1024..=1 << 30),
                max_batch_size: 0,
                jwt_public_key_file: jwt(
                    options,
                    "rpc-ws-authentication-enabled",
                    "rpc-ws-authentication-jwt-public-key-file",
                ),
            },
            socket: RpcSocket {
                enabled: options.flag("rpc-socket-enabled", false),
                path: options.path("rpc-socket-path").unwrap_or_else(|| in_data("rpc.sock")),
                apis: apis(options, "rpc-socket-api", &Api::OPERATORS),
            },
            host_allowlist: options
                .list("host-allowlist", "host names", |text| (!text.is_empty()).then(|| text.to_owned()))
                .unwrap_or_else(|| vec!["localhost".to_owned(), "127.0.0.1".to_owned()]),
            rpc_max_logs_range: options.number("rpc-max-logs-range", 5000, 0..=u64::MAX),
            rpc_gas_cap: options.number("rpc-gas-cap", 0, 0..=u64::MAX),
            traces: TraceSettings {
                running: size(options, "rpc-max-traces", 2, 1..=64),
                steps: options.number("rpc-max-trace-steps", 100_000_000, 1..=u64::MAX),
                bytes: options.number("rpc-max-trace-bytes", 8 << 30, 1 << 20..=u64::MAX),
                seconds: options.number("rpc-max-trace-seconds", 300, 1..=86_400),
                held_bytes: size(options, "rpc-max-held-bytes", 256 << 20, 4 << 20..=1 << 40),
            },
            pool: PoolSettings {
                max_size: optional(options.number("tx-pool-max-size", 0_u64, 1..=100_000_000)),
                max_by_sender: optional(options.number(
                    "tx-pool-max-future-by-sender",
                    0_u64,
                    1..=100_000_000,
                )),
                price_bump_percent: options.number("tx-pool-price-bump", 10, 0..=1000),
            },
            replay_protection: options.flag("strict-tx-replay-protection-enabled", true),
            permissions: PermissionFiles {
                nodes: permissions_file(
                    options,
                    "permissions-nodes-config-file-enabled",
                    "permissions-nodes-config-file",
                ),
                accounts: permissions_file(
                    options,
                    "permissions-accounts-config-file-enabled",
                    "permissions-accounts-config-file",
                ),
            },
            metrics: Metrics {
                enabled: options.flag("metrics-enabled", false),
                listen: SocketAddr::new(
                    address(options, "metrics-host", Ipv4Addr::LOCALHOST),
                    options.number("metrics-port", 9545, 0..=u16::MAX),
                ),
            },
            pid_path: options.path("pid-path"),
            ineffective: Vec::new(),
            data_path,
            genesis_file,
        };
        let max_batch_size = settings.http.max_batch_size;
        Self { ws: RpcServer { max_batch_size, ..settings.ws }, ..settings }
    }
}

fn history(options: &mut Options<'_>) -> StateHistory {
    let archive = options.parsed("data-storage-format", "FOREST or BONSAI", |text| {
        match text.to_ascii_uppercase().as_str() {
            "FOREST" => Some(true),
            "BONSAI" => Some(false),
            _ => None,
        }
    });
    let blocks = options.number("bonsai-historical-block-limit", 512, 1..=u64::MAX);
    if archive == Some(true) { StateHistory::Archive } else { StateHistory::Blocks(blocks) }
}

fn address(options: &mut Options<'_>, key: &'static str, default: Ipv4Addr) -> IpAddr {
    let parse = |text: &str| match text {
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        text => text.parse().ok(),
    };
    options.parsed(key, "an IP address of this machine", parse).unwrap_or(default.into())
}

/// An address without brackets, or what may stand in an enode URL.
fn host(text: &str) -> Option<Host> {
    text.parse::<IpAddr>().map(Host::Ip).ok().or_else(|| text.parse().ok())
}

fn apis(options: &mut Options<'_>, key: &'static str, default: &[Api]) -> Vec<Api> {
    let names = "ADMIN, DEBUG, ETH, IBFT, NET, QBFT, TESTING, TXPOOL and WEB3";
    let others = |text: &str| OTHER_APIS.iter().any(|name| name.eq_ignore_ascii_case(text));
    let without = (others, "groups of Besu's that this list names besides have no methods here");
    let mut apis = options.list_without(key, names, Api::parse, without).unwrap_or_else(|| default.to_vec());
    apis.sort_unstable();
    apis.dedup();
    apis
}

/// What a browser sends as `Origin` (RFC 6454 section 6.1), or the words for any and none.
fn origin(text: &str) -> Option<String> {
    let sound = matches!(text, "*" | "all" | "none")
        || text
            .split_once("://")
            .is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty() && !host.contains('/'));
    match text {
        _ if !sound => None,
        "all" => Some("*".to_owned()),
        other => Some(other.to_owned()),
    }
}

fn jwt(options: &mut Options<'_>, enabled: &'static str, key: &'static str) -> Option<PathBuf> {
    let file = options.path(key);
    if !options.flag(enabled, false) {
        return None;
    }
    if file.is_none() {
        options.fault(SettingsFault::Missing {
            key,
            why: "authentication is on, and tokens are checked with it",
        });
    }
    file
}

/// A number of things or bytes, within these bounds.
fn size(options: &mut Options<'_>, key: &'static str, default: u64, bounds: RangeInclusive<u64>) -> usize {
    small(options.number(key, default, bounds))
}

/// The text of a configuration file.
fn contents(path: &Path) -> Result<String, SettingsFault> {
    let mut text = String::new();
    let file = fs::File::open(path).map_err(SettingsFault::Io)?;
    file.take(LARGEST_FILE + 1).read_to_string(&mut text).map_err(SettingsFault::Io)?;
    if text.len() as u64 > LARGEST_FILE {
        return Err(SettingsFault::Large { largest: LARGEST_FILE });
    }
    Ok(text)
}

/// Zero stands for an option that is not set, which none of these take as a value.
fn optional(number: u64) -> Option<usize> {
    if number == 0 { None } else { Some(small(number)) }
}

/// A number that was bounded when it was read.
fn small(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
