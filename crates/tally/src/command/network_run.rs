//! `tally network run DIR`

use super::{Ended, network_processes, print};
use crate::configuration::Configuration;
use crate::connection::{ConnectionArguments, RunFile};
use crate::flows_network::layout::NetworkDirectory;
use crate::layout::Layout;
use crate::stages::InstitutionError;
use crate::{access, keys, passphrase, references};
use anyhow::{Context, ensure};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tally_crypto::SigningKey;
use tally_gateway::server;
use tally_ops::shutdown::Shutdown;
use tally_settlement::engine::{Engine, EngineOptions};

/// How long a stopping network waits for what is under way.
const DRAIN: Duration = Duration::from_secs(30);

/// Arguments of `tally network run`.
#[derive(Debug, clap::Args)]
pub(super) struct Run {
    /// Directory of the network
    directory: PathBuf,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// A setting of network.toml in place of the file's, such as messages.control_sum=ignore, or of every node.toml
    /// in a network of nodes; may be repeated
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    settings: Vec<String>,
}

impl Run {
    pub(super) fn run(self, arguments: &ConnectionArguments) -> anyhow::Result<Ended> {
        let shutdown = Shutdown::install()?;
        if NetworkDirectory::is_one(&self.directory) {
            ensure!(
                self.listen.is_none(),
                "--listen is for a settlement network; each node has its own node.toml"
            );
            return network_processes::run(&self.directory, &self.settings, &shutdown);
        }
        let layout = Layout::new(&self.directory);
        ensure!(
            !layout.moved().exists(),
            "the network in {} has moved to the topics that its cluster.toml names: run its stages, with `tally stage`",
            layout.root().display()
        );
        let configuration = Configuration::read(&layout, &self.settings)?;
        let network = configuration.network()?;
        let passphrase = passphrase::of_network(&layout, arguments.passphrase_file.as_deref())?;
        let keys = institution_keys(&layout, &configuration, &passphrase)?;

        let listen = self.listen.unwrap_or(configuration.http.listen);
        let settings = configuration.gateway(layout.root())?;
        settings.may_listen(listen)?;
        let gate = access::gate(&layout, &configuration, &network)?;
        let references = references::of_network(&layout, &configuration)?;
        let engine = Engine::open(EngineOptions::new(layout.root().to_owned(), network, keys))?;
        let listener = TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr().context("cannot tell where it listens")?;
        write_run_file(
            &layout.run_file(),
            &RunFile { pid: std::process::id(), address, tls: settings.tls.is_some() },
        )?;
        let scheme = settings.scheme();
        print::line(&format!("network {} listens on {scheme}://{address}", configuration.network.id));

        let engine = Arc::new(engine);
        let served = server::serve(listener, Arc::clone(&engine), settings, gate, references, &shutdown);
        // Removed first: whoever reads it finds a network that answers, or none.
        let _ = std::fs::remove_file(layout.run_file());
        served?;
        let engine = Arc::into_inner(engine).context("a request did not end")?;
        engine.stop(DRAIN)?;
        print::line("stopped");
        Ok(Ended::Well)
    }
}

/// The institutions' keys by participant, decrypted side by side: each takes a while on purpose.
pub(super) fn institution_keys(
    layout: &Layout,
    configuration: &Configuration,
    passphrase: &passphrase::Passphrase,
) -> anyhow::Result<Vec<SigningKey>> {
    let directory = layout.institution_keys();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let share = configuration.participants.len().div_ceil(workers).max(1);
    let parts: Vec<anyhow::Result<Vec<SigningKey>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = configuration
            .participants
            .chunks(share)
            .map(|participants| {
                let directory = &directory;
                scope.spawn(move || {
                    participants
                        .iter()
                        .map(|p| institution_key(directory, &p.bic, &p.key, passphrase))
                        .collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("reading a key does not panic")).collect()
    });
    let mut keys = Vec::new();
    for part in parts {
        keys.extend(part?);
    }
    Ok(keys)
}

/// One institution's key, decrypted, if it is the one that the configuration names.
pub(super) fn institution_key(
    directory: &Path,
    bic: &str,
    public: &tally_crypto::PublicKey,
    passphrase: &passphrase::Passphrase,
) -> anyhow::Result<SigningKey> {
    let path = directory.join(format!("{bic}.pem"));
    let bic = bic.to_owned();
    if !path.exists() {
        return Err(InstitutionError::NoKey { bic, path }.into());
    }
    let key = keys::read(directory, &bic, passphrase)?;
    if key.public_key() != *public {
        return Err(InstitutionError::WrongKey { bic, path }.into());
    }
    Ok(key)
}

/// Replaced as a whole, so that a reader finds the old or the new one.
pub(super) fn write_run_file(path: &Path, run: &RunFile) -> anyhow::Result<()> {
    let temporary = path.with_extension("json.new");
    std::fs::write(&temporary, serde_json::to_vec(run)?)
        .and_then(|()| std::fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
