//! The audit: reads the logs alone and asks of every change whose key allowed it.
//!
//! It is independent of the engine: it has its own book of accounts, its own rules and its own arithmetic, and shares
//! with the engine what bytes mean (records, the hash that is a transaction's id, signatures) and nothing else. A test
//! holds it to that. What it proves, and what it cannot, is in `docs/decisions/016-audit.md` and `docs/THREATS.md`.

mod book;
mod finding;
mod form;
mod item;
mod open;
mod pass;
mod references;
mod signatures;
mod sums;

pub use finding::{Change, Fault, Finding, Findings, Subject};
pub use sums::{BooksDiffer, books_match, totals};

use crate::engine::Total;
use crate::journal::{self, JournalError};
use crate::message::{ConsentBatch, ProposalBatch, SequenceBatch};
use pass::{Pass, Plan};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_crypto::PublicKey;
use tally_ledger::{AccountNumber, Amount, AssetId, Network, ParticipantId};
use tally_log::{FileLog, LogError, OpenReport, Ticket};

/// How many findings are kept unless [`Audit::findings`] says otherwise.
pub const FINDINGS: usize = 20;

/// What is wrong with the logs.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The journal could not be opened.
    #[error("the journal in {path} cannot be opened")]
    Open {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: LogError,
    },
    /// It could not be read; what was read before is in order.
    #[error("the audit stopped")]
    Journal(#[from] JournalError),
    /// What the logs say is not in order.
    #[error("{findings}")]
    NotInOrder {
        /// What was found.
        findings: Findings,
        /// Why the audit did not go on to the end, if it did not.
        #[source]
        stopped: Option<JournalError>,
    },
}

/// What to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditOptions {
    /// Verify the signatures again, on all processors: about 2 µs of one each with AVX-512 IFMA, 13 µs without.
    /// Without it, who signed is taken from the journal's word.
    pub signatures: bool,
}

/// What an audit without findings found.
#[derive(Debug, Clone)]
pub struct AuditReport {
    /// What opening the journal found, if it lies in files.
    pub journal: Option<OpenReport>,
    /// The institution whose partition alone was audited; all if none.
    pub institution: Option<ParticipantId>,
    /// From where on, where not everything was at hand; none for an audit from the beginning.
    pub coverage: Option<Coverage>,
    /// Transactions accepted; where one institution is audited from what it is shown, those that concern it.
    pub accepted: u64,
    /// Transactions decided.
    pub sequenced: u64,
    /// Of these, made; where one institution is audited, those that concern it.
    pub made: u64,
    /// Accepted and not decided: a process that starts decides them.
    pub undecided: u64,
    /// Made, and sequenced later after their expiry than an answer that was given in time may take. Nothing is wrong
    /// with them as such: a stage that stood still decides late what was approved in time.
    pub late: u64,
    /// Leaves of the Merkle log.
    pub tree_size: u64,
    /// Its root.
    pub tree_root: [u8; 32],
    /// The books.
    pub totals: Vec<Total>,
    /// How long it took.
    pub took: Duration,
}

/// A limit that was looser before. The configuration says what holds now, and an engine judges by that alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Earlier {
    /// The sequence number from which on what the configuration says holds.
    pub until: u64,
    /// What held before.
    pub limit: Limit,
}

/// A limit that an institution or the operator may change while the network is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// The largest leg of a transfer of the asset, in minor units.
    LargestPayment(AssetId, Amount),
    /// How far below zero, as an amount of zero or less in minor units, the holder's settlement account may go.
    SettlementFloor(ParticipantId, AssetId, Amount),
}

/// What one institution is shown of the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shown {
    /// What concerns it of an accepted batch.
    Proposed(ProposalBatch),
    /// What another institution agreed to, of what was proposed.
    Agreed(ConsentBatch),
    /// Decisions, its own and others'.
    Sequenced(SequenceBatch),
}

/// A record that one institution may read; what a record of the sequence decides was proposed, and agreed to, before it.
pub type ShownEntry = Result<(Ticket, Shown), JournalError>;

/// From where on an institution's partition can be audited.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Beginning {
    /// Everything that is decided from this sequence number on was proposed in what is at hand.
    pub from: u64,
    /// The accounts at some later place of the sequence, where what is at hand does not go back to the first decision.
    pub accounts: Option<Opened>,
    /// By assembler, whether what it showed of others' consents is not at hand from the beginning; empty where nobody shows
    /// any.
    pub consents_expired: Vec<bool>,
}

/// The accounts of a partition at one place of the sequence, as its institution saved them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opened {
    /// Every decision below this sequence number is in them.
    pub sequence: u64,
    /// Customers' accounts by their numbers.
    pub customers: Vec<OpenedAccount>,
    /// What is on the institution's own accounts, in minor units.
    pub own: Vec<(AccountNumber, i64)>,
    /// The aliases that are taken.
    pub aliases: Vec<String>,
}

/// A customer's account that was saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenedAccount {
    /// What it holds.
    pub asset: AssetId,
    /// Whose signature debits it.
    pub owner: PublicKey,
    /// In minor units.
    pub balance: i64,
    /// How far below zero it may go, zero or less, in minor units.
    pub floor: i64,
    /// Whether it is frozen.
    pub frozen: bool,
    /// Whether it is closed.
    pub closed: bool,
}

/// From where on what was checked, where an institution's partition was audited from what it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coverage {
    /// From this sequence number on: form, own books' balance, whose keys allowed each change, and their signatures.
    pub keys_from: u64,
    /// From this one on also: balances, floors, freezes, and the orders' fit.
    pub accounts_from: u64,
    /// From this one on also: that the others whom a transaction concerns agreed to it, but for what was accepted before the
    /// consents at hand begin. None where there is no such transaction.
    pub consents_from: Option<u64>,
}

/// What the order of records says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    /// They are in one journal: what comes first was written first.
    Journal,
    /// They come from topics that were written independently: only what one of them holds is in order.
    Topics,
}

/// An audit that is about to begin.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = std::sync::Arc::new(todo_network());
/// # fn todo_network() -> tally_ledger::Network { unreachable!() }
/// use tally_settlement::audit::Audit;
/// let report = Audit::new(&network).findings(100).directory("/var/lib/tallystick".as_ref())?;
/// assert_eq!(report.undecided, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Audit {
    network: Arc<Network>,
    options: AuditOptions,
    institution: Option<ParticipantId>,
    earlier: Vec<Earlier>,
    most: usize,
}

impl Audit {
    /// An audit of a network with that configuration, signatures and all.
    pub fn new(network: &Arc<Network>) -> Self {
        let options = AuditOptions { signatures: true };
        Self { network: Arc::clone(network), options, institution: None, earlier: Vec::new(), most: FINDINGS }
    }

    /// What to check.
    #[must_use]
    pub fn options(self, options: AuditOptions) -> Self {
        Self { options, ..self }
    }

    /// Audits one institution's partition alone, from what that institution is shown: its own legs and orders, and the
    /// legs on its settlement accounts elsewhere.
    #[must_use]
    pub fn institution(self, institution: ParticipantId) -> Self {
        Self { institution: Some(institution), ..self }
    }

    /// Which limits were looser before.
    #[must_use]
    pub fn earlier(self, earlier: Vec<Earlier>) -> Self {
        Self { earlier, ..self }
    }

    /// How many findings are kept; others are counted.
    #[must_use]
    pub fn findings(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Audits the journal in `directory`.
    ///
    /// # Errors
    /// The findings, or why the journal cannot be read.
    pub fn directory(&self, directory: &Path) -> Result<AuditReport, AuditError> {
        let path = directory.join("journal");
        let opened = FileLog::open_read_only(&path);
        let (log, report) = opened.map_err(|source| AuditError::Open { path, source })?;
        self.log(&log, report)
    }

    /// Audits an opened journal.
    ///
    /// # Errors
    /// The findings, or why the journal cannot be read.
    pub fn log(&self, log: &FileLog, journal: OpenReport) -> Result<AuditReport, AuditError> {
        let report = self.run(journal::entries(log, Ticket(0)), Order::Journal)?;
        Ok(AuditReport { journal: Some(journal), ..report })
    }

    /// Audits what a network's topics hold, from their beginning; what a record decides comes before it.
    ///
    /// # Errors
    /// The findings, or why the topics cannot be read.
    pub fn entries(
        &self,
        entries: impl Iterator<Item = Result<(Ticket, journal::Entry), JournalError>>,
    ) -> Result<AuditReport, AuditError> {
        self.run(entries, Order::Topics)
    }

    /// Audits the partition of one institution from what that one may read.
    ///
    /// # Errors
    /// The findings, or why the topics cannot be read.
    pub fn shown(
        &self,
        institution: ParticipantId,
        beginning: Beginning,
        entries: impl Iterator<Item = ShownEntry>,
    ) -> Result<AuditReport, AuditError> {
        let mut pass = self.clone().institution(institution).pass(Order::Topics);
        pass.begin(beginning);
        self.finish(pass, entries, |pass, ticket, entry| match entry {
            Shown::Proposed(batch) => pass.propose(batch),
            Shown::Agreed(consents) => pass.agree(&consents),
            Shown::Sequenced(batch) => pass.sequence(ticket, &batch),
        })
    }

    fn run(
        &self,
        entries: impl Iterator<Item = Result<(Ticket, journal::Entry), JournalError>>,
        order: Order,
    ) -> Result<AuditReport, AuditError> {
        self.finish(self.pass(order), entries, |pass, ticket, entry| match entry {
            journal::Entry::Accepted(source, batch) => pass.accept(ticket, source, batch),
            journal::Entry::Sequenced(_, batch) => pass.sequence(ticket, &batch),
        })
    }

    fn pass(&self, order: Order) -> Pass {
        Pass::new(Plan {
            network: Arc::clone(&self.network),
            options: self.options,
            institution: self.institution,
            earlier: self.earlier.clone(),
            order,
            most: self.most,
        })
    }

    fn finish<T>(
        &self,
        mut pass: Pass,
        entries: impl Iterator<Item = Result<(Ticket, T), JournalError>>,
        mut take: impl FnMut(&mut Pass, Ticket, T),
    ) -> Result<AuditReport, AuditError> {
        let began = Instant::now();
        let mut stopped = None;
        for read in entries {
            match read {
                Ok((ticket, entry)) => take(&mut pass, ticket, entry),
                Err(error) => {
                    stopped = Some(error);
                    break;
                }
            }
        }
        if stopped.is_none() {
            pass.books_match();
        }
        let findings = pass.findings();
        match stopped {
            stopped if findings.count() > 0 => Err(AuditError::NotInOrder { findings, stopped }),
            Some(error) => Err(error.into()),
            None => Ok(AuditReport { took: began.elapsed(), ..pass.report() }),
        }
    }
}

/// Audits the journal in `directory` against the configuration of its network.
///
/// Asks of every transaction that was made: is it well-formed, for this network, balanced for every institution and
/// asset, counted for those whom it concerns; did the owner of each debited account sign it, or the institution its own
/// funds, its issues and its account orders; did the accounts exist, hold the asset, take part in payments and stay
/// above their floors at its place in the sequence; was its reference used once. And of the logs: is each decision about
/// an accepted transaction and the only one, is the sequence without a gap, does no clock go back, is each root and
/// signed head of the Merkle log what the records come to, do each institution's books match its settlement account.
///
/// # Errors
/// The findings, or why the journal cannot be read.
pub fn audit(
    directory: &Path,
    network: &Arc<Network>,
    options: AuditOptions,
) -> Result<AuditReport, AuditError> {
    Audit::new(network).options(options).directory(directory)
}

/// Audits an opened journal.
///
/// # Errors
/// The findings, or why the journal cannot be read.
pub fn audit_log(
    log: &FileLog,
    journal: OpenReport,
    network: &Arc<Network>,
    options: AuditOptions,
) -> Result<AuditReport, AuditError> {
    Audit::new(network).options(options).log(log, journal)
}

/// Audits what a network's topics hold: from their beginning, and what a record decides comes before it.
///
/// # Errors
/// The findings, or why the topics cannot be read.
pub fn audit_entries(
    entries: impl Iterator<Item = Result<(Ticket, journal::Entry), JournalError>>,
    network: &Arc<Network>,
    options: AuditOptions,
) -> Result<AuditReport, AuditError> {
    Audit::new(network).options(options).entries(entries)
}

/// The participant whose books a total is part of, by BIC.
pub fn bic(network: &Network, participant: ParticipantId) -> &str {
    network.participants.get(participant.index()).map_or("?", |p| p.bic.as_str())
}
