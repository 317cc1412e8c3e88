//! What is known of the network at one moment, and how the next moment follows.

use super::client::Client;
use super::folder::{
    Candidate, MAX_FORMER, MAX_FORMER_BYTES, MAX_INFOS, MAX_MANAGER_BYTES, MAX_MANAGERS, ManagerFiles,
    NetworkFolder,
};
use super::identities::{self, Identities, MAX_KEYS_OF_A_NAME};
use super::index::{Contents, IndexError, SignedIndex};
use super::{MapError, Refused};
use crate::certificate::{Certificate, CertificateError, CertificatePath};
use crate::info::{InfoError, MAX_NODE_INFO_BYTES, NodeInfo, SignedNodeInfo};
use crate::parameters::{MAX_PARAMETERS_BYTES, NetworkParameters, ParametersError, SignedParameters};
use crate::pem;
use crate::revocation::{MAX_REVOCATION_LIST_BYTES, RevocationError};
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
    /// In force later.
    announced: Option<Arc<NetworkParameters>>,
    sources: Arc<Sources>,
    /// Number of the index that it comes from, and when that was signed; 0 where there is none.
    number: u64,
    made: Timestamp,
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
    /// Under which state of the revocation lists it was verified.
    generation: u64,
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
                revocation_grace_ms: 0,
                modified: Timestamp::EPOCH,
                in_force_from: Timestamp::EPOCH,
            }),
            parameters_hash: Hash::ZERO,
            announced: None,
            sources: Arc::default(),
            number: 0,
            made: Timestamp::EPOCH,
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

/// The bytes of what a snapshot was made of, beside node infos and former identities.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) root_list: Vec<u8>,
    /// Each identity manager, by name.
    pub(super) managers: Vec<(Name, ManagerFiles)>,
    pub(super) parameters: Vec<u8>,
    pub(super) announced: Option<Vec<u8>>,
}

/// Everything that a folder or a service holds, unverified.
pub(super) struct Material {
    pub(super) index: Option<SignedIndex>,
    pub(super) root_list: Vec<u8>,
    pub(super) managers: Vec<ManagerFiles>,
    pub(super) parameters: Vec<u8>,
    pub(super) announced: Option<Vec<u8>>,
    pub(super) infos: Vec<(String, Candidate)>,
    pub(super) former: Vec<(String, Candidate)>,
}

impl Material {
    /// What the folder holds and `current` does not have already.
    pub(super) fn from_folder(folder: &NetworkFolder, current: &Snapshot) -> Result<Self, MapError> {
        Ok(Self {
            index: folder.index()?.map(|bytes| SignedIndex::decode(&bytes)).transpose()?,
            root_list: folder.root_list()?,
            managers: folder.managers()?,
            parameters: folder.parameters()?,
            announced: folder.announced()?,
            infos: folder.infos()?,
            former: folder.former(|hash| current.identities.knows(hash))?,
        })
    }

    /// What the service holds and `current` does not have already. The index is verified here,
    /// after the root's list came into force, which may revoke the key that signed it.
    pub(super) fn from_service(
        client: &Client,
        current: &Snapshot,
        trust: &Trust,
        now: Timestamp,
    ) -> Result<Self, MapError> {
        let index = client.index()?;
        let root_list = client.object(index.unverified().contents.root_list, MAX_REVOCATION_LIST_BYTES)?;
        trust.install_root(&root_list, now)?;
        let contents = &index.verify(trust, current.number, now)?.contents;
        if contents.managers.len() > MAX_MANAGERS
            || contents.infos.len() > MAX_INFOS
            || contents.former.len() > MAX_FORMER
        {
            return Err(IndexError::Malformed("it names more than a network has".into()).into());
        }
        let managers = contents.managers.iter().map(|(certificate, list)| {
            let certificate = client.object(*certificate, MAX_MANAGER_BYTES)?;
            Ok(ManagerFiles { certificate, list: client.object(*list, MAX_REVOCATION_LIST_BYTES)? })
        });
        let managers = managers.collect::<Result<_, MapError>>()?;
        let infos = contents.infos.iter().map(|hash| {
            let candidate = if current.hashes.contains_key(hash) {
                Candidate::Known(*hash)
            } else {
                Candidate::Bytes(client.object(*hash, MAX_NODE_INFO_BYTES))
            };
            (hash.to_string(), candidate)
        });
        let unknown = contents.former.iter().filter(|hash| !current.identities.knows(hash));
        let former = unknown
            .map(|hash| (format!("former/{hash}"), Candidate::Bytes(client.object(*hash, MAX_FORMER_BYTES))));
        Ok(Self {
            root_list,
            managers,
            parameters: client.object(contents.parameters, MAX_PARAMETERS_BYTES)?,
            announced: contents
                .announced
                .map(|hash| client.object(hash, MAX_PARAMETERS_BYTES))
                .transpose()?,
            infos: infos.collect(),
            former: former.collect(),
            index: Some(index),
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

    /// See [`NetworkMap::keys_of`](super::NetworkMap::keys_of).
    pub fn keys_of(&self, name: &Name) -> Vec<PublicKey> {
        let present = self.info(name).map(|info| info.party.key);
        // The present key has signed the node's info. Of a former one there is a certificate alone, which the node's own
        // authority makes for any key.
        let is_its_own = |key: &PublicKey| {
            self.identities.other_holder(&Party { name: name.clone(), key: *key }).is_none()
        };
        let former = self.identities.keys_of(name).copied();
        let former = former.filter(|key| Some(*key) != present && is_its_own(key));
        present.into_iter().chain(former).collect()
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

    /// When the index that the service gave last was signed: how old what is known of the network may
    /// be. None where it comes from a folder.
    pub const fn made(&self) -> Option<Timestamp> {
        if self.number == 0 { None } else { Some(self.made) }
    }

    /// What a service that holds this snapshot tells.
    pub(super) fn contents(&self) -> Contents {
        let Sources { root_list, managers, parameters, announced } = &*self.sources;
        let managers = managers.iter().map(|(_, ManagerFiles { certificate, list })| {
            (tally_crypto::hash(certificate), tally_crypto::hash(list))
        });
        Contents {
            root_list: tally_crypto::hash(root_list),
            managers: managers.collect(),
            parameters: tally_crypto::hash(parameters),
            announced: announced.as_deref().map(tally_crypto::hash),
            infos: self.hashes().collect(),
            former: self.former().collect(),
        }
    }

    /// What of the sources has that hash.
    pub(super) fn source(&self, hash: &Hash) -> Option<&[u8]> {
        let Sources { root_list, managers, parameters, announced } = &*self.sources;
        let managers =
            managers.iter().flat_map(|(_, ManagerFiles { certificate, list })| [certificate, list]);
        [root_list, parameters]
            .into_iter()
            .chain(managers)
            .chain(announced)
            .map(Vec::as_slice)
            .find(|bytes| tally_crypto::hash(bytes) == *hash)
    }

    /// The sources, for a cache.
    pub(super) const fn sources(&self) -> &Arc<Sources> {
        &self.sources
    }

    /// The hashes of the paths of identities that are not on the map now.
    fn former(&self) -> impl Iterator<Item = Hash> {
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

    /// What all nodes will agree on later, if that was announced.
    pub const fn announced(&self) -> Option<&Arc<NetworkParameters>> {
        self.announced.as_ref()
    }

    /// Whether an info (verified) is to be taken: not when it is the one that is known. Of two infos of one key that with
    /// the higher serial is the newer one; of two keys that which was certified later, whatever the serials: a former key
    /// does not come back, whoever has it, and takes no number away from the next one.
    pub(super) fn admits(&self, info: &NodeInfo, hash: Hash) -> Result<bool, InfoError> {
        let minimum = self.parameters.minimum_platform_version;
        let party = info.party.name.clone();
        if info.platform_version < minimum {
            return Err(InfoError::PlatformVersion { party, got: info.platform_version, minimum });
        }
        if self.identities.exceeds(&info.party) {
            return Err(InfoError::TooManyKeys { party, count: MAX_KEYS_OF_A_NAME });
        }
        let since = info.path.leaf().not_before();
        if self.identities.is_former(&info.party, since) {
            return Err(InfoError::FormerKey { party });
        }
        let known = self.nodes.get(&party);
        if known.is_none_or(|known| known.info.party != info.party)
            && let Some(holder) = self.identities.other_holder(&info.party)
        {
            return Err(InfoError::KeyOfAnother { party, holder: holder.clone() });
        }
        match known {
            Some(known) if known.hash == hash => Ok(false),
            Some(Known { info: before, .. })
                if before.party != info.party && before.path.leaf().not_before() < since =>
            {
                Ok(true)
            }
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
        let before = trust.generation();
        trust.install_root(&material.root_list, now)?;
        let managers = take_managers(material.managers, trust, now, &mut changes)?;
        let number = trust.generation();
        changes.revocations = before != number;

        let mut next = Self { nodes: BTreeMap::new(), ..self.clone() };
        if let Some(index) = &material.index {
            (next.number, next.made) = (index.unverified().number, index.unverified().made);
        }
        changes.parameters =
            next.take_parameters(&material.parameters, material.announced.as_deref(), trust, now)?;
        trust.set_grace(next.parameters.revocation_grace_ms);
        next.sources = Arc::new(Sources {
            root_list: material.root_list,
            managers,
            parameters: material.parameters,
            announced: material.announced,
        });

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

    /// Takes the parameters, or those that were announced once their time has come: from then on the others are of the
    /// past, wherever they are still shown, and whatever the clock says.
    fn take_parameters(
        &mut self,
        bytes: &[u8],
        announced: Option<&[u8]>,
        trust: &Trust,
        now: Timestamp,
    ) -> Result<bool, MapError> {
        let verified = |bytes: &[u8]| {
            let signed = SignedParameters::decode(bytes)?;
            signed.verify(trust, now).cloned()
        };
        let current = verified(bytes)?;
        let announced = match announced {
            Some(bytes) => Some((verified(bytes)?, bytes)).filter(|(next, _)| next.epoch > current.epoch),
            None => None,
        };
        let have = self.parameters.epoch;
        let (parameters, bytes, announced) = match announced {
            Some((next, bytes)) if next.in_force_from <= now || next.epoch <= have => (next, bytes, None),
            Some((next, _)) => (current, bytes, Some(next)),
            None => (current, bytes, None),
        };
        if parameters.epoch < have {
            return Err(ParametersError::Older { got: parameters.epoch, have }.into());
        }
        // The same parameters may be signed anew.
        if parameters.epoch == have && parameters != *self.parameters {
            return Err(ParametersError::Ambiguous { epoch: have }.into());
        }
        let hash = tally_crypto::hash(bytes);
        let changed = hash != self.parameters_hash;
        self.parameters = Arc::new(parameters);
        self.parameters_hash = hash;
        self.announced = announced.map(Arc::new);
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
                (Known { info, hash, generation: number }, Some(signed))
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

/// Puts the revocation lists of identity managers into force. A manager that the root revoked is
/// left out; everything else that is wrong with one is an error.
fn take_managers(
    managers: Vec<ManagerFiles>,
    trust: &Trust,
    now: Timestamp,
    changes: &mut Changes,
) -> Result<Vec<(Name, ManagerFiles)>, MapError> {
    if managers.is_empty() {
        return Err(MapError::NoManager);
    }
    let mut taken = Vec::with_capacity(managers.len());
    for files in managers {
        let certificate = Certificate::parse(&pem::decode_certificate(&files.certificate)?)?;
        match trust.install(&files.list, &certificate, now) {
            Err(error @ RevocationError::Manager(CertificateError::Revoked { .. })) => {
                let origin = certificate.subject().to_string();
                changes.refused.push(Refused { origin, error: error.into() });
            }
            list_in_force => {
                list_in_force?;
                taken.push((certificate.subject().clone(), files));
            }
        }
    }
    Ok(taken)
}

impl Known {
    /// Whether what was verified before still holds.
    fn again(&self, next: &Snapshot, trust: &Trust, number: u64, now: Timestamp) -> Result<Self, InfoError> {
        let minimum = next.parameters.minimum_platform_version;
        if self.info.platform_version < minimum {
            let party = self.info.party.name.clone();
            return Err(InfoError::PlatformVersion { party, got: self.info.platform_version, minimum });
        }
        if self.generation == number {
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
        Ok(Self { generation: number, ..self.clone() })
    }
}
