//! Withdrawals: what is not to be made after all, if it is not decided yet.

use super::{Message, Source, decode_all};
use tally_ledger::batch::MAX_BATCH;
use tally_ledger::wire::{DecodeError, write};

/// Asks the assembler to refuse one accepted transaction.
///
/// It is not signed: it moves nothing, and those who can append it can keep a transaction from being decided anyway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Withdrawal {
    /// The accepted batch.
    pub source: Source,
    /// Which of its transactions.
    pub index: u32,
}

const VERSION: u8 = 1;

impl Message for Withdrawal {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.source.encode(out);
        write(out, &self.index);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("withdrawal", bytes, |reader| {
            reader.version(VERSION)?;
            let withdrawal = Self { source: Source::decode(reader)?, index: reader.value()? };
            if withdrawal.index as usize >= MAX_BATCH {
                return Err(reader.error("a position is above its limit"));
            }
            Ok(withdrawal)
        })
    }
}
