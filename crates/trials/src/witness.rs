//! Who says how to replay a run that failed.

use std::cell::Cell;

/// Prints, when a run ends in a panic, its seed, its step and the command that replays it.
pub(crate) struct Witness {
    seed: u64,
    ledger: &'static str,
    step: Cell<u64>,
}

impl Witness {
    pub(crate) fn of(seed: u64) -> Self {
        Self { seed, ledger: "", step: Cell::new(0) }
    }

    /// Of a run of the flows ledger.
    pub(crate) fn of_flows(seed: u64) -> Self {
        Self { seed, ledger: " LEDGER=flows", step: Cell::new(0) }
    }

    /// Of a run of validators.
    pub(crate) fn of_consensus(seed: u64) -> Self {
        Self { seed, ledger: " LEDGER=consensus", step: Cell::new(0) }
    }

    /// Of a run of a network of shards.
    pub(crate) fn of_processes(seed: u64) -> Self {
        Self { seed, ledger: " LEDGER=processes", step: Cell::new(0) }
    }

    /// Of a run of either form of settlement in which a member lies.
    pub(crate) fn of_liars(seed: u64) -> Self {
        Self { seed, ledger: " LEDGER=liars", step: Cell::new(0) }
    }

    pub(crate) fn sees(&self, step: u64) {
        self.step.set(step);
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (seed, step) = (self.seed, self.step.get());
            let ledger = self.ledger;
            eprintln!("seed {seed} failed in step {step}; replay it with: make sim{ledger} SEED={seed}");
        }
    }
}
