//! Names that people write into files and command lines, checked where they are read.

use serde::{Deserialize, Deserializer};
use tally_iso20022::{Bic, Iban};
use tally_ledger::order::MAX_ALIAS;

/// Reads a BIC (ISO 9362) for serde; kept in its shortest form.
pub(crate) fn bic<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(deserializer, |text| Bic::parse(text).map(|bic| bic.to_string()), "a BIC such as ALPHDEFF")
}

/// A BIC in its shortest form, in which it is compared; what is none stays as it is, and is nobody's.
pub(crate) fn shortest_bic(text: &str) -> String {
    Bic::parse(text).map_or_else(|| text.to_owned(), |bic| bic.to_string())
}

/// The same for a command line.
pub(crate) fn bic_argument(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(shortest_bic(text))
}

/// Reads an optional IBAN (ISO 13616) whose check digits are right.
pub(crate) fn iban<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let read = |text: &str| {
        Iban::parse(&text.replace(' ', ""))
            .filter(|iban| iban.checksum_ok() || is_reference(iban))
            .map(|iban| Some(iban.to_string()))
    };
    checked(deserializer, read, "an IBAN whose check digits are right")
}

/// IBANs with check digits `00` appear in published examples and cannot belong to anybody (ISO 13616 gives
/// 02 to 98), so they may be used for trying out.
fn is_reference(iban: &Iban) -> bool {
    iban.as_str().get(2..4) == Some("00")
}

/// Reads an alias: 1 to [`MAX_ALIAS`] bytes without white space or control characters.
pub(crate) fn alias<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let read = |text: &str| is_alias(text).then(|| Some(text.to_owned()));
    checked(deserializer, read, "an alias of 1 to 128 bytes without white space")
}

/// Whether the text can name an account.
pub fn is_alias(text: &str) -> bool {
    (1..=MAX_ALIAS).contains(&text.len()) && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// Reads the code of an asset: an ISO 4217 code or an ISIN (ISO 6166).
pub(crate) fn asset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let read = |text: &str| (is_currency(text) || is_isin(text)).then(|| text.to_owned());
    checked(deserializer, read, "a currency code such as EUR, or an ISIN such as DE0001102580")
}

/// Whether the text has the form of an ISO 4217 code.
pub(crate) fn is_currency(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Whether the text is an ISIN: two letters, nine letters or digits and the check digit (ISO 6166, annex A).
pub(crate) fn is_isin(text: &str) -> bool {
    let bytes = text.as_bytes();
    let form = bytes.len() == 12
        && bytes[..2].iter().all(u8::is_ascii_uppercase)
        && bytes[2..11].iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && bytes[11].is_ascii_digit();
    if !form {
        return false;
    }
    // Letters count as 10 to 35; every second digit from the right is doubled (Luhn).
    let digits: Vec<u32> = text
        .chars()
        .filter_map(|c| c.to_digit(36))
        .flat_map(|value| if value > 9 { vec![value / 10, value % 10] } else { vec![value] })
        .collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| if place % 2 == 0 { *digit } else { digit * 2 / 10 + digit * 2 % 10 })
        .sum();
    sum.is_multiple_of(10)
}

/// Reads an X.500 distinguished name in the string form of RFC 4514 that names an organisation and a country.
pub(crate) fn distinguished<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let read = |text: &str| is_distinguished(text).then(|| text.to_owned());
    checked(deserializer, read, "an X.500 name such as O=Alpha Bank,L=Berlin,C=DE")
}

fn is_distinguished(text: &str) -> bool {
    let (mut organisation, mut country) = (0, 0);
    for part in split_unescaped(text) {
        let Some((attribute, value)) = part.split_once('=') else { return false };
        let value = value.trim();
        if value.is_empty() || value.len() > 128 || value.chars().any(char::is_control) {
            return false;
        }
        match attribute.trim() {
            "O" => organisation += 1,
            "C" if value.len() == 2 && value.bytes().all(|byte| byte.is_ascii_uppercase()) => country += 1,
            "CN" | "OU" | "L" | "ST" => {}
            _ => return false,
        }
    }
    organisation == 1 && country == 1
}

/// The parts between commas that no backslash precedes.
fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        match c {
            ',' if !escaped => parts.push(String::new()),
            _ => parts.last_mut().expect("there is always one part").push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    parts
}

fn checked<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Option<T>,
    wanted: &str,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    let shown: String = text.chars().take(140).collect();
    read(&text).ok_or_else(|| serde::de::Error::custom(format!("'{shown}' is not {wanted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isins_have_their_check_digit() {
        for isin in ["DE0001102580", "US0378331005", "GB0002634946"] {
            assert!(is_isin(isin), "{isin}");
        }
        for text in ["DE0001102581", "US037833100", "US03783310055", "us0378331005", "1E0001102580", ""] {
            assert!(!is_isin(text), "{text}");
        }
    }

    #[test]
    fn distinguished_names_name_an_organisation_and_a_country() {
        for name in ["O=Alpha Bank,L=Berlin,C=DE", "CN=x, O=A\\, B and Sons, C=FR"] {
            assert!(is_distinguished(name), "{name}");
        }
        for name in ["", "Alpha Bank", "O=Alpha Bank", "O=A,C=de", "O=,C=DE", "O=A,O=B,C=DE", "O=A,C=DE,X=1"]
        {
            assert!(!is_distinguished(name), "{name}");
        }
    }
}
