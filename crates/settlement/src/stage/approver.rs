//! The approver: its participant's yes or no to each proposal.
//!
//! It reserves debits when it approves, so that approved sums are never spent twice, and learns the
//! outcome from the sequence: a debit that was refused elsewhere becomes available again, a credit
//! becomes available when its payment is final.

use crate::accounts::{AccountTable, BALANCE_RANGE};
use crate::message::{ApprovalBatch, ApprovalSigner, Proposal, ProposalBatch, SequenceBatch, Source};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tally_crypto::{Hash, PublicKey, Signature, SigningKey};
use tally_ledger::batch::Hasher;
use tally_ledger::order::{AccountAction, AccountOrder};
use tally_ledger::refusal::verdict_number;
use tally_ledger::transaction::{Kind, Leg};
use tally_ledger::{
    AccountNumber, AccountRole, AccountStatus, Amount, Network, ParticipantId, Refusal, SignaturePolicy,
    Timestamp,
};

/// Amounts above this are counted one by one while they are under way; those below are so many to a
/// balance's range that no number of them in flight can leave it.
const LARGE: i64 = 1 << 40;
/// The most transactions under way at once.
const MAX_OPEN: usize = 1 << 20;

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
    clock: Timestamp,
    hasher: Hasher,
    leg_hashes: Vec<Hash>,
    all_hashes: Vec<Hash>,
    signer: ApprovalSigner,
}

/// A proposal batch that is answered and not wholly decided.
struct Open {
    proposals: Arc<ProposalBatch>,
    /// Which are approved and undecided; by position in the proposal batch.
    approved: Vec<bool>,
    /// The first leg of each; empty while every transaction shows two legs.
    first_leg: Vec<u32>,
    undecided: usize,
}

/// What is said to each proposal of a batch, and where its legs begin.
struct Judged {
    verdicts: Vec<u16>,
    first_leg: Vec<u32>,
}

/// Whether a verdict rests on what payments and orders have made of the accounts, so that one more decision may change it.
fn may_pass(verdict: u16) -> bool {
    use Refusal::{
        BalanceOverflow, BlockedAccount, InsufficientFunds, NotEmpty, OrderNotPossible, UnknownAccount,
    };
    [InsufficientFunds, UnknownAccount, BlockedAccount, BalanceOverflow, NotEmpty, OrderNotPossible]
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
            clock: Timestamp(0),
            hasher: Hasher::default(),
            leg_hashes: Vec::new(),
            all_hashes: Vec::new(),
            signer: ApprovalSigner::default(),
        }
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
                self.open.insert(source, Open { proposals, approved, first_leg, undecided });
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

    /// Whether a batch is answered and not wholly decided.
    pub fn is_open(&self, source: Source) -> bool {
        self.open.contains_key(&source)
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
        if let Some(judged) = &judged
            && judged.verdicts.iter().any(|verdict| may_pass(*verdict))
        {
            self.take_back(&batch, judged);
            return Err(batch);
        }
        Ok(self.answer_as(judged, batch))
    }

    /// Whether an answer to the batch would say nothing new.
    fn is_answered(&self, batch: &ProposalBatch) -> bool {
        let source = batch.source;
        let below = self.recovered.below.get(&source.scheduler).is_some_and(|below| source.number < *below);
        batch.participant != self.participant
            || self.open.contains_key(&source)
            || (below && !self.recovered.open.contains_key(&source))
    }

    fn judge_unless_answered(&mut self, now: Timestamp, batch: &ProposalBatch) -> Option<Judged> {
        self.clock = self.clock.max(now);
        (!self.is_answered(batch)).then(|| self.judge(batch))
    }

    fn answer_as(&mut self, judged: Option<Judged>, batch: Arc<ProposalBatch>) -> Option<ApprovalBatch> {
        if batch.participant != self.participant || self.open.contains_key(&batch.source) {
            return None;
        }
        let source = batch.source;
        let seen = self.seen.entry(source.scheduler).or_default();
        *seen = (*seen).max(source.number + 1);
        let judged = judged?;
        if let Some(decided) = self.recovered.open.remove(&source) {
            let indices = batch.indices.iter().zip(decided).filter(|(_, decided)| *decided);
            self.early.extend(indices.map(|(index, _)| (source, *index)));
        }
        let approval = (!batch.is_empty()).then(|| self.answer_all(judged, batch));
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
        for proposal in batch.iter() {
            if proposal.item % AHEAD == 0 {
                let ahead =
                    &batch.legs[proposal.first_leg..batch.legs.len().min(proposal.first_leg + 2 * AHEAD)];
                self.accounts.touch(ahead.iter().map(|leg| leg.account));
            }
            first_leg.push(u32::try_from(proposal.first_leg).expect("batches are bounded"));
            let verdict = self.answer(&proposal, Answered { batch, verdicts: &verdicts });
            verdicts.push(verdict_number(verdict));
        }
        Judged { verdicts, first_leg }
    }

    /// Takes back what was reserved for a batch without orders.
    fn take_back(&mut self, batch: &ProposalBatch, judged: &Judged) {
        for (proposal, verdict) in batch.iter().zip(&judged.verdicts) {
            if *verdict == 0 {
                self.outcome(batch, proposal.item, judged.first_leg[proposal.item], false);
            }
        }
    }

    fn answer_all(&mut self, judged: Judged, batch: Arc<ProposalBatch>) -> ApprovalBatch {
        let Judged { verdicts, first_leg } = judged;
        let mut approval = ApprovalBatch {
            source: batch.source,
            source_len: batch.source_len,
            participant: self.participant,
            indices: batch.indices.clone(),
            ids: self.ids(&batch),
            verdicts,
            participants: batch.headers.iter().map(|header| header.participants).collect(),
            expiries: batch.headers.iter().map(|header| header.expiry).collect(),
            signature: Signature::from_bytes([0; 64]),
        };
        self.signer.sign(&mut approval, &self.key);
        let mut approved: Vec<bool> = approval.verdicts.iter().map(|number| *number == 0).collect();
        let mut undecided = batch.len();
        if !self.early.is_empty() {
            undecided -= self.forget_early(&batch, &first_leg, &mut approved);
        }
        if undecided > 0 {
            self.open_count += undecided;
            self.open.insert(batch.source, Open { proposals: batch, approved, first_leg, undecided });
        }
        approval
    }

    /// The ids, recomputed: an approval is for what the participant was shown and nothing else.
    fn ids(&mut self, batch: &ProposalBatch) -> Vec<Hash> {
        let legs = batch.legs.iter().zip(&batch.salts).zip(&batch.positions);
        self.hasher.legs(
            legs.map(|((leg, salt), position)| (leg, salt.as_slice(), *position)),
            &mut self.leg_hashes,
        );
        let mut ids = Vec::new();
        if batch.hidden.is_empty() {
            self.hasher.ids(&batch.headers, &self.leg_hashes, &mut ids);
            return ids;
        }
        self.all_hashes.clear();
        for proposal in batch.iter() {
            let mut hidden = proposal.hidden.iter();
            let mut shown = (proposal.first_leg..).zip(proposal.positions).peekable();
            for position in 0..proposal.header.legs {
                let hash = match shown.next_if(|(_, at)| **at == position) {
                    Some((leg, _)) => Some(&self.leg_hashes[leg]),
                    None => hidden.next(),
                };
                self.all_hashes.push(hash.copied().unwrap_or(Hash::ZERO));
            }
        }
        self.hasher.ids(&batch.headers, &self.all_hashes, &mut ids);
        ids
    }

    fn answer(&mut self, proposal: &Proposal<'_>, answered: Answered<'_>) -> Result<(), Refusal> {
        let header = proposal.header;
        let kind = Kind::from_number(header.kind).ok_or(Refusal::NotProven)?;
        if header.network != self.network.id || proposal.positions.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Refusal::NotProven);
        }
        if header.expiry <= self.clock {
            return Err(Refusal::Expired);
        }
        if let Some(order) = proposal.order {
            if header.details != order.hash() {
                return Err(Refusal::NotProven);
            }
            return self.answer_order(order, proposal.signers, answered);
        }
        if header.participants > 1 {
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

    /// The change in what the participant owes is the change of its settlement account. The scheduler
    /// has checked that for everybody; an institution's approval does not rest on it.
    fn own_books_balance(&self, legs: &[Leg]) -> Result<(), Refusal> {
        for leg in legs {
            let Some(asset) = self.network.assets.get(leg.asset.index()) else {
                return Err(Refusal::UnknownAsset);
            };
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

    fn check(&self, kind: Kind, leg: &Leg, signers: &[PublicKey]) -> Result<(), Refusal> {
        let account = self.accounts.get(leg.account).ok_or(Refusal::UnknownAccount)?;
        match account.status() {
            AccountStatus::Open => {}
            AccountStatus::Closed => return Err(Refusal::ClosedAccount),
            AccountStatus::Frozen => return Err(Refusal::BlockedAccount),
        }
        if account.asset != leg.asset {
            return Err(Refusal::WrongAsset);
        }
        self.check_owner(kind, leg, account.owner, signers)?;
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
    fn check_owner(&self, kind: Kind, leg: &Leg, owner: u32, signers: &[PublicKey]) -> Result<(), Refusal> {
        let free = kind == Kind::Transfer && self.network.signatures == SignaturePolicy::InstitutionsOnly;
        let key = match leg.account.role() {
            AccountRole::Settlement(..) => return Ok(()),
            AccountRole::Issuance(_) => Some(self.institution_key()?),
            _ if free || !leg.amount.is_debit() => return Ok(()),
            AccountRole::Own(_) => Some(self.institution_key()?),
            AccountRole::Customer => self.accounts.owners.get(owner as usize),
        };
        match key {
            Some(key) if signers.contains(key) => Ok(()),
            _ => Err(Refusal::Unsigned),
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
        signers: &[PublicKey],
        answered: Answered<'_>,
    ) -> Result<(), Refusal> {
        if order.participant != self.participant || !signers.contains(self.institution_key()?) {
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
            (AccountAction::Freeze, AccountStatus::Open)
            | (AccountAction::Release, AccountStatus::Frozen) => {}
            (AccountAction::Close, _) => {
                if account.balance != 0 || self.is_under_way(number, answered) {
                    return Err(Refusal::NotEmpty);
                }
            }
            (AccountAction::SetFloor(floor), _) => {
                // A stricter floor holds from now on, a looser one from its place in the sequence on. With
                // another still to come no debit could be measured.
                if self.floor_is_under_way(number, answered) {
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

    /// Whether an undecided order changes the account's floor.
    fn floor_is_under_way(&self, number: AccountNumber, answered: Answered<'_>) -> bool {
        let changes = |order: &AccountOrder| {
            order.number == number && matches!(order.action, AccountAction::SetFloor(_))
        };
        self.approved(answered).any(|proposal| proposal.order.is_some_and(changes))
    }

    /// Learns decisions in the order of the sequence.
    pub fn decide(&mut self, batch: &SequenceBatch) {
        let Some(mut open) = self.open.remove(&batch.source) else {
            let seen = self.seen.get(&batch.source.scheduler).copied().unwrap_or(0);
            if batch.source.number < seen {
                return;
            }
            for (index, verdict) in batch.decisions() {
                if may_be_early(verdict) {
                    self.early.insert((batch.source, index));
                }
            }
            return;
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
                open.undecided -= 1;
                self.open_count -= 1;
                if std::mem::take(&mut open.approved[item]) {
                    self.outcome(&open.proposals, item, open.first_leg[item], run.verdict == 0);
                }
            }
        }
        if open.undecided > 0 {
            self.open.insert(batch.source, open);
        }
    }

    fn outcome(&mut self, proposals: &ProposalBatch, item: usize, first_leg: u32, accepted: bool) {
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
            self.orders -= 1;
            if let AccountAction::Open { count, .. } = &order.action {
                self.opening -= count;
            }
            assert!(accepted, "an order concerns one participant, whose yes decides it");
            self.accounts.apply_order(order);
        }
    }

    /// Takes back what was approved in `batch` and was decided before it came; says how many.
    fn forget_early(&mut self, batch: &ProposalBatch, first_leg: &[u32], approved: &mut [bool]) -> usize {
        let mut forgotten = 0;
        for (item, index) in batch.indices.iter().enumerate() {
            if self.early.remove(&(batch.source, *index)) {
                forgotten += 1;
                if std::mem::take(&mut approved[item]) {
                    self.outcome(batch, item, first_leg[item], false);
                }
            }
        }
        forgotten
    }
}
