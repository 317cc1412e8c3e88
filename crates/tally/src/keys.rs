//! The keys of a network as files: `NAME.pem` (encrypted) and `NAME.pub` (the public key, so that
//! the right file is found without the passphrase).

use crate::passphrase::Passphrase;
use anyhow::{Context, bail};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tally_crypto::keystore::{KeyFile, ScryptCost};
use tally_crypto::{PublicKey, SigningKey};

/// Makes a key and writes both of its files into `directory`.
///
/// # Errors
/// When there is no randomness, or the files exist or cannot be written.
pub fn create(
    directory: &Path,
    name: &str,
    passphrase: &Passphrase,
    cost: ScryptCost,
) -> anyhow::Result<SigningKey> {
    let key = SigningKey::generate()?;
    let name = file_name(name);
    KeyFile::write(&directory.join(format!("{name}.pem")), &key, passphrase, cost)?;
    let public = directory.join(format!("{name}.pub"));
    std::fs::write(&public, format!("{}\n", key.public_key()))
        .with_context(|| format!("cannot write {}", public.display()))?;
    Ok(key)
}

/// The public key of that name; the key is made if there is none.
///
/// # Errors
/// As [`create`], and when the public key cannot be read.
pub fn find_or_create(
    directory: &Path,
    name: &str,
    passphrase: &Passphrase,
    cost: ScryptCost,
) -> anyhow::Result<PublicKey> {
    let public = directory.join(format!("{}.pub", file_name(name)));
    if public.exists() {
        read_public(&public)
    } else {
        Ok(create(directory, name, passphrase, cost)?.public_key())
    }
}

/// Reads the private key of that name.
///
/// # Errors
/// When there is none, or the passphrase is wrong.
pub fn read(directory: &Path, name: &str, passphrase: &Passphrase) -> anyhow::Result<SigningKey> {
    Ok(KeyFile::read(&directory.join(format!("{}.pem", file_name(name))), passphrase)?)
}

fn read_public(path: &Path) -> anyhow::Result<PublicKey> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.trim().parse().with_context(|| format!("{}: not a public key", path.display()))
}

/// A key's name as a file name: everything but letters, digits and `.@+_-` becomes `%` and its hexadecimal
/// code, and so does a leading dot.
fn file_name(name: &str) -> String {
    let mut safe = String::with_capacity(name.len());
    for (position, byte) in name.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b"@+_-".contains(&byte) || (byte == b'.' && position > 0);
        if plain {
            safe.push(char::from(byte));
        } else {
            safe.push_str(&format!("%{byte:02X}"));
        }
    }
    safe
}

/// Private keys found by their public keys in some directories, decrypted when first used.
#[derive(Debug)]
pub struct KeyRing {
    files: HashMap<PublicKey, PathBuf>,
    passphrase: Passphrase,
    opened: HashMap<PublicKey, SigningKey>,
}

impl KeyRing {
    /// Looks for public keys in `directories`; those that do not exist hold none.
    ///
    /// # Errors
    /// When a directory cannot be listed or a `.pub` file holds no public key.
    pub fn open(directories: &[PathBuf], passphrase: Passphrase) -> anyhow::Result<Self> {
        let mut files = HashMap::new();
        for directory in directories.iter().filter(|directory| directory.exists()) {
            let failed = || format!("cannot list the keys in {}", directory.display());
            for entry in std::fs::read_dir(directory).with_context(failed)? {
                let path = entry.with_context(failed)?.path();
                if path.extension().is_some_and(|extension| extension == "pub") {
                    files.insert(read_public(&path)?, path.with_extension("pem"));
                }
            }
        }
        Ok(Self { files, passphrase, opened: HashMap::new() })
    }

    /// The private key of `key`.
    ///
    /// # Errors
    /// When no directory holds it, or the passphrase is wrong.
    pub fn signing_key(&mut self, key: &PublicKey) -> anyhow::Result<&SigningKey> {
        let Some(path) = self.files.get(key) else {
            bail!(
                "no key file belongs to the public key {key}; give the directory that holds it with --keys"
            );
        };
        if !self.opened.contains_key(key) {
            let opened = KeyFile::read(path, &self.passphrase)?;
            if opened.public_key() != *key {
                bail!("{}: the private key is not that of the .pub file beside it", path.display());
            }
            self.opened.insert(*key, opened);
        }
        Ok(&self.opened[key])
    }

    /// Whether the key's file is here.
    pub fn holds(&self, key: &PublicKey) -> bool {
        self.files.contains_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    #[test]
    fn names_cannot_leave_the_directory() {
        assert_eq!(file_name("DE89370400440532013000"), "DE89370400440532013000");
        assert_eq!(file_name("a.b@c.de"), "a.b@c.de");
        assert_eq!(file_name("../x"), "%2E.%2Fx");
        assert_eq!(file_name("ä b"), "%C3%A4%20b");
    }

    #[test]
    fn a_ring_finds_keys_by_their_public_half() {
        let directory = tempfile::tempdir().unwrap();
        let passphrase = Zeroizing::new(b"p".to_vec());
        let alice = create(directory.path(), "alice", &passphrase, ScryptCost::TRIVIAL).unwrap();
        let bob = create(directory.path(), "bob", &passphrase, ScryptCost::TRIVIAL).unwrap();
        assert!(create(directory.path(), "bob", &passphrase, ScryptCost::TRIVIAL).is_err());

        let directories = [directory.path().to_owned(), directory.path().join("absent")];
        let mut ring = KeyRing::open(&directories, passphrase.clone()).unwrap();
        let found = ring.signing_key(&bob.public_key()).unwrap();
        assert_eq!(found.sign(b"x"), bob.sign(b"x"));
        assert!(ring.holds(&alice.public_key()));
        let stranger = SigningKey::from_seed([1; 32]).public_key();
        assert!(ring.signing_key(&stranger).unwrap_err().to_string().contains("--keys"));

        let wrong = Zeroizing::new(b"q".to_vec());
        assert!(KeyRing::open(&directories, wrong).unwrap().signing_key(&bob.public_key()).is_err());
        std::fs::write(directory.path().join("bob.pub"), alice.public_key().to_string()).unwrap();
        std::fs::remove_file(directory.path().join("alice.pub")).unwrap();
        let mut ring = KeyRing::open(&directories, passphrase).unwrap();
        let error = ring.signing_key(&alice.public_key()).unwrap_err().to_string();
        assert!(error.contains("not that of the .pub file"), "{error}");
    }
}
