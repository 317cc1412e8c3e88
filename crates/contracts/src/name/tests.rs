use super::*;
use proptest::prelude::*;

#[test]
fn the_canonical_form_is_one() {
    let name: Name = " c = GB ,OU=Treasury,o=Party & Sons (UK),  L=Zürich,cn=Desk 7".parse().unwrap();
    assert_eq!(name.as_str(), "CN=Desk 7, OU=Treasury, O=Party & Sons (UK), L=Zürich, C=GB");
    assert_eq!(name.common_name(), Some("Desk 7"));
    assert_eq!(name.organisational_unit(), Some("Treasury"));
    assert_eq!(name.organisation(), "Party & Sons (UK)");
    assert_eq!((name.locality(), name.country()), ("Zürich", "GB"));
    let plain = Name::new("PartyA", "London", "GB").unwrap();
    assert_eq!(plain.to_string(), "O=PartyA, L=London, C=GB");
    assert_eq!((plain.common_name(), plain.organisational_unit()), (None, None));
    assert_eq!(serde_json::to_string(&plain).unwrap(), r#""O=PartyA, L=London, C=GB""#);
}

#[test]
fn what_is_no_name_is_refused_with_its_reason() {
    let character = |attribute, character| NameError::Character { attribute, character };
    let long = "x".repeat(65);
    for (text, error) in [
        ("", NameError::Attribute(String::new())),
        ("PartyA", NameError::Attribute("PartyA".into())),
        ("O=PartyA, L=London", NameError::Missing("C")),
        ("L=London, C=GB", NameError::Missing("O")),
        ("O=PartyA, C=GB", NameError::Missing("L")),
        ("O=PartyA, O=PartyB, L=London, C=GB", NameError::Twice("O")),
        ("O=PartyA, L=London, C=GB, ST=Kent", NameError::Attribute("ST=Kent".into())),
        ("O=PartyA, L=London, C=GBR", NameError::Country("GBR".into())),
        ("O=PartyA, L=London, C=gb", NameError::Country("gb".into())),
        ("O=PartyA, L=London, C=XX", NameError::Country("XX".into())),
        ("O=, L=London, C=GB", NameError::Length { attribute: "O", characters: 0 }),
        (&format!("O={long}, L=London, C=GB"), NameError::Length { attribute: "O", characters: 65 }),
        ("O=A  B, L=London, C=GB", character("O", ' ')),
        ("O=A\"B, L=London, C=GB", character("O", '"')),
        ("O=A=B, L=London, C=GB", character("O", '=')),
        ("O=A+B, L=London, C=GB", character("O", '+')),
        ("O=A\nB, L=London, C=GB", character("O", '\n')),
        ("O=A\u{202e}B, L=London, C=GB", character("O", '\u{202e}')),
        ("O=P\u{430}rtyA, L=London, C=GB", character("O", '\u{430}')),
        ("O=Cafe\u{301}, L=London, C=GB", character("O", '\u{301}')),
    ] {
        assert_eq!(text.parse::<Name>(), Err(error), "{text}");
    }
    let huge = format!("O={}", "x".repeat(NAME_BYTES));
    assert_eq!(huge.parse::<Name>(), Err(NameError::TooLong(NAME_BYTES + 2)));
}

#[test]
fn all_countries_are_there_in_order() {
    let codes = COUNTRIES.as_bytes().as_chunks::<2>().0;
    assert_eq!(codes.len(), 249);
    assert!(codes.is_sorted_by(|a, b| a < b));
}

#[test]
fn bytes_are_canonical_or_refused() {
    for text in [
        "O=PartyA,L=London,C=GB",
        "L=London, O=PartyA, C=GB",
        "o=PartyA, L=London, C=GB",
        "O=A, L=B, C=GB, C=GB",
    ] {
        assert!(borsh::from_slice::<Name>(&borsh::to_vec(text).unwrap()).is_err(), "{text}");
    }
    let too_long = borsh::to_vec(&"x".repeat(NAME_BYTES + 1)).unwrap();
    assert!(borsh::from_slice::<Name>(&too_long).is_err());
    assert!(borsh::from_slice::<Name>(&[0xff, 0xff, 0xff, 0xff]).is_err());
}

fn value() -> impl Strategy<Value = String> {
    "[A-Za-z0-9Àé&'()/:_@.-]{1,20}( [A-Za-z0-9]{1,9}){0,2}"
}

proptest! {
    #[test]
    fn every_form_round_trips(o in value(), l in value(), cn: Option<bool>, ou: Option<bool>, unit in value()) {
        let mut text = format!("C=DE,O={o},L={l}");
        if cn.is_some() { text = format!("CN={unit}, {text}"); }
        if ou.is_some() { text.push_str(&format!(",OU={unit}")); }
        let name: Name = text.parse().unwrap();
        prop_assert_eq!((name.organisation(), name.locality()), (o.as_str(), l.as_str()));
        prop_assert_eq!(&name.to_string().parse::<Name>().unwrap(), &name);
        let bytes = borsh::to_vec(&name).unwrap();
        prop_assert_eq!(&bytes[4..], name.as_str().as_bytes());
        prop_assert_eq!(&borsh::from_slice::<Name>(&bytes).unwrap(), &name);
    }

    #[test]
    fn any_text_is_an_error_or_its_own_canonical_form(text in "(([CcOoLl]|OU|CN)=(GB|[ A-z]{0,3}|\\PC),? ?){0,5}") {
        let decoded = borsh::from_slice::<Name>(&borsh::to_vec(&text).unwrap());
        match text.parse::<Name>() {
            Ok(name) => prop_assert_eq!(decoded.is_ok(), name.as_str() == text),
            Err(_) => prop_assert!(decoded.is_err()),
        }
    }
}
