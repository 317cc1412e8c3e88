//! What kind of network a seed simulates.

use crate::simulation::plan::Plan;
use std::sync::Arc;
use tally_ledger::Network;
use tally_log::cluster::MemoryCluster;
use tally_settlement::process::Layout;
use tally_sim::Rng;

/// A network, how it is split, and how much befalls it.
pub(super) struct Setup {
    pub(super) network: Arc<Network>,
    pub(super) layout: Layout,
    /// How often updaters save their balances, in milliseconds.
    pub(super) save_every_ms: u64,
    /// How many references a scheduler remembers.
    pub(super) remember: usize,
    /// One step of so many is a fault.
    pub(super) faults: u64,
    /// By how much clocks are wrong, most of the time; in milliseconds either way.
    pub(super) skew_ms: u64,
    /// How long things take: how many milliseconds pass with a step, at most.
    pub(super) step_ms: u64,
}

/// How many gateways there are.
pub(super) const GATEWAYS: u16 = 2;

impl Setup {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let mut plan = Plan::new(&mut rng.fork());
        for _ in 0..rng.below(4) {
            plan.grow(rng);
        }
        let mut network = plan.network;
        network.participants.truncate(6.max(1 + usize::from(highest_settlement(&network))));
        let few = |rng: &mut Rng| u16::try_from(rng.between(1, 3)).expect("small");
        let layout = Layout {
            prefix: "sim".into(),
            participants: network.participants.iter().map(|participant| participant.bic.clone()).collect(),
            schedulers: few(rng),
            assemblers: few(rng),
            gateways: GATEWAYS,
        };
        Self {
            network: Arc::new(network),
            layout,
            save_every_ms: [0, 50, 1_000, 20_000, 1 << 40][rng.index(5)],
            remember: if rng.chance(1, 12) { rng.index(40) + 20 } else { 1 << 16 },
            faults: [12, 25, 60, 200][rng.index(4)],
            skew_ms: [0, 5, 300, 3_000, 5_000][rng.index(5)],
            step_ms: [1, 5, 20, 80][rng.index(4)],
        }
    }

    /// A cluster with its topics, on which everything comes late.
    pub(super) fn cluster(&self, rng: &mut Rng) -> MemoryCluster {
        let cluster =
            MemoryCluster::new(self.layout.topics().into_iter().map(|topic| (topic.name, topic.partitions)));
        if rng.chance(7, 8) {
            cluster.lag(rng.next_u64());
        }
        cluster
    }
}

/// The highest number of a participant at whom an asset is settled: it has to stay.
fn highest_settlement(network: &Network) -> u16 {
    network.assets.iter().map(|asset| asset.settled_at.0).max().unwrap_or(0)
}
