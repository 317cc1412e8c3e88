//! A crash at every step of every flow: each flow runs once to find its steps, and then once for each step with a
//! crash of the node that takes it, before and after. Whatever the crash, the same comes out.

use std::collections::BTreeMap;

use tally_sim::Rng;
use tally_store::StateQuery;

use super::books::Books;
use super::clients::Order;
use super::facts::Fact;
use super::world::World;

mod scenes;

/// What crashes of one flow came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crashes {
    /// What is done by the flow.
    pub flow: &'static str,
    /// Steps that it takes, at all nodes together.
    pub steps: u64,
    /// Runs with a crash.
    pub runs: u64,
}

/// One step of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Turn(usize),
    Commit(usize),
    Deliver(usize, usize),
    Acknowledge(usize, usize),
}

impl Step {
    /// The node that takes it.
    fn node(self) -> usize {
        match self {
            Self::Turn(node) | Self::Commit(node) | Self::Deliver(_, node) | Self::Acknowledge(node, _) => {
                node
            }
        }
    }
}

/// When the node that takes the step crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    /// The batch is on the disk and nobody was told.
    Between,
    After,
}

/// What can be compared of two runs: what the user was told, without the names of transactions, and what the nodes
/// have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Result {
    told: std::result::Result<(), &'static str>,
    has: BTreeMap<(usize, String), u64>,
    owed: usize,
}

/// A network in which a flow can be run, and the order that runs it.
struct Scene {
    world: World,
    order: Order,
    /// The clock goes on by so much before the order is given.
    later_ms: u64,
}

/// How many scenes there are.
pub const SCENES: usize = scenes::ALL.len();

/// Crashes at every step of the flow of one scene. All scenes together have every flow that nodes ship, and those that
/// only the simulation has.
///
/// # Panics
/// When a crash changes anything, or breaks a promise.
#[must_use]
pub fn crash_everywhere(scene: usize) -> Crashes {
    let (name, scene, fails) = scenes::ALL[scene];
    everywhere(name, &scene(), fails)
}

fn everywhere(flow: &'static str, scene: &Scene, fails: Option<&'static str>) -> Crashes {
    let (expected, steps) = scene.run(None);
    assert_eq!(expected.told, fails.map_or(Ok(()), Err), "{flow}");
    let mut runs = 0;
    for (place, step) in steps.iter().enumerate() {
        for when in [When::Before, When::Between, When::After] {
            if when == When::Between && !matches!(step, Step::Commit(_)) {
                continue;
            }
            let witness = Told { flow, place, step: *step, when };
            let (result, _) = scene.run(Some((place, when)));
            assert_eq!(result, expected, "a crash changes what comes of it");
            drop(witness);
            runs += 1;
        }
    }
    Crashes { flow, steps: steps.len() as u64, runs }
}

/// Says which crash it was when a run ends in a panic.
struct Told {
    flow: &'static str,
    place: usize,
    step: Step,
    when: When,
}

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { flow, place, step, when } = self;
            eprintln!("{flow}: a crash {when:?} step {place}, {step:?}");
        }
    }
}

impl Scene {
    fn run(&self, crash: Option<(usize, When)>) -> (Result, Vec<Step>) {
        let mut world = self.world.copy(Rng::new(7));
        world.heal();
        world.drain();
        world.clock.advance_ms(self.later_ms);
        let index = world.clients.order(self.order.clone());
        world.hand_in(index);
        let mut steps = Vec::new();
        let mut waits = 0;
        // Nodes that may have something to make durable.
        let mut changed = vec![true; world.len()];
        loop {
            let Some(step) = next(&mut world, &changed) else {
                if world.clients.asked[index].outcome.is_some() {
                    break;
                }
                waits += 1;
                assert!(waits < 1_000, "the flow does not end");
                let Some(ms) = world.next_deadline() else { break };
                world.clock.advance_ms(ms.max(1));
                for (node, changed) in changed.iter_mut().enumerate() {
                    world.tick(node);
                    *changed = true;
                }
                continue;
            };
            let crash = crash.filter(|(place, _)| *place == steps.len()).map(|(_, when)| when);
            steps.push(step);
            changed[step.node()] = true;
            if crash == Some(When::Before) {
                restart(&mut world, step.node(), index);
                continue;
            }
            if crash == Some(When::Between) {
                world.commit_and_crash(step.node());
            } else {
                changed[step.node()] = take(&mut world, step);
            }
            if crash.is_some() {
                restart(&mut world, step.node(), index);
            }
            world.listen();
        }
        world.heal();
        world.drain();
        world.is_tidy();
        let books = Books::read(&world, 0);
        books.fit_vaults(&world);
        (result(&world, index), steps)
    }
}

/// Ends the node's process, if it has not ended, and starts it again; the user asks again.
fn restart(world: &mut World, node: usize, order: usize) {
    if world.runs(node) {
        world.crash(node);
    }
    assert!(world.start(node), "a node starts");
    if world.clients.asked[order].order.node == node {
        world.hand_in(order);
    }
}

/// The next thing that can be done, in a fixed order: what is nearest to rest first.
fn next(world: &mut World, changed: &[bool]) -> Option<Step> {
    for from in 0..world.len() {
        for to in (0..world.len()).filter(|to| *to != from) {
            if !world.link(from, to).connected {
                world.connect(from, to);
            }
            world.read_back(from, to);
            if !world.link(from, to).wire.is_empty() {
                return Some(Step::Deliver(from, to));
            }
            if !world.link(from, to).acks.is_empty() {
                return Some(Step::Acknowledge(from, to));
            }
        }
    }
    (0..world.len()).find_map(|node| {
        let core = world.machines[node].core.as_ref()?;
        if core.engine().queued() > 0 {
            return Some(Step::Turn(node));
        }
        changed[node].then_some(Step::Commit(node))
    })
}

/// Takes a step; may there be something to make durable now?
fn take(world: &mut World, step: Step) -> bool {
    match step {
        Step::Turn(node) => world.turn(node),
        Step::Commit(node) => world.commit(node, false),
        Step::Deliver(from, to) => {
            world.deliver(from, to, 0, 1);
            true
        }
        Step::Acknowledge(from, to) => {
            world.acknowledge(from, to, 0);
            true
        }
    }
}

fn result(world: &World, order: usize) -> Result {
    let told = world.clients.asked[order].outcome.as_ref().expect("it was told");
    let mut has: BTreeMap<(usize, String), u64> = BTreeMap::new();
    let mut owed = 0;
    for (node, machine) in world.machines.iter().enumerate() {
        let query = StateQuery { page_size: 1000, ..StateQuery::default() };
        for state in world.truth(node).states(&query).expect("the truth can be read").states {
            match Fact::of(&state.state) {
                Fact::Iou(_) => owed += 1,
                _ if state.summary.owner == Some(machine.me.key) => {
                    let asset = state.summary.asset.expect("what is owned is of an asset");
                    *has.entry((node, asset)).or_default() += state.summary.quantity.unwrap_or_default();
                }
                _ => {}
            }
        }
    }
    Result { told: told.as_ref().map(|_| ()).map_err(tally_flows::FlowError::code), has, owed }
}

/// A network in which somebody has paid somebody, and the payment.
#[cfg(test)]
pub(crate) fn paid() -> (World, tally_contracts::Transaction) {
    scenes::paid()
}
