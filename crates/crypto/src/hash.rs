//! BLAKE3, the hash of everything that is not an RFC 9162 log.

use crate::hex::hex_bytes;

/// A 32-byte BLAKE3 hash.
///
/// Plain bytes in memory, so that slices of hashes, and structures holding them, can be read
/// from and written to a log without copying. Text and serde form: 64 lower-case hexadecimal
/// digits.
///
/// ```
/// let id = tally_crypto::hash(b"tally");
/// assert_eq!(id.to_string().parse(), Ok(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Hash([u8; 32]);

hex_bytes!(Hash, 32);

impl Hash {
    /// All bytes zero: a placeholder that no known input hashes to.
    pub const ZERO: Self = Self([0; 32]);
}

impl From<blake3::Hash> for Hash {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash.into())
    }
}

/// The BLAKE3 hash of `data`.
pub fn hash(data: &[u8]) -> Hash {
    blake3::hash(data).into()
}

/// The BLAKE3 keyed hash of `data`: a message authentication code, or a hash of its own domain
/// when the key is a public constant.
pub fn keyed(key: &[u8; 32], data: &[u8]) -> Hash {
    blake3::keyed_hash(key, data).into()
}

/// A key of 32 bytes that belongs to `context` and `material` alone: BLAKE3's key derivation
/// (BLAKE3 paper, section 2.3).
///
/// Hashes under keys of two contexts, or of two materials in one context, never coincide but by a
/// collision of BLAKE3.
/// `context` is a constant that names the application and the purpose.
pub fn derive_key(context: &'static str, material: &[u8]) -> [u8; 32] {
    blake3::derive_key(context, material)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HexError;
    use proptest::prelude::*;

    #[test]
    fn equals_the_published_vectors() {
        // BLAKE3 test_vectors.json: input lengths 0 and 3 (bytes 0, 1, 2, ...).
        assert_eq!(hash(b"").to_string(), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
        assert_eq!(
            hash(&[0, 1, 2]).to_string(),
            "e1be4d7a8ab5560aa4199eea339849ba8e293d55ca0a81006726d184519e647f"
        );
        assert_eq!(
            keyed(b"whats the Elvish word for friend", &[0, 1, 2]).to_string(),
            "39e67b76b5a007d4921969779fe666da67b5213b096084ab674742f0d5ec62b9"
        );
        assert_eq!(
            Hash(derive_key("BLAKE3 2019-12-27 16:29:52 test vectors context", &[0, 1, 2])).to_string(),
            "440aba35cb006b61fc17c0529255de438efc06a8c9ebf3f2ddac3b5a86705797"
        );
    }

    #[test]
    fn text_is_strict() {
        assert_eq!("".parse::<Hash>(), Err(HexError::Length { expected: 64, got: 0 }));
        assert_eq!("0".repeat(65).parse::<Hash>(), Err(HexError::Length { expected: 64, got: 65 }));
        let signed = format!("{}+f", "0".repeat(62));
        assert_eq!(signed.parse::<Hash>(), Err(HexError::Digit { position: 62 }));
        assert_eq!("AB".repeat(32).parse::<Hash>(), Ok(Hash::from_bytes([0xab; 32])));
    }

    proptest! {
        #[test]
        fn text_and_serde_round_trip(bytes: [u8; 32]) {
            let value = Hash::from_bytes(bytes);
            prop_assert_eq!(value.to_string().parse::<Hash>(), Ok(value));
            let json = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(&json, &format!("\"{value}\""));
            prop_assert_eq!(serde_json::from_str::<Hash>(&json).unwrap(), value);
        }

        #[test]
        fn any_text_is_an_error_or_a_hash(text in "\\PC{0,70}") {
            if let Ok(value) = text.parse::<Hash>() {
                prop_assert_eq!(value.to_string(), text.to_lowercase());
            }
        }
    }
}
