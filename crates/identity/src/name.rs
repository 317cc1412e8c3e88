//! Names of the ledger in X.509 and in TLS.

use rcgen::string::PrintableString;
use rcgen::{DistinguishedName, DnType, DnValue};
use rustls::pki_types::ServerName;
use tally_contracts::Name;
use x509_parser::der_parser::asn1_rs::Tag;
use x509_parser::x509::X509Name;

/// Under `.internal`, which is kept free for private use, so that no such host is ever found in DNS.
const DOMAIN: &str = "tally.internal";

/// Why a distinguished name is not a name of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// An attribute that names do not have.
    #[error("attribute {0} is none of O, L, C, OU, CN")]
    Attribute(String),
    /// An attribute is there twice, or two are in one set.
    #[error("attribute {0} is there more than once")]
    Repeated(&'static str),
    /// Neither a UTF8String nor a PrintableString.
    #[error("attribute {0} is not text")]
    NotText(&'static str),
    /// The ledger's rules for names refuse it.
    #[error("not a name of the ledger")]
    Refused(#[source] tally_contracts::NameError),
    /// A value that the ledger's text form would change, as a comma in it does.
    #[error("an attribute has a comma in it, or a space at its edge")]
    Altered,
    /// The encoding is not the one that this name has, so that two encodings could be taken for two.
    #[error("attributes are not in the order of the ledger's names")]
    Order,
}

/// The attributes of `name` in the order in which X.509 has them: country first.
fn attributes(name: &Name) -> impl Iterator<Item = (DnType, &'static str, &str)> {
    [
        (DnType::CountryName, "C", Some(name.country())),
        (DnType::LocalityName, "L", Some(name.locality())),
        (DnType::OrganizationName, "O", Some(name.organisation())),
        (DnType::OrganizationalUnitName, "OU", name.organisational_unit()),
        (DnType::CommonName, "CN", name.common_name()),
    ]
    .into_iter()
    .filter_map(|(kind, short, value)| Some((kind, short, value?)))
}

/// The distinguished name of `name`: one encoding for each name.
pub(crate) fn to_x509(name: &Name) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    for (kind, short, value) in attributes(name) {
        // RFC 5280 appendix A.1 has the country as a PrintableString.
        let value = match PrintableString::try_from(value) {
            Ok(printable) if short == "C" => DnValue::PrintableString(printable),
            _ => DnValue::Utf8String(value.to_owned()),
        };
        distinguished.push(kind, value);
    }
    distinguished
}

/// Reads what [`to_x509`] writes.
pub(crate) fn from_x509(distinguished: &X509Name<'_>) -> Result<Name, NameError> {
    let mut parts: [Option<&str>; 5] = [None; 5];
    let mut last = None;
    for set in distinguished.iter_rdn() {
        let mut attributes = set.iter();
        let Some(attribute) = attributes.next() else {
            return Err(NameError::Order);
        };
        // id-at is 2.5.4.
        let (index, short) = match attribute.attr_type().as_bytes() {
            [0x55, 4, 6] => (0, "C"),
            [0x55, 4, 7] => (1, "L"),
            [0x55, 4, 10] => (2, "O"),
            [0x55, 4, 11] => (3, "OU"),
            [0x55, 4, 3] => (4, "CN"),
            _ => return Err(NameError::Attribute(attribute.attr_type().to_id_string())),
        };
        if attributes.next().is_some() || parts[index].is_some() {
            return Err(NameError::Repeated(short));
        }
        let expected = if short == "C" { Tag::PrintableString } else { Tag::Utf8String };
        if attribute.attr_value().tag() != expected {
            return Err(NameError::NotText(short));
        }
        parts[index] = Some(attribute.as_str().map_err(|_| NameError::NotText(short))?);
        if last.replace(index).is_some_and(|last| last > index) {
            return Err(NameError::Order);
        }
    }
    let [country, locality, organisation, unit, common] = parts;
    build(organisation, locality, country, unit, common)
}

fn build(
    organisation: Option<&str>,
    locality: Option<&str>,
    country: Option<&str>,
    unit: Option<&str>,
    common: Option<&str>,
) -> Result<Name, NameError> {
    let parts = [("CN", common), ("OU", unit), ("O", organisation), ("L", locality), ("C", country)];
    let text: Vec<String> =
        parts.iter().filter_map(|(short, value)| Some(format!("{short}={}", (*value)?))).collect();
    let name: Name = text.join(", ").parse().map_err(NameError::Refused)?;
    // A comma in a value would have made two attributes of one, and spaces at its edges are lost.
    let same = Some(name.organisation()) == organisation
        && Some(name.locality()) == locality
        && Some(name.country()) == country
        && name.organisational_unit() == unit
        && name.common_name() == common;
    if same { Ok(name) } else { Err(NameError::Altered) }
}

/// The host name of `name`'s TLS certificate: a hash, because X.500 names are no host names.
///
/// 31 of the 32 bytes of the BLAKE3 hash, so that their 62 digits fit into a label (RFC 1035
/// section 2.3.4).
pub(crate) fn host(name: &Name) -> String {
    let digest = tally_crypto::keyed(b"tallystick node TLS host name v1", name.to_string().as_bytes());
    format!("{}.{DOMAIN}", &digest.to_string()[..62])
}

/// What a TLS client expects `name`'s node to be called, so that standard host name verification
/// finds whether the server is the peer that was meant.
///
/// # Panics
/// Never: 62 hexadecimal digits and a domain are a valid host name.
#[expect(clippy::expect_used, reason = "the text is made of hexadecimal digits")]
pub fn server_name(name: &Name) -> ServerName<'static> {
    ServerName::try_from(host(name)).expect("hexadecimal digits and a domain")
}

#[cfg(test)]
mod tests;
