//! A part of a transaction, shown with proof that it belongs to the id.

use crate::component::{self, Component, FORMAT, GROUPS, Group, Nonce, Nonces};
use crate::content::duplicate;
use crate::encoding::{encode, invalid, read_limited};
use crate::limits::{CONSUMERS, SIGNERS, STATES, TEAR_OFF_BYTES};
use crate::state::read;
use crate::{
    AttachmentId, ContractCommand, ContractName, DecodeError, NetworkId, Party, PublicKey, State, StateRef,
    TimeWindow, Transaction, TransactionId,
};
use borsh::io::{Error, Read, Write};
use borsh::{BorshDeserialize, BorshSerialize};
use std::sync::Arc;
use tally_crypto::merkle::{self, Tree};
use tally_crypto::{Hash, ProofError};

/// Chosen components of a transaction, and hashes of the rest.
///
/// Whoever has a tear-off can sign the transaction by its [`id`](TearOff::id), knows that the
/// components shown belong to it, and knows of each group shown whole that there are no more of
/// that kind. It says nothing about the rest, not even how much there is.
///
/// Always verified: [`TearOff::decode`] refuses one whose parts do not lead to its id.
/// Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TearOff(Arc<Inner>);

#[derive(Debug, PartialEq, Eq)]
struct Inner {
    network: NetworkId,
    id: TransactionId,
    encoded: Vec<u8>,
    inputs: Option<Visible<StateRef>>,
    references: Option<Visible<StateRef>>,
    outputs: Option<Visible<State>>,
    commands: Option<Visible<CommandContent>>,
    signers: Option<Visible<component::Keys>>,
    attachments: Option<Visible<AttachmentId>>,
    contracts: Option<Visible<(ContractName, u32)>>,
    notary: Option<Visible<Party>>,
    time_window: Option<Visible<TimeWindow>>,
    consumers: Option<Visible<component::Keys>>,
}

/// A command as a tear-off shows it: without its signers, which are a group of their own.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CommandContent {
    /// The contract that understands it.
    pub contract: ContractName,
    /// What the contract says it is.
    pub data: Vec<u8>,
}

impl CommandContent {
    /// What the contract keeps in the command.
    ///
    /// # Errors
    /// [`DecodeError`] when the command belongs to another contract or its data is malformed.
    pub fn read<C: ContractCommand>(&self) -> Result<C, DecodeError> {
        read("a command", C::CONTRACT, self.contract, &self.data)
    }
}

/// The components of one group that a tear-off shows, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible<T> {
    total: u32,
    indices: Vec<u32>,
    values: Vec<T>,
}

impl<T> Visible<T> {
    /// How many components the transaction has in this group.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The components shown.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// All components of the group, if all are shown.
    pub fn whole(&self) -> Option<&[T]> {
        (u32::try_from(self.values.len()) == Ok(self.total)).then_some(&self.values)
    }

    /// Component `index`, if it is shown.
    pub fn get(&self, index: u32) -> Option<&T> {
        self.values.get(self.indices.binary_search(&index).ok()?)
    }

    /// The components shown and their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.indices.iter().copied().zip(&self.values)
    }
}

/// Why a tear-off is refused.
#[derive(Debug, thiserror::Error)]
pub enum TearOffError {
    /// The parts do not lead to the id that it claims.
    #[error("the tear-off claims to be of transaction {claimed}; its parts are of {implied}")]
    Id {
        /// The id claimed.
        claimed: TransactionId,
        /// The id that the parts make.
        implied: TransactionId,
    },
    /// A component does not belong to its group.
    #[error("component {index} does not belong to the group {group:?}")]
    Proof {
        /// The group.
        group: Group,
        /// Which component.
        index: u32,
        /// What is wrong with the proof.
        #[source]
        source: ProofError,
    },
    /// Components of a group are not in ascending order, none is shown of a group shown in part,
    /// or all are.
    #[error("the components shown of the group {0:?} are not in the one form that they should have")]
    Form(Group),
    /// A group's components are none that a transaction has.
    #[error("the group {group:?} cannot be of a well-formed transaction: {why}")]
    Component {
        /// The group.
        group: Group,
        /// What is wrong with it.
        why: String,
    },
}

/// A tear-off does not show what is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tear-off does not show all that is needed of the group {0:?}")]
pub struct NotShown(pub Group);

/// What a non-validating notary decides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotaryView<'a> {
    /// The transaction.
    pub id: TransactionId,
    /// All states consumed.
    pub inputs: &'a [StateRef],
    /// All states read.
    pub references: &'a [StateRef],
    /// Who is to make it final.
    pub notary: &'a Party,
    /// When it may be made final.
    pub time_window: Option<TimeWindow>,
}

/// A group as a tear-off carries it.
#[derive(BorshSerialize, BorshDeserialize)]
enum Opening {
    /// Only its hash.
    Hidden(Hash),
    /// All components.
    Whole { nonce: Nonce, components: Vec<(Nonce, Vec<u8>)> },
    /// Some components, at least one, not all.
    Part { nonce: Nonce, count: u32, root: Hash, components: Vec<Proven> },
}

/// A component with the path from its leaf to the root of the group.
#[derive(BorshSerialize, BorshDeserialize)]
struct Proven {
    index: u32,
    nonce: Nonce,
    component: Vec<u8>,
    path: Vec<Hash>,
}

impl TearOff {
    pub(crate) fn of(
        transaction: &Transaction,
        whole: &[Group],
        mut keep: impl FnMut(u32, &Component<'_>) -> bool,
    ) -> Result<Self, DecodeError> {
        let counts = transaction.counts();
        let nonces = Nonces::derive(transaction.salt(), &counts);
        let mut components = nonces.of_components().iter().zip(transaction.components());
        let mut openings = Vec::with_capacity(Group::ALL.len());
        let groups =
            Group::ALL.into_iter().zip(counts).zip(nonces.of_groups().iter().zip(transaction.group_hashes()));
        for ((group, count), (nonce, hash)) in groups {
            let size = usize::try_from(count).unwrap_or(usize::MAX);
            let members: Vec<_> = components.by_ref().take(size).collect();
            let kept: Vec<bool> = match whole.contains(&group) {
                true => vec![true; members.len()],
                false => (0..).zip(&members).map(|(index, (_, component))| keep(index, component)).collect(),
            };
            openings.push(if whole.contains(&group) || (count > 0 && kept.iter().all(|kept| *kept)) {
                let encoded = members.iter().map(|(nonce, component)| (**nonce, bytes(component)));
                Opening::Whole { nonce: *nonce, components: encoded.collect() }
            } else if kept.contains(&true) {
                part(*nonce, count, &members, &kept)
            } else {
                Opening::Hidden(*hash)
            });
        }
        // One opening for each group; the encoding of an array has no length in front.
        let mut encoded = encode(&(FORMAT, transaction.network(), transaction.id()));
        for opening in &openings {
            encoded.extend(encode(opening));
        }
        Self::decode(&encoded)
    }

    /// The network of the transaction.
    pub fn network(&self) -> NetworkId {
        self.0.network
    }

    /// The transaction that this is a part of.
    pub fn id(&self) -> TransactionId {
        self.0.id
    }

    /// States consumed; `None` when nothing of the group is shown.
    pub fn inputs(&self) -> Option<&Visible<StateRef>> {
        self.0.inputs.as_ref()
    }

    /// States read; `None` when nothing of the group is shown.
    pub fn references(&self) -> Option<&Visible<StateRef>> {
        self.0.references.as_ref()
    }

    /// States created; `None` when nothing of the group is shown.
    pub fn outputs(&self) -> Option<&Visible<State>> {
        self.0.outputs.as_ref()
    }

    /// Commands without their signers; `None` when nothing of the group is shown.
    pub fn commands(&self) -> Option<&Visible<CommandContent>> {
        self.0.commands.as_ref()
    }

    /// Who signs each command; `None` when nothing of the group is shown.
    pub fn signers(&self) -> Option<&Visible<Vec<PublicKey>>> {
        self.0.signers.as_ref()
    }

    /// Attachments; `None` when nothing of the group is shown.
    pub fn attachments(&self) -> Option<&Visible<AttachmentId>> {
        self.0.attachments.as_ref()
    }

    /// Contracts and versions; `None` when nothing of the group is shown.
    pub fn contracts(&self) -> Option<&Visible<(ContractName, u32)>> {
        self.0.contracts.as_ref()
    }

    /// The notary, if shown.
    pub fn notary(&self) -> Option<&Party> {
        self.0.notary.as_ref()?.values().first()
    }

    /// The time window, if there is one; `None` when that is not shown.
    pub fn time_window(&self) -> Option<Option<TimeWindow>> {
        Some(self.0.time_window.as_ref()?.values().first().copied())
    }

    /// Whose signatures consume each output; `None` when nothing of the group is shown.
    pub fn consumers(&self) -> Option<&Visible<Vec<PublicKey>>> {
        self.0.consumers.as_ref()
    }

    /// What a non-validating notary needs; refused unless all inputs, all references, the notary
    /// and the time window are shown.
    ///
    /// # Errors
    /// [`NotShown`] names the first group that is not shown whole.
    pub fn for_notary(&self) -> Result<NotaryView<'_>, NotShown> {
        Ok(NotaryView {
            id: self.id(),
            inputs: whole(self.inputs(), Group::Inputs)?,
            references: whole(self.references(), Group::References)?,
            notary: self.notary().ok_or(NotShown(Group::Notary))?,
            time_window: self.time_window().ok_or(NotShown(Group::TimeWindow))?,
        })
    }

    /// The commands that `signer` is asked to sign for, all of them; refused unless the tear-off
    /// shows who signs each command, and every command that names `signer`.
    ///
    /// # Errors
    /// [`NotShown`] names the group that is not shown as far as needed.
    pub fn commands_for(&self, signer: &PublicKey) -> Result<Vec<&CommandContent>, NotShown> {
        let signers = whole(self.signers(), Group::Signers)?;
        (0..)
            .zip(signers)
            .filter(|(_, signers)| signers.contains(signer))
            .map(|(index, _)| {
                self.commands().and_then(|shown| shown.get(index)).ok_or(NotShown(Group::Commands))
            })
            .collect()
    }

    /// The encoding, made once. It never holds the salt of the transaction.
    pub fn encode(&self) -> &[u8] {
        &self.0.encoded
    }

    /// Reads the encoding of a whole tear-off and verifies it.
    ///
    /// # Errors
    /// [`DecodeError`] when it is longer than [`TEAR_OFF_BYTES`], malformed, followed by more
    /// bytes, or does not lead to its id (then a [`TearOffError`] is its source's cause).
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let what = "a tear-off";
        if bytes.len() > TEAR_OFF_BYTES {
            return Err(DecodeError::TooLong { what, limit: TEAR_OFF_BYTES, got: bytes.len() });
        }
        Self::verified(bytes).map_err(|source| DecodeError::Malformed { what, source })
    }

    fn verified(bytes: &[u8]) -> Result<Self, Error> {
        let (format, network, claimed, openings): (u8, NetworkId, TransactionId, [Opening; GROUPS]) =
            borsh::from_slice(bytes)?;
        if format != FORMAT {
            return Err(invalid(crate::TransactionError::Format(format)));
        }
        let mut hashes = [Hash::ZERO; GROUPS];
        for ((hash, group), opening) in hashes.iter_mut().zip(Group::ALL).zip(&openings) {
            *hash = opening.hash(group).map_err(invalid)?;
        }
        let implied = component::id(network, &hashes);
        if implied != claimed {
            return Err(invalid(TearOffError::Id { claimed, implied }));
        }
        let [
            inputs,
            references,
            outputs,
            commands,
            signers,
            attachments,
            contracts,
            notary,
            time_window,
            consumers,
        ] = openings;
        let inner = Inner {
            network,
            id: claimed,
            encoded: bytes.to_vec(),
            inputs: inputs.read(Group::Inputs)?,
            references: references.read(Group::References)?,
            outputs: outputs.read(Group::Outputs)?,
            commands: commands.read(Group::Commands)?,
            signers: signers.read(Group::Signers)?,
            attachments: attachments.read(Group::Attachments)?,
            contracts: contracts.read(Group::Contracts)?,
            notary: notary.read(Group::Notary)?,
            time_window: time_window.read(Group::TimeWindow)?,
            consumers: consumers.read(Group::Consumers)?,
        };
        inner.check().map_err(invalid)?;
        Ok(Self(Arc::new(inner)))
    }
}

fn bytes(component: &Component<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    component.encode_into(&mut out);
    out
}

/// Opens the components of a group that are kept, with a path for each.
fn part(nonce: Nonce, count: u32, members: &[(&Nonce, Component<'_>)], kept: &[bool]) -> Opening {
    let mut scratch = Vec::new();
    let leaves: Vec<_> = members
        .iter()
        .map(|(nonce, component)| component::leaf(nonce, &mut scratch, |out| component.encode_into(out)))
        .collect();
    let tree = Tree::new(&leaves);
    let components = (0..)
        .zip(members)
        .zip(kept)
        .enumerate()
        .filter(|(_, (_, kept))| **kept)
        .map(|(at, ((index, (nonce, component)), _))| Proven {
            index,
            nonce: **nonce,
            component: bytes(component),
            path: tree.path(at).unwrap_or_default(),
        })
        .collect();
    Opening::Part { nonce, count, root: tree.root(), components }
}

fn whole<T>(shown: Option<&Visible<T>>, group: Group) -> Result<&[T], NotShown> {
    shown.and_then(Visible::whole).ok_or(NotShown(group))
}

impl Opening {
    /// The hash of the group, after checking that what is shown belongs to it.
    fn hash(&self, group: Group) -> Result<Hash, TearOffError> {
        let mut scratch = Vec::new();
        let mut leaf = |nonce: &Nonce, component: &[u8]| {
            component::leaf(nonce, &mut scratch, |out| out.extend_from_slice(component))
        };
        match self {
            Self::Hidden(hash) => Ok(*hash),
            Self::Whole { nonce, components } => {
                let count = within_limit(group, components.len())?;
                let leaves: Vec<_> =
                    components.iter().map(|(nonce, component)| leaf(nonce, component)).collect();
                Ok(component::group_hash(group, nonce, count, &component::root(&leaves)))
            }
            Self::Part { nonce, count, root, components } => {
                let shown = within_limit(group, components.len())?;
                let ascending = components.is_sorted_by(|a, b| a.index < b.index);
                if shown == 0 || shown >= *count || !ascending {
                    return Err(TearOffError::Form(group));
                }
                for Proven { index, nonce, component, path } in components {
                    let leaf = leaf(nonce, component);
                    merkle::verify_path(root, u64::from(*count), u64::from(*index), &leaf, path)
                        .map_err(|source| TearOffError::Proof { group, index: *index, source })?;
                }
                Ok(component::group_hash(group, nonce, *count, root))
            }
        }
    }

    /// The components shown.
    fn read<T: BorshDeserialize>(self, group: Group) -> Result<Option<Visible<T>>, Error> {
        let value = |bytes: &[u8]| {
            borsh::from_slice(bytes)
                .map_err(|error| invalid(TearOffError::Component { group, why: error.to_string() }))
        };
        match self {
            Self::Hidden(_) => Ok(None),
            Self::Whole { components, .. } => {
                let total = within_limit(group, components.len()).map_err(invalid)?;
                let values = components.iter().map(|(_, bytes)| value(bytes)).collect::<Result<_, _>>()?;
                Ok(Some(Visible { total, indices: (0..total).collect(), values }))
            }
            Self::Part { count, components, .. } => {
                let indices = components.iter().map(|shown| shown.index).collect();
                let values =
                    components.iter().map(|shown| value(&shown.component)).collect::<Result<_, _>>()?;
                Ok(Some(Visible { total: count, indices, values }))
            }
        }
    }
}

fn within_limit(group: Group, count: usize) -> Result<u32, TearOffError> {
    let refused = || TearOffError::Component { group, why: format!("{count} components are too many") };
    u32::try_from(count).ok().filter(|_| count <= STATES).ok_or_else(refused)
}

impl Inner {
    /// What a well-formed transaction never shows.
    fn check(&self) -> Result<(), TearOffError> {
        let refuse = |group, why: &str| Err(TearOffError::Component { group, why: why.to_owned() });
        let states = self.inputs.iter().chain(&self.references).flat_map(Visible::values);
        if duplicate(states).is_some() {
            return refuse(Group::Inputs, "a state occurs twice among inputs and references");
        }
        if self.notary.as_ref().is_some_and(|notary| notary.total != 1) {
            return refuse(Group::Notary, "there is exactly one notary");
        }
        if let Some(windows) = &self.time_window
            && (windows.total > 1 || !windows.values().iter().all(TimeWindow::is_well_formed))
        {
            return refuse(Group::TimeWindow, "there is at most one time window, and it contains a moment");
        }
        if let (Some(commands), Some(signers)) = (&self.commands, &self.signers)
            && commands.total != signers.total
        {
            return refuse(Group::Signers, "every command has its signers");
        }
        let in_order = |keys: &component::Keys| keys.is_sorted_by(|a, b| a < b);
        let signers = |keys: &component::Keys| keys.len() <= SIGNERS && in_order(keys);
        if !self.signers.iter().flat_map(Visible::values).all(signers) {
            return refuse(Group::Signers, "signers are in strictly ascending order");
        }
        if let (Some(outputs), Some(consumers)) = (&self.outputs, &self.consumers)
            && outputs.total != consumers.total
        {
            return refuse(Group::Consumers, "every output has its consumers");
        }
        let consumers = |keys: &component::Keys| keys.len() <= CONSUMERS && in_order(keys);
        if !self.consumers.iter().flat_map(Visible::values).all(consumers) {
            return refuse(Group::Consumers, "consumers are in strictly ascending order");
        }
        Ok(())
    }
}

impl BorshSerialize for TearOff {
    fn serialize<W: Write>(&self, writer: &mut W) -> Result<(), Error> {
        self.0.encoded.serialize(writer)
    }
}

impl BorshDeserialize for TearOff {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        Self::decode(&read_limited("a tear-off", TEAR_OFF_BYTES, reader)?).map_err(invalid)
    }
}

#[cfg(test)]
mod tests;
