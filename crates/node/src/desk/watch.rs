//! Who waits for a flow's start, its steps or its end.

use std::collections::HashMap;
use std::time::Instant;

use tally_contracts::Timestamp;
use tally_flows::{FlowId, Outcome};

/// Steps of a flow that are remembered for those who come later.
const REMEMBERED: usize = 64;

/// A step that a flow went into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The flow's name, its subflows and the step, joined by ` / `.
    pub path: Box<str>,
    /// When, by the node's clock.
    pub at: Timestamp,
}

/// What happens to a flow that somebody follows.
#[derive(Clone, Debug)]
pub enum Event {
    /// Its start is durable.
    Started,
    /// It went into a step.
    Step(Step),
    /// It ended, durably.
    Ended(Outcome),
}

/// Told of each event; answers whether it wants to hear more.
pub type Follower = Box<dyn FnMut(&Event) -> bool + Send>;

#[derive(Default)]
pub(crate) struct Watch {
    flows: HashMap<FlowId, Watched>,
}

#[derive(Default)]
struct Watched {
    steps: Vec<Step>,
    since: Option<Instant>,
    followers: Vec<Follower>,
}

/// A step that is over: what it was and how long it took, in seconds.
pub(crate) struct Finished {
    pub(crate) path: Box<str>,
    pub(crate) seconds: f64,
}

impl Watch {
    /// Follows a flow that has not ended: first what is remembered, then what happens.
    pub(crate) fn follow(&mut self, flow: FlowId, mut follower: Follower) {
        let watched = self.flows.entry(flow).or_default();
        for step in &watched.steps {
            if !follower(&Event::Step(step.clone())) {
                return;
            }
        }
        watched.followers.push(follower);
    }

    /// A flow went into a step; answers the step that it thereby finished.
    pub(crate) fn step(&mut self, flow: FlowId, path: &str, at: Timestamp) -> Option<Finished> {
        let watched = self.flows.entry(flow).or_default();
        let finished = watched.finish();
        let step = Step { path: path.into(), at };
        if !watched.followers.is_empty() {
            tell(&mut watched.followers, &Event::Step(step.clone()));
        }
        if watched.steps.len() == REMEMBERED {
            watched.steps.remove(0);
        }
        watched.steps.push(step);
        watched.since = Some(Instant::now());
        finished
    }

    pub(crate) fn started(&mut self, flow: FlowId) {
        if let Some(watched) = self.flows.get_mut(&flow) {
            tell(&mut watched.followers, &Event::Started);
        }
    }

    pub(crate) fn ended(&mut self, flow: FlowId, outcome: &Outcome) -> Option<Finished> {
        let mut watched = self.flows.remove(&flow)?;
        if !watched.followers.is_empty() {
            tell(&mut watched.followers, &Event::Ended(outcome.clone()));
        }
        watched.finish()
    }

    /// The step that a flow went into last.
    pub(crate) fn latest(&self, flow: FlowId) -> Option<Step> {
        self.flows.get(&flow).and_then(|watched| watched.steps.last()).cloned()
    }
}

impl Watched {
    fn finish(&mut self) -> Option<Finished> {
        let since = self.since.take()?;
        let path = self.steps.last()?.path.clone();
        Some(Finished { path, seconds: since.elapsed().as_secs_f64() })
    }
}

fn tell(followers: &mut Vec<Follower>, event: &Event) {
    followers.retain_mut(|follower| follower(event));
}
