//! Cosignatures: what a witness appends of the heads of the operator's log that it has verified.

use super::{Message, decode_all};
use bytemuck::{Pod, Zeroable};
use tally_crypto::log::{Checkpoint, Cosignature, SignedTreeHead, TreeHead};
use tally_crypto::{PublicKey, Signature};
use tally_ledger::wire::{DecodeError, write, write_count, write_slice};
use tally_ledger::{NetworkId, ParticipantId};

/// A head that a witness cosigned, with the operator's signature: two of them that do not fit are evidence.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
pub struct CosignedHead {
    /// Number of records of the log.
    pub size: u64,
    /// The operator's time of the head, in milliseconds since the Unix epoch.
    pub timestamp_ms: u64,
    /// When the witness signed, by its own clock, in seconds since the Unix epoch.
    pub time_s: u64,
    /// RFC 9162 root over these records.
    pub root: [u8; 32],
    /// The operator's signature over the head.
    pub operator: Signature,
    /// The witness's cosignature (C2SP tlog-cosignature).
    pub cosignature: Signature,
}

impl CosignedHead {
    /// The head as the operator signed it; unverified.
    pub fn head(&self) -> SignedTreeHead {
        let head = TreeHead { size: self.size, root: self.root, timestamp_ms: self.timestamp_ms };
        SignedTreeHead { head, signature: self.operator }
    }

    /// Whether `witness` cosigned the head. Whether the operator signed it is another question.
    pub fn verify(&self, network: &NetworkId, witness: &PublicKey) -> bool {
        let checkpoint = Checkpoint::of(&self.head().head, &network.0);
        let cosignature = Cosignature { time_s: self.time_s, signature: self.cosignature };
        cosignature.verify(&checkpoint, witness).is_ok()
    }
}

/// What a witness cosigned in one turn, one head for each record of the sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CosignatureBatch {
    /// Who signed.
    pub participant: ParticipantId,
    /// The heads, by size, ascending.
    pub heads: Vec<CosignedHead>,
}

const VERSION: u8 = 1;
/// The most heads of one record.
pub(crate) const MAX_HEADS: usize = 1 << 12;

impl Message for CosignatureBatch {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        write(out, &self.participant);
        write_count(out, self.heads.len());
        write_slice(out, &self.heads);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("cosignatures", bytes, |reader| {
            reader.version(VERSION)?;
            let participant = reader.value()?;
            let count = reader.count(MAX_HEADS)?;
            let batch = Self { participant, heads: reader.values(count)? };
            if batch.heads.windows(2).any(|pair| pair[0].size >= pair[1].size) {
                return Err(reader.error("the heads do not ascend"));
            }
            Ok(batch)
        })
    }
}
