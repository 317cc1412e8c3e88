//! Lower-case hexadecimal, the one text form of every fixed-size byte string here.

use std::fmt;

/// Why a text is not the hexadecimal form of a hash, key or signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HexError {
    /// The text has the wrong length.
    #[error("expected {expected} hexadecimal digits, got {got} bytes of text")]
    Length {
        /// Digits the type needs.
        expected: usize,
        /// Bytes of text found.
        got: usize,
    },
    /// The text holds something other than `0-9a-fA-F`.
    #[error("byte {position} of the text is not a hexadecimal digit")]
    Digit {
        /// Offset of the first offending byte.
        position: usize,
    },
}

/// Decodes exactly `N` bytes; upper and lower case digits are accepted.
pub(crate) fn decode<const N: usize>(text: &str) -> Result<[u8; N], HexError> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return Err(HexError::Length { expected: 2 * N, got: digits.len() });
    }
    let mut bytes = [0; N];
    for (position, digit) in digits.iter().enumerate() {
        let value = char::from(*digit).to_digit(16).ok_or(HexError::Digit { position })?;
        let shift = if position % 2 == 0 { 4 } else { 0 };
        bytes[position / 2] |= (value as u8) << shift;
    }
    Ok(bytes)
}

/// Writes `bytes` as lower-case digits.
pub(crate) fn write(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0u8; 128];
    for chunk in bytes.chunks(text.len() / 2) {
        for (pair, byte) in text.chunks_exact_mut(2).zip(chunk) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text[..2 * chunk.len()]).map_err(|_| fmt::Error)?)?;
    }
    Ok(())
}

/// Gives a `struct Name([u8; N])` its text form, serde form (a hexadecimal string) and accessors.
macro_rules! hex_bytes {
    ($name:ident, $length:literal) => {
        impl $name {
            /// Length in bytes.
            pub const LENGTH: usize = $length;

            /// Wraps the bytes as they are.
            pub const fn from_bytes(bytes: [u8; $length]) -> Self {
                Self(bytes)
            }

            /// The bytes.
            pub const fn as_bytes(&self) -> &[u8; $length] {
                &self.0
            }
        }

        impl From<[u8; $length]> for $name {
            fn from(bytes: [u8; $length]) -> Self {
                Self(bytes)
            }
        }

        impl From<$name> for [u8; $length] {
            fn from(value: $name) -> Self {
                value.0
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::hex::write(&self.0, f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::hex::HexError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::hex::decode(text).map(Self)
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

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(f, "{} hexadecimal digits", 2 * $length)
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

pub(crate) use hex_bytes;

/// Serde form of a plain array: a hexadecimal string, as for the types made by [`hex_bytes`].
pub(crate) mod array {
    use crate::Hash;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Hash::from_bytes(*bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        Hash::deserialize(deserializer).map(|hash| *hash.as_bytes())
    }
}
