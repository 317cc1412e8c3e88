//! `tally chain init`: everything that a new network's nodes need, in one directory.
//!
//! ```text
//! DIR/genesis.json
//! DIR/node-1/key               the node's private key
//! DIR/node-1/key.pub           its public key, which is its name among nodes
//! DIR/node-1/address           its address, which is its name among validators
//! DIR/node-1/static-nodes.json the other nodes
//! DIR/node-1/permissions_config.toml  who may be a peer: the nodes of this network
//! DIR/node-1/config.toml       everything else
//! DIR/node-2/...
//! DIR/keystore/<address>.json  an account that has money from the start
//! DIR/keystore/password        what unlocks it
//! DIR/keystore/mnemonic        the phrase that the accounts are derived from, if they are
//! ```

use super::directory::{Draft, DraftError};
use super::genesis::{GenesisPlan, NewestFork, genesis_json};
use super::mnemonic::{Mnemonic, MnemonicError};
use alloy_primitives::{Address, U256, hex};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tally_consensus::Protocol;
use tally_peers::keystore::{Derivation, KeystoreFault, Nonces, encrypt};
use tally_peers::{Enode, Host, KeyFault, NodeKey, create_private, static_nodes};

/// Nodes of one network at most; a round takes messages from each validator to each.
const MOST_NODES: usize = 100;

/// What network to make.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Nodes that are validators.
    pub validators: usize,
    /// Nodes that only follow, and serve clients.
    pub followers: usize,
    /// The protocol of the validators.
    pub protocol: Protocol,
    /// The newest fork in force, from the first block on.
    pub fork: NewestFork,
    /// The identifier of the chain and of the network.
    pub chain_id: u64,
    /// The least time between two blocks, in seconds.
    pub block_period_seconds: u64,
    /// Blocks after which pending votes are dropped.
    pub epoch_length: u64,
    /// How long a round lasts at first, in seconds.
    pub request_timeout_seconds: u64,
    /// The gas limit of a block.
    pub gas_limit: u64,
    /// When the network is made, in seconds since 1970.
    pub timestamp: u64,
    /// Accounts that have money from the start.
    pub accounts: usize,
    /// What they are derived from; without it their keys are fresh.
    pub mnemonic: Option<Mnemonic>,
    /// What each of them has, in wei.
    pub balance: U256,
    /// The address at which all nodes are reached by each other. Clients are served on the loopback interface alone.
    pub host: IpAddr,
    /// The first node's port for peers; the next node has the next port.
    pub p2p_port: u16,
    /// The first node's port for calls over HTTP.
    pub http_port: u16,
    /// The first node's port for calls over WebSocket.
    pub ws_port: u16,
}

impl Plan {
    /// Four QBFT validators on this machine, a block every two seconds, one account with money.
    #[must_use]
    pub fn new(timestamp: u64) -> Self {
        Self {
            validators: 4,
            followers: 0,
            protocol: Protocol::QBFT,
            fork: NewestFork::default(),
            chain_id: 1337,
            block_period_seconds: 2,
            epoch_length: 30_000,
            request_timeout_seconds: 4,
            gas_limit: 100_000_000,
            timestamp,
            accounts: 1,
            mnemonic: None,
            // 2^80 wei, a little more than a million ether.
            balance: U256::from(1) << 80,
            host: IpAddr::from([127, 0, 0, 1]),
            p2p_port: 30303,
            http_port: 8545,
            ws_port: 8645,
        }
    }
}

/// The secrets of a network: fresh ones by [`Init::generate`].
#[derive(Debug)]
pub struct Init {
    plan: Plan,
    nodes: Vec<NodeKey>,
    accounts: Vec<NodeKey>,
    password: String,
}

/// What was made.
#[derive(Debug, Clone)]
pub struct Made {
    /// The genesis file.
    pub genesis_file: PathBuf,
    /// The newest fork in force.
    pub fork: NewestFork,
    /// The gas limit of a block.
    pub gas_limit: u64,
    /// The nodes, validators first.
    pub nodes: Vec<MadeNode>,
    /// The accounts that have money.
    pub accounts: Vec<Account>,
    /// The file with the password of the accounts.
    pub password_file: PathBuf,
}

/// A node of a new network.
#[derive(Debug, Clone)]
pub struct MadeNode {
    /// Its directory.
    pub directory: PathBuf,
    /// Where it listens for peers, and its key.
    pub enode: Enode,
    /// Its address.
    pub address: Address,
    /// Whether it is a validator.
    pub validator: bool,
    /// Its port for calls over HTTP.
    pub http_port: u16,
    /// Its port for calls over WebSocket.
    pub ws_port: u16,
}

/// An account that has money from the start.
#[derive(Debug, Clone)]
pub struct Account {
    /// Its address.
    pub address: Address,
    /// Its key store.
    pub keystore: PathBuf,
}

/// Makes a network with fresh keys in a directory that is not there or is empty. It appears at once;
/// when something fails, nothing of it is left.
///
/// # Errors
/// [`InitError`].
pub fn init(plan: Plan, directory: &Path) -> Result<Made, InitError> {
    Init::generate(plan)?.write(directory)
}

impl Init {
    /// Draws the keys of a network.
    ///
    /// # Errors
    /// [`InitError::Plan`] when there cannot be such a network; [`InitError::Randomness`]; [`InitError::Mnemonic`].
    pub fn generate(plan: Plan) -> Result<Self, InitError> {
        let count = plan.validators.saturating_add(plan.followers);
        let refuse = |field, expected: String| Err(InitError::Plan { field, expected });
        if plan.validators == 0 || count > MOST_NODES {
            return refuse("validators", format!("at least one validator and at most {MOST_NODES} nodes"));
        }
        if plan.accounts > 1000 {
            return refuse("accounts", "at most 1000 accounts".to_owned());
        }
        if plan.chain_id == 0 || plan.block_period_seconds == 0 || plan.epoch_length == 0 {
            return refuse("chain", "chain id, block period and epoch length above zero".to_owned());
        }
        if plan.request_timeout_seconds <= plan.block_period_seconds {
            // A round that is shorter than the period ends before its block is due.
            return refuse("request timeout", "a request timeout longer than the block period".to_owned());
        }
        if !(5000..=i64::MAX as u64).contains(&plan.gas_limit) {
            return refuse("gas limit", "a gas limit from 5000 to 2^63 - 1".to_owned());
        }
        ports(&plan, count)?;
        let keys = |count| (0..count).map(|_| NodeKey::generate()).collect::<Result<Vec<_>, _>>();
        let nodes = keys(count)?;
        let accounts = match &plan.mnemonic {
            Some(mnemonic) => mnemonic.keys(plan.accounts)?,
            None => keys(plan.accounts)?,
        };
        let password = hex::encode(Nonces::generate()?.salt);
        Ok(Self { plan, nodes, accounts, password })
    }

    /// Writes the network to a directory that is not there or is empty, as [`init`].
    ///
    /// # Errors
    /// [`InitError`].
    pub fn write(&self, directory: &Path) -> Result<Made, InitError> {
        let fail = |error| match error {
            DraftError::Occupied => InitError::Occupied { directory: directory.to_owned() },
            DraftError::Io(source) => InitError::Io { path: directory.to_owned(), source },
        };
        let draft = Draft::begin(directory).map_err(fail)?;
        self.fill(draft.path(), directory)?;
        draft.publish().map_err(fail)?;
        Ok(self.made(directory))
    }

    fn made(&self, directory: &Path) -> Made {
        let node = |(index, key): (usize, &NodeKey)| MadeNode {
            directory: directory.join(format!("node-{}", index + 1)),
            enode: self.enode(index, key),
            address: key.address(),
            validator: index < self.plan.validators,
            http_port: port(self.plan.http_port, index),
            ws_port: port(self.plan.ws_port, index),
        };
        let account = |key: &NodeKey| Account {
            address: key.address(),
            keystore: account_file(directory, key.address()),
        };
        Made {
            genesis_file: directory.join("genesis.json"),
            fork: self.plan.fork,
            gas_limit: self.plan.gas_limit,
            nodes: self.nodes.iter().enumerate().map(node).collect(),
            accounts: self.accounts.iter().map(account).collect(),
            password_file: directory.join("keystore").join("password"),
        }
    }

    fn enode(&self, index: usize, key: &NodeKey) -> Enode {
        let port = port(self.plan.p2p_port, index);
        Enode { id: key.id(), host: Host::Ip(self.plan.host), port, discovery_port: None }
    }

    /// Writes the files into `inside`; errors name where they were to be, in `target`.
    fn fill(&self, inside: &Path, target: &Path) -> Result<(), InitError> {
        let named = |path: &Path| target.join(path.strip_prefix(inside).unwrap_or(path));
        let io = |path: &Path| {
            let path = named(path);
            move |source| InitError::Io { path, source }
        };
        let write = |path: PathBuf, text: &str| fs::write(&path, text).map_err(io(&path));
        let private = |path: PathBuf, text: &str| create_private(&path, text.as_bytes()).map_err(io(&path));
        let directory = |path: PathBuf| fs::create_dir(&path).map_err(io(&path)).map(|()| path);

        let made = self.made(inside);
        write(made.genesis_file.clone(), &self.genesis())?;
        let enodes: Vec<Enode> = made.nodes.iter().map(|node| node.enode.clone()).collect();
        for (node, key) in made.nodes.iter().zip(&self.nodes) {
            let home = directory(node.directory.clone())?;
            key.create(&home.join("key")).map_err(io(&home.join("key")))?;
            write(home.join("key.pub"), &format!("0x{}\n", key.id()))?;
            write(home.join("address"), &format!("{:#x}\n", key.address()))?;
            let others: Vec<Enode> = enodes.iter().filter(|enode| enode.id != key.id()).cloned().collect();
            write(home.join("static-nodes.json"), &static_nodes::format(&others))?;
            write(home.join("permissions_config.toml"), &permissions(&enodes))?;
            write(home.join("config.toml"), &self.config(node))?;
        }
        let keystore = directory(inside.join("keystore"))?;
        private(keystore.join("password"), &self.password)?;
        if let Some(mnemonic) = &self.plan.mnemonic {
            private(mnemonic_file(inside), &(mnemonic.phrase() + "\n"))?;
        }
        for (account, key) in made.accounts.iter().zip(&self.accounts) {
            // The password has 256 random bits, so a slow derivation would protect nothing more.
            let text = encrypt(key, self.password.as_bytes(), Derivation::LIGHT, &Nonces::generate()?)?;
            private(account.keystore.clone(), &text)?;
        }
        Ok(())
    }

    fn genesis(&self) -> String {
        let plan = &self.plan;
        genesis_json(&GenesisPlan {
            protocol: plan.protocol,
            fork: plan.fork,
            chain_id: plan.chain_id,
            block_period_seconds: plan.block_period_seconds,
            epoch_length: plan.epoch_length,
            request_timeout_seconds: plan.request_timeout_seconds,
            gas_limit: plan.gas_limit,
            timestamp: plan.timestamp,
            validators: self.nodes[..plan.validators].iter().map(NodeKey::address).collect(),
            funded: self.accounts.iter().map(|key| (key.address(), plan.balance)).collect(),
        })
    }

    fn config(&self, node: &MadeNode) -> String {
        let plan = &self.plan;
        let host = plan.host;
        format!(
            r#"# Options have Besu's names; paths start from this directory.
data-path = "."
genesis-file = "../genesis.json"
sync-mode = "FULL"
min-gas-price = 0
target-gas-limit = {gas_limit}

p2p-host = "{host}"
p2p-interface = "{host}"
p2p-port = {p2p_port}
permissions-nodes-config-file-enabled = true
permissions-nodes-config-file = "permissions_config.toml"

# For clients on this machine. For others, put the address and the names by which they call into these.
rpc-http-enabled = true
rpc-http-host = "127.0.0.1"
rpc-http-port = {http_port}
rpc-http-api = ["ETH", "NET", "WEB3"]
rpc-http-cors-origins = []
rpc-ws-enabled = true
rpc-ws-host = "127.0.0.1"
rpc-ws-port = {ws_port}
rpc-ws-api = ["ETH", "NET", "WEB3"]
host-allowlist = ["localhost", "127.0.0.1"]

# For the operator: votes, peers, traces and the pool, by HTTP over a socket that this process's user alone can open.
rpc-socket-enabled = true
rpc-socket-path = "rpc.sock"
"#,
            gas_limit = plan.gas_limit,
            p2p_port = node.enode.port,
            http_port = node.http_port,
            ws_port = node.ws_port,
        )
    }
}

/// Where a network's directory has the key store of an account that has money.
#[must_use]
pub fn account_file(network: &Path, address: Address) -> PathBuf {
    network.join("keystore").join(format!("{}.json", hex::encode(address)))
}

/// Where a network's directory has the phrase of its accounts, if they were derived from one.
#[must_use]
pub fn mnemonic_file(network: &Path) -> PathBuf {
    network.join("keystore").join("mnemonic")
}

fn permissions(nodes: &[Enode]) -> String {
    let entries: String = nodes.iter().map(|enode| format!("    \"{enode}\",\n")).collect();
    format!(
        "# Read again by perm_reloadPermissionsFromFile, or when the node starts.\nnodes-allowlist = [\n{entries}]\n"
    )
}

/// A port that [`ports`] has found to exist.
fn port(first: u16, index: usize) -> u16 {
    u16::try_from(index).ok().and_then(|index| first.checked_add(index)).unwrap_or(u16::MAX)
}

/// Whether every node gets ports of its own.
fn ports(plan: &Plan, count: usize) -> Result<(), InitError> {
    let ranges =
        [("p2p port", plan.p2p_port), ("HTTP port", plan.http_port), ("WebSocket port", plan.ws_port)];
    for (at, (field, first)) in ranges.iter().enumerate() {
        let (first, count) = (usize::from(*first), count);
        if first == 0 || first + count - 1 > usize::from(u16::MAX) {
            let expected =
                format!("a first port from 1 to {}, since {count} follow each other", 65_536 - count);
            return Err(InitError::Plan { field, expected });
        }
        for (other, other_first) in &ranges[..at] {
            if first.abs_diff(usize::from(*other_first)) < count {
                let expected = format!("{count} ports that are not among the {count} from the {other} on");
                return Err(InitError::Plan { field, expected });
            }
        }
    }
    Ok(())
}

/// A network could not be made. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// There cannot be such a network.
    #[error("there cannot be such a network: {field}: expected {expected}")]
    Plan {
        /// What of the plan is wrong.
        field: &'static str,
        /// What it takes.
        expected: String,
    },
    /// Something is there already.
    #[error("{} is there and is not an empty directory: choose another, or remove it", directory.display())]
    Occupied {
        /// The directory.
        directory: PathBuf,
    },
    /// The file system refused.
    #[error("{} cannot be written", path.display())]
    Io {
        /// The file or directory, where it was to be.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A key cannot be drawn.
    #[error("no keys can be made")]
    Randomness(#[from] KeyFault),
    /// The accounts cannot be derived from the phrase.
    #[error("the accounts cannot be derived from the mnemonic")]
    Mnemonic(#[from] MnemonicError),
    /// A key store cannot be made.
    #[error("no key store can be made")]
    Keystore(#[from] KeystoreFault),
}

#[cfg(test)]
mod tests;
