//! A network for a benchmark: nodes and a notary, each a process with TLS and durable storage of its own.

mod cores;
mod node;
mod process;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tally_contracts::Name;
use tally_identity::{ClusterSpec, NodeSpec, bootstrap_clustered, system_now};
use tally_node::{
    CashSection, ClusterSection, ConsentSection, DatabaseSection, FlowsSection, HttpSection, IdentitySection,
    MessagingSection, NetworkSection, OracleSection, RpcSection, Settings,
};
use tally_rpc::{Permissions, User, Users};
use tally_store::server::{PostgresServer, ServerError};

use super::FlowsError;
use crate::processes::Watched;
use tally_ops::ports;

pub use cores::Pinned;
pub use node::{Node, OPERATOR};
pub use process::Launcher;

/// The organisation that notarises; the last node of a network, unless the notary is clustered.
pub const NOTARY: &str = "Notary";
/// Members of a clustered notary.
const MEMBERS: usize = 4;

/// What notarises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotaryLayout {
    /// A node that is shown hashes.
    NonValidating,
    /// A node that sees whole transactions.
    Validating,
    /// Four nodes that are shown hashes and agree, of which one may fail or lie.
    Clustered,
}

impl NotaryLayout {
    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NonValidating => "non-validating",
            Self::Validating => "validating",
            Self::Clustered => "clustered",
        }
    }

    /// The organisations of the nodes that notarise.
    #[must_use]
    pub fn organisations(self) -> Vec<String> {
        match self {
            Self::NonValidating | Self::Validating => vec![NOTARY.to_owned()],
            Self::Clustered => (1..=MEMBERS).map(|number| format!("{NOTARY} {number}")).collect(),
        }
    }
}

/// Where the nodes keep what they must not lose.
#[derive(Debug, Clone)]
pub enum Database {
    /// Each in a file of its own.
    Sqlite,
    /// Each in a schema of its own on a server that is there.
    Postgres(String),
    /// Each in a schema of its own on a server that was started for it.
    Started(Arc<PostgresServer>),
}

impl Database {
    /// PostgreSQL on a server of its own, which ends with the last that holds this.
    ///
    /// # Errors
    /// [`ServerError`]; [`ServerError::NotInstalled`] where the machine has no PostgreSQL.
    pub fn start_server() -> Result<Self, ServerError> {
        Ok(Self::Started(Arc::new(PostgresServer::start()?)))
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres(_) | Self::Started(_) => "postgres",
        }
    }

    fn section(&self, schema: &str) -> DatabaseSection {
        let postgres =
            |url: String| DatabaseSection::Postgres { url, schema: schema.to_owned(), readers: 4, ca: None };
        match self {
            Self::Sqlite => DatabaseSection::default(),
            Self::Postgres(url) => postgres(url.clone()),
            Self::Started(server) => postgres(server.url()),
        }
    }
}

/// What a network is to be like.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The parties' organisations, such as `PartyA`; what notarises comes on top.
    pub parties: Vec<&'static str>,
    /// What notarises.
    pub notary: NotaryLayout,
    /// Threads that run flows; 0 for the node's own choice.
    pub flow_threads: usize,
    /// Threads for network input and output; 0 for the node's own choice.
    pub rpc_threads: usize,
    /// The databases.
    pub database: Database,
    /// The networks' directories are made in it.
    pub directory: PathBuf,
    /// How nodes are run.
    pub launcher: Launcher,
}

/// A network; its processes end and its directory is removed when it is dropped.
#[derive(Debug)]
pub struct Network {
    nodes: Vec<Node>,
    layout: Layout,
    // After the nodes, so that it is removed when they have ended.
    _directory: tempfile::TempDir,
}

/// A party's name in a network of this module.
///
/// # Panics
/// When the organisation is none that an X.500 name can have.
#[must_use]
pub fn name(organisation: &str) -> Name {
    Name::new(organisation, "London", "GB").expect("organisations of benchmarks are plain words")
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

impl Network {
    /// Makes the directories and keys of a network; nothing runs yet.
    ///
    /// # Errors
    /// [`FlowsError`].
    pub fn make(layout: &Layout) -> Result<Self, FlowsError> {
        std::fs::create_dir_all(&layout.directory).map_err(FlowsError::file(&layout.directory))?;
        let directory = tempfile::Builder::new()
            .prefix("nodes-")
            .tempdir_in(&layout.directory)
            .map_err(FlowsError::file(&layout.directory))?;
        let notaries = layout.notary.organisations();
        let parties = layout.parties.iter().map(|party| (*party).to_owned());
        let organisations: Vec<String> = parties.chain(notaries.iter().cloned()).collect();
        // A port more for each: members of a cluster listen for each other.
        let mut ports = ports::free(2 * organisations.len())
            .map_err(FlowsError::system("there are no ports for the nodes"))?;
        let links = ports.split_off(organisations.len());
        let specs = organisations.iter().zip(&ports).map(|(organisation, port)| NodeSpec {
            name: name(organisation),
            notary: match layout.notary {
                NotaryLayout::Clustered => None,
                alone => (organisation == NOTARY).then_some(alone == NotaryLayout::Validating),
            },
            address: loopback(*port).into(),
        });
        let specs: Vec<NodeSpec> = specs.collect();
        let members: Vec<Name> = match layout.notary {
            NotaryLayout::Clustered => notaries.iter().map(|organisation| name(organisation)).collect(),
            NotaryLayout::NonValidating | NotaryLayout::Validating => Vec::new(),
        };
        let links: BTreeMap<Name, SocketAddr> = organisations
            .iter()
            .zip(links)
            .map(|(organisation, port)| (name(organisation), loopback(port)))
            .filter(|(node, _)| members.contains(node))
            .collect();
        let cluster = (!members.is_empty()).then(|| ClusterSpec { name: name(NOTARY), members });
        let clusters: Vec<ClusterSpec> = cluster.into_iter().collect();
        let made = bootstrap_clustered(directory.path(), &specs, &clusters, system_now())?;
        // One schema for each node and network, so that one server serves many networks.
        let prefix = directory.path().file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let prefix: String =
            prefix.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let mut nodes = Vec::with_capacity(made.nodes.len());
        for ((node, port), organisation) in made.nodes.into_iter().zip(ports).zip(&organisations) {
            let settings = Settings {
                identity: IdentitySection::default(),
                network: NetworkSection {
                    folder: Some(made.map.clone()),
                    service: None,
                    service_ca: None,
                    refresh_ms: 5_000,
                    accept_extensions: false,
                },
                messaging: MessagingSection { listen: loopback(port), queue_bytes: 64 << 20 },
                rpc: RpcSection {
                    listen: ([127, 0, 0, 1], 0).into(),
                    users_file: "users.toml".into(),
                    threads: layout.rpc_threads,
                },
                http: HttpSection { listen: Some(([127, 0, 0, 1], 0).into()) },
                database: layout
                    .database
                    .section(&format!("{prefix}_{}", organisation.to_lowercase().replace(' ', "_"))),
                flows: FlowsSection { threads: layout.flow_threads, ..FlowsSection::default() },
                oracle: OracleSection::default(),
                cash: CashSection::default(),
                consent: ConsentSection::default(),
                cluster: ClusterSection::among(&name(organisation), &links),
            };
            let password =
                std::fs::read_to_string(&node.passphrase).map_err(FlowsError::file(&node.passphrase))?;
            let operator = User::new(OPERATOR, password.trim_end(), Permissions::All)?;
            Users::new([operator])?.write(&node.directory.join(&settings.rpc.users_file))?;
            let file = node.directory.join(tally_node::FILE);
            let text = toml::to_string(&settings).map_err(std::io::Error::other);
            text.and_then(|text| std::fs::write(&file, text)).map_err(FlowsError::file(&file))?;
            nodes.push(Node::new(node, organisation.clone(), settings));
        }
        Ok(Self { nodes, layout: layout.clone(), _directory: directory })
    }

    /// Makes a network and starts every node of it.
    ///
    /// # Errors
    /// [`FlowsError`].
    pub fn start(layout: &Layout) -> Result<Self, FlowsError> {
        let mut network = Self::make(layout)?;
        for index in 0..network.nodes.len() {
            network.run(index)?;
        }
        Ok(network)
    }

    /// What it is like.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The nodes: the parties in order, what notarises last.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node by its place.
    ///
    /// # Panics
    /// When there are not so many.
    #[must_use]
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// Starts a node that does not run; how long it took until it served.
    ///
    /// # Errors
    /// [`FlowsError`].
    ///
    /// # Panics
    /// When there are not so many nodes, or it runs.
    pub fn run(&mut self, index: usize) -> Result<std::time::Duration, FlowsError> {
        let launcher = self.layout.launcher.clone();
        self.nodes[index].run(&launcher)
    }

    /// Ends a node as a crash would; a node inside this process is stopped in order instead.
    ///
    /// # Errors
    /// [`FlowsError`].
    ///
    /// # Panics
    /// When there are not so many nodes.
    pub fn kill(&mut self, index: usize) -> Result<(), FlowsError> {
        self.nodes[index].kill()
    }

    /// The processes to watch: the nodes', this one (which drives them), and the database's if it was started for it.
    #[must_use]
    pub fn watched(&self) -> Vec<Watched> {
        let mut watched: Vec<Watched> =
            self.nodes.iter().filter_map(|node| Some(Watched::new(node.label(), node.pid()?))).collect();
        // Nodes inside this process cannot be told apart.
        watched.retain(|one| one.pid != std::process::id());
        watched.push(Watched::new("driver", std::process::id()));
        if let Database::Started(server) = &self.layout.database
            && let Some(pid) = server.process()
        {
            watched.push(Watched { label: "PostgreSQL".to_owned(), pid, with_children: true });
        }
        watched
    }
}
