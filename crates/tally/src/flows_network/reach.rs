//! How a command reaches a node as one of its users.

use super::layout::{NodeDirectory, NodeRunFile};
use super::make::OPERATOR;
use super::pem;
use anyhow::{Context, bail};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tally_contracts::Name;
use tally_identity::{server_name, tls};
use tally_rpc::{Client, ClientError};
use tokio_rustls::rustls::pki_types::ServerName;
use zeroize::Zeroizing;

/// Which node, and as whom.
#[derive(Clone, Debug, clap::Args)]
pub struct NodeArguments {
    /// Directory of the node, or HOST:PORT of its RPC with --server-name, --root and --password-file
    pub node: String,
    /// Where the node's RPC is, if not where its directory says
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// The node's X.500 name, which its certificate must prove
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// File with the root certificate of the network (PEM)
    #[arg(long, value_name = "FILE")]
    pub root: Option<PathBuf>,
    /// User of the node
    #[arg(long, default_value = OPERATOR)]
    pub user: String,
    /// File whose first line is the user's password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// A node that can be talked to.
#[derive(Debug)]
pub struct Reached {
    /// The connection.
    pub client: Client,
    /// How the command line names the node.
    pub node: String,
    runtime: tokio::runtime::Runtime,
}

impl NodeArguments {
    /// The arguments for a node's directory and nothing else.
    pub fn directory(directory: &Path) -> Self {
        Self {
            node: directory.display().to_string(),
            address: None,
            server_name: None,
            root: None,
            user: OPERATOR.to_owned(),
            password_file: None,
        }
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// When it is not clear which node is meant, the node does not run, is not who it should be, or refuses the user.
    pub fn connect(&self) -> anyhow::Result<Reached> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the system does not give what a connection needs")?;
        let client = runtime.block_on(self.client())?;
        Ok(Reached { client, node: self.node.clone(), runtime })
    }

    /// Connects and logs in, on the runtime that this is awaited on.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn client(&self) -> anyhow::Result<Client> {
        let directory = NodeDirectory::new(&self.node);
        let is_directory = directory.root().is_dir();
        let is_address = self.node.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if !is_directory && !is_address {
            bail!("{} is neither a node's directory nor HOST:PORT", self.node);
        }
        let elsewhere = |option: &str, what: &str| {
            format!("{} is not a directory, so {option} is needed: {what}", self.node)
        };
        let address = match &self.address {
            Some(address) => address.clone(),
            None if is_directory => rpc_address(&directory)?.to_string(),
            None => self.node.clone(),
        };
        let root = match &self.root {
            Some(file) => file.clone(),
            None if is_directory => directory.identity().join("root.pem"),
            None => bail!(elsewhere("--root FILE", "the network's root certificate")),
        };
        let server = match &self.server_name {
            Some(name) => server(name)?,
            None if is_directory => {
                let path = pem::path(&directory.identity().join("identity.pem"));
                server_name(path.context("the node's name is not known; give --server-name NAME")?.subject())
            }
            None => bail!(elsewhere("--server-name NAME", "the node's X.500 name")),
        };
        let password = match &self.password_file {
            Some(file) => first_line(file)?,
            None if is_directory && self.user == OPERATOR => first_line(&directory.rpc_password())?,
            None if is_directory => {
                bail!("the password of user {} is needed: give --password-file FILE", self.user)
            }
            None => bail!(elsewhere("--password-file FILE", "the user's password")),
        };
        let tls = tls::rpc_client(&pem::trust(&root)?).context("TLS cannot be set up")?;
        match Client::connect(&address, &server.to_str(), tls, &self.user, &password).await {
            Ok(client) => Ok(client),
            Err(error @ ClientError::Connect { .. }) if is_directory && self.address.is_none() => {
                let node = &self.node;
                Err(error).with_context(|| {
                    format!("the node in {node} cannot be reached; if it does not run: tally node run {node}")
                })
            }
            Err(error) => Err(error).with_context(|| format!("cannot use the node at {address}")),
        }
    }
}

impl Reached {
    /// Waits for what the client does.
    ///
    /// # Errors
    /// What the client answers.
    pub fn wait<T>(&self, call: impl Future<Output = Result<T, ClientError>>) -> anyhow::Result<T> {
        Ok(self.block_on(call)?)
    }

    /// Runs something that uses the client.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

fn server(name: &str) -> anyhow::Result<ServerName<'static>> {
    if name.contains('=') {
        let name: Name = name.parse().with_context(|| format!("--server-name '{name}'"))?;
        return Ok(server_name(&name));
    }
    ServerName::try_from(name.to_owned())
        .with_context(|| format!("--server-name '{name}' is neither an X.500 name nor a host name"))
}

/// Where the node listens: by its process if it runs, else by its configuration.
fn rpc_address(directory: &NodeDirectory) -> anyhow::Result<SocketAddr> {
    let mut address = match NodeRunFile::read(directory)? {
        Some(run) => run.rpc,
        None => tally_node::Settings::load(directory.root(), &[])?.rpc.listen,
    };
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    Ok(address)
}

/// The first line of a file with a password.
///
/// # Errors
/// When the file cannot be read or the line is empty.
pub(crate) fn first_line(file: &Path) -> anyhow::Result<Zeroizing<String>> {
    let text = std::fs::read_to_string(file).map(Zeroizing::new);
    let text = text.with_context(|| format!("cannot read the password in {}", file.display()))?;
    let line = text.lines().next().unwrap_or_default();
    anyhow::ensure!(!line.is_empty(), "{}: a password on the first line is wanted", file.display());
    Ok(Zeroizing::new(line.to_owned()))
}
