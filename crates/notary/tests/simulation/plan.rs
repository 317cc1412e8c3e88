//! What is drawn from the seed.

use tally_contracts::{StateRef, TimeWindow, Timestamp, TransactionId, encode};
use tally_crypto::hash;
use tally_notary::{Commit, Config, Judge, Request, Unfounded};
use tally_sim::Rng;

use super::keys::name;

/// Clocks begin here, in milliseconds since 1970.
pub(crate) const EPOCH_MS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Correct,
    /// Says nothing, from the beginning.
    Silent,
    /// Correct until the network heals, then gone for good.
    Dies,
    /// Runs twice with one key, each like a correct one.
    Twins,
    /// Changes, repeats, withholds and makes up what it says.
    Liar,
}

/// A defect that is put in on purpose, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// What was signed is forgotten in a crash, by all.
    Persist,
    /// Two members of four run twice.
    TooManyTwins,
    /// No member looks at evidence.
    Judge,
}

impl Broken {
    pub(crate) const ALL: [Self; 3] = [Self::Persist, Self::TooManyTwins, Self::Judge];
}

/// A client's wish.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) request: Request,
    pub(crate) at_ms: u64,
    /// Whether its evidence allows it: a client that is right asks for nothing else.
    pub(crate) founded: bool,
    /// At first it asks this member only.
    pub(crate) first: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) config: Config,
    pub(crate) skew_ms: Vec<u64>,
    pub(crate) loss: u64,
    pub(crate) repeats: u64,
    pub(crate) late_ms: u64,
    /// A crash in so many effects.
    pub(crate) crash_in: u64,
    pub(crate) heal_ms: u64,
    /// From when to when, and who is on one side.
    pub(crate) cuts: Vec<(u64, u64, u32)>,
    pub(crate) wishes: Vec<Wish>,
    pub(crate) broken: Option<Broken>,
}

/// The evidence of this simulation: a hash over the commit.
pub(crate) fn evidence(commit: &Commit) -> Vec<u8> {
    hash(&encode(commit)).as_bytes().to_vec()
}

pub(crate) struct HashJudge;

impl Judge for HashJudge {
    fn judge(&self, request: &Request) -> Result<(), Unfounded> {
        if request.evidence == evidence(&request.commit) {
            Ok(())
        } else {
            Err(Unfounded("another hash".to_owned()))
        }
    }
}

/// Believes everything.
pub(crate) struct NoJudge;

impl Judge for NoJudge {
    fn judge(&self, _: &Request) -> Result<(), Unfounded> {
        Ok(())
    }
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng, broken: Option<Broken>) -> Self {
        let nodes = if rng.chance(1, 8) { 7 } else { 4 };
        let faulty = (nodes - 1) / 3;
        let mut kinds = vec![Kind::Correct; nodes];
        for _ in 0..faulty {
            kinds[rng.index(nodes)] = match rng.index(10) {
                0 => Kind::Silent,
                1 => Kind::Dies,
                2 | 3 => Kind::Twins,
                4 => Kind::Correct,
                _ => Kind::Liar,
            };
        }
        match broken {
            Some(Broken::TooManyTwins) => (0..=faulty).for_each(|node| kinds[node] = Kind::Twins),
            Some(Broken::Judge) => kinds[0] = Kind::Liar,
            _ => {}
        }
        let heal_ms = rng.between(3_000, 25_000);
        let cuts = (0..rng.below(5)).map(|_| {
            let from = rng.below(heal_ms);
            (from, from + rng.between(100, 8_000), u32::try_from(rng.below(1 << nodes)).unwrap_or(0))
        });
        let cuts: Vec<(u64, u64, u32)> = cuts.collect();
        let rough = rng.chance(3, 4);
        let skewed = rng.chance(1, 2);
        let small = rng.chance(1, 3);
        let config = Config {
            batch_interval_ms: [0, 5, 100][rng.index(3)],
            round_timeout_ms: [400, 1_000, 2_000][rng.index(3)],
            clock_tolerance_ms: [2_500, 10_000][rng.index(2)],
            poll_ms: [300, 1_000][rng.index(2)],
            batch_requests: if small { 2 } else { 1_000 },
            ..Config::default()
        };
        let mut plan = Self {
            config,
            skew_ms: (0..nodes).map(|_| if skewed { rng.below(1_500) } else { 0 }).collect(),
            loss: if rough { rng.below(200) } else { 0 },
            repeats: if rough { rng.below(200) } else { 0 },
            late_ms: if rough { rng.between(1, 3_000) } else { 1 },
            crash_in: if rng.chance(1, 2) || broken.is_some() { rng.between(20, 600) } else { u64::MAX },
            heal_ms,
            cuts,
            wishes: Vec::new(),
            broken,
            kinds,
        };
        if broken == Some(Broken::TooManyTwins) {
            // Those that are right do not hear each other, half of them on each side.
            let right = nodes - faulty - 1;
            let side = (0..right / 2).map(|node| 1 << (nodes - 1 - node)).sum();
            plan.cuts = vec![(0, heal_ms, side)];
        }
        plan.wish(rng);
        plan
    }

    /// Clients that want more of a few states than there is.
    fn wish(&mut self, rng: &mut Rng) {
        let states = rng.between(2, 10);
        let state = |n: u64| StateRef {
            transaction: TransactionId::from_bytes([u8::try_from(n).unwrap_or(0) | 0x80; 32]),
            index: 0,
        };
        for number in 0..rng.between(4, 24) {
            let at_ms = rng.below(self.heal_ms + 2_000);
            let mut inputs: Vec<StateRef> = (0..rng.below(3)).map(|_| state(rng.below(states))).collect();
            inputs.sort_unstable();
            inputs.dedup();
            let references: Vec<StateRef> =
                if rng.chance(1, 5) { vec![state(rng.below(states))] } else { vec![] };
            let references = references.into_iter().filter(|state| !inputs.contains(state)).collect();
            let time = |rng: &mut Rng| Timestamp::from_millis(EPOCH_MS + rng.below(self.heal_ms + 5_000));
            let time_window = match rng.index(8) {
                0 => Some(TimeWindow::ending(time(rng))),
                1 => Some(TimeWindow::starting(time(rng))),
                _ => None,
            };
            let commit = Commit {
                inputs,
                references,
                transaction: TransactionId::from_bytes([u8::try_from(number + 1).unwrap_or(0); 32]),
                time_window,
                requester: name(&format!("Bank {}", number % 5)),
            };
            let founded = !rng.chance(1, 10);
            let evidence = if founded { evidence(&commit) } else { vec![1, 2, 3] };
            let first = rng.chance(1, 4).then(|| rng.index(self.kinds.len()));
            self.wishes.push(Wish { request: Request { commit, evidence }, at_ms, founded, first });
        }
    }

    pub(crate) fn nodes(&self) -> usize {
        self.kinds.len()
    }

    pub(crate) fn is_correct(&self, node: usize) -> bool {
        matches!(self.kinds[node], Kind::Correct | Kind::Dies)
    }
}
