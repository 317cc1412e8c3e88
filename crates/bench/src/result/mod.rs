//! The record of one experiment: one line of JSON that holds everything needed to judge it later.
//!
//! A run appends its records to `DIR/results-<time>.jsonl` ([`ResultWriter`]); [`read`] takes such a file, or a
//! directory of them, and refuses a line that is not exactly of this form, naming file and line.
//!
//! Units are those of [`crate::table::quantity`]: `tx/s`, `s`, `us`, `B`, `B/s`, `share`, …

mod commit;
mod file;
mod timestamp;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tally_ops::process::{self, Machine, ProcessError, Usage};

pub use commit::Commit;
pub use file::{MAX_LINE_BYTES, ResultError, ResultWriter, read};
pub use timestamp::Timestamp;

use crate::ceiling::Ceiling;
use crate::published::Figure;
use crate::recorder::{Percentiles, Recorder};

/// The version of the form; a reader refuses any other.
pub const SCHEMA: u32 = 1;

/// Which direction of a metric is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Such as throughput.
    Higher,
    /// Such as latency.
    Lower,
}

/// One measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Which direction is good.
    pub better: Better,
}

/// How near the first metric comes to a physical limit of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitShare {
    /// The limit, as [`crate::limits`] names it, or what it was computed from.
    pub name: String,
    /// Its value, in the unit of the metric it is compared with.
    pub value: f64,
    /// The measured value as a share of it; 1 is the limit.
    pub share: f64,
}

/// A published figure beside the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedValue {
    /// Its id in [`crate::published`].
    pub id: String,
    /// Its value.
    pub value: f64,
}

/// Latency as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The usual percentiles in microseconds.
    pub percentiles: Percentiles,
    /// The whole histogram: HDR V2 in base64, microseconds ([`Recorder::from_base64`]).
    pub histogram: String,
}

/// The record of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The experiment, such as `settlement-pipeline`.
    pub experiment: String,
    /// What was measured in it, such as `scheduler`.
    pub name: String,
    /// When it began.
    pub started: Timestamp,
    /// Which source it was built from.
    pub commit: Commit,
    /// Everything that was set, by name. Records with equal settings are comparable.
    pub settings: BTreeMap<String, Value>,
    /// Where it ran.
    pub machine: Machine,
    /// What was measured, by name.
    pub metrics: BTreeMap<String, Metric>,
    /// The limit it is compared with.
    pub limit: Option<LimitShare>,
    /// Raw samples of metrics, by the metric's name and in its unit, in the order they were taken.
    pub samples: BTreeMap<String, Vec<f64>>,
    /// Latency, where it was recorded.
    pub latency: Option<Latency>,
    /// Processor time in the program, in seconds.
    pub cpu_user_s: f64,
    /// Processor time in the kernel, in seconds.
    pub cpu_system_s: f64,
    /// The most resident memory of the process so far, in bytes.
    pub rss_bytes: u64,
    /// Published figures to print beside it.
    pub published: Vec<PublishedValue>,
}

/// What in a record contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Another version of the form.
    #[error("schema {found} is not {SCHEMA}, which this program reads and writes")]
    Schema {
        /// The version found.
        found: u32,
    },
    /// The record has no name to be found by.
    #[error("experiment or name is empty")]
    Unnamed,
    /// JSON has no form for infinities and what is not a number.
    #[error("{0} is not a finite number")]
    NotFinite(String),
    /// Samples of nothing.
    #[error("samples of `{0}`, which is not among the metrics")]
    StraySamples(String),
    /// The histogram cannot be read.
    #[error("latency: {0}")]
    Histogram(#[from] crate::recorder::HistogramError),
    /// The percentiles are not those of the histogram.
    #[error("the percentiles are not those of the histogram")]
    Percentiles,
}

impl Record {
    /// A record that begins now, on this machine, of this source; with nothing measured yet.
    #[must_use]
    pub fn new(experiment: &str, name: &str) -> Self {
        Self {
            schema: SCHEMA,
            experiment: experiment.to_owned(),
            name: name.to_owned(),
            started: Timestamp::now(),
            commit: Commit::of_this_build(),
            settings: BTreeMap::new(),
            machine: process::machine(),
            metrics: BTreeMap::new(),
            limit: None,
            samples: BTreeMap::new(),
            latency: None,
            cpu_user_s: 0.0,
            cpu_system_s: 0.0,
            rss_bytes: 0,
            published: Vec::new(),
        }
    }

    /// Adds a setting.
    #[must_use]
    pub fn setting(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.settings.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a measured value.
    #[must_use]
    pub fn metric(mut self, name: &str, value: f64, unit: &str, better: Better) -> Self {
        self.metrics.insert(name.to_owned(), Metric { value, unit: unit.to_owned(), better });
        self
    }

    /// Adds a metric as the median of its raw samples, which are kept; nothing when there are none.
    #[must_use]
    pub fn sampled(mut self, name: &str, samples: Vec<f64>, unit: &str, better: Better) -> Self {
        if let Some(median) = crate::statistics::median(&samples) {
            self.samples.insert(name.to_owned(), samples);
            self = self.metric(name, median, unit, better);
        }
        self
    }

    /// Adds latency: the percentiles, and p50 and p99 as metrics; nothing when none was recorded.
    #[must_use]
    pub fn latency(mut self, recorder: &Recorder) -> Self {
        if recorder.count() == 0 {
            return self;
        }
        let percentiles = recorder.percentiles();
        self = self.metric("latency_p50", percentiles.p50_us as f64, "us", Better::Lower).metric(
            "latency_p99",
            percentiles.p99_us as f64,
            "us",
            Better::Lower,
        );
        self.latency = Some(Latency { percentiles, histogram: recorder.to_base64() });
        self
    }

    /// Compares `measured` with a limit of the machine, both of the kind of which more is better; with nothing where there
    /// is no limit. Of several limits the one counts that it comes nearest to.
    #[must_use]
    pub fn against(mut self, limit: &Ceiling, measured: f64) -> Self {
        if let Some(share) = limit.share(measured)
            && self.limit.as_ref().is_none_or(|other| other.share < share)
        {
            self.limit = Some(LimitShare { name: limit.name.clone(), value: limit.rate, share });
        }
        self
    }

    /// Puts a published figure beside it.
    #[must_use]
    pub fn published(mut self, figure: &Figure) -> Self {
        self.published.push(PublishedValue { id: figure.id.clone(), value: figure.value });
        self
    }

    /// Adds what the process has used since an earlier reading, and its peak of memory.
    ///
    /// # Errors
    /// [`ProcessError`] when the system does not say.
    pub fn used_since(mut self, earlier: &Usage) -> Result<Self, ProcessError> {
        let now = process::usage()?;
        let (user, system) = now.cpu_since(earlier);
        self.cpu_user_s = user.as_secs_f64();
        self.cpu_system_s = system.as_secs_f64();
        self.rss_bytes = now.peak_resident_bytes;
        Ok(self)
    }

    /// What two records must share to be compared: experiment, name and settings.
    #[must_use]
    pub fn key(&self) -> String {
        let settings: Vec<_> = self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        [self.experiment.as_str(), &self.name, &settings.join(" ")].join(" ").trim_end().to_owned()
    }

    /// The recorder behind the latency, if there is one.
    ///
    /// # Errors
    /// [`RecordError::Histogram`] when the text is not a histogram of [`Recorder`].
    pub fn recorder(&self) -> Result<Option<Recorder>, RecordError> {
        let Some(latency) = &self.latency else { return Ok(None) };
        Ok(Some(Recorder::from_base64(&latency.histogram)?))
    }

    /// Checks what the type cannot say; done on writing and on reading.
    ///
    /// # Errors
    /// [`RecordError`]: the first contradiction found.
    pub fn check(&self) -> Result<(), RecordError> {
        if self.schema != SCHEMA {
            return Err(RecordError::Schema { found: self.schema });
        }
        if self.experiment.is_empty() || self.name.is_empty() {
            return Err(RecordError::Unnamed);
        }
        let metrics = self.metrics.iter().map(|(name, metric)| (name.as_str(), metric.value));
        let samples = self
            .samples
            .iter()
            .flat_map(|(name, samples)| samples.iter().map(move |sample| (name.as_str(), *sample)));
        let limit =
            self.limit.iter().flat_map(|limit| [("limit", limit.value), ("share of the limit", limit.share)]);
        let published = self.published.iter().map(|figure| (figure.id.as_str(), figure.value));
        let used = [("cpu_user_s", self.cpu_user_s), ("cpu_system_s", self.cpu_system_s)];
        let mut numbers = metrics.chain(samples).chain(limit).chain(published).chain(used);
        if let Some((name, _)) = numbers.find(|(_, value)| !value.is_finite()) {
            return Err(RecordError::NotFinite(name.to_owned()));
        }
        let names: BTreeSet<_> = self.metrics.keys().collect();
        if let Some(stray) = self.samples.keys().find(|name| !names.contains(name)) {
            return Err(RecordError::StraySamples(stray.clone()));
        }
        if let (Some(latency), Some(recorder)) = (&self.latency, self.recorder()?)
            && recorder.percentiles() != latency.percentiles
        {
            return Err(RecordError::Percentiles);
        }
        Ok(())
    }

    /// Processor time per unit of work, such as per transaction.
    ///
    /// `None` when nothing was done.
    #[must_use]
    pub fn cpu_per(&self, units: u64) -> Option<Duration> {
        if units == 0 {
            return None;
        }
        Duration::try_from_secs_f64((self.cpu_user_s + self.cpu_system_s) / units as f64).ok()
    }
}

#[cfg(test)]
mod tests;
