//! `tally network init DIR`: a settlement network from a plan, or with `--nodes` a network of nodes.

use super::{Ended, print};
use crate::connection::ConnectionArguments;
use crate::flows_network::make::{self, ClusterArgument, DatabaseChoice, NotaryArgument};
use crate::flows_network::names;
use crate::opening::Opening;
use crate::plan::Plan;
use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use tally_contracts::Name;
use tally_crypto::keystore::ScryptCost;
use tally_ledger::SignaturePolicy;

/// Arguments of `tally network init`.
#[derive(Debug, clap::Args)]
pub(super) struct Init {
    /// Directory of the network; must not exist
    directory: PathBuf,
    /// The plan: who takes part, what is held, who has what at the start; several are joined
    #[arg(long, value_name = "FILE", required_unless_present_any = ["demo", "nodes"])]
    plan: Vec<PathBuf>,
    /// The network of the demonstration: a central bank, three banks and a depository
    #[arg(long, conflicts_with = "plan")]
    demo: bool,
    /// Encrypt the keys so that guessing the passphrase is cheap; for networks that are thrown away
    #[arg(long)]
    weak_keys: bool,
    /// Which transactions need their payers' signatures, for the life of the network; institutions-only lets transfers go
    /// unsigned, for benchmarks
    #[arg(long, value_name = "POLICY", default_value = "required", value_parser = ["required", "institutions-only"])]
    #[arg(conflicts_with = "nodes")]
    signatures: String,
    /// Have the gateways serve TLS, under these host names and addresses, separated by commas
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', conflicts_with = "nodes")]
    tls: Vec<String>,
    /// A network of these nodes: names such as PartyA or 'O=PartyA, L=London, C=GB', separated by commas
    #[arg(long, value_name = "NAMES", conflicts_with_all = ["plan", "demo"])]
    nodes: Option<String>,
    /// A notary of the network of nodes; with :validating after the name, one that sees whole transactions; may be
    /// repeated
    #[arg(long, value_name = "NAME[:validating]", requires = "nodes")]
    notary: Vec<NotaryArgument>,
    /// A notary of several nodes, four unless a number follows the name (4, 7, 10 …), of which less than a third may fail
    /// or lie; it sees a tear-off. Its members are made besides; may be repeated
    #[arg(long, value_name = "NAME[:MEMBERS]", requires = "nodes")]
    notary_cluster: Vec<ClusterArgument>,
    /// The first of the ports of the nodes, three for each and one more for each member of a clustered notary; free ones are drawn if not given
    #[arg(long, value_name = "PORT", requires = "nodes")]
    base_port: Option<u16>,
    /// What the nodes keep their data in: sqlite or postgres
    #[arg(long, value_name = "KIND", default_value = "sqlite", value_parser = ["sqlite", "postgres"])]
    database: String,
    /// How to connect to PostgreSQL, as libpq writes it; each node takes a schema of its own
    #[arg(long, value_name = "URL", required_if_eq("database", "postgres"))]
    postgres_url: Option<String>,
}

impl Init {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        if let Some(nodes) = self.nodes.as_deref().map(names::parse_list) {
            return self.make_nodes(nodes.context("--nodes")?);
        }
        let plan = if self.demo { Plan::demo() } else { Plan::read(&self.plan)? };
        plan.check()?;
        let passphrase = crate::passphrase::given(connection.passphrase_file.as_deref())?;
        let signatures = match self.signatures.as_str() {
            "institutions-only" => SignaturePolicy::InstitutionsOnly,
            _ => SignaturePolicy::Required,
        };
        let opened = all_or_nothing(&self.directory, |directory| {
            let cost = if self.weak_keys { ScryptCost::TRIVIAL } else { ScryptCost::DEFAULT };
            Opening { directory, plan: &plan, passphrase, cost, signatures, tls: &self.tls }.make()
        })?;

        let directory = self.directory.display();
        print::line(&format!(
            "network {} in {directory}: {} participants, {} assets, {} accounts",
            opened.network,
            plan.participant.len(),
            plan.asset.len(),
            plan.account.len()
        ));
        if opened.generated_passphrase {
            print::line(&format!(
                "the keys' passphrase was generated: {directory}/passphrase (in production, keep it elsewhere and \
                 give it as {})",
                crate::passphrase::VARIABLE
            ));
        }
        Ok(Ended::Well)
    }

    fn make_nodes(self, nodes: Vec<Name>) -> anyhow::Result<Ended> {
        ensure!(
            !self.notary.is_empty() || !self.notary_cluster.is_empty(),
            "a network of nodes needs a notary: give --notary or --notary-cluster"
        );
        let database = match self.postgres_url {
            Some(url) if self.database == "postgres" => DatabaseChoice::Postgres { url },
            Some(_) => bail!("--postgres-url is for --database postgres"),
            None => DatabaseChoice::Sqlite,
        };
        let plan = make::Plan {
            nodes,
            notaries: self.notary,
            clusters: self.notary_cluster,
            base_port: self.base_port,
            database,
        };
        let made = all_or_nothing(&self.directory, |directory| plan.make(directory))?;
        let directory = self.directory.display();
        print::line(&format!("network of {} nodes in {directory}", made.len()));
        print::line(make::describe(&self.directory, &made).trim_end_matches('\n'));
        print::line(&format!("start it with `tally network run {directory}`"));
        Ok(Ended::Well)
    }
}

/// Has everything made beside the directory, which gets its name at the end: all or nothing.
pub(super) fn all_or_nothing<T>(
    directory: &Path,
    make: impl FnOnce(&Path) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    ensure!(!directory.exists(), "{} exists already", directory.display());
    let parent = parent(directory)?;
    std::fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let building = tempfile::Builder::new()
        .prefix(".tally-network-")
        .tempdir_in(&parent)
        .with_context(|| format!("cannot make a directory in {}", parent.display()))?;
    let made = make(building.path())?;
    let built = building.keep();
    if let Err(error) = publish(&built, directory, &parent) {
        let _ = std::fs::remove_dir_all(&built);
        return Err(error);
    }
    Ok(made)
}

fn parent(directory: &Path) -> anyhow::Result<PathBuf> {
    if directory.file_name().is_none() {
        bail!("{} cannot be the name of a new directory", directory.display());
    }
    Ok(match directory.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    })
}

/// Gives the finished directory its name; durable once this returns.
fn publish(built: &Path, directory: &Path, parent: &Path) -> anyhow::Result<()> {
    let sync = |path: &Path| std::fs::File::open(path).and_then(|file| file.sync_all());
    sync(built)
        .and_then(|()| std::fs::rename(built, directory))
        .and_then(|()| sync(parent))
        .with_context(|| format!("cannot give {} its name", directory.display()))
}
