//! Participation: who has to answer for each transaction of an accepted batch.

use super::{Message, Source, decode_all};
use tally_ledger::batch::MAX_BATCH;
use tally_ledger::transaction::MAX_LEGS;
use tally_ledger::wire::{DecodeError, write_count, write_slice};
use tally_ledger::{ParticipantId, Timestamp, TransactionId};

/// What the scheduler says to the assembler of one accepted batch: the id and the expiry of each
/// transaction, and the participants who have to answer for it.
///
/// The assembler takes nothing of this from an answer: a participant could lie there about who else
/// is asked. It learns no leg of anybody either.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ParticipationBatch {
    /// The accepted batch.
    pub source: Source,
    /// The id of each transaction, as the scheduler computed it from the legs.
    pub ids: Vec<TransactionId>,
    /// When each expires; [`NEVER`] for an institution's order for its accounts, which its answer alone decides: an account
    /// that it opens has its number from then on.
    pub expiries: Vec<Timestamp>,
    /// How many participants each has.
    pub counts: Vec<u8>,
    /// The participants of each, one transaction after the other.
    pub participants: Vec<ParticipantId>,
}

const VERSION: u8 = 1;
/// The expiry of what waits for its answer however long that takes.
pub const NEVER: Timestamp = Timestamp(u64::MAX);

impl ParticipationBatch {
    /// How many transactions.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The participant who alone has to answer for all of them, if there is one.
    pub fn only_participant(&self) -> Option<ParticipantId> {
        let first = *self.participants.first()?;
        let alone = self.counts.iter().all(|count| *count == 1);
        (alone && self.participants.iter().all(|participant| *participant == first)).then_some(first)
    }

    /// Where the participants of each transaction begin in their column; one more at the end.
    pub fn firsts(&self) -> Vec<u32> {
        let mut next = 0u32;
        let mut firsts = Vec::with_capacity(self.len() + 1);
        firsts.push(0);
        for count in &self.counts {
            next += u32::from(*count);
            firsts.push(next);
        }
        firsts
    }
}

impl Message for ParticipationBatch {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.source.encode(out);
        write_count(out, self.len());
        write_count(out, self.participants.len());
        write_slice(out, &self.ids);
        write_slice(out, &self.expiries);
        write_slice(out, &self.counts);
        write_slice(out, &self.participants);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("participation", bytes, |reader| {
            reader.version(VERSION)?;
            let source = Source::decode(reader)?;
            let items = reader.count(MAX_BATCH)?;
            let participants = reader.count(MAX_BATCH * MAX_LEGS)?;
            let batch = Self {
                source,
                ids: reader.values(items)?,
                expiries: reader.values(items)?,
                counts: reader.values(items)?,
                participants: reader.values(participants)?,
            };
            if batch.counts.iter().map(|count| usize::from(*count)).sum::<usize>() != participants {
                return Err(reader.error("the counts disagree with the participants"));
            }
            let mut rest = batch.participants.as_slice();
            for count in &batch.counts {
                let (own, after) = rest.split_at(usize::from(*count));
                if own.is_empty() || own.windows(2).any(|pair| pair[0] >= pair[1]) {
                    return Err(reader.error("the participants of a transaction do not ascend"));
                }
                rest = after;
            }
            Ok(batch)
        })
    }
}
