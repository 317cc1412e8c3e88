//! The ledger of a network over a cluster: what was accepted and the sequence, read as one journal.

use super::layout::{Bindings, Layout};
use crate::journal::{Entry, JournalError};
use crate::message::{AcceptedBatch, Message, SequenceBatch, Source};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{LogError, Offset, Record, Ticket, TopicId, Visibility};

/// A journal that is read from a cluster: every record that was there when it was opened.
pub struct Journal {
    log: Arc<dyn SharedLog>,
    accepted: Vec<Partition>,
    sequence: Partition,
    /// Read and not yet due: what it decides comes first.
    held: Option<(Offset, SequenceBatch)>,
    ticket: u64,
    failed: bool,
}

/// One topic partition as it is read: from its beginning to where it ended when it was opened.
pub(super) struct Partition {
    topic: TopicId,
    next: u64,
    end: u64,
    records: VecDeque<Record>,
}

/// How long the cluster may give nothing of what it has.
const PATIENCE: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 4 << 20;

impl Journal {
    /// The journal as of now.
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    pub fn open(cluster: &dyn Cluster, layout: &Layout) -> Result<Self, LogError> {
        let mut bindings = Bindings::default();
        let sequence = bindings.reads(layout.sequence());
        let accepted: Vec<_> = (0..layout.schedulers).map(|s| bindings.reads(layout.accepted(s))).collect();
        let log = cluster.reader(&bindings.0)?;
        // The sequence first: what it decides was accepted before.
        let sequence = Partition::all(&*log, sequence);
        let accepted = accepted.into_iter().map(|topic| Partition::all(&*log, topic)).collect();
        Ok(Self { log, accepted, sequence, held: None, ticket: 0, failed: false })
    }

    fn step(&mut self) -> Result<Option<Entry>, JournalError> {
        if self.held.is_none() {
            self.held = self.sequence.take::<SequenceBatch>(&*self.log, self.ticket)?;
        }
        let wanted = self.held.as_ref().map(|(_, batch)| batch.source);
        for (scheduler, partition) in (0u64..).zip(&mut self.accepted) {
            let due = match wanted {
                Some(source) => scheduler == source.scheduler && partition.next <= source.number,
                None => true,
            };
            if due && let Some((offset, batch)) = partition.take::<AcceptedBatch>(&*self.log, self.ticket)? {
                return Ok(Some(Entry::Accepted(Source::new(scheduler, offset.0), Arc::new(batch))));
            }
        }
        Ok(self.held.take().map(|(offset, batch)| Entry::Sequenced(offset, batch)))
    }
}

impl Iterator for Journal {
    type Item = Result<(Ticket, Entry), JournalError>;

    /// The next record. What a record of the sequence decides comes before it; `Ticket` counts the records.
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

impl Partition {
    /// What a log has of a topic now.
    pub(super) fn all(log: &dyn SharedLog, topic: TopicId) -> Self {
        Self { topic, next: log.first(topic).0, end: log.next(topic).0, records: VecDeque::new() }
    }

    /// Another reader of the same records.
    pub(super) fn again(&self) -> Self {
        Self { topic: self.topic, next: self.next, end: self.end, records: VecDeque::new() }
    }

    pub(super) fn take<T: Message>(
        &mut self,
        log: &dyn SharedLog,
        ticket: u64,
    ) -> Result<Option<(Offset, T)>, JournalError> {
        if self.next >= self.end {
            return Ok(None);
        }
        let began = Instant::now();
        while self.records.is_empty() {
            let mut records = Vec::new();
            log.read(self.topic, Offset(self.next), READ_BYTES, Visibility::Durable, &mut records)?;
            self.records.extend(records);
            if self.records.is_empty() {
                if began.elapsed() > PATIENCE {
                    let reason = "it gives no record of what it says that it has".into();
                    return Err(LogError::Cluster { operation: "read", reason }.into());
                }
                log.wait(Duration::from_millis(100));
            }
        }
        let record = self.records.pop_front().expect("there is one");
        self.next = record.offset.0 + 1;
        let wrong = |source| JournalError::Record {
            ticket: Ticket(ticket),
            topic: self.topic,
            offset: record.offset,
            source,
        };
        Ok(Some((record.offset, T::decode(&record.payload).map_err(wrong)?)))
    }
}
