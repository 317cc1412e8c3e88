//! X.500 names of institutions.

use crate::encoding::invalid;
use crate::limits::{NAME_ATTRIBUTE_CHARACTERS, NAME_BYTES};
use crate::text::as_text;
use borsh::io::{Error, Read, Write};
use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The X.500 name of a legal entity (X.520, RFC 4514): organisation (`O`), locality (`L`) and
/// country (`C`, ISO 3166-1 alpha-2), and if wanted an organisational unit (`OU`) and a common
/// name (`CN`).
///
/// Always valid, and kept as its one canonical text, such as `O=PartyA, L=London, C=GB` or
/// `CN=Desk 7, OU=Treasury, O=PartyA, L=London, C=GB`; two names are equal when these texts are.
/// Values hold Latin letters (without combining marks), digits, single spaces and `-.'&()/:_@`, so
/// that nothing in them needs escaping in any of the forms a name is written in.
///
/// Parsing takes the attributes in any order, in either case, with or without spaces around the commas.
///
/// ```
/// let name: tally_contracts::Name = "C=GB,l=London, O=PartyA".parse()?;
/// assert_eq!(name.to_string(), "O=PartyA, L=London, C=GB");
/// assert_eq!((name.organisation(), name.country()), ("PartyA", "GB"));
/// # Ok::<(), tally_contracts::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

as_text!(Name, "an X.500 name such as 'O=PartyA, L=London, C=GB'");

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Longer than [`NAME_BYTES`].
    #[error("a name has at most {NAME_BYTES} bytes, this one has {0}")]
    TooLong(usize),
    /// A part is not `attribute=value`, or the attribute is not one of `CN`, `OU`, `O`, `L`, `C`.
    #[error("'{0}' is not an attribute of a name: use CN=, OU=, O=, L= and C=, separated by commas")]
    Attribute(String),
    /// An attribute that every name has is missing.
    #[error("a name needs {0}=")]
    Missing(&'static str),
    /// An attribute occurs twice.
    #[error("a name has {0}= only once")]
    Twice(&'static str),
    /// A value is empty or too long.
    #[error(
        "the value of {attribute}= has {characters} characters; 1 to {NAME_ATTRIBUTE_CHARACTERS} are allowed"
    )]
    Length {
        /// Which attribute.
        attribute: &'static str,
        /// Characters found.
        characters: usize,
    },
    /// A value has a character that names do not use, or a space where none may be.
    #[error("the value of {attribute}= has {character:?}, or a space at its edge or beside another space")]
    Character {
        /// Which attribute.
        attribute: &'static str,
        /// The offending character.
        character: char,
    },
    /// The country is not an ISO 3166-1 alpha-2 code.
    #[error("'{0}' is not a country code of ISO 3166-1, such as GB")]
    Country(String),
    /// Valid, but not written in the canonical form.
    #[error("the name is not in its canonical form '{0}'")]
    NotCanonical(String),
}

/// The attributes in canonical order, the most particular first as in RFC 4514.
const ATTRIBUTES: [&str; 5] = ["CN", "OU", "O", "L", "C"];
const COMMON_NAME: usize = 0;
const UNIT: usize = 1;
const ORGANISATION: usize = 2;
const LOCALITY: usize = 3;
const COUNTRY: usize = 4;

/// ISO 3166-1 alpha-2, all officially assigned codes.
const COUNTRIES: &str = "\
    ADAEAFAGAIALAMAOAQARASATAUAWAXAZBABBBDBEBFBGBHBIBJBLBMBNBOBQBRBSBTBVBWBYBZCACCCDCFCGCHCICKCLCMCNCOCRCUCVCW\
    CXCYCZDEDJDKDMDODZECEEEGEHERESETFIFJFKFMFOFRGAGBGDGEGFGGGHGIGLGMGNGPGQGRGSGTGUGWGYHKHMHNHRHTHUIDIEILIMINIO\
    IQIRISITJEJMJOJPKEKGKHKIKMKNKPKRKWKYKZLALBLCLILKLRLSLTLULVLYMAMCMDMEMFMGMHMKMLMMMNMOMPMQMRMSMTMUMVMWMXMYMZ\
    NANCNENFNGNINLNONPNRNUNZOMPAPEPFPGPHPKPLPMPNPRPSPTPWPYQARERORSRURWSASBSCSDSESGSHSISJSKSLSMSNSOSRSSSTSVSXSY\
    SZTCTDTFTGTHTJTKTLTMTNTOTRTTTVTWTZUAUGUMUSUYUZVAVCVEVGVIVNVUWFWSYEYTZAZMZW";

impl Name {
    /// A name of the three attributes that every name has.
    ///
    /// # Errors
    /// [`NameError`] when a value is refused.
    pub fn new(organisation: &str, locality: &str, country: &str) -> Result<Self, NameError> {
        Self::from_values([None, None, Some(organisation), Some(locality), Some(country)])
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `O`, the organisation.
    pub fn organisation(&self) -> &str {
        self.value(ORGANISATION).unwrap_or_default()
    }

    /// `L`, the locality.
    pub fn locality(&self) -> &str {
        self.value(LOCALITY).unwrap_or_default()
    }

    /// `C`, the country: two capital letters.
    pub fn country(&self) -> &str {
        self.value(COUNTRY).unwrap_or_default()
    }

    /// `OU`, the organisational unit.
    pub fn organisational_unit(&self) -> Option<&str> {
        self.value(UNIT)
    }

    /// `CN`, the common name.
    pub fn common_name(&self) -> Option<&str> {
        self.value(COMMON_NAME)
    }

    fn value(&self, attribute: usize) -> Option<&str> {
        let name = *ATTRIBUTES.get(attribute)?;
        self.0.split(", ").find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
    }

    fn from_values(values: [Option<&str>; 5]) -> Result<Self, NameError> {
        let mut text = String::with_capacity(64);
        for (attribute, value) in ATTRIBUTES.into_iter().zip(values) {
            match value {
                Some(value) => {
                    check(attribute, value)?;
                    let separator = if text.is_empty() { "" } else { ", " };
                    text.extend([separator, attribute, "=", value]);
                }
                None if matches!(attribute, "CN" | "OU") => {}
                None => return Err(NameError::Missing(attribute)),
            }
        }
        if text.len() > NAME_BYTES {
            return Err(NameError::TooLong(text.len()));
        }
        Ok(Self(text.into()))
    }

    /// Takes a text that must already be canonical, as in encodings.
    fn from_canonical(text: &str) -> Result<Self, NameError> {
        let mut values = [None; 5];
        let mut next = 0;
        let in_order = text.split(", ").all(|part| {
            let Some((attribute, value)) = part.split_once('=') else { return false };
            let Some(position) = ATTRIBUTES.iter().position(|known| *known == attribute) else {
                return false;
            };
            let in_order = position >= next;
            next = position.saturating_add(1);
            values[position] = Some(value);
            in_order
        });
        let [_, _, Some(_), Some(_), Some(_)] = values else { return Err(not_canonical(text)) };
        if !in_order {
            return Err(not_canonical(text));
        }
        for (attribute, value) in ATTRIBUTES.into_iter().zip(values) {
            if let Some(value) = value {
                check(attribute, value)?;
            }
        }
        Ok(Self(text.into()))
    }
}

/// The best reason why a text that is not canonical is refused.
fn not_canonical(text: &str) -> NameError {
    match text.parse::<Name>() {
        Ok(name) => NameError::NotCanonical(name.to_string()),
        Err(error) => error,
    }
}

fn check(attribute: &'static str, value: &str) -> Result<(), NameError> {
    let characters = value.chars().count();
    if characters == 0 || characters > NAME_ATTRIBUTE_CHARACTERS {
        return Err(NameError::Length { attribute, characters });
    }
    let mut before = ' ';
    for character in value.chars() {
        if !allowed(character) || (character == ' ' && before == ' ') {
            return Err(NameError::Character { attribute, character });
        }
        before = character;
    }
    if before == ' ' {
        return Err(NameError::Character { attribute, character: ' ' });
    }
    if attribute == "C" && !is_country(value) {
        return Err(NameError::Country(value.to_owned()));
    }
    Ok(())
}

/// Latin letters with their own code point, digits and the few signs that firms use. Multiplication
/// and division signs stand among the letters of Latin-1.
fn allowed(character: char) -> bool {
    match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' => true,
        '-' | '.' | '\'' | '&' | '(' | ')' | '/' | ':' | '_' | '@' => true,
        '\u{d7}' | '\u{f7}' => false,
        _ => ('\u{c0}'..='\u{24f}').contains(&character),
    }
}

fn is_country(code: &str) -> bool {
    let Ok(code) = <[u8; 2]>::try_from(code.as_bytes()) else { return false };
    COUNTRIES.as_bytes().as_chunks::<2>().0.binary_search(&code).is_ok()
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.len() > NAME_BYTES {
            return Err(NameError::TooLong(text.len()));
        }
        let mut values = [None; 5];
        for part in text.split(',') {
            let unknown = || NameError::Attribute(part.trim().to_owned());
            let (attribute, value) = part.split_once('=').ok_or_else(unknown)?;
            let found = ATTRIBUTES.into_iter().zip(&mut values);
            let (name, slot) = found
                .into_iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(attribute.trim()))
                .ok_or_else(unknown)?;
            if slot.replace(value.trim()).is_some() {
                return Err(NameError::Twice(name));
            }
        }
        Self::from_values(values)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl BorshSerialize for Name {
    fn serialize<W: Write>(&self, writer: &mut W) -> Result<(), Error> {
        self.0.as_bytes().serialize(writer)
    }
}

impl BorshDeserialize for Name {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        let length = usize::try_from(u32::deserialize_reader(reader)?).map_err(invalid)?;
        let mut buffer = [0; NAME_BYTES];
        let bytes = buffer.get_mut(..length).ok_or_else(|| invalid(NameError::TooLong(length)))?;
        reader.read_exact(bytes)?;
        Self::from_canonical(std::str::from_utf8(bytes).map_err(invalid)?).map_err(invalid)
    }
}

#[cfg(test)]
mod tests;
