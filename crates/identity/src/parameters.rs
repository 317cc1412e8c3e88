//! What all nodes of a network agree on; signed by the network map's key.

use crate::authority::NetworkMapKey;
use crate::certificate::{CertificateError, CertificatePath};
use crate::role::Role;
use crate::trust::Trust;
use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{Name, NetworkId, Party, Signature, Timestamp};
use tally_crypto::Hash;
use tally_notary::{ClusterError, NotaryKind};

/// Largest parameters taken.
pub const MAX_PARAMETERS_BYTES: usize = 256 * 1024;
/// Most notaries of a network, and as many of the past.
const MAX_NOTARIES: usize = 256;

const MAX_REVOCATION_GRACE_MS: u64 = crate::moment::days(90);

const MAGIC: &[u8; 8] = b"tlyparm3";
const DOMAIN: &[u8; 32] = b"tallystick network parameters v3";

/// A notary that the network trusts.
#[derive(
    Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize, serde::Serialize, serde::Deserialize,
)]
pub struct Notary {
    /// Its name, and the key of its notary service; of a clustered one the composite key of its members' services.
    pub party: Party,
    /// Whether it sees and checks whole transactions, or a tear-off only, and of whom it consists.
    pub kind: NotaryKind,
}

impl Notary {
    /// The clustered notary of these members in a network. It does not validate: members whose maps differ for a moment
    /// would judge one transaction differently.
    ///
    /// # Errors
    /// [`ParametersError::Cluster`], [`ParametersError::Composite`].
    pub fn clustered(
        network: NetworkId,
        name: Name,
        members: Vec<tally_notary::Member>,
    ) -> Result<Self, ParametersError> {
        let kind = NotaryKind::Clustered(members);
        let key = composite_key(network, &name, &kind)?;
        Ok(Self { party: Party { name, key }, kind })
    }
}

/// The key that a clustered notary of these members has.
fn composite_key(
    network: NetworkId,
    name: &Name,
    kind: &NotaryKind,
) -> Result<tally_contracts::PublicKey, ParametersError> {
    let cluster =
        kind.cluster(network).map_err(|source| ParametersError::Cluster { name: name.clone(), source })?;
    cluster
        .composite()
        .map(|composite| composite.key())
        .map_err(|_| ParametersError::Composite { name: name.clone() })
}

/// Room that a message needs beside the largest transaction: flows send history in batches of half a mebibyte, to which
/// the last transaction is added. A message that the receiver does not take would hold up its queue.
pub const BESIDE_A_TRANSACTION: u32 = 768 << 10;

/// What all nodes of a network agree on.
#[derive(
    Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize, serde::Serialize, serde::Deserialize,
)]
pub struct NetworkParameters {
    /// Counts the changes; of two parameters the ones with the higher number count.
    pub epoch: u32,
    /// The oldest version of the network's rules that a node may have as its newest.
    pub minimum_platform_version: u32,
    /// The notaries, by name.
    pub notaries: Vec<Notary>,
    /// Notaries of the past, by name and key: what they signed counts as history, nothing new does.
    pub former_notaries: Vec<Party>,
    /// Largest message between nodes, in bytes: [`BESIDE_A_TRANSACTION`] more than the largest transaction at least.
    pub max_message_bytes: u32,
    /// Largest transaction with its signatures, in bytes.
    pub max_transaction_bytes: u32,
    /// How long a revocation list still counts after the next one was due, in milliseconds, at most
    /// 90 days. Then nodes open no new connections, until they have a newer list.
    pub revocation_grace_ms: u64,
    /// When they were last changed.
    pub modified: Timestamp,
    /// From when on they are in force. A node whose operator has not accepted them by then takes no new work.
    pub in_force_from: Timestamp,
}

/// Why network parameters are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParametersError {
    /// Larger than any parameters should be.
    #[error("network parameters of {bytes} bytes are larger than the {MAX_PARAMETERS_BYTES} allowed")]
    TooLarge {
        /// Their size.
        bytes: usize,
    },
    /// Not network parameters.
    #[error("not network parameters: {0}")]
    Malformed(String),
    /// Values that make no sense.
    #[error("the network parameters make no sense: {0}")]
    Value(&'static str),
    /// A notary is there twice.
    #[error("the notary {0} is there twice in the network parameters, or the notaries are not in order")]
    Notaries(Name),
    /// The members of a clustered notary make no cluster.
    #[error("the members of the notary {name}")]
    Cluster {
        /// The notary.
        name: Name,
        /// Why not.
        #[source]
        source: ClusterError,
    },
    /// The key of a notary is not the composite key of its members, or it is one and there are no members.
    #[error("the key of the notary {name} is not that of its members, or of a notary without members")]
    Composite {
        /// The notary.
        name: Name,
    },
    /// A clustered notary has a member's name.
    #[error(
        "the notary {name} has the name of one of its members: sessions with it would be with that member alone"
    )]
    NameOfMember {
        /// The notary.
        name: Name,
    },
    /// The certificate of whoever signed them is refused.
    #[error("the certificate on the network parameters is refused")]
    Certificate(#[from] CertificateError),
    /// Not signed by the network map.
    #[error("the signature on the network parameters is not by the key of {by}: they are altered")]
    Signature {
        /// Whose signature they should carry.
        by: Name,
    },
    /// Newer ones are in force.
    #[error("network parameters of epoch {got} are older than those of epoch {have}, which are in force")]
    Older {
        /// Their epoch.
        got: u32,
        /// The epoch in force.
        have: u32,
    },
    /// Two of the same epoch.
    #[error("two different network parameters have epoch {epoch}; the network map must count changes up")]
    Ambiguous {
        /// The epoch.
        epoch: u32,
    },
}

impl NetworkParameters {
    /// Puts `notary` in the place of the one of its name; a former key of it stays known.
    pub fn put_notary(&mut self, notary: Notary) {
        let name = notary.party.name.clone();
        self.remove_notary(&name);
        self.former_notaries.retain(|former| *former != notary.party);
        self.notaries.push(notary);
        self.notaries.sort_by(|a, b| a.party.name.cmp(&b.party.name));
    }

    /// Makes the notary of that name one of the past; nothing happens where there is none.
    pub fn remove_notary(&mut self, name: &Name) {
        let (gone, stay) = self.notaries.drain(..).partition(|notary| notary.party.name == *name);
        self.notaries = stay;
        let gone: Vec<Notary> = gone;
        self.former_notaries.extend(gone.into_iter().map(|notary| notary.party));
        self.former_notaries.sort();
        self.former_notaries.dedup();
    }

    /// Whether these parameters take nothing away from what `before` says: they name notaries more, now or of the past,
    /// and differ in nothing else.
    pub fn extends(&self, before: &Self) -> bool {
        let Self { notaries, former_notaries, .. } = before;
        let same = Self {
            epoch: before.epoch,
            notaries: notaries.clone(),
            former_notaries: former_notaries.clone(),
            modified: before.modified,
            in_force_from: before.in_force_from,
            ..self.clone()
        };
        same == *before
            && self.epoch >= before.epoch
            && notaries.iter().all(|notary| self.notaries.contains(notary))
            && former_notaries.iter().all(|party| self.former_notaries.contains(party))
    }

    /// Whether these parameters name `party` as a notary, now or in the past.
    pub fn names_notary(&self, party: &Party) -> bool {
        self.notaries.iter().any(|notary| notary.party == *party)
            || self.former_notaries.binary_search(party).is_ok()
    }

    fn check(&self) -> Result<(), ParametersError> {
        if self.notaries.len() > MAX_NOTARIES || self.former_notaries.len() > MAX_NOTARIES {
            return Err(ParametersError::Value("more than 256 notaries, now or in the past"));
        }
        for pair in self.former_notaries.windows(2) {
            if pair[0] >= pair[1] {
                return Err(ParametersError::Notaries(pair[1].name.clone()));
            }
        }
        for pair in self.notaries.windows(2) {
            if pair[0].party.name >= pair[1].party.name {
                return Err(ParametersError::Notaries(pair[1].party.name.clone()));
            }
        }
        for Notary { party, kind } in &self.notaries {
            if party.key.is_composite() != kind.is_clustered() {
                return Err(ParametersError::Composite { name: party.name.clone() });
            }
            if kind.has_member(&party.name) {
                return Err(ParametersError::NameOfMember { name: party.name.clone() });
            }
        }
        if self.revocation_grace_ms > MAX_REVOCATION_GRACE_MS {
            return Err(ParametersError::Value("revocation lists that count for more than 90 days too long"));
        }
        if self.max_transaction_bytes == 0 {
            return Err(ParametersError::Value("transactions of no bytes"));
        }
        if self.max_message_bytes < self.max_transaction_bytes.saturating_add(BESIDE_A_TRANSACTION) {
            return Err(ParametersError::Value(
                "a message may be too small for a transaction and 768 KiB of its history",
            ));
        }
        Ok(())
    }
}

#[derive(BorshSerialize, BorshDeserialize)]
struct Envelope {
    content: Vec<u8>,
    path: Vec<Vec<u8>>,
    signature: Signature,
}

/// Network parameters with the signature on them, whose form is checked; whether they are to be
/// believed, [`SignedParameters::verify`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedParameters {
    parameters: NetworkParameters,
    content: Vec<u8>,
    path: CertificatePath,
    signature: Signature,
}

impl SignedParameters {
    /// Signs parameters; notaries are put in the order of their names.
    ///
    /// # Errors
    /// [`ParametersError`] when they make no sense.
    pub fn sign(key: &NetworkMapKey, mut parameters: NetworkParameters) -> Result<Self, ParametersError> {
        parameters.notaries.sort_by(|a, b| a.party.name.cmp(&b.party.name));
        parameters.check()?;
        let content = tally_contracts::encode(&parameters);
        let signature = key.key().sign(message(&content).as_bytes()).into();
        Ok(Self { parameters, content, path: key.path().clone(), signature })
    }

    /// Reads the bytes that [`SignedParameters::encode`] makes.
    ///
    /// # Errors
    /// [`ParametersError`] when they are something else.
    pub fn decode(bytes: &[u8]) -> Result<Self, ParametersError> {
        if bytes.len() > MAX_PARAMETERS_BYTES {
            return Err(ParametersError::TooLarge { bytes: bytes.len() });
        }
        let malformed = |error: std::io::Error| ParametersError::Malformed(error.to_string());
        let rest = bytes
            .strip_prefix(MAGIC)
            .ok_or_else(|| ParametersError::Malformed("they do not begin as such".into()))?;
        let Envelope { content, path, signature } = borsh::from_slice(rest).map_err(malformed)?;
        let parameters: NetworkParameters = borsh::from_slice(&content).map_err(malformed)?;
        parameters.check()?;
        Ok(Self { parameters, content, path: CertificatePath::parse(&path)?, signature })
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let envelope = Envelope {
            content: self.content.clone(),
            path: self.path.to_der().iter().map(|der| der.to_vec()).collect(),
            signature: self.signature,
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(tally_contracts::encode(&envelope));
        bytes
    }

    /// What is signed; not believed yet.
    pub const fn unverified(&self) -> &NetworkParameters {
        &self.parameters
    }

    /// Checks that the network map's key, certified by the root, signed these parameters, and that the key of each
    /// clustered notary is that of its members in this network.
    ///
    /// # Errors
    /// [`ParametersError`].
    pub fn verify(&self, trust: &Trust, now: Timestamp) -> Result<&NetworkParameters, ParametersError> {
        let by = trust.verify(&self.path, Role::NetworkMap, now)?;
        by.key
            .verify(message(&self.content).as_bytes(), &self.signature)
            .map_err(|_| ParametersError::Signature { by: by.name })?;
        for Notary { party, kind } in
            self.parameters.notaries.iter().filter(|notary| notary.kind.is_clustered())
        {
            if composite_key(trust.network(), &party.name, kind)? != party.key {
                return Err(ParametersError::Composite { name: party.name.clone() });
            }
        }
        Ok(&self.parameters)
    }
}

/// What the network map signs.
fn message(content: &[u8]) -> Hash {
    tally_crypto::keyed(DOMAIN, content)
}

#[cfg(test)]
mod tests;
