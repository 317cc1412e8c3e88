//! IBFT 2.0: the forms of its messages, and what justifies a proposal and a round change.
//!
//! Heights are 8 bytes and rounds 4. A proposal signs the digest of its block and carries the block beside:
//! `[[[height, round, digest], signature], block, [[round changes]] | ""]`. A round change signs its
//! prepared certificate: `[[[height, round, [proposal, [prepares]] | ""], signature], block | ""]`. What is
//! signed is `keccak256(code ‖ rlp(payload))`.

use alloy_primitives::{B256, Bytes, keccak256};

use crate::Protocol;
use crate::block::Block;
use crate::justify::{Context, Unjustified, quorum_of_changes, quorum_of_prepares};
use crate::message::{
    Certificate, Commit, Message, MessageError, Packet, Prepare, PreparedRound, Proposal, RoundChange,
    RoundChangePayload, Signed, View, read_signed,
};
use crate::rlp::{self, Reader, Result};
use crate::seal::Seal;

/// Codes on the wire: proposal, prepare, commit, round change.
pub const CODES: [u8; 4] = [0, 1, 2, 3];
const PROPOSAL: u8 = CODES[0];
const PREPARE: u8 = CODES[1];
const COMMIT: u8 = CODES[2];
const ROUND_CHANGE: u8 = CODES[3];

fn write_view(out: &mut Vec<u8>, view: View) {
    rlp::bytes(out, &view.height.to_be_bytes());
    rlp::bytes(out, &view.round.to_be_bytes());
}

fn read_view(list: &mut Reader<'_>) -> Result<View> {
    let height = u64::from_be_bytes(list.fixed("sequence")?);
    Ok(View { height, round: u32::from_be_bytes(list.fixed("round")?) })
}

/// Proposal and prepare messages sign the same fields.
fn write_digest(out: &mut Vec<u8>, view: View, digest: B256) {
    rlp::list(out, |out| {
        write_view(out, view);
        rlp::bytes(out, digest.as_slice());
    });
}

fn read_digest(list: &mut Reader<'_>) -> Result<Signed<Prepare>> {
    read_signed(list, |payload| Ok(Prepare { view: read_view(payload)?, digest: payload.hash("digest")? }))
}

fn write_commit(out: &mut Vec<u8>, commit: &Commit) {
    rlp::list(out, |out| {
        write_view(out, commit.view);
        rlp::bytes(out, commit.digest.as_slice());
        rlp::bytes(out, commit.commit_seal.as_bytes());
    });
}

fn write_round_change(out: &mut Vec<u8>, payload: &RoundChangePayload) {
    rlp::list(out, |out| {
        write_view(out, payload.view);
        let certificate =
            payload.prepared.as_ref().and_then(|prepared| Some((prepared, prepared.certificate.as_ref()?)));
        match certificate {
            None => rlp::null(out),
            Some((prepared, certificate)) => rlp::list(out, |out| {
                let view = View { round: prepared.round, ..payload.view };
                write_signed_digest(out, view, prepared.digest, &certificate.proposal_seal);
                rlp::list(out, |out| {
                    certificate.prepares.iter().for_each(|prepare| write_prepare(out, prepare))
                });
            }),
        }
    });
}

fn write_signed_digest(out: &mut Vec<u8>, view: View, digest: B256, seal: &Seal) {
    rlp::list(out, |out| {
        write_digest(out, view, digest);
        rlp::bytes(out, seal.as_bytes());
    });
}

fn write_prepare(out: &mut Vec<u8>, prepare: &Signed<Prepare>) {
    write_signed_digest(out, prepare.payload.view, prepare.payload.digest, &prepare.seal);
}

fn write_signed_change(out: &mut Vec<u8>, change: &Signed<RoundChangePayload>) {
    rlp::list(out, |out| {
        write_round_change(out, &change.payload);
        rlp::bytes(out, change.seal.as_bytes());
    });
}

fn read_round_change(list: &mut Reader<'_>) -> Result<Signed<RoundChangePayload>> {
    read_signed(list, |payload| {
        let view = read_view(payload)?;
        if payload.take_null() {
            return Ok(RoundChangePayload { view, prepared: None });
        }
        let mut fields = payload.list("preparedCertificate")?;
        let proposal = read_digest(&mut fields)?;
        let prepares = fields.items("preparedCertificate.prepares", read_digest)?;
        fields.end("preparedCertificate")?;
        let Prepare { view: prepared, digest } = proposal.payload;
        if prepared.height != view.height {
            return Err(rlp::value("preparedCertificate.sequence", "a certificate of another height"));
        }
        let certificate = Some(Certificate { proposal_seal: proposal.seal, prepares });
        let prepared = PreparedRound { round: prepared.round, digest, certificate };
        Ok(RoundChangePayload { view, prepared: Some(prepared) })
    })
}

fn read_block(list: &mut Reader<'_>) -> Result<Block> {
    Block::decode(Protocol::Ibft2, Bytes::copy_from_slice(list.raw("block")?))
}

pub(crate) fn encode(message: &Message) -> Packet {
    let mut out = Vec::new();
    let code = match message {
        Message::Prepare(signed) => {
            write_prepare(&mut out, signed);
            PREPARE
        }
        Message::Commit(signed) => {
            rlp::list(&mut out, |out| {
                write_commit(out, &signed.payload);
                rlp::bytes(out, signed.seal.as_bytes());
            });
            COMMIT
        }
        Message::RoundChange(message) => {
            rlp::list(&mut out, |out| {
                write_signed_change(out, &message.signed);
                match &message.block {
                    Some(block) => out.extend_from_slice(block.bytes()),
                    None => rlp::null(out),
                }
            });
            ROUND_CHANGE
        }
        Message::Proposal(message) => {
            rlp::list(&mut out, |out| {
                write_signed_digest(out, message.view, message.block.digest(), &message.seal);
                out.extend_from_slice(message.block.bytes());
                if message.round_changes.is_empty() {
                    rlp::null(out);
                } else {
                    rlp::list(out, |out| {
                        rlp::list(out, |out| {
                            message.round_changes.iter().for_each(|change| write_signed_change(out, change));
                        });
                    });
                }
            });
            PROPOSAL
        }
    };
    Packet { code, bytes: out.into() }
}

pub(crate) fn decode(packet: &Packet) -> std::result::Result<Message, MessageError> {
    let mut whole = Reader::new(&packet.bytes);
    let message = match packet.code {
        PREPARE => Message::Prepare(read_digest(&mut whole)?),
        COMMIT => Message::Commit(read_signed(&mut whole, |payload| {
            Ok(Commit {
                view: read_view(payload)?,
                digest: payload.hash("commit.digest")?,
                commit_seal: payload.seal("commit.commitSeal")?,
            })
        })?),
        ROUND_CHANGE => {
            let mut list = whole.list("roundChange")?;
            let signed = read_round_change(&mut list)?;
            let block = if list.take_null() { None } else { Some(read_block(&mut list)?) };
            list.end("roundChange")?;
            Message::RoundChange(Box::new(RoundChange { signed, block, prepares: Vec::new() }))
        }
        PROPOSAL => {
            let mut list = whole.list("proposal")?;
            let Signed { payload: Prepare { view, digest }, seal } = read_digest(&mut list)?;
            let block = read_block(&mut list)?;
            if block.digest() != digest {
                return Err(rlp::value("proposal.digest", "not the digest of the block beside it").into());
            }
            let mut round_changes = Vec::new();
            if !list.take_null() {
                let mut certificate = list.list("proposal.roundChangeCertificate")?;
                round_changes = certificate.items("proposal.roundChanges", read_round_change)?;
                certificate.end("proposal.roundChangeCertificate")?;
                if round_changes.is_empty() {
                    return Err(rlp::value("proposal.roundChanges", "an empty certificate").into());
                }
            }
            list.end("proposal")?;
            Message::Proposal(Box::new(Proposal { view, block, seal, round_changes, prepares: Vec::new() }))
        }
        code => return Err(MessageError::Code(code)),
    };
    whole.end("message")?;
    Ok(message)
}

fn hash(code: u8, write: impl FnOnce(&mut Vec<u8>)) -> B256 {
    let mut out = vec![code];
    write(&mut out);
    keccak256(&out)
}

pub(crate) fn proposal_hash(view: View, digest: B256) -> B256 {
    hash(PROPOSAL, |out| write_digest(out, view, digest))
}

pub(crate) fn prepare_hash(prepare: &Prepare) -> B256 {
    hash(PREPARE, |out| write_digest(out, prepare.view, prepare.digest))
}

pub(crate) fn commit_hash(commit: &Commit) -> B256 {
    hash(COMMIT, |out| write_commit(out, commit))
}

pub(crate) fn round_change_hash(payload: &RoundChangePayload) -> B256 {
    hash(ROUND_CHANGE, |out| write_round_change(out, payload))
}

/// Whether the round changes of a proposal for a round above 0 allow its block.
pub(crate) fn justify_proposal(
    context: &Context<'_>,
    proposal: &Proposal,
) -> std::result::Result<(), Unjustified> {
    quorum_of_changes(context, proposal.view, &proposal.round_changes)?;
    let mut highest: Option<&PreparedRound> = None;
    for change in &proposal.round_changes {
        justify_claim(context, &change.payload)?;
        if let Some(prepared) = &change.payload.prepared
            && highest.is_none_or(|highest| highest.round < prepared.round)
        {
            highest = Some(prepared);
        }
    }
    match highest {
        Some(prepared) if proposal.block.with_round(prepared.round).digest() != prepared.digest => {
            Err(Unjustified::OtherBlock)
        }
        _ => Ok(()),
    }
}

/// Whether a round change proves that its author is prepared on the block that it claims.
pub(crate) fn justify_round_change(
    context: &Context<'_>,
    change: &RoundChange,
) -> std::result::Result<(), Unjustified> {
    justify_claim(context, &change.signed.payload)?;
    match (&change.signed.payload.prepared, &change.block) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Unjustified::Superfluous),
        (Some(_), None) => Err(Unjustified::NoBlock),
        (Some(prepared), Some(block))
            if block.digest() == prepared.digest && block.round() == prepared.round =>
        {
            Ok(())
        }
        (Some(_), Some(_)) => Err(Unjustified::OtherBlock),
    }
}

fn justify_claim(
    context: &Context<'_>,
    payload: &RoundChangePayload,
) -> std::result::Result<(), Unjustified> {
    let Some(prepared) = &payload.prepared else { return Ok(()) };
    if prepared.round >= payload.view.round {
        return Err(Unjustified::PreparedRound);
    }
    let certificate = prepared.certificate.as_ref().ok_or(Unjustified::Prepares)?;
    let view = View { round: prepared.round, ..payload.view };
    let proposer = context.proposer(prepared.round);
    if context.keys.recover(proposal_hash(view, prepared.digest), &certificate.proposal_seal) != proposer {
        return Err(Unjustified::Proposer);
    }
    quorum_of_prepares(context, view, prepared.digest, &certificate.prepares)
}
