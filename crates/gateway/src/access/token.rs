//! Tokens.

use crate::{NoRandomness, random};
use tally_crypto::Hash;

const PREFIX: &str = "tally_";
/// Bytes of randomness in a token.
const BYTES: usize = 32;
const KEY: &[u8; 32] = b"tallystick access token 2026 v1\0";

/// The secret that lets a user in. It is shown once, when it is made.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(…)")
    }
}

impl Token {
    /// A new one: `tally_` and 256 random bits in hexadecimal.
    ///
    /// # Errors
    /// When the operating system has no randomness.
    pub fn generate() -> Result<Self, NoRandomness> {
        Ok(Self(format!("{PREFIX}{}", crate::codec::to_hex(&random::<BYTES>()?))))
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is kept of the token.
    pub fn kept(&self) -> Hash {
        tally_crypto::keyed(KEY, self.0.as_bytes())
    }

    /// What is kept of the token with this text; none if no token has such a text.
    pub(super) fn hash(text: &str) -> Option<Hash> {
        let digits = text.strip_prefix(PREFIX)?;
        let is_hex = digits.len() == BYTES * 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| tally_crypto::keyed(KEY, text.as_bytes()))
    }
}
