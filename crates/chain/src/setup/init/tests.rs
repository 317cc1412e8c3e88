use super::*;
use crate::setup::{Api, Settings};
use std::os::unix::fs::PermissionsExt;
use tally_evm::genesis::{Consensus, Genesis};
use tally_peers::{Permissions, keystore};

fn plan() -> Plan {
    Plan { followers: 1, accounts: 2, host: [10, 0, 0, 5].into(), ..Plan::new(1_700_000_000) }
}

#[test]
fn a_network_is_complete_and_its_parts_fit() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("net");
    let made = init(plan(), &directory).unwrap();
    assert_eq!(made.nodes.len(), 5);

    let genesis = Genesis::parse(&fs::read_to_string(&made.genesis_file).unwrap()).unwrap();
    assert_eq!((genesis.chain_id, genesis.gas_limit, genesis.timestamp), (1337, 100_000_000, 1_700_000_000));
    let Consensus::Qbft(options) = &genesis.consensus else { panic!("{:?}", genesis.consensus) };
    assert_eq!((options.block_period_seconds, options.request_timeout_seconds), (2, 4));
    let schedule = genesis.schedule().unwrap();
    assert!(schedule.zero_base_fee);
    assert_eq!(schedule.fork(0, genesis.timestamp, false), tally_evm::Fork::Prague);
    let extra = tally_consensus::ExtraData::decode(Protocol::QBFT, &genesis.extra_data).unwrap();
    let mut validators: Vec<_> =
        made.nodes.iter().filter(|node| node.validator).map(|node| node.address).collect();
    validators.sort_unstable();
    assert_eq!(extra.validators, validators);
    assert_eq!(validators.len(), 4);

    for node in &made.nodes {
        let settings = Settings::read(&node.directory.join("config.toml")).unwrap();
        let key = NodeKey::read(&settings.node_private_key_file).unwrap();
        assert_eq!((key.id(), key.address()), (node.enode.id, node.address));
        let mode = fs::metadata(&settings.node_private_key_file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = |name: &str| fs::read_to_string(node.directory.join(name)).unwrap();
        assert_eq!(text("key.pub").trim(), format!("0x{}", key.id()));
        assert_eq!(text("address").trim(), format!("{:#x}", key.address()));
        let others = static_nodes::read(&settings.p2p.static_nodes_file).unwrap();
        assert_eq!(others.len(), 4);
        assert!(others.iter().all(|other| other.id != key.id()));
        let permissions = Permissions::open(settings.permissions.nodes.clone(), None).unwrap();
        assert!(made.nodes.iter().all(|node| permissions.permits_node(&node.enode.id)));
        assert_eq!(settings.p2p.listen.port(), node.enode.port);
        assert_eq!((settings.http.listen.port(), settings.ws.listen.port()), (node.http_port, node.ws_port));
        assert!(settings.http.enabled && settings.ws.enabled && settings.min_gas_price == 0);
        // No web page and no other machine votes, adds peers or traces.
        for server in [&settings.http, &settings.ws] {
            assert!(server.listen.ip().is_loopback() && server.cors_origins.is_empty());
            assert_eq!(server.apis, Api::PUBLIC);
        }
        assert_eq!(settings.host_allowlist, ["localhost", "127.0.0.1"]);
        assert!(settings.socket.enabled && settings.socket.apis.contains(&Api::Qbft));
        assert_eq!(
            fs::canonicalize(&settings.genesis_file).unwrap(),
            fs::canonicalize(&made.genesis_file).unwrap()
        );
    }

    let password = fs::read(&made.password_file).unwrap();
    for account in &made.accounts {
        let key = keystore::read(&account.keystore, &password).unwrap();
        assert_eq!(key.address(), account.address);
        assert_eq!(genesis.alloc[&account.address].balance, U256::from(1) << 80);
    }
    assert_eq!(genesis.alloc.len(), 2);
}

/// Private networks are made for large transactions too: what a transaction may use follows from the fork, and is said.
#[test]
fn a_transaction_may_use_a_whole_block_unless_osaka_was_chosen() {
    for (fork, expected, gas) in [
        (NewestFork::Cancun, tally_evm::Fork::Cancun, 100_000_000),
        (NewestFork::default(), tally_evm::Fork::Prague, 100_000_000),
        (NewestFork::Osaka, tally_evm::Fork::Osaka, 16_777_216),
    ] {
        let init = Init::generate(Plan { fork, ..plan() }).unwrap();
        let genesis = Genesis::parse(&init.genesis()).unwrap();
        let schedule = genesis.schedule().unwrap();
        assert_eq!(schedule.fork(0, genesis.timestamp, false), expected);
        let made = init.made(Path::new("net"));
        assert_eq!(made.fork.transaction_gas_limit(made.gas_limit), gas);
        // What the network's own rules take.
        let rules = schedule.rules(1, genesis.timestamp + 1, false);
        let cap = rules.has(tally_evm::Fork::Osaka).then_some(16_777_216);
        assert_eq!(cap.unwrap_or(made.gas_limit), gas);
    }
    assert_eq!(NewestFork::Osaka.transaction_gas_limit(5_000_000), 5_000_000);
}

#[test]
fn ibft2_has_its_own_layout() {
    let init = Init::generate(Plan { protocol: Protocol::Ibft2, ..plan() }).unwrap();
    let genesis = Genesis::parse(&init.genesis()).unwrap();
    assert!(matches!(genesis.consensus, Consensus::Ibft2(_)));
    assert!(tally_consensus::ExtraData::decode(Protocol::Ibft2, &genesis.extra_data).is_ok());
    assert!(tally_consensus::ExtraData::decode(Protocol::QBFT, &genesis.extra_data).is_err());
}

#[test]
fn two_networks_share_no_key() {
    let (first, second) = (Init::generate(plan()).unwrap(), Init::generate(plan()).unwrap());
    let keys =
        |init: &Init| init.nodes.iter().chain(&init.accounts).map(NodeKey::address).collect::<Vec<_>>();
    let mut all = [keys(&first), keys(&second)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 14);
    assert_ne!(first.password, second.password);
}

#[test]
fn a_directory_that_holds_something_is_refused_and_left_alone() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("mine"), "x").unwrap();
    let error = init(plan(), place.path()).unwrap_err();
    assert!(matches!(error, InitError::Occupied { .. }));
    assert!(error.to_string().contains(&place.path().display().to_string()));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    let error = init(plan(), &place.path().join("mine/net")).unwrap_err();
    assert!(matches!(error, InitError::Occupied { .. } | InitError::Io { .. }), "{error}");
}

#[test]
fn a_failure_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let inside = place.path().join("half");
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("keystore"), "in the way").unwrap();
    let init = Init::generate(plan()).unwrap();
    let target = Path::new("/somewhere/net");
    let error = init.fill(&inside, target).unwrap_err();
    assert!(
        matches!(&error, InitError::Io { path, .. } if path == &target.join("keystore")),
        "it names the place where the file was to be: {error}"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |plan: Plan| match Init::generate(plan) {
        Err(InitError::Plan { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Plan { validators: 0, ..plan() }), "validators");
    assert_eq!(refused(Plan { validators: 100, ..plan() }), "validators");
    assert_eq!(refused(Plan { accounts: 1001, ..plan() }), "accounts");
    assert_eq!(refused(Plan { chain_id: 0, ..plan() }), "chain");
    assert_eq!(refused(Plan { request_timeout_seconds: 2, ..plan() }), "request timeout");
    assert_eq!(refused(Plan { gas_limit: 1, ..plan() }), "gas limit");
    assert_eq!(refused(Plan { p2p_port: 65_534, ..plan() }), "p2p port");
    assert_eq!(refused(Plan { http_port: 0, ..plan() }), "HTTP port");
    assert_eq!(refused(Plan { ws_port: 8549, ..plan() }), "WebSocket port");
    assert!(Init::generate(Plan { ws_port: 8550, ..plan() }).is_ok());
}
