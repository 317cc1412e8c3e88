//! What those who watch a node of a chain see: log lines, metrics, health.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tally_chain::node::{Node, Notice};
use tally_ops::metrics::{Gauge, Registry};
use tokio::sync::broadcast::error::RecvError;

/// Writes what goes wrong to the log, until the node ends.
pub(super) fn log_notices(node: &Node, name: &str) {
    let mut notices = node.notices();
    let name = name.to_owned();
    std::thread::spawn(move || {
        loop {
            match notices.blocking_recv() {
                Ok(Notice::Misbehaviour { peer, what }) => {
                    tracing::warn!(node = name, %peer, "a peer misbehaves: {what}");
                }
                Ok(Notice::LeftOut { transaction, sender, reason }) => {
                    tracing::warn!(
                        node = name, %transaction, %sender,
                        "a transaction was dropped, no block could follow one with it: {reason}"
                    );
                }
                Ok(Notice::Clock { peer, ahead_ms }) => {
                    tracing::warn!(
                        node = name, %peer, ahead_ms,
                        "a peer's clock differs: blocks of a validator whose clock is wrong are not taken"
                    );
                }
                Ok(Notice::Forks { peer }) => {
                    tracing::warn!(
                        node = name, %peer,
                        "a peer has other forks (EIP-2124): compare the genesis files before the next one comes"
                    );
                }
                Ok(Notice::Failure { doing, reason }) => {
                    tracing::warn!(node = name, "{doing} failed: {reason}");
                }
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!(node = name, "{missed} more notices were not written");
                }
                Err(RecvError::Closed) => break,
            }
        }
    });
}

struct Watched {
    node: Node,
    registry: Registry,
    head: Gauge,
    pending: Gauge,
    queued: Gauge,
    pool_bytes: Gauge,
    peers: Gauge,
    round: Gauge,
    store_bytes: Gauge,
    ready: Gauge,
    clock: Gauge,
    forks: Gauge,
}

impl Watched {
    fn measure(&self) {
        let small = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let node = &self.node;
        self.head.set(small(node.chain().head().number()));
        let (pending, queued, bytes) = {
            let pool = node.pool();
            let (pending, queued) = pool.status();
            (pending, queued, pool.bytes())
        };
        self.pending.set(small(pending as u64));
        self.queued.set(small(queued as u64));
        self.pool_bytes.set(small(bytes as u64));
        self.peers.set(small(node.network().map_or(0, |network| network.peer_count() as u64)));
        self.round.set(node.consensus().view.map_or(0, |view| i64::from(view.round)));
        self.store_bytes.set(small(node.chain().database().memory_bytes()));
        self.clock.set(node.clock_skew_ms());
        self.forks.set(small(node.peers_with_other_forks().0 as u64));
        self.ready.set(i64::from(unready(node).is_none()));
    }
}

/// What keeps a node from serving its clients as it should.
fn unready(node: &Node) -> Option<String> {
    if let Err(error) = node.check_store() {
        return Some(format!("the store cannot be written: {error}"));
    }
    if node.fast_sync().is_some() {
        return Some("taking the state of the chain from peers".to_owned());
    }
    if let Some(block) = node.behind() {
        return Some(format!("catching up with block {block}"));
    }
    if let Some(behind_ms) = node.clock_is_behind_ms() {
        return Some(format!("the clock is {behind_ms} ms behind those of most peers"));
    }
    let (differing, said) = node.peers_with_other_forks();
    if differing * 2 > said {
        return Some(format!("{differing} of {said} peers have other forks in their genesis files"));
    }
    // Alone, a node does not know that it is behind; a chain of one validator has nobody to miss.
    let is_alone = node.network().is_some_and(|network| network.peer_count() == 0);
    let validators = node.chain().head().branch.validators.as_ref().map_or(0, |known| known.set.len());
    let is_everybody = validators == 1 && node.consensus().validator;
    (is_alone && !is_everybody).then(|| "no peer is connected".to_owned())
}

/// Serves `/health` (the process lives), `/ready` (it is not behind, has peers, and its store takes writes) and `/metrics`
/// (OpenMetrics); answers where it listens.
pub(super) async fn serve(
    address: SocketAddr,
    node: &Node,
    registry: Registry,
) -> anyhow::Result<SocketAddr> {
    let gauge = |name: &str, help: &str| registry.gauge(name, help, &[]);
    let watched = Arc::new(Watched {
        node: node.clone(),
        head: gauge("tally_chain_head_block", "number of the newest block")?,
        pending: gauge("tally_chain_pool_pending", "transactions that could go into a block")?,
        queued: gauge("tally_chain_pool_queued", "transactions that wait for a nonce before them")?,
        pool_bytes: gauge("tally_chain_pool_bytes", "bytes of the transactions that wait")?,
        peers: gauge("tally_chain_connected_peers", "sessions with peers")?,
        round: gauge("tally_chain_consensus_round", "round of consensus at the height that is worked on")?,
        store_bytes: gauge("tally_chain_store_memory_bytes", "memory that the store holds")?,
        ready: gauge("tally_chain_node_ready", "1 while the node serves clients as it should")?,
        clock: gauge(
            "tally_chain_clock_skew_milliseconds",
            "by how much the clocks of most peers are ahead of this node's",
        )?,
        forks: gauge("tally_chain_fork_differing_peers", "peers with other forks in their genesis files")?,
        registry,
    });
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen for metrics at {address}"))?;
    let address = listener.local_addr()?;
    let routes = Router::new()
        .route("/health", get(|| async { "alive\n" }))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(watched);
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "health and metrics are served no longer");
        }
    });
    Ok(address)
}

async fn ready(State(watched): State<Arc<Watched>>) -> impl IntoResponse {
    // It may wait for a disk.
    let found = tokio::task::spawn_blocking(move || unready(&watched.node)).await;
    match found.unwrap_or_else(|error| Some(format!("the check failed: {error}"))) {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

async fn metrics(State(watched): State<Arc<Watched>>) -> impl IntoResponse {
    let measured = Arc::clone(&watched);
    if let Err(error) = tokio::task::spawn_blocking(move || measured.measure()).await {
        tracing::error!(%error, "the node could not be measured");
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], watched.registry.render())
}
