//! What a node counts and times, as Prometheus reads it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tally_ops::metrics::{BATCH_SIZES, Counter, Gauge, Histogram, LATENCY_SECONDS, MetricError, Registry};

use tally_rpc::Figures;

use crate::desk::lock;
use crate::desk::watch::Finished;

/// Distinct steps that are timed on their own; a flow with more is timed together with the others.
const STEPS: usize = 500;

/// The meters of a node.
#[derive(Clone)]
pub struct Meters {
    registry: Registry,
    steps: Arc<Mutex<HashMap<Box<str>, Histogram>>>,
    commits: Histogram,
    units: Histogram,
    writes: Counter,
    pub(crate) started: Counter,
    pub(crate) completed: Counter,
    pub(crate) failed: Counter,
    pub(crate) unknown: Counter,
    pub(crate) undelivered: Gauge,
    pub(crate) unresolved: Gauge,
    pub(crate) refused_messages: Counter,
    pub(crate) late_messages: Counter,
    pub(crate) taken_messages: Counter,
    pub(crate) under_way: Gauge,
    pub(crate) queued_turns: Gauge,
    pub(crate) in_hospital: Gauge,
    pub(crate) held_states: Gauge,
    pub(crate) waiting_units: Gauge,
    pub(crate) waiting_messages: Gauge,
    pub(crate) store_reads: Gauge,
    pub(crate) store_read_seconds: Gauge,
    pub(crate) store_wait_seconds: Gauge,
    pub(crate) readers_busy: Gauge,
    pub(crate) readers: Gauge,
}

/// What clients do, as the server for them counts it.
#[derive(Clone)]
pub(crate) struct ClientMeters {
    figures: Arc<Figures>,
    gauges: [Gauge; 6],
}

impl ClientMeters {
    pub(crate) fn new(registry: &Registry, figures: Arc<Figures>) -> Result<Self, MetricError> {
        let gauge = |name: &str, help: &str| registry.gauge(name, help, &[]);
        let gauges = [
            gauge("tally_rpc_open_connections", "Connections of clients.")?,
            gauge("tally_rpc_refused_connections", "Connections refused because there were too many.")?,
            gauge("tally_rpc_done_calls", "Calls of clients; a stream is one.")?,
            gauge("tally_rpc_done_logins", "Logins of clients.")?,
            gauge("tally_rpc_refused_logins", "Logins refused.")?,
            gauge(
                "tally_rpc_slow_clients",
                "Clients that did not keep up with a stream and were disconnected.",
            )?,
        ];
        Ok(Self { figures, gauges })
    }

    /// Brings them up to date.
    pub(crate) fn measure(&self) {
        let figures = &self.figures;
        let values = [
            figures.connections(),
            figures.connections_refused(),
            figures.calls(),
            figures.logins(),
            figures.logins_refused(),
            figures.clients_slow(),
        ];
        for (gauge, value) in self.gauges.iter().zip(values) {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
}

impl Meters {
    /// Meters in a registry.
    ///
    /// # Errors
    /// A name that the registry has already.
    pub fn new(registry: Registry) -> Result<Self, MetricError> {
        let r = &registry;
        let counter = |name: &str, help: &str| r.counter(name, help, &[]);
        let gauge = |name: &str, help: &str| r.gauge(name, help, &[]);
        Ok(Self {
            steps: Arc::default(),
            commits: r.histogram(
                "tally_node_commit_seconds",
                "Time to make a batch durable.",
                &[],
                LATENCY_SECONDS,
            )?,
            units: r.histogram("tally_node_commit_units", "Units of flows in a batch.", &[], BATCH_SIZES)?,
            writes: counter("tally_node_store_writes", "Changes made in the database.")?,
            started: counter(
                "tally_flow_started_flows",
                "Flows started, by users and by other nodes' flows.",
            )?,
            completed: counter(
                "tally_flow_completed_flows",
                "Flows that ended with an output, or after their transaction had become final.",
            )?,
            failed: counter(
                "tally_flow_failed_flows",
                "Flows that ended with a failure: nothing became final.",
            )?,
            unknown: counter(
                "tally_flow_unknown_flows",
                "Flows that ended before it was known whether their transaction is final.",
            )?,
            undelivered: gauge(
                "tally_flow_undelivered_transactions",
                "Final transactions, counted for each party that has not confirmed that it has them.",
            )?,
            unresolved: gauge(
                "tally_flow_unresolved_transactions",
                "Transactions whose notary was asked and has not been heard.",
            )?,
            refused_messages: counter("tally_flow_refused_messages", "Messages that no flow could take.")?,
            late_messages: counter(
                "tally_flow_late_messages",
                "Messages that came again or after their flow's end.",
            )?,
            taken_messages: counter("tally_flow_taken_messages", "Messages that flows took.")?,
            under_way: gauge("tally_flow_waiting_flows", "Flows that have not ended.")?,
            queued_turns: gauge("tally_flow_queued_turns", "Flows that wait for a thread.")?,
            in_hospital: gauge("tally_flow_hospital_flows", "Flows that are held or tried again.")?,
            held_states: gauge("tally_vault_held_states", "States that flows hold.")?,
            waiting_units: gauge("tally_node_waiting_units", "Units of flows that are not durable yet.")?,
            waiting_messages: gauge(
                "tally_node_waiting_messages",
                "Messages that peers have not acknowledged.",
            )?,
            store_reads: gauge("tally_store_done_reads", "Reads of the database.")?,
            store_read_seconds: gauge(
                "tally_store_read_microseconds",
                "Time spent in reads of the database.",
            )?,
            store_wait_seconds: gauge(
                "tally_store_wait_microseconds",
                "Time that reads waited for a connection to the database.",
            )?,
            readers_busy: gauge("tally_store_busy_readers", "Connections to the database that are reading.")?,
            readers: gauge("tally_store_open_readers", "Connections to the database for reading.")?,
            registry,
        })
    }

    /// Meters that nobody reads.
    ///
    /// # Panics
    /// Never: a new registry has no names.
    #[must_use]
    pub fn unread() -> Self {
        Self::new(Registry::new()).expect("a new registry has no names")
    }

    /// The registry, to render.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn step(&self, finished: &Finished) {
        let mut steps = lock(&self.steps);
        if let Some(histogram) = steps.get(&finished.path) {
            histogram.observe(finished.seconds);
            return;
        }
        let path: Box<str> = if steps.len() < STEPS { finished.path.clone() } else { "other".into() };
        let histogram = steps.get(&path).cloned().map_or_else(
            || {
                let (flow, step) = path.split_once(" / ").unwrap_or((&path, ""));
                self.registry.histogram(
                    "tally_flow_step_seconds",
                    "Time from a flow's going into a step to its going into the next or its durable end.",
                    &[("flow", flow), ("step", step)],
                    LATENCY_SECONDS,
                )
            },
            Ok,
        );
        match histogram {
            Ok(histogram) => {
                histogram.observe(finished.seconds);
                steps.insert(path, histogram);
            }
            Err(error) => tracing::warn!(%error, path = &*path, "a step cannot be timed"),
        }
    }

    pub(crate) fn applied(&self, units: usize, writes: usize, took: Duration) {
        self.commits.observe(took.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a histogram's bounds are coarser")]
        self.units.observe(units as f64);
        self.writes.increment_by(writes as u64);
    }
}
