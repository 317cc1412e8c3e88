//! Who runs next, decided by the seed.

use crate::{Rng, Trace};

/// Chooses which of several actors takes its next step, and keeps the trace of the choices.
///
/// An actor is anything with an index. Besides uniform choices the scheduler sometimes lets one actor run
/// alone for a while and sometimes starves one, because fair interleavings find few mistakes.
///
/// ```
/// let mut scheduler = tally_sim::Scheduler::new(1);
/// let mut steps_left = [3, 1, 2];
/// while let Some(actor) = scheduler.next(3, |actor| steps_left[actor] > 0) {
///     steps_left[actor] -= 1;
/// }
/// assert_eq!(scheduler.trace().events(), 6);
/// ```
#[derive(Clone, Debug)]
pub struct Scheduler {
    rng: Rng,
    trace: Trace,
    burst: Option<(usize, u64)>,
    starved: Option<(usize, u64)>,
}

/// The longest run of one actor alone, and the longest that one has to wait while others can run, in steps.
const SPELL_STEPS: u64 = 64;

impl Scheduler {
    /// The scheduler of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), trace: Trace::new(), burst: None, starved: None }
    }

    /// The next of `actors` actors to take a step, among those that `ready` says can; none if none can.
    ///
    /// Every ready actor is chosen some day: neither spell outlasts a fixed number of steps.
    pub fn next(&mut self, actors: usize, ready: impl Fn(usize) -> bool) -> Option<usize> {
        let mut candidates: Vec<usize> = (0..actors).filter(|&actor| ready(actor)).collect();
        if candidates.is_empty() {
            return None;
        }
        if let Some((actor, steps)) = self.starved.take()
            && steps > 0
        {
            self.starved = Some((actor, steps - 1));
            if candidates.len() > 1 {
                candidates.retain(|&candidate| candidate != actor);
            }
        }
        let chosen = match self.burst.take() {
            Some((actor, steps)) if steps > 0 && candidates.contains(&actor) => {
                self.burst = Some((actor, steps - 1));
                actor
            }
            _ => candidates[self.rng.index(candidates.len())],
        };
        if self.rng.chance(1, 32) {
            self.burst = Some((chosen, self.rng.below(SPELL_STEPS)));
        }
        if self.rng.chance(1, 64) {
            self.starved = Some((self.rng.index(actors), self.rng.below(SPELL_STEPS)));
        }
        self.trace.record_number("run", chosen as u64);
        Some(chosen)
    }

    /// The randomness of the run, for faults and inputs.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// What happened so far.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The trace, to add what the actors did to it.
    pub fn trace_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }
}

#[cfg(test)]
mod tests {
    use super::Scheduler;

    fn run(seed: u64) -> (Vec<usize>, u64) {
        let mut scheduler = Scheduler::new(seed);
        let order =
            (0..2_000).map(|_| scheduler.next(4, |actor| actor != 2).expect("three are ready")).collect();
        (order, scheduler.trace().hash())
    }

    #[test]
    fn one_seed_is_one_run() {
        assert_eq!(run(11), run(11));
        assert_ne!(run(11).1, run(12).1);
    }

    #[test]
    fn runs_only_ready_actors_and_all_of_them() {
        let (order, _) = run(5);
        for actor in [0, 1, 3] {
            assert!(order.iter().filter(|&&chosen| chosen == actor).count() > 300);
        }
        assert!(!order.contains(&2));
        assert_eq!(Scheduler::new(1).next(3, |_| false), None);
        assert_eq!(Scheduler::new(1).next(0, |_| true), None);
    }
}
