//! Tokens that say who calls and what the caller may do: JSON Web Tokens (RFC 7519).
//!
//! Two kinds, as operators of other clients know them: a token signed by somebody whose public key is in a
//! file, with a `permissions` claim (Besu's externally issued tokens), and a token made by the caller itself
//! from a secret that both hold, valid for a minute (the engine API's HS256).

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error as TokenError, ErrorKind};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation};
use serde::Deserialize;

/// How far a caller's clock may be from ours, in seconds (execution-apis, engine/authentication: 60).
const SKEW_SECONDS: u64 = 60;

/// Why no authenticator can be made of a file.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file holds no public key of the algorithm.
    #[error("{} holds no public key for {algorithm:?} in PEM form", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The algorithm.
        algorithm: Algorithm,
        /// Why.
        #[source]
        source: TokenError,
    },
    /// The algorithm is none of those that are served.
    #[error("`{0}` is no algorithm for tokens here: use RS256, RS384, RS512, ES256 or ES384")]
    Algorithm(String),
    /// The file holds no 32 bytes in hexadecimal.
    #[error("{} holds no secret: 64 hexadecimal digits are wanted", path.display())]
    Secret {
        /// The file.
        path: PathBuf,
    },
}

/// Why a token is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is none.
    #[error("no token")]
    Missing,
    /// It is malformed, forged or out of time.
    #[error("the token is not valid")]
    Token(#[source] TokenError),
    /// A token made from the secret is too old or from the future.
    #[error("the token was issued {0} s from now, at most {SKEW_SECONDS} are allowed")]
    Issued(u64),
}

/// What checks the tokens of callers.
#[derive(Clone)]
pub struct Authenticator {
    key: DecodingKey,
    validation: Validation,
    own: bool,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator")
            .field("algorithms", &self.validation.algorithms)
            .finish_non_exhaustive()
    }
}

/// What a token lets its caller do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    all: bool,
    patterns: Vec<String>,
    expires: Option<u64>,
}

#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    permissions: Vec<String>,
    exp: Option<u64>,
    iat: Option<u64>,
}

impl Authenticator {
    /// Tokens signed with the private key to this public one, in PEM form (Besu's
    /// `rpc-http-authentication-jwt-public-key-file` and `-jwt-algorithm`).
    ///
    /// # Errors
    /// [`KeyError`] when the file is not readable or holds no such key.
    pub fn public_key_file(path: &Path, algorithm: &str) -> Result<Self, KeyError> {
        let algorithm = match algorithm {
            "RS256" => Algorithm::RS256,
            "RS384" => Algorithm::RS384,
            "RS512" => Algorithm::RS512,
            "ES256" => Algorithm::ES256,
            "ES384" => Algorithm::ES384,
            other => return Err(KeyError::Algorithm(other.to_owned())),
        };
        let pem = std::fs::read(path).map_err(|source| KeyError::Read { path: path.to_owned(), source })?;
        let key = match algorithm.family() {
            AlgorithmFamily::Rsa => DecodingKey::from_rsa_pem(&pem),
            _ => DecodingKey::from_ec_pem(&pem),
        };
        let key = key.map_err(|source| KeyError::Key { path: path.to_owned(), algorithm, source })?;
        let mut validation = Validation::new(algorithm);
        validation.leeway = 0;
        validation.validate_nbf = true;
        validation.validate_aud = false;
        Ok(Self { key, validation, own: false })
    }

    /// Tokens that callers make themselves with HS256 and the 32 bytes whose hexadecimal digits are in this file.
    ///
    /// # Errors
    /// [`KeyError`] when the file is not readable or holds no such secret.
    pub fn secret_file(path: &Path) -> Result<Self, KeyError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| KeyError::Read { path: path.to_owned(), source })?;
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let mut secret = [0; 32];
        alloy_primitives::hex::decode_to_slice(digits, &mut secret)
            .map_err(|_| KeyError::Secret { path: path.to_owned() })?;
        let mut validation = Validation::new(Algorithm::HS256);
        validation.required_spec_claims.clear();
        validation.leeway = SKEW_SECONDS;
        validation.validate_aud = false;
        Ok(Self { key: DecodingKey::from_secret(&secret), validation, own: true })
    }

    /// What the bearer of this token may do, at this time.
    ///
    /// # Errors
    /// [`Refused`] when the token shows nothing.
    pub fn verify(&self, token: &str, now: SystemTime) -> Result<Permissions, Refused> {
        install_provider();
        let claims: Claims =
            jsonwebtoken::decode(token, &self.key, &self.validation).map_err(Refused::Token)?.claims;
        let now = seconds(now);
        if !self.own {
            return Ok(Permissions { all: false, patterns: claims.permissions, expires: claims.exp });
        }
        let issued = claims
            .iat
            .ok_or_else(|| Refused::Token(ErrorKind::MissingRequiredClaim("iat".to_owned()).into()))?;
        let distance = now.abs_diff(issued);
        if distance > SKEW_SECONDS {
            return Err(Refused::Issued(distance));
        }
        // A connection keeps what its token gave it for as long as the token may still be used.
        let expires = issued.saturating_add(SKEW_SECONDS);
        let expires = claims.exp.map_or(expires, |exp| exp.min(expires));
        Ok(Permissions { all: true, patterns: Vec::new(), expires: Some(expires) })
    }
}

impl Permissions {
    /// Whether `method` may be called: the claim has `*:*`, `eth:*` or `eth:getBalance` for `eth_getBalance`.
    #[must_use]
    pub fn allow(&self, method: &str) -> bool {
        let (namespace, name) = method.split_once('_').unwrap_or((method, ""));
        self.all
            || self.patterns.iter().any(|pattern| match pattern.split_once(':') {
                Some((wanted, part)) => {
                    (wanted == "*" || wanted == namespace) && (part == "*" || part == name)
                }
                None => false,
            })
    }

    /// Whether they still hold on a connection that was opened with them. A token made from the shared secret
    /// is for the opening alone (execution-apis, engine/authentication).
    #[must_use]
    pub fn hold(&self, now: SystemTime) -> bool {
        self.all || !self.expired(now)
    }

    /// Whether they have run out.
    #[must_use]
    pub fn expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|expires| expires < seconds(now))
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// Has `jsonwebtoken` check signatures by `ring`, which the workspace uses for TLS already.
fn install_provider() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
        verifier_factory: verifier,
        key_utils: KeyUtils::new_unimplemented(),
    };
    // Another provider that the process installed before checks the same signatures.
    INSTALLED.get_or_init(|| {
        let _ = PROVIDER.install_default();
    });
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> jsonwebtoken::errors::Result<Box<dyn JwtVerifier>> {
    if algorithm.family() != key.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() }))
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl signature::Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        use ring::signature as keys;
        let bytes = self.key.try_get_as_bytes().map_err(|_| signature::Error::new())?;
        let public = |algorithm: &'static dyn keys::VerificationAlgorithm| {
            keys::UnparsedPublicKey::new(algorithm, bytes).verify(message, signature)
        };
        let checked = match self.algorithm {
            Algorithm::HS256 => {
                let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, bytes);
                ring::hmac::verify(&key, message, signature)
            }
            Algorithm::RS256 => public(&keys::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => public(&keys::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => public(&keys::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::ES256 => public(&keys::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => public(&keys::ECDSA_P384_SHA384_FIXED),
            _ => Err(ring::error::Unspecified),
        };
        checked.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
