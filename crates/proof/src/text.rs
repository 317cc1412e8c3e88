//! The text forms of what the ledger's types leave in bytes.

/// A salt: 32 hexadecimal digits.
pub(crate) mod salt {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::fmt::Write;
    use tally_ledger::transaction::Salt;

    pub(crate) fn serialize<S: Serializer>(salt: &Salt, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(32);
        for byte in salt {
            write!(text, "{byte:02x}").map_err(serde::ser::Error::custom)?;
        }
        serializer.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Salt, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("a salt is 32 lower-case hexadecimal digits");
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(wrong()),
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 16 || !rest.is_empty() {
            return Err(wrong());
        }
        let mut salt = [0; 16];
        for (byte, [high, low]) in salt.iter_mut().zip(pairs) {
            *byte = value(*high)? << 4 | value(*low)?;
        }
        Ok(salt)
    }
}

/// A reference: a UUID.
pub(crate) mod uetr {
    use serde::{Deserialize, Deserializer, Serializer};
    use tally_ledger::Uetr;

    pub(crate) fn serialize<S: Serializer>(uetr: &Uetr, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(uetr)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uetr, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
