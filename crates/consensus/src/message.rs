//! The messages of a round, whatever their form on the wire.

use alloy_primitives::{Address, B256, Bytes};
use thiserror::Error;

use crate::block::Block;
use crate::rlp::{self, DecodeError, Reader};
use crate::seal::{Keys, Seal};
use crate::{Protocol, ibft2, qbft};

/// A round of a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View {
    /// The number of the block that is agreed on.
    pub height: u64,
    /// The attempt, from 0.
    pub round: u32,
}

/// A payload with a signature; who signed is not yet known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed<P> {
    /// What is signed.
    pub payload: P,
    /// The signature.
    pub seal: Seal,
}

/// Reads `[[payload], signature]`, the form that both protocols have.
pub(crate) fn read_signed<P>(
    list: &mut Reader<'_>,
    read: impl FnOnce(&mut Reader<'_>) -> rlp::Result<P>,
) -> rlp::Result<Signed<P>> {
    let mut signed = list.list("signed")?;
    let mut payload = signed.list("payload")?;
    let value = read(&mut payload)?;
    payload.end("payload")?;
    let seal = signed.seal("signature")?;
    signed.end("signed")?;
    Ok(Signed { payload: value, seal })
}

/// "The block of this round is good."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// The round.
    pub view: View,
    /// The block's digest.
    pub digest: B256,
}

/// "A quorum is prepared; this is my seal."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The round.
    pub view: View,
    /// The block's digest.
    pub digest: B256,
    /// The commit seal over it.
    pub commit_seal: Seal,
}

/// A block proposed in a round, with the justification that a round above 0 needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The round.
    pub view: View,
    /// The block.
    pub block: Block,
    /// The proposer's signature.
    pub seal: Seal,
    /// A quorum of round changes to this round; empty in round 0.
    pub round_changes: Vec<Signed<RoundChangePayload>>,
    /// QBFT: prepare messages for the highest prepared block among them. In IBFT 2.0 the round changes
    /// carry them.
    pub prepares: Vec<Signed<Prepare>>,
}

/// The signed part of a round change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundChangePayload {
    /// The round that its author moves to.
    pub view: View,
    /// The block that its author has last been prepared on.
    pub prepared: Option<PreparedRound>,
}

/// A block that somebody claims to be prepared on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedRound {
    /// The round in which it was prepared.
    pub round: u32,
    /// Its digest in that round.
    pub digest: B256,
    /// IBFT 2.0: the proof, part of what is signed.
    pub certificate: Option<Certificate>,
}

/// IBFT 2.0's prepared certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The proposer's signature over round and digest.
    pub proposal_seal: Seal,
    /// Prepare messages of the round.
    pub prepares: Vec<Signed<Prepare>>,
}

/// "I give this round up and move to that one."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundChange {
    /// What is signed.
    pub signed: Signed<RoundChangePayload>,
    /// The block of the prepared round.
    pub block: Option<Block>,
    /// QBFT: the proof that it is prepared.
    pub prepares: Vec<Signed<Prepare>>,
}

/// A message of either protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// See [`Proposal`].
    Proposal(Box<Proposal>),
    /// See [`Prepare`].
    Prepare(Signed<Prepare>),
    /// See [`Commit`].
    Commit(Signed<Commit>),
    /// See [`RoundChange`].
    RoundChange(Box<RoundChange>),
}

/// A message as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Which message it is; see [`Protocol::codes`].
    pub code: u8,
    /// Its RLP.
    pub bytes: Bytes,
}

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// A code that the protocol does not have.
    #[error("there is no message with the code {0:#04x}")]
    Code(u8),
    /// Not the canonical form of the message.
    #[error("the message cannot be read")]
    Form(#[from] DecodeError),
}

impl Message {
    /// Reads a message. Signatures are not looked at.
    ///
    /// # Errors
    /// Anything but the canonical form.
    pub fn decode(protocol: Protocol, packet: &Packet) -> Result<Self, MessageError> {
        match protocol {
            Protocol::Ibft2 => ibft2::decode(packet),
            Protocol::Qbft(form) => qbft::decode(form, packet),
        }
    }

    /// The message as it travels.
    #[must_use]
    pub fn encode(&self, protocol: Protocol) -> Packet {
        match protocol {
            Protocol::Ibft2 => ibft2::encode(self),
            Protocol::Qbft(form) => qbft::encode(form, self),
        }
    }

    /// The round it is about.
    #[must_use]
    pub fn view(&self) -> View {
        match self {
            Self::Proposal(proposal) => proposal.view,
            Self::Prepare(prepare) => prepare.payload.view,
            Self::Commit(commit) => commit.payload.view,
            Self::RoundChange(change) => change.signed.payload.view,
        }
    }

    /// The block that it carries.
    #[must_use]
    pub fn block(&self) -> Option<&Block> {
        match self {
            Self::Proposal(proposal) => Some(&proposal.block),
            Self::RoundChange(change) => change.block.as_ref(),
            Self::Prepare(_) | Self::Commit(_) => None,
        }
    }

    /// Who signed it; `None` when nobody did. Signatures within certificates are not looked at.
    #[must_use]
    pub fn author(&self, protocol: Protocol, keys: &dyn Keys) -> Option<Address> {
        match self {
            Self::Proposal(proposal) => {
                keys.recover(proposal_hash(protocol, proposal.view, &proposal.block), &proposal.seal)
            }
            Self::Prepare(prepare) => prepare_author(protocol, keys, prepare),
            Self::Commit(commit) => keys.recover(commit_hash(protocol, &commit.payload), &commit.seal),
            Self::RoundChange(change) => round_change_author(protocol, keys, &change.signed),
        }
    }
}

/// What the proposer of a block signs.
#[must_use]
pub fn proposal_hash(protocol: Protocol, view: View, block: &Block) -> B256 {
    match protocol {
        Protocol::Ibft2 => ibft2::proposal_hash(view, block.digest()),
        Protocol::Qbft(form) => qbft::proposal_hash(form, view, block),
    }
}

/// What the author of a prepare message signs.
#[must_use]
pub fn prepare_hash(protocol: Protocol, prepare: &Prepare) -> B256 {
    match protocol {
        Protocol::Ibft2 => ibft2::prepare_hash(prepare),
        Protocol::Qbft(form) => qbft::prepare_hash(form, prepare),
    }
}

/// What the author of a commit message signs, beside the commit seal within.
#[must_use]
pub fn commit_hash(protocol: Protocol, commit: &Commit) -> B256 {
    match protocol {
        Protocol::Ibft2 => ibft2::commit_hash(commit),
        Protocol::Qbft(form) => qbft::commit_hash(form, commit),
    }
}

/// What the author of a round change signs.
#[must_use]
pub fn round_change_hash(protocol: Protocol, payload: &RoundChangePayload) -> B256 {
    match protocol {
        Protocol::Ibft2 => ibft2::round_change_hash(payload),
        Protocol::Qbft(form) => qbft::round_change_hash(form, payload),
    }
}

pub(crate) fn prepare_author(
    protocol: Protocol,
    keys: &dyn Keys,
    prepare: &Signed<Prepare>,
) -> Option<Address> {
    keys.recover(prepare_hash(protocol, &prepare.payload), &prepare.seal)
}

pub(crate) fn round_change_author(
    protocol: Protocol,
    keys: &dyn Keys,
    change: &Signed<RoundChangePayload>,
) -> Option<Address> {
    keys.recover(round_change_hash(protocol, &change.payload), &change.seal)
}
