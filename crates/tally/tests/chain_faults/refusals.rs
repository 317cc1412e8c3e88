//! A node that cannot start says what is wrong and where, and leaves everything as it found it.

use super::load::PAYEE;
use super::support::{Network, Said, account, run, submit, transfer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A node of a network that does not run.
struct Place {
    network: PathBuf,
    node: PathBuf,
}

impl Place {
    fn file(&self, name: &str) -> PathBuf {
        self.node.join(name)
    }

    fn edit(&self, name: &str, from: &str, to: &str) {
        let file = self.file(name);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{from:?} is not in {}", file.display());
        std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let file = self.file(name);
        let mut bytes = std::fs::read(&file).unwrap();
        change(&mut bytes);
        std::fs::write(file, bytes).unwrap();
    }

    fn journal(&self) -> String {
        let mut names =
            std::fs::read_dir(self.file("database")).unwrap().map(|entry| entry.unwrap().file_name());
        let name = names.find(|name| name.to_str().unwrap().ends_with(".journal")).unwrap();
        format!("database/{}", name.to_str().unwrap())
    }
}

/// A socket of a node that was killed is neither copied nor read.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.path().is_file() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every file below, with its contents.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else if path.is_file() {
            all.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    all
}

fn start(node: &Path) -> Said {
    // Should it start in spite of all, it ends at once.
    run(&["chain", "run", "--until-input-ends", node.to_str().unwrap()])
}

type Damage = fn(&Place);

/// What is done to a node, and what it must say then.
const CASES: &[(&str, Damage, &[&str])] = &[
    ("a key cut short", |it| it.change("key", |key| key.truncate(40)), &["key", "64 hex digits"]),
    ("a key with another letter", |it| it.change("key", |key| key[10] = b'x'), &["key", "hex digits"]),
    (
        "a key of zero",
        |it| std::fs::write(it.file("key"), format!("0x{}\n", "0".repeat(64))).unwrap(),
        &["key", "curve"],
    ),
    ("no configuration", |it| std::fs::remove_file(it.file("config.toml")).unwrap(), &["config.toml"]),
    (
        "an option of another type",
        |it| it.edit("config.toml", "p2p-port = ", "p2p-port = \"a\" #"),
        &["config.toml", "line 10", "p2p-port"],
    ),
    (
        "an option that there is not",
        |it| it.edit("config.toml", "rpc-ws-port", "rpc-ws-prot"),
        &["config.toml", "rpc-ws-prot", "did you mean rpc-ws-port?"],
    ),
    (
        "a line that is not TOML",
        |it| it.edit("config.toml", "sync-mode =", "sync-mode"),
        &["config.toml", "line 4"],
    ),
    (
        "no genesis file",
        |it| std::fs::remove_file(it.network.join("genesis.json")).unwrap(),
        &["genesis.json"],
    ),
    (
        "a genesis file cut short",
        |it| it.change("../genesis.json", |text| text.truncate(300)),
        &["genesis.json", "line"],
    ),
    (
        "the genesis file of another chain",
        |it| it.edit("../genesis.json", "0xffffffffffffffffffff", "0xfffffffffffffffffffe"),
        &["genesis.json", "holds a chain with genesis", "use another directory or the right file"],
    ),
    (
        "a damaged list of peers",
        |it| std::fs::write(it.file("static-nodes.json"), "[\"enode://12@127.0.0.1:1\"]").unwrap(),
        &["static-nodes.json"],
    ),
    (
        "damaged permissions",
        |it| it.edit("permissions_config.toml", "enode://", "enode:/"),
        &["permissions_config.toml"],
    ),
    (
        "a database of a later version",
        |it| it.change("database/manifest", |bytes| bytes[8] = 9),
        &["database/manifest", "format version 9", "newer program"],
    ),
    (
        "a damaged table of contents",
        |it| it.change("database/manifest", |bytes| bytes[30] ^= 1),
        &["database/manifest", "damaged", "checksum"],
    ),
    (
        "no table of contents",
        |it| std::fs::remove_file(it.file("database/manifest")).unwrap(),
        &["database/manifest", "missing"],
    ),
    (
        "a damaged journal",
        |it| {
            let journal = it.journal();
            it.change(&journal, |bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            });
        },
        &[".journal", "damaged at byte"],
    ),
    ("no journal", |it| std::fs::remove_file(it.file(&it.journal())).unwrap(), &[".journal", "missing"]),
];

#[test]
fn what_is_damaged_is_named_and_left_alone() {
    let network = Network::new(1, 0, 250);
    let node = network.start(0);
    let client = node.client();
    let sent: Vec<_> = (0..20).map(|nonce| transfer(&account(0), nonce, PAYEE)).collect();
    for (hash, encoded) in &sent {
        submit(&client, *hash, encoded).unwrap();
    }
    client.await_receipt(sent[19].0);
    run(&["chain", "run", network.node(0).to_str().unwrap()]).failed(&["is open in another process"]);
    node.kill();

    let base = tempfile::tempdir().unwrap();
    let whole = base.path().join("whole");
    copy(network.genesis().parent().unwrap(), &whole);
    for (what, damage, named) in CASES {
        let damaged = base.path().join("damaged");
        copy(&whole, &damaged);
        let place = Place { node: damaged.join("node-1"), network: damaged.clone() };
        damage(&place);
        let before = contents(&damaged);
        let said = start(&place.node);
        println!("{what}: {}", said.err);
        said.failed(named);
        assert_eq!(said.out, "", "{what}");
        let after = contents(&damaged);
        for path in before.keys().chain(after.keys()) {
            assert!(before.get(path) == after.get(path), "{what}: {} was changed", path.display());
        }
        std::fs::remove_dir_all(&damaged).unwrap();
    }
    // As it was, it goes on.
    let node = network.start(0);
    node.client().await_height(node.client().height() + 2);
    node.stop();
}
