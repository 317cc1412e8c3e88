//! References that a gateway gives to payments whose sender gave none, by which the same request sent again is found to be
//! the same payments.
//!
//! Each is a UUID of version 8 (RFC 9562, section 5.8) whose other 122 bits are a BLAKE3 hash keyed with a secret, of what
//! names the payment and of the institution that it belongs to. Whoever does not have the secret can neither compute such a
//! reference nor use it up before its payment comes, and two institutions never share one. All gateways of a network have
//! the same secret: where one of them has another, it does not recognise what was sent to the others.

use crate::{NoRandomness, codec, random, uuid};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use tally_iso20022::{Bic, Message};
use tally_ledger::Uetr;
use zeroize::Zeroizing;

/// Bytes of the secret.
const BYTES: usize = 32;
/// Keeps these references apart from those of messages and returns, which have contexts of their own.
const CONTEXT: &[u8; 32] = b"tallystick idempotent payment v2";

/// The secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// It cannot be read or written.
    #[error("cannot {action} the secret of references {}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others than its owner may use it.
    #[error("{} has mode {mode:04o}, open to others than its owner; run chmod 600 on it", path.display())]
    TooOpen {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It has another length.
    #[error(
        "{} is no secret of references: {BYTES} bytes are wanted; restore it from the backup, or take it from another gateway",
        path.display()
    )]
    Length {
        /// Which file.
        path: PathBuf,
    },
    /// There is no randomness.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// Gives references.
#[derive(Clone)]
pub struct References {
    secret: Zeroizing<[u8; BYTES]>,
}

impl std::fmt::Debug for References {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("References(…)")
    }
}

impl References {
    /// The secret's usual name.
    pub const FILE: &str = "references.secret";

    /// With a secret of its own.
    ///
    /// # Errors
    /// When the operating system has no randomness.
    pub fn generate() -> Result<Self, NoRandomness> {
        Ok(Self { secret: Zeroizing::new(random()?) })
    }

    /// With the secret in that file.
    ///
    /// # Errors
    /// When it cannot be read, others than its owner may use it, or it is no secret. A file of root's may be handed to the
    /// process by its group, as secrets that are mounted into a container are.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let failed = |source| SecretError::File { action: "read", path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let mode = metadata.mode() & 0o7777;
        let handed = if metadata.uid() == 0 && !rustix::process::geteuid().is_root() { 0o040 } else { 0 };
        if mode & 0o077 & !handed != 0 {
            return Err(SecretError::TooOpen { path: path.to_owned(), mode });
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(BYTES + 1));
        file.take(BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        let secret = <[u8; BYTES]>::try_from(bytes.as_slice());
        let secret = secret.map_err(|_| SecretError::Length { path: path.to_owned() })?;
        Ok(Self { secret: Zeroizing::new(secret) })
    }

    /// With the secret in that file, which is made, readable by its owner only, where there is none; whether it was. Of
    /// several processes that make it at once, one does, and the others take that.
    ///
    /// # Errors
    /// As [`Self::read`], and when it cannot be written.
    pub fn read_or_make(path: &Path) -> Result<(Self, bool), SecretError> {
        match Self::read(path) {
            Err(SecretError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            read => return read.map(|found| (found, false)),
        }
        let made = Self::generate()?;
        match made.write(path) {
            Err(SecretError::File { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                Ok((Self::read(path)?, false))
            }
            written => written.map(|()| (made, true)),
        }
    }

    /// Writes the secret to a new file, which is whole as soon as it is there.
    fn write(&self, path: &Path) -> Result<(), SecretError> {
        let failed = |source| SecretError::File { action: "write", path: path.to_owned(), source };
        let draft = path.with_extension(format!("{}.new", codec::to_hex(&random::<8>()?)));
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            // The process's umask may have taken bits from the owner.
            file.set_permissions(PermissionsExt::from_mode(0o600))?;
            file.write_all(&*self.secret)?;
            file.sync_all()?;
            // Unlike a new name, a second one never takes the place of what is there.
            std::fs::hard_link(&draft, path)?;
            crate::access::sync_folder(path)
        })();
        let _ = std::fs::remove_file(&draft);
        written.map_err(failed)
    }

    /// The reference of the payment at that position of a message of that institution; none if the message has no such
    /// payment.
    pub fn of_payment(&self, institution: Option<Bic>, message: &Message, position: usize) -> Option<Uetr> {
        let institution = institution.as_ref().map(Bic::as_str);
        tally_iso20022::derived_uetr(&self.secret, institution, message, position).map(Uetr)
    }

    /// The reference under which an institution sends the payment with the reference `original` back: it follows from that
    /// alone, so that a payment goes back once.
    pub fn of_return(&self, institution: Option<Bic>, original: Uetr) -> Uetr {
        let institution = institution.as_ref().map(Bic::as_str);
        Uetr(tally_iso20022::derived_return_uetr(&self.secret, institution, &original.0))
    }

    /// The reference of the payment at that position of a user's request under that `Idempotency-Key`.
    pub fn of_request(&self, institution: Option<Bic>, user: &str, key: &str, position: usize) -> Uetr {
        let mut input = CONTEXT.to_vec();
        for text in [institution.as_ref().map(Bic::as_str), Some(user), Some(key)] {
            let length = text.map_or(u64::MAX, |text| text.len() as u64);
            input.extend_from_slice(&length.to_le_bytes());
            input.extend_from_slice(text.unwrap_or_default().as_bytes());
        }
        input.extend_from_slice(&(position as u64).to_le_bytes());
        let hash = tally_crypto::keyed(&self.secret, &input);
        let bytes = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
        uuid(*bytes, 8)
    }

    /// Whether a reference has the form of those that are given here. Whether it was given, only a gateway can tell.
    pub fn is_given(reference: Uetr) -> bool {
        uuid(reference.0, 8) == reference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(byte: u8) -> References {
        References { secret: Zeroizing::new([byte; BYTES]) }
    }

    fn bic(text: &str) -> Option<Bic> {
        Some(Bic::parse(text).unwrap())
    }

    #[test]
    fn a_reference_follows_from_institution_user_key_and_position_and_the_secret() {
        let of = |secret: u8, institution: Option<Bic>, user: &str, key: &str, position: usize| {
            references(secret).of_request(institution, user, key, position)
        };
        let alpha = bic("ALPHDEFF");
        let first = of(1, alpha, "ann", "k1", 0);
        assert_eq!(first, of(1, alpha, "ann", "k1", 0));
        assert_eq!(first, of(1, bic("ALPHDEFFXXX"), "ann", "k1", 0), "the head office has two spellings");
        for other in [
            of(1, alpha, "ann", "k1", 1),
            of(1, alpha, "ann", "k2", 0),
            of(1, alpha, "bob", "k1", 0),
            of(1, alpha, "annk", "1", 0),
            of(1, bic("BETAFRPP"), "ann", "k1", 0),
            of(1, None, "ann", "k1", 0),
            // Who does not have the secret computes another.
            of(2, alpha, "ann", "k1", 0),
        ] {
            assert_ne!(first, other);
        }
        assert_eq!((first.0[6] >> 4, first.0[8] >> 6), (8, 2));
        assert!(References::is_given(first) && !References::is_given(crate::random_uetr().unwrap()));
    }

    #[test]
    fn a_return_has_another_reference_at_each_institution_and_under_each_secret() {
        let original = Uetr([7; 16]);
        let back = references(1).of_return(bic("ALPHDEFF"), original);
        assert_eq!(back, references(1).of_return(bic("ALPHDEFF"), original));
        assert_ne!(back, references(1).of_return(bic("BETAFRPP"), original));
        assert_ne!(back, references(2).of_return(bic("ALPHDEFF"), original));
        assert_ne!(back, references(1).of_return(bic("ALPHDEFF"), back));
    }

    #[test]
    fn the_secret_is_made_once_and_is_its_owners_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(References::FILE);
        let sent = |references: &References| references.of_return(None, Uetr([1; 16]));
        let made: Vec<_> = std::thread::scope(|scope| {
            let makers: Vec<_> =
                (0..8).map(|_| scope.spawn(|| References::read_or_make(&path).unwrap())).collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        assert_eq!(made.iter().filter(|(_, is_new)| *is_new).count(), 1);
        assert!(made.iter().all(|(one, _)| sent(one) == sent(&made[0].0)), "all have the same");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "nothing is left over");
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), BYTES);
        assert!(!format!("{:?}", made[0].0).contains(&format!("{:?}", bytes)));

        for mode in [0o644, 0o660, 0o604] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert!(
                matches!(References::read(&path), Err(SecretError::TooOpen { mode: m, .. }) if m == mode)
            );
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
        assert_eq!(sent(&References::read(&path).unwrap()), sent(&made[0].0));
        for length in [0, 31, 33, 64] {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, vec![1; length]).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            // A file that was damaged is not replaced: what was sent before would not be recognised any more.
            assert!(matches!(References::read_or_make(&path), Err(SecretError::Length { .. })), "{length}");
            assert_eq!(std::fs::read(&path).unwrap().len(), length);
        }
    }
}
