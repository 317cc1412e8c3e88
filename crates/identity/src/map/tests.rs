mod announced;
mod freshness;
mod identities;
mod tls;

use super::service::{router, serve, serve_over_tls};
use super::*;
use crate::authority::Reason;
use crate::info::InfoError;
use crate::node::Identity;
use crate::parameters::ParametersError;
use crate::testing::{DAY, LIFETIME, NOW, World, at, info, name, reasons};
use crate::{CertificateError, RevocationError, SignedNodeInfo};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// A network of a notary and PartyA, both in the folder.
struct Small {
    world: World,
    folder: NetworkFolder,
    notary: Identity,
    party: Identity,
    trust: Trust,
}

impl Small {
    fn new() -> Self {
        let mut world = World::new();
        let (notary, party) = (world.notary("Notary"), world.node("PartyA"));
        let folder = world.folder(&notary);
        folder.put_info(&info(&notary, 1)).expect("written");
        folder.put_info(&info(&party, 1)).expect("written");
        let trust = world.trust();
        Self { world, folder, notary, party, trust }
    }

    fn map(&self) -> NetworkMap {
        let (map, changes) = NetworkMap::from_folder(self.folder.path(), &self.trust, NOW).expect("a map");
        assert!(changes.refused.is_empty(), "{:?}", changes.refused);
        map
    }

    fn manager_file(&self, kind: &str) -> PathBuf {
        let files = std::fs::read_dir(self.folder.path().join("managers")).expect("a directory");
        let mut paths = files.map(|file| file.expect("a file").path());
        paths.find(|path| path.extension().is_some_and(|found| found == kind)).expect("a file")
    }

    fn serve(&self) -> Served {
        self.serve_map(self.map())
    }

    fn serve_map(&self, map: NetworkMap) -> Served {
        self.serve_with(map, None)
    }

    fn serve_with(&self, map: NetworkMap, tls: Option<Arc<rustls::ServerConfig>>) -> Served {
        let directory = self.world.directory.path().join("authority");
        let key = crate::NetworkMapKey::open(&directory, crate::testing::PASSPHRASE).expect("a key");
        Served::new(map, key, tls)
    }

    fn map_with_refusals(&self) -> NetworkMap {
        NetworkMap::from_folder(self.folder.path(), &self.trust, NOW).expect("a map").0
    }

    fn revoke(&mut self, organisation: &str) {
        self.world.manager.revoke(&name(organisation), Reason::KeyCompromise, NOW).expect("revoked");
        let list = self.world.manager.revocation_list(NOW, DAY).expect("a list");
        self.folder.put_revocations(&list, self.world.manager.path()).expect("written");
    }
}

fn only_refusal(changes: &Changes) -> &MapError {
    let [refused] = changes.refused.as_slice() else { panic!("{changes:?}") };
    &refused.error
}

#[test]
fn answers_who_is_in_the_network() {
    let small = Small::new();
    let map = small.map();
    assert_eq!(map.party(&name("PartyA")).as_ref(), Some(small.party.party()));
    assert_eq!(map.party_of_key(&small.party.party().key).as_ref(), Some(small.party.party()));
    assert_eq!(map.party(&name("PartyB")), None);
    assert_eq!(map.notaries().len(), 1);
    assert_eq!(map.parameters().epoch, 1);
    assert_eq!(map.snapshot().nodes().len(), 2);
    assert_eq!(map.info(&name("PartyA")).expect("an info").serial, 1);
}

#[test]
fn a_rescan_finds_what_changed_and_nothing_else() {
    let mut small = Small::new();
    let map = small.map();
    let before = map.snapshot();
    assert!(!map.refresh(NOW).expect("a refresh").any());
    let newcomer = small.world.node("PartyB");
    small.folder.put_info(&info(&newcomer, 1)).expect("written");
    small.folder.put_info(&info(&small.party, 2)).expect("written");
    small.folder.remove_info(&name("Notary")).expect("removed");
    small.folder.put_parameters(&small.world.parameters(2, &small.notary)).expect("written");
    let changes = map.refresh(NOW).expect("a refresh");
    assert_eq!(changes.added, [name("PartyB")]);
    assert_eq!(changes.updated, [name("PartyA")]);
    assert_eq!(changes.removed, [name("Notary")]);
    assert!(changes.parameters && !changes.revocations);
    assert_eq!(map.parameters().epoch, 2);
    // Whoever holds the old snapshot sees the old network, whole.
    assert_eq!(before.nodes().len(), 2);
    assert_eq!(before.parameters().epoch, 1);
}

#[test]
fn a_revoked_node_disappears() {
    let mut small = Small::new();
    let map = small.map();
    small.revoke("PartyA");
    let changes = map.refresh(NOW).expect("a refresh");
    assert!(changes.revocations);
    assert_eq!(changes.removed, [name("PartyA")]);
    assert!(matches!(
        only_refusal(&changes),
        MapError::Info(InfoError::Certificate(CertificateError::Revoked { .. }))
    ));
    assert_eq!(map.party(&name("PartyA")), None);
    assert!(map.party(&name("Notary")).is_some());
    let error = map.publish(&info(&small.party, 9), NOW).expect_err("revoked");
    assert!(matches!(error, MapError::Info(InfoError::Certificate(CertificateError::Revoked { .. }))));
}

#[test]
fn an_expired_node_disappears() {
    let small = Small::new();
    let map = small.map();
    let changes = map.refresh(at(LIFETIME + DAY)).expect("a refresh");
    assert_eq!(changes.removed, [name("Notary"), name("PartyA")]);
    assert_eq!(changes.refused.len(), 2);
}

#[test]
fn an_older_or_damaged_info_does_not_push_out_a_good_one() {
    let small = Small::new();
    small.folder.put_info(&info(&small.party, 5)).expect("written");
    let map = small.map();
    small.folder.put_info(&info(&small.party, 4)).expect("written");
    let changes = map.refresh(NOW).expect("a refresh");
    assert!(!changes.any(), "{changes:?}");
    let older = |error: &MapError| matches!(error, MapError::Info(InfoError::Older { got: 4, have: 5, .. }));
    assert!(older(only_refusal(&changes)), "{changes:?}");
    assert_eq!(map.info(&name("PartyA")).expect("an info").serial, 5);
    assert!(older(&map.publish(&info(&small.party, 4), NOW).expect_err("older")));
    // Of the same serial, but another: signing is deterministic, so the address must differ.
    let other = SignedNodeInfo::sign(&small.party, vec!["other:1".parse().expect("an address")], 3, 5);
    let error = map.publish(&other.expect("an info"), NOW).expect_err("ambiguous");
    assert!(matches!(error, MapError::Info(InfoError::Older { got: 5, have: 5, .. })));
    // Damaged under another file name: the rest stays.
    std::fs::write(small.folder.path().join("node-infos/noise.info"), b"noise").expect("written");
    small.folder.put_info(&info(&small.party, 5)).expect("written");
    let changes = map.refresh(NOW).expect("a refresh");
    assert!(matches!(only_refusal(&changes), MapError::Info(InfoError::Malformed(_))));
    assert_eq!(changes.refused[0].origin, "noise.info");
    assert!(!changes.any());
    std::fs::write(
        small.folder.path().join("node-infos/noise.info"),
        vec![0; crate::MAX_NODE_INFO_BYTES + 1],
    )
    .expect("written");
    let changes = map.refresh(NOW).expect("a refresh");
    assert!(matches!(only_refusal(&changes), MapError::File(crate::FileError::TooLarge { .. })));
}

#[test]
fn a_node_below_the_minimum_version_is_left_out() {
    let small = Small::new();
    let old =
        SignedNodeInfo::sign(&small.party, vec!["a:1".parse().expect("an address")], 2, 2).expect("an info");
    let map = small.map();
    let error = map.publish(&old, NOW).expect_err("too old");
    assert!(matches!(error, MapError::Info(InfoError::PlatformVersion { got: 2, minimum: 3, .. })));
}

#[test]
fn parameters_do_not_go_back() {
    let small = Small::new();
    small.folder.put_parameters(&small.world.parameters(3, &small.notary)).expect("written");
    let map = small.map();
    small.folder.put_parameters(&small.world.parameters(2, &small.notary)).expect("written");
    let error = map.refresh(NOW).expect_err("older parameters");
    assert!(matches!(error, MapError::Parameters(ParametersError::Older { got: 2, have: 3 })), "{error:?}");
    small.folder.put_parameters(&small.world.parameters(3, &small.party)).expect("written");
    let error = map.refresh(NOW).expect_err("other parameters");
    assert!(matches!(error, MapError::Parameters(ParametersError::Ambiguous { epoch: 3 })), "{error:?}");
    assert_eq!(map.parameters().epoch, 3);
    assert_eq!(map.notaries()[0].party.name, name("Notary"));
}

#[test]
fn a_folder_without_its_parts_is_refused() {
    for file in ["parameters", "root.crl", "pem"] {
        let small = Small::new();
        let path = if file == "pem" { small.manager_file("pem") } else { small.folder.path().join(file) };
        std::fs::remove_file(path).expect("removed");
        let error = NetworkMap::from_folder(small.folder.path(), &small.trust, NOW).expect_err("incomplete");
        assert!(matches!(&error, MapError::File(error) if error.is_missing()), "{error:?}");
        assert!(reasons(&error).contains(file), "{}", reasons(&error));
    }
    let small = Small::new();
    std::fs::remove_file(small.manager_file("crl")).expect("removed");
    let error = NetworkMap::from_folder(small.folder.path(), &small.trust, NOW).expect_err("incomplete");
    assert!(matches!(error, MapError::NoManager));
}

#[test]
fn damaged_files_are_errors_and_what_was_known_stays() {
    let small = Small::new();
    let map = small.map();
    let [certificate, list] = ["pem", "crl"].map(|kind| small.manager_file(kind));
    for path in
        [small.folder.path().join("parameters"), small.folder.path().join("root.crl"), certificate, list]
    {
        let file = path.display().to_string();
        let own = std::fs::read(&path).expect("read");
        let mut refused = 0;
        for position in (0..own.len()).step_by(2) {
            let mut changed = own.clone();
            changed[position] ^= 1 << (position % 8);
            std::fs::write(&path, changed).expect("written");
            // Text around the Base64 of a PEM file is not part of the certificate.
            refused += usize::from(map.refresh(NOW).is_err());
        }
        assert!(refused * 2 > own.len() * 9 / 10, "{file}: {refused} of {}", own.len() / 2);
        std::fs::write(&path, own).expect("written");
        assert_eq!(map.snapshot().nodes().len(), 2);
    }
    let path = small.folder.info_path(&name("PartyA"));
    let own = std::fs::read(&path).expect("read");
    for position in (0..own.len()).step_by(7) {
        let mut changed = own.clone();
        changed[position] ^= 1 << (position % 8);
        std::fs::write(&path, changed).expect("written");
        let fresh = NetworkMap::from_folder(small.folder.path(), &small.world.trust(), NOW).expect("a map");
        assert_eq!(fresh.1.refused.len(), 1, "byte {position}");
        assert!(fresh.0.party(&name("PartyA")).is_none(), "byte {position}");
    }
}

/// The service over the folder of a network, in a thread of its own.
struct Served {
    url: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    clock: Arc<AtomicU64>,
}

impl Served {
    fn new(map: NetworkMap, key: crate::NetworkMapKey, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (send, receive) = std::sync::mpsc::channel();
        let clock = Arc::new(AtomicU64::new(NOW.as_millis()));
        let told = Arc::clone(&clock);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
                send.send(listener.local_addr().expect("an address")).expect("a receiver");
                let now = Arc::new(move || Timestamp::from_millis(told.load(Ordering::Relaxed)));
                let router = router(Arc::new(map), Arc::new(key), now);
                let stopped = async move { drop(stopped.await) };
                match tls {
                    Some(tls) => serve_over_tls(listener, tls, router, stopped).await,
                    None => serve(listener, router, stopped).await,
                }
                .expect("served");
            });
        });
        let address = receive.recv().expect("an address");
        Self { url: format!("{scheme}://{address}"), stop: Some(stop), thread: Some(thread), clock }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

fn cache(small: &Small) -> PathBuf {
    small.world.directory.path().join("cache")
}

fn refused(error: MapError) -> (u16, String) {
    match error {
        MapError::Refused { status, code, .. } => (status, code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_learns_the_network_from_the_service_and_publishes_there() {
    let mut small = Small::new();
    let served = small.serve();
    let trust = small.world.trust();
    let (map, changes) = NetworkMap::from_service(&served.url, &cache(&small), &trust, NOW).expect("a map");
    assert_eq!(changes.added, [name("Notary"), name("PartyA")]);
    assert_eq!(map.parameters().epoch, 1);

    let newcomer = small.world.node("PartyB");
    let own = info(&newcomer, 1);
    map.publish(&own, NOW).expect("published");
    map.publish(&own, NOW).expect("published again");
    let changes = map.refresh(NOW).expect("a refresh");
    assert_eq!(changes.added, [name("PartyB")]);
    map.publish(&info(&newcomer, 2), NOW).expect("published");
    assert_eq!(map.refresh(NOW).expect("a refresh").updated, [name("PartyB")]);
    assert!(!map.refresh(NOW).expect("a refresh").any());
    assert_eq!(map.party(&name("PartyB")).as_ref(), Some(newcomer.party()));
}

#[test]
fn the_service_says_why_it_refuses() {
    let small = Small::new();
    small.folder.put_info(&info(&small.party, 5)).expect("written");
    let served = small.serve();
    let trust = small.world.trust();
    let (map, _) = NetworkMap::from_service(&served.url, &cache(&small), &trust, NOW).expect("a map");
    let publish = |info: &SignedNodeInfo| refused(map.publish(info, NOW).expect_err("refused"));
    assert_eq!(publish(&info(&small.party, 4)), (422, "older".into()));
    let stranger = World::called("Other").node("PartyC");
    assert_eq!(publish(&info(&stranger, 1)), (422, "certificate-foreign".into()));
    let namesake = World::called("Network").node("PartyA");
    assert_eq!(publish(&info(&namesake, 9)), (422, "certificate-foreign".into()));
    let client = Client::new(&served.url, None).expect("a client");
    let send = |bytes: &[u8]| refused(client.publish(bytes).expect_err("refused"));
    assert_eq!(send(b"noise"), (422, "malformed".into()));
    assert_eq!(send(&vec![0; crate::MAX_NODE_INFO_BYTES + 1]), (413, "too-large".into()));
    let mut altered = info(&small.party, 6).encode();
    let last = altered.len() - 1;
    altered[last] ^= 1;
    assert_eq!(send(&altered), (422, "signature".into()));
    let unknown = client.object(tally_crypto::hash(b"nothing"), 1).expect_err("unknown");
    assert_eq!(refused(unknown), (404, "unknown".into()));
    served.clock.store(at(2 * LIFETIME).as_millis(), Ordering::Relaxed);
    assert_eq!(publish(&info(&small.party, 6)), (422, "certificate-expired".into()));
}

#[test]
fn a_node_starts_when_the_service_is_away() {
    let small = Small::new();
    let served = small.serve();
    let url = served.url.clone();
    drop(NetworkMap::from_service(&url, &cache(&small), &small.world.trust(), NOW).expect("a map"));
    drop(served);
    let (map, _) =
        NetworkMap::from_service(&url, &cache(&small), &small.world.trust(), NOW).expect("the cache");
    assert_eq!(map.snapshot().nodes().len(), 2);
    assert_eq!(map.trust().revocations()[0].number(), 1);
    let error = map.refresh(NOW).expect_err("away");
    assert!(matches!(&error, MapError::Unreachable { .. }), "{error:?}");
    assert_eq!(map.snapshot().nodes().len(), 2);
    let nothing = small.world.directory.path().join("nothing");
    let error = NetworkMap::from_service(&url, &nothing, &small.world.trust(), NOW).expect_err("no cache");
    assert!(matches!(error, MapError::Unreachable { .. }));
}

#[test]
fn a_damaged_cache_is_fetched_again() {
    let small = Small::new();
    let served = small.serve();
    let open = || NetworkMap::from_service(&served.url, &cache(&small), &small.world.trust(), NOW);
    drop(open().expect("a map"));
    std::fs::write(cache(&small).join("parameters"), b"noise").expect("written");
    assert_eq!(open().expect("a map").0.snapshot().nodes().len(), 2);
    let parameters = |folder: &std::path::Path| std::fs::read(folder.join("parameters")).expect("read");
    assert_eq!(parameters(&cache(&small)), parameters(small.folder.path()));
}

#[test]
fn a_service_of_another_network_is_not_believed() {
    let small = Small::new();
    let served = small.serve();
    let trust = World::called("Network").trust();
    let error =
        NetworkMap::from_service(&served.url, &cache(&small), &trust, NOW).expect_err("another network");
    assert!(matches!(&error, MapError::Revocations(RevocationError::Signature { .. })), "{error:?}");
    assert!(!cache(&small).join("parameters").exists(), "kept although refused");
}

#[test]
fn a_nodes_withdrawal_reaches_the_cache() {
    let small = Small::new();
    let served = small.serve();
    let trust = small.world.trust();
    let (map, _) = NetworkMap::from_service(&served.url, &cache(&small), &trust, NOW).expect("a map");
    let held = NetworkFolder::new(&cache(&small)).info_path(&name("PartyA"));
    assert!(held.exists());
    small.folder.remove_info(&name("PartyA")).expect("removed");
    // The service reads its folder again with the next publication.
    map.publish(&info(&small.notary, 2), NOW).expect("published");
    assert_eq!(map.refresh(NOW).expect("a refresh").removed, [name("PartyA")]);
    assert!(!held.exists());
}

#[test]
fn addresses_of_services_are_checked() {
    let small = Small::new();
    for url in ["", "map.example", "https://map.example", "http://", "http://a@b", "http://a/b", "ftp://a"] {
        let error = NetworkMap::from_service(url, &cache(&small), &small.trust, NOW).expect_err("no address");
        assert!(matches!(error, MapError::Url { .. }), "{url}");
    }
}
