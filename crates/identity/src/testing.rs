//! A small network for the tests of this crate.

use crate::authority::{Manager, NetworkMapKey, Root};
use crate::info::{Address, SignedNodeInfo};
use crate::map::NetworkFolder;
use crate::moment::{days, to_unix};
use crate::node::{Identity, NodeKeys};
use crate::parameters::{NetworkParameters, Notary, SignedParameters};
use crate::trust::{REVOCATION_GRACE_MS, Trust};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use std::path::PathBuf;
use std::sync::Arc;
use tally_contracts::{Name, Timestamp};
use tally_crypto::keystore::ScryptCost;
use tempfile::TempDir;

pub(crate) const PASSPHRASE: &[u8] = b"correct horse";
pub(crate) const COST: ScryptCost = ScryptCost::TRIVIAL;
/// When everything is made.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
pub(crate) const DAY: u64 = days(1);
/// How long nodes' certificates are valid.
pub(crate) const LIFETIME: u64 = days(30);

pub(crate) fn name(organisation: &str) -> Name {
    format!("O={organisation}, L=London, C=GB").parse().expect("a name")
}

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + millis)
}

/// Every authority of one network, in a directory of its own.
pub(crate) struct World {
    pub(crate) directory: TempDir,
    pub(crate) root: Root,
    pub(crate) manager: Manager,
    pub(crate) map_key: NetworkMapKey,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::called("Network")
    }

    pub(crate) fn called(network: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("authority");
        let called = |what: &str| format!("CN={what}, O={network}, L=London, C=GB").parse().expect("a name");
        let root = Root::create(&path, &called("Root"), PASSPHRASE, COST, NOW, days(1000)).expect("a root");
        let manager = Manager::create(&path, &root, &called("Manager"), PASSPHRASE, COST, NOW, days(500))
            .expect("a manager");
        let map_key = NetworkMapKey::create(&path, &root, &called("Map"), PASSPHRASE, COST, NOW, days(500))
            .expect("a key");
        Self { directory, root, manager, map_key }
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust::new(self.root.certificate().der()).expect("a root")
    }

    /// Where the node of that organisation keeps its keys.
    pub(crate) fn home(&self, organisation: &str) -> PathBuf {
        self.directory.path().join(organisation)
    }

    pub(crate) fn node(&mut self, organisation: &str) -> Identity {
        let home = self.home(organisation);
        let request = NodeKeys::create(&home, &name(organisation), PASSPHRASE, COST).expect("a request");
        let path = self.manager.issue(&request, NOW, LIFETIME).expect("a certificate");
        NodeKeys::accept(&home, PASSPHRASE, self.root.certificate().der(), &path, NOW).expect("an identity");
        Identity::load(&home, PASSPHRASE, NOW).expect("an identity")
    }

    /// As [`World::node`], with the service of a notary.
    pub(crate) fn notary(&mut self, organisation: &str) -> Identity {
        self.node(organisation);
        let home = self.home(organisation);
        NodeKeys::create_notary(&home, PASSPHRASE, COST, NOW).expect("a key");
        Identity::load(&home, PASSPHRASE, NOW).expect("an identity")
    }

    /// A new revocation list, put into force.
    pub(crate) fn install(&mut self, trust: &Trust, now: Timestamp) {
        let list = self.manager.revocation_list(now, DAY).expect("a list");
        trust.install(&list, self.manager.certificate(), now).expect("a newer list");
        let list = self.root.revocation_list(now, DAY).expect("a list");
        trust.install_root(&list, now).expect("a newer list");
    }

    pub(crate) fn parameters(&self, epoch: u32, notary: &Identity) -> SignedParameters {
        let parameters = NetworkParameters {
            epoch,
            minimum_platform_version: 3,
            notaries: vec![Notary {
                party: notary.notary_party().unwrap_or(notary.party()).clone(),
                kind: tally_notary::NotaryKind::NonValidating,
            }],
            former_notaries: Vec::new(),
            max_message_bytes: 2_000_000,
            max_transaction_bytes: 1_000_000,
            revocation_grace_ms: REVOCATION_GRACE_MS,
            modified: NOW,
            in_force_from: NOW,
        };
        SignedParameters::sign(&self.map_key, parameters).expect("parameters")
    }

    /// A folder of the network map with parameters, an empty revocation list and no nodes.
    pub(crate) fn folder(&mut self, notary: &Identity) -> NetworkFolder {
        let folder = NetworkFolder::new(&self.directory.path().join("network"));
        folder.create().expect("a folder");
        let list = self.manager.revocation_list(NOW, DAY).expect("a list");
        folder.put_revocations(&list, self.manager.path()).expect("written");
        let list = self.root.revocation_list(NOW, DAY).expect("a list");
        folder.put_root_revocations(&list).expect("written");
        folder.put_parameters(&self.parameters(1, notary)).expect("written");
        folder
    }
}

pub(crate) fn info(identity: &Identity, serial: u64) -> SignedNodeInfo {
    let addresses: Vec<Address> = vec!["127.0.0.1:10002".parse().expect("an address")];
    SignedNodeInfo::sign(identity, addresses, 3, serial).expect("an info")
}

/// A clock that stands still.
#[derive(Debug)]
pub(crate) struct Stopped(pub(crate) Timestamp);

impl TimeProvider for Stopped {
    fn current_time(&self) -> Option<UnixTime> {
        Some(to_unix(self.0))
    }
}

pub(crate) fn clock(now: Timestamp) -> Arc<dyn TimeProvider> {
    Arc::new(Stopped(now))
}

/// Every error with its causes, as an operator reads it.
pub(crate) fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
