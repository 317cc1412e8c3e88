//! Who is in the network: nodes by name, notaries, parameters.
//!
//! A [`NetworkMap`] takes what it knows from a folder, or from a [service] with a folder as
//! its cache, so that a node starts when the service is away. Whatever comes in is verified under the
//! network's root before it counts; what is refused is told in [`Changes`] and leaves the rest alone.
//!
//! | file of the folder | what |
//! | --- | --- |
//! | `root.crl` | the identity managers and network map's keys that the root revoked (DER) |
//! | `managers/*.pem`, `*.crl` | each identity manager's certificate, and what it revoked (DER) |
//! | `parameters` | [`SignedParameters`](crate::SignedParameters) |
//! | `announced` | the parameters that come into force next, where there are any |
//! | `node-infos/*.info` | [`SignedNodeInfo`], one for each node |
//! | `former/*.pem` | certificates of identities that left the map or have another key now |
//! | `index` | in a cache: the signed index that the service gave last |
//!
//! States name identities of the past, so the map forgets none: [`NetworkMap::is_certified`].

mod client;
mod error;
mod folder;
mod identities;
mod index;
mod secured;
pub mod service;
mod snapshot;

use crate::NodeInfo;
use crate::info::SignedNodeInfo;
use crate::parameters::{NetworkParameters, Notary};
use crate::trust::Trust;
use arc_swap::ArcSwap;
use client::Client;
use index::SignedIndex;
use snapshot::{Material, Step};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tally_contracts::{Name, Party, PublicKey, Timestamp};

pub use error::{MapError, Refused};
pub use folder::NetworkFolder;
pub use index::{IndexError, MAX_AGE_MS};
pub use snapshot::{Changes, Snapshot};

/// Who is in the network. Reads take no lock; [`NetworkMap::refresh`] puts a new snapshot in place
/// of the old one at once.
#[derive(Debug)]
pub struct NetworkMap {
    trust: Trust,
    folder: NetworkFolder,
    client: Option<Client>,
    snapshot: ArcSwap<Snapshot>,
    /// One refresh or publication at a time.
    writing: Mutex<()>,
}

impl NetworkMap {
    /// Reads the folder `path`; [`NetworkMap::refresh`] reads it again.
    ///
    /// # Errors
    /// [`MapError`] when parameters or revocation list are missing or refused. Node infos that are
    /// refused are told in [`Changes`].
    pub fn from_folder(path: &Path, trust: &Trust, now: Timestamp) -> Result<(Self, Changes), MapError> {
        let folder = NetworkFolder::new(path);
        let empty = Snapshot::default();
        let step = empty.advance(Material::from_folder(&folder, &empty)?, trust, now)?;
        Ok(Self::new(trust, folder, None, step))
    }

    /// Asks the service at `url` (`http://host:port`) and keeps what it says in the folder `cache`.
    /// When that has everything already, the service is not waited for: call
    /// [`NetworkMap::refresh`] soon, and then from time to time.
    ///
    /// # Errors
    /// [`MapError`] when there is no usable cache and the service does not answer, or what it says is
    /// refused.
    pub fn from_service(
        url: &str,
        cache: &Path,
        trust: &Trust,
        now: Timestamp,
    ) -> Result<(Self, Changes), MapError> {
        Self::from_client(Client::new(url, None)?, cache, trust, now)
    }

    /// As [`NetworkMap::from_service`], over TLS: `url` is `https://host:port`, and `authorities` a PEM file of who
    /// certifies the service.
    ///
    /// # Errors
    /// As [`NetworkMap::from_service`]; [`MapError::Tls`] when the file is of no use.
    pub fn from_service_over_tls(
        url: &str,
        authorities: &Path,
        cache: &Path,
        trust: &Trust,
        now: Timestamp,
    ) -> Result<(Self, Changes), MapError> {
        Self::from_client(Client::new(url, Some(authorities))?, cache, trust, now)
    }

    fn from_client(
        client: Client,
        cache: &Path,
        trust: &Trust,
        now: Timestamp,
    ) -> Result<(Self, Changes), MapError> {
        let folder = NetworkFolder::new(cache);
        folder.create()?;
        let empty = Snapshot::default();
        let cached =
            Material::from_folder(&folder, &empty).and_then(|material| empty.advance(material, trust, now));
        let step = match cached {
            Ok(step) => step,
            // A damaged or half-written cache is as good as none.
            Err(_) => fetch(&client, &folder, &empty, trust, now)?,
        };
        Ok(Self::new(trust, folder, Some(client), step))
    }

    fn new(trust: &Trust, folder: NetworkFolder, client: Option<Client>, step: Step) -> (Self, Changes) {
        let Step { snapshot, changes, .. } = step;
        let map = Self {
            trust: trust.clone(),
            folder,
            client,
            snapshot: ArcSwap::from_pointee(snapshot),
            writing: Mutex::new(()),
        };
        (map, changes)
    }

    /// Looks for what is new: rescans the folder, or asks the service. Blocks on files and network:
    /// call it from a thread that may.
    ///
    /// # Errors
    /// [`MapError`]; what was known stays in force.
    pub fn refresh(&self, now: Timestamp) -> Result<Changes, MapError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh_locked(now)
    }

    fn refresh_locked(&self, now: Timestamp) -> Result<Changes, MapError> {
        let current = self.snapshot.load_full();
        let Step { snapshot, changes, .. } = match &self.client {
            None => current.advance(Material::from_folder(&self.folder, &current)?, &self.trust, now)?,
            Some(client) => fetch(client, &self.folder, &current, &self.trust, now)?,
        };
        self.snapshot.store(Arc::new(snapshot));
        Ok(changes)
    }

    /// Makes a node's info known: writes it into the folder, or sends it to the service. Publishing
    /// what is known already changes nothing.
    ///
    /// # Errors
    /// [`MapError`]; among others when the info is refused or an as new or newer one is known.
    pub fn publish(&self, info: &SignedNodeInfo, now: Timestamp) -> Result<(), MapError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &self.client {
            return client.publish(&info.encode());
        }
        let node = info.verify(&self.trust, now)?;
        if self.snapshot.load().admits(node, info.hash())? {
            self.folder.put_info(info)?;
            self.refresh_locked(now)?;
        }
        Ok(())
    }

    /// What is known at this moment; later changes do not show in it.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The node of that name.
    pub fn info(&self, name: &Name) -> Option<Arc<NodeInfo>> {
        self.snapshot.load().info(name).cloned()
    }

    /// Name and key of the node of that name.
    pub fn party(&self, name: &Name) -> Option<Party> {
        self.snapshot.load().info(name).map(|info| info.party.clone())
    }

    /// The node whose legal identity has that key.
    pub fn party_of_key(&self, key: &PublicKey) -> Option<Party> {
        self.snapshot.load().party_of_key(key).cloned()
    }

    /// Whether name and key are those of a legal identity that this network certified, now or ever:
    /// of a node on the map, of one that left it, or a former key of one. Certificates that expired
    /// or were revoked since count, because states of the past name them.
    ///
    /// It is what this map has seen; an identity that was certified and never published is not
    /// known. Once true, it stays true.
    pub fn is_certified(&self, party: &Party) -> bool {
        self.snapshot.load().is_certified(party)
    }

    /// Every key that the network certified this name with as a legal identity, as far as this map has seen: the
    /// present one first where the node is on the map, and at most 64.
    pub fn keys_of(&self, name: &Name) -> Vec<PublicKey> {
        self.snapshot.load().keys_of(name)
    }

    /// Whether name and key are those of the service of a notary that the network trusts, or
    /// trusted in the past; [`NetworkMap::notaries`] are those of now alone. A key that is a legal
    /// identity's is none, whatever the parameters say: one key has one role.
    pub fn is_notary_key(&self, party: &Party) -> bool {
        self.snapshot.load().is_notary_key(party)
    }

    /// The notaries that the network trusts, by name.
    pub fn notaries(&self) -> Vec<Notary> {
        self.snapshot.load().parameters().notaries.clone()
    }

    /// What all nodes agree on.
    pub fn parameters(&self) -> Arc<NetworkParameters> {
        Arc::clone(self.snapshot.load().parameters())
    }

    /// What all nodes will agree on from its [`NetworkParameters::in_force_from`] on, if that was announced.
    pub fn announced(&self) -> Option<Arc<NetworkParameters>> {
        self.snapshot.load().announced().cloned()
    }

    /// Whom this map trusts.
    pub const fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The folder, or the cache.
    pub fn folder(&self) -> &NetworkFolder {
        &self.folder
    }
}

/// Asks the service, checks its answers, keeps them in the cache.
fn fetch(
    client: &Client,
    cache: &NetworkFolder,
    current: &Snapshot,
    trust: &Trust,
    now: Timestamp,
) -> Result<Step, MapError> {
    let material = Material::from_service(client, current, trust, now)?;
    let index = material.index.as_ref().map(SignedIndex::encode).unwrap_or_default();
    let step = current.advance(material, trust, now)?;
    for path in &step.former {
        cache.put_former(path)?;
    }
    for info in &step.accepted {
        cache.put_info(info)?;
    }
    for name in &step.changes.removed {
        cache.remove_info(name)?;
    }
    cache.keep_all(step.snapshot.sources(), &index)?;
    Ok(step)
}

#[cfg(test)]
mod tests;
