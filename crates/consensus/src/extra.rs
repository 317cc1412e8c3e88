//! The `extraData` of a header: vanity, validators, vote, round and commit seals.
//!
//! IBFT 2.0: `[vanity, [validators], vote | "", round (4 bytes), [seals]]`, a vote being
//! `[recipient, 0xff | 0x00]`. QBFT: `[vanity, [validators], vote | [], round (number), [seals]]`, a vote
//! being `[recipient, 0xff | ""]`.

use alloy_primitives::{Address, B256};

use crate::Protocol;
use crate::rlp::{self, DecodeError, Reader, Result};
use crate::seal::Seal;

const ADD: u8 = 0xff;

/// A validator's vote to add or remove another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Vote {
    /// Who is to be added or removed.
    pub recipient: Address,
    /// Whether to add, else to remove.
    pub add: bool,
}

/// The contents of a header's `extraData`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraData {
    /// Free bytes of the proposer: 32 in every block but, possibly, the genesis.
    pub vanity: Vec<u8>,
    /// The validators of this block, ascending; empty where a contract names them.
    pub validators: Vec<Address>,
    /// The proposer's vote.
    pub vote: Option<Vote>,
    /// The round in which the block was proposed.
    pub round: u32,
    /// Commit seals over the header.
    pub seals: Vec<Seal>,
}

/// How much of the extra data a hash covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// All of it: the block as it travels and is stored.
    Everything,
    /// All but the seals: what commit seals sign.
    WithoutSeals,
    /// Neither seals nor round: the block's hash on the chain.
    WithoutSealsAndRound,
}

impl ExtraData {
    /// Extra data of a genesis block or a new proposal: no vote, round 0, no seals, vanity of zeros.
    #[must_use]
    pub fn of_validators(validators: &[Address]) -> Self {
        let vanity = B256::ZERO.to_vec();
        Self { vanity, validators: validators.to_vec(), vote: None, round: 0, seals: Vec::new() }
    }

    /// The bytes, as far as `cover` goes.
    #[must_use]
    pub fn encode(&self, protocol: Protocol, cover: Cover) -> Vec<u8> {
        let qbft = matches!(protocol, Protocol::Qbft(_));
        let mut out = Vec::with_capacity(64 + 21 * self.validators.len() + 67 * self.seals.len());
        rlp::list(&mut out, |out| {
            rlp::bytes(out, &self.vanity);
            rlp::list(out, |out| {
                self.validators.iter().for_each(|address| rlp::bytes(out, address.as_slice()))
            });
            match self.vote {
                None if qbft => rlp::empty_list(out),
                None => rlp::null(out),
                Some(vote) => rlp::list(out, |out| {
                    rlp::bytes(out, vote.recipient.as_slice());
                    match (vote.add, qbft) {
                        (true, _) => rlp::bytes(out, &[ADD]),
                        (false, true) => rlp::null(out),
                        (false, false) => rlp::bytes(out, &[0]),
                    }
                }),
            }
            let round = if cover == Cover::WithoutSealsAndRound { 0 } else { self.round };
            if qbft {
                rlp::scalar(out, u64::from(round));
            } else if cover != Cover::WithoutSealsAndRound {
                rlp::bytes(out, &round.to_be_bytes());
            }
            if cover == Cover::Everything {
                rlp::list(out, |out| self.seals.iter().for_each(|seal| rlp::bytes(out, seal.as_bytes())));
            } else if qbft {
                rlp::empty_list(out);
            }
        });
        out
    }

    /// Reads the extra data of a header.
    ///
    /// # Errors
    /// Anything but the canonical form of the protocol.
    pub fn decode(protocol: Protocol, bytes: &[u8]) -> std::result::Result<Self, DecodeError> {
        let qbft = matches!(protocol, Protocol::Qbft(_));
        let mut list = Reader::whole(bytes, "extraData")?;
        let vanity = list.bytes("extraData.vanity")?.to_vec();
        let validators = list.items("extraData.validators", |item| item.address("extraData.validators"))?;
        let absent = if qbft { list.take_empty_list() } else { list.take_null() };
        let vote = if absent { None } else { Some(Self::decode_vote(&mut list, qbft)?) };
        let round = if qbft {
            list.scalar_u32("extraData.round")?
        } else {
            u32::from_be_bytes(list.fixed("extraData.round")?)
        };
        let seals = list.items("extraData.seals", |item| item.seal("extraData.seals"))?;
        list.end("extraData")?;
        Ok(Self { vanity, validators, vote, round, seals })
    }

    fn decode_vote(list: &mut Reader<'_>, qbft: bool) -> Result<Vote> {
        let mut vote = list.list("extraData.vote")?;
        let recipient = vote.address("extraData.vote.recipient")?;
        let add = match vote.bytes("extraData.vote.type")? {
            [ADD] => true,
            [] if qbft => false,
            [0] if !qbft => false,
            _ => return Err(rlp::value("extraData.vote.type", "neither a vote to add nor one to remove")),
        };
        vote.end("extraData.vote")?;
        Ok(Vote { recipient, add })
    }
}
