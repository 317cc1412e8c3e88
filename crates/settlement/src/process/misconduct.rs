//! What members appended that does not count: the records that assemblers and others set aside, and cosignatures that are
//! no witness's. It is no part of the ledger and changes nothing in it; an audit names it beside the ledger.

use super::journal::Partition as Column;
use super::layout::{Bindings, Layout, Role};
use crate::journal::JournalError;
use crate::message::{CosignatureBatch, CosignedHead, Message, SequenceBatch};
use crate::runtime::RecordFault;
use crate::runtime::feed::breaks_the_count;
use bytes::Bytes;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use tally_crypto::log::LogHash;
use tally_ledger::wire::{DecodeError, Reader};
use tally_ledger::{Network, ParticipantId};
use tally_log::TopicId;
use tally_log::cluster::{Cluster, Partition, SharedLog};

/// Records of one partition that do not count, for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misconduct {
    /// The member who alone may append there; none where it is the operator.
    pub member: Option<ParticipantId>,
    /// Where they lie.
    pub partition: Partition,
    /// Why they do not count.
    pub fault: RecordFault,
    /// How many.
    pub records: u64,
    /// The lowest of their offsets.
    pub first: u64,
}

/// By member, partition and fault, how many records and the first.
type Counted = BTreeMap<(Option<ParticipantId>, Partition, RecordFault), (u64, u64)>;

/// The longest description of a record that was set aside.
const MAX_TEXT: usize = 1 << 20;

/// What a dead letter says of a record.
#[derive(Deserialize)]
struct Letter {
    topic: String,
    partition: u16,
    offset: u64,
    /// Not in letters of earlier versions.
    fault: Option<String>,
    reason: String,
}

impl Message for Letter {
    fn encode(&self, _out: &mut Vec<u8>) {
        unreachable!("shards write dead letters; see `shard`")
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("dead letter", bytes);
        let length = reader.count(MAX_TEXT)?;
        let text = reader.take(length)?;
        serde_json::from_slice(text).map_err(|_| reader.error("its description is no JSON"))
    }
}

impl Letter {
    fn fault(&self) -> RecordFault {
        let foreign = self.reason.starts_with("foreign");
        let before = if foreign { RecordFault::Foreign } else { RecordFault::Unreadable };
        self.fault.as_deref().and_then(RecordFault::of_name).unwrap_or(before)
    }
}

/// A record whose form is judged by who reads it.
struct Raw(Bytes);

impl Message for Raw {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self(Bytes::copy_from_slice(bytes)))
    }
}

/// What everybody's records come to, as the operator may read them: what stages set aside, and what witnesses cosigned
/// that is not in the sequence.
///
/// # Errors
/// When the topics cannot be read.
pub fn of_everybody(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Network,
) -> Result<Vec<Misconduct>, JournalError> {
    let mut counted = Counted::new();
    let schedulers = (0..layout.schedulers).map(|shard| layout.dead_letters(Role::Scheduler, shard));
    let assemblers = (0..layout.assemblers).map(|shard| layout.dead_letters(Role::Assembler, shard));
    let sequencer = std::iter::once(layout.dead_letters(Role::Sequencer, 0));
    letters(cluster, layout, schedulers.chain(assemblers).chain(sequencer), &mut counted)?;
    cosignatures(cluster, layout, network, &mut counted)?;
    Ok(report(counted))
}

/// What one institution's own stages set aside, as it may read it.
///
/// # Errors
/// When the topics cannot be read.
pub fn seen_by(
    cluster: &dyn Cluster,
    layout: &Layout,
    institution: ParticipantId,
) -> Result<Vec<Misconduct>, JournalError> {
    let mut counted = Counted::new();
    let own = [Role::Approver, Role::Updater].map(|role| layout.dead_letters(role, institution.0));
    letters(cluster, layout, own.into_iter(), &mut counted)?;
    Ok(report(counted))
}

fn report(counted: Counted) -> Vec<Misconduct> {
    let one = |((member, partition, fault), (records, first))| Misconduct {
        member,
        partition,
        fault,
        records,
        first,
    };
    counted.into_iter().map(one).collect()
}

fn note(
    counted: &mut Counted,
    (member, partition): (Option<ParticipantId>, &Partition),
    fault: RecordFault,
    offset: u64,
) {
    let (records, first) = counted.entry((member, partition.clone(), fault)).or_insert((0, offset));
    *records += 1;
    *first = offset.min(*first);
}

/// Counts what dead letters name.
fn letters(
    cluster: &dyn Cluster,
    layout: &Layout,
    partitions: impl Iterator<Item = Partition>,
    counted: &mut Counted,
) -> Result<(), JournalError> {
    let mut bindings = Bindings::default();
    let topics: Vec<TopicId> = partitions.map(|partition| bindings.reads(partition)).collect();
    let log = cluster.reader(&bindings.0)?;
    let owners: HashMap<String, ParticipantId> =
        layout.topics().into_iter().filter_map(|plan| Some((plan.name, plan.of?))).collect();
    for topic in topics {
        let mut column = Column::all(&*log, topic);
        while let Some((_, letter)) = column.take::<Letter>(&*log, 0)? {
            let fault = letter.fault();
            let member = owners.get(&letter.topic).copied();
            let partition = Partition::new(letter.topic, letter.partition);
            note(counted, (member, &partition), fault, letter.offset);
        }
    }
    Ok(())
}

/// Judges what witnesses appended: stages only pass over what does not count there.
fn cosignatures(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Network,
    counted: &mut Counted,
) -> Result<(), JournalError> {
    let mut bindings = Bindings::default();
    let sequence = bindings.reads(layout.sequence());
    // The operator is no witness of itself.
    let witnesses: Vec<_> = (layout.everybody().skip(1))
        .map(|participant| (participant, bindings.reads(layout.cosignatures(participant))))
        .collect();
    let log = cluster.reader(&bindings.0)?;
    let columns: Vec<_> =
        witnesses.iter().map(|(witness, topic)| (*witness, *topic, Column::all(&*log, *topic))).collect();
    // After the cosignatures: what they cosign is in it by then.
    let heads = Heads::read(&*log, sequence, network)?;
    for (witness, topic, mut column) in columns {
        let partition = bindings.partition(topic);
        let member = (Some(witness), &partition);
        let mut next = log.first(topic).0;
        loop {
            match column.take::<Raw>(&*log, 0) {
                Ok(Some((offset, Raw(payload)))) => {
                    next = offset.0 + 1;
                    if let Some(fault) = heads.fault_of(witness, &payload) {
                        note(counted, member, fault, offset.0);
                    }
                }
                Ok(None) => break,
                Err(JournalError::Log(error)) if breaks_the_count(&error) => {
                    note(counted, member, RecordFault::OutOfOrder, next);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The heads of the operator's log.
struct Heads<'a> {
    network: &'a Network,
    roots: HashMap<u64, LogHash>,
}

impl<'a> Heads<'a> {
    fn read(log: &dyn SharedLog, sequence: TopicId, network: &'a Network) -> Result<Self, JournalError> {
        let mut roots = HashMap::new();
        let mut column = Column::all(log, sequence);
        while let Some((_, batch)) = column.take::<SequenceBatch>(log, 0)? {
            roots.insert(batch.tree_size, batch.tree_root);
        }
        Ok(Self { network, roots })
    }

    /// Why what a witness appended does not count, if it does not.
    fn fault_of(&self, witness: ParticipantId, payload: &[u8]) -> Option<RecordFault> {
        let Ok(batch) = CosignatureBatch::decode(payload) else { return Some(RecordFault::Unreadable) };
        if batch.participant != witness {
            return Some(RecordFault::AnothersName);
        }
        let key = self.network.participants.get(witness.index())?.key;
        let last = batch.heads.last()?;
        if !last.verify(&self.network.id, &key) {
            return Some(RecordFault::WrongSignature);
        }
        let other = batch.heads.iter().find(|head| self.roots.get(&head.size) != Some(&head.root))?;
        if !self.is_the_operators(other) {
            return Some(RecordFault::NotTheOperators);
        }
        // A head that the operator signed since is in no sequence that was read.
        self.roots.contains_key(&other.size).then_some(RecordFault::TwoHistories)
    }

    fn is_the_operators(&self, head: &CosignedHead) -> bool {
        let operator = self.network.participants.first();
        operator.is_some_and(|operator| head.head().verify(&self.network.id.0, &operator.key).is_ok())
    }
}
