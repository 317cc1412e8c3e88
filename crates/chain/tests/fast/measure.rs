//! How long executing a chain takes, and taking it with its state.

use std::time::{Duration, Instant};

use tally_chain::node::Sync;
use tally_state::{Database, StoreOptions};

use crate::world::{FAST, FULL, World};

const BLOCKS: u64 = 250;
const CALLS: u64 = 400;

/// Prints figures; takes a minute.
#[test]
#[ignore = "a measurement"]
fn full_and_fast() {
    let world = World::busy(BLOCKS, CALLS);
    let source = world.start_follower(2, world.copy(), &[], FULL);
    for (name, sync) in [("full", FULL), ("fast", FAST), ("full", FULL), ("fast", FAST)] {
        let (took, until) = measure(&world, &source, sync);
        let transactions = until * (CALLS + 3);
        println!(
            "{name}: {until} blocks, {transactions} transactions in {took:?}: {:.0} blocks/s, {:.0} transactions/s",
            until as f64 / took.as_secs_f64(),
            transactions as f64 / took.as_secs_f64(),
        );
    }
}

fn measure(world: &World, source: &tally_chain::Node, sync: Sync) -> (Duration, u64) {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), StoreOptions::default()).unwrap();
    let start = Instant::now();
    let node = world.start_follower(3, database, &[source], sync);
    while node.chain().head().number() < world.height() {
        std::thread::sleep(Duration::from_millis(2));
    }
    (start.elapsed(), world.height())
}
