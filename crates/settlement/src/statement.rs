//! Statements: what moved on an account.
//!
//! Nothing is kept for them. What an account holds is known; the ledger is read back from there, latest records first, and each
//! movement says what the account held before it. So the cost of a statement is that of reading what came after its oldest
//! entry, not of the age of the ledger; where that is nearly all of it, the journal is read from its beginning.

use crate::clerk::{self, Finality};
use crate::engine::earlier::{DEARER, Names};
use crate::journal::{self, JournalError};
use crate::message::{AcceptedBatch, SequenceBatch, Source};
use crate::replay::ReplayError;
use crate::stage::Updater;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Mutex;
use tally_crypto::Hash;
use tally_ledger::batch::Place;
use tally_ledger::transaction::{Header, Leg};
use tally_ledger::{AccountId, Amount, Timestamp, Uetr};
use tally_log::{Log, Ticket, Visibility};

/// Which movements on an account are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Movements {
    /// Those below that sequence number; all without it.
    pub before: Option<u64>,
    /// Those from that time on.
    pub since: Timestamp,
    /// At most so many, the latest.
    pub limit: usize,
}

impl Movements {
    /// The latest, at most so many.
    pub fn latest(limit: usize) -> Self {
        Self { before: None, since: Timestamp(0), limit }
    }

    /// Of these, those below that sequence number: where the page before ended.
    #[must_use]
    pub fn before(self, sequence: Option<u64>) -> Self {
        Self { before: sequence, ..self }
    }

    /// Of these, those from that time on.
    #[must_use]
    pub fn since(self, since: Timestamp) -> Self {
        Self { since, ..self }
    }
}

/// Movements on an account.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statement {
    /// The latest first.
    pub entries: Vec<Entry>,
    /// What the account held before all of them: where there are fewer than were wanted, at the time since which they were.
    pub opening: Amount,
}

/// One movement on an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Place in the one global order.
    pub sequence: u64,
    /// When.
    pub timestamp: Timestamp,
    /// By which transaction.
    pub uetr: Uetr,
    /// What that transaction committed to beyond its legs.
    pub details: Hash,
    /// What it got.
    pub amount: Amount,
    /// What it held afterwards.
    pub balance: Amount,
}

/// What an account holds, and as of when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    id: AccountId,
    /// Everything below this sequence number, and nothing else.
    below: u64,
    balance: Amount,
}

impl Held {
    /// As those books have it; none where they have no such account.
    pub(crate) fn of(books: &Updater, id: AccountId) -> Option<Self> {
        let account = books.accounts().get(id.number)?;
        Some(Self { id, below: books.applied(), balance: Amount(account.balance) })
    }
}

/// Where pages ended: whoever asks for the next one need not begin at the end of the ledger again.
#[derive(Default)]
pub(crate) struct Ends(Mutex<VecDeque<Held>>);

/// Ends that are kept.
const KEPT: usize = 256;

impl Ends {
    fn keep(&self, end: Held) {
        let mut ends = self.0.lock().expect("nobody panics with the ends");
        ends.retain(|kept| (kept.id, kept.below) != (end.id, end.below));
        if ends.len() == KEPT {
            ends.pop_front();
        }
        ends.push_back(end);
    }

    fn find(&self, id: AccountId, below: u64) -> Option<Held> {
        let ends = self.0.lock().expect("nobody panics with the ends");
        ends.iter().find(|kept| (kept.id, kept.below) == (id, below)).copied()
    }
}

/// Records of the sequence that are read together first, from the end, and at most; few in tests, so that they go far back.
const FIRST_RECORDS: u64 = if cfg!(test) { 2 } else { 64 };
const MAX_RECORDS: u64 = 4096;
/// Accepted batches between two that are wanted which are read rather than jumped over.
const GAP: u64 = 4;

/// The movements that are wanted on an account that now holds that. `all` is the journal from its beginning, for what lies
/// so far back that it is cheaper to read all of it.
///
/// # Errors
/// When the journal cannot be read; [`JournalError::Replay`] when it does not have all that `held` is made of.
pub(crate) fn read<J: Iterator<Item = Result<(Ticket, journal::Entry), JournalError>>>(
    log: &dyn Log,
    names: &Names,
    held: &Held,
    wanted: &Movements,
    ends: &Ends,
    all: impl FnOnce() -> Result<J, JournalError>,
) -> Result<Statement, JournalError> {
    let known = wanted.before.and_then(|before| ends.find(held.id, before)).unwrap_or(*held);
    let first = match wanted.since {
        Timestamp(0) => log.first(names.sequence).0,
        since => {
            journal::partition_point(log, names.sequence, Visibility::Appended, |batch: SequenceBatch| {
                batch.timestamp < since
            })?
        }
    };
    let mut end = end(log, names, known.below)?;
    let mut back = Back { wanted, held: known, entries: Vec::new() };
    let (mut records, mut read) = (FIRST_RECORDS, 0);
    while end > first && !back.has_all() {
        let mut piece = back.piece();
        if read * DEARER >= end {
            add_all(all()?, &mut piece)?;
            back.take(piece, 0);
            break;
        }
        let from = end.saturating_sub(records).max(first);
        let batches = journal::records(log, names.sequence, from..end, Visibility::Appended);
        let batches: Vec<SequenceBatch> =
            batches.map(|batch| batch.map(|(_, batch)| batch)).collect::<Result<_, _>>()?;
        add(log, names, &batches, &mut piece)?;
        back.take(piece, batches.first().map_or(0, |batch| batch.first));
        read += end - from;
        end = from;
        records = (2 * records).min(MAX_RECORDS);
    }
    let Back { held, entries, .. } = back;
    if entries.len() == wanted.limit {
        ends.keep(held);
    }
    Ok(Statement { entries, opening: held.balance })
}

/// Where the records of the sequence end that have numbers below that.
fn end(log: &dyn Log, names: &Names, below: u64) -> Result<u64, JournalError> {
    let begins_below = |batch: SequenceBatch| batch.first < below;
    let end = journal::partition_point(log, names.sequence, Visibility::Appended, begins_below)?;
    let last: Option<SequenceBatch> = match end.checked_sub(1) {
        Some(last) => journal::record(log, names.sequence, last, Visibility::Appended)?,
        None => None,
    };
    let found = last.map_or(0, |batch| batch.first + u64::from(batch.count));
    if found >= below {
        return Ok(end);
    }
    let source = ReplayError::Gap { expected: below, found };
    Err(JournalError::Replay { ticket: Ticket(end), source })
}

/// How far a statement has come, going back.
struct Back<'w> {
    wanted: &'w Movements,
    /// What the account held there.
    held: Held,
    entries: Vec<Entry>,
}

/// What a piece of the ledger moved on the account, whatever comes first; it keeps no more than is wanted.
struct Piece<'w> {
    wanted: &'w Movements,
    id: AccountId,
    /// Of what is below this sequence number: the rest was seen before.
    below: u64,
    /// What the movements come to that are not wanted, all of which are later than those that are.
    later: i128,
    /// The latest of those that are wanted.
    latest: BTreeMap<u64, Entry>,
    /// The most of these.
    room: usize,
}

impl<'w> Back<'w> {
    fn has_all(&self) -> bool {
        self.entries.len() == self.wanted.limit
    }

    /// What is next, without anything in it.
    fn piece(&self) -> Piece<'w> {
        let Self { wanted, held: Held { id, below, .. }, entries } = self;
        let room = wanted.limit - entries.len();
        Piece { wanted, id: *id, below: *below, later: 0, latest: BTreeMap::new(), room }
    }

    /// Goes back over a piece, which has everything from that sequence number on.
    fn take(&mut self, piece: Piece<'_>, from: u64) {
        let before = i128::from(self.held.balance.0) - piece.later;
        let mut balance = i64::try_from(before).unwrap_or(self.held.balance.0);
        self.held.below = from;
        for (sequence, entry) in piece.latest.into_iter().rev() {
            self.entries.push(Entry { balance: Amount(balance), ..entry });
            balance = balance.saturating_sub(entry.amount.0);
            if self.has_all() {
                self.held.below = sequence;
            }
        }
        self.held.balance = Amount(balance);
    }
}

impl Piece<'_> {
    fn add(&mut self, entry: Entry) {
        if entry.sequence >= self.below || entry.timestamp < self.wanted.since {
            return;
        }
        if self.wanted.before.is_some_and(|before| entry.sequence >= before) {
            self.later += i128::from(entry.amount.0);
            return;
        }
        self.latest.insert(entry.sequence, entry);
        if self.latest.len() > self.room {
            self.latest.pop_first();
        }
    }
}

/// Adds what the whole journal moved on the account.
fn add_all(
    all: impl Iterator<Item = Result<(Ticket, journal::Entry), JournalError>>,
    piece: &mut Piece<'_>,
) -> Result<(), JournalError> {
    let mut undecided: HashMap<Source, Vec<Change>> = HashMap::new();
    for read in all {
        match read?.1 {
            journal::Entry::Accepted(source, accepted) => {
                let changes = changes(&accepted, piece.id);
                if !changes.is_empty() {
                    undecided.insert(source, changes);
                }
            }
            journal::Entry::Sequenced(_, batch) if batch.first >= piece.below => break,
            journal::Entry::Sequenced(_, batch) => {
                let Some(changes) = undecided.get_mut(&batch.source) else { continue };
                changes.retain(|change| {
                    let finality = clerk::find(&batch, change.index);
                    if let Some(entry) = finality.and_then(|finality| change.made(&finality)) {
                        piece.add(entry);
                    }
                    finality.is_none()
                });
                if changes.is_empty() {
                    undecided.remove(&batch.source);
                }
            }
        }
    }
    Ok(())
}

/// What a transaction does to the account if it is made.
struct Change {
    /// Which of its batch.
    index: u32,
    uetr: Uetr,
    details: Hash,
    amount: Amount,
}

impl Change {
    /// The movement, without a balance, if that was the outcome.
    fn made(&self, finality: &Finality) -> Option<Entry> {
        finality.verdict.is_ok().then_some(Entry {
            sequence: finality.sequence,
            timestamp: finality.timestamp,
            uetr: self.uetr,
            details: self.details,
            amount: self.amount,
            balance: Amount::ZERO,
        })
    }
}

/// What an accepted batch does to an account.
fn changes(accepted: &AcceptedBatch, id: AccountId) -> Vec<Change> {
    let batch = &accepted.batch;
    let is_its = |leg: &&Leg| leg.participant == id.participant && leg.account == id.number;
    if !batch.legs.iter().any(|leg| is_its(&leg)) {
        return Vec::new();
    }
    let transactions = (0u32..).zip(&batch.headers).zip(batch.places());
    let change = |((index, header), place): ((u32, &Header), Place)| {
        // No transaction has two legs on one account.
        let leg = batch.legs[place.legs].iter().find(is_its)?;
        Some(Change { index, uetr: header.uetr, details: header.details, amount: leg.amount })
    };
    transactions.filter_map(change).collect()
}

/// Adds what these records of the sequence moved on the account.
fn add(
    log: &dyn Log,
    names: &Names,
    batches: &[SequenceBatch],
    piece: &mut Piece<'_>,
) -> Result<(), JournalError> {
    let mut deciding: BTreeMap<(u64, u64), Vec<&SequenceBatch>> = BTreeMap::new();
    for batch in batches {
        deciding.entry((batch.source.scheduler, batch.source.number)).or_default().push(batch);
    }
    for (scheduler, numbers) in stretches(deciding.keys().copied()) {
        let topic = usize::try_from(scheduler).ok().and_then(|scheduler| names.accepted.get(scheduler));
        let Some(topic) = topic else { continue };
        let range = *numbers.start()..numbers.end() + 1;
        for read in journal::records(log, *topic, range, Visibility::Appended) {
            let (number, accepted): (_, AcceptedBatch) = read?;
            let Some(batches) = deciding.remove(&(scheduler, number)) else { continue };
            for change in changes(&accepted, piece.id) {
                let finality = batches.iter().find_map(|batch| clerk::find(batch, change.index));
                if let Some(entry) = finality.and_then(|finality| change.made(&finality)) {
                    piece.add(entry);
                }
            }
        }
    }
    match deciding.into_values().flatten().next() {
        None => Ok(()),
        Some(SequenceBatch { first, source, .. }) => {
            let source = ReplayError::NotAccepted { sequence: *first, source_batch: *source, index: 0 };
            Err(JournalError::Replay { ticket: Ticket(*first), source })
        }
    }
}

/// Accepted batches by scheduler and number, in rising order, as stretches that are worth to be read as a whole.
fn stretches(sources: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, RangeInclusive<u64>)> {
    let mut all: Vec<(u64, RangeInclusive<u64>)> = Vec::new();
    for (scheduler, number) in sources {
        match all.last_mut() {
            Some((of, numbers)) if *of == scheduler && number - numbers.end() <= GAP => {
                *numbers = *numbers.start()..=number;
            }
            _ => all.push((scheduler, number..=number)),
        }
    }
    all
}

#[cfg(test)]
mod tests;
