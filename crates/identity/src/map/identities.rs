//! Whom the network certified, now or ever.

use crate::certificate::CertificatePath;
use crate::pem;
use std::collections::{BTreeMap, HashMap, HashSet};
use tally_contracts::{Name, Party, PublicKey};
use tally_crypto::Hash;

/// Most keys that one name may have had. Whoever changes its key every month reaches it in five
/// years; each key costs every node of the network 2 KiB for ever.
pub(super) const MAX_KEYS_OF_A_NAME: usize = 64;

/// Every legal identity that this map ever saw certified: those on the map, and those that left it
/// or have another key now. It only grows, because states name identities of the past.
#[derive(Debug, Clone, Default)]
pub(super) struct Identities {
    /// One for each identity, under the hash of the path's PEM text.
    paths: BTreeMap<Hash, (Party, CertificatePath)>,
    keys: HashMap<Name, Vec<Party>>,
    /// Other paths of the same identities that were seen among the former ones.
    others: HashSet<Hash>,
}

impl Identities {
    pub(super) fn contains(&self, party: &Party) -> bool {
        self.keys.get(&party.name).is_some_and(|known| known.contains(party))
    }

    /// Every key that the name was certified with, in the order in which they were seen.
    pub(super) fn keys_of(&self, name: &Name) -> impl Iterator<Item = &PublicKey> {
        self.keys.get(name).into_iter().flatten().map(|party| &party.key)
    }

    /// Whether `party` is new and its name has had its share of keys.
    pub(super) fn exceeds(&self, party: &Party) -> bool {
        let known = self.keys.get(&party.name);
        known.is_some_and(|known| known.len() >= MAX_KEYS_OF_A_NAME && !known.contains(party))
    }

    /// Takes a legal identity whose path was verified; whether it is new. A renewed certificate is
    /// not: who publishes one every minute costs nobody memory.
    pub(super) fn insert(&mut self, party: Party, path: CertificatePath) -> bool {
        let known = self.keys.entry(party.name.clone()).or_default();
        let new = !known.contains(&party);
        if new {
            known.push(party.clone());
            self.paths.insert(hash(&path), (party, path));
        }
        new
    }

    /// Takes note that the path of that hash says nothing new.
    pub(super) fn pass_over(&mut self, hash: Hash) {
        self.others.insert(hash);
    }

    /// Whether the path of that hash was seen.
    pub(super) fn knows(&self, hash: &Hash) -> bool {
        self.paths.contains_key(hash) || self.others.contains(hash)
    }

    /// Every path, under its hash.
    pub(super) fn paths(&self) -> impl Iterator<Item = (Hash, &Party)> {
        self.paths.iter().map(|(hash, (party, _))| (*hash, party))
    }

    pub(super) fn path(&self, hash: &Hash) -> Option<&CertificatePath> {
        self.paths.get(hash).map(|(_, path)| path)
    }
}

/// The hash of a path's PEM text.
pub(super) fn hash(path: &CertificatePath) -> Hash {
    tally_crypto::hash(pem::encode_path(path).as_bytes())
}
