//! What the server counts, as Prometheus reads it.

use std::collections::HashMap;
use std::sync::Arc;

use tally_ops::metrics::{Counter, Gauge, Histogram, LATENCY_SECONDS, MetricError, Registry};

/// The meters of a server; clones share them.
#[derive(Debug, Clone)]
pub(super) struct Meters {
    methods: Arc<HashMap<Box<str>, MethodMeters>>,
    pub(super) connections: Gauge,
    pub(super) refused_connections: Counter,
    pub(super) refused_calls: Counter,
    pub(super) malformed: Counter,
    pub(super) unauthorized: Counter,
    pub(super) subscriptions: Gauge,
    pub(super) slow_readers: Counter,
    pub(super) waiting: Gauge,
    pub(super) answer_bytes: Gauge,
    pub(super) traces: Gauge,
    pub(super) refused_traces: Counter,
}

/// The meters of one method.
#[derive(Debug, Clone)]
pub(super) struct MethodMeters {
    pub(super) seconds: Histogram,
    pub(super) failed: Counter,
}

impl Meters {
    pub(super) fn new<'a>(
        registry: &Registry,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Self, MetricError> {
        let counter = |name: &str, help: &str| registry.counter(name, help, &[]);
        let gauge = |name: &str, help: &str| registry.gauge(name, help, &[]);
        let methods = names
            .map(|name| {
                let labels = [("method", name)];
                let meters = MethodMeters {
                    seconds: registry.histogram(
                        "tally_jsonrpc_call_seconds",
                        "Time that calls took, without waiting.",
                        &labels,
                        LATENCY_SECONDS,
                    )?,
                    failed: registry.counter(
                        "tally_jsonrpc_failed_calls",
                        "Calls answered with an error.",
                        &labels,
                    )?,
                };
                Ok((name.into(), meters))
            })
            .collect::<Result<_, MetricError>>()?;
        Ok(Self {
            methods: Arc::new(methods),
            connections: gauge("tally_jsonrpc_open_connections", "Connections of clients.")?,
            refused_connections: counter(
                "tally_jsonrpc_refused_connections",
                "Connections closed because there were too many.",
            )?,
            refused_calls: counter("tally_jsonrpc_refused_calls", "Calls refused by a limit.")?,
            malformed: counter("tally_jsonrpc_malformed_requests", "Requests that are no JSON-RPC.")?,
            unauthorized: counter(
                "tally_jsonrpc_unauthorized_requests",
                "Requests refused for their token, host or origin.",
            )?,
            subscriptions: gauge("tally_jsonrpc_open_subscriptions", "Subscriptions of WebSockets.")?,
            slow_readers: counter(
                "tally_jsonrpc_slow_clients",
                "Connections closed because nobody read what waited, or not in time.",
            )?,
            waiting: gauge("tally_jsonrpc_waiting_calls", "Costly calls that wait for a thread.")?,
            answer_bytes: gauge(
                "tally_jsonrpc_held_bytes",
                "What answers above 64 KiB, and traces, hold in memory of what all may hold together.",
            )?,
            traces: gauge("tally_jsonrpc_running_traces", "Traces that are being made.")?,
            refused_traces: counter(
                "tally_jsonrpc_refused_traces",
                "Traces refused because as many as may were being made.",
            )?,
        })
    }

    pub(super) fn method(&self, name: &str) -> Option<&MethodMeters> {
        self.methods.get(name)
    }
}
