//! Points and spans of time, as numbers: nothing here reads a clock.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Milliseconds since the Unix epoch, UTC without leap seconds. Serde form: that number.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    BorshSerialize,
    BorshDeserialize,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The last point in time there is.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The point `span` later, whole milliseconds; [`Timestamp::MAX`] when there is none.
    pub fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The point `span` earlier, whole milliseconds; [`Timestamp::EPOCH`] when there is none.
    pub fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to this; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// When a transaction may be made final: `from <= t < until`. The notary's clock decides.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    BorshSerialize,
    BorshDeserialize,
    Serialize,
    Deserialize,
)]
pub struct TimeWindow {
    /// First moment, if there is one.
    pub from: Option<Timestamp>,
    /// The moment after the last, if there is one.
    pub until: Option<Timestamp>,
}

impl TimeWindow {
    /// `from <= t`.
    pub const fn starting(from: Timestamp) -> Self {
        Self { from: Some(from), until: None }
    }

    /// `t < until`.
    pub const fn ending(until: Timestamp) -> Self {
        Self { from: None, until: Some(until) }
    }

    /// `from <= t < until`.
    pub const fn between(from: Timestamp, until: Timestamp) -> Self {
        Self { from: Some(from), until: Some(until) }
    }

    /// Whether `at` lies in the window.
    pub fn contains(&self, at: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= at) && self.until.is_none_or(|until| at < until)
    }

    /// Whether the window has a bound and is not empty; no transaction has another one.
    pub fn is_well_formed(&self) -> bool {
        match (self.from, self.until) {
            (None, None) => false,
            (Some(from), Some(until)) => from < until,
            _ => true,
        }
    }
}

impl fmt::Display for TimeWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from, self.until) {
            (None, None) => f.write_str("any time"),
            (Some(from), None) => write!(f, "from {from}"),
            (None, Some(until)) => write!(f, "until {until}"),
            (Some(from), Some(until)) => write!(f, "from {from} until {until}"),
        }
    }
}
