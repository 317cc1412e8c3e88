//! Whom the network certified, now or ever.

use crate::certificate::CertificatePath;
use crate::pem;
use std::collections::{BTreeMap, HashMap, HashSet};
use tally_contracts::{Name, Party, PublicKey, Timestamp};
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
    keys: HashMap<Name, Vec<Certified>>,
    /// The names that each key was certified for. A key is one name's; where there are more, somebody claims what another
    /// has.
    holders: HashMap<PublicKey, Vec<Name>>,
    /// Other paths of the same identities that were seen among the former ones.
    others: HashSet<Hash>,
}

/// A key of a name.
#[derive(Debug, Clone)]
struct Certified {
    key: PublicKey,
    /// From when on its certificate is valid. [`NodeKeys::rotate`](crate::NodeKeys::rotate) makes this later for each
    /// next key, so that keys of a name have an order that only the name's own authority can make.
    since: Timestamp,
}

impl Identities {
    pub(super) fn contains(&self, party: &Party) -> bool {
        self.known(&party.name).iter().any(|known| known.key == party.key)
    }

    fn known(&self, name: &Name) -> &[Certified] {
        self.keys.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether the name was certified with another key than this one, later than `since`.
    pub(super) fn is_former(&self, party: &Party, since: Timestamp) -> bool {
        self.known(&party.name).iter().any(|known| known.key != party.key && known.since > since)
    }

    /// Another name that this key was certified for.
    pub(super) fn other_holder(&self, party: &Party) -> Option<&Name> {
        self.holders.get(&party.key)?.iter().find(|name| **name != party.name)
    }

    /// Every key that the name was certified with, in the order in which they were seen.
    pub(super) fn keys_of(&self, name: &Name) -> impl Iterator<Item = &PublicKey> {
        self.known(name).iter().map(|known| &known.key)
    }

    /// Whether `party` is new and its name has had its share of keys.
    pub(super) fn exceeds(&self, party: &Party) -> bool {
        self.known(&party.name).len() >= MAX_KEYS_OF_A_NAME && !self.contains(party)
    }

    /// Takes a legal identity whose path was verified; whether it is new. A renewed certificate is
    /// not: who publishes one every minute costs nobody memory.
    pub(super) fn insert(&mut self, party: Party, path: CertificatePath) -> bool {
        let new = !self.contains(&party);
        if new {
            let certified = Certified { key: party.key, since: path.leaf().not_before() };
            self.keys.entry(party.name.clone()).or_default().push(certified);
            self.holders.entry(party.key).or_default().push(party.name.clone());
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
