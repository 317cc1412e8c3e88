use super::*;
use crate::authority::Reason;
use crate::server_name;
use crate::testing::{DAY, LIFETIME, NOW, World, at, clock, name};
use rustls::{
    AlertDescription, CertificateError as TlsCertificateError, ClientConnection, Error, ServerConnection,
};
use std::io::{Read, Write};

/// Both ends of a finished handshake.
#[derive(Debug)]
struct Pair {
    client: ClientConnection,
    server: ServerConnection,
}

/// What stopped a handshake, on each side.
#[derive(Debug)]
struct Failure {
    client: Option<Error>,
    server: Option<Error>,
}

/// Passes bytes between both ends until both are done, or one refuses.
fn handshake(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    expected: &Name,
) -> Result<Pair, Box<Failure>> {
    let mut client = ClientConnection::new(client, server_name(expected)).expect("a client");
    let mut server = ServerConnection::new(server).expect("a server");
    let mut failure = Failure { client: None, server: None };
    for _ in 0..20 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).expect("memory");
        }
        let mut wire = wire.as_slice();
        while failure.server.is_none() && server.read_tls(&mut wire).expect("memory") > 0 {
            failure.server = server.process_new_packets().err();
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).expect("memory");
        }
        let mut wire = wire.as_slice();
        while failure.client.is_none() && client.read_tls(&mut wire).expect("memory") > 0 {
            failure.client = client.process_new_packets().err();
        }
    }
    if failure.client.is_some() || failure.server.is_some() {
        return Err(Box::new(failure));
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(Pair { client, server })
}

fn tls(identity: &Identity, now: Timestamp) -> Tls {
    Tls::with_clock(identity, clock(now)).expect("configurations")
}

fn peers(client: &Tls, server: &Tls, expected: &str) -> Result<Pair, Box<Failure>> {
    handshake(client.peer_client(), server.peer_server(), &name(expected))
}

#[test]
fn nodes_know_each_other_by_name() {
    let mut world = World::new();
    let (a, b) = (world.node("PartyA"), world.node("PartyB"));
    let Pair { mut client, mut server } =
        peers(&tls(&a, NOW), &tls(&b, NOW), "PartyB").expect("a connection");
    assert_eq!(peer_name(client.peer_certificates().expect("certificates")), Ok(name("PartyB")));
    assert_eq!(peer_name(server.peer_certificates().expect("certificates")), Ok(name("PartyA")));
    assert_eq!(client.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    assert_eq!(server.alpn_protocol(), Some(PEER_PROTOCOL));
    assert!(!client.is_early_data_accepted());
    assert_eq!(client.tls13_tickets_received(), 0, "a session that could be resumed");
    client.writer().write_all(b"pay").expect("memory");
    let mut wire = Vec::new();
    client.write_tls(&mut wire).expect("memory");
    server.read_tls(&mut wire.as_slice()).expect("memory");
    server.process_new_packets().expect("a record");
    let mut text = [0; 3];
    server.reader().read_exact(&mut text).expect("text");
    assert_eq!(&text, b"pay");
}

#[test]
fn a_client_finds_out_that_the_server_is_another_node() {
    let mut world = World::new();
    let (a, mallory) = (world.node("PartyA"), world.node("Mallory"));
    let failure = peers(&tls(&a, NOW), &tls(&mallory, NOW), "PartyB").expect_err("another node");
    let error = failure.client.expect("an error");
    let io = std::io::Error::other(error);
    assert_eq!(
        refusal(&io),
        Some(&CertificateError::HostMismatch {
            expected: name::host(&name("PartyB")),
            found: name("Mallory")
        })
    );
}

#[test]
fn a_node_revoked_while_others_run_is_refused_from_then_on() {
    let mut world = World::new();
    let (a, mallory) = (world.node("PartyA"), world.node("Mallory"));
    let (honest, revoked) = (tls(&a, at(1000)), tls(&mallory, at(1000)));
    world.install(a.trust(), NOW);
    let standing = peers(&revoked, &honest, "PartyA").expect("not revoked yet");
    let certificates = standing.server.peer_certificates().expect("certificates");
    assert_eq!(honest.recheck(certificates), Ok(name("Mallory")));

    world.manager.revoke(&name("Mallory"), Reason::KeyCompromise, NOW).expect("revoked");
    world.install(a.trust(), at(500));
    let as_client = peers(&revoked, &honest, "PartyA").expect_err("revoked");
    assert_eq!(as_client.server, Some(Error::InvalidCertificate(TlsCertificateError::Revoked)));
    // The revoked node's operator reads why.
    assert_eq!(as_client.client, Some(Error::AlertReceived(AlertDescription::CertificateRevoked)));
    let as_server = peers(&honest, &revoked, "Mallory").expect_err("revoked");
    assert_eq!(as_server.client, Some(Error::InvalidCertificate(TlsCertificateError::Revoked)));
    assert!(matches!(honest.recheck(certificates), Err(CertificateError::Revoked { .. })));
}

#[test]
fn certificates_out_of_their_time_are_refused() {
    let mut world = World::new();
    let (a, b) = (world.node("PartyA"), world.node("PartyB"));
    let late = at(LIFETIME + DAY);
    let failure = peers(&tls(&a, late), &tls(&b, late), "PartyB").expect_err("expired");
    assert!(
        matches!(
            &failure.client,
            Some(Error::InvalidCertificate(TlsCertificateError::ExpiredContext { time, not_after }))
                if time.as_secs() - not_after.as_secs() == DAY / 1000
        ),
        "{failure:?}"
    );
    assert_eq!(failure.server, Some(Error::AlertReceived(AlertDescription::CertificateExpired)));
    let early = Timestamp::from_millis(NOW.as_millis() - DAY);
    let failure = peers(&tls(&a, NOW), &tls(&b, early), "PartyB").expect_err("not valid yet");
    assert!(
        matches!(
            failure.server,
            Some(Error::InvalidCertificate(TlsCertificateError::NotValidYetContext { .. }))
        ),
        "{failure:?}"
    );
}

#[test]
fn another_network_is_refused_on_both_sides() {
    for network in ["Network", "Other"] {
        let (mut world, mut foreign) = (World::new(), World::called(network));
        let (own, stranger) = (world.node("PartyA"), foreign.node("PartyB"));
        let unknown = |error: &Option<Error>| {
            matches!(
                error,
                Some(Error::InvalidCertificate(
                    TlsCertificateError::UnknownIssuer | TlsCertificateError::BadSignature
                ))
            )
        };
        let failure = peers(&tls(&own, NOW), &tls(&stranger, NOW), "PartyB").expect_err("a stranger");
        assert!(unknown(&failure.client), "{failure:?}");
        // A client that does not care who the server is.
        let careless = rpc_like(&stranger, world.trust());
        let failure =
            handshake(careless, tls(&own, NOW).peer_server(), &name("PartyA")).expect_err("a stranger");
        assert!(unknown(&failure.server), "{failure:?}");
    }
}

/// A client that shows `identity`'s TLS certificate and believes `trust`.
fn rpc_like(identity: &Identity, trust: Trust) -> Arc<ClientConfig> {
    let provider = provider();
    let verifier = Arc::new(Verifier::new(trust, &provider));
    let mut config = ClientConfig::builder_with_details(provider, clock(NOW))
        .with_protocol_versions(VERSIONS)
        .expect("a version")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.tls_key().as_ref().clone())));
    config.alpn_protocols = vec![PEER_PROTOCOL.to_vec()];
    Arc::new(config)
}

#[test]
fn a_node_shows_a_certificate_for_tls_and_no_other() {
    let mut world = World::new();
    let (a, b) = (world.node("PartyA"), world.node("PartyB"));
    let server = tls(&b, NOW);
    let provider = provider();
    let builder = || {
        ClientConfig::builder_with_details(Arc::clone(&provider), clock(NOW))
            .with_protocol_versions(VERSIONS)
            .expect("a version")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::new(world.trust(), &provider)))
    };
    let none = Arc::new(builder().with_no_client_auth());
    let failure = handshake(none, server.peer_server(), &name("PartyB")).expect_err("no certificate");
    assert!(matches!(failure.server, Some(Error::NoCertificatesPresented)), "{failure:?}");

    // The legal identity's certificate, with a key that would do.
    let legal = rustls::sign::CertifiedKey::new(a.path().to_der(), Arc::clone(&a.tls_key().key));
    let legal = Arc::new(builder().with_client_cert_resolver(Arc::new(SingleCertAndKey::from(legal))));
    let failure = handshake(legal, server.peer_server(), &name("PartyB")).expect_err("a legal identity");
    let error = failure.server.expect("an error");
    assert_eq!(
        refusal(&error),
        Some(&CertificateError::WrongRole {
            subject: name("PartyA"),
            expected: Role::Tls,
            found: Role::LegalIdentity
        })
    );
    // PartyA's certificate without PartyA's key.
    let stolen = rustls::sign::CertifiedKey::new(a.tls_path().to_der(), Arc::clone(&b.tls_key().key));
    let stolen = Arc::new(builder().with_client_cert_resolver(Arc::new(SingleCertAndKey::from(stolen))));
    let failure = handshake(stolen, server.peer_server(), &name("PartyB")).expect_err("a stolen certificate");
    assert_eq!(failure.server, Some(Error::InvalidCertificate(TlsCertificateError::BadSignature)));
}

#[test]
fn clients_of_a_node_need_no_certificate_and_find_the_right_node() {
    let mut world = World::new();
    let (a, b) = (world.node("PartyA"), world.node("PartyB"));
    let client = || rpc_client_with_clock(&world.trust(), clock(NOW)).expect("a configuration");
    let Pair { client: connection, server } =
        handshake(client(), tls(&a, NOW).rpc_server(), &name("PartyA")).expect("a connection");
    assert_eq!(connection.alpn_protocol(), Some(RPC_PROTOCOL));
    assert!(server.peer_certificates().is_none());
    let failure = handshake(client(), tls(&b, NOW).rpc_server(), &name("PartyA")).expect_err("another node");
    assert!(matches!(
        refusal(&failure.client.expect("an error")),
        Some(CertificateError::HostMismatch { .. })
    ));
    let stranger =
        rpc_client_with_clock(&World::called("Other").trust(), clock(NOW)).expect("a configuration");
    let failure =
        handshake(stranger, tls(&a, NOW).rpc_server(), &name("PartyA")).expect_err("another network");
    assert_eq!(failure.client, Some(Error::InvalidCertificate(TlsCertificateError::UnknownIssuer)));
}

#[test]
fn peers_and_clients_do_not_meet_by_mistake() {
    let mut world = World::new();
    let (a, b) = (world.node("PartyA"), world.node("PartyB"));
    let failure = handshake(tls(&a, NOW).peer_client(), tls(&b, NOW).rpc_server(), &name("PartyB"));
    let error = failure.expect_err("another protocol").server;
    assert_eq!(error, Some(Error::NoApplicationProtocol));
}

#[test]
fn names_are_taken_from_tls_certificates_only() {
    let mut world = World::new();
    let a = world.node("PartyA");
    assert_eq!(peer_name(&a.tls_path().to_der()), Ok(name("PartyA")));
    assert!(matches!(peer_name(&a.path().to_der()), Err(CertificateError::WrongRole { .. })));
    assert!(matches!(peer_name(&[]), Err(CertificateError::PathLength { count: 0 })));
    let noise = [CertificateDer::from(vec![1, 2, 3])];
    assert!(matches!(peer_name(&noise), Err(CertificateError::Malformed(_))));
}

/// How long a node takes for both sides of a handshake; printed with `--nocapture`.
#[test]
fn handshakes_are_quick() {
    let mut world = World::new();
    let (a, b) = (tls(&world.node("PartyA"), NOW), tls(&world.node("PartyB"), NOW));
    let begun = std::time::Instant::now();
    for _ in 0..50 {
        peers(&a, &b, "PartyB").expect("a connection");
    }
    let each = begun.elapsed() / 50;
    println!("both sides of a handshake take {each:?}");
    assert!(each < std::time::Duration::from_millis(50), "{each:?}");
}
