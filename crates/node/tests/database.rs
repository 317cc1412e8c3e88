//! `[database]` of `node.toml`, as a node opens it.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tally_node::{FILE, Settings};
use tally_store::StoreError;
use tally_store::server::PostgresServer;

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("an authority")
}

fn settings(directory: &Path, database: &str) -> Settings {
    let others = "[network]\nfolder = \"map\"\n[messaging]\nlisten = \"127.0.0.1:0\"\n[rpc]\nlisten = \"127.0.0.1:0\"\n";
    std::fs::write(directory.join(FILE), format!("{others}[database]\nkind = \"postgres\"\n{database}"))
        .expect("a file");
    Settings::load(directory, &[]).expect("a configuration")
}

/// A server of another machine, for all that the node knows: it is reached over TCP, wants a password and has a
/// certificate of its institution's authority.
#[test]
fn a_remote_postgresql_is_known_by_its_authority() {
    let (own, other) = (authority(), authority());
    let key = KeyPair::generate().expect("a key");
    let server = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = server.signed_by(&key, &own).expect("a certificate");
    let (certificate, key) = (certificate.pem(), key.serialize_pem());
    let files = [("server.crt", certificate.as_str()), ("server.key", key.as_str())];
    let server = PostgresServer::start_with_files(&["ssl=on"], &files).expect("a server");
    let role = "CREATE ROLE node LOGIN PASSWORD 'secret'; CREATE SCHEMA bank AUTHORIZATION node;";
    server.run(role).expect("a role");

    let directory = tempfile::tempdir().expect("a directory");
    // Beside node.toml, as a person would put it.
    std::fs::write(directory.path().join("postgres-ca.pem"), own.pem()).expect("a file");
    std::fs::write(directory.path().join("other.pem"), other.pem()).expect("a file");
    let url = server.url_over_tcp("localhost", "node", "secret");
    let open = |url: &str, ca: &str| {
        let text = format!("url = \"{url}\"\nschema = \"bank\"\n{ca}");
        tally_store::open(&settings(directory.path(), &text).database(directory.path())).map(drop)
    };
    open(&url, "ca = \"postgres-ca.pem\"\n").expect("the authority signed the certificate");
    for (url, ca, reason) in [
        (url.as_str(), "ca = \"other.pem\"\n", "certificate is refused"),
        (&url.replace("localhost", "127.0.0.1"), "ca = \"postgres-ca.pem\"\n", "certificate is refused"),
        (url.as_str(), "ca = \"missing.pem\"\n", "missing.pem"),
        ("host=db.example user=node", "", "database.ca"),
    ] {
        match open(url, ca) {
            Err(StoreError::Configuration { reason: said }) if said.contains(reason) => {}
            other => panic!("{url} {ca}: {other:?}"),
        }
    }
}
