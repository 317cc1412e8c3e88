//! Private keys in encrypted files that other programs can read.
//!
//! The form is PKCS#8 `ENCRYPTED PRIVATE KEY` PEM (RFC 5958, RFC 8410) with PBES2 (RFC 8018),
//! scrypt (RFC 7914) and AES-256-CBC; `openssl pkey -in FILE` understands it, and files made by
//! `openssl genpkey -algorithm ed25519 -aes256` are read here.

mod error;
mod pem;

use crate::SigningKey;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

pub use error::{KeyFileError, Malformation};

/// Largest file taken for a key; an encrypted Ed25519 key takes about 420 bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024;

/// How much work guessing one passphrase takes (RFC 7914 section 2).
///
/// Deriving a key takes `1024 * 2^log_n` bytes of memory, `p` times over (with r = 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScryptCost {
    /// Logarithm to base 2 of the memory cost.
    pub log_n: u8,
    /// How many times that memory is gone through.
    pub p: u16,
}

impl ScryptCost {
    /// 16 MiB, five times: the strength that OWASP's password storage guide gives as equal to
    /// 128 MiB once, within the 32 MiB beyond which OpenSSL refuses to read a file.
    pub const DEFAULT: Self = Self { log_n: 14, p: 5 };

    /// Almost no work, for tests. Never for a key that matters.
    pub const TRIVIAL: Self = Self { log_n: 4, p: 1 };
}

impl Default for ScryptCost {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// An encrypted key in a file; only its owner may read it.
#[derive(Debug)]
pub struct KeyFile;

impl KeyFile {
    /// Writes `key` to a new file, mode 0600. Once this returns, the file survives a power cut;
    /// if it fails or the machine stops midway, there is no file of that name.
    ///
    /// # Errors
    /// [`KeyFileError`]; among others when the file exists (a key is not overwritten by mistake)
    /// and when the passphrase is empty.
    pub fn write(
        path: &Path,
        key: &SigningKey,
        passphrase: &[u8],
        cost: ScryptCost,
    ) -> Result<(), KeyFileError> {
        let text = pem::encode(path, key, passphrase, cost)?;
        store(path, text.as_bytes(), |temporary, path| {
            // Unlike a rename, a link fails when the name is taken.
            std::fs::hard_link(temporary, path)?;
            std::fs::remove_file(temporary)
        })
    }

    /// As [`Self::write`], but replaces the file if there is one: for a new passphrase or cost. At
    /// every moment the name leads to the whole old or the whole new file.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn replace(
        path: &Path,
        key: &SigningKey,
        passphrase: &[u8],
        cost: ScryptCost,
    ) -> Result<(), KeyFileError> {
        let text = pem::encode(path, key, passphrase, cost)?;
        store(path, text.as_bytes(), |temporary, path| std::fs::rename(temporary, path))
    }

    /// Reads the key in a file.
    ///
    /// # Errors
    /// [`KeyFileError`]: when others than the owner may read the file (a file of root's may be
    /// handed to somebody by their group), when the passphrase is wrong, when the file is no key
    /// file.
    pub fn read(path: &Path, passphrase: &[u8]) -> Result<SigningKey, KeyFileError> {
        let io = |action| move |source| KeyFileError::io(path, action, source);
        let file = OpenOptions::new()
            .read(true)
            // Opening a pipe by mistake must not wait for its writer.
            .custom_flags(O_NONBLOCK)
            .open(path)
            .map_err(io("open"))?;
        let metadata = file.metadata().map_err(io("inspect"))?;
        if !metadata.is_file() {
            return Err(KeyFileError::NotAFile { path: path.into() });
        }
        let mode = metadata.mode() & 0o7777;
        if is_too_open(mode, metadata.uid(), rustix::process::geteuid().as_raw()) {
            return Err(KeyFileError::PermissionsTooOpen { path: path.into(), mode });
        }
        let mut text = Zeroizing::new(Vec::new());
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(io("read"))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(KeyFileError::TooLarge { path: path.into(), limit: MAX_FILE_BYTES });
        }
        pem::decode(path, &text, passphrase)
    }
}

/// Whether others than the owner, and than the one that root hands the file to, may use it. Secrets
/// that are mounted into a container are root's, and readable by the group of the process.
fn is_too_open(mode: u32, owner: u32, reader: u32) -> bool {
    let handed = if owner == 0 && reader != 0 { 0o040 } else { 0 };
    mode & 0o077 & !handed != 0
}

/// `O_NONBLOCK` of `open(2)`; without effect on regular files.
#[cfg(target_os = "linux")]
const O_NONBLOCK: i32 = 0o4000;
#[cfg(not(target_os = "linux"))]
const O_NONBLOCK: i32 = 0x0004;

/// Writes a file of a temporary name, has `publish` give it its own, and waits until both the
/// bytes and the name are on the disk.
fn store(
    path: &Path,
    bytes: &[u8],
    publish: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> Result<(), KeyFileError> {
    let temporary = temporary_name(path)?;
    let io = |action| move |source| KeyFileError::io(path, action, source);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(io("create a temporary file beside"))?;
        // The process's umask may have taken bits from the owner.
        file.set_permissions(PermissionsExt::from_mode(0o600)).map_err(io("set the mode of"))?;
        file.write_all(bytes).map_err(io("write"))?;
        file.sync_all().map_err(io("flush"))?;
        publish(&temporary, path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => KeyFileError::Exists { path: path.into() },
            _ => KeyFileError::io(path, "give its name to", source),
        })
    })();
    if let Err(error) = written {
        // The first failure is the one to report; the leftover is unreadable to others anyway.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    File::open(directory(path))
        .and_then(|directory| directory.sync_all())
        .map_err(io("flush the directory of"))
}

/// The directory that holds `path`'s name.
fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// An unused name in the same directory, so that a rename never crosses file systems.
fn temporary_name(path: &Path) -> Result<PathBuf, KeyFileError> {
    let Some(name) = path.file_name() else {
        return Err(KeyFileError::NotAFile { path: path.into() });
    };
    let unique = getrandom::u64().map_err(KeyFileError::Randomness)?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{unique:016x}.tmp"));
    Ok(directory(path).join(temporary))
}

#[cfg(test)]
mod tests;
