//! `tally network authority …`: the root, the identity manager and the network map's key of a network of nodes.

use super::{Ended, print};
use crate::connection::ConnectionArguments;
use crate::flows_network::layout::NetworkDirectory;
use crate::flows_network::make::{self, NotaryArgument};
use crate::flows_network::{names, pem};
use crate::passphrase::{self, Passphrase};
use alloy_primitives::Address;
use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use tally_bench::table::{self, Align, Table};
use tally_contracts::{Party, Timestamp};
use tally_identity::{
    Lifetimes, Manager, NetworkFolder, NetworkMap, NetworkMapKey, NetworkParameters, Notary, NotaryKind,
    Reason, Request, Root, SignedParameters, bootstrap, system_now,
};
use tally_notary::Member;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const MAX_REQUEST_BYTES: u64 = 8 * 1024;

/// The commands of a network's authorities.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Authority {
    /// Make root, identity manager, network map's key and an empty network map
    Init(Init),
    /// Sign the request of a node
    Issue(Issue),
    /// Revoke every certificate of a node, or of an authority below the root
    Revoke(Revoke),
    /// Sign new revocation lists, before the present ones are overdue and nodes stop opening connections
    Lists(Lists),
    /// Show every certificate issued
    List(List),
    /// Make a node of the network map a notary of the network
    Notary(AddNotary),
    /// Make nodes of the network map the members of a clustered notary of the network
    Cluster(AddCluster),
    /// Change what the network's nodes agree on. Their operators accept it
    Parameters(ChangeParameters),
}

/// Arguments of `tally network authority init`.
#[derive(Debug, clap::Args)]
pub(super) struct Init {
    /// Directory of the network; must not have one yet
    directory: PathBuf,
}

/// Arguments of `tally network authority issue`.
#[derive(Debug, clap::Args)]
pub(super) struct Issue {
    /// Directory of the network
    directory: PathBuf,
    /// The node's request.csr. Whether it comes from whom it names is for you to find out
    request: PathBuf,
    /// Where to write the certificates for the node; standard output if not given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How many days they are valid
    #[arg(long, value_name = "DAYS")]
    days: Option<u64>,
}

/// Arguments of `tally network authority revoke`.
#[derive(Debug, clap::Args)]
pub(super) struct Revoke {
    /// Directory of the network
    directory: PathBuf,
    /// The node's name
    name: String,
    /// Why: key-compromise, affiliation-changed, superseded, cessation-of-operation, privilege-withdrawn, unspecified
    #[arg(long, default_value = "unspecified")]
    reason: String,
    /// The name is that of an identity manager or of a network map's key; needs the root's key
    #[arg(long)]
    authority: bool,
    /// In how many days the next revocation list is due
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    list_days: u64,
}

/// Arguments of `tally network authority lists`.
#[derive(Debug, clap::Args)]
pub(super) struct Lists {
    /// Directory of the network. The root's list is signed as well where its key is there
    directory: PathBuf,
    /// In how many days the next lists are due
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    days: u64,
}

/// Arguments of `tally network authority list`.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// Directory of the network
    directory: PathBuf,
}

/// Arguments of `tally network authority notary`.
#[derive(Debug, clap::Args)]
pub(super) struct AddNotary {
    /// Directory of the network
    directory: PathBuf,
    /// The node; with :validating after the name, it sees whole transactions
    #[arg(value_name = "NAME[:validating]")]
    notary: NotaryArgument,
    #[command(flatten)]
    replacement: Replacement,
    #[command(flatten)]
    announcement: Announcement,
}

/// What becomes of a notary of the same name.
#[derive(Debug, clap::Args)]
struct Replacement {
    /// Replace a notary of that name which has another key. Nothing under its present key can be spent after that
    #[arg(long)]
    replace_key: bool,
}

impl Replacement {
    /// # Errors
    /// There is such a notary, and it is not to be replaced.
    fn check(&self, map: &NetworkMap, notary: &Party) -> anyhow::Result<()> {
        let parameters = map.parameters();
        let present = parameters.notaries.iter().find(|present| present.party.name == notary.name);
        if let Some(present) = present.filter(|present| present.party.key != notary.key)
            && !self.replace_key
        {
            bail!(
                "{} is a notary with the key {} now, and would have the key {}: nothing under the present key could be \
                 spent any more; choose another name, or say --replace-key",
                notary.name,
                present.party.key,
                notary.key
            );
        }
        Ok(())
    }
}

/// Arguments of `tally network authority parameters`.
#[derive(Debug, clap::Args)]
pub(super) struct ChangeParameters {
    /// Directory of the network
    directory: PathBuf,
    /// Most bytes of a transaction with its signatures
    #[arg(long, value_name = "BYTES")]
    max_transaction_bytes: Option<u32>,
    /// Most bytes of a message between nodes; they take it at their next start
    #[arg(long, value_name = "BYTES")]
    max_message_bytes: Option<u32>,
    /// How long a revocation list counts after the next one was due
    #[arg(long, value_name = "DAYS")]
    revocation_grace_days: Option<u64>,
    #[command(flatten)]
    announcement: Announcement,
}

/// From when on new parameters are in force.
#[derive(Debug, clap::Args)]
struct Announcement {
    /// In how many days they come into force; at once if 0. Nodes whose operators have not accepted them then take no new
    /// work
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    in_force_in_days: u64,
}

/// Arguments of `tally network authority cluster`.
#[derive(Debug, clap::Args)]
pub(super) struct AddCluster {
    /// Directory of the network
    directory: PathBuf,
    /// The notary's name, which is no node's
    name: String,
    /// A member: the node, and the address of its voting key as `tally node publish --voter` tells it. 4, 7, 10 … of them
    #[arg(long, value_name = "NAME=0xADDRESS", required = true)]
    member: Vec<MemberArgument>,
    #[command(flatten)]
    replacement: Replacement,
    #[command(flatten)]
    announcement: Announcement,
}

/// A member of a clustered notary as the command line names it: `Member1=0x` and forty digits.
#[derive(Clone, Debug)]
pub(super) struct MemberArgument {
    name: tally_contracts::Name,
    voter: [u8; 20],
}

impl std::str::FromStr for MemberArgument {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, voter) = text.rsplit_once('=').context("NAME=0xADDRESS is wanted")?;
        let voter: Address =
            voter.parse().with_context(|| format!("'{voter}' is no address of a voting key"))?;
        Ok(Self { name: names::parse(name)?, voter: voter.into() })
    }
}

impl Authority {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        match self {
            Self::Init(command) => command.run(),
            Self::Issue(command) => command.run(connection),
            Self::Revoke(command) => command.run(connection),
            Self::Lists(command) => command.run(connection),
            Self::List(command) => command.run(connection),
            Self::Notary(command) => command.run(connection),
            Self::Cluster(command) => command.run(connection),
            Self::Parameters(command) => command.run(connection),
        }
    }
}

impl Init {
    fn run(self) -> anyhow::Result<Ended> {
        let network = bootstrap(&self.directory, &[], system_now())?;
        let directory = self.directory.display();
        print::line(&format!("authorities of a network in {}", network.authority.display()));
        print::line(&format!("root certificate, to be given to every node: {}", network.root.display()));
        print::line(&format!("network map: tally network map serve {directory}"));
        Ok(Ended::Well)
    }
}

impl Issue {
    fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let file = self.request.display();
        let length = std::fs::metadata(&self.request).with_context(|| format!("cannot read {file}"))?.len();
        ensure!(length <= MAX_REQUEST_BYTES, "{file} is too large for a request");
        let bytes = std::fs::read(&self.request).with_context(|| format!("cannot read {file}"))?;
        let request = Request::parse(&bytes).with_context(|| format!("{file} is refused"))?;
        let lifetime = match self.days {
            Some(number) => days(number)?,
            None => Lifetimes::default().node_ms,
        };
        let network = NetworkDirectory::new(&self.directory);
        let mut manager = Manager::open(&network.authority(), &passphrase(&network, connection)?)?;
        let path = manager.issue(&request, system_now(), lifetime)?;
        let text = pem::text(&path);
        match &self.out {
            Some(out) => {
                make::create(out, text.as_bytes(), 0o644)?;
                print::line(&format!("certificates of {} in {}", request.name(), out.display()));
            }
            None => print::line(text.trim_end()),
        }
        Ok(Ended::Well)
    }
}

impl Revoke {
    fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let name = names::parse(&self.name)?;
        let reason: Reason = serde_json::from_value(self.reason.as_str().into()).with_context(|| {
            format!("'{}' is no reason; `tally network authority revoke --help` lists them", self.reason)
        })?;
        let network = NetworkDirectory::new(&self.directory);
        let valid_ms = days(self.list_days)?;
        let secret = passphrase(&network, connection)?;
        let folder = NetworkFolder::new(&network.map());
        let now = system_now();
        if self.authority {
            let root = Root::open(&network.authority(), &secret)?;
            root.revoke(&name, reason, now)?;
            folder
                .put_root_revocations(&root.revocation_list(now, valid_ms)?)
                .context("the revocation is not published yet")?;
        } else {
            let mut manager = Manager::open(&network.authority(), &secret)?;
            manager.revoke(&name, reason, now)?;
            let list = manager.revocation_list(now, valid_ms)?;
            folder.put_revocations(&list, manager.path()).context("the revocation is not published yet")?;
            folder.remove_info(&name)?;
        }
        print::line(&format!("{name} is revoked; nodes learn of it when they next read the network map"));
        Ok(Ended::Well)
    }
}

impl Lists {
    fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let network = NetworkDirectory::new(&self.directory);
        let valid_ms = days(self.days)?;
        let secret = passphrase(&network, connection)?;
        let folder = NetworkFolder::new(&network.map());
        let now = system_now();
        let mut manager = Manager::open(&network.authority(), &secret)?;
        folder.put_revocations(&manager.revocation_list(now, valid_ms)?, manager.path())?;
        let mut signed = format!("the list of {}", manager.path().subject());
        if network.authority().join("root.key").exists() {
            let root = Root::open(&network.authority(), &secret)?;
            folder.put_root_revocations(&root.revocation_list(now, valid_ms)?)?;
            signed.push_str(" and the root's");
        }
        let due = print::time(now.as_millis().saturating_add(valid_ms));
        print::line(&format!("{signed} in {}; the next ones are due by {due}", network.map().display()));
        Ok(Ended::Well)
    }
}

impl List {
    fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let network = NetworkDirectory::new(&self.directory);
        let manager = Manager::open(&network.authority(), &passphrase(&network, connection)?)?;
        let mut rows = Table::new(&[
            ("name", Align::Left),
            ("serial number", Align::Left),
            ("issued", Align::Left),
            ("valid until", Align::Left),
            ("revoked", Align::Left),
        ]);
        for entry in manager.entries() {
            let revoked = entry.revoked.as_ref().map(|revocation| {
                let reason = serde_json::to_value(revocation.reason).unwrap_or_default();
                format!("{} {}", print::time(revocation.at_ms), reason.as_str().unwrap_or_default())
            });
            rows.row([
                entry.name.to_string(),
                entry.serial.to_string(),
                print::time(entry.issued_ms),
                print::time(entry.not_after_ms),
                revoked.unwrap_or_default(),
            ]);
        }
        print::line(rows.render(table::styled()).trim_end_matches('\n'));
        Ok(Ended::Well)
    }
}

impl AddNotary {
    fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let network = NetworkDirectory::new(&self.directory);
        let now = system_now();
        let trust = pem::trust(&network.authority().join("root.pem"))?;
        let (map, _) = NetworkMap::from_folder(&network.map(), &trust, now)?;
        let NotaryArgument { name, validating } = self.notary;
        let Some(info) = map.info(&name) else {
            bail!("no node {name} is on the network map; a notary publishes its node info first")
        };
        let Some(party) = info.notary_party() else {
            bail!(
                "{name} has no notary service yet; its operator makes one with `tally node publish DIR --notary`"
            )
        };
        self.replacement.check(&map, &party)?;
        let from = self.announcement.announce(&network, connection, &map, now, |parameters| {
            parameters.put_notary(Notary { party, kind: NotaryKind::alone(validating) });
        })?;
        let kind = if validating { "validating" } else { "non-validating" };
        print::line(&format!("{name} is a {kind} notary of the network{from}, from its next start on"));
        Ok(Ended::Well)
    }
}

impl ChangeParameters {
    fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let network = NetworkDirectory::new(&self.directory);
        let now = system_now();
        let trust = pem::trust(&network.authority().join("root.pem"))?;
        let (map, _) = NetworkMap::from_folder(&network.map(), &trust, now)?;
        let grace = self.revocation_grace_days.map(days).transpose()?;
        ensure!(
            self.max_transaction_bytes.is_some() || self.max_message_bytes.is_some() || grace.is_some(),
            "there is nothing to change; `tally network authority parameters --help` lists what can be"
        );
        let from = self.announcement.announce(&network, connection, &map, now, |parameters| {
            parameters.max_transaction_bytes =
                self.max_transaction_bytes.unwrap_or(parameters.max_transaction_bytes);
            parameters.max_message_bytes = self.max_message_bytes.unwrap_or(parameters.max_message_bytes);
            parameters.revocation_grace_ms = grace.unwrap_or(parameters.revocation_grace_ms);
        })?;
        let epoch = map.parameters().epoch.saturating_add(1);
        print::line(&format!("the network has parameters of epoch {epoch}{from}"));
        Ok(Ended::Well)
    }
}

impl Announcement {
    /// Signs changed parameters and puts them on the map; gives from when on they are in force, in words.
    fn announce(
        &self,
        network: &NetworkDirectory,
        connection: &ConnectionArguments,
        map: &NetworkMap,
        now: Timestamp,
        change: impl FnOnce(&mut NetworkParameters),
    ) -> anyhow::Result<String> {
        if let Some(next) = map.announced() {
            bail!(
                "parameters of epoch {} are announced already and come into force at {}; change them after that",
                next.epoch,
                print::time(next.in_force_from.as_millis())
            );
        }
        let mut parameters = map.parameters().as_ref().clone();
        change(&mut parameters);
        parameters.epoch =
            parameters.epoch.checked_add(1).context("the parameters cannot change any more")?;
        parameters.modified = now;
        parameters.in_force_from =
            Timestamp::from_millis(now.as_millis().saturating_add(days(self.in_force_in_days)?));
        let key = NetworkMapKey::open(&network.authority(), &passphrase(network, connection)?)?;
        let signed = SignedParameters::sign(&key, parameters)?;
        let folder = NetworkFolder::new(&network.map());
        // What was announced before is in force by now, and makes room.
        folder.promote_announced()?;
        if self.in_force_in_days == 0 {
            folder.put_parameters(&signed)?;
            return Ok(String::new());
        }
        folder.put_announced(&signed)?;
        Ok(format!(" from {} on", print::time(signed.unverified().in_force_from.as_millis())))
    }
}

impl AddCluster {
    fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let network = NetworkDirectory::new(&self.directory);
        let trust = pem::trust(&network.authority().join("root.pem"))?;
        let now = system_now();
        let (map, _) = NetworkMap::from_folder(&network.map(), &trust, now)?;
        let name = names::parse(&self.name)?;
        ensure!(map.info(&name).is_none(), "{name} is a node; a clustered notary has a name of its own");
        let members = self.member.into_iter().map(|MemberArgument { name, voter }| {
            // The key is the one that the network has certified for this node's notary service.
            let service = map.info(&name).and_then(|info| info.notary_party()).with_context(|| {
                format!(
                    "no node {name} with a notary service is on the network map; its operator runs `tally node \
                     publish DIR --voter`"
                )
            })?;
            Ok(Member { name, voter, key: service.key })
        });
        let members: Vec<Member> = members.collect::<anyhow::Result<_>>()?;
        let count = members.len();
        let notary = Notary::clustered(trust.network(), name.clone(), members)?;
        self.replacement.check(&map, &notary.party)?;
        let from = self
            .announcement
            .announce(&network, connection, &map, now, |parameters| parameters.put_notary(notary))?;
        print::line(&format!(
            "{name} is a notary of {count} members of the network{from}, once each runs with a section [cluster]"
        ));
        Ok(Ended::Well)
    }
}

/// A number of days from the command line in milliseconds.
fn days(days: u64) -> anyhow::Result<u64> {
    days.checked_mul(DAY_MS).with_context(|| format!("nothing is valid for {days} days"))
}

/// The passphrase of the authorities' keys: the one given, else the one beside them.
pub(super) fn passphrase(
    network: &NetworkDirectory,
    connection: &ConnectionArguments,
) -> anyhow::Result<Passphrase> {
    match connection.passphrase_file.as_deref() {
        Some(file) => passphrase::read(file),
        None => passphrase_beside(&network.authority()),
    }
}

fn passphrase_beside(authority: &Path) -> anyhow::Result<Passphrase> {
    passphrase::read(&authority.join("passphrase"))
        .with_context(|| format!("the authorities in {} need their passphrase", authority.display()))
}
