//! Transactions as they come in, and as they are accepted.

use super::{Message, Source, decode_all};
use bytemuck::{Pod, Zeroable};
use tally_ledger::batch::MAX_BATCH;
use tally_ledger::refusal::{verdict_from_number, verdict_number};
use tally_ledger::wire::{DecodeError, Reader, write, write_count, write_slice};
use tally_ledger::{Refusal, Timestamp, TransactionBatch};
use tally_log::Ticket;

/// Transactions that the gateway or a generator hands to a scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submission {
    /// Chosen by the sender; comes back with the [`IntakeBatch`].
    pub origin: u64,
    /// The transactions, checked for nothing but their layout.
    pub batch: TransactionBatch,
}

/// Transactions that a scheduler accepted: the record from which everything else is recomputed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcceptedBatch {
    /// When, by the scheduler's clock, which never goes back.
    pub accepted_at: Timestamp,
    /// The transactions: well-formed, balanced, signed, new.
    pub batch: TransactionBatch,
}

impl AcceptedBatch {
    /// When the last of its transactions expires.
    pub fn expires(&self) -> Timestamp {
        self.batch.headers.iter().map(|header| header.expiry).max().unwrap_or(self.accepted_at)
    }
}

/// What the scheduler made of one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intake {
    /// Accepted, as the transaction at that position of the batch's [`Source`].
    Accepted(u32),
    /// Its end-to-end reference was seen before, there.
    Duplicate(Source, u32),
    /// Refused. Nothing remembers it: sent again, it is refused again.
    Refused(Refusal),
}

/// What the scheduler made of a submission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IntakeBatch {
    /// The submission's.
    pub origin: u64,
    /// What the accepted ones are part of, if any was accepted.
    pub source: Option<Source>,
    /// Where the accepted batch lies in the log.
    pub ticket: Ticket,
    /// When the last of its transactions expires.
    pub expires: Timestamp,
    /// One for each transaction submitted.
    pub results: Vec<Intake>,
}

impl Message for Submission {
    fn encode(&self, out: &mut Vec<u8>) {
        write(out, &self.origin);
        self.batch.encode(out);
    }
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("submission", bytes, |reader| {
            Ok(Self { origin: reader.value()?, batch: TransactionBatch::decode(reader)? })
        })
    }
}

impl Message for AcceptedBatch {
    fn encode(&self, out: &mut Vec<u8>) {
        write(out, &self.accepted_at);
        self.batch.encode(out);
    }
    fn encode_parts<R>(&self, scratch: &mut Vec<u8>, take: impl FnOnce(&[&[u8]]) -> R) -> R {
        scratch.clear();
        write(scratch, &self.accepted_at);
        self.batch.encode_head(scratch);
        let head = scratch.len();
        self.batch.encode_orders(scratch);
        let (head, orders) = scratch.split_at(head);
        let [headers, seeds, legs, signers] = self.batch.columns();
        take(&[head, headers, seeds, legs, signers, orders])
    }
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("accepted transactions", bytes, |reader| {
            Ok(Self { accepted_at: reader.value()?, batch: TransactionBatch::decode(reader)? })
        })
    }
}

/// Transactions one after the other of which the scheduler made the same.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
struct Run {
    /// The number and the scheduler of the batch with the first use of a duplicate's reference.
    first: [u64; 2],
    /// The position of the first of them, or of a duplicate's first use.
    index: u32,
    count: u32,
    kind: u32,
    /// The refusal's number.
    refusal: u32,
}

const ACCEPTED: u32 = 0;
const DUPLICATE: u32 = 1;
const REFUSED: u32 = 2;

impl Run {
    fn one(result: &Intake) -> Self {
        let nothing = Self { first: [0; 2], index: 0, count: 1, kind: ACCEPTED, refusal: 0 };
        match result {
            Intake::Accepted(index) => Self { index: *index, ..nothing },
            Intake::Duplicate(first, index) => {
                Self { first: [first.number, first.scheduler], index: *index, kind: DUPLICATE, ..nothing }
            }
            Intake::Refused(refusal) => {
                Self { kind: REFUSED, refusal: u32::from(verdict_number(Err(*refusal))), ..nothing }
            }
        }
    }

    /// Whether `next` goes on where this run ends.
    fn takes(&self, next: &Self) -> bool {
        let same = self.kind == next.kind && self.refusal == next.refusal && self.first == next.first;
        let step = if self.kind == REFUSED { 0 } else { self.count };
        same && self.index.checked_add(step) == Some(next.index)
    }

    fn all(results: &[Intake]) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for next in results.iter().map(Self::one) {
            match runs.last_mut() {
                Some(run) if run.takes(&next) => run.count += 1,
                _ => runs.push(next),
            }
        }
        runs
    }

    fn results(&self) -> Option<impl Iterator<Item = Intake>> {
        let run = *self;
        let refusal = match (run.kind, u16::try_from(run.refusal).ok().and_then(verdict_from_number)?) {
            (ACCEPTED | DUPLICATE, Ok(())) => None,
            (REFUSED, Err(refusal)) => Some(refusal),
            _ => return None,
        };
        run.index.checked_add(run.count)?;
        let [number, scheduler] = run.first;
        let first = Source::checked(scheduler, number)?;
        Some((0..run.count).map(move |offset| match (run.kind, refusal) {
            (_, Some(refusal)) => Intake::Refused(refusal),
            (DUPLICATE, _) => Intake::Duplicate(first, run.index + offset),
            _ => Intake::Accepted(run.index + offset),
        }))
    }
}

const VERSION: u8 = 1;

impl Message for IntakeBatch {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        write(out, &self.origin);
        write(out, &u8::from(self.source.is_some()));
        self.source.unwrap_or_default().encode(out);
        write(out, &self.ticket.0);
        write(out, &self.expires);
        let runs = Run::all(&self.results);
        write_count(out, runs.len());
        write_slice(out, &runs);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("intake", bytes, |reader: &mut Reader<'_>| {
            reader.version(VERSION)?;
            let origin = reader.value()?;
            let has_source: u8 = reader.value()?;
            let source = Source::decode(reader)?;
            let source = match has_source {
                0 if source == Source::default() => None,
                1 => Some(source),
                _ => return Err(reader.error("a source that is none")),
            };
            let (ticket, expires) = (Ticket(reader.value()?), reader.value()?);
            let count = reader.count(MAX_BATCH)?;
            let runs: Vec<Run> = reader.values(count)?;
            let total: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
            if total > MAX_BATCH as u64 {
                return Err(reader.error("a count is above its limit"));
            }
            let mut results = Vec::with_capacity(usize::try_from(total).unwrap_or(0));
            for run in &runs {
                results.extend(run.results().ok_or_else(|| reader.error("a result is unknown"))?);
            }
            if Run::all(&results) != runs {
                return Err(reader.error("the runs are not the longest"));
            }
            Ok(Self { origin, source, ticket, expires, results })
        })
    }
}
