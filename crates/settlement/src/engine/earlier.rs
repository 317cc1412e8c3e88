//! Looks in the journal for what was accepted and decided so long ago that it is no longer remembered.

use super::answer::Expected;
use crate::clerk;
use crate::desk::Accepted;
use crate::journal::{self, Entry, JournalError, MAX_SCHEDULERS, SEQUENCE};
use crate::message::{AcceptedBatch, Message, SequenceBatch, Source, Withdrawal};
use crate::proof::{Search, Wanted};
use std::time::Instant;
use tally_ledger::{NetworkId, Timestamp};
use tally_log::{Log, LogError, Offset, Record, Ticket, TopicId, Visibility};

/// Bytes of records that are read together, and at least: the deadline is looked at after each such piece.
const READ_BYTES: usize = 4 << 20;
/// Headers, legs and signatures after which the deadline is looked at, some megabytes; few in tests.
const PARTS: usize = if cfg!(test) { 4 } else { 1 << 15 };
/// How far the clocks of two stages may be apart for a decision to be found.
const CLOCKS_APART_MS: u64 = 60_000;
/// Records of each scheduler's that are looked at first, from the end; few in tests, so that they go far back.
const FIRST_RECORDS: u64 = if cfg!(test) { 2 } else { 64 };
/// How much dearer it is to read records of single topics than the whole journal in one go: in files they lie between each other.
pub(crate) const DEARER: u64 = if cfg!(test) { 2 } else { 8 };

/// Whose ledger, and under which names a log has it.
pub(crate) struct Names {
    /// The network.
    pub(crate) network: NetworkId,
    /// The one global sequence.
    pub(crate) sequence: TopicId,
    /// What each scheduler accepted.
    pub(crate) accepted: Vec<TopicId>,
}

impl Names {
    /// Those of a network's journal in files.
    pub(crate) fn of_journal(network: NetworkId) -> Self {
        Self {
            network,
            sequence: SEQUENCE,
            accepted: (0..MAX_SCHEDULERS as u64).map(journal::accepted).collect(),
        }
    }
}

/// What the journal says of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// It was accepted there.
    Accepted(Source, u32),
    /// It never was.
    Never,
    /// There was no time to find out.
    Unknown,
}

/// Finds where a transaction, to the letter, was accepted last before it expired.
///
/// The last is the one that counts: what is refused because nobody authorised it uses nothing up, so that the same
/// transaction can be accepted again with other signatures. A transaction can only have been accepted within
/// `longest_validity_ms` before its expiry: from the expiry on the topic is read backward, and no further than that. Only
/// the expiry is searched for by bisection, since each of its steps asks a cluster several times.
///
/// # Errors
/// When the journal cannot be read.
pub(crate) fn find(
    log: &dyn Log,
    names: &Names,
    transaction: &Expected,
    longest_validity_ms: u64,
    deadline: Instant,
) -> Result<Earlier, JournalError> {
    let since = Timestamp(transaction.expiry.0.saturating_sub(longest_validity_ms));
    let mut found: Option<(Timestamp, Earlier)> = None;
    for (scheduler, topic) in (0u64..).zip(names.accepted.iter().copied()) {
        let end = first_from(log, topic, transaction.expiry, |batch: AcceptedBatch| batch.accepted_at)?;
        let mut unread = log.first(topic).0..end;
        let (mut records, mut parts) = (FIRST_RECORDS, 0);
        while !unread.is_empty() {
            let from = unread.end.saturating_sub(records).max(unread.start);
            let (mut last, mut is_earlier) = (None, false);
            for batch in journal::records(log, topic, from..unread.end, Visibility::Appended) {
                let (number, batch): (u64, AcceptedBatch) = match batch {
                    Err(JournalError::Record { .. }) => return Ok(Earlier::Unknown),
                    batch => batch?,
                };
                parts += batch.batch.headers.len() + batch.batch.legs.len() + batch.batch.signers.len();
                is_earlier |= batch.accepted_at < since;
                if let Some(index) = position(&batch, &names.network, transaction) {
                    let place = Earlier::Accepted(Source::new(scheduler, number), index);
                    last = Some((batch.accepted_at, place));
                }
            }
            if let Some(last) = last {
                found = found.filter(|found| found.0 > last.0).or(Some(last));
                break;
            }
            if is_earlier {
                break;
            }
            unread.end = from;
            if parts >= PARTS {
                if !unread.is_empty() && Instant::now() >= deadline {
                    return Ok(Earlier::Unknown);
                }
                parts = 0;
            } else {
                // Small batches are read more at once.
                records *= 2;
            }
        }
    }
    Ok(found.map_or(Earlier::Never, |(_, place)| place))
}

/// The transaction that is wanted, as it was accepted last; of what was accepted before `since` nothing need be found. The latest
/// is looked at first, since most ask for that. `all` is the journal from its beginning, for what lies so far back that it is
/// cheaper to read all of it.
///
/// # Errors
/// When the journal cannot be read.
pub(crate) fn last<J: Iterator<Item = Result<(Ticket, Entry), JournalError>>>(
    log: &dyn Log,
    names: &Names,
    wanted: Wanted,
    since: Timestamp,
    all: impl FnOnce() -> Result<J, JournalError>,
) -> Result<Option<Accepted>, JournalError> {
    let mut search = Search::new(&names.network, wanted);
    let mut unread = Vec::new();
    for (scheduler, topic) in (0u64..).zip(names.accepted.iter().copied()) {
        let first = first_from(log, topic, since, |batch: AcceptedBatch| batch.accepted_at)?;
        unread.push((scheduler, topic, first..log.next(topic).0));
    }
    let mut found: Option<(bool, Accepted)> = None;
    let mut look = |source, accepted: &AcceptedBatch| {
        let AcceptedBatch { accepted_at, batch } = accepted;
        if let Some(index) = search.index(batch)
            && let Some(transaction) = batch.transaction(index as usize)
        {
            let is_own = search.is_own(batch, index);
            let earlier =
                |(own, found): &(bool, Accepted)| (*own, found.accepted_at) <= (is_own, *accepted_at);
            if found.as_ref().is_none_or(earlier) {
                let place = Withdrawal { source, index };
                found = Some((is_own, Accepted { place, accepted_at: *accepted_at, transaction }));
            }
        }
        found.is_some()
    };
    let (mut records, mut read) = (FIRST_RECORDS, 0);
    while unread.iter().any(|(.., range)| !range.is_empty()) {
        if read * DEARER >= unread.iter().map(|(.., range)| range.end).sum() {
            for entry in all()? {
                if let Entry::Accepted(source, batch) = entry?.1 {
                    look(source, &batch);
                }
            }
            break;
        }
        let mut is_found = false;
        for (scheduler, topic, range) in &mut unread {
            let from = range.end.saturating_sub(records).max(range.start);
            for batch in journal::records(log, *topic, from..range.end, Visibility::Appended) {
                let (number, batch) = batch?;
                is_found |= look(Source::new(*scheduler, number), &batch);
            }
            read += range.end - from;
            range.end = from;
        }
        if is_found {
            break;
        }
        records = records.saturating_mul(2);
    }
    Ok(found.map(|(_, found)| found))
}

/// The earliest time that a scheduler's clock can have shown when something was accepted that followed on what was decided at
/// `decided`.
pub(crate) fn accepted_since(decided: Timestamp) -> Timestamp {
    Timestamp(decided.0.saturating_sub(CLOCKS_APART_MS))
}

/// The earliest time at which something can have been accepted that may be undecided at `now`.
pub(crate) fn undecided_since(now: Timestamp, longest_validity_ms: u64) -> Timestamp {
    Timestamp(now.0.saturating_sub(longest_validity_ms + CLOCKS_APART_MS))
}

fn position(batch: &AcceptedBatch, network: &NetworkId, transaction: &Expected) -> Option<u32> {
    let count = u32::try_from(batch.batch.headers.len()).unwrap_or(u32::MAX);
    let with_reference =
        (0..count).zip(&batch.batch.headers).filter(|(_, header)| header.uetr == transaction.uetr);
    with_reference.rev().map(|(index, _)| index).find(|index| {
        batch.batch.transaction(*index as usize).is_some_and(|first| first.id(network) == transaction.id)
    })
}

/// The durable record of the sequence that decides the transaction at `index` of `source`, which was accepted at
/// `accepted_at`.
///
/// # Errors
/// When the journal cannot be read.
pub(crate) fn decision(
    log: &dyn Log,
    names: &Names,
    (source, index): (Source, u32),
    accepted_at: Timestamp,
    deadline: Instant,
) -> Result<Option<SequenceBatch>, LogError> {
    // The sequencer's clock may be behind the scheduler's, and is looked at before it looks for decisions.
    let from = Timestamp(accepted_at.0.saturating_sub(CLOCKS_APART_MS));
    let mut at = first_from(log, names.sequence, from, |batch: SequenceBatch| batch.timestamp)?;
    loop {
        let mut records = Vec::new();
        let next = log.read(names.sequence, Offset(at), READ_BYTES, Visibility::Durable, &mut records)?;
        for record in &records {
            let Some(batch) = decode::<SequenceBatch>(record) else { return Ok(None) };
            if batch.source == source && clerk::find(&batch, index).is_some() {
                return Ok(Some(batch));
            }
        }
        if next.0 == at || Instant::now() >= deadline {
            return Ok(None);
        }
        at = next.0;
    }
}

/// The first record of a topic whose time, which never goes back, is `from` or later.
fn first_from<T: Message>(
    log: &dyn Log,
    topic: TopicId,
    from: Timestamp,
    time: impl Fn(T) -> Timestamp,
) -> Result<u64, LogError> {
    journal::partition_point(log, topic, Visibility::Appended, |batch| time(batch) < from)
}

fn decode<T: Message>(record: &Record) -> Option<T> {
    T::decode(&record.payload).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use tally_ledger::transaction::Terms;
    use tally_ledger::{Kind, Transaction, TransactionBatch, Uetr};
    use tally_log::MemoryLog;

    const NETWORK: NetworkId = NetworkId([1; 32]);
    const VALIDITY_MS: u64 = 1_000;

    fn transaction(number: u16, expiry: u64, details: u8) -> Transaction {
        let mut uetr = [0; 16];
        uetr[..2].copy_from_slice(&number.to_le_bytes());
        let terms = Terms {
            network: NETWORK,
            uetr: Uetr(uetr),
            expiry: Timestamp(expiry),
            details: tally_crypto::hash(&[details]),
            seed: [0; 16],
        };
        Transaction::new(Kind::Transfer, &terms, Vec::new())
    }

    /// Batches of three, at 0, 10, 20, ...; each transaction expires half a validity after it was accepted.
    fn log(scheduler: u64, batches: u16) -> MemoryLog {
        let log = MemoryLog::new(1 << 24);
        for number in 0..batches {
            let at = u64::from(number) * 10;
            let mut batch = TransactionBatch::default();
            for index in 0..3 {
                assert!(batch.push(&transaction(number * 3 + index, at + VALIDITY_MS / 2, 0)));
            }
            let accepted = AcceptedBatch { accepted_at: Timestamp(at), batch };
            let mut record = Vec::new();
            accepted.encode(&mut record);
            log.append(journal::accepted(scheduler), &[&record]).unwrap();
        }
        log
    }

    fn expected(transaction: &Transaction) -> Expected {
        let header = &transaction.header;
        Expected { id: transaction.id(&NETWORK), uetr: header.uetr, expiry: header.expiry }
    }

    #[test]
    fn every_accepted_transaction_is_found_and_no_other() {
        let log = log(3, 400);
        let deadline = Instant::now() + Duration::from_secs(60);
        let names = Names::of_journal(NETWORK);
        let find = |transaction: &Transaction| {
            super::find(&log, &names, &expected(transaction), VALIDITY_MS, deadline).unwrap()
        };
        for number in [0u16, 1, 2, 3, 599, 600, 1_198, 1_199] {
            let expiry = u64::from(number / 3) * 10 + VALIDITY_MS / 2;
            let place = Earlier::Accepted(Source::new(3, u64::from(number / 3)), u32::from(number % 3));
            assert_eq!(find(&transaction(number, expiry, 0)), place);
            assert_eq!(find(&transaction(number, expiry, 1)), Earlier::Never, "another of that reference");
        }
        assert_eq!(find(&transaction(5_000, 2_000, 0)), Earlier::Never);
    }

    /// What nobody authorised uses nothing up: the same transaction comes again, in the same batch or a later one.
    #[test]
    fn what_was_accepted_again_is_found_where_it_was_accepted_last() {
        let log = log(3, 40);
        let names = Names::of_journal(NETWORK);
        let deadline = Instant::now() + Duration::from_secs(60);
        let (repeated, other) = (transaction(7, 20 + VALIDITY_MS / 2, 0), transaction(4_000, 0, 0));
        let append = |at: u64, transactions: &[&Transaction]| {
            let mut batch = TransactionBatch::default();
            assert!(transactions.iter().all(|transaction| batch.push(transaction)));
            let mut record = Vec::new();
            AcceptedBatch { accepted_at: Timestamp(at), batch }.encode(&mut record);
            log.append(journal::accepted(3), &[&record]).unwrap();
        };
        let find = || find(&log, &names, &expected(&repeated), VALIDITY_MS, deadline).unwrap();
        let last = |wanted| {
            let all = || Ok(std::iter::empty());
            super::last(&log, &names, wanted, Timestamp(0), all).unwrap().map(|found| found.place)
        };
        assert_eq!(find(), Earlier::Accepted(Source::new(3, 2), 1));
        append(400, &[&other, &repeated, &other, &repeated, &other]);
        let place = Withdrawal { source: Source::new(3, 40), index: 3 };
        assert_eq!(find(), Earlier::Accepted(place.source, place.index));
        for wanted in [Wanted::Uetr(repeated.header.uetr), Wanted::Id(repeated.id(&NETWORK))] {
            assert_eq!(last(wanted), Some(place));
        }
        append(400, &[&repeated]);
        assert_eq!(find(), Earlier::Accepted(Source::new(3, 41), 0));
        // After it expired, nothing is.
        append(20 + VALIDITY_MS / 2, &[&repeated]);
        assert_eq!(find(), Earlier::Accepted(Source::new(3, 41), 0));
    }

    #[test]
    fn what_was_accepted_last_is_found_from_the_end() {
        let log = log(3, 400);
        let names = Names::of_journal(NETWORK);
        let all = || {
            let topic = journal::accepted(3);
            let batches = journal::records(&log, topic, 0..u64::MAX, Visibility::Appended);
            let accepted =
                |(number, batch)| (Ticket(number), Entry::Accepted(Source::new(3, number), Arc::new(batch)));
            Ok(batches.map(move |batch| batch.map(accepted)))
        };
        let last = |wanted, since| super::last(&log, &names, wanted, Timestamp(since), all).unwrap();
        let expiry = |number: u16| u64::from(number / 3) * 10 + VALIDITY_MS / 2;
        for number in [0u16, 1, 2, 3, 599, 600, 1_198, 1_199] {
            let transaction = transaction(number, expiry(number), 0);
            let accepted_at = Timestamp(u64::from(number / 3) * 10);
            let source = Source::new(3, u64::from(number / 3));
            let place = Withdrawal { source, index: u32::from(number % 3) };
            let found = Accepted { place, accepted_at, transaction };
            let uetr = found.transaction.header.uetr;
            for wanted in [Wanted::Uetr(uetr), Wanted::Id(found.transaction.id(&NETWORK))] {
                assert_eq!(last(wanted, 0).as_ref(), Some(&found));
                assert_eq!(last(wanted, accepted_at.0).as_ref(), Some(&found));
                // What lies before may still be found, where all is read.
                let later = last(wanted, accepted_at.0 + 1);
                assert!(later.is_none() || later.as_ref() == Some(&found));
            }
        }
        assert_eq!(last(Wanted::Uetr(transaction(5_000, 0, 0).header.uetr), 0), None);

        // A reference that was used again is the last one's; each has its own id.
        let (first, again) = (transaction(7, expiry(7), 0), transaction(7, 9_000, 1));
        let mut batch = TransactionBatch::default();
        assert!(batch.push(&again));
        let mut record = Vec::new();
        AcceptedBatch { accepted_at: Timestamp(8_000), batch }.encode(&mut record);
        log.append(journal::accepted(3), &[&record]).unwrap();
        let found = |wanted| last(wanted, 0).map(|found| found.transaction);
        assert_eq!(found(Wanted::Uetr(first.header.uetr)), Some(again.clone()));
        assert_eq!(found(Wanted::Id(first.id(&NETWORK))), Some(first));
        assert_eq!(found(Wanted::Id(again.id(&NETWORK))), Some(again));
    }

    #[test]
    fn without_time_nothing_is_claimed() {
        let log = log(0, 100);
        let names = Names::of_journal(NETWORK);
        let past = Instant::now();
        let find = |number: u16| {
            let expiry = u64::from(number / 3) * 10 + VALIDITY_MS / 2;
            let wanted = expected(&transaction(number, expiry, 0));
            super::find(&log, &names, &wanted, VALIDITY_MS, past).unwrap()
        };
        assert_eq!(find(30), Earlier::Unknown);
        // One piece is read in any case.
        assert_eq!(find(297), Earlier::Accepted(Source::new(0, 99), 0));
    }

    #[test]
    fn only_the_time_in_which_it_can_have_been_accepted_is_read() {
        let log = log(0, 400);
        for from in [0, 5, 10, 1_000, 3_990, 3_991, 10_000] {
            let accepted_at = |batch: AcceptedBatch| batch.accepted_at;
            let first = first_from(&log, journal::accepted(0), Timestamp(from), accepted_at).unwrap();
            assert_eq!(first, from.div_ceil(10).min(400));
        }
    }
}
