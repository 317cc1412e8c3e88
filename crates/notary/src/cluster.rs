//! Who the members are, and how many of them it takes.

use std::collections::BTreeSet;

use alloy_primitives::Address;
use borsh::{BorshDeserialize, BorshSerialize};
use tally_consensus::ValidatorSet;
use tally_contracts::{Name, PublicKey, encode};
use tally_crypto::{Hash, derive_key};
use thiserror::Error;

/// The most members a cluster may have. Messages grow with the square of their number.
pub const MEMBERS: usize = 31;

/// One member of a clustered notary.
#[derive(
    Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, serde::Serialize, serde::Deserialize,
)]
pub struct Member {
    /// The name in the network map of the node that runs it.
    pub name: Name,
    /// The address of the key with which it votes (secp256k1).
    pub voter: [u8; 20],
    /// The key with which it signs answers for clients. It signs nothing else.
    pub key: PublicKey,
}

impl Member {
    /// The address as consensus has it.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::from(self.voter)
    }
}

/// The members of a clustered notary, ascending by the address of their voting keys.
///
/// This is the notary's composite identity: what a network map has to name for clients to check its
/// answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    network: Hash,
    members: Vec<Member>,
    voters: ValidatorSet,
    id: Hash,
}

/// Members that make no cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClusterError {
    /// Another number than `3f + 1` for an `f` from 1 on, or more than [`MEMBERS`].
    #[error("a cluster has 4, 7, 10 … members and {MEMBERS} at most; {0} are given")]
    Count(usize),
    /// A name, a voting key or an answering key belongs to two members.
    #[error("two members have the same name or the same key")]
    Repeated,
}

impl Cluster {
    /// The cluster of these members, in any order, in the network with this id.
    ///
    /// # Errors
    /// [`ClusterError`] says why they make none.
    pub fn new(network: Hash, mut members: Vec<Member>) -> Result<Self, ClusterError> {
        if members.len() < 4 || members.len() > MEMBERS || members.len() % 3 != 1 {
            return Err(ClusterError::Count(members.len()));
        }
        let distinct = |found: usize| found == members.len();
        if !distinct(members.iter().map(|member| &member.name).collect::<BTreeSet<_>>().len())
            || !distinct(members.iter().map(|member| member.voter).collect::<BTreeSet<_>>().len())
            || !distinct(members.iter().map(|member| member.key).collect::<BTreeSet<_>>().len())
        {
            return Err(ClusterError::Repeated);
        }
        members.sort_unstable_by_key(|member| member.voter);
        let voters = ValidatorSet::new(members.iter().map(Member::address).collect());
        let id = derive_key("tallystick clustered notary v1", &encode(&(network, &members)));
        Ok(Self { network, members, voters, id: Hash::from_bytes(id) })
    }

    /// The id of the network that it serves.
    #[must_use]
    pub fn network(&self) -> &Hash {
        &self.network
    }

    /// Ascending by the address of their voting keys.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// A hash over the network and all members. It is part of everything that a member signs for a
    /// client.
    #[must_use]
    pub fn id(&self) -> &Hash {
        &self.id
    }

    /// `f`: how many members may fail or lie.
    #[must_use]
    pub fn faulty(&self) -> usize {
        self.voters.faulty()
    }

    /// `2f + 1`: how many members have to sign that a transaction is notarised.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.voters.quorum()
    }

    /// The place among [`Self::members`] of the one that signs answers with `key`.
    #[must_use]
    pub fn position(&self, key: &PublicKey) -> Option<usize> {
        self.members.iter().position(|member| member.key == *key)
    }

    pub(crate) fn voters(&self) -> &ValidatorSet {
        &self.voters
    }

    /// All but one.
    pub(crate) fn others(&self, me: Address) -> impl Iterator<Item = Address> {
        self.voters.addresses().iter().copied().filter(move |address| *address != me)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_contracts::{Scheme, SigningKey};

    fn member(n: u8) -> Member {
        let key = SigningKey::from_secret(Scheme::Ed25519, &[n; 32]).unwrap().public_key();
        Member { name: Name::new(&format!("Notary {n}"), "Zurich", "CH").unwrap(), voter: [n; 20], key }
    }

    #[test]
    fn a_cluster_has_three_times_as_many_members_as_may_lie_and_one_more() {
        for count in 0..40_u8 {
            let members: Vec<Member> = (0..count).map(member).collect();
            let found = Cluster::new(Hash::default(), members);
            let size = usize::from(count);
            if (4..=MEMBERS).contains(&size) && size % 3 == 1 {
                let cluster = found.unwrap();
                assert_eq!(cluster.members().len(), 3 * cluster.faulty() + 1);
                assert_eq!(cluster.quorum(), 2 * cluster.faulty() + 1);
            } else {
                assert_eq!(found, Err(ClusterError::Count(size)));
            }
        }
    }

    #[test]
    fn no_member_counts_twice_and_the_identity_names_network_and_members() {
        let four = || (1..=4).map(member).collect::<Vec<_>>();
        let mut twice = four();
        twice[3].key = twice[0].key;
        assert_eq!(Cluster::new(Hash::default(), twice), Err(ClusterError::Repeated));
        let cluster = Cluster::new(Hash::default(), four()).unwrap();
        let mut turned = four();
        turned.reverse();
        assert_eq!(Cluster::new(Hash::default(), turned).unwrap(), cluster, "in any order");
        assert_ne!(Cluster::new(Hash::from_bytes([1; 32]), four()).unwrap().id(), cluster.id());
        let other = [member(9)].into_iter().chain(four().into_iter().skip(1)).collect();
        assert_ne!(Cluster::new(Hash::default(), other).unwrap().id(), cluster.id());
    }
}
