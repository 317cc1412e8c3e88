use super::*;

fn layout(directory: &Path, script: &str) -> Layout {
    Layout {
        validators: 2,
        followers: 1,
        consensus: Consensus::Ibft2,
        period: Duration::from_millis(250),
        gas_limit: GAS_LIMIT,
        timestamp: now_s(),
        connections: 200,
        directory: directory.to_owned(),
        // The words of the command become the script's own.
        program: Program { file: "/bin/sh".into(), before: vec!["-c".into(), script.into()] },
        stop: Shutdown::new(),
    }
}

#[test]
fn a_network_has_the_period_and_connections_that_are_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let network = Network::make(&layout(home.path(), "true")).unwrap();
    let genesis: Value = serde_json::from_str(&std::fs::read_to_string(network.genesis()).unwrap()).unwrap();
    assert_eq!(genesis["config"]["ibft2"]["xblockperiodmilliseconds"], 250);
    tally_evm::Genesis::parse(&genesis.to_string()).unwrap();
    for node in network.nodes() {
        let settings = setup::Settings::read(&node.directory().join("config.toml")).unwrap();
        assert_eq!(settings.http.max_active_connections, 216);
    }
    let labels: Vec<_> = network.nodes().iter().map(Node::label).collect();
    assert_eq!(labels, ["validator 1", "validator 2", "follower"]);
    assert!(!network.follower().is_validator() && network.follower().address().is_err());
    network.follower().reconfigure("sync-mode = \"FULL\"", "sync-mode = \"FAST\"").unwrap();
    let error = network.follower().reconfigure("no such line", "").unwrap_err();
    assert!(error.to_string().contains("no such line"), "{error}");
    drop(network);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "the directory is removed");
}

#[test]
fn a_program_that_ends_is_told_from_one_that_serves_and_none_is_left() {
    let home = tempfile::tempdir().unwrap();
    let mut network = Network::make(&layout(home.path(), "echo not yet; exit 3")).unwrap();
    let error = network.run(0).unwrap_err();
    assert!(matches!(error, ChainBenchError::Ended { .. }), "{error}");

    let serving = "echo ready node-1 p2p=127.0.0.1:1 http=127.0.0.1:2 block=0; cat";
    let mut network = Network::make(&layout(home.path(), serving)).unwrap();
    network.run_all().unwrap();
    assert_eq!(network.node(0).address().unwrap().port(), 2);
    assert_eq!(network.watched().len(), 4);
    // It ends when its input does.
    network.end(0).unwrap();
    assert_eq!((network.node(0).pid(), network.watched().len()), (None, 3));
    let pid = network.node(1).pid().unwrap();
    drop(network);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn waiting_ends_when_it_takes_too_long_or_nobody_wants_it() {
    let stop = Shutdown::new();
    let mut looked = 0;
    let found = wait_for("a third look", Duration::from_secs(60), &stop, || {
        looked += 1;
        Ok((looked == 3).then_some(looked))
    });
    assert_eq!(found.unwrap(), 3);
    let late = wait_for("nothing", Duration::ZERO, &stop, || Ok(None::<()>)).unwrap_err();
    assert!(matches!(late, ChainBenchError::Late { .. }), "{late}");
    stop.request();
    let stopped = wait_for("nothing", Duration::from_secs(60), &stop, || Ok(None::<()>)).unwrap_err();
    assert!(matches!(stopped, ChainBenchError::Stopped), "{stopped}");
}
