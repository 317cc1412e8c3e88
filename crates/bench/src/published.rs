//! Figures that others have published for the systems this project measures itself against.
//!
//! They stand in `data/published-figures.toml`, each with its source, and are compiled in. Every figure was taken
//! on its own hardware, so that printing one beside a measurement is a reference and never a result: only a ratio
//! between two systems measured in one run on one machine is.

use std::sync::OnceLock;

use serde::Deserialize;

const TEXT: &str = include_str!("../data/published-figures.toml");

/// One published figure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The name that results refer to, such as `rln-sequencer-single`.
    pub id: String,
    /// The system and the setting it was measured in.
    pub system: String,
    /// What was measured, with its unit.
    pub metric: String,
    /// The value, in the unit of the metric.
    pub value: f64,
    /// How many instances of this stage the source needed for a million transactions per second.
    #[serde(default)]
    pub instances_for_1m: Option<u32>,
    /// Where it was published.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    figure: Vec<Figure>,
}

/// All published figures, in the order of the file.
///
/// # Panics
/// When the compiled-in file is malformed, which a test of this module excludes.
#[must_use]
pub fn figures() -> &'static [Figure] {
    static FIGURES: OnceLock<Vec<Figure>> = OnceLock::new();
    FIGURES.get_or_init(|| match toml::from_str::<Document>(TEXT) {
        Ok(document) => document.figure,
        Err(error) => panic!("the compiled-in published-figures.toml is malformed: {error}"),
    })
}

/// The figure of this id.
#[must_use]
pub fn figure(id: &str) -> Option<&'static Figure> {
    figures().iter().find(|figure| figure.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_figure_is_complete_and_has_an_id_of_its_own() {
        let ids: HashSet<_> = figures().iter().map(|figure| &figure.id).collect();
        assert_eq!(ids.len(), figures().len());
        assert_eq!(TEXT.matches("[[figure]]").count(), figures().len());
        for figure in figures() {
            assert!(figure.value.is_finite() && figure.value > 0.0, "{}", figure.id);
            assert!(!figure.system.is_empty() && !figure.metric.is_empty() && !figure.source.is_empty());
        }
    }

    #[test]
    fn figures_are_found_by_id() {
        let sequencer = figure("rln-sequencer-single").unwrap();
        assert_eq!((sequencer.value, sequencer.instances_for_1m), (1_052_845.0, Some(1)));
        assert_eq!(figure("corda-oss-3.3-peak").unwrap().value, 8.62);
        assert_eq!(figure("besu-1.5.0-tps").unwrap().instances_for_1m, None);
        assert_eq!(figure("no-such-figure"), None);
    }
}
