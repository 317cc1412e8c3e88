//! Contracts: the rules that states of one kind keep, and the register of those a node knows.

use crate::encoding::invalid;
use crate::limits::CONTRACT_NAME_BYTES;
use crate::text::as_text;
use crate::{DecodeError, LedgerTransaction, Party, PublicKey, State, VersionRange, bond, cash, iou, oracle};
use borsh::io::{Error, Read, Write};
use borsh::{BorshDeserialize, BorshSerialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tally_crypto::Hash;

/// The name of a contract, such as `tally.cash`: a lower-case letter, then lower-case letters,
/// digits, `.` and `-`, at most [`CONTRACT_NAME_BYTES`] in all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContractName {
    /// Zero beyond `length`.
    text: [u8; CONTRACT_NAME_BYTES],
    length: u8,
}

as_text!(ContractName, "a contract name such as 'tally.cash'");

/// The text is not the name of a contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a contract name is a lower-case letter, then lower-case letters, digits, '.' and '-', \
     {CONTRACT_NAME_BYTES} characters at most"
)]
pub struct ContractNameError;

impl ContractName {
    /// A name known to be good.
    ///
    /// # Panics
    /// When `name` is not a contract name; at compile time in a `const`.
    pub const fn literal(name: &str) -> Self {
        match Self::parse(name.as_bytes()) {
            Some(name) => name,
            None => panic!("not a contract name"),
        }
    }

    #[expect(
        clippy::as_conversions,
        clippy::arithmetic_side_effects,
        reason = "const; bounded by the length check"
    )]
    const fn parse(name: &[u8]) -> Option<Self> {
        if name.len() > CONTRACT_NAME_BYTES {
            return None;
        }
        let [b'a'..=b'z', ..] = name else { return None };
        let mut text = [0; CONTRACT_NAME_BYTES];
        let mut i = 0;
        while i < name.len() {
            let (b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-') = name[i] else { return None };
            text[i] = name[i];
            i += 1;
        }
        Some(Self { text, length: name.len() as u8 })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        // Only ASCII gets in.
        self.text
            .get(..usize::from(self.length))
            .and_then(|text| std::str::from_utf8(text).ok())
            .unwrap_or_default()
    }
}

impl fmt::Display for ContractName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ContractName {
    type Err = ContractNameError;

    fn from_str(text: &str) -> Result<Self, ContractNameError> {
        Self::parse(text.as_bytes()).ok_or(ContractNameError)
    }
}

impl BorshSerialize for ContractName {
    fn serialize<W: Write>(&self, writer: &mut W) -> Result<(), Error> {
        self.as_str().serialize(writer)
    }
}

impl BorshDeserialize for ContractName {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        let length = usize::try_from(u32::deserialize_reader(reader)?).map_err(invalid)?;
        let mut buffer = [0; CONTRACT_NAME_BYTES];
        let bytes = buffer.get_mut(..length).ok_or_else(|| invalid(ContractNameError))?;
        reader.read_exact(bytes)?;
        Self::parse(bytes).ok_or_else(|| invalid(ContractNameError))
    }
}

/// The rules of one kind of state.
///
/// Implementations are deterministic and total: no IO, no clock, no randomness, work bounded by
/// the size of the transaction. The same version gives the same verdict for ever, because old
/// transactions are verified again wherever their history is needed.
pub trait Contract: Send + Sync {
    /// What states and transactions call the contract.
    fn name(&self) -> ContractName;

    /// The versions whose rules this code can apply.
    fn versions(&self) -> VersionRange;

    /// The oldest version that a transaction may still name when it is made. Older ones are known for
    /// the sake of history alone: a version in which a mistake was found goes on governing what was
    /// made by then, and nobody signs, notarises or accepts anything new under it.
    fn oldest(&self) -> u32 {
        self.versions().from
    }

    /// Checks that `transaction` keeps the rules of `version`, for all states and commands of this
    /// contract. Called once for each transaction that has any.
    ///
    /// # Errors
    /// The first rule broken.
    fn verify(&self, version: u32, transaction: &LedgerTransaction) -> Result<(), Violation>;

    /// Whom the state names, and whose signatures consume it.
    ///
    /// # Errors
    /// [`DecodeError`] when the state is not one of this contract.
    fn involved(&self, state: &State) -> Result<Involved, DecodeError>;

    /// What a vault keeps to find the state by.
    ///
    /// # Errors
    /// [`DecodeError`] when the state is not one of this contract.
    fn describe(&self, state: &State) -> Result<Summary, DecodeError>;
}

/// Whom a state names, and whose signatures consume it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Involved {
    /// The identities that it names. A node accepts the state only if the network has certified each
    /// name with that key.
    pub identities: Vec<Party>,
    /// Whose signatures are all needed whenever it is consumed, in strictly ascending order. The
    /// contract's rules never ask for less.
    pub consumers: Vec<PublicKey>,
}

/// A transaction breaks a rule of a contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail} ({rule})")]
pub struct Violation {
    /// A stable name of the rule, such as `cash-conserved`.
    pub rule: &'static str,
    /// What was found.
    pub detail: String,
}

impl Violation {
    /// A violation of `rule`.
    pub fn new(rule: &'static str, detail: impl Into<String>) -> Self {
        Self { rule, detail: detail.into() }
    }
}

impl From<DecodeError> for Violation {
    fn from(error: DecodeError) -> Self {
        let mut detail = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            detail.extend([": ", &error.to_string()]);
            cause = error.source();
        }
        Self { rule: "decodable", detail }
    }
}

/// What a vault keeps about a state to find it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// What it is: `cash`, `iou`, `bond`.
    pub kind: String,
    /// Whoever has to know it; a vault keeps the states that one of its keys takes part in.
    pub participants: Vec<PublicKey>,
    /// Who may spend it, for what has one owner.
    pub owner: Option<PublicKey>,
    /// What it is fungible with, such as `USD@O=Bank, L=London, C=GB`.
    pub asset: Option<String>,
    /// How much of the asset, in its smallest unit.
    pub quantity: Option<u64>,
    /// What stays the same through the states of one agreement.
    pub linear_id: Option<Hash>,
    /// The state for people and programs to read.
    pub details: serde_json::Value,
}

/// The contracts that a node knows. Cheap to clone.
#[derive(Clone, Default)]
pub struct Contracts {
    by_name: Arc<BTreeMap<ContractName, Arc<dyn Contract>>>,
}

impl Contracts {
    /// A register without contracts.
    pub fn new() -> Self {
        Self::default()
    }

    /// The register that every node starts with: cash, IOU, bond and oracle.
    pub fn shipped() -> Self {
        Self::new().with(cash::Cash).with(iou::Iou).with(bond::Bond).with(oracle::Oracle)
    }

    /// The register with one more contract; it takes the place of one with the same name.
    #[must_use]
    pub fn with(mut self, contract: impl Contract + 'static) -> Self {
        Arc::make_mut(&mut self.by_name).insert(contract.name(), Arc::new(contract));
        self
    }

    /// The contract of that name.
    pub fn get(&self, name: &ContractName) -> Option<&dyn Contract> {
        self.by_name.get(name).map(|contract| &**contract)
    }

    /// The names known, in order.
    pub fn names(&self) -> impl Iterator<Item = &ContractName> {
        self.by_name.keys()
    }

    /// What a vault keeps about `state`; `None` when its contract is not known here.
    ///
    /// # Errors
    /// [`DecodeError`] when the state's data is not what its contract says.
    pub fn describe(&self, state: &State) -> Result<Option<Summary>, DecodeError> {
        self.get(&state.contract).map(|contract| contract.describe(state)).transpose()
    }
}

impl fmt::Debug for Contracts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.by_name.values().map(|contract| (contract.name(), contract.versions())))
            .finish()
    }
}
