//! What a network of validators says at its beginning, and an engine that listens to it.

use alloy_primitives::B256;
use tally_consensus::{Effect, Engine, Head, Input, Packet, Protocol, Timer};
use tally_sim::Rng;

use super::host::{GENESIS_S, Host, build};
use super::keys::address;
use super::plan::Plan;
use super::world::{HEARD, World};

/// The first messages of a simulated network.
pub struct Traffic {
    /// The protocol they are of.
    pub protocol: Protocol,
    /// In the order in which they were sent.
    pub packets: Vec<Packet>,
    plan: Plan,
}

impl Traffic {
    /// The messages of a seed's network.
    ///
    /// # Panics
    /// When the network breaks.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::new(&mut rng, None);
        let mut world = World::new(plan.clone(), rng);
        while world.heard.len() < HEARD && world.step() {}
        Self { protocol: plan.protocol, packets: world.heard, plan }
    }

    /// A validator at the genesis of that network.
    #[must_use]
    pub fn listener(&self) -> Listener {
        let mut host = Host::new(&self.plan, 0);
        host.start(&self.plan);
        let head = host.head(&self.plan);
        let engine = host.engine.take().expect("it was started");
        Listener { engine, head, timers: Vec::new(), nodes: self.plan.nodes(), now_ms: GENESIS_S * 1_000 }
    }
}

/// A validator that hears anything, and whose host answers at random.
pub struct Listener {
    engine: Engine,
    head: Head,
    timers: Vec<Timer>,
    nodes: usize,
    now_ms: u64,
}

impl Listener {
    /// Hears a message, and lets its host do something.
    ///
    /// # Panics
    /// When the engine answers with more than it can have to say.
    pub fn hears(&mut self, rng: &mut Rng, packet: Packet) {
        if self.engine.status().view.is_none() {
            self.step(rng, Input::Head(self.head.clone()));
        }
        let from = address(rng.index(self.nodes));
        self.step(rng, Input::Message { from, packet });
        let input = match rng.below(6) {
            0 if !self.timers.is_empty() => {
                Input::Timer(self.timers.swap_remove(rng.index(self.timers.len())))
            }
            1 => Input::Connected(from),
            2 => Input::Disconnected(from),
            _ => return,
        };
        self.step(rng, input);
    }

    fn step(&mut self, rng: &mut Rng, input: Input) {
        self.now_ms += rng.below(2_000);
        let mut effects = Vec::new();
        self.engine.step(self.now_ms, input, &mut effects);
        assert!(effects.len() < 64, "{} effects of one input", effects.len());
        for effect in effects {
            let answer = match effect {
                Effect::SetTimer { timer, .. } => {
                    self.timers.push(timer);
                    continue;
                }
                Effect::BuildBlock(request) => {
                    let block = build(&request, B256::ZERO);
                    Input::Built { view: request.view, block: Some(block), empty: false }
                }
                Effect::Validate(block) => Input::Validated { hash: block.hash(), valid: rng.chance(3, 4) },
                _ => continue,
            };
            self.step(rng, answer);
        }
    }
}
