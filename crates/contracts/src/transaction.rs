//! Transactions: what is consumed, read and created, by which commands, under which notary.

use crate::component::{self, Component, FORMAT, GROUPS, Group, Nonces};
use crate::content::{Content, TransactionError};
use crate::encoding::{encode, invalid, read_limited};
use crate::limits::TRANSACTION_BYTES;
use crate::{
    AttachmentId, Command, ContractName, DecodeError, NetworkId, Party, PublicKey, State, StateAndRef,
    StateRef, TearOff, TimeWindow, TransactionId,
};
use borsh::io::{Error, Read, Write};
use borsh::{BorshDeserialize, BorshSerialize};
use std::sync::Arc;
use tally_crypto::Hash;

/// A change of the ledger that was proposed: immutable, well-formed, and it knows its id.
/// Cheap to clone.
///
/// Made by [`TransactionBuilder`](crate::TransactionBuilder) or [`Transaction::decode`]. Whether
/// it keeps the rules of its contracts is for
/// [`LedgerTransaction::verify`](crate::LedgerTransaction::verify) to say, which also sees the
/// states it consumes.
#[derive(Debug, Clone)]
pub struct Transaction(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    salt: [u8; 32],
    content: Content,
    required_signers: Vec<PublicKey>,
    groups: [Hash; GROUPS],
    id: TransactionId,
    encoded: Vec<u8>,
}

impl Transaction {
    /// A well-formed transaction of this content.
    pub(crate) fn new(salt: [u8; 32], content: Content) -> Result<Self, TransactionError> {
        content.check()?;
        let encoded = encode(&(FORMAT, salt, &content));
        if encoded.len() > TRANSACTION_BYTES {
            return Err(TransactionError::TooLong(encoded.len()));
        }
        Self::assemble(salt, content, encoded)
    }

    /// Hashes a content that was checked.
    fn assemble(salt: [u8; 32], content: Content, encoded: Vec<u8>) -> Result<Self, TransactionError> {
        let required_signers = content.required_signers()?;
        let counts = content.counts();
        let nonces = Nonces::derive(&salt, &counts);
        let mut scratch = Vec::with_capacity(512);
        let mut leaves = Vec::with_capacity(nonces.of_components().len());
        for (nonce, component) in nonces.of_components().iter().zip(content.components()) {
            leaves.push(component::leaf(nonce, &mut scratch, |out| component.encode_into(out)));
        }
        let mut roots = [Hash::ZERO; GROUPS];
        let mut rest = leaves.as_slice();
        for (root, count) in roots.iter_mut().zip(&counts) {
            let (group, after) = rest.split_at(usize::try_from(*count).unwrap_or(usize::MAX));
            *root = component::root(group);
            rest = after;
        }
        let groups = component::group_hashes(nonces.of_groups(), &counts, &roots);
        let id = component::id(content.network, &groups);
        Ok(Self(Arc::new(Inner { salt, content, required_signers, groups, id, encoded })))
    }

    /// Reads the encoding of a whole transaction.
    ///
    /// # Errors
    /// [`DecodeError`] when it is longer than [`TRANSACTION_BYTES`], malformed, followed by more
    /// bytes, or not well-formed (then a [`TransactionError`] is its source's cause).
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_owned(bytes.to_vec())
    }

    fn decode_owned(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        let what = "a transaction";
        if bytes.len() > TRANSACTION_BYTES {
            return Err(DecodeError::TooLong { what, limit: TRANSACTION_BYTES, got: bytes.len() });
        }
        let parse = || -> Result<(Content, [u8; 32]), Error> {
            let mut rest = bytes.as_slice();
            let format = u8::deserialize(&mut rest)?;
            if format != FORMAT {
                return Err(invalid(TransactionError::Format(format)));
            }
            let salt = <[u8; 32]>::deserialize(&mut rest)?;
            let content = Content::deserialize(&mut rest)?;
            if !rest.is_empty() {
                return Err(invalid("more bytes follow the transaction"));
            }
            content.check().map_err(invalid)?;
            Ok((content, salt))
        };
        let malformed = |source| DecodeError::Malformed { what, source };
        let (content, salt) = parse().map_err(malformed)?;
        Self::assemble(salt, content, bytes).map_err(|error| malformed(invalid(error)))
    }

    /// The encoding, made once. It holds the salt: whoever has it sees all of the transaction.
    pub fn encode(&self) -> &[u8] {
        &self.0.encoded
    }

    /// The network that it is of.
    pub fn network(&self) -> NetworkId {
        self.0.content.network
    }

    /// The root over the network and the salted components.
    pub fn id(&self) -> TransactionId {
        self.0.id
    }

    /// States consumed.
    pub fn inputs(&self) -> &[StateRef] {
        &self.0.content.inputs
    }

    /// States read, not consumed; they must not have been consumed before either.
    pub fn references(&self) -> &[StateRef] {
        &self.0.content.references
    }

    /// States created.
    pub fn outputs(&self) -> &[State] {
        &self.0.content.outputs
    }

    /// Output `index` with its reference.
    pub fn output(&self, index: u32) -> Option<StateAndRef> {
        let state = self.outputs().get(usize::try_from(index).ok()?)?.clone();
        Some(StateAndRef { state, reference: StateRef { transaction: self.id(), index } })
    }

    /// All outputs with their references.
    pub fn outputs_with_refs(&self) -> impl Iterator<Item = StateAndRef> {
        let transaction = self.id();
        (0..).zip(self.outputs()).map(move |(index, state)| StateAndRef {
            state: state.clone(),
            reference: StateRef { transaction, index },
        })
    }

    /// What is done, and who signs for it.
    pub fn commands(&self) -> &[Command] {
        &self.0.content.commands
    }

    /// Documents that belong to it.
    pub fn attachments(&self) -> &[AttachmentId] {
        &self.0.content.attachments
    }

    /// The contracts that check it and the version of each, in order of names.
    pub fn contracts(&self) -> &[(ContractName, u32)] {
        &self.0.content.contracts
    }

    /// The version named for `contract`.
    pub fn version_of(&self, contract: &ContractName) -> Option<u32> {
        self.0.content.version_of(contract)
    }

    /// Who makes it final.
    pub fn notary(&self) -> &Party {
        &self.0.content.notary
    }

    /// When it may be made final.
    pub fn time_window(&self) -> Option<TimeWindow> {
        self.0.content.time_window
    }

    /// Whether the notary has to sign: something is consumed or read, or there is a time window.
    pub fn needs_notary(&self) -> bool {
        self.0.content.needs_notary()
    }

    /// Who has to sign, in ascending order: the signers of all commands. Whether the notary has to
    /// attest besides, [`Transaction::needs_notary`] says.
    pub fn required_signers(&self) -> &[PublicKey] {
        &self.0.required_signers
    }

    /// Shows a part: all of the groups in `whole`, and of the others the components that `keep`
    /// chooses. Nothing else can be learned from it but the id.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`] when it would be longer than a tear-off may be, which takes many
    /// hundreds of components that are shown singly.
    pub fn tear_off(
        &self,
        whole: &[Group],
        mut keep: impl FnMut(&Component<'_>) -> bool,
    ) -> Result<TearOff, DecodeError> {
        TearOff::of(self, whole, |_, component| keep(component))
    }

    /// What a non-validating notary has to see: all inputs and references, the notary and the
    /// time window.
    ///
    /// # Errors
    /// As [`Transaction::tear_off`], which these groups never come near to.
    pub fn tear_off_for_notary(&self) -> Result<TearOff, DecodeError> {
        self.tear_off(&[Group::Inputs, Group::References, Group::Notary, Group::TimeWindow], |_| false)
    }

    /// What a signer has to see who answers for its own commands only, such as an oracle: the
    /// commands that name `signer`, and who signs each command.
    ///
    /// # Errors
    /// As [`Transaction::tear_off`].
    pub fn tear_off_for_signer(&self, signer: &PublicKey) -> Result<TearOff, DecodeError> {
        self.tear_off(&[Group::Signers], |component| match component {
            Component::Command(command) => command.signers.contains(signer),
            _ => false,
        })
    }

    /// Whose signatures consume the outputs of these indices, and nothing else: what a notary that
    /// does not validate has to see of the transactions whose outputs are consumed.
    ///
    /// # Errors
    /// As [`Transaction::tear_off`].
    pub fn tear_off_of_consumers(&self, outputs: &[u32]) -> Result<TearOff, DecodeError> {
        TearOff::of(self, &[], |index, component| {
            matches!(component, Component::Consumers(_)) && outputs.contains(&index)
        })
    }

    pub(crate) fn salt(&self) -> &[u8; 32] {
        &self.0.salt
    }

    pub(crate) fn group_hashes(&self) -> &[Hash; GROUPS] {
        &self.0.groups
    }

    pub(crate) fn counts(&self) -> [u32; GROUPS] {
        self.0.content.counts()
    }

    pub(crate) fn components(&self) -> impl Iterator<Item = Component<'_>> {
        self.0.content.components()
    }
}

impl PartialEq for Transaction {
    /// The id covers everything but the salt, and the salt through the nonces.
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Transaction {}

impl BorshSerialize for Transaction {
    fn serialize<W: Write>(&self, writer: &mut W) -> Result<(), Error> {
        self.0.encoded.serialize(writer)
    }
}

impl BorshDeserialize for Transaction {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        let bytes = read_limited("a transaction", TRANSACTION_BYTES, reader)?;
        Self::decode_owned(bytes).map_err(invalid)
    }
}

#[cfg(test)]
mod tests;
