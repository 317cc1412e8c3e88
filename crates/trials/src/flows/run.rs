//! One run: the seed draws what happens, everything that happens is checked.

use std::collections::BTreeMap;

use tally_flows::{FlowState, Origin};
use tally_sim::Rng;

use super::books::Books;
use super::disk::{Fault, Forgotten};
use super::liars::Role;
use super::orders::Orders;
use super::plan::Plan;
use super::privacy;
use super::summary::Summary;
use super::world::{Cast, World};
use crate::witness::Witness;

/// Runs a seed.
///
/// # Panics
/// When anything is not as it should be: this is the purpose. The message names the seed and how to replay it.
#[must_use]
pub fn run(seed: u64) -> Summary {
    run_with(seed, None)
}

/// Runs a seed with disks that forget something, which must not go unnoticed for long.
///
/// # Panics
/// As [`run`], and this time it should, for some seed.
#[must_use]
pub fn run_with(seed: u64, forgotten: Option<Forgotten>) -> Summary {
    play(seed, forgotten, false)
}

/// Runs a seed in which some nodes lie with keys of their own, see [`LEFT_OUT`](super::LEFT_OUT) for what they do not
/// try.
///
/// # Panics
/// As [`run`].
#[must_use]
pub fn run_liars(seed: u64) -> Summary {
    play(seed, None, true)
}

/// Runs a seed with good nodes, and then one in which some lie.
///
/// # Panics
/// As [`run`].
#[must_use]
pub fn run_both(seed: u64) -> [Summary; 2] {
    [run(seed), run_liars(seed)]
}

fn play(seed: u64, forgotten: Option<Forgotten>, with_liars: bool) -> Summary {
    let witness = Witness::of_flows(seed);
    let mut run = Run::new(seed, forgotten, with_liars);
    for step in 1..=run.plan.steps {
        witness.sees(step);
        run.act();
    }
    witness.sees(run.plan.steps + 1);
    run.end()
}

struct Run {
    seed: u64,
    rng: Rng,
    plan: Plan,
    world: World,
    orders: Orders,
    /// Nodes that do not run, and until which step.
    down: BTreeMap<usize, u64>,
    /// Connections that are cut, and until which step.
    cuts: Vec<(usize, usize, u64)>,
    step: u64,
    kills: u64,
    skewed: bool,
}

impl Run {
    fn new(seed: u64, forgotten: Option<Forgotten>, with_liars: bool) -> Self {
        let mut rng = Rng::new(seed ^ if with_liars { 0x6c69_6172_7300_0000 } else { 0x666c_6f77_7300_0000 });
        let plan = Plan::new(&mut rng.fork());
        let institutions = usize::try_from(rng.between(if with_liars { 3 } else { 2 }, 4)).expect("small");
        let mut liars = BTreeMap::new();
        if with_liars {
            liars.insert(institutions - 1, Role::Institution);
            if rng.chance(1, 2) {
                liars.insert(institutions, Role::Notary);
            }
            if rng.chance(1, 3) {
                liars.insert(institutions + 2, Role::Oracle);
            }
        }
        let cast = Cast {
            liars,
            institutions,
            files: seed.is_multiple_of(16),
            validating_first: rng.chance(1, 2),
            queue_bytes: if rng.chance(1, 4) { 2_000 } else { 1 << 20 },
        };
        let world = World::new(&cast, rng.fork());
        let orders = Orders::new(rng.fork());
        let mut run = Self {
            seed,
            plan,
            world,
            orders,
            down: BTreeMap::new(),
            cuts: Vec::new(),
            step: 0,
            kills: 0,
            skewed: false,
            rng,
        };
        for node in 0..run.world.len() {
            run.world.machines[node].disk.forget(forgotten);
            run.skew(node);
            run.start(node);
        }
        for node in 0..run.world.institutions {
            let order = run.orders.issue(&run.world.view(), node);
            run.order(order);
        }
        run
    }

    fn order(&mut self, order: super::clients::Order) {
        let index = self.world.clients.order(order);
        self.world.hand_in(index);
    }

    fn node(&mut self) -> usize {
        self.rng.index(self.world.len())
    }

    fn pair(&mut self) -> (usize, usize) {
        let from = self.node();
        let to = self.rng.index(self.world.len() - 1);
        (from, if to >= from { to + 1 } else { to })
    }

    /// The first pair, from one drawn on, that something can be done with.
    fn find(&mut self, mut can: impl FnMut(&mut World, usize, usize) -> bool) -> Option<(usize, usize)> {
        let count = self.world.len();
        let first = self.rng.index(count * count);
        (0..count * count)
            .map(|offset| (first + offset) % (count * count))
            .map(|place| (place / count, place % count))
            .find(|(from, to)| from != to && can(&mut self.world, *from, *to))
    }

    fn act(&mut self) {
        self.step += 1;
        self.repair();
        if self.rng.below(self.plan.order_every) == 0 {
            let orders = self.orders.next(&self.world.view());
            orders.into_iter().for_each(|order| self.order(order));
            if !self.world.liars.is_empty() && self.rng.chance(1, 4) {
                self.lie();
            }
        }
        if self.plan.fault_every > 0 && self.rng.below(self.plan.fault_every) == 0 {
            self.fault();
        }
        match self.rng.below(100) {
            0..40 => self.turn(),
            40..62 => self.deliver(),
            62..78 => {
                let node = self.node();
                let loses = self.plan.fault_every > 0 && self.rng.chance(1, 50);
                self.world.commit(node, loses);
            }
            78..84 => {
                if let Some((from, to)) = self.find(|world, from, to| !world.link(from, to).acks.is_empty()) {
                    let place = self.rng.index(self.world.link(from, to).acks.len());
                    self.world.acknowledge(from, to, place);
                }
            }
            84..89 => {
                let connects = |world: &mut World, from: usize, to: usize| {
                    let link = world.link(from, to);
                    (!link.connected || link.stuck) && !link.cut && world.runs(from) && world.runs(to)
                };
                if let Some((from, to)) = self.find(connects) {
                    self.world.link(from, to).close();
                    self.world.connect(from, to);
                }
            }
            89..93 => {
                if let Some((from, to)) = self.find(|world, from, to| world.is_behind(from, to)) {
                    self.world.read_back(from, to);
                }
            }
            93..96 => self.pass_time(),
            96..98 => self.world.listen(),
            _ => {
                let node = self.node();
                let unattended = self.world.clients.unattended(node);
                if !unattended.is_empty() && self.plan.asks_again {
                    let index = unattended[self.rng.index(unattended.len())];
                    self.world.hand_in(index);
                }
            }
        }
    }

    fn turn(&mut self) {
        let first = self.node();
        let count = self.world.len();
        for offset in 0..count {
            if self.world.turn((first + offset) % count) {
                return;
            }
        }
    }

    fn deliver(&mut self) {
        let Some((from, to)) =
            self.find(|world, from, to| !world.link(from, to).wire.is_empty() && world.runs(to))
        else {
            return;
        };
        let waiting = self.world.link(from, to).wire.len();
        let place = if self.plan.orderly || !self.rng.chance(1, 6) { 0 } else { self.rng.index(waiting) };
        let most = if self.rng.chance(1, 3) { 8 } else { 1 };
        self.world.deliver(from, to, place, most);
    }

    fn pass_time(&mut self) {
        let ms = match self.rng.below(40) {
            0 => self.rng.between(1_000, 60_000),
            1..4 => self.rng.between(100, 1_000),
            _ => self.rng.between(0, 20),
        };
        self.world.clock.advance_ms(ms);
        let node = self.node();
        self.world.tick(node);
    }

    /// What was broken for a while is repaired.
    fn repair(&mut self) {
        let step = self.step;
        let up: Vec<_> = self.down.extract_if(.., |_, until| *until <= step).collect();
        for (node, _) in up {
            self.start(node);
        }
        let healed: Vec<_> = self.cuts.extract_if(.., |(_, _, until)| *until <= step).collect();
        for (from, to, _) in healed {
            self.world.link(from, to).cut = false;
        }
    }

    fn start(&mut self, node: usize) {
        if self.rng.chance(1, 4) {
            self.skew(node);
        }
        if !self.world.start(node) {
            self.down.insert(node, self.step + 5);
        }
    }

    /// Somebody sets the machine's clock.
    fn skew(&mut self, node: usize) {
        if self.plan.skew_ms > 0 {
            let most = self.plan.skew_ms;
            let skew =
                i64::try_from(self.rng.below(2 * most)).expect("small") - i64::try_from(most).expect("small");
            self.world.machines[node].skew(skew);
            self.skewed = true;
        }
    }

    fn crash(&mut self, node: usize) {
        if !self.world.runs(node) {
            return;
        }
        if self.rng.chance(1, 2) {
            self.world.listen();
        }
        if self.rng.chance(1, 3) {
            self.world.commit_and_crash(node);
        } else {
            self.world.crash(node);
        }
        if self.rng.chance(1, 2) {
            self.start(node);
        } else {
            self.down.insert(node, self.step + self.rng.below(150));
        }
    }

    fn fault(&mut self) {
        let mut drawn = self.rng.below(self.plan.faults.iter().sum());
        let kind = self.plan.faults.iter().position(|weight| {
            let hit = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            hit
        });
        match kind {
            Some(0) => {
                // Sometimes everything at once.
                let all = self.rng.chance(1, 12);
                let one = self.node();
                for node in (0..self.world.len()).filter(|node| all || *node == one) {
                    self.crash(node);
                }
            }
            Some(1) => {
                let (from, to) = self.pair();
                self.world.link(from, to).close();
            }
            Some(2) => self.mix_up(),
            Some(3) => self.cut(),
            Some(4) => self.break_disk(),
            Some(5) => {
                let node = self.node();
                self.skew(node);
                let ms = self.rng.below(10_000);
                self.world.clock.advance_ms(ms);
            }
            _ => self.meddle(),
        }
    }

    /// A message on its way is lost, or comes twice.
    fn mix_up(&mut self) {
        let Some((from, to)) = self.find(|world, from, to| !world.link(from, to).wire.is_empty()) else {
            return;
        };
        let link = self.world.link(from, to);
        let place = self.rng.index(link.wire.len());
        if self.rng.chance(1, 3) {
            // Then the connection will not go on either.
            link.wire.truncate(place);
            link.stuck = true;
        } else {
            let twin = link.wire[place].clone();
            let at = self.rng.index(link.wire.len() + 1);
            link.wire.insert(at, twin);
        }
    }

    /// Some nodes lose sight of the others, or one of another in one direction.
    fn cut(&mut self) {
        let until = self.step + self.rng.between(10, 400);
        if self.rng.chance(1, 2) {
            let (from, to) = self.pair();
            self.cut_one(from, to, until);
            return;
        }
        let sides = self.rng.next_u64();
        for from in 0..self.world.len() {
            for to in 0..self.world.len() {
                if from != to && (sides >> from) & 1 != (sides >> to) & 1 {
                    self.cut_one(from, to, until);
                }
            }
        }
    }

    fn cut_one(&mut self, from: usize, to: usize, until: u64) {
        let link = self.world.link(from, to);
        link.cut = true;
        link.close();
        self.cuts.retain(|cut| (cut.0, cut.1) != (from, to));
        self.cuts.push((from, to, until));
    }

    fn break_disk(&mut self) {
        let node = self.node();
        let disk = self.world.machines[node].disk.clone();
        let count = self.rng.between(1, 6);
        match self.rng.below(3) {
            0 => disk.fail_batches((0..count).map(|_| Fault::Refused)),
            1 => disk.fail_batches([Fault::AnswerLost]),
            _ => disk.fail_reads(u32::try_from(count).expect("small")),
        }
    }

    /// A person pauses, retries or kills a flow.
    fn meddle(&mut self) {
        let node = self.node();
        let Some(core) = &self.world.machines[node].core else { return };
        let views = core.engine().views(None, usize::MAX);
        if views.is_empty() {
            return;
        }
        let view = &views[self.rng.index(views.len())];
        let engine = core.engine();
        match (&view.state, self.rng.below(4)) {
            (FlowState::Paused | FlowState::Healing { .. }, 0..3) => {
                engine.retry(view.flow).expect("it is there");
            }
            (_, 3) if self.plan.kills => {
                engine.kill(view.flow).expect("it is there");
                self.kills += 1;
                let of_user = matches!(view.origin, Origin::User { .. });
                let killed =
                    self.world.clients.asked.iter_mut().filter(|asked| asked.flow == Some(view.flow));
                killed
                    .filter(|asked| of_user && asked.order.node == node)
                    .for_each(|asked| asked.killed = true);
            }
            _ => engine.pause(view.flow).expect("it is there"),
        }
    }

    /// A liar tells two stories about one of its coins.
    fn lie(&mut self) {
        let liar = self.world.institutions - 1;
        if self.world.liars.contains_key(&liar)
            && let Some(order) = self.orders.lie(&self.world.view(), liar)
        {
            self.order(order);
        }
    }

    /// Everything at rest and checked, and once more after every node has been started again.
    fn end(mut self) -> Summary {
        if !self.world.lied.is_empty() {
            self.world.find_out_liars();
        }
        self.world.heal();
        self.world.drain();
        self.is_tidy();
        for node in 0..self.world.len() {
            self.world.crash(node);
        }
        self.world.heal();
        for index in 0..self.world.clients.asked.len() {
            if !self.world.clients.asked[index].lost {
                self.world.hand_in(index);
            }
        }
        self.world.drain();
        self.is_tidy();
        // Who lies ends flows of others as a person does who kills them.
        let kills = usize::try_from(self.kills).expect("small") + self.world.lied.len();
        let books = Books::read(&self.world, kills);
        if self.seed.is_multiple_of(4) {
            books.are_signed();
        }
        books.fit_vaults(&self.world);
        books.fit_orders(&self.world);
        let late = self.world.clock.now_ms() > super::world::START_MS + 3_000_000;
        books.explain_failures(&self.world, &self.orders.raced, self.skewed || late);
        let races = books.decide_races(&self.world, &self.orders.raced);
        // A liar tells others' secrets to whom it likes.
        let seen = if self.world.lied.is_empty() {
            let findings = privacy::search(&self.world, &self.orders);
            [findings.transactions, findings.parts, findings.traces]
        } else {
            [0; 3]
        };
        let asked = &self.world.clients.asked;
        let mut failures = BTreeMap::new();
        for error in asked.iter().filter_map(|asked| asked.outcome.as_ref()?.as_ref().err()) {
            *failures.entry(error.code()).or_default() += 1;
        }
        Summary {
            seed: self.seed,
            trace: self.world.trace.hash(),
            events: self.world.events,
            lives: self.world.machines.iter().map(|machine| machine.lives).sum(),
            orders: asked.len() as u64,
            done: asked.iter().filter(|asked| matches!(asked.outcome, Some(Ok(_)))).count() as u64,
            repeats: self.world.clients.repeats,
            transactions: books.recorded.len() as u64,
            races,
            kills: self.kills,
            seen,
            failures,
        }
    }

    fn is_tidy(&self) {
        self.world.is_tidy();
    }
}
