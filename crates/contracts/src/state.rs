//! Facts that parties agree on, and what is done to them.

use crate::encoding::{decode, encode, read_limited};
use crate::limits::DATA_BYTES;
use crate::{ContractName, DecodeError, Party, PublicKey, StateRef};
use borsh::io::{Error, Read};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The versions of a contract's code that may govern a state, both ends included.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    BorshSerialize,
    BorshDeserialize,
    Serialize,
    Deserialize,
)]
pub struct VersionRange {
    /// The first version.
    pub from: u32,
    /// The last version.
    pub to: u32,
}

impl VersionRange {
    /// From `from` to `to`.
    pub const fn new(from: u32, to: u32) -> Self {
        Self { from, to }
    }

    /// This version alone.
    pub const fn only(version: u32) -> Self {
        Self { from: version, to: version }
    }

    /// Whether `version` is one of these.
    pub const fn contains(&self, version: u32) -> bool {
        self.from <= version && version <= self.to
    }

    /// The versions that are in both, if any.
    pub fn intersection(self, other: Self) -> Option<Self> {
        let both = Self { from: self.from.max(other.from), to: self.to.min(other.to) };
        (both.from <= both.to).then_some(both)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.from == self.to {
            write!(f, "version {}", self.from)
        } else {
            write!(f, "versions {} to {}", self.from, self.to)
        }
    }
}

/// What a contract keeps in [`State::data`].
pub trait ContractState: BorshSerialize + BorshDeserialize {
    /// The contract it belongs to.
    const CONTRACT: ContractName;
    /// The versions that may govern states made by this code.
    const VERSIONS: VersionRange;

    /// Whose signatures are all needed whenever the state is consumed, in any order.
    fn consumers(&self) -> Vec<PublicKey>;
}

/// What a contract keeps in [`Command::data`].
pub trait ContractCommand: BorshSerialize + BorshDeserialize {
    /// The contract it belongs to.
    const CONTRACT: ContractName;
}

/// A fact agreed by its participants, governed by a contract, kept unique by a notary.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize)]
pub struct State {
    /// The contract whose rules it keeps.
    pub contract: ContractName,
    /// The versions of that contract which may govern it.
    pub versions: VersionRange,
    /// Who makes sure that it is consumed once.
    pub notary: Party,
    /// The output of the same transaction that has to be consumed together with this one.
    pub encumbrance: Option<u32>,
    /// Whose signatures are all needed to consume it, in strictly ascending order: those that its
    /// contract names. A notary that does not validate sees them, and nothing else of the state.
    pub consumers: Vec<PublicKey>,
    /// What the contract says it is; at most [`DATA_BYTES`].
    pub data: Vec<u8>,
}

impl State {
    /// A state without encumbrance.
    pub fn new<T: ContractState>(value: &T, notary: Party) -> Self {
        Self {
            contract: T::CONTRACT,
            versions: T::VERSIONS,
            notary,
            encumbrance: None,
            consumers: ascending(value.consumers()),
            data: encode(value),
        }
    }

    /// What the contract keeps in the state.
    ///
    /// # Errors
    /// [`DecodeError`] when the state belongs to another contract or its data is malformed.
    pub fn read<T: ContractState>(&self) -> Result<T, DecodeError> {
        read("a state", T::CONTRACT, self.contract, &self.data)
    }
}

impl BorshDeserialize for State {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        Ok(Self {
            contract: ContractName::deserialize_reader(reader)?,
            versions: VersionRange::deserialize_reader(reader)?,
            notary: Party::deserialize_reader(reader)?,
            encumbrance: Option::deserialize_reader(reader)?,
            consumers: Vec::deserialize_reader(reader)?,
            data: read_limited("a state", DATA_BYTES, reader)?,
        })
    }
}

/// A state and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct StateAndRef {
    /// The state.
    pub state: State,
    /// The output that it is.
    pub reference: StateRef,
}

/// What a transaction does to the states of one contract, and who has to sign for it.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize)]
pub struct Command {
    /// The contract that understands it.
    pub contract: ContractName,
    /// What the contract says it is; at most [`DATA_BYTES`].
    pub data: Vec<u8>,
    /// Who has to sign, in strictly ascending order.
    pub signers: Vec<PublicKey>,
}

impl Command {
    /// A command with these signers, in any order.
    pub fn new<C: ContractCommand>(value: &C, signers: impl IntoIterator<Item = PublicKey>) -> Self {
        let signers = ascending(signers.into_iter().collect());
        Self { contract: C::CONTRACT, data: encode(value), signers }
    }

    /// What the contract keeps in the command.
    ///
    /// # Errors
    /// [`DecodeError`] when the command belongs to another contract or its data is malformed.
    pub fn read<C: ContractCommand>(&self) -> Result<C, DecodeError> {
        read("a command", C::CONTRACT, self.contract, &self.data)
    }
}

impl BorshDeserialize for Command {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        Ok(Self {
            contract: ContractName::deserialize_reader(reader)?,
            data: read_limited("a command", DATA_BYTES, reader)?,
            signers: Vec::deserialize_reader(reader)?,
        })
    }
}

/// The keys in strictly ascending order.
pub(crate) fn ascending(mut keys: Vec<PublicKey>) -> Vec<PublicKey> {
    keys.sort_unstable();
    keys.dedup();
    keys
}

pub(crate) fn read<T: BorshDeserialize>(
    what: &'static str,
    expected: ContractName,
    found: ContractName,
    data: &[u8],
) -> Result<T, DecodeError> {
    if expected != found {
        return Err(DecodeError::Contract { what, expected, found });
    }
    decode(what, data, DATA_BYTES)
}
