//! The state updater: applies decisions to one participant's balances in the one global order.
//!
//! It reads its participant's proposals, not copies made by the assembler, so that the assembler
//! needs no leg of anybody (decision 007). It applies what its participant's approver approved and
//! nothing else: a sequence that makes more stops this partition, and no other.

use crate::accounts::AccountTable;
use crate::aliases::Aliases;
use crate::message::{ApprovalBatch, ProposalBatch, SequenceBatch, Source};
use std::collections::HashMap;
use std::sync::Arc;
use tally_ledger::order::{AccountAction, AccountOrder};
use tally_ledger::{AccountId, AccountNumber, Kind, ParticipantId};

/// One participant's state updater.
pub struct Updater {
    participant: ParticipantId,
    accounts: AccountTable,
    aliases: Aliases,
    /// Decisions of the global order below this are applied.
    applied: u64,
    open: HashMap<Source, Open>,
    /// Per scheduler, the number after the last batch of which proposals, or word that there are none, have come.
    seen: HashMap<u64, u64>,
    /// Answers that came before the proposals that they are about.
    early: HashMap<Source, Vec<Arc<ApprovalBatch>>>,
    /// While proposals from before a recovery come again: what of them is decided. Those below `seen` of
    /// which nothing is here are wholly decided.
    recovered: HashMap<Source, Vec<bool>>,
    /// Whether it applies only what the participant's approver approved.
    needs_answers: bool,
}

struct Open {
    proposals: Arc<ProposalBatch>,
    /// The first leg of each.
    first_leg: Vec<u32>,
    /// Which are decided; by position in the proposal batch.
    decided: Vec<bool>,
    /// What the participant's approver answered to each; none while it has not.
    answers: Vec<Option<u16>>,
    /// Whether the answer came before the proposals did: it gives way to one that comes after them, since the assembler may
    /// have taken it for one to a batch that there is not.
    early: Vec<bool>,
    unanswered: usize,
    undecided: usize,
}

/// A decision that an updater does not apply: the sequence makes what its institution never agreed to.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UpdateError {
    /// The participant's approver refused what the sequence makes.
    #[error(
        "sequence number {sequence} makes transaction {index} of {source_batch:?}, which this institution refused \
         with reason {answer}; the record of the sequence, its signed head and the institution's answer are evidence \
         against the operator"
    )]
    NotApproved {
        /// Of the decision.
        sequence: u64,
        /// The accepted batch.
        source_batch: Source,
        /// The transaction in it.
        index: u32,
        /// The refusal's number.
        answer: u16,
    },
    /// A debit would take the account below its floor.
    #[error(
        "sequence number {sequence} takes account {account} from {balance} to {after}, below its floor of {floor}"
    )]
    BelowFloor {
        /// Of the decision.
        sequence: u64,
        /// The account.
        account: AccountId,
        /// Its balance before, in minor units.
        balance: i64,
        /// Its balance after, in minor units.
        after: i64,
        /// How far below zero it may go, in minor units.
        floor: i64,
    },
    /// There is no such account.
    #[error("sequence number {sequence} moves money on account {account}, which does not exist")]
    UnknownAccount {
        /// Of the decision.
        sequence: u64,
        /// The account.
        account: AccountId,
    },
    /// The sequence has account orders in another order than that in which they were approved.
    #[error("sequence number {sequence} has an order for account {account} before the one that opens it")]
    OrderOutOfPlace {
        /// Of the decision.
        sequence: u64,
        /// The account.
        account: AccountId,
    },
    /// A transaction has two outcomes.
    #[error("sequence number {sequence} decides transaction {index} of {source_batch:?} a second time")]
    DecidedTwice {
        /// Of the decision.
        sequence: u64,
        /// The accepted batch.
        source_batch: Source,
        /// The transaction in it.
        index: u32,
    },
    /// The sequence has a gap.
    #[error("the sequence goes on with number {found} where {expected} is next")]
    Gap {
        /// The number that is next.
        expected: u64,
        /// The number found.
        found: u64,
    },
}

/// What an updater has under way besides its balances: enough to go on when its proposals are read again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UpdaterProgress {
    /// Per scheduler, the number after the last batch of which it was sent something.
    pub seen: Vec<(u64, u64)>,
    /// Batches that are not wholly decided, and which of their proposals are; empty where none is.
    pub open: Vec<(Source, Vec<bool>)>,
}

impl Updater {
    /// An updater to which everything below sequence number `applied` is applied.
    pub fn new(accounts: AccountTable, aliases: Aliases, applied: u64) -> Self {
        Self {
            participant: accounts.participant(),
            accounts,
            aliases,
            applied,
            open: HashMap::new(),
            seen: HashMap::new(),
            early: HashMap::new(),
            recovered: HashMap::new(),
            needs_answers: true,
        }
    }

    /// An updater of one who shows the participant's balances and does not act for it. It takes the sequence's word for what
    /// the participant approved, and goes on where the participant approved what it must not: such a leg may take an account
    /// below its floor, and where there is no such account it is left out.
    #[must_use]
    pub fn without_answers(self) -> Self {
        Self { needs_answers: false, ..self }
    }

    /// Recovers what was under way. The proposals of [`UpdaterProgress::open`] come again.
    pub fn recover(&mut self, progress: UpdaterProgress) {
        self.seen = progress.seen.into_iter().collect();
        self.recovered = progress.open.into_iter().collect();
    }

    /// What is under way. Not while proposals from before a recovery are still to come.
    pub fn progress(&self) -> UpdaterProgress {
        let mut seen: Vec<_> = self.seen.iter().map(|(scheduler, next)| (*scheduler, *next)).collect();
        seen.sort_unstable();
        let mut open: Vec<_> =
            self.open.iter().map(|(source, open)| (*source, open.decided.clone())).collect();
        open.extend(self.recovered.iter().map(|(source, decided)| (*source, decided.clone())));
        open.sort_unstable();
        UpdaterProgress { seen, open }
    }

    /// Whether proposals of the batch, or word that there are none, have come.
    pub fn has_seen(&self, source: Source) -> bool {
        self.seen.get(&source.scheduler).is_some_and(|next| source.number < *next)
            && !self.recovered.contains_key(&source)
    }

    /// Whether a batch is wholly decided, as far as it concerns the participant.
    pub fn is_over(&self, source: Source) -> bool {
        self.has_seen(source) && !self.is_open(source)
    }

    /// Whether proposals of the batch are kept that are not all decided.
    pub fn is_open(&self, source: Source) -> bool {
        self.open.contains_key(&source)
    }

    /// What is kept of a batch: its proposals and which of them are decided.
    pub fn open(&self, source: Source) -> Option<(&Arc<ProposalBatch>, &[bool])> {
        self.open.get(&source).map(|open| (&open.proposals, open.decided.as_slice()))
    }

    /// The accounts as of [`Self::applied`].
    pub fn accounts(&self) -> &AccountTable {
        &self.accounts
    }
    /// The account of that IBAN or other alias.
    pub fn alias(&self, alias: &str) -> Option<AccountNumber> {
        self.aliases.get(alias)
    }
    /// The directory of aliases.
    pub fn aliases(&self) -> &Aliases {
        &self.aliases
    }
    /// Every decision below this sequence number is applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Keeps proposals until they are decided. Those that were decided before a recovery are passed over.
    pub fn propose(&mut self, batch: Arc<ProposalBatch>) {
        if batch.participant != self.participant {
            return;
        }
        let source = batch.source;
        let early = self.early.remove(&source).unwrap_or_default();
        let seen = self.seen.entry(source.scheduler).or_default();
        let again = source.number < *seen;
        *seen = (*seen).max(source.number + 1);
        let decided = match self.recovered.remove(&source) {
            Some(decided) if !decided.is_empty() => {
                assert_eq!(decided.len(), batch.len(), "a batch is proposed again as it was");
                decided
            }
            None if again => return,
            _ => vec![false; batch.len()],
        };
        let undecided = decided.iter().filter(|decided| !**decided).count();
        if undecided == 0 {
            return;
        }
        let first = batch.iter().map(|p| u32::try_from(p.first_leg).expect("batches are bounded"));
        let first_leg = first.collect();
        let answer = if self.needs_answers { None } else { Some(0) };
        let unanswered = if self.needs_answers { batch.len() } else { 0 };
        let (answers, is_early) = (vec![answer; batch.len()], vec![false; batch.len()]);
        let mut open =
            Open { proposals: batch, first_leg, decided, answers, early: is_early, unanswered, undecided };
        for early in early {
            open.answer(&early, true);
        }
        self.open.insert(source, open);
    }

    /// Learns what the participant's approver answered. The first answer to a transaction stands. As the assembler does, it
    /// passes over all of what contradicts an earlier answer, or is an answer to something else.
    pub fn answer(&mut self, batch: &Arc<ApprovalBatch>) {
        if batch.participant != self.participant {
            return;
        }
        if let Some(open) = self.open.get_mut(&batch.source) {
            open.answer(batch, false);
        } else if !self.has_seen(batch.source) {
            self.early.entry(batch.source).or_default().push(Arc::clone(batch));
        }
    }

    /// Whether anything of the batch is kept until it is decided: proposals, or answers to proposals that have not come.
    pub fn awaits(&self, source: Source) -> bool {
        self.is_open(source) || self.early.contains_key(&source)
    }

    /// Whether a record of the sequence can be applied: the proposals that it decides have come, and the approver's answer
    /// to each of those that it makes.
    pub fn is_ready(&self, batch: &SequenceBatch) -> bool {
        if !self.has_seen(batch.source) {
            return false;
        }
        let Some(open) = self.open.get(&batch.source).filter(|open| open.unanswered > 0) else { return true };
        let mut made = batch.runs.iter().filter(|run| run.verdict == 0);
        made.all(|run| {
            (run.index..run.index + u32::from(run.count))
                .all(|index| open.proposals.position(index).is_none_or(|item| open.answers[item].is_some()))
        })
    }

    /// Why nothing of a record of the sequence that is ready is ever applied: it leaves a gap, or makes what the participant has
    /// only refused, as far as its answers have come.
    pub fn contradiction(&self, batch: &SequenceBatch) -> Option<UpdateError> {
        if batch.first > self.applied {
            return Some(UpdateError::Gap { expected: self.applied, found: batch.first });
        }
        let open = self.open.get(&batch.source)?;
        let mut made = batch.decisions().zip(batch.first..).filter(|((_, verdict), _)| *verdict == 0);
        made.find_map(|((index, _), sequence)| {
            let item = open.proposals.position(index)?;
            let answer = open.answers[item].filter(|answer| *answer != 0)?;
            Some(UpdateError::NotApproved { sequence, source_batch: batch.source, index, answer })
        })
    }

    /// Applies decisions whose proposals and answers have come ([`Self::is_ready`]), or that were never for this
    /// participant.
    ///
    /// # Errors
    /// When the sequence makes what the participant's approver did not approve, or contradicts itself. This updater must
    /// not go on then: its balances end somewhere within this record.
    ///
    /// # Panics
    /// When the record is not ready.
    pub fn apply(&mut self, batch: &SequenceBatch) -> Result<(), UpdateError> {
        if batch.first < self.applied {
            return Ok(());
        }
        if batch.first != self.applied {
            return Err(UpdateError::Gap { expected: self.applied, found: batch.first });
        }
        self.applied += u64::from(batch.count);
        let Some(mut open) = self.open.remove(&batch.source) else { return Ok(()) };
        const AHEAD: u32 = 64;
        let mut sequence = batch.first;
        for run in &batch.runs {
            for offset in 0..u32::from(run.count) {
                sequence += 1;
                let Some(item) = open.proposals.position(run.index + offset) else { continue };
                let first = open.first_leg[item] as usize;
                if offset % AHEAD == 0 {
                    let ahead = open.proposals.legs.len().min(first + 2 * AHEAD as usize);
                    self.accounts.touch(open.proposals.legs[first..ahead].iter().map(|leg| leg.account));
                }
                let (source_batch, index, sequence) = (batch.source, run.index + offset, sequence - 1);
                if std::mem::replace(&mut open.decided[item], true) {
                    return Err(UpdateError::DecidedTwice { sequence, source_batch, index });
                }
                open.undecided -= 1;
                if run.verdict != 0 {
                    continue;
                }
                let answer = open.answers[item].expect("a record is applied when its answers have come");
                if answer != 0 {
                    return Err(UpdateError::NotApproved { sequence, source_batch, index, answer });
                }
                self.make(&open, item, sequence)?;
            }
        }
        if open.undecided > 0 {
            self.open.insert(batch.source, open);
        }
        Ok(())
    }

    /// Makes one approved transaction true.
    fn make(&mut self, open: &Open, item: usize, sequence: u64) -> Result<(), UpdateError> {
        let first = open.first_leg[item] as usize;
        for leg in &open.proposals.legs[first..first + usize::from(open.proposals.shown[item])] {
            if leg.participant != self.participant {
                continue;
            }
            let id = || AccountId { participant: leg.participant, number: leg.account };
            let account = self.accounts.get(leg.account);
            if !self.needs_answers {
                if account.is_some_and(|account| account.balance.checked_add(leg.amount.0).is_some()) {
                    self.accounts.apply(leg.account, leg.amount);
                }
                continue;
            }
            let Some(account) = account else {
                return Err(UpdateError::UnknownAccount { sequence, account: id() });
            };
            let balance = account.balance;
            let after = balance.checked_add(leg.amount.0).expect("approved sums stay in range");
            if leg.amount.is_debit() && after < 0 {
                let floor = self.accounts.floor(leg.account, account).0;
                if after < floor {
                    return Err(UpdateError::BelowFloor { sequence, account: id(), balance, after, floor });
                }
            }
            self.accounts.apply(leg.account, leg.amount);
        }
        if open.proposals.headers[item].kind == Kind::Account.number() {
            let headers = &open.proposals.headers[..item];
            let before = headers.iter().filter(|h| h.kind == Kind::Account.number()).count();
            let order = &open.proposals.orders[before];
            if !self.accounts.takes(order) {
                if !self.needs_answers {
                    return Ok(());
                }
                let account = AccountId { participant: order.participant, number: order.number };
                return Err(UpdateError::OrderOutOfPlace { sequence, account });
            }
            apply_order(&mut self.accounts, &mut self.aliases, order);
        }
        Ok(())
    }
}

impl Open {
    /// Notes the approver's answers.
    fn answer(&mut self, batch: &ApprovalBatch, early: bool) {
        if batch.source_len != self.proposals.source_len {
            return;
        }
        let mut items = Vec::with_capacity(batch.indices.len());
        for (index, verdict) in batch.indices.iter().zip(&batch.verdicts) {
            let Some(item) = self.proposals.position(*index) else { return };
            let stands = self.answers[item].filter(|_| early || !self.early[item]);
            if stands.is_some_and(|answer| answer != *verdict) {
                return;
            }
            items.push(item);
        }
        for (item, verdict) in items.into_iter().zip(&batch.verdicts) {
            self.unanswered -= usize::from(self.answers[item].is_none());
            self.answers[item] = Some(*verdict);
            self.early[item] = early;
        }
    }
}

/// Makes a decided order true in a partition and its directory of aliases.
pub(crate) fn apply_order(accounts: &mut AccountTable, aliases: &mut Aliases, order: &AccountOrder) {
    accounts.apply_order(order);
    if let AccountAction::Open { alias, .. } = &order.action
        && !alias.is_empty()
    {
        aliases.insert(alias, order.number);
    }
}
