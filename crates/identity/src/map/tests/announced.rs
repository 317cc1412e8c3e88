//! Parameters that are announced, and come into force at their time.

use super::{Small, cache};
use crate::map::MapError;
use crate::parameters::{NetworkParameters, ParametersError, SignedParameters};
use crate::testing::{DAY, NOW, at};
use crate::{NetworkMap, Notary};
use std::sync::atomic::Ordering;

fn announced(small: &Small, epoch: u32, in_ms: u64) -> SignedParameters {
    let sense = small.world.parameters(epoch, &small.notary).unverified().clone();
    let next = NetworkParameters { in_force_from: at(in_ms), max_transaction_bytes: 500_000, ..sense };
    SignedParameters::sign(&small.world.map_key, next).expect("parameters")
}

#[test]
fn announced_parameters_come_into_force_at_their_time() {
    let small = Small::new();
    let (map, _) = NetworkMap::from_folder(small.folder.path(), &small.world.trust(), NOW).expect("a map");
    small.folder.put_announced(&announced(&small, 2, 1000)).expect("written");
    map.refresh(NOW).expect("read");
    assert_eq!((map.parameters().epoch, map.announced().map(|next| next.epoch)), (1, Some(2)));
    assert!(map.refresh(at(1000)).expect("read").parameters);
    assert_eq!((map.parameters().epoch, map.announced()), (2, None));
    assert_eq!(map.parameters().max_transaction_bytes, 500_000);
    // A clock that goes back does not undo it; nor does a folder without them.
    map.refresh(NOW).expect("read");
    assert_eq!(map.parameters().epoch, 2);
    small.folder.promote_announced().expect("written");
    map.refresh(at(1000)).expect("read");
    assert_eq!(map.parameters().epoch, 2);
    small.folder.put_parameters(&small.world.parameters(1, &small.notary)).expect("written");
    assert!(matches!(
        map.refresh(at(2000)),
        Err(MapError::Parameters(ParametersError::Older { got: 1, have: 2 }))
    ));
}

#[test]
fn a_service_announces_parameters_and_a_cache_knows_them_without_it() {
    let small = Small::new();
    small.folder.put_announced(&announced(&small, 2, DAY)).expect("written");
    let served = small.serve();
    let trust = small.world.trust();
    let (map, _) = NetworkMap::from_service(&served.url, &cache(&small), &trust, NOW).expect("a map");
    assert_eq!((map.parameters().epoch, map.announced().map(|next| next.epoch)), (1, Some(2)));
    drop((map, served));
    // The service is away when their time comes.
    let (map, _) =
        NetworkMap::from_service("http://127.0.0.1:9", &cache(&small), &trust, at(DAY)).expect("the cache");
    assert_eq!(map.parameters().epoch, 2);
}

#[test]
fn what_was_announced_and_is_withdrawn_comes_into_force_nowhere() {
    let small = Small::new();
    let served = small.serve();
    let trust = small.world.trust();
    small.folder.put_announced(&announced(&small, 2, 120_000)).expect("written");
    let (map, _) = NetworkMap::from_service(&served.url, &cache(&small), &trust, NOW).expect("a map");
    map.refresh(NOW).expect("read");
    // Another change of the same epoch takes its place before its time.
    small.folder.put_announced(&announced(&small, 3, 240_000)).expect("written");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    served.clock.store(at(180_000).as_millis(), Ordering::Relaxed);
    map.refresh(at(180_000)).expect("read");
    assert_eq!((map.parameters().epoch, map.announced().map(|next| next.epoch)), (1, Some(3)));
}

#[test]
fn parameters_that_only_name_more_notaries_extend_what_was_before() {
    let mut small = Small::new();
    let before = small.world.parameters(1, &small.notary).unverified().clone();
    let other = small.world.notary("Other");
    let party = other.notary_party().expect("a notary").clone();
    let mut more = NetworkParameters { epoch: 2, in_force_from: at(DAY), ..before.clone() };
    more.put_notary(Notary { party: party.clone(), kind: crate::NotaryKind::alone(true) });
    assert!(more.extends(&before) && !before.extends(&more));
    let smaller = NetworkParameters { max_transaction_bytes: 1, ..more.clone() };
    let mut fewer = more.clone();
    fewer.remove_notary(&before.notaries[0].party.name);
    let mut other_kind = more.clone();
    other_kind
        .put_notary(Notary { party: before.notaries[0].party.clone(), kind: crate::NotaryKind::alone(true) });
    for not in [smaller, fewer, other_kind] {
        assert!(!not.extends(&before), "{not:?}");
    }
}
