//! Outcomes in their one global order, read on from a place: what those are told who wait for whatever concerns them.

use crate::clerk::Finality;
use crate::engine::earlier::Names;
use crate::engine::{Answer, EngineError, Outcome};
use crate::journal::{self, JournalError};
use crate::message::{AcceptedBatch, SequenceBatch, Source};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use tally_ledger::refusal::verdict_from_number;
use tally_ledger::{NetworkId, ParticipantId, Transaction};
use tally_log::{Log, LogError, Visibility};

/// A transaction's outcome, and whom it concerns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Concluded {
    /// Its place in the global order.
    pub sequence: u64,
    /// The outcome, which is final.
    pub answer: Answer,
    /// At whom its accounts are, in rising order.
    pub participants: Box<[ParticipantId]>,
}

/// How far somebody has been told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The sequence number that comes next.
    next: u64,
    /// The record of the sequence that it is in, where that is known.
    record: Option<u64>,
}

impl Place {
    /// Before the outcome with that sequence number.
    pub fn before(sequence: u64) -> Self {
        Self { next: sequence, record: None }
    }

    /// The sequence number that comes next.
    pub fn next(&self) -> u64 {
        self.next
    }
}

/// Outcomes one after the other: the rest of one record of the sequence.
#[derive(Clone, Debug)]
pub struct Outcomes {
    all: Arc<[Concluded]>,
    from: usize,
}

impl Deref for Outcomes {
    type Target = [Concluded];

    fn deref(&self) -> &[Concluded] {
        &self.all[self.from..]
    }
}

/// Records that are kept for others who come to the same place: most are at the end.
const KEPT: usize = 4;

/// Outcomes that were read last, with the first sequence number of their record.
#[derive(Default)]
pub(crate) struct Kept(Mutex<VecDeque<(u64, Arc<[Concluded]>)>>);

impl Kept {
    /// The outcomes from `place` on that are in one record; `place` goes on to the next. None where the sequence ends.
    /// `accepted` reads an accepted batch.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub(crate) fn read(
        &self,
        log: &dyn Log,
        names: &Names,
        place: &mut Place,
        accepted: impl FnOnce(Source) -> Result<Option<Arc<AcceptedBatch>>, LogError>,
    ) -> Result<Option<Outcomes>, EngineError> {
        let Some((record, batch)) = find(log, names, *place).map_err(JournalError::from)? else {
            return Ok(None);
        };
        let known =
            self.kept().iter().find(|(first, _)| *first == batch.first).map(|(_, all)| Arc::clone(all));
        let all = match known {
            Some(all) => all,
            None => {
                let accepted = accepted(batch.source).map_err(JournalError::from)?;
                let Some(accepted) = accepted else { return Ok(None) };
                let all: Arc<[Concluded]> = concluded(&batch, &accepted, &names.network).into();
                let mut kept = self.kept();
                if kept.len() == KEPT {
                    kept.pop_front();
                }
                kept.push_back((batch.first, Arc::clone(&all)));
                all
            }
        };
        let from = all.partition_point(|one| one.sequence < place.next);
        *place = Place { next: end(&batch), record: Some(record + 1) };
        Ok(Some(Outcomes { all, from }))
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, VecDeque<(u64, Arc<[Concluded]>)>> {
        self.0.lock().expect("nobody panics with what is kept")
    }
}

/// The transaction at a place of the global order; none where the sequence has not come to it. `accepted` reads an accepted
/// batch.
///
/// # Errors
/// When the journal cannot be read.
pub(crate) fn transaction(
    log: &dyn Log,
    names: &Names,
    sequence: u64,
    accepted: impl FnOnce(Source) -> Result<Option<Arc<AcceptedBatch>>, LogError>,
) -> Result<Option<Transaction>, LogError> {
    let Some((_, batch)) = find(log, names, Place::before(sequence))? else { return Ok(None) };
    let offset = usize::try_from(sequence - batch.first).expect("records are bounded");
    let Some((index, _)) = batch.decisions().nth(offset) else { return Ok(None) };
    Ok(accepted(batch.source)?.and_then(|accepted| accepted.batch.transaction(index as usize)))
}

/// The record of the sequence that a place is in, and which it is.
fn find(log: &dyn Log, names: &Names, place: Place) -> Result<Option<(u64, SequenceBatch)>, LogError> {
    let topic = names.sequence;
    let read = |at| {
        let found: Option<SequenceBatch> = journal::record(log, topic, at, Visibility::Durable)?;
        let holds = |batch: &SequenceBatch| (batch.first..end(batch)).contains(&place.next);
        Ok(found.filter(holds).map(|batch| (at, batch)))
    };
    if let Some(at) = place.record
        && let Some(found) = read(at)?
    {
        return Ok(Some(found));
    }
    let before = |batch: SequenceBatch| end(&batch) <= place.next;
    let at = journal::partition_point(log, topic, Visibility::Durable, before)?;
    if at < log.next(topic).0 { read(at) } else { Ok(None) }
}

/// The sequence number after the last of a record.
fn end(batch: &SequenceBatch) -> u64 {
    batch.first + u64::from(batch.count)
}

/// Every outcome of a record.
fn concluded(batch: &SequenceBatch, accepted: &AcceptedBatch, network: &NetworkId) -> Vec<Concluded> {
    let one = |(sequence, (index, verdict)): (u64, (u32, u16))| {
        let transaction = accepted.batch.transaction(index as usize)?;
        let verdict = verdict_from_number(verdict)?;
        let finality = Finality { sequence, timestamp: batch.timestamp, verdict };
        let (id, uetr) = (transaction.id(network), transaction.header.uetr);
        let answer = Answer { id, uetr, outcome: Outcome::Final(finality) };
        Some(Concluded { sequence, answer, participants: transaction.participants().into() })
    };
    (batch.first..).zip(batch.decisions()).filter_map(one).collect()
}
