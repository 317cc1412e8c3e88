use super::*;
use crate::{Identity, NetworkMap, Trust};
use std::os::unix::fs::MetadataExt;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_123);

fn spec(organisation: &str, notary: Option<bool>, port: u16) -> NodeSpec {
    NodeSpec {
        name: format!("O={organisation}, L=London, C=GB").parse().expect("a name"),
        notary,
        address: format!("127.0.0.1:{port}").parse().expect("an address"),
    }
}

#[test]
fn makes_a_network_whose_nodes_know_each_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let specs = [spec("PartyA", None, 1001), spec("PartyB", None, 1002), spec("Notary", Some(true), 1003)];
    let network = bootstrap(directory.path(), &specs, NOW).expect("a network");
    assert_eq!(network.nodes.len(), 3);
    assert_eq!(network.nodes[0].directory, directory.path().join("nodes/PartyA"));
    for node in &network.nodes {
        let passphrase = std::fs::read(&node.passphrase).expect("a passphrase");
        assert_eq!(passphrase.len(), 32);
        let identity = Identity::load(&node.identity, &passphrase, NOW).expect("an identity");
        assert_eq!(identity.party(), &node.party);
        let (map, changes) = NetworkMap::from_folder(&network.map, identity.trust(), NOW).expect("a map");
        assert!(changes.refused.is_empty(), "{:?}", changes.refused);
        assert_eq!(map.snapshot().nodes().len(), 3);
        for other in &network.nodes {
            assert_eq!(map.party(&other.party.name).as_ref(), Some(&other.party));
            assert_eq!(map.party_of_key(&other.party.key).as_ref(), Some(&other.party));
            let info = map.info(&other.party.name).expect("an info");
            assert_eq!(info.addresses, std::slice::from_ref(&other.address));
        }
        let notary = &network.nodes[2];
        let service = notary.notary_party.clone().expect("a notary");
        assert_eq!(map.notaries(), [Notary { party: service.clone(), kind: NotaryKind::Validating }]);
        assert_eq!(map.info(&service.name).expect("an info").notary_party().as_ref(), Some(&service));
        // One key, one role.
        assert_eq!((service.name == notary.party.name, service.key == notary.party.key), (true, false));
        assert!(map.is_notary_key(&service) && !map.is_certified(&service));
        assert!(map.is_certified(&notary.party) && !map.is_notary_key(&notary.party));
        assert_eq!(map.parameters().epoch, 1);
    }
}

#[test]
fn private_files_are_for_their_owner_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    bootstrap(directory.path(), &[spec("PartyA", None, 1001)], NOW).expect("a network");
    let mut found = 0;
    let mut directories = vec![directory.path().to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a text");
            assert!(!name.ends_with(".tmp"), "{name} was left over");
            if entry.file_type().expect("a type").is_dir() {
                directories.push(entry.path());
            } else if name.ends_with(".key") || name == PASSPHRASE || name == "register.json" {
                assert_eq!(entry.metadata().expect("metadata").mode() & 0o777, 0o600, "{name}");
                found += 1;
            }
        }
    }
    assert_eq!(found, 3 + 3 + 2 + 1, "keys, passphrases and the register");
}

#[test]
fn refuses_a_second_network_and_nodes_of_one_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let twice = [spec("Party A", None, 1001), spec("PARTY-A", None, 1002)];
    assert!(matches!(bootstrap(directory.path(), &twice, NOW), Err(BootstrapError::Twice(_))));
    bootstrap(directory.path(), &[], NOW).expect("a network");
    assert!(matches!(bootstrap(directory.path(), &[], NOW), Err(BootstrapError::Exists { .. })));
}

#[test]
fn nodes_of_two_networks_do_not_believe_each_other() {
    let (one, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let one = bootstrap(one.path(), &[spec("PartyA", None, 1001)], NOW).expect("a network");
    let other = bootstrap(other.path(), &[spec("PartyA", None, 1001)], NOW).expect("a network");
    let root = crate::authority::read_certificate(&other.root).expect("a root");
    let trust = Trust::new(root.der()).expect("a root");
    // The roots have the same name, so only the signatures tell.
    let error = NetworkMap::from_folder(&one.map, &trust, NOW).expect_err("another network's map");
    assert!(
        matches!(&error, crate::MapError::Revocations(crate::RevocationError::Signature { .. })),
        "{error:?}"
    );
}

/// Three keys' files for each node, none of them with scrypt's full cost.
#[test]
fn a_network_is_made_and_loaded_quickly() {
    let directory = tempfile::tempdir().expect("a directory");
    let specs: Vec<NodeSpec> = (0..10).map(|number| spec(&format!("Party{number}"), None, 1000)).collect();
    let begun = std::time::Instant::now();
    let network = bootstrap(directory.path(), &specs, NOW).expect("a network");
    let made = begun.elapsed();
    let node = &network.nodes[0];
    let passphrase = std::fs::read(&node.passphrase).expect("a passphrase");
    let begun = std::time::Instant::now();
    let identity = Identity::load(&node.identity, &passphrase, NOW).expect("an identity");
    let loaded = begun.elapsed();
    NetworkMap::from_folder(&network.map, identity.trust(), NOW).expect("a map");
    println!(
        "10 nodes made in {made:?}; one loaded in {loaded:?}, the map in {:?}",
        begun.elapsed() - loaded
    );
    assert!(made.as_secs() < 10, "{made:?}");
}
