//! Real brokers for tests and benchmarks: Apache Kafka from the installed jars, in a directory and on ports of their own.
//!
//! Everything ends with the process that started it, however that ends: each broker hangs on a pipe from here.

mod certificates;
mod way;

pub use certificates::{Authority, Identity};

use super::{KafkaOptions, Tls, topics};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thiserror::Error;
use way::Way;

const TEMPLATE: &str = include_str!("../../../../deploy/kafka/server.properties");
/// As in deploy/kafka/pom.xml.
const VERSION: &str = "4.1.1";
const CLUSTER: &str = "dGFsbHl0ZXN0Y2x1c3Rlcg";
/// How long a broker may take to start on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Why there is no broker.
#[derive(Debug, Error)]
pub enum BrokerError {
    /// The jars are not there.
    #[error("Apache Kafka is not installed in {directory}; run: make kafka (or: scripts/kafka install)")]
    Missing {
        /// Where they should be.
        directory: String,
    },
    /// A broker did not come up.
    #[error("broker {node} did not start: {what}")]
    Start {
        /// Which.
        node: u16,
        /// Why, with the end of its log.
        what: String,
    },
    /// The system refused something.
    #[error("cannot {operation}")]
    Io {
        /// What.
        operation: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

fn io(operation: &'static str) -> impl FnOnce(std::io::Error) -> BrokerError {
    move |source| BrokerError::Io { operation, source }
}

/// Where the jars lie: in `TALLY_KAFKA_JARS`, else in the user's cache, where `scripts/kafka install` puts them.
#[must_use]
pub fn jars() -> PathBuf {
    if let Some(directory) = std::env::var_os("TALLY_KAFKA_JARS") {
        return directory.into();
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|cache| !cache.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .unwrap_or_else(std::env::temp_dir);
    cache.join("tallystick").join(format!("kafka-{VERSION}"))
}

/// What brokers to start.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// 1, or 3 that replicate to each other.
    pub nodes: u16,
    /// Clients need certificates, and what access lists give them.
    pub secured: bool,
    /// Clients can also reach them by a way that can be [cut](Brokers::cut).
    pub far: bool,
    /// Compiles well before it runs fast: for benchmarks. Else it starts sooner.
    pub fast: bool,
    /// The heap of each, in MiB.
    pub heap_mib: u32,
    /// The last broker's disk is full for a file of more than so many MiB, at least 11. The system refuses the write as it does
    /// on a full disk, and it takes no privilege to set up.
    pub file_mib: Option<u32>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { nodes: 1, secured: false, far: false, fast: false, heap_mib: 512, file_mib: None }
    }
}

/// Running brokers.
pub struct Brokers {
    setup: Setup,
    directory: TempDir,
    nodes: Vec<Node>,
    ways: Vec<Way>,
    authority: Option<Authority>,
}

struct Node {
    number: u16,
    port: u16,
    running: Option<Running>,
}

struct Running {
    shell: Child,
    /// While this is open, the broker runs.
    hold: Option<ChildStdin>,
    java: Pid,
}

/// Starts Java, says its process id, and ends it when nobody holds the other end of the pipe any more. A line on the pipe
/// before that keeps the data.
const KEEPER: &str = r#"directory=$1; log=$2; blocks=$3; shift 3
ulimit -f "$blocks"
"$@" >>"$log" 2>&1 </dev/null &
pid=$!; echo "$pid"; exec >/dev/null
read -r keep; kill -9 "$pid" 2>/dev/null; wait "$pid" 2>/dev/null
[ -n "$keep" ] || rm -rf "$directory""#;

impl Brokers {
    /// Starts them and waits until they serve.
    ///
    /// # Errors
    /// When Java or the jars are missing, or they do not come up.
    pub fn start(setup: Setup) -> Result<Self, BrokerError> {
        let jars = jars();
        if !jars.join(format!("kafka_2.13-{VERSION}.jar")).is_file() {
            return Err(BrokerError::Missing { directory: jars.display().to_string() });
        }
        let directory =
            tempfile::Builder::new().prefix("tally-kafka-").tempdir().map_err(io("make a directory"))?;
        let ports = free_ports(2 * usize::from(setup.nodes))?;
        let voters: Vec<_> = (1..=setup.nodes)
            .map(|node| format!("{node}@127.0.0.1:{}", ports[usize::from(setup.nodes + node - 1)]))
            .collect();
        let authority = setup.secured.then(|| Authority::new(directory.path())).transpose()?;
        let mut brokers = Self { setup, directory, nodes: Vec::new(), ways: Vec::new(), authority };
        for number in 1..=setup.nodes {
            let port = ports[usize::from(number - 1)];
            if setup.far {
                let listener = TcpListener::bind("127.0.0.1:0").map_err(io("find a free port"))?;
                let way = Way::new(listener, free_ports(1)?[0]);
                brokers.ways.push(way.map_err(io("make a way to a broker"))?);
            }
            brokers.configure(
                number,
                port,
                ports[usize::from(setup.nodes + number - 1)],
                &voters.join(","),
            )?;
            brokers.nodes.push(Node { number, port, running: None });
        }
        for number in 1..=setup.nodes {
            brokers.launch(number)?;
        }
        brokers.wait_until_all_serve()?;
        Ok(brokers)
    }

    /// Options for a client without a certificate; for a secured cluster, for its administrator.
    #[must_use]
    pub fn options(&self) -> KafkaOptions {
        let tls = self.authority.as_ref().map(|authority| authority.administrator().clone());
        KafkaOptions { tls, ..self.plain() }
    }

    /// Options for the client that holds a new certificate under `name`.
    ///
    /// # Errors
    /// When the cluster is not secured, or the files cannot be written.
    pub fn options_for(&self, name: &str) -> Result<KafkaOptions, BrokerError> {
        let missing = || io("issue a certificate")(std::io::Error::other("these brokers are not secured"));
        let authority = self.authority.as_ref().ok_or_else(missing)?;
        let Identity { tls, .. } = authority.issue(name)?;
        Ok(KafkaOptions { tls: Some(tls), ..self.plain() })
    }

    fn plain(&self) -> KafkaOptions {
        KafkaOptions {
            brokers: self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect(),
            ..KafkaOptions::default()
        }
    }

    /// Options for a client that reaches them only by the way that can be cut.
    ///
    /// # Panics
    /// When the setup has no such way.
    #[must_use]
    pub fn far_options(&self) -> KafkaOptions {
        assert!(!self.ways.is_empty(), "the setup says whether there is a far way");
        let brokers = self.ways.iter().map(|way| format!("127.0.0.1:{}", way.port())).collect();
        KafkaOptions { brokers, ..self.options() }
    }

    /// Cuts the far way to all brokers, or opens it again. Connections stay open meanwhile, and nothing comes through.
    pub fn cut(&self, is_cut: bool) {
        self.ways.iter().for_each(|way| way.cut(is_cut));
    }

    /// Kills a broker as `kill -9` does; its data stay.
    pub fn kill(&mut self, number: u16) {
        if let Some(running) = self.node(number).running.take() {
            running.end(true);
        }
    }

    /// Leaves the last broker room for files of so many MiB, at least 11, from its next start on.
    pub fn limit_disk(&mut self, file_mib: u32) {
        self.setup.file_mib = Some(file_mib);
    }

    /// Gives the last broker room on its disk, from its next start on.
    pub fn free_disk(&mut self) {
        self.setup.file_mib = None;
    }

    /// Whether a broker runs. One whose disk is full ends by itself.
    #[must_use]
    pub fn runs(&self, number: u16) -> bool {
        let node = self.nodes.iter().find(|node| node.number == number);
        node.and_then(|node| node.running.as_ref()).is_some_and(|running| !running.java_ended())
    }

    /// Starts a killed broker again, and does not wait until it serves.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn restart(&mut self, number: u16) -> Result<(), BrokerError> {
        self.kill(number);
        self.launch(number)
    }

    /// Stops a broker where it is (SIGSTOP): it answers nobody, and its connections stay open.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&mut self, number: u16) -> Result<(), BrokerError> {
        self.signal(number, Signal::STOP)
    }

    /// Lets a stopped broker go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn go_on(&mut self, number: u16) -> Result<(), BrokerError> {
        self.signal(number, Signal::CONT)
    }

    /// The process of a running broker, for whoever measures it.
    #[must_use]
    pub fn process(&self, number: u16) -> Option<u32> {
        let node = self.nodes.iter().find(|node| node.number == number)?;
        u32::try_from(node.running.as_ref()?.java.as_raw_nonzero().get()).ok()
    }

    /// Waits until every broker is known to every client.
    ///
    /// # Errors
    /// When one ended, or the time is over.
    pub fn wait_until_all_serve(&mut self) -> Result<(), BrokerError> {
        let options = self.options();
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let found = topics::brokers(&options);
            if matches!(found, Ok(count) if count >= usize::from(self.setup.nodes)) {
                return Ok(());
            }
            for at in 0..self.nodes.len() {
                let node = &mut self.nodes[at];
                let ended = node.running.as_mut().is_some_and(|running| running.java_ended());
                if ended || Instant::now() > deadline {
                    let (node, what) = (node.number, self.end_of_log(self.nodes[at].number));
                    return Err(BrokerError::Start { node, what: format!("{found:?}: {what}") });
                }
            }
        }
    }

    fn signal(&mut self, number: u16, signal: Signal) -> Result<(), BrokerError> {
        let gone = || io("signal a broker")(std::io::Error::other("it does not run"));
        let running = self.node(number).running.as_ref().ok_or_else(gone)?;
        kill_process(running.java, signal).map_err(|error| io("signal a broker")(error.into()))
    }

    fn node(&mut self, number: u16) -> &mut Node {
        self.nodes
            .iter_mut()
            .find(|node| node.number == number)
            .expect("the caller names a broker of this cluster")
    }

    fn path(&self, number: u16, what: &str) -> PathBuf {
        self.directory.path().join(format!("{number}.{what}"))
    }

    fn end_of_log(&self, number: u16) -> String {
        let log = std::fs::read_to_string(self.path(number, "log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn configure(&self, number: u16, port: u16, controller: u16, voters: &str) -> Result<(), BrokerError> {
        let replicas = self.setup.nodes;
        let values = [
            ("NODE", number.to_string()),
            ("VOTERS", voters.to_owned()),
            ("CLIENTS", if self.setup.secured { "SSL" } else { "PLAINTEXT" }.to_owned()),
            ("HOST", "127.0.0.1".to_owned()),
            ("PORT", port.to_string()),
            ("CONTROLLER_PORT", controller.to_string()),
            ("DATA", self.path(number, "data").display().to_string()),
            ("REPLICAS", replicas.to_string()),
            ("IN_SYNC", replicas.div_ceil(2).to_string()),
        ];
        let mut text = TEMPLATE.to_owned();
        for (name, value) in values {
            text = text.replace(&format!("@{name}@"), &value);
        }
        if let Some(authority) = &self.authority {
            text.push_str(&authority.server_properties());
        }
        if let Some(way) = self.ways.get(usize::from(number - 1)) {
            let clients = if self.setup.secured { "SSL" } else { "PLAINTEXT" };
            let (to, from) = (way.to(), way.port());
            // Of two lines for one key the later holds.
            text.push_str(&format!(
                "\nlisteners={clients}://127.0.0.1:{port},FAR://127.0.0.1:{to},CONTROLLER://127.0.0.1:{controller}\n\
                 advertised.listeners={clients}://127.0.0.1:{port},FAR://127.0.0.1:{from}\n\
                 listener.security.protocol.map={clients}:{clients},FAR:{clients},CONTROLLER:{clients}\n"
            ));
        }
        let properties = self.path(number, "properties");
        std::fs::write(&properties, text).map_err(io("write a broker's properties"))?;
        let output = self
            .java(&["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
            .args(["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", CLUSTER, "-c"])
            .arg(&properties)
            .output()
            .map_err(io("run java (install a JRE: scripts/setup --kafka)"))?;
        if !output.status.success() {
            let what = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(BrokerError::Start { node: number, what });
        }
        Ok(())
    }

    fn java(&self, options: &[&str]) -> Command {
        let mut command = Command::new("java");
        command
            .args(options)
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .arg("-cp")
            .arg(jars().join("*"))
            .stdin(Stdio::null());
        command
    }

    fn launch(&mut self, number: u16) -> Result<(), BrokerError> {
        let heap = format!("-Xmx{}m", self.setup.heap_mib);
        let mut options = vec![heap.as_str(), "-XX:+ExitOnOutOfMemoryError"];
        options.extend_from_slice(if self.setup.fast {
            &["-XX:+UseParallelGC"]
        } else {
            &["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        });
        let java = self.java(&options);
        // Of 512 bytes, as the shell counts.
        let blocks =
            self.setup.file_mib.filter(|_| number == self.setup.nodes).map(|mib| u64::from(mib) << 11);
        let mut shell = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(self.directory.path())
            .arg(self.path(number, "log"))
            .arg(blocks.map_or("unlimited".to_owned(), |blocks| blocks.to_string()))
            .arg(java.get_program())
            .args(java.get_args())
            .arg("kafka.Kafka")
            .arg(self.path(number, "properties"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(io("start a broker"))?;
        let (hold, said) = (shell.stdin.take(), shell.stdout.take());
        let mut line = String::new();
        if let Some(said) = said {
            BufReader::new(said).read_line(&mut line).map_err(io("start a broker"))?;
        }
        let java = line.trim().parse().ok().and_then(Pid::from_raw);
        let java = java.ok_or_else(|| io("start a broker")(std::io::Error::other("no process id")))?;
        self.node(number).running = Some(Running { shell, hold, java });
        Ok(())
    }
}

impl Running {
    /// Kills the broker. Whether its directory stays is up to `keep`.
    fn end(mut self, keep: bool) {
        if let (true, Some(hold)) = (keep, self.hold.as_mut()) {
            // A shell that is gone already has ended the broker.
            let _ = hold.write_all(b"keep\n");
        }
        self.hold = None;
        let _ = self.shell.wait();
    }

    fn java_ended(&self) -> bool {
        let state =
            std::fs::read_to_string(format!("/proc/{}/stat", self.java.as_raw_nonzero())).unwrap_or_default();
        state.is_empty() || state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(running) = node.running.take() {
                running.end(true);
            }
        }
    }
}

/// Ports that nobody listens on now, and that the system gives to nobody who asks for any: a broker that finds another
/// server where it expects the next controller takes the first bytes of the answer for a length, and dies of it.
fn free_ports(count: usize) -> Result<Vec<u16>, BrokerError> {
    tally_ops::ports::free(count).map_err(io("find a free port"))
}

impl Authority {
    fn administrator(&self) -> &Tls {
        &self.administrator.tls
    }
}
