//! A network for a benchmark: nodes and a notary, each a process with TLS and durable storage of its own.

mod cores;
mod node;
mod process;

use std::path::PathBuf;
use std::sync::Arc;

use tally_contracts::Name;
use tally_identity::{NodeSpec, bootstrap, system_now};
use tally_node::{
    CashSection, ConsentSection, DatabaseSection, FlowsSection, HttpSection, IdentitySection,
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

/// The organisation that notarises; the last node of a network.
pub const NOTARY: &str = "Notary";

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
    /// The parties' organisations, such as `PartyA`; the notary comes on top.
    pub parties: Vec<&'static str>,
    /// Whether the notary sees whole transactions.
    pub validating: bool,
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
        let organisations: Vec<&str> = layout.parties.iter().copied().chain([NOTARY]).collect();
        let ports = ports::free(organisations.len())
            .map_err(FlowsError::system("there are no ports for the nodes"))?;
        let specs = organisations.iter().zip(&ports).map(|(organisation, port)| NodeSpec {
            name: name(organisation),
            notary: (*organisation == NOTARY).then_some(layout.validating),
            address: format!("127.0.0.1:{port}").parse().expect("an address of the loopback interface"),
        });
        let specs: Vec<NodeSpec> = specs.collect();
        let made = bootstrap(directory.path(), &specs, system_now())?;
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
                messaging: MessagingSection { listen: ([127, 0, 0, 1], port).into(), queue_bytes: 64 << 20 },
                rpc: RpcSection {
                    listen: ([127, 0, 0, 1], 0).into(),
                    users_file: "users.toml".into(),
                    threads: layout.rpc_threads,
                },
                http: HttpSection { listen: Some(([127, 0, 0, 1], 0).into()) },
                database: layout.database.section(&format!("{prefix}_{}", organisation.to_lowercase())),
                flows: FlowsSection { threads: layout.flow_threads, ..FlowsSection::default() },
                oracle: OracleSection::default(),
                cash: CashSection::default(),
                consent: ConsentSection::default(),
            };
            let password =
                std::fs::read_to_string(&node.passphrase).map_err(FlowsError::file(&node.passphrase))?;
            let operator = User::new(OPERATOR, password.trim_end(), Permissions::All)?;
            Users::new([operator])?.write(&node.directory.join(&settings.rpc.users_file))?;
            let file = node.directory.join(tally_node::FILE);
            let text = toml::to_string(&settings).map_err(std::io::Error::other);
            text.and_then(|text| std::fs::write(&file, text)).map_err(FlowsError::file(&file))?;
            nodes.push(Node::new(node, (*organisation).to_owned(), settings));
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

    /// The nodes: the parties in order, the notary last.
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
