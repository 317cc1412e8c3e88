//! `tally node init DIR --name NAME`

use crate::command::{Ended, print};
use crate::connection::ConnectionArguments;
use crate::flows_network::layout::NodeDirectory;
use crate::flows_network::{make, names};
use crate::passphrase;
use anyhow::Context;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tally_crypto::keystore::ScryptCost;
use tally_identity::NodeKeys;
use tally_node::{
    CashSection, ConsentSection, DatabaseSection, FlowsSection, HttpSection, IdentitySection,
    MessagingSection, NetworkSection, OracleSection, RpcSection, Settings,
};

/// A generated passphrase is 128 random bits: guessing it costs too much without scrypt, and nodes start sooner.
const GENERATED: ScryptCost = ScryptCost { log_n: 10, p: 1 };

/// Arguments of `tally node init`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Init {
    /// Directory of the node; must not have a node yet
    directory: PathBuf,
    /// The node's X.500 name, such as 'O=PartyA, L=London, C=GB'; PartyA alone means that one
    #[arg(long)]
    name: String,
    /// Where other nodes connect to
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:10002")]
    listen: SocketAddr,
    /// Where users connect to
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10003")]
    rpc: SocketAddr,
    /// Where health and metrics are served; nowhere if not given
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// The folder of the network map
    #[arg(long, value_name = "DIR", required_unless_present = "map_service", conflicts_with = "map_service")]
    map_folder: Option<PathBuf>,
    /// The network map service
    #[arg(long, value_name = "URL")]
    map_service: Option<String>,
    /// Who certifies the network map service, when its URL is https (PEM)
    #[arg(long, value_name = "FILE", requires = "map_service")]
    map_ca: Option<PathBuf>,
    /// PostgreSQL in place of a file: how to connect, as libpq writes it
    #[arg(long, value_name = "URL", requires = "postgres_schema")]
    postgres_url: Option<String>,
    /// This node's schema on the PostgreSQL server
    #[arg(long, value_name = "NAME", requires = "postgres_url")]
    postgres_schema: Option<String>,
    /// The authorities that may have signed the PostgreSQL server's certificate (PEM); a server of another machine
    /// needs it
    #[arg(long, value_name = "FILE", requires = "postgres_url")]
    postgres_ca: Option<PathBuf>,
}

impl Init {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let name = names::parse(&self.name)?;
        let home = NodeDirectory::new(&self.directory);
        anyhow::ensure!(!home.configuration().exists(), "{} has a node already", home.root().display());
        let identity = home.identity();
        std::fs::create_dir_all(&identity).with_context(|| format!("cannot make {}", identity.display()))?;
        let default = IdentitySection::default();
        let (secret, passphrase_file, cost) = match connection.passphrase_file.as_deref() {
            Some(file) => (passphrase::read(file)?, absolute(file)?, ScryptCost::DEFAULT),
            None => {
                let file = home.root().join(&default.passphrase_file);
                // What is there is used: after a crash this goes on where it stopped.
                let secret =
                    if file.exists() { passphrase::read(&file)? } else { passphrase::generate(&file)? };
                (secret, default.passphrase_file, GENERATED)
            }
        };
        NodeKeys::create(&identity, &name, &secret, cost)?;
        let settings = Settings {
            identity: IdentitySection { directory: default.directory, passphrase_file },
            network: NetworkSection {
                folder: self.map_folder.as_deref().map(absolute).transpose()?,
                service: self.map_service,
                service_ca: self.map_ca.as_deref().map(absolute).transpose()?,
                refresh_ms: 5_000,
                accept_extensions: false,
            },
            messaging: MessagingSection { listen: self.listen, queue_bytes: make::QUEUE_BYTES },
            rpc: RpcSection { listen: self.rpc, users_file: "users.toml".into(), threads: 0 },
            http: HttpSection { listen: self.http },
            database: match (self.postgres_url, self.postgres_schema) {
                (Some(url), Some(schema)) => {
                    let ca = self.postgres_ca.as_deref().map(absolute).transpose()?;
                    DatabaseSection::Postgres { url, schema, readers: 4, ca }
                }
                _ => DatabaseSection::default(),
            },
            flows: FlowsSection::default(),
            oracle: OracleSection::default(),
            cash: CashSection::default(),
            consent: ConsentSection::default(),
            cluster: None,
        };
        make::write_node(&home, &name, &settings)?;
        let directory = home.root().display();
        print::line(&format!("node {name} in {directory}"));
        print::line(&format!(
            "have {} signed by the network's identity manager, then: tally node accept {directory} --certificates FILE \
             --root FILE",
            identity.join("request.csr").display()
        ));
        Ok(Ended::Well)
    }
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} is no path", path.display()))
}
