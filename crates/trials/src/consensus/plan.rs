//! What is drawn from the seed.

use tally_consensus::qbft::Form;
use tally_consensus::{Period, ProposerPolicy, Protocol, Settings};
use tally_sim::Rng;

/// How a validator fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Correct,
    /// Says nothing, from the beginning.
    Silent,
    /// Runs twice with one key; each of the two is as a correct one.
    Twins,
    /// Says whatever serves it.
    Chaos,
    /// Correct until the network heals, then gone for good.
    Dies,
}

/// A defect that is put in on purpose, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// What is to be durable is forgotten in a crash.
    Persist,
    /// More than a third of the validators runs twice.
    TooManyTwins,
}

impl Broken {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Persist, Self::TooManyTwins];
}

/// Everything about a run that does not depend on what happens in it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) protocol: Protocol,
    pub(super) policy: ProposerPolicy,
    pub(super) kinds: Vec<Kind>,
    /// Validators of the genesis: the first so many.
    pub(super) founders: usize,
    pub(super) settings: Settings,
    pub(super) max_timeout_ms: u64,
    pub(super) epoch: u64,
    pub(super) relay: bool,
    /// Whether hosts look for new blocks by themselves, beside what the engine asks for.
    pub(super) polls: bool,
    pub(super) skew_ms: Vec<u64>,
    pub(super) loss: u64,
    pub(super) repeats: u64,
    pub(super) late_ms: u64,
    /// A crash in so many effects.
    pub(super) crash_in: u64,
    pub(super) heal_ms: u64,
    /// From when to when, and who is on one side.
    pub(super) cuts: Vec<(u64, u64, u32)>,
    pub(super) broken: Option<Broken>,
}

impl Plan {
    pub(super) fn new(rng: &mut Rng, broken: Option<Broken>) -> Self {
        let nodes = 4 + rng.index(7);
        let newcomer = nodes > 4 && rng.chance(1, 4);
        let founders = nodes - usize::from(newcomer);
        let faulty = (founders - 1) / 3;
        let mut kinds = vec![Kind::Correct; nodes];
        let fail = match broken {
            Some(Broken::TooManyTwins) => founders * 2 / 3,
            _ => rng.index(faulty + 1),
        };
        for _ in 0..fail {
            let node = rng.index(founders);
            kinds[node] = match rng.index(if broken.is_some() { 1 } else { 8 }) {
                0 | 1 => Kind::Twins,
                2 => Kind::Silent,
                3 => Kind::Dies,
                _ => Kind::Chaos,
            };
        }
        let request_timeout_ms = [500, 1_000, 2_000, 4_000][rng.index(4)];
        let period = match rng.index(3) {
            0 => Period::Milliseconds([100, 250, 1_000][rng.index(3)]),
            _ => Period::Seconds(1 + rng.below(2)),
        };
        let empty_period_s = if rng.chance(1, 4) { 1 + rng.below(8) } else { 0 };
        let skewed = rng.chance(1, 2);
        let heal_ms = rng.between(5_000, 60_000);
        let cuts = (0..rng.below(6)).map(|_| {
            let from = rng.below(heal_ms);
            (from, from + rng.between(100, 20_000), u32::try_from(rng.below(1 << nodes)).unwrap_or(0))
        });
        let cuts = cuts.collect();
        let rough = rng.chance(2, 3);
        Self {
            protocol: [Protocol::Ibft2, Protocol::QBFT, Protocol::Qbft(Form::BESU)][rng.index(3)],
            policy: if rng.chance(1, 4) { ProposerPolicy::Sticky } else { ProposerPolicy::RoundRobin },
            founders,
            settings: Settings { period, empty_period_s, request_timeout_ms },
            max_timeout_ms: request_timeout_ms * [1, 4, 8][rng.index(3)],
            epoch: [5, 10, 30_000][rng.index(3)],
            relay: rng.chance(1, 4),
            polls: rng.chance(1, 2),
            skew_ms: (0..nodes).map(|_| if skewed { rng.below(2_000) } else { 0 }).collect(),
            loss: if rough { rng.below(250) } else { 0 },
            repeats: if rough { rng.below(200) } else { 0 },
            late_ms: if rough { rng.between(1, 3_000) } else { 1 },
            crash_in: if rng.chance(1, 2) || broken.is_some() { rng.between(50, 2_000) } else { u64::MAX },
            heal_ms,
            cuts,
            kinds,
            broken,
        }
    }

    pub(super) fn nodes(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn is_correct(&self, node: usize) -> bool {
        matches!(self.kinds.get(node), Some(Kind::Correct | Kind::Dies))
    }

    /// Whether a node takes part after the network has healed.
    pub(super) fn stays(&self, node: usize) -> bool {
        self.kinds.get(node) == Some(&Kind::Correct)
    }
}
