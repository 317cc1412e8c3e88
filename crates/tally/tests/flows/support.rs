//! Networks of nodes in temporary directories, and their processes.

pub(crate) use crate::said::{Said, tally};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tally::flows_network::layout::{NodeDirectory, NodeRunFile};
use tally::flows_network::reach::NodeArguments;
use tally_rpc::Client;
use tempfile::TempDir;

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How long a node has to say how it is.
const ANSWERED_IN: Duration = Duration::from_secs(5);

impl Said {
    /// The standard output of a command that went well.
    #[track_caller]
    pub(crate) fn well(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// Checks that the command failed with this exit code and named all of these.
    #[track_caller]
    pub(crate) fn failed(self, code: i32, named: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for text in named {
            assert!(self.err.contains(text), "{text:?} is not in: {}", self.err);
        }
    }
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Said {
    tally().args(arguments).output().unwrap().into()
}

/// A network of nodes in a directory that goes when this does.
pub(crate) struct Network {
    home: Option<TempDir>,
    pub(crate) directory: PathBuf,
}

impl Network {
    /// A network made by `tally network init` with these arguments.
    pub(crate) fn of(arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("network");
        let made = tally().args(["network", "init"]).args(arguments).arg(&directory).output();
        Said::from(made.unwrap()).well();
        Self { home: Some(home), directory }
    }

    /// PartyA, PartyB and a notary.
    pub(crate) fn pair() -> Self {
        Self::of(&["--nodes", "PartyA,PartyB", "--notary", "Notary"])
    }

    /// Has both parties of a pair buy each other's bonds at par for cash of the bond's issuer.
    pub(crate) fn agree_to_par(&self) {
        for label in ["PartyA", "PartyB"] {
            let path = self.node(label).configuration();
            let mut text = std::fs::read_to_string(&path).unwrap();
            for issuer in ["PartyA", "PartyB"] {
                let name = format!("O={issuer}, L=London, C=GB");
                text.push_str(&format!(
                    "\n[[consent.purchase]]\nissuer = \"{name}\"\ncash_of = \"{name}\"\nhighest_percent = \"100\"\n\
                     latest_maturity = \"2099-12-31\"\nper_deal = \"1000000.00 USD\"\nper_day = \"1000000000.00 USD\"\n"
                ));
            }
            std::fs::write(&path, text).unwrap();
        }
    }

    pub(crate) fn node(&self, label: &str) -> NodeDirectory {
        NodeDirectory::new(self.directory.join("nodes").join(label))
    }

    /// The node's directory as an argument.
    pub(crate) fn path(&self, label: &str) -> String {
        self.node(label).root().to_str().unwrap().to_owned()
    }

    /// Starts a node and waits until it serves.
    pub(crate) fn start(&self, label: &str) -> Node {
        let mut node = Node::spawn(self.node(label));
        assert!(node.ready(), "{label} did not start:\n{}", node.log());
        node
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
    directory: NodeDirectory,
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// Starts the process.
    pub(crate) fn spawn(directory: NodeDirectory) -> Self {
        Self::spawn_as(tally(), directory)
    }

    /// Starts the process on a disk that takes no file larger than this: writing beyond it fails, as on a full disk.
    pub(crate) fn spawn_on_small_disk(directory: NodeDirectory, bytes: u64) -> Self {
        let mut shell = Command::new("sh");
        // Without the trap the process would be ended by a signal.
        shell.args(["-c", "trap '' XFSZ; exec prlimit --fsize=\"$0:\" \"$@\""]);
        shell.arg(bytes.to_string()).arg(tally().get_program());
        shell.env_remove("TALLY_NETWORK").env_remove("TALLY_PASSPHRASE").env_remove("TALLY_LOG");
        Self::spawn_as(shell, directory)
    }

    /// Frees the disk of [`Node::spawn_on_small_disk`].
    pub(crate) fn free_disk(&self) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:"]).status().unwrap().success()
        );
    }

    /// Starts the process on other ports than its `node.toml` names: as on another machine.
    pub(crate) fn spawn_elsewhere(directory: NodeDirectory) -> Self {
        let ports = ["messaging", "rpc", "http"].map(|of| format!("{of}.listen=127.0.0.1:0"));
        let ports: Vec<&str> = ports.iter().flat_map(|port| ["--set", port]).collect();
        Self::spawn_with(tally(), directory, &ports)
    }

    /// Starts a process that may have so many files and sockets open.
    pub(crate) fn spawn_with_files(directory: NodeDirectory, files: u32) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n \"$0\"; exec \"$@\""]);
        shell.arg(files.to_string()).arg(tally().get_program());
        shell.env_remove("TALLY_NETWORK").env_remove("TALLY_PASSPHRASE").env_remove("TALLY_LOG");
        Self::spawn_as(shell, directory)
    }

    /// Whether the process lives.
    pub(crate) fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn spawn_as(program: Command, directory: NodeDirectory) -> Self {
        Self::spawn_with(program, directory, &[])
    }

    fn spawn_with(mut program: Command, directory: NodeDirectory, more: &[&str]) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(directory.log()).unwrap();
        // It ends when this process does, in whatever way.
        let mut child = program
            .args(["--log", "info", "node", "run", "--until-input-ends"])
            .arg(directory.root())
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { directory, child, out }
    }

    /// Waits until it serves; false when it ended instead.
    pub(crate) fn ready(&mut self) -> bool {
        self.first_line().starts_with("ready ")
    }

    /// Waits until it serves; where it tells its health.
    pub(crate) fn http(&mut self) -> Option<String> {
        let line = self.first_line();
        line.split_whitespace().find_map(|word| word.strip_prefix("http=").map(str::to_owned))
    }

    fn first_line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        File::open(self.directory.log()).unwrap().read_to_string(&mut text).unwrap();
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
        // Held open: its end would be a second demand to stop, which is answered at once.
        let input = self.child.stdin.take();
        terminate(self.child.id());
        let status = self.child.wait().unwrap();
        drop(input);
        assert!(status.success(), "{status}: {}", self.log());
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "stopped\n");
        assert!(!self.directory.run_file().exists());
    }
}

/// Sends SIGTERM.
pub(crate) fn terminate(process: u32) {
    assert!(Command::new("kill").arg("-TERM").arg(process.to_string()).status().unwrap().success());
}

/// A client of that node's operator.
pub(crate) async fn client(node: &NodeDirectory) -> anyhow::Result<Client> {
    NodeArguments::directory(node.root()).client().await
}

/// What `/ready` of the node in this directory answers; nothing while it does not run or does not answer.
pub(crate) fn ready(directory: &NodeDirectory) -> Option<String> {
    let address = NodeRunFile::read(directory).ok().flatten()?.http?;
    let mut stream = TcpStream::connect_timeout(&address, ANSWERED_IN).ok()?;
    stream.set_read_timeout(Some(ANSWERED_IN)).ok()?;
    write!(stream, "GET /ready HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Replaces text in a file.
#[track_caller]
pub(crate) fn edit(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{from:?} is not in {}", file.display());
    std::fs::write(file, text.replacen(from, to, 1)).unwrap();
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
