use bytes::Bytes;
use serde_json::json;

use super::support::{failure, flow_info, network_map, node_info, state, undelivered_page};
use super::*;
use crate::{FlowInfo, FlowQuery, FlowState, Outcome, UndeliveredQuery, VaultQuery};

#[tokio::test]
async fn every_call_says_what_the_node_says() {
    let server = Running::new().await;
    let client = server.admin().await;

    let end = client.run_flow(&echo("hé")).await.unwrap();
    assert_eq!(end.outcome, Outcome::Completed(json!({"text": "hé"})));
    assert_eq!(client.run_flow(&start("Fail")).await.unwrap().outcome, Outcome::Failed(failure()));
    assert_eq!(client.flow("ab").await.unwrap(), flow_info("ab"));
    let states = vec![FlowState::Running, FlowState::Completed];
    let query = FlowQuery { states: states.clone(), cursor: Some("c".into()), ..FlowQuery::default() };
    let page = client.flows(&query).await.unwrap();
    let expected: Vec<_> = states.into_iter().map(|state| FlowInfo { state, ..flow_info("x") }).collect();
    assert_eq!((page.flows, page.next.as_deref()), (expected, Some("c+")));
    let query = UndeliveredQuery {
        transaction_id: Some("ee".into()),
        cursor: Some("d".into()),
        ..UndeliveredQuery::default()
    };
    assert_eq!(client.undelivered(&query).await.unwrap(), undelivered_page("ee", Some("d".into())));
    assert_eq!(code(client.pause_flow("ab").await), RefusalCode::FlowState);
    client.retry_flow("ab").await.unwrap();
    client.kill_flow("ab").await.unwrap();
    let names = client.flow_names().await.unwrap();
    assert_eq!((names[0].flow.as_str(), names[0].versions.as_slice()), ("Echo", &[1, 2][..]));

    let query = VaultQuery { references: vec!["00:1".into(), "00:2".into()], ..VaultQuery::default() };
    let page = client.query_vault(&query).await.unwrap();
    assert_eq!(page.states, [state("00:1"), state("00:2")]);
    assert_eq!(page.next.as_deref(), Some("100"), "a page that is not said has 100");
    let transaction = client.transaction("cd").await.unwrap();
    assert_eq!((transaction.transaction_id.as_str(), &transaction.encoded[..]), ("cd", &b"\x00\xff"[..]));

    assert_eq!(client.node_info().await.unwrap(), node_info());
    assert_eq!(client.network_map().await.unwrap(), network_map());
    for change in [None, Some(true), Some(false)] {
        let drain = client.drain(change).await.unwrap();
        assert_eq!((drain.draining, drain.under_way), (change == Some(true), 1));
        assert_eq!((drain.for_a_person, drain.waiting), (2, 3));
    }
}

#[tokio::test]
async fn a_start_is_told_apart_by_user_and_request_id() {
    let server = Running::new().await;
    let admin = server.admin().await;
    let teller = server.connect("teller", "staple").await.unwrap();
    let same = StartFlow { request_id: Some("r1".into()), ..echo("x") };
    let first = admin.start_flow(&same).await.unwrap();
    assert_eq!(admin.start_flow(&same).await.unwrap(), first);
    assert_ne!(teller.start_flow(&same).await.unwrap(), first);
    assert_ne!(admin.start_flow(&echo("x")).await.unwrap(), first);
}

#[tokio::test]
async fn attachments_come_back_as_they_went() {
    let server = Running::new().await;
    let client = server.admin().await;
    for length in [0, 1, 65_536, 3_000_001] {
        let content: Bytes = (0..length).map(|n: u32| n.to_le_bytes()[1]).collect();
        let id = client.upload_attachment(&content).await.unwrap();
        assert_eq!(client.attachment(&id, content.len()).await.unwrap(), content);
        if let Some(short) = content.len().checked_sub(1) {
            assert!(matches!(client.attachment(&id, short).await, Err(ClientError::NotUnderstood(_))));
        }
    }
    assert_eq!(code(client.attachment("00", 1).await), RefusalCode::AttachmentUnknown);
}

#[tokio::test]
async fn a_client_logs_in_again_when_its_token_expires() {
    let server = Running::with(|settings| settings.token_lifetime = Duration::from_secs(60)).await;
    let client = server.admin().await;
    let (_, first) = client.raw().await;
    server.pass(Duration::from_secs(60));
    // Many calls at once make one login.
    let calls = (0..20).map(|_| client.node_info());
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap(), node_info());
    }
    let (_, second) = client.raw().await;
    assert_ne!(first, second);
    server.pass(Duration::from_secs(60));
    let (starts, mut ends) = client.run_flows().await.unwrap();
    assert!(starts.send(9, &echo("x")).await);
    assert!(matches!(ends.next().await, Ok(Some((9, Ok(_))))), "streams are opened anew as well");
}

#[tokio::test]
async fn a_client_connects_again_after_the_connection_is_lost() {
    let mut server = Running::with(|settings| settings.drain_limit = Duration::ZERO).await;
    let client = server.admin().await;
    let call = {
        let client = client.clone();
        tokio::spawn(async move { client.run_flow(&start("Never")).await })
    };
    server.signals.begun.recv().await.unwrap();
    server.stop();
    (&mut server.served).await.unwrap();
    assert!(matches!(call.await.unwrap(), Err(ClientError::Lost(_))));
    assert!(matches!(client.node_info().await, Err(ClientError::Connect { .. })));

    let address = server.address.parse().unwrap();
    let again = Running::with(|settings| settings.address = address).await;
    assert_eq!(client.node_info().await.unwrap(), node_info(), "{}", again.address);
}

#[tokio::test]
async fn a_server_that_stops_lets_calls_end_and_takes_no_more() {
    let mut server = Running::new().await;
    let client = server.admin().await;
    let call = {
        let client = client.clone();
        tokio::spawn(async move { client.run_flow(&start("Wait")).await })
    };
    server.signals.begun.recv().await.unwrap();
    server.stop();
    // The connection is told to close; once the client knows, it needs another, which is not to be had.
    while client.node_info().await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!server.served.is_finished());
    server.node.go.notify_one();
    assert_eq!(call.await.unwrap().unwrap().outcome, Outcome::Completed(json!(null)));
    server.served.await.unwrap();
}
