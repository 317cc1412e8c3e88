//! Networks of a chain's nodes in temporary directories, and their processes.

use super::client::{Client, Unanswered};
pub(crate) use crate::said::{Said, tally};
use alloy_consensus::{SignableTransaction, TxLegacy};
use alloy_primitives::{Address, B256, TxKind, U256, hex, keccak256};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tally_evm::Transaction;
use tally_peers::NodeKey;
use tempfile::TempDir;

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const CHAIN_ID: u64 = 1337;

/// A number that the environment may set.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// Tries until it is so.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Said {
    tally().args(arguments).output().unwrap().into()
}

impl Said {
    /// The standard output of a command that went well.
    #[track_caller]
    pub(crate) fn well(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// Checks that the command failed and named all of these.
    #[track_caller]
    pub(crate) fn failed(&self, named: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:?}");
        for text in named {
            assert!(self.err.contains(text), "{text:?} is not in: {}", self.err);
        }
    }
}

/// A network in a directory that goes when this does.
pub(crate) struct Network {
    home: Option<TempDir>,
    directory: PathBuf,
    nodes: usize,
}

impl Network {
    /// QBFT validators, then nodes that only follow; a block every so many milliseconds. The accounts of
    /// [`account`] have money.
    pub(crate) fn new(validators: usize, followers: usize, period_ms: u64) -> Self {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("network");
        let (count, more) = (validators.to_string(), followers.to_string());
        run(&[
            "chain",
            "init",
            "--validators",
            &count,
            "--followers",
            &more,
            "--consensus",
            "qbft",
            "--block-period-seconds",
            "1",
            "--request-timeout-seconds",
            "2",
            "--free-ports",
            directory.to_str().unwrap(),
        ])
        .well();
        let file = directory.join("genesis.json");
        let mut genesis: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        genesis["config"]["qbft"]["xblockperiodmilliseconds"] = json!(period_ms);
        genesis["config"]["qbft"]["requesttimeoutseconds"] = json!(1);
        for number in 0..ACCOUNTS {
            let name = hex::encode(account(number).address());
            genesis["alloc"][name] = json!({ "balance": "0xffffffffffffffffffff" });
        }
        std::fs::write(&file, genesis.to_string()).unwrap();
        let network = Self { home: Some(home), directory, nodes: validators + followers };
        for at in 0..network.nodes {
            // What `chain init` leaves to the operator's socket is asked over HTTP here.
            let file = network.node(at).join("config.toml");
            let text = std::fs::read_to_string(&file).unwrap();
            let public = r#"rpc-http-api = ["ETH", "NET", "WEB3"]"#;
            assert!(text.contains(public));
            let all = r#"rpc-http-api = ["ETH", "NET", "WEB3", "TXPOOL", "QBFT"]"#;
            std::fs::write(&file, text.replace(public, all)).unwrap();
        }
        network
    }

    pub(crate) fn genesis(&self) -> PathBuf {
        self.directory.join("genesis.json")
    }

    /// The directory of a node, counted from 0.
    pub(crate) fn node(&self, at: usize) -> PathBuf {
        self.directory.join(format!("node-{}", at + 1))
    }

    /// The address of a node's key, as answers have it.
    pub(crate) fn address(&self, at: usize) -> String {
        std::fs::read_to_string(self.node(at).join("address")).unwrap().trim().to_owned()
    }

    /// Starts a node and waits until it serves.
    #[track_caller]
    pub(crate) fn start(&self, at: usize) -> Node {
        let mut node = Node::spawn(self.node(at));
        assert!(node.ready(), "node {} did not start:\n{}", at + 1, node.log());
        node
    }

    pub(crate) fn start_all(&self) -> Vec<Node> {
        (0..self.nodes).map(|at| self.start(at)).collect()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // What failed is to be looked into.
        if std::thread::panicking()
            && let Some(home) = self.home.take()
        {
            println!("the network is kept: {}", home.keep().display());
        }
    }
}

/// A node's process; killed when this goes.
pub(crate) struct Node {
    directory: PathBuf,
    child: Child,
    out: BufReader<ChildStdout>,
    http: Option<SocketAddr>,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// Starts the process.
    pub(crate) fn spawn(directory: PathBuf) -> Self {
        Self::spawn_as(tally(), directory)
    }

    /// Starts the process on a disk that takes no file larger than this: writing beyond it fails, as on a full disk.
    pub(crate) fn spawn_on_small_disk(directory: PathBuf, bytes: u64) -> Self {
        let mut shell = Command::new("sh");
        // Without the trap the process would be ended by a signal.
        shell.args(["-c", "trap '' XFSZ; exec prlimit --fsize=\"$0:\" \"$@\""]);
        shell.arg(bytes.to_string()).arg(tally().get_program()).env_remove("TALLY_LOG");
        Self::spawn_as(shell, directory)
    }

    /// Frees the disk of [`Node::spawn_on_small_disk`].
    pub(crate) fn free_disk(&self) {
        let pid = self.child.id().to_string();
        let freed = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:"]).status().unwrap();
        assert!(freed.success());
    }

    /// Starts the process with these options in place of its directory.
    pub(crate) fn spawn_with(directory: PathBuf, options: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut program = tally();
        program.envs(variables.iter().copied());
        Self::run(program, directory, options)
    }

    fn spawn_as(program: Command, directory: PathBuf) -> Self {
        let argument = directory.to_str().unwrap().to_owned();
        Self::run(program, directory, &[&argument])
    }

    fn run(mut program: Command, directory: PathBuf, arguments: &[&str]) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(log_file(&directory)).unwrap();
        // It ends when this process does, in whatever way.
        let mut child = program
            .args(["--log", "info", "chain", "run", "--until-input-ends"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { directory, child, out, http: None }
    }

    /// Waits until it serves; false when it ended instead.
    pub(crate) fn ready(&mut self) -> bool {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        let http = line.split(' ').find_map(|word| word.strip_prefix("http="));
        self.http = http.map(|address| address.parse().unwrap());
        line.starts_with("ready ")
    }

    /// Somebody who calls it.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.http.unwrap())
    }

    /// What it said, in all its lives.
    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        File::open(log_file(&self.directory)).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// SIGKILL, at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; checks that it ends in order.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        // Held open: its end would be a second demand to stop.
        let input = self.child.stdin.take();
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        drop(input);
        assert!(status.success(), "{status}: {}", self.log());
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "stopped\n");
    }
}

/// Beside the node's directory, so that only the node changes what is in that.
fn log_file(directory: &Path) -> PathBuf {
    directory.with_extension("log")
}

/// Accounts that have money.
pub(crate) const ACCOUNTS: u8 = 8;

/// The key of an account that has money.
pub(crate) fn account(number: u8) -> NodeKey {
    NodeKey::new(&[0x40 + number; 32]).unwrap()
}

/// A signed transfer of one wei, and its hash.
pub(crate) fn transfer(from: &NodeKey, nonce: u64, to: Address) -> (B256, String) {
    let body = TxLegacy {
        chain_id: Some(CHAIN_ID),
        nonce,
        gas_price: 0,
        gas_limit: 21_000,
        to: TxKind::Call(to),
        value: U256::from(1),
        ..TxLegacy::default()
    };
    let signature = from.sign_recoverable(&body.signature_hash());
    let encoded = tally_evm::transaction::encode(&Transaction::from(body.into_signed(signature)));
    (keccak256(&encoded), hex::encode_prefixed(&encoded))
}

/// Sends a transaction: the node's word for it, or why there is none.
pub(crate) fn submit(client: &Client, hash: B256, encoded: &str) -> Result<(), Unanswered> {
    let answer = client.call("eth_sendRawTransaction", &json!([encoded]))?;
    assert_eq!(answer, json!(hash));
    Ok(())
}

/// Checks that all nodes have the same blocks, of whose making no thread died, and says up to which.
#[track_caller]
pub(crate) fn agree(nodes: &[Node]) -> u64 {
    for node in nodes {
        let log = node.log();
        assert!(!log.contains("panicked"), "{}: {log}", node.directory.display());
    }
    let height = nodes.iter().map(|node| node.client().height()).max().unwrap();
    for node in nodes {
        node.client().await_height(height);
    }
    let first = nodes[0].client().blocks(height);
    for node in &nodes[1..] {
        let blocks = node.client().blocks(height);
        for (number, block) in &first {
            assert_eq!(&blocks[number], block, "block {number} of {}", node.directory.display());
        }
    }
    height
}
