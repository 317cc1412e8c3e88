//! A run from its seed to its end.

use tally_sim::Rng;

use super::plan::{Broken, Plan};
use super::world::World;
use crate::witness::Witness;

/// Blocks that must be final at every correct validator after the network has healed.
const BLOCKS_AFTER: u64 = 5;

/// What a run came to; equal for equal seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Hash over everything that happened.
    pub trace: u64,
    /// Heights with a final block.
    pub heights: u64,
    /// Messages sent.
    pub sent: u64,
    /// Crashes of hosts.
    pub crashes: u64,
    /// Times that somebody was blamed, rightly.
    pub blamed: u64,
    /// Milliseconds from healing to the last block that was waited for.
    pub recovery_ms: u64,
    /// The highest round when the network healed.
    pub highest_round: u32,
    /// Rounds beyond that one, or from 0 on, that a block took afterwards.
    pub rounds_after: u32,
}

impl Summary {
    /// Adds another run, keeping the longest recovery and the highest round.
    pub fn add(&mut self, other: &Self) {
        self.trace ^= other.trace;
        self.heights += other.heights;
        self.sent += other.sent;
        self.crashes += other.crashes;
        self.blamed += other.blamed;
        self.recovery_ms = self.recovery_ms.max(other.recovery_ms);
        self.highest_round = self.highest_round.max(other.highest_round);
        self.rounds_after = self.rounds_after.max(other.rounds_after);
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { heights, sent, crashes, blamed, recovery_ms, highest_round, rounds_after, .. } = self;
        write!(
            f,
            "{heights} heights, {sent} messages, {crashes} crashes, {blamed} rightly blamed, recovered within \
             {recovery_ms} ms and {rounds_after} rounds from round {highest_round} at most"
        )
    }
}

/// Runs a seed.
///
/// # Panics
/// When validators do not do as they should: this is the purpose.
#[must_use]
pub fn run(seed: u64) -> Summary {
    run_broken(seed, None)
}

/// Runs a seed with a defect put in.
///
/// # Panics
/// As [`run`], and because of the defect.
#[must_use]
pub fn run_broken(seed: u64, broken: Option<Broken>) -> Summary {
    let witness = Witness::of_consensus(seed);
    let mut rng = Rng::new(seed);
    let plan = Plan::new(&mut rng, broken);
    let deadline_ms = patience_ms(&plan);
    let stays: Vec<usize> = (0..plan.nodes()).filter(|node| plan.stays(*node)).collect();
    let (heal_ms, nodes) = (plan.heal_ms, plan.nodes());
    let mut world = World::new(plan, rng);
    let mut goal = None;
    while world.step() {
        witness.sees(world.steps);
        if !world.healed {
            continue;
        }
        let highest =
            world.hosts.iter().filter(|host| stays.contains(&host.node)).map(|host| host.height()).max();
        let goal = *goal.get_or_insert(highest.unwrap_or(0) + BLOCKS_AFTER);
        let there = |node: &usize| world.hosts.iter().any(|host| host.node == *node && host.height() >= goal);
        if stays.iter().all(there) {
            break;
        }
        if world.now_ms > heal_ms + deadline_ms {
            let at: Vec<_> = world.hosts.iter().map(|host| (host.node, host.height(), host.view())).collect();
            assert!(broken.is_some(), "blocks do not go on to {goal} within {deadline_ms} ms: {at:?}");
            break;
        }
    }
    let bound = u32::try_from((nodes - 1) / 3).unwrap_or(0) + 3;
    let rounds_after = world.rounds_after;
    assert!(
        rounds_after <= bound || broken.is_some(),
        "{rounds_after} rounds after healing; {bound} are allowed"
    );
    let summary = Summary {
        trace: world.trace.hash(),
        heights: world.check.heights(),
        sent: world.sent,
        crashes: world.crashes,
        blamed: world.check.blamed,
        recovery_ms: world.now_ms.saturating_sub(heal_ms),
        highest_round: world.highest_round,
        rounds_after,
    };
    drop(witness);
    summary
}

/// How long the blocks after healing may take, in milliseconds.
fn patience_ms(plan: &Plan) -> u64 {
    let nodes = plan.nodes() as u64;
    let faulty = (nodes - 1) / 3;
    let cap_ms = plan.max_timeout_ms.max(plan.settings.request_timeout_ms);
    let period_ms = 2_000 + plan.settings.empty_period_s * 1_000;
    // The first block waits for all to be in one round and for a correct proposer; each further one for the latter.
    let rounds = (faulty + 2) * (BLOCKS_AFTER + 2);
    rounds * (cap_ms + 500) + BLOCKS_AFTER * period_ms + 10_000
}
