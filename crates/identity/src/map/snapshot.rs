//! What is known of the network at one moment, and how the next moment follows.

use super::client::Client;
use super::folder::{Candidate, NetworkFolder};
use super::identities::{self, Identities, MAX_KEYS_OF_A_NAME};
use super::{MapError, Refused};
use crate::certificate::{Certificate, CertificateError, CertificatePath};
use crate::info::{InfoError, NodeInfo, SignedNodeInfo};
use crate::parameters::{NetworkParameters, ParametersError, SignedParameters};
use crate::pem;
use crate::role::Role;
use crate::trust::{Trust, Verified};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use tally_contracts::{Name, Party, PublicKey, Timestamp};
use tally_crypto::Hash;

/// What is known of the network at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    parameters: Arc<NetworkParameters>,
    parameters_hash: Hash,
    nodes: BTreeMap<Name, Known>,
    keys: HashMap<PublicKey, Party>,
    hashes: HashMap<Hash, Name>,
    /// Everybody who was ever certified, also those in `nodes`.
    identities: Arc<Identities>,
}

#[derive(Debug, Clone)]
struct Known {
    info: Arc<NodeInfo>,
    hash: Hash,
    /// Number of the revocation list under which it was verified.
    revocations: Option<u64>,
}

impl Default for Snapshot {
    /// Nothing known: of epoch 0, which no network has.
    fn default() -> Self {
        Self {
            parameters: Arc::new(NetworkParameters {
                epoch: 0,
                minimum_platform_version: 0,
                notaries: Vec::new(),
                former_notaries: Vec::new(),
                max_message_bytes: 0,
                max_transaction_bytes: 0,
                modified: Timestamp::EPOCH,
            }),
            parameters_hash: Hash::ZERO,
            nodes: BTreeMap::new(),
            keys: HashMap::new(),
            hashes: HashMap::new(),
            identities: Arc::default(),
        }
    }
}

/// What a refresh changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// Nodes that were not known before.
    pub added: Vec<Name>,
    /// Nodes with a newer info.
    pub updated: Vec<Name>,
    /// Nodes that are no longer in the map, or whose certificates expired or were revoked.
    pub removed: Vec<Name>,
    /// Whether there are new parameters.
    pub parameters: bool,
    /// Whether there is a new revocation list: check standing connections
    /// ([`Tls::recheck`](crate::tls::Tls::recheck)).
    pub revocations: bool,
    /// Infos that were left out, and why.
    pub refused: Vec<Refused>,
}

impl Changes {
    /// Whether anything is different from before.
    pub fn any(&self) -> bool {
        self.parameters
            || self.revocations
            || !(self.added.is_empty() && self.updated.is_empty() && self.removed.is_empty())
    }
}

/// Everything that a folder or a service holds, unverified.
pub(super) struct Material {
    pub(super) manager: Vec<u8>,
    pub(super) revocations: Vec<u8>,
    pub(super) parameters: Vec<u8>,
    pub(super) infos: Vec<(String, Candidate)>,
    pub(super) former: Vec<(String, Candidate)>,
}

impl Material {
    /// What the folder holds and `current` does not have already.
    pub(super) fn from_folder(folder: &NetworkFolder, current: &Snapshot) -> Result<Self, MapError> {
        Ok(Self {
            manager: folder.manager()?,
            revocations: folder.revocations()?,
            parameters: folder.parameters()?,
            infos: folder.infos()?,
            former: folder.former(|hash| current.identities.knows(hash))?,
        })
    }

    pub(super) fn from_service(client: &Client, current: &Snapshot) -> Result<Self, MapError> {
        let infos = client
            .hashes()?
            .into_iter()
            .map(|hash| {
                let candidate = if current.hashes.contains_key(&hash) {
                    Candidate::Known(hash)
                } else {
                    Candidate::Bytes(client.info(hash))
                };
                (hash.to_string(), candidate)
            })
            .collect();
        let former = client
            .former()?
            .into_iter()
            .filter(|hash| !current.identities.knows(hash))
            .map(|hash| (format!("former/{hash}"), Candidate::Bytes(client.former_path(hash))))
            .collect();
        Ok(Self {
            manager: client.manager()?,
            revocations: client.revocations()?,
            parameters: client.parameters()?,
            infos,
            former,
        })
    }
}

/// The next snapshot, and what is different in it.
pub(super) struct Step {
    pub(super) snapshot: Snapshot,
    pub(super) changes: Changes,
    /// The infos that were not in the snapshot before.
    pub(super) accepted: Vec<SignedNodeInfo>,
    /// The paths of former identities that were not in the snapshot before.
    pub(super) former: Vec<CertificatePath>,
}

impl Snapshot {
    /// The node of that name.
    pub fn info(&self, name: &Name) -> Option<&Arc<NodeInfo>> {
        self.nodes.get(name).map(|known| &known.info)
    }

    /// The node whose legal identity has that key.
    pub fn party_of_key(&self, key: &PublicKey) -> Option<&Party> {
        self.keys.get(key)
    }

    /// Every node, by name.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Arc<NodeInfo>> {
        self.nodes.values().map(|known| &known.info)
    }

    /// The hash of every node's info, by the nodes' names.
    pub fn hashes(&self) -> impl ExactSizeIterator<Item = Hash> {
        self.nodes.values().map(|known| known.hash)
    }

    /// Whether name and key are those of a legal identity that was ever certified
    /// ([`NetworkMap::is_certified`](super::NetworkMap::is_certified)).
    pub fn is_certified(&self, party: &Party) -> bool {
        self.identities.contains(party)
    }

    /// Whether name and key are those of a notary's service
    /// ([`NetworkMap::is_notary_key`](super::NetworkMap::is_notary_key)).
    pub fn is_notary_key(&self, party: &Party) -> bool {
        self.parameters.names_notary(party) && !self.is_certified(party)
    }

    /// The hashes of the paths of identities that are not on the map now.
    pub(super) fn former(&self) -> impl Iterator<Item = Hash> {
        let now = |party: &Party| self.info(&party.name).is_some_and(|info| info.party == *party);
        self.identities.paths().filter(move |(_, party)| !now(party)).map(|(hash, _)| hash)
    }

    /// The path of an identity, by the hash of its PEM text.
    pub(super) fn path(&self, hash: &Hash) -> Option<&CertificatePath> {
        self.identities.path(hash)
    }

    /// The node whose info has that hash.
    pub(super) fn name_of_hash(&self, hash: &Hash) -> Option<&Name> {
        self.hashes.get(hash)
    }

    /// What all nodes agree on.
    pub const fn parameters(&self) -> &Arc<NetworkParameters> {
        &self.parameters
    }

    /// Whether an info (verified) is to be taken: not when it is the one that is known.
    pub(super) fn admits(&self, info: &NodeInfo, hash: Hash) -> Result<bool, InfoError> {
        let minimum = self.parameters.minimum_platform_version;
        let party = info.party.name.clone();
        if info.platform_version < minimum {
            return Err(InfoError::PlatformVersion { party, got: info.platform_version, minimum });
        }
        if self.identities.exceeds(&info.party) {
            return Err(InfoError::TooManyKeys { party, count: MAX_KEYS_OF_A_NAME });
        }
        match self.nodes.get(&party) {
            Some(known) if known.hash == hash => Ok(false),
            Some(known) if known.info.serial >= info.serial => {
                Err(InfoError::Older { party, got: info.serial, have: known.info.serial })
            }
            _ => Ok(true),
        }
    }

    /// Verifies `material` and makes of it the snapshot that follows this one. A new revocation list
    /// is in force from then on, also when the rest is refused.
    pub(super) fn advance(
        &self,
        material: Material,
        trust: &Trust,
        now: Timestamp,
    ) -> Result<Step, MapError> {
        let mut changes = Changes::default();
        let manager = Certificate::parse(&pem::decode_certificate(&material.manager)?)?;
        let before = trust.revocations().map(|list| list.number());
        let number = trust.install(&material.revocations, &manager, now)?.number();
        changes.revocations = before != Some(number);

        let mut next = Self { nodes: BTreeMap::new(), ..self.clone() };
        changes.parameters = next.take_parameters(&material.parameters, trust, now)?;

        let mut former = Vec::new();
        for (origin, candidate) in material.former {
            match next.take_former(candidate, trust) {
                Ok(path) => former.extend(path),
                Err(error) => changes.refused.push(Refused { origin, error }),
            }
        }

        let mut accepted = BTreeMap::new();
        let mut seen = HashSet::new();
        for (origin, candidate) in material.infos {
            if let Err(error) = self.take(candidate, &mut next, &mut accepted, &mut seen, trust, number, now)
            {
                changes.refused.push(Refused { origin, error });
            }
        }
        // An info that was refused does not push out the one that is known, if that still holds.
        for name in seen {
            if let (None, Some(known)) = (next.nodes.get(&name), self.nodes.get(&name))
                && let Ok(known) = known.again(&next, trust, number, now)
            {
                next.nodes.insert(name, known);
            }
        }
        next.index();
        for (name, known) in &next.nodes {
            match self.nodes.get(name) {
                None => changes.added.push(name.clone()),
                Some(before) if before.hash != known.hash => changes.updated.push(name.clone()),
                Some(_) => {}
            }
        }
        changes.removed = self.nodes.keys().filter(|name| !next.nodes.contains_key(*name)).cloned().collect();
        Ok(Step { snapshot: next, changes, accepted: accepted.into_values().collect(), former })
    }

    fn take_former(
        &mut self,
        candidate: Candidate,
        trust: &Trust,
    ) -> Result<Option<CertificatePath>, MapError> {
        let Candidate::Bytes(bytes) = candidate else { return Ok(None) };
        let path = pem::decode_path(&bytes?).map_err(MapError::Former)?;
        let Verified { name, key } =
            trust.verify_past(&path, Role::LegalIdentity).map_err(|error| MapError::Former(error.into()))?;
        let identities = Arc::make_mut(&mut self.identities);
        if identities.insert(Party { name, key }, path.clone()) {
            return Ok(Some(path));
        }
        identities.pass_over(identities::hash(&path));
        Ok(None)
    }

    fn remember(&mut self, party: &Party, path: &CertificatePath) {
        // A look costs nothing; a change copies what other snapshots share.
        if !self.identities.contains(party) {
            Arc::make_mut(&mut self.identities).insert(party.clone(), path.clone());
        }
    }

    fn take_parameters(&mut self, bytes: &[u8], trust: &Trust, now: Timestamp) -> Result<bool, MapError> {
        let hash = tally_crypto::hash(bytes);
        let signed = SignedParameters::decode(bytes)?;
        let parameters = signed.verify(trust, now)?;
        let have = self.parameters.epoch;
        if parameters.epoch < have {
            return Err(ParametersError::Older { got: parameters.epoch, have }.into());
        }
        // The same parameters may be signed anew.
        if parameters.epoch == have && *parameters != *self.parameters {
            return Err(ParametersError::Ambiguous { epoch: have }.into());
        }
        let changed = hash != self.parameters_hash;
        self.parameters = Arc::new(parameters.clone());
        self.parameters_hash = hash;
        Ok(changed)
    }

    /// Takes one info into `next`; names met are put into `seen`.
    #[expect(clippy::too_many_arguments, reason = "the parts of one step, at one place")]
    fn take(
        &self,
        candidate: Candidate,
        next: &mut Self,
        accepted: &mut BTreeMap<Name, SignedNodeInfo>,
        seen: &mut HashSet<Name>,
        trust: &Trust,
        number: u64,
        now: Timestamp,
    ) -> Result<(), MapError> {
        let (hash, bytes) = match candidate {
            Candidate::Known(hash) => (hash, None),
            Candidate::Bytes(bytes) => {
                let bytes = bytes?;
                (tally_crypto::hash(&bytes), Some(bytes))
            }
        };
        let same = self.hashes.get(&hash).and_then(|name| self.nodes.get(name));
        let (known, signed) = match (same, bytes) {
            (Some(known), _) => {
                seen.insert(known.info.party.name.clone());
                (known.again(next, trust, number, now)?, None)
            }
            (None, Some(bytes)) => {
                let signed = SignedNodeInfo::decode(&bytes)?;
                let info = match signed.verify(trust, now) {
                    Err(error) => {
                        // What expired or was revoked was certified all the same.
                        if let Ok(info) = signed.verify_past(trust) {
                            next.remember(&info.party, &info.path);
                        }
                        return Err(error.into());
                    }
                    info => info?,
                };
                seen.insert(info.party.name.clone());
                self.admits(info, hash)?;
                let info = Arc::new(info.clone());
                (Known { info, hash, revocations: Some(number) }, Some(signed))
            }
            // Only hashes of this snapshot are passed as known.
            (None, None) => return Ok(()),
        };
        let name = known.info.party.name.clone();
        next.admits(&known.info, hash)?;
        next.remember(&known.info.party, &known.info.path);
        next.nodes.insert(name.clone(), known);
        match signed {
            Some(signed) => accepted.insert(name, signed),
            None => accepted.remove(&name),
        };
        Ok(())
    }

    fn index(&mut self) {
        self.keys =
            self.nodes.values().map(|known| (known.info.party.key, known.info.party.clone())).collect();
        self.hashes = self.nodes.iter().map(|(name, known)| (known.hash, name.clone())).collect();
    }
}

impl Known {
    /// Whether what was verified before still holds.
    fn again(&self, next: &Snapshot, trust: &Trust, number: u64, now: Timestamp) -> Result<Self, InfoError> {
        let minimum = next.parameters.minimum_platform_version;
        if self.info.platform_version < minimum {
            let party = self.info.party.name.clone();
            return Err(InfoError::PlatformVersion { party, got: self.info.platform_version, minimum });
        }
        if self.revocations == Some(number) {
            // The signatures stay what they were; only time goes on.
            let paths = std::iter::once(&self.info.path).chain(&self.info.notary);
            paths
                .flat_map(CertificatePath::certificates)
                .try_for_each(|certificate| certificate.check_time(now))
                .map_err(InfoError::Certificate)?;
        } else {
            let role = self.info.path.leaf().role();
            trust
                .verify(&self.info.path, role, now)
                .map_err(|error: CertificateError| InfoError::Certificate(error))?;
        }
        Ok(Self { revocations: Some(number), ..self.clone() })
    }
}
