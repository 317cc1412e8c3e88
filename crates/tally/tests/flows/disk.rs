//! A disk that is full, and then is not any more.

use super::load::{Party, World};
use super::support::{Network, Node};
use serde_json::{Value, json};
use std::time::Duration;
use tally::flows_network::layout::NodeRunFile;
use tally_rpc::{Outcome, Refusal, RefusalCode, StartFlow};

/// More than an empty database, less than a few dozen issues one after the other.
const ROOM: u64 = 1 << 20;

fn issue() -> Value {
    json!({ "amount": "1.00 USD" })
}

/// Issues until the node refuses: how many were asked for, how many of them acknowledged, and the refusal.
async fn fill(party: &Party) -> (usize, usize, Refusal) {
    let (mut asked, mut acknowledged) = (0, 0);
    loop {
        asked += 1;
        let Value::Object(arguments) = issue() else { unreachable!("it is an object") };
        let request_id = Some(request(asked));
        let start = StartFlow { flow: "CashIssue".to_owned(), arguments, request_id };
        let client = party.client().await;
        match tokio::time::timeout(Duration::from_secs(2), client.run_flow(&start)).await {
            Ok(Ok(end)) => {
                assert!(matches!(end.outcome, Outcome::Completed(_)), "{end:?}");
                acknowledged += 1;
            }
            Ok(Err(error)) => {
                return (asked, acknowledged, error.refusal().unwrap_or_else(|| panic!("{error:?}")).clone());
            }
            // Accepted before the disk was known to be full; it waits for room.
            Err(_) => {}
        }
        assert!(asked < 1_000, "the disk is never full");
    }
}

fn request(number: usize) -> String {
    format!("issue-{number}")
}

#[test]
fn a_full_disk_stops_acceptance_and_loses_nothing() {
    let network = Network::pair();
    let directory = network.node("PartyA");
    let world = World::new(vec![Party::new(directory.clone())]);
    let mut node = Node::spawn_on_small_disk(directory.clone(), ROOM);
    assert!(node.ready(), "{}", node.log());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let coins = || runtime.block_on(world.vault(0)).len();

    let (asked, acknowledged, refusal) = runtime.block_on(fill(&world.parties[0]));
    assert_eq!(refusal.code, RefusalCode::StoreUnavailable, "{refusal:?}");
    assert!(refusal.to_string().contains("disk of the database is full"), "{refusal}");
    assert!((10..asked).contains(&acknowledged), "{acknowledged} of {asked}");
    // What is durable can be read all the while, and nothing else is shown.
    assert_eq!(coins(), acknowledged);
    let http = NodeRunFile::read(&directory).unwrap().unwrap().http.unwrap();
    let ready = ureq::get(format!("http://{http}/ready")).config().http_status_as_error(false).build().call();
    let mut ready = ready.unwrap();
    assert_eq!(ready.status(), 503);
    assert!(ready.body_mut().read_to_string().unwrap().contains("cannot write its database"));

    node.free_disk();
    for number in 1..=asked {
        let outcome = runtime.block_on(world.ask(0, "CashIssue", issue(), &request(number)));
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    }
    assert_eq!(coins(), asked, "each was issued once");
    node.kill();
    let node = network.start("PartyA");
    assert_eq!(coins(), asked, "and is there after a restart");
    node.stop();
}
