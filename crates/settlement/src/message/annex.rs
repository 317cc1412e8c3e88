//! The annex: what messages said beyond what the ledger needs, kept beside it.

use super::{Message, decode_all};
use tally_ledger::Timestamp;
use tally_ledger::wire::{DecodeError, write, write_count};

/// Texts that transactions commit to by their hashes. Whoever needs one finds it by its hash, which shows that it is the
/// one; the ledger itself never reads them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnnexBatch {
    /// When they were kept, by a clock that does not go back in the same topic; not after the transactions were accepted.
    pub kept_at: Timestamp,
    /// The texts.
    pub items: Vec<Vec<u8>>,
}

/// How many bytes of texts are kept in one record, at most and a text more.
pub(crate) const ANNEX_BYTES: usize = 512 << 10;
/// The longest text that is kept.
pub const MAX_ANNEX_ITEM: usize = 1 << 20;
/// The most texts of one record.
const MAX_ITEMS: usize = 1 << 16;
const VERSION: u8 = 1;

impl AnnexBatch {
    /// Texts in records of a size that every log takes.
    pub(crate) fn split(kept_at: Timestamp, items: Vec<Vec<u8>>) -> Vec<Self> {
        let mut batches: Vec<Self> = Vec::new();
        let mut bytes = 0;
        for item in items {
            match batches.last_mut().filter(|last| bytes < ANNEX_BYTES && last.items.len() < MAX_ITEMS) {
                Some(last) => {
                    bytes += item.len();
                    last.items.push(item);
                }
                None => {
                    bytes = item.len();
                    batches.push(Self { kept_at, items: vec![item] });
                }
            }
        }
        batches
    }
}

impl Message for AnnexBatch {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        write(out, &self.kept_at);
        write_count(out, self.items.len());
        for item in &self.items {
            write_count(out, item.len());
            out.extend_from_slice(item);
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("annex", bytes, |reader| {
            reader.version(VERSION)?;
            let kept_at = reader.value()?;
            let count = reader.count(MAX_ITEMS)?;
            let mut items = Vec::new();
            for _ in 0..count {
                let length = reader.count(MAX_ANNEX_ITEM)?;
                items.push(reader.take(length)?.to_vec());
            }
            Ok(Self { kept_at, items })
        })
    }
}
