//! The text of a key file.

use super::{KeyFileError, Malformation, ScryptCost};
use crate::{PublicKey, SigningKey};
use pkcs8::der::asn1::OctetStringRef;
use pkcs8::pkcs5::pbes2::{Kdf, Parameters};
use pkcs8::pkcs5::{self, scrypt};
use pkcs8::{
    AlgorithmIdentifierRef, EncryptedPrivateKeyInfoRef, LineEnding, ObjectIdentifier, PrivateKeyInfoRef,
    SecretDocument,
};
use std::path::Path;
use std::str::FromStr;
use zeroize::Zeroizing;

const LABEL: &str = "ENCRYPTED PRIVATE KEY";
/// Begins a line of explanatory text (RFC 7468 section 2) before the key. It tells an operator which
/// key this is, and it reveals damage: AES-CBC alone would decrypt a damaged file to another key.
const PUBLIC_KEY: &str = "public-key: ";
/// id-Ed25519 (RFC 8410 section 3).
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// RFC 7914's recommended block size, and the one that [`ScryptCost`] speaks of.
const SCRYPT_R: u16 = 8;
/// What a file may ask for: 1 GiB of memory, and some seconds.
const MAX_LOG_N: u8 = 20;
const MAX_SCRYPT_R: u16 = 32;
const MAX_P: u16 = 64;
/// `N * r * p`: 25 times the default cost, a few seconds.
const MAX_SCRYPT_WORK: u64 = 1 << 24;
const MAX_PBKDF2_ITERATIONS: u32 = 10_000_000;

/// The DER header of an octet string of 32 bytes.
const SEED_HEADER: [u8; 2] = [0x04, 32];

/// The PEM text of `key`; `path` is for error messages only.
pub(super) fn encode(
    path: &Path,
    key: &SigningKey,
    passphrase: &[u8],
    cost: ScryptCost,
) -> Result<Zeroizing<String>, KeyFileError> {
    if passphrase.is_empty() {
        return Err(KeyFileError::EmptyPassphrase { path: path.into() });
    }
    let ScryptCost { log_n, p } = cost;
    if !(1..=MAX_LOG_N).contains(&log_n) || !(1..=MAX_P).contains(&p) || !bearable(1 << log_n, SCRYPT_R, p) {
        return Err(KeyFileError::Cost { log_n, p });
    }
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(KeyFileError::Randomness)?;
    let [salt, iv] = [0, 1].map(|half| random.as_chunks::<16>().0[half]);
    let mut seed = Zeroizing::new([0; 34]);
    seed[..2].copy_from_slice(&SEED_HEADER);
    seed[2..].copy_from_slice(key.seed());

    let malformed =
        |source| KeyFileError::Malformed { path: path.into(), source: Malformation::Document(source) };
    let params =
        scrypt::Params::new(log_n, SCRYPT_R.into(), p.into()).map_err(|_| KeyFileError::Cost { log_n, p })?;
    let params = Parameters::generate_scrypt_aes256cbc(params, &salt, iv)
        .map_err(|error| malformed(pkcs8::Error::EncryptedPrivateKey(error)))?;
    let seed = OctetStringRef::new(seed.as_ref()).map_err(|error| malformed(error.into()))?;
    PrivateKeyInfoRef::new(AlgorithmIdentifierRef { oid: ED25519, parameters: None }, seed)
        .encrypt_with_params(params, passphrase)
        .and_then(|document| Ok(document.to_pem(LABEL, LineEnding::LF)?))
        .map(|pem| Zeroizing::new(format!("{PUBLIC_KEY}{}\n{}", key.public_key(), *pem)))
        .map_err(malformed)
}

/// The key in PEM `text`; `path` is for error messages only.
pub(super) fn decode(path: &Path, text: &[u8], passphrase: &[u8]) -> Result<SigningKey, KeyFileError> {
    let malformed = |source| KeyFileError::Malformed { path: path.into(), source };
    let document = |source| malformed(Malformation::Document(source));
    let text =
        std::str::from_utf8(text).map_err(|error| malformed(Malformation::NotText(error.valid_up_to())))?;
    let (preamble, text) = text.split_at(text.find("-----BEGIN ").unwrap_or(0));
    let public_key = match preamble.lines().find_map(|line| line.strip_prefix(PUBLIC_KEY)) {
        Some(digits) => Some(PublicKey::from_str(digits).map_err(|_| malformed(Malformation::PublicKey))?),
        None => None,
    };
    let (label, encrypted) =
        SecretDocument::from_pem(text.trim_ascii()).map_err(|error| document(error.into()))?;
    if label != LABEL {
        return Err(malformed(Malformation::Label(label.into())));
    }
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(encrypted.as_bytes()).map_err(document)?;
    let Some(params) = encrypted.encryption_algorithm.pbes2() else {
        let error = pkcs5::Error::NoPbes1CryptSupport;
        return Err(document(pkcs8::Error::EncryptedPrivateKey(error)));
    };
    let bearable = match &params.kdf {
        Kdf::Scrypt(scrypt) => bearable(scrypt.cost_parameter, scrypt.block_size, scrypt.parallelization),
        Kdf::Pbkdf2(pbkdf2) => (1..=MAX_PBKDF2_ITERATIONS).contains(&pbkdf2.iteration_count),
        _ => false,
    };
    if !bearable {
        return Err(malformed(Malformation::Cost));
    }
    let wrong = || KeyFileError::WrongPassphrase { path: path.into() };
    let decrypted = encrypted.decrypt(passphrase).map_err(|error| match error {
        // A wrong key leaves wrong padding or, one time in 256, right padding around noise.
        pkcs8::Error::EncryptedPrivateKey(pkcs5::Error::DecryptFailed) | pkcs8::Error::Asn1(_) => wrong(),
        other => document(other),
    })?;
    let info = PrivateKeyInfoRef::try_from(decrypted.as_bytes()).map_err(|_| wrong())?;
    if info.algorithm.oid != ED25519 {
        return Err(malformed(Malformation::Algorithm(info.algorithm.oid)));
    }
    let seed = info.private_key.as_bytes().strip_prefix(&SEED_HEADER);
    let Some(Ok(seed)) = seed.map(<[u8; 32]>::try_from) else {
        return Err(malformed(Malformation::Seed));
    };
    let key = SigningKey::from_seed(*Zeroizing::new(seed));
    let own = key.public_key();
    let inside = info.public_key.is_none_or(|public| public.as_bytes() == Some(own.as_bytes()));
    if inside && public_key.is_none_or(|public| public == own) {
        Ok(key)
    } else {
        Err(malformed(Malformation::PublicKey))
    }
}

/// Whether scrypt with these parameters stays within the memory and time a key file may take.
fn bearable(n: u64, r: u16, p: u16) -> bool {
    n.is_power_of_two()
        && n > 1
        && n <= 1 << MAX_LOG_N
        && (1..=MAX_SCRYPT_R).contains(&r)
        && (1..=MAX_P).contains(&p)
        && n * u64::from(r) * u64::from(p) <= MAX_SCRYPT_WORK
}
