//! One port for HTTP/1.1 and HTTP/2, with TLS and without; messages that do not come to their end.

use super::support::{Bench, batch};
use super::{SETTLED, outcomes, statuses};
use crate::access::Fingerprint;
use crate::grpc::channel::Channel;
use crate::grpc::{Client, ClientError};
use crate::settings::TlsSection;
use crate::tls;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::{Code, Status};
use tower_service::Service as _;

fn http1(bench: &Bench, head: &str, piece: usize) -> String {
    let mut stream = TcpStream::connect(bench.address).unwrap();
    for bytes in head.as_bytes().chunks(piece) {
        stream.write_all(bytes).unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn http1_is_answered_on_the_same_port() {
    let bench = Bench::new();
    let end = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for (head, status) in
        [("GET /health ", 200), ("POST /health ", 405), ("PRI /health ", 405), ("GET /v1/network ", 401)]
    {
        // What a client sends first may come in any pieces.
        let answer = http1(&bench, &format!("{head}{end}"), 1);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {answer}");
    }
    // At once: it is refused before its last byte.
    let neither = "PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n";
    assert_eq!(http1(&bench, neither, neither.len()).get(..12), Some("HTTP/1.1 400"));
}

struct Own {
    certificate: CertificateDer<'static>,
    pem: String,
    key_pem: String,
    key: Vec<u8>,
}

fn own(name: &str) -> Own {
    let own = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = own.signing_key.serialize_der();
    let (pem, key_pem) = (own.cert.pem(), own.signing_key.serialize_pem());
    Own { certificate: own.cert.der().clone(), pem, key_pem, key }
}

fn trust(server: &Own, client: Option<&Own>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(server.certificate.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match client {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::try_from(own.key.clone()).unwrap();
            builder.with_client_auth_cert(vec![own.certificate.clone()], key).unwrap()
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn with_tls_a_client_comes_in_by_its_certificate() {
    let (server, alice, other) = (own("127.0.0.1"), own("alice"), own("other"));
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("server.pem", &server.pem);
    write("server.key", &server.key_pem);
    write("clients.pem", &format!("{}{}", alice.pem, other.pem));
    let section = TlsSection {
        certificate: PathBuf::from("server.pem"),
        key: PathBuf::from("server.key"),
        clients: Some(PathBuf::from("clients.pem")),
    };
    let fingerprint = Fingerprint(tls::fingerprint(&alice.certificate));
    let mut bench = Bench::with(
        |settings| settings.tls = Some(tls::configuration(&section, directory.path()).unwrap()),
        |user| (user.token, user.certificate) = (None, Some(fingerprint)),
    );
    let url = format!("https://{}", bench.address);
    let client = Client::connect(&url, None, Some(trust(&server, Some(&alice)))).await.unwrap();
    let (requests, mut responses) = client.submit().await.unwrap();
    requests.send(1, &batch([bench.payment(1)])).await;
    assert_eq!(statuses(&outcomes(&mut responses).await.1), [SETTLED]);
    for stranger in [None, Some(&other)] {
        let client = Client::connect(&url, None, Some(trust(&server, stranger))).await.unwrap();
        let Err(ClientError::Refused(refused)) = client.submit().await else { panic!() };
        assert_eq!(refused.status, Code::Unauthenticated);
    }
    assert!(Client::connect(&url, None, Some(trust(&other, Some(&alice)))).await.is_err());
    assert!(Client::connect(&url, None, None).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_message_that_does_not_come_to_its_end_ends_the_stream() {
    let bench = Bench::with(|settings| settings.http.request_timeout_ms = 100, |_| ());
    let stream = tokio::net::TcpStream::connect(bench.address).await.unwrap();
    let mut channel = Channel::open(stream).await.unwrap();
    let part = Ok::<_, Status>(Frame::data(Bytes::from_static(&[0, 0, 0, 1, 0, 8, 7])));
    let body = StreamBody::new(stream::iter([part]).chain(stream::pending()));
    let request = http::Request::post(format!("{}/tallystick.v1.Settlement/Submit", bench.url()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {}", bench.token.reveal()))
        .body(tonic::body::Body::new(body))
        .unwrap();
    let answer = channel.call(request).await.unwrap();
    let body = tokio::time::timeout(Duration::from_secs(20), answer.into_body().collect()).await.unwrap();
    let trailers = body.unwrap().trailers().cloned().unwrap();
    let ended = Status::from_header_map(&trailers).unwrap();
    assert_eq!(
        (ended.code(), ended.message()),
        (Code::ResourceExhausted, "a message did not come to its end in time")
    );
}
