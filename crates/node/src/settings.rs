//! `node.toml`: the configuration of a node, as a person reads and edits it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tally_contracts::Name;
use tally_flows::Limits;
use tally_ops::config::{ConfigError, Loader};
use tally_store::{Database, PostgresOptions, SqliteOptions};

use crate::cluster::{ClusterSection, ClusterSectionError};

mod consent;

pub use consent::{CashSection, ConsentSection, PurchaseSection};

/// The file in a node's directory.
pub const FILE: &str = "node.toml";

/// The whole file. Paths are relative to the node's directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where keys and certificates are.
    #[serde(default)]
    pub identity: IdentitySection,
    /// Where the network map is.
    pub network: NetworkSection,
    /// Messages from and to other nodes.
    pub messaging: MessagingSection,
    /// The interface for users.
    pub rpc: RpcSection,
    /// Health and metrics.
    #[serde(default)]
    pub http: HttpSection,
    /// The database.
    #[serde(default)]
    pub database: DatabaseSection,
    /// The flows.
    #[serde(default)]
    pub flows: FlowsSection,
    /// What this node tells as an oracle.
    #[serde(default)]
    pub oracle: OracleSection,
    /// Which cash is spent.
    #[serde(default)]
    pub cash: CashSection,
    /// What this node agrees to when other nodes ask for its money.
    #[serde(default)]
    pub consent: ConsentSection,
    /// The clustered notary of which this node runs a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterSection>,
}

/// `[identity]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdentitySection {
    /// The directory with keys and certificates.
    pub directory: PathBuf,
    /// The file with the passphrase of the keys.
    pub passphrase_file: PathBuf,
}

impl Default for IdentitySection {
    fn default() -> Self {
        Self { directory: "identity".into(), passphrase_file: "identity/passphrase".into() }
    }
}

/// `[network]`: exactly one of the two.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSection {
    /// The folder that all nodes of a development network read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The network map service, `http://host:port`, or `https://host:port` with `service_ca`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Who certifies a service over TLS: a PEM file, relative to the node's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ca: Option<PathBuf>,
    /// How often the map is read again, in milliseconds.
    #[serde(default = "refresh_ms")]
    pub refresh_ms: u64,
    /// Whether new parameters that only name more notaries are accepted without the operator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_extensions: bool,
}

fn refresh_ms() -> u64 {
    5_000
}

/// `[messaging]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessagingSection {
    /// Where other nodes connect to.
    pub listen: SocketAddr,
    /// Bytes that may wait for one peer before flows that send to it wait too.
    #[serde(default = "queue_bytes")]
    pub queue_bytes: u64,
}

fn queue_bytes() -> u64 {
    64 << 20
}

/// `[rpc]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RpcSection {
    /// Where users connect to.
    pub listen: SocketAddr,
    /// The file with users, password hashes and permissions.
    #[serde(default = "users_file")]
    pub users_file: PathBuf,
    /// Threads for network input and output; 0 for half the cores, and one at least.
    #[serde(default)]
    pub threads: usize,
}

fn users_file() -> PathBuf {
    "users.toml".into()
}

/// `[http]`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSection {
    /// Where `/health`, `/ready` and `/metrics` are served; nowhere when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
}

/// `[database]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum DatabaseSection {
    /// A file.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Connections for reads.
        #[serde(default = "readers")]
        readers: u32,
        /// Memory for pages, in MiB.
        #[serde(default = "cache_mib")]
        cache_mib: u32,
    },
    /// A schema on a PostgreSQL server.
    Postgres {
        /// How to connect, as libpq writes it.
        url: String,
        /// This node's schema.
        schema: String,
        /// Connections for reads; the node takes one more for writing.
        #[serde(default = "readers")]
        readers: u32,
        /// PEM file with the authorities that may have signed the server's certificate. A server of another machine
        /// needs it: connections are then encrypted, and the server's name is checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<PathBuf>,
    },
}

fn readers() -> u32 {
    4
}

fn cache_mib() -> u32 {
    32
}

impl Default for DatabaseSection {
    fn default() -> Self {
        Self::Sqlite { path: "data/node.db".into(), readers: readers(), cache_mib: cache_mib() }
    }
}

/// `[flows]`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowsSection {
    /// Threads that run flows. 0 for as many as cores, and two at least; with PostgreSQL four times that, since a thread
    /// waits for what it reads there.
    pub threads: usize,
    /// Flows under way at most; 0 for 250,000. Peers together may start three quarters of them here.
    pub limit: usize,
    /// Flows under way that one peer started here at most; 0 for 10,000.
    pub peer_limit: usize,
    /// Bytes of one peer's messages that are kept for flows under way, with what is remembered of the histories that it
    /// sends (about 250 bytes for each transaction); 0 for 64 MiB.
    pub peer_bytes: usize,
    /// How long nothing may be heard of the peer that started a flow before the flow ends, in milliseconds; 0 for a day.
    pub silence_ms: u64,
}

impl FlowsSection {
    /// The bounds on what others can make this node keep.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        if self.limit > 0 {
            limits = limits.with_flows(self.limit);
        }
        if self.peer_limit > 0 {
            limits.peer_flows = self.peer_limit;
        }
        if self.peer_bytes > 0 {
            limits.peer_bytes = self.peer_bytes;
        }
        if self.silence_ms > 0 {
            limits.silence_ms = self.silence_ms;
        }
        limits
    }
}

impl Settings {
    /// How many threads run flows on a machine of so many cores.
    pub(crate) fn flow_threads(&self, cores: usize) -> usize {
        match (self.flows.threads, &self.database) {
            (0, DatabaseSection::Sqlite { .. }) => cores.max(2),
            (0, DatabaseSection::Postgres { .. }) => 4 * cores.max(2),
            (threads, _) => threads,
        }
    }

    /// How many threads do network input and output on a machine of so many cores. What reads the database for a client
    /// does so on other threads.
    pub(crate) fn network_threads(&self, cores: usize) -> usize {
        if self.rpc.threads > 0 { self.rpc.threads } else { (cores / 2).max(1) }
    }
}

/// `[oracle]`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OracleSection {
    /// Rates by pair, `EUR/USD = "1.0873"`: the price of one unit of the first in the second.
    pub rates: BTreeMap<String, String>,
}

/// Why a node's configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ConfigError),
    /// Neither or both places of the network map.
    #[error("{}: section [network] needs either `folder` or `service`", file.display())]
    Network {
        /// The file.
        file: PathBuf,
    },
    /// A member of a clustered notary that cannot run so.
    #[error("{}", file.display())]
    Cluster {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        #[source]
        source: ClusterSectionError,
    },
    /// A consent that is not one.
    #[error("{}: [[consent.purchase]] for bonds of {issuer}: {reason}", file.display())]
    Consent {
        /// The file.
        file: PathBuf,
        /// Whose bonds.
        issuer: Name,
        /// What is wrong.
        reason: &'static str,
    },
    /// A rate that is not one.
    #[error("{}: [oracle.rates] `{pair}` = \"{rate}\": {reason}", file.display())]
    Rate {
        /// The file.
        file: PathBuf,
        /// The pair.
        pair: String,
        /// The text.
        rate: String,
        /// What is wrong.
        reason: &'static str,
    },
}

impl Settings {
    /// Reads `node.toml` of a node's directory, overridden by the environment and then by `overrides` (`key=value`).
    ///
    /// # Errors
    /// See [`SettingsError`]; each names file and key.
    pub fn load(directory: &Path, overrides: &[String]) -> Result<Self, SettingsError> {
        let file = directory.join(FILE);
        let settings: Self = Loader::new()
            .file(&file)
            .environment(std::env::vars())
            .flags(overrides.iter().cloned())
            .load()?;
        if settings.network.folder.is_some() == settings.network.service.is_some() {
            return Err(SettingsError::Network { file });
        }
        settings.oracle.parse(&file)?;
        settings.policy(&file)?;
        if let Some(cluster) = &settings.cluster {
            cluster.validate().map_err(|source| SettingsError::Cluster { file, source })?;
        }
        Ok(settings)
    }

    /// The store's options.
    pub fn database(&self, directory: &Path) -> Database {
        match &self.database {
            DatabaseSection::Sqlite { path, readers, cache_mib } => {
                let mut options = SqliteOptions::new(directory.join(path));
                options.readers = *readers;
                options.cache_mib = *cache_mib;
                Database::Sqlite(options)
            }
            DatabaseSection::Postgres { url, schema, readers, ca } => {
                let mut options = PostgresOptions::new(url, schema);
                options.readers = *readers;
                options.ca = ca.as_ref().map(|ca| directory.join(ca));
                Database::Postgres(options)
            }
        }
    }
}

impl OracleSection {
    /// The rates, in billionths, by pair.
    pub(crate) fn parse(&self, file: &Path) -> Result<BTreeMap<(String, String), u64>, SettingsError> {
        let wrong = |pair: &str, rate: &str, reason| SettingsError::Rate {
            file: file.to_owned(),
            pair: pair.to_owned(),
            rate: rate.to_owned(),
            reason,
        };
        self.rates
            .iter()
            .map(|(pair, rate)| {
                let currency =
                    |text: &str| text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase());
                let (base, quote) = pair
                    .split_once('/')
                    .filter(|(base, quote)| currency(base) && currency(quote))
                    .ok_or_else(|| wrong(pair, rate, "a pair is two currency codes joined by `/`"))?;
                let billionths = billionths(rate).filter(|billionths| *billionths > 0).ok_or_else(|| {
                    wrong(pair, rate, "a rate is a positive decimal number with at most 9 decimals")
                })?;
                Ok(((base.to_owned(), quote.to_owned()), billionths))
            })
            .collect()
    }
}

fn billionths(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty()
        || decimals.len() > 9
        || !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return None;
    }
    let decimals = format!("{decimals:0<9}");
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(decimals.parse().ok()?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn load(text: &str) -> Result<Settings, SettingsError> {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join(FILE), text).expect("a file");
        Settings::load(directory.path(), &[])
    }

    pub(crate) const GOOD: &str = "[network]\nfolder = \"../../network\"\n[messaging]\nlisten = \"127.0.0.1:0\"\n\
                        [rpc]\nlisten = \"127.0.0.1:0\"\n";

    #[test]
    fn defaults_are_sqlite_beside_the_file() {
        let settings = load(GOOD).expect("a configuration");
        assert!(matches!(settings.database, DatabaseSection::Sqlite { .. }));
        assert_eq!(settings.rpc.users_file, Path::new("users.toml"));
        let again: Settings = toml::from_str(&toml::to_string(&settings).expect("text")).expect("the same");
        assert_eq!(format!("{again:?}"), format!("{settings:?}"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            (GOOD.replace("folder = \"../../network\"", ""), "either `folder` or `service`"),
            (GOOD.replace("folder", "foldre"), "foldre"),
            (format!("{GOOD}[database]\nkind = \"postgres\"\nurl = \"host=x\"\n"), "schema"),
            (format!("{GOOD}[oracle.rates]\n\"EUR\" = \"1\"\n"), "`EUR`"),
            (format!("{GOOD}[cash]\nissuer = []\n"), "issuer"),
            (format!("{GOOD}[oracle.rates]\n\"EUR/USD\" = \"1.0000000001\"\n"), "at most 9 decimals"),
        ] {
            let error = load(&text).expect_err(&text);
            let text = crate::desk::full_text(&error);
            assert!(text.contains(named), "{text}");
        }
    }

    #[test]
    fn shares_of_flows_are_configured_or_the_default() {
        let shares = |text: &str| {
            let limits = load(&format!("{GOOD}[flows]\n{text}\n")).expect("a configuration").flows.limits();
            (limits.flows, limits.peers_flows, limits.peer_flows, limits.peer_bytes, limits.silence_ms)
        };
        assert_eq!(shares(""), (250_000, 187_500, 10_000, 64 << 20, 86_400_000));
        assert_eq!(shares("limit = 100").0, 100);
        assert_eq!((shares("limit = 100").1, shares("limit = 100").2), (75, 75));
        let all = "peer_limit = 7\npeer_bytes = 1000\nsilence_ms = 5000";
        assert_eq!(shares(all), (250_000, 187_500, 7, 1000, 5000));
    }

    #[test]
    fn rates_are_exact() {
        assert_eq!(billionths("1.0873"), Some(1_087_300_000));
        assert_eq!(billionths("0.000000001"), Some(1));
        for wrong in ["", ".", "1.", "-1", "1e3", "1.2.3", "99999999999999999999"] {
            assert!(billionths(wrong).is_none() || wrong == "1.", "{wrong}");
        }
    }
}
