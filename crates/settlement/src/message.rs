//! What travels between stages: batches as flat columns, each with a strict binary form.

mod annex;
mod approval;
mod consent;
mod cosignature;
mod decision;
mod intake;
pub mod participation;
mod proposal;
mod sequence;
mod verified;
mod withdrawal;

pub use annex::{AnnexBatch, MAX_ANNEX_ITEM};
pub use approval::{ApprovalBatch, ApprovalSigner};
pub use consent::ConsentBatch;
pub(crate) use cosignature::MAX_HEADS;
pub use cosignature::{CosignatureBatch, CosignedHead};
pub use decision::DecisionBatch;
pub use intake::{AcceptedBatch, Intake, IntakeBatch, Submission};
pub use participation::ParticipationBatch;
pub use proposal::{Proposal, ProposalBatch, ProposalCursor};
pub use sequence::{Run, SequenceBatch};
pub use tally_proof::sequence::{LeafHasher as SequenceLeafHasher, leaf as sequence_leaf};
pub use verified::{SignatureCheck, SignaturesVerified};
pub use withdrawal::Withdrawal;

use tally_ledger::wire::{DecodeError, Reader, write};

/// Names a batch of accepted transactions: which scheduler accepted it, and as its which. A
/// transaction is then named by the batch and its position, so that later stages join by arrays.
///
/// It is no plain value, so that every message has to read it with `decode`, which checks it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Source {
    /// Position of the batch in that scheduler's log of accepted transactions.
    pub number: u64,
    /// The scheduler's instance.
    pub scheduler: u64,
}

impl Source {
    /// The batch at position `number` of what `scheduler` accepted.
    pub fn new(scheduler: u64, number: u64) -> Self {
        Self { number, scheduler }
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        write(out, &[self.number, self.scheduler]);
    }

    /// Reads the name of a batch.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let [number, scheduler] = reader.value()?;
        Self::checked(scheduler, number).ok_or_else(|| reader.error("a batch's number is above its limit"))
    }

    /// A name that was read. No log reaches the last number, and the position after it would overflow
    /// where stages keep it.
    fn checked(scheduler: u64, number: u64) -> Option<Self> {
        (number < u64::MAX).then_some(Self { number, scheduler })
    }
}

/// A batch that can cross a log.
pub trait Message: Sized + Send + Sync + 'static {
    /// Appends the canonical form.
    fn encode(&self, out: &mut Vec<u8>);
    /// Shows the canonical form in parts to `take`, so that large columns need not be copied first;
    /// `scratch` may hold the small ones.
    fn encode_parts<R>(&self, scratch: &mut Vec<u8>, take: impl FnOnce(&[&[u8]]) -> R) -> R {
        scratch.clear();
        self.encode(scratch);
        take(&[scratch])
    }
    /// Reads the canonical form.
    ///
    /// # Errors
    /// On any other bytes.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;
}

/// Reads a whole record with `read` and checks that nothing follows.
fn decode_all<T>(
    what: &'static str,
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let mut reader = Reader::new(what, bytes);
    let value = read(&mut reader)?;
    reader.end()?;
    Ok(value)
}

#[cfg(test)]
mod tests;
