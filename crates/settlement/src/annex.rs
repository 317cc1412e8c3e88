//! The annex: texts that transactions commit to by their hashes, kept in the log beside the ledger. The ledger never
//! reads them; what was appended before a transaction was handed in is durable when that is accepted.

use crate::journal;
use crate::message::{AnnexBatch, Message};
use tally_ledger::Timestamp;
use tally_log::{Log, LogError, Offset, TopicId, Visibility};

/// Bytes of records that are read together, and at least.
const READ_BYTES: usize = 4 << 20;

/// When the last texts of a topic were kept; 0 where there are none.
///
/// # Errors
/// When the log cannot be read.
pub(crate) fn last(log: &dyn Log, topic: TopicId) -> Result<Timestamp, LogError> {
    let Some(last) = log.next(topic).0.checked_sub(1) else { return Ok(Timestamp(0)) };
    let batch: Option<AnnexBatch> = journal::record(log, topic, last, Visibility::Appended)?;
    Ok(batch.map_or(Timestamp(0), |batch| batch.kept_at))
}

/// Appends texts; the caller sees to it that `kept_at` does not go back.
///
/// # Errors
/// When the log refuses. Some of the texts may be kept.
pub(crate) fn append(
    log: &dyn Log,
    topic: TopicId,
    kept_at: Timestamp,
    texts: Vec<Vec<u8>>,
) -> Result<(), LogError> {
    let mut bytes = Vec::new();
    for batch in AnnexBatch::split(kept_at, texts) {
        bytes.clear();
        batch.encode(&mut bytes);
        log.append(topic, &[&bytes])?;
    }
    Ok(())
}

/// Shows the texts of a topic that were kept from `from` until `until`, in their order. What cannot be read is passed over:
/// a text is only ever asked for by its hash.
///
/// # Errors
/// When the log cannot be read.
pub(crate) fn read(
    log: &dyn Log,
    topic: TopicId,
    (from, until): (Timestamp, Timestamp),
    show: &mut dyn FnMut(Vec<u8>),
) -> Result<(), LogError> {
    let before = |batch: AnnexBatch| batch.kept_at < from;
    let mut at = journal::partition_point(log, topic, Visibility::Durable, before)?;
    let end = log.next(topic).0;
    while at < end {
        let mut records = Vec::new();
        let next = log.read(topic, Offset(at), READ_BYTES, Visibility::Durable, &mut records)?;
        for batch in records.iter().filter_map(|record| AnnexBatch::decode(&record.payload).ok()) {
            if batch.kept_at > until {
                return Ok(());
            }
            batch.items.into_iter().for_each(&mut *show);
        }
        if next.0 == at {
            return Ok(());
        }
        at = next.0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_log::MemoryLog;

    const TOPIC: TopicId = TopicId(2);

    fn shown(log: &dyn Log, from: u64, until: u64) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        read(log, TOPIC, (Timestamp(from), Timestamp(until)), &mut |text| all.push(text)).unwrap();
        all
    }

    #[test]
    fn texts_are_found_by_when_they_were_kept() {
        let log = MemoryLog::new(1 << 24);
        assert_eq!(last(&log, TOPIC).unwrap(), Timestamp(0));
        assert!(shown(&log, 0, u64::MAX).is_empty());
        for at in 1..=100u8 {
            append(&log, TOPIC, Timestamp(u64::from(at) * 10), vec![vec![at], vec![at, at]]).unwrap();
        }
        assert_eq!(last(&log, TOPIC).unwrap(), Timestamp(1_000));
        assert_eq!(shown(&log, 0, u64::MAX).len(), 200);
        assert_eq!(shown(&log, 495, 510), [vec![50], vec![50, 50], vec![51], vec![51, 51]]);
        assert_eq!(shown(&log, 1_000, 1_000), [vec![100], vec![100, 100]]);
        assert!(shown(&log, 1_001, u64::MAX).is_empty());
        assert!(shown(&log, 0, 9).is_empty());
    }

    #[test]
    fn many_texts_are_split_and_foreign_records_passed_over() {
        let log = MemoryLog::new(1 << 24);
        log.append(TOPIC, &[b"something else"]).unwrap();
        let texts: Vec<_> = (0..40u8).map(|number| vec![number; 50_000]).collect();
        append(&log, TOPIC, Timestamp(7), texts.clone()).unwrap();
        assert!(log.next(TOPIC).0 > 3, "2 MB are no single record");
        assert_eq!(shown(&log, 0, 7), texts);
    }
}
