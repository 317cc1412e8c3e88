//! A disk that is full, and then is not any more.

use super::client::{Client, Unanswered};
use super::load::PAYEE;
use super::support::{Network, Node, account, agree, eventually, submit, transfer};
use alloy_primitives::B256;
use serde_json::json;

/// More than a new chain, less than a few dozen blocks.
const ROOM: u64 = 192 << 10;
/// The validator and the follower whose disks are full.
const VALIDATOR: usize = 3;
const FOLLOWER: usize = 4;

/// Sends transactions until one is refused: those acknowledged, and what the refusal says.
fn fill(client: &Client) -> (Vec<B256>, String) {
    let key = account(0);
    let mut acknowledged = Vec::new();
    loop {
        let (hash, encoded) = transfer(&key, acknowledged.len() as u64, PAYEE);
        match submit(client, hash, &encoded) {
            Ok(()) => acknowledged.push(hash),
            Err(Unanswered::Refused { code, message }) => {
                assert_eq!(code, -32603, "{message}");
                return (acknowledged, message);
            }
            Err(lost) => panic!("{lost:?}"),
        }
        assert!(acknowledged.len() < 20_000, "the disk is never full");
    }
}

#[test]
fn a_full_disk_stops_acceptance_and_loses_nothing() {
    let network = Network::new(4, 1, 250);
    let mut nodes: Vec<Node> = (0..VALIDATOR).map(|at| network.start(at)).collect();
    for at in [VALIDATOR, FOLLOWER] {
        let mut node = Node::spawn_on_small_disk(network.node(at), ROOM);
        assert!(node.ready(), "{}", node.log());
        nodes.push(node);
    }
    let clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    clients[FOLLOWER].await_height(1);
    let (acknowledged, said) = fill(&clients[FOLLOWER]);
    assert!(acknowledged.len() > 50, "{}", acknowledged.len());
    assert!(said.contains("database") && said.contains("full"), "{said}");

    // The others go on, and what these two have can be read.
    eventually("the validator says that its disk is full", || {
        nodes[VALIDATOR].log().contains("the disk is full").then_some(())
    });
    let height = clients[0].height();
    clients[0].await_height(height + 6);
    let stuck = [VALIDATOR, FOLLOWER].map(|at| clients[at].height());
    let blocks = clients[0].blocks(clients[0].height());
    for (at, height) in [VALIDATOR, FOLLOWER].into_iter().zip(stuck) {
        assert!(height + 4 < blocks.len() as u64, "no block is kept of which there is no room");
        assert_eq!(
            clients[at].blocks(height),
            blocks.range(..=height).map(|(n, b)| (*n, b.clone())).collect()
        );
        assert!(nodes[at].log().contains("the disk is full"), "{}", nodes[at].log());
    }
    let (refused, encoded) = transfer(&account(0), acknowledged.len() as u64, PAYEE);
    assert!(matches!(submit(&clients[FOLLOWER], refused, &encoded), Err(Unanswered::Refused { .. })));
    assert_eq!(
        clients[0].ask("eth_getTransactionByHash", &json!([refused])),
        json!(null),
        "nobody heard of it"
    );

    for at in [VALIDATOR, FOLLOWER] {
        nodes[at].free_disk();
    }
    let height = clients[0].height();
    for client in &clients {
        client.await_height(height + 4);
    }
    submit(&clients[FOLLOWER], refused, &encoded).unwrap();
    for hash in acknowledged.iter().chain([&refused]) {
        clients[FOLLOWER].await_receipt(*hash);
    }
    // Blocks now need the validator.
    nodes.remove(0).kill();
    let height = clients[1].height() + 1;
    clients[1].await_height(height + 4);
    nodes.insert(0, network.start(0));
    agree(&nodes);
    for node in nodes {
        node.kill();
    }
    let nodes = network.start_all();
    let height = agree(&nodes);
    for node in &nodes {
        node.client().await_height(height + 3);
    }
    for hash in &acknowledged {
        clients[FOLLOWER].await_receipt(*hash);
    }
    for node in nodes {
        node.stop();
    }
}
