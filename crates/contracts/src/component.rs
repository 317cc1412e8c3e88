//! How the components of a transaction are hashed into its id.
//!
//! The components form groups. A component's leaf is the keyed hash of a nonce and the component's
//! encoding; a group's hash covers a nonce, the group's tag, the number of components and the
//! Merkle root over the leaves (`tally_crypto::merkle`, RFC 9162 shape); the id covers the format,
//! the network and the hashes of all groups in order. Nonces are keyed hashes of the position under the
//! transaction's salt. Whoever is shown a leaf with its nonce learns nothing about other leaves,
//! not even by guessing, and whoever is shown a group's hash does not learn how many components
//! it has; whoever is shown a group's nonce and all its components knows that there are no more.

use crate::encoding::encode;
use crate::{
    AttachmentId, Command, ContractName, NetworkId, Party, PublicKey, State, StateRef, TimeWindow,
    TransactionId,
};
use borsh::{BorshDeserialize, BorshSerialize};
use tally_crypto::{Hash, hash_many_keyed, keyed, merkle};

/// The format of transactions; the first byte of every encoding and part of every id.
pub(crate) const FORMAT: u8 = 2;

const LEAF_KEY: &[u8; 32] = b"tallystick flows component v2   ";
const GROUP_KEY: &[u8; 32] = b"tallystick flows group v2       ";
const ROOT_KEY: &[u8; 32] = b"tallystick flows transaction v2 ";

/// How many groups of components there are.
pub(crate) const GROUPS: usize = 10;

/// The groups of components, in the order in which the id covers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
#[repr(u8)]
pub enum Group {
    /// States consumed.
    Inputs,
    /// States read.
    References,
    /// States created.
    Outputs,
    /// Contract and data of each command.
    Commands,
    /// Who has to sign, for each command.
    Signers,
    /// Attachments.
    Attachments,
    /// Contracts and the version of each.
    Contracts,
    /// The notary: one component.
    Notary,
    /// The time window: one component or none.
    TimeWindow,
    /// Whose signatures consume each state created.
    Consumers,
}

impl Group {
    /// Every group, in order.
    pub const ALL: [Self; GROUPS] = [
        Self::Inputs,
        Self::References,
        Self::Outputs,
        Self::Commands,
        Self::Signers,
        Self::Attachments,
        Self::Contracts,
        Self::Notary,
        Self::TimeWindow,
        Self::Consumers,
    ];

    #[expect(clippy::as_conversions, reason = "the discriminant of a field-less enum")]
    pub(crate) const fn tag(self) -> u8 {
        self as u8
    }
}

/// One component, for choosing what a tear-off shows.
#[derive(Debug, Clone, Copy)]
pub enum Component<'a> {
    /// A state consumed.
    Input(&'a StateRef),
    /// A state read.
    Reference(&'a StateRef),
    /// A state created.
    Output(&'a State),
    /// Contract and data of a command; shows not who signs it.
    Command(&'a Command),
    /// Who has to sign a command; shows not what it is.
    Signers(&'a Command),
    /// An attachment.
    Attachment(&'a AttachmentId),
    /// A contract and its version.
    Contract(&'a (ContractName, u32)),
    /// The notary.
    Notary(&'a Party),
    /// The time window.
    TimeWindow(&'a TimeWindow),
    /// Whose signatures consume a state created; shows not what the state is.
    Consumers(&'a State),
}

impl Component<'_> {
    /// The group that the component belongs to.
    pub const fn group(&self) -> Group {
        match self {
            Self::Input(_) => Group::Inputs,
            Self::Reference(_) => Group::References,
            Self::Output(_) => Group::Outputs,
            Self::Command(_) => Group::Commands,
            Self::Signers(_) => Group::Signers,
            Self::Attachment(_) => Group::Attachments,
            Self::Contract(_) => Group::Contracts,
            Self::Notary(_) => Group::Notary,
            Self::TimeWindow(_) => Group::TimeWindow,
            Self::Consumers(_) => Group::Consumers,
        }
    }

    /// Appends the encoding that the component's leaf covers.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        let written = match self {
            Self::Input(reference) | Self::Reference(reference) => reference.serialize(out),
            Self::Output(state) => state.serialize(out),
            Self::Command(command) => (command.contract, &command.data).serialize(out),
            Self::Signers(command) => command.signers.serialize(out),
            Self::Attachment(id) => id.serialize(out),
            Self::Contract(contract) => contract.serialize(out),
            Self::Notary(notary) => notary.serialize(out),
            Self::TimeWindow(window) => window.serialize(out),
            Self::Consumers(state) => state.consumers.serialize(out),
        };
        written.expect("writing to memory fails only beyond 2^32 elements");
    }
}

/// A nonce: hides what its hash covers until it is shown.
pub(crate) type Nonce = Hash;

/// The nonces of a transaction: of its groups and of its components, in order of the groups.
pub(crate) struct Nonces {
    nonces: Vec<Nonce>,
}

impl Nonces {
    /// Derives all nonces for groups of these sizes.
    pub(crate) fn derive(salt: &[u8; 32], counts: &[u32; GROUPS]) -> Self {
        let mut positions = Vec::with_capacity(32);
        for group in Group::ALL {
            positions.push(position(group, u32::MAX));
        }
        for (group, count) in Group::ALL.into_iter().zip(counts) {
            positions.extend((0..*count).map(|index| position(group, index)));
        }
        let mut nonces = Vec::with_capacity(positions.len());
        hash_many_keyed(salt, &positions, &mut nonces);
        Self { nonces }
    }

    /// The nonces of the groups, in order.
    pub(crate) fn of_groups(&self) -> &[Nonce] {
        self.nonces.get(..Group::ALL.len()).unwrap_or_default()
    }

    /// The nonces of all components, group after group.
    pub(crate) fn of_components(&self) -> &[Nonce] {
        self.nonces.get(Group::ALL.len()..).unwrap_or_default()
    }
}

/// The block whose keyed hash is a nonce.
fn position(group: Group, index: u32) -> [u8; 64] {
    let mut block = [0; 64];
    block[0] = group.tag();
    block[1..5].copy_from_slice(&index.to_le_bytes());
    block
}

/// The leaf of a component; `scratch` is overwritten.
pub(crate) fn leaf(nonce: &Nonce, scratch: &mut Vec<u8>, component: impl FnOnce(&mut Vec<u8>)) -> Hash {
    scratch.clear();
    scratch.extend_from_slice(nonce.as_bytes());
    component(scratch);
    keyed(LEAF_KEY, scratch)
}

/// The hash of a group of `count` components whose leaves have the Merkle root `root`.
pub(crate) fn group_hash(group: Group, nonce: &Nonce, count: u32, root: &Hash) -> Hash {
    keyed(GROUP_KEY, &group_block(group, nonce, count, root))
}

/// The hashes of all groups, from nonce, count and root of each.
pub(crate) fn group_hashes(
    nonces: &[Nonce],
    counts: &[u32; GROUPS],
    roots: &[Hash; GROUPS],
) -> [Hash; GROUPS] {
    let mut blocks = [[0; 128]; GROUPS];
    for ((block, group), ((nonce, count), root)) in
        blocks.iter_mut().zip(Group::ALL).zip(nonces.iter().zip(counts).zip(roots))
    {
        *block = group_block(group, nonce, *count, root);
    }
    let mut hashes = Vec::with_capacity(blocks.len());
    hash_many_keyed(GROUP_KEY, &blocks, &mut hashes);
    let mut out = [Hash::ZERO; GROUPS];
    out.copy_from_slice(&hashes);
    out
}

fn group_block(group: Group, nonce: &Nonce, count: u32, root: &Hash) -> [u8; 128] {
    let mut block = [0; 128];
    block[..32].copy_from_slice(nonce.as_bytes());
    block[32..64].copy_from_slice(root.as_bytes());
    block[64] = group.tag();
    block[65..69].copy_from_slice(&count.to_le_bytes());
    block
}

/// The Merkle root over the leaves of a group.
pub(crate) fn root(leaves: &[Hash]) -> Hash {
    merkle::root(leaves)
}

/// The id that the hashes of all groups make in a network.
pub(crate) fn id(network: NetworkId, groups: &[Hash; GROUPS]) -> TransactionId {
    TransactionId::from_hash(keyed(ROOT_KEY, &encode(&(FORMAT, network, groups))))
}

/// Public keys in strictly ascending order, as a component of [`Group::Signers`] or
/// [`Group::Consumers`].
pub(crate) type Keys = Vec<PublicKey>;
