//! Who says how to replay a run that failed.

use std::cell::Cell;

/// Prints, when a run ends in a panic, its seed, its step and the command that replays it.
pub(crate) struct Witness {
    seed: u64,
    step: Cell<u64>,
}

impl Witness {
    pub(crate) fn of(seed: u64) -> Self {
        Self { seed, step: Cell::new(0) }
    }

    pub(crate) fn sees(&self, step: u64) {
        self.step.set(step);
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (seed, step) = (self.seed, self.step.get());
            eprintln!("seed {seed} failed in step {step}; replay it with: make sim SEED={seed}");
        }
    }
}
