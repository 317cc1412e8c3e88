//! The commands: a network that is made and run, flows, vaults, and a network certified step by step.

use super::support::{Network, Node, Said, edit, eventually, run, tally, terminate};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};
use tally::flows_network::layout::{NodeDirectory, NodeRunFile};

/// A command that goes on until it is told to end.
struct Service {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    fn start(arguments: &[&str]) -> Self {
        let mut command = tally();
        let mut child =
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// The next line; empty at the end.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn end(mut self) -> Said {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Said { code: self.child.wait().unwrap().code(), out, err }
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_network_runs_and_is_used() {
    let network = Network::pair();
    let directory = network.directory.to_str().unwrap();
    let mut running = Service::start(&["network", "run", directory]);
    let mut ready: Vec<String> = (0..3).map(|_| running.line()).collect();
    ready.sort();
    for (line, label) in ready.iter().zip(["Notary", "PartyA", "PartyB"]) {
        assert!(line.starts_with(&format!("ready {label} messaging=127.0.0.1:")), "{line}");
    }
    assert_eq!(running.line(), "network of 3 nodes runs");

    let (a, b) = (&network.path("PartyA"), &network.path("PartyB"));
    let issued = run(&["flow", "start", a, "CashIssue", "amount=100.00 USD", "outputs=4"]).well();
    let issued: Value = serde_json::from_str(&issued).unwrap();
    let transaction = issued["completed"]["transaction"].as_str().unwrap();
    let shown: Value = serde_json::from_str(&run(&["vault", "transaction", a, transaction]).well()).unwrap();
    assert_eq!(shown["outputs"].as_array().unwrap().len(), 4);

    let pay = ["flow", "start", a, "CashPay", "amount=60.00 USD", "to=@PartyB", "--request-id", "rent-1"];
    let paid = run(&pay);
    assert!(paid.err.contains("CashPay / Notarising"), "{paid:?}");
    assert_eq!(run(&pay).well(), paid.well(), "the same request is the same payment");
    let cash = lines(&run(&["vault", "query", b, "--kind", "cash", "--owner", "@PartyB", "--json"]).well());
    assert_eq!(cash.iter().map(|state| state["quantity"].as_u64().unwrap()).sum::<u64>(), 6_000);
    assert_eq!(cash[0]["asset"], "USD@O=PartyA, L=London, C=GB");
    let sorted = ["vault", "query", a, "--sort", "quantity", "--descending", "--json", "--limit", "2"];
    let sorted: Vec<u64> =
        lines(&run(&sorted).well()).iter().map(|state| state["quantity"].as_u64().unwrap()).collect();
    assert!(sorted.len() == 2 && sorted.is_sorted_by(|a, b| a >= b), "{sorted:?}");
    let table = run(&["vault", "query", a]).well();
    assert!(table.contains("25.00 USD") && table.contains("unconsumed"), "{table}");

    let refused = run(&["flow", "start", b, "CashPay", "amount=60.01 USD", "to=@PartyA"]);
    assert!(refused.out.contains("\"failed\""), "{refused:?}");
    refused.failed(1, &["failed: ", "insufficient"]);

    let listed = lines(&run(&["flow", "list", a, "--json", "--state", "completed"]).well());
    assert_eq!(
        listed.iter().map(|flow| flow["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["CashPay", "CashIssue"]
    );
    assert!(run(&["flow", "names", a]).well().contains("CashPay"));
    assert!(run(&["rpc", "info", a]).well().contains("O=PartyA, L=London, C=GB"));
    assert!(run(&["rpc", "map", b, "--json"]).well().contains("\"non-validating\""));
    let status = run(&["network", "status", directory]).well();
    assert!(status.contains("PartyB") && status.contains("serves"), "{status}");

    let file = network.directory.join("annex");
    std::fs::write(&file, "the terms").unwrap();
    let copy = network.directory.join("copy");
    let id = run(&["rpc", "upload", a, file.to_str().unwrap()]).well();
    run(&["rpc", "download", a, id.trim(), copy.to_str().unwrap()]).well();
    assert_eq!(std::fs::read_to_string(copy).unwrap(), "the terms");

    terminate(running.child.id());
    let ended = running.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "stopped\n"), "{ended:?}");
    run(&["rpc", "info", a]).failed(2, &["cannot be reached", "tally node run"]);
}

#[test]
fn the_end_of_one_node_ends_the_network_and_says_why() {
    let network = Network::pair();
    let mut running = Service::start(&["network", "run", network.directory.to_str().unwrap()]);
    while running.line() != "network of 3 nodes runs" {}
    let nodes = ["Notary", "PartyA", "PartyB"];
    let processes: Vec<u32> =
        nodes.iter().map(|label| NodeRunFile::read(&network.node(label)).unwrap().unwrap().pid).collect();
    let killed =
        std::process::Command::new("kill").args(["-KILL", &processes[1].to_string()]).status().unwrap();
    assert!(killed.success());
    let ended = running.end();
    ended.failed(2, &["PartyA", "signal 9", "the node serves"]);
    for process in processes {
        assert!(!std::path::Path::new(&format!("/proc/{process}")).exists(), "{process} still runs");
    }
}

#[test]
fn nodes_end_with_the_network_that_started_them() {
    let network = Network::pair();
    let mut running = Service::start(&["network", "run", network.directory.to_str().unwrap()]);
    while running.line() != "network of 3 nodes runs" {}
    let process = NodeRunFile::read(&network.node("PartyB")).unwrap().unwrap().pid;
    drop(running);
    eventually("the node ends", || {
        (!std::path::Path::new(&format!("/proc/{process}")).exists()).then_some(())
    });
}

#[test]
fn a_node_serves_within_a_second_of_its_start() {
    let network = Network::pair();
    let began = Instant::now();
    let node = network.start("PartyA");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    println!("from the start of the process to ready: {took:?}");
    node.stop();
}

#[test]
fn a_flow_waits_for_its_counterparty_and_can_be_tended() {
    let network = Network::pair();
    let _notary = network.start("Notary");
    let node = network.start("PartyA");
    let a = &network.path("PartyA");
    let ping = |request: &str| {
        let arguments = ["flow", "start", a, "Ping", "to=@PartyB", "--detach", "--request-id", request];
        run(&arguments).well().trim().to_owned()
    };
    let state = |flow: &str| {
        let shown: Value = serde_json::from_str(&run(&["flow", "show", a, flow, "--json"]).well()).unwrap();
        shown["state"].as_str().unwrap().to_owned()
    };
    let (kept, dropped) = (ping("1"), ping("2"));
    assert_eq!(ping("1"), kept, "the same request is the same flow");
    run(&["flow", "pause", a, &kept]).well();
    assert_eq!((state(&kept).as_str(), state(&dropped).as_str()), ("paused", "running"));
    run(&["flow", "kill", a, &dropped]).well();
    let watched = run(&["flow", "watch", a, &dropped]);
    assert!(watched.out.contains("\"failed\""), "{watched:?}");
    watched.failed(1, &["failed: "]);

    // What a person decided outlives the process.
    node.kill();
    let _node = network.start("PartyA");
    let _other = network.start("PartyB");
    assert_eq!(state(&kept), "paused");
    run(&["flow", "retry", a, &kept]).well();
    assert!(run(&["flow", "watch", a, &kept]).well().contains("\"completed\""));
    run(&["flow", "kill", a, &kept]).failed(2, &["flow-"]);
    run(&["flow", "show", a, "00000000000000000000000000000000"]).failed(2, &["flow-id-unknown"]);
}

#[test]
fn a_network_is_certified_step_by_step() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let network = &at("network");
    run(&["network", "authority", "init", network]).well();
    let mut map = Service::start(&["network", "map", "serve", network, "--listen", "127.0.0.1:0"]);
    let url = map.line().strip_prefix("network map listens on ").unwrap().to_owned();

    // Held until all are drawn, so that they are different.
    let held: Vec<_> = (0..6).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<String> =
        held.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    drop(held);
    for (label, addresses) in ["PartyA", "PartyB", "Notary"].iter().zip(addresses.chunks_exact(2)) {
        let (directory, issued) = (&at(label), &at(&format!("{label}.pem")));
        let init = ["node", "init", directory, "--name", label, "--map-service", &url];
        run(&[&init[..], &["--listen", &addresses[0], "--rpc", &addresses[1]]].concat()).well();
        edit(&NodeDirectory::new(directory).configuration(), "refresh_ms = 5000", "refresh_ms = 100");
        run(&["node", "run", directory]).failed(2, &["has no certificate yet"]);
        let request = &format!("{directory}/identity/request.csr");
        run(&["network", "authority", "issue", network, request, "--out", issued, "--days", "30"]).well();
        let root = &format!("{network}/authority/root.pem");
        let accept = ["node", "accept", directory, "--certificates", issued, "--root", root];
        let notary: &[&str] = if *label == "Notary" { &["--notary"] } else { &[] };
        run(&[&accept[..], notary].concat()).well();
    }
    // Another node with the name of the first.
    run(&["node", "init", &at("thief"), "--name", "PartyA", "--map-service", &url]).well();
    let request = &format!("{}/identity/request.csr", at("thief"));
    run(&["network", "authority", "issue", network, request])
        .failed(2, &["holds that name with another key"]);
    run(&["network", "authority", "notary", network, "PartyC"]).failed(2, &["no node", "PartyC"]);
    run(&["network", "authority", "notary", network, "PartyA"]).failed(2, &["has no notary service"]);
    run(&["network", "authority", "notary", network, "Notary:validating"]).well();
    run(&["network", "authority", "lists", network, "--days", "30"]).well();
    // The notary is told before it starts: a node learns of what it is itself at its start, from its copy of the map.
    run(&["node", "publish", &at("Notary")]).well();
    let listed = run(&["network", "authority", "list", network]).well();
    assert_eq!(listed.lines().filter(|line| line.contains("L=London")).count(), 3, "{listed}");

    let nodes: Vec<Node> = ["Notary", "PartyA", "PartyB"]
        .iter()
        .map(|label| {
            let mut node = Node::spawn(NodeDirectory::new(at(label)));
            assert!(node.ready(), "{}", node.log());
            node
        })
        .collect();
    for label in ["PartyA", "PartyB", "Notary"] {
        eventually("each learns of the notary and the others", || {
            let map = run(&["rpc", "map", &at(label)]).well();
            (map.contains("validating") && map.contains("PartyA") && map.contains("PartyB")).then_some(())
        });
    }
    run(&["flow", "start", &at("PartyA"), "CashIssue", "amount=5.00 USD"]).well();
    run(&["flow", "start", &at("PartyA"), "CashPay", "amount=5.00 USD", "to=@PartyB"]).well();

    // From elsewhere, by address and name.
    let (root, password) =
        (format!("{network}/authority/root.pem"), format!("{}/rpc-password", at("PartyB")));
    let elsewhere = [&addresses[3], "--root", &root, "--password-file", &password];
    let named = ["--server-name", "O=PartyB, L=London, C=GB"];
    let held = run(&[&["vault", "query"], &elsewhere[..], &named[..], &["--json"]].concat()).well();
    assert_eq!(lines(&held).len(), 1);
    run(&[&["vault", "query"], &elsewhere[..]].concat()).failed(2, &["--server-name"]);
    let other = ["--server-name", "O=PartyA, L=London, C=GB"];
    run(&[&["vault", "query"], &elsewhere[..], &other[..]].concat()).failed(2, &["cannot connect"]);

    // What the network agrees on changes, and a node's operator accepts it.
    let change = ["network", "authority", "parameters", network];
    run(&change).failed(2, &["nothing to change"]);
    run(&[&change[..], &["--max-transaction-bytes", "400000"]].concat()).well();
    let shown = || run(&["node", "parameters", "show", &at("PartyA")]).well();
    eventually("the new parameters", || shown().contains("epoch 3, in force, not accepted").then_some(()));
    run(&["flow", "start", &at("PartyA"), "CashIssue", "amount=5.00 USD"]).failed(2, &["accept NODE 3"]);
    run(&["node", "parameters", "accept", &at("PartyA"), "9"]).failed(2, &["no parameters of epoch 9"]);
    run(&["node", "parameters", "accept", &at("PartyA"), "3"]).well();
    run(&["flow", "start", &at("PartyA"), "CashIssue", "amount=5.00 USD"]).well();
    run(&[&change[..], &["--max-transaction-bytes", "300000", "--in-force-in-days", "3"]].concat()).well();
    run(&[&change[..], &["--max-transaction-bytes", "200000"]].concat()).failed(2, &["announced already"]);
    eventually("the announcement", || shown().contains("epoch 4, announced, in force from").then_some(()));
    let accepted = run(&["node", "parameters", "accept", &at("PartyA"), "4", "--json"]).well();
    assert!(accepted.contains("\"accepted\":[2,3,4]"), "{accepted}");
    // A node gets a new key, and spends what it owns under the former one.
    let party = &at("PartyA");
    run(&["node", "rotate", party]).failed(2, &["while the node does not run"]);
    let mut nodes = nodes;
    nodes.remove(1).stop();
    let said = run(&["node", "rotate", party]).well();
    let key = said.split(" is ").nth(1).and_then(|rest| rest.split(" now").next()).unwrap().to_owned();
    assert!(key.starts_with("ed25519:") && said.contains("tally node publish"), "{said}");
    run(&["node", "run", party]).failed(2, &["another key"]);
    run(&["node", "publish", party]).well();
    let mut node = Node::spawn(NodeDirectory::new(party));
    assert!(node.ready(), "{}", node.log());
    nodes.push(node);
    for label in ["PartyB", "Notary"] {
        eventually("each learns of the new key", || {
            run(&["rpc", "map", &at(label), "--json"]).well().contains(&key).then_some(())
        });
    }
    // The others take no new work either before their operators have accepted.
    for label in ["PartyB", "Notary"] {
        run(&["node", "parameters", "accept", &at(label), "3"]).well();
    }
    run(&["flow", "start", party, "CashPay", "amount=5.00 USD", "to=@PartyB"]).well();
    // A notary with another key strands all that is under its present one.
    for file in ["identity/notary.key", "identity/notary.pem"] {
        std::fs::remove_file(std::path::Path::new(&at("Notary")).join(file)).unwrap();
    }
    run(&["node", "publish", &at("Notary"), "--notary"]).well();
    let replace = ["network", "authority", "notary", network, "Notary:validating"];
    run(&replace).failed(2, &["nothing under the present key could be spent", "--replace-key"]);
    run(&[&replace[..], &["--replace-key"]].concat()).failed(2, &["announced already"]);
    nodes.into_iter().for_each(Node::stop);
    terminate(map.child.id());
    map.end().well();
}

#[test]
fn a_password_is_hashed_for_the_users_file() {
    let mut child =
        tally().args(["rpc", "hash-password"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"correct horse\n").unwrap();
    let said = Said::from(child.wait_with_output().unwrap()).well();
    assert!(said.starts_with("$argon2id$"), "{said}");
}
