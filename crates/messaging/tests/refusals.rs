//! Whoever breaks a rule is refused with a typed reason, on both sides where there are two, and disturbs
//! nobody else.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod support;

use std::time::Duration;

use support::authority::Authority;
use support::raw::{Raw, acknowledged, frame, hello, message, welcome};
use support::{Network, Party, name, settings, within};
use tally_messaging::{ConnectionError, Link, ProtocolError, Reason, Settings};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

const GAP: u16 = 4;

/// A node, and a member of its network whose every byte the test decides.
async fn node_and_raw(network: &Network) -> (Party, Raw) {
    let b = network.node("B").await;
    let mallory = name("Mallory");
    network.directory.set(&mallory, "127.0.0.1:1");
    let raw = Raw::connect(b.messaging.local_addr(), &network.authority.credentials(&mallory), &b.name).await;
    (b, raw)
}

async fn still_works(network: &Network, node: &Party) {
    let honest = network.node("Honest").await;
    honest.send(&node.name, b"still there?");
    within(node.until_received(&honest, 1)).await;
}

/// Greets, sends, and expects to be told off.
async fn told(sent: &[Vec<u8>], reason: Reason) -> (u16, String) {
    let network = Network::new();
    let (b, mut raw) = node_and_raw(&network).await;
    raw.write(&hello(1, 1)).await;
    assert_eq!(within(raw.read()).await.unwrap().kind, 2);
    raw.write(&sent.concat()).await;
    within(b.refusal(reason)).await;
    let closing = loop {
        let word = within(raw.read_word()).await.expect("a reason before the end");
        if word.kind != 4 {
            break word.closing();
        }
    };
    assert!(within(raw.read()).await.is_none(), "closed");
    assert_eq!(b.counted(reason), 1);
    still_works(&network, &b).await;
    closing
}

#[tokio::test]
async fn a_gap_closes_the_connection_after_what_came_before_it() {
    let network = Network::new();
    let (b, mut raw) = node_and_raw(&network).await;
    raw.write(&hello(1, 1)).await;
    within(raw.read()).await;
    raw.write(&[message(1, b"one"), message(3, b"three")].concat()).await;
    let error = within(b.refusal(Reason::Gap)).await;
    let expected = ProtocolError::Gap { expected: 2, found: 3 };
    assert!(matches!(&*error, ConnectionError::Protocol(found) if *found == expected), "{error}");
    assert_eq!(within(raw.read_word()).await.unwrap().number(), 1, "the acknowledgement of the first");
    let (code, text) = within(raw.read_word()).await.unwrap().closing();
    assert_eq!(code, GAP);
    assert!(text.contains("message 3 came where 2 was due"), "{text}");
    assert_eq!(b.store.received_from(&name("Mallory"), b.queue), [b"one"]);
}

#[tokio::test]
async fn repeats_are_dropped() {
    let network = Network::new();
    let (b, mut raw) = node_and_raw(&network).await;
    raw.write(&hello(1, 1)).await;
    within(raw.read()).await;
    let sent = [(1, b"a"), (2, b"b"), (1, b"x"), (2, b"x"), (2, b"x"), (3, b"c"), (0, b"x")];
    raw.write(&sent.map(|(number, bytes)| message(number, bytes)).concat()).await;
    loop {
        let word = within(raw.read_word()).await.unwrap();
        if word.number() == 3 {
            break;
        }
    }
    assert_eq!(b.store.received_from(&name("Mallory"), b.queue), [b"a", b"b", b"c"]);
    raw.write(&frame(5, &[])).await;
    raw.write(&message(4, b"d")).await;
    assert_eq!(within(raw.read_word()).await.unwrap().number(), 4);
    assert_eq!(b.messaging.metrics().messages_repeated, 4);
}

#[tokio::test]
async fn an_oversized_frame_is_refused_before_it_is_read() {
    // Only the length: the rest never comes.
    let (code, text) = told(&[(u32::MAX).to_le_bytes().to_vec()], Reason::TooLarge).await;
    assert_eq!(code, 3);
    assert!(text.contains("larger than the limit of 10485760"), "{text}");
}

#[tokio::test]
async fn frames_that_are_none_are_refused() {
    told(&[frame(9, &[b"what"])], Reason::Malformed).await;
    told(&[0_u32.to_le_bytes().to_vec()], Reason::Malformed).await;
    told(&[frame(3, &[b"short"])], Reason::Malformed).await;
    told(&[hello(1, 1)], Reason::OutOfTurn).await;
    told(&[acknowledged(1)], Reason::OutOfTurn).await;
    told(&[welcome(1, 1)], Reason::OutOfTurn).await;
    let (_, text) = told(&[message(1, b"refuse me")], Reason::Invalid).await;
    assert!(text.contains("refuse me"), "{text}");
}

#[tokio::test]
async fn another_version_is_refused_with_the_versions() {
    let network = Network::new();
    let (b, mut raw) = node_and_raw(&network).await;
    raw.write(&hello(2, 7)).await;
    let (code, text) = within(raw.read_word()).await.unwrap().closing();
    assert_eq!(code, 1);
    assert!(text.contains("versions 2 to 7") && text.contains("only 1"), "{text}");
    within(b.refusal(Reason::Version)).await;
}

#[tokio::test]
async fn a_first_frame_that_is_no_hello_is_refused() {
    let network = Network::new();
    let (b, mut raw) = node_and_raw(&network).await;
    raw.write(&message(1, b"in a hurry")).await;
    within(b.refusal(Reason::OutOfTurn)).await;
    assert_eq!(within(raw.read_word()).await.unwrap().kind, 6);
    let (b, mut raw) = node_and_raw(&network).await;
    raw.write(&frame(1, &[b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])).await;
    within(b.refusal(Reason::Malformed)).await;
    assert_eq!(within(raw.read_word()).await.unwrap().kind, 6);
}

#[tokio::test]
async fn a_peer_unknown_to_the_directory_is_refused_by_the_receiver() {
    let network = Network::new();
    let b = network.node("B").await;
    let stranger = name("Stranger");
    let credentials = network.authority.credentials(&stranger);
    let mut raw = Raw::connect(b.messaging.local_addr(), &credentials, &b.name).await;
    raw.write(&hello(1, 1)).await;
    let (code, text) = within(raw.read_word()).await.unwrap().closing();
    assert_eq!(code, 2);
    assert!(text.contains("O=Stranger") && text.contains("not a member"), "{text}");
    let error = within(b.refusal(Reason::UnknownPeer)).await;
    assert!(matches!(&*error, ConnectionError::UnknownPeer(found) if *found == stranger));
    assert_eq!(b.messaging.refusals()[0].peer, Some(stranger));
}

#[tokio::test]
async fn a_peer_unknown_to_the_directory_is_not_called() {
    let network = Network::new();
    let a = network.node("A").await;
    let stranger = name("Stranger");
    a.send(&stranger, b"hello?");
    let problem = within(a.problem(&stranger)).await;
    assert!(matches!(&*problem, ConnectionError::UnknownPeer(found) if *found == stranger));
}

#[tokio::test]
async fn whoever_answers_at_an_address_must_be_the_one_called() {
    let network = Network::new();
    let (a, b, c) = (network.node("A").await, network.node("B").await, network.node("C").await);
    network.directory.set(&b.name, c.messaging.local_addr());
    a.send(&b.name, b"for B alone");
    let problem = within(a.problem(&b.name)).await;
    let ConnectionError::WrongName { expected, found } = &*problem else { panic!("{problem}") };
    assert_eq!((expected, found), (&b.name, &c.name));
    assert!(c.received(&a).is_empty() && a.counted(Reason::Certificate) > 0);
}

#[tokio::test]
async fn a_certificate_of_another_network_is_refused_by_both() {
    let network = Network::new();
    let b = network.node("B").await;
    let elsewhere = Network { authority: Authority::new(), directory: network.directory.clone() };
    let impostor = elsewhere.node("A").await;
    impostor.send(&b.name, b"trust me");
    let problem = within(impostor.problem(&b.name)).await;
    assert!(matches!(&*problem, ConnectionError::Tls(_)), "{problem}");
    within(b.refusal(Reason::Certificate)).await;
    // And a receiver that would take anyone is not talked to either.
    b.send(&impostor.name, b"who are you?");
    let problem = within(b.problem(&impostor.name)).await;
    assert!(matches!(&*problem, ConnectionError::Tls(_)), "{problem}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused_by_both() {
    let network = Network::new();
    let b = network.node("B").await;
    let expired = network.authority.expired(&name("A"));
    let a = Party::start(name("A"), b.store.clone(), expired, &network, settings(), true).await;
    network.directory.set(&a.name, a.messaging.local_addr());
    a.send(&b.name, b"too late");
    let told = within(a.problem(&b.name)).await;
    assert!(told.to_string().contains("CertificateExpired"), "{told}");
    let refused = within(b.refusal(Reason::Certificate)).await;
    assert!(refused.to_string().contains("expired"), "{refused}");
    b.send(&a.name, b"renew it");
    let refused = within(b.problem(&a.name)).await;
    assert!(refused.to_string().contains("expired"), "{refused}");
}

#[tokio::test]
async fn a_certificate_revoked_while_connected_ends_the_connection_for_good() {
    let network = Network::new();
    let (a, b) = (network.node("A").await, network.node("B").await);
    a.send(&b.name, b"before");
    b.send(&a.name, b"before");
    within(b.until_received(&a, 1)).await;
    within(a.until_received(&b, 1)).await;
    network.authority.revoke(&a.name);
    network.authority.publish(&b.credentials);
    b.messaging.renew();
    a.send(&b.name, b"after");
    b.send(&a.name, b"after");
    let refused = within(b.refusal(Reason::Certificate)).await;
    assert!(refused.to_string().contains("Revoked"), "{refused}");
    let told = within(async {
        loop {
            let problem = a.problem(&b.name).await;
            if matches!(*problem, ConnectionError::Tls(_)) {
                return problem;
            }
            a.messaging.changes().changed().await.unwrap();
        }
    })
    .await;
    assert!(told.to_string().contains("CertificateRevoked"), "{told}");
    let refused = within(b.problem(&a.name)).await;
    assert!(refused.to_string().contains("Revoked"), "{refused}");
    assert_eq!((b.received(&a).len(), a.received(&b).len()), (1, 1));
    still_works(&network, &b).await;
}

#[tokio::test]
async fn a_session_is_never_resumed_past_the_verification_of_certificates() {
    let network = Network::new();
    let b = network.node("B").await;
    let mallory = name("Mallory");
    network.directory.set(&mallory, "127.0.0.1:1");
    // One configuration with a memory of sessions, as a client that wants to resume would have.
    let credentials = network.authority.credentials(&mallory);
    for _ in 0..3 {
        let mut raw = Raw::connect(b.messaging.local_addr(), &credentials, &b.name).await;
        raw.write(&hello(1, 1)).await;
        assert_eq!(within(raw.read()).await.unwrap().kind, 2);
        let kind = raw.stream.get_ref().1.handshake_kind();
        assert_eq!(kind, Some(tokio_rustls::rustls::HandshakeKind::Full));
    }
}

#[tokio::test]
async fn a_peer_taken_off_the_directory_is_disconnected_and_refused() {
    let network = Network::new();
    let (a, b) = (network.node("A").await, network.node("B").await);
    a.send(&b.name, b"before");
    within(b.until_received(&a, 1)).await;
    network.directory.remove(&a.name);
    b.messaging.disconnect(&a.name);
    a.send(&b.name, b"after");
    within(b.refusal(Reason::UnknownPeer)).await;
    assert_eq!(b.received(&a).len(), 1);
    network.directory.set(&a.name, a.messaging.local_addr());
    within(b.until_received(&a, 2)).await;
}

#[tokio::test]
async fn silence_before_during_and_after_the_handshake_ends_the_connection() {
    let network = Network::new();
    let brief = Settings {
        handshake_timeout: Duration::from_millis(60),
        ping_after: Duration::from_millis(20),
        silence_limit: Duration::from_millis(60),
        ..settings()
    };
    let b = network.node_with("B", brief).await;
    let silent = |error: &ConnectionError| match error {
        ConnectionError::Silent { during, .. } => *during,
        other => panic!("{other}"),
    };
    let mut nothing = TcpStream::connect(b.messaging.local_addr()).await.unwrap();
    let error = within(b.refusal(Reason::Silent)).await;
    assert_eq!(silent(&error), "in the TLS handshake");
    assert_eq!(within(nothing.read(&mut [0; 16])).await.unwrap_or(0), 0, "closed");

    let mallory = name("Mallory");
    network.directory.set(&mallory, "127.0.0.1:1");
    let credentials = network.authority.credentials(&mallory);
    let mut no_hello = Raw::connect(b.messaging.local_addr(), &credentials, &b.name).await;
    assert_eq!(within(no_hello.read_word()).await.unwrap().kind, 6, "told that it was silent");
    assert_eq!(silent(&b.messaging.refusals()[1].error), "waiting for a hello");

    let mut no_more = Raw::connect(b.messaging.local_addr(), &credentials, &b.name).await;
    no_more.write(&hello(1, 1)).await;
    assert_eq!(within(no_more.read()).await.unwrap().kind, 2);
    assert_eq!(within(no_more.read()).await.unwrap().kind, 5, "pinged");
    assert_eq!(within(no_more.read_word()).await.unwrap().kind, 6);
    assert_eq!(silent(&b.messaging.refusals()[2].error), "connected");
}

#[tokio::test]
async fn a_receiver_that_falls_silent_is_left() {
    let network = Network::new();
    let brief = Settings {
        handshake_timeout: Duration::from_millis(60),
        ping_after: Duration::from_millis(20),
        silence_limit: Duration::from_millis(60),
        ..settings()
    };
    let a = network.node_with("A", brief).await;
    let (mallory, listener) = raw_receiver(&network).await;
    a.send(&mallory.1, b"anyone?");
    let mut raw = within(Raw::accept(&listener, &mallory.0)).await;
    assert_eq!(within(raw.read()).await.unwrap().kind, 1);
    let problem = within(a.problem(&mallory.1)).await;
    assert!(matches!(*problem, ConnectionError::Silent { during: "greeting", .. }), "{problem}");
    let mut raw = within(Raw::accept(&listener, &mallory.0)).await;
    within(raw.read()).await;
    raw.write(&welcome(0, 0)).await;
    within(a.until(|_| {
        let problem = a.messaging.peer(&mallory.1).outbound.and_then(|outbound| outbound.problem);
        matches!(problem.as_deref(), Some(ConnectionError::Silent { during: "connected", .. }))
    }))
    .await;
}

type RawMember = (std::sync::Arc<support::authority::Credentials>, tally_contracts::Name);

async fn raw_receiver(network: &Network) -> (RawMember, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mallory = name("Mallory");
    network.directory.set(&mallory, listener.local_addr().unwrap());
    ((network.authority.credentials(&mallory), mallory), listener)
}

#[tokio::test]
async fn a_receiver_that_claims_what_was_never_sent_is_refused() {
    let network = Network::new();
    let a = network.node("A").await;
    let ((credentials, mallory), listener) = raw_receiver(&network).await;
    a.send(&mallory, b"one");
    for (first, then) in
        [(welcome(2, 0), None), (welcome(1, 5), None), (welcome(0, 0), Some(acknowledged(2)))]
    {
        let mut raw = within(Raw::accept(&listener, &credentials)).await;
        within(raw.read()).await;
        raw.write(&first).await;
        if let Some(then) = then {
            assert_eq!(within(raw.read_word()).await.unwrap().number(), 1);
            raw.write(&then).await;
        }
        let (code, text) = within(raw.read_word()).await.unwrap().closing();
        assert_eq!(code, 7, "{text}");
        let problem = within(a.problem(&mallory)).await;
        assert!(matches!(*problem, ConnectionError::Protocol(ProtocolError::Ahead { .. })), "{problem}");
    }
    assert_eq!(a.store.acknowledged_by(&mallory), 0);
}

#[tokio::test]
async fn a_receiver_that_lost_what_it_acknowledged_is_told_apart() {
    let network = Network::new();
    let a = network.node("A").await;
    let ((credentials, mallory), listener) = raw_receiver(&network).await;
    a.send(&mallory, b"one");
    a.send(&mallory, b"two");
    let mut raw = within(Raw::accept(&listener, &credentials)).await;
    within(raw.read()).await;
    raw.write(&[welcome(0, 0), acknowledged(0)].concat()).await;
    within(raw.read_word()).await;
    within(raw.read_word()).await;
    raw.write(&acknowledged(2)).await;
    within(a.until_acknowledged(&mallory, 2)).await;
    drop(raw);
    a.send(&mallory, b"three");
    let mut raw = within(Raw::accept(&listener, &credentials)).await;
    within(raw.read()).await;
    raw.write(&welcome(0, 0)).await;
    within(a.until(|_| {
        let problem = a.messaging.peer(&mallory).outbound.and_then(|outbound| outbound.problem);
        matches!(problem.as_deref(), Some(ConnectionError::OutboxGap { wanted: 1, found: Some(3) }))
    }))
    .await;
}

#[tokio::test]
async fn a_message_above_the_receivers_limit_stops_its_own_queue_alone() {
    let network = Network::new();
    let a = network.node("A").await;
    let small = network.node_with("Small", Settings { message_limit: 1000, ..settings() }).await;
    let other = network.node("Other").await;
    a.send(&small.name, b"fits");
    a.send(&small.name, &[0; 1001]);
    a.send(&other.name, &[0; 1001]);
    within(small.until_received(&a, 1)).await;
    within(other.until_received(&a, 1)).await;
    let problem = within(a.problem(&small.name)).await;
    let expected =
        matches!(*problem, ConnectionError::MessageTooLarge { number: 2, bytes: 1001, limit: 1000 });
    assert!(expected, "{problem}");
    // The receiver is told as well.
    let refused = within(small.refusal(Reason::TooLarge)).await;
    assert!(refused.to_string().contains("message 2 has 1001 bytes"), "{refused}");
    assert_eq!(a.messaging.message_limit(), 10 << 20);
}

#[tokio::test]
async fn a_newer_connection_of_the_same_peer_replaces_the_older() {
    let network = Network::new();
    let (b, mut older) = node_and_raw(&network).await;
    older.write(&hello(1, 1)).await;
    within(older.read()).await;
    older.write(&message(1, b"one")).await;
    assert_eq!(within(older.read_word()).await.unwrap().number(), 1);
    let credentials = network.authority.credentials(&name("Mallory"));
    let mut newer = Raw::connect(b.messaging.local_addr(), &credentials, &b.name).await;
    newer.write(&hello(1, 1)).await;
    let greeting = within(newer.read()).await.unwrap();
    assert_eq!((greeting.kind, greeting.fields[2]), (2, 1), "goes on after the first message");
    let (code, _) = within(older.read_word()).await.unwrap().closing();
    assert_eq!(code, 9);
    newer.write(&message(2, b"two")).await;
    assert_eq!(within(newer.read_word()).await.unwrap().number(), 2);
    assert_eq!(b.messaging.connections(), 1);
}

#[tokio::test]
async fn one_connection_above_the_limit_is_refused_until_there_is_room() {
    let network = Network::new();
    let b = network.node_with("B", Settings { connection_limit: 1, ..settings() }).await;
    let (a, c) = (network.node("A").await, network.node("C").await);
    a.send(&b.name, b"first");
    within(b.until_received(&a, 1)).await;
    c.send(&b.name, b"second");
    let problem = within(c.problem(&b.name)).await;
    assert_eq!(problem.reason(), Some(Reason::TooManyConnections), "{problem}");
    within(a.messaging.shutdown()).await;
    within(b.until_received(&c, 1)).await;
    assert_eq!(c.messaging.peer(&b.name).outbound.unwrap().link, Link::Connected);
}

#[tokio::test]
async fn silent_handshakes_make_room_for_honest_ones() {
    let network = Network::new();
    let patient = Settings { handshake_limit: 3, handshake_timeout: Duration::from_secs(3600), ..settings() };
    let b = network.node_with("B", patient).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(b.messaging.local_addr()).await.unwrap());
    }
    still_works(&network, &b).await;
    assert!(b.messaging.metrics().handshakes_evicted >= 47);
}

#[tokio::test]
async fn handshakes_of_one_address_make_room_for_each_other() {
    let network = Network::new();
    let patient =
        Settings { handshakes_per_address: 2, handshake_timeout: Duration::from_secs(3600), ..settings() };
    let b = network.node_with("B", patient).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(b.messaging.local_addr()).await.unwrap());
    }
    still_works(&network, &b).await;
    assert!(b.messaging.metrics().handshakes_evicted >= 18, "well below the limit for all addresses");
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let network = Network::new();
    let a = network.node("A").await;
    let start = |settings| {
        let node = tally_messaging::Node {
            tls: a.credentials.clone(),
            directory: network.directory.clone(),
            inbox: a.life.clone(),
            outbox: a.store.clone(),
            acquaintance: a.past.clone(),
            random: std::sync::Arc::new(|| 0),
        };
        tally_messaging::Messaging::start(settings, node)
    };
    let error = start(Settings { message_limit: 0, ..settings() }).await.unwrap_err();
    assert!(error.to_string().contains("message_limit is zero"), "{error}");
    let error = start(Settings { silence_limit: Duration::from_secs(20), ..settings() }).await.unwrap_err();
    assert!(error.to_string().contains("taken for dead"), "{error}");
    let error = start(Settings { listen: a.messaging.local_addr(), ..settings() }).await.unwrap_err();
    assert!(error.to_string().contains("cannot listen on 127.0.0.1:"), "{error}");
}
