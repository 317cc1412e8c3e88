//! Recording latency and throughput without leaving out what was late.
//!
//! Latency runs from the **intended** start of a transaction, the moment the schedule of [`crate::pace`] wanted it
//! sent, to its end. A driver that falls behind therefore records its own delay too; measuring from the actual
//! start would leave out exactly the worst moments ("coordinated omission", G. Tene, *How NOT to measure latency*).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

/// The shortest latency that is told from zero, in microseconds.
const LOW_US: u64 = 1;
/// The longest latency that is told from a longer one, in microseconds: one hour.
const HIGH_US: u64 = 3_600_000_000;
/// Significant decimal digits of a recorded value.
const DIGITS: u8 = 3;

/// The bytes of a V2 histogram before its counts: cookie, length, offset, digits, low, high, ratio.
const V2_HEADER_BYTES: usize = 40;
/// More than any histogram of these bounds needs, in base64 digits.
const MAX_BASE64_BYTES: usize = 4 * 1024 * 1024;

/// Why the text of a histogram was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistogramError {
    /// Not base64, or too long.
    #[error("the histogram is not base64 of at most {MAX_BASE64_BYTES} digits")]
    Base64,
    /// Not a V2 histogram with the bounds that this recorder writes.
    #[error("the histogram is not HDR V2 from 1 µs to 1 h with 3 digits: {0}")]
    Form(String),
}

/// Counts latencies from 1 µs to 1 h with three significant digits. Merging is exact.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorder {
    histogram: Histogram<u64>,
}

/// What a recorder has seen, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percentiles {
    /// How many transactions.
    pub count: u64,
    /// Half of them took at most this long.
    pub p50_us: u64,
    /// 90 in 100.
    pub p90_us: u64,
    /// 99 in 100.
    pub p99_us: u64,
    /// 999 in 1000.
    pub p99_9_us: u64,
    /// The slowest.
    pub max_us: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// An empty recorder.
    ///
    /// # Panics
    /// Never: the bounds are constants that the histogram accepts.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(LOW_US, HIGH_US, DIGITS)
            .expect("constant bounds that a histogram accepts");
        Self { histogram }
    }

    /// Records one transaction from its intended start to its end, both on one clock.
    pub fn record(&mut self, intended: Duration, end: Duration) {
        self.record_n(intended, end, 1);
    }

    /// Records a batch of `n` transactions that were to start and did end together.
    pub fn record_n(&mut self, intended: Duration, end: Duration, n: u64) {
        self.record_latency(end.saturating_sub(intended), n);
    }

    /// Records `n` transactions that each took `latency`.
    ///
    /// A latency below 1 µs counts as 1 µs and one above an hour as an hour.
    pub fn record_latency(&mut self, latency: Duration, n: u64) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(HIGH_US);
        self.histogram.saturating_record_n(us.clamp(LOW_US, HIGH_US), n);
    }

    /// Adds everything that `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, which is the only thing adding can fail on.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok());
    }

    /// Forgets everything, as after a warm-up.
    pub fn clear(&mut self) {
        self.histogram.reset();
    }

    /// How many transactions were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The value that the share `quantile` (0 to 1) of all transactions did not exceed; zero when empty.
    ///
    /// It is the upper edge of its bucket, so that rounding never flatters, but not more than the maximum.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_micros(self.quantile_us(quantile))
    }

    fn quantile_us(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile).min(self.histogram.max())
    }

    /// The share of all transactions that took at most `latency`, as finely as it was recorded; zero when empty.
    #[must_use]
    pub fn share_up_to(&self, latency: Duration) -> f64 {
        let us = u64::try_from(latency.as_micros()).unwrap_or(HIGH_US).clamp(LOW_US, HIGH_US);
        let count = self.histogram.count_between(0, us);
        if self.count() == 0 { 0.0 } else { count as f64 / self.count() as f64 }
    }

    /// The usual percentiles.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            count: self.count(),
            p50_us: self.quantile_us(0.5),
            p90_us: self.quantile_us(0.9),
            p99_us: self.quantile_us(0.99),
            p99_9_us: self.quantile_us(0.999),
            max_us: self.histogram.max(),
        }
    }

    /// The histogram in HDR V2 form, in base64; values are microseconds.
    #[must_use]
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        // Writing to memory fails only on counts beyond 2^63.
        let written = V2Serializer::new().serialize(&self.histogram, &mut bytes);
        debug_assert!(written.is_ok());
        STANDARD.encode(bytes)
    }

    /// Reads what [`Recorder::to_base64`] wrote.
    ///
    /// # Errors
    /// [`HistogramError`] for anything else, before memory is reserved for what the text claims to hold.
    pub fn from_base64(text: &str) -> Result<Self, HistogramError> {
        if text.len() > MAX_BASE64_BYTES {
            return Err(HistogramError::Base64);
        }
        let bytes = STANDARD.decode(text).map_err(|_| HistogramError::Base64)?;
        let header = Self::new().to_header();
        let form = |what: &str| HistogramError::Form(what.to_owned());
        if bytes.len() < V2_HEADER_BYTES {
            return Err(form("too short"));
        }
        // The length in bytes 4 to 8 is what the decoder trusts for its allocation.
        let claimed = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        if usize::try_from(claimed) != Ok(bytes.len() - V2_HEADER_BYTES) {
            return Err(form("its length is not the length of its counts"));
        }
        if bytes[..4] != header[..4] || bytes[8..V2_HEADER_BYTES] != header[8..] {
            return Err(form("other form or bounds"));
        }
        let histogram = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| HistogramError::Form(error.to_string()))?;
        Ok(Self { histogram })
    }

    fn to_header(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = V2Serializer::new().serialize(&self.histogram, &mut bytes);
        debug_assert!(written.is_ok());
        bytes.truncate(V2_HEADER_BYTES);
        bytes
    }
}

/// How many transactions ended in each interval of a run: the raw samples of its throughput.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throughput {
    interval: Duration,
    counts: Vec<u64>,
}

/// The longest series, so that a wrong clock cannot fill the memory: eleven days of seconds.
const MAX_INTERVALS: usize = 1_000_000;

impl Throughput {
    /// Counts in intervals of one second.
    #[must_use]
    pub fn per_second() -> Self {
        Self::every(Duration::from_secs(1))
    }

    /// Counts in intervals of this length.
    ///
    /// # Panics
    /// When the interval is zero.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        assert!(!interval.is_zero(), "an interval of a series is longer than nothing");
        Self { interval, counts: Vec::new() }
    }

    /// Counts `n` transactions that ended at `at`, measured from the start of the run.
    pub fn add(&mut self, at: Duration, n: u64) {
        let index = at.as_nanos() / self.interval.as_nanos();
        let index = usize::try_from(index).unwrap_or(usize::MAX).min(MAX_INTERVALS - 1);
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] = self.counts[index].saturating_add(n);
    }

    /// Adds the counts of another series with the same interval.
    ///
    /// # Panics
    /// When the intervals differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.interval, other.interval, "series of different intervals do not add up");
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.saturating_add(*count);
        }
    }

    /// All transactions counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Transactions per second in each interval that was over by `end`; one that was cut short would mislead.
    ///
    /// An interval in which nothing ended is a sample of zero, also at the end of the run.
    #[must_use]
    pub fn rates(&self, end: Duration) -> Vec<f64> {
        let complete = usize::try_from(end.as_nanos() / self.interval.as_nanos()).unwrap_or(usize::MAX);
        let seconds = self.interval.as_secs_f64();
        (0..complete.min(MAX_INTERVALS))
            .map(|index| self.counts.get(index).map_or(0.0, |count| *count as f64 / seconds))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn latency_counts_from_the_intended_start() {
        // One stall of a second at 1000/s: the driver could send nothing, yet 1000 transactions were due.
        let mut recorder = Recorder::new();
        for due in 0..1000 {
            recorder.record(ms(due), ms(1000));
        }
        let percentiles = recorder.percentiles();
        assert_eq!(percentiles.count, 1000);
        assert!((495_000..=505_000).contains(&percentiles.p50_us), "{percentiles:?}");
        assert!((985_000..=995_000).contains(&percentiles.p99_us), "{percentiles:?}");
        assert!((1_000_000..1_001_000).contains(&percentiles.max_us));
    }

    #[test]
    fn a_batch_weighs_as_many_as_it_holds_and_merging_is_exact() {
        let (mut one, mut other, mut all) = (Recorder::new(), Recorder::new(), Recorder::new());
        for (recorder, latency, n) in [(&mut one, 5, 99), (&mut other, 70, 1)] {
            recorder.record_n(ms(100), ms(100 + latency), n);
            all.record_n(ms(100), ms(100 + latency), n);
        }
        one.merge(&other);
        assert_eq!(one, all);
        let percentiles = one.percentiles();
        assert_eq!(percentiles.count, 100);
        assert_eq!(percentiles.p99_us / 10, 500, "{percentiles:?}");
        assert!(percentiles.p99_9_us >= 70_000 && percentiles.max_us < 70_100, "{percentiles:?}");
        one.clear();
        assert_eq!(one.percentiles(), Percentiles::default());
    }

    #[test]
    fn extremes_are_clamped() {
        let mut recorder = Recorder::new();
        recorder.record(ms(2), ms(1));
        assert_eq!(recorder.percentiles().max_us, 1);
        recorder.record_latency(Duration::MAX, 1);
        let max = recorder.percentiles().max_us;
        assert!((HIGH_US..HIGH_US + HIGH_US / 1000).contains(&max), "{max}");
    }

    #[test]
    fn the_text_form_round_trips_and_refuses_others() {
        let mut recorder = Recorder::new();
        for us in [1, 10, 999, 12_345, 3_000_000] {
            recorder.record_latency(Duration::from_micros(us), us);
        }
        let text = recorder.to_base64();
        assert_eq!(Recorder::from_base64(&text).unwrap().percentiles(), recorder.percentiles());
        assert_eq!(Recorder::from_base64(&Recorder::new().to_base64()).unwrap().count(), 0);

        assert_eq!(Recorder::from_base64("?"), Err(HistogramError::Base64));
        assert!(Recorder::from_base64("HISTFAAA").is_err());
        let bytes = STANDARD.decode(&text).unwrap();
        for at in 0..V2_HEADER_BYTES {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            assert!(Recorder::from_base64(&STANDARD.encode(changed)).is_err(), "byte {at}");
        }
        for end in 0..bytes.len() {
            assert!(Recorder::from_base64(&STANDARD.encode(&bytes[..end])).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn throughput_is_a_rate_for_each_complete_interval() {
        let mut series = Throughput::every(ms(500));
        series.add(ms(0), 10);
        series.add(ms(499), 10);
        series.add(ms(1000), 5);
        series.add(ms(1700), 7);
        let mut other = Throughput::every(ms(500));
        other.add(ms(600), 1);
        other.merge(&series);
        assert_eq!(other.total(), 33);
        assert_eq!(other.rates(ms(1999)), [40.0, 2.0, 10.0]);
        assert_eq!(other.rates(ms(2500)), [40.0, 2.0, 10.0, 14.0, 0.0]);
        assert_eq!(Throughput::per_second().rates(ms(900)), [0.0; 0]);
        series.add(Duration::MAX, 1);
        assert_eq!(series.total(), 33);
    }
}
