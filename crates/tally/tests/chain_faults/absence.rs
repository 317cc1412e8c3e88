//! A validator that was restarted, that lost its data, that was away for long: it catches up and takes part again.

use super::client::{Client, number};
use super::load::Load;
use super::support::{Network, Node, agree, eventually};
use serde_json::json;
use std::time::{Duration, Instant};
use tally_sim::Rng;

/// The validator that is away.
const ABSENT: usize = 3;
/// Blocks that a long absence lasts.
const LONG: u64 = 60;

/// The newest block that a validator has proposed.
fn last_proposed(client: &Client, validator: &str) -> u64 {
    let metrics = client.ask("qbft_getSignerMetrics", &json!(["earliest", "latest"]));
    let of = metrics.as_array().unwrap().iter().find(|signer| signer["address"] == validator);
    number(&of.unwrap_or_else(|| panic!("{validator} is not in {metrics}"))["lastProposedBlockNumber"])
}

/// Waits until the validator proposes, then takes another one away, so that every block needs its seal.
fn takes_part(network: &Network, nodes: &mut Vec<Node>, other: usize) {
    let client = nodes[(other + 1) % ABSENT].client();
    let (back, began) = (client.height(), Instant::now());
    let validator = network.address(ABSENT);
    eventually("the validator proposes", || (last_proposed(&client, &validator) > back).then_some(()));
    let proposed = client.height() - back;
    let node = nodes.remove(other);
    node.kill();
    // What was on its way when the other one ended does not count.
    let height = client.height() + 1;
    client.await_height(height + 4);
    nodes.insert(other, network.start(other));
    println!("it proposes within {proposed} blocks, {:.1?} until blocks have needed it", began.elapsed());
}

#[test]
fn a_restarted_a_wiped_and_a_long_absent_validator_take_part_again() {
    let mut rng = Rng::new(3);
    let network = Network::new(4, 0, 250);
    let mut nodes = network.start_all();
    let clients: Vec<Client> = nodes[..ABSENT].iter().map(Node::client).collect();
    clients[0].await_height(3);
    let load = Load::start(&clients, 1, Duration::from_millis(20), &mut rng);

    nodes.pop().unwrap().stop();
    nodes.push(network.start(ABSENT));
    println!("restarted");
    takes_part(&network, &mut nodes, 0);

    nodes.pop().unwrap().kill();
    std::fs::remove_dir_all(network.node(ABSENT).join("database")).unwrap();
    let node = network.start(ABSENT);
    let known = clients[0].height();
    let began = Instant::now();
    node.client().await_height(known);
    println!("wiped: {known} blocks again in {:.1?}", began.elapsed());
    nodes.push(node);
    takes_part(&network, &mut nodes, 1);

    nodes.pop().unwrap().kill();
    let gone = clients[0].height();
    let began = Instant::now();
    clients[0].await_height(gone + LONG);
    println!("{LONG} blocks without it in {:.1?}", began.elapsed());
    let node = network.start(ABSENT);
    let began = Instant::now();
    node.client().await_height(clients[0].height());
    println!("away for long: caught up in {:.1?}", began.elapsed());
    nodes.push(node);
    takes_part(&network, &mut nodes, 2);

    let sent = load.stop();
    for hash in sent.acknowledged.iter().chain(&sent.taken) {
        clients[0].await_receipt(*hash);
    }
    assert!(sent.acknowledged.len() > 100, "{sent:?}");
    agree(&nodes);
    for node in nodes {
        node.stop();
    }
}
