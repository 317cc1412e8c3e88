//! The audit: reads the logs alone, replays them, checks every invariant, and sums the books.

mod signatures;

use crate::accounts::AccountTable;
use crate::engine::Total;
use crate::journal::{self, JournalError};
use crate::message::SequenceLeafHasher;
use crate::recent::{Recent, Seen};
use crate::replay::{Partition, Replay, ReplayError, Undecided};
use signatures::{Finding, Signatures};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_crypto::merkle::RootBuilder;
use tally_crypto::{Hash, PublicKey};
use tally_ledger::batch::{Hashed, Hasher};
use tally_ledger::transaction::Kind;
use tally_ledger::{
    AccountId, AccountRole, AccountStatus, AssetId, Network, ParticipantId, SignaturePolicy, Timestamp,
    balance,
};
use tally_log::{FileLog, LogError, OpenReport, Ticket};

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
    /// It could not be read, or contradicts itself.
    #[error("the audit stopped")]
    Journal(#[from] JournalError),
    /// An invariant does not hold.
    #[error("{ticket} of the journal: {finding}")]
    Finding {
        /// The record.
        ticket: Ticket,
        /// What is wrong.
        finding: String,
    },
    /// At the end, a participant's books do not match its settlement account.
    #[error(
        "participant {participant}'s accounts in asset {asset} sum to {sum}, its settlement account holds {settlement}"
    )]
    Books {
        /// BIC.
        participant: String,
        /// Code.
        asset: String,
        /// Of all accounts of the partition.
        sum: i128,
        /// At the asset's settlement institution.
        settlement: i128,
    },
}

/// What to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditOptions {
    /// Verify the clients' signatures again, on all processors: about 2 µs of one each with AVX-512 IFMA, 13 µs without.
    pub signatures: bool,
}

/// What an audit without findings found.
#[derive(Debug, Clone)]
pub struct AuditReport {
    /// What opening the journal found, if it lies in files.
    pub journal: Option<OpenReport>,
    /// Transactions accepted.
    pub accepted: u64,
    /// Transactions decided.
    pub sequenced: u64,
    /// Of these, made.
    pub made: u64,
    /// Accepted and not decided: a process that starts decides them.
    pub undecided: u64,
    /// Leaves of the Merkle log.
    pub tree_size: u64,
    /// Its root.
    pub tree_root: [u8; 32],
    /// The books.
    pub totals: Vec<Total>,
    /// How long it took.
    pub took: Duration,
}

/// Audits the journal in `directory` against the configuration of its network.
///
/// Checks that every accepted transaction is well-formed, balances and is signed, that no reference
/// is used twice while it is remembered, that every decision is about an accepted transaction and
/// the only one about it, that the sequence has no gap and each record's root and the Merkle log's
/// signed head are what its content comes to, that no account goes below its floor or is used
/// while closed, and that each participant's books match its settlement account.
///
/// # Errors
/// The first finding.
pub fn audit(
    directory: &Path,
    network: &Arc<Network>,
    options: AuditOptions,
) -> Result<AuditReport, AuditError> {
    let path = directory.join("journal");
    let (log, report) = FileLog::open_read_only(&path).map_err(|source| AuditError::Open { path, source })?;
    audit_log(&log, report, network, options)
}

/// Audits an opened journal.
///
/// # Errors
/// The first finding.
pub fn audit_log(
    log: &FileLog,
    journal: OpenReport,
    network: &Arc<Network>,
    options: AuditOptions,
) -> Result<AuditReport, AuditError> {
    let report = audit_entries(journal::entries(log, Ticket(0)), network, options)?;
    Ok(AuditReport { journal: Some(journal), ..report })
}

/// Audits a journal, wherever it is read from: from its beginning, and what a record decides comes before it.
///
/// # Errors
/// The first finding.
pub fn audit_entries(
    entries: impl Iterator<Item = Result<(Ticket, journal::Entry), JournalError>>,
    network: &Arc<Network>,
    options: AuditOptions,
) -> Result<AuditReport, AuditError> {
    let began = Instant::now();
    let mut replay = Replay::new(Arc::clone(network));
    let mut auditor = Auditor::new(network, options);
    let mut floors = Floors { network: Arc::clone(network), made: 0, finding: None };
    let replayed = check_all(entries, &mut replay, &mut auditor, &mut floors);
    // What signatures were handed in come before any record at which the replay stopped.
    if let Some(Finding { ticket, finding }) = auditor.signatures.take().and_then(Signatures::finish) {
        return Err(AuditError::Finding { ticket, finding });
    }
    replayed?;
    let tables: Vec<&AccountTable> = replay.partitions.iter().map(|p| &p.accounts).collect();
    books_match(&tables, network)?;
    Ok(AuditReport {
        journal: None,
        accepted: auditor.accepted,
        sequenced: replay.next,
        made: floors.made,
        undecided: replay.undecided.values().map(|u| u.left() as u64).sum(),
        tree_size: replay.tree.len(),
        tree_root: replay.tree.root(),
        totals: tables.iter().flat_map(|table| totals(table, network)).collect(),
        took: began.elapsed(),
    })
}

/// Checks and replays one record after the other, all but the signatures.
fn check_all(
    entries: impl Iterator<Item = Result<(Ticket, journal::Entry), JournalError>>,
    replay: &mut Replay,
    auditor: &mut Auditor,
    floors: &mut Floors,
) -> Result<(), AuditError> {
    for read in entries {
        let (ticket, entry) = read?;
        auditor.check(ticket, &entry, replay)?;
        match entry {
            journal::Entry::Accepted(source, batch) => replay.accept(source, batch),
            journal::Entry::Sequenced(_, batch) => {
                replay
                    .sequence(&batch, |partitions, sequence, source, index, verdict| {
                        floors.check(partitions, sequence, source, index, verdict)
                    })
                    .map_err(|source| JournalError::Replay { ticket, source })?;
                if let Some(finding) = floors.finding.take() {
                    return Err(AuditError::Finding { ticket, finding });
                }
            }
        }
    }
    Ok(())
}

/// The sums of one participant's books.
pub fn totals(accounts: &AccountTable, network: &Network) -> Vec<Total> {
    let mut totals: Vec<Total> = (0u16..)
        .map(AssetId)
        .take(network.assets.len())
        .map(|asset| Total {
            participant: accounts.participant(),
            asset,
            accounts: 0,
            customers: 0,
            own: 0,
            issued: 0,
            settlement: 0,
        })
        .collect();
    for (number, account) in accounts.iter() {
        let total = &mut totals[account.asset.index()];
        let balance = i128::from(account.balance);
        match number.role() {
            AccountRole::Customer => {
                total.accounts += 1;
                total.customers += balance;
            }
            AccountRole::Own(_) => total.own += balance,
            AccountRole::Issuance(_) => total.issued -= balance,
            AccountRole::Settlement(..) => total.settlement += balance,
        }
    }
    totals
}

/// Checks that each participant's accounts sum to its settlement account, and to nothing at the
/// asset's settlement institution itself.
///
/// # Errors
/// The first that does not.
pub fn books_match(tables: &[&AccountTable], network: &Network) -> Result<(), AuditError> {
    for table in tables {
        for (asset, properties) in (0u16..).map(AssetId).zip(&network.assets) {
            let settlement = if properties.settled_at == table.participant() {
                0
            } else {
                let number = tally_ledger::AccountNumber::settlement(asset, table.participant());
                let at = tables[properties.settled_at.index()].get(number);
                i128::from(at.map_or(0, |account| account.balance))
            };
            let sum = table.sum(asset);
            if sum != settlement {
                return Err(AuditError::Books {
                    participant: network.participants[table.participant().index()].bic.clone(),
                    asset: properties.code.clone(),
                    sum,
                    settlement,
                });
            }
        }
    }
    Ok(())
}

/// Checks records against what the replay has come to.
struct Auditor {
    network: Arc<Network>,
    /// None where signatures are not asked for.
    signatures: Option<Signatures>,
    operator: PublicKey,
    recent: Vec<Recent>,
    hasher: Hasher,
    hashed: Hashed,
    /// Ids of the batches that are not wholly decided.
    ids: std::collections::HashMap<crate::message::Source, Vec<Hash>>,
    leaves: SequenceLeafHasher,
    root: RootBuilder,
    accepted: u64,
}

impl Auditor {
    fn new(network: &Arc<Network>, options: AuditOptions) -> Self {
        Self {
            operator: network.participants[0].key,
            network: Arc::clone(network),
            signatures: options.signatures.then(Signatures::new),
            recent: Vec::new(),
            hasher: Hasher::default(),
            hashed: Hashed::default(),
            ids: std::collections::HashMap::new(),
            leaves: SequenceLeafHasher::default(),
            root: RootBuilder::new(),
            accepted: 0,
        }
    }

    fn check(&mut self, ticket: Ticket, entry: &journal::Entry, replay: &Replay) -> Result<(), AuditError> {
        let found = match entry {
            journal::Entry::Accepted(source, accepted) => self.check_accepted(ticket, *source, accepted),
            journal::Entry::Sequenced(_, batch) => self.check_sequenced(batch, replay),
        };
        found.map_err(|finding| AuditError::Finding { ticket, finding })
    }

    fn check_accepted(
        &mut self,
        ticket: Ticket,
        source: crate::message::Source,
        accepted: &crate::message::AcceptedBatch,
    ) -> Result<(), String> {
        let batch = &accepted.batch;
        self.accepted += batch.len() as u64;
        for (index, (header, place)) in batch.headers.iter().zip(batch.places()).enumerate() {
            let wrong = |why: String| format!("transaction {index} of {source:?}, {}: {why}", header.uetr);
            let kind = Kind::from_number(header.kind).ok_or_else(|| wrong("its kind is unknown".into()))?;
            balance::check(&self.network, kind, &batch.legs[place.legs])
                .map_err(|refusal| wrong(format!("{refusal:?}")))?;
            let free = kind == Kind::Transfer && self.network.signatures == SignaturePolicy::InstitutionsOnly;
            if header.network != self.network.id || (header.signers == 0 && !free) {
                return Err(wrong("it is for another network, or unsigned".into()));
            }
            if header.expiry <= accepted.accepted_at {
                return Err(wrong("it was accepted after its expiry".into()));
            }
        }
        self.references_are_new(source, accepted)?;
        self.hasher.hash(batch, &mut self.hashed);
        if let Some(signatures) = &mut self.signatures {
            signatures.add(ticket, source, accepted, &self.hashed.ids);
        }
        self.ids.insert(source, std::mem::take(&mut self.hashed.ids));
        Ok(())
    }

    fn references_are_new(
        &mut self,
        source: crate::message::Source,
        accepted: &crate::message::AcceptedBatch,
    ) -> Result<(), String> {
        let scheduler = usize::try_from(source.scheduler).map_err(|e| e.to_string())?;
        while self.recent.len() <= scheduler {
            self.recent.push(Recent::new(self.recent.len() as u64, usize::MAX, [0x5bd1_e995, 0x9e37_79b9]));
        }
        let recent = &mut self.recent[scheduler];
        const AHEAD: usize = 32;
        let places: Vec<u64> =
            accepted.batch.headers.iter().map(|header| recent.place(&header.uetr)).collect();
        for (index, header) in accepted.batch.headers.iter().enumerate() {
            if index % AHEAD == 0 {
                recent.touch(&places[index..places.len().min(index + AHEAD)]);
            }
            let at = u32::try_from(index).map_err(|e| e.to_string())?;
            let now: Timestamp = accepted.accepted_at;
            let seen = recent.insert(places[index], &header.uetr, source.number, at, header.expiry, now);
            if seen != Seen::New {
                return Err(format!(
                    "transaction {index} of {source:?} uses reference {} again",
                    header.uetr
                ));
            }
        }
        Ok(())
    }

    fn check_sequenced(
        &mut self,
        batch: &crate::message::SequenceBatch,
        replay: &Replay,
    ) -> Result<(), String> {
        let wrong = |why: &str| format!("sequence number {}: {why}", batch.first);
        let ids =
            self.ids.get(&batch.source).ok_or_else(|| wrong("its transactions were not accepted before"))?;
        let mut decided = Vec::with_capacity(batch.count as usize);
        for (index, _) in batch.decisions() {
            decided.push(
                *ids.get(index as usize)
                    .ok_or_else(|| wrong("it decides a transaction that is not there"))?,
            );
        }
        let mut leaves = Vec::with_capacity(decided.len());
        let verdicts = batch.decisions().map(|(_, verdict)| verdict);
        self.leaves.hash(batch.first, &decided, verdicts, &mut leaves);
        if self.root.root(&leaves) != batch.root {
            return Err(wrong("the root over its decisions is not the one stated"));
        }
        if batch.tree_head().verify(&self.operator).is_err() {
            return Err(wrong("the tree head is not signed by the operator"));
        }
        if replay.undecided.get(&batch.source).is_some_and(|open| open.left() == batch.count as usize) {
            self.ids.remove(&batch.source);
        }
        Ok(())
    }
}

/// Checks each decision that makes a transaction against the accounts before it.
struct Floors {
    network: Arc<Network>,
    made: u64,
    finding: Option<String>,
}

impl Floors {
    #[expect(clippy::unnecessary_wraps, reason = "the shape that a replay asks for")]
    fn check(
        &mut self,
        partitions: &[Partition],
        sequence: u64,
        source: &Undecided,
        index: u32,
        verdict: u16,
    ) -> Result<(), ReplayError> {
        if verdict != 0 {
            return Ok(());
        }
        self.made += 1;
        for leg in source.legs(index) {
            let table = partitions.get(leg.participant.index()).map(|partition| &partition.accounts);
            let Some((table, account)) = table.and_then(|table| Some((table, table.get(leg.account)?)))
            else {
                continue;
            };
            let after = account.balance.saturating_add(leg.amount.0);
            let what = if account.status() == AccountStatus::Closed {
                "is closed"
            } else if account.asset != leg.asset {
                "holds another asset"
            } else if leg.amount.is_debit() && after < table.floor(leg.account, account).0 {
                "goes below its floor"
            } else {
                continue;
            };
            let id = AccountId { participant: leg.participant, number: leg.account };
            let bic = &self.network.participants[leg.participant.index()].bic;
            self.finding
                .get_or_insert_with(|| format!("sequence number {sequence}: account {id} of {bic} {what}"));
        }
        Ok(())
    }
}

/// The participant whose books a total is part of, by BIC.
pub fn bic(network: &Network, participant: ParticipantId) -> &str {
    network.participants.get(participant.index()).map_or("?", |p| p.bic.as_str())
}
