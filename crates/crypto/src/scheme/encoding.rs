//! Text, serde and Borsh forms of keys and signatures, and the Borsh form of hashes.

use super::{CompressedPoint, PublicKey, Scheme, Signature};
use crate::hex::HexError;
use crate::{Hash, hex, sign};
use borsh::io::{Error, ErrorKind, Read, Write};
use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;
use std::str::FromStr;

/// What the text of a composite key begins with.
const COMPOSITE: &str = "composite";
/// The byte before a composite key, where others have their scheme's.
const COMPOSITE_TAG: u8 = 3;

/// Why a text is not a key or a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text does not begin with a scheme's name and a colon.
    #[error("expected 'ed25519:', 'secp256k1:' or 'p256:' and hexadecimal digits")]
    Scheme,
    /// What follows the colon is not hexadecimal or has the wrong length.
    #[error("the part after the colon is not the hexadecimal form of a {0} value")]
    Hex(Scheme, #[source] HexError),
    /// What follows `composite:` is not 64 hexadecimal digits.
    #[error("the part after the colon is not the hexadecimal form of a composite key")]
    Composite(#[source] HexError),
    /// The key does not begin with 02 or 03.
    #[error("a {0} key is a compressed point, which begins with 02 or 03")]
    Point(Scheme),
}

impl Scheme {
    fn tag(self) -> u8 {
        match self {
            Self::Ed25519 => 0,
            Self::Secp256k1 => 1,
            Self::P256 => 2,
        }
    }

    fn from_tag(tag: u8) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|scheme| scheme.tag() == tag)
            .ok_or_else(|| Error::new(ErrorKind::InvalidData, "unknown signature scheme"))
    }

    fn split(text: &str) -> Result<(Self, &str), ParseError> {
        let (name, digits) = text.split_once(':').ok_or(ParseError::Scheme)?;
        let scheme = Self::ALL.into_iter().find(|scheme| scheme.name() == name).ok_or(ParseError::Scheme)?;
        Ok((scheme, digits))
    }
}

impl FromStr for Scheme {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == text).ok_or(ParseError::Scheme)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme().map_or(COMPOSITE, Scheme::name))?;
        hex::write(self.as_bytes(), f)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme())?;
        hex::write(self.as_bytes(), f)
    }
}

impl fmt::Debug for CompressedPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompressedPoint(")?;
        hex::write(&self.0, f)?;
        f.write_str(")")
    }
}

impl FromStr for PublicKey {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Some((COMPOSITE, digits)) = text.split_once(':') {
            return digits.parse().map(Self::Composite).map_err(ParseError::Composite);
        }
        let (scheme, digits) = Scheme::split(text)?;
        let point = || {
            let bytes = hex::decode(digits).map_err(|error| ParseError::Hex(scheme, error))?;
            CompressedPoint::from_bytes(bytes).ok_or(ParseError::Point(scheme))
        };
        match scheme {
            Scheme::Ed25519 => {
                digits.parse().map(Self::Ed25519).map_err(|error| ParseError::Hex(scheme, error))
            }
            Scheme::Secp256k1 => point().map(Self::Secp256k1),
            Scheme::P256 => point().map(Self::P256),
        }
    }
}

impl Signature {
    fn from_parts(scheme: Scheme, bytes: [u8; 64]) -> Self {
        match scheme {
            Scheme::Ed25519 => Self::Ed25519(sign::Signature::from_bytes(bytes)),
            Scheme::Secp256k1 => Self::Secp256k1(bytes),
            Scheme::P256 => Self::P256(bytes),
        }
    }
}

impl FromStr for Signature {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (scheme, digits) = Scheme::split(text)?;
        let bytes = hex::decode(digits).map_err(|error| ParseError::Hex(scheme, error))?;
        Ok(Self::from_parts(scheme, bytes))
    }
}

impl BorshSerialize for PublicKey {
    fn serialize<W: Write>(&self, writer: &mut W) -> Result<(), Error> {
        writer.write_all(&[self.scheme().map_or(COMPOSITE_TAG, Scheme::tag)])?;
        writer.write_all(self.as_bytes())
    }
}

impl BorshDeserialize for PublicKey {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        let tag = u8::deserialize_reader(reader)?;
        if tag == COMPOSITE_TAG {
            return Ok(Self::Composite(Hash::from_bytes(read(reader)?)));
        }
        let scheme = Scheme::from_tag(tag)?;
        if scheme == Scheme::Ed25519 {
            return Ok(Self::Ed25519(sign::PublicKey::from_bytes(read(reader)?)));
        }
        let point = CompressedPoint::from_bytes(read(reader)?).ok_or_else(|| {
            Error::new(ErrorKind::InvalidData, "an ECDSA key is a compressed point, which begins with 2 or 3")
        })?;
        Ok(if scheme == Scheme::P256 { Self::P256(point) } else { Self::Secp256k1(point) })
    }
}

impl BorshSerialize for Signature {
    fn serialize<W: Write>(&self, writer: &mut W) -> Result<(), Error> {
        writer.write_all(&[self.scheme().tag()])?;
        writer.write_all(self.as_bytes())
    }
}

impl BorshDeserialize for Signature {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        let scheme = Scheme::from_tag(u8::deserialize_reader(reader)?)?;
        Ok(Self::from_parts(scheme, read(reader)?))
    }
}

impl BorshSerialize for Hash {
    fn serialize<W: Write>(&self, writer: &mut W) -> Result<(), Error> {
        writer.write_all(self.as_bytes())
    }
}

impl BorshDeserialize for Hash {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        read(reader).map(Self::from_bytes)
    }
}

fn read<R: Read, const N: usize>(reader: &mut R) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Serde form of a type that has a text form: that text.
macro_rules! serde_as_text {
    ($name:ident, $expected:literal) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl serde::de::Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }
    };
}

serde_as_text!(PublicKey, "a public key such as 'ed25519:' and 64 hexadecimal digits");
serde_as_text!(Signature, "a signature such as 'ed25519:' and 128 hexadecimal digits");
