//! One node of a network.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tally_contracts::Party;
use tally_identity::{BootstrappedNode, Identity, server_name, system_now, tls};
use tally_node::Settings;
use tally_rpc::Client;

use super::process::{Addresses, Launcher, Life, start};
use crate::flows::FlowsError;
use crate::flows::meters::Meters;

/// The user that drives a node.
pub const OPERATOR: &str = "operator";

/// A node of a network, running or not.
pub struct Node {
    made: BootstrappedNode,
    label: String,
    settings: Settings,
    life: Option<(Life, Addresses)>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("label", &self.label).field("pid", &self.pid()).finish_non_exhaustive()
    }
}

impl Node {
    pub(super) fn new(made: BootstrappedNode, label: String, settings: Settings) -> Self {
        Self { made, label, settings, life: None }
    }

    /// Its organisation.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its name and key.
    #[must_use]
    pub fn party(&self) -> &Party {
        &self.made.party
    }

    /// Its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.made.directory
    }

    /// Its configuration.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.life.as_ref().map(|(life, _)| life.pid())
    }

    /// Its keys and certificates.
    ///
    /// # Errors
    /// [`FlowsError`] when the files cannot be read.
    pub fn identity(&self) -> Result<Identity, FlowsError> {
        Ok(Identity::load(&self.made.identity, self.secret()?.as_bytes(), system_now())?)
    }

    fn secret(&self) -> Result<String, FlowsError> {
        let file: &PathBuf = &self.made.passphrase;
        Ok(std::fs::read_to_string(file).map_err(FlowsError::file(file))?.trim_end().to_owned())
    }

    pub(super) fn run(&mut self, launcher: &Launcher) -> Result<Duration, FlowsError> {
        assert!(self.life.is_none(), "{} runs", self.label);
        let began = Instant::now();
        self.life = Some(start(launcher, &self.label, &self.made.directory, &self.settings)?);
        Ok(began.elapsed())
    }

    pub(super) fn kill(&mut self) -> Result<(), FlowsError> {
        match self.life.take() {
            Some((life, _)) => life.kill(&self.label),
            None => Ok(()),
        }
    }

    fn addresses(&self) -> Result<Addresses, FlowsError> {
        let addresses = self.life.as_ref().map(|(_, addresses)| *addresses);
        addresses.ok_or_else(|| FlowsError::Unexpected(format!("{} does not run", self.label)))
    }

    /// A connection to it, over TLS, as its operator.
    ///
    /// # Errors
    /// [`FlowsError`] when it does not run or does not let one in.
    pub async fn client(&self) -> Result<Client, FlowsError> {
        let tls = tls::rpc_client(self.identity()?.trust())?;
        let server = server_name(&self.made.party.name);
        let address = self.addresses()?.rpc.to_string();
        Ok(Client::connect(&address, &server.to_str(), tls, OPERATOR, &self.secret()?).await?)
    }

    /// What it counts and times.
    ///
    /// # Errors
    /// [`FlowsError`] when it does not run or does not answer.
    pub fn meters(&self) -> Result<Meters, FlowsError> {
        let url = format!("http://{}/metrics", self.addresses()?.http);
        let failed =
            |error: ureq::Error| FlowsError::Metrics { node: self.label.clone(), reason: error.to_string() };
        let text = ureq::get(&url)
            .call()
            .and_then(|mut answer| answer.body_mut().read_to_string())
            .map_err(failed)?;
        Ok(Meters::parse(&text))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Nothing more is wanted of it.
        let _ = self.kill();
    }
}
