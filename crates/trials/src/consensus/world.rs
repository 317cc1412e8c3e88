//! The network, and everything that can happen in it.

use std::collections::BTreeMap;

use alloy_primitives::{B256, Bytes};
use tally_consensus::{Block, Effect, Input, Packet, Timer, View};
use tally_sim::{Rng, Trace};

use super::chaos::Chaos;
use super::check::Check;
use super::host::{GENESIS_S, Host, build, is_right};
use super::keys::{address, node_of};
use super::plan::{Kind, Plan};

/// Broadcast messages kept for those that damage them.
pub(super) const HEARD: usize = 200;

/// What travels between hosts.
#[derive(Clone, Debug)]
pub(super) enum Mail {
    Packet(Packet),
    /// Final blocks, the seals within.
    Blocks(Vec<Bytes>),
    /// Wants the blocks from this one on.
    Ask(u64),
}

#[derive(Clone, Debug)]
enum Event {
    Deliver { to: usize, from: usize, side: Option<u32>, mail: Mail },
    Timer { host: usize, life: u64, timer: Timer },
    Built { host: usize, life: u64, view: View, block: Bytes },
    Validated { host: usize, life: u64, hash: B256, valid: bool },
    Imported { host: usize, life: u64, block: Block },
    Start { host: usize },
    Poll { host: usize },
    Transactions { host: usize },
    Links,
    Heal,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) rng: Rng,
    pub(super) trace: Trace,
    pub(super) now_ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    /// Those of one node stand beside each other: two for twins, none for the silent.
    pub(super) hosts: Vec<Host>,
    chaos: BTreeMap<usize, Chaos>,
    pub(super) check: Check,
    pub(super) healed: bool,
    pub(super) crashes: u64,
    pub(super) steps: u64,
    pub(super) highest_round: u32,
    /// Rounds that a block took after healing, beyond the highest one then.
    pub(super) rounds_after: u32,
    pub(super) sent: u64,
    /// The first messages that were broadcast.
    pub(super) heard: Vec<Packet>,
}

impl World {
    pub(super) fn new(plan: Plan, rng: Rng) -> Self {
        let mut world = Self {
            rng,
            trace: Trace::new(),
            now_ms: 0,
            events: BTreeMap::new(),
            sequence: 0,
            hosts: Vec::new(),
            chaos: BTreeMap::new(),
            check: Check::default(),
            healed: false,
            crashes: 0,
            steps: 0,
            highest_round: 0,
            rounds_after: 0,
            sent: 0,
            heard: Vec::new(),
            plan,
        };
        for node in 0..world.plan.nodes() {
            let lives = match world.plan.kinds[node] {
                Kind::Silent => 0,
                Kind::Twins => 2,
                Kind::Correct | Kind::Dies => 1,
                Kind::Chaos => {
                    let rng = world.rng.fork();
                    world.chaos.insert(node, Chaos::new(node, rng));
                    0
                }
            };
            for _ in 0..lives {
                world.hosts.push(Host::new(&world.plan, node));
            }
        }
        for host in 0..world.hosts.len() {
            let after_ms = world.rng.below(2_000);
            world.after(after_ms, Event::Start { host });
            if world.plan.polls {
                world.after(after_ms, Event::Poll { host });
            }
            if world.plan.settings.empty_period_s > 0 {
                world.after(after_ms, Event::Transactions { host });
            }
        }
        for (from, to, _) in world.plan.cuts.clone() {
            world.after(from, Event::Links);
            world.after(to, Event::Links);
        }
        world.after(world.plan.heal_ms, Event::Heal);
        world
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now_ms + ms, self.sequence), event);
    }

    /// Lets the next thing happen; `false` when nothing is left.
    pub(super) fn step(&mut self) -> bool {
        let Some(((at, _), event)) = self.events.pop_first() else { return false };
        self.now_ms = at;
        self.steps += 1;
        match event {
            Event::Deliver { to, from, side, mail } => self.deliver(to, from, side, mail),
            Event::Timer { host, life, timer } => self.input(host, life, Input::Timer(timer)),
            Event::Built { host, life, view, block } => {
                let empty = self.plan.settings.empty_period_s > 0 && self.rng.chance(1, 8);
                self.input(host, life, Input::Built { view, block: Some(block), empty });
            }
            Event::Validated { host, life, hash, valid } => {
                self.input(host, life, Input::Validated { hash, valid });
            }
            Event::Imported { host, life, block } => {
                if self.is_alive(host, life) {
                    self.import(host, &block);
                }
            }
            Event::Start { host } => self.start(host),
            Event::Poll { host } => {
                let peer = self.rng.index(self.plan.nodes());
                let next = self.hosts[host].height() + 1;
                self.host_sends(host, peer, Mail::Ask(next));
                let after_ms = self.rng.between(1_000, 5_000);
                self.after(after_ms, Event::Poll { host });
            }
            Event::Transactions { host } => {
                let waiting = self.healed || self.rng.chance(1, 2);
                self.hosts[host].set_transactions(waiting);
                let life = self.hosts[host].life;
                self.input(host, life, Input::Transactions(waiting));
                let after_ms = self.rng.between(100, 4_000);
                self.after(after_ms, Event::Transactions { host });
            }
            Event::Links => self.tell_of_links(),
            Event::Heal => self.heal(),
        }
        true
    }

    fn heal(&mut self) {
        self.healed = true;
        for host in 0..self.hosts.len() {
            let node = self.hosts[host].node;
            if self.plan.kinds[node] == Kind::Dies {
                self.hosts[host].engine = None;
            } else if self.hosts[host].engine.is_none() {
                self.start(host);
            }
        }
        self.tell_of_links();
        self.highest_round =
            self.hosts.iter().filter_map(|host| host.view()).map(|view| view.round).max().unwrap_or(0);
    }

    fn is_alive(&self, host: usize, life: u64) -> bool {
        self.hosts[host].life == life && self.hosts[host].engine.is_some()
    }

    fn start(&mut self, host: usize) {
        let dies = self.plan.kinds[self.hosts[host].node] == Kind::Dies;
        if self.hosts[host].engine.is_some() || (self.healed && dies) {
            return;
        }
        self.hosts[host].start(&self.plan);
        let life = self.hosts[host].life;
        let head = self.hosts[host].head(&self.plan);
        self.input(host, life, Input::Head(head));
        let waiting = self.hosts[host].has_transactions();
        self.input(host, life, Input::Transactions(waiting));
        self.tell_of_links();
    }

    fn crash(&mut self, host: usize) {
        self.crashes += 1;
        self.hosts[host].engine = None;
        let after_ms = self.rng.between(10, 15_000);
        self.after(after_ms, Event::Start { host });
        let node = self.hosts[host].node;
        for other in 0..self.hosts.len() {
            let life = self.hosts[other].life;
            if self.rng.chance(3, 4) {
                self.input(other, life, Input::Disconnected(address(node)));
            }
        }
    }

    /// Who is on one side of a cut that is there now.
    fn cut(&self) -> Option<u32> {
        let now = |(from, to, _): &&(u64, u64, u32)| (*from..*to).contains(&self.now_ms);
        self.plan.cuts.iter().find(now).filter(|_| !self.healed).map(|(_, _, side)| *side)
    }

    fn is_cut(&self, a: usize, b: usize) -> bool {
        // Twins are on both sides, one on each.
        let twins = |node| self.plan.kinds.get(node) == Some(&Kind::Twins);
        !twins(a) && !twins(b) && self.cut().is_some_and(|side| (side >> a & 1) != (side >> b & 1))
    }

    /// The side of a cut on which a twin is.
    fn twin_side(&self, host: usize) -> Option<u32> {
        let node = self.hosts[host].node;
        (self.plan.kinds[node] == Kind::Twins)
            .then(|| u32::from(host.checked_sub(1).is_some_and(|before| self.hosts[before].node == node)))
    }

    /// Connections have gone or come.
    fn tell_of_links(&mut self) {
        for host in 0..self.hosts.len() {
            for peer in 0..self.plan.nodes() {
                let node = self.hosts[host].node;
                if node == peer {
                    continue;
                }
                let up = self.hosts.iter().any(|host| host.node == peer && host.engine.is_some());
                let life = self.hosts[host].life;
                if self.is_cut(node, peer) || !up {
                    self.input(host, life, Input::Disconnected(address(peer)));
                } else {
                    self.input(host, life, Input::Connected(address(peer)));
                }
            }
        }
    }

    pub(super) fn send(&mut self, from: usize, to: usize, mail: Mail) {
        self.send_from(from, None, to, mail);
    }

    fn host_sends(&mut self, host: usize, to: usize, mail: Mail) {
        let side = self.twin_side(host);
        self.send_from(self.hosts[host].node, side, to, mail);
    }

    fn send_from(&mut self, from: usize, side: Option<u32>, to: usize, mail: Mail) {
        if from == to || self.is_cut(from, to) || self.is_beyond(side, to) {
            return;
        }
        self.sent += 1;
        if !self.healed && self.rng.chance(self.plan.loss, 1_000) {
            return;
        }
        let copies = if self.rng.chance(self.plan.repeats, 1_000) { 2 } else { 1 };
        for _ in 0..copies {
            let late = !self.healed && self.rng.chance(1, 10);
            let after_ms = if late { self.rng.below(self.plan.late_ms) } else { self.rng.between(1, 20) };
            self.after(after_ms, Event::Deliver { to, from, side, mail: mail.clone() });
        }
    }

    /// Whether a twin on `side` of a cut does not reach `node`.
    fn is_beyond(&self, side: Option<u32>, node: usize) -> bool {
        let twins = self.plan.kinds.get(node) == Some(&Kind::Twins);
        !twins && self.cut().zip(side).is_some_and(|(cut, side)| (cut >> node & 1) != side)
    }

    fn deliver(&mut self, to: usize, from: usize, side: Option<u32>, mail: Mail) {
        if self.is_cut(from, to) {
            return;
        }
        if self.chaos.contains_key(&to) {
            return self.tempt(to, &mail);
        }
        for host in 0..self.hosts.len() {
            if self.hosts[host].node != to || self.hosts[host].engine.is_none() {
                continue;
            }
            // Each twin hears its side of a cut, else half.
            if let Some(own) = self.twin_side(host) {
                let there = match (self.cut(), side) {
                    (Some(_), Some(side)) => side == own,
                    (Some(cut), None) => (cut >> from & 1) == own,
                    (None, _) => self.rng.chance(1, 2),
                };
                if !there {
                    continue;
                }
            }
            match mail.clone() {
                Mail::Packet(packet) => {
                    self.trace.record("packet", &packet.bytes);
                    let life = self.hosts[host].life;
                    self.input(host, life, Input::Message { from: address(from), packet });
                }
                Mail::Ask(height) => self.offer(host, from, height),
                Mail::Blocks(blocks) => {
                    for bytes in blocks {
                        let Some(block) = Host::decode(self.plan.protocol, &bytes) else { continue };
                        let genuine = self.hosts[host].head(&self.plan).validators;
                        let keys = super::keys::PlainKeys(address(to));
                        let expectation = tally_consensus::Expectation {
                            protocol: self.plan.protocol,
                            validators: &genuine,
                            named: tally_consensus::ValidatorsFrom::Headers,
                            earliest_s: self.hosts[host].earliest_s(&self.plan),
                        };
                        if block.number() == self.hosts[host].height() + 1
                            && is_right(&block)
                            && expectation.check_seals(block.header(), block.extra(), &keys).is_ok()
                        {
                            self.import(host, &block);
                        }
                    }
                }
            }
        }
    }

    fn tempt(&mut self, node: usize, mail: &Mail) {
        let highest = self.hosts.iter().max_by_key(|host| host.height()).map(|host| host.head(&self.plan));
        let (Some(chaos), Some(head)) = (self.chaos.get_mut(&node), highest) else { return };
        let clock_ms = GENESIS_S * 1_000 + self.now_ms;
        for (to, mail) in chaos.hears(&self.plan, &head, clock_ms, mail) {
            self.send(node, to, mail);
        }
    }

    fn offer(&mut self, host: usize, to: usize, height: u64) {
        let blocks: Vec<Bytes> = self.hosts[host]
            .chain
            .iter()
            .skip(usize::try_from(height.max(1)).unwrap_or(usize::MAX))
            .take(16)
            .map(|block| block.bytes().clone())
            .collect();
        if !blocks.is_empty() {
            self.host_sends(host, to, Mail::Blocks(blocks));
        }
    }

    fn import(&mut self, host: usize, block: &Block) {
        let node = self.hosts[host].node;
        let validators = self.hosts[host].head(&self.plan).validators;
        let earliest_s = self.hosts[host].earliest_s(&self.plan);
        if !self.hosts[host].import(&self.plan, block) {
            return;
        }
        if self.plan.is_correct(node) {
            self.check.is_final(&self.plan, block, &validators, earliest_s);
        }
        self.trace.record("import", block.hash().as_slice());
        let life = self.hosts[host].life;
        let head = self.hosts[host].head(&self.plan);
        if self.plan.founders < self.plan.nodes() {
            // A newcomer hears of blocks only from whoever tells it.
            self.host_sends(host, self.plan.founders, Mail::Blocks(vec![block.bytes().clone()]));
        }
        self.input(host, life, Input::Head(head));
    }

    fn input(&mut self, host: usize, life: u64, input: Input) {
        if !self.is_alive(host, life) {
            return;
        }
        let node = self.hosts[host].node;
        let clock_ms = GENESIS_S * 1_000 + self.now_ms + self.plan.skew_ms[node];
        let mut effects = Vec::new();
        if let Some(engine) = &mut self.hosts[host].engine {
            engine.step(clock_ms, input, &mut effects);
        }
        for effect in effects {
            // The host may die between any two effects.
            if !self.healed && self.plan.crash_in != u64::MAX && self.rng.chance(1, self.plan.crash_in) {
                self.crash(host);
                return;
            }
            self.carry_out(host, life, effect);
        }
    }

    fn carry_out(&mut self, host: usize, life: u64, effect: Effect) {
        let node = self.hosts[host].node;
        let correct = self.plan.is_correct(node);
        match effect {
            Effect::Persist(record) => self.hosts[host].record = Some(record),
            Effect::Broadcast(packet) => {
                if self.heard.len() < HEARD {
                    self.heard.push(packet.clone());
                }
                if correct {
                    self.check.says(self.plan.protocol, node, &packet);
                }
                for peer in 0..self.plan.nodes() {
                    self.host_sends(host, peer, Mail::Packet(packet.clone()));
                }
            }
            Effect::Relay { packet, except } => {
                for peer in (0..self.plan.nodes()).filter(|peer| !except.contains(&address(*peer))) {
                    self.host_sends(host, peer, Mail::Packet(packet.clone()));
                }
            }
            Effect::SendTo { peer, packet } => {
                if correct {
                    self.check.says(self.plan.protocol, node, &packet);
                }
                if let Some(peer) = node_of(peer) {
                    self.host_sends(host, peer, Mail::Packet(packet));
                }
            }
            Effect::BuildBlock(request) => {
                let mut salt = B256::ZERO;
                self.rng.fill(&mut salt.0);
                salt.0[0] = 0;
                let block = build(&request, salt);
                let after_ms = self.late(50);
                self.after(after_ms, Event::Built { host, life, view: request.view, block });
            }
            Effect::Validate(block) => {
                let valid = is_right(&block);
                let after_ms = self.late(50);
                self.after(after_ms, Event::Validated { host, life, hash: block.hash(), valid });
            }
            Effect::SetTimer { timer, after_ms } => {
                self.after(after_ms, Event::Timer { host, life, timer });
            }
            Effect::Commit { block, round } => {
                let head = self.hosts[host].head(&self.plan);
                if correct && block.number() == head.number + 1 {
                    let earliest_s = self.hosts[host].earliest_s(&self.plan);
                    self.check.is_final(&self.plan, &block, &head.validators, earliest_s);
                }
                if self.healed {
                    self.rounds_after = self.rounds_after.max(round.saturating_sub(self.highest_round));
                }
                self.trace.record_number("commit round", u64::from(round));
                let after_ms = self.late(30);
                self.after(after_ms, Event::Imported { host, life, block });
            }
            Effect::NeedSync { peer, .. } => {
                let next = self.hosts[host].height() + 1;
                if let Some(peer) = node_of(peer) {
                    self.host_sends(host, peer, Mail::Ask(next));
                }
            }
            Effect::PeerBehind { peer, height } => {
                if let Some(peer) = node_of(peer) {
                    self.offer(host, peer, height);
                }
            }
            Effect::Misbehaviour { peer, what } => {
                if correct {
                    self.check.blames(&self.plan, node, peer, &what);
                }
            }
            Effect::CannotSign(view) => panic!("a key refused to sign in {view:?}"),
        }
    }

    fn late(&mut self, usual_ms: u64) -> u64 {
        if !self.healed && self.rng.chance(1, 20) {
            self.rng.below(self.plan.late_ms)
        } else {
            self.rng.below(usual_ms)
        }
    }
}
