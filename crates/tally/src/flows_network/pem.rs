//! Certificates as text (RFC 7468).

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::path::Path;
use tally_identity::{Certificate, CertificatePath, Trust};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// A file of more is none of certificates.
const MAX_BYTES: u64 = 64 * 1024;

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let length = std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?.len();
    ensure!(length <= MAX_BYTES, "{} is too large for certificates", file.display());
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    found.with_context(|| format!("{} holds no certificate in PEM", file.display()))
}

/// The path of certificates in a file, the subject's first.
pub(crate) fn path(file: &Path) -> anyhow::Result<CertificatePath> {
    CertificatePath::parse(&certificates(file)?).with_context(|| format!("{} is refused", file.display()))
}

/// The root certificate in a file.
pub(crate) fn root(file: &Path) -> anyhow::Result<Certificate> {
    let found = certificates(file)?;
    let [one] = found.as_slice() else {
        anyhow::bail!(
            "{} holds {} certificates; the network's root alone is wanted",
            file.display(),
            found.len()
        )
    };
    Certificate::parse(one).with_context(|| format!("{} is refused", file.display()))
}

/// Trust in the root in a file.
pub(crate) fn trust(file: &Path) -> anyhow::Result<Trust> {
    Trust::new(root(file)?.der()).with_context(|| format!("{} is not the root of a network", file.display()))
}

/// A path of certificates as text.
pub(crate) fn text(path: &CertificatePath) -> String {
    let mut text = String::new();
    for certificate in path.certificates() {
        let encoded = STANDARD.encode(certificate.der());
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            // The encoding is ASCII.
            let (line, after) = rest.split_at(rest.len().min(64));
            text.push_str(line);
            text.push('\n');
            rest = after;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}
