//! Evidence: what members and the operator signed on the network's topics that contradicts what they signed elsewhere
//! there.
//!
//! Nothing is taken from anybody's word: every finding is a [`tally_proof::Evidence`] that the network's public keys
//! judge, and [`collect`] hands out none that they do not. What a reader may not read it passes over.

mod answers;

use super::journal::Journal;
use super::layout::{Bindings, Layout};
use crate::journal::JournalError;
use crate::message::{
    ApprovalBatch, ApprovalSigner, CosignatureBatch, CosignedHead, Message, SequenceBatch, Source,
};
use crate::proof::{self, Wanted};
use answers::{Answers, Contradiction, Place, two_answers};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_crypto::Hash;
use tally_crypto::log::SignedTreeHead;
use tally_ledger::{Network, ParticipantId};
use tally_log::cluster::{Cluster, Partition, SharedLog};
use tally_log::{LogError, Offset, Record, TopicId, Visibility};
use tally_proof::evidence::{self, SettledAgainstRefusal, TwoCosignatures, TwoHeads};
use tally_proof::{Contents, Evidence, Keys, Misconduct};

/// Findings of one kind about one member that are collected; others are counted.
pub const FINDINGS: usize = 16;

/// Accepted batches and answers of one institution that are kept at a time, some hundred bytes
/// each. Its topics are read again for what is beyond.
const KEPT: usize = 1 << 22;

/// What was found.
#[derive(Debug, Default)]
pub struct Collected {
    /// The evidence, with what it proves and where it lies.
    pub findings: Vec<Finding>,
    /// Findings that were counted and not collected, since there are [`FINDINGS`] like them.
    pub more: u64,
    /// By partition, what a member wrote there that proves nothing and cannot be its due.
    pub faults: BTreeMap<Partition, Faults>,
    /// Partitions that could not be read, and why.
    pub unread: Vec<(Partition, String)>,
    /// Records that were read.
    pub records: u64,
}

/// One contradiction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What `tally verify` judges.
    pub evidence: Evidence,
    /// What it proves.
    pub misconduct: Misconduct,
    /// The records in which it lies.
    pub places: Vec<(Partition, u64)>,
}

/// What a member wrote that counts for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Records that nobody can read.
    pub unreadable: u64,
    /// Records that name another member, or that the member did not sign.
    pub unsigned: u64,
    /// Cosignatures of heads that the operator did not sign.
    pub made_up: u64,
    /// The position of the first of them.
    pub first: u64,
}

impl Faults {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.unreadable + self.unsigned + self.made_up
    }
}

/// Reads what the network's topics have of approvals, cosignatures and the sequence.
///
/// # Errors
/// When the sequence or what was accepted cannot be read.
pub fn collect(cluster: &dyn Cluster, layout: &Layout, network: &Network) -> Result<Collected, JournalError> {
    collect_within(cluster, layout, network, KEPT)
}

/// As [`collect`], with another number in the place of [`KEPT`].
pub(super) fn collect_within(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Network,
    kept: usize,
) -> Result<Collected, JournalError> {
    let Some(keys) = Keys::of(network) else { return Ok(Collected::default()) };
    let mut search = Search { cluster, layout, network, keys, kept, collected: Collected::default() };
    search.heads()?;
    let mut refusals = Refusals::default();
    for participant in layout.everybody() {
        search.answers(participant, &mut refusals)?;
        // The operator is no witness of itself.
        if participant.index() > 0 {
            search.cosignatures(participant)?;
        }
    }
    search.settled(&refusals)?;
    Ok(search.collected)
}

/// Where institutions refused a transaction, by its place in what was accepted.
#[derive(Default)]
struct Refusals {
    by_place: HashMap<(Source, u32), Vec<Refusal>>,
    count: usize,
}

impl Refusals {
    fn insert(&mut self, source: Source, index: u32, refusal: Refusal) {
        self.by_place.entry((source, index)).or_default().push(refusal);
        self.count += 1;
    }
}

#[derive(Clone, Copy)]
struct Refusal {
    participant: ParticipantId,
    place: Place,
}

struct Search<'a> {
    cluster: &'a dyn Cluster,
    layout: &'a Layout,
    network: &'a Network,
    keys: Keys,
    kept: usize,
    collected: Collected,
}

impl Search<'_> {
    /// Collects evidence that the keys judge; what they do not is none.
    fn found(&mut self, case: impl Into<evidence::Case>, places: Vec<(Partition, u64)>) {
        let evidence = Evidence::new(self.network.id, case);
        let Ok(misconduct) = evidence.judge(&self.keys) else { return };
        let kind = std::mem::discriminant(&evidence.case);
        let like = |other: &&Finding| {
            other.misconduct.by == misconduct.by && std::mem::discriminant(&other.evidence.case) == kind
        };
        if self.collected.findings.iter().filter(like).count() >= FINDINGS {
            self.collected.more += 1;
        } else {
            self.collected.findings.push(Finding { evidence, misconduct, places });
        }
    }

    fn fault(&mut self, partition: &Partition, position: u64, count: impl FnOnce(&mut Faults)) {
        let fresh = Faults { first: position, ..Faults::default() };
        count(self.collected.faults.entry(partition.clone()).or_insert(fresh));
    }

    /// Notes what of a partition cannot be read: one line, however often it is tried.
    fn unread(&mut self, partition: &Partition, reason: String) {
        let unread = &mut self.collected.unread;
        if unread.iter().all(|(of, _)| of != partition) {
            unread.push((partition.clone(), reason));
        }
    }

    fn open(&mut self, partition: Partition) -> Option<Column> {
        match Column::open(self.cluster, partition.clone()) {
            Ok(column) => Some(column),
            Err(error) => {
                self.unread(&partition, error.to_string());
                None
            }
        }
    }

    /// Every record of a column; what stops it is noted.
    fn each(&mut self, column: &mut Column, mut read: impl FnMut(&mut Self, u64, &[u8])) {
        loop {
            match column.next() {
                Ok(Some(record)) => {
                    self.collected.records += 1;
                    read(self, record.offset.0, &record.payload);
                }
                Ok(None) => return,
                Err(error) => {
                    self.unread(&column.partition, error.to_string());
                    return;
                }
            }
        }
    }

    /// The sequencer's times go on.
    fn heads(&mut self) -> Result<(), LogError> {
        let mut column = Column::open(self.cluster, self.layout.sequence())?;
        let mut before: Option<(u64, SignedTreeHead)> = None;
        while let Some(record) = column.next()? {
            self.collected.records += 1;
            let position = record.offset.0;
            let Ok(batch) = SequenceBatch::decode(&record.payload) else {
                self.fault(&column.partition, position, |faults| faults.unreadable += 1);
                continue;
            };
            let head = batch.tree_head();
            if let Some((earlier, first)) = before
                && (head.head.timestamp_ms < first.head.timestamp_ms || head.head.size <= first.head.size)
            {
                let places = vec![(column.partition.clone(), earlier), (column.partition.clone(), position)];
                self.found(TwoHeads { first, second: head, leaf: None }, places);
            }
            before = Some((position, head));
        }
        Ok(())
    }

    /// An institution's answers, of which no two about one place may differ.
    fn answers(&mut self, participant: ParticipantId, refusals: &mut Refusals) -> Result<(), JournalError> {
        let mut told = 0;
        let mut from = Some(Source::default());
        let mut is_first = true;
        while let Some(source) = from {
            let mut answers = Answers::new(source, self.kept);
            self.read_answers(participant, &mut answers, is_first);
            let (kept, until) = answers.finish();
            for (source, answered) in kept {
                for contradiction in answered.contradictions() {
                    // Each is read again, which a member could make last for ever.
                    if told < FINDINGS {
                        self.contradicted(participant, contradiction);
                    } else {
                        self.collected.more += 1;
                    }
                    told += 1;
                }
                for (index, place) in answered.refused() {
                    refusals.insert(source, index, Refusal { participant, place });
                }
            }
            if refusals.count > self.kept {
                self.settled(refusals)?;
                *refusals = Refusals::default();
            }
            (from, is_first) = (until, false);
        }
        Ok(())
    }

    /// Reads all answers of an institution. What counts for nothing is counted the first time.
    fn read_answers(&mut self, participant: ParticipantId, answers: &mut Answers, is_first: bool) {
        let key = self.network.participants[participant.index()].key;
        let mut signer = ApprovalSigner::new(self.network.id);
        let mut again: Vec<Option<Column>> = Vec::new();
        let records = self.collected.records;
        for assembler in 0..self.layout.assemblers {
            let partition = self.layout.approvals(participant, assembler);
            again.push(None);
            let Some(mut column) = self.open(partition.clone()) else { continue };
            self.each(&mut column, |search, position, payload| {
                let mut fault = |count: fn(&mut Faults)| {
                    if is_first {
                        search.fault(&partition, position, count);
                    }
                };
                let Ok(batch) = ApprovalBatch::decode(payload) else {
                    return fault(|faults| faults.unreadable += 1);
                };
                if !is_first && !answers.is_in_range(batch.source) {
                    return;
                }
                if batch.participant != participant || !signer.verifies(&batch, &key) {
                    return fault(|faults| faults.unsigned += 1);
                }
                if !answers.is_in_range(batch.source) {
                    return;
                }
                let first = match answers.first(batch.source) {
                    Some(place) => match search.answers_at(&mut again, participant, place) {
                        Some(first) if first.source == batch.source => Some(first),
                        _ => return,
                    },
                    None => None,
                };
                answers.take(first.as_ref(), &batch, Place { assembler, position });
            });
        }
        if !is_first {
            self.collected.records = records;
        }
    }

    /// A record of answers that was read before; `columns` are those of the institution that are
    /// open for this.
    fn answers_at(
        &mut self,
        columns: &mut [Option<Column>],
        participant: ParticipantId,
        place: Place,
    ) -> Option<ApprovalBatch> {
        let column = columns.get_mut(usize::from(place.assembler))?;
        if column.is_none() {
            *column = self.open(self.layout.approvals(participant, place.assembler));
        }
        let column = column.as_mut()?;
        let reason = match column.at(place.position) {
            Ok(Some(record)) => match ApprovalBatch::decode(&record.payload) {
                Ok(batch) => return Some(batch),
                Err(error) => error.to_string(),
            },
            Ok(None) => format!("record {} is there no more", place.position),
            Err(error) => error.to_string(),
        };
        let partition = column.partition.clone();
        self.unread(&partition, reason);
        None
    }

    /// Makes evidence of two answers.
    fn contradicted(&mut self, participant: ParticipantId, contradiction: &Contradiction) {
        let Contradiction { index, first, second } = *contradiction;
        let mut columns: Vec<Option<Column>> = (0..self.layout.assemblers).map(|_| None).collect();
        let Some(one) = self.answers_at(&mut columns, participant, first) else { return };
        let Some(other) = self.answers_at(&mut columns, participant, second) else { return };
        if let Some(two) = two_answers(&one, &other, index) {
            let lies = |place: Place| (self.layout.approvals(participant, place.assembler), place.position);
            self.found(two, vec![lies(first), lies(second)]);
        }
    }

    /// What an institution cosigned as a witness: the heads of the sequence, and no two that do not fit.
    fn cosignatures(&mut self, participant: ParticipantId) -> Result<(), LogError> {
        let key = self.network.participants[participant.index()].key;
        let mut sequence = Column::open(self.cluster, self.layout.sequence())?;
        let partition = self.layout.cosignatures(participant);
        let Some(mut column) = self.open(partition.clone()) else { return Ok(()) };
        // Heads that it cosigned and that are not in the sequence, and the heads in their place.
        let mut others: HashMap<u64, (CosignedHead, u64)> = HashMap::new();
        let mut failed = None;
        self.each(&mut column, |search, position, payload| {
            let Ok(batch) = CosignatureBatch::decode(payload) else {
                return search.fault(&partition, position, |faults| faults.unreadable += 1);
            };
            for head in &batch.heads {
                if batch.participant != participant
                    || !is_whole(head)
                    || !head.verify(&search.network.id, &key)
                {
                    return search.fault(&partition, position, |faults| faults.unsigned += 1);
                }
                let read = match sequence.head(head.size) {
                    Ok(read) => read,
                    Err(error) => {
                        failed.get_or_insert(error);
                        return;
                    }
                };
                if read.is_some_and(|read| read.head.root == head.root) {
                    continue;
                }
                let is_operators = head.head().verify(&search.network.id.0, &search.keys.operator).is_ok();
                match read {
                    Some(first) if is_operators => {
                        let places =
                            vec![(search.layout.sequence(), head.size - 1), (partition.clone(), position)];
                        search.found(TwoHeads { first, second: head.head(), leaf: None }, places);
                    }
                    // The operator's log went on from here once, or is an old copy.
                    None if is_operators => {}
                    _ => {
                        search.fault(&partition, position, |faults| faults.made_up += 1);
                        if others.len() < 1 << 12 {
                            others.entry(head.size).or_insert((*head, position));
                        }
                    }
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if others.is_empty() {
            return Ok(());
        }
        // A head that it made up contradicts the one of the same size that it cosigned elsewhere.
        let Some(mut column) = self.open(partition.clone()) else { return Ok(()) };
        self.each(&mut column, |search, position, payload| {
            let Ok(batch) = CosignatureBatch::decode(payload) else { return };
            for head in batch.heads.iter().filter(|head| is_whole(head)) {
                let Some((other, at)) = others.get(&head.size) else { continue };
                if other.root != head.root {
                    let (first, second) = (cosigned(other), cosigned(head));
                    let two = TwoCosignatures { participant, first, second, leaf: None };
                    search.found(two, vec![(partition.clone(), *at), (partition.clone(), position)]);
                    others.remove(&head.size);
                }
            }
        });
        Ok(())
    }

    /// What was settled although an institution that it concerns had refused it.
    fn settled(&mut self, refusals: &Refusals) -> Result<(), JournalError> {
        if refusals.by_place.is_empty() {
            return Ok(());
        }
        let mut column = Column::open(self.cluster, self.layout.sequence())?;
        let mut wanted: Vec<(Source, u32, Refusal)> = Vec::new();
        // Each institution has its share of them: refusals of one that was not asked prove nothing,
        // and hide no others'.
        let mut shares: HashMap<ParticipantId, usize> = HashMap::new();
        let mut more = 0;
        while let Some(record) = column.next()? {
            let Ok(batch) = SequenceBatch::decode(&record.payload) else { continue };
            for (index, _) in batch.decisions().filter(|(_, verdict)| *verdict == 0) {
                for refusal in refusals.by_place.get(&(batch.source, index)).into_iter().flatten() {
                    let share = shares.entry(refusal.participant).or_default();
                    if *share < FINDINGS {
                        wanted.push((batch.source, index, *refusal));
                    } else {
                        more += 1;
                    }
                    *share += 1;
                }
            }
        }
        for (source, index, Refusal { participant, place: Place { assembler, position } }) in wanted {
            let partition = self.layout.approvals(participant, assembler);
            let record = Column::open(self.cluster, partition.clone())?.at(position)?;
            let batch = record.and_then(|record| ApprovalBatch::decode(&record.payload).ok());
            let Some(batch) = batch.filter(|batch| batch.source == source) else { continue };
            let Ok(item) = batch.indices.binary_search(&index) else { continue };
            let Some(refusal) = batch.approval(item) else { continue };
            let journal = Journal::open(self.cluster, self.layout)?;
            let wanted = Wanted::Id(batch.ids[item]);
            let Some(found) = proof::find(journal, &self.network.id, wanted, u64::MAX)? else { continue };
            let transaction = Contents::of(self.network.id, &found.transaction, |_| false);
            let case = SettledAgainstRefusal { transaction, receipt: found.receipt, refusal };
            self.found(case, vec![(partition, position)]);
        }
        self.collected.more += more;
        Ok(())
    }
}

/// Whether a size has its place in a log.
fn is_whole(head: &CosignedHead) -> bool {
    head.size > 0
}

fn cosigned(head: &CosignedHead) -> evidence::CosignedHead {
    evidence::CosignedHead {
        size: head.size,
        root: Hash::from_bytes(head.root),
        time_s: head.time_s,
        signature: head.cosignature,
    }
}

/// How long the cluster may give nothing of what it has.
const PATIENCE: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 1 << 20;

/// One partition from its beginning to where it ended when it was opened.
struct Column {
    log: Arc<dyn SharedLog>,
    topic: TopicId,
    partition: Partition,
    next: u64,
    end: u64,
    records: VecDeque<Record>,
}

impl Column {
    fn open(cluster: &dyn Cluster, partition: Partition) -> Result<Self, LogError> {
        let mut bindings = Bindings::default();
        let topic = bindings.reads(partition.clone());
        let log = cluster.reader(&bindings.0)?;
        let (next, end) = (log.first(topic).0, log.next(topic).0);
        Ok(Self { log, topic, partition, next, end, records: VecDeque::new() })
    }

    fn next(&mut self) -> Result<Option<Record>, LogError> {
        let began = Instant::now();
        while self.records.is_empty() {
            if self.next >= self.end {
                return Ok(None);
            }
            let mut records = Vec::new();
            self.log.read(self.topic, Offset(self.next), READ_BYTES, Visibility::Durable, &mut records)?;
            self.records.extend(records);
            if self.records.is_empty() {
                if began.elapsed() > PATIENCE {
                    let reason = format!("{} gives no record of what it says that it has", self.partition);
                    return Err(LogError::Cluster { operation: "read", reason });
                }
                self.log.wait(Duration::from_millis(100));
            }
        }
        let record = self.records.pop_front();
        if let Some(record) = &record {
            self.next = record.offset.0 + 1;
        }
        Ok(record)
    }

    /// The record at a position, and the next ones from there on.
    fn at(&mut self, position: u64) -> Result<Option<Record>, LogError> {
        if position >= self.end {
            return Ok(None);
        }
        if position != self.next {
            self.next = position;
            self.records.clear();
        }
        Ok(self.next()?.filter(|record| record.offset.0 == position))
    }

    /// The head of the sequence with that many records; each record adds one.
    fn head(&mut self, size: u64) -> Result<Option<SignedTreeHead>, LogError> {
        let Some(record) = self.at(size.saturating_sub(1))? else { return Ok(None) };
        let head = SequenceBatch::decode(&record.payload).ok().map(|batch| batch.tree_head());
        Ok(head.filter(|head| head.head.size == size))
    }
}
