//! Decisions: what the assembler made of the answers.

use super::{Message, Source, decode_all};
use tally_ledger::TransactionId;
use tally_ledger::batch::MAX_BATCH;
use tally_ledger::refusal::verdict_from_number;
use tally_ledger::wire::{DecodeError, write_count, write_slice};

/// Transactions of one accepted batch that were decided, in the order in which they were.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DecisionBatch {
    /// The accepted batch.
    pub source: Source,
    /// Which transactions.
    pub indices: Vec<u32>,
    /// The id of each: all that the sequencer sees of it.
    pub ids: Vec<TransactionId>,
    /// The verdict on each by its number.
    pub verdicts: Vec<u16>,
}

const VERSION: u8 = 1;

impl DecisionBatch {
    /// Adds the decision on one transaction.
    pub fn push(&mut self, index: u32, id: TransactionId, verdict: u16) {
        self.indices.push(index);
        self.ids.push(id);
        self.verdicts.push(verdict);
    }
}

impl Message for DecisionBatch {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.source.encode(out);
        write_count(out, self.indices.len());
        write_slice(out, &self.indices);
        write_slice(out, &self.ids);
        write_slice(out, &self.verdicts);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("decisions", bytes, |reader| {
            reader.version(VERSION)?;
            let source = Source::decode(reader)?;
            let items = reader.count(MAX_BATCH)?;
            let batch = Self {
                source,
                indices: reader.values(items)?,
                ids: reader.values(items)?,
                verdicts: reader.values(items)?,
            };
            if batch.verdicts.iter().any(|number| verdict_from_number(*number).is_none()) {
                return Err(reader.error("a verdict is unknown"));
            }
            Ok(batch)
        })
    }
}
