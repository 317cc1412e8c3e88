//! The settlement journal: which topics it has, and how a replay reads it.

use crate::message::{AcceptedBatch, Message, SequenceBatch, Source};
use crate::replay::{Partition, Replay, ReplayError, Undecided};
use std::ops::Range;
use std::sync::Arc;
use tally_ledger::wire::DecodeError;
use tally_log::{FileLog, Log, LogError, Offset, Record, Scanned, Ticket, TopicId, Visibility};

/// The topic of the one global sequence.
pub const SEQUENCE: TopicId = TopicId(1);
/// The topic of the annex, which is no part of the ledger, and passed over by whoever reads that.
pub const ANNEX: TopicId = TopicId(2);
const FIRST_ACCEPTED: u16 = 16;
/// The most schedulers of a network.
pub const MAX_SCHEDULERS: usize = 64;

/// The topic of what a scheduler accepted.
///
/// # Panics
/// Beyond [`MAX_SCHEDULERS`].
pub fn accepted(scheduler: u64) -> TopicId {
    let scheduler = u16::try_from(scheduler).expect("schedulers are few");
    assert!(usize::from(scheduler) < MAX_SCHEDULERS);
    TopicId(FIRST_ACCEPTED + scheduler)
}

/// How many schedulers wrote a journal: up to the last that accepted something. One before it may have accepted nothing.
pub fn schedulers(log: &dyn Log) -> usize {
    let wrote = |scheduler: &usize| log.next(accepted(*scheduler as u64)).0 > 0;
    (0..MAX_SCHEDULERS).rfind(wrote).map_or(0, |last| last + 1)
}

/// The scheduler whose topic it is.
fn scheduler(topic: TopicId) -> Option<u64> {
    let scheduler = topic.0.checked_sub(FIRST_ACCEPTED)?;
    (usize::from(scheduler) < MAX_SCHEDULERS).then_some(u64::from(scheduler))
}

/// A journal that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The log could not be read.
    #[error("the journal cannot be read")]
    Log(#[from] LogError),
    /// A record has another form.
    #[error("{ticket} of the journal, {offset} of {topic}")]
    Record {
        /// Which record.
        ticket: Ticket,
        /// Its topic.
        topic: TopicId,
        /// Its position there.
        offset: Offset,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// A record is in a topic that a settlement journal does not have.
    #[error("{ticket} of the journal is in {topic}, which a settlement journal does not have")]
    Topic {
        /// Which record.
        ticket: Ticket,
        /// Its topic.
        topic: TopicId,
    },
    /// The records contradict each other.
    #[error("{ticket} of the journal contradicts what comes before it")]
    Replay {
        /// Which record.
        ticket: Ticket,
        /// How.
        #[source]
        source: ReplayError,
    },
}

/// What a journal holds, one record after the other.
pub enum Entry {
    /// A scheduler accepted a batch.
    Accepted(Source, Arc<AcceptedBatch>),
    /// Decisions were sequenced.
    Sequenced(Offset, SequenceBatch),
}

/// The record of a topic at `offset`; none where there is none to be seen, or it is of another form.
///
/// # Errors
/// When the log cannot be read there.
pub(crate) fn record<T: Message>(
    log: &dyn Log,
    topic: TopicId,
    offset: u64,
    visibility: Visibility,
) -> Result<Option<T>, LogError> {
    let mut records = Vec::new();
    log.read(topic, Offset(offset), 1, visibility, &mut records)?;
    Ok(records.first().and_then(|record| T::decode(&record.payload).ok()))
}

/// The first record of a topic that is not `before` what is looked for, or can be seen no more; records that are come first.
///
/// # Errors
/// When the log cannot be read there.
pub(crate) fn partition_point<T: Message>(
    log: &dyn Log,
    topic: TopicId,
    visibility: Visibility,
    before: impl Fn(T) -> bool,
) -> Result<u64, LogError> {
    let (mut low, mut high) = (log.first(topic).0, log.next(topic).0);
    while low < high {
        let middle = low + (high - low) / 2;
        if record(log, topic, middle, visibility)?.is_some_and(&before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// The records of a journal from `from` on.
///
/// Each is an error when it cannot be read; nothing follows an error.
pub fn entries(log: &FileLog, from: Ticket) -> impl Iterator<Item = Result<(Ticket, Entry), JournalError>> {
    let of_ledger =
        |scanned: &Result<Scanned, LogError>| scanned.as_ref().map_or(true, |scanned| scanned.topic != ANNEX);
    log.scan(from).filter(of_ledger).map(|scanned| {
        let scanned = scanned?;
        let (ticket, topic, offset) = (scanned.ticket, scanned.topic, scanned.record.offset);
        let wrong = |source| JournalError::Record { ticket, topic, offset, source };
        let bytes = &scanned.record.payload;
        let entry = match (topic, scheduler(topic)) {
            (SEQUENCE, _) => Entry::Sequenced(offset, SequenceBatch::decode(bytes).map_err(wrong)?),
            (_, Some(scheduler)) => {
                let batch = AcceptedBatch::decode(bytes).map_err(wrong)?;
                Entry::Accepted(Source::new(scheduler, offset.0), Arc::new(batch))
            }
            _ => return Err(JournalError::Topic { ticket, topic }),
        };
        Ok((ticket, entry))
    })
}

/// The sequence alone, from its beginning to where it ends now, from the topic that has it.
///
/// Each record is an error when it cannot be read; nothing follows an error.
pub(crate) fn sequence(
    log: &dyn Log,
    topic: TopicId,
) -> impl Iterator<Item = Result<SequenceBatch, JournalError>> + '_ {
    let all = log.first(topic).0..log.next(topic).0;
    records(log, topic, all, Visibility::Durable).map(|read| read.map(|(_, batch)| batch))
}

/// Records of a topic in their order, each with its offset: those of `range` that can be seen.
///
/// Each is an error when it cannot be read; nothing follows an error.
pub(crate) fn records<T: Message>(
    log: &dyn Log,
    topic: TopicId,
    range: Range<u64>,
    visibility: Visibility,
) -> impl Iterator<Item = Result<(u64, T), JournalError>> + '_ {
    /// Bytes that are read together at most.
    const READ_BYTES: u64 = 4 << 20;
    /// Bytes of a record, as long as none was read.
    const RECORD_BYTES: u64 = 512;
    let end = range.end.min(log.next(topic).0);
    let mut next = range.start;
    // Of other topics' records that lie between these, and of those after the last, no more is to be read than must be.
    let (mut seen, mut seen_bytes) = (0u64, 0u64);
    let mut records = Vec::new().into_iter();
    std::iter::from_fn(move || {
        if records.len() == 0 && next < end {
            let each = seen_bytes.checked_div(seen).map_or(RECORD_BYTES, |each| each + 1);
            let bytes = each.saturating_mul(end - next).min(READ_BYTES);
            let bytes = usize::try_from(bytes).expect("it is at most 4 MiB");
            let mut read = Vec::new();
            match log.read(topic, Offset(next), bytes, visibility, &mut read) {
                Ok(after) => {
                    seen += after.0 - next;
                    seen_bytes += read.iter().map(|record: &Record| record.payload.len() as u64).sum::<u64>();
                    next = after.0;
                }
                Err(error) => {
                    next = end;
                    return Some(Err(error.into()));
                }
            }
            records = read.into_iter();
        }
        let record: Record = records.next().filter(|record| record.offset.0 < end)?;
        let decoded = T::decode(&record.payload);
        if decoded.is_err() {
            (next, records) = (end, Vec::new().into_iter());
        }
        let (ticket, offset) = (Ticket(record.offset.0), record.offset);
        let wrong = |source| JournalError::Record { ticket, topic, offset, source };
        Some(decoded.map(|record| (offset.0, record)).map_err(wrong))
    })
}

/// Replays a journal from `from` on into `replay`. `entry` is shown every record before it is replayed,
/// `decision` every decision before it is applied.
///
/// # Errors
/// When the journal cannot be read or contradicts itself.
pub fn replay(
    log: &FileLog,
    from: Ticket,
    replay: &mut Replay,
    mut entry: impl FnMut(&Replay, Ticket, &Entry) -> Result<(), ReplayError>,
    mut decision: impl FnMut(&[Partition], u64, &Undecided, u32, u16) -> Result<(), ReplayError>,
) -> Result<(), JournalError> {
    for read in entries(log, from) {
        let (ticket, read) = read?;
        let wrong = |source| JournalError::Replay { ticket, source };
        entry(replay, ticket, &read).map_err(wrong)?;
        match read {
            Entry::Accepted(source, batch) => replay.accept(source, batch),
            Entry::Sequenced(_, batch) => replay.sequence(&batch, &mut decision).map_err(wrong)?,
        }
    }
    Ok(())
}
