//! Where things lie in a network of nodes and in a node's directory.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The directory of a network of nodes.
#[derive(Clone, Debug)]
pub struct NetworkDirectory {
    root: PathBuf,
}

impl NetworkDirectory {
    /// The layout of the directory `root`, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
    /// Whether `root` holds a network of nodes, and not one of settlement.
    pub fn is_one(root: &Path) -> bool {
        root.join("nodes").is_dir() && !root.join("network.toml").exists()
    }
    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// Root, identity manager, network map's key.
    pub fn authority(&self) -> PathBuf {
        self.root.join("authority")
    }
    /// The folder of the network map.
    pub fn map(&self) -> PathBuf {
        self.root.join("network")
    }
    /// The nodes, in the order of their names.
    ///
    /// # Errors
    /// When the directory cannot be read or has no node.
    pub fn nodes(&self) -> anyhow::Result<Vec<NodeDirectory>> {
        let directory = self.root.join("nodes");
        let failed = || format!("cannot read {}", directory.display());
        let mut nodes = Vec::new();
        for entry in std::fs::read_dir(&directory).with_context(failed)? {
            let node = NodeDirectory::new(entry.with_context(failed)?.path());
            if node.configuration().is_file() {
                nodes.push(node);
            }
        }
        nodes.sort_by(|a, b| a.root.cmp(&b.root));
        anyhow::ensure!(!nodes.is_empty(), "{} has no node; each has a node.toml", directory.display());
        Ok(nodes)
    }
}

/// A node's directory.
#[derive(Clone, Debug)]
pub struct NodeDirectory {
    root: PathBuf,
}

impl NodeDirectory {
    /// The layout of the directory `root`, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// The directory's own name.
    pub fn label(&self) -> String {
        self.root.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
    /// The configuration.
    pub fn configuration(&self) -> PathBuf {
        self.root.join(tally_node::FILE)
    }
    /// Users, password hashes and permissions.
    pub fn users(&self) -> PathBuf {
        self.root.join("users.toml")
    }
    /// The password of the user `operator`, where it was generated.
    pub fn rpc_password(&self) -> PathBuf {
        self.root.join("rpc-password")
    }
    /// Keys and certificates.
    pub fn identity(&self) -> PathBuf {
        self.root.join("identity")
    }
    /// What the node wrote to standard error when `tally network run` started it.
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }
    /// Where the node listens, while it runs.
    pub fn run_file(&self) -> PathBuf {
        self.root.join("run.json")
    }
}

/// `run.json` of a node's directory: the process that runs it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeRunFile {
    /// Its process id.
    pub pid: u32,
    /// Where other nodes connect to.
    pub messaging: SocketAddr,
    /// Where users connect to.
    pub rpc: SocketAddr,
    /// Where health and metrics are served.
    pub http: Option<SocketAddr>,
}

impl NodeRunFile {
    /// Reads the file of a node; `None` when the node does not run, as far as files tell.
    ///
    /// # Errors
    /// When there is a file that cannot be read.
    pub fn read(node: &NodeDirectory) -> anyhow::Result<Option<Self>> {
        let path = node.run_file();
        match std::fs::read(&path) {
            Ok(bytes) => {
                let run = serde_json::from_slice(&bytes);
                run.map(Some).with_context(|| format!("{} cannot be read", path.display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
        }
    }

    /// Puts the file in place as a whole, so that a reader finds the old or the new one.
    pub(crate) fn write(&self, node: &NodeDirectory) -> anyhow::Result<()> {
        let path = node.run_file();
        let temporary = path.with_extension("json.new");
        std::fs::write(&temporary, serde_json::to_vec(self)?)
            .and_then(|()| std::fs::rename(&temporary, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}
