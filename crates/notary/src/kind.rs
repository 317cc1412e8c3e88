//! What notaries there are, as a network names them.

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{CompositeKey, CompositeKeyError, Name, NetworkId};

use crate::{Cluster, ClusterError, Member};

/// What a notary of a network sees, and of whom it consists.
#[derive(
    Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, serde::Serialize, serde::Deserialize,
)]
pub enum NotaryKind {
    /// One node that sees a tear-off.
    NonValidating,
    /// One node that sees and verifies whole transactions.
    Validating,
    /// Several nodes, each of which sees a tear-off. The notary's name is no node's, and its key is
    /// [`Cluster::composite`].
    Clustered(Vec<Member>),
}

impl NotaryKind {
    /// A notary of one node.
    #[must_use]
    pub fn alone(validating: bool) -> Self {
        if validating { Self::Validating } else { Self::NonValidating }
    }

    /// Whether it sees whole transactions.
    #[must_use]
    pub fn is_validating(&self) -> bool {
        matches!(self, Self::Validating)
    }

    /// Whether it consists of several nodes.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        matches!(self, Self::Clustered(_))
    }

    /// The members of a clustered one; none of one node.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        match self {
            Self::NonValidating | Self::Validating => &[],
            Self::Clustered(members) => members,
        }
    }

    /// The cluster that the members make in a network.
    ///
    /// # Errors
    /// [`ClusterError`]; one node makes none.
    pub fn cluster(&self, network: NetworkId) -> Result<Cluster, ClusterError> {
        Cluster::new(*network.hash(), self.members().to_vec())
    }

    /// Whether the node of that name is a member of it.
    #[must_use]
    pub fn has_member(&self, node: &Name) -> bool {
        self.members().iter().any(|member| member.name == *node)
    }
}

impl Cluster {
    /// The key that transactions name as their notary's: that of a quorum of the members. Its
    /// identity is [`Cluster::id`], so that members with other names or voting keys are another
    /// notary, even if their keys for answers are the same.
    ///
    /// # Errors
    /// [`CompositeKeyError`] when the key of a member is composite itself.
    pub fn composite(&self) -> Result<CompositeKey, CompositeKeyError> {
        let keys = self.members().iter().map(|member| member.key).collect();
        CompositeKey::new(self.quorum(), *self.id(), keys)
    }
}
