use std::sync::atomic::Ordering;

use serde_json::json;

use super::support::{state, step, update};
use super::*;
use crate::{FeedClosed, FlowEvent, Outcome, VaultQuery};

#[tokio::test]
async fn a_watched_flow_tells_its_steps_and_ends_with_its_outcome() {
    let server = Running::new().await;
    let client = server.admin().await;
    let mut watch = client.watch_flow("any").await.unwrap();
    assert_eq!(watch.next().await.unwrap(), Some(FlowEvent::Step(step("Building"))));
    assert_eq!(watch.next().await.unwrap(), Some(FlowEvent::Step(step("Signing"))));
    assert_eq!(watch.next().await.unwrap(), Some(FlowEvent::Ended(Outcome::Completed(json!(1)))));
    assert_eq!(watch.next().await.unwrap(), None);

    let mut watch = client.watch_flow("dropped").await.unwrap();
    assert_eq!(watch.next().await.unwrap(), Some(FlowEvent::Step(step("Building"))));
    assert_eq!(code(watch.next().await), RefusalCode::Unavailable);
}

#[tokio::test]
async fn a_tracked_vault_tells_a_page_and_then_changes() {
    let server = Running::new().await;
    let (page, mut track) = server.admin().await.track_vault(&VaultQuery::default()).await.unwrap();
    assert_eq!(page.states, [state("00:0")]);
    assert_eq!(track.next().await.unwrap(), update());
    assert_eq!(code(track.next().await), RefusalCode::Unavailable);
}

#[tokio::test]
async fn a_slow_client_is_disconnected_with_the_reason_and_the_node_goes_on() {
    let mut server = Running::with(|settings| settings.feed_items = 16).await;
    let client = server.admin().await;
    let mut watch = client.watch_flow("flood").await.unwrap();
    // Nobody reads: the connection's window fills, then the feed, and the node is told at once.
    let (why, offered) = server.signals.closed.recv().await.unwrap();
    assert_eq!(why, FeedClosed::Slow);
    client.node_info().await.unwrap();
    let mut read = 0;
    let end = loop {
        match watch.next().await {
            Ok(event) => {
                assert!(matches!(event, Some(FlowEvent::Step(_))));
                read += 1;
            }
            end => break end,
        }
    };
    assert_eq!(code(end), RefusalCode::ClientSlow);
    assert!(read < offered, "{read} of {offered}: what waited in the feed is dropped");
    let figures = &server.figures;
    assert_eq!((figures.clients_slow(), figures.connections(), figures.logins()), (1, 1, 1));
    assert!(figures.calls() >= 3);
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_feed() {
    let mut server = Running::new().await;
    let client = server.admin().await;
    let watch = client.watch_flow("silent").await.unwrap();
    drop(watch);
    assert_eq!(server.signals.closed.recv().await, Some((FeedClosed::Gone, 0)));
}

#[tokio::test]
async fn many_flows_run_on_one_stream_and_are_answered_as_they_end() {
    let mut server = Running::new().await;
    let client = server.admin().await;
    let (starts, mut ends) = client.run_flows().await.unwrap();
    assert!(starts.send(0, &start("Wait")).await);
    server.signals.begun.recv().await.unwrap();
    for tag in 1..=1000 {
        let flow = if tag % 10 == 0 { start("Unheard") } else { echo(&tag.to_string()) };
        assert!(starts.send(tag, &flow).await);
        let (answered, end) = ends.next().await.unwrap().unwrap();
        assert_eq!(answered, tag, "one that waits holds no other up");
        match end {
            Ok(end) => assert_eq!(end.outcome, Outcome::Completed(json!({"text": tag.to_string()}))),
            refusal => assert_eq!((code(refusal), tag % 10), (RefusalCode::FlowUnknown, 0)),
        }
    }
    drop(starts);
    server.node.go.notify_one();
    assert!(matches!(ends.next().await, Ok(Some((0, Ok(_))))));
    assert!(matches!(ends.next().await, Ok(None)));
}

#[tokio::test]
async fn a_stream_runs_no_more_flows_at_once_than_it_may() {
    let mut server = Running::with(|settings| settings.flows_per_stream = 8).await;
    let client = server.admin().await;
    let (starts, mut ends) = client.run_flows().await.unwrap();
    for tag in 0..100 {
        assert!(starts.send(tag, &start("Wait")).await);
    }
    drop(starts);
    for _ in 0..8 {
        server.signals.begun.recv().await.unwrap();
    }
    for _ in 0..100 {
        server.node.go.notify_one();
        assert!(matches!(ends.next().await, Ok(Some((_, Ok(_))))));
    }
    assert!(matches!(ends.next().await, Ok(None)));
    assert_eq!(server.node.most.load(Ordering::SeqCst), 8);
}

#[tokio::test]
async fn a_server_that_stops_ends_what_is_followed_and_answers_what_runs() {
    let mut server = Running::new().await;
    let client = server.admin().await;
    let mut watch = client.watch_flow("silent").await.unwrap();
    let (starts, mut ends) = client.run_flows().await.unwrap();
    assert!(starts.send(1, &start("Wait")).await);
    server.signals.begun.recv().await.unwrap();
    server.stop();
    assert_eq!(code(watch.next().await), RefusalCode::Unavailable);
    // No more starts are read, what runs is answered, and the client learns that there may be unread ones.
    server.node.go.notify_one();
    assert!(matches!(ends.next().await, Ok(Some((1, Ok(_))))));
    assert_eq!(code(ends.next().await), RefusalCode::Unavailable);
    server.served.await.unwrap();
}
