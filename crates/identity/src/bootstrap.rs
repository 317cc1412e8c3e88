//! A whole network in one directory, ready for use: for development, demonstrations and tests.
//!
//! | path | what |
//! | --- | --- |
//! | `authority/` | root, identity manager, network map's key, and the passphrase of them |
//! | `network/` | the folder of the network map, which all nodes read |
//! | `nodes/PartyA/identity/` | that node's keys and certificates, and the passphrase of them |

use crate::authority::{AuthorityError, Manager, NetworkMapKey, Root};
use crate::files::{self, Access, FileError};
use crate::info::{Address, InfoError, SignedNodeInfo};
use crate::issue::Lifetimes;
use crate::map::NetworkFolder;
use crate::moment;
use crate::node::{Identity, IdentityError, NodeKeys};
use crate::parameters::{NetworkParameters, Notary, ParametersError, SignedParameters};
use crate::trust::REVOCATION_GRACE_MS;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tally_consensus::Keys;
use tally_contracts::limits::SIGNED_TRANSACTION_BYTES;
use tally_contracts::{Name, NetworkId, Party, Timestamp};
use tally_crypto::keystore::ScryptCost;
use tally_notary::{Member, NotaryKind};
use zeroize::Zeroizing;

/// The passphrases made here are 128 random bits: guessing them costs too much without scrypt, and
/// nodes start sooner.
const COST: ScryptCost = ScryptCost { log_n: 10, p: 1 };
/// The revocation lists are valid for as long; `tally network authority lists` makes new ones.
const LIST_VALID_MS: u64 = moment::days(365);
/// An attachment (10 MiB at most), and what else a message carries.
const MAX_MESSAGE_BYTES: u32 = 12 << 20;
/// Files with the passphrase of the keys beside them, mode 0600.
const PASSPHRASE: &str = "passphrase";
const PLATFORM_VERSION: u32 = 1;

/// A node to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name.
    pub name: Name,
    /// Whether it is a notary, and if so, whether a validating one.
    pub notary: Option<bool>,
    /// Where other nodes reach it.
    pub address: Address,
}

/// A clustered notary to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Its name, which is no node's.
    pub name: Name,
    /// The nodes that are its members: 4, 7, 10 …
    pub members: Vec<Name>,
}

/// A network that was made.
#[derive(Debug, Clone)]
pub struct Network {
    /// The root's certificate (PEM).
    pub root: PathBuf,
    /// The authorities' directory.
    pub authority: PathBuf,
    /// The folder of the network map.
    pub map: PathBuf,
    /// The nodes, in the order in which they were asked for.
    pub nodes: Vec<BootstrappedNode>,
}

/// A node that was made.
#[derive(Debug, Clone)]
pub struct BootstrappedNode {
    /// Its name and the key of its legal identity.
    pub party: Party,
    /// Its name and the key of its notary service, where it is a notary.
    pub notary_party: Option<Party>,
    /// Its directory; `identity` in it has keys and certificates.
    pub directory: PathBuf,
    /// Keys and certificates.
    pub identity: PathBuf,
    /// The file with their passphrase.
    pub passphrase: PathBuf,
    /// Where other nodes reach it.
    pub address: Address,
    /// Whether it is a notary, and if so, whether a validating one.
    pub notary: Option<bool>,
}

/// Why a network was not made.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// There is one already.
    #[error("{} has a network already; choose another directory, or remove it", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// A node that is to be a member of a clustered notary is not made, or is one of two or a notary itself.
    #[error(
        "{0} cannot be a member of a clustered notary: it is none of the nodes, a notary itself, or a member of another"
    )]
    Member(Name),
    /// Two nodes would have one directory.
    #[error("two nodes are called {0}; give each organisation its own name")]
    Twice(String),
    /// No name for the authorities.
    #[error("the name of an authority")]
    Name(#[source] tally_contracts::NameError),
    /// A file.
    #[error("a file of the network")]
    File(#[from] FileError),
    /// An authority.
    #[error("an authority of the network")]
    Authority(#[from] AuthorityError),
    /// A node's identity.
    #[error("the identity of {name}")]
    Identity {
        /// The node.
        name: Name,
        /// What went wrong.
        #[source]
        source: IdentityError,
    },
    /// A node's info.
    #[error("the node info of {name}")]
    Info {
        /// The node.
        name: Name,
        /// What went wrong.
        #[source]
        source: InfoError,
    },
    /// The network parameters.
    #[error("the network parameters")]
    Parameters(#[from] ParametersError),
    /// The operating system gave no randomness for a passphrase.
    #[error("the operating system's random source failed")]
    Randomness(#[source] getrandom::Error),
}

/// Makes a network of `nodes` in `directory`: authorities, each node's keys and certificates, and the
/// network map with everybody's info.
///
/// # Errors
/// [`BootstrapError`]; among others when the directory has a network already.
pub fn bootstrap(directory: &Path, nodes: &[NodeSpec], now: Timestamp) -> Result<Network, BootstrapError> {
    bootstrap_clustered(directory, nodes, &[], now)
}

/// The same with clustered notaries, whose members are among the `nodes`.
///
/// # Errors
/// [`BootstrapError`].
pub fn bootstrap_clustered(
    directory: &Path,
    nodes: &[NodeSpec],
    clusters: &[ClusterSpec],
    now: Timestamp,
) -> Result<Network, BootstrapError> {
    let members: Vec<&Name> = clusters.iter().flat_map(|cluster| &cluster.members).collect();
    for (place, member) in members.iter().enumerate() {
        let is_free = nodes.iter().any(|node| node.name == **member && node.notary.is_none());
        if !is_free || members[..place].contains(member) {
            return Err(BootstrapError::Member((*member).clone()));
        }
    }
    let authority = directory.join("authority");
    if authority.exists() {
        return Err(BootstrapError::Exists { path: directory.into() });
    }
    let mut labels = BTreeSet::new();
    for node in nodes {
        let label = label(&node.name);
        // File systems may not tell the cases apart.
        if !labels.insert(label.to_lowercase()) {
            return Err(BootstrapError::Twice(label));
        }
    }
    let lifetimes = Lifetimes::default();
    let passphrase = passphrase(&authority)?;
    let root_name = authority_name("Root")?;
    let root = Root::create(&authority, &root_name, &passphrase, COST, now, lifetimes.root_ms)?;
    let manager_name = authority_name("Identity Manager")?;
    let mut manager =
        Manager::create(&authority, &root, &manager_name, &passphrase, COST, now, lifetimes.manager_ms)?;
    let map_name = authority_name("Network Map")?;
    let map_key =
        NetworkMapKey::create(&authority, &root, &map_name, &passphrase, COST, now, lifetimes.root_ms)?;

    let map = directory.join("network");
    let folder = NetworkFolder::new(&map);
    folder.create()?;
    let list = manager.revocation_list(now, LIST_VALID_MS)?;
    folder.put_revocations(&list, manager.path())?;
    folder.put_root_revocations(&root.revocation_list(now, LIST_VALID_MS)?)?;

    let mut made = Vec::with_capacity(nodes.len());
    let mut listed = Vec::new();
    for spec in nodes {
        let is_member = members.contains(&&spec.name);
        let making = Making { directory, root: &root, now, lifetime_ms: lifetimes.node_ms, folder: &folder };
        let (node, member) = making.node(spec, is_member, &mut manager)?;
        made.push(node);
        listed.extend(member);
    }
    let mut notaries: Vec<Notary> = made
        .iter()
        .filter_map(|node| {
            Some(Notary { party: node.notary_party.clone()?, kind: NotaryKind::alone(node.notary?) })
        })
        .collect();
    for ClusterSpec { name, members } in clusters {
        let own = listed.iter().filter(|(_, member)| members.contains(&member.name));
        let (networks, own): (Vec<NetworkId>, Vec<Member>) = own.cloned().unzip();
        if let Some(network) = networks.first() {
            notaries.push(Notary::clustered(*network, name.clone(), own)?);
        }
    }
    let parameters = NetworkParameters {
        epoch: 1,
        minimum_platform_version: PLATFORM_VERSION,
        notaries,
        former_notaries: Vec::new(),
        max_message_bytes: MAX_MESSAGE_BYTES,
        max_transaction_bytes: u32::try_from(SIGNED_TRANSACTION_BYTES).unwrap_or(u32::MAX),
        revocation_grace_ms: REVOCATION_GRACE_MS,
        modified: now,
        in_force_from: now,
    };
    folder.put_parameters(&SignedParameters::sign(&map_key, parameters)?)?;
    Ok(Network { root: authority.join("root.pem"), authority, map, nodes: made })
}

/// What the nodes of a network are made with.
struct Making<'a> {
    directory: &'a Path,
    root: &'a Root,
    now: Timestamp,
    lifetime_ms: u64,
    folder: &'a NetworkFolder,
}

impl Making<'_> {
    fn node(
        &self,
        spec: &NodeSpec,
        is_member: bool,
        manager: &mut Manager,
    ) -> Result<(BootstrappedNode, Option<(NetworkId, Member)>), BootstrapError> {
        let Self { directory, root, now, lifetime_ms, folder } = *self;
        let name = &spec.name;
        let failed = |source| BootstrapError::Identity { name: name.clone(), source };
        let home = directory.join("nodes").join(label(name));
        let identity = home.join("identity");
        let secret = passphrase(&identity)?;
        let request = NodeKeys::create(&identity, name, &secret, COST).map_err(failed)?;
        if spec.notary.is_some() || is_member {
            NodeKeys::create_notary(&identity, &secret, COST, now).map_err(failed)?;
        }
        let path = manager.issue(&request, now, lifetime_ms)?;
        NodeKeys::accept(&identity, &secret, root.certificate().der(), &path, now).map_err(failed)?;
        let loaded = Identity::load(&identity, &secret, now).map_err(failed)?;
        let info =
            SignedNodeInfo::sign(&loaded, vec![spec.address.clone()], PLATFORM_VERSION, now.as_millis())
                .map_err(|source| BootstrapError::Info { name: name.clone(), source })?;
        folder.put_info(&info)?;
        let member = match loaded.notary_party().filter(|_| is_member) {
            Some(service) => {
                let voter = NodeKeys::create_voter(&identity, &secret, COST).map_err(failed)?;
                let member = Member { name: name.clone(), voter: voter.address().into(), key: service.key };
                Some((loaded.trust().network(), member))
            }
            None => None,
        };
        let made = BootstrappedNode {
            party: loaded.party().clone(),
            notary_party: loaded.notary_party().cloned(),
            passphrase: identity.join(PASSPHRASE),
            identity,
            directory: home,
            address: spec.address.clone(),
            notary: spec.notary,
        };
        Ok((made, member))
    }
}

fn authority_name(what: &str) -> Result<Name, BootstrapError> {
    format!("CN={what}, O=Tallystick Network, L=London, C=GB").parse().map_err(BootstrapError::Name)
}

/// The organisation's name as a directory's: letters, digits and dashes.
fn label(name: &Name) -> String {
    let fold = |text: &str| {
        let text: String =
            text.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect();
        text
    };
    let parts = [name.common_name(), name.organisational_unit(), Some(name.organisation())];
    let parts: Vec<String> = parts.into_iter().rev().flatten().map(fold).collect();
    parts.join("-")
}

/// Makes a passphrase of 128 random bits and keeps it in a file of `directory`.
fn passphrase(directory: &Path) -> Result<Zeroizing<Vec<u8>>, BootstrapError> {
    files::create_directory(directory)?;
    let mut random = Zeroizing::new([0; 16]);
    getrandom::fill(random.as_mut()).map_err(BootstrapError::Randomness)?;
    let text = Zeroizing::new(format!("{:032x}", u128::from_be_bytes(*random)).into_bytes());
    files::create(&directory.join(PASSPHRASE), &text, Access::Private)?;
    Ok(text)
}

#[cfg(test)]
mod tests;
