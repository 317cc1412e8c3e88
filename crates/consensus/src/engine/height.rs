//! The rounds of one height.

mod own;
mod round;

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes};

use super::interface::{BuildRequest, Effect, Head, Misbehaviour, Status, Timer};
use super::record::{Prepared, Record};
use super::{Shared, Step, timing};
use crate::block::Block;
use crate::extra::{Cover, ExtraData};
use crate::header::{Expectation, MAX_AHEAD_S, ValidatorsFrom};
use crate::justify::Context;
use crate::message::{
    Certificate, Commit, Message, Prepare, PreparedRound, Proposal, RoundChange, RoundChangePayload, Signed,
    View, commit_hash, prepare_hash, proposal_hash, round_change_hash,
};
use crate::seal::Seal;
use crate::validators::ValidatorSet;

use own::Own;
use round::{Candidate, Round};

/// Rounds below the current one whose votes are kept, so that commits that come late still decide.
const PAST_ROUNDS: u32 = 8;

/// What the host says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing yet; it was proposed by this validator.
    Awaited(Address),
    Valid,
    Invalid,
    /// Nothing is wrong with it but its time by the host's clock.
    Late,
}

/// What became of a message that breaks no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It was new and good.
    New,
    /// It changed nothing: known before, or of a round that is over.
    Nothing,
    /// It is of a round so far ahead that there is no room for it yet. It may come again when there is.
    NoRoom,
}

/// The agreement on one block.
pub(super) struct Height {
    head: Head,
    number: u64,
    /// This node signs nothing here: it is no validator, or its record is of a later height.
    mute: bool,
    round: u32,
    /// Whether round 0 has begun.
    started: bool,
    rounds: BTreeMap<u32, Round>,
    /// The highest round change of each validator. Those to lower rounds are let go of: EEA's `UponRoundChange` and Besu's
    /// `RoundChangeManager` keep one for each round, which a liar fills with rounds without end (GHSA-23rh-rrqg-wq82).
    /// Nothing is lost by it. The highest of a correct validator is to the round that it is in, and it takes no
    /// proposal of a lower one (`UponProposal`); so a round in which a proposal can still be accepted by a quorum has
    /// the round changes of that quorum here. A liar that moves on takes away its own only.
    changes: BTreeMap<Address, RoundChange>,
    /// The highest round in which each validator has said anything.
    reached: BTreeMap<Address, u32>,
    prepared: Option<Prepared>,
    own: Own,
    /// What the host says of blocks, by their hash on the chain.
    verdicts: BTreeMap<B256, Verdict>,
    decided: Option<B256>,
    sync_asked: bool,
    /// How often one who sealed a block that is not here was asked for it.
    sealers_asked: usize,
    begun_ms: Option<u64>,
    block_timer: Option<Timer>,
    round_timer: Option<Timer>,
    repeat_timer: Option<Timer>,
    early_timer: Option<Timer>,
}

/// The round change that is prepared in the highest round: block and proof of a proposal are both its own. Of several in
/// one round any will do: their evidence was checked and their bodies are bound to the one digest.
fn highest(evidence: &[RoundChange]) -> Option<&RoundChange> {
    let prepared =
        |change: &&RoundChange| change.signed.payload.prepared.as_ref().map(|prepared| prepared.round);
    evidence.iter().filter(|change| prepared(change).is_some()).max_by_key(prepared)
}

impl Height {
    pub(super) fn new(head: Head, mute: bool) -> Self {
        Self {
            number: head.number.saturating_add(1),
            head,
            mute,
            round: 0,
            started: false,
            rounds: BTreeMap::new(),
            changes: BTreeMap::new(),
            reached: BTreeMap::new(),
            prepared: None,
            own: Own::default(),
            verdicts: BTreeMap::new(),
            decided: None,
            sync_asked: false,
            sealers_asked: 0,
            begun_ms: None,
            block_timer: None,
            round_timer: None,
            repeat_timer: None,
            early_timer: None,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn validators(&self) -> &ValidatorSet {
        &self.head.validators
    }

    pub(super) fn is_decided(&self) -> bool {
        self.decided.is_some()
    }

    /// Whether a round has begun.
    pub(super) fn has_started(&self) -> bool {
        self.started
    }

    /// When the block of `head` was begun here, if it is the one that this height decided.
    pub(super) fn anchor_of(&self, head: &Head) -> Option<u64> {
        self.begun_ms.filter(|_| self.decided == Some(head.hash))
    }

    pub(super) fn status(&self, shared: &Shared) -> Status {
        Status {
            view: Some(self.view()),
            proposer: self.proposer(shared, self.round),
            validator: self.validators().contains(shared.me),
            decided: self.is_decided(),
            prepared: self.prepared.as_ref().map(|prepared| prepared.round),
        }
    }

    fn view(&self) -> View {
        View { height: self.number, round: self.round }
    }

    fn proposer(&self, shared: &Shared, round: u32) -> Option<Address> {
        self.head.validators.proposer(shared.config.policy, self.head.proposer, round)
    }

    fn context<'a>(&'a self, shared: &'a Shared) -> Context<'a> {
        Context {
            protocol: shared.config.protocol,
            keys: &*shared.keys,
            validators: &self.head.validators,
            policy: shared.config.policy,
            previous: self.head.proposer,
        }
    }

    /// Begins the height: where `record` ended, or with waiting for the block's time.
    pub(super) fn start(&mut self, step: &mut Step<'_>, record: Option<Record>, anchor_ms: Option<u64>) {
        step.shared.absent.retain(&self.head.validators);
        self.mute |= !self.head.validators.contains(step.shared.me);
        if self.mute {
            return;
        }
        if let Some(record) = record {
            self.resume(step, record);
        }
        if !self.started {
            let due_ms = timing::due_ms(&self.head, anchor_ms, step.now_ms);
            self.block_timer = Some(step.set_timer(due_ms.saturating_sub(step.now_ms)));
        }
    }

    /// Takes up what was signed before a crash.
    fn resume(&mut self, step: &mut Step<'_>, record: Record) {
        self.prepared = record.prepared;
        self.own.adopt(record.view, record.proposed, record.prepare, record.commit);
        if record.view.round > 0 || record.proposed.is_some() || record.prepare.is_some() {
            self.round = record.view.round;
            self.begin_timers(step);
        }
        if let Some(prepared) = &self.prepared {
            let candidate = Candidate::valid(prepared.block.clone(), prepared.proposal_seal);
            self.verdicts.insert(prepared.block.hash(), Verdict::Valid);
            let round = self.rounds.entry(prepared.round).or_default();
            round.proposal = Some(candidate);
        }
        // Signed again, not anew: the same fields in the same round.
        if self.round > 0 && self.prepared.as_ref().is_none_or(|prepared| prepared.round < self.round) {
            self.sign_round_change(step);
        }
        if let Some(digest) = self.own.prepare_digest() {
            self.sign_prepare(step, digest);
        }
        if let Some(digest) = self.own.commit_digest() {
            self.sign_commit(step, digest);
        }
        self.check_committed(step, self.round);
    }

    /// The host's transactions have come or gone: an empty-block period may end early.
    pub(super) fn transactions(&mut self, step: &mut Step<'_>) {
        if !self.mute && !self.started && self.block_timer.is_none() {
            self.block_due(step);
        }
    }

    /// The time of the next block has come.
    fn block_due(&mut self, step: &mut Step<'_>) {
        if self.started || self.mute {
            return;
        }
        let empty_due_ms = timing::empty_due_ms(&self.head);
        if self.head.settings.empty_period_s > 0 && !step.shared.transactions && step.now_ms < empty_due_ms {
            // Whoever has no transactions waits; whoever has some begins, proposer or not.
            self.begun_ms = None;
            self.block_timer = None;
            self.early_timer = Some(step.set_timer(empty_due_ms.saturating_sub(step.now_ms)));
            return;
        }
        self.begin(step, 0);
        self.propose(step);
    }

    fn begin(&mut self, step: &mut Step<'_>, round: u32) {
        self.round = round;
        self.own.begin(self.view());
        self.rounds = self.rounds.split_off(&round.saturating_sub(PAST_ROUNDS));
        self.begin_timers(step);
    }

    fn begin_timers(&mut self, step: &mut Step<'_>) {
        self.started = true;
        self.block_timer = None;
        self.early_timer = None;
        self.begun_ms = Some(step.now_ms);
        self.round_timer = None;
        self.arm(step, false);
        if self.repeat_timer.is_none() {
            self.repeat_timer = Some(step.set_timer(self.head.settings.request_timeout_ms.max(1)));
        }
    }

    /// Lets the time of the current round run, once a quorum is in this round or beyond.
    ///
    /// A validator that is cut off would otherwise go through rounds alone, and when it is back the others,
    /// too few of which are so far, would never meet it. As it is, more than `f` correct validators are at
    /// most one round behind the highest correct one, and all others join them as soon as they hear of it.
    /// Nobody waits for ever: for the correct validator in the lowest round, all the others are a quorum.
    ///
    /// EEA's `UponRoundTimeout` lets the time of every round run at once. It is a predicate over a node's own clock, with
    /// `roundTimeout` left to the implementation; to begin it later is one such timeout, and touches no vote.
    fn arm(&mut self, step: &mut Step<'_>, justified: bool) {
        if self.round_timer.is_some() || !self.started {
            return;
        }
        let me = step.shared.me;
        // Itself among them.
        let there =
            1 + self.reached.iter().filter(|(author, round)| **author != me && **round >= self.round).count();
        if self.round > 0 && !justified && there < self.head.validators.quorum() {
            return;
        }
        let absent = self
            .proposer(step.shared, self.round)
            .is_some_and(|proposer| step.shared.absent.contains(&self.head.validators, proposer));
        let after_ms = timing::round_ms(&step.shared.config, &self.head.settings, self.round, absent);
        self.round_timer = Some(step.set_timer(after_ms));
    }

    pub(super) fn timer(&mut self, step: &mut Step<'_>, timer: Timer, ahead: Option<(u64, Address)>) {
        if self.is_decided() || self.mute {
            return;
        }
        let timer = Some(timer);
        if timer == self.block_timer {
            self.block_due(step);
        } else if timer == self.early_timer {
            self.early_timer = None;
            if self.started { self.check_proposal(step) } else { self.block_due(step) }
        } else if timer == self.repeat_timer {
            self.repeat_timer = Some(step.set_timer(self.head.settings.request_timeout_ms.max(1)));
            self.repeat(step);
            // Stuck while somebody is ahead: ask that one, even if it is alone.
            if let Some((height, peer)) = ahead.filter(|(height, _)| *height > self.number) {
                step.out.push(Effect::NeedSync { height: height.saturating_sub(1), peer });
            }
            self.sync_asked = false;
            let rounds: Vec<u32> = self.rounds.keys().copied().collect();
            for round in rounds {
                self.check_committed(step, round);
            }
        } else if timer == self.round_timer {
            if self.rounds.get(&self.round).is_none_or(|round| round.proposal.is_none())
                && let Some(proposer) = self.proposer(step.shared, self.round)
                && proposer != step.shared.me
            {
                step.shared.absent.missed_turn(proposer);
            }
            self.change_round(step, self.round.saturating_add(1));
        }
    }

    /// Gives the current round up.
    fn change_round(&mut self, step: &mut Step<'_>, round: u32) {
        if round <= self.round || self.is_decided() || self.mute {
            return;
        }
        self.begin(step, round);
        self.sign_round_change(step);
        self.check_rounds(step);
    }

    fn sign_round_change(&mut self, step: &mut Step<'_>) {
        let qbft = step.shared.config.protocol.proposer_prepares();
        let claim = self.prepared.as_ref().map(|prepared| PreparedRound {
            round: prepared.round,
            digest: prepared.block.digest(),
            certificate: (!qbft).then(|| Certificate {
                proposal_seal: prepared.proposal_seal,
                prepares: prepared.prepares.clone(),
            }),
        });
        let payload = RoundChangePayload { view: self.view(), prepared: claim };
        let hash = round_change_hash(step.shared.config.protocol, &payload);
        let Some(seal) = self.sign(step, hash) else { return };
        let change = RoundChange {
            signed: Signed { payload, seal },
            block: self.prepared.as_ref().map(|prepared| prepared.block.clone()),
            prepares: self
                .prepared
                .iter()
                .filter(|_| qbft)
                .flat_map(|prepared| prepared.prepares.clone())
                .collect(),
        };
        let packet = Message::RoundChange(Box::new(change.clone())).encode(step.shared.config.protocol);
        self.own.round_change(packet);
        self.changes.insert(step.shared.me, change);
    }

    fn sign(&self, step: &mut Step<'_>, hash: B256) -> Option<Seal> {
        let seal = step.shared.keys.sign(hash);
        if seal.is_none() {
            step.out.push(Effect::CannotSign(self.view()));
        }
        seal
    }

    /// Looks whether the others' rounds move this node on, or let it propose.
    fn check_rounds(&mut self, step: &mut Step<'_>) {
        let me = step.shared.me;
        let others = self.reached.iter().filter(|(author, _)| **author != me);
        let mut higher: Vec<u32> =
            others.map(|(_, round)| *round).filter(|round| *round > self.round).collect();
        higher.sort_unstable_by(|a, b| b.cmp(a));
        // More than `f` validators are there or beyond, so a correct one is: the highest such round.
        if let Some(&round) = higher.get(self.head.validators.faulty()) {
            self.change_round(step, round);
            return;
        }
        if self.round > 0 {
            self.arm(step, false);
            self.propose(step);
        }
    }

    /// Proposes a block, if this is this node's turn and, above round 0, a quorum has moved here.
    fn propose(&mut self, step: &mut Step<'_>) {
        let me = step.shared.me;
        if self.mute
            || self.is_decided()
            || self.own.has_proposed()
            || self.own.building
            || self.proposer(step.shared, self.round) != Some(me)
        {
            return;
        }
        let view = self.view();
        let changes = self.changes.values().filter(|change| change.signed.payload.view == view);
        let evidence: Vec<RoundChange> = changes.cloned().collect();
        if self.round > 0 && evidence.len() < self.head.validators.quorum() {
            return;
        }
        let again = highest(&evidence).and_then(|change| change.block.as_ref());
        let again = again.map(|block| block.with_round(view.round));
        // Kept while a block is built: their authors may move on, and others say more, in the meantime.
        self.own.evidence = evidence;
        match again {
            Some(block) => self.send_proposal(step, block),
            None => self.request_block(step),
        }
    }

    fn request_block(&mut self, step: &mut Step<'_>) {
        self.own.building = true;
        let earliest_s = self.earliest_s();
        let headers = self.head.named == ValidatorsFrom::Headers;
        let extra = ExtraData {
            vanity: step.shared.config.vanity.to_vec(),
            validators: if headers { self.head.validators.addresses().to_vec() } else { Vec::new() },
            vote: self.head.vote.filter(|_| headers),
            round: self.round,
            seals: Vec::new(),
        };
        step.out.push(Effect::BuildBlock(BuildRequest {
            view: self.view(),
            parent: self.head.hash,
            timestamp_s: (step.now_ms / 1_000).max(earliest_s),
            proposer: step.shared.me,
            extra_data: extra.encode(step.shared.config.protocol, Cover::Everything).into(),
        }));
    }

    fn earliest_s(&self) -> u64 {
        self.head.timestamp_s.saturating_add(self.head.settings.timestamp_gap_s())
    }

    pub(super) fn built(&mut self, step: &mut Step<'_>, view: View, block: Option<Bytes>, empty: bool) {
        if view != self.view() || !self.own.building || self.is_decided() {
            return;
        }
        self.own.building = false;
        let Some(bytes) = block else { return };
        if empty
            && view.round == 0
            && step.now_ms < timing::empty_due_ms(&self.head)
            && self.head.settings.empty_period_s > 0
        {
            // What waited could not be put into a block after all.
            self.started = false;
            self.round_timer = None;
            let wait_ms = timing::empty_due_ms(&self.head).saturating_sub(step.now_ms);
            self.block_timer = Some(step.set_timer(wait_ms.min(self.head.settings.period_ms().max(1))));
            return;
        }
        let block = match Block::decode(step.shared.config.protocol, bytes) {
            Ok(block) => block,
            Err(error) => return step.blame(step.shared.me, Misbehaviour::OwnBlock(error)),
        };
        let bound = step.shared.bind(&block).map_err(Misbehaviour::Body);
        if let Err(what) = bound.and_then(|()| self.check_block(step, view, &block)) {
            return step.blame(step.shared.me, what);
        }
        self.verdicts.insert(block.hash(), Verdict::Valid);
        self.send_proposal(step, block);
    }

    fn send_proposal(&mut self, step: &mut Step<'_>, block: Block) {
        let protocol = step.shared.config.protocol;
        let view = self.view();
        let Some(seal) = self.sign(step, proposal_hash(protocol, view, &block)) else { return };
        let evidence = std::mem::take(&mut self.own.evidence);
        let prepares = highest(&evidence).map(|change| change.prepares.clone()).unwrap_or_default();
        let prepared = evidence.iter().any(|change| change.signed.payload.prepared.is_some());
        let round_changes = evidence.into_iter().map(|change| change.signed).collect();
        let proposal = Proposal { view, block: block.clone(), seal, round_changes, prepares };
        let packet = Message::Proposal(Box::new(proposal)).encode(protocol);
        self.own.proposal(block.digest(), packet);
        self.rounds.entry(view.round).or_default().proposal = Some(Candidate::waiting(block, seal, prepared));
        self.check_proposal(step);
    }

    /// A proposal from its author, which is a validator; whether it was new and good.
    pub(super) fn proposal(
        &mut self,
        step: &mut Step<'_>,
        author: Address,
        proposal: Proposal,
    ) -> Result<Heard, Misbehaviour> {
        let view = proposal.view;
        if view.round < self.round || self.is_decided() || self.mute {
            return Ok(Heard::Nothing);
        }
        if self.proposer(step.shared, view.round) != Some(author) {
            return Err(Misbehaviour::NotProposer(author));
        }
        if let Some(known) = self.rounds.get(&view.round).and_then(|round| round.proposal.as_ref()) {
            let same = known.block.digest() == proposal.block.digest();
            return if same { Ok(Heard::Nothing) } else { Err(Misbehaviour::Equivocation(view)) };
        }
        self.check_block(step, view, &proposal.block)?;
        self.context(step.shared).proposal(&proposal).map_err(Misbehaviour::Unjustified)?;
        if view.round > self.round || !self.started {
            self.begin(step, view.round);
        }
        // The justification was checked: a claim among its round changes comes with a quorum of prepares.
        let prepared = proposal.round_changes.iter().any(|change| change.payload.prepared.is_some());
        self.rounds.entry(view.round).or_default().proposal =
            Some(Candidate::waiting(proposal.block, proposal.seal, prepared));
        self.has_reached(author, view.round);
        self.arm(step, true);
        self.check_proposal(step);
        self.check_committed(step, view.round);
        Ok(Heard::New)
    }

    fn check_block(&self, step: &Step<'_>, view: View, block: &Block) -> Result<(), Misbehaviour> {
        if block.number() != self.number || block.parent() != self.head.hash {
            return Err(Misbehaviour::Misplaced("it does not follow the head"));
        }
        if block.round() != view.round {
            return Err(Misbehaviour::Misplaced("its extra data has another round"));
        }
        if !block.extra().seals.is_empty() {
            return Err(Misbehaviour::Misplaced("a proposal has no seals"));
        }
        let expectation = Expectation {
            protocol: step.shared.config.protocol,
            validators: &self.head.validators,
            named: self.head.named,
            earliest_s: self.earliest_s(),
        };
        expectation.check(block.header(), block.extra()).map_err(Misbehaviour::Header)
    }

    /// Takes the proposal of the current round as far as it can go.
    fn check_proposal(&mut self, step: &mut Step<'_>) {
        let Some(candidate) = self.rounds.get_mut(&self.round).and_then(|round| round.proposal.as_mut())
        else {
            return;
        };
        if candidate.valid {
            return;
        }
        let hash = candidate.block.hash();
        let latest_s = (step.now_ms / 1_000).saturating_add(MAX_AHEAD_S);
        let timestamp_s = candidate.block.header().timestamp;
        match self.verdicts.get(&hash) {
            Some(Verdict::Awaited(_) | Verdict::Invalid) => {}
            _ if timestamp_s > latest_s => {
                // Its proposer's clock is ahead, or this one behind: it is good once its time has come.
                let wait_ms =
                    timestamp_s.saturating_sub(MAX_AHEAD_S).saturating_mul(1_000).saturating_sub(step.now_ms);
                self.early_timer = Some(step.set_timer(wait_ms));
            }
            // Clocks differ, so correct validators may judge the time differently, and a block may be
            // prepared that this one found late. More than `f` correct validators found it in time
            // then. Refusing it in every later round would stop the height as soon as one of the
            // quorum is away.
            Some(Verdict::Late) if !candidate.prepared => {}
            Some(Verdict::Valid | Verdict::Late) => {
                candidate.valid = true;
                let digest = candidate.block.digest();
                let mine = self.proposer(step.shared, self.round) == Some(step.shared.me);
                if !mine || step.shared.config.protocol.proposer_prepares() {
                    self.sign_prepare(step, digest);
                }
                self.check_prepared(step);
            }
            None => {
                let block = candidate.block.clone();
                let proposer = self.proposer(step.shared, self.round).unwrap_or_default();
                self.verdicts.insert(hash, Verdict::Awaited(proposer));
                step.out.push(Effect::Validate(block));
            }
        }
    }

    pub(super) fn validated(&mut self, step: &mut Step<'_>, hash: B256, valid: bool) {
        let Some(&Verdict::Awaited(proposer)) = self.verdicts.get(&hash) else { return };
        self.verdicts.insert(hash, if valid { Verdict::Valid } else { Verdict::Invalid });
        if !valid {
            step.blame(proposer, Misbehaviour::InvalidBlock(hash));
        }
        if !self.is_decided() {
            self.check_proposal(step);
        }
    }

    /// The host finds nothing wrong with a block but that its time is too long ago.
    pub(super) fn late(&mut self, step: &mut Step<'_>, hash: B256) {
        if !matches!(self.verdicts.get(&hash), Some(Verdict::Awaited(_))) {
            return;
        }
        self.verdicts.insert(hash, Verdict::Late);
        if !self.is_decided() {
            self.check_proposal(step);
        }
    }

    fn sign_prepare(&mut self, step: &mut Step<'_>, digest: B256) {
        if self.own.prepare_digest().is_some_and(|signed| signed != digest) {
            return;
        }
        let protocol = step.shared.config.protocol;
        let payload = Prepare { view: self.view(), digest };
        let Some(seal) = self.sign(step, prepare_hash(protocol, &payload)) else { return };
        let signed = Signed { payload, seal };
        self.own.prepare(digest, Message::Prepare(signed.clone()).encode(protocol));
        self.rounds.entry(self.round).or_default().prepares.insert(step.shared.me, signed);
    }

    /// A prepare message from its author, which is a validator; whether it was new and good.
    pub(super) fn prepare(
        &mut self,
        step: &mut Step<'_>,
        author: Address,
        prepare: Signed<Prepare>,
    ) -> Result<Heard, Misbehaviour> {
        let Prepare { view, digest } = prepare.payload;
        let proposed = self.proposer(step.shared, view.round) == Some(author);
        if view.round < self.round || self.is_decided() || self.mute {
            return Ok(Heard::Nothing);
        }
        if self.has_reached(author, view.round) {
            self.check_rounds(step);
        }
        if view.round < self.round || (proposed && !step.shared.config.protocol.proposer_prepares()) {
            return Ok(Heard::Nothing);
        }
        if !self.has_room(step.shared, author, view.round) {
            return Ok(Heard::NoRoom);
        }
        let prepares = &mut self.rounds.entry(view.round).or_default().prepares;
        match prepares.get(&author) {
            Some(known) if known.payload.digest != digest => return Err(Misbehaviour::Equivocation(view)),
            Some(_) => return Ok(Heard::Nothing),
            None => {
                prepares.insert(author, prepare);
                self.check_prepared(step);
            }
        }
        Ok(Heard::New)
    }

    /// Notes that a validator has spoken in a round; whether it is its highest.
    fn has_reached(&mut self, author: Address, round: u32) -> bool {
        let known = self.reached.get(&author).copied();
        if known.is_none_or(|known| known < round) {
            self.reached.insert(author, round);
        }
        known.is_none_or(|known| known < round)
    }

    /// Whether votes of `author` for a round are still kept: only for so many rounds that are not reached.
    fn has_room(&self, shared: &Shared, author: Address, round: u32) -> bool {
        if round <= self.round || self.rounds.get(&round).is_some_and(|round| round.has_votes_of(author)) {
            return true;
        }
        let later = self.rounds.range(self.round.saturating_add(1)..);
        later.filter(|(_, round)| round.has_votes_of(author)).count() < shared.config.limits.future_rounds
    }

    /// Looks whether the current round is prepared; then seals its block.
    fn check_prepared(&mut self, step: &mut Step<'_>) {
        let needed = step.shared.config.protocol.prepares_needed(self.head.validators.quorum());
        let Some(round) = self.rounds.get(&self.round) else { return };
        let Some(candidate) = round.proposal.as_ref().filter(|candidate| candidate.valid) else { return };
        let digest = candidate.block.digest();
        if self.own.commit_digest().is_some() {
            return;
        }
        let prepares: Vec<Signed<Prepare>> =
            round.prepares.values().filter(|prepare| prepare.payload.digest == digest).cloned().collect();
        if prepares.len() < needed {
            return;
        }
        self.prepared = Some(Prepared {
            round: self.round,
            block: candidate.block.clone(),
            proposal_seal: candidate.seal,
            prepares,
        });
        self.sign_commit(step, digest);
        self.check_committed(step, self.round);
    }

    fn sign_commit(&mut self, step: &mut Step<'_>, digest: B256) {
        let protocol = step.shared.config.protocol;
        let Some(commit_seal) = self.sign(step, digest) else { return };
        let payload = Commit { view: self.view(), digest, commit_seal };
        let Some(seal) = self.sign(step, commit_hash(protocol, &payload)) else { return };
        self.own.commit(digest, Message::Commit(Signed { payload, seal }).encode(protocol));
        self.rounds.entry(self.round).or_default().commits.insert(step.shared.me, payload);
    }

    /// A commit message from its author, which is a validator; whether it was new and good.
    pub(super) fn commit(
        &mut self,
        step: &mut Step<'_>,
        author: Address,
        commit: Signed<Commit>,
    ) -> Result<Heard, Misbehaviour> {
        let Commit { view, digest, commit_seal } = commit.payload;
        if self.is_decided() || view.round < self.round.saturating_sub(PAST_ROUNDS) {
            return Ok(Heard::Nothing);
        }
        if !self.has_room(step.shared, author, view.round) {
            return Ok(Heard::NoRoom);
        }
        if step.shared.keys.recover(digest, &commit_seal) != Some(author) {
            return Err(Misbehaviour::CommitSeal);
        }
        if !self.mute && self.has_reached(author, view.round) {
            self.check_rounds(step);
        }
        let commits = &mut self.rounds.entry(view.round).or_default().commits;
        match commits.get(&author) {
            Some(known) if known.digest != digest => return Err(Misbehaviour::Equivocation(view)),
            Some(_) => return Ok(Heard::Nothing),
            None => {
                commits.insert(author, commit.payload);
                self.check_committed(step, view.round);
                let sealed = self.rounds.get(&view.round).map_or(0, |round| round.commits.len());
                let ahead = view.round > self.round && sealed > self.head.validators.faulty();
                if ahead && !self.is_decided() && !self.sync_asked {
                    // A correct validator is prepared there: whoever it is can pass the block on.
                    self.sync_asked = true;
                    step.out.push(Effect::NeedSync { height: self.number, peer: author });
                }
            }
        }
        Ok(Heard::New)
    }

    /// Looks whether a quorum has sealed a block in a round, be it the current one or not.
    fn check_committed(&mut self, step: &mut Step<'_>, round: u32) {
        if self.is_decided() {
            return;
        }
        let Some((digest, seals)) =
            self.rounds.get(&round).and_then(|votes| votes.committed(self.head.validators.quorum()))
        else {
            return;
        };
        match self.block_of(round, digest) {
            Some(block) => {
                self.decided = Some(block.hash());
                step.out.push(Effect::Commit { block: block.with_seals(seals), round });
            }
            None if !self.sync_asked => {
                // Final, but the proposal did not get here.
                self.sync_asked = true;
                // Each in turn: one that lies may have sealed it as well.
                self.sealers_asked = self.sealers_asked.wrapping_add(1);
                let (me, turn) = (step.shared.me, self.sealers_asked);
                let sealer = self.rounds.get(&round).and_then(|votes| votes.sealer_of(digest, me, turn));
                if let Some(peer) = sealer {
                    step.out.push(Effect::NeedSync { height: self.number, peer });
                }
            }
            None => {}
        }
    }

    /// The block with a digest in a round, if it is known from any round.
    fn block_of(&self, round: u32, digest: B256) -> Option<Block> {
        let proposed = self
            .rounds
            .values()
            .filter_map(|round| round.proposal.as_ref())
            .map(|candidate| &candidate.block);
        let claimed = self.changes.values().filter_map(|change| change.block.as_ref());
        let prepared = self.prepared.iter().map(|prepared| &prepared.block);
        proposed
            .chain(claimed)
            .chain(prepared)
            .map(|block| block.with_round(round))
            .find(|block| block.digest() == digest)
    }

    /// A round change from its author, which is a validator; whether it was new and good.
    pub(super) fn round_change(
        &mut self,
        step: &mut Step<'_>,
        author: Address,
        change: RoundChange,
    ) -> Result<Heard, Misbehaviour> {
        let view = change.signed.payload.view;
        if self.is_decided() || self.mute {
            return Ok(Heard::Nothing);
        }
        if view.round == 0 {
            return Err(Misbehaviour::RoundZero);
        }
        if self.changes.get(&author).is_some_and(|known| known.signed.payload.view.round >= view.round) {
            return Ok(Heard::Nothing);
        }
        self.context(step.shared).round_change(&change).map_err(Misbehaviour::Unjustified)?;
        if let Some(block) = &change.block {
            self.check_block(step, View { round: block.round(), ..view }, block)?;
        }
        self.changes.insert(author, change);
        self.has_reached(author, view.round);
        if view.round < self.round {
            self.repeat_to(step, author);
        }
        self.check_rounds(step);
        Ok(Heard::New)
    }

    /// Sends a peer what this node has said in the current round.
    pub(super) fn repeat_to(&mut self, step: &mut Step<'_>, peer: Address) {
        if self.mute || self.is_decided() || !self.head.validators.contains(peer) {
            return;
        }
        for packet in self.own.packets() {
            step.out.push(Effect::SendTo { peer, packet: packet.clone() });
        }
    }

    /// Says again what this node has said in the current round.
    fn repeat(&mut self, step: &mut Step<'_>) {
        let heard: Vec<Address> = self
            .rounds
            .get(&self.round)
            .map(|round| round.prepares.keys().copied().collect())
            .unwrap_or_default();
        // The block again only to those that show no sign of having it.
        if let Some(packet) = self.own.proposal_packet() {
            for &peer in self.head.validators.addresses() {
                if peer != step.shared.me && !heard.contains(&peer) {
                    step.out.push(Effect::SendTo { peer, packet: packet.clone() });
                }
            }
        }
        for packet in self.own.votes() {
            step.out.push(Effect::Broadcast(packet.clone()));
        }
    }

    /// Sends what this step has signed, after it is durable.
    pub(super) fn flush(&mut self, step: &mut Step<'_>) {
        let packets = self.own.take_unsent();
        if packets.is_empty() {
            return;
        }
        let record = self.own.record(self.view(), self.prepared.clone());
        let at = step
            .out
            .iter()
            .position(|effect| matches!(effect, Effect::Commit { .. }))
            .unwrap_or(step.out.len());
        let sends = packets.into_iter().map(Effect::Broadcast);
        let effects = std::iter::once(Effect::Persist(record.encode())).chain(sends);
        // Final blocks last: importing them may take a while.
        step.out.splice(at..at, effects);
    }
}
