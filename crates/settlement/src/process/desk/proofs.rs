//! What proofs need of the topics: the approvals that institutions signed, and the sequence alone.

use super::archive::Patient;
use crate::message::{ApprovalBatch, Message, Source};
use crate::process::layout::{Bindings, Layout};
use crate::proof::Found;
use crate::runtime::shell::assembler_of;
use std::cmp::Ordering;
use std::time::{Duration, Instant};
use tally_ledger::ParticipantId;
use tally_log::cluster::Cluster;
use tally_log::{Log, LogError, Offset, TopicId, Visibility};
use tally_proof::Approval;

/// Bytes of approvals that are read together.
const READ_BYTES: usize = 64 << 10;
/// How much and for how long one institution's approvals are searched at most.
const BUDGET: Budget = Budget { bytes: 64 << 20, time: Duration::from_secs(10) };

struct Budget {
    bytes: usize,
    time: Duration,
}

/// The sequence's topic, to be read from its beginning.
pub(super) fn sequence(cluster: &dyn Cluster, layout: &Layout) -> Result<(Patient, TopicId), LogError> {
    let mut bindings = Bindings::default();
    let topic = bindings.reads(layout.sequence());
    Ok((Patient(cluster.reader(&bindings.0)?), topic))
}

/// The answer of a participant to a transaction, as it signed it at the time; none where its approvals may not be read, are
/// no longer kept, or are too many to be searched.
pub(super) fn approval(
    cluster: &dyn Cluster,
    layout: &Layout,
    found: &Found,
    participant: ParticipantId,
) -> Option<Approval> {
    let assembler = assembler_of(found.source, usize::from(layout.assemblers));
    let assembler = u16::try_from(assembler).ok()?;
    let mut bindings = Bindings::default();
    let topic = bindings.reads(layout.approvals(participant, assembler));
    let searched =
        cluster.reader(&bindings.0).and_then(|log| search(&Patient(log), topic, found.source, &BUDGET));
    match searched {
        Ok(batch) => found.answer_in(&batch?),
        Err(error) => {
            tracing::warn!(participant = participant.0, %error, "approvals cannot be read for a proof");
            None
        }
    }
}

/// A participant's answers to an accepted batch. Of each scheduler's batches they lie in the order in which these were
/// accepted.
fn search(
    log: &dyn Log,
    topic: TopicId,
    wanted: Source,
    budget: &Budget,
) -> Result<Option<ApprovalBatch>, LogError> {
    let deadline = Instant::now() + budget.time;
    let mut left = budget.bytes;
    let (mut low, mut high) = (log.first(topic).0, log.next(topic).0);
    while low < high {
        let middle = low + (high - low) / 2;
        // The first from the middle on that is of the same scheduler.
        let (mut at, mut first) = (middle, None);
        while at < high && first.is_none() {
            if left == 0 || Instant::now() >= deadline {
                return Ok(None);
            }
            let mut records = Vec::new();
            let next = log.read(topic, Offset(at), READ_BYTES, Visibility::Durable, &mut records)?.0;
            if next == at {
                return Ok(None);
            }
            for record in records.iter().filter(|record| record.offset.0 < high) {
                left = left.saturating_sub(record.payload.len());
                let batch = ApprovalBatch::decode(&record.payload).ok();
                if let Some(batch) = batch.filter(|batch| batch.source.scheduler == wanted.scheduler) {
                    first = Some((record.offset.0, batch));
                    break;
                }
            }
            at = next;
        }
        match first.map(|(at, batch)| (at, batch.source.number.cmp(&wanted.number), batch)) {
            Some((_, Ordering::Equal, batch)) => return Ok(Some(batch)),
            Some((at, Ordering::Less, _)) => low = at + 1,
            Some((_, Ordering::Greater, _)) | None => high = middle,
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_crypto::Signature;
    use tally_ledger::Timestamp;
    use tally_log::MemoryLog;

    const TOPIC: TopicId = TopicId(3);

    /// Answers to every third batch of the first of two schedulers and, after `from`, to all of the second's.
    fn log(batches: u64, from: u64) -> MemoryLog {
        let log = MemoryLog::new(1 << 24);
        for number in 0..batches {
            for scheduler in 0..2 {
                if scheduler == 0 && number % 3 != 0 || scheduler == 1 && number < from {
                    continue;
                }
                let batch = ApprovalBatch {
                    source: Source::new(scheduler, number),
                    source_len: 1,
                    participant: ParticipantId(1),
                    indices: vec![0],
                    ids: vec![tally_crypto::hash(&number.to_le_bytes())],
                    verdicts: vec![0],
                    participants: vec![1],
                    expiries: vec![Timestamp(number)],
                    signature: Signature::from_bytes([0; 64]),
                };
                let mut record = Vec::new();
                batch.encode(&mut record);
                log.append(TOPIC, &[&record]).unwrap();
            }
        }
        log
    }

    #[test]
    fn answers_are_found_wherever_they_lie() {
        let log = log(600, 400);
        for number in 0..600 {
            for scheduler in 0..2 {
                let source = Source::new(scheduler, number);
                let there = if scheduler == 0 { number % 3 == 0 } else { number >= 400 };
                let found = search(&log, TOPIC, source, &BUDGET).unwrap().map(|batch| batch.source);
                assert_eq!(found, there.then_some(source));
            }
        }
    }

    #[test]
    fn a_search_is_bounded() {
        let log = log(600, 0);
        let source = Source::new(0, 3);
        let budget = |bytes, time| Budget { bytes, time };
        let search = |budget| search(&log, TOPIC, source, &budget).unwrap().is_some();
        assert!(search(BUDGET));
        assert!(!search(budget(1, Duration::from_secs(10))));
        assert!(!search(budget(usize::MAX, Duration::ZERO)));
    }
}
