//! What must survive a crash so that nothing is signed that contradicts what was signed before.

use alloy_primitives::{B256, Bytes};
use thiserror::Error;

use crate::Protocol;
use crate::block::Block;
use crate::message::{Prepare, Signed, View};
use crate::rlp::{self, DecodeError, Reader, Result, value};
use crate::seal::Seal;

const VERSION: u64 = 1;

/// A block on which a quorum prepared, with the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prepared {
    pub(super) round: u32,
    /// As it was proposed in that round.
    pub(super) block: Block,
    /// The proposer's signature in that round.
    pub(super) proposal_seal: Seal,
    pub(super) prepares: Vec<Signed<Prepare>>,
}

/// What this node has signed at a height: everything in the current round, and what it is prepared on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) view: View,
    pub(super) proposed: Option<B256>,
    pub(super) prepare: Option<B256>,
    pub(super) commit: Option<B256>,
    pub(super) prepared: Option<Prepared>,
}

/// Bytes that are no record of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the record of what this validator signed cannot be read; starting without it could contradict it")]
pub struct RestoreError(#[source] DecodeError);

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let digest = |out: &mut Vec<u8>, digest: Option<B256>| match digest {
            Some(digest) => rlp::bytes(out, digest.as_slice()),
            None => rlp::null(out),
        };
        let mut out = Vec::new();
        rlp::list(&mut out, |out| {
            rlp::scalar(out, VERSION);
            rlp::scalar(out, self.view.height);
            rlp::scalar(out, u64::from(self.view.round));
            digest(out, self.proposed);
            digest(out, self.prepare);
            digest(out, self.commit);
            match &self.prepared {
                None => rlp::empty_list(out),
                Some(prepared) => rlp::list(out, |out| {
                    rlp::scalar(out, u64::from(prepared.round));
                    rlp::bytes(out, prepared.block.bytes());
                    rlp::bytes(out, prepared.proposal_seal.as_bytes());
                    rlp::list(out, |out| {
                        // All are for the same round and block: the signatures suffice.
                        prepared.prepares.iter().for_each(|prepare| rlp::bytes(out, prepare.seal.as_bytes()));
                    });
                }),
            }
        });
        out
    }

    pub(super) fn decode(protocol: Protocol, bytes: &[u8]) -> std::result::Result<Self, RestoreError> {
        Self::read(protocol, bytes).map_err(RestoreError)
    }

    fn read(protocol: Protocol, bytes: &[u8]) -> Result<Self> {
        let mut list = Reader::whole(bytes, "record")?;
        if list.scalar("record.version")? != VERSION {
            return Err(value("record.version", "written by another version"));
        }
        let view = View { height: list.scalar("record.height")?, round: list.scalar_u32("record.round")? };
        let digest = |list: &mut Reader<'_>| {
            if list.take_null() { Ok(None) } else { list.hash("record.digest").map(Some) }
        };
        let (proposed, prepare, commit) = (digest(&mut list)?, digest(&mut list)?, digest(&mut list)?);
        let prepared = if list.take_empty_list() {
            None
        } else {
            let mut fields = list.list("record.prepared")?;
            let round = fields.scalar_u32("record.prepared.round")?;
            let block = Bytes::copy_from_slice(fields.bytes("record.prepared.block")?);
            let block = Block::decode(protocol, block)?;
            let proposal_seal = fields.seal("record.prepared.proposal")?;
            let payload = Prepare { view: View { round, ..view }, digest: block.digest() };
            let prepares = fields.items("record.prepared.prepares", |item| {
                Ok(Signed { payload, seal: item.seal("record.prepared.prepares")? })
            })?;
            fields.end("record.prepared")?;
            Some(Prepared { round, block, proposal_seal, prepares })
        };
        list.end("record")?;
        Ok(Self { view, proposed, prepare, commit, prepared })
    }
}
