//! The most that a machine allows, figures as shares of it, and figures that are beyond it.
//!
//! A figure beyond its physical limit is no success: the benchmark measured something else than it says, such as a stage
//! that had nothing to do. So every share of a limit is computed here, and every record that goes beyond its limit is
//! found when it is written ([`crate::result::ResultWriter::beyond`]): the command shows what it found and fails.

use crate::result::{LimitShare, Record};
use crate::table;

/// By how much a figure may be above its limit before it is not believed: 5 %. Limits are medians of samples of a fraction
/// of a second, taken seconds or minutes before what is compared with them; on a shared machine two such medians of the
/// same work differ by up to that much. What a wrong benchmark finds is beyond its limit many times.
pub const TOLERANCE: f64 = 0.05;

/// The most that a machine allows of something.
#[derive(Debug, Clone, PartialEq)]
pub struct Ceiling {
    /// What it was computed from.
    pub name: String,
    /// So much a second.
    pub rate: f64,
}

impl Ceiling {
    /// A rate as a share of it; 1 is the limit. None where there is no limit.
    #[must_use]
    pub fn share(&self, rate: f64) -> Option<f64> {
        (self.rate > 0.0 && self.rate.is_finite()).then(|| rate / self.rate)
    }
}

/// A figure that its machine cannot reach.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "the benchmark `{benchmark}` is wrong: it found {}, {} of its limit of {} ({limit}), and nothing goes beyond that; its \
     figures are not to be used. A limit that was measured while others kept the machine busy shows the same: repeat it on \
     a quiet machine",
    table::number(*.figure), table::quantity(*.share, "share"), table::number(*.value)
)]
pub struct BeyondLimit {
    /// The record's experiment, name and settings.
    pub benchmark: String,
    /// What was found, in the limit's unit.
    pub figure: f64,
    /// What the limit was computed from.
    pub limit: String,
    /// The limit.
    pub value: f64,
    /// The figure as a share of it.
    pub share: f64,
}

impl BeyondLimit {
    /// Whether a record is beyond its limit by more than [`TOLERANCE`].
    #[must_use]
    pub fn of(record: &Record) -> Option<Self> {
        let LimitShare { name, value, share } = record.limit.as_ref()?;
        // What is not a number is not within a limit either.
        let is_within = *share <= 1.0 + TOLERANCE;
        (!is_within).then(|| Self {
            benchmark: record.key(),
            figure: value * share,
            limit: name.clone(),
            value: *value,
            share: *share,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rate: f64) -> Record {
        let ceiling = Ceiling { name: "2 updates".into(), rate: 87_441_000.0 };
        Record::new("stages", "state updater").setting("legs", 2).against(&ceiling, rate)
    }

    /// As an updater once was, whose second round had nothing to apply.
    #[test]
    fn a_figure_beyond_its_limit_is_not_believed() {
        let beyond = BeyondLimit::of(&record(69_742_379_833.0)).unwrap();
        let text = beyond.to_string();
        for part in [
            "`stages state updater legs=2` is wrong",
            "69,742,379,833",
            "79,759 %",
            "87,441,000",
            "2 updates",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn the_noise_of_a_limit_is_allowed_for_and_no_more() {
        for (rate, is_beyond) in
            [(0.0, false), (87_441_000.0, false), (91_700_000.0, false), (91_900_000.0, true)]
        {
            assert_eq!(BeyondLimit::of(&record(rate)).is_some(), is_beyond, "{rate}");
        }
        assert_eq!(BeyondLimit::of(&Record::new("limits", "memcpy")), None);
        let none = Ceiling { name: "nothing".into(), rate: 0.0 };
        assert_eq!(none.share(1.0), None);
        assert_eq!(Record::new("x", "y").against(&none, 1.0).limit, None, "no limit is no share");
    }
}
