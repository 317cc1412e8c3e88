//! Who may use a network's gateways: the files in its directory.

use crate::configuration::Configuration;
use crate::layout::Layout;
use anyhow::Context;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tally_gateway::access::{AccessFile, AuditLog, Gate, Role, Token, UserEntry};
use tally_gateway::settings::HttpSection;
use tally_ledger::Network;

/// The user whose token lies in the network's directory.
const OPERATOR: &str = "operator";
/// The longest token file that is read, in bytes.
const MAX_TOKEN: usize = 1024;

/// The file of those who may use a network's gateways.
pub(crate) fn path(layout: &Layout, configuration: &Configuration) -> PathBuf {
    layout.root().join(&configuration.http.access)
}

/// Where a network's administrative acts are recorded.
pub(crate) fn audit_log(layout: &Layout, configuration: &Configuration) -> AuditLog {
    AuditLog::at(layout.root().join(&configuration.http.audit))
}

/// Gives the network of a directory one user, who may do everything, and whose token lies in the directory.
///
/// # Errors
/// When there is no randomness, or the files cannot be written.
pub(crate) fn establish(layout: &Layout, configuration: &Configuration) -> anyhow::Result<()> {
    let token = Token::generate()?;
    write_token(&layout.token(), &token)?;
    let entry = UserEntry::with_token(OPERATOR, None, &Role::ALL, &token);
    Ok(AccessFile { user: vec![entry], institution: Vec::new() }.write(&path(layout, configuration))?)
}

/// Who may come in. A network that was made before there were users gets its first.
///
/// # Errors
/// When the file cannot be read or says something that does not fit the network.
pub(crate) fn gate(
    layout: &Layout,
    configuration: &Configuration,
    network: &Network,
) -> anyhow::Result<Arc<Gate>> {
    let path = path(layout, configuration);
    // Where an operator says that the file is elsewhere, a new one would let the wrong users in.
    if !path.exists() && configuration.http.access == HttpSection::default().access {
        establish(layout, configuration)?;
    }
    Ok(Arc::new(Gate::open(path, audit_log(layout, configuration), network.clone())?))
}

/// Writes a token to a file that only its owner can read, in place of any there was.
pub(crate) fn write_token(path: &Path, token: &Token) -> anyhow::Result<()> {
    let draft = path.with_extension("new");
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| writeln!(file, "{}", token.reveal()).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&draft, path));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a token's file.
///
/// # Errors
/// When there is none, or it is too long for one.
pub(crate) fn read_token(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(text.len() <= MAX_TOKEN, "{}: too long for a token", path.display());
    Ok(text.trim().to_owned())
}
