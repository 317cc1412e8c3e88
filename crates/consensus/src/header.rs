//! What IBFT 2.0 and QBFT ask of a header, beside the rules of every Ethereum header.

use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_primitives::{Address, B64, B256, U256, b256};
use thiserror::Error;

use crate::Protocol;
use crate::block::hash_covering;
use crate::extra::{Cover, ExtraData};
use crate::rlp::DecodeError;
use crate::seal::Keys;
use crate::validators::ValidatorSet;

/// The `mixHash` of every block: "ctical byzantine fault tolerance".
pub const MIX_HASH: B256 = b256!("63746963616c2062797a616e74696e65206661756c7420746f6c6572616e6365");

/// Seconds that a header may be ahead of the clock.
pub const MAX_AHEAD_S: u64 = 1;

/// Where the validators of a block are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidatorsFrom {
    /// In the header, from votes.
    #[default]
    Headers,
    /// In a contract; validators and vote in the header are empty.
    Contract,
}

/// A rule of the consensus that a header breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// The extra data is not canonical.
    #[error("the extra data cannot be read")]
    ExtraData(#[from] DecodeError),
    /// `difficulty` is not 1.
    #[error("difficulty is {0}; it must be 1")]
    Difficulty(U256),
    /// `mixHash` is not the one of Istanbul BFT.
    #[error("mixHash is {0}; it must be {MIX_HASH}")]
    MixHash(B256),
    /// `sha3Uncles` is not that of the empty list.
    #[error("the block has ommers; there are none in this consensus")]
    Ommers,
    /// `nonce` is not zero (IBFT 2.0).
    #[error("nonce is {0}; it must be zero")]
    Nonce(B64),
    /// The vanity is not of 32 bytes.
    #[error("vanity data of {0} bytes; 32 are expected")]
    Vanity(usize),
    /// The validators in the extra data are not those of the block's height.
    #[error("the header lists other validators than those of its height")]
    Validators,
    /// A contract names the validators, and the header has a vote.
    #[error("the header has a vote although a contract names the validators")]
    Vote,
    /// The coinbase is no validator.
    #[error("the proposer {0} is no validator")]
    Proposer(Address),
    /// Too soon after its parent.
    #[error("timestamp {timestamp} is before {earliest}")]
    Early {
        /// Of the header.
        timestamp: u64,
        /// The earliest allowed: the parent's and the block period.
        earliest: u64,
    },
    /// Not enough seals of distinct validators.
    #[error("{found} seals of distinct validators; {quorum} are needed")]
    Quorum {
        /// Distinct validators that sealed.
        found: usize,
        /// Validators needed.
        quorum: usize,
    },
    /// A seal that is of no validator, or of one that has sealed already.
    #[error("seal {0} is of no validator or of one that has sealed already")]
    Seal(usize),
}

/// What a header is measured by: what follows from the chain up to its parent.
#[derive(Clone, Copy, Debug)]
pub struct Expectation<'a> {
    /// The protocol.
    pub protocol: Protocol,
    /// The validators of the header's height.
    pub validators: &'a ValidatorSet,
    /// Where they are named.
    pub named: ValidatorsFrom,
    /// The earliest timestamp: the parent's and the block period in seconds.
    pub earliest_s: u64,
}

impl Expectation<'_> {
    /// Checks everything but seals; for proposals, which have none, as well as for blocks of the chain.
    ///
    /// # Errors
    /// The first rule that the header breaks.
    pub fn check(&self, header: &Header, extra: &ExtraData) -> Result<(), HeaderError> {
        if header.difficulty != U256::from(1) {
            return Err(HeaderError::Difficulty(header.difficulty));
        }
        if header.mix_hash != MIX_HASH {
            return Err(HeaderError::MixHash(header.mix_hash));
        }
        if header.ommers_hash != EMPTY_OMMER_ROOT_HASH {
            return Err(HeaderError::Ommers);
        }
        if self.protocol == Protocol::Ibft2 && header.nonce != B64::ZERO {
            return Err(HeaderError::Nonce(header.nonce));
        }
        if extra.vanity.len() != 32 {
            return Err(HeaderError::Vanity(extra.vanity.len()));
        }
        let listed: &[Address] = match self.named {
            ValidatorsFrom::Headers => self.validators.addresses(),
            ValidatorsFrom::Contract => &[],
        };
        if extra.validators != listed {
            return Err(HeaderError::Validators);
        }
        if self.named == ValidatorsFrom::Contract && extra.vote.is_some() {
            return Err(HeaderError::Vote);
        }
        if !self.validators.contains(header.beneficiary) {
            return Err(HeaderError::Proposer(header.beneficiary));
        }
        if header.timestamp < self.earliest_s {
            return Err(HeaderError::Early { timestamp: header.timestamp, earliest: self.earliest_s });
        }
        Ok(())
    }

    /// Checks the seals of a block of the chain: distinct validators, a quorum of them, nobody else.
    ///
    /// This is the costly part (a key recovery for each seal) and needs nothing but the validators, so
    /// many headers can be checked in parallel.
    ///
    /// # Errors
    /// [`HeaderError::Seal`] or [`HeaderError::Quorum`].
    pub fn check_seals(
        &self,
        header: &Header,
        extra: &ExtraData,
        keys: &dyn Keys,
    ) -> Result<(), HeaderError> {
        let quorum = self.validators.quorum();
        if extra.seals.len() < quorum {
            return Err(HeaderError::Quorum { found: extra.seals.len(), quorum });
        }
        if extra.seals.len() > self.validators.len() {
            return Err(HeaderError::Seal(self.validators.len()));
        }
        let digest = hash_covering(self.protocol, header, extra, Cover::WithoutSeals);
        let mut sealed = Vec::with_capacity(extra.seals.len());
        for (index, seal) in extra.seals.iter().enumerate() {
            match keys.recover(digest, seal) {
                Some(address) if self.validators.contains(address) && !sealed.contains(&address) => {
                    sealed.push(address);
                }
                _ => return Err(HeaderError::Seal(index)),
            }
        }
        Ok(())
    }
}
