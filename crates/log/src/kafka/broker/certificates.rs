//! A test authority: a certificate for the brokers, one for their administrator, and one for each client.

use super::{BrokerError, Tls, io};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};

const SERVER: &str = "broker";
const ADMINISTRATOR: &str = "administrator";

/// Who signs.
pub struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    pub(super) administrator: Identity,
    server: Identity,
}

/// A certificate with its key, and the name in it.
pub struct Identity {
    /// The principal, as the brokers name it, is `User:` and this.
    pub name: String,
    /// Where the files lie.
    pub tls: Tls,
}

fn made(error: rcgen::Error) -> BrokerError {
    io("make a certificate")(std::io::Error::other(error))
}

impl Authority {
    /// An authority whose files, and those of its certificates, lie in `directory`. Brokers trust the one that they were started with.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn new(directory: &Path) -> Result<Self, BrokerError> {
        let key = KeyPair::generate().map_err(made)?;
        let mut params = CertificateParams::new([]).map_err(made)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Tallystick test authority");
        let certificate = params.self_signed(&key).map_err(made)?;
        let path = directory.join("authority.pem");
        std::fs::write(path, certificate.pem()).map_err(io("write a certificate"))?;
        let issuer = Issuer::new(params, key);
        let issue = |name| issue(directory, &issuer, name);
        let (administrator, server) = (issue(ADMINISTRATOR)?, issue(SERVER)?);
        Ok(Self { directory: directory.to_owned(), issuer, administrator, server })
    }

    /// A certificate for `name`, valid for the loopback addresses too.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn issue(&self, name: &str) -> Result<Identity, BrokerError> {
        issue(&self.directory, &self.issuer, name)
    }

    /// What a broker that trusts this authority alone, and gives nothing to whom no access list names, is told. Topics cannot be
    /// deleted: for Kafka, who may release a topic's records may delete it.
    pub(super) fn server_properties(&self) -> String {
        let (tls, directory) = (&self.server.tls, self.directory.display());
        format!(
            "ssl.keystore.type=PEM\nssl.keystore.location={directory}/{SERVER}.both.pem\nssl.truststore.type=PEM\n\
             ssl.truststore.location={}\nssl.client.auth=required\n\
             ssl.principal.mapping.rules=RULE:^.*CN=([^,]+).*$/$1/,DEFAULT\n\
             authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
             super.users=User:{SERVER};User:{ADMINISTRATOR}\nallow.everyone.if.no.acl.found=false\n\
             delete.topic.enable=false\n",
            tls.authority.display(),
        )
    }
}

fn issue(directory: &Path, issuer: &Issuer<'static, KeyPair>, name: &str) -> Result<Identity, BrokerError> {
    let key = KeyPair::generate().map_err(made)?;
    let mut params =
        CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).map_err(made)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.signed_by(&key, issuer).map_err(made)?;
    let write = |what: &str, text: String| {
        let path = directory.join(format!("{name}.{what}.pem"));
        std::fs::write(&path, text).map_err(io("write a certificate"))?;
        Ok(path)
    };
    // Java wants both in one file.
    write("both", key.serialize_pem() + &certificate.pem())?;
    let tls = Tls {
        authority: directory.join("authority.pem"),
        certificate: write("certificate", certificate.pem())?,
        key: write("key", key.serialize_pem())?,
    };
    Ok(Identity { name: name.to_owned(), tls })
}
