//! Metrics of this process, in the OpenMetrics text format that Prometheus reads.
//!
//! Every name is `tally_<area>_<thing>_<unit>`: `tally_settlement_sequenced_transactions`,
//! `tally_log_appended_bytes`, `tally_settlement_finality_seconds`. The last word is the unit and is exported as
//! such; a counter gains `_total` in the text, as the format demands.
//!
//! [`Counter`] and [`Gauge`] are relaxed atomics and a [`Histogram`] is a short lock: a hot path touches them
//! once for each batch.
//!
//! ```
//! let registry = tally_ops::metrics::Registry::new();
//! let sequenced = registry.counter(
//!     "tally_settlement_sequenced_transactions", "Decisions given a place in the sequence", &[("shard", "0")])?;
//! sequenced.increment_by(1024);
//! assert!(registry.render().contains("tally_settlement_sequenced_transactions_total{shard=\"0\"} 1024"));
//! # Ok::<(), tally_ops::metrics::MetricError>(())
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter as PromCounter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge as PromGauge;
use prometheus_client::metrics::histogram::Histogram as PromHistogram;
use prometheus_client::registry::{Metric, Registry as PromRegistry, Unit};

/// Buckets for durations in seconds: 10 µs to 60 s, about three for each decade.
pub const LATENCY_SECONDS: &[f64] = &[
    0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
    0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
];

/// Buckets for sizes of batches: powers of four from 1 to 262,144.
pub const BATCH_SIZES: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0];

type Labels = Vec<(String, String)>;

/// Why a metric could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// The name does not follow the scheme.
    #[error("`{0}` is not a metric name: write tally_<area>_<thing>_<unit> in lower-case letters and digits")]
    Name(String),
    /// A label's name is malformed.
    #[error("`{label}` is not a label name of {metric}: write lower-case letters, digits and underscores")]
    Label {
        /// The metric.
        metric: String,
        /// The label.
        label: String,
    },
    /// The name exists with another kind or with other buckets.
    #[error("{metric} is already a {existing}, and cannot be a {wanted} as well")]
    Kind {
        /// The metric.
        metric: String,
        /// What it is.
        existing: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// The upper bounds of a histogram are not finite and rising.
    #[error("the buckets of {0} are not finite and rising")]
    Buckets(String),
}

/// A number that only rises. Clones count together.
#[derive(Debug, Clone)]
pub struct Counter(PromCounter);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.0.inc();
    }

    /// Adds `n`; once for each batch on a hot path.
    pub fn increment_by(&self, n: u64) {
        self.0.inc_by(n);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// A number that rises and falls. Clones share it.
#[derive(Debug, Clone)]
pub struct Gauge(PromGauge);

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: i64) {
        self.0.set(value);
    }

    /// Adds `n`, which may be negative.
    pub fn add(&self, n: i64) {
        self.0.inc_by(n);
    }

    /// The value now.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.get()
    }
}

/// A distribution over fixed buckets. Clones share it.
#[derive(Debug, Clone)]
pub struct Histogram(PromHistogram);

impl Histogram {
    /// Counts one value, in the unit of the metric's name.
    pub fn observe(&self, value: f64) {
        self.0.observe(value);
    }
}

#[derive(Clone)]
struct Buckets(Arc<[f64]>);

impl MetricConstructor<PromHistogram> for Buckets {
    fn new_metric(&self) -> PromHistogram {
        PromHistogram::new(self.0.iter().copied())
    }
}

enum Entry {
    Counter(Family<Labels, PromCounter>),
    Gauge(Family<Labels, PromGauge>),
    Histogram(Family<Labels, PromHistogram, Buckets>, Buckets),
}

impl Entry {
    fn kind(&self) -> &'static str {
        match self {
            Self::Counter(_) => "counter",
            Self::Gauge(_) => "gauge",
            Self::Histogram(..) => "histogram",
        }
    }

    fn kind_error(&self, metric: &str, wanted: &'static str) -> MetricError {
        MetricError::Kind { metric: metric.to_owned(), existing: self.kind(), wanted }
    }
}

#[derive(Default)]
struct Inner {
    prometheus: PromRegistry,
    entries: BTreeMap<String, Entry>,
}

/// All metrics of a process. Clones share one set.
#[derive(Clone, Default)]
pub struct Registry {
    inner: Arc<Mutex<Inner>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("metrics", &self.lock().entries.len()).finish()
    }
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The counter of this name and these labels, made on first use.
    ///
    /// # Errors
    /// [`MetricError`] when the name or a label is malformed or the name is of another kind.
    pub fn counter(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Result<Counter, MetricError> {
        let (stem, labels) = check(name, labels)?;
        let mut inner = self.lock();
        let family = match inner.entries.get(name) {
            Some(Entry::Counter(family)) => family.clone(),
            Some(other) => return Err(other.kind_error(name, "counter")),
            None => {
                let family = Family::default();
                inner.add(name, stem, help, Entry::Counter(family.clone()), family.clone());
                family
            }
        };
        Ok(Counter(family.get_or_create_owned(&labels)))
    }

    /// The gauge of this name and these labels, made on first use.
    ///
    /// # Errors
    /// As [`Registry::counter`].
    pub fn gauge(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Result<Gauge, MetricError> {
        let (stem, labels) = check(name, labels)?;
        let mut inner = self.lock();
        let family = match inner.entries.get(name) {
            Some(Entry::Gauge(family)) => family.clone(),
            Some(other) => return Err(other.kind_error(name, "gauge")),
            None => {
                let family = Family::default();
                inner.add(name, stem, help, Entry::Gauge(family.clone()), family.clone());
                family
            }
        };
        Ok(Gauge(family.get_or_create_owned(&labels)))
    }

    /// The histogram of this name and these labels, made on first use.
    ///
    /// `buckets` are upper bounds in the unit of the name, such as [`LATENCY_SECONDS`].
    ///
    /// # Errors
    /// As [`Registry::counter`]; and when the buckets are not finite and rising, or differ from the first ones.
    pub fn histogram(
        &self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        buckets: &[f64],
    ) -> Result<Histogram, MetricError> {
        let (stem, labels) = check(name, labels)?;
        if !buckets.iter().all(|bound| bound.is_finite()) || !buckets.is_sorted_by(|a, b| a < b) {
            return Err(MetricError::Buckets(name.to_owned()));
        }
        let mut inner = self.lock();
        let family = match inner.entries.get(name) {
            Some(Entry::Histogram(family, existing)) if *existing.0 == *buckets => family.clone(),
            Some(other) => return Err(other.kind_error(name, "histogram with these buckets")),
            None => {
                let constructor = Buckets(buckets.into());
                let family = Family::new_with_constructor(constructor.clone());
                let entry = Entry::Histogram(family.clone(), constructor);
                inner.add(name, stem, help, entry, family.clone());
                family
            }
        };
        Ok(Histogram(family.get_or_create_owned(&labels)))
    }

    /// All metrics as OpenMetrics text (`application/openmetrics-text; version=1.0.0; charset=utf-8`).
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a string fails only where memory does, which aborts.
        let _ = encode(&mut text, &self.lock().prometheus);
        text
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn add(&mut self, name: &str, stem: &str, help: &str, entry: Entry, metric: impl Metric) {
        let unit = name.get(stem.len() + 1..).unwrap_or_default().to_owned();
        // The exporter ends the sentence.
        let help = help.trim_end_matches('.');
        self.prometheus.register_with_unit(stem, help, Unit::Other(unit), metric);
        self.entries.insert(name.to_owned(), entry);
    }
}

/// Checks a name and its labels; gives the name without its unit, and the labels in order.
fn check<'n>(name: &'n str, labels: &[(&str, &str)]) -> Result<(&'n str, Labels), MetricError> {
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let parts: Vec<_> = name.split('_').collect();
    // The format adds `_total` and `_bucket` itself.
    let reserved = ["total", "bucket", "count", "sum", "info", "created"];
    let well_formed = parts.len() >= 4
        && parts[0] == "tally"
        && parts.iter().all(|part| word(part))
        && parts.last().is_some_and(|unit| !reserved.contains(unit));
    let Some((stem, _)) = name.rsplit_once('_').filter(|_| well_formed) else {
        return Err(MetricError::Name(name.to_owned()));
    };
    for (label, _) in labels {
        let starts = label.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        if !starts || !label.split('_').all(word) || *label == "le" {
            return Err(MetricError::Label { metric: name.to_owned(), label: (*label).to_owned() });
        }
    }
    let mut labels: Labels =
        labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
    labels.sort();
    Ok((stem, labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_openmetrics() {
        let registry = Registry::new();
        registry.counter("tally_log_appended_bytes", "Bytes.", &[("log", "a\"b")]).unwrap().increment_by(7);
        registry.gauge("tally_settlement_open_transactions", "Open", &[]).unwrap().set(-2);
        let latency =
            registry.histogram("tally_settlement_finality_seconds", "Finality", &[], &[0.001, 0.01]).unwrap();
        latency.observe(0.005);
        latency.observe(0.5);
        assert_eq!(
            registry.render(),
            "# HELP tally_log_appended_bytes Bytes.\n\
             # TYPE tally_log_appended_bytes counter\n\
             # UNIT tally_log_appended_bytes bytes\n\
             tally_log_appended_bytes_total{log=\"a\\\"b\"} 7\n\
             # HELP tally_settlement_open_transactions Open.\n\
             # TYPE tally_settlement_open_transactions gauge\n\
             # UNIT tally_settlement_open_transactions transactions\n\
             tally_settlement_open_transactions{} -2\n\
             # HELP tally_settlement_finality_seconds Finality.\n\
             # TYPE tally_settlement_finality_seconds histogram\n\
             # UNIT tally_settlement_finality_seconds seconds\n\
             tally_settlement_finality_seconds_sum{} 0.505\n\
             tally_settlement_finality_seconds_count{} 2\n\
             tally_settlement_finality_seconds_bucket{le=\"0.001\"} 0\n\
             tally_settlement_finality_seconds_bucket{le=\"0.01\"} 1\n\
             tally_settlement_finality_seconds_bucket{le=\"+Inf\"} 2\n\
             # EOF\n"
        );
    }

    #[test]
    fn one_name_and_labels_is_one_counter() {
        let registry = Registry::new();
        let name = "tally_log_appended_bytes";
        let first = registry.counter(name, "x", &[("a", "1"), ("b", "2")]).unwrap();
        let second = registry.clone().counter(name, "x", &[("b", "2"), ("a", "1")]).unwrap();
        let other = registry.counter(name, "x", &[("a", "2"), ("b", "2")]).unwrap();
        first.increment();
        second.increment_by(2);
        assert_eq!((first.get(), other.get()), (3, 0));
        assert!(matches!(registry.gauge(name, "x", &[]), Err(MetricError::Kind { .. })));
    }

    #[test]
    fn names_follow_the_scheme() {
        let registry = Registry::new();
        for name in
            ["tally_log_bytes", "log_appended_more_bytes", "tally__x_bytes", "tally_a_b_total", "tally_a_B_c"]
        {
            assert_eq!(registry.gauge(name, "", &[]).unwrap_err(), MetricError::Name(name.to_owned()));
        }
        for label in ["", "1a", "a b", "A", "le", "__x"] {
            let error = registry.gauge("tally_a_b_c", "", &[(label, "")]).unwrap_err();
            assert!(matches!(error, MetricError::Label { .. }), "{label}");
        }
        let name = "tally_a_b_seconds";
        for buckets in [&[1.0, 1.0][..], &[f64::NAN], &[2.0, 1.0], &[f64::INFINITY]] {
            assert!(registry.histogram(name, "", &[], buckets).is_err(), "{buckets:?}");
        }
        assert!(registry.histogram(name, "", &[], LATENCY_SECONDS).is_ok());
        assert!(registry.histogram(name, "", &[], LATENCY_SECONDS).is_ok());
        assert!(registry.histogram(name, "", &[], BATCH_SIZES).is_err());
    }
}
