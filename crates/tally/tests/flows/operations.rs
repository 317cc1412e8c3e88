//! What an operator does with a node: help, users, drain, backup, standby.

use super::support::{Network, Node, eventually, run, tally};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use tally_store::server::PostgresServer;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// What the node owns, in cents, once it is that much.
fn owns(node: &str, label: &str, cents: u64) {
    let owner = format!("@{label}");
    eventually("the vault has what was paid", || {
        let found = run(&["vault", "query", node, "--kind", "cash", "--owner", &owner, "--json"]).well();
        let sum: u64 = found.lines().map(|line| json(line)["quantity"].as_u64().unwrap()).sum();
        (sum == cents).then_some(())
    });
}

#[test]
fn help_about_nodes_names_no_options_of_settlement() {
    let settlement = ["--url", "--token-file", "--ca ", "--keys", "--network "];
    for command in [
        &["node", "run"][..],
        &["node", "backup"],
        &["node"],
        &["flow"],
        &["flow", "start"],
        &["vault", "query"],
        &["rpc", "info"],
    ] {
        let help = run(&[command, &["--help"]].concat()).well();
        for option in settlement {
            assert!(!help.contains(option), "{command:?} names {option}:\n{help}");
        }
    }
    assert!(run(&["node", "init", "--help"]).well().contains("--passphrase-file"));
    let pay = run(&["pay", "--help"]).well();
    assert!(settlement.iter().all(|option| pay.contains(option)), "{pay}");
    // And they are not taken, wherever they stand.
    run(&["flow", "list", "node", "--url", "http://127.0.0.1:1"]).failed(2, &["--url", "settlement"]);
    run(&["--token-file", "token", "vault", "query", "node"]).failed(2, &["--token-file", "settlement"]);
}

#[test]
fn a_request_id_is_one_payment_and_a_maturity_is_a_date() {
    let network = Network::pair();
    let _nodes: Vec<Node> = ["Notary", "PartyA", "PartyB"].iter().map(|label| network.start(label)).collect();
    let a = &network.path("PartyA");
    run(&["flow", "start", a, "CashIssue", "amount=100.00 USD"]).well();
    let pay = |amount: &str| {
        let amount = format!("amount={amount}");
        run(&["flow", "start", a, "CashPay", &amount, "to=@PartyB", "--request-id", "rent-1"])
    };
    let first = pay("60.00 USD").well();
    pay("30.00 USD").failed(2, &["request-id-reused"]);
    assert_eq!(pay("60.00 USD").well(), first);
    owns(&network.path("PartyB"), "PartyB", 6_000);

    let bond = |maturity: &str| {
        let maturity = format!("maturity={maturity}");
        run(&["flow", "start", a, "BondIssue", "isin=XS0000000009", "nominal=10.00 USD", &maturity])
    };
    bond("2999-12-31").well();
    bond("2999-12-31T17:00:00+01:00").well();
    bond("next year").failed(2, &["2027-12-31T17:00:00Z", "milliseconds"]);
}

#[test]
fn users_change_while_the_node_runs() {
    let network = Network::pair();
    let _node = network.start("PartyA");
    let (a, home) = (&network.path("PartyA"), network.node("PartyA"));
    let mut child =
        tally().args(["rpc", "hash-password"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"correct horse\n").unwrap();
    let hash = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let password = network.directory.join("password");
    std::fs::write(&password, "correct horse\n").unwrap();
    let clerk = ["--user", "clerk", "--password-file", password.to_str().unwrap()];
    let list = || run(&[&["flow", "list", a][..], &clerk].concat());
    list().failed(2, &["bad-credentials"]);

    let before = std::fs::read_to_string(home.users()).unwrap();
    let user = format!(
        "{before}\n[[user]]\nname = \"clerk\"\npassword = \"{}\"\npermissions = [\"flows:read\"]\n",
        hash.trim()
    );
    std::fs::write(home.users(), user).unwrap();
    eventually("the clerk is let in", || (list().code == Some(0)).then_some(()));
    // A file that cannot be used changes nothing.
    std::fs::write(home.users(), "this is no users file").unwrap();
    eventually("the log says so", || {
        std::fs::read_to_string(home.log()).unwrap().contains("those of before stay").then_some(())
    });
    list().well();
    std::fs::write(home.users(), before).unwrap();
    eventually("the clerk is out", || list().err.contains("bad-credentials").then_some(()));
}

#[test]
fn a_node_is_drained_and_resumed() {
    let network = Network::pair();
    let _notary = network.start("Notary");
    let mut node = Node::spawn(network.node("PartyA"));
    let http = node.http().expect("it serves health");
    let ready = || {
        let mut answer = String::new();
        let mut stream = std::net::TcpStream::connect(&http).unwrap();
        write!(stream, "GET /ready HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n").unwrap();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        answer
    };
    let a = &network.path("PartyA");
    assert!(ready().contains("200 OK"), "{}", ready());
    // PartyB does not run: this flow waits for it.
    let ping = ["flow", "start", a, "Ping", "to=@PartyB", "--detach", "--request-id", "1"];
    let flow = run(&ping).well();
    let drain = json(&run(&["node", "drain", a, "--json"]).well());
    assert_eq!((&drain["draining"], &drain["under_way"]), (&Value::Bool(true), &Value::from(1)), "{drain}");
    assert!(ready().contains("503") && ready().contains("draining: 1 flows are under way"), "{}", ready());
    run(&["flow", "start", a, "CashIssue", "amount=1.00 USD"]).failed(2, &["drained", "unavailable"]);
    assert_eq!(run(&ping).well(), flow, "what was started before is answered");

    // The other side comes, and wants something itself.
    let _other = network.start("PartyB");
    assert!(run(&["node", "drain", a, "--wait"]).well().contains("is drained: 0 flows under way"));
    let b = &network.path("PartyB");
    let asked = run(&["flow", "start", b, "Ping", "to=@PartyA", "--detach"]).well();
    eventually("a flow of a peer waits", || {
        (json(&run(&["node", "drain", a, "--json"]).well())["waiting"] == 1).then_some(())
    });
    assert!(run(&["node", "resume", a]).well().contains("takes new flows"));
    assert!(run(&["flow", "watch", b, asked.trim()]).well().contains("completed"));
    run(&["flow", "start", a, "CashIssue", "amount=1.00 USD"]).well();
    assert!(ready().contains("200 OK"), "{}", ready());
}

#[test]
fn a_backup_of_a_running_node_is_restored() {
    let network = Network::pair();
    let _others: Vec<Node> = ["Notary", "PartyB"].iter().map(|label| network.start(label)).collect();
    let node = network.start("PartyA");
    let (a, home) = (&network.path("PartyA"), network.node("PartyA"));
    run(&["flow", "start", a, "CashIssue", "amount=100.00 USD"]).well();
    run(&["flow", "start", a, "CashPay", "amount=60.00 USD", "to=@PartyB"]).well();
    let file = network.directory.join("a.backup");
    let file = file.to_str().unwrap();
    let taken = json(&run(&["node", "backup", a, file, "--json"]).well());
    assert_eq!(taken["node"], "O=PartyA, L=London, C=GB");
    run(&["node", "backup", a, file]).failed(2, &["is there already"]);
    run(&["node", "restore", a, file]).failed(2, &["in use by another process"]);
    run(&["node", "restore", &network.path("PartyB"), file]).failed(2, &["PartyA", "PartyB"]);
    node.kill();
    run(&["node", "restore", a, file]).failed(2, &["is not empty"]);
    std::fs::rename(home.root().join("data"), home.root().join("lost")).unwrap();
    let restored = json(&run(&["node", "restore", a, file, "--json"]).well());
    assert_eq!(restored, taken);
    let node = network.start("PartyA");
    owns(a, "PartyA", 4_000);
    assert!(node.log().contains("the database was restored from a backup"), "{}", node.log());
}

/// Two processes of one node on one PostgreSQL: the second waits, goes on from what the first had made durable, and the
/// first does not come back beside it.
#[test]
fn a_standby_takes_over_and_is_alone() {
    let server = PostgresServer::start().unwrap();
    let url = server.url();
    let made =
        ["--nodes", "PartyA,PartyB", "--notary", "Notary", "--database", "postgres", "--postgres-url", &url];
    let network = Network::of(&made);
    let _others: Vec<Node> = ["Notary", "PartyB"].iter().map(|label| network.start(label)).collect();
    let active = network.start("PartyA");
    let a = &network.path("PartyA");
    run(&["flow", "start", a, "CashIssue", "amount=100.00 USD"]).well();
    // Without --standby a second process ends.
    run(&["node", "run", a]).failed(2, &["in use by another process"]);
    let mut standby = tally()
        .args(["node", "run", "--standby", "--until-input-ends", a])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(standby.stdout.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line
    };
    assert!(line().starts_with("standby PartyA: "));
    run(&["flow", "start", a, "CashPay", "amount=60.00 USD", "to=@PartyB"]).well();
    active.kill();
    assert!(line().starts_with("ready PartyA "));
    owns(a, "PartyA", 4_000);
    run(&["flow", "start", a, "CashPay", "amount=40.00 USD", "to=@PartyB"]).well();
    owns(&network.path("PartyB"), "PartyB", 10_000);
    run(&["node", "run", a]).failed(2, &["in use by another process"]);
    drop(standby.stdin.take());
    assert!(standby.wait().unwrap().success());
}
