//! The certificates of a network's gateways: an authority of its own, by which clients know them.

use crate::layout::Layout;
use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tally_gateway::settings::TlsSection;

/// How long the authority's certificate is good for, in days; the gateways' for a year.
const AUTHORITY_DAYS: u64 = 3652;
const GATEWAY_DAYS: u64 = 366;
/// Certificates hold from an hour before they are made, for clients whose clock is behind.
const TOLERANCE: Duration = Duration::from_secs(3600);

/// Makes an authority and a certificate for gateways of these host names and addresses, in `DIR/tls`.
///
/// # Errors
/// When a host has a form that a certificate cannot hold, or a file cannot be written.
pub(crate) fn establish(layout: &Layout, hosts: &[String]) -> anyhow::Result<TlsSection> {
    let directory = layout.tls();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;

    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "Tallystick network authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    lasts(&mut params, AUTHORITY_DAYS);
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?;
    let issuer = Issuer::new(params, &key);

    let mut params = CertificateParams::new(hosts.to_vec()).context("--tls")?;
    params.distinguished_name.push(DnType::CommonName, "Tallystick gateway");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    lasts(&mut params, GATEWAY_DAYS);
    let gateway_key = KeyPair::generate()?;
    let gateway = params.signed_by(&gateway_key, &issuer)?;

    write(&layout.tls_authority(), &authority.pem())?;
    write(&directory.join("ca.key"), &key.serialize_pem())?;
    write(&directory.join("gateway.pem"), &gateway.pem())?;
    write(&directory.join("gateway.key"), &gateway_key.serialize_pem())?;
    Ok(TlsSection { certificate: "tls/gateway.pem".into(), key: "tls/gateway.key".into(), clients: None })
}

fn lasts(params: &mut CertificateParams, days: u64) {
    let now = SystemTime::now();
    params.not_before = (now - TOLERANCE).into();
    params.not_after = (now + Duration::from_secs(days * 24 * 3600)).into();
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .with_context(|| format!("cannot write {}", path.display()))
}
