//! Simulated networks of nodes, as many as a test run can afford; `make sim LEDGER=flows` runs more.

use std::sync::Arc;
use tally_store::{Store, contract};
use tally_trials::flows::{Memory, steps};

#[test]
fn the_store_in_memory_does_what_a_store_must() {
    contract::check(&|| {
        let memory = Arc::new(Memory::new([7; 16]));
        Box::new(move || Ok(memory.clone() as Arc<dyn Store>))
    });
}

#[test]
fn a_crash_at_any_step_changes_nothing() {
    for scene in 0..steps::SCENES {
        let crashes = steps::crash_everywhere(scene);
        assert!(crashes.runs > crashes.steps && crashes.steps > 2, "{crashes:?}");
        println!("{crashes:?}");
    }
}
