//! What an endpoint serves, to whom, and how much.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::access::{Hosts, Origins};
use super::authentication::Authenticator;

/// What holds for the whole server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that read, answer cheap calls and write.
    pub threads: usize,
    /// Threads for costly calls.
    pub workers: usize,
    /// Threads for calls that wait for a disk.
    pub waiters: usize,
    /// Costly calls that may wait for one of them; one more is refused with -32005.
    pub queue: usize,
    /// How long a call may take, waiting included.
    pub call: Duration,
    /// Bytes that all answers above 64 KiB and all traces together hold in memory, until they are read
    /// (`rpc-max-held-bytes`); what would hold more is refused with -32005.
    pub held_bytes: usize,
    /// Traces that are made at a time (`rpc-max-traces`); one more is refused with -32005.
    pub traces: usize,
}

impl Default for Options {
    /// As many threads of each kind as there are cores, 1,024 waiting calls, 30 s for a call, 256 MiB of answers, 2 traces.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            threads: cores,
            workers: cores,
            waiters: 64,
            queue: 1024,
            call: Duration::from_secs(30),
            held_bytes: 256 << 20,
            traces: 2,
        }
    }
}

/// Where an endpoint listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address; port 0 takes any free one.
    Tcp(SocketAddr),
    /// A socket in the file system (`unix(7)`), which speaks HTTP as well.
    Unix(PathBuf),
}

impl std::fmt::Display for Listen {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix(path) => path.display().fmt(out),
        }
    }
}

/// One address to listen on.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Where.
    pub listen: Listen,
    /// Whether POST requests are answered.
    pub http: bool,
    /// Whether a connection may become a WebSocket.
    pub websocket: bool,
    /// The methods that may be called, by the part of their names before the underscore.
    pub namespaces: Namespaces,
    /// Pages that browsers may let call (`rpc-http-cors-origins`).
    pub origins: Origins,
    /// Names under which the node may be addressed (`host-allowlist`).
    pub hosts: Hosts,
    /// How callers show who they are; none lets everyone call.
    pub authentication: Option<Authenticator>,
    /// Methods that need no authentication (`rpc-http-api-methods-no-auth`), by their whole names.
    pub free_methods: HashSet<String>,
    /// How much of everything.
    pub limits: Limits,
}

impl Endpoint {
    /// HTTP and WebSocket at an address, with the defaults of everything else: ETH, NET and WEB3, no
    /// browser pages, `localhost` only, no authentication.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self::with(Listen::Tcp(listen))
    }

    /// The same at a socket of the file system that its owner alone can open: with no regard to names of hosts, which say
    /// nothing there.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { hosts: Hosts::Any, ..Self::with(Listen::Unix(path.to_owned())) }
    }

    fn with(listen: Listen) -> Self {
        Self {
            listen,
            http: true,
            websocket: true,
            namespaces: Namespaces::default(),
            origins: Origins::None,
            hosts: Hosts::default(),
            authentication: None,
            free_methods: HashSet::new(),
            limits: Limits::default(),
        }
    }
}

/// How much one endpoint and one connection of it may ask for. Bytes and counts; 0 calls a second means any.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time (`rpc-http-max-active-connections`); for one more the one is closed whose client has been waited
    /// for longest, those without a token first.
    pub connections: usize,
    /// Bytes of a request's body, or of a WebSocket message (`rpc-http-max-request-content-length`).
    pub request_bytes: usize,
    /// Bytes of one call's answer that is held in memory until it is whole.
    pub answer_bytes: usize,
    /// Bytes of an answer that leaves while it is made: a trace of instructions over HTTP (`rpc-max-trace-bytes`).
    pub stream_bytes: u64,
    /// How long such an answer may take from its first byte to its last (`rpc-max-trace-seconds`). Over HTTP the reader of
    /// any answer above 64 KiB has as long, and [`Limits::stall`] more.
    pub stream: Duration,
    /// Calls in a batch (`rpc-http-max-batch-size`).
    pub batch_calls: usize,
    /// Bytes of a batch's answers; calls after that get an error.
    pub batch_answer_bytes: usize,
    /// How deep the JSON of a request may nest.
    pub depth: usize,
    /// Calls a second on one connection, on average.
    pub calls_per_second: u32,
    /// Calls at once after a pause, on one connection.
    pub burst: u32,
    /// Costly calls under way on one WebSocket; more are not read until one is answered.
    pub concurrent_calls: usize,
    /// Subscriptions on one WebSocket.
    pub subscriptions: usize,
    /// Bytes that wait for a WebSocket's reader before it is dropped.
    pub backlog_bytes: usize,
    /// How long a connection may take over a request's head, the pause before it included.
    pub idle: Duration,
    /// How long it may take over the body.
    pub body: Duration,
    /// How long a client may take nothing of what waits for it; then its connection is closed.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            request_bytes: 5 << 20,
            answer_bytes: 128 << 20,
            stream_bytes: 8 << 30,
            stream: Duration::from_secs(300),
            batch_calls: 1024,
            batch_answer_bytes: 25 << 20,
            depth: 64,
            calls_per_second: 0,
            burst: 1000,
            concurrent_calls: 16,
            subscriptions: 128,
            backlog_bytes: 16 << 20,
            idle: Duration::from_secs(60),
            body: Duration::from_secs(30),
            stall: Duration::from_secs(20),
        }
    }
}

/// Namespaces of methods, as `rpc-http-api` names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespaces(Vec<String>);

/// A name that is no namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no API: use {names}", names = Namespaces::KNOWN.join(", "))]
pub struct UnknownNamespace(String);

impl Namespaces {
    /// All that there are.
    pub const KNOWN: [&'static str; 9] =
        ["ETH", "NET", "WEB3", "TXPOOL", "DEBUG", "ADMIN", "QBFT", "IBFT", "TESTING"];

    /// Reads names in any case.
    ///
    /// # Errors
    /// [`UnknownNamespace`] names the first that is none.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownNamespace> {
        let mut list: Vec<String> = Vec::new();
        for name in names {
            let name = name.trim().to_ascii_uppercase();
            if !Self::KNOWN.contains(&name.as_str()) {
                return Err(UnknownNamespace(name));
            }
            list.push(name.to_ascii_lowercase());
        }
        Ok(Self(list))
    }

    /// Whether methods whose names begin with `namespace_` (in lower case) may be called.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        // `rpc_modules` says what there is and is therefore always there.
        namespace == "rpc" || self.0.iter().any(|name| name == namespace)
    }

    /// The namespaces in lower case.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl Default for Namespaces {
    fn default() -> Self {
        Self(vec!["eth".into(), "net".into(), "web3".into()])
    }
}
