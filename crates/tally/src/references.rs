//! The secret from which a network's gateways derive references: the file in the network's directory.

use crate::configuration::Configuration;
use crate::layout::Layout;
use anyhow::{Context, bail};
use std::path::PathBuf;
use tally_gateway::references::References;
use tally_gateway::settings::HttpSection;

/// The file of the secret.
pub(crate) fn path(layout: &Layout, configuration: &Configuration) -> PathBuf {
    layout.root().join(&configuration.http.references)
}

/// The references of a network's gateways. A network that was made before there was a secret gets one.
///
/// # Errors
/// When the secret cannot be read or made; when the operator names a file that is not there, for a new secret would not
/// recognise what was sent to the other gateways.
pub(crate) fn of_network(layout: &Layout, configuration: &Configuration) -> anyhow::Result<References> {
    let path = path(layout, configuration);
    if configuration.http.references != HttpSection::default().references && !path.exists() {
        bail!(
            "http.references names {}, which is not there: restore it from the backup, or copy it from the network's \
             directory or another gateway's. A new secret would not recognise what was sent before",
            path.display()
        );
    }
    let (references, is_new) = References::read_or_make(&path).with_context(|| {
        format!("{} has no secret of references that can be used", layout.root().display())
    })?;
    if is_new {
        tracing::info!(
            file = %path.display(),
            "the network had no secret of references, and has one now: back it up, and give it to its other gateways"
        );
    }
    Ok(references)
}
