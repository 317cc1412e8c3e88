//! The approver: its participant's yes or no to each proposal.
//!
//! It reserves debits when it approves, so that approved sums are never spent twice, and learns the
//! outcome from the sequence: a debit that was refused elsewhere becomes available again, a credit
//! becomes available when its payment is final.

use super::agreements::ProposalHasher;
use super::approved::{self, ApprovedOnce};
use crate::accounts::{AccountTable, BALANCE_RANGE};
use crate::message::{
    ApprovalBatch, ApprovalSigner, Proposal, ProposalBatch, SequenceBatch, SignatureCheck, Source,
};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tally_crypto::{Hash, PublicKey, Signature, Signed, SigningKey};
use tally_ledger::order::{AccountAction, AccountOrder};
use tally_ledger::refusal::verdict_number;
use tally_ledger::transaction::{Kind, Leg};
use tally_ledger::{
    AccountId, AccountNumber, AccountRole, AccountStatus, Amount, Network, ParticipantId, Refusal,
    SignaturePolicy, Signer, Timestamp,
};

/// Amounts above this are counted one by one while they are under way; those below are so many to a
/// balance's range that no number of them in flight can leave it.
const LARGE: i64 = 1 << 40;
/// By how much the clocks of honest stages differ, at most and by far.
const CLOCKS_DIFFER_MS: u64 = 300_000;
/// The most transactions under way at once.
pub(crate) const MAX_OPEN: usize = 1 << 20;

/// One participant's approver.
pub struct Approver {
    network: Arc<Network>,
    participant: ParticipantId,
    key: SigningKey,
    /// What is available: balances less reservations.
    accounts: AccountTable,
    /// Hashes of the aliases in use or promised.
    aliases: HashSet<[u8; 16]>,
    /// Accounts whose opening is approved and not yet decided.
    opening: u32,
    /// Orders that are approved and undecided.
    orders: usize,
    /// Large amounts under way by account.
    large: HashMap<AccountNumber, i128>,
    open: HashMap<Source, Open>,
    open_count: usize,
    /// Decided, as timed out or withdrawn, before their proposal came.
    early: BTreeSet<(Source, u32)>,
    /// Per scheduler, the number after the last batch of which proposals, or word that there are none, have come.
    seen: HashMap<u64, u64>,
    /// What of the proposals still to come was decided before a recovery.
    recovered: Recovered,
    /// The number of the next decision; none where the sequence is this process's own.
    next: Option<u64>,
    clock: Timestamp,
    ids: ProposalHasher,
    signer: ApprovalSigner,
    /// None before proposals come whose signatures this process has not verified.
    check: Option<SignatureCheck>,
    /// What was found of the signatures of proposals that were given back to be answered later.
    checked: Option<(Source, Checked)>,
    /// What it approved of proposals whose signatures this process has not verified.
    approved_once: ApprovedOnce,
}

/// What an approver found of proposals that come from another process.
struct Checked {
    ids: Vec<Hash>,
    /// Which rest on a signature that does not verify.
    wrong: Vec<bool>,
}

/// A proposal batch that is answered and not wholly decided.
struct Open {
    proposals: Arc<ProposalBatch>,
    /// Which are approved and undecided; by position in the proposal batch.
    approved: Vec<bool>,
    /// Which are decided.
    decided: Vec<bool>,
    /// The first leg of each; empty while every transaction shows two legs.
    first_leg: Vec<u32>,
    undecided: usize,
}

/// A record of the sequence that contradicts what this approver's answers decide: the operator sequenced what it could not.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecideError {
    /// It makes what this institution did not approve.
    #[error(
        "the sequence makes transaction {index} of {source_batch:?}, which this institution did not approve"
    )]
    NotApproved {
        /// The accepted batch.
        source_batch: Source,
        /// The transaction in it.
        index: u32,
    },
    /// It decides a transaction again.
    #[error("the sequence decides transaction {index} of {source_batch:?} a second time")]
    Twice {
        /// The accepted batch.
        source_batch: Source,
        /// The transaction in it.
        index: u32,
    },
    /// It refuses an approved account order, or has two in another order than that of the approvals.
    #[error(
        "the sequence refuses the approved order in transaction {index} of {source_batch:?} for account {account}, or \
         has it out of place"
    )]
    Order {
        /// The accepted batch.
        source_batch: Source,
        /// The transaction in it.
        index: u32,
        /// The account.
        account: AccountId,
    },
    /// It has a gap.
    #[error("the sequence goes on with number {found} where {expected} is next")]
    Gap {
        /// The number that is next.
        expected: u64,
        /// The number found.
        found: u64,
    },
}

/// What is said to each proposal of a batch, and where its legs begin.
struct Judged {
    verdicts: Vec<u16>,
    /// Which were answered before, under the participant's key; empty where none was.
    given: Vec<bool>,
    first_leg: Vec<u32>,
    /// What was found of signatures that this process had not verified.
    checked: Option<Checked>,
}

/// Whether a verdict rests on what payments and orders have made of the accounts, so that one more decision may change it.
fn may_pass(verdict: u16) -> bool {
    use Refusal::{
        BalanceOverflow, BlockedAccount, Duplicate, InsufficientFunds, NotEmpty, OrderNotPossible,
        UnknownAccount,
    };
    [
        InsufficientFunds,
        UnknownAccount,
        BlockedAccount,
        BalanceOverflow,
        NotEmpty,
        OrderNotPossible,
        // What it was approved in before may have been refused for want of another's signature.
        Duplicate,
    ]
    .iter()
    .any(|refusal| refusal.number() == verdict)
}

/// Whether that verdict can be decided without this participant's answer.
fn may_be_early(verdict: u16) -> bool {
    [Refusal::ApprovalTimeout, Refusal::Withdrawn].iter().any(|refusal| refusal.number() == verdict)
}

/// What was decided of proposals that an approver had not answered when it stopped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Per scheduler, batches below this number are wholly decided, but for those in `open`.
    pub below: HashMap<u64, u64>,
    /// Batches that are not wholly decided, and which of the proposals are.
    pub open: HashMap<Source, Vec<bool>>,
    /// Answers with the participant's signature to batches of which it is not recorded that they were answered: another
    /// program wrote them with the participant's key. They bind the participant.
    pub given: HashMap<Source, Vec<ApprovalBatch>>,
}

/// What of a participant's answers stands for each proposal of a batch, by its number; none where it said nothing. Counted as
/// the assembler counts: the first stands, and nothing of what contradicts it or is an answer to something else. `ids` are
/// those of the proposals, where answers to other transactions may be among the answers.
pub fn verdicts_given(
    proposals: &ProposalBatch,
    ids: Option<&[Hash]>,
    answers: &[ApprovalBatch],
) -> Vec<Option<u16>> {
    let mut given: Vec<Option<u16>> = vec![None; proposals.len()];
    for answer in answers.iter().filter(|answer| answer.source_len == proposals.source_len) {
        let items: Option<Vec<usize>> =
            answer.indices.iter().map(|index| proposals.position(*index)).collect();
        let Some(items) = items else { continue };
        let stands = |(item, verdict): (&usize, &u16)| given[*item].is_none_or(|given| given == *verdict);
        if !items.iter().zip(&answer.verdicts).all(stands) {
            continue;
        }
        for (at, item) in items.into_iter().enumerate() {
            if ids.is_none_or(|ids| ids[item] == answer.ids[at]) {
                given[item] = Some(answer.verdicts[at]);
            }
        }
    }
    given
}

/// Proposals that an approver answered before it stopped and that are not all decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// What it was asked.
    pub proposals: Arc<ProposalBatch>,
    /// What it answered to each, by its number.
    pub verdicts: Vec<u16>,
    /// Which are decided.
    pub decided: Vec<bool>,
}

/// The proposals of the present batch that come before the present one, with the verdicts on them.
#[derive(Clone, Copy)]
struct Answered<'a> {
    batch: &'a ProposalBatch,
    verdicts: &'a [u16],
}

/// Whose signature a leg needs.
enum Needed<'a> {
    /// Nobody's.
    None,
    /// That key's.
    Key(&'a PublicKey),
}

/// Whether the key is among those of the signers.
fn signs(signers: &[Signer], key: &PublicKey) -> bool {
    signers.iter().any(|signer| signer.key == *key)
}

/// What 16 bytes of an alias's hash stand for it.
pub(crate) fn alias_key(alias: &str) -> [u8; 16] {
    let hash = tally_crypto::hash(alias.as_bytes());
    *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
}

impl Approver {
    /// The approver of the participant whose accounts these are, at rest: nothing is under way.
    pub fn new<'a>(
        network: Arc<Network>,
        key: SigningKey,
        accounts: AccountTable,
        aliases: impl Iterator<Item = &'a str>,
    ) -> Self {
        Self {
            ids: ProposalHasher::new(&network.id),
            signer: ApprovalSigner::new(network.id),
            network,
            participant: accounts.participant(),
            key,
            accounts,
            aliases: aliases.map(alias_key).collect(),
            opening: 0,
            orders: 0,
            large: HashMap::new(),
            open: HashMap::new(),
            open_count: 0,
            early: BTreeSet::new(),
            seen: HashMap::new(),
            recovered: Recovered::default(),
            next: None,
            clock: Timestamp(0),
            check: None,
            checked: None,
            approved_once: ApprovedOnce::default(),
        }
    }

    /// Remembers an id that an earlier process approved, and that expires no later than `until`.
    pub(crate) fn recall(&mut self, id: &Hash, until: Timestamp) {
        self.approved_once.recall(approved::key(id), until);
    }

    /// What it has approved on the strength of a signature.
    pub(crate) fn approved_once(&mut self) -> &mut ApprovedOnce {
        &mut self.approved_once
    }

    /// Follows a sequence of another process from number `next` on, as the updater does: numbers that were given before
    /// change nothing, and a gap is an error.
    #[must_use]
    pub fn following(self, next: u64) -> Self {
        Self { next: Some(next), ..self }
    }

    /// Recovers what an earlier process had answered, in the order in which it was asked, so that nothing contradicts an
    /// approval that left the building; the accounts are those after every decision that is `recovered` or in the answers.
    /// No time before `clock` comes again.
    ///
    /// # Panics
    /// When the columns of an answer have different lengths.
    pub fn recover(&mut self, answers: Vec<Answer>, recovered: Recovered, clock: Timestamp) {
        self.clock = self.clock.max(clock);
        self.recovered = recovered;
        for Answer { proposals, verdicts, decided } in answers {
            assert!(verdicts.len() == proposals.len() && decided.len() == proposals.len());
            let mut approved = Vec::with_capacity(proposals.len());
            let mut first_leg = Vec::with_capacity(proposals.len());
            for proposal in proposals.iter() {
                let stands = verdicts[proposal.item] == 0 && !decided[proposal.item];
                approved.push(stands);
                first_leg.push(u32::try_from(proposal.first_leg).expect("batches are bounded"));
                if stands {
                    self.promise_all(&proposal);
                }
            }
            let undecided = decided.iter().filter(|decided| !**decided).count();
            self.open_count += undecided;
            let source = proposals.source;
            let seen = self.seen.entry(source.scheduler).or_default();
            *seen = (*seen).max(source.number + 1);
            if undecided > 0 {
                self.open.insert(source, Open { proposals, approved, decided, first_leg, undecided });
            }
        }
    }

    /// Reserves what a proposal that was approved needs.
    fn promise_all(&mut self, proposal: &Proposal<'_>) {
        if let Some(order) = proposal.order {
            self.promise(order);
        }
        for leg in proposal.legs {
            if leg.participant == self.participant {
                self.reserve(leg);
            }
        }
    }

    /// Whether a batch is wholly decided, as far as it concerns the participant.
    pub fn is_over(&self, source: Source) -> bool {
        !self.is_open(source) && self.is_known(source)
    }

    /// Whether a batch is answered and not wholly decided.
    pub fn is_open(&self, source: Source) -> bool {
        self.open.contains_key(&source)
    }

    /// The proposals of a batch that is answered and not wholly decided.
    pub fn open(&self, source: Source) -> Option<&Arc<ProposalBatch>> {
        self.open.get(&source).map(|open| &open.proposals)
    }

    /// The time by which it judges.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Whether it takes more proposals before decisions have come for what is under way.
    pub fn has_room(&self) -> bool {
        self.open_count < MAX_OPEN
    }

    /// How many orders are approved and not decided.
    pub fn orders_under_way(&self) -> usize {
        self.orders
    }

    /// How many transactions are under way.
    pub fn under_way(&self) -> usize {
        self.open_count
    }

    /// The accounts with what is available on them.
    pub fn accounts(&self) -> &AccountTable {
        &self.accounts
    }

    /// Answers a batch of proposals by what is known. A batch that was answered before is not answered again.
    pub fn propose(&mut self, now: Timestamp, batch: Arc<ProposalBatch>) -> Option<ApprovalBatch> {
        let judged = self.judge_unless_answered(now, &batch);
        self.answer_as(judged, batch)
    }

    /// Answers a batch of proposals as [`Self::propose`] does, if no decision that is sequenced and has not come here could
    /// turn a no into a yes; else gives the batch back, and nothing has changed.
    ///
    /// # Errors
    /// The batch, to be put here again when the sequence has been read as far as it goes now.
    pub fn propose_if_sure(
        &mut self,
        now: Timestamp,
        batch: Arc<ProposalBatch>,
    ) -> Result<Option<ApprovalBatch>, Arc<ProposalBatch>> {
        // What an order promised is not taken back: orders wait beforehand. They are rare.
        if !batch.orders.is_empty() && !self.is_answered(&batch) {
            return Err(batch);
        }
        let judged = self.judge_unless_answered(now, &batch);
        match judged {
            Some(judged) if judged.verdicts.iter().any(|verdict| may_pass(*verdict)) => {
                self.take_back(&batch, &judged);
                self.checked = judged.checked.map(|checked| (batch.source, checked));
                Err(batch)
            }
            judged => Ok(self.answer_as(judged, batch)),
        }
    }

    /// Whether an answer to the batch would say nothing new.
    fn is_answered(&self, batch: &ProposalBatch) -> bool {
        // A scheduler that proposes something else under the name of an earlier batch gets no second answer.
        batch.participant != self.participant || self.is_known(batch.source)
    }

    /// Whether proposals of the batch, or word that there are none, have come, or it was wholly decided before a recovery.
    fn is_known(&self, source: Source) -> bool {
        let below = self.recovered.below.get(&source.scheduler).is_some_and(|below| source.number < *below);
        let seen = self.seen.get(&source.scheduler).is_some_and(|seen| source.number < *seen);
        seen || (below && !self.recovered.open.contains_key(&source))
    }

    fn judge_unless_answered(&mut self, now: Timestamp, batch: &ProposalBatch) -> Option<Judged> {
        self.clock = self.clock.max(now);
        self.approved_once.expire(self.clock);
        if self.is_answered(batch) {
            return None;
        }
        if let Some(decided) = self.recovered.open.get(&batch.source) {
            let indices = batch.indices.iter().zip(decided).filter(|(_, decided)| **decided);
            self.early.extend(indices.map(|(index, _)| (batch.source, *index)));
        }
        Some(self.judge(batch))
    }

    fn answer_as(&mut self, judged: Option<Judged>, batch: Arc<ProposalBatch>) -> Option<ApprovalBatch> {
        if batch.participant != self.participant {
            return None;
        }
        let source = batch.source;
        let seen = self.seen.entry(source.scheduler).or_default();
        *seen = (*seen).max(source.number + 1);
        let judged = judged?;
        self.recovered.open.remove(&source);
        self.recovered.given.remove(&source);
        let approval = if batch.is_empty() { None } else { self.answer_all(judged, batch) };
        // What is left is about transactions that do not concern this participant.
        while let Some(left) = self.early.range((source, 0)..=(source, u32::MAX)).next().copied() {
            self.early.remove(&left);
        }
        approval
    }

    /// Judges all proposals of a batch, one after the other, and reserves what those that are approved need.
    fn judge(&mut self, batch: &ProposalBatch) -> Judged {
        const AHEAD: usize = 64;
        let mut verdicts = Vec::with_capacity(batch.len());
        let mut first_leg = Vec::with_capacity(batch.len());
        // Of this batch, by what rests on a signature.
        let mut approved_here: HashSet<approved::IdKey> = HashSet::new();
        let checked = self.check_signatures(batch);
        let answers = self.recovered.given.get(&batch.source);
        let before = answers.map(|answers| {
            let ids = checked.as_ref().map(|checked| checked.ids.as_slice());
            verdicts_given(batch, ids, answers)
        });
        for proposal in batch.iter() {
            if proposal.item % AHEAD == 0 {
                let ahead =
                    &batch.legs[proposal.first_leg..batch.legs.len().min(proposal.first_leg + 2 * AHEAD)];
                self.accounts.touch(ahead.iter().map(|leg| leg.account));
            }
            first_leg.push(u32::try_from(proposal.first_leg).expect("batches are bounded"));
            let index = batch.indices[proposal.item];
            if let Some(verdict) = before.as_ref().and_then(|before| before[proposal.item]) {
                if verdict == 0 {
                    self.promise_all(&proposal);
                }
                verdicts.push(verdict);
                continue;
            }
            let verdict = if !self.early.is_empty() && self.early.contains(&(batch.source, index)) {
                // It was refused before it came here, and nothing may be promised for it.
                Err(Refusal::Withdrawn)
            } else if checked.as_ref().is_some_and(|checked| checked.wrong[proposal.item]) {
                Err(Refusal::WrongSignature)
            } else {
                let id = checked.as_ref().filter(|_| self.rests_on_a_signature(&proposal));
                let id = id.map(|checked| approved::key(&checked.ids[proposal.item]));
                let is_again = |id: &approved::IdKey| {
                    approved_here.contains(id) || self.approved_once.contains(id, proposal.header.expiry)
                };
                if id.as_ref().is_some_and(is_again) {
                    Err(Refusal::Duplicate)
                } else {
                    let verdict = self.answer(&proposal, Answered { batch, verdicts: &verdicts });
                    approved_here.extend(id.filter(|_| verdict.is_ok()));
                    verdict
                }
            };
            verdicts.push(verdict_number(verdict));
        }
        let given = before.unwrap_or_default().iter().map(Option::is_some).collect();
        Judged { verdicts, given, first_leg, checked }
    }

    /// Verifies the signatures on which this institution's own debits, issues and orders rest. Those of a batch that this
    /// process verified are not verified again.
    fn check_signatures(&mut self, batch: &ProposalBatch) -> Option<Checked> {
        if batch.verified.is_some() {
            return None;
        }
        if let Some((_, checked)) = self.checked.take_if(|(source, _)| *source == batch.source) {
            return Some(checked);
        }
        let ids = self.ids.ids(batch);
        let (mut signed, mut signed_of) = (Vec::new(), Vec::new());
        for proposal in batch.iter() {
            let needs = |key: &PublicKey| self.needs_signature_of(&proposal, key);
            for signer in proposal.signers.iter().filter(|signer| needs(&signer.key)) {
                signed.push(Signed {
                    message: ids[proposal.item],
                    key: signer.key,
                    signature: signer.signature,
                });
                signed_of.push(proposal.item);
            }
        }
        let mut wrong = vec![false; batch.len()];
        let (_, positions) = self.check.get_or_insert_default().verify(&signed);
        for at in positions {
            wrong[signed_of[at]] = true;
        }
        Some(Checked { ids, wrong })
    }

    /// Whether what a proposal does in this institution's books rests on that key's signature.
    fn needs_signature_of(&self, proposal: &Proposal<'_>, key: &PublicKey) -> bool {
        let Some(kind) = Kind::from_number(proposal.header.kind) else { return false };
        let by_institution = |needed: Result<&PublicKey, Refusal>| needed.is_ok_and(|needed| needed == key);
        if proposal.order.is_some() {
            return by_institution(self.institution_key());
        }
        let own = proposal.legs.iter().filter(|leg| leg.participant == self.participant);
        own.into_iter().any(|leg| match self.needed_key(kind, leg) {
            Ok(Needed::Key(needed)) => needed == key,
            Ok(Needed::None) => false,
            // The account may be there when the proposal is answered: then any of the signers may be its owner.
            Err(_) => true,
        })
    }

    /// Whether what a proposal does in this institution's books rests on a signature that somebody gives once.
    fn rests_on_a_signature(&self, proposal: &Proposal<'_>) -> bool {
        let Some(kind) = Kind::from_number(proposal.header.kind) else { return false };
        let own = proposal.legs.iter().filter(|leg| leg.participant == self.participant);
        let needs = |leg| !matches!(self.needed_key(kind, leg), Ok(Needed::None));
        proposal.order.is_some() || own.into_iter().any(needs)
    }

    /// Takes back what was reserved for a batch without orders.
    fn take_back(&mut self, batch: &ProposalBatch, judged: &Judged) {
        for (proposal, verdict) in batch.iter().zip(&judged.verdicts) {
            if *verdict == 0 {
                self.release(batch, proposal.item, judged.first_leg[proposal.item]);
            }
        }
    }

    /// Answers what was not answered before; none where all was.
    fn answer_all(&mut self, judged: Judged, batch: Arc<ProposalBatch>) -> Option<ApprovalBatch> {
        let Judged { verdicts, given, first_leg, checked } = judged;
        let mut approval = ApprovalBatch {
            source: batch.source,
            source_len: batch.source_len,
            participant: self.participant,
            indices: batch.indices.clone(),
            ids: checked.map_or_else(|| self.ids.ids(&batch), |checked| checked.ids),
            verdicts,
            leaves: Vec::new(),
            signature: Signature::from_bytes([0; 64]),
        };
        let ids = if batch.verified.is_none() { approval.ids.clone() } else { Vec::new() };
        let approved: Vec<bool> = approval.verdicts.iter().map(|number| *number == 0).collect();
        if given.contains(&true) {
            let is_new = |at: &usize| !given[*at];
            approval.indices = (0..given.len()).filter(is_new).map(|at| approval.indices[at]).collect();
            approval.ids = (0..given.len()).filter(is_new).map(|at| approval.ids[at]).collect();
            approval.verdicts = (0..given.len()).filter(is_new).map(|at| approval.verdicts[at]).collect();
        }
        if batch.verified.is_none() {
            let is_new = |item: usize| !given.get(item).is_some_and(|given| *given);
            let new = batch.iter().filter(|proposal| is_new(proposal.item));
            approval.group(&new.map(|proposal| proposal.participants).collect::<Vec<_>>());
        }
        self.signer.sign(&mut approval, &self.key);
        if batch.verified.is_none() {
            for (at, proposal) in batch.iter().enumerate().filter(|(at, _)| approved[*at]) {
                if self.rests_on_a_signature(&proposal) {
                    self.approved_once.insert(approved::key(&ids[at]), proposal.header.expiry);
                }
            }
        }
        let mut decided = vec![false; batch.len()];
        let mut undecided = batch.len();
        if !self.early.is_empty() {
            for (decided, index) in decided.iter_mut().zip(&batch.indices) {
                *decided = self.early.remove(&(batch.source, *index));
                undecided -= usize::from(*decided);
            }
        }
        if undecided > 0 {
            self.open_count += undecided;
            self.open
                .insert(batch.source, Open { proposals: batch, approved, decided, first_leg, undecided });
        }
        (!approval.indices.is_empty()).then_some(approval)
    }

    fn answer(&mut self, proposal: &Proposal<'_>, answered: Answered<'_>) -> Result<(), Refusal> {
        let header = proposal.header;
        let kind = Kind::from_number(header.kind).ok_or(Refusal::NotProven)?;
        if header.network != self.network.id.tag()
            || proposal.positions.windows(2).any(|pair| pair[0] >= pair[1])
            || !self.is_concerned(proposal)
        {
            return Err(Refusal::NotProven);
        }
        if header.expiry <= self.clock {
            return Err(Refusal::Expired);
        }
        let longest_ms = self.network.longest_validity_ms.saturating_mul(2).saturating_add(CLOCKS_DIFFER_MS);
        if answered.batch.verified.is_none() && header.expiry > self.clock.plus_ms(longest_ms) {
            // It would have to be remembered for so long.
            return Err(Refusal::ExpiryTooFar);
        }
        if let Some(order) = proposal.order {
            if header.details != order.hash() || header.legs > 0 {
                return Err(Refusal::NotProven);
            }
            return self.answer_order(order, proposal.signers, answered);
        }
        let is_verified = answered.batch.verified.is_some();
        if !is_verified {
            self.legs_are_its_own_affair(proposal)?;
        }
        // The scheduler of this process has checked what concerns one institution alone.
        if header.participants > 1 || !is_verified {
            self.own_books_balance(proposal.legs)?;
        }
        for leg in proposal.legs {
            if leg.participant == self.participant {
                self.check(kind, leg, proposal.signers)?;
            }
        }
        for leg in proposal.legs {
            if leg.participant == self.participant {
                self.reserve(leg);
            }
        }
        Ok(())
    }

    /// Whether the participants are a set, as the id has it, with this one and those of every leg
    /// shown in it. Whose answers are counted is in the id that this participant signs.
    fn is_concerned(&self, proposal: &Proposal<'_>) -> bool {
        let participants = proposal.participants;
        participants.windows(2).all(|pair| pair[0] < pair[1])
            && participants.contains(&self.participant)
            && proposal.legs.iter().all(|leg| participants.contains(&leg.participant))
    }

    /// Whether each leg shown is in its own partition or on its own settlement account, on an account
    /// of its own, and holders of settlement accounts are concerned. A scheduler of another process
    /// may show others' legs that make sums right, or two debits that are each covered.
    fn legs_are_its_own_affair(&self, proposal: &Proposal<'_>) -> Result<(), Refusal> {
        for (at, leg) in proposal.legs.iter().enumerate() {
            let same = |other: &Leg| other.participant == leg.participant && other.account == leg.account;
            if proposal.legs[..at].iter().any(same) {
                return Err(Refusal::Malformed);
            }
            let settlement = match leg.account.role() {
                AccountRole::Settlement(asset, holder) => Some((asset, holder)),
                _ => None,
            };
            let is_concerned = |holder| proposal.participants.contains(&holder);
            if settlement.is_some_and(|(asset, holder)| asset != leg.asset || !is_concerned(holder)) {
                return Err(Refusal::NotProven);
            }
            let is_own_reserve = || {
                let settled_at = self.network.assets.get(leg.asset.index()).map(|asset| asset.settled_at);
                settlement.is_some_and(|(_, holder)| holder == self.participant)
                    && settled_at == Some(leg.participant)
            };
            if leg.participant != self.participant && !is_own_reserve() {
                return Err(Refusal::NotProven);
            }
        }
        Ok(())
    }

    /// The change in what the participant owes is the change of its settlement account. A scheduler of
    /// the same process has checked that for everybody.
    fn own_books_balance(&self, legs: &[Leg]) -> Result<(), Refusal> {
        // Of several reasons the one with the lowest number stands.
        if legs.iter().any(|leg| leg.asset.index() >= self.network.assets.len()) {
            return Err(Refusal::UnknownAsset);
        }
        for leg in legs {
            let asset = &self.network.assets[leg.asset.index()];
            let sum: i128 = legs
                .iter()
                .filter(|other| other.asset == leg.asset)
                .map(|other| {
                    let amount = i128::from(other.amount.0);
                    match other.account.role() {
                        AccountRole::Settlement(_, holder)
                            if holder == self.participant && other.participant == asset.settled_at =>
                        {
                            -amount
                        }
                        _ => amount,
                    }
                })
                .sum();
            if sum != 0 {
                return Err(Refusal::Unbalanced);
            }
        }
        Ok(())
    }

    fn check(&self, kind: Kind, leg: &Leg, signers: &[Signer]) -> Result<(), Refusal> {
        let account = self.accounts.get(leg.account).ok_or(Refusal::UnknownAccount)?;
        match account.status() {
            AccountStatus::Open => {}
            AccountStatus::Closed => return Err(Refusal::ClosedAccount),
            AccountStatus::Frozen => return Err(Refusal::BlockedAccount),
        }
        if account.asset != leg.asset {
            return Err(Refusal::WrongAsset);
        }
        self.check_owner(kind, leg, signers)?;
        let limit = self.network.assets.get(leg.asset.index()).ok_or(Refusal::UnknownAsset)?.largest_payment;
        if kind == Kind::Transfer && leg.amount.0.unsigned_abs() > limit.0.unsigned_abs() {
            return Err(Refusal::AboveLimit);
        }
        let after = account.balance.checked_add(leg.amount.0).ok_or(Refusal::BalanceOverflow)?;
        if leg.amount.is_debit() {
            if after < self.accounts.floor(leg.account, account).0 {
                return Err(Refusal::InsufficientFunds);
            }
        } else {
            let large =
                if self.large.is_empty() { 0 } else { self.large.get(&leg.account).copied().unwrap_or(0) };
            if i128::from(after) + large > i128::from(BALANCE_RANGE) {
                return Err(Refusal::BalanceOverflow);
            }
        }
        Ok(())
    }

    /// Who must have signed for a leg: the owner for a debit, the issuer for anything on its issuance
    /// account. A debit of a settlement account rests on the holder's own approval of the transaction.
    fn needed_key(&self, kind: Kind, leg: &Leg) -> Result<Needed<'_>, Refusal> {
        let free = kind == Kind::Transfer && self.network.signatures == SignaturePolicy::InstitutionsOnly;
        Ok(match leg.account.role() {
            AccountRole::Settlement(..) => Needed::None,
            AccountRole::Issuance(_) => Needed::Key(self.institution_key()?),
            _ if free || !leg.amount.is_debit() => Needed::None,
            AccountRole::Own(_) => Needed::Key(self.institution_key()?),
            AccountRole::Customer => {
                let account = self.accounts.get(leg.account).ok_or(Refusal::UnknownAccount)?;
                Needed::Key(self.accounts.owner(account).ok_or(Refusal::Unsigned)?)
            }
        })
    }

    fn check_owner(&self, kind: Kind, leg: &Leg, signers: &[Signer]) -> Result<(), Refusal> {
        match self.needed_key(kind, leg)? {
            Needed::Key(key) if !signs(signers, key) => Err(Refusal::Unsigned),
            _ => Ok(()),
        }
    }

    fn institution_key(&self) -> Result<&PublicKey, Refusal> {
        let participant = self.network.participants.get(self.participant.index());
        participant.map(|p| &p.key).ok_or(Refusal::UnknownParticipant)
    }

    #[inline]
    fn reserve(&mut self, leg: &Leg) {
        if leg.amount.is_debit() {
            self.accounts.apply(leg.account, leg.amount);
        }
        if leg.amount.0.unsigned_abs() > LARGE.unsigned_abs() {
            *self.large.entry(leg.account).or_default() += i128::from(leg.amount.0.unsigned_abs());
        }
    }

    /// Ends what [`Self::reserve`] began, by the transaction's outcome.
    #[inline]
    fn settle(&mut self, leg: &Leg, accepted: bool) {
        if leg.amount.is_debit() != accepted {
            // An accepted credit arrives; a refused debit comes back.
            let amount = if accepted { leg.amount } else { Amount(-leg.amount.0) };
            self.accounts.apply(leg.account, amount);
        }
        if leg.amount.0.unsigned_abs() > LARGE.unsigned_abs()
            && let Some(large) = self.large.get_mut(&leg.account)
        {
            *large -= i128::from(leg.amount.0.unsigned_abs());
            if *large == 0 {
                self.large.remove(&leg.account);
            }
        }
    }

    fn answer_order(
        &mut self,
        order: &AccountOrder,
        signers: &[Signer],
        answered: Answered<'_>,
    ) -> Result<(), Refusal> {
        if order.participant != self.participant || !signs(signers, self.institution_key()?) {
            return Err(Refusal::Unsigned);
        }
        match &order.action {
            AccountAction::Open { count, asset, alias, .. } => {
                if asset.index() >= self.network.assets.len() {
                    return Err(Refusal::UnknownAsset);
                }
                let next =
                    self.accounts.customers().checked_add(self.opening).ok_or(Refusal::OrderNotPossible)?;
                let end = next.checked_add(*count).filter(|end| *end <= AccountNumber::MAX_CUSTOMERS);
                if order.number.0 != next || end.is_none() {
                    return Err(Refusal::OrderNotPossible);
                }
                if !alias.is_empty() && self.aliases.contains(&alias_key(alias)) {
                    return Err(Refusal::OrderNotPossible);
                }
            }
            action => self.answer_change(order.number, action, answered)?,
        }
        self.promise(order);
        Ok(())
    }

    /// What an approved order changes before it is decided.
    fn promise(&mut self, order: &AccountOrder) {
        self.orders += 1;
        match &order.action {
            AccountAction::Open { count, alias, .. } => {
                if !alias.is_empty() {
                    self.aliases.insert(alias_key(alias));
                }
                self.opening += count;
            }
            AccountAction::SetFloor(floor) => {
                let account = self.accounts.get(order.number);
                if account.is_some_and(|account| *floor > self.accounts.floor(order.number, account)) {
                    self.accounts.set_floor(order.number, *floor);
                }
            }
            AccountAction::Freeze | AccountAction::Close => {
                let status = if order.action == AccountAction::Close {
                    AccountStatus::Closed
                } else {
                    AccountStatus::Frozen
                };
                if let Some(account) = self.accounts.get_mut(order.number) {
                    account.set_status(status);
                }
            }
            AccountAction::Release => {}
        }
    }

    fn answer_change(
        &self,
        number: AccountNumber,
        action: &AccountAction,
        answered: Answered<'_>,
    ) -> Result<(), Refusal> {
        let account = self.accounts.get(number).ok_or(Refusal::UnknownAccount)?;
        let status = account.status();
        match (action, status) {
            (_, AccountStatus::Closed) => return Err(Refusal::ClosedAccount),
            (AccountAction::Freeze, AccountStatus::Open) => {}
            // The second of two releases would end a freeze that is approved after the first is decided.
            (AccountAction::Release, AccountStatus::Frozen) => {
                if self.order_is_under_way(number, answered, |action| *action == AccountAction::Release) {
                    return Err(Refusal::OrderNotPossible);
                }
            }
            (AccountAction::Close, _) => {
                if account.balance != 0 || self.is_under_way(number, answered) {
                    return Err(Refusal::NotEmpty);
                }
            }
            (AccountAction::SetFloor(floor), _) => {
                // A stricter floor holds from now on, a looser one from its place in the sequence on. With
                // another still to come no debit could be measured.
                if self.order_is_under_way(number, answered, |a| matches!(a, AccountAction::SetFloor(_))) {
                    return Err(Refusal::OrderNotPossible);
                }
                if account.balance < floor.0 {
                    return Err(Refusal::InsufficientFunds);
                }
            }
            _ => return Err(Refusal::OrderNotPossible),
        }
        Ok(())
    }

    /// What is approved and undecided.
    fn approved<'a>(&'a self, answered: Answered<'a>) -> impl Iterator<Item = Proposal<'a>> {
        let earlier = self.open.values().flat_map(|open| {
            let approved = open.proposals.iter().zip(&open.approved);
            approved.filter(|(_, approved)| **approved).map(|(proposal, _)| proposal)
        });
        let here = answered.batch.iter().zip(answered.verdicts);
        here.filter(|(_, verdict)| **verdict == 0).map(|(proposal, _)| proposal).chain(earlier)
    }

    /// Whether an undecided payment or order touches the account. Orders are rare: searching is cheap enough.
    fn is_under_way(&self, number: AccountNumber, answered: Answered<'_>) -> bool {
        self.approved(answered).any(|proposal| {
            let mut legs = proposal.legs.iter();
            legs.any(|leg| leg.participant == self.participant && leg.account == number)
                || proposal.order.is_some_and(|order| order.number == number)
        })
    }

    /// Whether such an order on the account is approved and undecided.
    fn order_is_under_way(
        &self,
        number: AccountNumber,
        answered: Answered<'_>,
        is_such: impl Fn(&AccountAction) -> bool,
    ) -> bool {
        let such = |order: &AccountOrder| order.number == number && is_such(&order.action);
        self.approved(answered).any(|proposal| proposal.order.is_some_and(such))
    }

    /// Learns decisions in the order of the sequence.
    ///
    /// # Errors
    /// When the sequence contradicts what this approver's answers decide. It must not go on then.
    pub fn decide(&mut self, batch: &SequenceBatch) -> Result<(), DecideError> {
        if let Some(next) = &mut self.next {
            match batch.first.cmp(next) {
                Ordering::Less => return Ok(()),
                Ordering::Equal => *next += u64::from(batch.count),
                Ordering::Greater => {
                    return Err(DecideError::Gap { expected: *next, found: batch.first });
                }
            }
        }
        let Some(mut open) = self.open.remove(&batch.source) else {
            let seen = self.seen.get(&batch.source.scheduler).copied().unwrap_or(0);
            if batch.source.number < seen {
                return Ok(());
            }
            for (index, verdict) in batch.decisions() {
                if may_be_early(verdict) {
                    self.early.insert((batch.source, index));
                }
            }
            return Ok(());
        };
        const AHEAD: u32 = 64;
        for run in &batch.runs {
            for offset in 0..u32::from(run.count) {
                let Some(item) = open.proposals.position(run.index + offset) else { continue };
                if offset % AHEAD == 0 {
                    let first = open.first_leg[item] as usize;
                    let ahead = open.proposals.legs.len().min(first + 2 * AHEAD as usize);
                    self.accounts.touch(open.proposals.legs[first..ahead].iter().map(|leg| leg.account));
                }
                if std::mem::replace(&mut open.decided[item], true) {
                    return Err(DecideError::Twice { source_batch: batch.source, index: run.index + offset });
                }
                open.undecided -= 1;
                self.open_count -= 1;
                let approved = std::mem::take(&mut open.approved[item]);
                if !approved && run.verdict == 0 {
                    return Err(DecideError::NotApproved {
                        source_batch: batch.source,
                        index: run.index + offset,
                    });
                }
                if approved {
                    self.outcome(&open.proposals, item, open.first_leg[item], run.verdict == 0)?;
                }
            }
        }
        if open.undecided > 0 {
            self.open.insert(batch.source, open);
        }
        Ok(())
    }

    fn outcome(
        &mut self,
        proposals: &ProposalBatch,
        item: usize,
        first_leg: u32,
        accepted: bool,
    ) -> Result<(), DecideError> {
        let first = first_leg as usize;
        for leg in &proposals.legs[first..first + usize::from(proposals.shown[item])] {
            if leg.participant == self.participant {
                self.settle(leg, accepted);
            }
        }
        if proposals.headers[item].kind == Kind::Account.number() {
            let before =
                proposals.headers[..item].iter().filter(|h| h.kind == Kind::Account.number()).count();
            let order = &proposals.orders[before];
            // An order concerns one participant, whose yes decides it; what it promised is not taken back.
            if !accepted || !self.accounts.takes(order) {
                return Err(DecideError::Order {
                    source_batch: proposals.source,
                    index: proposals.indices[item],
                    account: AccountId { participant: order.participant, number: order.number },
                });
            }
            self.orders -= 1;
            if let AccountAction::Open { count, .. } = &order.action {
                self.opening -= count;
            }
            self.accounts.apply_order(order);
        }
        Ok(())
    }

    /// Takes back what was reserved for a payment.
    fn release(&mut self, proposals: &ProposalBatch, item: usize, first_leg: u32) {
        let first = first_leg as usize;
        for leg in &proposals.legs[first..first + usize::from(proposals.shown[item])] {
            if leg.participant == self.participant {
                self.settle(leg, false);
            }
        }
    }
}
