use super::*;

const GENESIS: &str = "genesis-file = \"genesis.json\"\n";

fn parse(text: &str) -> Settings {
    Settings::parse(&format!("{GENESIS}{text}"), Path::new("/net/node-1")).unwrap()
}

fn message(text: &str) -> String {
    Settings::parse(&format!("{GENESIS}{text}"), Path::new("/net")).unwrap_err().to_string()
}

#[test]
fn what_is_not_set_is_as_with_besu() {
    let settings = parse("");
    assert_eq!(settings.data_path, Path::new("/net/node-1"));
    assert_eq!(settings.genesis_file, Path::new("/net/node-1/genesis.json"));
    assert_eq!(settings.node_private_key_file, Path::new("/net/node-1/key"));
    assert_eq!(settings.p2p.static_nodes_file, Path::new("/net/node-1/static-nodes.json"));
    assert_eq!((settings.p2p.listen.port(), settings.p2p.max_peers), (30303, 25));
    assert_eq!(settings.http.listen, "127.0.0.1:8545".parse().unwrap());
    assert_eq!(settings.ws.listen, "127.0.0.1:8546".parse().unwrap());
    assert!(!settings.http.enabled && !settings.ws.enabled && !settings.metrics.enabled);
    assert_eq!(settings.http.apis, [Api::Eth, Api::Net, Api::Web3]);
    assert_eq!(settings.host_allowlist, ["localhost", "127.0.0.1"]);
    assert_eq!(settings.min_gas_price, 1000);
    assert_eq!(settings.permissions, PermissionFiles::default());
    assert_eq!(settings.history, StateHistory::Blocks(512));
}

#[test]
fn a_file_of_besus_documentation_is_read() {
    let settings = parse(
        r#"
data-path="data"
network-id=1981
min-gas-price=0
rpc-http-enabled=true
rpc-http-host="0.0.0.0"
rpc-http-port=8547
rpc-http-api="ETH,NET,QBFT,admin"
rpc-http-cors-origins=["all"]
rpc-ws-enabled=true
rpc-ws-api=["ETH","WEB3","WEB3"]
host-allowlist=["*"]
p2p-host="node.example"
p2p-port=30304
discovery-enabled=false
sync-mode="full"
data-storage-format="FOREST"
logging="INFO"
permissions-nodes-config-file-enabled=true
permissions-accounts-config-file-enabled=true
permissions-accounts-config-file="accounts.toml"
rpc-http-authentication-enabled=true
rpc-http-authentication-jwt-public-key-file="/etc/jwt.pem"
target-gas-limit=0x280de80
"#,
    );
    assert_eq!(settings.data_path, Path::new("/net/node-1/data"));
    assert_eq!(settings.network_id, Some(1981));
    assert_eq!(settings.http.apis, [Api::Admin, Api::Eth, Api::Net, Api::Qbft]);
    assert_eq!(settings.ws.apis, [Api::Eth, Api::Web3]);
    assert_eq!(settings.http.cors_origins, ["*"]);
    assert_eq!(settings.p2p.host, Host::Name("node.example".to_owned()));
    assert_eq!(settings.history, StateHistory::Archive);
    assert_eq!(settings.logging.as_deref(), Some("info"));
    assert_eq!(settings.permissions.nodes.unwrap(), Path::new("/net/node-1/data/permissions_config.toml"));
    assert_eq!(settings.permissions.accounts.unwrap(), Path::new("/net/node-1/accounts.toml"));
    assert_eq!(settings.http.jwt_public_key_file.unwrap(), Path::new("/etc/jwt.pem"));
    assert_eq!(settings.ws.jwt_public_key_file, None);
    assert_eq!(settings.target_gas_limit, Some(42_000_000));
    assert_eq!(settings.ws.max_batch_size, settings.http.max_batch_size);
}

#[test]
fn an_option_that_does_not_exist_suggests_one_that_does() {
    assert_eq!(
        message("rpc-htp-port = 1"),
        "line 2: there is no option rpc-htp-port; did you mean rpc-http-port?"
    );
    assert_eq!(message("\n\nzzz = 1"), "line 4: there is no option zzz");
    assert_eq!(
        message("rpc_http_enabled = true"),
        "line 2: there is no option rpc_http_enabled; did you mean rpc-http-enabled?"
    );
}

#[test]
fn errors_name_line_option_and_what_it_takes() {
    for (text, expected) in [
        ("p2p-port = 65536", "line 2: p2p-port is a number from 0 to 65535, not 65536"),
        ("p2p-port = -1", "line 2: p2p-port is a number from 0 to 65535, not -1"),
        ("p2p-port = \"1\"", "line 2: p2p-port is a number, here is a value of type string"),
        (
            "rpc-http-enabled = 1",
            "line 2: rpc-http-enabled is true or false, here is a value of type integer",
        ),
        ("data-path = 1", "line 2: data-path is a text, here is a value of type integer"),
        ("rpc-http-api = [\n\"ETH\",\n\"ETHH\"]", "line 4: rpc-http-api is a list of ADMIN, DEBUG, ETH"),
        ("rpc-http-api = [1]", "line 2: rpc-http-api is a list of texts, here is a value of type integer"),
        ("rpc-http-api = 1", "line 2: rpc-http-api is a list of texts, here is a value of type integer"),
        ("bootnodes = [\"enode://1\"]", "line 2: bootnodes is a list of enode URLs, not \"enode://1\""),
        (
            "rpc-http-host = \"example\"",
            "line 2: rpc-http-host is an IP address of this machine, not \"example\"",
        ),
        ("p2p-host = \"a b\"", "line 2: p2p-host is an address or a host name, not \"a b\""),
        ("sync-mode = \"warp\"", "line 2: sync-mode is FULL, FAST, SNAP or CHECKPOINT, not \"warp\""),
        ("data-storage-format = \"x\"", "line 2: data-storage-format is FOREST or BONSAI, not \"x\""),
        ("identity = \"a b\"", "line 2: identity is a name of at most 32"),
        ("rpc-http-cors-origins = \"example\"", "line 2: rpc-http-cors-origins is a list of origins"),
        ("discovery-enabled = true", "line 2: discovery-enabled is not possible here: peers are listed"),
        ("target-gas-limit = 1", "line 2: target-gas-limit is a number from 5000"),
        ("network-id = 0", "line 2: network-id is a number from 1"),
        ("max-peers = 0", "line 2: max-peers is a number from 1 to 10000, not 0"),
        ("rpc-ws-authentication-enabled = true", "rpc-ws-authentication-jwt-public-key-file is missing"),
        ("p2p-port = [", "line 2: this is not TOML"),
        ("p2p-port = 1\np2p-port = 2", "line 3: this is not TOML: duplicate key"),
    ] {
        let found = message(text);
        assert!(found.starts_with(expected), "{text}: {found}");
    }
    let missing = Settings::parse("", Path::new("")).unwrap_err().to_string();
    assert!(missing.starts_with("genesis-file is missing"), "{missing}");
}

#[test]
fn the_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    let absent = Settings::read(&path).unwrap_err();
    assert!(
        absent.to_string().contains("config.toml") && matches!(absent.faults.0[..], [SettingsFault::Io(_)])
    );
    fs::write(&path, "x".repeat(2 << 20)).unwrap();
    assert!(matches!(Settings::read(&path).unwrap_err().faults.0[..], [SettingsFault::Large { .. }]));
    fs::write(&path, GENESIS).unwrap();
    assert_eq!(Settings::read(&path).unwrap().data_path, directory.path());
}

#[test]
fn all_faults_of_a_file_are_said_at_once_in_its_order() {
    let faults = message("zzz = 1\np2p-port = 65536\naaa = 1\nplugins = [\"x\"]\nrpc-ws-enabled = \"yes\"");
    let lines: Vec<_> = faults.lines().map(str::trim).collect();
    assert_eq!(
        lines[..3],
        [
            "5 faults",
            "line 2: there is no option zzz",
            "line 3: p2p-port is a number from 0 to 65535, not 65536",
        ]
    );
    assert_eq!(
        lines[3..],
        [
            "line 4: there is no option aaa",
            "line 5: plugins is not possible here: plugins of Java are not loaded",
            "line 6: rpc-ws-enabled is true or false, here is a value of type string",
        ]
    );
}

/// The names of all options of Besu 26's command line that may stand in a file, without experimental ones.
const OF_BESU: &str = include_str!("besu_options.txt");

#[test]
fn every_option_of_besu_works_or_is_said_to_change_nothing_or_is_refused_with_a_reason() {
    let own = Settings::names();
    let other = Settings::other_names();
    let mut counts = [0; 3];
    for name in OF_BESU.split_whitespace() {
        if own.contains(&name) || matches!(name, "rpc-http-apis" | "rpc-ws-apis") {
            counts[0] += 1;
            continue;
        }
        assert!(other.contains(&name), "{name} is not known");
        // What says nothing is taken; what switches something on that there is not is refused with the reason.
        assert_eq!(parse(&format!("{name} = []")).ineffective.len(), usize::from(!is_refused(name)));
        counts[if is_refused(name) { 2 } else { 1 }] += 1;
    }
    println!(
        "{} work, {} change nothing, {} are refused unless they are off",
        counts[0], counts[1], counts[2]
    );
    assert!(counts[0] >= 50, "{counts:?}");
    let options = parse("Xbonsai-full-flat-db-enabled = true\nrpc-http-tls-enabled = false");
    assert_eq!(options.ineffective.len(), 1, "{:?}", options.ineffective);
    assert_eq!((options.ineffective[0].place, options.ineffective[0].key), (Place::Line(2), "X…"));
}

fn is_refused(name: &str) -> bool {
    let text = format!("{GENESIS}{name} = \"something\"");
    match Settings::parse(&text, Path::new("")) {
        Ok(_) => false,
        Err(faults) => {
            assert!(matches!(faults.0[..], [SettingsFault::Refused { .. }]), "{faults}");
            true
        }
    }
}

#[test]
fn the_command_line_counts_more_than_the_environment_and_that_more_than_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    fs::write(&file, "genesis-file = \"a.json\"\nmax-peers = 1\np2p-port = 1\nidentity = \"file\"").unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let sources = Sources {
        arguments: vec![
            pair("max-peers", "3"),
            pair("rpc-http-enabled", "true"),
            pair("rpc-http-apis", "ETH,PERM"),
        ],
        environment: vec![pair("max-peers", "2"), pair("p2p-port", "0x2"), pair("data-path", "data")],
        file: Some(file.clone()),
    };
    let settings = Settings::gather(&sources).unwrap();
    assert_eq!((settings.p2p.max_peers, settings.p2p.listen.port()), (3, 2));
    assert_eq!(settings.identity.as_deref(), Some("file"));
    assert_eq!(settings.genesis_file, directory.path().join("a.json"));
    assert_eq!(settings.data_path, Path::new("data"), "from the working directory");
    assert_eq!((settings.http.enabled, settings.http.apis), (true, vec![Api::Eth]));
    assert_eq!(
        (settings.ineffective[0].place, settings.ineffective[0].key),
        (Place::Arguments, "rpc-http-api")
    );
    assert_eq!(Settings::variable("rpc-http-port"), "BESU_RPC_HTTP_PORT");

    let wrong = Sources { arguments: vec![pair("p2p-port", "x")], ..Sources::default() };
    let text = Settings::gather(&wrong).unwrap_err().faults.to_string();
    for part in
        ["data-path is missing", "genesis-file is missing", "command line: p2p-port is a number from 0"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}
