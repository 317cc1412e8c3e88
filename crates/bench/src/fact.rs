//! Single figures: a time, a size, a rate, with what it is to be.

use std::time::Duration;

use crate::result::Better;
use crate::statistics::median;

/// A figure beside the load's own: a time, a size, with what it is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// Its name in the record.
    pub name: &'static str,
    /// What it says, for a person.
    pub title: String,
    /// The value; of several samples their median, unless the name says otherwise.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
    /// What it is to be at least or at most.
    pub bar: Option<f64>,
    /// Raw samples, where there are several.
    pub samples: Vec<f64>,
}

impl Fact {
    /// Something of which less is better.
    #[must_use]
    pub fn new(name: &'static str, title: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name, title: title.into(), value, unit, better: Better::Lower, bar: None, samples: Vec::new() }
    }

    /// A time, of which less is better.
    #[must_use]
    pub fn time(name: &'static str, title: impl Into<String>, time: Duration) -> Self {
        Self::new(name, title, time.as_secs_f64(), "s")
    }

    /// The median of several samples of which less is better.
    #[must_use]
    pub fn sampled(
        name: &'static str,
        title: impl Into<String>,
        samples: Vec<f64>,
        unit: &'static str,
    ) -> Self {
        let value = median(&samples).unwrap_or(0.0);
        Self { samples, ..Self::new(name, title, value, unit) }
    }

    /// The same with the most that it is to be.
    #[must_use]
    pub fn at_most(self, bar: f64) -> Self {
        Self { bar: Some(bar), ..self }
    }

    /// The same, of which more is better.
    #[must_use]
    pub fn higher(self) -> Self {
        Self { better: Better::Higher, ..self }
    }

    /// The same with the least that it is to be; more is better.
    #[must_use]
    pub fn at_least(self, bar: f64) -> Self {
        Self { bar: Some(bar), better: Better::Higher, ..self }
    }

    /// Whether it is as it is to be; `None` where nothing was set.
    #[must_use]
    pub fn passes(&self) -> Option<bool> {
        self.bar.map(|bar| match self.better {
            Better::Higher => self.value >= bar,
            Better::Lower => self.value <= bar,
        })
    }
}
