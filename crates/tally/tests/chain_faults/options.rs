//! A node that is started as Besu is: with its options on the command line and in the environment.

use super::support::{Network, Node, run};
use serde_json::json;

#[test]
fn a_node_runs_with_besus_command_line_and_environment() {
    let network = Network::new(1, 0, 250);
    let node = network.node(0);
    let directory = node.to_str().unwrap().to_owned();
    let (genesis, pid) = (network.genesis(), node.with_extension("pid"));
    std::fs::remove_file(node.join("config.toml")).unwrap();
    let options = [
        &format!("--data-path={directory}"),
        "--genesis-file",
        genesis.to_str().unwrap(),
        "--p2p-interface=127.0.0.1",
        "--p2p-port=0",
        "--rpc-http-enabled",
        "--rpc-http-port=0",
        "--rpc-http-api=ETH,NET",
        "--rpc-http-api=PERM",
        "--pid-path",
        pid.to_str().unwrap(),
        "--revert-reason-enabled=true",
        "--min-gas-price",
        "0",
    ];
    let variables = [("BESU_NETWORK_ID", "77"), ("BESU_MINER_ENABLED", "true"), ("BESU_MAX_PEERS", "5")];
    let mut started = Node::spawn_with(node.clone(), &options, &variables);
    assert!(started.ready(), "{}", started.log());
    let client = started.client();
    assert_eq!(client.call("net_version", &json!([])).unwrap(), json!("77"));
    assert!(client.call("web3_clientVersion", &json!([])).is_err(), "the group is not served");
    assert!(std::fs::read_to_string(&pid).unwrap().trim().parse::<u32>().is_ok());
    let log = started.log();
    for option in ["revert-reason-enabled", "miner-enabled", "rpc-http-api"] {
        let lines =
            log.lines().filter(|line| line.contains(&format!("{option} changes nothing here"))).count();
        assert_eq!(lines, 1, "{option}: {log}");
    }
    started.stop();
    assert!(!pid.exists());

    // What would be something else than the operator thinks is refused, all of it at once.
    let data = format!("--data-path={directory}");
    run(&["chain", "run", &data, "--rpc-http-tls-enabled=true", "--max-peers=x"]).failed(&[
        "3 faults",
        "command line: max-peers is a number from 1 to 10000",
        "command line: rpc-http-tls-enabled is not possible here: TLS is not spoken to clients",
        "genesis-file is missing",
    ]);
    let (network, absent) = (format!("--genesis-file={}", genesis.display()), node.join("absent/pid"));
    let nowhere = format!("--pid-path={}", absent.display());
    run(&["chain", "run", &data, &network, "--p2p-enabled=false", &nowhere])
        .failed(&["cannot write", "absent/pid"]);
    run(&["chain", "run", &data, "--rpc-htp-port=1"]).failed(&["--rpc-http-port"]);
    run(&["chain", "run", &directory, "--network=mainnet"])
        .failed(&["--network is about a settlement network"]);
}
