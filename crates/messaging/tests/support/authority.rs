//! A certificate authority for tests, and what it issues as `Tls`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use tally_contracts::Name;
use tally_messaging::{Cause, Tls};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivatePkcs8KeyDer, ServerName,
};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore, ServerConfig, client::WebPkiServerVerifier, server::WebPkiClientVerifier,
    version::TLS13,
};

/// The TLS server name in every certificate: names are told apart by messaging itself.
const HOST: &str = "node.tally.test";

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    issued: Mutex<Vec<(Name, u64)>>,
    revoked: Mutex<Vec<u64>>,
    /// Whose certificate is whose.
    holders: Arc<Mutex<HashMap<Vec<u8>, Name>>>,
}

/// The certificates of one node.
pub struct Credentials {
    configs: RwLock<(Arc<ServerConfig>, Arc<ClientConfig>)>,
    holders: Arc<Mutex<HashMap<Vec<u8>, Name>>>,
    chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let (issued, revoked, holders) = Default::default();
        Self { issuer, issued, revoked, holders }
    }

    pub fn credentials(&self, name: &Name) -> Arc<Credentials> {
        self.issue(name, 4000)
    }

    pub fn expired(&self, name: &Name) -> Arc<Credentials> {
        self.issue(name, 2020)
    }

    fn issue(&self, name: &Name, until: i32) -> Arc<Credentials> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
        let mut issued = self.issued.lock().unwrap();
        let serial = issued.len() as u64 + 1;
        issued.push((name.clone(), serial));
        params.serial_number = Some(SerialNumber::from(serial));
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.holders.lock().unwrap().insert(certificate.der().to_vec(), name.clone());
        let (chain, key) = (vec![certificate.der().clone()], key.serialize_der());
        let configs = RwLock::new(self.configs(&chain, &key));
        Arc::new(Credentials { configs, holders: Arc::clone(&self.holders), chain, key })
    }

    /// Everything ever issued to this name is revoked in lists made from now on.
    pub fn revoke(&self, name: &Name) {
        let issued = self.issued.lock().unwrap();
        let of_name = issued.iter().filter(|(holder, _)| holder == name).map(|(_, serial)| *serial);
        self.revoked.lock().unwrap().extend(of_name);
    }

    /// Gives a node the present revocation list.
    pub fn publish(&self, credentials: &Credentials) {
        *credentials.configs.write().unwrap() = self.configs(&credentials.chain, &credentials.key);
    }

    fn list(&self) -> CertificateRevocationListDer<'static> {
        let revoked = self.revoked.lock().unwrap();
        let revoked = revoked.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2001, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2001, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().into()
    }

    fn configs(
        &self,
        chain: &[CertificateDer<'static>],
        key: &[u8],
    ) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        let provider = Arc::new(default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let roots = Arc::new(roots);
        let key = || PrivatePkcs8KeyDer::from(key.to_vec()).into();
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .with_crls([self.list()])
            .build()
            .unwrap();
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(chain.to_vec(), key())
            .unwrap();
        let servers = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .with_crls([self.list()])
            .build()
            .unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_webpki_verifier(servers)
            .with_client_auth_cert(chain.to_vec(), key())
            .unwrap();
        (Arc::new(server), Arc::new(client))
    }
}

impl Tls for Credentials {
    fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.configs.read().unwrap().0)
    }

    fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.configs.read().unwrap().1)
    }

    fn server_name(&self, _: &Name) -> ServerName<'static> {
        ServerName::try_from(HOST).unwrap()
    }

    fn peer_name(&self, chain: &[CertificateDer<'_>]) -> Result<Name, Cause> {
        let holders = self.holders.lock().unwrap();
        let holder = chain.first().and_then(|leaf| holders.get(leaf.as_ref()));
        holder.cloned().ok_or_else(|| "not a certificate of this test".into())
    }
}
