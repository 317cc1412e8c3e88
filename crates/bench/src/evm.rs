//! Gas per second of the EVM, on each kind of code, beside bare `revm` on the same transactions.

use std::time::{Duration, Instant};

use tally_evm::BlockError;
use tally_evm::bench::{Figure, measure as measure_one, workloads};

use crate::ceiling::Ceiling;
use crate::published::{self, Figure as Published};
use crate::result::{Better, Record};

/// The experiment that runs are recorded under.
pub const EXPERIMENT: &str = "evm";
/// What of `revm`'s own speed is to be left, when it gives out the changes that a block makes too.
pub const BAR_SHARE: f64 = 0.95;

/// Measures every workload, in turn with `revm`, so many times; `begins` is told each one's name.
///
/// Times are the wall's: the system may count processor time in steps that are longer than a workload.
///
/// # Errors
/// A workload that cannot be executed, which would be a fault in it.
pub fn measure(rounds: usize, mut begins: impl FnMut(&str)) -> Result<Vec<Figure>, BlockError> {
    let start = Instant::now();
    let mut figures = Vec::new();
    for workload in workloads() {
        begins(workload.name);
        figures.push(measure_one(&workload, rounds, &|| start.elapsed())?);
    }
    Ok(figures)
}

/// The own speed as a share of that of `revm` giving out the same changes.
#[must_use]
pub fn share(figure: &Figure) -> f64 {
    limit(figure).share(figure.own_gas_per_second() as f64).unwrap_or_default()
}

/// So many rounds at least are compared with their limit.
const MIN_ROUNDS: usize = 5;

/// The executor runs `revm`, and has more to do.
fn limit(figure: &Figure) -> Ceiling {
    Ceiling { name: "revm with the block's changes".to_owned(), rate: figure.bundled_gas_per_second() as f64 }
}

/// What others have published.
#[must_use]
pub fn published() -> Option<&'static Published> {
    published::figure("besu-1.5.0-evm")
}

/// The record of a workload.
#[must_use]
pub fn record(figure: &Figure, rounds: usize) -> Record {
    let each = |time: Duration| time.as_secs_f64();
    let record = Record::new(EXPERIMENT, figure.name)
        .setting("rounds", rounds)
        .metric("gas_rate", figure.own_gas_per_second() as f64, "gas/s", Better::Higher)
        .metric("revm_bare_gas_rate", figure.bare_gas_per_second() as f64, "gas/s", Better::Higher)
        .metric("revm_to_changes_gas_rate", figure.bundled_gas_per_second() as f64, "gas/s", Better::Higher)
        .metric("own_time", each(figure.own), "s", Better::Lower);
    let record = match rounds {
        // One sample of each is no limit.
        ..MIN_ROUNDS => record,
        _ => record.against(&limit(figure), figure.own_gas_per_second() as f64),
    };
    published().into_iter().fold(record, Record::published)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_measured_and_recorded() {
        let mut begun = Vec::new();
        let figures = measure(1, |name| begun.push(name.to_owned())).unwrap();
        assert_eq!(begun.len(), figures.len());
        for figure in &figures {
            let record = record(figure, 1);
            record.check().unwrap();
            assert!(record.metrics["gas_rate"].value > 1e5 && share(figure) > 0.01, "{record:?}");
        }
        let text = crate::report::evm::section(&figures).text(false);
        assert!(begun.iter().all(|name| text.contains(name)) && text.contains("Besu"), "{text}");
    }
}
