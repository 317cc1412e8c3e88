//! QBFT: the forms of its messages, and what justifies a proposal and a round change.
//!
//! Messages are `[payload, signature]`, with evidence beside: a proposal is
//! `[[[height, round, block], signature], [[round changes], [prepares]]]`, a round change
//! `[[[height, round, prepared], signature], block, [prepares]]`. What is signed is
//! `keccak256(rlp([code, payload]))`.

use std::collections::BTreeSet;

use alloy_primitives::{B256, Bytes, keccak256};

use crate::Protocol;
use crate::block::Block;
use crate::justify::{Context, Unjustified, quorum_of_changes, quorum_of_prepares};
use crate::message::{
    Commit, Message, MessageError, Packet, Prepare, PreparedRound, Proposal, RoundChange, RoundChangePayload,
    Signed, View, read_signed,
};
use crate::rlp::{self, Reader, Result};

/// Codes on the wire: proposal, prepare, commit, round change.
pub const CODES: [u8; 4] = [0x12, 0x13, 0x14, 0x15];
const PROPOSAL: u8 = CODES[0];
const PREPARE: u8 = CODES[1];
const COMMIT: u8 = CODES[2];
const ROUND_CHANGE: u8 = CODES[3];

/// How numbers and absent values are written; the form was changed between the publication of the test
/// vectors and today's Besu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Heights as 8 bytes and rounds as 4, else as numbers without leading zeros.
    pub fixed_width: bool,
    /// An absent prepared round as an empty string, else as an empty list.
    pub null_prepared: bool,
    /// An absent block as an empty string, else as an empty list.
    pub null_block: bool,
    /// A prepared round as `[digest, round]`, else as `[round, digest]`.
    pub digest_first: bool,
}

impl Form {
    /// The form of the published test vectors (`rlp_messages.json`).
    pub const REFERENCE: Self =
        Self { fixed_width: true, null_prepared: true, null_block: true, digest_first: true };
    /// The form that Besu's releases write.
    pub const BESU: Self =
        Self { fixed_width: false, null_prepared: false, null_block: false, digest_first: false };

    fn write_view(self, out: &mut Vec<u8>, view: View) {
        if self.fixed_width {
            rlp::bytes(out, &view.height.to_be_bytes());
            rlp::bytes(out, &view.round.to_be_bytes());
        } else {
            rlp::scalar(out, view.height);
            rlp::scalar(out, u64::from(view.round));
        }
    }

    fn read_view(self, list: &mut Reader<'_>) -> Result<View> {
        const SEQUENCE: &str = "sequence";
        const ROUND: &str = "round";
        let (height, round) = if self.fixed_width {
            (u64::from_be_bytes(list.fixed(SEQUENCE)?), u32::from_be_bytes(list.fixed(ROUND)?))
        } else {
            (list.scalar(SEQUENCE)?, list.scalar_u32(ROUND)?)
        };
        Ok(View { height, round })
    }

    fn write_prepare(self, out: &mut Vec<u8>, prepare: &Prepare) {
        rlp::list(out, |out| {
            self.write_view(out, prepare.view);
            rlp::bytes(out, prepare.digest.as_slice());
        });
    }

    fn write_commit(self, out: &mut Vec<u8>, commit: &Commit) {
        rlp::list(out, |out| {
            self.write_view(out, commit.view);
            rlp::bytes(out, commit.digest.as_slice());
            rlp::bytes(out, commit.commit_seal.as_bytes());
        });
    }

    fn write_round_change(self, out: &mut Vec<u8>, payload: &RoundChangePayload) {
        rlp::list(out, |out| {
            self.write_view(out, payload.view);
            match &payload.prepared {
                None if self.null_prepared => rlp::null(out),
                None => rlp::empty_list(out),
                Some(prepared) => rlp::list(out, |out| {
                    if self.digest_first {
                        rlp::bytes(out, prepared.digest.as_slice());
                    }
                    rlp::scalar(out, u64::from(prepared.round));
                    if !self.digest_first {
                        rlp::bytes(out, prepared.digest.as_slice());
                    }
                }),
            }
        });
    }

    fn write_proposal(self, out: &mut Vec<u8>, view: View, block: &Block) {
        rlp::list(out, |out| {
            self.write_view(out, view);
            out.extend_from_slice(block.bytes());
        });
    }

    fn read_prepare(self, list: &mut Reader<'_>) -> Result<Signed<Prepare>> {
        read_signed(list, |payload| {
            Ok(Prepare { view: self.read_view(payload)?, digest: payload.hash("prepare.digest")? })
        })
    }

    fn read_commit(self, list: &mut Reader<'_>) -> Result<Signed<Commit>> {
        read_signed(list, |payload| {
            Ok(Commit {
                view: self.read_view(payload)?,
                digest: payload.hash("commit.digest")?,
                commit_seal: payload.seal("commit.commitSeal")?,
            })
        })
    }

    fn read_round_change(self, list: &mut Reader<'_>) -> Result<Signed<RoundChangePayload>> {
        read_signed(list, |payload| {
            let view = self.read_view(payload)?;
            let absent = if self.null_prepared { payload.take_null() } else { payload.take_empty_list() };
            if absent {
                return Ok(RoundChangePayload { view, prepared: None });
            }
            let mut fields = payload.list("roundChange.prepared")?;
            let digest = |fields: &mut Reader<'_>| fields.hash("roundChange.preparedValue");
            let before = if self.digest_first { Some(digest(&mut fields)?) } else { None };
            let round = fields.scalar_u32("roundChange.preparedRound")?;
            let digest = before.map_or_else(|| digest(&mut fields), Ok)?;
            fields.end("roundChange.prepared")?;
            Ok(RoundChangePayload {
                view,
                prepared: Some(PreparedRound { round, digest, certificate: None }),
            })
        })
    }

    fn read_block(self, list: &mut Reader<'_>) -> Result<Block> {
        let bytes = list.raw("block")?;
        Block::decode(Protocol::Qbft(self), Bytes::copy_from_slice(bytes))
    }
}

fn write_signed<P>(out: &mut Vec<u8>, signed: &Signed<P>, write: impl FnOnce(&mut Vec<u8>, &P)) {
    rlp::list(out, |out| {
        write(out, &signed.payload);
        rlp::bytes(out, signed.seal.as_bytes());
    });
}

pub(crate) fn encode(form: Form, message: &Message) -> Packet {
    let mut out = Vec::new();
    let prepare = |out: &mut Vec<u8>, signed: &Signed<Prepare>| {
        write_signed(out, signed, |out, payload| form.write_prepare(out, payload));
    };
    let change = |out: &mut Vec<u8>, signed: &Signed<RoundChangePayload>| {
        write_signed(out, signed, |out, payload| form.write_round_change(out, payload));
    };
    let code = match message {
        Message::Prepare(signed) => {
            prepare(&mut out, signed);
            PREPARE
        }
        Message::Commit(signed) => {
            write_signed(&mut out, signed, |out, payload| form.write_commit(out, payload));
            COMMIT
        }
        Message::RoundChange(message) => {
            rlp::list(&mut out, |out| {
                change(out, &message.signed);
                match &message.block {
                    Some(block) => out.extend_from_slice(block.bytes()),
                    None if form.null_block => rlp::null(out),
                    None => rlp::empty_list(out),
                }
                rlp::list(out, |out| message.prepares.iter().for_each(|signed| prepare(out, signed)));
            });
            ROUND_CHANGE
        }
        Message::Proposal(message) => {
            rlp::list(&mut out, |out| {
                rlp::list(out, |out| {
                    form.write_proposal(out, message.view, &message.block);
                    rlp::bytes(out, message.seal.as_bytes());
                });
                rlp::list(out, |out| {
                    rlp::list(out, |out| message.round_changes.iter().for_each(|signed| change(out, signed)));
                    rlp::list(out, |out| message.prepares.iter().for_each(|signed| prepare(out, signed)));
                });
            });
            PROPOSAL
        }
    };
    Packet { code, bytes: out.into() }
}

pub(crate) fn decode(form: Form, packet: &Packet) -> std::result::Result<Message, MessageError> {
    let bytes = &packet.bytes;
    // A prepare or commit message is its signed payload and nothing else.
    let mut whole = Reader::new(bytes);
    let message = match packet.code {
        PREPARE => Message::Prepare(form.read_prepare(&mut whole)?),
        COMMIT => Message::Commit(form.read_commit(&mut whole)?),
        ROUND_CHANGE => {
            let mut list = whole.list("roundChange")?;
            let signed = form.read_round_change(&mut list)?;
            let absent = if form.null_block { list.take_null() } else { list.take_empty_list() };
            let block = if absent { None } else { Some(form.read_block(&mut list)?) };
            let prepares = list.items("roundChange.prepares", |item| form.read_prepare(item))?;
            list.end("roundChange")?;
            Message::RoundChange(Box::new(RoundChange { signed, block, prepares }))
        }
        PROPOSAL => {
            let mut list = whole.list("proposal")?;
            let Signed { payload: (view, block), seal } =
                read_signed(&mut list, |payload| Ok((form.read_view(payload)?, form.read_block(payload)?)))?;
            let mut evidence = list.list("proposal.evidence")?;
            let round_changes =
                evidence.items("proposal.roundChanges", |item| form.read_round_change(item))?;
            let prepares = evidence.items("proposal.prepares", |item| form.read_prepare(item))?;
            evidence.end("proposal.evidence")?;
            list.end("proposal")?;
            Message::Proposal(Box::new(Proposal { view, block, seal, round_changes, prepares }))
        }
        code => return Err(MessageError::Code(code)),
    };
    whole.end("message")?;
    Ok(message)
}

fn hash(code: u8, write: impl FnOnce(&mut Vec<u8>)) -> B256 {
    let mut out = Vec::new();
    rlp::list(&mut out, |out| {
        rlp::scalar(out, u64::from(code));
        write(out);
    });
    keccak256(&out)
}

pub(crate) fn proposal_hash(form: Form, view: View, block: &Block) -> B256 {
    hash(PROPOSAL, |out| form.write_proposal(out, view, block))
}

pub(crate) fn prepare_hash(form: Form, prepare: &Prepare) -> B256 {
    hash(PREPARE, |out| form.write_prepare(out, prepare))
}

pub(crate) fn commit_hash(form: Form, commit: &Commit) -> B256 {
    hash(COMMIT, |out| form.write_commit(out, commit))
}

pub(crate) fn round_change_hash(form: Form, payload: &RoundChangePayload) -> B256 {
    hash(ROUND_CHANGE, |out| form.write_round_change(out, payload))
}

/// Whether the evidence of a proposal for a round above 0 allows its block (EEA QBFT, `ProposalJustification`).
pub(crate) fn justify_proposal(
    context: &Context<'_>,
    proposal: &Proposal,
) -> std::result::Result<(), Unjustified> {
    quorum_of_changes(context, proposal.view, &proposal.round_changes)?;
    let mut claims = BTreeSet::new();
    for prepared in proposal.round_changes.iter().filter_map(|change| change.payload.prepared.as_ref()) {
        if prepared.round >= proposal.view.round {
            return Err(Unjustified::PreparedRound);
        }
        claims.insert((prepared.round, prepared.digest));
    }
    let mut highest = claims.iter().rev();
    let Some(&(round, digest)) = highest.next() else {
        return if proposal.prepares.is_empty() { Ok(()) } else { Err(Unjustified::Superfluous) };
    };
    if highest.next().is_some_and(|&(other, _)| other == round) {
        return Err(Unjustified::Contradiction);
    }
    if proposal.block.with_round(round).digest() != digest {
        return Err(Unjustified::OtherBlock);
    }
    let view = View { round, ..proposal.view };
    quorum_of_prepares(context, view, digest, &proposal.prepares)
}

/// Whether a round change proves that its author is prepared on the block that it claims.
pub(crate) fn justify_round_change(
    context: &Context<'_>,
    change: &RoundChange,
) -> std::result::Result<(), Unjustified> {
    let view = change.signed.payload.view;
    match (&change.signed.payload.prepared, &change.block) {
        (None, None) if change.prepares.is_empty() => Ok(()),
        (None, _) => Err(Unjustified::Superfluous),
        (Some(_), None) => Err(Unjustified::NoBlock),
        (Some(prepared), Some(block)) => {
            if prepared.round >= view.round {
                return Err(Unjustified::PreparedRound);
            }
            if block.digest() != prepared.digest || block.round() != prepared.round {
                return Err(Unjustified::OtherBlock);
            }
            let view = View { round: prepared.round, ..view };
            quorum_of_prepares(context, view, prepared.digest, &change.prepares)
        }
    }
}
