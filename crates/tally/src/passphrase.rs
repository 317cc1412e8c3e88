//! The passphrase that encrypts the keys of a network: from a file, from the environment, or from
//! the network's directory.

use crate::layout::Layout;
use anyhow::{Context, bail};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use zeroize::Zeroizing;

/// The variable of the environment that holds the passphrase.
pub const VARIABLE: &str = "TALLY_PASSPHRASE";
const MAX_BYTES: u64 = 1024;

/// A passphrase; wiped from memory when dropped.
pub type Passphrase = Zeroizing<Vec<u8>>;

/// The passphrase that the operator gave: in `file`, else in [`VARIABLE`].
///
/// # Errors
/// When the file cannot be read or what was given is empty.
pub fn given(file: Option<&Path>) -> anyhow::Result<Option<Passphrase>> {
    if let Some(path) = file {
        return read(path).map(Some);
    }
    match std::env::var(VARIABLE) {
        Ok(text) if text.is_empty() => bail!("{VARIABLE} is set but empty"),
        Ok(text) => Ok(Some(Zeroizing::new(text.into_bytes()))),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => bail!("{VARIABLE} is not UTF-8"),
    }
}

/// The passphrase of an existing network: as [`given`], else the one in its directory.
///
/// # Errors
/// When there is none.
pub fn of_network(layout: &Layout, file: Option<&Path>) -> anyhow::Result<Passphrase> {
    if let Some(passphrase) = given(file)? {
        return Ok(passphrase);
    }
    let path = layout.passphrase();
    if !path.exists() {
        bail!(
            "the keys of {} need their passphrase: set {VARIABLE} or give --passphrase-file FILE",
            layout.root().display()
        );
    }
    read(&path)
}

/// Makes a random passphrase (128 bits) and writes it to `path`, mode 0600.
///
/// # Errors
/// When there is no randomness or the file cannot be written.
pub fn generate(path: &Path) -> anyhow::Result<Passphrase> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).context("the operating system's random source failed")?;
    let passphrase: Passphrase = Zeroizing::new(hex(&random).into_bytes());
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&passphrase)?;
        file.write_all(b"\n")?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(passphrase)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The passphrase on the first line of a file.
///
/// # Errors
/// When the file cannot be read or the line is empty.
pub(crate) fn read(path: &Path) -> anyhow::Result<Passphrase> {
    let mut text = Zeroizing::new(Vec::new());
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text))
        .with_context(|| format!("cannot read the passphrase in {}", path.display()))?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || text.len() as u64 > MAX_BYTES {
        bail!("{}: a passphrase of 1 to {MAX_BYTES} bytes on the first line is wanted", path.display());
    }
    Ok(Zeroizing::new(line.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_passphrase() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("passphrase");
        for (text, wanted) in [("a b\r\nrest", "a b"), ("x", "x"), ("y\n", "y")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(&path).unwrap().as_slice(), wanted.as_bytes());
        }
        for text in ["", "\n", &"x".repeat(2000)] {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).is_err());
        }
    }

    #[test]
    fn a_generated_passphrase_is_found_again_and_private() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        let made = generate(&layout.passphrase()).unwrap();
        assert_eq!(made.len(), 32);
        assert_eq!(read(&layout.passphrase()).unwrap(), made);
        let mode = std::fs::metadata(layout.passphrase()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(generate(&layout.passphrase()).is_err(), "an existing passphrase is not overwritten");
    }
}
