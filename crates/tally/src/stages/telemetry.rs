//! What those who watch a stage's process see: `/health`, `/ready`, `/metrics`.

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tally_log::Health;
use tally_ops::metrics::{Counter, Gauge, MetricError, Registry};
use tally_settlement::process::shard::Watch;
use tally_settlement::process::{Role, Shard};

/// What a process tells of a shard that it runs.
pub(super) struct Watched {
    watch: Watch,
    restored: Duration,
}

impl Watched {
    /// Of a shard that took `restored` to open.
    pub(super) fn new(shard: &Shard, restored: Duration) -> Self {
        Self { watch: shard.watch(), restored }
    }
}

/// What a process tells of itself.
pub struct Telemetry {
    role: Role,
    registry: Registry,
    commits: Counter,
    commit_ns: Counter,
    steps: Counter,
    dead_letters: Counter,
    fenced_total: Counter,
    running: Gauge,
    failed: Gauge,
    restored_ms: Gauge,
    /// How often another process turned out to run a shard.
    pub(super) fenced: AtomicU64,
    joined: AtomicBool,
    failures: AtomicUsize,
    /// How many shards should run here.
    wanted: AtomicUsize,
    shards: Mutex<BTreeMap<u16, Watched>>,
    /// What shards that have ended had counted, and what was copied into the registry.
    copied: Mutex<Totals>,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    ended: [u64; 4],
    copied: [u64; 4],
    fenced: u64,
}

const LOCK: &str = "no holder of a telemetry lock panics";

impl Telemetry {
    /// Of a process of that stage.
    ///
    /// # Errors
    /// When a metric's name is taken.
    pub fn new(role: Role) -> Result<Self, MetricError> {
        let registry = Registry::new();
        let labels: &[(&str, &str)] = &[("stage", role.name())];
        let counter = |name: &str, help: &str| registry.counter(name, help, labels);
        let gauge = |name: &str, help: &str| registry.gauge(name, help, labels);
        Ok(Self {
            role,
            commits: counter("tally_stage_committed_turns", "Turns that became visible")?,
            commit_ns: counter("tally_stage_commit_nanoseconds", "Time that making them visible took")?,
            steps: counter("tally_stage_taken_batches", "Batches taken")?,
            dead_letters: counter(
                "tally_stage_dead_letters",
                "Records set aside because nothing can read them",
            )?,
            fenced_total: counter(
                "tally_stage_lost_shards",
                "Times that another process turned out to run a shard",
            )?,
            running: gauge("tally_stage_running_shards", "Shards that run here")?,
            failed: gauge(
                "tally_stage_failed_shards",
                "Shards that stopped and rest before they are opened again",
            )?,
            restored_ms: gauge(
                "tally_stage_restored_milliseconds",
                "Time that the slowest shard took to be opened",
            )?,
            registry,
            fenced: AtomicU64::new(0),
            joined: AtomicBool::new(false),
            failures: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            shards: Mutex::new(BTreeMap::new()),
            copied: Mutex::new(Totals::default()),
        })
    }

    pub(super) fn joined(&self) {
        self.joined.store(true, Ordering::Release);
    }

    /// So many shards should run here, and so many of them do not because they failed. A gateway has one while it answers
    /// its clients, and none while it is being opened and refuses every call.
    pub(super) fn shards(&self, wanted: usize, failed: usize) {
        self.wanted.store(wanted, Ordering::Release);
        self.failed.set(i64::try_from(failed).unwrap_or(i64::MAX));
        self.failures.store(failed, Ordering::Release);
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<u16, Watched>> {
        self.shards.lock().expect(LOCK)
    }

    /// Watches a shard, or no longer.
    pub(super) fn watch(&self, shard: u16, watched: Option<Watched>) {
        let before = match watched {
            Some(watched) => self.watched().insert(shard, watched),
            None => self.watched().remove(&shard),
        };
        if let Some(before) = before {
            let mut totals = self.copied.lock().expect(LOCK);
            for (ended, count) in totals.ended.iter_mut().zip(before.counts()) {
                *ended += count;
            }
        }
    }

    fn render(&self) -> String {
        let mut totals = self.copied.lock().expect(LOCK);
        let mut counts = totals.ended;
        let mut slowest = Duration::ZERO;
        for watched in self.watched().values() {
            slowest = slowest.max(watched.restored);
            for (sum, count) in counts.iter_mut().zip(watched.counts()) {
                *sum += count;
            }
        }
        let counters = [&self.commits, &self.commit_ns, &self.steps, &self.dead_letters];
        for ((counter, count), copied) in counters.iter().zip(counts).zip(&mut totals.copied) {
            counter.increment_by(count.saturating_sub(*copied));
            *copied = count.max(*copied);
        }
        let fenced = self.fenced.load(Ordering::Relaxed);
        self.fenced_total.increment_by(fenced - totals.fenced);
        totals.fenced = fenced;
        self.running.set(i64::try_from(self.watched().len()).unwrap_or(i64::MAX));
        self.restored_ms.set(i64::try_from(slowest.as_millis()).unwrap_or(i64::MAX));
        for (number, watched) in &*self.watched() {
            let shard = number.to_string();
            for (partition, lag) in watched.watch.lag() {
                let labels: &[(&str, &str)] =
                    &[("stage", self.role.name()), ("shard", &shard), ("partition", &partition)];
                if let Ok(gauge) = self.registry.gauge(
                    "tally_stage_lag_records",
                    "Records that the shard has not read",
                    labels,
                ) {
                    gauge.set(i64::try_from(lag).unwrap_or(i64::MAX));
                }
            }
        }
        self.registry.render()
    }

    /// Why the process is not in order, if it is not.
    fn trouble(&self) -> Option<String> {
        let failed = self.failures.load(Ordering::Acquire);
        if failed > 0 {
            return Some(format!("{failed} shards stopped; see the log"));
        }
        self.watched().iter().find_map(|(shard, watched)| match watched.watch.health() {
            Health::Ok => None,
            Health::Stalled { reason } => Some(format!("shard {shard} waits for the cluster: {reason}")),
            Health::Failed { reason } => Some(format!("shard {shard} cannot go on: {reason}")),
        })
    }

    fn is_ready(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Acquire);
        let all_run = match self.role {
            Role::Gateway => wanted > 0,
            _ => self.watched().len() >= wanted,
        };
        self.joined.load(Ordering::Acquire) && all_run && self.trouble().is_none()
    }
}

impl Watched {
    fn counts(&self) -> [u64; 4] {
        let counts = self.watch.counts();
        [&counts.commits, &counts.commit_ns, &counts.steps, &counts.dead_letters]
            .map(|count| count.load(Ordering::Relaxed))
    }
}

/// Serves `/health` (the process lives), `/ready` (it belongs to its group, and its shards go on) and `/metrics`
/// (OpenMetrics) in a thread of its own; answers where it listens.
///
/// # Errors
/// When the address cannot be listened on.
pub fn serve(address: SocketAddr, telemetry: Arc<Telemetry>) -> anyhow::Result<SocketAddr> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen for metrics at {address}"))?;
    listener.set_nonblocking(true).context("cannot set the listener up")?;
    let address = listener.local_addr().context("cannot tell where it listens")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("cannot start the metrics thread")?;
    let routes = Router::new()
        .route("/health", get(|| async { "alive\n" }))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(telemetry);
    let serve = move || {
        runtime.block_on(async move {
            let served = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => axum::serve(listener, routes).await,
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                tracing::error!(%error, "health and metrics are served no longer");
            }
        });
    };
    std::thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(serve)
        .context("cannot start the metrics thread")?;
    Ok(address)
}

async fn ready(State(telemetry): State<Arc<Telemetry>>) -> impl IntoResponse {
    if telemetry.is_ready() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    let why = telemetry.trouble().unwrap_or_else(|| "not in its group yet, or opening its shards".to_owned());
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}

async fn metrics(State(telemetry): State<Arc<Telemetry>>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], telemetry.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_ready_only_while_it_answers_its_clients() {
        let telemetry = Telemetry::new(Role::Gateway).unwrap();
        assert!(!telemetry.is_ready(), "it has not joined its group");
        telemetry.joined();
        assert!(!telemetry.is_ready(), "it is being opened, and refuses every call");
        telemetry.shards(1, 0);
        assert!(telemetry.is_ready());
        telemetry.shards(0, 0);
        assert!(!telemetry.is_ready(), "it is being opened again");
    }
}
