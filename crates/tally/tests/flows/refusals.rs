//! What is refused, each with its reason: credentials, permissions, certificates, configuration.

use super::support::{Network, Said, edit, eventually, run, tally};
use std::sync::Arc;
use tally_contracts::Timestamp;
use tally_identity::{Identity, Manager, NodeKeys, Request, server_name, system_now, tls};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::time_provider::TimeProvider;

#[test]
fn users_are_refused_what_they_may_not_do() {
    let network = Network::pair();
    let node = network.node("PartyA");
    let auditor = tally_rpc::hash_password("see all").unwrap();
    let mut users = std::fs::read_to_string(node.users()).unwrap();
    users.push_str(&format!(
        "[[user]]\nname = \"auditor\"\npassword = \"{auditor}\"\npermissions = [\"vault:read\", \"flow:Ping\"]\n"
    ));
    std::fs::write(node.users(), users).unwrap();
    let _running = network.start("PartyA");
    let a = network.path("PartyA");
    let secret = network.directory.join("secret");
    let as_auditor = |command: &[&str], password: &str| {
        std::fs::write(&secret, password).unwrap();
        run(&[command, &["--user", "auditor", "--password-file", secret.to_str().unwrap()]].concat())
    };
    as_auditor(&["vault", "query", &a], "see all").well();
    let issue = ["flow", "start", &a, "CashIssue", "amount=1.00 USD"];
    as_auditor(&issue, "see all").failed(2, &["permission-missing", "flow:CashIssue"]);
    as_auditor(&["flow", "list", &a], "see all").failed(2, &["permission-missing", "flows:read"]);
    as_auditor(&["vault", "query", &a], "see nothing").failed(2, &["bad-credentials"]);
    run(&["vault", "query", &a, "--user", "auditor"]).failed(2, &["--password-file"]);

    run(&["flow", "start", &a, "CashMint", "amount=1.00 USD"]).failed(2, &["CashMint", "flow-unknown"]);
    run(&["flow", "start", &a, "CashIssue", "amount=1.001 USD"]).failed(2, &["arguments-invalid"]);
    run(&["flow", "start", &a, "CashIssue", "sum=1.00 USD"]).failed(2, &["arguments-invalid", "sum"]);
    run(&["flow", "start", &a, "CashIssue", "amount"]).failed(2, &["KEY=VALUE"]);
    run(&["flow", "start", &a, "CashPay", "amount=1.00 USD", "to=@PartyX"])
        .failed(2, &["no party `PartyX`", "O=PartyB, L=London, C=GB"]);
    run(&["vault", "query", &a, "--owner", "somebody"]).failed(2, &["owner", "request-invalid"]);
    run(&["vault", "transaction", &a, "12"]).failed(2, &["request-invalid"]);
    run(&["vault", "query", "/nowhere"]).failed(2, &["/nowhere is neither a node's directory nor HOST:PORT"]);
}

/// The time that another clock tells.
#[derive(Debug)]
struct Then(Timestamp);

impl TimeProvider for Then {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_millis(self.0.as_millis())))
    }
}

#[test]
fn an_expired_certificate_is_refused() {
    const HOUR_MS: u64 = 60 * 60 * 1000;
    let network = Network::pair();
    let node = network.node("PartyB");
    let identity = node.identity();
    // The authorities' certificates are valid from an hour before they were made: PartyB's end a minute ago.
    let then = Timestamp::from_millis(system_now().as_millis() - HOUR_MS / 2);
    let secret = std::fs::read(identity.join("passphrase")).unwrap();
    let authority = network.directory.join("authority");
    let passphrase = std::fs::read(authority.join("passphrase")).unwrap();
    let mut manager = Manager::open(&authority, &passphrase).unwrap();
    let request = Request::parse(&std::fs::read(identity.join("request.csr")).unwrap()).unwrap();
    let path = manager.issue(&request, then, HOUR_MS / 2 - 60_000).unwrap();
    let root = Identity::load(&identity, &secret, system_now()).unwrap().trust().root().der().clone();
    NodeKeys::accept(&identity, &secret, &root, &path, then).unwrap();
    drop(manager);
    run(&["node", "run", node.root().to_str().unwrap()]).failed(2, &["identity", "expired"]);

    // A peer whose own clock is behind tries all the same.
    let running = network.start("PartyA");
    let expired = Identity::load(&identity, &secret, then).unwrap();
    let client = tls::Tls::with_clock(&expired, Arc::new(Then(then))).unwrap().peer_client();
    let settings = tally_node::Settings::load(network.node("PartyA").root(), &[]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refused = runtime.block_on(async {
        use tokio::io::AsyncReadExt;
        let stream = tokio::net::TcpStream::connect(settings.messaging.listen).await.unwrap();
        let name = "O=PartyA, L=London, C=GB".parse().unwrap();
        let mut stream = TlsConnector::from(client).connect(server_name(&name), stream).await?;
        // In TLS 1.3 the client has finished before the server looks at its certificate.
        stream.read_u8().await
    });
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("CertificateExpired"), "{refused}");
    eventually("the log tells", || running.log().contains("expired").then_some(()));
}

#[test]
fn a_revoked_node_is_refused_by_the_others() {
    let network = Network::pair();
    let directory = network.directory.to_str().unwrap();
    for label in ["PartyA", "PartyB"] {
        edit(&network.node(label).configuration(), "refresh_ms = 5000", "refresh_ms = 100");
    }
    let (running, other) = (network.start("PartyA"), network.start("PartyB"));
    let (a, b) = (&network.path("PartyA"), &network.path("PartyB"));
    run(&["flow", "start", b, "Ping", "to=@PartyA"]).well();
    run(&["network", "authority", "revoke", directory, "PartyB", "--reason", "stolen"])
        .failed(2, &["'stolen'"]);
    run(&["network", "authority", "revoke", directory, "PartyB", "--reason", "key-compromise"]).well();
    run(&["network", "authority", "revoke", directory, "PartyB"])
        .failed(2, &["no certificate that could be revoked"]);
    eventually("PartyB leaves the map of PartyA", || {
        (!run(&["rpc", "map", a]).well().contains("PartyB")).then_some(())
    });
    run(&["flow", "start", a, "Ping", "to=O=PartyB, L=London, C=GB"]).failed(1, &["PartyB"]);
    let flow = run(&["flow", "start", b, "Ping", "to=@PartyA", "--detach"]).well();
    eventually("the log tells", || running.log().contains("Revoked").then_some(()));
    let shown = run(&["flow", "show", b, flow.trim(), "--json"]).well();
    assert!(shown.contains("\"running\""), "nobody answered: {shown}");
    other.kill();
    run(&["node", "run", b]).failed(2, &["PartyB"]);
}

#[test]
fn a_bad_configuration_is_named_by_file_and_key() {
    let network = Network::pair();
    let node = network.node("PartyA");
    let (file, users) = (node.configuration(), node.users());
    let (good, good_users) =
        (std::fs::read_to_string(&file).unwrap(), std::fs::read_to_string(&users).unwrap());
    let path = file.to_str().unwrap();
    let a = node.root().to_str().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let replaced = |key: &str, value: &str| {
        let lines: Vec<String> = good
            .lines()
            .map(|line| if line.starts_with(key) { format!("{key} = {value}") } else { line.to_owned() })
            .collect();
        lines.join("\n")
    };
    for (text, named) in [
        (good.replace("queue_bytes", "queue_size"), vec![path, "queue_size"]),
        (good.replace("threads = 0", "threads = \"all\""), vec![path, "threads"]),
        (good.replace("folder", "# folder"), vec![path, "`folder`"]),
        (format!("{good}\"EUR/USD\" = \"a lot\"\n"), vec![path, "EUR/USD"]),
        (good.replace("kind = \"sqlite\"", "kind = \"oracle\""), vec![path, "oracle"]),
        (replaced("folder", "\"../elsewhere\""), vec!["elsewhere"]),
        (replaced("users_file", "\"no-users.toml\""), vec!["no-users.toml"]),
        (replaced("passphrase_file", "\"no-passphrase\""), vec!["no-passphrase"]),
        (good.replace("identity/passphrase", "rpc-password"), vec!["identity", "passphrase"]),
        (replaced("path", "\"/dev/null/node.db\""), vec!["/dev/null"]),
        ("rpc = [".to_owned(), vec![path]),
    ] {
        std::fs::write(&file, &text).unwrap();
        run(&["node", "run", a]).failed(2, &named);
    }
    std::fs::write(&file, &good).unwrap();
    for (text, named) in [
        (good_users.replace("\"all\"", "[\"vault:write\"]"), ["users.toml", "vault:write"]),
        (good_users.replace("argon2id", "argon2d"), ["users.toml", "operator"]),
        (good_users.replace("password", "passphrase"), ["users.toml", "passphrase"]),
    ] {
        std::fs::write(&users, &text).unwrap();
        run(&["node", "run", a]).failed(2, &named);
    }
    std::fs::write(&users, &good_users).unwrap();
    let set = |setting: &str| run(&["node", "run", a, "--set", setting]);
    set("rpc.listen=nowhere").failed(2, &["rpc.listen"]);
    set("flows.thread=1").failed(2, &["flows.thread"]);
    set(&format!("rpc.listen={taken}")).failed(2, &[&taken.to_string()]);
    set(&format!("messaging.listen={taken}")).failed(2, &[&taken.to_string()]);
    set(&format!("http.listen={taken}")).failed(2, &[&taken.to_string()]);
    let environment: Said =
        tally().args(["node", "run", a]).env("TALLY_FLOWS__THREADS", "many").output().unwrap().into();
    environment.failed(2, &["TALLY_FLOWS__THREADS"]);

    // A node that runs has its database to itself.
    let _running = network.start("PartyA");
    let other = ["--set", "rpc.listen=127.0.0.1:0", "--set", "messaging.listen=127.0.0.1:0"];
    let other = [&["node", "run", a], &other[..], &["--set", "http.listen=127.0.0.1:0"]].concat();
    run(&other).failed(2, &["database", "node.db"]);
}

#[test]
fn a_network_is_made_as_a_whole_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("network");
    let directory = directory.to_str().unwrap();
    let init = |arguments: &[&str]| run(&[&["network", "init", directory], arguments].concat());
    init(&["--nodes", "PartyA,PartyA", "--notary", "Notary"]).failed(2, &["O=PartyA", "twice"]);
    init(&["--nodes", "PartyA", "--notary", "PartyA"]).failed(2, &["O=PartyA", "twice"]);
    init(&["--nodes", "PartyA,,PartyB", "--notary", "Notary"]).failed(2, &["--nodes"]);
    init(&["--nodes", "O=PartyA, L=London", "--notary", "Notary"]).failed(2, &["C="]);
    init(&["--nodes", "PartyA", "--notary", "Notary:strict"]).failed(2, &["strict"]);
    init(&["--nodes", "PartyA"]).failed(2, &["--notary"]);
    init(&["--nodes", "PartyA", "--notary", "Notary", "--database", "postgres"])
        .failed(2, &["--postgres-url"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let held = std::net::TcpListener::bind(taken).unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    init(&["--nodes", "PartyA", "--notary", "Notary", "--base-port", &port]).failed(2, &["not free", &port]);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "nothing is left of what failed");
    let url = "host=/nowhere user=tally dbname=postgres";
    let postgres = ["--database", "postgres", "--postgres-url", url];
    init(&[&["--nodes", "PartyA", "--notary", "Notary"], &postgres[..]].concat()).well();
    run(&["node", "run", &format!("{directory}/nodes/PartyA")]).failed(2, &["PostgreSQL"]);
    init(&["--nodes", "PartyA", "--notary", "Notary"]).failed(2, &["exists already"]);
    run(&["network", "run", directory]).failed(2, &["ended by itself", "PostgreSQL"]);
}
