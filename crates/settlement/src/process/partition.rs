//! One institution's partition over a cluster, as that institution may read it: its proposals, what others agreed to, the
//! sequence and its own snapshots, and nothing else ([`Layout::access`]).
//!
//! Proposals expire. Where they do not go back to the network's first decision, the accounts are those of the
//! institution's last snapshot, and [`Shown`] says from where on what can be checked.

use super::journal::Partition as Column;
use super::layout::{Bindings, Layout};
use super::snapshot::{self, Ended, Piece, Position};
use crate::audit::{Beginning, Opened, Shown, ShownEntry};
use crate::journal::{self, JournalError};
use crate::message::{ConsentBatch, ProposalBatch, SequenceBatch, Source};
use crate::replay::Partition;
use crate::runtime::shell::assembler_of;
use crate::snapshot::Source as Saved;
use crate::stage::Agreements;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tally_ledger::{AccountStatus, Network, ParticipantId};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{LogError, Offset, Ticket, TopicId, Visibility};

/// A partition that cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// The cluster could not be read.
    #[error("the topics cannot be read")]
    Log(#[from] LogError),
    /// A record has another form.
    #[error("the topics cannot be read")]
    Journal(#[from] JournalError),
    /// The institution's own snapshot is damaged, or another's.
    #[error("the last snapshot of {bic} cannot be used: {what}")]
    Snapshot {
        /// Whose.
        bic: String,
        /// What is wrong with it.
        what: String,
    },
    /// There is nothing to begin with.
    #[error(
        "the proposals of {bic} go back to sequence number {from} only, and its last snapshot is {snapshot}: run its updater \
         until it has saved its balances"
    )]
    NoBeginning {
        /// Whose.
        bic: String,
        /// From where on proposals are at hand.
        from: u64,
        /// What its snapshot is.
        snapshot: String,
    },
}

/// What one institution may read of the ledger: every record that was there when it was opened.
pub struct Own {
    log: Arc<dyn SharedLog>,
    proposals: Vec<Column>,
    /// What others agreed to, by assembler.
    consents: Vec<Column>,
    sequence: Column,
    agreed: Consents,
    /// Per scheduler, the number after the last batch that was proposed.
    next: HashMap<u64, u64>,
    /// Read and not yet due: what it decides comes first.
    held: Option<(Offset, SequenceBatch)>,
    ticket: u64,
    failed: bool,
}

/// Puts what others agreed to where it belongs among the records of the other topics: after the proposals that it is about,
/// before the record of the sequence that rests on it.
struct Consents {
    participant: ParticipantId,
    agreements: Agreements,
    /// Proposals of which something is undecided, and how many.
    undecided: HashMap<Source, (Arc<ProposalBatch>, usize)>,
    /// What was read before the proposals that it is about, and how many bytes that is.
    early: HashMap<Source, Vec<Arc<ConsentBatch>>>,
    ahead: usize,
    /// What comes next.
    due: VecDeque<Arc<ConsentBatch>>,
}

/// Bytes of consents that are read before their proposals. Honest ones come after the proposals were made, and before the
/// decision: those to what is under way at one moment.
const MAX_AHEAD: usize = 256 << 20;

struct Topics {
    sequence: TopicId,
    proposals: Vec<TopicId>,
    consents: Vec<TopicId>,
    snapshots: TopicId,
}

fn bind(layout: &Layout, participant: ParticipantId) -> (Bindings, Topics) {
    let mut bindings = Bindings::default();
    let sequence = bindings.reads(layout.sequence());
    let proposals =
        (0..layout.schedulers).map(|s| bindings.reads(layout.proposals(participant, s))).collect();
    let consents = (0..layout.assemblers)
        .map(|assembler| bindings.reads(layout.consents(participant, assembler)))
        .collect();
    let snapshots = bindings.reads(layout.snapshots(participant));
    (bindings, Topics { sequence, proposals, consents, snapshots })
}

/// What the institution may read as of now, and from where on that can be checked.
///
/// # Errors
/// When the cluster cannot be read, or there is nothing to begin with.
pub fn open(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Network,
    participant: ParticipantId,
) -> Result<(Beginning, Own), PartitionError> {
    let (bindings, topics) = bind(layout, participant);
    let log = cluster.reader(&bindings.0)?;
    let sequence = Column::all(&*log, topics.sequence);
    // The sequence first: what it decides was proposed and agreed to before.
    let all = |topics: &[TopicId]| -> Vec<Column> {
        topics.iter().map(|topic| Column::all(&*log, *topic)).collect()
    };
    let (proposals, consents) = (all(&topics.proposals), all(&topics.consents));
    let from = shown_from(&*log, &proposals, &sequence)?;
    let accounts = match from {
        0 => None,
        from => Some(opened(&log, topics.snapshots, network, participant, from)?),
    };
    let agreed = Consents::new(network, participant);
    let consents_expired = topics.consents.iter().map(|topic| log.first(*topic).0 > 0).collect();
    let next = HashMap::new();
    let own = Own { log, proposals, consents, sequence, agreed, next, held: None, ticket: 0, failed: false };
    Ok((Beginning { from, accounts, consents_expired }, own))
}

/// The sequence number from which on the proposals of everything that is decided are at hand.
fn shown_from(log: &dyn SharedLog, proposals: &[Column], sequence: &Column) -> Result<u64, PartitionError> {
    let mut first: HashMap<u64, u64> = HashMap::new();
    for column in proposals {
        let mut column = column.again();
        if let Some((_, batch)) = column.take::<ProposalBatch>(log, 0)? {
            first.insert(batch.source.scheduler, batch.source.number);
        }
    }
    let mut from = 0;
    let mut sequence = sequence.again();
    while let Some((_, batch)) = sequence.take::<SequenceBatch>(log, 0)? {
        let shown = first.get(&batch.source.scheduler).is_some_and(|first| *first <= batch.source.number);
        if !shown {
            from = batch.first.saturating_add(u64::from(batch.count));
        }
    }
    Ok(from)
}

/// The accounts of the last complete snapshot.
fn opened(
    log: &Arc<dyn SharedLog>,
    topic: TopicId,
    network: &Network,
    participant: ParticipantId,
    from: u64,
) -> Result<Opened, PartitionError> {
    let bic = || network.participants[participant.index()].bic.clone();
    let damaged = |what: &str| PartitionError::Snapshot { bic: bic(), what: what.to_owned() };
    let none = |snapshot: String| PartitionError::NoBeginning { bic: bic(), from, snapshot };
    let mut look = log.next(topic).0.checked_sub(1);
    let Ended { end, first, length, hash } = loop {
        let Some(at) = look else { return Err(none("not there".into())) };
        match journal::record::<Piece>(&**log, topic, at, Visibility::Durable)? {
            Some(Piece::End { first, length, hash, .. }) => break Ended { end: at, first, length, hash },
            Some(Piece::Part { before, .. }) => look = before,
            // A topic shared by processes has places without a record.
            None => look = at.checked_sub(1).filter(|at| *at >= log.first(topic).0),
        }
    };
    let mut bytes = Vec::new();
    for read in journal::records::<Piece>(&**log, topic, first..end, Visibility::Durable) {
        if let (_, Piece::Part { bytes: part, .. }) = read? {
            bytes.extend_from_slice(&part);
        }
    }
    if bytes.len() as u64 != length || blake3::hash(&bytes).as_bytes() != &hash {
        return Err(damaged("its bytes are not those that were written"));
    }
    let mut saved = Saved::new(&bytes[..], length.saturating_sub(32));
    let mut partition = Partition::new(network, participant);
    let (id, whose, position) =
        snapshot::read(&mut saved, &mut partition).map_err(|e| damaged(&e.to_string()))?;
    if id != network.id || whose != participant {
        return Err(damaged("it is another network's or participant's"));
    }
    let Position { applied, .. } = position;
    if applied < from {
        return Err(none(format!("of sequence number {applied}")));
    }
    partition.accounts.agree_floors(network);
    let whole = partition.pages.iter().chain([&partition.institution_from]).all(|page| *page == applied);
    if !whole {
        return Err(damaged("its pages are of different times"));
    }
    let mut opened = Opened { sequence: applied, ..Opened::default() };
    for (number, account) in partition.accounts.iter() {
        match partition.accounts.owner(account).filter(|_| !number.is_institution()) {
            Some(owner) => opened.customers.push(crate::audit::OpenedAccount {
                asset: account.asset,
                owner: *owner,
                balance: account.balance,
                floor: partition.accounts.floor(number, account).0,
                frozen: account.status() == AccountStatus::Frozen,
                closed: account.status() == AccountStatus::Closed,
            }),
            None => opened.own.push((number, account.balance)),
        }
    }
    opened.aliases = partition.aliases.iter().map(|(alias, _)| alias.to_owned()).collect();
    Ok(opened)
}

impl Own {
    fn step(&mut self) -> Result<Option<Shown>, JournalError> {
        if let Some(consents) = self.agreed.next() {
            return Ok(Some(Shown::Agreed(consents)));
        }
        if self.held.is_none() {
            self.held = self.sequence.take::<SequenceBatch>(&*self.log, self.ticket)?;
        }
        let wanted = self.held.as_ref().map(|(_, batch)| batch.source);
        for (scheduler, column) in (0u64..).zip(&mut self.proposals) {
            let next = self.next.get(&scheduler).copied().unwrap_or(0);
            let due = wanted.is_none_or(|source| scheduler == source.scheduler && next <= source.number);
            if due && let Some((_, batch)) = column.take::<ProposalBatch>(&*self.log, self.ticket)? {
                if batch.participant != self.agreed.participant || batch.source.number < next {
                    return Ok(Some(Shown::Proposed(batch)));
                }
                self.next.insert(scheduler, batch.source.number.saturating_add(1));
                let batch = Arc::new(batch);
                self.agreed.propose(&batch);
                return Ok(Some(Shown::Proposed((*batch).clone())));
            }
        }
        if let Some((_, decided)) = &self.held {
            let assembler = assembler_of(decided.source, self.consents.len());
            while self.agreed.lack(decided)
                && let Some((_, consents)) =
                    self.consents[assembler].take::<ConsentBatch>(&*self.log, self.ticket)?
            {
                let next = self.next.get(&consents.source.scheduler).copied().unwrap_or(0);
                self.agreed.show(consents, next);
                if let Some(consents) = self.agreed.next() {
                    return Ok(Some(Shown::Agreed(consents)));
                }
            }
            self.agreed.decide(decided);
        }
        Ok(self.held.take().map(|(_, batch)| Shown::Sequenced(batch)))
    }
}

impl Consents {
    fn new(network: &Network, participant: ParticipantId) -> Self {
        Self {
            participant,
            agreements: Agreements::new(Arc::new(network.clone()), participant),
            undecided: HashMap::new(),
            early: HashMap::new(),
            ahead: 0,
            due: VecDeque::new(),
        }
    }

    fn propose(&mut self, batch: &Arc<ProposalBatch>) {
        if batch.participant != self.participant {
            return;
        }
        if !batch.is_empty() {
            self.agreements.propose(batch);
            self.undecided.insert(batch.source, (Arc::clone(batch), batch.len()));
        }
        let early = self.early.remove(&batch.source).unwrap_or_default();
        self.ahead -= early.iter().map(|consents| consents.bytes()).sum::<usize>();
        self.due.extend(early);
    }

    /// Takes what another agreed to; `next` is the number after the last batch that was proposed.
    fn show(&mut self, consents: ConsentBatch, next: u64) {
        if self.undecided.contains_key(&consents.source) {
            self.due.push_back(Arc::new(consents));
        } else if consents.source.number >= next {
            self.ahead += consents.bytes();
            self.early.entry(consents.source).or_default().push(Arc::new(consents));
        }
    }

    fn next(&mut self) -> Option<ConsentBatch> {
        let consents = self.due.pop_front()?;
        self.agreements.show(&consents);
        Some(Arc::unwrap_or_clone(consents))
    }

    /// Whether more is read for a record of the sequence.
    fn lack(&self, decided: &SequenceBatch) -> bool {
        self.ahead < MAX_AHEAD && self.agreements.lacks(decided).is_some()
    }

    fn decide(&mut self, decided: &SequenceBatch) {
        let Some((batch, left)) = self.undecided.get_mut(&decided.source) else { return };
        let own = decided.decisions().filter(|(index, _)| batch.position(*index).is_some());
        *left = left.saturating_sub(own.count());
        if *left == 0 {
            self.undecided.remove(&decided.source);
            self.agreements.forget(decided.source);
        }
    }
}

impl Iterator for Own {
    type Item = ShownEntry;

    /// The next record. What a record of the sequence decides was proposed and agreed to before it; `Ticket` counts the records.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        self.ticket += 1;
        let step = self.step();
        self.failed = step.is_err();
        step.map(|entry| entry.map(|entry| (Ticket(self.ticket), entry))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_institution_is_shown_nothing_that_it_may_not_read() {
        let participants = ["TSCBDEFF", "ALPHDEFF"].map(String::from).to_vec();
        let layout = Layout { prefix: "n".into(), participants, schedulers: 3, assemblers: 2, gateways: 1 };
        for participant in layout.everybody() {
            let (bindings, _) = bind(&layout, participant);
            let access = layout.access(participant);
            for binding in &bindings.0 {
                let topic = &binding.partition.topic;
                assert!(!binding.writes);
                assert!(access.reads.contains(topic) || access.writes.contains(topic), "{topic}");
            }
        }
    }
}
