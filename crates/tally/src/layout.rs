//! Where things lie in a network's directory.

use std::path::{Path, PathBuf};

/// A network's directory: the one place that knows its file names.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout of the directory `root`, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// The configuration, which a person may edit.
    pub fn configuration(&self) -> PathBuf {
        self.root.join("network.toml")
    }
    /// How its stages are split over a cluster and how that is reached, where they are processes of their own.
    pub fn cluster(&self) -> PathBuf {
        self.root.join("cluster.toml")
    }
    /// Says that the network has moved to a cluster's topics: its files are history.
    pub fn moved(&self) -> PathBuf {
        self.root.join("moved-to-cluster")
    }
    /// What the network began with; its hash is the network's id, so that it never changes.
    pub fn genesis(&self) -> PathBuf {
        self.root.join("genesis.toml")
    }
    /// The generated passphrase of the keys, where none was given.
    pub fn passphrase(&self) -> PathBuf {
        self.root.join("passphrase")
    }
    /// The certificates of its gateways.
    pub fn tls(&self) -> PathBuf {
        self.root.join("tls")
    }
    /// Certificate of the authority by which its gateways are known.
    pub fn tls_authority(&self) -> PathBuf {
        self.tls().join("ca.pem")
    }
    /// The token of the user with whom commands on this machine come in.
    pub fn token(&self) -> PathBuf {
        self.root.join("token")
    }
    /// The institutions' private keys.
    pub fn institution_keys(&self) -> PathBuf {
        self.root.join("keys").join("institutions")
    }
    /// The customers' private keys; in production each customer has its own and nobody else's.
    pub fn customer_keys(&self) -> PathBuf {
        self.root.join("keys").join("customers")
    }
    /// Evidence of misconduct: files that `tally verify` judges.
    pub fn evidence(&self) -> PathBuf {
        self.root.join("evidence")
    }
    /// The process that runs the network, while it runs.
    pub fn run_file(&self) -> PathBuf {
        self.root.join("run.json")
    }
}
