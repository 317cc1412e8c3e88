use super::*;
use rcgen::{CertificateParams, KeyPair};
use x509_parser::prelude::FromDer;

fn subject(distinguished: DistinguishedName) -> Result<Name, NameError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished;
    let certificate = params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate");
    let (_, parsed) =
        x509_parser::certificate::X509Certificate::from_der(certificate.der()).expect("a certificate");
    from_x509(parsed.subject())
}

fn distinguished(attributes: &[(DnType, &str)]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for (kind, value) in attributes {
        let printable = PrintableString::try_from(*value).ok().filter(|_| *kind == DnType::CountryName);
        name.push(
            kind.clone(),
            printable.map_or(DnValue::Utf8String((*value).into()), DnValue::PrintableString),
        );
    }
    name
}

#[test]
fn names_survive_x509() {
    for text in [
        "O=PartyA, L=London, C=GB",
        "CN=Desk 7, OU=Treasury, O=PartyA, L=London, C=GB",
        "CN=Desk 7, O=Crédit Étranger & Cie (Genève), L=Genève, C=CH",
        "OU=a/b, O=PartyA, L=London, C=GB",
    ] {
        let name: Name = text.parse().expect("a name");
        assert_eq!(subject(to_x509(&name)).expect("the same name"), name);
    }
}

#[test]
fn distinguished_names_that_are_no_names_are_refused() {
    use DnType::{CommonName, CountryName, LocalityName, OrganizationName};
    let (c, l, o) = ((CountryName, "GB"), (LocalityName, "London"), (OrganizationName, "PartyA"));
    assert!(subject(distinguished(&[c.clone(), l.clone(), o.clone()])).is_ok());
    // A comma would make two attributes of one.
    let smuggled = (OrganizationName, "PartyA, CN=Admin");
    assert_eq!(subject(distinguished(&[c.clone(), l.clone(), smuggled])), Err(NameError::Altered));
    let spaced = (OrganizationName, " PartyA");
    assert_eq!(subject(distinguished(&[c.clone(), l.clone(), spaced])), Err(NameError::Altered));
    let lower = (CountryName, "gb");
    assert!(matches!(subject(distinguished(&[lower, l.clone(), o.clone()])), Err(NameError::Refused(_))));
    assert_eq!(subject(distinguished(&[o.clone(), l.clone(), c.clone()])), Err(NameError::Order));
    let state = (DnType::StateOrProvinceName, "Kent");
    assert!(matches!(
        subject(distinguished(&[c.clone(), state, l.clone(), o.clone()])),
        Err(NameError::Attribute(_))
    ));
    assert!(matches!(subject(distinguished(&[c.clone(), l.clone()])), Err(NameError::Refused(_))));
    let zero = (CommonName, "a\0b");
    assert!(matches!(subject(distinguished(&[c, l, o, zero])), Err(NameError::Refused(_))));
}

#[test]
fn every_name_has_a_host_of_its_own() {
    let hosts: Vec<String> =
        ["O=PartyA, L=London, C=GB", "O=PartyA, L=London, C=US", "O=partya, L=London, C=GB"]
            .iter()
            .map(|text| host(&text.parse().expect("a name")))
            .collect();
    assert!(hosts[0] != hosts[1] && hosts[0] != hosts[2] && hosts[1] != hosts[2]);
    let label = hosts[0].strip_suffix(".tally.internal").expect("the domain");
    assert_eq!(label.len(), 62);
    assert_eq!(server_name(&"O=PartyA, L=London, C=GB".parse().expect("a name")).to_str(), hosts[0]);
}
