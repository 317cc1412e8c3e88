//! Where a store is and how much it may take.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Database {
    /// A file.
    Sqlite(SqliteOptions),
    /// A schema on a server.
    Postgres(PostgresOptions),
}

/// A store in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqliteOptions {
    /// The file; made when it is missing. Beside it lie `-wal`, `-shm` and `.lock`.
    pub path: PathBuf,
    /// Connections for reads.
    #[serde(default = "default_readers")]
    pub readers: u32,
    /// Memory for pages that writing needs, in MiB; each reader takes an eighth of it.
    #[serde(default = "default_cache_mib")]
    pub cache_mib: u32,
}

impl SqliteOptions {
    /// The defaults, with this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), readers: default_readers(), cache_mib: default_cache_mib() }
    }
}

/// A store on a PostgreSQL server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresOptions {
    /// How to connect, as libpq writes it: `host=/run/postgresql user=tally dbname=tally` or
    /// `postgresql://user@host/database`.
    pub url: String,
    /// This node's schema: 1 to 63 lower-case letters, digits and `_`, a letter first. Made when it is missing.
    pub schema: String,
    /// Connections for reads.
    #[serde(default = "default_readers")]
    pub readers: u32,
    /// PEM file with the authorities that may have signed the server's certificate. With it connections are
    /// encrypted (TLS 1.2 or 1.3) and the server's name is checked; a server of another machine needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL may hold a password.
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("readers", &self.readers)
            .field("ca", &self.ca)
            .finish_non_exhaustive()
    }
}

impl PostgresOptions {
    /// The defaults, with this server and schema.
    pub fn new(url: impl Into<String>, schema: impl Into<String>) -> Self {
        Self { url: url.into(), schema: schema.into(), readers: default_readers(), ca: None }
    }

    /// What a store with these options takes of the server.
    pub fn needs(&self) -> Needs {
        Needs { readers: self.readers.max(1) }
    }
}

/// What a store takes of its server, all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    readers: u32,
}

impl Needs {
    /// Connections: one that writes and those that read.
    pub fn connections(&self) -> u32 {
        self.readers.saturating_add(1)
    }
}

fn default_readers() -> u32 {
    4
}

fn default_cache_mib() -> u32 {
    32
}
