//! `tally network map serve DIR`

use super::{Ended, network_authority, print};
use crate::connection::ConnectionArguments;
use crate::flows_network::layout::NetworkDirectory;
use crate::flows_network::pem;
use anyhow::Context;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tally_identity::{NetworkMap, NetworkMapKey, map::service, system_now};
use tally_ops::shutdown::Shutdown;
use tokio::net::TcpListener;

/// The commands about the network map.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Map {
    /// Serve the network map over HTTP until SIGTERM; what it tells is signed with the network map's key
    Serve(Serve),
}

/// Arguments of `tally network map serve`.
#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    /// Directory of the network; the map is the folder `network` in it
    directory: PathBuf,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10001")]
    listen: SocketAddr,
    /// Serve over TLS with these certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificates: Option<PathBuf>,
    /// The key of the first of them (PEM), readable by its owner alone
    #[arg(long, value_name = "FILE", requires = "tls_certificates")]
    tls_key: Option<PathBuf>,
    /// The network's root certificate (PEM); authority/root.pem if not given
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
}

impl Map {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        match self {
            Self::Serve(command) => command.run(connection),
        }
    }
}

impl Serve {
    fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let shutdown = Shutdown::install()?;
        let directory = NetworkDirectory::new(&self.directory);
        let root = self.root.unwrap_or_else(|| directory.authority().join("root.pem"));
        let (map, changes) = NetworkMap::from_folder(&directory.map(), &pem::trust(&root)?, system_now())
            .with_context(|| format!("the network map in {} cannot be used", directory.map().display()))?;
        let key = NetworkMapKey::open(
            &directory.authority(),
            &network_authority::passphrase(&directory, connection)?,
        )?;
        for refused in &changes.refused {
            tracing::warn!(?refused, "a node info was left out");
        }
        let tls = match (&self.tls_certificates, &self.tls_key) {
            (Some(certificates), Some(key)) => Some(service::tls(certificates, key)?),
            _ => {
                tracing::warn!("the network map is served without TLS; what it tells is signed");
                None
            }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("the system does not give what a server needs")?;
        runtime.block_on(async {
            let failed = || format!("cannot listen on {}", self.listen);
            let listener = TcpListener::bind(self.listen).await.with_context(failed)?;
            let address = listener.local_addr().with_context(failed)?;
            let scheme = if tls.is_some() { "https" } else { "http" };
            print::line(&format!("network map listens on {scheme}://{address}"));
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            tokio::task::spawn_blocking(move || {
                shutdown.wait();
                let _ = stop.send(());
            });
            let router = service::router(Arc::new(map), Arc::new(key), Arc::new(system_now));
            let stopped = async {
                let _ = stopped.await;
            };
            let served = match tls {
                Some(tls) => service::serve_over_tls(listener, tls, router, stopped).await,
                None => service::serve(listener, router, stopped).await,
            };
            served.context("the network map can no longer listen")
        })?;
        print::line("stopped");
        Ok(Ended::Well)
    }
}
