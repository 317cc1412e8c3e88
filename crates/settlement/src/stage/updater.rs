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
}

struct Open {
    proposals: Arc<ProposalBatch>,
    /// The first leg of each; built when decisions do not come in one run.
    first_leg: Vec<u32>,
    undecided: usize,
}

impl Updater {
    /// An updater to which everything below sequence number `applied` is applied.
    pub fn new(accounts: AccountTable, aliases: Aliases, applied: u64) -> Self {
        Self { participant: accounts.participant(), accounts, aliases, applied, open: HashMap::new() }
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

    /// Keeps proposals until they are decided.
    pub fn propose(&mut self, batch: Arc<ProposalBatch>) {
        if batch.participant != self.participant || batch.is_empty() {
            return;
        }
        let undecided = batch.len();
        self.open.entry(batch.source).or_insert_with(|| Open {
            proposals: batch,
            first_leg: Vec::new(),
            undecided,
        });
    }

    /// Whether the proposals that these decisions are about were kept, or were never for this participant.
    /// Proposals come before the decisions on them; see [`crate::runtime::shell`].
    pub fn apply(&mut self, batch: &SequenceBatch) {
        if batch.first < self.applied {
            return;
        }
        assert_eq!(batch.first, self.applied, "decisions are applied in the one global order");
        self.applied += u64::from(batch.count);
        let Some(mut open) = self.open.remove(&batch.source) else { return };
        if open.first_leg.is_empty() {
            let first =
                open.proposals.iter().map(|p| u32::try_from(p.first_leg).expect("batches are bounded"));
            open.first_leg = first.collect();
        }
        const AHEAD: u32 = 64;
        for run in &batch.runs {
            for offset in 0..u32::from(run.count) {
                let Some(item) = open.proposals.position(run.index + offset) else { continue };
                let first = open.first_leg[item] as usize;
                if offset % AHEAD == 0 {
                    let ahead = open.proposals.legs.len().min(first + 2 * AHEAD as usize);
                    self.accounts.touch(open.proposals.legs[first..ahead].iter().map(|leg| leg.account));
                }
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
