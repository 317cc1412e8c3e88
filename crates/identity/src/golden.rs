//! Files of a network made on 15 January 2027, kept so that a later version of this crate still reads
//! what this one wrote.

use crate::testing::{NOW, World, info, name};
use crate::{CertificateError, InfoError, NetworkMap, Reason, SignedNodeInfo, Trust};
use std::path::{Path, PathBuf};

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/golden")
}

#[test]
fn files_of_this_version_are_read() {
    let trust = Trust::new(&std::fs::read(files().join("root.der")).expect("read")).expect("a root");
    let (map, changes) = NetworkMap::from_folder(&files(), &trust, NOW).expect("a map");
    assert!(changes.refused.is_empty(), "{:?}", changes.refused);
    let party = map.info(&name("PartyA")).expect("an info");
    assert_eq!((party.serial, party.platform_version), (7, 3));
    assert_eq!(party.addresses[0].to_string(), "127.0.0.1:10002");
    let notary = map.info(&name("Notary")).and_then(|info| info.notary_party()).expect("a notary");
    assert_eq!(map.notaries()[0].party, notary);
    assert_eq!((map.parameters().epoch, map.parameters().max_message_bytes), (9, 2_000_000));
    let revoked = std::fs::read(files().join("mallory")).expect("read");
    let revoked = SignedNodeInfo::decode(&revoked).expect("an info");
    assert!(matches!(
        revoked.verify(&trust, NOW),
        Err(InfoError::Certificate(CertificateError::Revoked { .. }))
    ));
}

#[test]
#[ignore = "makes the files anew, which only a new version of a form asks for"]
fn make() {
    let mut world = World::new();
    let notary = world.notary("Notary");
    let [party, mallory] = ["PartyA", "Mallory"].map(|name| world.node(name));
    let folder = crate::NetworkFolder::new(&files());
    folder.create().expect("a folder");
    world.manager.revoke(&name("Mallory"), Reason::KeyCompromise, NOW).expect("revoked");
    let list = world.manager.revocation_list(NOW, crate::testing::DAY).expect("a list");
    folder.put_revocations(&list, world.manager.path()).expect("written");
    let list = world.root.revocation_list(NOW, crate::testing::DAY).expect("a list");
    folder.put_root_revocations(&list).expect("written");
    folder.put_parameters(&world.parameters(9, &notary)).expect("written");
    folder.put_info(&info(&party, 7)).expect("written");
    folder.put_info(&info(&notary, 1)).expect("written");
    std::fs::write(files().join("mallory"), info(&mallory, 1).encode()).expect("written");
    std::fs::write(files().join("root.der"), world.root.certificate().der()).expect("written");
}
