//! The node that unit tests share: PartyA, on a SQLite file of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tally_contracts::{Contracts, Name, NetworkId, Party, PublicKey, Scheme, SigningKey, Timestamp};
use tally_flows::Notaries;
use tally_protocols::consent::Policy;
use tally_store::{Sqlite, SqliteOptions};

use crate::desk::{Network, Parts};

/// The time of all tests.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// The id of all tests' networks.
pub(crate) const NETWORK: NetworkId = NetworkId::from_bytes([0x4e; 32]);

fn key(number: u8) -> SigningKey {
    SigningKey::from_secret(Scheme::Ed25519, &[number; 32]).expect("a key")
}

/// A party whose key follows from a number.
pub(crate) fn party(organisation: &str, number: u8) -> Party {
    let name = Name::new(organisation, "London", "GB").expect("a name");
    Party { name, key: key(number).public_key() }
}

/// A network without members.
pub(crate) struct Nobody;

impl Network for Nobody {
    fn id(&self) -> NetworkId {
        NETWORK
    }

    fn party(&self, _: &Name) -> Option<Party> {
        None
    }

    fn parties(&self) -> Vec<Name> {
        Vec::new()
    }

    fn notaries(&self) -> Notaries {
        Notaries::default()
    }

    fn transaction_limit(&self) -> u64 {
        u64::MAX
    }

    fn is_certified(&self, _: &Party) -> bool {
        false
    }

    fn keys_of(&self, name: &Name) -> Vec<PublicKey> {
        self.party(name).map(|party| party.key).into_iter().collect()
    }

    fn name_of(&self, _: &PublicKey) -> Option<Name> {
        None
    }
}

/// PartyA's node in a directory.
pub(crate) fn parts(directory: &Path, network: Arc<dyn Network>) -> Parts {
    let store = Sqlite::open(&SqliteOptions::new(directory.join("node.db"))).expect("a database");
    Parts {
        me: party("PartyA", 1),
        key: key(1),
        former: Vec::new(),
        notary_key: None,
        contracts: Arc::new(Contracts::shipped()),
        store: Arc::new(store),
        network,
        clock: Arc::new(|| NOW),
        rates: Arc::new(|_, _| None),
        entropy: [1; 32],
        queue_bytes: 1 << 20,
        policy: Policy::default(),
        patience: Duration::ZERO,
    }
}
