//! `GET /metrics`

use super::caller::{By, Operates};
use super::failure::Failure;
use super::refusals::Refusals;
use super::{App, blocking};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use std::sync::{Arc, Mutex, PoisonError};
use tally_iso20022::Reason;
use tally_ops::metrics::{Counter, MetricError, Registry};
use tally_ops::process;
use tally_settlement::desk::Figure;

/// What this process counts. What the desk counts is copied when asked for.
pub(super) struct Metrics {
    registry: Registry,
    settled: Counter,
    duplicates: Counter,
    /// Held while counts are copied, so that none is copied twice.
    copying: Mutex<()>,
}

impl Metrics {
    pub(super) fn new() -> Result<Self, MetricError> {
        let registry = Registry::new();
        let settled = registry.counter("tally_settlement_settled_transactions", "Transactions made", &[])?;
        let duplicates = registry.counter(
            "tally_settlement_duplicate_transactions",
            "Transactions whose reference was used before",
            &[],
        )?;
        Ok(Self { registry, settled, duplicates, copying: Mutex::new(()) })
    }

    pub(super) fn answered(&self, status: u16) {
        let status = status.to_string();
        let counter = self.registry.counter(
            "tally_http_answered_requests",
            "Requests answered, by HTTP status",
            &[("status", &status)],
        );
        if let Ok(counter) = counter {
            counter.increment();
        }
    }

    /// Counts a payment, or a whole message, that was refused before it became a transaction.
    pub(super) fn refused(&self, reason: &Reason) {
        let counter = self.registry.counter(
            "tally_gateway_refused_payments",
            "Payments and messages refused before they became transactions, by reason code",
            &[("reason", reason.code.code())],
        );
        if let Ok(counter) = counter {
            counter.increment();
        }
    }

    fn render(&self, app: &App) -> Result<String, MetricError> {
        let _copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = app.desk.counts();
        catch_up(&self.settled, counts.accepted);
        catch_up(&self.duplicates, counts.duplicates);
        for (refusal, count) in &counts.refused {
            let counter = self.registry.counter(
                "tally_settlement_refused_transactions",
                "Transactions refused, by reason",
                &[("code", refusal.iso_code()), ("reason", &refusal.metric_name())],
            )?;
            catch_up(&counter, *count);
        }
        let gauge = |name, help, value: u64| {
            let gauge = self.registry.gauge(name, help, &[])?;
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            Ok::<_, MetricError>(())
        };
        gauge(
            "tally_settlement_decided_transactions",
            "Transactions with an outcome since the network began",
            app.desk.sequenced(),
        )?;
        gauge("tally_gateway_open_streams", "Streams of transactions over gRPC", app.streams.count() as u64)?;
        if let Some(remembered) = app.desk.remembered() {
            gauge(
                "tally_settlement_remembered_references",
                "References remembered against duplicates",
                remembered as u64,
            )?;
        }
        for Figure { name, help, value, counts } in app.desk.figures() {
            if counts {
                catch_up(&self.registry.counter(name, help, &[])?, value);
            } else {
                gauge(name, help, value)?;
            }
        }
        if let Ok(usage) = process::usage() {
            gauge("tally_process_resident_bytes", "Memory resident", usage.resident_bytes)?;
            let cpu = usage.cpu_user + usage.cpu_system;
            let cpu = u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX);
            gauge("tally_process_cpu_milliseconds", "Processor time used", cpu)?;
        }
        Ok(self.registry.render())
    }
}

/// Brings a counter that is counted elsewhere up to date.
fn catch_up(counter: &Counter, count: u64) {
    counter.increment_by(count.saturating_sub(counter.get()));
}

/// Metrics in the form of OpenMetrics
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "network",
    responses(
        (status = 200, body = String, content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        Refusals
    )
)]
pub(super) async fn metrics(
    State(app): State<Arc<App>>,
    _: By<Operates>,
) -> Result<impl IntoResponse, Failure> {
    blocking(app, |app| {
        let text = app.metrics.render(app).map_err(|error| Failure::new(500, "failed", error.to_string()))?;
        Ok(([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text))
    })
    .await
}
