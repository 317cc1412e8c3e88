//! The state updater: applies decisions to one participant's balances in the one global order.
//!
//! It reads its participant's proposals, not copies made by the assembler, so that the assembler
//! needs no leg of anybody (decision 007).

use crate::accounts::AccountTable;
use crate::aliases::Aliases;
use crate::message::{ProposalBatch, SequenceBatch, Source};
use std::collections::HashMap;
use std::sync::Arc;
use tally_ledger::order::{AccountAction, AccountOrder};
use tally_ledger::{AccountNumber, Kind, ParticipantId};

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
    /// While proposals from before a recovery come again: what of them is decided. Those below `seen` of
    /// which nothing is here are wholly decided.
    recovered: HashMap<Source, Vec<bool>>,
}

struct Open {
    proposals: Arc<ProposalBatch>,
    /// The first leg of each.
    first_leg: Vec<u32>,
    /// Which are decided; by position in the proposal batch.
    decided: Vec<bool>,
    undecided: usize,
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
            recovered: HashMap::new(),
        }
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
        self.open.insert(source, Open { proposals: batch, first_leg, decided, undecided });
    }

    /// Applies decisions whose proposals were kept, or were never for this participant. Proposals come before the
    /// decisions on them; see [`Self::has_seen`].
    pub fn apply(&mut self, batch: &SequenceBatch) {
        if batch.first < self.applied {
            return;
        }
        assert_eq!(batch.first, self.applied, "decisions are applied in the one global order");
        self.applied += u64::from(batch.count);
        let Some(mut open) = self.open.remove(&batch.source) else { return };
        const AHEAD: u32 = 64;
        for run in &batch.runs {
            for offset in 0..u32::from(run.count) {
                let Some(item) = open.proposals.position(run.index + offset) else { continue };
                let first = open.first_leg[item] as usize;
                if offset % AHEAD == 0 {
                    let ahead = open.proposals.legs.len().min(first + 2 * AHEAD as usize);
                    self.accounts.touch(open.proposals.legs[first..ahead].iter().map(|leg| leg.account));
                }
                assert!(!std::mem::replace(&mut open.decided[item], true), "a transaction is decided once");
                open.undecided -= 1;
                if run.verdict == 0 {
                    for leg in &open.proposals.legs[first..first + usize::from(open.proposals.shown[item])] {
                        if leg.participant == self.participant {
                            self.accounts.apply(leg.account, leg.amount);
                        }
                    }
                    if open.proposals.headers[item].kind == Kind::Account.number() {
                        let headers = &open.proposals.headers[..item];
                        let before = headers.iter().filter(|h| h.kind == Kind::Account.number()).count();
                        apply_order(&mut self.accounts, &mut self.aliases, &open.proposals.orders[before]);
                    }
                }
            }
        }
        if open.undecided > 0 {
            self.open.insert(batch.source, open);
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
