//! A validator that wants the others to disagree, or at least to stand still.
//!
//! It knows the chain, hears everything that is sent to it, and has nothing but its own key: what others
//! signed it can only pass on, at the wrong time, to some, or in the wrong place.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256};
use tally_consensus::message::{
    Certificate, Commit, Prepare, PreparedRound, Proposal, RoundChange, RoundChangePayload, Signed,
    commit_hash, prepare_hash, proposal_hash, round_change_hash,
};
use tally_consensus::{Block, BuildRequest, Cover, ExtraData, Head, Keys, Message, Protocol, View};
use tally_sim::Rng;

use super::check::INVALID;
use super::host::{build, with_other_body};
use super::keys::{PlainKeys, address, seal};
use super::plan::Plan;
use super::world::Mail;

/// Heard messages kept for replays.
const MEMORY: usize = 64;

pub(super) struct Chaos {
    me: Address,
    rng: Rng,
    heard: Vec<Mail>,
    height: u64,
    prepares: BTreeMap<(u32, B256), BTreeMap<Address, Signed<Prepare>>>,
    changes: BTreeMap<u32, BTreeMap<Address, RoundChange>>,
    blocks: Vec<(Block, tally_consensus::Seal)>,
    round: u32,
    quiet_until_ms: u64,
    /// Draws what is done with bodies; `None` for one that leaves them as they are.
    bodies: Option<Rng>,
    /// Whether it has proposed a header with two bodies at this height: it commits nothing then, so that those that are
    /// prepared need who had the wrong one.
    withholds: bool,
}

type Letters = Vec<(usize, Mail)>;

impl Chaos {
    pub(super) fn new(node: usize, rng: Rng) -> Self {
        let mut bodies = Rng::new(rng.clone().next_u64() ^ 0x00b0_d1e5);
        Self {
            me: address(node),
            bodies: bodies.chance(1, 2).then_some(bodies),
            withholds: false,
            rng,
            heard: Vec::new(),
            height: 0,
            prepares: BTreeMap::new(),
            changes: BTreeMap::new(),
            blocks: Vec::new(),
            round: 0,
            quiet_until_ms: 0,
        }
    }

    /// Hears a letter, and answers, now and then, with some of its own.
    pub(super) fn hears(&mut self, plan: &Plan, head: &Head, clock_ms: u64, mail: &Mail) -> Letters {
        if head.number + 1 != self.height {
            self.height = head.number + 1;
            self.prepares.clear();
            self.changes.clear();
            self.blocks.clear();
            self.round = 0;
            self.withholds = false;
        }
        let Mail::Packet(packet) = mail else { return Letters::new() };
        if self.heard.len() < MEMORY {
            self.heard.push(mail.clone());
        } else {
            let at = self.rng.index(MEMORY);
            self.heard[at] = mail.clone();
        }
        if let Ok(message) = Message::decode(plan.protocol, packet) {
            self.learn(plan.protocol, message);
        }
        let mut letters = Letters::new();
        // Others like it would otherwise keep each other busy.
        if clock_ms < self.quiet_until_ms {
            return letters;
        }
        self.quiet_until_ms = clock_ms + self.rng.below(20);
        for _ in 0..self.rng.below(3) {
            self.act(plan, head, clock_ms, &mut letters);
        }
        letters
    }

    fn learn(&mut self, protocol: Protocol, message: Message) {
        let keys = PlainKeys(self.me);
        let view = message.view();
        let Some(author) = message.author(protocol, &keys) else { return };
        if view.height != self.height {
            return;
        }
        self.round = self.round.max(view.round.min(self.round + 1));
        match message {
            Message::Proposal(proposal) => self.blocks.push((proposal.block, proposal.seal)),
            Message::Prepare(prepare) => {
                let key = (view.round, prepare.payload.digest);
                self.prepares.entry(key).or_default().insert(author, prepare);
            }
            Message::Commit(_) => {}
            Message::RoundChange(change) => {
                if let (Some(block), false) = (&change.block, change.prepares.is_empty()) {
                    self.blocks.push((block.clone(), change.signed.seal));
                }
                self.changes.entry(view.round).or_default().insert(author, *change);
            }
        }
    }

    fn act(&mut self, plan: &Plan, head: &Head, clock_ms: u64, letters: &mut Letters) {
        let message = match self.rng.below(8) {
            0 | 1 => self.vote(plan.protocol),
            2 => self.round_change(plan.protocol),
            3..=5 => self.propose(plan, head, clock_ms),
            _ => {
                if let Some(mail) = self.heard.get(self.rng.clone().index(self.heard.len().max(1))).cloned() {
                    let to = self.rng.index(plan.nodes());
                    let swap = self.bodies.as_mut().is_some_and(|bodies| bodies.chance(1, 4));
                    letters.push((to, if swap { other_body(plan.protocol, mail) } else { mail }));
                }
                None
            }
        };
        let Some(mut message) = message else { return };
        let drawn = self.bodies.as_mut().map(|bodies| (bodies.below(6), bodies.next_u64()));
        match (&mut message, drawn) {
            (Message::Proposal(proposal), Some((0 | 1, victims))) => {
                self.split(plan, proposal, victims, letters);
                return;
            }
            (Message::RoundChange(change), Some((0, _))) => {
                change.block = change.block.as_ref().map(|block| with_other_body(plan.protocol, block));
            }
            _ => {}
        }
        let mail = Mail::Packet(message.encode(plan.protocol));
        // To some only: the others hear something else.
        let to = self.rng.next_u64();
        let everybody = self.rng.chance(1, 4);
        letters.extend(
            (0..plan.nodes())
                .filter(|node| everybody || to >> node & 1 == 1)
                .map(|node| (node, mail.clone())),
        );
    }

    /// Shows some its proposal with another body, prepares it, and commits nothing.
    fn split(&mut self, plan: &Plan, proposal: &Proposal, victims: u64, letters: &mut Letters) {
        self.withholds = true;
        let protocol = plan.protocol;
        let (view, digest) = (proposal.view, proposal.block.digest());
        let mut other = proposal.clone();
        other.block = with_other_body(protocol, &proposal.block);
        other.seal = self.sign(proposal_hash(protocol, view, &other.block));
        let payload = Prepare { view, digest };
        let prepare = Signed { payload, seal: self.sign(prepare_hash(protocol, &payload)) };
        for node in 0..plan.nodes() {
            let shown = if victims >> node & 1 == 1 { &other } else { proposal };
            letters.push((node, Mail::Packet(Message::Proposal(Box::new(shown.clone())).encode(protocol))));
            letters.push((node, Mail::Packet(Message::Prepare(prepare.clone()).encode(protocol))));
        }
    }

    fn sign(&self, hash: B256) -> tally_consensus::Seal {
        seal(self.me, hash)
    }

    /// For any block that it has heard of, whatever it voted for before; sometimes with a seal over something else.
    fn vote(&mut self, protocol: Protocol) -> Option<Message> {
        let (block, _) = self.blocks.get(self.rng.index(self.blocks.len().max(1)))?.clone();
        let round = if self.rng.chance(3, 4) { block.round() } else { self.round };
        let view = View { height: self.height, round };
        let digest = block.with_round(round).digest();
        if self.rng.chance(1, 2) || self.withholds {
            let payload = Prepare { view, digest };
            return Some(Message::Prepare(Signed {
                payload,
                seal: self.sign(prepare_hash(protocol, &payload)),
            }));
        }
        let sealed = if self.rng.chance(1, 8) { B256::ZERO } else { digest };
        let payload = Commit { view, digest, commit_seal: self.sign(sealed) };
        Some(Message::Commit(Signed { payload, seal: self.sign(commit_hash(protocol, &payload)) }))
    }

    /// To a round near or far, prepared on something, on nothing, or on what it only claims.
    fn round_change(&mut self, protocol: Protocol) -> Option<Message> {
        let far = if self.rng.chance(1, 8) { 1_000_000 } else { 4 };
        let round = self.round + u32::try_from(self.rng.below(far)).ok()?;
        let view = View { height: self.height, round };
        let claimed = self
            .blocks
            .get(self.rng.index(self.blocks.len().max(1)))
            .cloned()
            .filter(|_| self.rng.chance(2, 3));
        let qbft = protocol.proposer_prepares();
        let mut evidence = Vec::new();
        let prepared = claimed.as_ref().map(|(block, proposal_seal)| {
            let truth = block.round();
            let lie = self.rng.chance(1, 3);
            let round = if lie { round.saturating_sub(1) } else { truth };
            let digest = block.with_round(round).digest();
            evidence = self
                .prepares
                .get(&(truth, block.digest()))
                .map(|all| all.values().cloned().collect())
                .unwrap_or_default();
            let own = Prepare { view: View { height: self.height, round }, digest };
            evidence.retain(|prepare: &Signed<Prepare>| {
                PlainKeys(self.me).recover(prepare_hash(protocol, &prepare.payload), &prepare.seal)
                    != Some(self.me)
            });
            evidence.push(Signed { payload: own, seal: self.sign(prepare_hash(protocol, &own)) });
            let certificate = Certificate { proposal_seal: *proposal_seal, prepares: evidence.clone() };
            PreparedRound { round, digest, certificate: (!qbft).then_some(certificate) }
        });
        let block =
            claimed.zip(prepared.as_ref()).map(|((block, _), prepared)| block.with_round(prepared.round));
        let payload = RoundChangePayload { view, prepared };
        let signed = Signed { seal: self.sign(round_change_hash(protocol, &payload)), payload };
        let change = RoundChange { signed, block, prepares: if qbft { evidence } else { Vec::new() } };
        self.changes.entry(round).or_default().insert(self.me, change.clone());
        Some(Message::RoundChange(Box::new(change)))
    }

    /// When it is its turn, and now and then when it is not: a block of its own or another's, justified by
    /// round changes of its choice.
    fn propose(&mut self, plan: &Plan, head: &Head, clock_ms: u64) -> Option<Message> {
        let rounds: Vec<u32> = (0..=self.round + 1)
            .filter(|round| head.validators.proposer(plan.policy, head.proposer, *round) == Some(self.me))
            .collect();
        let round = *rounds.get(self.rng.index(rounds.len().max(1)))?;
        let view = View { height: self.height, round };
        let mut changes: Vec<RoundChange> =
            self.changes.get(&round).map(|all| all.values().cloned().collect()).unwrap_or_default();
        self.rng.shuffle(&mut changes);
        if self.rng.chance(3, 4) {
            // Rather those that claim nothing, so that what is prepared gets lost.
            changes
                .sort_by_key(|change| change.signed.payload.prepared.as_ref().map(|prepared| prepared.round));
            changes.truncate(head.validators.quorum());
        }
        if round == 0 {
            changes.clear();
        }
        let highest = changes
            .iter()
            .max_by_key(|change| change.signed.payload.prepared.as_ref().map(|prepared| prepared.round))
            .cloned();
        let again = highest
            .as_ref()
            .and_then(|change| change.block.as_ref())
            .filter(|_| self.rng.clone().chance(3, 4));
        let block = match again {
            Some(block) => block.with_round(round),
            None => self.new_block(plan, head, clock_ms, view)?,
        };
        let prepares = highest.map(|change| change.prepares).unwrap_or_default();
        let seal = self.sign(proposal_hash(plan.protocol, view, &block));
        self.blocks.push((block.clone(), seal));
        let round_changes = changes.into_iter().map(|change| change.signed).collect();
        Some(Message::Proposal(Box::new(Proposal { view, block, seal, round_changes, prepares })))
    }

    fn new_block(&mut self, plan: &Plan, head: &Head, clock_ms: u64, view: View) -> Option<Block> {
        let mut salt = B256::ZERO;
        self.rng.fill(&mut salt.0);
        salt.0[0] = if self.rng.chance(1, 8) { INVALID } else { 0 };
        let mut extra = ExtraData::of_validators(head.validators.addresses());
        extra.round = view.round;
        if self.rng.chance(1, 16) {
            extra.validators.pop();
        }
        let earliest_s = head.timestamp_s + plan.settings.timestamp_gap_s();
        let request = BuildRequest {
            view,
            parent: head.hash,
            timestamp_s: earliest_s.max(clock_ms / 1_000) + self.rng.below(3),
            proposer: self.me,
            extra_data: extra.encode(plan.protocol, Cover::Everything).into(),
        };
        Block::decode(plan.protocol, build(&request, salt)).ok()
    }
}

/// A heard message with another body in its block, where nobody's signature covers that.
fn other_body(protocol: Protocol, mail: Mail) -> Mail {
    let Mail::Packet(packet) = &mail else { return mail };
    match Message::decode(protocol, packet) {
        Ok(Message::Proposal(mut proposal)) if protocol == Protocol::Ibft2 => {
            proposal.block = with_other_body(protocol, &proposal.block);
            Mail::Packet(Message::Proposal(proposal).encode(protocol))
        }
        Ok(Message::RoundChange(mut change)) => {
            change.block = change.block.as_ref().map(|block| with_other_body(protocol, block));
            Mail::Packet(Message::RoundChange(change).encode(protocol))
        }
        _ => mail,
    }
}
