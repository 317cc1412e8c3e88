//! What proofs need of the topics: the approvals that institutions signed, and the sequence alone.

use super::archive::Patient;
use crate::message::{ApprovalBatch, CosignatureBatch, CosignedHead, Message, SequenceBatch, Source};
use crate::process::layout::{Bindings, Layout};
use crate::process::shard::ShardError;
use crate::proof::Found;
use crate::runtime::feed::breaks_the_count;
use crate::runtime::shell::assembler_of;
use std::cmp::Ordering;
use std::time::{Duration, Instant};
use tally_crypto::PublicKey;
use tally_crypto::log::{Cosignature, TreeHead};
use tally_ledger::{Network, ParticipantId};
use tally_log::cluster::Cluster;
use tally_log::{Log, LogError, Offset, TopicId, Visibility};
use tally_proof::evidence::TwoHeads;
use tally_proof::{Approval, HeadCosignature};

/// Bytes of approvals that are read together.
const READ_BYTES: usize = 64 << 10;
/// Records of a witness that are looked at from the last on back, at most.
const LOOKED_BACK: u64 = 64;
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

/// The cosignatures of witnesses on a head of the operator's, as far as they can be read. What does not verify, or is on
/// another head, is none: one such cosignature would make the whole proof count for nothing.
pub(super) fn cosignatures(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Network,
    head: &TreeHead,
) -> Vec<HeadCosignature> {
    let mut found = Vec::new();
    for (participant, key) in witnesses(network) {
        let mut bindings = Bindings::default();
        let topic = bindings.reads(layout.cosignatures(participant));
        let searched = cluster.reader(&bindings.0).and_then(|log| cosigned(&Patient(log), topic, head.size));
        match searched {
            Ok(cosigned) => {
                let cosigned = cosigned
                    .filter(|cosigned| cosigned.head().head == *head && cosigned.verify(&network.id, key));
                found.extend(cosigned.map(|cosigned| {
                    let cosignature =
                        Cosignature { time_s: cosigned.time_s, signature: cosigned.cosignature };
                    HeadCosignature::of(participant, cosignature)
                }));
            }
            Err(error) => {
                tracing::warn!(participant = participant.0, %error, "cosignatures cannot be read for a proof");
            }
        }
    }
    found
}

/// Who may cosign: every institution but the operator, which is no witness of itself.
fn witnesses(network: &Network) -> impl Iterator<Item = (ParticipantId, &PublicKey)> {
    (0u16..).map(ParticipantId).zip(network.participants.iter().map(|known| &known.key)).skip(1)
}

/// The size of the log, in records, up to which so many witnesses have cosigned it as `record` has it: the record of the
/// sequence with which the log has that size, if it has one. None where no witness is required.
///
/// What a witness wrote and does not verify, or is about more than the log has, says nothing: what it cosigned before
/// counts. A topic of a witness that cannot be read on hides that witness alone.
///
/// # Errors
/// When the cluster cannot be reached, or a witness cosigned another head of the operator.
pub(super) fn witnessed(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Network,
    required: u8,
    mut record: impl FnMut(u64) -> Result<Option<SequenceBatch>, ShardError>,
) -> Result<Option<u64>, ShardError> {
    let Some(at) = usize::from(required).checked_sub(1) else { return Ok(None) };
    let mut sizes = Vec::new();
    for (participant, key) in witnesses(network) {
        let mut bindings = Bindings::default();
        let topic = bindings.reads(layout.cosignatures(participant));
        let witness = || layout.participants[participant.index()].clone();
        let shard = || format!("cosignatures of {}", witness());
        let log = cluster.reader(&bindings.0).map_err(|source| ShardError::Log { shard: shard(), source })?;
        let log = Patient(log);
        for cosigned in last_cosigned(&log, topic) {
            let cosigned = match cosigned {
                Ok(cosigned) => cosigned,
                Err(error) if breaks_the_count(&error) => {
                    tracing::warn!(witness = witness(), %error, "cosignatures of a witness cannot be read");
                    break;
                }
                Err(source) => return Err(ShardError::Log { shard: shard(), source }),
            };
            if !cosigned.verify(&network.id, key) {
                continue;
            }
            let Some(read) = record(cosigned.size)? else { continue };
            if read.tree_root == cosigned.root {
                sizes.push(cosigned.size);
                break;
            }
            if cosigned.head().verify(&network.id.0, &network.participants[0].key).is_ok() {
                let heads = TwoHeads { first: read.tree_head(), second: cosigned.head(), leaf: None };
                return Err(ShardError::TwoHistories {
                    shard: shard(),
                    witness: witness(),
                    heads: Box::new(heads),
                });
            }
        }
    }
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    Ok(Some(sizes.get(at).copied().unwrap_or(0)))
}

/// The heads of a witness from the last on back: of each record that can be decoded the last one.
fn last_cosigned(log: &dyn Log, topic: TopicId) -> impl Iterator<Item = Result<CosignedHead, LogError>> {
    let (first, next) = (log.first(topic).0, log.next(topic).0);
    let back = (first.max(next.saturating_sub(LOOKED_BACK))..next).rev();
    back.filter_map(move |at| {
        let mut records = Vec::new();
        if let Err(error) = log.read(topic, Offset(at), READ_BYTES, Visibility::Durable, &mut records) {
            return Some(Err(error));
        }
        let batch = records.first().and_then(|record| CosignatureBatch::decode(&record.payload).ok());
        batch.and_then(|batch| batch.heads.last().copied()).map(Ok)
    })
}

/// The head of that size that a witness cosigned: sizes ascend from record to record.
fn cosigned(log: &dyn Log, topic: TopicId, size: u64) -> Result<Option<CosignedHead>, LogError> {
    let (mut low, mut high) = (log.first(topic).0, log.next(topic).0);
    while low < high {
        let middle = low + (high - low) / 2;
        let mut records = Vec::new();
        log.read(topic, Offset(middle), READ_BYTES, Visibility::Durable, &mut records)?;
        let Some(record) = records.first() else { return Ok(None) };
        // What the witness wrote and nobody can read hides what it cosigned, and nothing of others.
        let Ok(batch) = CosignatureBatch::decode(&record.payload) else { return Ok(None) };
        let (Some(first), Some(last)) = (batch.heads.first(), batch.heads.last()) else { return Ok(None) };
        if size < first.size {
            high = middle;
        } else if size > last.size {
            low = middle + 1;
        } else {
            return Ok(batch.heads.iter().find(|head| head.size == size).copied());
        }
    }
    Ok(None)
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
                    leaves: Vec::new(),
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
