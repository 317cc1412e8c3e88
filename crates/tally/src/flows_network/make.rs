//! Making a network of nodes in one directory, and the files of a node.

use super::layout::{NetworkDirectory, NodeDirectory};
use super::names;
use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use tally_contracts::Name;
use tally_identity::{ClusterSpec, Network, NodeSpec, bootstrap_clustered, system_now};
use tally_node::{
    CashSection, ClusterSection, ConsentSection, DatabaseSection, FlowsSection, HttpSection, IdentitySection,
    MessagingSection, NetworkSection, OracleSection, RpcSection, Settings,
};
use tally_notary::MEMBERS;
use tally_rpc::{Permissions, User, Users};
use zeroize::Zeroizing;

/// The user that a new node has.
pub(crate) const OPERATOR: &str = "operator";
pub(crate) const QUEUE_BYTES: u64 = 64 << 20;

/// A notary as the command line names it: `Notary`, or `Notary:validating`.
#[derive(Clone, Debug)]
pub(crate) struct NotaryArgument {
    /// Its name.
    pub(crate) name: Name,
    /// Whether it sees and checks whole transactions.
    pub(crate) validating: bool,
}

impl FromStr for NotaryArgument {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, kind) = text.rsplit_once(':').unwrap_or((text, "non-validating"));
        let validating = match kind {
            "validating" => true,
            "non-validating" => false,
            other => bail!("'{other}' is no kind of notary: validating or non-validating is wanted"),
        };
        Ok(Self { name: names::parse(name)?, validating })
    }
}

/// A clustered notary as the command line names it: `Notary`, or `Notary:7` for one of seven members.
#[derive(Clone, Debug)]
pub(crate) struct ClusterArgument {
    /// Its name, which is no node's.
    pub(crate) name: Name,
    /// How many members it has.
    pub(crate) members: usize,
}

impl FromStr for ClusterArgument {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, members) = text.rsplit_once(':').unwrap_or((text, "4"));
        let members = members.parse().ok().filter(|count| *count % 3 == 1 && (4..=MEMBERS).contains(count));
        let members = members.with_context(|| {
            format!("'{text}': a clustered notary has 4, 7, 10 … members, {MEMBERS} at most")
        })?;
        Ok(Self { name: names::parse(name)?, members })
    }
}

impl ClusterArgument {
    /// The names of its members: its own with a number.
    fn member_names(&self) -> anyhow::Result<Vec<Name>> {
        let numbered = |number: usize| {
            let organisation = format!("{} {number}", self.name.organisation());
            Name::new(&organisation, self.name.locality(), self.name.country())
                .with_context(|| format!("the name of member {number} of {}", self.name))
        };
        (1..=self.members).map(numbered).collect()
    }
}

/// Where the nodes of a network keep what they must not lose.
#[derive(Clone, Debug)]
pub(crate) enum DatabaseChoice {
    /// Each in a file of its own.
    Sqlite,
    /// Each in a schema of its own on one server.
    Postgres {
        /// How to connect.
        url: String,
    },
}

/// A network to be made.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The parties.
    pub(crate) nodes: Vec<Name>,
    /// The notaries.
    pub(crate) notaries: Vec<NotaryArgument>,
    /// The clustered notaries, whose members are nodes besides.
    pub(crate) clusters: Vec<ClusterArgument>,
    /// The first of the ports; random ones where there is none.
    pub(crate) base_port: Option<u16>,
    /// The databases.
    pub(crate) database: DatabaseChoice,
}

/// A node that was made.
#[derive(Debug)]
pub(crate) struct Made {
    /// Its name.
    pub(crate) name: Name,
    /// Its directory's name.
    pub(crate) label: String,
    /// What it is in the network.
    pub(crate) role: &'static str,
    /// Where users reach it.
    pub(crate) rpc: SocketAddr,
}

impl Plan {
    /// Makes everything in the empty directory `directory`.
    ///
    /// # Errors
    /// When a name is there twice, ports are not free, or a file cannot be written.
    pub(crate) fn make(&self, directory: &Path) -> anyhow::Result<Vec<Made>> {
        let parties = self.nodes.iter().map(|name| (name, None));
        let notaries = self.notaries.iter().map(|notary| (&notary.name, Some(notary.validating)));
        let clusters = self
            .clusters
            .iter()
            .map(|cluster| Ok(ClusterSpec { name: cluster.name.clone(), members: cluster.member_names()? }));
        let clusters: Vec<ClusterSpec> = clusters.collect::<anyhow::Result<_>>()?;
        let members = clusters.iter().flat_map(|cluster| &cluster.members).map(|name| (name, None));
        let all: Vec<(&Name, Option<bool>)> = parties.chain(notaries).chain(members).collect();
        let names = all.iter().map(|(name, _)| *name).chain(clusters.iter().map(|cluster| &cluster.name));
        let names: Vec<&Name> = names.collect();
        for (index, name) in names.iter().enumerate() {
            ensure!(!names[..index].contains(name), "{name} is given twice");
        }
        // Members listen for each other on a port of its own.
        let count = clusters.iter().map(|cluster| cluster.members.len()).sum::<usize>();
        let mut ports = crate::ports::free(self.base_port, 3 * all.len() + count)?;
        let links = ports.split_off(3 * all.len());
        let mut links = links.into_iter().map(at);
        // Of each cluster, where its members listen.
        let clusters_at: Vec<BTreeMap<Name, SocketAddr>> = clusters
            .iter()
            .map(|cluster| cluster.members.iter().cloned().zip(links.by_ref()).collect())
            .collect();
        let specs = all.iter().zip(ports.chunks_exact(3)).map(|((name, notary), ports)| NodeSpec {
            name: (*name).clone(),
            notary: *notary,
            address: at(ports[0]).into(),
        });
        let specs: Vec<NodeSpec> = specs.collect();
        let Network { nodes, .. } = bootstrap_clustered(directory, &specs, &clusters, system_now())?;
        let mut made = Vec::with_capacity(nodes.len());
        let mut schemas = Vec::new();
        for (node, ports) in nodes.iter().zip(ports.chunks_exact(3)) {
            let home = NodeDirectory::new(&node.directory);
            let database = match &self.database {
                DatabaseChoice::Sqlite => DatabaseSection::default(),
                DatabaseChoice::Postgres { url } => {
                    let schema = schema(&home.label(), &schemas);
                    schemas.push(schema.clone());
                    DatabaseSection::Postgres { url: url.clone(), schema, readers: 4, ca: None }
                }
            };
            let member =
                clusters_at.iter().find_map(|addresses| ClusterSection::among(&node.party.name, addresses));
            let settings = Settings {
                identity: IdentitySection::default(),
                network: NetworkSection {
                    folder: Some("../../network".into()),
                    service: None,
                    service_ca: None,
                    refresh_ms: 5_000,
                    accept_extensions: false,
                },
                messaging: MessagingSection { listen: at(ports[0]), queue_bytes: QUEUE_BYTES },
                rpc: RpcSection { listen: at(ports[1]), users_file: "users.toml".into(), threads: 0 },
                http: HttpSection { listen: Some(at(ports[2])) },
                database,
                flows: FlowsSection::default(),
                oracle: OracleSection::default(),
                cash: CashSection { issuers: Some(self.issuers(&node.party.name)), ..CashSection::default() },
                consent: ConsentSection::default(),
                cluster: member.clone(),
            };
            write_node(&home, &node.party.name, &settings)?;
            made.push(Made {
                name: node.party.name.clone(),
                label: home.label(),
                role: match node.notary {
                    None if member.is_some() => "member of a notary",
                    None => "party",
                    Some(true) => "validating notary",
                    Some(false) => "notary",
                },
                rpc: at(ports[1]),
            });
        }
        Ok(made)
    }

    /// Whose cash a node of a development network spends without being told: its own first, then that of each party.
    fn issuers(&self, own: &Name) -> Vec<Name> {
        let others = self.nodes.iter().filter(|name| *name != own);
        std::iter::once(own).chain(others).cloned().collect()
    }
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// A schema's name from a node's: lower-case letters, digits and `_`, a letter first.
fn schema(label: &str, taken: &[String]) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
    let mut stem: String = label.chars().map(plain).take(50).collect();
    if !stem.starts_with(|first: char| first.is_ascii_lowercase()) {
        stem.insert_str(0, "node_");
    }
    let mut schema = stem.clone();
    let mut number = 2;
    while taken.contains(&schema) {
        schema = format!("{stem}_{number}");
        number += 1;
    }
    schema
}

/// Writes `node.toml`, `users.toml` and `rpc-password` of a new node.
///
/// # Errors
/// When a file is there already or cannot be written.
pub(crate) fn write_node(home: &NodeDirectory, name: &Name, settings: &Settings) -> anyhow::Result<()> {
    let password = Zeroizing::new(random_text()?);
    let operator = User::new(OPERATOR, &password, Permissions::All)?;
    create(&home.rpc_password(), format!("{}\n", *password).as_bytes(), 0o600)?;
    Users::new([operator])?.write(&home.users())?;
    // A database's URL may hold a password.
    create(&home.configuration(), configuration(name, settings)?.as_bytes(), 0o600)
}

fn configuration(name: &Name, settings: &Settings) -> anyhow::Result<String> {
    let text = toml::to_string(settings).context("the configuration cannot be written as TOML")?;
    Ok(format!(
        "# The node {name}. Paths are relative to this directory. Each key can be overridden: `tally node run DIR --set\n\
         # rpc.listen=127.0.0.1:10003`, or TALLY_RPC__LISTEN in the environment. 0 threads are as many as fit the machine.\n\
         # As an oracle, this node answers with the rates below [oracle.rates], the price of one unit of the first\n\
         # currency in the second: \"EUR/USD\" = \"1.0873\"\n\n{text}"
    ))
}

/// 128 random bits as text.
fn random_text() -> anyhow::Result<String> {
    Ok(format!("{:032x}", u128::from_be_bytes(tally_gateway::random()?)))
}

/// A new file with these permissions.
pub(crate) fn create(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(mode).open(path);
    opened
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Lines about nodes that were made.
pub(crate) fn describe(directory: &Path, made: &[Made]) -> String {
    use tally_bench::table::{self, Align, Table};
    let mut rows = Table::new(&[
        ("node", Align::Left),
        ("role", Align::Left),
        ("RPC", Align::Left),
        ("name", Align::Left),
    ]);
    let nodes = NetworkDirectory::new(directory).root().join("nodes");
    for node in made {
        rows.row([
            nodes.join(&node.label).display().to_string(),
            node.role.to_owned(),
            node.rpc.to_string(),
            node.name.to_string(),
        ]);
    }
    rows.render(table::styled())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_lower_case_and_different() {
        assert_eq!(schema("PartyA", &[]), "partya");
        assert_eq!(schema("Party-A", &["party_a".into()]), "party_a_2");
        assert_eq!(schema("9é", &[]), "node_9_");
    }

    #[test]
    fn a_network_has_what_its_nodes_need() {
        let home = tempfile::tempdir().unwrap();
        let plan = Plan {
            nodes: names::parse_list("PartyA,PartyB").unwrap(),
            notaries: vec!["Notary:validating".parse().unwrap()],
            clusters: Vec::new(),
            base_port: None,
            database: DatabaseChoice::Postgres { url: "host=/tmp user=x".into() },
        };
        let made = plan.make(home.path()).unwrap();
        assert_eq!(
            made.iter().map(|node| node.role).collect::<Vec<_>>(),
            ["party", "party", "validating notary"]
        );
        for node in NetworkDirectory::new(home.path()).nodes().unwrap() {
            let settings = Settings::load(node.root(), &[]).unwrap();
            assert!(matches!(settings.database, DatabaseSection::Postgres { .. }));
            let users = Users::read(&node.users()).unwrap();
            assert_eq!(users.iter().map(|user| user.name().to_string()).collect::<Vec<_>>(), [OPERATOR]);
        }
        let twice = Plan { notaries: vec!["PartyA".parse().unwrap()], ..plan };
        assert!(twice.make(&home.path().join("other")).unwrap_err().to_string().contains("given twice"));
    }

    #[test]
    fn a_clustered_notary_has_members_that_know_where_the_others_are() {
        let home = tempfile::tempdir().unwrap();
        let plan = Plan {
            nodes: names::parse_list("PartyA,PartyB").unwrap(),
            notaries: Vec::new(),
            clusters: vec!["Notary".parse().unwrap()],
            base_port: None,
            database: DatabaseChoice::Sqlite,
        };
        let made = plan.make(home.path()).unwrap();
        assert_eq!(made.iter().filter(|node| node.role == "member of a notary").count(), 4);
        let trust = crate::flows_network::pem::trust(&home.path().join("authority/root.pem")).unwrap();
        let map = tally_identity::NetworkMap::from_folder(&home.path().join("network"), &trust, system_now());
        let notaries = map.unwrap().0.notaries();
        assert_eq!(notaries.len(), 1);
        assert!(notaries[0].party.key.is_composite());
        let mut listening = Vec::new();
        for node in NetworkDirectory::new(home.path()).nodes().unwrap() {
            let settings = Settings::load(node.root(), &[]).unwrap();
            let Some(section) = settings.cluster else { continue };
            assert_eq!(section.members.len(), 3);
            listening.push(section.listen);
        }
        listening.sort_unstable();
        listening.dedup();
        assert_eq!(listening.len(), 4);
        for wrong in ["Notary:5", "Notary:1", "Notary:34", "Notary:x"] {
            assert!(wrong.parse::<ClusterArgument>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_notary_says_of_what_kind() {
        assert!("Notary:checking".parse::<NotaryArgument>().is_err());
        let notary: NotaryArgument = "O=N, L=Paris, C=FR:validating".parse().unwrap();
        assert!(notary.validating && notary.name.country() == "FR");
    }
}
