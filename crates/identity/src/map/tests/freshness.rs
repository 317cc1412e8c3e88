//! Nobody shows a node an old network map.

use super::{Served, Small, cache};
use crate::authority::Reason;
use crate::map::index::{Contents, Index, SignedIndex};
use crate::map::{IndexError, MAX_AGE_MS, MapError, NetworkFolder};
use crate::testing::{DAY, NOW, PASSPHRASE, at, info, name};
use crate::{NetworkMap, NetworkMapKey, RevocationError};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use tally_contracts::Timestamp;
use tally_crypto::Hash;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// The network as it was, in a folder of its own.
fn backup(small: &Small) -> PathBuf {
    let path = small.world.directory.path().join("old");
    copy(small.folder.path(), &path);
    path
}

fn serve_old(small: &Small, old: &Path) -> Served {
    small.serve_map(NetworkMap::from_folder(old, &small.world.trust(), NOW).expect("a map").0)
}

fn open(small: &Small, served: &Served, now: Timestamp) -> Result<NetworkMap, MapError> {
    NetworkMap::from_service(&served.url, &cache(small), &small.world.trust(), now).map(|(map, _)| map)
}

#[test]
fn an_old_map_is_not_believed_also_after_a_restart() {
    let mut small = Small::new();
    let old = backup(&small);
    small.revoke("PartyA");
    small.folder.remove_info(&name("PartyA")).expect("removed");
    let served = small.serve();
    served.clock.store(at(1000).as_millis(), Ordering::Relaxed);
    let map = open(&small, &served, at(1000)).expect("a map");
    assert_eq!(map.snapshot().nodes().len(), 1);
    drop((map, served));
    // The whole service of a second before, honestly signed then.
    let served = serve_old(&small, &old);
    let map = open(&small, &served, at(2000)).expect("the cache");
    assert_eq!(map.snapshot().nodes().len(), 1);
    let error = map.refresh(at(2000)).expect_err("an old map");
    assert!(matches!(error, MapError::Index(IndexError::Older { .. })), "{error:?}");
    assert!(map.party(&name("PartyA")).is_none());
    // With the right time on an old list, by whoever has the map's key: the list does not go back.
    served.clock.store(at(70_000).as_millis(), Ordering::Relaxed);
    let error = map.refresh(at(70_000)).expect_err("an old list");
    assert!(matches!(error, MapError::Revocations(RevocationError::Older { got: 1, have: 2 })), "{error:?}");
    drop(served);
    // The true service again: nothing is lost.
    let served = small.serve();
    served.clock.store(at(80_000).as_millis(), Ordering::Relaxed);
    assert!(!open(&small, &served, at(80_000)).expect("a map").refresh(at(80_000)).expect("fresh").any());
}

#[test]
fn a_new_node_believes_no_map_of_yesterday() {
    let small = Small::new();
    let served = small.serve();
    let error = open(&small, &served, at(MAX_AGE_MS + 61_000)).expect_err("an old map");
    assert!(matches!(error, MapError::Index(IndexError::Stale { .. })), "{error:?}");
    assert!(!cache(&small).join("parameters").exists(), "kept although refused");
    // A map of tomorrow is none either.
    served.clock.store(at(DAY).as_millis(), Ordering::Relaxed);
    let error = open(&small, &served, NOW).expect_err("a map of tomorrow");
    assert!(matches!(error, MapError::Index(IndexError::Stale { .. })), "{error:?}");
    served.clock.store(NOW.as_millis(), Ordering::Relaxed);
}

#[test]
fn a_running_node_learns_from_a_service_that_came_back() {
    let small = Small::new();
    let served = small.serve();
    let map = open(&small, &served, NOW).expect("a map");
    let late = at(MAX_AGE_MS + 120_000);
    // Somebody repeats yesterday's answers.
    assert!(matches!(map.refresh(late), Err(MapError::Index(IndexError::Stale { .. }))));
    served.clock.store(late.as_millis(), Ordering::Relaxed);
    map.refresh(late).expect("fresh");
    assert_eq!(map.snapshot().made(), Some(late));
}

#[test]
fn only_the_maps_key_signs_an_index() {
    let mut small = Small::new();
    let directory = small.world.directory.path().join("authority");
    let key = NetworkMapKey::open(&directory, PASSPHRASE).expect("a key");
    let contents = Contents {
        root_list: Hash::ZERO,
        managers: vec![(Hash::ZERO, Hash::ZERO)],
        parameters: Hash::ZERO,
        announced: None,
        infos: vec![Hash::ZERO],
        former: Vec::new(),
    };
    let index = SignedIndex::sign(&key, Index { number: 3, made: NOW, contents });
    let bytes = index.encode();
    let trust = small.world.trust();
    assert_eq!(
        SignedIndex::decode(&bytes).expect("an index").verify(&trust, 3, NOW).map(|i| i.number),
        Ok(3)
    );
    for position in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[position] ^= 1 << (position % 8);
        let believed = SignedIndex::decode(&changed).and_then(|index| index.verify(&trust, 0, NOW).map(drop));
        assert!(believed.is_err(), "byte {position}");
    }
    // The root takes the key's authority away.
    let revoked = key.path().subject().clone();
    small.world.root.revoke(&revoked, Reason::KeyCompromise, NOW).expect("revoked");
    small.world.install(&trust, NOW);
    assert!(matches!(index.verify(&trust, 0, NOW), Err(IndexError::Certificate(_))));
}

#[test]
fn managers_of_one_network_have_their_lists_beside_each_other() {
    let mut small = Small::new();
    let directory = tempfile::tempdir().expect("a directory");
    let called = "CN=Second, O=Network, L=London, C=GB".parse().expect("a name");
    let mut second = crate::Manager::create(
        directory.path(),
        &small.world.root,
        &called,
        PASSPHRASE,
        crate::testing::COST,
        NOW,
        500 * DAY,
    )
    .expect("a manager");
    let list = second.revocation_list(NOW, DAY).expect("a list");
    small.folder.put_revocations(&list, second.path()).expect("written");
    small.revoke("PartyA");
    let served = small.serve_map(small.map_with_refusals());
    let map = open(&small, &served, NOW).expect("a map");
    assert_eq!(map.trust().revocations().len(), 3);
    assert!(map.party(&name("PartyA")).is_none());
    // The root revokes the second one: the rest goes on.
    let root = &small.world.root;
    root.revoke(&called, Reason::KeyCompromise, NOW).expect("revoked");
    small.folder.put_root_revocations(&root.revocation_list(NOW, DAY).expect("a list")).expect("written");
    // The service reads its folder again with the next publication.
    map.publish(&info(&small.notary, 2), NOW).expect("published");
    map.refresh(NOW).expect("a refresh");
    assert_eq!(map.info(&name("Notary")).expect("an info").serial, 2);
    assert!(NetworkFolder::new(&cache(&small)).path().join("index").exists());
}
