//! Identifiers of institutions, accounts and payments.

use std::fmt;

/// A business identifier code (ISO 9362). `ALPHDEFF` and `ALPHDEFFXXX` are the same institution
/// and equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bic([u8; 11]);

impl Bic {
    /// Reads 8 or 11 characters by the pattern of `BICFIDec2014Identifier`; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 8 && bytes.len() != 11 {
            return None;
        }
        let alphanumeric = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        if !bytes.iter().all(alphanumeric) || !bytes[4..6].iter().all(u8::is_ascii_uppercase) {
            return None;
        }
        let mut code = *b"XXXXXXXXXXX";
        code[..bytes.len()].copy_from_slice(bytes);
        Some(Self(code))
    }

    /// The shortest form: 8 characters for a head office, 11 for a branch.
    pub fn as_str(&self) -> &str {
        let code = if self.0.ends_with(b"XXX") { &self.0[..8] } else { &self.0[..] };
        std::str::from_utf8(code).expect("a BIC is made of ASCII letters and digits only")
    }

    /// The two letters of the country (ISO 3166).
    pub fn country(&self) -> &str {
        &self.as_str()[4..6]
    }
}

impl fmt::Display for Bic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Bic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bic({self})")
    }
}

/// An international bank account number (ISO 13616) in electronic form. Its form was checked; its
/// check digits need not be right, see [`Iban::checksum_ok`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Iban(String);

impl Iban {
    /// Reads an IBAN by the pattern of `IBAN2007Identifier`: country, two check digits, 1 to 30
    /// letters and digits. Small letters after the check digits become capitals. `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let form = (5..=34).contains(&bytes.len())
            && bytes[..2].iter().all(u8::is_ascii_uppercase)
            && bytes[2..4].iter().all(u8::is_ascii_digit)
            && bytes[4..].iter().all(u8::is_ascii_alphanumeric);
        form.then(|| Self(text.to_ascii_uppercase()))
    }

    /// The IBAN without spaces.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the check digits fit: the number, with the first four characters moved to the end
    /// and letters read as 10 to 35, leaves 1 when divided by 97 (ISO 7064 MOD 97-10).
    pub fn checksum_ok(&self) -> bool {
        let (front, rest) = self.0.split_at(4);
        let remainder = rest.chars().chain(front.chars()).fold(0, |remainder, character| {
            let value = character.to_digit(36).unwrap_or(0);
            (remainder * if value > 9 { 100 } else { 10 } + value) % 97
        });
        remainder == 1
    }
}

impl fmt::Display for Iban {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a unique end-to-end transaction reference by the pattern of `UUIDv4Identifier` (RFC 9562
/// version 4, small letters).
pub(crate) fn parse_uetr(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 || bytes[14] != b'4' || !matches!(bytes[19], b'8' | b'9' | b'a' | b'b') {
        return None;
    }
    let mut uetr = [0; 16];
    let mut nibbles = 0;
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return None;
            }
            continue;
        }
        let value = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        uetr[nibbles / 2] = uetr[nibbles / 2] << 4 | value;
        nibbles += 1;
    }
    Some(uetr)
}

/// A reference in its written form: `eb6305c9-1f7f-49de-aed0-16487c27b42d`.
pub fn format_uetr(uetr: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in uetr.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_office_has_two_spellings() {
        assert_eq!(Bic::parse("ALPHDEFF"), Bic::parse("ALPHDEFFXXX"));
        assert_ne!(Bic::parse("ALPHDEFF"), Bic::parse("ALPHDEFF001"));
        assert_eq!(Bic::parse("ALPHDEFFXXX").map(|bic| bic.to_string()).as_deref(), Some("ALPHDEFF"));
        assert_eq!(Bic::parse("BETAFRPP").map(|bic| bic.country().to_owned()).as_deref(), Some("FR"));
        for text in ["", "ALPHDEF", "ALPHDEFFX", "alphdeff", "ALPH12FF", "ALPHDEFF XX", "ALPHDEFÄ"] {
            assert_eq!(Bic::parse(text), None, "{text}");
        }
    }

    #[test]
    fn check_digits_are_told_apart_from_form() {
        let ok = |text| Iban::parse(text).map(|iban| iban.checksum_ok());
        assert_eq!(ok("GB82WEST12345698765432"), Some(true));
        assert_eq!(ok("DE89370400440532013000"), Some(true));
        assert_eq!(ok("GB82WEST12345698765423"), Some(false));
        assert_eq!(ok("LT007180000000000000"), Some(false));
        assert_eq!(Iban::parse("GB82west12345698765432"), Iban::parse("GB82WEST12345698765432"));
        for text in
            ["", "DE89", "de89370400440532013000", "DE8937040044053201300-", "DE89 3704 0044 0532 0130 00"]
        {
            assert_eq!(Iban::parse(text), None, "{text}");
        }
        assert_eq!(Iban::parse(&format!("DE00{}", "1".repeat(31))), None);
    }

    #[test]
    fn a_reference_reads_as_it_is_written() {
        let text = "eb6305c9-1f7f-49de-aed0-16487c27b42d";
        assert_eq!(parse_uetr(text).map(|uetr| format_uetr(&uetr)).as_deref(), Some(text));
        for text in [
            "EB6305C9-1F7F-49DE-AED0-16487C27B42D",
            "eb6305c9-1f7f-59de-aed0-16487c27b42d",
            "eb6305c9-1f7f-49de-ced0-16487c27b42d",
            "eb6305c91f7f-49de-aed0-16487c27b42d0",
            "eb6305c9-1f7f-49de-aed0-16487c27b42",
            "eb6305c9-1f7f-49de-aed0-16487c27b42g",
        ] {
            assert_eq!(parse_uetr(text), None, "{text}");
        }
    }
}
