//! Who was ever certified.

use super::{Small, cache};
use crate::NetworkMap;
use crate::info::InfoError;
use crate::map::MapError;
use crate::map::identities::MAX_KEYS_OF_A_NAME;
use crate::node::Identity;
use crate::testing::{COST, DAY, LIFETIME, NOW, PASSPHRASE, World, at, info, name};
use tally_contracts::Party;

/// The node of that organisation with another key of its legal identity.
fn other_key(small: &Small, organisation: &str) -> Identity {
    let home = small.world.home(organisation);
    let authority = std::fs::read(home.join("node-authority.pem")).expect("read");
    std::fs::remove_file(home.join("identity.key")).expect("removed");
    let key = tally_crypto::SigningKey::generate().expect("a key");
    tally_crypto::keystore::KeyFile::write(&home.join("identity.key"), &key, PASSPHRASE, COST)
        .expect("written");
    let path = crate::pem::decode_path(&authority).expect("a path");
    let root = small.world.root.certificate().der();
    crate::NodeKeys::accept(&home, PASSPHRASE, root, &path, NOW).expect("accepted");
    Identity::load(&home, PASSPHRASE, NOW).expect("an identity")
}

/// PartyA after `tally node rotate`.
fn rotated(small: &Small) -> Identity {
    let home = small.world.home("PartyA");
    crate::NodeKeys::rotate(&home, PASSPHRASE, COST, NOW, NOW).expect("a new key");
    Identity::load(&home, PASSPHRASE, NOW).expect("an identity")
}

/// PartyB, whose own authority has certified the key of another, and who has that key.
fn with_the_key_of(small: &mut Small, organisation: &str) -> Identity {
    small.world.node("PartyB");
    let (from, home) = (small.world.home(organisation), small.world.home("PartyB"));
    std::fs::copy(from.join("identity.key"), home.join("identity.key")).expect("stolen");
    let authority = std::fs::read(home.join("node-authority.pem")).expect("read");
    let path = crate::pem::decode_path(&authority).expect("a path");
    let root = small.world.root.certificate().der();
    crate::NodeKeys::accept(&home, PASSPHRASE, root, &path, NOW).expect("accepted");
    Identity::load(&home, PASSPHRASE, NOW).expect("an identity")
}

#[test]
fn whoever_has_a_former_key_does_not_take_its_nodes_place_on_the_map() {
    let small = Small::new();
    let map = small.map();
    let thief = small.party.clone();
    // Before the rotation the thief may still have used up the highest number.
    map.publish(&info(&thief, u64::MAX), NOW).expect("published");
    let now = rotated(&small);
    map.publish(&info(&now, 2), NOW).expect("a new key begins new numbers");
    assert_eq!(map.party(now.name()).as_ref(), Some(now.party()));
    // The former certificate is public and valid, and the thief signs with its key.
    let refused = map.publish(&info(&thief, u64::MAX), NOW).expect_err("a former key");
    assert!(matches!(refused, MapError::Info(InfoError::FormerKey { .. })), "{refused:?}");
    // Nor where it is asked for over the network, and by nodes that begin later.
    let served = small.serve();
    let open = || NetworkMap::from_service(&served.url, &cache(&small), &small.world.trust(), NOW);
    let (client, _) = open().expect("a map");
    let refused = client.publish(&info(&thief, u64::MAX), NOW).expect_err("a former key");
    assert!(refused.to_string().contains("does not come back"), "{refused}");
    client.refresh(NOW).expect("a refresh");
    assert_eq!(client.party(now.name()).as_ref(), Some(now.party()));
    // Not even if the map's own folder has it.
    small.folder.put_info(&info(&thief, u64::MAX)).expect("written");
    assert_eq!(small.map_with_refusals().party(now.name()), None);
    map.refresh(NOW).expect("a refresh");
    assert_eq!(map.party(now.name()).as_ref(), Some(now.party()), "what is known stays");
    // The node itself goes on, with later infos and with its next key.
    map.publish(&info(&now, 3), NOW).expect("a later info");
    map.publish(&info(&rotated(&small), 1), NOW).expect("the next key");
}

#[test]
fn a_key_is_of_one_name() {
    let mut small = Small::new();
    let map = small.map();
    let present = small.party.party().clone();
    let liar = with_the_key_of(&mut small, "PartyA");
    assert_eq!(liar.party().key, present.key);
    let refused = map.publish(&info(&liar, 1), NOW).expect_err("a key of another");
    assert!(
        matches!(&refused, MapError::Info(InfoError::KeyOfAnother { holder, .. }) if *holder == present.name)
    );
    // A map that names it among the former ones shows nobody what PartyA takes part in.
    small.folder.put_former(liar.path()).expect("written");
    map.refresh(NOW).expect("a refresh");
    assert!(map.keys_of(liar.name()).is_empty());
    assert_eq!(map.keys_of(&present.name), [present.key]);
    map.publish(&info(&rotated(&small), 2), NOW).expect("published");
    assert!(map.keys_of(liar.name()).is_empty());
}

#[test]
fn only_what_the_network_certified_is_certified() {
    let small = Small::new();
    let map = small.map();
    let (party, notary) = (small.party.party(), small.notary.party());
    assert!(map.is_certified(party) && map.is_certified(notary));
    // The name of one with the key of another, and a key that nobody has.
    assert!(!map.is_certified(&Party { name: party.name.clone(), key: notary.key }));
    let key = tally_crypto::SigningKey::generate().expect("a key").public_key().into();
    assert!(!map.is_certified(&Party { name: party.name.clone(), key }));
    assert!(!map.is_certified(&Party { name: name("PartyB"), key: party.key }));
}

#[test]
fn a_former_key_stays_certified() {
    let small = Small::new();
    let map = small.map();
    let before = small.party.party().clone();
    let now = other_key(&small, "PartyA");
    assert_ne!(before.key, now.party().key);
    map.publish(&info(&now, 2), NOW).expect("published");
    assert_eq!(map.party(&before.name).as_ref(), Some(now.party()));
    assert!(map.is_certified(&before) && map.is_certified(now.party()));
    // Also for a node that starts after the change, and long after the certificates expired.
    assert!(small.map().is_certified(&before));
    let late = NetworkMap::from_folder(small.folder.path(), &small.world.trust(), at(LIFETIME + DAY));
    let (late, _) = late.expect("a map");
    assert_eq!(late.snapshot().nodes().len(), 0);
    assert!(late.is_certified(&before) && late.is_certified(now.party()));
}

#[test]
fn whoever_left_or_was_revoked_stays_certified() {
    let mut small = Small::new();
    let map = small.map();
    let party = small.party.party().clone();
    small.revoke("PartyA");
    map.refresh(NOW).expect("a refresh");
    assert_eq!(map.party(&party.name), None);
    assert!(map.is_certified(&party) && small.map_with_refusals().is_certified(&party));
    small.folder.remove_info(&party.name).expect("removed");
    map.refresh(NOW).expect("a refresh");
    assert!(map.is_certified(&party) && small.map().is_certified(&party));
}

#[test]
fn a_service_tells_of_former_identities_and_the_cache_keeps_them() {
    let small = Small::new();
    let before = small.party.party().clone();
    let map = small.map();
    map.publish(&info(&other_key(&small, "PartyA"), 2), NOW).expect("published");
    small.folder.remove_info(&name("Notary")).expect("removed");
    let served = small.serve();
    let open = || NetworkMap::from_service(&served.url, &cache(&small), &small.world.trust(), NOW);
    let (map, changes) = open().expect("a map");
    assert!(changes.refused.is_empty(), "{changes:?}");
    for party in [&before, small.notary.party()] {
        assert!(map.is_certified(party));
    }
    // The map forgets; the node does not, and not over a restart either.
    std::fs::remove_dir_all(small.folder.path().join("former")).expect("removed");
    drop(map);
    let (map, _) = open().expect("a map");
    map.refresh(NOW).expect("a refresh");
    for party in [&before, small.notary.party()] {
        assert!(map.is_certified(party));
    }
}

#[test]
fn a_node_that_changes_its_key_before_the_next_refresh_is_remembered_by_the_cache() {
    let small = Small::new();
    let served = small.serve();
    let open = || NetworkMap::from_service(&served.url, &cache(&small), &small.world.trust(), NOW);
    let (map, _) = open().expect("a map");
    let before = small.party.party().clone();
    map.publish(&info(&other_key(&small, "PartyA"), 2), NOW).expect("published");
    map.refresh(NOW).expect("a refresh");
    drop(served);
    let url = "http://127.0.0.1:1";
    let (map, _) =
        NetworkMap::from_service(url, &cache(&small), &small.world.trust(), NOW).expect("the cache");
    assert!(map.is_certified(&before));
}

#[test]
fn certificates_of_another_network_or_role_make_nobody_certified() {
    let small = Small::new();
    let mut other = World::called("Elsewhere");
    let stranger = other.node("PartyA");
    small.folder.put_former(stranger.path()).expect("written");
    small.folder.put_former(small.party.tls_path()).expect("written");
    std::fs::write(small.folder.path().join("former/noise.pem"), b"noise").expect("written");
    let (map, changes) =
        NetworkMap::from_folder(small.folder.path(), &small.world.trust(), NOW).expect("a map");
    assert_eq!(changes.refused.len(), 3, "{changes:?}");
    assert!(changes.refused.iter().all(|refused| matches!(refused.error, MapError::Former(_))));
    assert!(!map.is_certified(stranger.party()));
    assert!(map.is_certified(small.party.party()));
}

#[test]
fn a_name_has_a_share_of_keys() {
    let small = Small::new();
    let map = small.map();
    let mut serial = 2;
    let mut refused = None;
    for _ in 0..MAX_KEYS_OF_A_NAME {
        serial += 1;
        refused = map.publish(&info(&other_key(&small, "PartyA"), serial), NOW).err();
    }
    let refused = refused.expect("the last one is one too many");
    assert!(
        matches!(refused, MapError::Info(InfoError::TooManyKeys { count: MAX_KEYS_OF_A_NAME, .. })),
        "{refused:?}"
    );
    // Others publish all the same, and the known key of this one does.
    map.publish(&info(&other_key(&small, "Notary"), 2), NOW).expect("published");
}
