//! `tally node publish DIR`

use crate::command::{Ended, print};
use crate::connection::ConnectionArguments;
use crate::flows_network::layout::NodeDirectory;
use crate::passphrase::{self, Passphrase};
use anyhow::{Context, ensure};
use std::path::PathBuf;
use tally_consensus::Keys;
use tally_identity::{Address, Identity, NetworkMap, NodeKeys, SignedNodeInfo, system_now};
use tally_node::Settings;

/// The version of the network's rules that this program knows.
const PLATFORM_VERSION: u32 = 1;

/// Arguments of `tally node publish`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Publish {
    /// Directory of the node
    directory: PathBuf,
    /// Where other nodes reach this one; may be repeated. Where it listens if not given
    #[arg(long, value_name = "HOST:PORT")]
    address: Vec<Address>,
    /// Make the key of a notary service, if the node has none. The network's authority then makes it a notary
    #[arg(long)]
    notary: bool,
    /// Make the keys of a member of a clustered notary, if the node has none: that of a notary service, and a voting key,
    /// whose address the network's authority needs
    #[arg(long)]
    voter: bool,
}

impl Publish {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let home = NodeDirectory::new(&self.directory);
        let settings = Settings::load(home.root(), &[])?;
        let passphrase = passphrase(&home, &settings, connection)?;
        if self.notary || self.voter {
            notary_service(&home, &settings, &passphrase)?;
        }
        publish(&home, &settings, &passphrase, self.address)?;
        if self.voter {
            let identity = home.root().join(&settings.identity.directory);
            let key = NodeKeys::create_voter(&identity, &passphrase, NodeKeys::COST)
                .context("the member of a clustered notary has no voting key")?;
            print::line(&format!("the address of its voting key is {}", key.address()));
        }
        Ok(Ended::Well)
    }
}

/// The passphrase of a node's keys: the one given, else the one in its file.
pub(super) fn passphrase(
    home: &NodeDirectory,
    settings: &Settings,
    connection: &ConnectionArguments,
) -> anyhow::Result<Passphrase> {
    match connection.passphrase_file.as_deref() {
        Some(file) => passphrase::read(file),
        None => passphrase::read(&home.root().join(&settings.identity.passphrase_file)),
    }
}

/// Makes the key of the node's notary service, if there is none.
pub(super) fn notary_service(
    home: &NodeDirectory,
    settings: &Settings,
    passphrase: &[u8],
) -> anyhow::Result<()> {
    let identity = home.root().join(&settings.identity.directory);
    NodeKeys::create_notary(&identity, passphrase, NodeKeys::COST, system_now())
        .context("the notary service has no key")
}

/// Signs the node's info and gives it to the network map.
pub(super) fn publish(
    home: &NodeDirectory,
    settings: &Settings,
    passphrase: &[u8],
    mut addresses: Vec<Address>,
) -> anyhow::Result<()> {
    let now = system_now();
    let identity = Identity::load(&home.root().join(&settings.identity.directory), passphrase, now)?;
    if addresses.is_empty() {
        let listen = settings.messaging.listen;
        ensure!(
            !listen.ip().is_unspecified() && listen.port() != 0,
            "the node listens on {listen}, which is no address to reach it at; give --address HOST:PORT"
        );
        addresses.push(listen.to_string().parse()?);
    }
    let (map, _) = match (&settings.network.folder, &settings.network.service) {
        (Some(folder), _) => NetworkMap::from_folder(&home.root().join(folder), identity.trust(), now),
        (None, service) => {
            let service =
                service.as_deref().context("section [network] needs either `folder` or `service`")?;
            let cache = home.root().join("data/network");
            match &settings.network.service_ca {
                Some(ca) => {
                    let ca = home.root().join(ca);
                    NetworkMap::from_service_over_tls(service, &ca, &cache, identity.trust(), now)
                }
                None => NetworkMap::from_service(service, &cache, identity.trust(), now),
            }
        }
    }
    .context("the network map cannot be used")?;
    let told: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let info = SignedNodeInfo::sign(&identity, addresses, PLATFORM_VERSION, now.as_millis())?;
    map.publish(&info, now).context("the network map did not take the node info")?;
    // Into the cache as well, from which the node starts.
    map.refresh(now).context("the network map cannot be read again")?;
    print::line(&format!("{} is on the network map at {}", identity.name(), told.join(", ")));
    Ok(())
}
