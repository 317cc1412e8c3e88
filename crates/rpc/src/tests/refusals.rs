use std::io::ErrorKind;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::{Request, Status};

use super::*;
use crate::convert::{Answered, answered};
use crate::{FlowQuery, UndeliveredQuery, VaultQuery, wire};

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Status>) -> (tonic::Code, RefusalCode) {
    let status = result.unwrap_err();
    match answered(&status) {
        Answered::Refused(refusal) => (status.code(), refusal.code),
        other => panic!("not a refusal: {other:?}"),
    }
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_user_look_the_same() {
    let server = Running::new().await;
    let said = |result: Result<Client, ClientError>| result.unwrap_err().to_string();
    let wrong = server.connect("admin", "guess").await;
    let unknown = server.connect("nobody", "guess").await;
    let (wrong, unknown) = (said(wrong), said(unknown));
    assert_eq!(wrong, unknown);
    assert!(wrong.contains("bad-credentials"), "{wrong}");
    for _ in 0..4 {
        assert_eq!(code(server.connect("admin", "guess").await), RefusalCode::BadCredentials);
    }
    assert_eq!(code(server.connect("admin", "secret").await), RefusalCode::LoginThrottled);
    server.connect("guest", "guest").await.unwrap();
    server.pass(Duration::from_secs(1));
    server.connect("admin", "secret").await.unwrap();
}

#[tokio::test]
async fn no_token_a_wrong_token_and_an_expired_token_are_refused() {
    let server = Running::with(|settings| settings.token_lifetime = Duration::from_secs(60)).await;
    let (mut node, token) = server.admin().await.raw().await;
    let mut ask = async |token: Option<&str>| {
        let mut request = Request::new(wire::NodeInfoRequest {});
        if let Some(token) = token {
            request.metadata_mut().insert("authorization", token.parse().unwrap());
        }
        node.node_info(request).await
    };
    let token = token.to_str().unwrap();
    assert!(ask(Some(token)).await.is_ok());
    let unauthenticated = tonic::Code::Unauthenticated;
    assert_eq!(refused(ask(None).await), (unauthenticated, RefusalCode::TokenMissing));
    assert_eq!(refused(ask(Some("Basic YTpi")).await), (unauthenticated, RefusalCode::TokenMissing));
    assert_eq!(refused(ask(Some("Bearer ")).await), (unauthenticated, RefusalCode::TokenUnknown));
    let other = format!("Bearer {}", "0".repeat(64));
    assert_eq!(refused(ask(Some(&other)).await), (unauthenticated, RefusalCode::TokenUnknown));
    server.pass(Duration::from_secs(60));
    assert_eq!(refused(ask(Some(token)).await), (unauthenticated, RefusalCode::TokenExpired));
}

#[tokio::test]
async fn every_call_but_login_needs_a_token() {
    let server = Running::new().await;
    let (node, _) = server.admin().await.raw().await;
    macro_rules! no_token {
        ($($method:ident($message:expr)),+ $(,)?) => {$(
            let refusal = refused(node.clone().$method(Request::new($message)).await.map(|_| ()));
            assert_eq!(refusal, (tonic::Code::Unauthenticated, RefusalCode::TokenMissing), stringify!($method));
        )+};
    }
    no_token!(
        start_flow(wire::StartFlowRequest::default()),
        run_flow(wire::StartFlowRequest::default()),
        run_flows(futures_util::stream::empty()),
        watch_flow(wire::WatchFlowRequest::default()),
        get_flow(wire::GetFlowRequest::default()),
        list_flows(wire::ListFlowsRequest::default()),
        list_undelivered(wire::ListUndeliveredRequest::default()),
        pause_flow(wire::PauseFlowRequest::default()),
        retry_flow(wire::RetryFlowRequest::default()),
        kill_flow(wire::KillFlowRequest::default()),
        list_flow_names(wire::ListFlowNamesRequest {}),
        query_vault(wire::QueryVaultRequest::default()),
        track_vault(wire::QueryVaultRequest::default()),
        get_transaction(wire::GetTransactionRequest::default()),
        upload_attachment(futures_util::stream::empty()),
        download_attachment(wire::DownloadAttachmentRequest::default()),
        node_info(wire::NodeInfoRequest {}),
        network_map(wire::NetworkMapRequest {}),
        drain(wire::DrainRequest { draining: None }),
        parameters(wire::ParametersRequest { accept: None }),
    );
}

#[tokio::test]
async fn a_missing_permission_is_refused_by_its_name() {
    let server = Running::new().await;
    let guest = server.connect("guest", "guest").await.unwrap();
    let said = |result: Result<(), ClientError>| {
        let error = result.unwrap_err();
        let refusal = error.refusal().expect("a refusal");
        assert_eq!(refusal.code, RefusalCode::PermissionMissing);
        refusal.reason.split('`').nth(3).map(str::to_owned).unwrap()
    };
    let flows = FlowQuery::default();
    let vault = VaultQuery::default();
    assert_eq!(said(guest.start_flow(&start("Echo")).await.map(drop)), "flow:Echo");
    assert_eq!(said(guest.run_flow(&start("Unheard")).await.map(drop)), "flow:Unheard");
    assert_eq!(said(guest.watch_flow("x").await.map(drop)), "flows:read");
    assert_eq!(said(guest.flow("x").await.map(drop)), "flows:read");
    assert_eq!(said(guest.flows(&flows).await.map(drop)), "flows:read");
    assert_eq!(said(guest.undelivered(&UndeliveredQuery::default()).await.map(drop)), "flows:read");
    assert_eq!(said(guest.pause_flow("x").await), "flows:operate");
    assert_eq!(said(guest.retry_flow("x").await), "flows:operate");
    assert_eq!(said(guest.kill_flow("x").await), "flows:operate");
    assert_eq!(said(guest.flow_names().await.map(drop)), "node:read");
    assert_eq!(said(guest.query_vault(&vault).await.map(drop)), "vault:read");
    assert_eq!(said(guest.track_vault(&vault).await.map(drop)), "vault:read");
    assert_eq!(said(guest.transaction("x").await.map(drop)), "vault:read");
    assert_eq!(said(guest.upload_attachment(&Bytes::new()).await.map(drop)), "attachments:write");
    assert_eq!(said(guest.attachment("x", 0).await.map(drop)), "vault:read");
    assert_eq!(said(guest.node_info().await.map(drop)), "node:read");
    assert_eq!(said(guest.network_map().await.map(drop)), "network:read");
    assert_eq!(said(guest.drain(None).await.map(drop)), "node:read");
    assert_eq!(said(guest.drain(Some(true)).await.map(drop)), "node:operate");

    let teller = server.connect("teller", "staple").await.unwrap();
    teller.run_flow(&echo("x")).await.unwrap();
    assert_eq!(said(teller.run_flow(&start("Fail")).await.map(drop)), "flow:Fail");
    let (starts, mut ends) = teller.run_flows().await.unwrap();
    assert!(starts.send(1, &start("Fail")).await);
    let (tag, end) = ends.next().await.unwrap().unwrap();
    assert_eq!((tag, said(end.map(drop)).as_str()), (1, "flow:Fail"));
}

#[tokio::test]
async fn what_a_request_says_is_checked() {
    let server = Running::new().await;
    let client = server.admin().await;
    assert_eq!(code(client.run_flow(&start("Unheard")).await), RefusalCode::FlowUnknown);
    assert_eq!(code(client.watch_flow("unknown").await), RefusalCode::FlowIdUnknown);
    assert_eq!(code(client.flow("").await), RefusalCode::RequestInvalid);
    assert_eq!(code(client.transaction(&"x".repeat(5000)).await), RefusalCode::RequestInvalid);

    let (mut node, token) = client.raw().await;
    for arguments in ["{", "[]", "7", "not JSON"] {
        let arguments_json = arguments.to_owned();
        let mut request = Request::new(wire::StartFlowRequest {
            flow: "Echo".into(),
            arguments_json,
            request_id: String::new(),
        });
        request.metadata_mut().insert("authorization", token.clone());
        let (grpc, code) = refused(node.run_flow(request).await);
        assert_eq!(
            (grpc, code),
            (tonic::Code::InvalidArgument, RefusalCode::ArgumentsInvalid),
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn messages_and_attachments_beyond_their_limits_are_refused() {
    let server = Running::with(|settings| {
        settings.message_limit = 100_000;
        settings.attachment_limit = 200_000;
    })
    .await;
    let client = server.admin().await;
    assert!(client.run_flow(&echo(&"x".repeat(90_000))).await.is_ok());
    assert_eq!(code(client.run_flow(&echo(&"x".repeat(100_000))).await), RefusalCode::MessageTooLarge);
    let content = Bytes::from(vec![7; 200_001]);
    assert!(client.upload_attachment(&content.slice(1..)).await.is_ok());
    assert_eq!(code(client.upload_attachment(&content).await), RefusalCode::AttachmentTooLarge);
    assert_eq!(server.node.uploads.lock().unwrap().len(), 1);
    let (starts, mut ends) = client.run_flows().await.unwrap();
    assert!(starts.send(1, &echo(&"x".repeat(100_000))).await);
    assert_eq!(code(ends.next().await), RefusalCode::MessageTooLarge);
}

#[tokio::test]
async fn a_deadline_ends_the_call_on_both_sides() {
    let mut server = Running::new().await;
    let client = server.admin_with(|settings| settings.deadline = Some(Duration::from_millis(50))).await;
    let refusal = client.run_flow(&start("Never")).await.unwrap_err().refusal().cloned().unwrap();
    assert_eq!(refusal.code, RefusalCode::DeadlineExceeded);
    assert!(refusal.reason.contains("deadline passed"), "the server says it: {refusal}");
    server.signals.begun.recv().await.unwrap();
    assert_eq!(
        server.node.running.load(std::sync::atomic::Ordering::SeqCst),
        0,
        "the node's future is dropped"
    );

    let (mut node, token) = client.raw().await;
    let mut request = Request::new(wire::WatchFlowRequest { flow_id: "silent".into() });
    request.metadata_mut().insert("authorization", token);
    request.set_timeout(Duration::from_millis(50));
    let mut events = node.watch_flow(request).await.unwrap().into_inner();
    let expected = (tonic::Code::DeadlineExceeded, RefusalCode::DeadlineExceeded);
    assert_eq!(refused(events.message().await), expected, "streams have deadlines too");
    assert_eq!(server.signals.closed.recv().await.map(|(why, _)| why), Some(crate::FeedClosed::Gone));
}

#[tokio::test]
async fn a_connection_too_many_is_told_so() {
    let server = Running::with(|settings| settings.connections = 1).await;
    let first = server.admin().await;
    assert_eq!(code(server.connect("teller", "staple").await), RefusalCode::ConnectionsExceeded);
    first.node_info().await.unwrap();
    assert_eq!(server.figures.connections_refused(), 1);
    drop(first);
    // The place is free once the server has seen the connection close.
    loop {
        match server.connect("teller", "staple").await {
            Ok(_) => break,
            error => assert_eq!(code(error), RefusalCode::ConnectionsExceeded),
        }
    }
}

#[tokio::test]
async fn connections_without_a_login_keep_no_user_out() {
    let server = Running::with(|settings| settings.connections = 8).await;
    let user = server.admin().await;
    user.node_info().await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(&server.address).await.unwrap());
    }
    let second = server.connect("teller", "staple").await.unwrap();
    second.query_vault(&crate::VaultQuery::default()).await.unwrap();
    user.node_info().await.unwrap();
    // The oldest of them were closed.
    let mut nothing = [0; 1];
    assert!(matches!(silent[0].read(&mut nothing).await, Ok(0) | Err(_)));
    assert!(server.figures.connections_refused() >= 43);
}

#[tokio::test]
async fn one_address_cannot_take_all_places_of_strangers() {
    let server = Running::with(|settings| settings.strangers_per_address = 2).await;
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(TcpStream::connect(&server.address).await.unwrap());
    }
    let mut nothing = [0; 1];
    for first in &mut silent[..3] {
        assert!(matches!(first.read(&mut nothing).await, Ok(0) | Err(_)));
    }
    assert_eq!(server.figures.connections_refused(), 3);
    server.admin().await.node_info().await.unwrap();
}

#[tokio::test]
async fn who_does_not_log_in_in_time_is_closed_and_who_does_stays() {
    let limit = Duration::from_millis(300);
    let server = Running::with(|settings| settings.login_limit = limit).await;
    let user = server.admin().await;
    user.node_info().await.unwrap();
    // Without a handshake, and with one and nothing after it.
    let stream = TcpStream::connect(&server.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(TLS.1.clone());
    let mut shaken = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    let mut said = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(5), shaken.read_to_end(&mut said)).await;
    assert!(closed.is_ok(), "it was closed");
    tokio::time::sleep(limit).await;
    user.node_info().await.unwrap();
    assert_eq!(server.figures.logins(), 1, "on the same connection");
}

#[tokio::test]
async fn without_tls_there_is_nothing_here() {
    let server = Running::new().await;
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer).await {
        // At most a TLS alert.
        Ok(_) => assert!(answer.is_empty() || answer[0] == 21, "{answer:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    server.admin().await.node_info().await.unwrap();
}

#[tokio::test]
async fn a_handshake_that_does_not_happen_is_ended() {
    let server = Running::with(|settings| settings.handshake_limit = Duration::from_millis(50)).await;
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_client_does_not_talk_to_another_server() {
    let server = Running::new().await;
    let connect = |name: &'static str, tls: Arc<ClientConfig>| {
        let address = server.address.clone();
        async move { Client::connect(&address, name, tls, "admin", "secret").await }
    };
    assert!(matches!(connect("elsewhere", TLS.1.clone()).await, Err(ClientError::Connect { .. })));
    let (_, stranger) = support::tls();
    assert!(matches!(connect("localhost", stranger).await, Err(ClientError::Connect { .. })));
    assert!(matches!(connect("not a name", TLS.1.clone()).await, Err(ClientError::ServerName { .. })));
    let nowhere = Client::connect("no port", "localhost", TLS.1.clone(), "a", "b").await;
    assert!(matches!(nowhere, Err(ClientError::Connect { .. })));
}
