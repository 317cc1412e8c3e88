//! Looks in the journal for a transaction that was accepted so long ago that its reference is no longer remembered.

use super::answer::Expected;
use crate::journal::{self, MAX_SCHEDULERS};
use crate::message::{AcceptedBatch, Message, Source};
use std::time::Instant;
use tally_ledger::Timestamp;
use tally_log::{Log, LogError, Offset, Record, Visibility};

/// Bytes of records that are read together.
const READ_BYTES: usize = 4 << 20;

/// What the journal says of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Earlier {
    /// It was accepted there.
    Accepted(Source, u32),
    /// It never was.
    Never,
    /// There was no time to find out.
    Unknown,
}

/// Finds where a transaction, to the letter, was accepted before it expired.
///
/// A transaction can only have been accepted within `longest_validity_ms` before its expiry, so that nothing else of
/// the journal is read.
///
/// # Errors
/// When the journal cannot be read.
pub(super) fn find(
    log: &dyn Log,
    transaction: &Expected,
    longest_validity_ms: u64,
    deadline: Instant,
) -> Result<Earlier, LogError> {
    let from = Timestamp(transaction.expiry.0.saturating_sub(longest_validity_ms));
    for scheduler in 0..MAX_SCHEDULERS as u64 {
        let mut at = first_from(log, scheduler, from)?;
        let topic = journal::accepted(scheduler);
        'topic: loop {
            let mut records = Vec::new();
            let next = log.read(topic, Offset(at), READ_BYTES, Visibility::Appended, &mut records)?;
            for (number, record) in (at..).zip(&records) {
                if Instant::now() >= deadline {
                    return Ok(Earlier::Unknown);
                }
                let Some(batch) = decode(record) else { return Ok(Earlier::Unknown) };
                if batch.accepted_at >= transaction.expiry {
                    break 'topic;
                }
                if let Some(index) = position(&batch, transaction) {
                    return Ok(Earlier::Accepted(Source::new(scheduler, number), index));
                }
            }
            if next.0 == at {
                break;
            }
            at = next.0;
        }
    }
    Ok(Earlier::Never)
}

fn position(batch: &AcceptedBatch, transaction: &Expected) -> Option<u32> {
    let with_reference =
        (0u32..).zip(&batch.batch.headers).filter(|(_, header)| header.uetr == transaction.uetr);
    with_reference.map(|(index, _)| index).find(|index| {
        batch.batch.transaction(*index as usize).is_some_and(|first| first.id() == transaction.id)
    })
}

/// The first record of a scheduler that was accepted at `from` or later.
fn first_from(log: &dyn Log, scheduler: u64, from: Timestamp) -> Result<u64, LogError> {
    let topic = journal::accepted(scheduler);
    let (mut low, mut high) = (log.first(topic).0, log.next(topic).0);
    while low < high {
        let middle = low + (high - low) / 2;
        let mut records = Vec::new();
        log.read(topic, Offset(middle), 1, Visibility::Appended, &mut records)?;
        if records.first().and_then(decode).is_some_and(|batch| batch.accepted_at < from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

fn decode(record: &Record) -> Option<AcceptedBatch> {
    AcceptedBatch::decode(&record.payload).ok()
}
