//! Transactions as they come in, and as they are accepted.

use super::{Message, Source, decode_all};
use tally_ledger::wire::{DecodeError, write};
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
