//! The network, the clients, and everything that can happen to both.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{Address, Bytes};
use tally_consensus::{Block, Protocol};
use tally_notary::{
    Client, Cluster, Collector, Effect, Fault, Input, Judge, Message, Outcome, Progress, Replica,
    SignedAnswer, Timer,
};
use tally_sim::{Rng, Trace};

use super::keys::{PlainForm, PlainKeys, address, cluster, node_of, sign};
use super::liar::Liar;
use super::model::Model;
use super::plan::{Broken, EPOCH_MS, HashJudge, Kind, NoJudge, Plan};

/// How long after healing the last request may take, in milliseconds.
const PATIENCE_MS: u64 = 240_000;

/// What a run came to; equal for equal seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) trace: u64,
    pub(crate) heights: u64,
    pub(crate) committed: u64,
    pub(crate) refused: u64,
    pub(crate) crashes: u64,
    pub(crate) blamed: u64,
    /// Batches that were had from another member.
    pub(crate) caught_up: u64,
    /// From healing, or being asked, to the last answer that was waited for.
    pub(crate) recovery_ms: u64,
}

impl Summary {
    pub(crate) fn add(&mut self, other: &Self) {
        self.trace ^= other.trace;
        self.heights += other.heights;
        self.committed += other.committed;
        self.refused += other.refused;
        self.crashes += other.crashes;
        self.blamed += other.blamed;
        self.caught_up += other.caught_up;
        self.recovery_ms = self.recovery_ms.max(other.recovery_ms);
    }
}

/// One running program: its disk, and the replica while it is up.
struct Host {
    node: usize,
    replica: Option<Replica>,
    life: u64,
    record: Option<Vec<u8>>,
    batches: Vec<Vec<u8>>,
}

enum Event {
    /// `side`: of two programs with one key, only the one on this side of a cut hears it.
    Deliver {
        to: usize,
        from: usize,
        side: Option<u32>,
        bytes: Vec<u8>,
    },
    Request {
        to: usize,
        wish: usize,
    },
    Answer {
        wish: usize,
        signed: SignedAnswer,
    },
    Timer {
        host: usize,
        life: u64,
        timer: Timer,
    },
    Start {
        host: usize,
    },
    Ask {
        wish: usize,
        turn: u64,
    },
    Heal,
}

struct World {
    plan: Plan,
    cluster: Arc<Cluster>,
    rng: Rng,
    trace: Trace,
    now_ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    hosts: Vec<Host>,
    liars: BTreeMap<usize, Liar>,
    healed: bool,
    model: Model,
    /// Of wishes that have ended.
    ended: Vec<bool>,
    answers: Vec<Vec<SignedAnswer>>,
    summary: Summary,
}

/// Prints, when a run ends in a panic, how to replay it.
struct Witness(u64);

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} failed; replay it with TALLY_SEED={} TALLY_SEEDS=1", self.0, self.0);
        }
    }
}

pub(crate) fn run(seed: u64, broken: Option<Broken>) -> Summary {
    let witness = Witness(seed);
    let mut rng = Rng::new(seed);
    let plan = Plan::new(&mut rng, broken);
    let mut world = World::new(plan, rng);
    while let Some(((at, _), event)) = world.events.pop_first() {
        world.now_ms = at;
        world.happens(event);
        if world.healed && world.is_done() {
            break;
        }
        if at > world.plan.heal_ms + PATIENCE_MS {
            let open: Vec<usize> = (0..world.ended.len()).filter(|wish| !world.ended[*wish]).collect();
            let hosts: Vec<_> = world.hosts.iter().map(|host| (host.node, &host.replica)).collect();
            assert!(broken.is_some(), "requests {open:?} have no end; {hosts:?}; {:?}", world.plan.kinds);
            break;
        }
    }
    world.model.ends();
    let World { mut summary, model, trace, now_ms, plan, .. } = world;
    summary.trace = trace.hash();
    (summary.heights, summary.committed, summary.refused) =
        (model.heights(), model.committed(), model.refused());
    summary.recovery_ms = now_ms.saturating_sub(plan.heal_ms);
    drop(witness);
    summary
}

impl World {
    fn new(plan: Plan, mut rng: Rng) -> Self {
        let mut hosts = Vec::new();
        let mut liars = BTreeMap::new();
        for (node, kind) in plan.kinds.iter().enumerate() {
            let programs = match kind {
                Kind::Silent => 0,
                Kind::Twins => 2,
                Kind::Correct | Kind::Dies | Kind::Liar => 1,
            };
            if *kind == Kind::Liar {
                liars.insert(node, Liar::new(node, rng.fork()));
            }
            for _ in 0..programs {
                hosts.push(Host { node, replica: None, life: 0, record: None, batches: Vec::new() });
            }
        }
        let wishes = plan.wishes.len();
        let mut world = Self {
            cluster: Arc::new(cluster(plan.nodes())),
            rng,
            trace: Trace::new(),
            now_ms: 0,
            events: BTreeMap::new(),
            sequence: 0,
            hosts,
            liars,
            healed: false,
            model: Model::default(),
            ended: plan.wishes.iter().map(|wish| !wish.founded).collect(),
            answers: vec![Vec::new(); wishes],
            summary: Summary::default(),
            plan,
        };
        for host in 0..world.hosts.len() {
            let after_ms = world.rng.below(1_000);
            world.after(after_ms, Event::Start { host });
        }
        for wish in 0..wishes {
            let at_ms = world.plan.wishes[wish].at_ms;
            world.after(at_ms, Event::Ask { wish, turn: 0 });
        }
        world.after(world.plan.heal_ms, Event::Heal);
        world
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now_ms.saturating_add(ms), self.sequence), event);
    }

    fn is_done(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Deliver { to, from, side, bytes } => self.deliver(to, from, side, bytes),
            Event::Request { to, wish } => {
                let request = self.plan.wishes[wish].request.clone();
                let client = Client { name: request.commit.requester.clone(), conversation: wish as u64 };
                if let Some(liar) = self.liars.get_mut(&to) {
                    liar.is_asked(&request);
                }
                if self.liars.contains_key(&to) && self.rng.chance(1, 3) {
                    let transaction = request.commit.transaction;
                    self.answer(to, std::slice::from_ref(&client), transaction, Outcome::Committed);
                }
                for host in self.hosts_of(to) {
                    self.input(host, Input::Request { client: client.clone(), request: request.clone() });
                }
            }
            Event::Answer { wish, signed } => self.hears_answer(wish, signed),
            Event::Timer { host, life, timer } => {
                if self.hosts[host].life == life {
                    self.input(host, Input::Timer(timer));
                }
            }
            Event::Start { host } => self.start(host),
            Event::Ask { wish, turn } => self.ask(wish, turn),
            Event::Heal => self.heal(),
        }
    }

    fn hosts_of(&self, node: usize) -> Vec<usize> {
        (0..self.hosts.len()).filter(|host| self.hosts[*host].node == node).collect()
    }

    fn heal(&mut self) {
        self.healed = true;
        for host in 0..self.hosts.len() {
            if self.plan.kinds[self.hosts[host].node] == Kind::Dies {
                self.hosts[host].replica = None;
                self.hosts[host].life += 1;
            } else {
                self.start(host);
            }
        }
    }

    fn start(&mut self, host: usize) {
        let dies = self.plan.kinds[self.hosts[host].node] == Kind::Dies;
        if self.hosts[host].replica.is_some() || (self.healed && dies) {
            return;
        }
        let state = &mut self.hosts[host];
        state.life += 1;
        if self.plan.broken == Some(Broken::Persist) {
            state.record = None;
        }
        let judge: Box<dyn Judge> =
            if self.plan.broken == Some(Broken::Judge) { Box::new(NoJudge) } else { Box::new(HashJudge) };
        let replica = Replica::open(
            Arc::clone(&self.cluster),
            self.plan.config,
            Arc::new(PlainKeys(address(state.node))),
            judge,
            state.record.as_deref(),
            state.batches.iter().cloned(),
        );
        state.replica = Some(replica.expect("a member goes on from its storage"));
        let node = state.node;
        self.input(host, Input::Start);
        for other in 0..self.plan.nodes() {
            if other == node {
                continue;
            }
            if self.rng.chance(3, 4) {
                self.input(host, Input::Connected(address(other)));
            }
            if self.rng.chance(3, 4) {
                for there in self.hosts_of(other) {
                    self.input(there, Input::Connected(address(node)));
                }
            }
        }
    }

    fn crash(&mut self, host: usize) {
        self.summary.crashes += 1;
        self.hosts[host].replica = None;
        self.hosts[host].life += 1;
        let after_ms = self.rng.between(10, 6_000);
        self.after(after_ms, Event::Start { host });
        let node = self.hosts[host].node;
        for other in 0..self.hosts.len() {
            if self.hosts[other].node != node && self.rng.chance(3, 4) {
                self.input(other, Input::Disconnected(address(node)));
            }
        }
    }

    /// Who is on one side of a cut that is there now.
    fn cut(&self) -> Option<u32> {
        let now = |(from, to, _): &&(u64, u64, u32)| (*from..*to).contains(&self.now_ms);
        self.plan.cuts.iter().find(now).filter(|_| !self.healed).map(|(_, _, side)| *side)
    }

    fn is_twin(&self, node: usize) -> bool {
        self.plan.kinds[node] == Kind::Twins
    }

    /// Of two programs with one key: on which side of a cut this one is.
    fn side_of(&self, host: usize) -> u32 {
        let node = self.hosts[host].node;
        u32::from(host.checked_sub(1).is_some_and(|before| self.hosts[before].node == node))
    }

    /// How often something arrives, and after how long each time.
    fn ways(&mut self) -> Vec<u64> {
        let mut ways = Vec::new();
        let (loss, repeats) = if self.healed { (0, 0) } else { (self.plan.loss, self.plan.repeats) };
        if !self.rng.chance(loss, 1_000) {
            ways.push(self.delay_ms());
        }
        if self.rng.chance(repeats, 1_000) {
            ways.push(self.delay_ms());
        }
        ways
    }

    fn delay_ms(&mut self) -> u64 {
        if !self.healed && self.rng.chance(1, 12) {
            self.rng.below(self.plan.late_ms)
        } else {
            self.rng.between(1, 30)
        }
    }

    /// Sends from one program of a node, which is on a side of its own where there are two.
    fn send(&mut self, host: usize, to: usize, bytes: Vec<u8>) {
        let from = self.hosts[host].node;
        if from == to {
            return;
        }
        let mut hears = None;
        if let Some(cut) = self.cut() {
            let side = if self.is_twin(from) { self.side_of(host) } else { cut >> from & 1 };
            if self.is_twin(to) {
                hears = Some(side);
            } else if cut >> to & 1 != side {
                return;
            }
        }
        for after_ms in self.ways() {
            self.after(after_ms, Event::Deliver { to, from, side: hears, bytes: bytes.clone() });
        }
    }

    fn deliver(&mut self, to: usize, from: usize, side: Option<u32>, bytes: Vec<u8>) {
        if let Some(liar) = self.liars.get_mut(&to) {
            let letters = liar.hears(&self.plan, &bytes);
            let host = self.hosts_of(to)[0];
            letters.into_iter().for_each(|(other, bytes)| self.send(host, other, bytes));
        }
        for host in self.hosts_of(to) {
            let hears = match side {
                Some(side) => self.side_of(host) == side,
                None => !self.is_twin(to) || self.rng.chance(2, 3),
            };
            if hears {
                self.input(host, Input::Message { from: address(from), bytes: bytes.clone() });
            }
        }
    }

    fn ask(&mut self, wish: usize, turn: u64) {
        if self.ended[wish] && self.plan.wishes[wish].founded || turn > 200 {
            return;
        }
        let first = self.plan.wishes[wish].first.filter(|_| turn == 0);
        for to in 0..self.plan.nodes() {
            if first.is_none_or(|first| first == to) {
                for after_ms in self.ways() {
                    self.after(after_ms, Event::Request { to, wish });
                }
            }
        }
        let after_ms = self.rng.between(500, 4_000);
        self.after(after_ms, Event::Ask { wish, turn: turn + 1 });
    }

    fn hears_answer(&mut self, wish: usize, signed: SignedAnswer) {
        if self.ended[wish] && self.plan.wishes[wish].founded {
            return;
        }
        self.answers[wish].push(signed);
        let transaction = self.plan.wishes[wish].request.commit.transaction;
        let mut collector = Collector::new(&self.cluster, transaction);
        let mut progress = Progress::Waiting;
        for signed in &self.answers[wish] {
            progress = collector.take(signed, &PlainForm);
        }
        match progress {
            Progress::Waiting => return,
            Progress::Committed(attestation) => {
                assert!(attestation.verify(&self.cluster, &PlainForm), "an attestation verifies");
                self.model.accepts(&self.plan, transaction, self.now_ms);
            }
            Progress::Refused(outcome) => self.model.refuses(&self.plan, transaction, outcome),
        }
        self.ended[wish] = true;
    }

    fn input(&mut self, host: usize, input: Input) {
        let catching_up = match &input {
            Input::Message { bytes, .. } => {
                matches!(Message::from_bytes(bytes, usize::MAX), Ok(Message::Batches(_)))
            }
            _ => false,
        };
        let node = self.hosts[host].node;
        let clock_ms = EPOCH_MS + self.now_ms + self.plan.skew_ms[node];
        let Some(replica) = &mut self.hosts[host].replica else { return };
        let mut effects = Vec::new();
        replica.step(clock_ms, input, &mut effects);
        for effect in effects {
            if !self.healed && self.rng.chance(1, self.plan.crash_in) {
                self.crash(host);
                return;
            }
            if catching_up && matches!(effect, Effect::Append { .. }) {
                self.summary.caught_up += 1;
            }
            self.carry_out(host, node, effect);
        }
    }

    fn carry_out(&mut self, host: usize, node: usize, effect: Effect) {
        let correct = self.plan.is_correct(node);
        match effect {
            Effect::Persist(record) => {
                self.trace.record("persist", &record);
                self.hosts[host].record = Some(record);
            }
            Effect::Append { height, batch } => {
                self.trace.record("append", &batch);
                assert_eq!(height, self.hosts[host].batches.len() as u64 + 1);
                if correct {
                    let block = Block::decode(Protocol::QBFT, Bytes::from(batch.clone())).expect("a block");
                    self.model.appends(height, block.hash().0);
                }
                self.hosts[host].batches.push(batch);
            }
            Effect::Send { to, bytes } => {
                self.trace.record("send", &bytes);
                if correct {
                    self.model.says(node, &bytes);
                }
                self.say(host, node_of(to), bytes);
            }
            Effect::SendBatches { to, from } => {
                let from = usize::try_from(from - 1).expect("a few batches");
                let mut batches: Vec<_> =
                    self.hosts[host].batches.iter().skip(from).take(4).cloned().collect();
                if let Some(liar) = self.liars.get_mut(&node) {
                    batches = liar.tells(&self.plan, batches);
                }
                self.send(host, node_of(to), Message::Batches(batches).to_bytes());
            }
            Effect::Answer { to, answer } => {
                if correct {
                    self.model.signs(&self.plan, &answer, self.now_ms);
                }
                self.answer(node, &to, answer.transaction, answer.outcome);
            }
            Effect::Reject { .. } => {}
            Effect::SetTimer { timer, after_ms } => {
                let life = self.hosts[host].life;
                self.after(after_ms, Event::Timer { host, life, timer });
            }
            Effect::Blame { member, fault } => {
                if correct {
                    self.blames(node, member, &fault);
                }
            }
            Effect::CannotSign { .. } => panic!("a key refused to sign"),
            Effect::Halt { height, why } => {
                assert!(!correct || self.plan.broken.is_some(), "member {node} halts at {height}: {why}");
            }
        }
    }

    fn say(&mut self, host: usize, to: usize, bytes: Vec<u8>) {
        match self.liars.get_mut(&self.hosts[host].node) {
            None => self.send(host, to, bytes),
            Some(liar) => {
                let letters = liar.sends(&self.plan, to, bytes);
                letters.into_iter().for_each(|(to, bytes)| self.send(host, to, bytes));
            }
        }
    }

    fn answer(
        &mut self,
        node: usize,
        to: &[Client],
        transaction: tally_contracts::TransactionId,
        outcome: Outcome,
    ) {
        let answer = tally_notary::Answer { transaction, outcome };
        let answer = match self.liars.get_mut(&node) {
            None => Some(answer),
            Some(liar) => liar.answers(&self.plan, answer),
        };
        let Some(answer) = answer else { return };
        let signed = sign(&self.cluster, node, answer);
        for client in to {
            let wish = usize::try_from(client.conversation).expect("a few wishes");
            for after_ms in self.ways() {
                self.after(after_ms, Event::Answer { wish, signed });
            }
        }
    }

    fn blames(&mut self, by: usize, member: Address, fault: &Fault) {
        self.summary.blamed += 1;
        let guilty = !self.plan.is_correct(node_of(member));
        assert!(guilty || self.plan.broken.is_some(), "member {by} blames {member}: {fault}: {fault:?}");
    }
}
